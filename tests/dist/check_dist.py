"""Build wheel and sdist, install each in a clean environment, test the installed package.

Run by `make dist`. Standard library only, plus `build` in the interpreter that runs it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
CARD_FOLDERS = ("solvers", "problems")

# Runs inside the clean environment; prints what the distribution installed.
PROBE = """
import importlib.metadata, pathlib, sys, sdpfeas
package = pathlib.Path(sdpfeas.__file__).resolve().parent
assert package.is_relative_to(pathlib.Path(sys.prefix).resolve()), f"imported from {package}"
assert importlib.metadata.version("sdpfeas") == sdpfeas.__version__
for file in importlib.metadata.files("sdpfeas"):
    print(file.as_posix())
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without the caller's Python settings; return what it printed."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    print("+", *(str(part).strip().split("\n")[0] for part in command), flush=True)
    done = subprocess.run(
        command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    if done.returncode:
        sys.exit(f"{done.stdout}\nfailed with exit code {done.returncode}")
    return done.stdout


def require(condition: bool, message: str) -> None:
    """Stop with a message unless the condition holds."""
    if not condition:
        sys.exit(f"dist check failed: {message}")


def cards() -> set[str]:
    """Files in the card folders, by path from the root."""
    found = set()
    for folder in CARD_FOLDERS:
        files = [f for f in (ROOT / folder).rglob("*") if f.is_file()]
        files = [f for f in files if "__pycache__" not in f.parts]
        require(bool(files), f"{folder}/ is empty")
        found |= {f.relative_to(ROOT).as_posix() for f in files}
    return found


def tracked() -> set[str]:
    """Files git tracks that exist; empty outside a git checkout."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        return set()
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


def check_names(names: set[str], what: str) -> None:
    """Check the files a wheel holds, or an installation recorded."""
    top = set()
    for name in names:
        first = PurePosixPath(name).parts[0]
        if first != ".." and not first.endswith(".dist-info"):  # ".." leads to bin/
            top.add(first)
    require(top == {"sdpfeas"}, f"{what} has top-level modules {sorted(top)}, not sdpfeas alone")
    expected = {"sdpfeas/__init__.py", "sdpfeas/py.typed"}
    expected |= {f"sdpfeas/_cards/{card}" for card in cards()}
    missing = sorted(expected - names)
    require(not missing, f"{what} lacks {missing}")


def check_sdist(sdist: Path, into: Path) -> Path:
    """Check that the sdist is complete; return the unpacked folder."""
    shutil.unpack_archive(sdist, into)
    (unpacked,) = into.iterdir()
    names = {f.relative_to(unpacked).as_posix() for f in unpacked.rglob("*") if f.is_file()}
    expected = tracked() | cards()
    expected |= {"pyproject.toml", "Makefile", "LICENSE", "README.md", "tests/conftest.py"}
    missing = sorted(expected - names)
    require(not missing, f"{sdist.name} lacks {missing}; see [tool.hatch.build.targets.sdist]")
    return unpacked


def check_installed(artefact: Path, smoke_test: Path, work: Path) -> Path:
    """Install the artefact alone in a clean environment and run the smoke test there; return its Python."""
    venv = work / "venv"
    run(sys.executable, "-m", "venv", venv, cwd=work)
    python = venv / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", artefact, "pytest", cwd=work)
    run(*pip, "check", cwd=work)
    check_names(set(run(python, "-I", "-c", PROBE, cwd=work).split("\n")) - {""}, artefact.name)
    # Copied out of the tree, so that neither the source nor its conftest.py can be picked up.
    tests = work / "tests"
    tests.mkdir()
    shutil.copy(smoke_test, tests)
    print(run(python, "-I", "-m", "pytest", "-q", "-p", "no:cacheprovider", tests, cwd=tests))
    return python


def check_page(python: Path, unpacked: Path, work: Path) -> None:
    """Follow the page about a solver of one's own, word by word, in an empty folder with the wheel."""
    run(python, "-m", "pip", "--quiet", "install", "pytest-benchmark", "matplotlib", "scs", cwd=work)
    for name in ("tests/study/test_own_solver.py", "docs/howto/own-solver.md"):
        (work / "page" / name).parent.mkdir(parents=True)
        shutil.copy(unpacked / name, work / "page" / name)
    tests = work / "page" / "tests" / "study"
    command = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "test_own_solver.py")
    print(run(python, "-I", *command, cwd=tests))


def main() -> None:
    """Build, check, install, test."""
    shutil.rmtree(DIST, ignore_errors=True)
    # `build` makes the sdist, then the wheel from that sdist: both ways are exercised.
    run(sys.executable, "-m", "build", "--outdir", DIST, ROOT, cwd=ROOT)
    (wheel,) = DIST.glob("*.whl")
    (sdist,) = DIST.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        check_names(set(archive.namelist()), wheel.name)
    with tempfile.TemporaryDirectory(prefix="sdpfeas-dist-") as name:
        temporary = Path(name).resolve()
        require(not temporary.is_relative_to(ROOT), "the temporary folder is inside the tree")
        (temporary / "sdist").mkdir()
        smoke_test = check_sdist(sdist, temporary / "sdist") / "tests" / "test_smoke.py"
        for artefact in (wheel, sdist):
            work = temporary / artefact.suffix.lstrip(".")
            work.mkdir()
            python = check_installed(artefact, smoke_test, work)
            if artefact == wheel:
                check_page(python, smoke_test.parents[1], work)
            shutil.rmtree(work)
    print(f"dist check passed: {wheel.name}, {sdist.name}")


if __name__ == "__main__":
    main()
