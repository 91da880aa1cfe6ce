"""Coefficients of an LMI from what users give for a block: arrays, lists of matrices, linear maps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import SYMMETRY_TOLERANCE, FloatArray
from sdpfeas.problem.rows import Dense, Rows, Sparse
from sdpfeas.problem.sets import BlockSet
from sdpfeas.problem.validation import float_array

__all__ = ["coefficients_for"]

#: A map whose value at a random point is off by more than this, relative to its terms, is not linear.
LINEAR = 1e-9

#: Share of numbers that are not zero above which coefficients are stored as arrays.
DENSE = 0.3


def coefficients_for(given: Any, block: BlockSet, target: BlockSet) -> Rows:
    """Read the coefficients of an LMI on a block.

    Parameters
    ----------
    given : Rows, array_like, sparse array, sequence of matrices or callable
        See :meth:`ProblemBuilder.lmi`.
    block, target : BlockSet
        The set of the block, and that of the LMI.
    """
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
            raise ProblemError(f"{len(given)} matrices are no coefficients for {block.kind}({block.n})")
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
    """Values of a linear map at the entries of a block; mirrored ones share what they have together."""
    need("the values of a linear map", numbers=20.0 * block.entries * target.entries)
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
    if stacked.nnz <= DENSE * block.entries * target.entries:
        return Sparse(stacked, target.n, target.matrix)
    return Dense(stacked.toarray().reshape(-1, *target.shape))


def _units(block: BlockSet) -> Iterator[tuple[list[int], FloatArray]]:
    """Entries of a block, mirrored ones together, and the array that is one there and zero elsewhere."""
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
    """The value of the map, entry by entry; ``exact=False`` lets it be symmetric up to rounding."""
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
    """Compare the map with what was found, at points of both signs and several scales.

    A map that is linear on the positive points only, such as ``abs``, or near the origin only, is refused.
    """
    rng = np.random.default_rng(0)
    draws = [rng.uniform(0.5, 1.5, block.shape), -rng.uniform(0.5, 1.5, block.shape)]
    draws += [scale * rng.normal(size=block.shape) for scale in (1.0, 1e-3, 1e3, 1e6, 1.0)]
    for draw in [*draws, np.zeros(block.shape)]:
        x = block.symmetrize(draw)
        flat = x.reshape(-1)
        expected, size = stacked.T @ flat, abs(stacked).T @ np.abs(flat)
        apart = np.abs(_value(linear, x, target, exact=False) - expected)
        if not np.all(apart <= LINEAR * (size + float(np.max(size, initial=0.0)))):
            raise ProblemError("the map is not linear; what it gives at zero belongs into the constant")
