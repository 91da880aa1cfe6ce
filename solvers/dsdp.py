"""DSDP 5.8 as a backend in one file, through CVXOPT (``pip install cvxopt``).

CVXOPT's interface reports the status of DSDP; the program ``dsdp5`` prints only why it stopped. DSDP
minimises over ``y`` with ``h - G y`` positive semidefinite, bounds on ``y`` and on the trace of the dual
variables; its status is about the program with these bounds. If a feasible status comes with a
solution at one of these bounds, it is not used as a claim.

For PSD and Nonneg blocks with rows, ``y`` are the dual multipliers of the problem. With Free blocks or LMIs,
``y`` is the point, after elimination of the equality rows, since DSDP needs an interior. No warm start and no
callback. DSDP cannot be interrupted, so a run that is estimated to exceed the remaining time is refused.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas import Claim, FeasibilityBackend, FeasibilityProblem, Inquiry, Stop
from sdpfeas.dropin import (
    CONES,
    Count,
    FloatArray,
    Point,
    Positive,
    SdpaSolution,
    Share,
    require_resources,
    silence_stdout,
    to_sdpa,
    trivial_claim,
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
        if (trivial := trivial_claim(problem)) is not None:
            return trivial
        whole = bool(problem.lmis) or any(block.free for block in problem.sets)
        program: _Program = _AsPoint(problem) if whole else _AsMultipliers(problem)
        claim = self._ask(program, self.options.tolerance)
        if claim.stop is Stop.FINISHED or inquiry.offer(claim.point, claim.certificate):
            return claim
        # A wide duality gap keeps a ray in the interior of its cone, where it is easier to prove.
        inner = self._ask(program, math.sqrt(self.options.tolerance))
        return claim if inner.stop is Stop.NUMERICAL else inner

    def _ask(self, program: _Program, tolerance: float) -> Claim:
        """Call DSDP with a tolerance for the duality gap."""
        k, rows = program.G.shape[1], program.G.shape[0]
        cubes = float(sum(side**3 for side in program.semidefinite))
        entries = program.G.nnz
        step = k**3 / 3 + 20 * cubes + (max(program.semidefinite, default=1) + k / 4) * entries
        memory = 8.0 * (2 * k * k + 30 * rows) + 48.0 * entries
        require_resources("DSDP", products=USUAL_ITERATIONS * step, memory=memory)
        try:
            with silence_stdout():
                status, y, x = self._run(program, tolerance)
        except (ValueError, ArithmeticError) as error:
            return Claim(stop=Stop.NUMERICAL, raw_status=f"{type(error).__name__}: {error}")
        size, bound, name = program.slack(y, x, self.options.largest, self.options.trace)
        claimed, raw = WORDS.get(status, (None, None))[program.column], status
        if claimed == "feasible" and size >= AT_BOUND * bound:
            # The multiplier of an active bound hides infeasibility: the other program has a ray.
            claimed, raw = None, f"{status}, with {name} at its bound"
        return Claim(
            None if claimed == "infeasible" else program.point(y, x),
            None if claimed == "feasible" else program.certificate(y, x),
            raw,
            Stop.FINISHED if claimed else Stop.STALLED,
            None,
            {"form": program.name, "claimed": claimed or "undecided"},
        )

    def _run(self, program: _Program, tolerance: float) -> tuple[str, FloatArray, FloatArray]:
        """The status, ``y``, and the dual variables, full matrices last."""
        import cvxopt
        from cvxopt import dsdp

        dsdp.options.update(
            DSDP_Monitor=0,
            DSDP_MaxIts=self.options.max_iterations,
            DSDP_GapTolerance=tolerance,
        )
        edges = np.cumsum([program.nonneg, *(side * side for side in program.semidefinite)]).tolist()
        spans = list(pairwise(edges))
        status, y, _, low, whole = dsdp.sdp(
            cvxopt.matrix(program.costs),
            _sparse(cvxopt, program.G[: program.nonneg]),
            cvxopt.matrix(program.h[: program.nonneg]),
            [_sparse(cvxopt, program.G[a:b]) for a, b in spans],
            [
                cvxopt.matrix(program.h[a:b].reshape(side, side))
                for (a, b), side in zip(spans, program.semidefinite, strict=True)
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


class _Program(ABC):
    """Minimise ``costs' y`` over ``h - G y`` in cones: nonnegative entries first, then full matrices."""

    name: str
    #: Which of the two sides of DSDP's words the problem is on.
    column: int
    costs: FloatArray
    G: sp.csr_array
    h: FloatArray
    nonneg: int
    semidefinite: tuple[int, ...]

    @abstractmethod
    def slack(self, y: FloatArray, x: FloatArray, largest: float, trace: float) -> tuple[float, float, str]:
        """The quantity that grows if there is no feasible point, its bound, and its name."""

    @abstractmethod
    def point(self, y: FloatArray, x: FloatArray) -> Point:
        """The point of a solution."""

    @abstractmethod
    def certificate(self, y: FloatArray, x: FloatArray) -> FloatArray:
        """The Farkas certificate of a solution."""


class _AsMultipliers(_Program):
    """``y`` are the dual multipliers of the problem."""

    name, column = "multipliers", 0

    def __init__(self, problem: FeasibilityProblem) -> None:
        self._pair = to_sdpa(problem, "equality")
        given = self._pair.sedumi
        self.costs, self.G, self.h = -given.b, sp.csr_array(given.A.T), given.c
        self.nonneg, self.semidefinite = given.nonneg, given.semidefinite

    def slack(self, y: FloatArray, x: FloatArray, largest: float, trace: float) -> tuple[float, float, str]:
        return float(np.max(np.abs(y), initial=0.0)), largest, "y"

    def _answer(self, y: FloatArray, x: FloatArray) -> SdpaSolution:
        return SdpaSolution(-y, self._pair.sedumi.blocks(x))

    def point(self, y: FloatArray, x: FloatArray) -> Point:
        return self._pair.point(self._answer(y, x))

    def certificate(self, y: FloatArray, x: FloatArray) -> FloatArray:
        return self._pair.multipliers(self._answer(y, x))


class _AsPoint(_Program):
    """``y`` is the point, in coordinates of the solution set of the equality rows."""

    name, column = "point", 1

    def __init__(self, problem: FeasibilityProblem) -> None:
        self._form = form = problem.to_conic()
        equations, right = form.matrix[: form.zero].toarray(), form.rhs[: form.zero]
        n = equations.shape[1]
        cost = 30.0 * n * n * len(right)
        require_resources("a basis of the solutions of the equations", products=cost, memory=32.0 * n * n)
        self._whole = form.whole(form.rows)[form.zero :, form.zero :]
        self._inverse = np.linalg.pinv(equations) if right.size else np.zeros((n, 0))
        self._shift = self._inverse @ right
        self._basis = scipy.linalg.null_space(equations) if right.size else sp.eye_array(n)
        self._matrix = form.matrix[form.zero :]
        self.G = sp.csr_array(self._whole @ self._matrix @ self._basis)
        self.h = self._whole @ (form.rhs[form.zero :] - self._matrix @ self._shift)
        self.costs = np.zeros(self.G.shape[1])
        self.nonneg, self.semidefinite = form.nonneg, form.semidefinite

    def slack(self, y: FloatArray, x: FloatArray, largest: float, trace: float) -> tuple[float, float, str]:
        total, start = float(np.sum(x[: self.nonneg])), self.nonneg
        for side in self.semidefinite:
            total += float(np.sum(x[start : start + side * side : side + 1]))
            start += side * side
        return total, trace, "the trace of the multipliers"

    def point(self, y: FloatArray, x: FloatArray) -> Point:
        return self._form.point(self._shift + self._basis @ y)

    def certificate(self, y: FloatArray, x: FloatArray) -> FloatArray:
        z = self._whole.T @ x
        return self._form.multipliers(np.concatenate([-self._inverse.T @ (self._matrix.T @ z), z]))
