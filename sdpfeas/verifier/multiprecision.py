"""Existence proofs in multiprecision interval arithmetic, for points in a very thin interior (Theorem 6).

Points are written as ``X = L S L'`` with a fixed ``L``, such as a factor of an interior point: ``S`` is
well-scaled however thin the interior is, while a rounded ``X`` may not even be semidefinite. The residual of
the equality rows and its least-norm correction are computed in balls of 320 bits (Arb, through python-flint).
If the correction is shorter than the smallest eigenvalue of ``S``, an exact point exists, and its objective
is enclosed (docs/mathematics.md). :class:`CongruenceProgram` is the entry point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sdpfeas.numerics.limits import guard
from sdpfeas.numerics.linalg import FloatArray, cholesky, smallest, symmetrize
from sdpfeas.numerics.rounding import definite
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.verifier.point_metric import only_stored

#: Precision of a ball in bits: six times that of a double.
BITS = 320


@contextmanager
def many_bits() -> Iterator[None]:
    """Set the precision of python-flint within the context."""
    import flint

    with flint.ctx.workprec(BITS):
        yield


def ball_matrix(array: FloatArray) -> Any:
    """Return an exact ball matrix of finite numbers; a vector becomes a column."""
    import flint

    table = array.reshape(-1, 1) if array.ndim == 1 else array
    return flint.arb_mat(table.tolist()) if table.size else flint.arb_mat(*table.shape)


def middles(matrix: Any) -> FloatArray:
    """Return the midpoints of balls, rounded to doubles."""
    flat = np.array([float(ball.mid()) for ball in matrix.entries()], dtype=np.float64)
    return flat.reshape(matrix.nrows(), matrix.ncols())


#: Largest number of ball products of a proof: some seconds.
MAX_BALL_PRODUCTS = 6e7

#: Cost of one ball product, in multiply-adds.
FLOPS_PER_PRODUCT = 640.0

#: Share of a computed smallest eigenvalue that is proved; the rest covers rounding.
DEPTH_SHARE = 0.5

#: Rounds of orthonormalisation, and the distance from the identity at which it stops.
ORTHONORMALISATION_ROUNDS, ORTHONORMAL_DISTANCE = 8, 1e-6


@dataclass(frozen=True)
class ProvedPoint:
    """A proved exact point: ``value`` is a lower bound of its objective, ``point`` the point rounded to
    doubles.
    """

    value: float
    point: Point


def fits_balls(problem: FeasibilityProblem) -> bool:
    """Whether the kind and size of a problem allow proofs in ball arithmetic: equality rows, PSD, Nonneg and
    Free blocks.
    """
    if problem.lmis or not problem.m or not problem.equality.all():
        return False
    # Boxes, and cones that are linear images of matrices, are not implemented.
    kinds = all(block.free or (block.cone and (block.matrix or block.entrywise)) for block in problem.sets)
    stored = all(only_stored(rows) for rows in problem.rows)
    return kinds and stored and _products(problem) <= MAX_BALL_PRODUCTS


def _products(problem: FeasibilityProblem) -> float:
    """Estimate the number of ball products of a proof."""
    m = float(problem.m)
    cubes = sum(2.0 * float(block.n) ** 3 for block in problem.sets if block.matrix)
    return m * cubes + 3.0 * m * m * sum(block.entries for block in problem.sets) + 4.0 * m**3


class CongruenceProgram:
    """A conic program in the coordinates ``X = L S L'`` of matrices and ``x = d s`` of vectors.

    ``roots`` holds ``L`` or ``d`` for every set, finite and with ``d >= 0`` except on Free blocks. Raises
    ``LinAlgError`` if the rows are not provably independent in these coordinates.
    """

    def __init__(self, program: ConicProgram, roots: list[FloatArray]) -> None:
        guard("rows in balls", FLOPS_PER_PRODUCT * _products(program.problem))
        self._problem, self._roots = program.problem, roots
        import flint

        with many_bits():
            lines: list[list[Any]] = [[] for _ in range(program.problem.m + 1)]
            for b, (rows, root) in enumerate(zip(program.problem.rows, roots, strict=True)):
                written = rows.to_csr().toarray()
                both = np.vstack([written, program.objective[b].reshape(1, -1)])
                for line, part in zip(lines, _transformed(both, root), strict=True):
                    line.extend(part)
            self._rows, self._goal = flint.arb_mat(lines[:-1]), flint.arb_mat(lines[-1:])
            self._bounds = ball_matrix(program.problem.lower)
            self._gram = self._rows * self._rows.transpose()
            self._combination = _orthonormal(self._gram)
            self._near = self._combination * self._gram * self._combination.transpose()

    @cached_property
    def program(self) -> ConicProgram:
        """The program for ``S``, with orthonormalised rows, rounded to doubles."""
        with many_bits():
            rows = middles(self._combination * self._rows)
            bounds = middles(self._combination * self._bounds).ravel()
            goal = middles(self._goal).ravel()
        sets, start, parts, terms = self._problem.sets, 0, [], []
        for block in sets:
            own = slice(start, start + block.entries)
            start += block.entries
            table = rows[:, own].reshape((rows.shape[0], *block.shape))
            parts.append(symmetrize(table) if block.matrix else table)
            term = goal[own].reshape(block.shape)
            terms.append(symmetrize(term) if block.matrix else term)
        return ConicProgram(FeasibilityProblem(sets, parts, bounds, bounds), tuple(terms))

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers of the rounded program to multipliers of the original rows."""
        with many_bits():
            return np.asarray(middles(self._combination.transpose() * ball_matrix(y)).ravel())

    def prove(self, inner: Point) -> ProvedPoint | None:
        """Prove that an exact point exists near ``L S L'``, and bound its objective; None on failure."""
        depth = self._depth(inner)
        if not depth > 0.0:
            return None
        import flint

        with many_bits():
            flat = ball_matrix(np.concatenate([x.reshape(-1) for x in inner]))
            missed = self._combination * (self._bounds - self._rows * flat)
            try:
                weights = self._near.solve(missed)
            except ZeroDivisionError:
                return None
            square = (missed.transpose() * weights)[0, 0]
            if not (math.isinf(depth) or square < flint.arb(depth) ** 2):
                return None
            step = self._rows.transpose() * (self._combination.transpose() * weights)
            exact = flat + step
            value = float((self._goal * exact)[0, 0].lower())
            moved = middles(exact).ravel()
        if not math.isfinite(value):
            return None
        return ProvedPoint(math.nextafter(value, -math.inf), self._outer(moved))

    def _depth(self, inner: Point) -> float:
        """Proven distance of ``S`` to the boundary of its sets; zero if none is proved."""
        least = math.inf
        for block, root, x in zip(self._problem.sets, self._roots, inner, strict=True):
            if not np.isfinite(x).all() or x.shape != block.shape:
                return 0.0
            if block.free:
                continue
            if block.matrix:
                depth = DEPTH_SHARE * smallest(x)
                least = min(least, depth if depth > 0.0 and definite(x, shift=depth) else 0.0)
            else:
                least = min(least, float(np.min(x)) if np.all(root >= 0.0) else 0.0)
        return least

    def _outer(self, flat: FloatArray) -> Point:
        """Return ``L S L'``, rounded."""
        out, start = [], 0
        for block, root in zip(self._problem.sets, self._roots, strict=True):
            part = flat[start : start + block.entries].reshape(block.shape)
            start += block.entries
            out.append(symmetrize(root @ part @ root.T) if block.matrix else root * part)
        return tuple(out)


def _transformed(written: FloatArray, root: FloatArray) -> list[list[Any]]:
    """Return the rows ``L' A L``, or ``d a``, in balls; rows are flattened."""
    if root.ndim == 1:
        import flint

        scale = [flint.arb(v) for v in root.tolist()]
        return [
            [s * v if v else flint.arb(0) for s, v in zip(scale, line, strict=True)]
            for line in written.tolist()
        ]
    n = root.shape[0]
    turn = ball_matrix(root)
    back = turn.transpose()
    out = []
    for line in written:
        matrix = ball_matrix(line.reshape(n, n))
        # Only the symmetric part of a row matters on symmetric matrices.
        turned = back * ((matrix + matrix.transpose()) * 0.5) * turn
        out.append(((turned + turned.transpose()) * 0.5).entries())
    return out


def _orthonormal(gram: Any) -> Any:
    """Return a matrix ``P`` such that ``P G P'`` is near the identity, for a Gram matrix ``G``."""
    m = gram.nrows()
    combination = ball_matrix(np.eye(m))
    for _ in range(ORTHONORMALISATION_ROUNDS):
        seen = symmetrize(middles(combination * gram * combination.transpose()))
        if not (np.isfinite(seen).all() and np.all(np.diagonal(seen) > 0.0)):
            break
        if np.max(np.abs(seen - np.eye(m))) <= ORTHONORMAL_DISTANCE:
            return combination
        scale = 1.0 / np.sqrt(np.diagonal(seen))
        unit = symmetrize(seen * scale[:, None] * scale)
        shift = max(m * 1e-15 - smallest(unit), 0.0) * 2.0
        factor = cholesky(unit + shift * np.eye(m))
        combination = ball_matrix(np.linalg.inv(factor) * scale) * combination
    raise np.linalg.LinAlgError("the rows are not provably independent")
