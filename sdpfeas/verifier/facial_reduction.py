"""Facial chains: multipliers that prove, one after the other, that every point lies in a smaller face.

``chain`` is what a claim holds, ``replay`` walks it in integers, ``case`` judges what is at its end, and
``words`` tells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from sdpfeas.claims import Chain
from sdpfeas.errors import LimitError
from sdpfeas.numerics.integer_matrices import negative_kernel, product, short_rows
from sdpfeas.numerics.linalg import eigvalsh
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.faces import Faces
from sdpfeas.problem.reductions.integer_rows import integral_rows
from sdpfeas.problem.reductions.rows_only import has_faces, rows_only, slack_rows

# ------------------------------------------------------------
# A chain walked in integers: every step is checked exactly, nothing is taken on trust.

#: Bits of a multiplier beyond which a chain is not looked at.
MOST_BITS = 2**20

#: Numbers that were rounded before they came here decide a step by no less than this, relative to their size.
ROBUST = 1e-9


class Refused(Exception):
    """A step of a chain proves nothing; the message says why."""


@dataclass(frozen=True)
class Step:
    """What one step of a chain came to.

    ``weights``: multipliers of the rows in integers. ``before, after``: the faces that it began with and
    leads to; the same where it contradicts all points. ``gap``: ``beta(y)``: positive if no point is left.
    ``share``: the same relative to the size of its terms.
    """

    weights: np.ndarray
    before: Faces
    after: Faces
    gap: Fraction
    share: float


@dataclass(frozen=True)
class Walk:
    """All steps of a chain, every one of them proved."""

    faces: Faces
    steps: tuple[Step, ...] = ()

    @property
    def contradiction(self) -> bool:
        """Whether the last step rules out all points."""
        return bool(self.steps) and self.steps[-1].gap > 0


def walk(problem: FeasibilityProblem, chain: Chain) -> Walk:
    """Walk a chain whose steps have one multiplier per row, and then one per entry of every LMI.

    The faces it leads to are those of the problem in rows alone.

    Raises ``Refused``: if a step proves nothing.
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

    ``faces``: a face of every set that holds all points. ``weights``: multipliers of the rows in integers.

    Raises ``Refused``: if they prove nothing.
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


# ------------------------------------------------------------
# A chain told step by step, in words.

#: How many names of rows or entries are listed.
LISTED = 4


def tell(problem: FeasibilityProblem, chain: Chain) -> list[str]:
    """Say what every step of a chain shows; nothing if it proves nothing."""
    try:
        steps = walk(problem, chain).steps
    except (Refused, LimitError):
        return []
    return [f"step {k}: {_told(problem, step)}" for k, step in enumerate(steps, 1)]


def _told(problem: FeasibilityProblem, step: Step) -> str:
    used = [int(i) for i in np.flatnonzero(step.weights != 0)]
    rows, one = _rows(problem, used)
    if step.gap > 0:
        if not any(image.any() for image in step.before.images(step.weights)):
            read = "reads" if one else "add up to"
            value = step.before.lower[used[0]] if step.weights[used[0]] > 0 else step.before.upper[used[0]]
            if len(used) > 1 or value is None:
                return f"on what is left {rows} {read} 0 = {step.gap}"
            return f"on what is left {rows} {read} 0 = {value / step.before.rows.scales[used[0]]}"
        return f"on what is left {rows} rule{'s' * one} out every point"
    shown = [text for b in range(len(step.before.bases)) if (text := _shrunk(problem, step, b))]
    if not shown:
        return f"{rows} hold{'s' * one} with equality"
    return f"{rows} force{'s' * one} " + "; ".join(shown)


def _shrunk(problem: FeasibilityProblem, step: Step, b: int) -> str:
    """What a step says about one block; nothing if it stays as it was."""
    before, after = step.before.bases[b], step.after.bases[b]
    if before is None or after is None or before.shape == after.shape:
        return ""
    own = b < len(problem.sets)
    if own:
        name = "X" if len(problem.sets) == 1 else f"block {problem.block_name(b)}"
    else:
        name = f"the value of LMI {problem.lmi_name(b - len(problem.sets))}"
    if own and problem.sets[b].shadow_of is not None and after.ndim == 2 and after.shape[1]:
        return f"{name} into a smaller face of its cone"
    if before.ndim == 1:
        gone = sorted(set(before.tolist()) - set(after.tolist()))
        return _listed([f"{name}[{i}]" for i in gone]) + " = 0"
    if not after.shape[1]:
        return f"{name} = 0"
    gone = np.flatnonzero(np.any(before != 0, axis=1) & ~np.any(after != 0, axis=1)).tolist()
    if len(gone) == before.shape[1] - after.shape[1]:
        lines = "its row and column" if len(gone) == 1 else "their rows and columns"
        return _listed([f"{name}[{i},{i}]" for i in gone]) + f" = 0, hence {lines}"
    return f"{name} into a face of side {after.shape[1]} (it was {before.shape[1]})"


def _rows(problem: FeasibilityProblem, used: Sequence[int]) -> tuple[str, bool]:
    """The rows and LMIs that take part, and whether that is one."""
    own = [problem.row_name(i) for i in used if i < problem.m]
    sources = slack_rows(problem)
    names = [problem.lmi_name(j) for j in sorted({sources[i - problem.m] for i in used if i >= problem.m})]
    rows = f"row{'s' * (len(own) > 1)} {_listed(own)}" if own else ""
    lmis = f"LMI{'s' * (len(names) > 1)} {_listed(names)}" if names else ""
    return " and ".join(filter(None, [rows, lmis])), len(own) + len(names) == 1


def _listed(names: Sequence[str]) -> str:
    if len(names) > LISTED:
        return ", ".join(names[:LISTED]) + f" and {len(names) - LISTED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
