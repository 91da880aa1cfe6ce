"""Second proof of facial reduction certificates (Borwein and Wolkowicz 1981), in rational arithmetic.

After each step all feasible points lie in a smaller face (:class:`FacialReplay`). Faces are rational bases; a
matrix of rank ``r`` is semidefinite if ``r`` independent rows and columns of it form a definite matrix. The
value of an LMI is a block of its own with equality rows; vector cones are linear images of semidefinite
matrices.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpfeas.auditor.arithmetic import (
    NotProved,
    RationalRows,
    each,
    identity,
    product,
    rational,
    rational_evidence,
    row_echelon_form,
    semidefinite,
    to_floats,
    zeros,
)

if TYPE_CHECKING:
    from sdpfeas.auditor.audit import RationalProblem

#: Largest number of entries of the rows built here.
LARGEST = 6_000_000
#: Largest odd part of an integer times a power of two, and largest numerator times denominator of a simple
#: fraction.
SIMPLE = 2**30


def read(value: float) -> Fraction:
    """Return the short decimal or simple fraction from which a double was rounded, if there is one."""
    stored, decimal = Fraction(value), Fraction(repr(value))
    digits = len(repr(value).lstrip("-").partition("e")[0].replace(".", "").strip("0"))
    top = abs(stored.numerator)
    if top // (top & -top or 1) <= SIMPLE:
        return stored
    if digits <= 9:
        return decimal
    for most in (1, 10, 100, 1000, 2**15, SIMPLE):
        near = stored.limit_denominator(most)
        if abs(near.numerator) * near.denominator <= SIMPLE and float(near) == value:
            return near
    return decimal if digits <= 15 else stored


class FacialReplay:
    """The faces of a chain of exposing vectors; the given problem is modified on the way."""

    def __init__(self, question: RationalProblem) -> None:
        if len(question.matrix) * question.cuts[-1] > LARGEST:
            raise NotProved("too large for an audit of chains")
        self.question, self.matrix = question, question.matrix.dense()
        self.own, self.lmis = question.m, question.lmis
        self._lmis_as_blocks()
        self.shown = list(question.sets)
        self._cones_as_psd()
        self.faces: list[Any] = []
        for block in question.sets:
            cone = block.low is not None and block.high is None and block.trace is None
            whole = identity(block.n) if block.matrix else np.arange(block.n)
            self.faces.append(whole if cone else None)

    def _lmis_as_blocks(self) -> None:
        """Make the value of every LMI a block, with one equality row per entry."""
        question, m = self.question, self.question.m
        total = question.cuts[-1] + sum(lmi.constant.size for lmi in self.lmis)
        count = sum(len(_triangle(lmi)) for lmi in self.lmis)
        if count * total > LARGEST:
            raise NotProved("too large for an audit of chains")
        ties, right = zeros(count, total), list[Any]()
        start = question.cuts[-1]
        for lmi in self.lmis:
            lines = lmi.lines.dense()
            for i, j in _triangle(lmi):
                row = ties[len(right)]
                row[: question.cuts[-1]] = lines[:, i]
                for k in (i, j):
                    row[start + k] -= rational(1) / 2
                right.append((-lmi.constant[i],) * 2)
            start += lmi.constant.size
        old = np.hstack([self.matrix, zeros(len(self.matrix), total - question.cuts[-1])])
        self.matrix = np.vstack([old[:m], ties, old[m:]])
        question.bounds = [*question.bounds[:m], *right, *question.bounds[m:]]
        question.sets = [*question.sets, *(lmi.block for lmi in self.lmis)]
        question.cuts = [0, *np.cumsum([math.prod(block.shape) for block in question.sets]).tolist()]
        question.m, question.lmis = m + count, []

    def _cones_as_psd(self) -> None:
        """Replace vector cones by semidefinite blocks: ``<a, x> = <image of a, X>``."""
        question, columns = self.question, list[np.ndarray]()
        parts = np.split(self.matrix, question.cuts[1:-1], axis=1)
        for b, (block, part) in enumerate(zip(question.sets, parts, strict=True)):
            if block.cone:
                if len(part) * block.side**2 > LARGEST:
                    raise NotProved("too large for an audit of chains")
                part = np.array([block.image(a).reshape(-1) for a in part], dtype=object)  # noqa: PLW2901
                question.sets[b] = type(block)("PSD", block.side)
            columns.append(part.reshape(len(self.matrix), math.prod(question.sets[b].shape)))
        self.matrix = np.concatenate(columns, axis=1)
        question.cuts = [0, *np.cumsum([math.prod(block.shape) for block in question.sets]).tolist()]

    def _multipliers(self, given: Any) -> np.ndarray:
        """Return multipliers of the rows; those of transposed entries of an LMI are added."""
        y = each(rational, given)
        if y.shape != (self.own + sum(lmi.constant.size for lmi in self.lmis),):
            raise NotProved("a step has another number of multipliers than there are rows and entries")
        out, start = list(y[: self.own]), self.own
        for lmi in self.lmis:
            out += [y[start + i] + (y[start + j] if i != j else 0) for i, j in _triangle(lmi)]
            start += lmi.constant.size
        return np.array([*out, None], dtype=object)[:-1]

    def _approximate_point(self, point: Any) -> list[np.ndarray]:
        """Return a point in floating point, with values of LMIs and preimages of vector cones."""
        exact = [rational_evidence(x, block.shape) for x, block in zip(point, self.shown, strict=False)]
        x = np.concatenate([part.reshape(-1) for part in exact])
        near = [to_floats(part) for part in (*exact, *(lmi.value(x) for lmi in self.lmis))]
        return [_preimage(block, x) if block.cone else x for block, x in zip(self.shown, near, strict=True)]

    def prove(self, verdict: str, steps: Any, point: Any) -> str:
        """Prove a verdict by the steps, and by a point on the last face if it is FEASIBLE."""
        for k, given in enumerate(steps):
            if self.step(self._multipliers(given), k + 1):
                if verdict == "infeasible" and k == len(steps) - 1:
                    return f"a chain of {k + 1} step(s) rules out every point"
                raise NotProved("the chain comes to a contradiction, and goes on or claims another")
        if verdict == "infeasible":
            raise NotProved("the chain comes to no contradiction")
        return self.on_face(point)

    def step(self, y: np.ndarray, k: int) -> bool:
        """Verify one step; return whether it proves infeasibility."""
        question, gap = self.question, rational(0)
        bounds = list(question.bounds)
        for i, weight in enumerate(y):
            if weight == 0:
                continue
            low, high = bounds[i]
            bound = low if weight > 0 else high
            if bound is None:
                raise NotProved(f"step {k}: the multiplier of row {i} has the sign of a missing bound")
            gap += weight * bound
            bounds[i] = (bound, bound)
        if gap < 0:
            raise NotProved(f"step {k}: its two sides have the wrong order")
        parts = question.blocks(product(self.matrix[: question.m].T, y))
        faces = [_exposed(face, part, k) for face, (_, part) in zip(self.faces, parts, strict=True)]
        if gap > 0:
            return True
        self.faces, question.bounds = faces, bounds
        return False

    def on_face(self, point: Any) -> str:
        """Prove that an exact solution exists on the face, at or near a point."""
        question = self.question
        if point is None or len(point) != len(self.shown) - len(self.lmis):
            raise NotProved("there is no point with one array per set")
        sets, columns, places = list[Any](), list[np.ndarray](), list[Any]()
        parts = np.split(self.matrix, question.cuts[1:-1], axis=1)
        for block, face, part, near in zip(
            question.sets, self.faces, parts, self._approximate_point(point), strict=True
        ):
            if face is None:
                sets.append(block)
                columns.append(part)
                places.append(near)
            elif face.ndim == 1 and face.size:
                sets.append(type(block)("Nonneg", face.size))
                columns.append(part[:, face])
                places.append(near[face])
            elif face.ndim == 2 and face.shape[1]:
                sets.append(type(block)("PSD", face.shape[1]))
                moved = [product(product(face.T, a), face) for a in part.reshape(-1, block.n, block.n)]
                columns.append(np.array(moved, dtype=object).reshape(len(part), face.shape[1] ** 2))
                inverse = np.linalg.pinv(to_floats(face))
                places.append(inverse @ near @ inverse.T)
        question.sets = sets
        question.cuts = [0, *np.cumsum([math.prod(block.shape) for block in sets]).tolist()]
        question.matrix = RationalRows.of(np.concatenate([zeros(len(self.matrix), 0), *columns], axis=1))
        same = [None not in pair and pair[0] == pair[1] for pair in question.bounds]
        question.equal = np.array(same, dtype=bool)
        if sets:
            return "on the last face of a chain, " + question.feasible(places)
        ends = question.bounds
        if any((low is not None and low > 0) or (high is not None and high < 0) for low, high in ends):
            raise NotProved("nothing but zero is left, and it misses a row")
        return "nothing but zero is left, and it meets every row"


def _triangle(lmi: Any) -> list[tuple[int, int]]:
    """Positions of the entries of an LMI on and above the diagonal, each with its transposed position."""
    n = lmi.block.n
    if not lmi.block.matrix:
        return [(k, k) for k in range(n)]
    return [(i * n + j, j * n + i) for i in range(n) for j in range(i, n)]


def _preimage(block: Any, x: np.ndarray) -> np.ndarray:
    """Return a semidefinite matrix with image near a member of a vector cone; of low rank on the boundary."""
    if block.kind == "HermitianPSD":
        return to_floats(block.image(each(rational, x))) / 2
    t = max(float(x[0]), math.hypot(*x[1:]), math.ulp(0.0))
    out = np.outer([t, *x[1:]], [t, *x[1:]]) / (2 * t)
    return out + np.eye(len(x)) * (max(t - np.trace(out), 0.0) / len(x))


def _exposed(face: Any, image: np.ndarray, k: int) -> Any:
    """Return the part of a face orthogonal to ``image``, which must be non-positive on the face."""
    if face is None:
        if (image != 0).any():
            raise NotProved(f"step {k}: A*y does not vanish on a Free block or a box")
        return None
    if face.ndim == 1:
        if any(v > 0 for v in image[face]):
            raise NotProved(f"step {k}: A*y is positive on a Nonneg block")
        return face[[v == 0 for v in image[face]]]
    if not face.shape[1]:
        return face
    g = product(product(face.T, image), face)
    form, pivots = row_echelon_form(g)
    # A symmetric matrix of rank r is semidefinite if r independent rows and columns form a definite matrix.
    if pivots and not semidefinite(-g[np.ix_(pivots, pivots)]):
        raise NotProved(f"step {k}: A*y is not proved to be negative semidefinite on a PSD block")
    loose = [j for j in range(len(g)) if j not in pivots]
    basis = zeros(len(g), len(loose))
    for column, j in enumerate(loose):
        basis[j, column] = rational(1)
        basis[pivots, column] = -form[: len(pivots), j]
    return product(face, basis) if loose else face[:, :0]
