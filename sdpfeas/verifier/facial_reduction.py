"""Verification of facial reduction certificates (:class:`sdpfeas.Chain`) in integer arithmetic.

Facial reduction (Borwein and Wolkowicz 1981; Pataki 2013; Waki and Muramatsu 2013; Theorem 2 of
docs/mathematics.md): if ``y`` has allowed signs, ``beta(y) = 0`` and ``A*y`` is negative semidefinite on a
face that contains all feasible points, then all of them lie in the smaller face orthogonal to ``A*y``, the
exposing vector. If ``beta(y) > 0`` there is no feasible point. :func:`replay` checks every step exactly,
:func:`expose_face` is one step, and :func:`describe_chain` explains a certificate in words.
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

#: Longest numerator or denominator of a multiplier that is verified, in bits: bounds the cost of hostile
#: claims.
MAX_MULTIPLIER_BITS = 2**20

#: Relative margin of a step that uses data other than short decimals and simple fractions. Such data were
#: rounded before they were stored, so a smaller margin may be an artefact.
ROBUST = 1e-9


class Refused(Exception):
    """Raised if a step of a chain proves nothing; the message gives the reason."""


@dataclass(frozen=True)
class FacialStep:
    """One verified step of a facial reduction certificate.

    ``weights`` are the multipliers of the rows as integers. ``before`` and ``after`` are the faces before and
    after the step; they are equal if the step proves infeasibility. ``gap`` is ``beta(y)``, which is positive
    if there is no feasible point, and ``share`` is ``gap`` relative to its terms.
    """

    weights: np.ndarray
    before: Faces
    after: Faces
    gap: Fraction
    share: float


@dataclass(frozen=True)
class Replay:
    """The verified steps of a facial reduction certificate, and the last face."""

    faces: Faces
    steps: tuple[FacialStep, ...] = ()

    @property
    def contradiction(self) -> bool:
        """Whether the last step proves infeasibility."""
        return bool(self.steps) and self.steps[-1].gap > 0


def replay(problem: FeasibilityProblem, chain: Chain) -> Replay:
    """Verify all steps of a chain; raises ``Refused`` if one of them proves nothing.

    The faces are those of the problem with LMIs and vector cones rewritten as rows on semidefinite blocks
    (:func:`rows_only`).
    """
    if not has_faces(problem, chain.reading):
        raise Refused("facial reduction needs cones with known faces, and rows that can be written exactly")
    for k, y in enumerate(chain.steps):
        if (
            max((max(v.numerator.bit_length(), v.denominator.bit_length()) for v in y), default=0)
            > MAX_MULTIPLIER_BITS
        ):
            raise Refused(f"step {k + 1}: its numbers are too long")
    form = rows_only(problem)
    rows = integral_rows(form.problem, chain.reading)
    done = Replay(Faces.whole(rows))
    for k, y in enumerate(chain.steps):
        if done.contradiction:
            raise Refused(f"step {k + 1} comes after a contradiction")
        try:
            step = expose_face(done.faces, rows.weights(form.forth(y)))
        except Refused as refusal:
            raise Refused(f"step {k + 1}: {refusal}") from None
        done = Replay(step.after, (*done.steps, step))
    return done


def expose_face(faces: Faces, weights: np.ndarray) -> FacialStep:
    """Verify one step on a face that contains all feasible points; raises ``Refused`` if it proves nothing.

    ``weights`` are the multipliers of the rows as integers.
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
        bases[b] = _exposed(bases[b], image, f"block {problem.block_name(b)}")
    # A step that uses only rows of short decimals and simple fractions needs no margin.
    if not all(rows.firm[i] for i in np.flatnonzero(weights != 0)):
        _require_robust(faces, weights, images, gap, size)
    share = float(gap / size) if size else 0.0
    if gap > 0:
        return FacialStep(weights, faces, faces, gap, share)
    lower, upper = list(faces.lower), list(faces.upper)
    for i in np.flatnonzero(weights != 0):
        bound = lower[i] if weights[i] > 0 else upper[i]
        lower[i] = upper[i] = bound
    after = replace(faces, bases=tuple(bases), lower=tuple(lower), upper=tuple(upper))
    if after.sizes == faces.sizes and after.lower == faces.lower and after.upper == faces.upper:
        raise Refused("it leads to no smaller face")
    return FacialStep(weights, faces, after, gap, share)


def _exposed(basis: np.ndarray | None, image: np.ndarray, what: str) -> np.ndarray | None:
    """Return the part of a face that is orthogonal to ``image``, which must be non-positive on the face."""
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
    """Refuse a step that depends on the last digits of data that were rounded before they were stored.

    Such data still prove what follows from zeros: bounds that are zero, and entries that are zero in every
    row of the step. Everything else must hold with the relative margin ``ROBUST``.
    """
    used = [int(i) for i in np.flatnonzero(weights != 0)]
    ends = [faces.lower[i] if weights[i] > 0 else faces.upper[i] for i in used]
    if any(ends) if gap == 0 else gap < ROBUST * size:
        raise Refused("its two sides depend on the last digits of the bounds")
    for b, (basis, image) in enumerate(zip(faces.bases, images, strict=True)):
        if basis is not None and basis.ndim == 2 and any(np.count_nonzero(basis, axis=0) != 1):
            raise Refused("the face is not defined by zero entries")
        terms = np.zeros(image.shape, dtype=object)
        for i in used:
            terms = terms + abs(faces.row(b, i)) * abs(int(weights[i]))
        alive = np.any(image != 0, axis=-1) if image.ndim == 2 else image != 0
        if terms[~alive].any():
            raise Refused("entries of rounded data cancel, which may be an artefact of rounding")
        if not alive.any():
            continue
        unit = Fraction(max(int(v) for v in terms.reshape(-1)))
        near = (image / unit).astype(np.float64)
        largest = eigvalsh(near[np.ix_(alive, alive)])[-1] if image.ndim == 2 else np.max(near[alive])
        if not largest < -ROBUST:
            raise Refused("definiteness depends on the last digits")


#: Names of rows or entries that a description lists.
LISTED_NAMES = 4


def describe_chain(problem: FeasibilityProblem, chain: Chain) -> list[str]:
    """Describe what every step of a chain proves, one line per step; empty if the chain is not valid."""
    try:
        steps = replay(problem, chain).steps
    except (Refused, LimitError):
        return []
    return [f"step {k}: {_describe_step(problem, step)}" for k, step in enumerate(steps, 1)]


def _describe_step(problem: FeasibilityProblem, step: FacialStep) -> str:
    """Describe what one step proves."""
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
    shown = [text for b in range(len(step.before.bases)) if (text := _describe_block(problem, step, b))]
    if not shown:
        return f"{rows} hold{'s' * one} with equality"
    return f"{rows} force{'s' * one} " + "; ".join(shown)


def _describe_block(problem: FeasibilityProblem, step: FacialStep, b: int) -> str:
    """Describe how a step restricts one block; empty if it does not."""
    before, after = step.before.bases[b], step.after.bases[b]
    if before is None or after is None or before.shape == after.shape:
        return ""
    own = b < len(problem.sets)
    if own:
        name = "X" if len(problem.sets) == 1 else f"block {problem.block_name(b)}"
    else:
        name = f"the value of LMI {problem.lmi_name(b - len(problem.sets))}"
    if own and problem.sets[b].psd_side is not None and after.ndim == 2 and after.shape[1]:
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
    """Name the rows and LMIs that take part, and return whether there is only one."""
    own = [problem.row_name(i) for i in used if i < problem.m]
    sources = slack_rows(problem)
    names = [problem.lmi_name(j) for j in sorted({sources[i - problem.m] for i in used if i >= problem.m})]
    rows = f"row{'s' * (len(own) > 1)} {_listed(own)}" if own else ""
    lmis = f"LMI{'s' * (len(names) > 1)} {_listed(names)}" if names else ""
    return " and ".join(filter(None, [rows, lmis])), len(own) + len(names) == 1


def _listed(names: Sequence[str]) -> str:
    if len(names) > LISTED_NAMES:
        return ", ".join(names[:LISTED_NAMES]) + f" and {len(names) - LISTED_NAMES} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
