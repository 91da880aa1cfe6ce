"""Exposing vectors: the auxiliary problem of facial reduction, and three searches for its solutions.

A step of facial reduction (Borwein and Wolkowicz 1981) needs multipliers with ``-A*y`` in the dual cone of
the current face, ``beta(y) >= 0`` and the right signs. Together these are one cone membership: an *exposing
vector* of PSD matrices, then non-negative entries, which are those of Nonneg blocks, the signs of the
inequality rows, and ``beta(y)``, in this order. :class:`AuxiliarySystem` holds the linear map from
multipliers to exposing vectors, in integers and in floating point.

In order of cost, as in docs/facial-reduction.md: (1) :func:`sieve` tests single rows (Zhu, Pataki and
Tran-Dinh 2019, "Sieve-SDP"); (2) the same on short combinations of rows, after
:meth:`AuxiliarySystem.lll_reduced`; (3) :func:`solve_auxiliary_problem` calls a conic solver, and
:func:`round_multipliers` makes its solution exact, or :func:`expose_coordinates` if the data were rounded.
If approximate multipliers are known, :func:`start_coefficients` prepares them for :func:`round_multipliers`
without a conic solver.
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
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.integer_matrices import (
    INTEGER_FLOPS,
    as_floats,
    as_int64,
    identity,
    integral,
    kernel,
    product,
    saturated,
    short_rows,
    solution,
)
from sdpfeas.numerics.limits import WRITE_FLOPS, check_deadline, guard
from sdpfeas.numerics.linalg import FloatArray, eigh, eigvalsh, smallest, svec_map, triangle_size
from sdpfeas.problem.conic_form import Cones, ConicForm
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.faces import Faces, is_sparse
from sdpfeas.problem.rows import Sparse
from sdpfeas.problem.rows.base import dense_array
from sdpfeas.problem.sets import BlockSet

#: Cost per matrix entry and row when rows are converted to floating point, in multiply-adds.
CONVERSION_FLOPS_PER_ENTRY = 10.0 * WRITE_FLOPS


@dataclass(frozen=True)
class PsdPart:
    """Columns of one PSD block, ``S >= 0`` of the given side on its face: the upper triangle, row by row."""

    block: int
    side: int
    position: slice

    @property
    def diagonal(self) -> np.ndarray:
        """Columns of the diagonal."""
        i, j = np.triu_indices(self.side)
        return self.position.start + np.flatnonzero(i == j)

    @property
    def entries(self) -> np.ndarray:
        """Column of every entry of the matrix, row by row."""
        i, j = np.triu_indices(self.side)
        out = np.empty((self.side, self.side), dtype=np.intp)
        out[i, j] = out[j, i] = self.position.start + np.arange(i.size)
        return out.reshape(-1)

    def matrices(self, vectors: np.ndarray) -> np.ndarray:
        """Return this part of exposing vectors as symmetric matrices."""
        return vectors[:, self.entries].reshape(len(vectors), self.side, self.side)


@dataclass(frozen=True)
class AuxiliarySystem:
    """Linear map from multipliers to exposing vectors on a face, in integers.

    Row k of ``matrix`` is the exposing vector of the multipliers ``weights[k]`` of the integer rows; row k of
    ``vanishing`` is its image on Free blocks and boxes, which must be zero. ``parts`` are the columns of PSD
    blocks, ``nonneg`` those of non-negative entries, of which the last is ``beta``.
    """

    faces: Faces
    matrix: Any
    vanishing: np.ndarray
    parts: tuple[PsdPart, ...]
    nonneg: slice
    weights: np.ndarray

    @cached_property
    def vectors(self) -> np.ndarray:
        """``matrix`` as a dense array."""
        return dense_array(self.matrix)

    def dense_columns(self, which: slice | np.ndarray) -> np.ndarray:
        """Return some columns as a dense array."""
        return dense_array(self.matrix[:, which])

    def row(self, k: int) -> np.ndarray:
        """Return one exposing vector as a dense array with one row."""
        return dense_array(self.matrix[[k]])

    def coefficients(self, multipliers: FloatArray) -> FloatArray:
        """Convert multipliers of the original rows to coefficients of the rows of the system."""
        scaled = multipliers / np.array([float(scale) for scale in self.faces.rows.scales])
        kinds = _signed_rows(self.faces)
        return np.array([max(sign * scaled[i], 0.0) * sign if sign else scaled[i] for i, sign in kinds])

    def lll_reduced(self) -> AuxiliarySystem:
        """Return an LLL-reduced basis of all exposing vectors with zero image on Free blocks and boxes."""
        d, n = self.vectors.shape
        if self.vanishing.shape[1]:
            combine = kernel(self.vanishing.T).T
        else:
            combine = identity(d)
        guard("short combinations of rows", 4.0 * INTEGER_FLOPS * len(combine) ** 3 * math.sqrt(n + 1.0))
        basis, weights, _ = saturated(product(combine, self.vectors))
        change = product(weights, combine)
        made = product(change, self.weights)
        vanishing = np.zeros((len(basis), 0), dtype=object)
        return AuxiliarySystem(self.faces, basis, vanishing, self.parts, self.nonneg, made)

    @cached_property
    def orthonormal_bases(self) -> dict[int, tuple[FloatArray, FloatArray]]:
        """Per block, the QR decomposition ``V = Q C`` of the basis of its face."""
        out = {}
        for part in self.parts:
            basis = self.faces.bases[part.block]
            assert basis is not None
            q, c = np.linalg.qr(basis.astype(np.float64))
            out[part.block] = (q, c)
        return out

    @property
    def matrix_entries(self) -> int:
        """Number of entries of all matrices."""
        return sum(part.side**2 for part in self.parts)

    @cached_property
    def floats(self) -> tuple[FloatArray, FloatArray]:
        """``matrix`` in floating point, with matrices in orthonormal coordinates, and ``vanishing``.

        The column of ``beta`` has the units of the bounds, so it is scaled to the norm of all other columns.
        """
        count, entries = float(self.matrix.shape[0]), self.matrix_entries
        cubes = sum(part.side**3 for part in self.parts)
        flops = count * (2.0 * cubes + CONVERSION_FLOPS_PER_ENTRY * entries)
        guard("the rows on a face", flops, memory=24.0 * count * entries)
        vectors = as_floats(self.vectors)
        out = np.zeros(
            (len(vectors), sum(p.side**2 for p in self.parts) + self.nonneg.stop - self.nonneg.start)
        )
        start = 0
        for part in self.parts:
            frame = self.orthonormal_bases[part.block][1]
            where, own = part.entries, slice(start, start + part.side**2)
            for row, vector in zip(out, vectors, strict=True):
                np.take(vector, where, out=row[own], mode="clip")  # other modes copy first
            if not np.array_equal(frame, np.eye(part.side)):
                inverse = np.linalg.inv(frame)
                matrices = out[:, own].reshape(len(vectors), part.side, part.side)
                out[:, own] = (inverse.T @ matrices @ inverse).reshape(len(vectors), part.side**2)
            start += part.side**2
        out[:, start:] = vectors[:, self.nonneg]
        out[:, -1] = 0.0
        last, other = vectors[:, -1], np.linalg.norm(out)
        weight = np.linalg.norm(last)
        out[:, -1] = last * (other / weight if weight > 0.0 and other > 0.0 else 1.0)
        return out, as_floats(self.vanishing)

    def split(self, vector: FloatArray) -> tuple[list[FloatArray], FloatArray]:
        """Split a row of :attr:`floats` into matrices and non-negative entries."""
        out, start = [], 0
        for part in self.parts:
            out.append(vector[start : start + part.side**2].reshape(part.side, part.side))
            start += part.side**2
        return out, vector[start:]


def auxiliary_system(faces: Faces) -> AuxiliarySystem:
    """Return the system of all rows on a face; an inequality with two bounds is two rows."""
    signed_rows = _signed_rows(faces)
    matrices, vectors, vanishing = list[Any](), list[Any](), list[np.ndarray]()
    parts, start = list[PsdPart](), 0
    which = [i for i, _ in signed_rows]
    for b, (basis, size) in enumerate(zip(faces.bases, faces.sizes, strict=True)):
        if basis is not None and not size:
            continue
        rows = faces.table(b)[which]
        if basis is None:
            vanishing.append(dense_array(rows))
        elif basis.ndim == 1:
            vectors.append(-rows)
        else:
            i, j = np.triu_indices(size)
            matrices.append(-rows[:, i * size + j])
            parts.append(PsdPart(b, size, slice(start, start + i.size)))
            start += i.size
    count = len(signed_rows)
    signed = [k for k, (_, sign) in enumerate(signed_rows) if sign]
    signs = np.zeros((count, len(signed)), dtype=object)
    signs[signed, np.arange(len(signed))] = [signed_rows[k][1] for k in signed]
    betas = np.empty(count, dtype=object)
    betas[:] = [faces.upper[i] if sign < 0 else faces.lower[i] for i, sign in signed_rows]
    weights = np.zeros((count, faces.problem.m), dtype=object)
    weights[np.arange(count), [i for i, _ in signed_rows]] = 1
    matrix = _hstack([*matrices, *vectors, signs, betas[:, None]])
    zero = np.concatenate([np.zeros((count, 0), dtype=np.int64), *vanishing], axis=1)
    return AuxiliarySystem(faces, matrix, zero, tuple(parts), slice(start, matrix.shape[1]), weights)


def _hstack(arrays: list[Any]) -> Any:
    """Concatenate columns: sparse if one array is and all others fit into int64."""
    short = [array if is_sparse(array) else as_int64(array) for array in arrays]
    if all(array is not None for array in short) and any(map(is_sparse, short)):
        return sp.csr_array(sp.hstack(short, format="csr"))
    return np.concatenate([dense_array(array) for array in arrays], axis=1)


def _signed_rows(faces: Faces) -> list[tuple[int, int]]:
    """Return rows and the sign of their multiplier, 0 for either; two-sided inequalities occur twice."""
    out: list[tuple[int, int]] = []
    for i, (low, high) in enumerate(zip(faces.lower, faces.upper, strict=True)):
        if low is not None and low == high:
            out.append((i, 0))
            continue
        out += [(i, 1)] if low is not None else []
        out += [(i, -1)] if high is not None else []
    return out


# --- Single rows

#: Least eigenvalue, relative to the largest entry, of a row that is tested exactly for semidefiniteness.
EIGENVALUE_TOLERANCE = 1e-7

#: Largest cost of :func:`has_exposing_row`, in numbers written.
SCREEN_NUMBERS = 5e6


def has_exposing_row(problem: FeasibilityProblem) -> bool:
    """Return whether some row seems to expose a face: semidefinite, with a zero bound."""
    zero = np.flatnonzero((problem.lower == 0.0) | (problem.upper == 0.0))
    entries = sum(block.entries for block in problem.sets)
    if problem.lmis or not 0 < zero.size * entries <= SCREEN_NUMBERS:
        return False
    signs = _possible_signs(problem)
    for sign, bounds in ((1.0, problem.lower), (-1.0, problem.upper)):
        for i in np.flatnonzero((bounds == 0.0) & signs[sign]):
            unit = np.zeros(problem.m)
            unit[i] = sign
            if all(map(_nonpositive, problem.sets, problem.adjoint(unit))):
                return True
    return False


def _possible_signs(problem: FeasibilityProblem) -> dict[float, np.ndarray]:
    """Return, per sign of the multiplier, the rows whose diagonals allow them to be non-positive."""
    possible = {sign: np.ones(problem.m, dtype=bool) for sign in (1.0, -1.0)}
    for b, block, rows in problem.blocks():
        if not rows.empty and (block.free or not block.cone):
            # The block has no proper face: the row must vanish on it.
            for fine in possible.values():
                fine[problem.upper_norms[b] > 0.0] = False
    if not any(fine.any() for fine in possible.values()):
        return possible
    for _, block, rows in problem.blocks():
        if not isinstance(rows, Sparse) or not block.cone:
            continue
        coo = rows.array.tocoo()
        row, place = coo.coords
        line = (place % (block.n + 1) == 0) if block.matrix else np.ones(place.size, dtype=bool)
        for sign, fine in possible.items():
            fine[row[line & (sign * coo.data > 0.0)]] = False
        # A matrix with zero diagonal and other entries is indefinite.
        counts = (np.bincount(row[which & (coo.data != 0.0)], minlength=problem.m) for which in (line, ~line))
        on, off = counts
        for fine in possible.values():
            fine[(off > 0) & (on == 0)] = False
    return possible


def _nonpositive(block: BlockSet, part: FloatArray) -> bool:
    """Return whether a row seems to be non-positive on a block."""
    if not part.any():
        return True
    size = float(np.max(np.abs(part)))
    if not block.cone or np.max(np.diagonal(part) if part.ndim == 2 else part) > EIGENVALUE_TOLERANCE * size:
        return False
    return part.ndim == 1 or bool(eigvalsh(part)[-1] <= EIGENVALUE_TOLERANCE * size)


def sieve(system: AuxiliarySystem) -> list[np.ndarray]:
    """Test every row of the system, with either sign, for membership in the cone.

    Returns integer multipliers of the rows that pass: their sum first, then, for data that are no simple
    numbers, each one alone, since not all of them may be usable. A row with ``beta > 0`` proves
    infeasibility and is returned alone.
    """
    found, betas = list[tuple[int, int]](), system.dense_columns(slice(-1, None))[:, 0]
    for k, sign in _candidates(system):
        check_deadline("a sieve over rows")
        beta = betas[k]
        if sign * beta < 0 or not _is_psd(system, k, sign):
            continue
        if beta:
            return [sign * system.weights[k]]
        found.append((k, sign))
    single = [sign * system.weights[k] for k, sign in found]
    if len(single) < 2:
        return single
    total = [np.sum(single, axis=0)]
    return total if system.faces.rows.simple else total + single


def _candidates(system: AuxiliarySystem) -> list[tuple[int, int]]:
    """Return rows and signs whose non-negative entries and diagonals allow membership in the cone."""
    entries = system.dense_columns(system.nonneg)[:, :-1]
    fine = _nonzero_rows(system.matrix) & ~np.any(system.vanishing != 0, axis=1)
    possible = {sign: fine & np.all(sign * entries >= 0, axis=1) for sign in (1, -1)}
    for part in system.parts:
        diagonal, own = system.dense_columns(part.diagonal), system.matrix[:, part.position]
        # A matrix with zero diagonal and other entries is indefinite.
        fine = ~_nonzero_rows(own) | np.any(diagonal != 0, axis=1)
        for sign in possible:
            possible[sign] &= fine & np.all(sign * diagonal >= 0, axis=1)
    return [(k, sign) for k in range(system.matrix.shape[0]) for sign in possible if possible[sign][k]]


def _nonzero_rows(rows: Any) -> np.ndarray:
    """Return a mask of the nonzero rows."""
    return np.diff(rows.indptr) > 0 if is_sparse(rows) else np.any(rows != 0, axis=1)


def _is_psd(system: AuxiliarySystem, k: int, sign: int) -> bool:
    """Return whether the matrices of a row, whose diagonals are non-negative, seem to be PSD."""
    line = as_floats(system.row(k)) * sign
    for part in system.parts:
        matrix = part.matrices(line)[0]
        size = float(np.max(np.abs(matrix), initial=0.0))
        own = np.diagonal(matrix) > 0.0
        if np.any(matrix[~own]):
            return False
        if own.any() and eigvalsh(matrix[np.ix_(own, own)])[0] < -EIGENVALUE_TOLERANCE * size:
            return False
    return True


# --- Coordinate faces, for rounded data
#
# Small eigenvalues of an exposing vector of rounded data need not stand for zeros. But where none of the rows
# used has an entry, the vector is zero whatever the data are: a set of coordinates is a face. On the other
# coordinates the vector is clearly definite, so its multipliers may be rounded.

#: Diagonal entries of an exposing vector of trace one below this may stand for zeros.
POSITIVE_DIAGONAL = 1e-7

#: Least eigenvalue, for a vector of trace one, of a definite matrix.
DEFINITE_EIGENVALUE = 1e-8

#: Bits of the rounded multipliers.
MULTIPLIER_BITS = 40


def expose_coordinates(system: AuxiliarySystem, coefficients: FloatArray) -> np.ndarray | None:
    """Return integer multipliers that expose a set of coordinates near an approximate exposing vector.

    ``coefficients`` of ``system.floats`` give the vector, of trace one. Returns None if there is no such set.
    """
    vectors = as_floats(system.vectors)
    nonzero = vectors != 0.0
    entries = slice(system.nonneg.start, system.nonneg.stop - 1)
    used = ~nonzero[:, -1] & ~np.any(system.vanishing != 0, axis=1)
    while True:
        vector = np.where(used, coefficients, 0.0) @ vectors
        inside = np.zeros(vectors.shape[1], dtype=bool)
        inside[entries] = vector[entries] > POSITIVE_DIAGONAL
        for part in system.parts:
            positive = vector[part.diagonal] > POSITIVE_DIAGONAL
            i, j = np.triu_indices(part.side)
            inside[part.position] = positive[i] & positive[j]
        still_used = used & ~np.any(nonzero & ~inside, axis=1)
        if np.array_equal(still_used, used):
            break
        used = still_used
    if not inside.any():
        return None
    for part in system.parts:
        matrix = part.matrices(vector[None])[0]
        own = np.flatnonzero(np.diagonal(matrix) > POSITIVE_DIAGONAL)
        if own.size and not smallest(matrix[np.ix_(own, own)]) > DEFINITE_EIGENVALUE:
            return None
    sizes = np.linalg.norm(vectors[used], axis=1)
    unit = 2.0**-MULTIPLIER_BITS / float(np.max(sizes))
    whole = np.zeros(len(coefficients), dtype=object)
    whole[used] = [int(v) for v in np.rint(coefficients[used] / unit).tolist()]
    return np.asarray(whole.dot(system.weights))


# --- The auxiliary problem, by a conic solver
#
# Maximise lambda such that an exposing vector of trace one, minus lambda times the identity, is in the cone.
# This problem and its dual have strictly feasible points, whatever the original problem is (Cheung, Schurr
# and Wolkowicz 2013). A negative optimum proves, numerically, that the face is minimal. At optimum zero every
# optimal vector exposes a smaller face, and interior-point methods converge to one of maximal rank.

#: Tolerance of the conic solver. It stops earlier if it stalls.
SOLVER_TOLERANCE = 1e-12

#: Optimum, relative to the trace, below which the face counts as minimal.
MINIMAL_FACE_DEPTH = -1e-5

#: Rounding error of an exposing vector, relative to its terms.
ROUNDING_SHARE = 1e-7

#: Pivots below this, relative to the largest, count as zero.
RANK_TOLERANCE = 1e-10


def solve_auxiliary_problem(system: AuxiliarySystem, deadline: Deadline) -> tuple[FloatArray, float] | None:
    """Return coefficients of ``system.floats`` of the deepest exposing vector, and its depth."""
    # The solver needs more memory than the conversion to floating point, so it is checked first.
    memory = 32.0 * sum(float(triangle_size(part.side)) ** 2 for part in system.parts)
    guard("an auxiliary problem", memory=memory)
    vectors, vanishing = system.floats
    basis, coefficients = _orthonormal(vectors, vanishing)
    if not len(basis):
        return None
    form = _auxiliary_program(system, basis)
    answer = Clarabel(tolerance=SOLVER_TOLERANCE, max_iterations=100).solve_cones_on_rows(form, deadline)
    if answer.x is None or not np.isfinite(answer.x).all():
        return None
    y = answer.x[:-1]
    if not np.linalg.norm(y) > 1e-3:
        return None
    return y @ coefficients, float(answer.x[-1])


def start_coefficients(system: AuxiliarySystem, multipliers: FloatArray) -> FloatArray | None:
    """Convert multipliers to coefficients of an exposing vector of trace one.

    Returns None if, in floating point, they give no exposing vector.
    """
    coefficients = system.coefficients(multipliers)
    vectors, vanishing = system.floats
    matrices, entries = system.split(coefficients @ vectors)
    trace = float(sum(map(np.trace, matrices)) + entries.sum())
    slip = ROUNDING_SHARE * float(
        np.abs(coefficients) @ np.linalg.norm(np.concatenate([vectors, vanishing], axis=1), axis=1)
    )
    if not (math.isfinite(trace) and trace > slip and np.linalg.norm(coefficients @ vanishing) <= slip):
        return None
    depth = min((float(eigvalsh(matrix)[0]) for matrix in matrices), default=np.inf)
    return coefficients / trace if min(depth, entries.min()) > -SMALL_EIGENVALUE * trace else None


def _orthonormal(vectors: FloatArray, vanishing: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return an orthonormal basis of the exposing vectors with ``vanishing`` zero, and its coefficients."""
    count = float(len(vectors))
    # Pivoting updates all columns at every step, which is bound by memory bandwidth.
    guard("an auxiliary problem", 12.0 * vectors.size * min(vectors.shape) + 4.0 * count**3)
    sizes = np.linalg.norm(np.concatenate([vectors, vanishing], axis=1), axis=1)
    sizes[sizes == 0.0] = 1.0
    coefficients = np.diag(1.0 / sizes)
    if vanishing.shape[1]:
        coefficients = scipy.linalg.null_space((vanishing / sizes[:, None]).T, rcond=RANK_TOLERANCE).T / sizes
    made = coefficients @ vectors
    if not made.size:
        return made, coefficients
    q, r, order = scipy.linalg.qr(made.T, mode="economic", pivoting=True)
    diagonal = np.abs(np.diagonal(r))
    rank = int(np.sum(diagonal > RANK_TOLERANCE * np.max(diagonal, initial=0.0)))
    inverse = scipy.linalg.solve_triangular(r[:rank, :rank], np.eye(rank))
    return q[:, :rank].T, inverse.T @ coefficients[order[:rank]]


def _auxiliary_program(system: AuxiliarySystem, basis: FloatArray) -> ConicForm:
    """Return the auxiliary problem in cone form, with free variables."""
    count = len(basis)
    trace = np.zeros(count)
    cone_rows, identities, sides, start = [], [], [], 0
    for part in system.parts:
        own = basis[:, start : start + part.side**2]
        start += part.side**2
        eye = np.eye(part.side).reshape(-1)
        trace += own @ eye
        pack = svec_map(part.side, "upper").T
        cone_rows.append(np.asarray(pack @ own.T))
        identities.append(np.asarray(pack @ eye))
        sides.append(part.side)
    nonneg = basis[:, start:].T
    trace += nonneg.sum(axis=0)
    cone_block = np.concatenate([nonneg, *cone_rows])
    identity_column = np.concatenate([np.ones(len(nonneg)), *identities])
    matrix = sp.csc_array(
        np.block([[trace[None, :], np.zeros((1, 1))], [-cone_block, identity_column[:, None]]])
    )
    rhs = np.zeros(matrix.shape[0])
    rhs[0] = 1.0
    cost = np.append(np.zeros(count), -1.0)
    cones = Cones(free=1, nonneg=len(nonneg), semidefinite=tuple(sides))
    return ConicForm.free_variables(cost, matrix, rhs, cones)


# --- Rounding to exact multipliers
#
# Where an exact exposing vector has zero eigenvalues, that of the solver has small ones. Its kernel is
# rounded by integer relations between the coordinates (LLL; Lenstra, Lenstra and Lovasz 1982), which are
# small for problems with simple data. The kernel gives linear equations for the multipliers, which are solved
# exactly. Remaining freedom is rounded near the solution of the solver.

#: Eigenvalues of an exposing vector of trace one below this may stand for zeros.
SMALL_EIGENVALUE = 1e-4

#: Ratio of consecutive eigenvalues that marks the end of the kernel.
KERNEL_GAP = 20.0

#: Number of kernel dimensions that are tried per block.
KERNEL_GUESSES = 3

#: Decimal digits of the kernel from which integer relations are computed.
KERNEL_DIGITS = (4, 6, 8, 10)

#: Relative errors with which the remaining freedom is rounded.
ROUNDING_ERRORS = (1e-1, 1e-2, 1e-4, 1e-7, 1e-10)


def round_multipliers(system: AuxiliarySystem, coefficients: FloatArray) -> Iterator[np.ndarray]:
    """Yield integer multipliers near an approximate exposing vector of trace about one.

    ``coefficients`` of ``system.floats`` give the vector.
    """
    vectors, _ = system.floats
    matrices, entries = system.split(coefficients @ vectors)
    spectra = [eigh(m) for m in matrices]
    zeros = [k for k, v in enumerate(entries) if v < SMALL_EIGENVALUE]
    for guess in _kernel_dimensions([lam for lam, _ in spectra]):
        for digits in KERNEL_DIGITS if any(guess) else KERNEL_DIGITS[:1]:
            bases = [
                _integer_kernel(system, part, frame[:, :k], digits)
                for part, (_, frame), k in zip(system.parts, spectra, guess, strict=True)
            ]
            if any(basis is None for basis in bases):
                continue
            free = _combinations(system, [b for b in bases if b is not None], zeros)
            yield from _round_combination(system, free, coefficients)


def _kernel_dimensions(spectra: list[FloatArray]) -> list[tuple[int, ...]]:
    """Return plausible dimensions of the kernels, those with the largest gaps first."""
    choices: list[list[tuple[float, int]]] = []
    for lam in spectra:
        floor = max(1e-13, -float(lam[0])) if lam.size else 1e-13  # negative eigenvalues are errors
        values = np.maximum(lam, floor)
        plausible = []
        for k in range(lam.size + 1):
            if k and lam[k - 1] > SMALL_EIGENVALUE:
                break
            below = values[k - 1] if k else floor
            above = values[k] if k < lam.size else SMALL_EIGENVALUE
            ratio = above / (below if k else 1e-7)
            if ratio >= KERNEL_GAP or k == lam.size or k == 0:
                plausible.append((ratio, k))
        choices.append(sorted(plausible, reverse=True)[:KERNEL_GUESSES])
    if not choices:
        return [()]
    # Vary one block at a time.
    best = tuple(c[0][1] for c in choices)
    out = [best]
    for b, choice in enumerate(choices):
        out += [(*best[:b], k, *best[b + 1 :]) for _, k in choice[1:]]
    return out


def _integer_kernel(
    system: AuxiliarySystem, part: PsdPart, frame: FloatArray, digits: int
) -> np.ndarray | None:
    """Return an integer basis, in the coordinates of the face, of a subspace near the span of ``frame``."""
    k = frame.shape[1]
    if k == 0:
        return np.zeros((part.side, 0), dtype=object)
    if k == part.side:
        return identity(part.side)
    basis = system.faces.bases[part.block]
    assert basis is not None
    q, _ = system.orthonormal_bases[part.block]
    n = len(basis)
    guard("integer relations of a kernel", 4.0 * INTEGER_FLOPS * n**3 * math.sqrt(n))
    relations = _integer_relations(q @ frame, digits)[: n - k]
    found = kernel(relations)
    if found.shape[1] != k:
        return None
    inside = solution(basis, found)
    return None if inside is None else np.stack([integral(column)[0] for column in inside.T], axis=1)


def _integer_relations(span: FloatArray, digits: int) -> np.ndarray:
    """Return short integer vectors nearly orthogonal to the columns of ``span``, the shortest first."""
    n = len(span)
    scaled = np.empty(span.shape, dtype=object)
    scaled[...] = np.rint(10.0**digits * span).astype(np.int64).tolist()
    return short_rows(np.concatenate([identity(n), scaled], axis=1))[:, :n]


def _combinations(system: AuxiliarySystem, kernels: list[np.ndarray], zeros: list[int]) -> np.ndarray:
    """Return a basis, as columns, of the combinations of rows with the given kernels and zeros."""
    count = len(system.vectors)
    equations = [system.vanishing, system.vectors[:, system.nonneg][:, zeros]]
    for part, basis in zip(system.parts, kernels, strict=True):
        matrices = part.matrices(system.vectors)
        stacked = product(matrices.reshape(count * part.side, part.side), basis)
        equations.append(stacked.reshape(count, -1))
    whole = np.concatenate(equations, axis=1)
    return kernel(whole.T)


def _round_combination(
    system: AuxiliarySystem, free: np.ndarray, coefficients: FloatArray
) -> Iterator[np.ndarray]:
    """Yield multipliers in the span of ``free`` near ``coefficients``, the coarsest rounding first."""
    if not free.shape[1]:
        return
    vectors = system.floats[0]
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
    target = coefficients @ vectors
    amounts, *_ = np.linalg.lstsq((images / lengths[:, None]).T, target, rcond=None)
    whole = float(np.linalg.norm(amounts @ (images / lengths[:, None])))
    if not (math.isfinite(whole) and whole > 0.0 and sizes.any()):
        return
    for error in ROUNDING_ERRORS if free.shape[1] > 1 else (None,):
        if error is None:
            rounded = np.array([1 if amounts[0] > 0.0 else -1], dtype=object)
        else:
            steps = amounts / lengths * (float(np.sum(lengths)) / (error * whole))
            if not np.all(np.abs(steps) < 2.0**62):
                continue
            rounded = np.empty(len(steps), dtype=object)
            rounded[:] = np.rint(steps).astype(np.int64).tolist()
        yield product(product(free, rounded[:, None]).T, system.weights)[0]
