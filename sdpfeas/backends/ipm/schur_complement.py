"""The Schur complement ``M = A H^-1 A*`` of sparse rows for the HKM direction, ``H^-1 g = sym(x g z^-1)``.

Entries are ``M_ij = <A_i, x A_j z^-1>``. The formula is chosen by cost for every row, after Fujisawa,
Kojima and Nakata (1997): rows with many entries form the product ``x A_j z^-1``, through the non-zero rows
of ``A_j`` only, and take its inner products with all other rows (their F1); rows with few entries are
summed over pairs of entries (their F3). Small matrices, of which there may be many, are worked on in
batches of dense rows. :class:`SchurComplement` is the main class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.ipm.sparse_cones import HkmIterate
from sdpfeas.backends.ipm.standard_form import ConeGroup, StandardForm
from sdpfeas.numerics.limits import check_deadline
from sdpfeas.numerics.linalg import FloatArray, symmetrize

#: Share of non-zeros of the coefficients on vectors above which they are stored as an array: with 300 dense
#: rows, products of arrays are ten times as fast.
DENSE_ROWS_SHARE = 0.2

#: Measured nanoseconds of one multiply-add: in a large matrix product, a small one, and a sparse one.
FLOP_NS, SMALL_FLOP_NS, SPARSE_FLOP_NS = 0.1, 0.6, 1.0

#: Measured nanoseconds for a pair of entries of two rows (F3), and of overhead for a row with a product (F1).
ENTRY_PAIR_NS, PRODUCT_OVERHEAD_NS = 10.0, 8000.0

#: Measured nanoseconds of overhead for a matrix that is not in a batch.
MATRIX_OVERHEAD_NS = 2e5

#: Matrices up to this side are worked on in batches where there are several.
BATCH_SIDE = 40

#: Floating-point numbers in one chunk of temporary arrays.
CHUNK_NUMBERS = 1_500_000

#: From this share of non-zeros on, a sparse matrix is stored as a dense array.
DENSE_SHARE = 0.15

#: The Schur complement is sparse if it has more rows than this and a smaller share of non-zeros.
SPARSE_SCHUR_ROWS, SPARSE_SCHUR_SHARE = 400, 0.15

#: Rows of the Schur complement (None for all) and the square block to add there.
Contribution = tuple[np.ndarray | None, FloatArray]


class SchurComplement:
    """Sum of the contributions of all cones, as a dense or a sparse matrix."""

    def __init__(self, form: StandardForm) -> None:
        self.m = form.m
        self._psd_parts: list[tuple[int, _MatrixBatch | _SingleMatrix]] = []
        # The transpose in compressed row format is the matrix itself in compressed column format.
        adjoint = form.adjoint
        columns = sp.csc_array((adjoint.data, adjoint.indices, adjoint.indptr), shape=form.rows.shape)
        for k, group in enumerate(form.psd_groups):
            own = columns if group.slice == slice(0, form.size) else columns[:, group.slice]
            for part in _choose_formulas(group, own):
                self._psd_parts.append((k, part))
        self._vector_part = _VectorCones(form, columns[:, form.non_matrix])
        #: Rows and columns of the entries of all contributions if the sum is sparse, else positions in the
        #: flat array; computed when first needed.
        self._places: dict[bool, tuple[np.ndarray, ...]] = {}
        filled = sum(part.filled for _, part in self._psd_parts) + self._vector_part.filled
        #: Whether :meth:`at` returns a sparse matrix.
        self.sparse = self.m > SPARSE_SCHUR_ROWS and filled < SPARSE_SCHUR_SHARE * float(self.m) ** 2

    @property
    def flops(self) -> float:
        """Flop count of forming and factorising the Schur complement once."""
        return float(self.m) ** 3 / 3.0 + sum(part.cost for _, part in self._psd_parts) / FLOP_NS

    @property
    def memory(self) -> float:
        """Memory estimate in bytes, with all temporary arrays."""
        blocks = sum(part.filled for _, part in self._psd_parts)
        whole = 0.0 if self.sparse else 3.0 * float(self.m) ** 2
        return 8.0 * (whole + 3.0 * blocks + sum(part.numbers for _, part in self._psd_parts))

    def at(self, iterate: HkmIterate) -> Any:
        """Return the Schur complement at an iterate: a dense array, or a sparse array."""
        if iterate.multiple is not None:
            blocks = [part.at_identity(iterate.multiple) for _, part in self._psd_parts]
        else:
            blocks = [part.at(iterate.x_matrices(k), iterate.z_inverses[k]) for k, part in self._psd_parts]
        return self._sum(blocks, self._vector_part.at(iterate))

    def _sum(self, blocks: list[Contribution], vectors: Any) -> Any:
        """Add up all contributions; those of padding rows, which have index m, are zero."""
        total, parts = None, list[tuple[np.ndarray, FloatArray]]()
        for rows, block in blocks:
            if rows is None and not self.sparse:
                total = block if total is None else total + block
            else:
                own = np.arange(self.m) if rows is None else rows
                parts.append((own.astype(np.int32), block))
        if parts:
            size = self.m + 1
            if self.sparse not in self._places:
                # Short integers: there are as many as entries of all blocks together.
                pairs = [np.broadcast_arrays(i[..., :, None], i[..., None, :]) for i, _ in parts]
                row, column = (np.concatenate([pair[k].reshape(-1) for pair in pairs]) for k in (0, 1))
                flat = (row.astype(np.int64) * size + column,)
                self._places[self.sparse] = (row, column) if self.sparse else flat
            places = self._places[self.sparse]
            values = np.concatenate([block.reshape(-1) for _, block in parts])
            if self.sparse:
                more = sp.coo_array((values, places), shape=(size, size)).tocsc()[: self.m, : self.m]
            else:
                summed = np.bincount(places[0], weights=values, minlength=size**2)
                more = summed.reshape(size, size)[: self.m, : self.m]
            total = more if total is None else total + more
        if total is None:
            total = sp.csc_array((self.m, self.m)) if self.sparse else np.zeros((self.m, self.m))
        if vectors is None:
            return total
        return total + (sp.csc_array(vectors) if self.sparse else vectors)


# --- PSD cones


def _choose_formulas(group: ConeGroup, own: Any) -> list[_MatrixBatch | _SingleMatrix]:
    """Split the matrices of a group into batches and single matrices, by estimated cost."""
    coo = own.tocoo()
    row, position = coo.coords[0].astype(np.int64), coo.coords[1].astype(np.int64)
    width, m = group.n**2, own.shape[0]
    matrix, entry = np.divmod(position, width)
    #: Non-zero rows of every matrix, as ``matrix * m + row``, and the one that each entry belongs to.
    matrix_rows, owner = np.unique(matrix * m + row, return_inverse=True)
    counts = np.bincount(matrix_rows // m, minlength=group.count)
    upper = entry // group.n <= entry % group.n
    entries = np.bincount(matrix[upper], minlength=group.count).astype(np.float64)
    single = ENTRY_PAIR_NS * np.square(entries) + MATRIX_OVERHEAD_NS < _batch_costs(group.n, counts)
    if group.n > BATCH_SIDE:
        single[:] = True
    out: list[_MatrixBatch | _SingleMatrix] = [
        _SingleMatrix(group, int(k), own[:, k * width : (k + 1) * width])
        for k in np.flatnonzero(single & (counts > 0))
    ]
    # Padding to the next power of two wastes at most three quarters, seldom more than a third.
    level = np.frexp(counts.astype(np.float64) - 0.5)[1]
    for size in np.unique(level[(counts > 0) & ~single]):
        chosen = np.flatnonzero((level == size) & (counts > 0) & ~single)
        out.append(_MatrixBatch.of(group, chosen, counts, matrix_rows, m, (owner, entry, coo.data)))
    return out


def _batch_costs(side: int, counts: np.ndarray) -> FloatArray:
    """Nanoseconds per matrix of a batch, for given numbers of rows."""
    rows = counts.astype(np.float64)
    return np.asarray(SMALL_FLOP_NS * 2.0 * side**3 * rows + 0.5 * FLOP_NS * side**2 * np.square(rows))


@dataclass
class _MatrixBatch:
    """Small matrices of one side with dense rows.

    ``rows`` has shape (matrices, rows) and holds the rows of the problem on each matrix, padded with m.
    ``dense`` has shape (matrices, rows, side, side). ``cost`` is in nanoseconds.
    """

    chosen: Any
    rows: np.ndarray
    dense: FloatArray
    cost: float

    @classmethod
    def of(
        cls,
        group: ConeGroup,
        chosen: np.ndarray,
        counts: np.ndarray,
        matrix_rows: np.ndarray,
        m: int,
        entries: tuple[np.ndarray, np.ndarray, FloatArray],
    ) -> _MatrixBatch:
        """Store the rows on the chosen matrices as dense arrays."""
        owner, entry, value = entries
        most, width = int(counts[chosen].max()), group.n**2
        ends = np.cumsum(counts)
        position = np.full(matrix_rows.size, -1)
        rows = np.full((chosen.size, most), m)
        for k, b in enumerate(chosen):
            own = slice(ends[b] - counts[b], ends[b])
            position[own] = k * most + np.arange(counts[b])
            rows[k, : counts[b]] = matrix_rows[own] % m
        used = position[owner] >= 0
        dense = np.zeros(chosen.size * most * width)
        dense[position[owner[used]] * width + entry[used]] = value[used]
        shape = (chosen.size, most, group.n, group.n)
        cost = float(_batch_costs(group.n, counts[chosen]).sum())
        return cls(slice(None) if chosen.size == group.count else chosen, rows, dense.reshape(shape), cost)

    @property
    def filled(self) -> float:
        """Upper bound on the non-zeros of the contribution."""
        return float(self.rows.shape[0]) * self.rows.shape[1] ** 2

    @property
    def numbers(self) -> float:
        """Floating-point numbers stored, temporary arrays included."""
        return 4.0 * self.dense.size + 2.0 * self.filled

    def at_identity(self, multiple: float) -> Contribution:
        """Contribution where ``H^-1`` is a multiple of the identity."""
        flat = self._flat(self.dense)
        return self.rows, multiple * (flat @ np.swapaxes(flat, -1, -2))

    def at(self, x: FloatArray, z_inverse: FloatArray) -> Contribution:
        """Contribution by dense products, matrix by matrix."""
        products = x[self.chosen][:, None] @ self.dense @ z_inverse[self.chosen][:, None]
        products = self._flat(symmetrize(products))
        return self.rows, self._flat(self.dense) @ np.swapaxes(products, -1, -2)

    @staticmethod
    def _flat(matrices: FloatArray) -> FloatArray:
        return matrices.reshape(*matrices.shape[:2], -1)


class _SingleMatrix:
    """One matrix with sparse rows: a product (F1) for some rows, pairs of entries (F3) for the others.

    ``own`` are the columns of A on the matrix, in compressed column format.
    """

    def __init__(self, group: ConeGroup, k: int, own: Any) -> None:
        self.k, self.n = k, group.n
        n = self.n
        rows = own.tocsr()
        #: Rows of the problem with entries on this matrix. All other indices count among these.
        self.rows = np.flatnonzero(np.diff(rows.indptr))
        self._all = self.rows.size == rows.shape[0]
        rows = rows if self._all else rows[self.rows]
        self._rows = rows
        coo = rows.tocoo()
        row, position = coo.coords[0].astype(np.int64), coo.coords[1].astype(np.int64)
        i, j = np.divmod(position, n)
        upper = i <= j
        self._support = np.unique(position[upper])
        self._mirrored_support = (self._support % n) * n + self._support // n
        self._weights = self._support_weights(row[upper], position[upper], coo.data[upper])
        self._choose(row, i, upper)
        self._prepare_products()
        self._prepare_entries(row[upper], i[upper], j[upper], coo.data[upper])

    def _support_weights(self, row: np.ndarray, position: np.ndarray, value: FloatArray) -> Any:
        """Rows as combinations of the entries of the support, which count twice off the diagonal."""
        column = np.searchsorted(self._support, position)
        off = position // self.n != position % self.n
        shape = (self.rows.size, self._support.size)
        found = sp.csr_array((value * np.where(off, 2.0, 1.0), (row, column)), shape=shape)
        return found.toarray() if found.nnz > DENSE_SHARE * shape[0] * shape[1] else found

    def _choose(self, row: np.ndarray, i: np.ndarray, upper: np.ndarray) -> None:
        """Choose the rows that take a product (F1), so that the total cost is least."""
        n, size, weights = self.n, self.rows.size, self._weights
        entries = np.bincount(row, minlength=size).astype(np.float64)
        nonzero_lines = np.bincount(np.unique(row * n + i) // n, minlength=size).astype(np.float64)
        upper_entries = np.bincount(row[upper], minlength=size).astype(np.float64)
        dense = isinstance(weights, np.ndarray)
        per_entry, met = (FLOP_NS * 2.0, weights.size) if dense else (SPARSE_FLOP_NS, weights.nnz)
        product_cost = FLOP_NS * n * n * nonzero_lines
        product_cost += np.minimum(SPARSE_FLOP_NS * entries, FLOP_NS * n * nonzero_lines) * n
        product_cost += PRODUCT_OVERHEAD_NS + per_entry * met + 4.0 * n * n
        # Rows by falling number of entries: the first ones take products, all others pairs of entries.
        order = np.argsort(-upper_entries, kind="stable")
        products = np.concatenate([[0.0], np.cumsum(product_cost[order])])
        remaining = upper_entries.sum() - np.concatenate([[0.0], np.cumsum(upper_entries[order])])
        one_entry = np.all(upper_entries == 1.0)
        costs = products + ENTRY_PAIR_NS * (0.5 if one_entry else 1.0) * np.square(remaining)
        count = int(np.argmin(costs))
        #: Nanoseconds of one contribution.
        self.cost = float(costs[count])
        self._product_rows = np.sort(order[:count])
        self._entry_rows = np.setdiff1d(np.arange(size), self._product_rows)

    def _prepare_products(self) -> None:
        """Store the non-zero lines of every ``A_j`` with a product, and their positions."""
        n, rows = self.n, self._rows
        self._factors: list[tuple[Any, Any]] = []
        for r in self._product_rows:
            check_deadline("the Newton system")
            begin, end = rows.indptr[r], rows.indptr[r + 1]
            position, value = rows.indices[begin:end].astype(np.int64), rows.data[begin:end]
            i, j = np.divmod(position, n)
            lines, line = np.unique(i, return_inverse=True)
            part = sp.csr_array((value, (line, j)), shape=(lines.size, n))
            dense = FLOP_NS * part.shape[0] * n < SPARSE_FLOP_NS * part.nnz
            self._factors.append(
                (slice(None) if lines.size == n else lines, part.toarray() if dense else part)
            )

    def _prepare_entries(self, row: np.ndarray, i: np.ndarray, j: np.ndarray, value: FloatArray) -> None:
        """Store the upper entries of the other rows, row by row."""
        position = np.full(self.rows.size, -1)
        position[self._entry_rows] = np.arange(self._entry_rows.size)
        mine = position[row] >= 0
        order = np.argsort(position[row[mine]], kind="stable")
        self._i, self._j = i[mine][order], j[mine][order]
        self._diagonal = bool(np.all(self._i == self._j))
        half = 1.0 if self._diagonal else np.where(self._i == self._j, 0.5, 1.0)
        self._value = value[mine][order] * half
        counts = np.bincount(position[row[mine]], minlength=self._entry_rows.size)
        #: First entry of every row; None where every row has one entry.
        self._starts = None if np.all(counts == 1) else np.concatenate([[0], np.cumsum(counts)[:-1]])

    @property
    def filled(self) -> float:
        """Non-zeros of the contribution."""
        return float(self.rows.size) ** 2

    @property
    def numbers(self) -> float:
        """Floating-point numbers stored, temporary arrays included."""
        stored = self._weights.size + 4.0 * self._rows.nnz
        return stored + 2.0 * self.filled + 4.0 * max(CHUNK_NUMBERS, self.n**2)

    @property
    def _index(self) -> np.ndarray | None:
        return None if self._all else self.rows

    def at_identity(self, multiple: float) -> Contribution:
        """Contribution where ``H^-1`` is a multiple of the identity."""
        rows = self._rows
        counts = np.unique(rows.indices, return_counts=True)[1].astype(np.float64)
        if SPARSE_FLOP_NS * 10.0 * float(counts @ counts) < self.cost:
            # Leave out empty columns: there are many, and each takes a pointer in the transpose.
            used, column = np.unique(rows.indices, return_inverse=True)
            narrow = sp.csr_array((rows.data, column, rows.indptr), shape=(rows.shape[0], used.size))
            return self._index, multiple * (narrow @ narrow.T).toarray()
        eye = np.eye(self.n)
        return self._index, self._gram(multiple * eye, eye)

    def at(self, x: FloatArray, z_inverse: FloatArray) -> Contribution:
        """Contribution of all rows on the matrix."""
        return self._index, self._gram(x[self.k], z_inverse[self.k])

    def _gram(self, x: FloatArray, z_inverse: FloatArray) -> FloatArray:
        """``<A_i, x A_j z^-1>``: rows with a product against all rows, then the others with each other."""
        if self._product_rows.size == 0:
            return self._sum_entries(x, z_inverse)
        out = np.empty((self.rows.size, self.rows.size))
        step = max(1, CHUNK_NUMBERS // self.n**2)
        for start in range(0, self._product_rows.size, step):
            chosen = self._product_rows[start : start + step]
            products = np.empty((chosen.size, self.n, self.n))
            for product, (lines, part) in zip(products, self._factors[start : start + step], strict=True):
                np.matmul(x[:, lines], part @ z_inverse, out=product)
            flat = products.reshape(chosen.size, -1)
            values = flat.take(self._support, axis=1)
            values += flat.take(self._mirrored_support, axis=1)
            values *= 0.5
            # A sparse matrix times a dense one is fastest with the dense one in row-major order.
            if isinstance(self._weights, np.ndarray):
                out[chosen] = values @ self._weights.T
            else:
                out[chosen] = (self._weights @ np.ascontiguousarray(values.T)).T
        others = self._entry_rows
        if others.size:
            out[np.ix_(others, self._product_rows)] = out[np.ix_(self._product_rows, others)].T
            out[np.ix_(others, others)] = self._sum_entries(x, z_inverse)
        return symmetrize(out)

    def _sum_entries(self, x: FloatArray, z_inverse: FloatArray) -> FloatArray:
        """Inner products by formula F3: sums over pairs of entries."""
        i, j, value = self._i, self._j, self._value
        count = i.size
        rows = self._entry_rows.size
        if self._diagonal:
            if count == self.n and np.array_equal(i, np.arange(self.n)):
                product = x * z_inverse
            else:
                product = x[np.ix_(i, i)] * z_inverse[np.ix_(i, i)]
            product = product * value[:, None] * value
            if self._starts is None:
                return product
            return np.add.reduceat(np.add.reduceat(product, self._starts, axis=1), self._starts, axis=0)
        out = np.empty((rows, rows))
        step = max(1, CHUNK_NUMBERS // max(count, 1))
        edges = np.arange(rows + 1) if self._starts is None else np.append(self._starts, count)
        first = 0
        while first < rows:  # a chunk of whole rows at a time
            last = max(int(np.searchsorted(edges, edges[first] + step, side="right")) - 1, first + 1)
            own = slice(int(edges[first]), int(edges[last]))
            xi, xj, vi, vj = x[i[own]], x[j[own]], z_inverse[i[own]], z_inverse[j[own]]
            product = xj.take(i, axis=1)
            product *= vi.take(j, axis=1)
            for left, right, a, b in ((xj, vi, j, i), (xi, vj, i, j), (xi, vj, j, i)):
                other = left.take(a, axis=1)
                other *= right.take(b, axis=1)
                product += other
            product *= value[own, None]
            product *= value
            if self._starts is None:
                out[first:last] = product
            else:
                summed = np.add.reduceat(product, self._starts, axis=1)
                out[first:last] = np.add.reduceat(summed, edges[first:last] - edges[first], axis=0)
            first = last
        return out


# --- Second-order cones and non-negative orthants


class _VectorCones:
    """``A W A'`` for all entries outside the PSD blocks.

    W is diagonal in the orthants and ``d I + U C U'`` in a second-order cone. ``columns`` is A on these
    entries, in compressed column format.
    """

    def __init__(self, form: StandardForm, columns: Any) -> None:
        self._form = form
        self._empty = not columns.nnz
        dense = columns.nnz > DENSE_ROWS_SHARE * math.prod(columns.shape)
        self._rows = columns.toarray() if dense else columns.tocsr()
        self._start = form.non_matrix.start
        block_rows = [np.diff(columns.indptr)[form.nonneg.start - self._start :]]
        for cones in form.second_order_groups:
            own = columns[:, cones.start - self._start : cones.slice.stop - self._start].tocoo()
            cone = own.coords[1].astype(np.int64) // cones.n
            met = np.unique(cone * form.m + own.coords[0])
            block_rows.append(np.bincount(met // form.m, minlength=cones.count))
        #: Upper bound on the non-zeros of the contribution.
        self.filled = float(sum(np.sum(np.square(part.astype(np.float64))) for part in block_rows))

    def at(self, iterate: HkmIterate) -> Any:
        """Return the contribution as a sparse matrix, or as an array if A is stored as one; None if zero."""
        if self._empty:
            return None
        if iterate.multiple is not None:
            return iterate.multiple * (self._rows @ self._rows.T)
        diagonals, parts = list[FloatArray](), list[tuple[Any, Any]]()
        for cones, scaling in zip(self._form.second_order_groups, iterate.scalings, strict=True):
            diagonal, columns, inner = scaling.low_rank_form(cones.view(iterate.x))
            diagonals.append(np.repeat(diagonal, cones.n))
            own = self._rows[:, cones.start - self._start : cones.slice.stop - self._start]
            parts.append((own @ _block_diagonal(columns), _block_diagonal(inner)))
        weights = np.concatenate([*diagonals, iterate.ratios])
        total = self._rows @ (sp.diags_array(weights) @ self._rows.T)
        for factor, core in parts:
            total = total + factor @ core @ factor.T
        return total


def _block_diagonal(blocks: FloatArray) -> Any:
    """Sparse block-diagonal matrix of blocks of one shape."""
    count, rows, columns = blocks.shape
    shape = (count * rows, count * columns)
    return sp.bsr_array((blocks, np.arange(count), np.arange(count + 1)), shape=shape).tocsr()
