"""The least by which a constraint has to be loosened for a model to have a point."""

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
from sdpfeas.cvxpy_models.constraints import Part
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

# ------------------------------------------------------------
# Conflicts of constraints that cannot be made smaller.

#: A constraint with less than this share in a certificate is rounding, and is not listed.
LEAST_SHARE = 1e-9


#: How much more than the next a step of a chain is made to weigh when steps are added up.
WEIGHTS = (1.0, 16.0, 256.0, 65536.0)


def shares(form: CvxpyForm, z: FloatArray) -> list[tuple[Part, float]]:
    """Parts of a model with their share in multipliers of its canonical form, heaviest first.

    ``z``: multipliers of all rows of its canonical form.
    """
    matrix = form.canonical.matrix
    norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    weights = np.abs(z) / (float(np.max(np.abs(z), initial=0.0)) or 1.0)
    weights *= np.where(norms > 0.0, norms, np.abs(form.canonical.b))
    owners = np.zeros(z.size)
    for part in form.parts:
        owners[part.rows] += 1.0
    weights /= np.maximum(owners, 1.0)
    found = [(part, float(weights[part.rows].sum())) for part in form.parts]
    # A function belongs to a constraint that has no multiplier itself only in name.
    found = [(part, weight) for part, weight in found if np.any(z[part.main])]
    total = sum(weight for _, weight in found) or 1.0
    found = [(part, weight / total) for part, weight in found if weight > LEAST_SHARE * total]
    return sorted(found, key=lambda each: -each[1])


def evidence(blocks: Blocks, check: Check, whole: FloatArray | None) -> FloatArray | None:
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
    for weight in WEIGHTS if before else WEIGHTS[:1]:
        total = sum((step * weight ** (len(before) - k) for k, step in enumerate(before)), last)
        if decide(check.problem, Claim(certificate=total)).verdict is Verdict.INFEASIBLE:
            return np.asarray(total)
    return None


def irreducible(
    form: CvxpyForm,
    parts: Sequence[Part],
    ask: Callable[[FeasibilityProblem], Result],
    z: FloatArray,
) -> FloatArray:
    """Leave out constraints, lightest first, as long as what is left is proved infeasible.

    ``z``: multipliers of the canonical form that prove it.

    Returns: such multipliers of the constraints that are left, zero for all others.
    """
    needed: list[Part] = []
    left = list(parts)
    while left:
        tried = left.pop()
        found = _multipliers(form, [*needed, *left], ask)
        if found is None:
            needed.append(tried)
            continue
        z = found
        # What has no part in the new contradiction goes with it.
        active = {id(part) for part, _ in shares(form, z)}
        left = [part for part in left if id(part) in active]
        needed = [part for part in needed if id(part) in active]
    return z


def _multipliers(
    form: CvxpyForm, parts: Sequence[Part], ask: Callable[[FeasibilityProblem], Result]
) -> FloatArray | None:
    """Multipliers that prove some constraints infeasible all by themselves; None if none were found."""
    keep = np.zeros(form.canonical.b.size, dtype=bool)
    for part in parts:
        keep[part.rows] = True
    if not keep.any():
        return None
    blocks = Blocks(form.canonical.selected(keep))
    check = ask(blocks.problem()).check
    found = evidence(blocks, check, farkas_certificate(check))
    if found is None:
        return None
    z = np.zeros(keep.size)
    z[keep] = found
    return z


@dataclass(frozen=True)
class Loosening:
    """How much a constraint is in the way, all others as they are.

    An inequality may be missed by the amount, an equation on both sides, a semidefinite constraint by that
    multiple of the identity.

    Attributes
    ----------
    name : str
        The constraint.
    lower, upper : float
        A bracket of the least amount: with ``upper`` there is a point, with less than ``lower`` there is
        none. Both are infinite where no amount is enough.
    constraint, variable : optional
        The constraint, or the variable whose attribute it is.
    """

    name: str
    lower: float
    upper: float
    constraint: Any = None
    variable: Any = None

    def __str__(self) -> str:
        """As advice."""
        if math.isfinite(self.upper):
            return f"loosen `{self.name}` by {self.upper:.4g}"
        if math.isinf(self.lower):
            return f"loosening `{self.name}` alone does not help"
        return f"loosening `{self.name}` by {self.lower:.4g} does not help; more was not proved to"


def loosenings(form: CvxpyForm, parts: Sequence[Part], tol: float, deadline: Deadline) -> list[Loosening]:
    """Bracket the least amount for some constraints, one by one.

    Parameters
    ----------
    form : CvxpyForm
        The model.
    parts : sequence of Part
        The constraints.
    tol : float
        Relative width of the brackets.
    deadline : Deadline
        Of everything.
    """
    found = []
    for k, part in enumerate(parts):
        if deadline.expired:
            break
        share = None if deadline.limit is None else deadline.left / (len(parts) - k)
        found.append(_loosening(form, part, tol, deadline.within(share)))
    return found


def _loosening(form: CvxpyForm, part: Part, tol: float, deadline: Deadline) -> Loosening:
    """Guess the amount by one program, then prove a little more enough and a little less too little."""
    blocks = Blocks(form.canonical.loosened(part.main), lmis=False)  # families have rows only
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
    guess = _guess(family, deadline)
    if guess is None:
        # Where no amount is enough, neither is leaving the constraint out.
        keep = np.ones(form.canonical.b.size, dtype=bool)
        keep[part.main] = False
        without = Blocks(form.canonical.selected(keep)).problem()
        lower = math.inf if _is(without, Verdict.INFEASIBLE, deadline) else 0.0
    else:
        for width in (0.5 * tol, 10.0 * tol, 100.0 * tol):
            more, less = guess * (1.0 + width) + 1e-9, guess * (1.0 - width)
            if math.isinf(upper) and _proved(family, more, Verdict.FEASIBLE, deadline):
                upper = more
            if lower == 0.0 and less > 0.0 and _proved(family, less, Verdict.INFEASIBLE, deadline):
                lower = less
    return Loosening(part.name, lower, upper, part.constraint, part.variable)


def _guess(family: LevelSet, deadline: Deadline) -> float | None:
    """The least amount as a cone solver believes it; None if it finds none."""
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


def _proved(family: LevelSet, amount: float, verdict: Verdict, deadline: Deadline) -> bool:
    """Whether a verdict is proved for an amount."""
    if deadline.expired:
        return False
    return _is(family.at(-amount), verdict, deadline)


def _is(problem: FeasibilityProblem, verdict: Verdict, deadline: Deadline) -> bool:
    """Whether a verdict is proved of a problem, its numbers as they are stored."""
    return solve(problem, time_limit=deadline.limit, rigorous=True).check.verdict is verdict
