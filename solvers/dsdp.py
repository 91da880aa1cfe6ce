"""DSDP 5.8 as a backend in one file, through CVXOPT (``pip install cvxopt``).

CVXOPT's interface reports the status of DSDP; the program ``dsdp5`` prints only why it stopped. DSDP
minimises over ``y`` with ``h - G y`` positive semidefinite, bounds on ``y`` and on the trace of the dual
variables; its status is about the program with these bounds. If a feasible status comes with a
solution at one of these bounds, it is not used as a claim.

An LMI is passed unchanged, and ``y`` is the point; for other problems ``y`` are the dual multipliers. No warm
start and no callback. DSDP cannot be interrupted, so a run that is estimated to exceed the remaining time is
refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas import Claim, FeasibilityBackend, FeasibilityProblem, Inquiry, Stop
from sdpfeas.dropin import (
    CONES,
    Count,
    FloatArray,
    Positive,
    SdpaPair,
    SdpaSolution,
    SedumiData,
    Share,
    require_resources,
    silence_stdout,
    to_sdpa,
)

#: What DSDP's words say of the side of the multipliers, and of that of ``y``; None where they say nothing.
WORDS: dict[str, tuple[str | None, str | None]] = {
    "DSDP_PDFEASIBLE": ("feasible", "feasible"),
    "DSDP_UNBOUNDED": ("infeasible", "feasible"),
    "DSDP_INFEASIBLE": (None, "infeasible"),
    "DSDP_UNKNOWN": (None, None),
}

#: A value above this share of its bound counts as lying at the bound.
AT_BOUND = 0.9

#: Iterations that a solve takes at most, for the guess of its time.
USUAL_ITERATIONS = 60


@dataclass(frozen=True)
class DsdpOptions:
    """Options of the backend.

    Attributes
    ----------
    tolerance : float
        Relative gap asked of DSDP. Where it has no word and nothing is proved, it is asked once more for the
        root of that.
    largest : float
        Bound of the numbers ``y``.
    trace : float
        Bound of the trace of the multipliers.
    max_iterations : int
        Its iterations.
    """

    tolerance: Share = 1e-6
    largest: Positive = 1e7
    trace: Positive = 1e6
    max_iterations: Count = 200


class Dsdp(FeasibilityBackend):
    """DSDP, a dual-scaling interior-point method, through CVXOPT."""

    name = "dsdp"
    sets = CONES
    lmis = True
    presolves = True
    requires = ("cvxopt",)
    distribution = "cvxopt"
    Options = DsdpOptions

    @classmethod
    def available(cls) -> tuple[bool, str]:
        fine, why = super().available()
        if fine and find_spec("cvxopt.dsdp") is None:
            return False, "needs a cvxopt built with DSDP; the one installed is not"
        return fine, why

    @classmethod
    def version(cls) -> str:
        return f"5.8 in cvxopt {super().version()}"

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        pair = to_sdpa(problem)
        claim = self._ask(pair, self.options.tolerance)
        if claim.stop is Stop.FINISHED or inquiry.offer(claim.point, claim.certificate):
            return claim
        # A wide duality gap keeps a ray in the interior of its cone, where it is easier to prove.
        inner = self._ask(pair, math.sqrt(self.options.tolerance))
        return claim if inner.stop is Stop.NUMERICAL else inner

    def _ask(self, pair: SdpaPair, tolerance: float) -> Claim:
        """Call DSDP with a tolerance for the duality gap."""
        given = pair.sedumi
        (k, rows), entries = given.A.shape, given.A.nnz
        cubes = float(sum(side**3 for side in given.semidefinite))
        step = k**3 / 3 + 20 * cubes + (max(given.semidefinite, default=1) + k / 4) * entries
        memory = 8.0 * (2 * k * k + 30 * rows) + 48.0 * entries
        require_resources("DSDP", products=USUAL_ITERATIONS * step, memory=memory)
        try:
            with silence_stdout():
                status, y, x = self._run(given, tolerance)
        except (ValueError, ArithmeticError) as error:
            return Claim(stop=Stop.NUMERICAL, raw_status=f"{type(error).__name__}: {error}")
        blocks = given.blocks(x)
        if pair.side == "equality":
            claimed, raw = WORDS.get(status, (None, None))[0], status
            size, bound, name = float(np.max(np.abs(y), initial=0.0)), self.options.largest, "y"
        else:
            claimed, raw = WORDS.get(status, (None, None))[1], status
            size = float(sum(np.trace(block) if block.ndim == 2 else block.sum() for block in blocks))
            bound, name = self.options.trace, "the trace of the multipliers"
        if claimed == "feasible" and size >= AT_BOUND * bound:
            # The multiplier of an active bound hides infeasibility: the other program has a ray.
            claimed, raw = None, f"{status}, with {name} at its bound"
        answer = SdpaSolution(-y, blocks)
        return Claim(
            None if claimed == "infeasible" else pair.point(answer),
            None if claimed == "feasible" else pair.multipliers(answer),
            raw,
            Stop.FINISHED if claimed else Stop.STALLED,
            None,
            {"form": pair.side, "claimed": claimed or "undecided"},
        )

    def _run(self, given: SedumiData, tolerance: float) -> tuple[str, FloatArray, FloatArray]:
        """The status, ``y``, and the dual variables, full matrices last."""
        import cvxopt
        from cvxopt import dsdp

        dsdp.options.update(
            DSDP_Monitor=0,
            DSDP_MaxIts=self.options.max_iterations,
            DSDP_GapTolerance=tolerance,
        )
        g = sp.csr_array(given.A.T)
        edges = np.cumsum([given.nonneg, *(side * side for side in given.semidefinite)]).tolist()
        spans = list(pairwise(edges))
        status, y, _, low, whole = dsdp.sdp(
            cvxopt.matrix(-given.b),
            _sparse(cvxopt, g[: given.nonneg]),
            cvxopt.matrix(given.c[: given.nonneg]),
            [_sparse(cvxopt, g[a:b]) for a, b in spans],
            [
                cvxopt.matrix(given.c[a:b].reshape(side, side))
                for (a, b), side in zip(spans, given.semidefinite, strict=True)
            ],
            self.options.trace,
            self.options.largest,
        )
        parts = [np.ravel(low)]
        for block in whole:
            lower = np.tril(np.array(block))
            parts.append(np.ravel(lower + np.tril(lower, -1).T))
        return status, np.ravel(y), np.concatenate(parts)


def _sparse(cvxopt: Any, matrix: Any) -> Any:
    coo = sp.coo_array(matrix)
    return cvxopt.spmatrix(coo.data, coo.row.astype(int), coo.col.astype(int), coo.shape)
