"""Exact arithmetic of the auditor: rationals, and balls if exact factorisations would become too long
(python-flint).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from itertools import accumulate
from typing import Any

import flint
import numpy as np

#: Precisions of the balls in bits (the first is also that of scaled integers), and the largest side of a
#: matrix that is factorised in rational numbers if balls fail.
BITS, EXACT_SIDE = (256, 1024), 40


class NotProved(Exception):
    """Raised if a proof fails; the message says what is missing."""


def require_ieee() -> None:
    """Restore IEEE 754 arithmetic in this thread if a library changed it, or raise NotProved."""
    for tried in (False, True):
        smallest, one, less = np.array([1, 0x3FF << 52, 0x3C3 << 52], dtype=np.uint64).view(float).tolist()
        nearest_is_taken = one + less == one == one - less and less - one == -one
        if (
            nearest_is_taken
            and Fraction(smallest) == Fraction(1, 2**1074)
            and (one + one) * smallest > smallest
        ):
            return
        if not tried and sys.platform == "linux":  # where the default environment is the pointer -1
            ctypes.CDLL(None).fesetenv(ctypes.c_void_p(-1))
    raise NotProved("this thread rounds otherwise than IEEE 754 says, or sets small numbers to zero")


def rational(value: Any) -> Any:
    """Return a number as an exact rational of python-flint."""
    return flint.fmpq(*value.as_integer_ratio())


def each(function: Any, array: Any) -> np.ndarray:
    """Apply a function to every entry of an array."""
    flat = [function(v) for v in np.asarray(array).reshape(-1).tolist()]
    return np.array([*flat, None], dtype=object)[:-1].reshape(np.shape(array))


def bits(value: Any) -> int:
    """Return the exponent of a power of two near a rational number."""
    return int(value.numerator).bit_length() - int(value.denominator).bit_length()


def nearby_power_of_two(value: Any) -> Any:
    """Return a power of two near a positive number, or zero: weights need no more precision."""
    return rational(Fraction(2) ** bits(value)) if value > 0 else rational(0)


def to_floats(array: Any) -> np.ndarray:
    """Round every entry to the nearest double; python-flint before 0.9 has no conversion of its own."""
    return each(lambda v: float(Fraction(int(v.p), int(v.q)) if hasattr(v, "q") else v), array).astype(float)


def rational_evidence(values: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return evidence as rational numbers, symmetrised if it is a matrix; raises NotProved if it is
    malformed.
    """
    try:
        array = np.asarray(values)
        fits = array.shape == shape and (array.dtype == object or np.isfinite(array).all())
        out = each(rational, array) if fits else zeros(0)
    except (TypeError, ValueError, AttributeError):  # text, complex numbers, arrays of arrays
        fits = False
    if not fits:
        raise NotProved("the evidence does not have the shape of the problem, or is not finite")
    return (out + out.T) / 2 if out.ndim == 2 else out


def zeros(*shape: int) -> np.ndarray:
    """Return an array of rational zeros."""
    return np.full(shape, rational(0), dtype=object)


def identity(n: int, value: Any = 1) -> np.ndarray:
    """Return a multiple of the identity matrix."""
    return each(rational, np.eye(n)) * value


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Multiply two matrices, or a matrix and a vector."""
    if not (a.size and b.size):
        return a.dot(b)
    first, second = (flint.fmpq_mat(len(m), m.size // len(m), m.reshape(-1).tolist()) for m in (a, b))
    return np.array((first * second).entries(), dtype=object).reshape(a.shape[0], *b.shape[1:])


def row_echelon_form(table: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Return the reduced row echelon form and its pivot columns."""
    rows, columns = table.shape
    form, rank = flint.fmpq_mat(rows, columns, table.reshape(-1).tolist()).rref()
    table = np.array(form.entries(), dtype=object).reshape(table.shape)
    return table, [int(np.argmax(row != 0)) for row in table[:rank]]


def solve_any_rank(gram: np.ndarray, off: np.ndarray) -> np.ndarray | None:
    """Return a solution of ``gram @ z = off`` for any rank; None if there is none."""
    m = off.size
    with suppress(ZeroDivisionError):
        square, right = flint.fmpq_mat(m, m, gram.reshape(-1).tolist()), flint.fmpq_mat(m, 1, off.tolist())
        return np.array(square.solve(right).entries(), dtype=object)
    table, pivots = row_echelon_form(np.column_stack([gram, off]))
    if m in pivots:
        return None
    z = zeros(m)
    z[pivots] = table[: len(pivots), -1]
    return z


def congruences(lines: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return ``X A X``, flattened, for every row ``A``: its image under the metric of a definite matrix
    ``X``.
    """
    n = len(x)
    halves = product(lines.reshape(-1, n), x).reshape(-1, n, n)
    return product(halves.transpose(0, 2, 1).reshape(-1, n), x).reshape(lines.shape)


def definite_by_dominance(matrix: np.ndarray) -> bool:
    """Prove a symmetric matrix ``A`` definite: ``T A T'`` is strictly diagonally dominant for a regular
    integer triangle ``T``.

    ``T`` approximates the inverse Cholesky factor. ``A`` is rounded to integers with an error below one per
    entry, which is charged to the dominance test.
    """
    near, unit = scaled_floats(matrix)
    n = len(matrix)
    try:
        inverse = np.linalg.inv(np.linalg.cholesky(near))
    except np.linalg.LinAlgError:
        return False
    _, exponent = np.frexp(np.abs(inverse).max(axis=1))
    t = each(int, np.tril(np.ldexp(inverse, 60 - exponent[:, None]))) if np.isfinite(inverse).all() else None
    if t is None or not t.diagonal().all():
        return False
    whole = each(lambda v: v.numerator // v.denominator, matrix * (rational(2 ** BITS[0]) / unit))
    left, middle = (flint.fmpz_mat(n, n, part.reshape(-1).tolist()) for part in (t, whole))
    b = np.array((left * middle * left.transpose()).entries(), dtype=object).reshape(n, n)
    reach = abs(t).sum(axis=1)
    margins = 2 * b.diagonal() - abs(b).sum(axis=1) - reach * reach.sum()
    return all(b.diagonal() > 0) and all(margins > 0)


def semidefinite(matrix: np.ndarray) -> bool:
    """Prove a symmetric matrix positive semidefinite by an ``L D L'`` factorisation; large ones by dominance
    or in balls first.
    """
    if len(matrix) > 6 and not isinstance(matrix[0, 0], flint.arb):
        if definite_by_dominance(matrix):
            return True
        for width in BITS:
            with flint.ctx.workprec(width):
                if semidefinite(each(flint.arb, matrix)):
                    return True
        if len(matrix) > EXACT_SIDE:
            return False
    a = matrix.copy()
    for k in range(len(a)):
        pivot, column = a[k, k], a[k + 1 :, k]
        # A ball is positive if all its members are, and zero if that is its only member.
        if pivot > 0:
            a[k + 1 :, k + 1 :] -= np.outer(column / pivot, column)
        elif not (pivot == 0 and all(v == 0 for v in column)):
            return False
    return True


def scaled_floats(matrix: np.ndarray) -> tuple[np.ndarray, Any]:
    """Return a matrix rounded to doubles in units of a power of two near its largest entry, and that unit."""
    unit = rational(Fraction(2) ** max((bits(v) for v in matrix.flat if v != 0), default=0))
    return to_floats(matrix / unit), unit


def approximate_eigenvalues(matrix: np.ndarray) -> np.ndarray:
    """Return approximate eigenvalues as rationals, ascending."""
    near, unit = scaled_floats(matrix)
    return each(rational, np.linalg.eigvalsh(near)) * unit


def approximate_eigensystem(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return approximate eigenvalues and eigenvectors, orthonormal to about twice double precision."""
    near, unit = scaled_floats(matrix)
    lam, q = (each(rational, part) for part in np.linalg.eigh(near))
    # One Newton-Schulz iteration squares the distance from orthonormality.
    return lam * unit, product(q, identity(len(q), 3) - product(q.T, q)) / 2


# --- Sparse rational matrices

Row = tuple[np.ndarray, np.ndarray]  # positions, and the numbers there

#: Density above which inner products are computed with dense matrices.
DENSE_SHARE = 0.2


class RationalRows:
    """A sparse rational matrix: for every row the positions and values of its nonzero entries."""

    def __init__(self, lines: Iterable[Row], width: int) -> None:
        self.lines, self.width = list[Row](), width
        for place, values in lines:
            kept = values != 0
            own = np.asarray(place)[kept]
            order = np.argsort(own, kind="stable")
            if own.size and (
                own[order[0]] < 0 or own[order[-1]] >= width or (np.diff(own[order]) == 0).any()
            ):
                raise NotProved("a row holds a position twice, or one that does not exist")
            self.lines.append((own[order], values[kept][order]))

    @classmethod
    def of(cls, table: np.ndarray) -> RationalRows:
        """Convert a dense matrix."""
        return cls(((np.arange(table.shape[1]), line) for line in table), table.shape[1])

    @classmethod
    def beside(cls, parts: list[RationalRows]) -> RationalRows:
        """Concatenate matrices horizontally."""
        starts = list(accumulate((part.width for part in parts), initial=0))
        whole = []
        for own in zip(*(part.lines for part in parts), strict=True):
            places = [place + start for (place, _), start in zip(own, starts, strict=False)]
            whole.append((np.concatenate(places), np.concatenate([values for _, values in own])))
        return cls(whole, starts[-1])

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.lines)

    def dense(self) -> np.ndarray:
        """Return the dense matrix."""
        out = zeros(len(self), self.width)
        for line, (place, values) in zip(out, self.lines, strict=True):
            line[place] = values
        return out

    def pick(self, chosen: np.ndarray) -> RationalRows:
        """Return the rows of a mask."""
        return RationalRows((self.lines[i] for i in np.flatnonzero(chosen)), self.width)

    def cut(self, start: int, stop: int) -> RationalRows:
        """Return a range of columns."""
        own = ((place, values, (place >= start) & (place < stop)) for place, values in self.lines)
        return RationalRows(
            ((place[kept] - start, values[kept]) for place, values, kept in own), stop - start
        )

    def transposed(self) -> RationalRows:
        """Return the transpose."""
        columns: list[tuple[list[int], list[Any]]] = [([], []) for _ in range(self.width)]
        for i, (place, values) in enumerate(self.lines):
            for k, value in zip(place.tolist(), values, strict=True):
                columns[k][0].append(i)
                columns[k][1].append(value)
        made = (
            (np.array(at, dtype=int), np.array([*values, None], dtype=object)[:-1]) for at, values in columns
        )
        return RationalRows(made, len(self))

    def scaled(self, weights: np.ndarray) -> RationalRows:
        """Multiply every column by a number."""
        return RationalRows(((place, values * weights[place]) for place, values in self.lines), self.width)

    def times(self, x: np.ndarray) -> np.ndarray:
        """Multiply by a vector."""
        sums = [values.dot(x[place]) if place.size else rational(0) for place, values in self.lines]
        return np.array([*sums, None], dtype=object)[:-1]

    def products(self, other: RationalRows) -> np.ndarray:
        """Return the inner products of all rows with the rows of another matrix."""
        if sum(place.size for place, _ in self.lines) > DENSE_SHARE * len(self) * self.width:
            return product(self.dense(), other.dense().T)
        out = zeros(len(self), len(other))
        for (at, values), (there, others) in zip(
            self.transposed().lines, other.transposed().lines, strict=True
        ):
            if at.size and there.size:
                out[np.ix_(at, there)] += np.outer(values, others)
        return out

    def mirrored(self, side: int) -> bool:
        """Whether every row, as a square matrix, is symmetric."""
        for place, values in self.lines:
            mirror = place % side * side + place // side
            order = np.argsort(mirror)
            if (mirror[order] != place).any() or (values[order] != values).any():
                return False
        return True


def metric_images(
    moved: RationalRows, lines: RationalRows, cuts: Iterable[Any], parts: Iterable[Any]
) -> RationalRows:
    """Return the images of the rows under a metric: squared weights, but ``X A X`` on semidefinite blocks."""
    out, end = list[RationalRows](), 0
    for (start, stop), (block, x) in zip(cuts, parts, strict=True):
        if block.kind == "PSD":
            out += [moved.cut(end, start), RationalRows.of(congruences(lines.cut(start, stop).dense(), x))]
            end = stop
    return RationalRows.beside([*out, moved.cut(end, moved.width)])


def least_norm_step(lines: RationalRows, moved: RationalRows, off: np.ndarray) -> np.ndarray | None:
    """Return the step ``s`` of least norm in a metric with ``<a_i, s> = off_i`` for all rows; None if there
    is none.

    ``moved`` holds the image of every row under the metric. Rows may be dependent: every solution of the
    normal equations gives the same step.
    """
    z = solve_any_rank(lines.products(moved), off)
    return None if z is None else moved.transposed().times(z)
