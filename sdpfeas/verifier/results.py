"""Claims, verdicts and results."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sdpfeas.errors import ClaimError, TruthError
from sdpfeas.harmless import visible
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.verifier import shown
from sdpfeas.verifier.chains.chain import Chain
from sdpfeas.verifier.chains.words import tell
from sdpfeas.verifier.conflicts import Conflict, conflicts
from sdpfeas.verifier.named import find_block, find_row
from sdpfeas.verifier.prune import prune_certificate
from sdpfeas.verifier.verdicts import Proof, Reading, Stop, Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Check", "Claim", "Conflict", "Proof", "Reading", "Result", "Stop", "Verdict"]


@dataclass(frozen=True)
class Claim:
    """What a backend hands in; worth nothing until verified.

    Attributes
    ----------
    point : tuple of ndarray, optional
        One array per set.
    certificate : ndarray, optional
        One multiplier per row, then the entries of the multiplier of every LMI.
    raw_status : str
        The solver's own word, untouched.
    stop : Stop
        Why the backend stopped.
    iterations : int, optional
        Iterations of the backend's own kind.
    info : mapping
        Whatever else the backend wants to say.
    chain : Chain, optional
        Multipliers that lead to a face of the sets; the last of them rule out all points on it, or the point
        of the claim lies there.
    """

    point: Point | None = None
    certificate: FloatArray | None = None
    raw_status: str = ""
    stop: Stop = Stop.FINISHED
    iterations: int | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    chain: Chain | None = None

    def back(self, reduction: Reduction) -> Claim:
        """Return the claim about the original problem that this one about a reduction of it makes."""
        point, y = self.point, self.certificate
        return replace(
            self,
            point=None if point is None else reduction.point(point),
            certificate=None if y is None else reduction.multipliers(y),
            # Its multipliers are of other rows, and floating point is not enough to map them.
            chain=None,
        )


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
    chain : Chain, optional
        The chain that was verified, where the verdict rests on one.
    reading : Reading
        Which numbers the verdict is about; see ``docs/verdicts.md``.
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
    chain: Chain | None = None
    reading: Reading = Reading.STORED

    def conflict(self, *, prune: bool = False, sets: bool = False) -> list[Conflict]:
        """Rows and LMIs that contradict each other, heaviest first; empty unless infeasible.

        Parameters
        ----------
        prune : bool
            Look for a smaller set of rows that still conflict; every step is verified again.
        sets : bool
            List the sets that have a part in it as well.
        """
        if self.verdict is not Verdict.INFEASIBLE or self.certificate is None:
            return []
        y = prune_certificate(self.problem, self.certificate, self.proof) if prune else self.certificate
        return conflicts(self.problem, y, sets=sets)

    def explain(self, *, prune: bool = False, limit: int = 10) -> str:
        """Say in words what was proved, and by what margin.

        Parameters
        ----------
        prune : bool
            For an infeasible problem, first look for a smaller set of conflicting rows.
        limit : int
            How many conflicting rows to list at most.
        """
        lines = [shown.labelled(self), self.reason]
        if self.margin is not None:
            lines.append(f"margin: {self.margin:.3g}, relative to the size of the data")
        if self.repairs:
            lines.append("repaired before it held: " + "; ".join(self.repairs))
        if self.verdict == Verdict.FEASIBLE and self.point is not None:
            lines += [
                shown.lmi_depth(self.problem, j, self.point) for j in range(len(self.problem.lmis))[:limit]
            ]
        if self.chain is not None:
            lines += tell(self.problem, self.chain)
        found = self.conflict(prune=prune, sets=True)
        rows = [entry for entry in found if entry.block is None]
        if rows:
            whole = sum(entry.weight for entry in rows)
            what = "rows and LMIs" if self.problem.lmis else "rows"
            lines.append(f"conflicting {what} ({len(rows)}), heaviest first:")
            for entry in rows[:limit]:
                asks = entry.described(self.problem)
                kind = "row" if entry.lmi is None else "LMI"
                lines.append(f"  {entry.weight / whole:7.2%}  {kind} {entry.name}: {asks}")
            if len(rows) > limit:
                lines.append(f"  … and {len(rows) - limit} more")
            blocks = [entry for entry in found if entry.block is not None]
            named = [f"{entry.name} {entry.described(self.problem)}" for entry in blocks[:limit]]
            if named:
                lines.append("and with " + ", ".join(named) + (", …" if len(blocks) > limit else ""))
        return "\n".join(lines)

    def __bool__(self) -> bool:
        """Refuse: a check is neither true nor false."""
        raise TruthError("a check is not true or false: compare check.verdict, as in verdict == 'feasible'")

    def __repr__(self) -> str:
        """Verdict, proof and margin in one line."""
        return f"Check: {shown.headline(self)}"

    def _repr_html_(self) -> str:
        """Show the verdict as a card in a notebook."""
        return shown.verdict_card(self).html()


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
    def reading(self) -> Reading:
        """Which numbers the verdict is about."""
        return self.check.reading

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
    def chain(self) -> Chain | None:
        """The verified chain where the verdict rests on one, else the one the backend had."""
        return self.claim.chain if self.check.chain is None else self.check.chain

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

    def conflict(self, *, prune: bool = False, sets: bool = False) -> list[Conflict]:
        """Rows that contradict each other, heaviest first; see :meth:`Check.conflict`."""
        return self.check.conflict(prune=prune, sets=sets)

    def __getitem__(self, block: str | int) -> FloatArray:
        """The part of the point in one block, by the block's name or its index."""
        if self.point is None:
            raise ClaimError(f"there is no point to take {block!r} from: the verdict is {self.verdict}")
        return self.point[find_block(self.problem, block)]

    def multiplier(self, row: str | int) -> float | FloatArray:
        """The multiplier of one row or LMI, by its name or its index; that of an LMI is a matrix.

        LMIs are numbered after the rows.

        Raises
        ------
        ClaimError
            If there are no multipliers, or no such row or LMI.
        """
        if self.certificate is None:
            raise ClaimError(f"there are no multipliers to take {row!r} from: the verdict is {self.verdict}")
        rows, own = self.problem.split(self.certificate)
        place = find_row(self.problem, row)
        return float(rows[place]) if place < rows.size else own[place - rows.size]

    def __bool__(self) -> bool:
        """Refuse: a result is neither true nor false."""
        raise TruthError("a result is not true or false: compare result.verdict, as in verdict == 'feasible'")

    def __repr__(self) -> str:
        """Verdict, proof, margin, backend and time in one line."""
        return f"Result: {shown.headline(self.check)}, {self.backend} in {self.wall_time:.3g} s"

    def _repr_html_(self) -> str:
        """Show the verdict as a card in a notebook."""
        facts = [("backend", f"{self.backend}: {self.stop}"), ("time", f"{self.wall_time:.3g} s")]
        return shown.verdict_card(self.check, self.reason, facts).html()
