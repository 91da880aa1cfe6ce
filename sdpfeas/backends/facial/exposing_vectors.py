"""Exposing vectors: the auxiliary problem of facial reduction, and three searches for its solutions.

A step of facial reduction (Borwein and Wolkowicz 1981) needs multipliers with ``-A*y`` in the dual cone of
the current face, ``beta(y) >= 0`` and the right signs. Together these are one cone membership: an *exposing
vector* of PSD matrices, then non-negative entries, which are those of Nonneg blocks, the signs of the
inequality rows, and ``beta(y)``, in this order. :class:`AuxiliarySystem` holds the linear map from
multipliers to exposing vectors, in integers and in floating point.

In order of cost, as in docs/facial-reduction.md: (1) :func:`sieve` tests single rows (Zhu, Pataki and
Tran-Dinh 2019, "Sieve-SDP"); (2) the same on short combinations of few rows, after
:meth:`AuxiliarySystem.lll_reduced`; with many rows, :func:`start_coefficients` takes multipliers of an
interior-point method that found no interior, if there are any; (3) :func:`solve_auxiliary_problem` calls a
conic solver. :func:`round_multipliers` makes approximate solutions exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.clarabel import Clarabel
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.integer_matrices import (
    INTEGER_FLOPS,
    as_floats,
    as_int64,
    identity,
    kernel,
    lll_basis,
    product,
    short_rows,
)
from sdpfeas.numerics.limits import WRITE_FLOPS, check_deadline, guard
from sdpfeas.numerics.linalg import FloatArray, eigh, eigvalsh, svec_map, triangle_size
from sdpfeas.problem.conic_form import Cones, ConicForm
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.faces import Faces, is_sparse
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

    Row k of ``matrix`` is the exposing vector of the multiplier of row ``index[k]``, or, if ``combine`` is
    not None, of the multipliers ``combine[k]`` of the rows ``index``. Row k of ``vanishing`` is its image on
    Free blocks and boxes, which must be zero. ``parts`` are the columns of PSD blocks, ``nonneg`` those of
    non-negative entries, of which the last is ``beta``.
    """

    faces: Faces
    matrix: Any
    vanishing: np.ndarray
    parts: tuple[PsdPart, ...]
    nonneg: slice
    index: list[int]
    combine: np.ndarray | None = None

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

    def multipliers(self, coefficients: np.ndarray) -> np.ndarray:
        """Return integer multipliers of all rows from those of the rows of the system."""
        if self.combine is not None:
            coefficients = product(coefficients[None], self.combine)[0]
        out = np.zeros(self.faces.problem.m, dtype=object)
        np.add.at(out, self.index, coefficients)
        return out

    def lll_reduced(self) -> AuxiliarySystem:
        """Return an LLL-reduced basis of the exposing vectors with zero image on Free blocks and boxes."""
        combine = kernel(self.vanishing.T).T
        long = math.sqrt(self.vectors.shape[1] + 1.0)
        guard("short combinations of rows", 4.0 * INTEGER_FLOPS * len(combine) ** 3 * long)
        basis, change = lll_basis(product(combine, self.vectors))
        nothing = np.zeros((len(basis), 0), dtype=object)
        return replace(self, matrix=basis, vanishing=nothing, combine=product(change, combine))

    @cached_property
    def floats(self) -> tuple[FloatArray, FloatArray]:
        """``matrix`` in floating point, with matrices written out, and ``vanishing``.

        The column of ``beta`` has the units of the bounds, so it is scaled to the norm of all other columns.
        """
        count, entries = float(self.matrix.shape[0]), sum(part.side**2 for part in self.parts)
        guard(
            "the rows on a face", count * CONVERSION_FLOPS_PER_ENTRY * entries, memory=24.0 * count * entries
        )
        vectors = as_floats(self.vectors)
        out = np.concatenate(
            [*(vectors[:, part.entries] for part in self.parts), vectors[:, self.nonneg]], axis=1
        )
        weight, other = np.linalg.norm(out[:, -1]), np.linalg.norm(out[:, :-1])
        if weight > 0.0 and other > 0.0:
            out[:, -1] *= other / weight
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
    matrix = _hstack([*matrices, *vectors, signs, betas[:, None]])
    zero = np.concatenate([np.zeros((count, 0), dtype=np.int64), *vanishing], axis=1)
    return AuxiliarySystem(faces, matrix, zero, tuple(parts), slice(start, matrix.shape[1]), which)


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
    for i in zero:
        unit = np.zeros(problem.m)
        unit[i] = 1.0
        parts = problem.adjoint(unit)
        for sign, bounds in ((1.0, problem.lower), (-1.0, problem.upper)):
            if bounds[i] == 0.0 and all(map(_nonpositive, problem.sets, (sign * part for part in parts))):
                return True
    return False


def _nonpositive(block: BlockSet, part: FloatArray) -> bool:
    """Return whether a row seems to be non-positive on a block."""
    size = float(np.max(np.abs(part), initial=0.0))
    if size == 0.0:
        return True
    line = np.diagonal(part) if part.ndim == 2 else part
    # A matrix with zero diagonal and other entries is indefinite.
    if not block.cone or np.max(line) > EIGENVALUE_TOLERANCE * size or not line.any():
        return False
    return part.ndim == 1 or bool(eigvalsh(part)[-1] <= EIGENVALUE_TOLERANCE * size)


def sieve(system: AuxiliarySystem) -> list[np.ndarray]:
    """Test every row of the system, with either sign, for membership in the cone.

    Returns integer multipliers of the rows that pass: their sum first, then, for data that are no simple
    numbers, each one alone, since not all of them may be usable. A row with ``beta > 0`` proves
    infeasibility and is returned alone.
    """
    single, betas = list[np.ndarray](), system.dense_columns(slice(-1, None))[:, 0]
    for k, sign in _candidates(system):
        check_deadline("a sieve over rows")
        beta = betas[k]
        if sign * beta < 0 or not _is_psd(system, k, sign):
            continue
        if beta:
            return [_multiplier(system, k, sign)]
        single.append(_multiplier(system, k, sign))
    if len(single) < 2:
        return single
    total = [np.sum(single, axis=0)]
    return total if system.faces.rows.simple else total + single


def _multiplier(system: AuxiliarySystem, k: int, sign: int) -> np.ndarray:
    """Return the multipliers of a single row of the system."""
    unit = np.zeros(system.matrix.shape[0], dtype=object)
    unit[k] = sign
    return system.multipliers(unit)


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


def solve_auxiliary_problem(system: AuxiliarySystem, deadline: Deadline) -> tuple[FloatArray, float] | None:
    """Return coefficients of ``system.floats`` of the deepest exposing vector, and its depth."""
    # The solver needs more memory than the conversion to floating point, so it is checked first.
    memory = 32.0 * sum(float(triangle_size(part.side)) ** 2 for part in system.parts)
    guard("an auxiliary problem", memory=memory)
    vectors, vanishing = system.floats
    sizes = np.linalg.norm(np.concatenate([vectors, vanishing], axis=1), axis=1)
    sizes[sizes == 0.0] = 1.0
    form = _auxiliary_program(system, vectors / sizes[:, None], vanishing / sizes[:, None])
    answer = Clarabel(tolerance=SOLVER_TOLERANCE, max_iterations=100).solve_cones_on_rows(form, deadline)
    if answer.x is None or not np.isfinite(answer.x).all() or not np.linalg.norm(answer.x[:-1]) > 1e-3:
        return None
    return answer.x[:-1] / sizes, float(answer.x[-1])


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


def _auxiliary_program(system: AuxiliarySystem, vectors: FloatArray, vanishing: FloatArray) -> ConicForm:
    """Return the auxiliary problem in cone form, with free variables: the coefficients, then lambda."""
    sides, count = [part.side for part in system.parts], system.nonneg.stop - system.nonneg.start
    packs = sp.block_diag([sp.csr_array((0, 0)), *(svec_map(side, "upper").T for side in sides)])
    pack = sp.block_array([[None, sp.eye_array(count)], [packs, None]], format="csr")
    identity = np.concatenate([*(np.eye(side).reshape(-1) for side in sides), np.ones(count)])
    equations = np.concatenate([vectors @ identity[:, None], vanishing], axis=1).T
    matrix = np.block(
        [[equations, np.zeros((len(equations), 1))], [-(pack @ vectors.T), (pack @ identity)[:, None]]]
    )
    rhs = np.eye(1, len(matrix))[0]
    cost = -np.eye(1, matrix.shape[1], matrix.shape[1] - 1)[0]
    cones = Cones(free=len(equations), nonneg=count, semidefinite=tuple(sides))
    return ConicForm.free_variables(cost, sp.csc_array(matrix), rhs, cones)


# --- Rounding to exact multipliers
#
# Where an exact exposing vector has zero eigenvalues, that of the solver has small ones. Its kernel is
# rounded by integer relations between the coordinates (LLL; Lenstra, Lenstra and Lovasz 1982), which are
# small for problems with simple data. The kernel gives linear equations for the multipliers, which are solved
# exactly. Remaining freedom is rounded near the solution of the solver.

#: Eigenvalues of an exposing vector of trace one below this may stand for zeros.
SMALL_EIGENVALUE = 1e-4

#: Number of gaps between eigenvalues that are tried as the end of the kernels.
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
                _integer_kernel(frame[:, :k], digits) for (_, frame), k in zip(spectra, guess, strict=True)
            ]
            if all(basis is not None for basis in bases):
                free = _combinations(system, bases, zeros)
                yield from _round_combination(system, free, coefficients)


def _kernel_dimensions(spectra: list[FloatArray]) -> list[tuple[int, ...]]:
    """Return plausible dimensions of the kernels, those with the largest gap between eigenvalues first."""
    if not spectra:
        return [()]
    # Negative eigenvalues are errors.
    floor = max(1e-13, *(-float(lam[0]) for lam in spectra if lam.size))
    pooled = np.sort(np.concatenate(spectra))
    pooled = np.maximum(
        np.concatenate([[floor], pooled[pooled < SMALL_EIGENVALUE], [SMALL_EIGENVALUE]]), floor
    )
    gaps = np.argsort(-(pooled[1:] / pooled[:-1]), kind="stable")[:KERNEL_GUESSES]
    return list(dict.fromkeys(tuple(int(np.sum(lam < pooled[g + 1])) for lam in spectra) for g in gaps))


def _integer_kernel(frame: FloatArray, digits: int) -> np.ndarray | None:
    """Return an integer basis of a subspace near the span of ``frame``, None if it has another dimension."""
    n, k = frame.shape
    if k in (0, n):
        return identity(n)[:, :k]
    guard("integer relations of a kernel", 4.0 * INTEGER_FLOPS * n**3 * math.sqrt(n))
    found = kernel(_integer_relations(frame, digits)[: n - k])
    return found if found.shape[1] == k else None


def _integer_relations(span: FloatArray, digits: int) -> np.ndarray:
    """Return short integer vectors nearly orthogonal to the columns of ``span``, the shortest first."""
    n = len(span)
    scaled = np.empty(span.shape, dtype=object)
    scaled[...] = np.rint(10.0**digits * span).astype(np.int64).tolist()
    return short_rows(np.concatenate([identity(n), scaled], axis=1))[:, :n]


def _combinations(system: AuxiliarySystem, kernels: list[Any], zeros: list[int]) -> np.ndarray:
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
    vectors = system.floats[0]
    with np.errstate(all="ignore"):
        images = as_floats(free).T @ vectors
        lengths = np.linalg.norm(images, axis=1)
    if not (lengths.size and np.isfinite(lengths).all()):
        return
    lengths[lengths == 0.0] = 1.0
    directions = images / lengths[:, None]
    amounts, *_ = np.linalg.lstsq(directions.T, coefficients @ vectors, rcond=None)
    size = float(np.linalg.norm(amounts @ directions))
    if not size > 0.0:
        return
    steps = amounts / lengths * (float(np.sum(lengths)) / size)
    for error in ROUNDING_ERRORS if steps.size > 1 else (1.0,):
        if np.all(np.abs(steps) < error * 2.0**62):
            rounded = np.array([[int(v)] for v in np.rint(steps / error)], dtype=object)
            yield system.multipliers(product(free, rounded)[:, 0])
