"""Reduce a problem to the standard form of cone solvers: ``A x + s = b``, ``s`` in a product of cones.

The entry point is :func:`conic_form`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ClaimError, ProblemError
from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.linalg import FloatArray, Triangle, svec_map
from sdpfeas.problem.reductions.cones_to_psd import ConesToPsd, cones_to_psd
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SecondOrder, SpectralBox
from sdpfeas.problem.validation import counted

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem, Point

#: Cost of building the form, in floating-point numbers written per entry of a block; measured at side 7000.
NUMBERS_PER_ENTRY = 80.0

_TAKEN = (Free, Nonneg, PSD, SecondOrder, SpectralBox)


@dataclass(frozen=True, repr=False)
class ConicForm:
    """The system ``matrix @ x + s = rhs`` with ``s`` in zero, non-negative, second-order and PSD cones.

    The rows are in this order of cones. In ``x`` and ``s`` a symmetric matrix is its triangle, column by
    column, with off-diagonal entries multiplied by sqrt(2). A vector ``z`` in the dual cone with
    ``matrix.T @ z = 0`` and ``rhs @ z < 0`` is a Farkas certificate.

    ``zero, nonneg``: numbers of rows in the first two cones. ``second_order``: lengths of the vectors.
    ``semidefinite``: sides of the matrices.
    """

    matrix: Any
    rhs: FloatArray
    zero: int
    nonneg: int
    second_order: tuple[int, ...]
    semidefinite: tuple[int, ...]
    triangle: Triangle
    _psd_reduction: ConesToPsd
    _equal: np.ndarray
    _high: np.ndarray
    _low: np.ndarray

    def __repr__(self) -> str:
        """Return shape and cones in one line."""
        rows, columns = self.matrix.shape
        return (
            f"ConicForm: {counted(rows, 'row')}, {counted(columns, 'column')}, "
            f"{counted(self.matrix.nnz, 'nonzero')}; zero {self.zero}, "
            f"nonneg {self.nonneg}, {len(self.second_order)} second-order, "
            f"{len(self.semidefinite)} semidefinite ({self.triangle})"
        )

    def point(self, x: FloatArray) -> Point:
        """Map a solution ``x`` to a point of the problem."""
        x = _vector(x, self.matrix.shape[1], "x")
        parts, start = [], 0
        for block in self._psd_reduction.problem.sets:
            size = block.dimension
            parts.append(_unpacked(block, x[start : start + size], self.triangle))
            start += size
        return self._psd_reduction.point(tuple(parts))

    def start_point(self, point: Point) -> FloatArray:
        """Map a point of the problem to ``x``."""
        parts = self._psd_reduction.start_point(point)
        pairs = zip(self._psd_reduction.problem.sets, parts, strict=True)
        return np.concatenate([_columns(block, self.triangle).T @ np.ravel(part) for block, part in pairs])

    def multipliers(self, z: FloatArray) -> FloatArray:
        """Map dual variables ``z`` to multipliers of the problem; a Farkas certificate maps to one."""
        z = _vector(z, self.rhs.size, "z")
        problem = self._psd_reduction.problem
        y = np.zeros(problem.m)
        cuts = np.cumsum([self._equal.size, self._high.size, self._low.size])
        # Trace rows of boxes follow the equality rows. They belong to the sets and have no multiplier.
        free = self.zero - self._equal.size
        y[self._equal] = -z[: cuts[0]]
        y[self._high] -= z[cuts[0] + free : cuts[1] + free]
        y[self._low] += z[cuts[1] + free : cuts[2] + free]
        ends = self._lmi_rows()
        own = [
            np.ravel(_unpacked(lmi.set, z[at], self.triangle))
            for lmi, at in zip(problem.lmis, ends, strict=True)
        ]
        return self._psd_reduction.multipliers(np.concatenate([y, *own]))

    def _lmi_rows(self) -> list[np.ndarray]:
        """Return the row indices of every LMI."""
        kinds = [_kind(lmi.set) for lmi in self._psd_reduction.problem.lmis]
        starts = {
            "nonneg": self.zero + self.nonneg,
            "second": self._start_of_matrices,
            "matrix": self.rhs.size,
        }
        found: list[np.ndarray] = []
        # LMIs are the last cones of their kind, so the indices are counted from the end.
        for kind, lmi in zip(reversed(kinds), reversed(self._psd_reduction.problem.lmis), strict=True):
            starts[kind] -= lmi.set.dimension
            found.append(np.arange(starts[kind], starts[kind] + lmi.set.dimension))
        return found[::-1]

    @property
    def _start_of_matrices(self) -> int:
        return self.zero + self.nonneg + sum(self.second_order)


def conic_form(problem: FeasibilityProblem, triangle: Triangle = "lower") -> ConicForm:
    """Build the standard form of cone solvers.

    A SpectralBox becomes two PSD cones and a row for the trace. The value of an LMI is part of ``s``. A
    Hermitian matrix becomes a real one of twice the side. ``triangle`` is the triangle that the solver
    stores. Raises ``ProblemError`` for an LMI in a box.
    """
    entries = float(sum(block.entries for block in problem.sets))
    need("the standard form of cone solvers", numbers=NUMBERS_PER_ENTRY * entries, memory=90.0 * entries)
    psd_reduction = cones_to_psd(problem, _TAKEN)
    plain = psd_reduction.problem
    columns = [_columns(block, triangle) for block in plain.sets]
    width = sum(block.dimension for block in plain.sets)
    flat = [rows.to_csr() @ own for rows, own in zip(plain.rows, columns, strict=True)]
    rows = sp.csr_array(sp.hstack(flat, format="csr"))
    equal = plain.equality_rows
    high = plain.upper_rows
    low = plain.lower_rows
    zero = [(rows[equal], plain.lower[equal])]
    cones: dict[str, list[tuple[Any, FloatArray]]] = {
        "nonneg": [(rows[high], plain.upper[high]), (-rows[low], -plain.lower[low])],
        "second": [],
        "matrix": [],
    }
    start = 0
    for block, own in zip(plain.sets, columns, strict=True):
        size = block.dimension
        at = sp.csr_array((np.ones(size), (np.arange(size), start + np.arange(size))), shape=(size, width))
        start += size
        eye = own.T @ np.ravel(block.identity())
        if block.trace is not None:
            zero.append((sp.csr_array(eye[None] @ at), np.array([float(block.trace)])))
        for sign, shift in block.slacks:  # sign·X + shift·I is in the cone
            cones[_kind(block)].append((-sign * at, shift * eye))
    for lmi in plain.lmis:
        own = _columns(lmi.set, triangle)
        parts = [
            (coefficients.to_csr() @ own).T @ inner
            for coefficients, inner in zip(lmi.coefficients, columns, strict=True)
        ]
        value, eye = sp.csr_array(sp.hstack(parts, format="csr")), own.T @ np.ravel(lmi.set.identity())
        if len(lmi.set.slacks) != 1:
            raise ProblemError("an LMI in a box has two multipliers in standard form; split it into two LMIs")
        for sign, shift in lmi.set.slacks:
            constant = own.T @ np.ravel(lmi.constant)
            cones[_kind(lmi.set)].append((-sign * value, sign * constant + shift * eye))
    every = [*zero, *cones["nonneg"], *cones["second"], *cones["matrix"]]
    sides = {kind: tuple(_side(part, kind) for _, part in cones[kind]) for kind in ("second", "matrix")}
    return ConicForm(
        matrix=sp.csc_array(sp.vstack([part for part, _ in every], format="csc")),
        rhs=np.concatenate([part for _, part in every]),
        zero=sum(part.size for _, part in zero),
        nonneg=sum(part.size for _, part in cones["nonneg"]),
        second_order=sides["second"],
        semidefinite=sides["matrix"],
        triangle=triangle,
        _psd_reduction=psd_reduction,
        _equal=equal,
        _high=high,
        _low=low,
    )


def _kind(block: BlockSet) -> str:
    if block.matrix:
        return "matrix"
    return "second" if isinstance(block, SecondOrder) else "nonneg"


def _side(part: FloatArray, kind: str) -> int:
    """Return the length of a vector, or the side of a matrix from the length of its triangle."""
    return part.size if kind == "second" else (int(np.sqrt(8 * part.size + 1)) - 1) // 2


def _columns(block: BlockSet, triangle: Triangle) -> Any:
    """Return the matrix that maps the numbers of a block in ``x`` to its entries."""
    return svec_map(block.n, triangle) if block.matrix else sp.eye_array(block.n, format="csc")


def _unpacked(block: BlockSet, entries: FloatArray, triangle: Triangle) -> FloatArray:
    return np.asarray(_columns(block, triangle) @ entries).reshape(block.shape)


def _vector(values: Any, size: int, name: str) -> FloatArray:
    array = np.asarray(values, dtype=float)
    if array.shape != (size,):
        raise ClaimError(f"{name} has shape {array.shape}, expected {(size,)}")
    return array
