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

#: Memory estimate in bytes: per row, per entry, per row of a touched block, and per block. That of a block
#: includes its reading time, which is that of some hundred entries.
ROW_ROOM, ENTRY_ROOM, BLOCK_ROW_ROOM, BLOCK_ROOM = 256, 128, 16, 2**15

#: Entries: index of the matrix (or row of a problem), row, column, value.
Entries = tuple[np.ndarray, np.ndarray, np.ndarray, FloatArray]


@dataclass(frozen=True)
class SdpaData:
    """The content of a file: block sizes (negative if diagonal), c, and the entries, counted from zero.

    ``c``: one number per matrix ``F_1, ..., F_m``. ``matrix, block, row, column``: where each entry stands;
    matrix 0 is ``F_0``, and ``row <= column``.
    """

    sizes: np.ndarray
    c: FloatArray
    matrix: np.ndarray
    block: np.ndarray
    row: np.ndarray
    column: np.ndarray
    value: FloatArray

    def added_up(self) -> tuple[SdpaData, np.ndarray]:
        """Return the same with every entry once, and the entries given more often whose sum is rounded."""
        # One number a place: lexicographic ranks, because sizes multiplied up may overflow.
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
        """Every set with the indices of its entries."""
        order = np.argsort(self.block, kind="stable")
        edges = np.searchsorted(self.block[order], np.arange(self.sizes.size + 1))
        for b, block in enumerate(self.sets()):
            yield block, order[edges[b] : edges[b + 1]]

    def _rows(self, block: BlockSet, entries: np.ndarray) -> Rows | None:
        """One row for every matrix but the first, of the entries of one block."""
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

    def _require_room(self) -> None:
        used = np.unique(self.block[self.matrix > 0]).size
        require_within_limit(used * (self.c.size + 1), "rows times blocks", each=BLOCK_ROW_ROOM)

    def primal(self) -> FeasibilityProblem:
        """Find Y with ``<F_i, Y> = c_i``."""
        self._require_room()
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
        """First row of every block on the LMI side, and how many rows there are: one an entry."""
        counts = np.where(self.sizes > 0, self.sizes * (self.sizes + 1) // 2, -self.sizes)
        return np.concatenate([[0], np.cumsum(counts)])

    def places(self, block: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """Rows of the LMI side that entries on or above the diagonal have."""
        size = self.sizes[block]
        inside = np.where(size > 0, row * size - row * (row + 1) // 2 + column, row)
        return np.asarray(self._starts[block] + inside)

    def lmi(self) -> FeasibilityProblem:
        """Find x with ``sum_k x_k F_k - F_0`` positive semidefinite, block by block."""
        self._require_room()
        require_within_limit(
            sum(block.entries for block in self.sets()), "entries of matrices", each=ROW_ROOM
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
        """Return the file."""
        head = [
            f'"{comment}"',
            str(self.c.size),
            str(self.sizes.size),
            " ".join(map(str, self.sizes.tolist())),
            " ".join(map(repr, self.c.tolist())),
        ]
        columns = (self.matrix, self.block + 1, self.row + 1, self.column + 1, self.value)
        lines = [
            "%d %d %d %d %r" % entry  # noqa: UP031 - the fastest way, and there may be millions
            for entry in zip(*(column.tolist() for column in columns), strict=True)
        ]
        return "\n".join([*head, *lines, ""]).encode()


# --- the primal side


def _upper(rows: Rows, block: BlockSet) -> Entries:
    """Entries of the rows on or above the diagonal."""
    coo = rows.explicit().tocoo()
    which, place = coo.coords
    i, j = np.divmod(place, block.n) if block.matrix else (place, place)
    keep = i <= j
    return which[keep], i[keep], j[keep], coo.data[keep]


def _sizes(sets: Sequence[BlockSet]) -> np.ndarray:
    return np.array([s.n if s.matrix else -s.n for s in sets], dtype=np.int64)


def primal_data(problem: FeasibilityProblem) -> SdpaData:
    """Return the file whose primal side is the problem.

    ``problem``: PSD and Nonneg blocks and equality rows only.

    Raises ``ProblemError``: if there are others; the message says where.
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
    """A problem made of PSD and Nonneg blocks and equality rows."""

    original: FeasibilityProblem
    problem: FeasibilityProblem
    #: The rows that are kept; among those the ones with a slack, and the ones with two.
    _rows: np.ndarray
    _open: np.ndarray
    _ranged: np.ndarray

    def point(self, point: Point) -> Point:
        """Differences of split blocks; slack variables are dropped."""
        return tuple(
            part[: block.n] - part[block.n :] if block.free else part
            for part, block in zip(point, self.original.sets, strict=False)
        )

    def multipliers(self, y: FloatArray) -> FloatArray:
        """The multipliers of the original rows."""
        out = np.zeros(self.original.m)
        out[self._rows] = y[: self._rows.size]
        return out

    def start_point(self, point: Point) -> Point:
        """Positive and negative parts of free blocks, and the slack that is left in every row."""
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
        """What an upper bound contributes goes to the row of its width."""
        kept = y[self._rows]
        return np.concatenate([kept, np.minimum(kept[self._ranged], 0.0)])


def equality_form(problem: FeasibilityProblem) -> EqualityForm:
    """Bring a problem into the form of the primal side of an SDPA file.

    A Free block becomes the difference of two halves of a Nonneg block. A row with one bound gets a slack
    variable; one with two gets two and a further row for the width between the bounds; one without any is
    dropped.

    ``problem``: a problem without SpectralBox; :meth:`FeasibilityProblem.lift` replaces those.
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
        # A(X) - s = lower or A(X) + s = upper; and s + t = upper - lower where there are both.
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
    """Rows followed by rows of zeros."""
    if extra == 0:
        return rows
    width = rows.n**2 if rows.matrix else rows.n
    return Stacked([rows, Sparse(sp.csr_array((extra, width)), rows.n, rows.matrix)])


@dataclass(frozen=True)
class LmiForm(Reduction):
    """A problem seen as the LMI side of an SDPA file: rows in the order of its entries, divided by a number.

    ``data``: the file; its ``c`` is zero.
    """

    original: FeasibilityProblem
    data: SdpaData
    #: For every row of the original, the row it became, and the number it was divided by.
    _place: np.ndarray
    _divisor: FloatArray

    @cached_property
    def problem(self) -> FeasibilityProblem:  # type: ignore[override]
        """The LMI side; made when it is asked for."""
        return self.data.lmi()

    def point(self, point: Point) -> Point:
        """Cut ``x`` into the free blocks; the others are the values of the LMIs."""
        sizes = [block.n for block in self.original.sets if block.free]
        parts = iter(np.split(point[0], np.cumsum(sizes)[:-1]))
        slacks = (lmi.value(point) for lmi in self.problem.lmis)
        return tuple(next(parts if block.free else slacks) for block in self.original.sets)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """In the order and the units of the original rows: each is twice an entry off the diagonal."""
        parts = []
        for part in self.problem.split(self.problem.multipliers(y))[1]:
            i, j = np.triu_indices(len(part)) if part.ndim == 2 else 2 * (np.arange(part.size),)
            parts.append(np.where(i == j, 1.0, 2.0) * part[i, j] if part.ndim == 2 else part)
        return np.concatenate(parts)[self._place] / self._divisor

    def start_point(self, point: Point) -> Point:
        """All free blocks in one."""
        return (np.concatenate([x for b, x in zip(self.original.sets, point, strict=True) if b.free]),)

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """One matrix for every LMI."""
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
    """See a problem as a linear matrix inequality: Free blocks, and slack blocks that the rows define.

    ``problem``: equality rows only, at least one Free block, and PSD and Nonneg blocks such that every row
    holds exactly one of their entries and every entry stands in exactly one row. Rows may come in any order
    and are divided by the coefficient of that entry, if it is not one.

    Raises ``ProblemError``: if the problem is not of this form; the message says where.
    """
    require_no_lmis(problem, "this form of LMIs")
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
            raise ProblemError(
                f"block {problem.block_name(b)}: in an LMI every entry stands in exactly one row"
            )
        np.add.at(count, which, 1)
        block[which], row[which], column[which] = k, i, j
        # The row holds an entry off the diagonal twice.
        coefficient[which] = np.where(i == j, 1.0, 2.0) * value
    if np.any(count != 1):
        r = int(np.argmax(count != 1))
        raise ProblemError(
            f"row {problem.row_name(r)} holds {count[r]} entries of PSD and Nonneg blocks, in an LMI just one"
        )
    return block, row, column, coefficient
