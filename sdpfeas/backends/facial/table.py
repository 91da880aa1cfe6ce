"""What multipliers make of the rows on a face: one table of integers, and the same in floating point.

A step of a chain asks for multipliers with ``-A*y`` in the cones, ``beta(y) >= 0`` and the right signs. All
of this is a point of one cone, the *exposing vector*: matrices, and *rays*, which are the entries of Nonneg
blocks, the signs of the inequality rows, and ``beta(y)``, in this order. Each row of the table is the vector
that one multiplier makes. Free blocks and boxes ask for zeros in a second table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.effort import Work, need
from sdpfeas.numerics.integers import (
    as_floats,
    identity,
    in_words,
    kernel,
    need_integers,
    product,
    saturated,
)
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.reductions.face_rows import is_sparse
from sdpfeas.problem.reductions.faces import Faces

__all__ = ["MatrixPart", "Table", "make_table"]

#: Numbers written for every entry of a matrix of every row while rows become floating-point ones.
NUMBERS = 10.0


@dataclass(frozen=True)
class MatrixPart:
    """The part of a table that belongs to one PSD block: its upper triangle, row by row.

    Attributes
    ----------
    block, side : int
        The block, and the side of S on its face.
    place : slice
        Its columns.
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

    Attributes
    ----------
    faces : Faces
        The face.
    lines : csr_array or ndarray
        One exposing vector a row.
    flat : ndarray
        What of it has to vanish on Free blocks and boxes.
    parts : tuple of MatrixPart
        Where the matrices are.
    rays : slice
        The columns of the rays; the last one is ``beta``.
    weights : ndarray
        The multipliers, of the rows in integers, that make each vector.
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
    short = [table if is_sparse(table) else in_words(table) for table in tables]
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
