"""What an exact verdict comes to in the other reading of the numbers: as stored, or as written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdpfeas.claims import Verdict
from sdpfeas.errors import LimitError
from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.decimals import Reading
from sdpfeas.numerics.rational import to_floats
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.verifier.exact import contradiction, exact_certificate, exact_point, small_enough
from sdpfeas.verifier.exact.eligibility import need_rationals, read_alike
from sdpfeas.verifier.exact.rational_rows import exact_rows
from sdpfeas.verifier.results import Check

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
