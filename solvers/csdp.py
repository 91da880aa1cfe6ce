"""CSDP through its command line (Debian's ``coinor-csdp``): a backend in one file.

The problem is written to an SDPA file without an objective, ``csdp`` runs on it in a temporary folder until
it ends or its time is up, and its solution file and exit code are read back. A linear matrix inequality is
handed over as one; every other problem gets slack variables, and its Free blocks are split in two.

No warm start, no callback, and nothing to show when it had to be killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from sdpfeas.backends.contract import CONES, FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.deadline import Deadline
from sdpfeas.errors import ProblemError
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.presolve import presolve
from sdpfeas.problem.reductions.sdpa_sides import (
    EqualityForm,
    LmiForm,
    SdpaData,
    equality_form,
    lmi_form,
    primal_data,
)
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.results import Claim, Stop

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

    form: Literal["auto", "lmi", "equality"] = "auto"
    tolerance: float = 1e-8
    max_iterations: int = 100

    def __post_init__(self) -> None:
        if not 0.0 < self.tolerance < 1.0:
            raise ValueError(f"option 'tolerance' must lie between 0 and 1, got {self.tolerance}")
        if self.max_iterations < 1:
            raise ValueError(f"option 'max_iterations' must be at least 1, got {self.max_iterations}")


class Csdp(FeasibilityBackend):
    """CSDP, a primal-dual interior-point method, through its command line."""

    name = "csdp"
    sets = CONES
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
        if fine and self.options.form == "lmi" and _as_lmi(problem) is None:
            return False, "the problem is not a linear matrix inequality; use form='equality'"
        return fine, why

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        small = presolve(problem)
        if small.answer is not None:
            return Claim(*small.answer, raw_status="presolved")
        entries = sum(rows.entries for rows in problem.rows if rows is not None)
        need("the file that CSDP reads", numbers=2000.0 * entries, memory=200.0 * entries)
        lmi = None if self.options.form == "equality" else _as_lmi(problem)
        posed = _PosedRows(equality_form(problem)) if lmi is None else _PosedLmi(lmi)
        with tempfile.TemporaryDirectory(prefix="sdpfeas-csdp-") as name:
            folder = Path(name)
            (folder / "problem.dat-s").write_bytes(posed.data.text("posed by sdpfeas"))
            (folder / "param.csdp").write_text(self._parameters())
            code, output = _run(folder, inquiry.deadline)
            if code is None:
                return Claim(stop=Stop.TIME_LIMIT, raw_status="killed at the time limit")
            status, stop = EXIT_CODES.get(code, ("failed", Stop.ERROR))
            raw = f"exit code {code}: {status}"
            try:
                solution = _Solution(folder / "solution", posed.data.sets())
            except (OSError, ValueError, IndexError):
                last = " ".join(output.split()[-20:])
                return Claim(stop=Stop.ERROR, raw_status=f"{raw}; no solution; its last words: {last}")
        point = None if code == posed.infeasible else posed.point(solution)
        y = None if code == 0 else posed.certificate(solution)
        return Claim(point, y, raw, stop, max(output.count("Iter:") - 1, 0), {"form": posed.side})

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
    """Exit code and output of CSDP; no code if it had to be killed."""
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    command = ["csdp", "problem.dat-s", "solution"]
    # Whatever ends this (an interrupt too), `run` kills the child first.
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


class _Solution:
    """What CSDP writes: ``y`` on one line, then entries ``matrix block i j value`` of Z (1) and X (2)."""

    def __init__(self, path: Path, sets: list[BlockSet]) -> None:
        head, _, body = path.read_text().partition("\n")
        self.y = np.array(head.split(), dtype=np.float64)
        table = np.array(body.split(), dtype=np.float64).reshape(-1, 5)
        self.Z, self.X = (self._blocks(table[table[:, 0] == k], sets) for k in (1, 2))

    @staticmethod
    def _blocks(table: FloatArray, sets: list[BlockSet]) -> list[FloatArray]:
        out = []
        for b, block in enumerate(sets, 1):
            part = table[table[:, 1] == b]
            i, j = part[:, 2].astype(int) - 1, part[:, 3].astype(int) - 1
            x = np.zeros(block.shape)
            if block.matrix:
                x[i, j] = x[j, i] = part[:, 4]
            else:
                x[i] = part[:, 4]
            out.append(x)
        return out


# ---------------------------------------------------------------- the two ways to pose a problem


def _as_lmi(problem: FeasibilityProblem) -> LmiForm | None:
    try:
        form = lmi_form(problem)
    except ProblemError:
        return None
    return form if form.data.matrix.any() else None


class _Posed:
    """A problem as CSDP gets it, and its answers as ours; CSDP takes no empty matrices, so there are none."""

    side: str
    #: Exit code that says the problem is infeasible.
    infeasible: int

    def __init__(self, data: SdpaData) -> None:
        self.count = data.c.size
        self.kept = np.unique(data.matrix[data.matrix > 0]) - 1
        numbers = np.zeros(self.count + 1, dtype=np.int64)
        numbers[self.kept + 1] = np.arange(1, self.kept.size + 1)
        self.data = replace(data, c=data.c[self.kept], matrix=numbers[data.matrix])

    def _full(self, y: FloatArray) -> FloatArray:
        out = np.zeros(self.count)
        out[self.kept] = y
        return out

    def point(self, solution: _Solution) -> Point:
        raise NotImplementedError

    def certificate(self, solution: _Solution) -> FloatArray:
        raise NotImplementedError


class _PosedRows(_Posed):
    """``<F_i, X> = c_i``: the point is CSDP's X, a certificate its y."""

    side, infeasible = "equality", 1

    def __init__(self, form: EqualityForm) -> None:
        super().__init__(primal_data(form.problem))
        self.form = form

    def point(self, solution: _Solution) -> Point:
        return self.form.point(tuple(solution.X))

    def certificate(self, solution: _Solution) -> FloatArray:
        return self.form.multipliers(self._full(-solution.y))


class _PosedLmi(_Posed):
    """``sum_k y_k F_k - F_0 = Z``: the point is CSDP's y, a certificate its X."""

    side, infeasible = "lmi", 2

    def __init__(self, form: LmiForm) -> None:
        super().__init__(form.data)
        self.form = form

    def point(self, solution: _Solution) -> Point:
        return self.form.point((self._full(solution.y),))

    def certificate(self, solution: _Solution) -> FloatArray:
        return self.form.multipliers(np.concatenate([x.reshape(-1) for x in solution.X]))
