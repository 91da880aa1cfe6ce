"""Explain infeasible cvxpy models: constraints in conflict, and the least relaxation of each.

:func:`constraint_weights` lists the constraints of a Farkas certificate, :func:`irreducible_conflict` reduces
them to an irreducible infeasible subsystem by deletion, and :func:`bracket_loosenings` brackets the amount by
which one constraint must be relaxed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.claims import Claim, Verdict
from sdpfeas.cvxpy_models import CvxpyForm
from sdpfeas.cvxpy_models.blocks import Blocks
from sdpfeas.cvxpy_models.constraints import ConstraintRows
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bisection import bisect, one_shot
from sdpfeas.drivers.solve import solve
from sdpfeas.families.level_set import LevelSet
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Sparse
from sdpfeas.verifier import decide
from sdpfeas.verifier.conflicts import deletion_filter
from sdpfeas.verifier.results import Check, Result

#: Constraints with a smaller share of a certificate are rounding errors, and are not listed.
MIN_WEIGHT = 1e-9

#: Weights tried for each step of a facial reduction certificate relative to the next, when steps are added.
STEP_WEIGHTS = (1.0, 16.0, 256.0, 65536.0)


def constraint_weights(form: CvxpyForm, z: FloatArray) -> list[tuple[ConstraintRows, float]]:
    """Return constraints with their share of multipliers ``z`` of all rows, heaviest first."""
    matrix = form.canonical.matrix
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    weights = np.abs(z) / (float(np.max(np.abs(z), initial=0.0)) or 1.0)
    weights *= np.where(norms > 0.0, norms, np.abs(form.canonical.b))
    owners = np.zeros(z.size)
    for part in form.parts:
        owners[part.rows] += 1.0
    weights /= np.maximum(owners, 1.0)
    found = [(part, float(weights[part.rows].sum())) for part in form.parts]
    # Rows of an atom alone do not make its constraint part of the conflict.
    found = [(part, weight) for part, weight in found if np.any(z[part.main])]
    total = sum(weight for _, weight in found) or 1.0
    found = [(part, weight / total) for part, weight in found if weight > MIN_WEIGHT * total]
    return sorted(found, key=lambda each: -each[1])


def infeasibility_multipliers(blocks: Blocks, check: Check, whole: FloatArray | None) -> FloatArray | None:
    """Return multipliers of a canonical form that prove it infeasible; None without such a proof.

    ``whole`` is the Farkas certificate of the problem (see :func:`farkas_certificate`). Without one, a facial
    reduction certificate of several steps remains: then the absolute multipliers of all steps, each scaled to
    a maximum of one, are added up. They identify the constraints that take part.
    """
    if check.verdict is not Verdict.INFEASIBLE:
        return None
    if whole is not None:
        return blocks.row_multipliers(whole)
    steps = () if check.chain is None else check.chain.steps
    found = [np.abs(blocks.row_multipliers(step.astype(float))) for step in steps]
    return np.sum([z / (float(np.max(z)) or 1.0) for z in found], axis=0) if found else None


def farkas_certificate(check: Check) -> FloatArray | None:
    """Return a Farkas certificate: the one of the check, or the steps of its chain added up and verified.

    A weakly infeasible problem has none. Every attempt costs a verification.
    """
    if check.certificate is not None or check.chain is None or check.verdict is not Verdict.INFEASIBLE:
        return check.certificate
    *before, last = (step.astype(float) for step in check.chain.steps)
    for weight in STEP_WEIGHTS if before else STEP_WEIGHTS[:1]:
        total = sum((step * weight ** (len(before) - k) for k, step in enumerate(before)), last)
        if decide(check.problem, Claim(certificate=total)).verdict is Verdict.INFEASIBLE:
            return np.asarray(total)
    return None


def irreducible_conflict(
    form: CvxpyForm,
    parts: Sequence[ConstraintRows],
    ask: Callable[[FeasibilityProblem], Result],
    z: FloatArray,
) -> FloatArray:
    """Delete constraints, lightest first, as long as the rest is proved infeasible.

    ``z`` are multipliers that prove infeasibility. Returns such multipliers of the remaining constraints,
    zero for the others.
    """
    place = {id(part): k for k, part in enumerate(parts)}

    def members(z: FloatArray) -> list[int]:
        listed = (place.get(id(part)) for part, _ in reversed(constraint_weights(form, z)))
        return [k for k in listed if k is not None]

    def without(z: FloatArray, dropped: list[int]) -> FloatArray | None:
        return _multipliers(form, [parts[k] for k in members(z) if k not in dropped], ask)

    return deletion_filter(z, members, without)


def _multipliers(
    form: CvxpyForm, parts: Sequence[ConstraintRows], ask: Callable[[FeasibilityProblem], Result]
) -> FloatArray | None:
    """Return multipliers that prove some constraints infeasible without the others; None without a proof."""
    keep = np.zeros(form.canonical.b.size, dtype=bool)
    for part in parts:
        keep[part.rows] = True
    if not keep.any():
        return None
    blocks = Blocks(form.canonical.selected(keep))
    check = ask(blocks.problem()).check
    found = infeasibility_multipliers(blocks, check, farkas_certificate(check))
    if found is None:
        return None
    z = np.zeros(keep.size)
    z[keep] = found
    return z


@dataclass(frozen=True)
class Loosening:
    """The least relaxation of a constraint that makes a model feasible, with all others unchanged.

    An inequality is relaxed by the amount, an equation on both sides, a semidefinite constraint by that
    multiple of the identity.

    Attributes
    ----------
    name : str
        The constraint.
    lower, upper : float
        A bracket of the least amount: ``upper`` makes the model feasible, less than ``lower`` does not. Both
        are infinite if no amount does.
    constraint, variable : optional
        The constraint, or the variable with the attribute.
    """

    name: str
    lower: float
    upper: float
    constraint: Any = None
    variable: Any = None

    def __str__(self) -> str:
        """Return the advice in one line."""
        if math.isfinite(self.upper):
            return f"loosen `{self.name}` by {self.upper:.4g}"
        if math.isinf(self.lower):
            return f"loosening `{self.name}` alone does not help"
        return f"loosening `{self.name}` by {self.lower:.4g} does not help; more was not proved to"


def bracket_loosenings(
    form: CvxpyForm, parts: Sequence[ConstraintRows], tol: float, deadline: Deadline
) -> list[Loosening]:
    """Bracket the least relaxation of some constraints, one by one, to a relative width ``tol``."""
    found = []
    for k, part in enumerate(parts):
        if deadline.expired:
            break
        share = None if deadline.limit is None else deadline.left / (len(parts) - k)
        found.append(_bracket_loosening(form, part, tol, deadline.within(share)))
    return found


def _bracket_loosening(form: CvxpyForm, part: ConstraintRows, tol: float, deadline: Deadline) -> Loosening:
    """Bracket the least amount as the maximum of minus the amount."""
    blocks = Blocks(form.canonical.loosened(part.main), lmis=False)  # level sets have rows only
    problem = blocks.problem()
    goal = [-back[[-1]] for back in blocks.back()]
    family = LevelSet(
        problem.sets,
        [
            Sparse(sp.csr_array(row), block.n, block.matrix) if row.nnz else None
            for row, block in zip(goal, problem.sets, strict=True)
        ],
        problem.rows,
        problem.lower,
        problem.upper,
        bracket=(-np.inf, 0.0),
    )
    # If no amount suffices, the model without the constraint is infeasible as well.
    keep = np.ones(form.canonical.b.size, dtype=bool)
    keep[part.main] = False
    without = Blocks(form.canonical.selected(keep)).problem()
    verdict = solve(without, time_limit=deadline.limit, rigorous=True).verdict
    lower = upper = math.inf
    if verdict is not Verdict.INFEASIBLE:
        # A bisection would try ever larger amounts if none suffices.
        search = bisect if verdict is Verdict.FEASIBLE else one_shot
        found = search(family, "auto", tol, time_limit=deadline.limit)
        lower, upper = 0.0 - found.upper, 0.0 - found.lower
    return Loosening(part.name, lower, upper, part.constraint, part.variable)
