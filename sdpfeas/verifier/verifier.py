"""``verify``: check a claim as it is, then repaired, in the mode asked for."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from sdpfeas.errors import ClaimError
from sdpfeas.numerics.linalg import SYMMETRY_TOLERANCE, FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.verifier.exact import DENOMINATORS, exact_certificate, exact_point, is_round, small_enough
from sdpfeas.verifier.numeric import check_certificate, check_point
from sdpfeas.verifier.outcome import Outcome, refuse
from sdpfeas.verifier.repair import repaired_certificates, repaired_points
from sdpfeas.verifier.results import Check, Claim, Proof, Result, Verdict
from sdpfeas.verifier.rigorous import prove_certificate, prove_point
from sdpfeas.verifier.tolerances import Tolerances

__all__ = ["verify"]

Evidence = TypeVar("Evidence")


def verify(
    problem: FeasibilityProblem,
    claim: Claim | Result | Check,
    *,
    rigorous: bool = False,
    exact: bool = False,
    repair: bool = True,
    tolerances: Tolerances | None = None,
) -> Check:
    """Check a claim against the original data of a problem.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem, unscaled.
    claim : Claim, Result or Check
        A point, a certificate, or both.
    rigorous : bool
        Accept only a proof valid in floating-point arithmetic or, on small problems of round numbers, one in
        rational arithmetic. Otherwise recomputed residuals within the tolerances are enough.
    exact : bool
        Accept only a proof in rational arithmetic, of the numbers to the last bit; for small problems.
    repair : bool
        Try to repair a claim that nearly holds; what was done is said in ``repairs``.
    tolerances : Tolerances, optional
        The tolerances to use.

    Returns
    -------
    Check
        The verdict with its proof and margin; UNDECIDED, with the reason, when nothing is proved.

    Raises
    ------
    ClaimError
        If the claim does not have the shape the problem asks for. A wrong claim raises nothing.
    """
    if not isinstance(problem, FeasibilityProblem):
        raise ClaimError(f"verify needs a FeasibilityProblem, got {type(problem).__name__}")
    if not isinstance(claim, (Claim, Result, Check)):
        raise ClaimError(f"verify needs a Claim, a Result or a Check, got {type(claim).__name__}")
    if tolerances is not None and not isinstance(tolerances, Tolerances):
        raise ClaimError(f"tolerances must be a Tolerances, got {type(tolerances).__name__}")
    limits = Tolerances() if tolerances is None else tolerances
    # Hostile claims overflow on purpose; every test below refuses what is not finite.
    with np.errstate(all="ignore"):
        inquiries: list[_PointInquiry | _CertificateInquiry] = []
        if claim.point is not None:
            inquiries.append(_PointInquiry(problem, claim.point, repair, limits))
        if claim.certificate is not None:
            inquiries.append(_CertificateInquiry(problem, claim.certificate, repair, limits))
        undecided = Check(problem, Verdict.UNDECIDED, None, None, "")
        if not inquiries:
            return replace(undecided, reason="the claim holds neither a point nor a certificate")
        reasons: dict[str, None] = {}
        for mode in _modes(problem, rigorous=rigorous, exact=exact):
            checks = [inquiry.check(mode) for inquiry in inquiries]
            granted = [check for check in checks if check.verdict is not Verdict.UNDECIDED]
            if len(granted) == 1:
                return granted[0]
            if granted:
                return replace(undecided, reason="point and certificate both hold: too close to call")
            reasons |= dict.fromkeys(check.reason for check in checks)
    return replace(undecided, reason="; ".join(reasons))


def _modes(problem: FeasibilityProblem, *, rigorous: bool, exact: bool) -> list[Proof]:
    if exact:
        return [Proof.EXACT]
    if rigorous:
        # Numbers that were rounded before they came here deserve a proof that survives rounding.
        also = small_enough(problem) and is_round(problem)
        return [Proof.RIGOROUS, Proof.EXACT] if also else [Proof.RIGOROUS]
    return [Proof.NUMERIC]


class _Inquiry(ABC, Generic[Evidence]):
    """One side of a claim: judged as it is, then repaired, in one mode after another."""

    def __init__(
        self, problem: FeasibilityProblem, evidence: Evidence, repair: bool, tolerances: Tolerances
    ) -> None:
        self.problem, self.evidence = problem, evidence
        self.repair, self.tolerances = repair, tolerances
        #: What was done to read the claim at all.
        self.preparation: tuple[str, ...] = ()
        self._repaired: list[tuple[Evidence, tuple[str, ...]]] = []
        self._source = self._repairs() if repair else iter(())

    @abstractmethod
    def check(self, mode: Proof) -> Check:
        """Judge in one mode."""

    @abstractmethod
    def _repairs(self) -> Iterator[tuple[Evidence, tuple[str, ...]]]: ...

    @abstractmethod
    def _judge(self, candidate: Evidence, mode: Proof, *, repaired: bool) -> Outcome: ...

    def first_proven(self, mode: Proof) -> tuple[Outcome, Evidence, tuple[str, ...]]:
        """Judge the claim as it is, then each repair, until one holds; the first refusal if none does."""
        first = self._outcome(self.evidence, mode, repaired=False)
        if first.proven:
            return first, self.evidence, self.preparation
        for candidate, repairs in self._candidates():
            outcome = self._outcome(candidate, mode, repaired=True)
            if outcome.proven:
                return outcome, candidate, self.preparation + repairs
        return first, self.evidence, ()

    def _outcome(self, candidate: Evidence, mode: Proof, *, repaired: bool) -> Outcome:
        try:
            return self._judge(candidate, mode, repaired=repaired)
        except np.linalg.LinAlgError as error:
            return refuse(f"an eigendecomposition failed: {error}")

    def _candidates(self) -> Iterator[tuple[Evidence, tuple[str, ...]]]:
        """Repairs, made once and used again in the next mode."""
        yield from self._repaired
        while True:
            try:
                found = next(self._source, None)
            except (np.linalg.LinAlgError, ArithmeticError, ValueError):
                # A repair only has to help. On hostile numbers it may fail in ways that prove nothing.
                return
            if found is None:
                return
            self._repaired.append(found)
            yield found


class _PointInquiry(_Inquiry[Point]):
    def __init__(
        self, problem: FeasibilityProblem, values: Any, repair: bool, tolerances: Tolerances
    ) -> None:
        super().__init__(problem, problem.point(values), repair, tolerances)
        self._skew = next(
            (
                b
                for b, raw in enumerate(values)
                if problem.sets[b].matrix and _is_skew(np.asarray(raw, dtype=np.float64))
            ),
            None,
        )
        if self._skew is not None:
            self.preparation = ("took the symmetric part of the matrices",)

    def check(self, mode: Proof) -> Check:
        problem = self.problem
        if self._skew is not None and not self.repair:
            reason = f"point: block {problem.block_name(self._skew)} is not symmetric"
            return Check(problem, Verdict.UNDECIDED, None, None, reason)
        outcome, point, repairs = self.first_proven(mode)
        if not outcome.proven:
            return Check(problem, Verdict.UNDECIDED, None, None, f"point: {outcome.reason}")
        if outcome.evidence is not None:
            point, repairs = outcome.evidence, repairs + outcome.repairs
        found = Check(problem, Verdict.FEASIBLE, mode, outcome.margin, outcome.reason, repairs)
        return replace(found, point=point, rational=outcome.rational)

    def _repairs(self) -> Iterator[tuple[Point, tuple[str, ...]]]:
        return repaired_points(self.problem, self.evidence)

    def _judge(self, candidate: Point, mode: Proof, *, repaired: bool) -> Outcome:
        if mode is Proof.EXACT:
            denominators = () if repaired else DENOMINATORS
            return exact_point(self.problem, candidate, repair=self.repair, denominators=denominators)
        if mode is Proof.RIGOROUS:
            return prove_point(self.problem, candidate, self.tolerances)
        return check_point(self.problem, candidate, self.tolerances)


class _CertificateInquiry(_Inquiry[FloatArray]):
    def __init__(
        self, problem: FeasibilityProblem, values: Any, repair: bool, tolerances: Tolerances
    ) -> None:
        super().__init__(problem, problem.multipliers(values), repair, tolerances)

    def check(self, mode: Proof) -> Check:
        problem = self.problem
        outcome, y, repairs = self.first_proven(mode)
        if not outcome.proven:
            return Check(problem, Verdict.UNDECIDED, None, None, f"certificate: {outcome.reason}")
        if outcome.evidence is not None:
            y, repairs = outcome.evidence, repairs + outcome.repairs
        found = Check(problem, Verdict.INFEASIBLE, mode, outcome.margin, outcome.reason, repairs)
        return replace(found, certificate=y, rational=outcome.rational)

    def _repairs(self) -> Iterator[tuple[FloatArray, tuple[str, ...]]]:
        return repaired_certificates(self.problem, self.evidence, self.tolerances)

    def _judge(self, candidate: FloatArray, mode: Proof, *, repaired: bool) -> Outcome:
        if mode is Proof.EXACT:
            denominators = () if repaired else DENOMINATORS
            return exact_certificate(self.problem, candidate, repair=self.repair, denominators=denominators)
        if mode is Proof.RIGOROUS:
            return prove_certificate(self.problem, candidate, self.tolerances)
        return check_certificate(self.problem, candidate, self.tolerances)


def _is_skew(matrix: FloatArray) -> bool:
    """Whether a matrix differs from its mirror image by more than rounding."""
    apart = float(np.max(np.abs(matrix - matrix.T)))
    return apart > SYMMETRY_TOLERANCE * float(np.max(np.abs(matrix)))
