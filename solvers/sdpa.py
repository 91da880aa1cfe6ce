"""SDPA as a backend in one file, through its Python package (``pip install sdpa-python``).

An LMI is passed unchanged; other problems get slack variables, and Free blocks are split in two. There is no
objective. SDPA's phase tells which of the two programs it found feasible. It always returns its last iterate;
if it reports one program infeasible, the iterate of the other is a ray.

No warm start and no callback, and SDPA cannot be interrupted. Under a time limit it is refused if few
iterations are estimated to fit; otherwise one iteration is timed, and the iteration limit is set accordingly.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas import Claim, FeasibilityBackend, FeasibilityProblem, Inquiry, Stop
from sdpfeas.dropin import (
    CONES,
    Count,
    Positive,
    SdpaSide,
    SdpaSolution,
    SedumiData,
    Share,
    require_resources,
    silence_stdout,
    to_sdpa,
)

#: What SDPA's phases say of the equality side and of the LMI side; None where they say nothing. They mean
#: what the SDPA User's Manual says (section 6.2 of version 6.00). Which side is p and which is d is up to the
#: callable library, as its iterates show: p is the equality side where a side is infeasible or unbounded, but
#: the LMI side, as in the manual, where a side became feasible and no more is said.
PHASES: dict[str, tuple[str, str | None, str | None]] = {
    "pdOPT": ("both sides optimal", "feasible", "feasible"),
    "pdFEAS": ("both sides feasible", "feasible", "feasible"),
    "pFEAS": ("the LMI side feasible", None, "feasible"),
    "dFEAS": ("the equality side feasible", "feasible", None),
    "pINF_dFEAS": ("the equality side infeasible, the LMI side feasible", "infeasible", "feasible"),
    "pFEAS_dINF": ("the equality side feasible, the LMI side infeasible", "feasible", "infeasible"),
    # At least one of the two programs is infeasible; SDPA does not report which.
    "pdINF": ("one side or both infeasible", None, None),
    "pUNBD": ("the equality side unbounded", "feasible", "infeasible"),
    "dUNBD": ("the LMI side unbounded", "infeasible", "feasible"),
    "noINFO": ("neither side feasible yet", None, None),
}

#: Iterations below which a solve is not begun.
FEWEST_ITERATIONS = 10

#: Multiply-adds per second of a slow machine: an iteration is timed if the time might not suffice there.
SLOW_RATE = 1e9

#: Entries per column above which SDPA multiplies whole matrices; fitted to timings at sides 40, 50 and 80.
DENSE_ENTRIES = 2


@dataclass(frozen=True)
class SdpaOptions:
    """Options of the backend.

    Attributes
    ----------
    form : {"auto", "lmi", "equality"}
        What SDPA is given: a linear matrix inequality, or equality rows only. ``"auto"`` takes the first
        where the problem has that form, ``"lmi"`` too.
    tolerance : float
        Accuracy asked of SDPA (its epsilonStar and epsilonDash).
    start : float
        Size of the identity it starts from (its lambdaStar).
    max_iterations : int
        Its iterations.
    """

    form: SdpaSide = "auto"
    tolerance: Share = 1e-7
    start: Positive = 1e3
    max_iterations: Count = 100


class Sdpa(FeasibilityBackend):
    """SDPA, a primal-dual interior-point method, through its Python package."""

    name = "sdpa"
    sets = CONES
    lmis = True
    presolves = True
    requires = ("sdpap",)
    distribution = "sdpa-python"
    Options = SdpaOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        pair = to_sdpa(problem, self.options.form)
        given = pair.sedumi
        m, n = given.A.shape
        step = _products(given)
        memory = 8.0 * (2 * m * m + 30 * n) + 48.0 * given.A.nnz
        require_resources("SDPA", products=FEWEST_ITERATIONS * step, memory=memory)
        most, left = self.options.max_iterations, inquiry.deadline.left
        if most * step > SLOW_RATE * left:
            begin = time.perf_counter()
            self._run(given, 1)
            took = time.perf_counter() - begin
            most = min(most, math.floor(0.9 * (left - took) / took))
            if most < 1:
                return Claim(raw_status=f"one iteration takes {took:.2g} s", stop=Stop.TIME_LIMIT)
        x, y, info = self._run(given, most)
        phase = str(info["phasevalue"])
        words, *said = PHASES.get(phase, ("an unknown phase", None, None))
        claimed = said[0 if pair.side == "equality" else 1]
        answer = SdpaSolution(-y, given.blocks(x))
        done = int(info["iteration"])
        if claimed is not None:
            stop = Stop.FINISHED
        elif done < most:
            stop = Stop.STALLED
        else:
            stop = Stop.ITERATION_LIMIT if most == self.options.max_iterations else Stop.TIME_LIMIT
        return Claim(
            None if claimed == "infeasible" else pair.point(answer),
            None if claimed == "feasible" else pair.multipliers(answer),
            f"{phase}: {words}",
            stop,
            done,
            {"form": pair.side, "claimed": claimed or "undecided"},
        )

    def _run(self, given: SedumiData, iterations: int) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
        import sdpap
        from sdpap.sdpacall import sdpacall

        cones = sdpap.SymCone(f=0, l=given.nonneg, q=(), s=given.semidefinite)
        settings = sdpap.param({
            "print": "no",
            "numThreads": 1,
            "epsilonStar": self.options.tolerance,
            "epsilonDash": self.options.tolerance,
            "lambdaStar": float(self.options.start),
            "maxIteration": iterations,
        })  # fmt: skip
        columns = (sp.csc_matrix(part[:, None]) for part in (given.b, given.c))
        with silence_stdout():
            x, y, _, info = sdpacall.solve_sdpa(sp.csc_matrix(given.A), *columns, cones, settings)
        return x.toarray().ravel(), y.toarray().ravel(), info


def _products(given: SedumiData) -> float:
    """Multiply-adds of one iteration, as if of a fast matrix product; fitted to timings on SDPLIB.

    The Schur complement is made from whole matrices for each dense ``F_i`` (formula F1 of Fujisawa, Kojima
    and Nakata, 1997), and from pairs of entries for the sparse ones (F3).
    """
    total = float(given.A.shape[0]) ** 3
    start = given.nonneg
    columns = sp.csc_array(given.A)
    for side in given.semidefinite:
        rows = columns[:, start : start + side * side].tocsr()
        count = np.diff(rows.indptr).astype(float)
        sparse = count <= DENSE_ENTRIES * side
        total += side**3 * (40.0 + 30.0 * np.count_nonzero(~sparse)) + 25.0 * count[sparse].sum() ** 2
        start += side * side
    return total
