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
    ranks,
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

#: What the indices of every list of coordinates number; two more indices follow for a symmetric matrix, then
#: a value. Lines and inequalities are rows of the map, variables and matrices its columns.
COORDINATES = {
    "OBJFCOORD": ("matrices",),
    "OBJACOORD": ("variables",),
    "FCOORD": ("lines", "matrices"),
    "ACOORD": ("lines", "variables"),
    "BCOORD": ("lines",),
    "HCOORD": ("inequalities", "variables"),
    "DCOORD": ("inequalities",),
}
SYMMETRIC = ("matrices", "inequalities")

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
    """The data of a file; coordinates as arrays of indices and of values.

    The numbers of a point are the scalar variables, then the entries of all matrices; the numbers of the
    affine map are the linear constraints, then the entries of all matrix inequalities.
    """

    sense: str = ""
    variables: list[Chunk] = field(default_factory=list)
    constraints: list[Chunk] = field(default_factory=list)
    matrices: list[int] = field(default_factory=list)
    inequalities: list[int] = field(default_factory=list)
    offset: float = 0.0
    coordinates: dict[str, tuple[np.ndarray, FloatArray]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of scalar variables."""
        return sum(n for _, n in self.variables)

    @property
    def lines(self) -> int:
        """Number of linear constraints."""
        return sum(n for _, n in self.constraints)

    def entries(self, *names: str) -> Any:
        """Return the part of the map, or of a constant, that lists of coordinates give."""
        shape = [self.lines + sum(n * n for n in self.inequalities), self.count]
        shape[1] += sum(n * n for n in self.matrices)
        found = [self._entries(name) for name in names]
        # A list without rows, or without columns, is about the objective, or about a constant.
        for axis, kinds in enumerate((("lines", "inequalities"), ("variables", "matrices"))):
            if not any(kind in kinds for name in names for kind in COORDINATES[name]):
                shape[axis] = 1
        row, column, value = (np.concatenate([part[k] for part in found]) for k in range(3))
        return sp.csr_array((value, (row, column)), shape=shape)

    def _entries(self, name: str) -> tuple[np.ndarray, np.ndarray, FloatArray]:
        """Return rows, columns and values of a list of coordinates; off-diagonal entries also mirrored."""
        kinds = COORDINATES[name]
        symmetric = any(kind in SYMMETRIC for kind in kinds)
        width = len(kinds) + 2 * symmetric
        index, value = self.coordinates.get(name, (np.zeros((0, width), dtype=np.int64), np.zeros(0)))
        place = np.zeros((2, len(index)), dtype=np.int64)
        turned = place.copy()
        for k, kind in enumerate(kinds):
            axis = int(kind in ("variables", "matrices"))
            sides = np.array(getattr(self, kind) if kind in SYMMETRIC else [], dtype=np.int64)
            known = sides.size if kind in SYMMETRIC else (self.lines, self.count)[axis]
            own = index[:, k]
            if np.any(own >= known):
                raise FileFormatError(f"{name}: an index is beyond the {known} there are")
            place[axis] = turned[axis] = own
            if kind in SYMMETRIC:
                starts = (self.lines, self.count)[axis] + np.cumsum(np.append(0, sides**2))
                n, i, j = sides[own], index[:, -2], index[:, -1]
                if np.any((i >= n) | (j >= n)):
                    raise FileFormatError(f"{name}: an entry is outside its matrix")
                low, high = np.minimum(i, j), np.maximum(i, j)
                place[axis], turned[axis] = starts[own] + low * n + high, starts[own] + high * n + low
        kept, total, rounded = add_up(ranks(*place), value)
        if rounded.size:
            raise FileFormatError(f"{name}: an entry is given more than once, and the sum would be rounded")
        place, turned = place[:, kept], turned[:, kept]
        off = np.any(place != turned, axis=0)
        row, column = np.hstack([place, turned[:, off]])
        return row, column, np.append(total, total[off])

    def program(self) -> tuple[FeasibilityProblem, Objective]:
        """Return the problem and its objective."""
        point = self.count + sum(n * n for n in self.matrices)
        require_within_limit(point, "numbers in a point", each=8)
        require_within_limit(sum(n * n for n in self.inequalities), "numbers in matrix inequalities", each=8)
        require_within_limit(self.lines, "rows", each=ROW_BYTES)
        blocks = len(self.variables) + len(self.matrices)
        cones = sum(kind in QUADRATIC for kind, _ in self.constraints) + len(self.inequalities)
        require_within_limit(blocks * (self.lines + 1 + cones), "rows times blocks", each=BLOCK_ROW_BYTES)
        require_within_limit(cones * point, "entries times cones", each=8)
        kinds: dict[str, type[BlockSet]] = {"F": Free, "L+": Nonneg, "L-": Nonneg}
        sets = [kinds.get(kind, SecondOrder)(n) for kind, n in self.variables if kind != "L="]
        sets += [PSD(n) for n in self.matrices]
        if not sets:
            raise FileFormatError("the file has no variables")
        slopes = self.entries("ACOORD", "FCOORD", "HCOORD")
        constant = self.entries("BCOORD", "DCOORD").toarray()[:, 0]
        goal = self._in_blocks(self.entries("OBJACOORD", "OBJFCOORD"))
        terms = tuple(part.toarray()[0].reshape(block.shape) for block, part in zip(sets, goal, strict=True))
        kept, lower, upper, lmis, place = [], [], [], list[LMI](), 0
        for kind, n in [*self.constraints, *(("PSD", n) for n in self.inequalities)]:
            own = slice(place, place + (n * n if kind == "PSD" else n))
            place = own.stop
            if kind in LINEAR:
                kept.append(np.arange(own.start, own.stop))
                lower.append(-constant[own] if kind in ("L+", "L=") else np.full(n, -np.inf))
                upper.append(-constant[own] if kind in ("L-", "L=") else np.full(n, np.inf))
                continue
            parts, middle = [part.T for part in self._in_blocks(slopes[own])], constant[None, own]
            if kind == "QR":
                # For a map, t = u/2 + v and w = v - u/2.
                order = [1, 0, *range(2, n)] if n > 1 else [0]
                parts = [unrotate(part[:, order]) for part in parts]
                middle = unrotate(sp.csr_array(middle[:, order])).toarray()
            block = PSD(n) if kind == "PSD" else SecondOrder(n)
            coefficients = [sp.csr_array(part) if part.nnz else None for part in parts]
            lmis.append(LMI(block, middle.reshape(block.shape), coefficients))
        index = np.concatenate([np.zeros(0, dtype=np.int64), *kept])
        rows: list[Rows | None] = [
            Sparse(sp.csr_array(part), block.n, block.matrix) if part.nnz else None
            for block, part in zip(sets, self._in_blocks(slopes[index]), strict=True)
        ]
        low, high = (np.concatenate([np.zeros(0), *each]) + 0.0 for each in (lower, upper))
        problem = FeasibilityProblem(sets, rows, low, high, lmis=lmis)
        return problem, Objective(terms, "max" if self.sense == "MAX" else "min", self.offset)

    def _in_blocks(self, rows: Any) -> list[Any]:
        """Return the columns of every block, in the coordinates of its set."""
        columns, place, out = sp.csc_array(rows), 0, []
        for kind, n in [*self.variables, *(("PSD", n * n) for n in self.matrices)]:
            part = columns[:, place : place + n]
            place += n
            if kind != "L=":
                out.append(unrotate(part) if kind == "QR" else -part if kind == "L-" else part)
        return out


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
            setattr(content, {"VAR": "variables", "CON": "constraints"}[name], self.chunks(name))
        elif name in ("PSDVAR", "PSDCON"):
            setattr(content, {"PSDVAR": "matrices", "PSDCON": "inequalities"}[name], self.sides())
        elif name == "OBJBCOORD":
            content.offset = self.number(self.words())
        elif name in COORDINATES:
            kinds = COORDINATES[name]
            symmetric = any(kind in SYMMETRIC for kind in kinds)
            content.coordinates[name] = self.coordinates(len(kinds) + 2 * symmetric)
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
