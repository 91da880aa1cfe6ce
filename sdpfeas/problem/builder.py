"""Build a problem block by block and row by row, with names: :class:`ProblemBuilder`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import SYMMETRY_TOLERANCE, FloatArray
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Dense, Rows, Sparse
from sdpfeas.problem.sets import PSD, BlockSet, HermitianPSD, Nonneg
from sdpfeas.problem.validation import RowError, float_array, real_number

# --- coefficients of an LMI: arrays, lists of matrices, linear maps

#: Largest relative deviation of a map from its linear extension, at random points, that counts as rounding.
LINEARITY_TOLERANCE = 1e-9

#: Coefficients with a larger share of nonzeros are stored dense.
DENSE_SHARE = 0.3


def coefficients_for(given: Any, block: BlockSet, target: BlockSet) -> Rows:
    """Convert the coefficients of an LMI into the set ``target`` on a block to rows, one per entry."""
    if isinstance(given, Rows):
        return given
    if callable(given):
        return _of_map(given, block, target)
    if sp.issparse(given):
        if block.entries == 1 and given.shape == target.shape:
            return _of_parts([given], target)
        if given.shape != (block.entries, target.entries):
            raise ProblemError(
                f"sparse coefficients have shape {given.shape}, expected {(block.entries, target.entries)}"
            )
        return Sparse(given, target.n, target.matrix)
    if isinstance(given, Sequence) and any(sp.issparse(part) for part in given):
        if block.matrix or len(given) != block.n:
            raise ProblemError(f"{len(given)} matrices do not match the entries of {block.kind}({block.n})")
        return _of_parts(given, target)
    array = float_array(target.coordinates(given), "coefficients")
    if array.shape == target.shape and block.entries == 1:
        array = array[None]
    if array.shape != (*block.shape, *target.shape):
        raise ProblemError(
            f"coefficients have shape {array.shape}, expected {(*block.shape, *target.shape)}: one array of "
            f"shape {target.shape} for every entry of {block.kind}({block.n})"
        )
    return Dense(array.reshape(block.entries, *target.shape))


def _of_parts(parts: Sequence[Any], target: BlockSet) -> Rows:
    lines = []
    for i, part in enumerate(parts):
        if np.shape(part) != target.shape:
            raise ProblemError(f"coefficient {i} has shape {np.shape(part)}, expected {target.shape}")
        whole = part if sp.issparse(part) else float_array(part, f"coefficient {i}")
        lines.append(sp.coo_array(whole).reshape((1, target.entries)))
    return Sparse(sp.vstack(lines, format="csr"), target.n, target.matrix)


def _of_map(linear: Callable[[FloatArray], Any], block: BlockSet, target: BlockSet) -> Rows:
    """Evaluate a linear map at the unit arrays of a block; ``B_pq = B_qp`` is half of ``B(E_pq + E_qp)``."""
    rows, columns, data = [], [], []
    for place, unit in _units(block):
        value = _value(linear, unit, target)
        index = np.flatnonzero(value)
        for k in place:
            rows.append(np.full(index.size, k))
            columns.append(index)
            data.append(value[index] / len(place))
    at = (np.concatenate(rows), np.concatenate(columns))
    stacked = sp.csr_array((np.concatenate(data), at), shape=(block.entries, target.entries))
    _require_linear(linear, stacked, block, target)
    if stacked.nnz <= DENSE_SHARE * block.entries * target.entries:
        return Sparse(stacked, target.n, target.matrix)
    return Dense(stacked.toarray().reshape(-1, *target.shape))


def _units(block: BlockSet) -> Iterator[tuple[list[int], FloatArray]]:
    """Yield the unit arrays of a block with the flat indices of their ones; matrices are symmetric."""
    if not block.matrix:
        yield from (([i], unit) for i, unit in enumerate(np.eye(block.n)))
        return
    for p, q in zip(*np.triu_indices(block.n), strict=True):
        unit = np.zeros(block.shape)
        unit[p, q] = unit[q, p] = 1.0
        yield sorted({int(p * block.n + q), int(q * block.n + p)}), unit


def _value(
    linear: Callable[[FloatArray], Any], x: FloatArray, target: BlockSet, *, exact: bool = True
) -> FloatArray:
    """Return the flattened value of the map; ``exact=False`` permits asymmetry up to rounding."""
    value = linear(np.array(x))
    value = value.toarray() if sp.issparse(value) else np.asarray(value)
    if not exact and value.ndim == 2 and value.shape[0] == value.shape[1]:
        apart = np.max(np.abs(value - value.T.conj()), initial=0.0)
        if not apart <= SYMMETRY_TOLERANCE * max(np.max(np.abs(value), initial=0.0), 1e-300):
            raise ProblemError("the map gives matrices that are not symmetric (complex: not Hermitian)")
    value = target.coordinates(value, exact=exact)
    if np.shape(value) != target.shape:
        raise ProblemError(f"the map gives an array of shape {np.shape(value)}, expected {target.shape}")
    array = float_array(value, "the values of the map", exact=exact)
    if not np.isfinite(array).all():
        raise ProblemError("the values of the map hold NaN or infinity")
    return array.reshape(-1)


def _require_linear(
    linear: Callable[[FloatArray], Any], stacked: Any, block: BlockSet, target: BlockSet
) -> None:
    """Raise ``ProblemError`` if the map differs from its coefficients at random points.

    Points of both signs and several magnitudes detect maps that are linear only on the positive orthant, such
    as ``abs``, or only near the origin.
    """
    rng = np.random.default_rng(0)
    draws = [rng.uniform(0.5, 1.5, block.shape), -rng.uniform(0.5, 1.5, block.shape)]
    draws += [scale * rng.normal(size=block.shape) for scale in (1.0, 1e-3, 1e3, 1e6, 1.0)]
    for draw in [*draws, np.zeros(block.shape)]:
        x = block.symmetrize(draw)
        flat = x.reshape(-1)
        expected, size = stacked.T @ flat, abs(stacked).T @ np.abs(flat)
        apart = np.abs(_value(linear, x, target, exact=False) - expected)
        if not np.all(apart <= LINEARITY_TOLERANCE * (size + float(np.max(size, initial=0.0)))):
            raise ProblemError("the map is not linear; its value at zero belongs to the constant")


class ProblemBuilder:
    """Collect named blocks and rows, then :meth:`build` the problem.

    Examples
    --------
    >>> import numpy as np, sdpfeas as sf
    >>> builder = sf.ProblemBuilder()
    >>> builder.block("X", sf.PSD(2))
    >>> builder.row("unit trace", {"X": np.eye(2)}, equal=1.0)
    >>> builder.row("off-diagonal", {"X": [[0, 0.5], [0.5, 0]]}, lower=0.25)
    >>> builder.build().m
    2

    An LMI is an affine map of the blocks into a set: here ``-(A'X + XA) - I`` is positive semidefinite.

    >>> A = np.array([[-1.0, 2.0], [0.0, -3.0]])
    >>> builder.lmi("decay", -np.eye(2), {"X": lambda X: -(A.T @ X + X @ A)})
    >>> len(builder.build().lmis)
    1
    """

    def __init__(self) -> None:
        self._blocks: dict[str, BlockSet] = {}
        self._rows: dict[str, tuple[dict[str, Any], float, float]] = {}
        self._lmis: dict[str, tuple[BlockSet, Any, dict[str, Rows]]] = {}

    def block(self, name: str, block: BlockSet) -> None:
        """Add a block variable.

        Parameters
        ----------
        name : str
            A name, distinct from those of other blocks.
        block : BlockSet
            The set of the variable.
        """
        _require_new(name, self._blocks, "block")
        if not isinstance(block, BlockSet):
            raise ProblemError(f"block {name}: expected a set, got {type(block).__name__}")
        self._blocks[name] = block

    def row(
        self,
        name: str,
        terms: Mapping[str, ArrayLike | Any],
        *,
        lower: float = -np.inf,
        upper: float = np.inf,
        equal: float | None = None,
    ) -> None:
        """Add a row ``lower <= sum_b <terms[b], X_b> <= upper``.

        Parameters
        ----------
        name : str
            A name, distinct from those of other rows and LMIs.
        terms : mapping
            Names of blocks to coefficients: a symmetric (n, n) matrix or an (n,) vector, dense or sparse.
        lower, upper : float
            Bounds; infinite by default.
        equal : float, optional
            The value of both bounds of an equality row.
        """
        _require_new(name, {**self._rows, **self._lmis}, "row or LMI")
        low, high = real_number(lower, f"row {name}: lower"), real_number(upper, f"row {name}: upper")
        if equal is not None:
            if low != -np.inf or high != np.inf:
                raise ProblemError(f"row {name}: give either equal or lower and upper, not both")
            low = high = real_number(equal, f"row {name}: equal")
        self._rows[name] = (self._read(f"row {name}", terms, _one_row), low, high)

    def lmi(
        self,
        name: str,
        constant: ArrayLike | Any,
        terms: Mapping[str, Any],
        *,
        into: BlockSet | None = None,
    ) -> None:
        """Add the LMI ``constant + sum_b B_b(X_b)`` in the set ``into``.

        Parameters
        ----------
        name : str
            A name, distinct from those of rows and other LMIs.
        constant : array_like
            The value of the map at zero, dense or sparse.
        terms : mapping
            Names of blocks to linear maps ``B_b``. A map is a function of an array of the shape of the block,
            or its coefficients: for a vector block of length n a list of n matrices, dense or sparse, or an
            array of shape (n, k, k); for a matrix block of side n an array of shape (n, n, k, k) with
            ``B_pq = B_qp``; or rows, one per entry, such as ``LowRank`` or a sparse matrix of flattened
            coefficients.
        into : BlockSet, optional
            The set. By default PSD of the size of the constant, HermitianPSD for a complex constant, and
            Nonneg for a vector.
        """
        _require_new(name, {**self._rows, **self._lmis}, "row or LMI")
        target = _target(f"LMI {name}", constant) if into is None else into
        if not isinstance(target, BlockSet):
            raise ProblemError(f"LMI {name}: into must be a set such as PSD(3), got {type(target).__name__}")
        kept = self._read(f"LMI {name}", terms, lambda given, block: coefficients_for(given, block, target))
        LMI(target, constant, list(kept.values()), name)  # validates the data
        self._lmis[name] = (target, constant, kept)

    def _read(
        self, what: str, terms: Mapping[str, Any], read: Callable[[Any, BlockSet], Any]
    ) -> dict[str, Any]:
        """Convert the coefficients of every block in ``terms``; errors name the row or LMI and the block."""
        if not isinstance(terms, Mapping):
            raise ProblemError(
                f"{what}: terms must map names of blocks to coefficients, got {type(terms).__name__}"
            )
        kept: dict[str, Any] = {}
        for block_name, coefficients in terms.items():
            if block_name not in self._blocks:
                known = ", ".join(map(repr, self._blocks)) or "none"
                raise ProblemError(f"{what}: no block named {block_name!r}; blocks: {known}")
            try:
                kept[block_name] = read(coefficients, self._blocks[block_name])
            except RowError as error:
                raise ProblemError(f"{what}, block {block_name}: {error.detail}") from None
            except ProblemError as error:
                raise ProblemError(f"{what}, block {block_name}: {error}") from None
        return kept

    def build(self) -> FeasibilityProblem:
        """Return the problem with all blocks, rows and LMIs added so far."""
        rows: list[Any] = []
        for block_name, block in self._blocks.items():
            parts = [terms.get(block_name) for terms, _, _ in self._rows.values()]
            if all(part is None for part in parts):
                rows.append(None)
                continue
            empty = sp.csr_array((1, block.entries))
            stacked = sp.vstack([empty if part is None else part for part in parts], format="csr")
            rows.append(Sparse(stacked, block.n, block.matrix))
        return FeasibilityProblem(
            list(self._blocks.values()),
            rows,
            np.array([low for _, low, _ in self._rows.values()], dtype=np.float64),
            np.array([high for _, _, high in self._rows.values()], dtype=np.float64),
            list(self._rows),
            list(self._blocks),
            [
                LMI(target, constant, [terms.get(block) for block in self._blocks], name)
                for name, (target, constant, terms) in self._lmis.items()
            ],
        )


def _require_new(name: Any, taken: Mapping[str, Any], what: str) -> None:
    if not isinstance(name, str) or not name:
        raise ProblemError(f"the name of a {what} must be a non-empty string, got {name!r}")
    if name in taken:
        raise ProblemError(f"there is a {what} named {name!r} already")


def _target(what: str, constant: Any) -> BlockSet:
    """Return the default set of an LMI with this constant."""
    shape = np.shape(constant)
    if len(shape) == 1 and shape[0] > 0:
        return Nonneg(shape[0])
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] == 0:
        raise ProblemError(f"{what}: the constant must be a square matrix or a vector, got shape {shape}")
    return HermitianPSD(shape[0]) if np.iscomplexobj(constant) else PSD(shape[0])


def _one_row(coefficients: Any, block: BlockSet) -> Any:
    sparse = sp.issparse(coefficients)
    array = coefficients if sparse else float_array(block.coordinates(coefficients), "coefficients")
    if array.shape != block.shape and not (sparse and array.shape == (1, *block.shape)):
        raise ProblemError(f"coefficients have shape {array.shape}, expected {block.shape}")
    if sparse:
        return Sparse(sp.coo_array(array).reshape((1, -1)), block.n, block.matrix).array
    return sp.csr_array(Dense(array[None]).array.reshape(1, -1))
