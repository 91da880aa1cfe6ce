"""The two forms of an SDPA file, and reductions of other problems to them.

Primal side: PSD and Nonneg blocks with equality rows (:func:`equality_form`). LMI side: ``sum_k x_k F_k -
F_0`` in PSD and Nonneg blocks (:func:`lmi_form`). :mod:`sdpfeas.io.sdpa` describes the file format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.files import require_within_limit
from sdpfeas.numerics.exact_arithmetic import add_up
from sdpfeas.numerics.linalg import FloatArray, triangle_map
from sdpfeas.problem.lmi import LMI, require_no_lmis
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.rows import Rows, Sparse, Stacked
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg

#: Memory estimates in bytes: per row, per entry, per row of a block with entries, and per block. That of a
#: block includes the time to read it, which is that of some hundred entries.
ROW_BYTES, ENTRY_BYTES, BLOCK_ROW_BYTES, BLOCK_BYTES = 256, 128, 16, 2**15

#: Entries: index of the matrix (or row of a problem), row, column, value.
Entries = tuple[np.ndarray, np.ndarray, np.ndarray, FloatArray]


@dataclass(frozen=True)
class SdpaData:
    """The content of a file: block sizes (negative if diagonal), ``c``, and the entries.

    ``c``: one number per matrix ``F_1, ..., F_m``. ``matrix, block, row, column``: zero-based indices of the
    entries; matrix 0 is ``F_0``, and ``row <= column``.
    """

    sizes: np.ndarray
    c: FloatArray
    matrix: np.ndarray
    block: np.ndarray
    row: np.ndarray
    column: np.ndarray
    value: FloatArray

    def added_up(self) -> tuple[SdpaData, np.ndarray]:
        """Sum duplicate entries; also return the indices of entries with a rounded sum."""
        # One key per position: lexicographic ranks, because a product of sizes may overflow.
        order = np.lexsort((self.column, self.row, self.block, self.matrix))
        keys = np.stack([self.matrix, self.block, self.row, self.column])[:, order]
        new = np.any(keys[:, 1:] != keys[:, :-1], axis=0)
        if new.all():
            return self, np.zeros(0, dtype=np.int64)
        place = np.empty(order.size, dtype=np.int64)
        place[order] = np.cumsum(np.append(0, new))
        index, totals, rounded = add_up(place, self.value)
        matrix, block, row, column = (
            self.matrix[index],
            self.block[index],
            self.row[index],
            self.column[index],
        )
        return SdpaData(self.sizes, self.c, matrix, block, row, column, totals), rounded

    def sets(self) -> list[BlockSet]:
        """Return one set per block."""
        return [PSD(int(n)) if n > 0 else Nonneg(int(-n)) for n in self.sizes]

    def _by_block(self) -> Iterator[tuple[BlockSet, np.ndarray]]:
        """Yield every set with the indices of its entries."""
        order = np.argsort(self.block, kind="stable")
        edges = np.searchsorted(self.block[order], np.arange(self.sizes.size + 1))
        for b, block in enumerate(self.sets()):
            yield block, order[edges[b] : edges[b + 1]]

    def _rows(self, block: BlockSet, entries: np.ndarray) -> Rows | None:
        """Return one row per matrix ``F_1, ..., F_m``, with the entries of one block."""
        index, m = entries[self.matrix[entries] > 0], self.c.size
        if index.size == 0:
            return None
        i, j, value = self.row[index], self.column[index], self.value[index]
        which = self.matrix[index] - 1
        if not block.matrix:
            return Sparse(sp.csr_array((value, (which, i)), shape=(m, block.n)), block.n, False)
        off = i != j
        place = np.concatenate([i * block.n + j, (j * block.n + i)[off]])
        both = np.concatenate([value, value[off]]), (np.concatenate([which, which[off]]), place)
        return Sparse(sp.csr_array(both, shape=(m, block.n**2)), block.n)

    def _require_memory(self) -> None:
        used = np.unique(self.block[self.matrix > 0]).size
        require_within_limit(used * (self.c.size + 1), "rows times blocks", each=BLOCK_ROW_BYTES)

    def primal(self) -> FeasibilityProblem:
        """Return the primal problem: find Y with ``<F_i, Y> = c_i``."""
        self._require_memory()
        return FeasibilityProblem(
            self.sets(),
            [self._rows(block, entries) for block, entries in self._by_block()],
            self.c,
            self.c,
            row_names=[f"F{k + 1}" for k in range(self.c.size)],
            block_names=[f"Y{b + 1}" for b in range(self.sizes.size)],
        )

    @property
    def _starts(self) -> np.ndarray:
        """First row of every block on the LMI side, one row per entry, and the number of rows."""
        counts = np.where(self.sizes > 0, self.sizes * (self.sizes + 1) // 2, -self.sizes)
        return np.concatenate([[0], np.cumsum(counts)])

    def places(self, block: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Return the rows on the LMI side of entries in the upper triangle."""
        size = self.sizes[block]
        inside = np.where(size > 0, row * size - row * (row + 1) // 2 + column, row)
        return np.asarray(self._starts[block] + inside)

    def lmi(self) -> FeasibilityProblem:
        """Return the LMI problem: find x with ``sum_k x_k F_k - F_0`` in every block."""
        self._require_memory()
        require_within_limit(
            sum(block.entries for block in self.sets()), "entries of matrices", each=ROW_BYTES
        )
        lmis = []
        for b, (block, entries) in enumerate(self._by_block()):
            index = entries[self.matrix[entries] == 0]
            place = (self.row[index], self.column[index]) if block.matrix else (self.row[index],)
            constant = np.zeros(block.shape)
            constant[place] = constant[place[::-1]] = -self.value[index]
            lmis.append(LMI(block, constant, [self._rows(block, entries)], f"X{b + 1}"))
        return FeasibilityProblem([Free(self.c.size)], [None], [], [], block_names=["x"], lmis=lmis)

    def text(self, comment: str) -> bytes:
        """Return the text of the file."""
        head = [
            f'"{comment}"',
            str(self.c.size),
            str(self.sizes.size),
            " ".join(map(str, self.sizes.tolist())),
            " ".join(map(repr, self.c.tolist())),
        ]
        columns = (self.matrix, self.block + 1, self.row + 1, self.column + 1, self.value)
        lines = [
            "%d %d %d %d %r" % entry  # noqa: UP031 - the fastest format, for millions of entries
            for entry in zip(*(column.tolist() for column in columns), strict=True)
        ]
        return "\n".join([*head, *lines, ""]).encode()


# --- the primal side


def _upper(rows: Rows, block: BlockSet) -> Entries:
    """Return the entries of the rows in the upper triangle."""
    coo = rows.explicit().tocoo()
    which, place = coo.coords
    i, j = np.divmod(place, block.n) if block.matrix else (place, place)
    keep = i <= j
    return which[keep], i[keep], j[keep], coo.data[keep]


def _sizes(sets: Sequence[BlockSet]) -> np.ndarray:
    return np.array([s.n if s.matrix else -s.n for s in sets], dtype=np.int64)


def primal_data(problem: FeasibilityProblem) -> SdpaData:
    """Return the file with the problem as its primal side.

    Raises ``ProblemError`` unless the problem has PSD and Nonneg blocks and equality rows only.
    """
    require_no_lmis(problem, "the primal side of a file")
    for b, block in enumerate(problem.sets):
        if not isinstance(block, (PSD, Nonneg)):
            raise ProblemError(
                f"block {problem.block_name(b)} is a {block.kind}; on its primal side an SDPA file takes PSD "
                "and Nonneg blocks (equality_form brings any problem into that form)"
            )
    if not problem.equality.all():
        i = int(np.argmin(problem.equality))
        raise ProblemError(
            f"row {problem.row_name(i)} is an inequality; on its primal side an SDPA file takes equality "
            "rows (equality_form adds slack variables)"
        )
    if problem.m == 0:
        raise ProblemError("an SDPA file needs at least one row")
    parts = [_upper(rows, s) for _, s, rows in problem.blocks()]
    block_of = np.concatenate([np.full(part[0].size, b) for b, part in enumerate(parts)])
    which, row, column, value = (np.concatenate([part[k] for part in parts]) for k in range(4))
    return _ordered(_sizes(problem.sets), problem.lower, which + 1, block_of, row, column, value)


def _ordered(
    sizes: np.ndarray,
    c: FloatArray,
    matrix: np.ndarray,
    block: np.ndarray,
    row: np.ndarray,
    column: np.ndarray,
    value: FloatArray,
) -> SdpaData:
    """Sort the entries, matrix by matrix and block by block."""
    order = np.lexsort((column, row, block, matrix))
    return SdpaData(sizes, c, matrix[order], block[order], row[order], column[order], value[order])


@dataclass(frozen=True)
class EqualityForm(Reduction):
    """A problem with PSD and Nonneg blocks and equality rows; see :func:`equality_form` for the formula."""

    original: FeasibilityProblem
    problem: FeasibilityProblem
    #: The kept rows; positions among them of rows with a slack, and of rows with two slacks.
    _rows: np.ndarray
    _open: np.ndarray
    _ranged: np.ndarray

    def point(self, point: Point) -> Point:
        """Return ``x = x_1 - x_2`` for free blocks and drop the slack variables."""
        return tuple(
            part[: block.n] - part[block.n :] if block.free else part
            for part, block in zip(point, self.original.sets, strict=False)
        )

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Return the multipliers of the original rows; zero for dropped rows."""
        out = np.zeros(self.original.m)
        out[self._rows] = y[: self._rows.size]
        return out

    def start_point(self, point: Point) -> Point:
        """Return positive and negative parts of free blocks, and the slacks of inequality rows."""
        out = [
            np.concatenate([np.maximum(x, 0.0), np.maximum(-x, 0.0)]) if block.free else x
            for x, block in zip(point, self.original.sets, strict=True)
        ]
        if self._open.size:
            value = self.original.apply(point)
            above, below = value - self.original.lower, self.original.upper - value
            slack = np.where(np.isfinite(above), above, below)[self._rows[self._open]]
            out.append(np.concatenate([slack, below[self._rows[self._ranged]]]))
        return tuple(out)

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Append ``min(y_i, 0)`` for the row ``s + t = upper - lower`` of every row with two bounds."""
        kept = y[self._rows]
        return np.concatenate([kept, np.minimum(kept[self._ranged], 0.0)])


def equality_form(problem: FeasibilityProblem) -> EqualityForm:
    """Bring a problem into the form of the primal side of an SDPA file.

    ``x in Free(n)`` → ``x = x_1 - x_2``, ``(x_1, x_2) in Nonneg(2n)``. With slacks ``s, t >= 0``,
    ``a >= lower`` → ``a - s = lower``; ``a <= upper`` → ``a + s = upper``; ``lower <= a <= upper`` →
    ``a - s = lower``, ``s + t = upper - lower``. Rows without bounds are dropped. Raises ``ProblemError`` for
    a SpectralBox, which :meth:`FeasibilityProblem.lift` replaces.
    """
    require_no_lmis(problem, "the equality form")
    for b, block in enumerate(problem.sets):
        if block.bounded:
            raise ProblemError(f"block {problem.block_name(b)} is a {block.kind}; lift() the problem first")
    low, high = np.isfinite(problem.lower), np.isfinite(problem.upper)
    index = np.flatnonzero(low | high)
    low, high = low[index], high[index]
    lower, upper = problem.lower[index], problem.upper[index]
    ranged = np.flatnonzero(low & high & (lower < upper))
    m, extra = index.size, ranged.size
    sets: list[BlockSet] = []
    rows: list[Rows | None] = []
    for _, block, old in problem.blocks():
        part = None if old.empty or m == 0 else old.select(index)
        sets.append(Nonneg(2 * block.n) if block.free else block)
        if part is not None and block.free:
            columns = part.explicit()
            part = Sparse(sp.hstack([columns, -columns]), 2 * block.n, matrix=False)
        rows.append(None if part is None else _padded(part, extra))
    open_rows = np.flatnonzero(~((low & high) & (lower == upper)))
    if open_rows.size:
        # A(X) - s = lower or A(X) + s = upper; for rows with two bounds also s + t = upper - lower.
        k = np.arange(open_rows.size)
        sign = np.where(low[open_rows], -1.0, 1.0)
        second = np.searchsorted(open_rows, ranged)
        width = open_rows.size + extra
        e = np.arange(extra)
        places = (
            np.concatenate([open_rows, m + e, m + e]),
            np.concatenate([k, second, open_rows.size + e]),
        )
        values = np.concatenate([sign, np.ones(2 * extra)])
        sets.append(Nonneg(width))
        rows.append(Sparse(sp.csr_array((values, places), shape=(m + extra, width)), width, matrix=False))
    right = np.concatenate([np.where(low, lower, upper), (upper - lower)[ranged]])
    return EqualityForm(problem, FeasibilityProblem(sets, rows, right, right), index, open_rows, ranged)


def _padded(rows: Rows, extra: int) -> Rows:
    """Append ``extra`` zero rows."""
    if extra == 0:
        return rows
    width = rows.n**2 if rows.matrix else rows.n
    return Stacked([rows, Sparse(sp.csr_array((extra, width)), rows.n, rows.matrix)])


@dataclass(frozen=True)
class LmiForm(Reduction):
    """A problem as the LMI side of an SDPA file; its rows are permuted and scaled to entries of the LMIs.

    ``data``: the content of the file, with ``c = 0``.
    """

    original: FeasibilityProblem
    data: SdpaData
    #: For every original row, its index in the LMI form and its divisor.
    _place: np.ndarray
    _divisor: FloatArray

    @cached_property
    def problem(self) -> FeasibilityProblem:  # type: ignore[override]
        """The LMI side, built on first access."""
        return self.data.lmi()

    def point(self, point: Point) -> Point:
        """Split ``x`` into the free blocks; the other blocks are the values of the LMIs."""
        sizes = [block.n for block in self.original.sets if block.free]
        parts = iter(np.split(point[0], np.cumsum(sizes)[:-1]))
        slacks = (lmi.value(point) for lmi in self.problem.lmis)
        return tuple(next(parts if block.free else slacks) for block in self.original.sets)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Return ``Y_ii`` and ``2 Y_ij`` (i < j) in the order and scale of the original rows."""
        parts = []
        for part in self.problem.split(self.problem.multipliers(y))[1]:
            i, j = np.triu_indices(len(part)) if part.ndim == 2 else 2 * (np.arange(part.size),)
            parts.append(np.where(i == j, 1.0, 2.0) * part[i, j] if part.ndim == 2 else part)
        return np.concatenate(parts)[self._place] / self._divisor

    def start_point(self, point: Point) -> Point:
        """Concatenate the free blocks."""
        return (np.concatenate([x for b, x in zip(self.original.sets, point, strict=True) if b.free]),)

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Assemble the multipliers of the rows to one array per LMI."""
        entries = np.empty_like(y)
        entries[self._place] = y * self._divisor
        out, start = [], 0
        for lmi in self.problem.lmis:
            part = entries[start : start + lmi.set.dimension]
            start += part.size
            if lmi.set.matrix:
                part = triangle_map(lmi.set.n, 0.5) @ part
            out.append(part)
        return np.concatenate(out)


def lmi_form(problem: FeasibilityProblem) -> LmiForm:
    """Convert equality rows that define slack blocks to LMIs: ``B(x) + c·S_ij = b`` → ``S = F(x)``.

    The problem must have equality rows only, at least one Free block, and PSD and Nonneg blocks such that
    every row contains exactly one of their entries and every entry is in exactly one row. The rows may be in
    any order. Raises ``ProblemError`` if the problem does not have this form.
    """
    require_no_lmis(problem, "the LMI form")
    free = [b for b, block in enumerate(problem.sets) if block.free]
    if not free:
        raise ProblemError("a linear matrix inequality needs a Free block")
    if not problem.equality.all():
        i = int(np.argmin(problem.equality))
        raise ProblemError(f"row {problem.row_name(i)} is an inequality; an LMI has equality rows only")
    slack = [b for b in range(len(problem.sets)) if b not in free]
    block, row, column, coefficient = _slack_entries(problem, slack)
    columns = sp.hstack([problem.rows[b].explicit() for b in free], format="coo")
    entry, k = columns.coords
    constant = -problem.lower / coefficient
    kept = np.flatnonzero(constant)
    place = np.concatenate([kept, entry])
    data = _ordered(
        _sizes([problem.sets[b] for b in slack]),
        np.zeros(columns.shape[1]),
        np.concatenate([np.zeros(kept.size, dtype=np.int64), k + 1]),
        block[place],
        row[place],
        column[place],
        np.concatenate([constant[kept], -columns.data / coefficient[entry]]),
    )
    return LmiForm(problem, data, data.places(block, row, column), -coefficient)


def _slack_entries(problem: FeasibilityProblem, slack: list[int]) -> Entries:
    """Find the entry of a slack block every row defines (block, row, column) and its coefficient."""
    m = problem.m
    count, block, row, column = (np.zeros(m, dtype=np.int64) for _ in range(4))
    coefficient = np.ones(m)
    for k, b in enumerate(slack):
        own = problem.sets[b]
        if not isinstance(own, (PSD, Nonneg)):
            raise ProblemError(f"block {problem.block_name(b)} is a {own.kind}; lift() the problem first")
        which, i, j, value = _upper(problem.rows[b], own)
        entries = own.dimension
        if which.size != entries or np.unique(i * own.n + j).size != entries:
            raise ProblemError(f"block {problem.block_name(b)}: in an LMI every entry is in exactly one row")
        np.add.at(count, which, 1)
        block[which], row[which], column[which] = k, i, j
        # A row contains an off-diagonal entry twice.
        coefficient[which] = np.where(i == j, 1.0, 2.0) * value
    if np.any(count != 1):
        r = int(np.argmax(count != 1))
        raise ProblemError(
            f"row {problem.row_name(r)} holds {count[r]} entries of PSD and Nonneg blocks; "
            "in an LMI it holds exactly one"
        )
    return block, row, column, coefficient
