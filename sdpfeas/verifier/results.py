"""Claims, verdicts and results."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpfeas.harmless import visible
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Check", "Claim", "Conflict", "Proof", "Result", "Stop", "Verdict"]


class Verdict(StrEnum):
    """What is known about a problem; only the verifier grants the first two."""

    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNDECIDED = "undecided"


class Proof(StrEnum):
    """How a verdict was granted."""

    EXACT = "exact"
    RIGOROUS = "rigorous"
    NUMERIC = "numeric"


class Stop(StrEnum):
    """Why a backend stopped."""

    FINISHED = "finished"
    TIME_LIMIT = "time limit"
    ITERATION_LIMIT = "iteration limit"
    CALLBACK = "stopped by the callback"
    STALLED = "no further progress"
    NUMERICAL = "numerical trouble"
    UNSUPPORTED = "problem not supported"
    ERROR = "error"


@dataclass(frozen=True)
class Claim:
    """What a backend hands in; worth nothing until verified.

    Attributes
    ----------
    point : tuple of ndarray, optional
        One array per set.
    certificate : ndarray, optional
        One multiplier per row.
    raw_status : str
        The solver's own word, untouched.
    stop : Stop
        Why the backend stopped.
    iterations : int, optional
        Iterations of the backend's own kind.
    info : mapping
        Whatever else the backend wants to say.
    """

    point: Point | None = None
    certificate: FloatArray | None = None
    raw_status: str = ""
    stop: Stop = Stop.FINISHED
    iterations: int | None = None
    info: Mapping[str, Any] = field(default_factory=dict)

    def back(self, reduction: Reduction) -> Claim:
        """Return the claim about the original problem that this one about a reduction of it makes."""
        point, y = self.point, self.certificate
        return replace(
            self,
            point=None if point is None else reduction.point(point),
            certificate=None if y is None else reduction.multipliers(y),
        )


@dataclass(frozen=True)
class Conflict:
    """One row of an infeasible problem with its part in the contradiction.

    Attributes
    ----------
    row : int
        Index of the row.
    name : str
        Its name.
    multiplier : float
        Its entry of the certificate.
    weight : float
        Share of the certificate, each multiplier times the norm of its row; all shares add up to one.
    side : str
        ``"lower"`` or ``"upper"``: the bound that takes part.
    """

    row: int
    name: str
    multiplier: float
    weight: float
    side: str


@dataclass(frozen=True)
class Check:
    """What the verifier found out about a claim.

    Attributes
    ----------
    problem : FeasibilityProblem
        The problem the claim is about.
    verdict : Verdict
        What is proved.
    proof : Proof or None
        How; None when undecided.
    margin : float or None
        By how much, relative to the size of the data: for a point the least slack left over an
        inequality row (1 where there is none), for a certificate the gap between its two sides.
    reason : str
        In words, what was shown or why nothing was.
    repairs : tuple of str
        What the verifier changed about the claim before it held.
    point, certificate : optional
        The evidence that was verified, repairs included.
    rational : optional
        The same as exact fractions (object arrays), if the proof is exact; the floating-point evidence is
        then the nearest there is.
    """

    problem: FeasibilityProblem
    verdict: Verdict
    proof: Proof | None
    margin: float | None
    reason: str
    repairs: tuple[str, ...] = ()
    point: Point | None = None
    certificate: FloatArray | None = None
    rational: Any = None

    def conflict(self, *, prune: bool = False) -> list[Conflict]:
        """Rows that contradict each other, heaviest first; empty unless infeasible.

        Parameters
        ----------
        prune : bool
            Look for a smaller set of rows that still conflict; every step is verified again.
        """
        if self.verdict is not Verdict.INFEASIBLE or self.certificate is None:
            return []
        y = self.certificate
        if prune:
            from sdpfeas.verifier.prune import prune_certificate

            y = prune_certificate(self)
        norms = np.maximum(self.problem.norms, np.finfo(float).tiny)
        # Relative to the largest, so that nothing overflows.
        weights = np.abs(y) / float(np.max(np.abs(y))) * (norms / float(np.max(norms)))
        total = max(float(weights.sum()), np.finfo(float).tiny)
        order = np.argsort(-weights, kind="stable")
        return [
            Conflict(
                row=int(i),
                name=self.problem.row_name(int(i)),
                multiplier=float(y[i]),
                weight=float(weights[i] / total),
                side="lower" if y[i] > 0 else "upper",
            )
            for i in order
            if y[i] != 0.0
        ]

    def explain(self, *, prune: bool = False, limit: int = 10) -> str:
        """Say in words what was proved, and by what margin.

        Parameters
        ----------
        prune : bool
            For an infeasible problem, first look for a smaller set of conflicting rows.
        limit : int
            How many conflicting rows to list at most.
        """
        lines = [f"{self.verdict.upper()}" + (f" ({self.proof} proof)" if self.proof else "")]
        lines.append(self.reason)
        if self.margin is not None:
            lines.append(f"margin: {self.margin:.3g}, relative to the size of the data")
        if self.repairs:
            lines.append("repaired before it held: " + "; ".join(self.repairs))
        rows = self.conflict(prune=prune)
        if rows:
            lines.append(f"conflicting rows ({len(rows)}), heaviest first:")
            for entry in rows[:limit]:
                bound = self._bound(entry)
                lines.append(f"  {entry.weight:7.2%}  row {entry.name}: {bound}")
            if len(rows) > limit:
                lines.append(f"  … and {len(rows) - limit} more")
        return "\n".join(lines)

    def _bound(self, entry: Conflict) -> str:
        if self.problem.equality[entry.row]:
            return f"= {self.problem.lower[entry.row]:g}"
        if entry.side == "lower":
            return f">= {self.problem.lower[entry.row]:g}"
        return f"<= {self.problem.upper[entry.row]:g}"


@dataclass(frozen=True)
class Result:
    """The answer to a problem: a verdict with its evidence, and how it came about.

    Attributes
    ----------
    check : Check
        What the verifier found.
    claim : Claim
        What the backend handed in.
    backend, version : str
        Which backend ran.
    options : mapping
        Its options, defaults included.
    wall_time : float
        Seconds, verification included.
    solve_time : float
        Seconds spent in the backend, with the proofs of what it offered.
    overshoot : float
        Seconds it took beyond the time limit.
    """

    check: Check
    claim: Claim
    backend: str
    version: str
    options: Mapping[str, Any]
    wall_time: float
    solve_time: float
    overshoot: float = 0.0

    @property
    def verdict(self) -> Verdict:
        """What is proved."""
        return self.check.verdict

    @property
    def proof(self) -> Proof | None:
        """How the verdict was granted; None when undecided."""
        return self.check.proof

    @property
    def margin(self) -> float | None:
        """By how much the verdict holds; see :class:`Check`."""
        return self.check.margin

    @property
    def problem(self) -> FeasibilityProblem:
        """The problem asked."""
        return self.check.problem

    @property
    def point(self) -> Point | None:
        """The verified point if feasible, else the best one the backend had."""
        return self.claim.point if self.check.point is None else self.check.point

    @property
    def certificate(self) -> FloatArray | None:
        """The verified certificate if infeasible, else the best multipliers the backend had."""
        return self.claim.certificate if self.check.certificate is None else self.check.certificate

    @property
    def reason(self) -> str:
        """Why: what was shown, or why nothing was and why the backend stopped."""
        if self.verdict is not Verdict.UNDECIDED:
            return self.check.reason
        if self.claim.stop is Stop.FINISHED:
            return self.check.reason
        if self.claim.point is None and self.claim.certificate is None and self.raw_status:
            return f"{self.claim.stop}: {self.raw_status}"
        return f"{self.claim.stop}; {self.check.reason}"

    @property
    def stop(self) -> Stop:
        """Why the backend stopped."""
        return self.claim.stop

    @property
    def raw_status(self) -> str:
        """The solver's own word."""
        return self.claim.raw_status

    @property
    def iterations(self) -> int | None:
        """Iterations of the backend's own kind."""
        return self.claim.iterations

    def explain(self, *, prune: bool = False, limit: int = 10) -> str:
        """Say in words what was proved, by what margin, and how it came about.

        Parameters
        ----------
        prune : bool
            For an infeasible problem, look for a smaller set of conflicting rows.
        limit : int
            How many conflicting rows to list at most.
        """
        status = f"; its own status: {visible(self.raw_status)}" if self.raw_status else ""
        steps = "" if self.iterations is None else f", {self.iterations} iterations"
        tail = f"{self.backend}: {self.stop}{steps}, {self.wall_time:.3g} s{status}"
        return self.check.explain(prune=prune, limit=limit) + "\n" + tail
