"""Proof attempts: a point or dual multipliers, checked as given and then after repairs.

:class:`PointAttempt` proves FEASIBLE, :class:`CertificateAttempt` proves INFEASIBLE. Outcomes and repairs are
cached, so that a numeric check after a failed proof repeats no work.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from sdpfeas.claims import Verdict
from sdpfeas.errors import LimitError
from sdpfeas.numerics.exact_arithmetic import Reading
from sdpfeas.numerics.floating_point_environment import require_ieee
from sdpfeas.numerics.limits import check_deadline
from sdpfeas.numerics.linalg import SYMMETRY_TOLERANCE, FloatArray, asymmetry
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.inequality_pairs import meeting_pairs
from sdpfeas.problem.reductions.redundant_rows import independent_rows
from sdpfeas.verifier.exact import (
    DENOMINATORS,
    exact_certificate,
    exact_point,
    has_round_rows,
    is_round,
    read_alike,
    small_enough,
)
from sdpfeas.verifier.numeric import check_certificate, check_point
from sdpfeas.verifier.outcome import Outcome, Proof, Tolerances, refuse
from sdpfeas.verifier.repair import admissible_multipliers, repaired_multipliers, repaired_points
from sdpfeas.verifier.rigorous import excluded_radius, prove_certificate, prove_point

Evidence = TypeVar("Evidence")

#: A contradiction between bounds by less than this, relative to their size, may come from rounding of the
#: data.
BY_ROUNDING = 1e-12


def proof_modes(problem: FeasibilityProblem, reading: Reading = Reading.STORED) -> list[Proof]:
    """Return the kinds of proof that are valid despite rounding, in the order in which they are attempted."""
    small = small_enough(problem)
    if reading is Reading.WRITTEN and not (small and read_alike(problem)):
        return [Proof.EXACT]  # rigorous proofs are about the binary64 data
    # If the data were rounded before they were stored, an exact verdict about them may be an artefact.
    return [Proof.RIGOROUS, Proof.EXACT] if small and is_round(problem) else [Proof.RIGOROUS]


class ProofAttempt(ABC, Generic[Evidence]):
    """Evidence of a claim, and the outcomes of the proofs attempted with it."""

    #: Its attribute name in a claim, and the verdict it proves.
    kind: ClassVar[Literal["point", "certificate"]]
    verdict: ClassVar[Verdict]

    def __init__(
        self, problem: FeasibilityProblem, evidence: Evidence, repair: bool, tolerances: Tolerances
    ) -> None:
        self.problem, self.evidence = problem, evidence
        self.repair, self.tolerances = repair, tolerances
        #: Changes made when the claim was read.
        self.preparation: tuple[str, ...] = ()
        self._repaired: list[tuple[Evidence, tuple[str, ...]]] = []
        self._source = self._repairs() if repair else iter(())
        self._checks: dict[tuple[Proof, Reading], Outcome] = {}
        #: Outcomes of the rigorous proofs: of the claim as given (0), then of every repair.
        self._proofs: dict[int, Outcome] = {}

    def check(self, mode: Proof, reading: Reading = Reading.STORED) -> Outcome:
        """Attempt a proof in one mode. The outcome is cached unless the time limit prevented the attempt."""
        if (mode, reading) not in self._checks:
            try:
                require_ieee()
                self._checks[mode, reading] = self._check(mode, reading)
            except LimitError as error:
                return refuse(f"{self.kind}: {error}")
        return self._checks[mode, reading]

    def _check(self, mode: Proof, reading: Reading) -> Outcome:
        outcome, evidence, repairs = self.first_proven(mode, reading)
        if not outcome.proven:
            return refuse(f"{self.kind}: {outcome.reason}", dependent=outcome.dependent)
        if outcome.evidence is not None:
            evidence, repairs = outcome.evidence, repairs + outcome.repairs
        return replace(outcome, evidence=evidence, repairs=repairs)

    @abstractmethod
    def _repairs(self) -> Iterator[tuple[Evidence, tuple[str, ...]]]: ...

    @abstractmethod
    def _exact(self, candidate: Evidence, denominators: tuple[int, ...], reading: Reading) -> Outcome: ...

    @abstractmethod
    def _prove(self, candidate: Evidence) -> Outcome: ...

    @abstractmethod
    def _recompute(self, candidate: Evidence, proof: Outcome | None) -> Outcome: ...

    def first_proven(self, mode: Proof, reading: Reading) -> tuple[Outcome, Evidence, tuple[str, ...]]:
        """Attempt the proof with the claim as given, then with each repair; the first refusal if all fail."""
        first = self._outcome(self.evidence, mode, 0, reading)
        if first.proven:
            return first, self.evidence, self.preparation
        try:
            for place, (candidate, repairs) in enumerate(self._candidates(), 1):
                outcome = self._outcome(candidate, mode, place, reading)
                if outcome.proven:
                    return outcome, candidate, self.preparation + repairs
        except LimitError as error:
            # Repairs are optional: the first refusal stays the outcome.
            first = replace(first, reason=f"{first.reason}; for a repair, {error}")
        return first, self.evidence, ()

    def _outcome(self, candidate: Evidence, mode: Proof, place: int, reading: Reading) -> Outcome:
        check_deadline("the proof" if place == 0 else "the proof of a repaired claim")
        try:
            if mode is Proof.EXACT:
                return self._exact(candidate, () if place else DENOMINATORS, reading)
            if mode is Proof.RIGOROUS:
                self._proofs[place] = self._prove(candidate)
                return self._proofs[place]
            return self._recompute(candidate, self._proofs.get(place))
        except np.linalg.LinAlgError as error:
            return refuse(f"an eigendecomposition failed: {error}")

    def _candidates(self) -> Iterator[tuple[Evidence, tuple[str, ...]]]:
        """Yield the repairs, each computed once and cached for the next mode."""
        yield from self._repaired
        while True:
            try:
                found = next(self._source, None)
            except (np.linalg.LinAlgError, ArithmeticError, ValueError):
                # Repairs are optional. On hostile numbers they may fail in any way.
                return
            if found is None:
                return
            self._repaired.append(found)
            yield found


class PointAttempt(ProofAttempt[Point]):
    """A point: evidence that a problem is feasible."""

    kind = "point"
    verdict = Verdict.FEASIBLE

    def __init__(
        self, problem: FeasibilityProblem, values: Any, repair: bool, tolerances: Tolerances
    ) -> None:
        super().__init__(problem, problem.point(values), repair, tolerances)
        self._skew: int | None = None
        for b, (block, raw) in enumerate(zip(problem.sets, values, strict=True)):
            if self._skew is None and block.matrix and _is_skew(np.asarray(raw, dtype=np.float64)):
                self._skew = b
                self.preparation = ("took the symmetric part of the matrices",)

    def _check(self, mode: Proof, reading: Reading) -> Outcome:
        if self._skew is not None and not self.repair:
            return refuse(f"point: block {self.problem.block_name(self._skew)} is not symmetric")
        return super()._check(mode, reading)

    def _repairs(self) -> Iterator[tuple[Point, tuple[str, ...]]]:
        yield from repaired_points(self.problem, self.evidence)
        joined = meeting_pairs(self.problem).problem
        if joined is not self.problem:
            yield from repaired_points(joined, self.evidence)

    def _exact(self, candidate: Point, denominators: tuple[int, ...], reading: Reading) -> Outcome:
        return exact_point(
            self.problem, candidate, repair=self.repair, denominators=denominators, reading=reading
        )

    def _prove(self, candidate: Point) -> Outcome:
        outcome = prove_point(self.problem, candidate, self.tolerances, repair=self.repair)
        if outcome.proven:
            return outcome
        # Replace pairs of opposite inequalities by equations and drop redundant equality rows.
        joined = meeting_pairs(self.problem).problem
        if joined is self.problem and not outcome.dependent:
            return outcome
        fewer = independent_rows(joined).problem
        if fewer is self.problem:
            return outcome
        proof = prove_point(fewer, candidate, self.tolerances, repair=self.repair)
        note = "; rows that meet are equations" if joined is not self.problem else ""
        note += f"; {joined.m - fewer.m} rows follow from others" if fewer is not joined else ""
        return replace(proof, reason=proof.reason + note)

    def _recompute(self, candidate: Point, proof: Outcome | None) -> Outcome:
        return check_point(self.problem, candidate, self.tolerances, proof)


class CertificateAttempt(ProofAttempt[FloatArray]):
    """Dual multipliers: evidence that a problem is infeasible."""

    kind = "certificate"
    verdict = Verdict.INFEASIBLE

    def __init__(
        self, problem: FeasibilityProblem, values: Any, repair: bool, tolerances: Tolerances
    ) -> None:
        super().__init__(problem, problem.multipliers(values), repair, tolerances)

    def _repairs(self) -> Iterator[tuple[FloatArray, tuple[str, ...]]]:
        return repaired_multipliers(self.problem, self.evidence, self.tolerances)

    def _exact(self, candidate: FloatArray, denominators: tuple[int, ...], reading: Reading) -> Outcome:
        return exact_certificate(
            self.problem, candidate, repair=self.repair, denominators=denominators, reading=reading
        )

    def _prove(self, candidate: FloatArray) -> Outcome:
        problem = self.problem
        outcome = prove_certificate(problem, candidate, self.tolerances)
        if outcome.proven or not (self.repair and small_enough(problem) and has_round_rows(problem)):
            return outcome
        if is_round(problem):
            return outcome  # an exact proof is attempted anyway
        # If A*y must vanish on Nonneg blocks, floating-point bounds always fail. Rows of short decimals make
        # it vanish exactly; the margin must exceed the rounding of the bounds, which may have been computed.
        exact = exact_certificate(problem, candidate)
        return exact if exact.proven and exact.margin > BY_ROUNDING else outcome

    def excluded_radius(self) -> float:
        """Largest norm up to which the multipliers, or those repaired so far, rule out every point; see
        :func:`~sdpfeas.verifier.rigorous.excluded_radius`.
        """
        require_ieee()
        found = [0.0]
        for y in (self.evidence, *(repaired for repaired, _ in self._repaired)):
            check_deadline("the excluded radius")
            with suppress(np.linalg.LinAlgError):
                found.append(excluded_radius(self.problem, y))
                found.append(excluded_radius(self.problem, admissible_multipliers(self.problem, y)))
        return max(found)

    def _recompute(self, candidate: FloatArray, proof: Outcome | None) -> Outcome:
        return check_certificate(self.problem, candidate, self.tolerances, proof)


def _is_skew(matrix: FloatArray) -> bool:
    """Whether a matrix is not symmetric up to rounding."""
    return asymmetry(matrix) > SYMMETRY_TOLERANCE * float(np.max(np.abs(matrix)))
