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
from itertools import islice
from os import PathLike
from typing import NoReturn

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import FileFormatError, ProblemError
from sdpfeas.files import require_within_limit
from sdpfeas.io.problem_files import (
    BLOCK_BYTES,
    ENTRY_BYTES,
    ROW_BYTES,
    ConicPair,
    Side,
    ranks,
    read_decompressed,
    require_equalities,
    require_side,
    write_compressed,
)
from sdpfeas.numerics.exact_arithmetic import add_up
from sdpfeas.numerics.floating_point_environment import require_ieee
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import require_no_lmis
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import PSD, Nonneg

__all__ = ["read_sdpa", "read_sdpa_program", "write_sdpa"]

_COMMENT = re.compile(rb'(?m)^ *["*][^\n]*')
_SPACE = re.compile(rb"\s*")
_WORD = re.compile(rb"\S+")
_BLANKS = bytes.maketrans(b"{}(),;\t\r\v\f", b" " * 10)
_EXPONENTS = bytes.maketrans(b"dD", b"ee")
_INTEGER = re.compile(rb"[+-]?[0-9]{1,18}(?![0-9.A-Za-z_])")
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
    require_ieee()  # parsing needs rounding to nearest
    text = read_decompressed(path)
    try:
        return _Parser(text).parse().program(side)
    except (ProblemError, FileFormatError) as error:
        raise FileFormatError(f"{path}: {error}") from None


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
    pair = primal_data(problem.slack_form.problem) if side == "primal" else lmi_data(problem)
    question = "find Y with <F_i, Y> = c_i" if side == "primal" else "find x with sum_i x_i F_i - F_0 >= 0"
    comment = f"written by sdpfeas; the problem is the {side} side: {question}"
    write_compressed(path, sdpa_text(pair, comment))


# --- writing


def primal_data(problem: FeasibilityProblem) -> ConicPair:
    """Return the pair with the problem as its primal side.

    Raises ``ProblemError`` unless the problem has PSD and Nonneg blocks and equality rows only.
    """
    require_no_lmis(problem, "the primal side of a file")
    for b, block in enumerate(problem.sets):
        if not isinstance(block, (PSD, Nonneg)):
            raise ProblemError(
                f"block {problem.block_name(b)} is a {block.kind}; on its primal side an SDPA file takes PSD "
                "and Nonneg blocks (sdpfeas.dropin.to_sdpa brings other problems into that form)"
            )
    require_equalities(problem, "on its primal side an SDPA file")
    if problem.m == 0:
        raise ProblemError("an SDPA file needs at least one row")
    columns = sp.hstack([rows.explicit() for rows in problem.rows], format="csc")
    return ConicPair(columns, problem.lower, np.zeros(columns.shape[1]), problem.sets, [], -1)


def lmi_data(problem: FeasibilityProblem) -> ConicPair:
    """Return the pair with the problem as its LMI side and ``c = 0``.

    Raises ``ProblemError`` unless the problem has Free blocks and LMIs into PSD and Nonneg sets only.
    """
    for b, block in enumerate(problem.sets):
        if not block.free:
            named = f"block {problem.block_name(b)} is a {block.kind}"
            raise ProblemError(f"{named}; on its LMI side an SDPA file takes Free blocks")
    if problem.m or not problem.lmis:
        raise ProblemError("on its LMI side an SDPA file takes LMIs, at least one, and no rows")
    for j, lmi in enumerate(problem.lmis):
        if not isinstance(lmi.set, (PSD, Nonneg)):
            raise ProblemError(
                f"LMI {problem.lmi_name(j)} is into {lmi.set.kind}; an SDPA file takes PSD and Nonneg"
            )
    columns = [sp.vstack([rows.explicit() for rows in lmi.coefficients]) for lmi in problem.lmis]
    constant = np.concatenate([lmi.constant.reshape(-1) for lmi in problem.lmis])
    sets, m = [lmi.set for lmi in problem.lmis], sum(block.n for block in problem.sets)
    return ConicPair(sp.hstack(columns, format="csc"), np.zeros(m), -constant, sets, [], -1)


def sdpa_text(pair: ConicPair, comment: str) -> bytes:
    """Return the text of a file with PSD and Nonneg blocks."""
    sets = pair.sets
    sizes = " ".join(str(block.n if block.matrix else -block.n) for block in sets)
    head = [f'"{comment}"', str(pair.b.size), str(len(sets)), sizes, " ".join(map(repr, pair.b.tolist()))]
    # Block, row and column of every entry of X.
    index = [np.divmod(np.arange(s.entries), s.n) if s.matrix else 2 * (np.arange(s.n),) for s in sets]
    row, column = (np.concatenate([part[k] for part in index]) for k in (0, 1))
    block = np.repeat(np.arange(len(sets)), [s.entries for s in sets])
    table = sp.csr_array(sp.vstack([sp.csr_array(pair.c[None]), pair.A]))
    table.sort_indices()
    matrix, entry = table.tocoo().coords
    above = (row <= column)[entry]
    matrix, entry, value = matrix[above], entry[above], table.data[above]
    columns = (matrix, block[entry] + 1, row[entry] + 1, column[entry] + 1, value)
    lines = [
        "%d %d %d %d %r" % line  # noqa: UP031 - the fastest format, for millions of entries
        for line in zip(*(part.tolist() for part in columns), strict=True)
    ]
    return "\n".join([*head, *lines, ""]).encode()


# --- reading


class _Parser:
    """Parses the header number by number, and the entries in bulk."""

    def __init__(self, text: bytes) -> None:
        # Comments become blanks, so that positions stay.
        text = text.translate(_BLANKS)
        marked = b'"' in text or b"*" in text
        self.text = _COMMENT.sub(lambda found: b" " * len(found.group()), text) if marked else text
        self.place = 0

    def parse(self) -> ConicPair:
        """Parse the file."""
        self._require_room(0, self.text.count(b"\n"), "lines", ENTRY_BYTES)
        m = self._count("the number of matrices m", "rows", ROW_BYTES)
        blocks = self._count("the number of blocks", "blocks", BLOCK_BYTES)
        sizes, entries = list[int](), 0
        for place, token in self._numbers(blocks, "the block sizes", _INTEGER):
            size = int(token)
            if size == 0:
                self.fail(place, "a block size must not be zero")
            entries += size * size if size > 0 else -size
            self._require_room(place, entries, "numbers in a point", 8)
            sizes.append(size)
        c = np.zeros(m)
        for k, (place, token) in enumerate(self._numbers(m, "c", _NUMBER)):
            c[k] = float(token.translate(_EXPONENTS))
            if not np.isfinite(c[k]):
                self.fail(place, "c must be finite")
        return self._pair(np.array(sizes, dtype=np.int64), c)

    def fail(self, place: int, message: str) -> NoReturn:
        """Raise an error with line and column of a position."""
        line = self.text.count(b"\n", 0, place) + 1
        column = place - (self.text.rfind(b"\n", 0, place) + 1) + 1
        raise FileFormatError(f"line {line}, column {column}: {message}")

    def _require_room(self, place: int, count: int, what: str, each: int) -> None:
        try:
            require_within_limit(count, what, each=each)
        except FileFormatError as error:
            self.fail(place, str(error))

    def _next(self, kind: re.Pattern[bytes], what: str) -> tuple[int, bytes]:
        """Parse the next number; return it with its position."""
        place = _SPACE.match(self.text, self.place).end()  # type: ignore[union-attr] # matches always
        found = kind.match(self.text, place)
        if found is None:
            word = _WORD.match(self.text, place)
            self.fail(
                place, f"expected {what}, {'but the file ends' if word is None else f'got {_show(word)}'}"
            )
        self.place = found.end()
        return place, found.group()

    def _skip_line(self) -> bytes:
        """Return the rest of the line."""
        start, end = self.place, self.text.find(b"\n", self.place)
        self.place = len(self.text) if end < 0 else end + 1
        return self.text[start : self.place]

    def _count(self, what: str, things: str, each: int) -> int:
        """Parse the first number of the next line, at least 1; the rest of the line is ignored."""
        place, token = self._next(_INTEGER, what)
        value = int(token)
        if value < 1:
            self.fail(place, f"{what} must be at least 1, got {value}")
        if value > len(self.text):
            self.fail(place, f"{what} is {value}, but the file has only {len(self.text)} bytes")
        self._require_room(place, value, things, each)
        self._skip_line()
        return value

    def _numbers(self, count: int, what: str, kind: re.Pattern[bytes]) -> list[tuple[int, bytes]]:
        """Parse ``count`` numbers, over several lines if needed; return them with their positions."""
        noun = "an integer" if kind is _INTEGER else "a number"
        out = [self._next(kind, f"{noun}, entry {k + 1} of {what}") for k in range(count)]
        end = self.place
        rest = self._skip_line()
        if _NUMBER.match(rest.lstrip()):
            place = end + len(rest) - len(rest.lstrip())
            self.fail(place, f"{what} should have {count} entries; more follow on this line")
        return out

    def _pair(self, sizes: np.ndarray, c: FloatArray) -> ConicPair:
        """Parse the entries."""
        table = self._bulk().reshape(-1, 5)
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
            self.fail(self._word(5 * entry + k), why)
        sets = [PSD(int(n)) if n > 0 else Nonneg(int(-n)) for n in sizes]
        starts = np.cumsum([0, *(s.entries for s in sets)])
        low, high, below = np.minimum(i, j).astype(np.int64) - 1, np.maximum(i, j).astype(np.int64) - 1, i > j
        width = np.where(sizes > 0, sizes, 0)[which]
        matrix, upper = matrix.astype(np.int64), starts[which] + low * width + high
        place = ranks(matrix, upper)
        order = np.lexsort((below, place)) if below.any() and (i < j).any() else np.zeros(0, dtype=np.int64)
        both = np.flatnonzero((np.diff(place[order]) == 0) & np.diff(below[order]))
        if both.size:
            self.fail(
                self._word(5 * int(np.min(np.maximum(order[both], order[both + 1]))) + 2),
                "an entry is given in both triangles; one of them stands for both, so give it once",
            )
        index, value, rounded = add_up(place, value)
        if rounded.size:
            self.fail(
                self._word(5 * int(np.min(rounded)) + 4),
                "an entry is given more than once, and the sum of the numbers would be rounded",
            )
        matrix, upper = matrix[index], upper[index]
        mirrored = (starts[which] + high * width + low)[index]
        off = (low < high)[index]
        columns = np.concatenate([upper, mirrored[off]])
        rows, values = np.concatenate([matrix, matrix[off]]), np.concatenate([value, value[off]])
        table = sp.csr_array((values, (rows, columns)), shape=(c.size + 1, int(starts[-1])))
        names = [f"Y{b + 1}" for b in range(len(sets))]
        constant = table[[0]].toarray()[0]
        row_names = [f"F{k + 1}" for k in range(c.size)]
        return ConicPair(table[1:].tocsc(), c, constant, sets, names, -1, row_names)

    def _word(self, k: int) -> int:
        """Return the position of the k-th word of the entries."""
        return next(islice(_WORD.finditer(self.text, self.place), k, None)).start()

    def _bulk(self) -> FloatArray:
        """Parse all numbers of the entries, five each."""
        body = self.text[self.place :]
        dark = np.frombuffer(body, dtype=np.uint8) > ord(" ")
        count = int(np.count_nonzero(dark[1:] & ~dark[:-1])) + int(dark.size > 0 and dark[0])
        if count == 0:
            return np.zeros(0)
        self._require_room(self.place, count // 5, "entries", ENTRY_BYTES)
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)
            try:
                numbers = np.fromstring(body.translate(_EXPONENTS), dtype=np.float64, sep=" ")
            except (DeprecationWarning, ValueError):
                numbers = np.zeros(0)
        if numbers.size != count:
            for word in _WORD.finditer(self.text, self.place):
                if _NUMBER.fullmatch(word.group()) is None:
                    self.fail(word.start(), f"expected a number, got {_show(word)}")
            self.fail(self.place, "the entries could not be read")
        if count % 5:
            self._find_short_line()
        return numbers

    def _find_short_line(self) -> NoReturn:
        """Raise an error at the first line that does not hold whole entries."""
        while self.place < len(self.text):
            place, line = self.place, self._skip_line()
            words = len(line.split())
            if words % 5:
                self.fail(
                    place + len(line) - len(line.lstrip()),
                    f"an entry has five numbers (matrix, block, row, column, value), this line has {words}",
                )
        self.fail(self.place, "the last entry is incomplete")


def _show(word: re.Match[bytes]) -> str:
    return repr(word.group()[:40].decode("latin-1"))
