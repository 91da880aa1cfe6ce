"""Arithmetic of the auditor: rational numbers, and balls where factors of these would grow too long."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

__all__ = [
    "NotProved",
    "each",
    "eigensystem",
    "flint",
    "identity",
    "product",
    "rational",
    "reduced",
    "semidefinite",
    "shortest",
    "through",
    "zeros",
]

flint: Any = import_module("flint") if find_spec("flint") else None
#: Bits of the balls, and the largest side of a matrix that is factored in rational numbers where these fail.
BITS, EXACT_SIDE = (256, 1024), 40


class NotProved(Exception):
    """Nothing is proved; the message says what is missing."""


def rational(value: Any) -> Any:
    """A number as an exact rational, of python-flint's kind where it is installed."""
    return Fraction(value) if flint is None else flint.fmpq(*value.as_integer_ratio())


def each(function: Any, array: Any) -> np.ndarray:
    """A function of every entry."""
    flat = [function(v) for v in np.asarray(array).reshape(-1).tolist()]
    return np.array([*flat, None], dtype=object)[:-1].reshape(np.shape(array))


def zeros(*shape: int) -> np.ndarray:
    """An array of rational zeros."""
    return np.full(shape, rational(0), dtype=object)


def identity(n: int, value: Any = 1) -> np.ndarray:
    """A multiple of the identity matrix."""
    return each(rational, np.eye(n)) * value


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product of matrices, or of a matrix and a vector."""
    if flint is None or not (a.size and b.size):
        return a.dot(b)
    first, second = (flint.fmpq_mat(len(m), m.size // len(m), m.reshape(-1).tolist()) for m in (a, b))
    return np.array((first * second).entries(), dtype=object).reshape(a.shape[0], *b.shape[1:])


def reduced(table: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """Reduced row echelon form, and its pivot columns."""
    rows, columns = table.shape
    if flint is not None:
        form, rank = flint.fmpq_mat(rows, columns, table.reshape(-1).tolist()).rref()
        table = np.array(form.entries(), dtype=object).reshape(table.shape)
        return table, [int(np.argmax(row != 0)) for row in table[:rank]]
    table, pivots = table.copy(), list[int]()
    for column in range(columns):
        top = len(pivots)
        hit = next((i for i in range(top, rows) if table[i, column] != 0), None)
        if hit is not None:
            table[[top, hit]] = table[[hit, top]]
            table[top] = table[top] / table[top, column]
            others = np.arange(rows) != top
            table[others] = table[others] - np.outer(table[others, column], table[top])
            pivots.append(column)
    return table, pivots


def shortest(matrix: np.ndarray, moved: np.ndarray, off: np.ndarray) -> np.ndarray | None:
    """The step with ``matrix @ step = off`` of least norm in a metric; None if there is none.

    Of each row, its image under the metric is ``moved``: the row times squared weights, say.
    """
    # Rows may depend on each other: any solution of the normal equations leads to the same step.
    table, pivots = reduced(np.column_stack([product(matrix, moved.T), off]))
    if off.size in pivots:
        return None
    z = zeros(off.size)
    z[pivots] = table[: len(pivots), -1]
    return product(moved.T, z)


def through(lines: np.ndarray, x: np.ndarray) -> np.ndarray:
    """``X A X`` for every line ``A``, flattened: its image under the metric of a definite matrix X."""
    n = len(x)
    halves = product(lines.reshape(-1, n), x).reshape(-1, n, n)
    return product(halves.transpose(0, 2, 1).reshape(-1, n), x).reshape(lines.shape)


def semidefinite(matrix: np.ndarray) -> bool:
    """Prove a symmetric matrix positive semidefinite by LDL'; where it is large, in balls first."""
    if flint is not None and len(matrix) > 6 and not isinstance(matrix[0, 0], flint.arb):
        for bits in BITS:
            with flint.ctx.workprec(bits):
                if semidefinite(each(flint.arb, matrix)):
                    return True
        if len(matrix) > EXACT_SIDE:
            return False
    a = matrix.copy()
    for k in range(len(a)):
        pivot, column = a[k, k], a[k + 1 :, k]
        # A ball is positive if all numbers in it are, and zero if that is the only one.
        if pivot > 0:
            a[k + 1 :, k + 1 :] -= np.outer(column / pivot, column)
        elif not (pivot == 0 and all(v == 0 for v in column)):
            return False
    return True


def eigensystem(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A guess at the eigenvalues, ascending, and eigenvectors; orthonormal to twice the digits of a float."""
    sizes = (int(v.numerator).bit_length() - int(v.denominator).bit_length() for v in matrix.flat if v != 0)
    unit = rational(Fraction(2) ** max(sizes, default=0))
    lam, q = (each(rational, part) for part in np.linalg.eigh(each(float, matrix / unit).astype(float)))
    # One Newton-Schulz step squares the distance from orthonormality.
    return lam * unit, product(q, identity(len(q), 3) - product(q.T, q)) / 2
