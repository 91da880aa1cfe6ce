"""Verify the claim of a cell in the parent process, and make the record that is stored.

The entry point is :func:`judge`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sdpfeas.claims import Claim, Stop, Verdict, claimed_verdict, pack_claim, unpack_claim
from sdpfeas.drivers.bracket import Bracket, relative_gap
from sdpfeas.errors import ClaimError, safe_text
from sdpfeas.families.bracket_file import SavedBracket, pack_bracket
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.io.result_files import SavedResult, pack_result, package_versions
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.study.cells import Cell, Record, Settings
from sdpfeas.study.dropin_process import ForeignFamily, call_worker
from sdpfeas.trials.trial import End, Run
from sdpfeas.verifier import decide
from sdpfeas.verifier.outcome import Proof
from sdpfeas.verifier.results import Check


def claim_error(problem: FeasibilityProblem, claim: Claim, verdict: Verdict) -> float | None:
    """Relative error of the claimed evidence for a verdict, before any repair; None without evidence.

    For a point: the larger one of the DIMACS errors 1 and 2 (Mittelmann, Math. Program. 2003), the norm of
    the violations of the rows, and the largest distance of a block from its set, relative to ``1 + ||b||`` as
    in CSDP and SDPT3; for LMIs ``b`` includes the constant terms. Solvers stop by errors of this kind. For a
    certificate: the largest violation of the sign conditions relative to the largest multiplier.
    """
    try:
        with np.errstate(all="ignore"):  # a claim may hold any numbers
            if verdict is Verdict.FEASIBLE and claim.point is not None:
                return _point_error(problem, problem.point(claim.point))
            if verdict is Verdict.INFEASIBLE and claim.certificate is not None:
                y = problem.multipliers(claim.certificate)
                largest = float(np.max(np.abs(y), initial=0.0))
                return (
                    float(np.max(sign_violation(problem, y), initial=0.0)) / largest if largest > 0 else None
                )
    except (ClaimError, np.linalg.LinAlgError):
        return None
    return None


def _point_error(problem: FeasibilityProblem, point: Point) -> float | None:
    value = problem.apply(point)
    if not all(np.isfinite(x).all() for x in (*point, value)):
        return None
    rows = np.linalg.norm(np.maximum(np.maximum(problem.lower - value, value - problem.upper), 0.0))
    members = [*zip(problem.sets, point, strict=True), *((a.set, a.value(point)) for a in problem.lmis)]
    worst = max(float(rows), *(float(block.distance(x)) for block, x in members))
    terms = [largest_bound(problem), *(lmi.constant for lmi in problem.lmis)]
    error = worst / (1.0 + math.sqrt(sum(float(np.linalg.norm(each)) ** 2 for each in terms)))
    return error if math.isfinite(error) else None


def judge(
    cell: Cell[Any, Any], problem: Any, run: Run, settings: Settings, *, keep_evidence: bool
) -> tuple[Record, bytes | None]:
    """Verify the claim of a run; return the record and, if it is kept, the packed evidence."""
    if run.end is End.TIMEOUT:
        late = settings.hard_limit - settings.time_limit
        return _failure(run, run.end, f"killed {late:.2g} s past its time limit"), None
    if run.end is not End.DONE:
        return _failure(run, run.end, run.detail), None
    try:
        return _judged(cell, problem, run, settings, keep_evidence)
    except Exception as error:  # noqa: BLE001 - a malformed claim must not end a study
        return _failure(run, End.ERROR, f"the claim cannot be judged: {safe_text(error)}"), None


def _failure(run: Run, end: End, detail: str) -> Record:
    return Record(
        outcome=end.value,
        reason=detail,
        explanation=f"UNDECIDED\n{end.value}: {detail}",
        solve_time=run.wall_time,
        peak_memory=run.peak_memory,
        log=run.log,
    )


def _judged(
    cell: Cell[Any, Any], problem: Any, run: Run, settings: Settings, keep_evidence: bool
) -> tuple[Record, bytes | None]:
    claim = run.value if isinstance(run.value, Claim) else unpack_claim(run.value)
    begin = time.perf_counter()
    verdict: dict[str, Any]
    evidence: bytes | None = None
    accuracy: float | None = None
    if isinstance(problem, FeasibilityProblem):
        check = _decide(problem, claim, settings)
        verdict = _verdict_of(problem, claim, check)
        if verdict["claimed"] == Verdict.FEASIBLE:
            accuracy = claim_error(problem, claim, Verdict.FEASIBLE)
        if keep_evidence:
            evidence = pack_result(_saved(cell, problem.content_hash, claim, check))
    else:
        question = pack_claim(claim), settings.tol, _about(cell, claim) if keep_evidence else None
        if isinstance(problem, ForeignFamily):
            target = f"{__name__}:judge_foreign"
            verdict, evidence = call_worker(target, str(problem.spec), (problem, question))
            verdict = _bracket_only(verdict)
        else:
            verdict, evidence = judge_bracket(problem, *question)
    spent = time.perf_counter() - begin
    outcome = End.ERROR.value if claim.stop is Stop.ERROR else run.end.value
    if claim.stop is Stop.UNSUPPORTED:
        outcome = "unsupported"
    record = Record(
        outcome=outcome,
        raw_status=claim.raw_status,
        stop=claim.stop.value,
        iterations=claim.iterations,
        solve_time=run.wall_time,
        cpu_time=run.cpu_time,
        verify_time=spent,
        peak_memory=run.peak_memory,
        info=_info_text({**claim.info, "dimacs_error": accuracy} if accuracy is not None else claim.info),
        log=run.log,
        **verdict,
    )
    return record, evidence


def _info_text(info: Mapping[str, Any]) -> str:
    """Serialise as JSON; infinite numbers and other values become text."""
    kinds = (bool, int, float, type(None))
    return json.dumps({
        key: value if isinstance(value, kinds) and math.isfinite(value or 0) else safe_text(value)
        for key, value in info.items()
    })  # fmt: skip


def _decide(problem: FeasibilityProblem, claim: Claim, settings: Settings) -> Check:
    try:
        return decide(problem, claim, rigorous=settings.rigorous)
    except Exception as error:  # noqa: BLE001 - a malformed claim must not end a study
        reason = f"verification failed: {safe_text(error)}"
        return Check(problem, Verdict.UNDECIDED, None, None, reason)


def _verdict_of(problem: FeasibilityProblem, claim: Claim, check: Check) -> dict[str, Any]:
    claimed = claimed_verdict(claim)
    decided = check.verdict is not Verdict.UNDECIDED
    reason = check.reason
    if not decided and claim.stop is not Stop.FINISHED:
        reason = f"{claim.stop}; {reason}"
    if claim.stop is Stop.ERROR:
        reason = claim.raw_status
    return {
        "verdict": check.verdict.value,
        "proof": None if check.proof is None else check.proof.value,
        "margin": check.margin,
        "claimed": None if claimed is None else claimed.value,
        "reason": reason,
        "explanation": check.explain(),
        "error": claim_error(problem, claim, check.verdict) if decided else None,
    }


def judge_foreign(asked: Any, start: Callable[..., None]) -> tuple[bool, Any]:
    """Prove the bracket of a family with foreign code; the target of a trial."""
    start()
    family, question = asked
    return True, judge_bracket(family.load(), *question)


def judge_bracket(
    family: ParametricFamily, packed: dict[str, Any], tol: float, about: dict[str, Any] | None
) -> tuple[dict[str, Any], bytes | None]:
    """Prove a claimed bracket; return the record and, given ``about``, the packed evidence."""
    verdict, ends = _bracket_of(family, unpack_claim(packed), tol)
    if about is None or ends is None:
        return verdict, None
    return verdict, pack_bracket(SavedBracket.of(family, *ends, **about))


def _bracket_only(reply: Any) -> dict[str, Any]:
    """Restrict the reply of a worker with foreign code to a bracket: it cannot grant other verdicts."""
    words = {name: safe_text(reply[name]) for name in ("reason", "explanation") if name in reply}
    numbers = {k: None if reply.get(k) is None else float(reply[k]) for k in ("error", "lower", "upper")}
    granted = reply.get("verdict") == "bracket"
    proof = reply.get("proof") if reply.get("proof") in (Proof.RIGOROUS.value, Proof.NUMERIC.value) else None
    claimed = "bracket" if reply.get("claimed") == "bracket" else None
    kind = {"verdict": "bracket" if granted else Verdict.UNDECIDED.value, "proof": proof if granted else None}
    return {**words, **numbers, **kind, "claimed": claimed}


#: Both ends of a bracket, each with its evidence.
Ends = tuple[tuple[float, Point | None], tuple[float, FloatArray | None]]


def _bracket_of(family: ParametricFamily, claim: Claim, tol: float) -> tuple[dict[str, Any], Ends | None]:
    bracket = Bracket(family, 0.0, 0.0, *family.bracket)
    try:
        bracket.offer_point(claim.point)
        bracket.offer_multipliers(claim.certificate)
        known = family.known
    except Exception as error:  # noqa: BLE001 - a malformed claim must not end a study
        return {"reason": f"verification failed: {safe_text(error)}"}, None
    lower, upper = bracket.lower, bracket.upper
    if known is not None:
        lower = upper = known.delta
    gap = relative_gap(lower, upper)
    narrow = gap <= tol * (1 + 1e-6)
    proof = Proof.RIGOROUS if known is None or known.proven else Proof.NUMERIC
    words = f"{lower:.9g} <= delta* <= {upper:.9g}, both ends proved; relative width {gap:.3g}"
    if known is not None:
        words = f"delta* = {known.delta:g}, known without a solve: {known.reason}"
    if claim.stop is Stop.ERROR:
        words = claim.raw_status
    ends = (
        (lower, bracket.point if bracket.lower == lower else None),
        (upper, bracket.certificate if bracket.upper == upper else None),
    )
    return {
        "verdict": "bracket" if narrow else Verdict.UNDECIDED.value,
        "proof": proof.value if narrow else None,
        "claimed": "bracket" if claim.stop is Stop.FINISHED else None,
        "reason": words,
        "explanation": f"{'BRACKET' if narrow else 'UNDECIDED'}\n{words}",
        "error": gap if math.isfinite(gap) else None,
        "lower": lower,
        "upper": upper,
    }, ends


def _saved(cell: Cell[Any, Any], problem_hash: str, claim: Claim, check: Check) -> SavedResult:
    return SavedResult(
        problem_hash=problem_hash,
        verdict=check.verdict.value,
        proof=None if check.proof is None else check.proof.value,
        point=claim.point if check.point is None else check.point,
        certificate=claim.certificate if check.certificate is None else check.certificate,
        rational=check.rational,
        chain=claim.chain if check.chain is None else check.chain,
        bound=check.bound,
        radius=check.radius,
        reading=check.reading.value,
        versions=package_versions(),
        **_about(cell, claim),
    )


def _about(cell: Cell[Any, Any], claim: Claim) -> dict[str, Any]:
    return {
        "backend": cell.solver.backend,
        "version": cell.solver.version,
        "options": cell.solver.options,
        "raw_status": claim.raw_status,
        "stop": claim.stop.value,
        "iterations": claim.iterations,
    }
