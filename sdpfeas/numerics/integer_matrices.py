"""Integer matrices: dependent rows modulo a prime, exact kernels, definiteness, and reduced lattice bases.

Elimination modulo a prime yields candidates, not proofs: different numbers may agree modulo a prime. Callers
multiply the combinations out. The exact routines use python-flint on object arrays of Python integers.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.numerics.limits import WRITE_FLOPS, check_deadline, guard
from sdpfeas.numerics.rounding import definite

#: A prime p; fractions with numerator and denominator below sqrt(p / 2) are reconstructed.
LARGE_PRIME = 2**521 - 1

#: Operations between two checks of the deadline.
DEADLINE_OPERATIONS = 20_000


def combinations(
    rows: Sequence[dict[int, int]], first: int = 0, most: int = 3_000_000
) -> dict[int, dict[int, Fraction]] | None:
    """Find candidates for linearly dependent rows by elimination modulo ``LARGE_PRIME``.

    ``rows`` maps columns to non-zero entries. The first ``first`` rows are kept in preference to others.
    Returns, for every dependent row, its weights in terms of the independent rows; None after ``most``
    operations.
    """
    counts: dict[int, int] = {}
    for row in rows:
        for column in row:
            counts[column] = counts.get(column, 0) + 1
    order = sorted(range(len(rows)), key=lambda i: (i >= first, len(rows[i]), i))
    table = _Table(counts, most)
    found: dict[int, dict[int, Fraction]] = {}
    for i in order:
        steps = table.add(i, rows[i])
        if table.left < 0:
            return None
        if steps is not None:
            weights = table.expanded(steps)
            lifted = {j: lift(w) for j, w in weights.items()}
            if all(w is not None for w in lifted.values()):
                found[i] = {j: w for j, w in lifted.items() if w}
    return None if table.left < 0 else found


class _Table:
    """Rows in echelon form modulo ``LARGE_PRIME``, with the elimination steps that produced them."""

    def __init__(self, counts: dict[int, int], most: int) -> None:
        self.left = most
        self._counts = counts
        #: Maps a pivot column to its index in the lists below.
        self._place: dict[int, int] = {}
        self._rows: list[dict[int, int]] = []
        self._owner: list[int] = []
        self._steps: list[dict[int, int]] = []
        self._scale: list[int] = []
        self._pivots: list[int] = []
        self._spent = 0

    def _spend(self, operations: int) -> None:
        self.left -= operations
        self._spent += operations
        if self._spent > DEADLINE_OPERATIONS:
            check_deadline("the search for redundant rows")
            self._spent = 0

    def add(self, owner: int, row: dict[int, int]) -> dict[int, int] | None:
        """Reduce a row and store the remainder; if it is zero, return the elimination steps instead."""
        now = {column: value % LARGE_PRIME for column, value in row.items() if value % LARGE_PRIME}
        steps: dict[int, int] = {}
        heap = [self._place[column] for column in now if column in self._place]
        heapq.heapify(heap)
        while heap and self.left >= 0:
            place = heapq.heappop(heap)
            factor = now.get(self._pivots[place])
            if factor is None:
                continue
            steps[place] = factor
            other = self._rows[place]
            self._spend(len(other) + 1)
            for column, value in other.items():
                if column not in now:
                    now[column] = -factor * value % LARGE_PRIME
                    if column in self._place:
                        heapq.heappush(heap, self._place[column])
                else:
                    rest = (now[column] - factor * value) % LARGE_PRIME
                    if rest:
                        now[column] = rest
                    else:
                        del now[column]
        if not now:
            return steps
        pivot = min(now, key=lambda column: (self._counts.get(column, 0), column))
        inverse = pow(now[pivot], -1, LARGE_PRIME)
        self._spend(len(now))
        self._place[pivot] = len(self._rows)
        self._pivots.append(pivot)
        self._rows.append({column: value * inverse % LARGE_PRIME for column, value in now.items()})
        self._owner.append(owner)
        self._steps.append(steps)
        self._scale.append(inverse)
        return None

    def expanded(self, steps: dict[int, int]) -> dict[int, int]:
        """Convert weights of reduced rows to weights of the given rows."""
        left, out = dict(steps), dict[int, int]()
        heap = [-place for place in left]
        heapq.heapify(heap)
        while heap and self.left >= 0:
            place = -heapq.heappop(heap)
            weight = left.pop(place, None)
            if not weight:
                continue
            weight = weight * self._scale[place] % LARGE_PRIME
            out[self._owner[place]] = weight
            self._spend(len(self._steps[place]) + 1)
            for earlier, factor in self._steps[place].items():
                if earlier not in left:
                    heapq.heappush(heap, -earlier)
                left[earlier] = (left.get(earlier, 0) - weight * factor) % LARGE_PRIME
        return out


def lift(residue: int) -> Fraction | None:
    """Reconstruct a fraction with numerator and denominator up to ``sqrt(LARGE_PRIME / 2)`` from its residue.

    This is rational reconstruction by the extended Euclidean algorithm (Wang). ``residue`` is in [0,
    LARGE_PRIME). Returns None if there is no such fraction.
    """
    largest = math.isqrt(LARGE_PRIME // 2)
    a, b, before, now = LARGE_PRIME, residue, 0, 1
    while b > largest:
        quotient = a // b
        a, b, before, now = b, a - quotient * b, now, before - quotient * now
    if now == 0 or abs(now) > largest:
        return None
    return Fraction(b, now)


# --- exact products, kernels, definiteness and reduced lattice bases

#: Cost of one operation on integers, in multiply-adds.
INTEGER_FLOPS = 20.0 * WRITE_FLOPS

#: Sums of integers below this are exact in floating point.
EXACT_FLOAT = 2.0**53

#: Random combinations of rows taken in excess of the number of columns.
EXCESS_COMBINATIONS = 8

#: Cost of one step of elimination in integers, in operations on integers.
ECHELON_STEP_COST = 0.1

#: Largest side for which definiteness is decided by the characteristic polynomial without a Cholesky test.
POLYNOMIAL_SIDE = 20


def identity(n: int) -> np.ndarray:
    """Return the identity matrix."""
    guard("an identity of integers", 2.0 * INTEGER_FLOPS * float(n) ** 2)
    out = np.zeros((n, n), dtype=object)
    out[np.diag_indices(n)] = 1
    return out


def integral(values: Iterable[Fraction]) -> tuple[np.ndarray, int]:
    """Return fractions multiplied by their least common denominator, and the denominator."""
    listed = list(values)
    common = math.lcm(*(v.denominator for v in listed))
    out = np.empty(len(listed), dtype=object)
    out[:] = [v.numerator * (common // v.denominator) for v in listed]
    return out, common


def _flint(matrix: np.ndarray) -> Any:
    import flint

    rows, columns = matrix.shape
    short = as_int64(matrix)
    return flint.fmpz_mat(
        rows,
        columns,
        [int(v) for v in matrix.reshape(-1)] if short is None else short.reshape(-1).tolist(),
    )


def _array(matrix: Any) -> np.ndarray:
    out = np.empty(matrix.nrows() * matrix.ncols(), dtype=object)
    out[:] = [int(v) for v in matrix.entries()]
    return out.reshape(matrix.nrows(), matrix.ncols())


def as_int64(matrix: np.ndarray) -> np.ndarray | None:
    """Convert to int64; return None on overflow."""
    if matrix.dtype == object:
        guard("the conversion of integers", 2.0 * INTEGER_FLOPS * matrix.size)
    try:
        return matrix.astype(np.int64, copy=False)
    except OverflowError:
        return None


def row_divisors(matrix: np.ndarray) -> list[int]:
    """Return the greatest common divisor of every row; zero for a zero row."""
    short = as_int64(matrix)
    if short is None or not matrix.size:
        return [math.gcd(*(int(v) for v in row)) for row in matrix]
    return [abs(v) for v in np.gcd.reduce(short, axis=1).tolist()]  # of -2^63 it is negative


def as_floats(matrix: np.ndarray) -> np.ndarray:
    """Round to the nearest doubles; raise ``OverflowError`` if an integer is too large."""
    short = as_int64(matrix)
    if short is not None:
        return short.astype(np.float64)
    return np.array([float(int(v)) for v in matrix.reshape(-1)], dtype=np.float64).reshape(matrix.shape)


def _largest(matrix: np.ndarray) -> int:
    return max(int(matrix.max()), -int(matrix.min()))


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of two integer matrices as Python integers."""
    return _product(a, b).astype(object, copy=False)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of two integer matrices, as int64 if floating-point products are exact."""
    if not (a.size and b.size):
        return np.zeros((a.shape[0], b.shape[1]), dtype=np.int64)
    first, second = as_int64(a), as_int64(b)
    work = float(a.shape[0]) * a.shape[1] * b.shape[1]
    exact = first is not None and second is not None and _exact(first, second)
    guard("a product of integers", work if exact else 2.0 * INTEGER_FLOPS * work)
    if exact:
        return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    return _array(_flint(a) * _flint(b))


def _exact(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether a product of integers is exact in floating point."""
    return _largest(a) * _largest(b) * a.shape[1] < EXACT_FLOAT


def _echelon(matrix: np.ndarray) -> tuple[list[int], np.ndarray, int]:
    """Return the first independent columns, and the weights of the other columns in terms of them.

    Returns ``(pivots, weights, common)`` with ``common * others = matrix[:, pivots] @ weights``. Of many rows
    only random combinations are reduced, and the result is checked exactly in all rows.
    """
    matrix = matrix if (short := as_int64(matrix)) is None else short
    count, width = matrix.shape
    most = width + EXCESS_COMBINATIONS
    if count > most:
        mixed = _product(np.random.default_rng(0).integers(0, 2, size=(most, count)), matrix)
        pivots, weights, common = _echelon(mixed)
        others = np.delete(matrix, pivots, axis=1).astype(object)
        if np.array_equal(_product(matrix[:, pivots], weights), common * others):
            return pivots, weights, common
    steps = ECHELON_STEP_COST * matrix.size * min(matrix.shape)
    guard("an echelon form", INTEGER_FLOPS * (4.0 * matrix.size + steps))
    form, found, rank = _flint(matrix).rref()
    # Pivot columns ascend, so the search continues where the previous one ended.
    pivots, column = list[int](), 0
    for row in range(int(rank)):
        while not form[row, column]:
            column += 1
        pivots.append(column)
    rest = sorted(set(range(width)) - set(pivots))
    weights = np.empty(len(pivots) * len(rest), dtype=object)
    weights[:] = [int(form[row, column]) for row in range(len(pivots)) for column in rest]
    return pivots, weights.reshape(len(pivots), len(rest)), int(found)


def _kernel_of(pivots: Sequence[int], weights: np.ndarray, common: int) -> np.ndarray:
    """Return kernel vectors from a result of :func:`_echelon`, as columns."""
    width = sum(weights.shape)
    loose = np.delete(np.arange(width), pivots)
    out = np.zeros((width, loose.size), dtype=object)
    for k, column in enumerate(loose):
        out[column, k] = common
        out[pivots, k] = -weights[:, k]
        # A vector with an entry 1 is primitive.
        out[:, k] = out[:, k] if common == 1 else _primitive(out[:, k])
    return out


def _primitive(vector: np.ndarray) -> np.ndarray:
    divisor = math.gcd(*(int(v) for v in vector)) or 1
    return np.asarray(vector // divisor, dtype=object)


def kernel(matrix: np.ndarray) -> np.ndarray:
    """Return short integer vectors that span the kernel of a matrix, as columns."""
    width = matrix.shape[1]
    if matrix.shape[0] == 0:
        return identity(width)
    return short_rows(_kernel_of(*_echelon(matrix)).T).T


def negative_kernel(matrix: np.ndarray) -> np.ndarray | None:
    """Return the kernel of a negative semidefinite matrix, as :func:`kernel`; None if it is not one.

    Let P index r independent columns of a symmetric matrix of rank r. Its submatrix M with rows and columns P
    has rank r, and the matrix is ``C' M C``. It is thus negative semidefinite if and only if M is.
    """
    n = matrix.shape[0]
    if n == 0:
        return np.zeros((0, 0), dtype=object)
    pivots, weights, common = _echelon(matrix)
    if not _definite(-matrix[np.ix_(pivots, pivots)]):
        return None
    return short_rows(_kernel_of(pivots, weights, common).T).T


def _definite(matrix: np.ndarray) -> bool:
    """Decide whether a symmetric matrix is positive definite.

    Large matrices are first tested in floating point. The characteristic polynomial then decides: all its
    roots are real, and all are positive if and only if its signs alternate strictly.
    """
    if len(matrix) > POLYNOMIAL_SIDE and _largest(matrix) < EXACT_FLOAT and definite(as_floats(matrix)):
        return True
    n = len(matrix)
    guard("a characteristic polynomial", INTEGER_FLOPS * n**3)
    signs = _flint(matrix).charpoly()
    return all((signs[k] if (n - k) % 2 == 0 else -signs[k]) > 0 for k in range(n + 1))


def independent_rows(matrix: np.ndarray) -> list[int]:
    """Return the indices of the lexicographically first maximal set of independent rows."""
    if not matrix.size:
        return []
    return _echelon(matrix.T)[0]


def short_rows(matrix: np.ndarray) -> np.ndarray:
    """Return an LLL-reduced basis of the lattice of the rows (Lenstra, Lenstra, Lovász), without zero rows.

    Rows with at most two entries, all ±1, are returned unchanged: they are short already.
    """
    if not matrix.size:
        return matrix
    counts = np.sum(matrix != 0, axis=1)
    if counts.min() > 0 and counts.max() <= 2 and _largest(matrix) <= 1:
        return matrix
    found = _array(_flint(matrix).lll())
    return found[[i for i in range(len(found)) if any(found[i])]]


def lll_basis(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an LLL-reduced basis of the lattice of the rows, and its weights on the rows."""
    rows = independent_rows(matrix)
    short, change = _flint(matrix[rows]).lll(transform=True)
    weights = np.zeros((len(rows), len(matrix)), dtype=object)
    weights[:, rows] = _array(change)
    return _array(short), weights


def solution(matrix: np.ndarray, right: np.ndarray) -> np.ndarray | None:
    """Return a rational solution of ``matrix @ z = right``; None if there is none.

    Both arrays are integers; ``right`` is a vector or a matrix of right-hand sides.
    """
    width = matrix.shape[1]
    pivots, weights, common = _echelon(np.column_stack([matrix, right]))
    if pivots and pivots[-1] >= width:
        return None
    found = weights[:, width - len(pivots) :]
    out = np.full((width, found.shape[1]), Fraction(0), dtype=object)
    for k, line in zip(pivots, found, strict=True):
        out[k] = [Fraction(int(v), common) for v in line]
    return out[:, 0] if right.ndim == 1 else out
