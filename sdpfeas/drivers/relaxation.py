"""Bracket the least relaxation of an infeasible problem, as feasOpt and feasRelax do, with proofs.

A row gets a slack for each of its bounds, an LMI into a cone a multiple of the interior direction of the
cone: the identity, the axis of a second-order cone, a slack for every entry of a nonnegative vector. The
least weighted sum of the slacks is an optimal value, which :func:`~.optimum.optimum` brackets
(:func:`relax_problem`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.deadline import Deadline
from sdpfeas.drivers.optimum import Optimum, optimum
from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import Nonneg
from sdpfeas.problem.validation import distinct
from sdpfeas.verifier.conflicts import WIDENING, Loosening, Relaxation

#: A constraint whose weighted loosening is below this share of the total is not loosened, if the others
#: suffice: iterates of interior-point methods have no zeros.
NEGLIGIBLE_SHARE = 1e-5

#: Brackets of sums below this are closed.
ABSOLUTE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class LooseningSettings:
    """Relative width of the bracket, reading of the data, and time limit."""

    tol: float
    reading: str
    deadline: Deadline


def is_loosenable(problem: FeasibilityProblem, k: int) -> bool:
    """Whether a row has a finite bound, or an LMI a cone; LMIs are numbered after the rows."""
    if k >= problem.m:
        return problem.lmis[k - problem.m].set.cone
    return bool(np.isfinite(problem.lower[k]) or np.isfinite(problem.upper[k]))


def constraint_name(problem: FeasibilityProblem, k: int) -> str:
    """Return the name of a row or LMI; LMIs are numbered after the rows."""
    return problem.row_name(k) if k < problem.m else problem.lmi_name(k - problem.m)


def relax_problem(
    problem: FeasibilityProblem, weights: Mapping[int, float], settings: LooseningSettings
) -> Relaxation:
    """Bracket the least weighted sum of loosenings of rows and LMIs (numbered after the rows)."""
    found, amounts = least_loosenings(problem, weights, settings)
    loosenings = [Loosening(constraint_name(problem, k), float(a.sum()), a) for k, a in amounts.items()]
    names = [constraint_name(problem, k) for k in weights]
    return as_relaxation(found, loosenings, names, settings, lambda: widened(problem, amounts))


def as_relaxation(
    found: Optimum,
    loosenings: Sequence[Loosening],
    names: Sequence[str],
    settings: LooseningSettings,
    build: Callable[[], Any],
) -> Relaxation:
    """Return the bracket of an optimal value as a relaxation."""
    reason = found.reason
    if found.infeasible is not None:
        reason = f"no loosening of these constraints suffices: {found.infeasible.reason}"
    heaviest = sorted(loosenings, key=lambda each: -each.amount)
    return Relaxation(
        max(found.lower, 0.0),
        found.upper,
        tuple(heaviest),
        tuple(names),
        found.converged,
        reason,
        settings.deadline.elapsed,
        build,
    )


def least_loosenings(
    problem: FeasibilityProblem, weights: Mapping[int, float], settings: LooseningSettings
) -> tuple[Optimum, dict[int, FloatArray]]:
    """Bracket the least weighted sum; also return the amounts of the constraints that are loosened.

    Constraints with negligible amounts are fixed, if the bracket is as good without them.
    """
    found, amounts = _bracket(problem, weights, settings)
    sizes = {k: weights[k] * float(amount.sum()) for k, amount in amounts.items()}
    least = max(NEGLIGIBLE_SHARE * sum(sizes.values()), ABSOLUTE_TOLERANCE)
    heavy = {k: weights[k] for k, size in sizes.items() if size > least}
    if heavy and len(heavy) < len(weights) and not settings.deadline.expired:
        again, fewer = _bracket(problem, heavy, settings)
        if again.upper <= found.upper + max(settings.tol * abs(found.upper), ABSOLUTE_TOLERANCE):
            width = again.upper - found.lower
            closed = width <= max(settings.tol * abs(again.upper), ABSOLUTE_TOLERANCE)
            upper, converged = min(found.upper, again.upper), found.converged or closed
            reason = (again if converged else found).reason
            return replace(found, upper=upper, converged=converged, reason=reason), fewer
    return found, {k: amount for k, amount in amounts.items() if amount.any()}


def _bracket(
    problem: FeasibilityProblem, weights: Mapping[int, float], settings: LooseningSettings
) -> tuple[Optimum, dict[int, FloatArray]]:
    """Minimise the weighted sum of the slacks; also return the amounts of every constraint at the point."""
    loosened, owners = with_loosenings(problem, list(weights))
    cost = np.array([weights[k] for k in owners])
    terms = (*(np.zeros(block.shape) for block in problem.sets), cost)
    found = optimum(
        loosened,
        Objective(terms, "min"),
        settings.tol,
        time_limit=settings.deadline.limit,
        absolute_tol=ABSOLUTE_TOLERANCE,
        reading=settings.reading,
    )
    if found.point is None:
        return found, {}
    amounts = np.maximum(found.point[-1], 0.0)
    return found, {k: amounts[np.asarray(owners) == k] for k in weights}


def with_loosenings(
    problem: FeasibilityProblem, chosen: Sequence[int]
) -> tuple[FeasibilityProblem, list[int]]:
    """Return the problem with a nonnegative block of loosenings, and the constraint of each of its entries.

    ``lower <= A(X) <= upper`` → ``lower <= A(X) + q - p <= upper``; ``F(X) in C`` → ``F(X) + t·D in C`` with
    ``D`` the identity, the axis of a second-order cone, or one direction per entry of a nonnegative vector.
    """
    owners, places, signs = list[int](), list[int](), list[float]()
    directions = dict[int, tuple[int, Any]]()
    for k in chosen:
        if not is_loosenable(problem, k):
            raise ProblemError(
                f"{constraint_name(problem, k)} cannot be loosened: it has no bound and no cone"
            )
        if k >= problem.m:
            target = problem.lmis[k - problem.m].set
            ways = _directions(target)
            directions[k - problem.m] = len(owners), ways
            owners += [k] * ways.shape[0]
            continue
        for bound, sign in ((problem.lower[k], 1.0), (problem.upper[k], -1.0)):
            if math.isfinite(bound):
                places.append(len(owners))
                signs.append(sign)
                owners.append(k)
    rows_of = [owners[place] for place in places]
    slack = sp.csr_array((signs, (rows_of, places)), shape=(problem.m, len(owners)))
    lmis = []
    for j, lmi in enumerate(problem.lmis):
        own = None
        if j in directions:
            start, ways = directions[j]
            own = sp.vstack(
                [
                    sp.csr_array((start, lmi.set.entries)),
                    ways,
                    sp.csr_array((len(owners) - start - ways.shape[0], lmi.set.entries)),
                ],
                format="csr",
            )
        lmis.append(LMI(lmi.set, lmi.constant, [*lmi.coefficients, own], lmi.name))
    names = problem.block_names
    made = FeasibilityProblem(
        [*problem.sets, Nonneg(len(owners))],
        [*problem.rows, slack if slack.nnz else None],
        problem.lower,
        problem.upper,
        problem.row_names,
        None if names is None else [*names, *distinct(["loosening"], list(names))],
        lmis,
    )
    return made, owners


def _directions(target: Any) -> Any:
    """Return the interior directions of a cone, one per row."""
    if target.entrywise:
        return sp.eye_array(target.n, format="csr")
    # Of a second-order cone the identity is a multiple of its axis.
    return sp.csr_array(np.sign(target.identity()).reshape(1, -1))


def widened(problem: FeasibilityProblem, amounts: Mapping[int, FloatArray]) -> FeasibilityProblem:
    """Return the problem with constraints loosened by a little more than these amounts."""
    lower, upper, lmis = np.array(problem.lower), np.array(problem.upper), list(problem.lmis)
    for k, amount in amounts.items():
        wide = (1.0 + WIDENING) * amount
        if k >= problem.m:
            lmi = problem.lmis[k - problem.m]
            moved = (_directions(lmi.set).T @ wide).reshape(lmi.set.shape)
            lmis[k - problem.m] = LMI(lmi.set, lmi.constant + moved, lmi.coefficients, lmi.name)
            continue
        below = wide[0] if math.isfinite(lower[k]) else 0.0
        upper[k] += wide[-1] if math.isfinite(upper[k]) else 0.0
        lower[k] -= below
    names = problem.row_names, problem.block_names
    return FeasibilityProblem(problem.sets, problem.rows, lower, upper, *names, lmis)
