"""A chain judged: what it leaves decides, a contradiction or a point on the last face."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdpfeas.errors import ClaimError, LimitError
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.faces import Faces, NotReduced
from sdpfeas.problem.reductions.rows_only import rows_only
from sdpfeas.verifier.cases import PointCase
from sdpfeas.verifier.chains.chain import Chain
from sdpfeas.verifier.chains.replay import Refused, Walk, walk
from sdpfeas.verifier.exact import exact_point
from sdpfeas.verifier.outcome import Outcome, refuse
from sdpfeas.verifier.readings import in_other_words
from sdpfeas.verifier.results import Check
from sdpfeas.verifier.tolerances import Tolerances
from sdpfeas.verifier.verdicts import Proof, Reading, Verdict

__all__ = ["ChainCase"]

#: How many times larger than others a problem on a face may be in rational arithmetic: nothing else may help.
LARGER = 50.0

#: What a proof is about, by the reading of the numbers.
ABOUT = {
    "stored": "",
    "written": ", for the numbers as written (the decimals or fractions that the doubles were rounded from)",
}


class ChainCase:
    """A chain, and a point on its last face where there is one.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    chain : Chain
        The facial reduction certificate.
    reading : Reading
        Which numbers the verdict is to be about; a chain about others proves nothing.
    point : tuple of ndarray, optional
        A point of the problem.
    repair : bool
        Whether the point may be repaired.
    tolerances : Tolerances
        As for other claims.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        chain: Chain,
        reading: Reading,
        point: Point | None,
        repair: bool,
        tolerances: Tolerances,
    ) -> None:
        if not isinstance(chain, Chain):
            raise ClaimError(f"a chain must be a Chain, got {type(chain).__name__}")
        for k, step in enumerate(chain.steps):
            if step.shape != (problem.multiplier_count,):
                what = f"{problem.m} rows" + " and the entries of the LMIs" * bool(problem.lmis)
                raise ClaimError(f"step {k} of the chain has {step.size} multipliers for {what}")
        self.problem, self.chain, self.reading = problem, chain, reading
        self.point = None if point is None else problem.point(point)
        self.repair, self.tolerances = repair, tolerances
        self._walk: Walk | str | None = None
        self._checks: dict[bool, Check] = {}

    def check(self, *, exact: bool = False) -> Check:
        """Judge the chain, always exactly; a point on its last face may have a rigorous proof too."""
        if exact not in self._checks:
            try:
                self._checks[exact] = self._check(exact)
            except LimitError as error:
                return self._undecided(str(error))
        return self._checks[exact]

    def _undecided(self, reason: str) -> Check:
        return Check(self.problem, Verdict.UNDECIDED, None, None, f"chain: {reason}", reading=self.reading)

    def _check(self, exact: bool) -> Check:
        if self.chain.reading != self.reading:
            return self._undecided(
                f"it is about the numbers as {self.chain.reading}, not as {self.reading}, as was asked"
            )
        if self._walk is None:
            try:
                self._walk = walk(self.problem, self.chain)
            except Refused as refusal:
                self._walk = str(refusal)
        if isinstance(self._walk, str):
            return self._undecided(self._walk)
        if self._walk.contradiction:
            return self._contradiction(self._walk)
        if self.point is None:
            return self._undecided("it leaves a face, and nothing is known of what is there")
        return self._on_face(self._walk.faces, self.point, exact)

    def _contradiction(self, done: Walk) -> Check:
        count = len(done.steps) - 1
        last = "the multipliers rule out every point exactly"
        if count:
            last = (
                f"{count} step{'s' * (count > 1)} of a chain show{'s' * (count == 1)} that every point lies "
                "in a face of its sets, and on it the last multipliers rule out all, exactly"
            )
        check = Check(
            self.problem,
            Verdict.INFEASIBLE,
            Proof.EXACT,
            done.steps[-1].share,
            last + ABOUT[self.chain.reading],
            chain=self.chain,
            reading=self.reading,
        )
        return in_other_words(check, [])

    def _on_face(self, faces: Faces, point: Point, exact: bool) -> Check:
        try:
            reduction = faces.reduction
        except NotReduced as error:
            return self._undecided(str(error))
        if reduction is None:
            return self._only_zero(faces)
        smaller = reduction.problem
        place = faces.coordinates(rows_only(self.problem).start_point(point))
        reasons = []
        for mode in [Proof.EXACT] if exact else [Proof.RIGOROUS, Proof.EXACT]:
            if mode is Proof.RIGOROUS:
                found = PointCase(smaller, place, self.repair, self.tolerances).check(mode)
            elif faces.rows.simple:
                found = exact_point(smaller, place, repair=self.repair, times=LARGER)
            else:
                found = refuse("the numbers were rounded before they came here")
            if found.proven:
                return self._granted(faces, mode, place, found)
            reasons.append(found.reason)
        return self._undecided(f"on the last face, {'; '.join(dict.fromkeys(reasons))}")

    def _granted(self, faces: Faces, mode: Proof, place: Point, found: Outcome) -> Check:
        on_face = place if found.evidence is None else found.evidence
        posed = rows_only(self.problem)
        return Check(
            self.problem,
            Verdict.FEASIBLE,
            mode,
            found.margin,
            f"on a face of the sets, {found.reason}" + ABOUT[self.chain.reading],
            found.repairs,
            point=self.problem.point(posed.point(faces.point(on_face))),
            rational=None if found.rational is None else posed.rational_point(faces.point(found.rational)),
            chain=self.chain,
            reading=self.reading,
        )

    def _only_zero(self, faces: Faces) -> Check:
        """All that is left is zero."""
        for low, high in zip(faces.lower, faces.upper, strict=True):
            if not ((low is None or low <= 0) and (high is None or high >= 0)):
                return self._undecided("nothing but zero is left, and it misses a row")
        zero = tuple(np.zeros(block.shape) for block in self.problem.sets)
        reason = "nothing but zero is left, and it meets every row exactly" + ABOUT[self.chain.reading]
        found = Check(self.problem, Verdict.FEASIBLE, Proof.EXACT, 1.0, reason, point=zero, chain=self.chain)
        return replace(found, reading=self.reading)
