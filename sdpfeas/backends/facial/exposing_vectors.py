"""What multipliers make of the rows on a face: one table of integers, and the same in floating point.

A step of a chain asks for multipliers with ``-A*y`` in the cones, ``beta(y) >= 0`` and the right signs. All
of this is a point of one cone, the *exposing vector*: matrices, and *rays*, which are the entries of Nonneg
blocks, the signs of the inequality rows, and ``beta(y)``, in this order. Each row of the table is the vector
that one multiplier makes. Free blocks and boxes ask for zeros in a second table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas.backends.clarabel import Clarabel
from sdpfeas.backends.conic.cone_program import Cones, StandardForm
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.cost_estimate import Work, need
from sdpfeas.numerics.integer_matrices import (
    as_floats,
    identity,
    integral,
    kernel,
    need_integers,
    product,
    safe_text,
    saturated,
    short_rows,
    solution,
)
from sdpfeas.numerics.linalg import FloatArray, eigh, eigvalsh, smallest, svec_map, triangle_size
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.faces import Faces, is_sparse
from sdpfeas.problem.rows import Sparse
from sdpfeas.problem.sets import BlockSet

#: Numbers written for every entry of a matrix of every row while rows become floating-point ones.
NUMBERS = 10.0


@dataclass(frozen=True)
class MatrixPart:
    """The part of a table that belongs to one PSD block: its upper triangle, row by row.

    ``block, side``: the block, and the side of S on its face.
    """

    block: int
    side: int
    place: slice

    @property
    def diagonal(self) -> np.ndarray:
        """The columns of the diagonal."""
        i, j = np.triu_indices(self.side)
        return self.place.start + np.flatnonzero(i == j)

    @property
    def entries(self) -> np.ndarray:
        """The column of every entry of the matrix, row by row."""
        i, j = np.triu_indices(self.side)
        out = np.empty((self.side, self.side), dtype=np.intp)
        out[i, j] = out[j, i] = self.place.start + np.arange(i.size)
        return out.reshape(-1)

    def matrices(self, table: np.ndarray) -> np.ndarray:
        """The rows of a table as symmetric matrices."""
        return table[:, self.entries].reshape(len(table), self.side, self.side)


@dataclass(frozen=True)
class Table:
    """Vectors that multipliers make, and how they are made.

    ``flat``: what of it has to vanish on Free blocks and boxes. ``rays``: the columns of the rays; the last
    one is ``beta``. ``weights``: the multipliers, of the rows in integers, that make each vector.
    """

    faces: Faces
    lines: Any
    flat: np.ndarray
    parts: tuple[MatrixPart, ...]
    rays: slice
    weights: np.ndarray

    @cached_property
    def vectors(self) -> np.ndarray:
        """The lines, written out."""
        if not is_sparse(self.lines):
            return np.asarray(self.lines)
        cells = float(math.prod(self.lines.shape))
        need("the rows on a face", numbers=cells, memory=8.0 * cells)
        return np.asarray(self.lines.toarray())

    def columns(self, which: slice | np.ndarray) -> np.ndarray:
        """Some columns, written out."""
        found = self.lines[:, which]
        return np.asarray(found.toarray() if is_sparse(found) else found)

    def line(self, k: int) -> np.ndarray:
        """One exposing vector."""
        found = self.lines[[k]]
        return np.asarray(found.toarray() if is_sparse(found) else found)

    def shares(self, multipliers: FloatArray) -> FloatArray:
        """How much of every vector of a table of all rows is made by multipliers of the rows as they are."""
        scaled = multipliers / np.array([float(scale) for scale in self.faces.rows.scales])
        kinds = _variables(self.faces)
        return np.array([max(sign * scaled[i], 0.0) * sign if sign else scaled[i] for i, sign in kinds])

    def short(self) -> Table:
        """A table of short vectors that span the same space, with nothing left to vanish."""
        d, n = self.vectors.shape
        if self.flat.shape[1]:
            need_integers("multipliers that vanish on free blocks", float(d) ** 2 * self.flat.shape[1])
            combine = kernel(self.flat.T).T
        else:
            combine = identity(d)
        need_integers("short combinations of rows", 4.0 * len(combine) ** 3 * math.sqrt(n + 1.0))
        basis, weights, _ = saturated(product(combine, self.vectors))
        change = product(weights, combine)
        made = product(change, self.weights)
        flat = np.zeros((len(basis), 0), dtype=object)
        return Table(self.faces, basis, flat, self.parts, self.rays, made)

    @cached_property
    def frames(self) -> dict[int, tuple[FloatArray, FloatArray]]:
        """For every part, an orthonormal basis Q of the face in the block, and C with ``V = Q C``."""
        out = {}
        for part in self.parts:
            basis = self.faces.bases[part.block]
            assert basis is not None
            q, c = np.linalg.qr(basis.astype(np.float64))
            out[part.block] = (q, c)
        return out

    @property
    def squares(self) -> int:
        """Entries of all matrices."""
        return sum(part.side**2 for part in self.parts)

    @property
    def near_work(self) -> Work:
        """What it takes to write the vectors out in floating point."""
        count, cubes = float(self.lines.shape[0]), float(sum(part.side**3 for part in self.parts))
        return Work(products=2.0 * count * cubes, numbers=NUMBERS * count * self.squares)

    @cached_property
    def near(self) -> tuple[FloatArray, FloatArray]:
        """The vectors in floating point, matrices in orthonormal coordinates, and the flat part.

        The column of ``beta`` has the units of the bounds, the others those of the rows: it is scaled to
        weigh as much as all of them.
        """
        need("the rows on a face", *self.near_work, memory=24.0 * self.lines.shape[0] * self.squares)
        vectors = as_floats(self.vectors)
        out = np.zeros((len(vectors), sum(p.side**2 for p in self.parts) + self.rays.stop - self.rays.start))
        start = 0
        for part in self.parts:
            frame = self.frames[part.block][1]
            where, own = part.entries, slice(start, start + part.side**2)
            for row, vector in zip(out, vectors, strict=True):
                np.take(vector, where, out=row[own], mode="clip")  # other modes take a copy first
            if not np.array_equal(frame, np.eye(part.side)):  # as it is on the whole set
                inverse = np.linalg.inv(frame)
                matrices = out[:, own].reshape(len(vectors), part.side, part.side)
                out[:, own] = (inverse.T @ matrices @ inverse).reshape(len(vectors), part.side**2)
            start += part.side**2
        out[:, start:] = vectors[:, self.rays]
        out[:, -1] = 0.0
        last, other = vectors[:, -1], np.linalg.norm(out)
        weight = np.linalg.norm(last)
        out[:, -1] = last * (other / weight if weight > 0.0 and other > 0.0 else 1.0)
        return out, as_floats(self.flat)

    def split(self, vector: FloatArray) -> tuple[list[FloatArray], FloatArray]:
        """Matrices, one a part, and rays of a vector in floating point."""
        out, start = [], 0
        for part in self.parts:
            out.append(vector[start : start + part.side**2].reshape(part.side, part.side))
            start += part.side**2
        return out, vector[start:]


def make_table(faces: Faces) -> Table:
    """Make the table of all rows on a face, an inequality with two bounds as two rows."""
    variables = _variables(faces)
    matrices, lines, flat = list[Any](), list[Any](), list[np.ndarray]()
    parts, start = list[MatrixPart](), 0
    which = [i for i, _ in variables]
    for b, (basis, size) in enumerate(zip(faces.bases, faces.sizes, strict=True)):
        if basis is not None and not size:
            continue
        rows = faces.table(b)[which]
        if basis is None:
            need("the rows on a face", memory=8.0 * math.prod(rows.shape))
            flat.append(rows.toarray() if is_sparse(rows) else rows)
        elif basis.ndim == 1:
            lines.append(-rows)
        else:
            i, j = np.triu_indices(size)
            matrices.append(-rows[:, i * size + j])
            parts.append(MatrixPart(b, size, slice(start, start + i.size)))
            start += i.size
    count = len(variables)
    signed = [k for k, (_, sign) in enumerate(variables) if sign]
    signs = np.zeros((count, len(signed)), dtype=object)
    signs[signed, np.arange(len(signed))] = [variables[k][1] for k in signed]
    betas = np.empty(count, dtype=object)
    betas[:] = [faces.upper[i] if sign < 0 else faces.lower[i] for i, sign in variables]
    weights = np.zeros((count, faces.problem.m), dtype=object)
    weights[np.arange(count), [i for i, _ in variables]] = 1
    vectors = _beside([*matrices, *lines, signs, betas[:, None]])
    vanishing = np.concatenate([np.zeros((count, 0), dtype=np.int64), *flat], axis=1)
    return Table(faces, vectors, vanishing, tuple(parts), slice(start, vectors.shape[1]), weights)


def _beside(tables: list[Any]) -> Any:
    """Tables side by side: sparse if all are, or can be."""
    short = [table if is_sparse(table) else safe_text(table) for table in tables]
    if all(table is not None for table in short) and any(map(is_sparse, short)):
        return sp.csr_array(sp.hstack(short, format="csr"))
    return np.concatenate([table.toarray() if is_sparse(table) else table for table in tables], axis=1)


def _variables(faces: Faces) -> list[tuple[int, int]]:
    """Rows and the sign their multiplier must have; an inequality with two bounds comes twice."""
    out: list[tuple[int, int]] = []
    for i, (low, high) in enumerate(zip(faces.lower, faces.upper, strict=True)):
        if low is not None and low == high:
            out.append((i, 0))
            continue
        out += [(i, 1)] if low is not None else []
        out += [(i, -1)] if high is not None else []
    return out


# ------------------------------------------------------------
# Single rows that expose a face, or contradict all points: after Zhu, Pataki and Tran-Dinh.

#: Eigenvalues of a row above minus this, relative to the largest, may be those of a semidefinite one.
SLIP = 1e-7

#: Numbers that a first look at a problem may write.
FIRST_LOOK = 5e6


def has_exposing_row(problem: FeasibilityProblem) -> bool:
    """Whether single rows look as if they exposed a face: semidefinite ones with a zero bound."""
    zero = np.flatnonzero((problem.lower == 0.0) | (problem.upper == 0.0))
    entries = sum(block.entries for block in problem.sets)
    if problem.lmis or not 0 < zero.size * entries <= FIRST_LOOK:
        return False
    signs = _signs(problem)
    for sign, bounds in ((1.0, problem.lower), (-1.0, problem.upper)):
        for i in np.flatnonzero((bounds == 0.0) & signs[sign]):
            unit = np.zeros(problem.m)
            unit[i] = sign
            if all(map(_exposes, problem.sets, problem.adjoint(unit))):
                return True
    return False


def _signs(problem: FeasibilityProblem) -> dict[float, np.ndarray]:
    """Rows that may be non-positive with a multiplier of a sign, as far as their diagonals tell."""
    able = {sign: np.ones(problem.m, dtype=bool) for sign in (1.0, -1.0)}
    for b, block, rows in problem.blocks():
        if not rows.empty and (block.free or not block.cone):
            # Such a block has no face to expose: a row must leave it alone.
            for fine in able.values():
                fine[problem.upper_norms[b] > 0.0] = False
    if not any(fine.any() for fine in able.values()):
        return able
    for _, block, rows in problem.blocks():
        if not isinstance(rows, Sparse) or not block.cone:
            continue
        coo = rows.array.tocoo()
        row, place = coo.coords
        line = (place % (block.n + 1) == 0) if block.matrix else np.ones(place.size, dtype=bool)
        for sign, fine in able.items():
            fine[row[line & (sign * coo.data > 0.0)]] = False
        # Nothing but entries off the diagonal is indefinite.
        counts = (np.bincount(row[which & (coo.data != 0.0)], minlength=problem.m) for which in (line, ~line))
        on, off = counts
        for fine in able.values():
            fine[(off > 0) & (on == 0)] = False
    return able


def _exposes(block: BlockSet, part: FloatArray) -> bool:
    """Whether a row with a positive multiplier is non-positive on a block."""
    if not part.any():
        return True
    size = float(np.max(np.abs(part)))
    if not block.cone or np.max(np.diagonal(part) if part.ndim == 2 else part) > SLIP * size:
        return False
    return part.ndim == 1 or bool(eigvalsh(part)[-1] <= SLIP * size)


def exposing(table: Table) -> list[np.ndarray]:
    """Multipliers, of the rows in integers, of all vectors of a table that lie in the cone up to their sign.

    They come added up, and one by one where some are no simple numbers, which may not be used everywhere. One
    that has a positive ``beta`` contradicts all points, and is returned alone.

    ``table``: its vectors are looked at one by one.
    """
    need("a sieve over rows", numbers=4.0 * (table.lines.nnz if is_sparse(table.lines) else table.lines.size))
    found, betas = list[tuple[int, int]](), table.columns(slice(-1, None))[:, 0]
    for k, sign in _able(table):
        beta = betas[k]
        if sign * beta < 0 or not _in_cone(table, k, sign):
            continue
        if beta:
            return [sign * table.weights[k]]
        found.append((k, sign))
    single = [sign * table.weights[k] for k, sign in found]
    if len(single) < 2:
        return single
    total = [np.sum(single, axis=0)]
    return total if table.faces.rows.simple else total + single


def _able(table: Table) -> list[tuple[int, int]]:
    """Vectors, with a sign, that may be in the cone as far as their rays and diagonals tell."""
    rays = table.columns(table.rays)[:, :-1]
    fine = _filled(table.lines) & ~np.any(table.flat != 0, axis=1)
    able = {sign: fine & np.all(sign * rays >= 0, axis=1) for sign in (1, -1)}
    for part in table.parts:
        diagonal, own = table.columns(part.diagonal), table.lines[:, part.place]
        # Nothing but entries off the diagonal is indefinite.
        fine = ~_filled(own) | np.any(diagonal != 0, axis=1)
        for sign in able:
            able[sign] &= fine & np.all(sign * diagonal >= 0, axis=1)
    return [(k, sign) for k in range(table.lines.shape[0]) for sign in able if able[sign][k]]


def _filled(table: Any) -> np.ndarray:
    """Rows that are not zero."""
    return np.diff(table.indptr) > 0 if is_sparse(table) else np.any(table != 0, axis=1)


def _in_cone(table: Table, k: int, sign: int) -> bool:
    """Whether the matrices of a vector look semidefinite; their diagonals are not negative."""
    line = as_floats(table.line(k)) * sign
    for part in table.parts:
        matrix = part.matrices(line)[0]
        # Thresholds are relative to the row.
        size = float(np.max(np.abs(matrix), initial=0.0))
        own = np.diagonal(matrix) > 0.0
        if np.any(matrix[~own]):
            return False
        if own.any() and eigvalsh(matrix[np.ix_(own, own)])[0] < -SLIP * size:
            return False
    return True


# ------------------------------------------------------------
# Faces that rows of any numbers expose: those along which the rows have no entries at all.
#
# Where the exposing vector of rounded numbers has small eigenvalues, zeros are a guess. But where no row
# that it is made of has an entry, it is zero whatever the numbers are: a choice of coordinates is a face,
# and what is left of the vector is definite by far, so that multipliers may be rounded.

#: Entries on the diagonal of an exposing vector of trace one below this may stand for zeros.
CLEARLY_POSITIVE = 1e-7

#: Least eigenvalue, of a vector of trace one, of what counts as definite.
DEFINITE = 1e-8

#: Bits of the multipliers.
BITS = 40


def apart(table: Table, found: FloatArray) -> np.ndarray | None:
    """Multipliers of rows in integers that expose a choice of coordinates; None without any.

    ``table``: the table of all rows on a face. ``found``: how much of every row of ``table.near`` an
    approximate exposing vector of trace one is made of.
    """
    lines = as_floats(table.vectors)
    seen = lines != 0.0
    rays = slice(table.rays.start, table.rays.stop - 1)
    used = ~seen[:, -1] & ~np.any(table.flat != 0, axis=1)
    while True:
        vector = np.where(used, found, 0.0) @ lines
        inside = np.zeros(lines.shape[1], dtype=bool)
        inside[rays] = vector[rays] > CLEARLY_POSITIVE
        for part in table.parts:
            positive = vector[part.diagonal] > CLEARLY_POSITIVE
            i, j = np.triu_indices(part.side)
            inside[part.place] = positive[i] & positive[j]
        fewer = used & ~np.any(seen & ~inside, axis=1)
        if np.array_equal(fewer, used):
            break
        used = fewer
    if not inside.any():
        return None
    for part in table.parts:
        matrix = part.matrices(vector[None])[0]
        own = np.flatnonzero(np.diagonal(matrix) > CLEARLY_POSITIVE)
        if own.size and not smallest(matrix[np.ix_(own, own)]) > DEFINITE:
            return None
    sizes = np.linalg.norm(lines[used], axis=1)
    unit = 2.0**-BITS / float(np.max(sizes))
    whole = np.zeros(len(found), dtype=object)
    whole[used] = [int(v) for v in np.rint(found[used] / unit).tolist()]
    return np.asarray(whole.dot(table.weights))


# ------------------------------------------------------------
# The full auxiliary problem: the exposing vector that is deepest in its cone, by a cone solver.
#
# Of all vectors that multipliers make, with trace one, the largest ``lambda`` such that the vector less
# ``lambda`` times the identity is still in the cone. Both this problem and its dual have interior points,
# whatever the problem has. A negative value says that the face is the smallest; zero, that the optimal
# vectors expose a smaller one, and an interior-point method finds those of largest rank.

#: Accuracy asked for; what the solver reaches is taken.
TOLERANCE = 1e-12

#: Depth, relative to the trace, below which no vector is in the cone.
NOTHING = -1e-5

#: Parts of an exposing vector smaller than this, relative to what it is made of, are rounding.
ROUNDING = 1e-7

#: Directions smaller than this, relative to the largest, are none.
RANK = 1e-10


def deepest(table: Table, deadline: Deadline) -> tuple[FloatArray, float] | None:
    """Find the deepest exposing vector: shares of the rows of ``table.near``, and its depth; None if none."""
    # What comes after the rows are written out takes the longer, and without it they are of no use.
    memory = 32.0 * sum(float(triangle_size(part.side)) ** 2 for part in table.parts)
    width = table.squares + table.rays.stop - table.rays.start
    work = table.near_work.plus(_orthonormal_work(table.lines.shape[0], width))
    need("an auxiliary problem", *work, memory=memory)
    vectors, flat = table.near
    basis, shares = _orthonormal(vectors, flat)
    if not len(basis):
        return None
    form = _form(table, basis)
    answer = Clarabel(tolerance=TOLERANCE, max_iterations=100).solve_standard_form(form, deadline)
    if answer.x is None or not np.isfinite(answer.x).all():
        return None
    y = answer.x[:-1]
    if not np.linalg.norm(y) > 1e-3:
        return None
    return y @ shares, float(answer.x[-1])


def likely(table: Table, multipliers: FloatArray) -> FloatArray | None:
    """Shares of the rows of ``table.near`` that are an exposing vector of trace one, as far as doubles tell.

    ``table``: the table of all rows on a face. ``multipliers``: multipliers of the rows of the problem that
    may make the vector; None is returned if they do not.
    """
    shares = table.shares(multipliers)
    vectors, flat = table.near
    matrices, rays = table.split(shares @ vectors)
    trace = float(sum(map(np.trace, matrices)) + rays.sum())
    slip = ROUNDING * float(np.abs(shares) @ np.linalg.norm(np.concatenate([vectors, flat], axis=1), axis=1))
    if not (math.isfinite(trace) and trace > slip and np.linalg.norm(shares @ flat) <= slip):
        return None
    depth = min((float(eigvalsh(matrix)[0]) for matrix in matrices), default=np.inf)
    return shares / trace if min(depth, rays.min()) > NOTHING * trace else None


def _orthonormal_work(count: int, width: int) -> Work:
    # Pivoting goes through all columns at every step, at the speed of the memory.
    return Work(products=12.0 * count * width * min(count, width) + 4.0 * count**3)


def _orthonormal(vectors: FloatArray, flat: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Orthonormal vectors that span those that vanish where they must, and how they are made."""
    need("an auxiliary problem", *_orthonormal_work(*vectors.shape))
    sizes = np.linalg.norm(np.concatenate([vectors, flat], axis=1), axis=1)
    sizes[sizes == 0.0] = 1.0
    shares = np.diag(1.0 / sizes)
    if flat.shape[1]:
        shares = scipy.linalg.null_space((flat / sizes[:, None]).T, rcond=RANK).T / sizes
    made = shares @ vectors
    if not made.size:
        return made, shares
    q, r, order = scipy.linalg.qr(made.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diagonal(r))
    rank = int(np.sum(diagonal > RANK * np.max(diagonal, initial=0.0)))
    inverse = scipy.linalg.solve_triangular(r[:rank, :rank], np.eye(rank))
    return q[:, :rank].T, inverse.T @ shares[order[:rank]]


def _form(table: Table, basis: FloatArray) -> StandardForm:
    """Cone program: maximise the depth."""
    count = len(basis)
    trace = np.zeros(count)
    cone_rows, middles, sides, start = [], [], [], 0
    for part in table.parts:
        own = basis[:, start : start + part.side**2]
        start += part.side**2
        eye = np.eye(part.side).reshape(-1)
        trace += own @ eye
        pack = svec_map(part.side, "upper").T
        cone_rows.append(np.asarray(pack @ own.T))
        middles.append(np.asarray(pack @ eye))
        sides.append(part.side)
    rays = basis[:, start:].T
    trace += rays.sum(axis=0)
    body = np.concatenate([rays, *cone_rows])
    middle = np.concatenate([np.ones(len(rays)), *middles])
    matrix = sp.csc_array(np.block([[trace[None, :], np.zeros((1, 1))], [-body, middle[:, None]]]))
    rhs = np.zeros(matrix.shape[0])
    rhs[0] = 1.0
    cost = np.append(np.zeros(count), -1.0)
    cones = Cones(free=1, nonneg=len(rays), psd=tuple(sides))
    return StandardForm(cost, matrix, rhs, cones, np.arange(matrix.shape[0]))


# ------------------------------------------------------------
# Exact multipliers next to those that a cone solver found.
#
# The solver's exposing vector has small eigenvalues where an exact one has zeros. What is rounded is its
# kernel, a subspace, by integer relations between its coordinates (LLL): in the coordinates of the block
# these are small. The kernel leaves linear equations for the multipliers, which are solved exactly; what is
# still free is taken near what the solver found.

#: Eigenvalues of an exposing vector of trace one below this may stand for zeros.
SMALL_EIGENVALUE = 1e-4
#: An eigenvalue this many times larger than the next marks the end of the kernel.
GAP = 20.0
#: How many guesses of the kernel of a block are tried.
GUESSES = 3
#: Digits of the kernel that relations are looked for in.
DIGITS = (4, 6, 8, 10)
#: Relative errors to round what is free with.
ERRORS = (1e-1, 1e-2, 1e-4, 1e-7, 1e-10)


def exact_multipliers(table: Table, found: FloatArray) -> Iterator[np.ndarray]:
    """Multipliers of the rows in integers near approximate ones.

    ``found``: how much of every row of ``table.near`` an approximate exposing vector is made of; its trace
    is about one.
    """
    vectors, _ = table.near
    matrices, rays = table.split(found @ vectors)
    spectra = [eigh(m) for m in matrices]
    zeros = [k for k, v in enumerate(rays) if v < SMALL_EIGENVALUE]
    for guess in _guesses([lam for lam, _ in spectra]):
        for digits in DIGITS if any(guess) else DIGITS[:1]:
            bases = [
                _kernel(table, part, frame[:, :k], digits)
                for part, (_, frame), k in zip(table.parts, spectra, guess, strict=True)
            ]
            if any(basis is None for basis in bases):
                continue
            free = _solutions(table, [b for b in bases if b is not None], zeros)
            yield from _near(table, free, found)


def _guesses(spectra: list[FloatArray]) -> list[tuple[int, ...]]:
    """Dimensions of the kernels, the most plausible first."""
    choices: list[list[tuple[float, int]]] = []
    for lam in spectra:
        floor = 1e-13
        values = np.maximum(lam, floor)
        plausible = []
        for k in range(lam.size + 1):
            if k and lam[k - 1] > SMALL_EIGENVALUE:
                break
            below = values[k - 1] if k else floor
            above = values[k] if k < lam.size else SMALL_EIGENVALUE
            ratio = above / (below if k else 1e-7)
            if ratio >= GAP or k == lam.size or k == 0:
                plausible.append((ratio, k))
        choices.append(sorted(plausible, reverse=True)[:GUESSES])
    if not choices:
        return [()]
    # One block after the other away from its best guess.
    best = tuple(c[0][1] for c in choices)
    out = [best]
    for b, choice in enumerate(choices):
        out += [(*best[:b], k, *best[b + 1 :]) for _, k in choice[1:]]
    return out


def _kernel(table: Table, part: MatrixPart, frame: FloatArray, digits: int) -> np.ndarray | None:
    """Integer basis, in the coordinates of the face, of a subspace near that which a frame spans."""
    k = frame.shape[1]
    if k == 0:
        return np.zeros((part.side, 0), dtype=object)
    if k == part.side:
        return identity(part.side)
    basis = table.faces.bases[part.block]
    assert basis is not None
    q, _ = table.frames[part.block]
    n = len(basis)
    need_integers("integer relations of a kernel", 4.0 * n**3 * math.sqrt(n))
    relations = _relations(q @ frame, digits)[: n - k]
    found = kernel(relations)
    if found.shape[1] != k:
        return None
    inside = solution(basis, found)
    return None if inside is None else np.stack([integral(column)[0] for column in inside.T], axis=1)


def _relations(span: FloatArray, digits: int) -> np.ndarray:
    """Short integer vectors nearly orthogonal to the columns of a matrix, the shortest first."""
    n = len(span)
    scaled = np.empty(span.shape, dtype=object)
    scaled[...] = np.rint(10.0**digits * span).astype(np.int64).tolist()
    return short_rows(np.concatenate([identity(n), scaled], axis=1))[:, :n]


def _solutions(table: Table, kernels: list[np.ndarray], zeros: list[int]) -> np.ndarray:
    """All combinations of the rows of a table whose vectors have given kernels and zeros, as columns."""
    count = len(table.vectors)
    equations = [table.flat, table.vectors[:, table.rays][:, zeros]]
    for part, basis in zip(table.parts, kernels, strict=True):
        matrices = part.matrices(table.vectors)
        stacked = product(matrices.reshape(count * part.side, part.side), basis)
        equations.append(stacked.reshape(count, -1))
    whole = np.concatenate(equations, axis=1)
    # Measured: equations that are independent, once these are found modulo a prime, are solved quickly.
    need_integers("multipliers with a given kernel", 0.1 * float(count) ** 3 + 4.0 * whole.size)
    return kernel(whole.T)


def _near(table: Table, free: np.ndarray, found: FloatArray) -> Iterator[np.ndarray]:
    """Members of a space of combinations, as multipliers, near approximate ones; the roundest first."""
    if not free.shape[1]:
        return
    vectors = table.near[0]
    sizes = np.linalg.norm(vectors, axis=1)
    try:
        spanned = free.astype(np.float64)
    except OverflowError:
        return
    with np.errstate(all="ignore"):
        images = spanned.T @ vectors
    if not np.isfinite(images).all():
        return
    lengths = np.linalg.norm(images, axis=1)
    lengths[lengths == 0.0] = 1.0
    target = found @ vectors
    shares, *_ = np.linalg.lstsq((images / lengths[:, None]).T, target, rcond=None)
    whole = float(np.linalg.norm(shares @ (images / lengths[:, None])))
    if not (math.isfinite(whole) and whole > 0.0 and sizes.any()):
        return
    for error in ERRORS if free.shape[1] > 1 else (None,):
        if error is None:
            rounded = np.array([1 if shares[0] > 0.0 else -1], dtype=object)
        else:
            steps = shares / lengths * (float(np.sum(lengths)) / (error * whole))
            if not np.all(np.abs(steps) < 2.0**62):
                continue
            rounded = np.empty(len(steps), dtype=object)
            rounded[:] = np.rint(steps).astype(np.int64).tolist()
        yield product(product(free, rounded[:, None]).T, table.weights)[0]
