"""Read and write SDPA sparse files (``.dat-s``, ``.dat-s.gz``): :func:`read_sdpa`, :func:`write_sdpa`.

A file holds numbers ``c_1, ..., c_m`` and symmetric, block-diagonal matrices ``F_0, F_1, ..., F_m``, and
states two problems that are dual to each other, the two *sides* of the file:

``side="primal"``
    Find ``Y`` positive semidefinite with ``<F_i, Y> = c_i`` for all i. One PSD block per block of the file,
    one Nonneg block per diagonal one, one equality row per i. ``<F_0, Y>`` is maximised.
``side="lmi"``
    Find ``x`` with ``X = x_1 F_1 + ... + x_m F_m - F_0`` positive semidefinite. One Free block ``x``, and an
    LMI into PSD per block of the file, into Nonneg per diagonal one. ``c'x`` is minimised.

The SDPA manual calls the second side (P) and the first side (D).

The format: lines that begin with ``"`` or ``*`` are comments. Then come m, the number of blocks, and the
block sizes (negative for a diagonal block), each on a line of its own, then c, then the entries ``matrix
block i j value``. Braces, parentheses and commas count as blanks, text behind the header numbers is ignored,
numbers may be broken over lines, and Fortran's ``1.0D+00`` is understood. An entry stands for itself and its
mirror image, whichever triangle it is in. Entries given more than once are added up, as SDPT3 does (CSDP
refuses them), unless the sum would be rounded. A file with both ``(i, j)`` and ``(j, i)`` is refused, as by
CSDP: it may mean one entry or the sum of two.

Numbers are rounded to the nearest double, as by every solver. Verdicts are about those doubles.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from os import PathLike
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import FileFormatError, ProblemError
from sdpfeas.files import require_within_limit
from sdpfeas.io.problem_files import (
    BLOCK_BYTES,
    BLOCK_ROW_BYTES,
    ENTRY_BYTES,
    ROW_BYTES,
    Side,
    read_decompressed,
    require_side,
    write_compressed,
)
from sdpfeas.numerics.exact_arithmetic import add_up
from sdpfeas.numerics.floating_point_environment import require_ieee
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI, require_no_lmis
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Rows, Sparse
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg

__all__ = ["read_sdpa", "read_sdpa_program", "write_sdpa"]

_COMMENT = (b'"', b"*")
_SPACE = re.compile(rb"\s*")
_WORD = re.compile(rb"\S+")
_BLANKS = bytes.maketrans(b"{}(),;\t\r\v\f", b" " * 10)
_EXPONENTS = bytes.maketrans(b"dD", b"ee")
_INTEGER = re.compile(rb"[+-]?[0-9]{1,18}(?![0-9.A-Za-z_])")
#: Entries: index of the matrix (or row of a problem), row, column, value.
Entries = tuple[np.ndarray, np.ndarray, np.ndarray, FloatArray]

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eEdD][+-]?[0-9]+)?(?![0-9.A-Za-z_+-])")


def read_sdpa(path: str | PathLike[str], side: Side = "primal") -> FeasibilityProblem:
    """Read one side of an SDPA sparse file as a feasibility problem, without its objective.

    Parameters
    ----------
    path : path
        A ``.dat-s`` file; gzip is recognised by the content.
    side : {"primal", "lmi"}
        ``"primal"``: find ``Y`` positive semidefinite with ``<F_i, Y> = c_i``. ``"lmi"``: find ``x`` with
        ``sum_i x_i F_i - F_0`` positive semidefinite. See :mod:`sdpfeas.io.sdpa` for blocks and rows.

    Raises
    ------
    FileFormatError
        If the file is malformed (the message gives line and column), or if the problem is larger than the
        read limit; that is checked before memory is allocated (see :mod:`sdpfeas.files`).
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import pathlib, tempfile, sdpfeas as sf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "p.dat-s")
    ...     size = path.write_text("1\\n1\\n2\\n1.0\\n1 1 1 1 1.0\\n1 1 2 2 1.0\\n")
    ...     problem = sf.read_sdpa(path)
    >>> problem.sets, problem.m
    ((PSD(n=2),), 1)
    """
    return read_sdpa_program(path, side)[0]


def read_sdpa_program(
    path: str | PathLike[str], side: Side = "primal"
) -> tuple[FeasibilityProblem, Objective]:
    """Read one side of an SDPA sparse file with its objective."""
    require_side(side)
    name = str(path)
    require_ieee()  # parsing needs rounding to nearest
    data = _Parser(read_decompressed(path), name).parse()
    try:
        problem = data.primal() if side == "primal" else data.lmi()
        return problem, _objective(data, problem, side)
    except (ProblemError, FileFormatError) as error:
        raise FileFormatError(f"{name}: {error}") from None


def write_sdpa(problem: FeasibilityProblem, path: str | PathLike[str], side: Side = "primal") -> None:
    """Write a problem as one side of an SDPA sparse file, with a zero objective.

    Parameters
    ----------
    problem : FeasibilityProblem
        For ``side="primal"``: PSD and Nonneg blocks and equality rows only
        (:func:`sdpfeas.dropin.to_sdpa` adds slack variables to others). For ``side="lmi"``: Free blocks, and
        LMIs into PSD and Nonneg sets. Names are not kept. Rows stored as products are multiplied out, in
        floating point.
    path : path
        Compressed if it ends in ``.gz``.
    side : {"primal", "lmi"}
        The side of the file to write; read the file with the same side.

    Raises
    ------
    ProblemError
        If the problem does not have the form of that side; the message names the block or row.

    Examples
    --------
    >>> import tempfile, numpy as np, sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sf.write_sdpa(problem, f"{folder}/p.dat-s.gz")
    ...     print(sf.solve(sf.read_sdpa(f"{folder}/p.dat-s.gz")).verdict)
    feasible
    """
    require_side(side)
    data = primal_data(problem.slack_form.problem) if side == "primal" else lmi_data(problem)
    question = "find Y with <F_i, Y> = c_i" if side == "primal" else "find x with sum_i x_i F_i - F_0 >= 0"
    text = data.text(f"written by sdpfeas; the problem is the {side} side: {question}")
    write_compressed(path, text)


def _objective(data: SdpaData, problem: FeasibilityProblem, side: Side) -> Objective:
    """Return the objective of a side."""
    terms = [np.zeros(block.shape) for block in problem.sets]
    if side == "lmi":
        terms[0] = data.c
        return Objective(tuple(terms), "min")
    constant = np.flatnonzero(data.matrix == 0)
    for b in np.unique(data.block[constant]):
        index = constant[data.block[constant] == b]
        i, j, value = data.row[index], data.column[index], data.value[index]
        if problem.sets[b].matrix:
            terms[b][i, j] = terms[b][j, i] = value
        else:
            terms[b][i] = value
    return Objective(tuple(terms), "max")


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


# --- writing


def _upper(rows: Any, block: BlockSet) -> Entries:
    """Return the entries of the rows in the upper triangle."""
    coo = sp.coo_array(rows)
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
                "and Nonneg blocks (sdpfeas.dropin.to_sdpa brings other problems into that form)"
            )
    if not problem.equality.all():
        i = int(np.argmin(problem.equality))
        raise ProblemError(
            f"row {problem.row_name(i)} is an inequality; on its primal side an SDPA file takes equality "
            "rows (sdpfeas.dropin.to_sdpa adds slack variables)"
        )
    if problem.m == 0:
        raise ProblemError("an SDPA file needs at least one row")
    parts = [_upper(rows.explicit(), s) for _, s, rows in problem.blocks()]
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


def lmi_data(problem: FeasibilityProblem) -> SdpaData:
    """Return the file with the problem as its LMI side and ``c = 0``.

    Raises ``ProblemError`` unless the problem has Free blocks and LMIs into PSD and Nonneg sets only.
    """
    for b, block in enumerate(problem.sets):
        if not block.free:
            named = f"block {problem.block_name(b)} is a {block.kind}"
            raise ProblemError(f"{named}; on its LMI side an SDPA file takes Free blocks")
    if problem.m or not problem.lmis:
        raise ProblemError("on its LMI side an SDPA file takes LMIs, at least one, and no rows")
    starts = np.cumsum([1, *(block.n for block in problem.sets)])
    parts = []
    for j, lmi in enumerate(problem.lmis):
        if not isinstance(lmi.set, (PSD, Nonneg)):
            raise ProblemError(
                f"LMI {problem.lmi_name(j)} is into {lmi.set.kind}; an SDPA file takes PSD and Nonneg"
            )
        tables = [-lmi.constant.reshape(1, -1), *(rows.explicit() for rows in lmi.coefficients)]
        for start, table in zip([0, *starts], tables, strict=False):
            which, *rest = _upper(table, lmi.set)
            parts.append((start + which, np.full(which.size, j), *rest))
    c = np.zeros(int(starts[-1]) - 1)
    sizes = _sizes([lmi.set for lmi in problem.lmis])
    return _ordered(sizes, c, *(np.concatenate([part[k] for part in parts]) for k in range(5)))


# --- reading


class _Parser:
    """Parses the header number by number, and the entries in bulk."""

    def __init__(self, text: bytes, name: str) -> None:
        self.name = name
        # The length stays the same, so that positions do.
        self.text = text.translate(_BLANKS)
        self.place = 0

    def parse(self) -> SdpaData:
        """Parse the file."""
        self._require_room(0, self.text.count(b"\n"), "lines", ENTRY_BYTES)
        m = self._count("the number of matrices m", "rows", ROW_BYTES)
        blocks = self._count("the number of blocks", "blocks", BLOCK_BYTES)
        sizes = self._block_sizes(blocks)
        return self._entries(sizes, self._right_hand_side(m))

    def fail(self, place: int, message: str) -> NoReturn:
        """Raise an error with line and column of a position."""
        line = self.text.count(b"\n", 0, place) + 1
        column = place - (self.text.rfind(b"\n", 0, place) + 1) + 1
        raise FileFormatError(f"{self.name}, line {line}, column {column}: {message}")

    def _require_room(self, place: int, count: int, what: str, each: int) -> None:
        try:
            require_within_limit(count, what, each=each)
        except FileFormatError as error:
            self.fail(place, str(error))

    def _skip(self) -> None:
        """Skip blanks and comment lines."""
        while True:
            self.place = _SPACE.match(self.text, self.place).end()  # type: ignore[union-attr] # matches always
            if self.text[self.place : self.place + 1] not in _COMMENT or not self._begins_line():
                return
            self.place = self._line_end()

    def _begins_line(self) -> bool:
        return not self.text[self.text.rfind(b"\n", 0, self.place) + 1 : self.place].strip()

    def _line_end(self) -> int:
        end = self.text.find(b"\n", self.place)
        return len(self.text) if end < 0 else end

    def _count(self, what: str, things: str, each: int) -> int:
        """Parse the first number of the next line, at least 1; the rest of the line is ignored."""
        self._skip()
        found = _INTEGER.match(self.text, self.place)
        if found is None:
            self.fail(self.place, f"expected {what}, {self._found()}")
        value = int(found.group())
        if value < 1:
            self.fail(self.place, f"{what} must be at least 1, got {value}")
        if value > len(self.text):
            self.fail(self.place, f"{what} is {value}, but the file has only {len(self.text)} bytes")
        self._require_room(self.place, value, things, each)
        self.place = self._line_end() + 1
        return value

    def _found(self) -> str:
        word = _WORD.match(self.text, self.place)
        return "but the file ends" if word is None else f"got {_show(word)}"

    def _numbers(self, count: int, what: str, kind: re.Pattern[bytes]) -> list[tuple[int, bytes]]:
        """Parse ``count`` numbers, over several lines if needed; return them with their positions."""
        out: list[tuple[int, bytes]] = []
        while len(out) < count:
            self._skip()
            found = kind.match(self.text, self.place)
            if found is None:
                whole = "an integer" if kind is _INTEGER else "a number"
                self.fail(self.place, f"expected {whole}, entry {len(out) + 1} of {what}, {self._found()}")
            out.append((self.place, found.group()))
            self.place = found.end()
        rest = self.text[self.place : self._line_end()]
        extra = _NUMBER.match(rest.lstrip())
        if extra is not None:
            self.place += len(rest) - len(rest.lstrip())
            self.fail(self.place, f"{what} should have {count} entries; more follow on this line")
        self.place = self._line_end() + 1
        return out

    def _block_sizes(self, blocks: int) -> np.ndarray:
        sizes = []
        entries = 0
        for place, token in self._numbers(blocks, "the block sizes", _INTEGER):
            size = int(token)
            if size == 0:
                self.fail(place, "a block size must not be zero")
            entries += size * size if size > 0 else -size
            self._require_room(place, entries, "numbers in a point", 8)
            sizes.append(size)
        return np.array(sizes, dtype=np.int64)

    def _right_hand_side(self, m: int) -> FloatArray:
        tokens = self._numbers(m, "c", _NUMBER)
        c = np.array([float(token.translate(_EXPONENTS)) for _, token in tokens])
        if not np.isfinite(c).all():
            self.fail(tokens[int(np.argmin(np.isfinite(c)))][0], "c must be finite")
        return c

    def _entries(self, sizes: np.ndarray, c: FloatArray) -> SdpaData:
        start = self.place
        body = self.text[start:]
        if any(mark in body for mark in _COMMENT):
            body = re.sub(rb'(?m)^ *["*][^\n]*', lambda match: b" " * len(match.group()), body)
        numbers = self._bulk(body, start)
        table = numbers.reshape(-1, 5)
        matrix, block, i, j, value = table.T
        whole = (table[:, :4] == np.floor(table[:, :4])).all(axis=1)
        known = whole & (block >= 1) & (block <= sizes.size)
        which = np.where(known, block, 1).astype(np.int64) - 1
        side = np.abs(sizes)[which]
        checks = [
            (whole, 0, "matrix, block, row and column of an entry must be integers"),
            ((matrix >= 0) & (matrix <= c.size), 0, f"the matrix of an entry must be from 0 to {c.size}"),
            (known, 1, f"the block of an entry must be from 1 to {sizes.size}"),
            ((i >= 1) & (i <= side), 2, "the row of an entry is outside its block"),
            ((j >= 1) & (j <= side), 3, "the column of an entry is outside its block"),
            ((sizes[which] > 0) | (i == j), 3, "an entry off the diagonal of a diagonal block"),
            (np.isfinite(value), 4, "the value of an entry must be finite"),
        ]
        wrong = [(int(np.argmin(fine)), k, why) for fine, k, why in checks if not fine.all()]
        if wrong:
            entry, k, why = min(wrong, key=lambda item: item[0])
            self.fail(start + _token_place(body, 5 * entry + k), why)
        row, column = np.minimum(i, j).astype(np.int64) - 1, np.maximum(i, j).astype(np.int64) - 1
        data = SdpaData(sizes, c, matrix.astype(np.int64), which, row, column, np.array(value))
        both = _in_both_triangles(table)
        if both is not None:
            self.fail(
                start + _token_place(body, 5 * both + 2),
                "an entry is given in both triangles; one of them stands for both, so give it once",
            )
        once, rounded = data.added_up()
        if rounded.size:
            self.fail(
                start + _token_place(body, 5 * int(np.min(rounded)) + 4),
                "an entry is given more than once, and the sum of the numbers would be rounded",
            )
        return once

    def _bulk(self, body: bytes, start: int) -> FloatArray:
        """Parse all numbers of the body, five per entry."""
        dark = np.frombuffer(body, dtype=np.uint8) > ord(" ")
        count = int(np.count_nonzero(dark[1:] & ~dark[:-1])) + int(dark.size > 0 and dark[0])
        if count == 0:
            return np.zeros(0)
        self._require_room(start, count // 5, "entries", ENTRY_BYTES)
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            try:
                numbers = np.fromstring(body.translate(_EXPONENTS), dtype=np.float64, sep=" ")
            except (DeprecationWarning, ValueError):
                numbers = np.zeros(0)
        if numbers.size != count:
            self._find_word(body, start)
        if count % 5:
            self._find_short_line(body, start)
        return numbers

    def _find_word(self, body: bytes, start: int) -> NoReturn:
        """Raise an error at the first word that is not a number."""
        for word in _WORD.finditer(body):
            if _NUMBER.fullmatch(word.group()) is None:
                self.fail(start + word.start(), f"expected a number, got {_show(word)}")
        self.fail(start, "the entries could not be read")

    def _find_short_line(self, body: bytes, start: int) -> NoReturn:
        """Raise an error at the first line that does not hold whole entries."""
        place = start
        for line in body.split(b"\n"):
            words = len(line.split())
            if words % 5:
                self.fail(
                    place + len(line) - len(line.lstrip()),
                    f"an entry has five numbers (matrix, block, row, column, value), this line has {words}",
                )
            place += len(line) + 1
        self.fail(place, "the last entry is incomplete")


def _in_both_triangles(table: FloatArray) -> int | None:
    """Return the first entry that is given in both triangles, by its second occurrence; None without one."""
    matrix, block, i, j, _ = table.T
    below = i > j
    if not below.any() or not (i < j).any():
        return None
    keys = (matrix, block, np.minimum(i, j), np.maximum(i, j))
    order = np.lexsort((below, *keys))
    same = np.ones(order.size - 1, dtype=bool)
    for key in keys:
        same &= key[order[1:]] == key[order[:-1]]
    found = np.flatnonzero(same & (below[order[1:]] != below[order[:-1]]))
    return int(np.min(np.maximum(order[found], order[found + 1]))) if found.size else None


def _token_place(body: bytes, k: int) -> int:
    """Return the position of the k-th token."""
    return next(islice(_WORD.finditer(body), k, None)).start()


def _show(word: re.Match[bytes]) -> str:
    return repr(word.group()[:40].decode("latin-1"))
