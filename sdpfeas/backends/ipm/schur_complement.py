"""The Schur complement ``A S A'`` of sparse rows, ``S g = sym(x g z^-1)``, by the cheapest way for every row.

After Fujisawa, Kojima and Nakata. A *heavy* row is multiplied out, ``x A_j z^-1``, only through the rows of
``A_j`` that hold anything, and meets all other rows in their entries. *Light* rows meet each other entry by
entry. Small matrices, of which there may be many, are worked on together, with their rows written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg

from sdpfeas.backends.ipm.sparse_cones import HkmIterate
from sdpfeas.backends.ipm.standard_form import PsdGroup, SecondOrderGroup, StandardForm
from sdpfeas.numerics.cost_estimate import Work
from sdpfeas.numerics.linalg import FloatArray, symmetrize

#: Nanoseconds, measured: a multiply-add in a large product of matrices, in a small one, in a sparse product;
#: an entry of a light row meeting another; what every heavy row costs besides.
FLOP, SMALL_FLOP, SPARSE_FLOP, MEETING, PER_ROW = 0.1, 0.6, 1.0, 10.0, 8000.0

#: Nanoseconds that a matrix worked on by itself costs besides.
PER_MATRIX = 2e5

#: Matrices up to this side are worked on together where there are several.
BATCH_SIDE = 40

#: Numbers in one batch of temporary arrays.
CHUNK = 1_500_000

#: From this share of non-zeros on a matrix is stored as an array.
FILLED = 0.15

#: A Schur complement with fewer non-zeros than this share, and more rows than so many, is kept sparse.
SPARSE_SHARE, SPARSE_ROWS = 0.15, 400


class SchurComplement:
    """Adds up what every cone contributes."""

    def __init__(self, form: StandardForm) -> None:
        self.m = form.m
        self._parts: list[tuple[int, _Batch | _Single]] = []
        # Compressed by columns: the transpose, compressed by rows.
        transposed = form.adjoint
        parts = (transposed.data, transposed.indices, transposed.indptr)
        columns = sp.csc_array(parts, shape=form.rows.shape)
        for k, group in enumerate(form.psd_groups):
            own = columns if group.slice == slice(0, form.size) else columns[:, group.slice]
            for part in _kernels(group, own):
                self._parts.append((k, part))
        self._vectors = VectorPart(form, columns[:, form.non_matrix])
        #: Where the entries of all squares go in an array; made when it is needed.
        self._spots: np.ndarray | None = None
        self._collect()

    def _collect(self) -> None:
        """Decide whether the sum is kept sparse, and where contributions go."""
        filled = sum(part.filled for _, part in self._parts) + self._vectors.filled
        self.sparse = self.m > SPARSE_ROWS and filled < SPARSE_SHARE * float(self.m) ** 2

    @property
    def work(self) -> Work:
        """What one complement takes, its factorisation included."""
        total = Work(products=float(self.m) ** 3 / 3.0, numbers=3.0 * float(self.m) ** 2)
        for _, part in self._parts:
            total = total.plus(Work(products=part.cost / FLOP))
        return total

    @property
    def memory(self) -> float:
        """Bytes of the complement and of what it is made from."""
        squares = sum(part.filled for _, part in self._parts)
        whole = 0.0 if self.sparse else 3.0 * float(self.m) ** 2
        return 8.0 * (whole + 3.0 * squares + sum(part.numbers for _, part in self._parts))

    def at(self, iterate: HkmIterate) -> Any:
        """Return the complement at an iterate: an array, or a sparse array."""
        found: list[tuple[np.ndarray | None, FloatArray]] = []
        for k, part in self._parts:
            if iterate.multiple is not None:
                found.extend(part.gram(iterate.multiple))
            else:
                found.extend(part.at(iterate.xs(k), iterate.inverses[k]))
        lines = self._vectors.at(iterate)
        return self._sparse_sum(found, lines) if self.sparse else self._dense_sum(found, lines)

    def _dense_sum(self, found: list[tuple[np.ndarray | None, FloatArray]], lines: Any) -> FloatArray:
        whole = [square for index, square in found if index is None]
        parts = [(index, square) for index, square in found if index is not None]
        if len(parts) == 1 and parts[0][0].ndim == 1:
            (index, square), parts = parts[0], []
            whole.append(np.zeros((self.m, self.m)))
            whole[-1][np.ix_(index, index)] = square
        if parts:
            if self._spots is None:
                self._spots = np.concatenate([self._spots_of(index) for index, _ in parts])
            values = np.concatenate([square.reshape(-1) for _, square in parts])
            summed = np.bincount(self._spots, weights=values, minlength=self.m**2)
            whole.append(summed.reshape(self.m, self.m).astype(np.float64, copy=False))
        total = whole.pop() if whole else np.zeros((self.m, self.m))
        for square in whole:
            total += square
        if lines is not None:
            coo = lines.tocoo()
            total[coo.coords] += coo.data
        return total

    def _spots_of(self, index: np.ndarray) -> np.ndarray:
        """Where the entries of squares go; those of rows that are none, which are zero, go to the first."""
        spots = index[..., :, None] * self.m + index[..., None, :]
        none = index >= self.m
        if none.any():
            spots[none[..., :, None] | none[..., None, :]] = 0
        return spots.reshape(-1)

    def _sparse_sum(self, found: list[tuple[np.ndarray | None, FloatArray]], lines: Any) -> Any:
        row, column, value = [], [], []
        for index, square in found:
            own = np.arange(self.m) if index is None else index
            row.append(np.broadcast_to(own[..., :, None], square.shape).reshape(-1))
            column.append(np.broadcast_to(own[..., None, :], square.shape).reshape(-1))
            value.append(square.reshape(-1))
        if row:
            coords = np.concatenate(row), np.concatenate(column)
            side = self.m + 1
            total = sp.coo_array((np.concatenate(value), coords), shape=(side, side)).tocsc()
            total = total[: self.m, : self.m]
        else:
            total = sp.csc_array((self.m, self.m))
        return total if lines is None else sp.csc_array(total + lines)


# ---------------------------------------------------------------- which way


def _kernels(group: PsdGroup, own: Any) -> list[_Batch | _Single]:
    """Ways to handle the matrices of a group: some together, some one by one."""
    coo = own.tocoo()
    which, place = coo.coords[0].astype(np.int64), coo.coords[1].astype(np.int64)
    width, m = group.side**2, own.shape[0]
    matrix, entry = np.divmod(place, width)
    pairs, member = np.unique(matrix * m + which, return_inverse=True)
    counts = np.bincount(pairs // m, minlength=group.count)
    upper = entry // group.side <= entry % group.side
    light = np.bincount(matrix[upper], minlength=group.count)
    apart = MEETING * np.square(light.astype(np.float64)) + PER_MATRIX < _batch_costs(group.side, counts)
    if group.side > BATCH_SIDE:
        apart[:] = True
    chosen = [
        _Single(group, int(k), own[:, k * width : (k + 1) * width])
        for k in np.flatnonzero(apart & (counts > 0))
    ]
    out: list[_Batch | _Single] = [*chosen]
    # Padding to the next power of two wastes at most three quarters, seldom more than a third.
    level = np.frexp(counts.astype(np.float64) - 0.5)[1]
    for size in np.unique(level[(counts > 0) & ~apart]):
        together = np.flatnonzero((level == size) & (counts > 0) & ~apart)
        out.append(_Batch.of(group, together, counts, pairs, m, (member, entry, coo.data)))
    return out


def _batch_costs(side: int, counts: np.ndarray) -> FloatArray:
    """Nanoseconds for each matrix with so many rows, written out."""
    rows = counts.astype(np.float64)
    return np.asarray(SMALL_FLOP * 2.0 * side**3 * rows + 0.5 * FLOP * side**2 * np.square(rows))


@dataclass
class _Batch:
    """Small matrices with their rows written out.

    ``index``: shape (matrices, rows): the rows that touch each, m where there are fewer.
    """

    which: Any
    index: np.ndarray
    full: FloatArray
    cost: float

    @classmethod
    def of(
        cls,
        group: PsdGroup,
        chosen: np.ndarray,
        counts: np.ndarray,
        pairs: np.ndarray,
        m: int,
        entries: tuple[np.ndarray, np.ndarray, FloatArray],
    ) -> _Batch:
        """Write out the rows of the chosen matrices."""
        member, entry, value = entries
        most, width = int(counts[chosen].max()), group.side**2
        ends = np.cumsum(counts)
        spot = np.full(pairs.size, -1)
        index = np.full((chosen.size, most), m)
        for k, b in enumerate(chosen):
            own = slice(ends[b] - counts[b], ends[b])
            spot[own] = k * most + np.arange(counts[b])
            index[k, : counts[b]] = pairs[own] % m
        used = spot[member] >= 0
        full = np.zeros(chosen.size * most * width)
        full[spot[member[used]] * width + entry[used]] = value[used]
        which = slice(None) if chosen.size == group.count else chosen
        shape = (chosen.size, most, group.side, group.side)
        return cls(which, index, full.reshape(shape), float(_batch_costs(group.side, counts[chosen]).sum()))

    @property
    def filled(self) -> float:
        """Entries of the complement that it adds to, at most."""
        return float(self.index.shape[0]) * self.index.shape[1] ** 2

    @property
    def numbers(self) -> float:
        """Numbers stored and made."""
        return 4.0 * self.full.size + 2.0 * self.filled

    def gram(self, multiple: float) -> list[tuple[np.ndarray | None, FloatArray]]:
        """Multiples of the identity on both sides."""
        flat = self._flat(self.full)
        return [(self.index, multiple * (flat @ np.swapaxes(flat, -1, -2)))]

    def at(self, x: FloatArray, inverse: FloatArray) -> list[tuple[np.ndarray | None, FloatArray]]:
        """Products of all rows, matrix by matrix."""
        half = x[self.which][:, None] @ self.full @ inverse[self.which][:, None]
        images = self._flat(symmetrize(half))
        return [(self.index, self._flat(self.full) @ np.swapaxes(images, -1, -2))]

    @staticmethod
    def _flat(matrices: FloatArray) -> FloatArray:
        return matrices.reshape(*matrices.shape[:2], -1)


class _Single:
    """One matrix, its rows sparse.

    ``own``: all rows on it, compressed by columns.
    """

    def __init__(self, group: PsdGroup, k: int, own: Any) -> None:
        self.k, self.n = k, group.side
        n = self.n
        rows = own.tocsr()
        self.rows = np.flatnonzero(np.diff(rows.indptr))
        if self.rows.size == 0:
            self.cost = 0.0
            return
        self._all = self.rows.size == rows.shape[0]
        rows = rows if self._all else rows[self.rows]
        coo = rows.tocoo()
        row, place = coo.coords[0].astype(np.int64), coo.coords[1].astype(np.int64)
        i, j = np.divmod(place, n)
        entries = np.bincount(row, minlength=self.rows.size).astype(np.float64)
        lines = np.unique(row * n + i)
        touched = np.bincount(lines // n, minlength=self.rows.size).astype(np.float64)
        upper = i <= j
        support = np.unique(place[upper])
        light = np.bincount(row[upper], minlength=self.rows.size).astype(np.float64)
        weights = self._weights(rows, support, row[upper], place[upper], coo.data[upper])
        per_entry = FLOP * 2.0 if isinstance(weights, np.ndarray) else SPARSE_FLOP
        meet = weights.size if isinstance(weights, np.ndarray) else weights.nnz
        heavy_cost = FLOP * n * n * touched + np.minimum(SPARSE_FLOP * entries, FLOP * n * touched) * n
        heavy_cost += PER_ROW + per_entry * meet + 4.0 * n * n
        # Rows with many entries first; beyond some place in that order they are light.
        order = np.argsort(-light, kind="stable")
        ahead = np.concatenate([[0.0], np.cumsum(heavy_cost[order])])
        left = light.sum() - np.concatenate([[0.0], np.cumsum(light[order])])
        single = np.all(light == 1.0)
        costs = ahead + MEETING * (0.5 if single else 1.0) * np.square(left)
        count = int(np.argmin(costs))
        self.cost = float(costs[count])
        heavy = np.sort(order[:count])
        self._heavy = heavy
        self._lightweight = np.setdiff1d(np.arange(self.rows.size), heavy)
        self._support, self._mirror = support, (support % n) * n + support // n
        self._touching = weights
        self._gram_rows = rows
        self._make_heavy(rows, heavy)
        self._make_light(row[upper], i[upper], j[upper], coo.data[upper])

    def _weights(
        self, rows: Any, support: np.ndarray, row: np.ndarray, place: np.ndarray, value: FloatArray
    ) -> Any:
        """Rows as combinations of the symmetrised entries of the support: twice off the diagonal."""
        column = np.searchsorted(support, place)
        off = place // self.n != place % self.n
        shape = (rows.shape[0], support.size)
        found = sp.csr_array((value * np.where(off, 2.0, 1.0), (row, column)), shape=shape)
        return found.toarray() if found.nnz > FILLED * shape[0] * shape[1] else found

    def _make_heavy(self, rows: Any, heavy: np.ndarray) -> None:
        n = self.n
        self._factors: list[tuple[Any, Any]] = []
        for r in heavy:
            begin, end = rows.indptr[r], rows.indptr[r + 1]
            place, value = rows.indices[begin:end].astype(np.int64), rows.data[begin:end]
            i, j = np.divmod(place, n)
            used, spot = np.unique(i, return_inverse=True)
            part = sp.csr_array((value, (spot, j)), shape=(used.size, n))
            thick = FLOP * part.shape[0] * n < SPARSE_FLOP * part.nnz
            self._factors.append((slice(None) if used.size == n else used, part.toarray() if thick else part))

    def _make_light(self, row: np.ndarray, i: np.ndarray, j: np.ndarray, value: FloatArray) -> None:
        spot = np.full(self.rows.size, -1)
        spot[self._lightweight] = np.arange(self._lightweight.size)
        mine = spot[row] >= 0
        order = np.argsort(spot[row[mine]], kind="stable")
        self._i, self._j = i[mine][order], j[mine][order]
        self._diagonal = bool(np.all(self._i == self._j))
        half = 1.0 if self._diagonal else np.where(self._i == self._j, 0.5, 1.0)
        self._value = value[mine][order] * half
        counts = np.bincount(spot[row[mine]], minlength=self._lightweight.size)
        self._starts = None if np.all(counts == 1) else np.concatenate([[0], np.cumsum(counts)[:-1]])

    @property
    def filled(self) -> float:
        """Entries of the complement that it adds to."""
        return float(self.rows.size) ** 2

    @property
    def numbers(self) -> float:
        """Numbers stored and made."""
        stored = self._touching.size + 4.0 * self._gram_rows.nnz
        return stored + 2.0 * self.filled + 4.0 * max(CHUNK, self.n**2)

    @property
    def _index(self) -> np.ndarray | None:
        return None if self._all else self.rows

    def gram(self, multiple: float) -> list[tuple[np.ndarray | None, FloatArray]]:
        """Multiples of the identity on both sides."""
        rows = self._gram_rows
        counts = np.unique(rows.indices, return_counts=True)[1].astype(np.float64)
        if SPARSE_FLOP * 10.0 * float(counts @ counts) < self.cost:
            # Columns that hold nothing are many, and as many pointers.
            used, column = np.unique(rows.indices, return_inverse=True)
            narrow = sp.csr_array((rows.data, column, rows.indptr), shape=(rows.shape[0], used.size))
            return [(self._index, multiple * (narrow @ narrow.T).toarray())]
        eye = np.eye(self.n)
        return [(self._index, self._sum(multiple * eye, eye))]

    def at(self, x: FloatArray, inverse: FloatArray) -> list[tuple[np.ndarray | None, FloatArray]]:
        """Heavy rows against all, then light rows against each other."""
        return [(self._index, self._sum(x[self.k], inverse[self.k]))]

    def _sum(self, x: FloatArray, inverse: FloatArray) -> FloatArray:
        if self._heavy.size == 0:
            return self._meetings(x, inverse)
        out = np.empty((self.rows.size, self.rows.size))
        step = max(1, CHUNK // self.n**2)
        for start in range(0, self._heavy.size, step):
            chosen = self._heavy[start : start + step]
            images = np.empty((chosen.size, self.n, self.n))
            for spot, (used, part) in enumerate(self._factors[start : start + step]):
                np.matmul(x[:, used], part @ inverse, out=images[spot])
            flat = images.reshape(chosen.size, -1)
            values = flat.take(self._support, axis=1)
            values += flat.take(self._mirror, axis=1)
            values *= 0.5
            # A sparse array times an array is quickest with the array in the order of its rows.
            if isinstance(self._touching, np.ndarray):
                out[chosen] = values @ self._touching.T
            else:
                out[chosen] = (self._touching @ np.ascontiguousarray(values.T)).T
        light = self._lightweight
        if light.size:
            out[np.ix_(light, self._heavy)] = out[np.ix_(self._heavy, light)].T
            out[np.ix_(light, light)] = self._meetings(x, inverse)
        return symmetrize(out)

    def _meetings(self, x: FloatArray, inverse: FloatArray) -> FloatArray:
        """Inner products of light rows, entry by entry."""
        i, j, value = self._i, self._j, self._value
        count = i.size
        rows = self._lightweight.size
        if self._diagonal:
            if count == self.n and np.array_equal(i, np.arange(self.n)):
                product = x * inverse
            else:
                product = x[np.ix_(i, i)] * inverse[np.ix_(i, i)]
            return self._reduced(product * value[:, None] * value)
        out = np.empty((rows, rows))
        step = max(1, CHUNK // max(count, 1))
        # Whole rows at a time.
        edges = np.arange(rows + 1) if self._starts is None else np.append(self._starts, count)
        first = 0
        while first < rows:
            last = max(int(np.searchsorted(edges, edges[first] + step, side="right")) - 1, first + 1)
            own = slice(int(edges[first]), int(edges[last]))
            xi, xj, vi, vj = x[i[own]], x[j[own]], inverse[i[own]], inverse[j[own]]
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

    def _reduced(self, product: FloatArray) -> FloatArray:
        if self._starts is None:
            return product
        return np.add.reduceat(np.add.reduceat(product, self._starts, axis=1), self._starts, axis=0)


# ------------------------------------------------------------
# What second-order cones and non-negative numbers contribute to the Schur complement.

#: Second-order cones up to this dimension are squares on the diagonal; of larger ones four vectors are kept.
WRITTEN = 8


class VectorPart:
    """Rows on all that is no matrix: ``A W A'``, W the identity, scaled, plus a few vectors for every cone.

    ``columns``: the rows on vectors and numbers, compressed by columns.
    """

    def __init__(self, form: StandardForm, columns: Any) -> None:
        self._pair = form
        self._rows = columns.tocsr()
        self._adjoint = columns.T.tocsr()
        self._start = form.non_matrix.start
        squares = [np.diff(columns.indptr)[form.nonneg.start - self._start :]]
        for bundle in form.second_order_groups:
            own = columns[:, bundle.start - self._start : bundle.slice.stop - self._start].tocoo()
            cone = own.coords[1].astype(np.int64) // bundle.dimension
            met = np.unique(cone * form.m + own.coords[0])
            squares.append(np.bincount(met // form.m, minlength=bundle.count))
        #: Entries of the complement that it adds to, at most.
        self.filled = float(sum(np.sum(np.square(part.astype(np.float64))) for part in squares))
        self._pattern = _pattern(form)

    def at(self, iterate: HkmIterate) -> Any:
        """The contribution, sparse; None if there is none."""
        if not self._rows.nnz:
            return None
        if iterate.multiple is not None:
            return iterate.multiple * (self._rows @ self._adjoint)
        data, extra = [], list[tuple[SecondOrderGroup, FloatArray, FloatArray]]()
        for bundle, scaling in zip(self._pair.second_order_groups, iterate.scalings, strict=True):
            diagonal, columns, inner = scaling.factors(bundle.view(iterate.x))
            if bundle.dimension <= WRITTEN:
                squares = columns @ inner @ np.swapaxes(columns, 1, 2)
                squares[:, np.arange(bundle.dimension), np.arange(bundle.dimension)] += diagonal[:, None]
                data.append(squares.reshape(-1))
            else:
                data.append(np.repeat(diagonal, bundle.dimension))
                extra.append((bundle, columns, inner))
        data.append(iterate.ratios)
        indices, pointers = self._pattern
        size = self._rows.shape[1]
        weights = sp.csr_array((np.concatenate(data), indices, pointers), shape=(size, size))
        total = self._rows @ weights @ self._adjoint
        for bundle, columns, inner in extra:
            start = bundle.start - self._start
            own = self._rows[:, start : start + bundle.count * bundle.dimension]
            spread = own @ _along_diagonal(columns)
            total = total + spread @ _along_diagonal(inner) @ spread.T
        return total


def _along_diagonal(blocks: FloatArray) -> Any:
    """Blocks of one shape as the diagonal of a sparse matrix."""
    count, rows, columns = blocks.shape
    shape = (count * rows, count * columns)
    return sp.bsr_array((blocks, np.arange(count), np.arange(count + 1)), shape=shape).tocsr()


def _pattern(form: StandardForm) -> tuple[np.ndarray, np.ndarray]:
    """Where the entries of W are: indices and pointers of compressed rows."""
    start, indices, counts = form.non_matrix.start, list[np.ndarray](), list[np.ndarray]()
    for bundle in form.second_order_groups:
        place = np.arange(bundle.slice.start, bundle.slice.stop) - start
        d = bundle.dimension
        if d <= WRITTEN:
            indices.append(np.repeat(place.reshape(-1, d), d, axis=0).reshape(-1))
            counts.append(np.full(place.size, d))
        else:
            indices.append(place)
            counts.append(np.ones(place.size, dtype=np.int64))
    lines = np.arange(form.nonneg.start, form.nonneg.stop) - start
    indices.append(lines)
    counts.append(np.ones(lines.size, dtype=np.int64))
    pointers = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return np.concatenate(indices), pointers


# ------------------------------------------------------------
# The Newton system where its Schur complement is sparse.

#: What is added to the diagonal, relative to it: pivots stay positive, and refinement makes up for it.
REGULARISATION = 1e-13

#: What is taken from the empty corner, relative to what elimination puts there: then no pivoting is needed.
CORNER = 1e-8

#: Steps of refinement, at the most; and the share to which one has to shrink what is left.
REFINEMENTS, SHRINKS = 5, 0.3


class SparseNewtonSystem:
    """``[M B; B' 0]`` with a sparse M, factorised."""

    def __init__(self, schur: Any, columns: Any) -> None:
        self._m = schur.shape[0]
        diagonal = schur.diagonal()
        largest = float(np.max(diagonal, initial=0.0)) or 1.0
        extra = REGULARISATION * np.where(diagonal > 0.0, diagonal, largest)
        whole, moved = schur, schur + sp.diags_array(extra)
        if columns.shape[1]:
            weights = 1.0 / np.where(diagonal > 0.0, diagonal, largest)
            corner = sp.diags_array(-CORNER * (columns.power(2).T @ weights + 1.0 / largest))
            whole = sp.block_array([[schur, columns], [columns.T, None]], format="csc")
            moved = sp.block_array([[moved, columns], [columns.T, corner]], format="csc")
        self._whole = whole
        try:
            self._factor = scipy.sparse.linalg.splu(
                sp.csc_array(moved),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError as error:
            raise np.linalg.LinAlgError(f"the Newton system: {error}") from None

    def solve(self, r1: FloatArray, r2: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Solve for one right-hand side, with refinement."""
        rhs = np.concatenate([r1, r2])
        found = self._factor.solve(rhs)
        left = rhs - self._whole @ found
        size = float(np.linalg.norm(left))
        for _ in range(REFINEMENTS):
            better = found + self._factor.solve(left)
            left = rhs - self._whole @ better
            last, size = size, float(np.linalg.norm(left))
            if not size < last:
                break
            found = better
            if size > SHRINKS * last:
                break
        return found[: self._m], found[self._m :]
