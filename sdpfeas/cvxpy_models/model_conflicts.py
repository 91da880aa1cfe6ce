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

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.registry import find_solver
from sdpfeas.claims import Claim, Verdict, claimed_verdict
from sdpfeas.cvxpy_models import CvxpyForm
from sdpfeas.cvxpy_models.blocks import Blocks
from sdpfeas.cvxpy_models.constraints import ConstraintRows
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import LimitError
from sdpfeas.families.level_set import LevelSet
from sdpfeas.numerics.cost_estimate import limited
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Sparse
from sdpfeas.verifier import decide
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
    needed: list[ConstraintRows] = []
    left = list(parts)
    while left:
        tried = left.pop()
        found = _multipliers(form, [*needed, *left], ask)
        if found is None:
            needed.append(tried)
            continue
        z = found
        # Constraints outside the new certificate are deleted too.
        active = {id(part) for part, _ in constraint_weights(form, z)}
        left = [part for part in left if id(part) in active]
        needed = [part for part in needed if id(part) in active]
    return z


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
    """Estimate the amount by one program, then prove slightly more feasible and slightly less infeasible."""
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
    lower, upper = 0.0, math.inf
    guess = _estimate_amount(family, deadline)
    if guess is None:
        # If no amount suffices, the model without the constraint is infeasible as well.
        keep = np.ones(form.canonical.b.size, dtype=bool)
        keep[part.main] = False
        without = Blocks(form.canonical.selected(keep)).problem()
        lower = math.inf if _is_proved(without, Verdict.INFEASIBLE, deadline) else 0.0
    else:
        for width in (0.5 * tol, 10.0 * tol, 100.0 * tol):
            more, less = guess * (1.0 + width) + 1e-9, guess * (1.0 - width)
            if math.isinf(upper) and _is_proved_at(family, more, Verdict.FEASIBLE, deadline):
                upper = more
            if lower == 0.0 and less > 0.0 and _is_proved_at(family, less, Verdict.INFEASIBLE, deadline):
                lower = less
    return Loosening(part.name, lower, upper, part.constraint, part.variable)


def _estimate_amount(family: LevelSet, deadline: Deadline) -> float | None:
    """Estimate the least amount by a cone solver, without proof; None if it finds none."""
    program = family.conic_program()
    backend = find_solver("clarabel").make()
    if not backend.available()[0]:
        backend = find_solver("spectral-ipm").make()
    try:
        with limited(deadline):
            claim = backend.maximise(program, Inquiry(program.problem, deadline=deadline, wanted="margin"))
    except LimitError:
        return None
    if claim.point is None or claimed_verdict(claim) is not Verdict.FEASIBLE:
        return None
    amount = -program.value(claim.point)
    return max(amount, 0.0) if math.isfinite(amount) else None


def _is_proved_at(family: LevelSet, amount: float, verdict: Verdict, deadline: Deadline) -> bool:
    """Whether a verdict is proved for an amount within the deadline."""
    if deadline.expired:
        return False
    return _is_proved(family.at(-amount), verdict, deadline)


def _is_proved(problem: FeasibilityProblem, verdict: Verdict, deadline: Deadline) -> bool:
    """Whether a verdict is proved for the data of a problem as stored."""
    return solve(problem, time_limit=deadline.limit, rigorous=True).check.verdict is verdict
