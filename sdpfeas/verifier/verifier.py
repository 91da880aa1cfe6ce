"""``verify`` a claim in the mode asked for, or ``decide``: in the best mode that grants a verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from sdpfeas.claims import Chain, Claim, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.errors import ClaimError, LimitError
from sdpfeas.numerics.cost_estimate import limited, need
from sdpfeas.numerics.decimals import Reading, as_reading
from sdpfeas.numerics.floating_point_environment import not_ieee
from sdpfeas.numerics.rational import to_floats
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.faces import Faces, NotReduced
from sdpfeas.problem.reductions.redundant_rows import independent_rows
from sdpfeas.problem.reductions.rows_only import rows_only
from sdpfeas.verifier.exact import (
    contradiction,
    exact_certificate,
    exact_point,
    exact_rows,
    is_round,
    need_rationals,
    read_alike,
    small_enough,
)
from sdpfeas.verifier.facial_reduction import Refused, Walk, walk
from sdpfeas.verifier.outcome import Outcome, Proof, Tolerances, refuse
from sdpfeas.verifier.proof_attempts import BY_ROUNDING, Case, CertificateCase, PointCase, proof_modes
from sdpfeas.verifier.results import Check, Result

#: Projections onto rows and sets, in turn, after which a point counts as found.
ROUNDS = 50


def in_other_words(check: Check, points: list[Point]) -> Check:
    """Say of an exact verdict what the other reading comes to, where that can be found out.

    ``check``: a verdict granted in rational arithmetic. ``points``: points that nearly meet the problem.
    """
    other = Reading.STORED if check.reading is Reading.WRITTEN else Reading.WRITTEN
    if not small_enough(check.problem):
        return replace(check, reason=f"{check.reason}, as {check.reading}")
    try:
        if read_alike(check.problem):
            return check
        if _holds_too(check, other):
            return replace(check, reason=f"{check.reason}, as stored and as written")
        opposite = _opposite(check, points, other)
    except (LimitError, np.linalg.LinAlgError):
        opposite = None
    if opposite is None:
        return replace(check, reason=f"{check.reason}, as {check.reading}")
    own = _by(check.verdict, check.margin)
    return replace(check, reason=f"{own} as {check.reading}, {opposite} as {other}: {check.reason}")


def _by(verdict: Verdict, margin: float | None) -> str:
    """Name a verdict, with its margin where that says how far the problem is from the opposite."""
    return f"{verdict} by {margin:.2g}" if verdict is Verdict.INFEASIBLE else f"{verdict}"


def _holds_too(check: Check, other: Reading) -> bool:
    """Whether the same evidence, or what is next to it, proves the same in the other reading."""
    if check.point is not None:
        return exact_point(check.problem, check.point, reading=other).proven
    if check.certificate is not None:
        return exact_certificate(check.problem, check.certificate, reading=other).proven
    return False


def _opposite(check: Check, points: list[Point], other: Reading) -> str | None:
    """Name the opposite verdict, if it is proved in the other reading."""
    if check.point is not None:
        found = contradiction(check.problem, check.point, other)
        return _by(Verdict.INFEASIBLE, found.margin) if found.proven else None
    for point in (*points, _some_point(check.problem)):
        if point and exact_point(check.problem, point, reading=other).proven:
            return str(Verdict.FEASIBLE)
    return None


def _some_point(problem: FeasibilityProblem) -> Point:
    """Point that nearly meets a problem, by projections in turn; empty where numbers overflow."""
    need_rationals(problem)
    matrix = to_floats(exact_rows(problem).matrix)
    need("a point", products=float(matrix.size) * (2 * ROUNDS + problem.m))
    if not np.isfinite(matrix).all():
        return ()
    inverse = np.linalg.pinv(matrix)
    x = np.concatenate([block.interior_point().reshape(-1) for block in problem.sets])
    point: Point = ()
    for _ in range(ROUNDS):
        value = matrix @ x
        x = x + inverse @ (np.clip(value, problem.lower, problem.upper) - value)
        if not np.isfinite(x).all():
            return ()
        parts = np.split(x, np.cumsum([block.entries for block in problem.sets])[:-1])
        point = tuple(
            block.project(block.symmetrize(part.reshape(block.shape)))
            for block, part in zip(problem.sets, parts, strict=True)
        )
        x = np.concatenate([part.reshape(-1) for part in point])
    return point


# ------------------------------------------------------------
# A chain judged: what it leaves decides, a contradiction or a point on the last face.

#: How many times larger than others a problem on a face may be in rational arithmetic: nothing else may help.
LARGER = 50.0

#: What a proof is about, by the reading of the numbers.
ABOUT = {
    "stored": "",
    "written": ", for the numbers as written (the decimals or fractions that the doubles were rounded from)",
}


class ChainCase:
    """A chain, and a point on its last face where there is one.

    ``reading``: which numbers the verdict is to be about; a chain about others proves nothing. ``repair``:
    whether the point may be repaired.
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


# ------------------------------------------------------------
# Judge a claim by its sides: a verdict is granted where exactly one of them holds.


def judge(
    problem: FeasibilityProblem,
    cases: Iterable[Case[Any]],
    modes: Iterable[Proof],
    reading: Reading = Reading.STORED,
) -> Check:
    """Judge the sides of a claim, in one mode after the other, until exactly one holds."""
    cases = list(cases)
    undecided = Check(problem, Verdict.UNDECIDED, None, None, "", reading=reading)
    if not cases:
        return replace(undecided, reason="the claim holds neither a point nor a certificate")
    reasons: dict[str, None] = {}
    # Hostile claims overflow on purpose; every test refuses what is not finite.
    with np.errstate(all="ignore"):
        for mode in modes:
            outcomes = [case.check(mode, reading) for case in cases]
            granted = [_grant(case, mode, o) for case, o in zip(cases, outcomes, strict=True) if o.proven]
            if len(granted) > 1:
                return replace(undecided, reason="point and certificate both hold: too close to call")
            if mode is not Proof.RIGOROUS:
                granted = _refuted(problem, cases, granted, mode, reading) or granted
            elif not granted and any(_may_contradict(*both) for both in zip(cases, outcomes, strict=True)):
                granted = _contradicted(problem)
            if granted:
                check = replace(granted[0], reading=reading)
                return in_other_words(check, _points(cases)) if check.proof is Proof.EXACT else check
            reasons |= dict.fromkeys(outcome.reason for outcome in outcomes)
    return replace(undecided, reason="; ".join(reasons))


def _refuted(
    problem: FeasibilityProblem, cases: list[Case[Any]], granted: list[Check], mode: Proof, reading: Reading
) -> list[Check]:
    """Check of the contradiction between rows that a point which looks feasible leads to, if there is one."""
    if mode is Proof.EXACT:
        wanted = not granted and any(case.repair for case in cases)
    else:
        # A numeric verdict is no proof: no point may be granted where the rows are known to disagree.
        wanted = any(check.verdict is Verdict.FEASIBLE for check in granted)
        wanted = wanted and small_enough(problem) and (reading is Reading.WRITTEN or is_round(problem))
    if not wanted:
        return []
    found = (_contradicted_at(problem, point, reading) for point in _points(cases))
    return [check for check in found if check is not None][:1]


def _contradicted_at(problem: FeasibilityProblem, point: Point, reading: Reading) -> Check | None:
    """Check of rows that contradict each other, exactly, at a point that looks feasible; None without any."""
    try:
        found = contradiction(problem, point, reading)
    except (LimitError, np.linalg.LinAlgError):
        return None
    if not found.proven:
        return None
    check = Check(problem, Verdict.INFEASIBLE, Proof.EXACT, found.margin, found.reason, found.repairs)
    return replace(check, certificate=found.evidence, rational=found.rational, reading=reading)


def _may_contradict(case: Case[Any], outcome: Outcome) -> bool:
    """Whether a refused claim suggests that equality rows may contradict each other."""
    return case.repair and (outcome.dependent or case.verdict is Verdict.INFEASIBLE)


def _contradicted(problem: FeasibilityProblem) -> list[Check]:
    """Check of equality rows that contradict each other by more than rounding may have done to them."""
    try:
        found = independent_rows(problem).contradiction
    except LimitError:
        return []
    if found is None:
        return []
    margin = float(found.gap / found.size)
    with np.errstate(over="ignore"):
        y = np.array([float(v) for v in found.multipliers / max(map(abs, found.multipliers))])
    if not (margin > BY_ROUNDING or is_round(problem)):
        return []
    reason = "equality rows contradict each other: their combination, in fractions, asks for the impossible"
    check = Check(problem, Verdict.INFEASIBLE, Proof.EXACT, margin, reason)
    return [replace(check, certificate=y, rational=found.multipliers)]


def _points(cases: list[Case[Any]]) -> list[Point]:
    return [case.evidence for case in cases if isinstance(case, PointCase)]


def _grant(case: Case[Any], mode: Proof, outcome: Outcome) -> Check:
    evidence: dict[str, Any] = {case.kind: outcome.evidence, "rational": outcome.rational}
    found = Check(case.problem, case.verdict, mode, outcome.margin, outcome.reason, outcome.repairs)
    return replace(found, **evidence)


def verify(
    problem: FeasibilityProblem,
    claim: Claim | Result | Check | None = None,
    *,
    rigorous: bool = False,
    exact: bool = False,
    repair: bool = True,
    tolerances: Tolerances | None = None,
    time_limit: float | None = None,
    reading: str = "stored",
) -> Check:
    """Check a claim against the original data of a problem.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem, unscaled; ``sdpfeas.verify`` also takes a ``cvxpy.Problem``.
    claim : Claim, Result or Check
        A point, a certificate, a chain, or several of these. Of a cvxpy model it may be left out: then the
        values of its variables and the dual values of its constraints are verified, whoever set them.
    rigorous : bool
        Accept only a proof valid in floating-point arithmetic or, on small problems of round numbers, one in
        rational arithmetic. Otherwise recomputed residuals within the tolerances are enough.
    exact : bool
        Accept only a proof in rational arithmetic, of the numbers to the last bit; for small problems.
    repair : bool
        Try to repair a claim that nearly holds; what was done is said in ``repairs``.
    tolerances : Tolerances, optional
        The tolerances to use.
    time_limit : float, optional
        Seconds. What is estimated to take longer is not begun, and the reason says so.
    reading : {"stored", "written"}
        Whether the numbers of the problem stand for themselves, or for the decimals and fractions they were
        rounded from; see ``docs/verdicts.md``. Proofs about the latter are exact, for small problems.

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
        raise ClaimError(
            f"verify needs a Claim, a Result or a Check besides the problem, got {type(claim).__name__}"
        )
    if tolerances is not None and not isinstance(tolerances, Tolerances):
        raise ClaimError(f"tolerances must be a Tolerances, got {type(tolerances).__name__}")
    limits = Tolerances() if tolerances is None else tolerances
    read = as_reading(reading)
    if wrong := not_ieee():
        return Check(problem, Verdict.UNDECIDED, None, None, wrong)
    limit = None if time_limit is None else Deadline(time_limit)
    chained = _chained(problem, claim, repair, limits, read)
    with limited(limit), few_threads(problem.sides, problem.m):
        modes = [Proof.EXACT] if exact else proof_modes(problem, read) if rigorous else [Proof.NUMERIC]
        first = None if chained is None else chained.check(exact=exact)
        if first is not None and first.verdict is not Verdict.UNDECIDED:
            return first
        cases = _cases(problem, claim, repair, limits)
        return _both(first, judge(problem, cases, modes, read)) if cases or first is None else first


def decide(
    problem: FeasibilityProblem,
    claim: Claim | Result | Check,
    *,
    rigorous: bool = False,
    reading: str = "stored",
) -> Check:
    """Verify a claim: the rigorous proof first, a numeric verdict only if that is allowed.

    A claim of the wrong shape is worth nothing, like any other wrong claim.
    """
    read = as_reading(reading)
    if wrong := not_ieee():
        return Check(problem, Verdict.UNDECIDED, None, None, wrong)
    try:
        cases = _cases(problem, claim, True, Tolerances())
        chained = _chained(problem, claim, True, Tolerances(), read)
    except ClaimError as error:
        return malformed(problem, error)
    with few_threads(problem.sides, problem.m):
        check = None if chained is None else chained.check()
        if check is None or (cases and check.verdict is Verdict.UNDECIDED):
            check = _both(check, judge(problem, cases, proof_modes(problem, read), read))
        if check.verdict is Verdict.UNDECIDED and not rigorous:
            numeric = judge(problem, cases, [Proof.NUMERIC], read)
            if numeric.verdict is not Verdict.UNDECIDED:
                return numeric
    return check


def malformed(problem: FeasibilityProblem, error: ClaimError) -> Check:
    """Return the check of a claim that does not even have the right shape."""
    reason = f"the backend handed in a malformed claim: {error}"
    return Check(problem, Verdict.UNDECIDED, None, None, reason, malformed=str(error))


def _chained(
    problem: FeasibilityProblem,
    claim: Claim | Result | Check,
    repair: bool,
    tolerances: Tolerances,
    reading: Reading,
) -> ChainCase | None:
    """Return the facial reduction certificate of a claim, if it holds one."""
    if claim.chain is None:
        return None
    return ChainCase(problem, claim.chain, reading, claim.point, repair, tolerances)


def _both(undecided: Check | None, other: Check) -> Check:
    """Return the check of the other evidence, with the reason why the chain proved nothing."""
    if undecided is None or other.verdict is not Verdict.UNDECIDED:
        return other
    return replace(other, reason=f"{undecided.reason}; {other.reason}")


def _cases(
    problem: FeasibilityProblem, claim: Claim | Result | Check, repair: bool, tolerances: Tolerances
) -> list[Case[Any]]:
    cases: list[Case[Any]] = []
    with np.errstate(all="ignore"):
        if claim.point is not None:
            cases.append(PointCase(problem, claim.point, repair, tolerances))
        if claim.certificate is not None:
            cases.append(CertificateCase(problem, claim.certificate, repair, tolerances))
    return cases
