"""Releases of a solver as a dimension of a study: one environment per release, one database for all.

:func:`install` makes an environment with one release of a package on top of the installed packages.
:func:`sdpfeas.study.history.version_table` says which release became worse than the one before.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sdpfeas.errors import OptionError, SdpfeasError

__all__ = ["install", "list_releases", "release_order", "run_in"]

#: What runs a package: the solver card or drop-in file; other packages are run by a solver of their name.
SOLVERS = {"clarabel": "clarabel-plain", "scs": "scs-plain"}

#: Seconds that pip may take.
PIP_SECONDS = 600.0


def list_releases(asked: Sequence[str]) -> list[tuple[str, str]]:
    """Return package and release, oldest first, of requirements ``PACKAGE==RELEASE`` or ``PACKAGE``.

    A package without a release stands for all releases that the package registry lists.
    """
    out: list[tuple[str, str]] = []
    for text in asked:
        package, exact, release = (part.strip() for part in text.partition("=="))
        if not re.fullmatch(r"[A-Za-z0-9._-]+", package) or (
            exact and not re.fullmatch(r"[\w.+!-]+", release)
        ):
            raise OptionError(f"a release is PACKAGE==RELEASE, or PACKAGE for all, got {text!r}")
        out += [(package, each) for each in ([release] if exact else _published(package))]
    return sorted(dict.fromkeys(out), key=lambda each: (each[0], *release_order(each[1])))


def release_order(release: str) -> tuple[list[int], str]:
    """Sorting key of releases, by their numbers."""
    return [int(part) for part in re.findall(r"\d+", release)], release


def _published(package: str) -> list[str]:
    found = re.search(r"^Available versions: (.+)$", _pip("index", "versions", package), re.MULTILINE)
    return [] if found is None else [release.strip() for release in found[1].split(",")]


def _pip(*words: str) -> str:
    """Run pip; raise SdpfeasError with its last line if it fails."""
    command = [sys.executable, "-m", "pip", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PIP_SECONDS, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()] or ["no output"]
        raise SdpfeasError(f"pip, {words[-1]}: {lines[-1]}")
    return done.stdout


def install(package: str, release: str, folder: Path) -> Path:
    """Make an environment with a release of a package; return its interpreter.

    All other packages, this library included, are those of the running interpreter. Only wheels are
    installed. Raises SdpfeasError if there is none that can be imported here; finished environments are kept.
    """
    place = folder / f"{package}-{release}"
    python = place / "bin" / "python"
    done = place / "installed"
    if done.is_file():
        return python
    subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", place], check=True)
    # Folders in a .pth file come after the environment's own packages, so the release goes first.
    (own,) = place.glob("lib/python*/site-packages")
    folders = [str(Path(each).absolute()) for each in sys.path if each and Path(each).is_dir()]
    (own / "shared.pth").write_text("\n".join(folders) + "\n")
    more = ("--no-deps", "--only-binary", ":all:", "--ignore-installed", "--quiet")
    _pip("--python", str(python), "install", *more, f"{package}=={release}")
    code = [str(python), "-c", f"import {package.replace('-', '_')}"]
    tried = subprocess.run(code, env=_environment(), capture_output=True, text=True, check=False)
    if tried.returncode != 0:  # such as a wheel for an older NumPy
        raise SdpfeasError(f"cannot be imported: {(tried.stderr.splitlines() or [''])[-1]}")
    done.touch()
    return python


def _environment() -> dict[str, str]:
    """Environment variables without PYTHONPATH, whose folders would come before the release."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run_in(python: Path, package: str, words: Sequence[str]) -> None:
    """Run ``sdpfeas compare`` with the solver of a package; raise SdpfeasError if it fails."""
    solver = SOLVERS.get(package, package)
    command = [str(python), "-m", "sdpfeas.cli", "compare", "--solvers", solver, *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=_environment(), check=False)
    if done.returncode != 0:
        raise SdpfeasError(f"compare ended with exit code {done.returncode}")
