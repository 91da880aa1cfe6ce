"""Drop-in backends that behave and misbehave, small problems, and ways to run the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import sdpfeas as sf

SOLVE = "def solve(self, problem, inquiry):"

#: What each drop-in backend does when asked.
BODIES = {
    "honest": """
        n = problem.sets[0].n
        if problem.upper[0] < 0:
            return Claim(certificate=np.array([-1.0]), raw_status="infeasible", iterations=3)
        level = (problem.lower[0] + problem.upper[0]) / 2 / n
        print("iteration 1: found it")
        return Claim(point=(np.eye(n) * level,), raw_status="optimal", iterations=2)""",
    "sleeper": "time.sleep(60)",
    "hog": """
        held = []
        while True:
            held.append(np.ones(1 << 19))""",
    "crasher": "ctypes.string_at(0)",
    "leaver": "os._exit(3)",
    "raiser": "raise RuntimeError('no can do')",
    "printer": """
        for _ in range(300):
            print("x" * 9999)
        print("the end")
        return Claim(raw_status="unknown")""",
    "nan": """
        n = problem.sets[0].n
        return Claim(point=(np.full((n, n), np.nan),), raw_status="optimal")""",
    "liar": """
        n = problem.sets[0].n
        return Claim(point=(np.eye(n) * 1e3,), raw_status="optimal")""",
    "nonsense": "return 'feasible'",
    "parent": """
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        time.sleep(60)""",
}


def write_backend(folder: Path, name: str, body: str | None = None) -> Path:
    """Write a drop-in backend file."""
    folder.mkdir(parents=True, exist_ok=True)
    text = BODIES[name] if body is None else body
    path = folder / f"{name}.py"
    path.write_text(
        f'"""A backend for the tests."""\nimport ctypes, os, subprocess, sys, time\nimport numpy as np\n'
        f"from sdpfeas import Claim, FeasibilityBackend\n\nclass Made(FeasibilityBackend):\n"
        f'    """It is {name}."""\n    name = "{name}"\n\n    {SOLVE}\n        {text.strip()}\n'
    )
    return path


def trace_problem(n: int, *, feasible: bool, room: float = 0.0) -> sf.FeasibilityProblem:
    """A positive semidefinite matrix whose trace is bounded, possibly below zero."""
    low, high = (1.0, 2.0 + n + room) if feasible else (-2.0 - n - room, -1.0)
    return sf.FeasibilityProblem([sf.PSD(n)], [np.eye(n)[None]], [low], [high], row_names=["trace"])


def write_problems(folder: Path, count: int) -> Path:
    """Write problems, all different, every other one infeasible; returns a pattern for them."""
    folder.mkdir(parents=True, exist_ok=True)
    for k in range(count):
        trace_problem(2 + k % 5, feasible=k % 2 == 0, room=k).save(folder / f"p{k:03}.npz")
    return folder / "*.npz"


def environment(mark: str = "") -> dict[str, str]:
    """Environment of a child process; the mark finds its descendants again."""
    return {**os.environ, "SDPFEAS_TEST_MARK": mark, "COLUMNS": "200", "NO_COLOR": "1"}


def start(
    arguments: list[str | Path], mark: str = "", cwd: Path | None = None, module: str = "sdpfeas.cli"
) -> subprocess.Popen[str]:
    """Start the command line of a module."""
    # Shells start background jobs with interrupts ignored, and children inherit that.
    program = (
        "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler); "
        f"runpy.run_module('{module}', run_name='__main__', alter_sys=True)"
    )
    command = [sys.executable, "-c", program, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment(mark), cwd=cwd)


def run(
    arguments: list[str | Path], cwd: Path | None = None, module: str = "sdpfeas.cli"
) -> tuple[int, str, str]:
    """Run the command line of a module and return exit code, output and errors."""
    process = start(arguments, cwd=cwd, module=module)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def run_json(arguments: list[str | Path], cwd: Path | None = None, module: str = "sdpfeas.cli") -> Any:
    """Run a command that must succeed and print JSON."""
    code, out, err = run([*arguments, "--json"], cwd, module)
    assert code == 0, err
    return json.loads(out)


def new_mark() -> str:
    """A mark nobody else uses."""
    return uuid.uuid4().hex


def marked(mark: str) -> list[psutil.Process]:
    """Processes alive that carry a mark."""
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ().get("SDPFEAS_TEST_MARK") == mark
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found
