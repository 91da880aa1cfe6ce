"""Conflicts of constraints that cannot be made smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sdpfeas.cvxpy_models import CvxpyForm
from sdpfeas.cvxpy_models.blocks import Blocks
from sdpfeas.cvxpy_models.constraints import Part
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier import decide
from sdpfeas.verifier.results import Check, Claim, Result
from sdpfeas.verifier.verdicts import Verdict

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


def evidence(blocks: Blocks, check: Check) -> FloatArray | None:
    """Multipliers of a canonical form that prove it infeasible; None without such a proof.

    A chain of several steps has no multipliers that do it at once: what comes back then are the sizes of
    those of all its steps, which tell the constraints that have a part in it.

    ``check``: what was proved of their problem.
    """
    if check.verdict is not Verdict.INFEASIBLE:
        return None
    whole = contradiction(check)
    if whole is not None:
        return blocks.row_multipliers(whole)
    steps = () if check.chain is None else check.chain.steps
    found = [np.abs(blocks.row_multipliers(step.astype(float))) for step in steps]
    return np.sum([z / (float(np.max(z)) or 1.0) for z in found], axis=0) if found else None


def contradiction(check: Check) -> FloatArray | None:
    """Multipliers that rule out every point at once: a certificate, or the steps of a chain added up.

    There are none where infeasibility is weak; then a chain is all there is.
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
    found = evidence(blocks, ask(blocks.problem()).check)
    if found is None:
        return None
    z = np.zeros(keep.size)
    z[keep] = found
    return z
