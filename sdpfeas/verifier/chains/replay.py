"""A chain walked in integers: every step is checked exactly, nothing is taken on trust."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sdpfeas.numerics.integers import negative_kernel, product, short_rows
from sdpfeas.numerics.linalg import eigvalsh
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.faces import Faces
from sdpfeas.problem.reductions.integral import integral_rows
from sdpfeas.problem.reductions.rows_only import has_faces, rows_only
from sdpfeas.verifier.chains.chain import Chain

__all__ = ["Refused", "Step", "Walk", "expose", "walk"]

#: Bits of a multiplier beyond which a chain is not looked at.
MOST_BITS = 2**20

#: Numbers that were rounded before they came here decide a step by no less than this, relative to their size.
ROBUST = 1e-9


class Refused(Exception):
    """A step of a chain proves nothing; the message says why."""


@dataclass(frozen=True)
class Step:
    """What one step of a chain came to.

    Attributes
    ----------
    weights : ndarray
        Multipliers of the rows in integers.
    before, after : Faces
        The faces that it began with and leads to; the same where it contradicts all points.
    gap : Fraction
        ``beta(y)``: positive if no point is left.
    share : float
        The same relative to the size of its terms.
    """

    weights: np.ndarray
    before: Faces
    after: Faces
    gap: Fraction
    share: float


@dataclass(frozen=True)
class Walk:
    """All steps of a chain, every one of them proved.

    Attributes
    ----------
    faces : Faces
        Where it ends.
    steps : tuple of Step
        The steps.
    """

    faces: Faces
    steps: tuple[Step, ...] = ()

    @property
    def contradiction(self) -> bool:
        """Whether the last step rules out all points."""
        return bool(self.steps) and self.steps[-1].gap > 0


def walk(problem: FeasibilityProblem, chain: Chain) -> Walk:
    """Walk a chain whose steps have one multiplier per row, and then one per entry of every LMI.

    The faces it leads to are those of the problem in rows alone.

    Raises
    ------
    Refused
        If a step proves nothing.
    """
    if not has_faces(problem, chain.reading):
        raise Refused("a chain is about sets whose faces are known, and numbers that none of its rows rounds")
    for k, y in enumerate(chain.steps):
        if max((max(v.numerator.bit_length(), v.denominator.bit_length()) for v in y), default=0) > MOST_BITS:
            raise Refused(f"step {k + 1}: its numbers are too long")
    posed = rows_only(problem)
    rows = integral_rows(posed.problem, chain.reading)
    done = Walk(Faces.whole(rows))
    for k, y in enumerate(chain.steps):
        if done.contradiction:
            raise Refused(f"step {k + 1} comes after a contradiction")
        try:
            step = expose(done.faces, rows.weights(posed.forth(y)))
        except Refused as refusal:
            raise Refused(f"step {k + 1}: {refusal}") from None
        done = Walk(step.after, (*done.steps, step))
    return done


def expose(faces: Faces, weights: np.ndarray) -> Step:
    """Prove what multipliers say about all points on a face.

    Parameters
    ----------
    faces : Faces
        A face of every set that holds all points.
    weights : ndarray
        Multipliers of the rows in integers.

    Raises
    ------
    Refused
        If they prove nothing.
    """
    problem = faces.problem
    rows = faces.rows
    gap, size = Fraction(0), Fraction(0)
    for i in np.flatnonzero(weights != 0):
        bound = faces.lower[i] if weights[i] > 0 else faces.upper[i]
        if bound is None:
            raise Refused(f"the multiplier of row {problem.row_name(int(i))} has a forbidden sign")
        gap += int(weights[i]) * Fraction(bound)
        size += abs(int(weights[i]) * Fraction(bound))
    if gap < 0:
        raise Refused("beta(y) is negative")
    bases = list(faces.bases)
    images = list(faces.images(weights))
    for b, image in enumerate(images):
        bases[b] = _smaller(bases[b], image, f"block {problem.block_name(b)}")
    # A step that is made of simple numbers only hangs on no other.
    if not all(rows.firm[i] for i in np.flatnonzero(weights != 0)):
        _require_robust(faces, weights, images, gap, size)
    share = float(gap / size) if size else 0.0
    if gap > 0:
        return Step(weights, faces, faces, gap, share)
    lower, upper = list(faces.lower), list(faces.upper)
    for i in np.flatnonzero(weights != 0):
        bound = lower[i] if weights[i] > 0 else upper[i]
        lower[i] = upper[i] = bound
    after = replace(faces, bases=tuple(bases), lower=tuple(lower), upper=tuple(upper))
    if after.sizes == faces.sizes and after.lower == faces.lower and after.upper == faces.upper:
        raise Refused("it leads to no smaller face")
    return Step(weights, faces, after, gap, share)


def _smaller(basis: np.ndarray | None, image: np.ndarray, what: str) -> np.ndarray | None:
    """The part of a face that is orthogonal to an image of the rows, which has to be non-positive on it."""
    if basis is None:
        if image.any():
            raise Refused(f"A*y does not vanish on {what}")
        return None
    if not image.any():
        return basis
    if basis.ndim == 1:
        if (image > 0).any():
            raise Refused(f"A*y is positive somewhere on {what}")
        return basis[image == 0]
    found = negative_kernel(image)
    if found is None:
        raise Refused(f"A*y is not negative semidefinite on {what}")
    if not found.size:
        return basis[:, :0]
    return short_rows(product(basis, found).T).T


def _require_robust(
    faces: Faces, weights: np.ndarray, images: list[np.ndarray], gap: Fraction, size: Fraction
) -> None:
    """Refuse a step that hangs on the last digits of numbers that were rounded before they came here.

    What may be used are zeros: bounds that are zero, entries that are zero in every row that takes part. On
    the others the step has to hold with room to spare.
    """
    used = [int(i) for i in np.flatnonzero(weights != 0)]
    ends = [faces.lower[i] if weights[i] > 0 else faces.upper[i] for i in used]
    if any(ends) if gap == 0 else gap < ROBUST * size:
        raise Refused("its two sides hang on the last digits of the bounds")
    for b, (basis, image) in enumerate(zip(faces.bases, images, strict=True)):
        if basis is not None and basis.ndim == 2 and any(np.count_nonzero(basis, axis=0) != 1):
            raise Refused("the face reached is none of entries that are zero")
        terms = np.zeros(image.shape, dtype=object)
        for i in used:
            terms = terms + abs(faces.row(b, i)) * abs(int(weights[i]))
        alive = np.any(image != 0, axis=-1) if image.ndim == 2 else image != 0
        if terms[~alive].any():
            raise Refused("entries cancel by chance")
        if not alive.any():
            continue
        unit = Fraction(max(int(v) for v in terms.reshape(-1)))
        near = (image / unit).astype(np.float64)
        largest = eigvalsh(near[np.ix_(alive, alive)])[-1] if image.ndim == 2 else np.max(near[alive])
        if not largest < -ROBUST:
            raise Refused("definiteness hangs on the last digits")
