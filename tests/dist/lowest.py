"""Install exactly the lowest versions that pyproject.toml allows, in an environment of their own, and test there.

Run by `make test-lowest`; what comes after the name of the script goes to pytest. Needs Python's standard library
and pip. The tools of the tests themselves are the newest there are.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Extras that users install; the others are tools of ours.
TOOLS = {"test", "docs", "dev", "all"}


def lowest(pyproject: str) -> list[str]:
    """Constraints that pin every requirement of users to its lower bound."""
    project = tomllib.loads(pyproject)["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(each for name in extras if name not in TOOLS for each in extras[name])]
    pins = []
    for requirement in wanted:
        bound = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?>=([0-9.]+)", requirement)
        if bound is None:
            sys.exit(f"{requirement!r} has no plain lower bound")
        pins.append(f"{bound[1]}=={bound[2]}")
    return pins


def main(arguments: list[str]) -> int:
    """Build the environment, say what is in it, run the tests there."""
    pins = lowest((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    with tempfile.TemporaryDirectory(prefix="sdpfeas-lowest-") as name:
        folder = Path(name)
        constraints = folder / "constraints.txt"
        constraints.write_text("\n".join(pins) + "\n", encoding="utf-8")
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, env=own)
        python = folder / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        what = f"{ROOT}[all,test]"
        # Wheels only: what has to be compiled first is no version that users get.
        subprocess.run(
            [*pip, "install", "--only-binary", ":all:", "-c", constraints, "-e", what], check=True, env=own
        )
        subprocess.run([*pip, "check"], check=True, env=own)
        print("lowest versions:", ", ".join(pins), flush=True)
        tests = [python, "-m", "pytest", "-m", "not slow and not deep", "--benchmark-disable", *arguments]
        return subprocess.run(tests, cwd=ROOT, env=own, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
