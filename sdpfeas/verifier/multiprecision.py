"""Exact points where the interior is thinner than floating-point numbers resolve.

Points are written as ``X = L S L'`` with fixed L, such as a factor of a point in the interior: S is then
of moderate size however thin the interior is, while X, rounded, may not even be semidefinite. What S misses
of the equality rows, and the least correction that makes them hold, are computed in balls of many bits. If
that correction is shorter than S is deep, an exact point exists, and its objective is known to many digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.linalg import FloatArray, cholesky, smallest, symmetrize
from sdpfeas.numerics.rounding import definite
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.verifier.point_metric import only_stored

# ------------------------------------------------------------
# Matrices of balls: numbers of many bits with radii that hold every rounding (python-flint's Arb).

#: Bits of a ball: six times those of a floating-point number.
BITS = 320


@contextmanager
def many_bits() -> Iterator[None]:
    """Compute with many bits while the block runs."""
    import flint

    with flint.ctx.workprec(BITS):
        yield


def ball_matrix(array: FloatArray) -> Any:
    """A matrix of balls that hold exactly these finite numbers; a vector is a column."""
    import flint

    table = array.reshape(-1, 1) if array.ndim == 1 else array
    return flint.arb_mat(table.tolist()) if table.size else flint.arb_mat(*table.shape)


def middles(matrix: Any) -> FloatArray:
    """The floating-point numbers next to the middles of balls."""
    flat = np.array([float(ball.mid()) for ball in matrix.entries()], dtype=np.float64)
    return flat.reshape(matrix.nrows(), matrix.ncols())


#: Products of balls that a proof may take: some seconds.
MOST_PRODUCTS = 6e7

#: Numbers that can be written in the time of one product of balls.
NUMBERS = 40.0

#: Share of a computed depth that is proved.
CAUTION = 0.5

#: Times that rows are made orthonormal, and how near they have to be.
ROUNDS, NEAR = 8, 1e-6


@dataclass(frozen=True)
class Proved:
    """What is proved of an exact point.

    ``value``: its objective is at least this.
    """

    value: float
    point: Point


def fits_balls(problem: FeasibilityProblem) -> bool:
    """Whether a problem is of a kind and size that points of it can be proved in balls."""
    if problem.lmis or not problem.m or not problem.equality.all():
        return False
    # Boxes, and shadows of matrices, are left out.
    kinds = all(block.free or (block.cone and (block.matrix or block.entrywise)) for block in problem.sets)
    stored = all(only_stored(rows) for rows in problem.rows)
    return kinds and stored and _products(problem) <= MOST_PRODUCTS


def _products(problem: FeasibilityProblem) -> float:
    m = float(problem.m)
    cubes = sum(2.0 * float(block.n) ** 3 for block in problem.sets if block.matrix)
    return m * cubes + 3.0 * m * m * sum(block.entries for block in problem.sets) + 4.0 * m**3


class Precise:
    """A program in the metric of roots: ``X = L S L'`` for matrices, ``x = d·s`` for vectors.

    ``program``: what is maximised over which problem; one that fits balls. ``roots``: one array per set:
    ``L`` or ``d``, finite, d not negative but on free blocks.

    Raises ``LinAlgError``: if the rows are not provably independent in this metric.
    """

    def __init__(self, program: ConicProgram, roots: list[FloatArray]) -> None:
        need("rows in balls", numbers=NUMBERS * _products(program.problem))
        self._problem, self._roots = program.problem, roots
        import flint

        with many_bits():
            lines: list[list[Any]] = [[] for _ in range(program.problem.m + 1)]
            for b, (rows, root) in enumerate(zip(program.problem.rows, roots, strict=True)):
                written = rows.to_csr().toarray()
                both = np.vstack([written, program.objective[b].reshape(1, -1)])
                for line, part in zip(lines, _seen(both, root), strict=True):
                    line.extend(part)
            self._rows, self._goal = flint.arb_mat(lines[:-1]), flint.arb_mat(lines[-1:])
            self._bounds = ball_matrix(program.problem.lower)
            self._gram = self._rows * self._rows.transpose()
            self._combination = _orthonormal(self._gram)
            self._near = self._combination * self._gram * self._combination.transpose()

    @cached_property
    def program(self) -> ConicProgram:
        """The program that S solves, its rows made orthonormal, rounded."""
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
        """Multipliers of the rows as they were of those of the rounded program."""
        with many_bits():
            return np.asarray(middles(self._combination.transpose() * ball_matrix(y)).ravel())

    def prove(self, inner: Point) -> Proved | None:
        """Prove that an exact point lies next to ``L S L'``, and bound its objective; None if it fails."""
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
        return Proved(math.nextafter(value, -math.inf), self._outer(moved))

    def _depth(self, inner: Point) -> float:
        """Proven depth of ``S`` in its sets; zero if none is proved."""
        least = math.inf
        for block, root, x in zip(self._problem.sets, self._roots, inner, strict=True):
            if not np.isfinite(x).all() or x.shape != block.shape:
                return 0.0
            if block.free:
                continue
            if block.matrix:
                depth = CAUTION * smallest(x)
                least = min(least, depth if depth > 0.0 and definite(x, shift=depth) else 0.0)
            else:
                least = min(least, float(np.min(x)) if np.all(root >= 0.0) else 0.0)
        return least

    def _outer(self, flat: FloatArray) -> Point:
        """The point behind ``S``, rounded."""
        out, start = [], 0
        for block, root in zip(self._problem.sets, self._roots, strict=True):
            part = flat[start : start + block.entries].reshape(block.shape)
            start += block.entries
            out.append(symmetrize(root @ part @ root.T) if block.matrix else root * part)
        return tuple(out)


def _seen(written: FloatArray, root: FloatArray) -> list[list[Any]]:
    """Flattened arrays as they are seen through a root: ``L' A L``, or ``d·a``, in balls."""
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
        # Only the symmetric part of a row is seen by symmetric matrices.
        turned = back * ((matrix + matrix.transpose()) * 0.5) * turn
        out.append(((turned + turned.transpose()) * 0.5).entries())
    return out


def _orthonormal(gram: Any) -> Any:
    """A combination of vectors, given their Gram matrix, that is nearly orthonormal."""
    m = gram.nrows()
    combination = ball_matrix(np.eye(m))
    for _ in range(ROUNDS):
        seen = symmetrize(middles(combination * gram * combination.transpose()))
        if not (np.isfinite(seen).all() and np.all(np.diagonal(seen) > 0.0)):
            break
        if np.max(np.abs(seen - np.eye(m))) <= NEAR:
            return combination
        scale = 1.0 / np.sqrt(np.diagonal(seen))
        unit = symmetrize(seen * scale[:, None] * scale)
        shift = max(m * 1e-15 - smallest(unit), 0.0) * 2.0
        factor = cholesky(unit + shift * np.eye(m))
        combination = ball_matrix(np.linalg.inv(factor) * scale) * combination
    raise np.linalg.LinAlgError("the rows are not provably independent")
