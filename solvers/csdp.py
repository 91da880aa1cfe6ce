"""CSDP as a backend in one file, through its command line (Debian's ``coinor-csdp``).

The problem is written to an SDPA file without an objective. ``csdp`` runs in a temporary folder until it ends
or is killed at the time limit; its solution file and exit code are read. An LMI is passed unchanged, other
problems get slack variables, and Free blocks are split into differences of nonnegative ones.

No warm start, no callback, and no claim after a kill. Its processor time counts in a study.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from sdpfeas import Claim, FeasibilityBackend, FeasibilityProblem, FileFormatError, Inquiry, Stop
from sdpfeas.dropin import (
    CONES,
    Count,
    Deadline,
    SdpaSide,
    Share,
    is_lmi,
    read_csdp_solution,
    require_resources,
    to_sdpa,
)

#: What CSDP's exit codes mean.
EXIT_CODES = {
    0: ("solved", Stop.FINISHED),
    1: ("primal infeasible", Stop.FINISHED),
    2: ("dual infeasible", Stop.FINISHED),
    3: ("solved to reduced accuracy", Stop.FINISHED),
    4: ("maximum iterations reached", Stop.ITERATION_LIMIT),
    5: ("stuck at edge of primal feasibility", Stop.STALLED),
    6: ("stuck at edge of dual feasibility", Stop.STALLED),
    7: ("lack of progress", Stop.STALLED),
    8: ("X, Z, or O was singular", Stop.NUMERICAL),
    9: ("NaN or Inf", Stop.NUMERICAL),
}

#: The exit code that says the problem is infeasible, by the side it is posed as.
INFEASIBLE = {"equality": 1, "lmi": 2}


@dataclass(frozen=True)
class CsdpOptions:
    """Options of the backend.

    Attributes
    ----------
    form : {"auto", "lmi", "equality"}
        What CSDP is given: a linear matrix inequality, or equality rows only. ``"auto"`` takes the first
        where the problem has that form.
    tolerance : float
        Relative accuracy asked of CSDP.
    max_iterations : int
        Iterations of CSDP.
    """

    form: SdpaSide = "auto"
    tolerance: Share = 1e-8
    max_iterations: Count = 100


class Csdp(FeasibilityBackend):
    """CSDP, a primal-dual interior-point method, through its command line."""

    name = "csdp"
    sets = CONES
    lmis = True
    presolves = True
    Options = CsdpOptions

    @classmethod
    def available(cls) -> tuple[bool, str]:
        if shutil.which("csdp") is None:
            return False, "needs the program csdp, which is not on the PATH (Debian: apt install coinor-csdp)"
        return True, ""

    @classmethod
    def version(cls) -> str:
        try:
            greeting = subprocess.run(
                ["csdp"], capture_output=True, text=True, timeout=10, check=False
            ).stdout
        except (OSError, subprocess.SubprocessError):
            return "unknown"
        return greeting.partition("\n")[0].removeprefix("CSDP").strip() or "unknown"

    def accepts(self, problem: FeasibilityProblem) -> tuple[bool, str]:
        fine, why = super().accepts(problem)
        if fine and self.options.form == "lmi" and not is_lmi(problem):
            return False, "the problem is not a linear matrix inequality; use form='equality'"
        return fine, why

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        parts = [*problem.rows, *(rows for lmi in problem.lmis for rows in lmi.coefficients)]
        entries = sum(rows.entries for rows in parts)
        require_resources("the file that CSDP reads", numbers=2000.0 * entries, memory=200.0 * entries)
        pair = to_sdpa(problem, self.options.form)
        with tempfile.TemporaryDirectory(prefix="sdpfeas-csdp-") as name:
            folder = Path(name)
            (folder / "problem.dat-s").write_bytes(pair.file("posed by sdpfeas"))
            (folder / "param.csdp").write_text(self._parameters())
            code, output = _run(folder, inquiry.deadline)
            if code is None:
                return Claim(stop=Stop.TIME_LIMIT, raw_status="killed at the time limit")
            status, stop = EXIT_CODES.get(code, ("failed", Stop.ERROR))
            raw = f"exit code {code}: {status}"
            try:
                answer = read_csdp_solution(folder / "solution", pair.sets)
            except (OSError, FileFormatError):
                last = " ".join(output.split()[-20:])
                return Claim(stop=Stop.ERROR, raw_status=f"{raw}; no solution; its last words: {last}")
        point = None if code == INFEASIBLE[pair.side] else pair.point(answer)
        y = None if code == 0 else pair.multipliers(answer)
        info = {"form": pair.side}
        if code in INFEASIBLE.values():
            # If the other program is infeasible, this one is unbounded or infeasible.
            info["claimed"] = "infeasible" if code == INFEASIBLE[pair.side] else "undecided"
        return Claim(point, y, raw, stop, max(output.count("Iter:") - 1, 0), info)

    def _parameters(self) -> str:
        tolerance, steps = self.options.tolerance, self.options.max_iterations
        lines = {
            "axtol": tolerance,
            "atytol": tolerance,
            "objtol": tolerance,
            "pinftol": 1.0 / tolerance,
            "dinftol": 1.0 / tolerance,
            "maxiter": steps,
            "minstepfrac": 0.9,
            "maxstepfrac": 0.97,
            "minstepp": 1e-8,
            "minstepd": 1e-8,
            "usexzgap": 1,
            "tweakgap": 0,
            "affine": 0,
            "printlevel": 1,
            "perturbobj": 1,
            "fastmode": 0,
        }
        return "".join(f"{name}={value}\n" for name, value in lines.items())


def _run(folder: Path, deadline: Deadline) -> tuple[int | None, str]:
    """Exit code and output of CSDP; None as the code if it was killed."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    command = ["csdp", "problem.dat-s", "solution"]
    # `run` kills the child on any exception, including an interrupt.
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=deadline.limit,
            text=True,
            errors="replace",
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, ""
    return done.returncode, done.stdout
