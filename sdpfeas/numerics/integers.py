"""Integer matrices, exactly: products, kernels, definiteness, short bases of lattices.

Matrices are object arrays of Python's integers. Where python-flint is installed it does the work; without it
all is done here, more slowly, and bases are not made short.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np

from sdpfeas.numerics.effort import need

__all__ = [
    "EXACT_FLOAT",
    "HAS_FLINT",
    "as_floats",
    "identity",
    "independent_rows",
    "integral",
    "kernel",
    "need_integers",
    "negative_kernel",
    "product",
    "row_divisors",
    "saturated",
    "short_rows",
    "solution",
]

HAS_FLINT = find_spec("flint") is not None

#: Numbers that can be written in the time of one operation on integers, with python-flint or without.
NUMBERS, SLOW_NUMBERS = 20.0, 200.0

#: Sums of integers below this are exact in floating point.
EXACT_FLOAT = 2.0**53

#: A prime whose residues can be multiplied, and so many products added, in floating point exactly; ...
PRIME, STRIP = 2097143, 2048
#: ... and combinations of columns that are taken besides what could do.
SPARE = 8


def need_integers(what: str, operations: float) -> None:
    """Refuse arithmetic with integers for which there is no time."""
    need(what, numbers=operations * (NUMBERS if HAS_FLINT else SLOW_NUMBERS))


def identity(n: int) -> np.ndarray:
    """The identity matrix."""
    out = np.zeros((n, n), dtype=object)
    out[np.diag_indices(n)] = 1
    return out


def integral(values: Iterable[Fraction]) -> tuple[np.ndarray, int]:
    """Fractions times their least common denominator, and that."""
    listed = list(values)
    common = math.lcm(*(v.denominator for v in listed))
    out = np.empty(len(listed), dtype=object)
    out[:] = [v.numerator * (common // v.denominator) for v in listed]
    return out, common


def _flint(matrix: np.ndarray) -> Any:
    import flint

    rows, columns = matrix.shape
    short = _short(matrix)
    return flint.fmpz_mat(
        rows,
        columns,
        [int(v) for v in matrix.reshape(-1)] if short is None else short.reshape(-1).tolist(),
    )


def _array(matrix: Any) -> np.ndarray:
    out = np.empty(matrix.nrows() * matrix.ncols(), dtype=object)
    out[:] = [int(v) for v in matrix.entries()]
    return out.reshape(matrix.nrows(), matrix.ncols())


def _short(matrix: np.ndarray) -> np.ndarray | None:
    """The same integers in words of the machine; None if one does not fit."""
    try:
        return matrix.astype(np.int64)
    except OverflowError:
        return None


def row_divisors(matrix: np.ndarray) -> list[int]:
    """Greatest common divisor of every row; zero for one that is zero."""
    short = _short(matrix)
    if short is None or not matrix.size:
        return [math.gcd(*(int(v) for v in row)) for row in matrix]
    return [int(v) for v in np.gcd.reduce(short, axis=1).tolist()]


def as_floats(matrix: np.ndarray) -> np.ndarray:
    """Nearest floating-point numbers.

    Raises
    ------
    OverflowError
        If an integer is too large for any.
    """
    short = _short(matrix)
    if short is not None:
        return short.astype(np.float64)
    return np.array([float(int(v)) for v in matrix.reshape(-1)], dtype=np.float64).reshape(matrix.shape)


def _largest(matrix: np.ndarray) -> int:
    return max(int(matrix.max()), -int(matrix.min()))


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Product of two integer matrices."""
    if not (a.size and b.size):
        return np.zeros((a.shape[0], b.shape[1]), dtype=object)
    first, second = _short(a), _short(b)
    if first is not None and second is not None and _exact(first, second):
        return _whole(first.astype(np.float64) @ second.astype(np.float64))
    if HAS_FLINT:
        return _array(_flint(a) * _flint(b))
    return np.asarray(a.dot(b), dtype=object)


def _exact(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a product of integers is exact in floating point."""
    return _largest(a) * _largest(b) * a.shape[1] < EXACT_FLOAT


def _whole(matrix: np.ndarray) -> np.ndarray:
    """Integers that were computed in floating point, exactly."""
    return matrix.astype(np.int64).astype(object)


def _echelon(matrix: np.ndarray) -> tuple[np.ndarray, int, list[int]]:
    """Reduced row echelon form times its denominator, which is returned too, and the pivot columns."""
    if HAS_FLINT:
        form, common, rank = _flint(matrix).rref()
        table = _array(form)[: int(rank)]
        return table, int(common), [int(np.flatnonzero(row != 0)[0]) for row in table]
    table, pivots = matrix.copy(), list[int]()
    last = 1
    # Fraction-free: every division is exact (Bareiss), all pivots are the same at last.
    for column in range(matrix.shape[1]):
        top = len(pivots)
        hit = next((i for i in range(top, len(table)) if table[i, column] != 0), None)
        if hit is None:
            continue
        table[[top, hit]] = table[[hit, top]]
        pivot = table[top, column]
        for i in range(len(table)):
            if i != top:
                table[i] = (table[i] * pivot - table[top] * table[i, column]) // last
        last = pivot
        pivots.append(column)
    return table[: len(pivots)], last, pivots


def _kernel_of(form: np.ndarray, common: int, pivots: Sequence[int], width: int) -> np.ndarray:
    loose = sorted(set(range(width)) - set(pivots))
    out = np.zeros((width, len(loose)), dtype=object)
    for k, column in enumerate(loose):
        out[column, k] = common
        if pivots:
            out[list(pivots), k] = -form[:, column]
        out[:, k] = _primitive(out[:, k])
    return out


def _primitive(vector: np.ndarray) -> np.ndarray:
    divisor = math.gcd(*(int(v) for v in vector)) or 1
    return np.asarray(vector // divisor, dtype=object)


def kernel(matrix: np.ndarray) -> np.ndarray:
    """Integer vectors, as columns and short, that span the kernel of a matrix."""
    if matrix.shape[0] == 0:
        return identity(matrix.shape[1])
    rows = _modular_rows(matrix) if HAS_FLINT and matrix.shape[0] > matrix.shape[1] else None
    if rows:
        found = _kernel_of(*_echelon(matrix[rows]), matrix.shape[1])
        if not product(matrix, found).any():
            return short_rows(found.T).T
    found = _kernel_of(*_echelon(matrix), matrix.shape[1])
    return short_rows(found.T).T


def negative_kernel(matrix: np.ndarray) -> np.ndarray | None:
    """Kernel of a symmetric matrix that is negative semidefinite, as in :func:`kernel`; None if it is not.

    Of a matrix of rank r with independent columns P, the r×r part with rows and columns P has rank r too, and
    decides: the matrix is ``C' M C`` of that part M. It is definite if its leading minors say so.
    """
    n = matrix.shape[0]
    if n == 0:
        return np.zeros((0, 0), dtype=object)
    form, common, pivots = _echelon(matrix)
    if not _definite(-matrix[np.ix_(pivots, pivots)]):
        return None
    return short_rows(_kernel_of(form, common, pivots, n).T).T


def _definite(matrix: np.ndarray) -> bool:
    """Decide whether a symmetric matrix is positive definite, by its leading minors."""
    a, last = matrix.copy(), 1
    for k in range(len(a)):
        pivot = a[k, k]
        if pivot <= 0:
            return False
        rest = a[k + 1 :, k + 1 :] * pivot - np.multiply.outer(a[k + 1 :, k], a[k, k + 1 :])
        a[k + 1 :, k + 1 :] = rest // last
        last = pivot
    return True


def independent_rows(matrix: np.ndarray) -> list[int]:
    """Rows of a matrix that are independent and on which all others depend: the first that are."""
    if not matrix.size:
        return []
    count, width = matrix.shape
    if HAS_FLINT:
        need_integers("independent rows", float(count) * (count + width))
        found = _modular_rows(matrix)
        if found is not None and _depend(matrix, found):
            return found
    need_integers("independent rows", float(count) ** 2 * width)
    return _echelon(matrix.T)[2]


def _modular_rows(matrix: np.ndarray) -> list[int] | None:
    """Rows that are independent modulo a prime, and so are independent; None if the numbers are too long.

    All others depend on them modulo the prime, and most likely so.
    """
    import flint

    whole = _short(matrix)
    if whole is None:
        return None
    filled = np.flatnonzero(whole.any(axis=1))
    residues = np.mod(whole[filled], PRIME)
    if not filled.size:
        return []
    # What is independent in combinations of the columns is independent.
    if residues.shape[1] > 2 * filled.size + SPARE:
        residues = _mixed(residues, filled.size + SPARE)
    flat = residues.T.reshape(-1).tolist()
    form, rank = flint.nmod_mat(residues.shape[1], filled.size, flat, PRIME).rref()
    if int(rank) == filled.size:
        return [int(i) for i in filled]
    # Pivots move to the right, so that few entries have to be looked at.
    pivots, column = list[int](), 0
    for row in range(int(rank)):
        while not int(form[row, column]):
            column += 1
        pivots.append(int(filled[column]))
    return pivots


def _mixed(residues: np.ndarray, width: int) -> np.ndarray:
    """Combinations of columns modulo the prime."""
    out = np.zeros((len(residues), width))
    chances = np.random.default_rng(0)
    for start in range(0, residues.shape[1], STRIP):
        part = residues[:, start : start + STRIP].astype(np.float64)
        drawn = chances.integers(0, PRIME, size=(part.shape[1], width)).astype(np.float64)
        out = np.mod(out + np.mod(part @ drawn, PRIME), PRIME)
    return out.astype(np.int64)


def _depend(matrix: np.ndarray, rows: list[int]) -> bool:
    """Whether all rows of a matrix are combinations of some that are independent, as far as is easy to see.

    A few columns, mixed, tell the combinations; all columns have to agree.
    """
    rest = np.setdiff1d(np.flatnonzero((matrix != 0).any(axis=1)), rows)
    if not rest.size:
        return True
    if not rows:
        return False
    own, others = matrix[rows], matrix[rest]
    mix = np.random.default_rng(1).integers(0, 2, size=(matrix.shape[1], len(rows))).astype(object)
    try:
        weights = _flint(product(own, mix).T).solve(_flint(product(others, mix).T))
    except ZeroDivisionError:
        return False
    numerators, common = weights.numer_denom()
    return bool(np.array_equal(product(_array(numerators).T, own), others * int(common)))


def short_rows(matrix: np.ndarray) -> np.ndarray:
    """Short rows that span the same lattice (Lenstra, Lenstra, Lovász), those that vanish left out."""
    if not matrix.size or not HAS_FLINT:
        return matrix
    found = _array(_flint(matrix).lll())
    return found[[i for i in range(len(found)) if any(found[i])]]


def saturated(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Short basis of all integer vectors in the row space of a matrix, and how it is made of the rows.

    Returns
    -------
    basis : ndarray
        One vector a row.
    weights, common : ndarray and int
        ``weights @ matrix = common * basis``.
    """
    rows = independent_rows(matrix)
    part = matrix[rows]
    weights = np.zeros((len(rows), len(matrix)), dtype=object)
    weights[np.arange(len(rows)), rows] = 1
    if not HAS_FLINT or not rows:
        return part, weights, 1
    import flint

    # Columns of the part generate the same lattice as those of a square H; the basis is H⁻¹ times the part.
    rank = len(rows)
    square = _array(_flint(part.T).hnf())[:rank].T
    inverse = flint.fmpq_mat(_flint(square)).inv()
    numerators, common = inverse.numer_denom()
    basis = _array(numerators * _flint(part)) // int(common)
    short, change = _flint(basis).lll(transform=True)
    return _array(short), product(_array(change * numerators), weights), int(common)


def solution(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Fractions ``z`` with ``matrix @ z = right``, any such; None if there are none.

    Both are integers; ``right`` is a vector or has one in each column.
    """
    width = matrix.shape[1]
    table, common, pivots = _echelon(np.column_stack([matrix, right]))
    if pivots and pivots[-1] >= width:
        return None
    found = table[:, width:]
    out = np.full((width, found.shape[1]), Fraction(0), dtype=object)
    for k, line in zip(pivots, found, strict=True):
        out[k] = [Fraction(int(v), common) for v in line]
    return out[:, 0] if right.ndim == 1 else out
