"""Verification of claims: the only code that grants FEASIBLE and INFEASIBLE.

:func:`verify` checks a claim with one kind of proof, :func:`decide` with the strongest kind that succeeds.
The evidence of a claim is a point, dual multipliers or a facial reduction certificate; each is a proof
attempt (:mod:`sdpfeas.verifier.proof_attempts`, :func:`check_chain`). A verdict is granted if exactly one
attempt succeeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.claims import Chain, Claim, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.errors import ClaimError, LimitError
from sdpfeas.numerics.exact_arithmetic import Reading, as_reading
from sdpfeas.numerics.floating_point_environment import not_ieee
from sdpfeas.numerics.limits import limited
from sdpfeas.numerics.rounding import norm_upper
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.problem.reductions.faces import Faces, NotReduced
from sdpfeas.problem.reductions.redundant_rows import independent_rows
from sdpfeas.problem.reductions.rows_only import rows_only
from sdpfeas.verifier.exact import (
    contradiction,
    exact_certificate,
    exact_point,
    is_round,
    rational_evidence,
    read_alike,
    small_enough,
)
from sdpfeas.verifier.facial_reduction import Refused, Replay, replay
from sdpfeas.verifier.outcome import Outcome, Proof, Tolerances, refuse
from sdpfeas.verifier.proof_attempts import (
    BY_ROUNDING,
    CertificateAttempt,
    PointAttempt,
    ProofAttempt,
    proof_modes,
)
from sdpfeas.verifier.repair import repaired_points
from sdpfeas.verifier.results import Check, Result


def compare_readings(check: Check, points: list[Point]) -> Check:
    """Add to the reason of an exact verdict what holds for the other reading of the data, if that can be
    decided.

    ``points`` are points that nearly satisfy the problem.
    """
    other = Reading.STORED if check.reading is Reading.WRITTEN else Reading.WRITTEN
    if not small_enough(check.problem):
        return replace(check, reason=f"{check.reason}, as {check.reading}")
    try:
        if read_alike(check.problem):
            return check
        if _holds_too(check, other):
            return replace(check, reason=f"{check.reason}, as stored and as written")
        with np.errstate(all="ignore"):
            opposite = _opposite(check, points, other)
    except (LimitError, ArithmeticError, ValueError):  # the comparison is optional
        opposite = None
    if opposite is None:
        return replace(check, reason=f"{check.reason}, as {check.reading}")
    own = _with_margin(check.verdict, check.margin)
    return replace(check, reason=f"{own} as {check.reading}, {opposite} as {other}: {check.reason}")


def _with_margin(verdict: Verdict, margin: float | None) -> str:
    """Name a verdict; with its margin if it is INFEASIBLE."""
    return f"{verdict} by {margin:.2g}" if verdict is Verdict.INFEASIBLE else f"{verdict}"


def _holds_too(check: Check, other: Reading) -> bool:
    """Whether the same evidence, or evidence near it, proves the verdict in the other reading."""
    if check.rational is not None and rational_evidence(check.problem, check.rational, other).proven:
        return True
    if check.point is not None:
        return exact_point(check.problem, check.point, reading=other).proven
    if check.certificate is not None:
        return exact_certificate(check.problem, check.certificate, reading=other).proven
    return False


def _opposite(check: Check, points: list[Point], other: Reading) -> str | None:
    """Name the opposite verdict if it is proved in the other reading; else None."""
    if check.point is not None:
        found = contradiction(check.problem, check.point, other)
        return _with_margin(Verdict.INFEASIBLE, found.margin) if found.proven else None
    centre = tuple(block.interior_point() for block in check.problem.sets)
    repaired = (point for point, _ in repaired_points(check.problem, centre))
    for point in (*points, *repaired):
        if exact_point(check.problem, point, reading=other).proven:
            return str(Verdict.FEASIBLE)
    return None


#: Factor by which the size limit of exact proofs is raised on a face, where a rigorous proof often fails.
FACE_SIZE_FACTOR = 50.0

#: Note in the reason of a verdict, by reading.
READING_NOTE = {
    "stored": "",
    "written": ", for the numbers as written (the decimals or fractions that the doubles were rounded from)",
}


def undecided(problem: FeasibilityProblem, reason: str, reading: Reading = Reading.STORED) -> Check:
    """Return the check of a claim that proves nothing."""
    return Check(problem, Verdict.UNDECIDED, None, None, reason, reading=reading)


def check_chain(
    problem: FeasibilityProblem,
    chain: Chain,
    reading: Reading,
    point: Point | None = None,
    *,
    exact: bool = False,
    repair: bool = True,
    tolerances: Tolerances | None = None,
) -> Check:
    """Verify a facial reduction certificate in exact arithmetic, with a point on its last face if it has one.

    ``reading`` is the reading that was asked for: a chain about the other one proves nothing. Unless
    ``exact``, the point may also have a rigorous proof; ``repair`` allows small changes of it.
    """
    if not isinstance(chain, Chain):
        raise ClaimError(f"a chain must be a Chain, got {type(chain).__name__}")
    for k, step in enumerate(chain.steps):
        if step.shape != (problem.multiplier_count,):
            what = f"{problem.m} rows" + " and the entries of the LMIs" * bool(problem.lmis)
            raise ClaimError(f"step {k} of the chain has {step.size} multipliers for {what}")
    place = None if point is None else problem.point(point)
    try:
        if chain.reading != reading:
            raise Refused(f"it is about the numbers as {chain.reading}, not as {reading}, as was asked")
        done = replay(problem, chain)
        if done.contradiction:
            found = _contradiction_of(problem, done)
        elif place is None:
            raise Refused("it ends at a face, and the claim holds no point on it")
        else:
            found = _on_face(problem, done.faces, place, exact, repair, tolerances or Tolerances())
    except (Refused, NotReduced, LimitError) as error:
        return undecided(problem, f"chain: {error}", reading)
    found = replace(found, reason=found.reason + READING_NOTE[reading], chain=chain, reading=reading)
    return compare_readings(found, []) if found.verdict is Verdict.INFEASIBLE else found


def _contradiction_of(problem: FeasibilityProblem, done: Replay) -> Check:
    """Return INFEASIBLE: the last step has ``beta(y) > 0``."""
    count = len(done.steps) - 1
    last = "the multipliers rule out every point exactly"
    if count:
        last = (
            f"{count} step{'s' * (count > 1)} of a chain show{'s' * (count == 1)} that every point lies "
            "in a face of its sets, and on it the last multipliers rule out all, exactly"
        )
    return Check(problem, Verdict.INFEASIBLE, Proof.EXACT, done.steps[-1].share, last)


def _on_face(
    problem: FeasibilityProblem, faces: Faces, point: Point, exact: bool, repair: bool, tolerances: Tolerances
) -> Check:
    """Verify the point as a point of the problem restricted to the last face, and map it back."""
    if faces.reduction is None:
        return _only_zero(problem, faces)
    smaller, form = faces.reduction.problem, rows_only(problem)
    place = faces.coordinates(form.start_point(point))
    reasons = []
    for mode in [Proof.EXACT] if exact else [Proof.RIGOROUS, Proof.EXACT]:
        if mode is Proof.RIGOROUS:
            found = PointAttempt(smaller, place, repair, tolerances).check(mode)
        elif faces.rows.simple:
            found = exact_point(smaller, place, repair=repair, times=FACE_SIZE_FACTOR)
        else:
            found = refuse("the data on the face are neither short decimals nor simple fractions")
        if found.proven:
            shown = problem.point(
                form.point(faces.point(place if found.evidence is None else found.evidence))
            )
            check = Check(
                problem, Verdict.FEASIBLE, mode, found.margin, f"on a face of the sets, {found.reason}"
            )
            check = replace(check, repairs=found.repairs, point=shown)
            rational = None if found.rational is None else form.rational_point(faces.point(found.rational))
            radius = None if rational is None else rational_distance(shown, rational)
            return replace(check, rational=rational, radius=radius)
        reasons.append(found.reason)
    raise Refused(f"on the last face, {'; '.join(dict.fromkeys(reasons))}")


def _only_zero(problem: FeasibilityProblem, faces: Faces) -> Check:
    """Verify the point zero, the only one on the last face."""
    for low, high in zip(faces.lower, faces.upper, strict=True):
        if not ((low is None or low <= 0) and (high is None or high >= 0)):
            raise Refused("nothing but zero is left, and it misses a row")
    zero = tuple(np.zeros(block.shape) for block in problem.sets)
    reason = "nothing but zero is left, and it meets every row exactly"
    return Check(problem, Verdict.FEASIBLE, Proof.EXACT, 1.0, reason, point=zero, radius=0.0)


#: Norm of a point, relative to the least norm that a row demands, up to which it proves feasibility of data
#: that were rounded before they were stored. Points of weakly infeasible problems grow without bound as their
#: residuals vanish, and rounding of the data may turn them into exact points.
MODERATE_NORM = 100.0


def may_be_artefact(check: Check) -> bool:
    """Whether an exact verdict may rest on the rounding of data that are no short decimals or fractions.

    Infeasibility that holds despite rounding is proved in floating point, so every other is suspect.
    """
    problem = check.problem
    if check.reading is not Reading.STORED or is_round(problem):
        return False
    if check.point is None or problem.lmis:
        return True
    bounds, norms = largest_bound(problem), problem.norms
    demanded = np.max(bounds[norms > 0.0] / norms[norms > 0.0], initial=0.0)
    found = np.sqrt(sum(float(np.vdot(x, x)) for x in check.point))
    return bool(demanded > 0.0 and not found <= MODERATE_NORM * demanded)


def check_rational(
    problem: FeasibilityProblem, given: Any, reading: Reading = Reading.STORED, *, exact: bool = False
) -> Check:
    """Verify a point (a tuple) or dual multipliers (an array) in fractions, exactly as given.

    Unless ``exact``, a verdict that may be an artefact of rounded data is not granted.
    """
    try:
        found = rational_evidence(problem, given, reading)
    except LimitError as error:
        found = refuse(str(error))
    if not found.proven:
        return undecided(problem, f"rational evidence: {found.reason}", reading)
    verdict = Verdict.FEASIBLE if isinstance(given, tuple) else Verdict.INFEASIBLE
    check = _grant(problem, verdict, Proof.EXACT, found, reading)
    if not exact and may_be_artefact(check):
        reason = f"rational evidence: {check.verdict}, but only for the last digits of rounded data"
        return undecided(problem, reason, reading)
    return compare_readings(check, [])


def judge(
    problem: FeasibilityProblem,
    attempts: Iterable[ProofAttempt[Any]],
    modes: Iterable[Proof],
    reading: Reading = Reading.STORED,
) -> Check:
    """Make all proof attempts in one mode after the other, until exactly one succeeds."""
    attempts = list(attempts)
    if not attempts:
        return undecided(problem, "the claim holds neither a point nor a certificate", reading)
    reasons: dict[str, None] = {}
    # Hostile claims may overflow; every test refuses values that are not finite.
    with np.errstate(all="ignore"):
        for mode in modes:
            outcomes = [attempt.check(mode, reading) for attempt in attempts]
            granted = [
                _grant(problem, attempt.verdict, mode, found, reading)
                for attempt, found in zip(attempts, outcomes, strict=True)
                if found.proven
            ]
            if len(granted) > 1:
                return undecided(problem, "point and certificate both hold: too close to call", reading)
            if mode is not Proof.RIGOROUS:
                granted = _refute_point(problem, attempts, granted, mode, reading) or granted
            elif not granted and any(_may_contradict(*both) for both in zip(attempts, outcomes, strict=True)):
                granted = _dependent_equalities(problem, reading)
            if granted:
                (check, *_) = granted
                return compare_readings(check, _points(attempts)) if check.proof is Proof.EXACT else check
            reasons |= dict.fromkeys(outcome.reason for outcome in outcomes)
    return undecided(problem, "; ".join(reasons), reading)


def _refute_point(
    problem: FeasibilityProblem,
    attempts: list[ProofAttempt[Any]],
    granted: list[Check],
    mode: Proof,
    reading: Reading,
) -> list[Check]:
    """Return INFEASIBLE if rows active at a seemingly feasible point contradict each other exactly."""
    if mode is Proof.EXACT:
        wanted = not granted and any(attempt.repair for attempt in attempts)
    else:
        # A numeric verdict is no proof: no point is granted if the rows provably contradict each other.
        wanted = any(check.verdict is Verdict.FEASIBLE for check in granted)
        wanted = wanted and small_enough(problem) and (reading is Reading.WRITTEN or is_round(problem))
    if not wanted:
        return []
    for point in _points(attempts):
        with suppress(LimitError, np.linalg.LinAlgError):
            found = contradiction(problem, point, reading)
            if found.proven:
                return [_grant(problem, Verdict.INFEASIBLE, Proof.EXACT, found, reading)]
    return []


def _may_contradict(attempt: ProofAttempt[Any], outcome: Outcome) -> bool:
    """Whether a failed attempt suggests that the equality rows are inconsistent."""
    return attempt.repair and (outcome.dependent or attempt.verdict is Verdict.INFEASIBLE)


def _dependent_equalities(problem: FeasibilityProblem, reading: Reading) -> list[Check]:
    """Return INFEASIBLE if dependent equality rows contradict each other by more than the rounding of their
    data.
    """
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
    outcome = Outcome(True, margin, reason, evidence=y, rational=found.multipliers)
    return [_grant(problem, Verdict.INFEASIBLE, Proof.EXACT, outcome, reading)]


def _points(attempts: list[ProofAttempt[Any]]) -> list[Point]:
    return [attempt.evidence for attempt in attempts if isinstance(attempt, PointAttempt)]


def _grant(
    problem: FeasibilityProblem, verdict: Verdict, proof: Proof, found: Outcome, reading: Reading
) -> Check:
    """Turn a successful outcome into a check."""
    check = Check(problem, verdict, proof, found.margin, found.reason, found.repairs, reading=reading)
    check = replace(check, rational=found.rational, radius=found.radius)
    if verdict is Verdict.INFEASIBLE:
        return replace(check, certificate=found.evidence)
    if found.rational is not None:
        check = replace(check, radius=rational_distance(found.evidence, found.rational))
    return replace(check, point=found.evidence)


def rational_distance(point: Point, rational: Any) -> float:
    """Bound the Frobenius distance of a point from one in fractions."""
    off = [
        abs(Fraction(x) - r)
        for part, own in zip(point, rational, strict=True)
        for x, r in zip(part.reshape(-1).tolist(), own.reshape(-1), strict=True)
    ]
    return norm_upper(np.array([math.nextafter(float(d), math.inf) if d else 0.0 for d in off]))


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
        The problem, unscaled; ``sdpfeas.verify`` also accepts a ``cvxpy.Problem``.
    claim : Claim, Result or Check
        A point, dual multipliers, a facial reduction certificate, or several of these. For a cvxpy model it
        may be omitted: then the values of its variables and the dual values of its constraints are verified.
    rigorous : bool
        Accept only a rigorous proof (floating point with a bound on every rounding error) or, on small
        problems with short decimal data, an exact one. Otherwise residuals within the tolerances are enough;
        ``solve`` attempts these proofs first.
    exact : bool
        Accept only an exact proof (rational arithmetic); for small problems.
    repair : bool
        Try to repair a claim that nearly holds; ``repairs`` of the result lists the changes.
    tolerances : Tolerances, optional
        The tolerances to use.
    time_limit : float, optional
        Seconds. A step that is estimated to take longer is skipped, and the reason says so.
    reading : {"stored", "written"}
        Which numbers the verdict is about: the binary64 data, or the decimals and fractions they were rounded
        from; see ``docs/verdicts.md``. Proofs about the latter are exact, for small problems.

    Returns
    -------
    Check
        The verdict with its proof and margin; UNDECIDED, with the reason, if nothing is proved.

    Raises
    ------
    ClaimError
        If the claim does not have the shape that the problem requires. A wrong claim does not raise.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> builder = sf.ProblemBuilder()
    >>> builder.block("X", sf.PSD(2))
    >>> builder.row("trace", {"X": np.eye(2)}, equal=-1)
    >>> check = sf.verify(builder.build(), sf.Claim(certificate=np.array([-1.0])), rigorous=True)
    >>> print(check.verdict, check.proof)
    infeasible rigorous
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
        return undecided(problem, wrong)
    limit = None if time_limit is None else Deadline(time_limit)
    modes = [Proof.EXACT] if exact else proof_modes(problem, read) if rigorous else [Proof.NUMERIC]
    with limited(limit), few_threads(problem.sides, problem.m):
        return _verified(problem, claim, modes, read, exact=exact, repair=repair, tolerances=limits)


def decide(
    problem: FeasibilityProblem,
    claim: Claim | Result | Check,
    *,
    rigorous: bool = False,
    reading: str = "stored",
) -> Check:
    """Verify a claim: rigorous and exact proofs first, then numeric checks unless ``rigorous`` is set.

    Unlike :func:`verify` it returns UNDECIDED for a claim of the wrong shape.
    """
    read = as_reading(reading)
    if wrong := not_ieee():
        return undecided(problem, wrong)
    with few_threads(problem.sides, problem.m):
        try:
            modes = proof_modes(problem, read)
            return _verified(problem, claim, modes, read, numeric=not rigorous)
        except ClaimError as error:
            return malformed(problem, error)


def _verified(
    problem: FeasibilityProblem,
    claim: Claim | Result | Check,
    modes: list[Proof],
    reading: Reading,
    *,
    exact: bool = False,
    numeric: bool = False,
    repair: bool = True,
    tolerances: Tolerances | None = None,
) -> Check:
    """Verify the chain or the fractions of a claim, then its point and multipliers in the given modes.

    With ``numeric``, a numeric check is the last resort.
    """
    limits, check = tolerances or Tolerances(), None
    attempts: list[ProofAttempt[Any]] = []
    with np.errstate(all="ignore"):
        if claim.point is not None:
            attempts.append(PointAttempt(problem, claim.point, repair, limits))
        if claim.certificate is not None:
            attempts.append(CertificateAttempt(problem, claim.certificate, repair, limits))
    rational = claim.check.rational if isinstance(claim, Result) else claim.rational
    if claim.chain is not None:
        check = check_chain(
            problem, claim.chain, reading, claim.point, exact=exact, repair=repair, tolerances=limits
        )
    elif rational is not None:
        check = check_rational(problem, rational, reading, exact=exact)
    if check is not None and (check.verdict is not Verdict.UNDECIDED or not attempts):
        return check
    found = judge(problem, attempts, modes, reading)
    if numeric and found.verdict is Verdict.UNDECIDED:
        fallback = judge(problem, attempts, [Proof.NUMERIC], reading)
        found = found if fallback.verdict is Verdict.UNDECIDED else fallback
    if check is None or found.verdict is not Verdict.UNDECIDED:
        return found
    return replace(found, reason=f"{check.reason}; {found.reason}")


def malformed(problem: FeasibilityProblem, error: ClaimError) -> Check:
    """Return the check of a claim that has the wrong shape."""
    found = undecided(problem, f"the backend handed in a malformed claim: {error}")
    return replace(found, malformed=str(error))
