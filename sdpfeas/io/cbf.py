"""Read and write the Conic Benchmark Format (``.cbf``, ``.cbf.gz``): :func:`read_cbf`, :func:`write_cbf`.

A file has scalar variables, symmetric matrix variables (``PSDVAR``), and affine maps of these into cones.
Scalar variables become one block per line of ``VAR``: ``F`` Free, ``L+`` Nonneg, ``L-`` Nonneg with opposite
signs, ``Q`` SecondOrder, ``QR`` SecondOrder (:func:`sdpfeas.io.problem_files.unrotate`); those of ``L=`` are
zero and removed. Matrix variables follow as PSD blocks. Linear constraints (``F``, ``L+``, ``L-``, ``L=``)
become rows, in their order; ``Q``, ``QR`` and ``PSDCON`` become LMIs into SecondOrder and PSD sets. Integer
variables, other cones, several instances in one file, and numbers that would be rounded are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
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
    read_decompressed,
    unrotate,
    write_compressed,
)
from sdpfeas.numerics.exact_arithmetic import add_up
from sdpfeas.numerics.floating_point_environment import require_ieee
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Rows, Sparse
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SecondOrder

#: Cones of variables and of constraints.
LINEAR, QUADRATIC = ("F", "L+", "L-", "L="), ("Q", "QR")

#: Number of indices per line of every list of coordinates; a value follows them.
COORDINATES = {
    "OBJFCOORD": 3, "OBJACOORD": 1, "FCOORD": 4, "ACOORD": 2, "BCOORD": 1, "HCOORD": 4, "DCOORD": 3,
}  # fmt: skip

_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(rb"[0-9]{1,18}")

Chunk = tuple[str, int]


def read_cbf(path: str | PathLike[str]) -> FeasibilityProblem:
    """Read a CBF file as a feasibility problem, without its objective.

    Parameters
    ----------
    path : path
        A ``.cbf`` file; gzip is recognised by the content.

    Raises
    ------
    FileFormatError
        If the file is malformed (the message gives the line), uses unknown cones or keywords, or is larger
        than the read limit; that is checked before memory is allocated (see :mod:`sdpfeas.files`).
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import pathlib, tempfile, sdpfeas as sf
    >>> text = "VER\\n1\\nOBJSENSE\\nMIN\\nVAR\\n2 1\\nL+ 2\\nCON\\n1 1\\nL= 1\\nACOORD\\n1\\n0 0 1.0\\n"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "p.cbf")
    ...     size = path.write_text(text)
    ...     problem = sf.read_cbf(path)
    >>> problem.sets, problem.m
    ((Nonneg(n=2),), 1)
    """
    return read_cbf_program(path)[0]


def read_cbf_program(path: str | PathLike[str], side: str = "primal") -> tuple[FeasibilityProblem, Objective]:
    """Read a CBF file with its objective. ``side`` is ignored: a file has only one side."""
    require_ieee()  # parsing needs rounding to nearest
    text = read_decompressed(path)
    try:
        return _Parser(text).parse().program()
    except (FileFormatError, ProblemError) as error:
        raise FileFormatError(f"{path}: {error}") from None


@dataclass
class _Content:
    """The data of a file; coordinates as arrays of indices and of values."""

    sense: str = ""
    variables: list[Chunk] = field(default_factory=list)
    constraints: list[Chunk] = field(default_factory=list)
    matrices: list[int] = field(default_factory=list)
    inequalities: list[int] = field(default_factory=list)
    offset: float = 0.0
    coordinates: dict[str, tuple[np.ndarray, FloatArray]] = field(default_factory=dict)

    def table(self, name: str, shape: tuple[int, ...]) -> tuple[np.ndarray, FloatArray]:
        """Return indices and values of a list of coordinates, after a check of the indices."""
        width = COORDINATES[name]
        index, value = self.coordinates.get(name, (np.zeros((0, width), dtype=np.int64), np.zeros(0)))
        for k, most in enumerate(shape):
            if np.any(index[:, k] >= most):
                raise FileFormatError(f"{name}: an index is beyond the {most} there are")
        return index, value

    def symmetric(self, name: str, sides: list[int], outer: tuple[int, ...]) -> Iterator[Any]:
        """Yield the entries of every matrix: leading index, position in the flat matrix, and value."""
        which = len(outer) if name == "FCOORD" else 0
        shape = list(outer)
        shape.insert(which, len(sides))
        index, value = self.table(name, tuple(shape))
        side = np.array(sides, dtype=np.int64)[index[:, which]] if sides else np.zeros(0, dtype=np.int64)
        i, j = index[:, -2], index[:, -1]
        if np.any((i >= side) | (j >= side)):
            raise FileFormatError(f"{name}: an entry is outside its matrix")
        rest = np.delete(index[:, :-2], which, axis=1)
        first = rest[:, 0] if rest.shape[1] else np.zeros(len(index), dtype=np.int64)
        low, high = np.minimum(i, j), np.maximum(i, j)
        for k, n in enumerate(sides):
            own = np.flatnonzero(index[:, which] == k)
            place = first[own] * n * n + low[own] * n + high[own]
            kept, total = _add_up(place, value[own], name)
            own = own[kept]
            off = low[own] != high[own]
            both = np.concatenate([low[own] * n + high[own], (high[own] * n + low[own])[off]])
            yield np.concatenate([first[own], first[own][off]]), both, np.concatenate([total, total[off]])

    def program(self) -> tuple[FeasibilityProblem, Objective]:
        """Return the problem and its objective."""
        count, lines = sum(n for _, n in self.variables), sum(n for _, n in self.constraints)
        entries = count + sum(n * n for n in self.matrices)
        require_within_limit(entries, "numbers in a point", each=8)
        require_within_limit(sum(n * n for n in self.inequalities), "numbers in matrix inequalities", each=8)
        require_within_limit(lines, "rows", each=ROW_BYTES)
        blocks = len(self.variables) + len(self.matrices)
        cones = sum(kind in QUADRATIC for kind, _ in self.constraints) + len(self.inequalities)
        require_within_limit(blocks * (lines + 1 + cones), "rows times blocks", each=BLOCK_ROW_BYTES)
        require_within_limit(
            cones * (count + sum(n * n for n in self.matrices)), "entries times cones", each=8
        )
        index, value = self.table("ACOORD", (lines, count))
        scalar = _matrix(index[:, 0], index[:, 1], value, (lines, count), "ACOORD")
        index, value = self.table("BCOORD", (lines,))
        constant = _matrix(0 * index[:, 0], index[:, 0], value, (1, lines), "BCOORD").toarray()[0]
        index, value = self.table("OBJACOORD", (count,))
        goal = _matrix(0 * index[:, 0], index[:, 0], value, (1, count), "OBJACOORD")
        sets, maps, terms = self._blocks(scalar, goal, lines)
        slopes = [
            list(self._unfolded(_matrix(first, place, v, (count, n * n), "HCOORD")))
            for (first, place, v), n in zip(
                self.symmetric("HCOORD", self.inequalities, (count,)), self.inequalities, strict=True
            )
        ]
        constants = self.symmetric("DCOORD", self.inequalities, ())
        lmis = []
        for n, own, (first, place, v) in zip(self.inequalities, slopes, constants, strict=True):
            middle = _matrix(first, place, v, (1, n * n), "DCOORD").reshape((n, n))
            lmis.append(LMI(PSD(n), middle.toarray(), [*own, *([None] * len(self.matrices))]))
        return self._assembled(sets, maps, constant, lmis), Objective(
            tuple(terms), "max" if self.sense == "MAX" else "min", self.offset
        )

    def _blocks(
        self, scalar: Any, goal: Any, lines: int
    ) -> tuple[list[BlockSet], list[Any], list[FloatArray]]:
        """Return the sets, their columns of all constraints, and their parts of the objective."""
        kinds: dict[str, type[BlockSet]] = {"F": Free, "L+": Nonneg, "L-": Nonneg, "Q": SecondOrder}
        sets: list[BlockSet] = [kinds.get(kind, SecondOrder)(n) for kind, n in self.variables if kind != "L="]
        maps = list(self._in_blocks(scalar))
        terms = [part.toarray()[0] for part in self._in_blocks(goal)]
        sets += [PSD(n) for n in self.matrices]
        for n, (row, place, v) in zip(
            self.matrices, self.symmetric("FCOORD", self.matrices, (lines,)), strict=True
        ):
            maps.append(_matrix(row, place, v, (lines, n * n), "FCOORD"))
        for n, (row, place, v) in zip(
            self.matrices, self.symmetric("OBJFCOORD", self.matrices, ()), strict=True
        ):
            terms.append(_matrix(row, place, v, (1, n * n), "OBJFCOORD").toarray().reshape(n, n))
        if not sets:
            raise FileFormatError("the file has no variables")
        return sets, maps, terms

    def _in_blocks(self, columns: Any) -> Iterator[Any]:
        """Yield the columns of every block of scalar variables, in the coordinates of its set."""
        columns, place = sp.csc_array(columns), 0
        for kind, n in self.variables:
            part = columns[:, place : place + n]
            place += n
            if kind != "L=":
                yield unrotate(part) if kind == "QR" else -part if kind == "L-" else part

    def _unfolded(self, slopes: Any) -> Iterator[Any]:
        """Yield the coefficients of every block of scalar variables, one line per entry."""
        for part in self._in_blocks(slopes.T):
            yield sp.csr_array(part.T) if part.nnz else None

    def _assembled(
        self, sets: list[BlockSet], maps: list[Any], constant: FloatArray, lmis: list[LMI]
    ) -> FeasibilityProblem:
        kept, lower, upper, cones, place = [], [], [], [], 0
        maps = [sp.csr_array(part) for part in maps]
        for kind, n in self.constraints:
            own = slice(place, place + n)
            place += n
            if kind in LINEAR:
                kept.append(np.arange(own.start, own.stop))
                lower.append(-constant[own] if kind in ("L+", "L=") else np.full(n, -np.inf))
                upper.append(-constant[own] if kind in ("L-", "L=") else np.full(n, np.inf))
                continue
            parts, middle = [part[own].T for part in maps], constant[None, own]
            if kind == "QR":
                # For a map, t = u/2 + v and w = v - u/2.
                order = [1, 0, *range(2, n)] if n > 1 else [0]
                parts = [unrotate(part[:, order]) for part in parts]
                middle = unrotate(sp.csr_array(middle[:, order])).toarray()
            slopes = [sp.csr_array(part) if part.nnz else None for part in parts]
            cones.append(LMI(SecondOrder(n), middle[0], slopes))
        index = np.concatenate([np.zeros(0, dtype=np.int64), *kept])
        rows: list[Rows | None] = []
        for block, part in zip(sets, maps, strict=True):
            chosen = part[index]
            rows.append(Sparse(chosen, block.n, block.matrix) if chosen.nnz else None)
        low, high = (np.concatenate([np.zeros(0), *each]) + 0.0 for each in (lower, upper))
        return FeasibilityProblem(sets, rows, low, high, lmis=[*cones, *lmis])


def _add_up(place: np.ndarray, value: FloatArray, name: str) -> tuple[np.ndarray, FloatArray]:
    """Add up entries at the same position; return the index of one entry per position, and the sums."""
    kept, total, rounded = add_up(place, value)
    if rounded.size:
        raise FileFormatError(f"{name}: an entry is given more than once, and the sum would be rounded")
    return kept, total


def _matrix(row: np.ndarray, column: np.ndarray, value: FloatArray, shape: tuple[int, int], name: str) -> Any:
    """Build a sparse array, with entries at the same position added up."""
    kept, total = _add_up(row * max(shape[1], 1) + column, value, name)
    return sp.csr_array((total, (row[kept], column[kept])), shape=shape)


class _Parser:
    """Parses a file keyword by keyword."""

    def __init__(self, text: bytes) -> None:
        require_within_limit(text.count(b"\n"), "lines", each=ENTRY_BYTES)
        self.lines = text.split(b"\n")
        self.place = 0
        self.content = _Content()

    def fail(self, message: str) -> NoReturn:
        """Raise an error with the line."""
        raise FileFormatError(f"line {self.place}: {message}")

    def words(self) -> list[bytes]:
        """Return the words of the next line that is not blank or a comment; an empty list at the end."""
        while self.place < len(self.lines):
            line = self.lines[self.place].split(b"#", 1)[0].split()
            self.place += 1
            if line:
                return line
        return []

    def parse(self) -> _Content:
        """Parse the file."""
        seen: set[str] = set()
        while words := self.words():
            name = words[0].decode("latin-1")
            if len(words) > 1 or name in seen:
                self.fail(f"expected a keyword that was not there yet, got {name[:40]!r}")
            seen.add(name)
            self.section(name)
        if not {"VER", "OBJSENSE"} <= seen:
            self.fail("a CBF file needs VER and OBJSENSE")
        return self.content

    def section(self, name: str) -> None:
        """Parse the section of a keyword."""
        content = self.content
        if name == "VER":
            if self.count() not in (1, 2, 3, 4):
                self.fail("versions 1 to 4 are known")
        elif name == "OBJSENSE":
            words = self.words()
            if words not in ([b"MIN"], [b"MAX"]):
                self.fail("OBJSENSE is MIN or MAX")
            content.sense = words[0].decode()
        elif name in ("VAR", "CON"):
            chunks = self.chunks(name)
            content.variables, content.constraints = (
                (chunks, content.constraints) if name == "VAR" else (content.variables, chunks)
            )
        elif name in ("PSDVAR", "PSDCON"):
            sides = self.sides()
            content.matrices, content.inequalities = (
                (sides, content.inequalities) if name == "PSDVAR" else (content.matrices, sides)
            )
        elif name == "OBJBCOORD":
            content.offset = self.number(self.words())
        elif name in COORDINATES:
            content.coordinates[name] = self.coordinates(COORDINATES[name])
        else:
            self.fail(f"{name[:40]!r} is not a known keyword")

    def count(self, words: list[bytes] | None = None) -> int:
        """Parse a non-negative integer."""
        words = self.words() if words is None else words
        if len(words) != 1 or _INTEGER.fullmatch(words[0]) is None:
            self.fail("expected a non-negative integer")
        return int(words[0])

    def number(self, words: list[bytes]) -> float:
        """Parse a finite number."""
        if len(words) != 1 or _NUMBER.fullmatch(words[0]) is None or not np.isfinite(float(words[0])):
            self.fail("expected a finite number")
        return float(words[0])

    def chunks(self, name: str) -> list[Chunk]:
        """Parse cones and their lengths."""
        words = self.words()
        if len(words) != 2:
            self.fail(f"{name} begins with two numbers")
        total, lines = self.count(words[:1]), self.count(words[1:])
        require_within_limit(lines, "blocks", each=BLOCK_BYTES)
        out = []
        for _ in range(lines):
            words = self.words()
            kind = words[0].decode("latin-1") if words else ""
            if len(words) != 2 or kind not in (*LINEAR, *QUADRATIC):
                self.fail(f"expected a cone ({', '.join((*LINEAR, *QUADRATIC))}) and its length")
            length = self.count(words[1:])
            if length:
                out.append((kind, length))
        if sum(length for _, length in out) != total:
            self.fail(f"the cones of {name} do not add up to {total}")
        return out

    def sides(self) -> list[int]:
        """Parse the sides of matrices."""
        lines = self.count()
        require_within_limit(lines, "blocks", each=BLOCK_BYTES)
        out = [self.count() for _ in range(lines)]
        if 0 in out:
            self.fail("a matrix has at least one row")
        return out

    def coordinates(self, width: int) -> tuple[np.ndarray, FloatArray]:
        """Parse a list of indices and values."""
        count = self.count()
        if count > len(self.lines):
            self.fail(f"{count} entries, but the file has only {len(self.lines)} lines")
        require_within_limit(count, "entries", each=ENTRY_BYTES)
        index, value = np.zeros((count, width), dtype=np.int64), np.zeros(count)
        for k in range(count):
            words = self.words()
            if len(words) != width + 1:
                self.fail(f"an entry has {width + 1} numbers, this line has {len(words)}")
            index[k] = [self.count([word]) for word in words[:-1]]
            value[k] = self.number(words[-1:])
        return index, value


def write_cbf(
    problem: FeasibilityProblem, path: str | PathLike[str], objective: Objective | None = None
) -> None:
    """Write a problem as a CBF file.

    Parameters
    ----------
    problem : FeasibilityProblem
        Free, Nonneg, SecondOrder and PSD blocks, and no LMIs (``problem.slack_form`` replaces them). Vector
        blocks are written first; a row with two different bounds becomes two rows. Names are not kept. Rows
        stored as products are multiplied out, in floating point.
    path : path
        Compressed by gzip if it ends in ``.gz``.
    objective : Objective, optional
        The objective; zero if left out.

    Raises
    ------
    ProblemError
        If the problem does not have that form; the message names the block.

    Examples
    --------
    >>> import tempfile, numpy as np, sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sf.write_cbf(problem, f"{folder}/p.cbf.gz")
    ...     print(sf.solve(sf.read_cbf(f"{folder}/p.cbf.gz")).verdict)
    feasible
    """
    if problem.lmis:
        raise ProblemError("LMIs are not written to CBF files; problem.slack_form replaces them")
    cones: dict[type[BlockSet], str] = {Free: "F", Nonneg: "L+", SecondOrder: "Q"}
    for b, block in enumerate(problem.sets):
        if type(block) not in (*cones, PSD):
            raise ProblemError(f"block {problem.block_name(b)} is a {block.kind}, which no CBF file holds")
    vectors = [b for b, block in enumerate(problem.sets) if not block.matrix]
    matrices = [b for b, block in enumerate(problem.sets) if block.matrix]
    sides = [problem.sets[b].n for b in matrices]
    source, kinds, bounds = _lines(problem)
    goal = objective or Objective(tuple(np.zeros(block.shape) for block in problem.sets), "min")
    terms = problem.point(goal.terms)
    out = ["# written by sdpfeas", "", "VER", "1", "", "OBJSENSE", goal.sense.upper(), ""]
    if sides:
        out += ["PSDVAR", str(len(sides)), *map(str, sides), ""]
    chunks = [f"{cones[type(problem.sets[b])]} {problem.sets[b].n}" for b in vectors]
    if chunks:
        out += ["VAR", f"{sum(problem.sets[b].n for b in vectors)} {len(chunks)}", *chunks, ""]
    if source.size:
        starts = np.flatnonzero(np.append(True, kinds[1:] != kinds[:-1]))
        lengths = np.diff(np.append(starts, kinds.size))
        runs = [f"{kinds[s]} {n}" for s, n in zip(starts, lengths, strict=True)]
        out += ["CON", f"{source.size} {len(runs)}", *runs, ""]
    out += _section(
        "OBJFCOORD", [_lower(terms[b].reshape(1, -1), j, sides[j])[:, 1:] for j, b in enumerate(matrices)]
    )
    flat = np.concatenate([np.zeros(0), *(terms[b] for b in vectors)])
    out += _section("OBJACOORD", [np.column_stack([np.flatnonzero(flat), flat[flat != 0.0]])])
    if goal.offset:
        out += ["OBJBCOORD", repr(float(goal.offset)), ""]
    parts = {b: problem.rows[b].explicit()[source] for b in (*vectors, *matrices)}
    out += _section("FCOORD", [_lower(parts[b], j, sides[j]) for j, b in enumerate(matrices)])
    if vectors:
        whole = sp.coo_array(sp.hstack([parts[b] for b in vectors]))
        order = np.lexsort(whole.coords[::-1])
        out += _section("ACOORD", [np.column_stack([*whole.coords, whole.data])[order]])
    out += _section("BCOORD", [np.column_stack([np.flatnonzero(bounds), -bounds[bounds != 0.0]])])
    write_compressed(path, "\n".join(out).encode())


def _lines(problem: FeasibilityProblem) -> tuple[np.ndarray, np.ndarray, FloatArray]:
    """Return the constraints of the file: source row, cone and bound of each."""
    source, kinds, bounds = [], [], []
    for i, (low, high) in enumerate(zip(problem.lower.tolist(), problem.upper.tolist(), strict=True)):
        sides = [("L=", low)] if low == high else [("L+", low), ("L-", high)]
        finite = [(kind, bound) for kind, bound in sides if np.isfinite(bound)] or [("F", 0.0)]
        for kind, bound in finite:
            source.append(i)
            kinds.append(kind)
            bounds.append(bound)
    return np.array(source, dtype=np.int64), np.array(kinds, dtype="<U2"), np.array(bounds)


def _lower(rows: Any, j: int, n: int) -> np.ndarray:
    """Return the entries on and below the diagonal: row, matrix, position and value."""
    coo = sp.coo_array(rows)
    which, place = coo.coords
    i, k = np.divmod(place, n)
    keep = i >= k
    table = np.column_stack([which, np.full(which.size, j), i, k, coo.data])[keep]
    return table[np.lexsort(table.T[[3, 2, 0]])]


def _section(name: str, tables: list[np.ndarray]) -> list[str]:
    """Return the lines of a list of coordinates; none if it is empty."""
    lines = [
        " ".join([*(str(int(v)) for v in row[:-1]), repr(row[-1])])
        for table in tables
        for row in table.tolist()
    ]
    return [name, str(len(lines)), *lines, ""] if lines else []
