"""Conflicts of constraints that cannot be made smaller."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sdpfeas.io.cvxpy import CvxpyForm
from sdpfeas.io.cvxpy.blocks import Blocks
from sdpfeas.io.cvxpy.traced import Part
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.results import Result, Verdict

__all__ = ["irreducible", "shares"]

#: A constraint with less than this share in a certificate is rounding, and is not listed.
LEAST_SHARE = 1e-9


def shares(form: CvxpyForm, z: FloatArray) -> list[tuple[Part, float]]:
    """Parts of a model with their share in multipliers of its canonical form, heaviest first.

    Parameters
    ----------
    form : CvxpyForm
        The model.
    z : ndarray
        Multipliers of all rows of its canonical form.
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


def irreducible(
    form: CvxpyForm,
    parts: Sequence[Part],
    ask: Callable[[FeasibilityProblem], Result],
    z: FloatArray,
) -> FloatArray:
    """Leave out constraints, lightest first, as long as what is left is proved infeasible.

    Parameters
    ----------
    form : CvxpyForm
        The model.
    parts : sequence of Part
        A conflict, heaviest first.
    ask : callable
        Answers a problem.
    z : ndarray
        Multipliers of the canonical form that prove it.

    Returns
    -------
    ndarray
        Such multipliers of the constraints that are left, zero for all others.
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
    if check.verdict is not Verdict.INFEASIBLE or check.certificate is None:
        return None
    z = np.zeros(keep.size)
    z[keep] = blocks.row_multipliers(check.certificate)
    return z
