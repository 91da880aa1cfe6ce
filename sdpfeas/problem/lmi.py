"""Linear matrix inequalities ``F(X) = F(0) + sum_b B_b(X_b)`` in a set."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.errors import ProblemError
from sdpfeas.escaping import visible
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import gamma, inflate, product_up, sum_up
from sdpfeas.problem.rows import Dense, Rows, Sparse, as_rows
from sdpfeas.problem.rows.base import frozen
from sdpfeas.problem.sets import BlockSet
from sdpfeas.problem.validation import RowError, float_array, listed, require_finite

__all__ = [
    "LMI",
    "checked_lmis",
    "lmi_fact",
    "mirrored",
    "require_no_lmis",
    "split_multipliers",
    "symmetric_multipliers",
]

#: Largest accepted norm of coefficients, and entry of a constant; sums of larger numbers may overflow.
LARGEST = 1e290


@dataclass(frozen=True, init=False, eq=False, repr=False)
class LMI:
    """The constraint ``F(X) = constant + sum_b B_b(X_b)`` in a set.

    Parameters
    ----------
    set : BlockSet
        The set of ``F(X)``: usually ``PSD(k)``. Any set is accepted except ``Free`` and a ``SpectralBox``
        with a trace.
    constant : array_like
        ``F(0)``, of the shape of the set, dense or sparse; matrices must be symmetric.
    coefficients : sequence
        One entry per block of the problem; None if the LMI does not depend on the block. For a vector block
        of length n, ``B(x) = sum_i x_i B_i``: an array of shape (n, k, k), a sparse (n, k²) matrix, or rows
        of any kind, such as ``LowRank``. For a matrix block of side n, ``B(X) = sum_pq X_pq B_pq`` with
        ``B_pq = B_qp``: an array of shape (n, n, k, k), or n² rows in row-major order.
    name : str, optional
        A name, distinct from those of the rows and other LMIs of the problem.

    Raises
    ------
    ProblemError
        If the data are malformed, or a number is not exactly representable as a double.

    Notes
    -----
    The dual multiplier of an LMI is an array of the shape of the set. For a cone it lies in the dual cone.

    Examples
    --------
    The interval ``-1 <= x <= 1`` as the LMI ``[[1, x], [x, 1]]`` in PSD(2):

    >>> import numpy as np, sdpfeas as sf
    >>> interval = sf.LMI(sf.PSD(2), np.eye(2), [[[[0.0, 1.0], [1.0, 0.0]]]])
    >>> problem = sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[interval])
    >>> interval.value(problem.point([[0.5]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    set: BlockSet
    constant: FloatArray
    coefficients: tuple[Rows, ...]
    name: str | None = None

    def __init__(
        self,
        set: BlockSet,  # noqa: A002 - the name of the attribute
        constant: ArrayLike | Any,
        coefficients: Sequence[Any],
        name: str | None = None,
    ) -> None:
        given: Any = coefficients
        called: Any = name
        if called is not None and (not isinstance(called, str) or not called):
            raise ProblemError(f"the name of an LMI must be a non-empty string, got {called!r}")
        put = object.__setattr__
        put(self, "name", name)
        where = "LMI" if name is None else f"LMI {visible(name)}"
        if not isinstance(set, BlockSet):
            raise ProblemError(f"{where}: expected a set such as PSD(3), got {type(set).__name__}")
        if set.free or set.trace is not None:
            why = "it has no bounds" if set.free else "a prescribed trace is an equation: add it as a row"
            raise ProblemError(f"{where}: {set.kind} cannot be the set of an LMI, {why}")
        put(self, "set", set)
        put(self, "constant", _constant(constant, set, where))
        if isinstance(given, np.ndarray) or sp.issparse(given):
            raise ProblemError(f"{where}: coefficients must be a list with one entry per block, got an array")
        entries = listed(given, f"{where}: coefficients must be a list with one entry per block")
        put(self, "coefficients", tuple(self._part(b, e, where) for b, e in enumerate(entries)))

    def _part(self, b: int, entry: Any, where: str) -> Rows:
        try:
            if not (entry is None or isinstance(entry, Rows) or sp.issparse(entry)):
                array = float_array(self.set.coordinates(entry), "coefficients")
                # An array with two leading indices holds the coefficients of a matrix block.
                entry = (
                    array.reshape(-1, *array.shape[2:]) if array.ndim == 2 + len(self.set.shape) else array
                )
            # The size of a block without coefficients is only known once the LMI is part of a problem.
            rows = as_rows(entry, self.set, 0)
            rows.require_representable()
            if rows.value_range[1] > 1.0 and np.max(rows.norms_upper, initial=0.0) > LARGEST:
                raise ProblemError("coefficients are too large for floating point")
        except RowError as error:
            raise ProblemError(f"{where}, block {b}, entry {error.row}: {error.detail}") from None
        except ProblemError as error:
            raise ProblemError(f"{where}, block {b}: {error}") from None
        return rows

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild through the constructor, because unpickled arrays are writeable."""
        return type(self), (self.set, self.constant, self.coefficients, self.name)

    @cached_property
    def norm(self) -> float:
        """Approximate Frobenius norm of all coefficients."""
        parts = [float(np.linalg.norm(rows.norms_upper)) for rows in self.coefficients]
        return float(np.linalg.norm(parts or [0.0]))

    def value(self, point: Iterable[FloatArray]) -> FloatArray:
        """Return ``F(X)`` at a point."""
        total = np.array(self.constant)
        for rows, x in zip(self.coefficients, point, strict=True):
            total += rows.adjoint(x.reshape(-1))
        return total

    def enclose(self, point: Iterable[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return ``F(X)`` at a point and a proven error bound for every entry."""
        total, radius = np.array(self.constant), np.zeros(self.set.shape)
        size, terms = np.abs(total), (total != 0.0).astype(np.int64)
        for rows, x in zip(self.coefficients, point, strict=True):
            if not rows.empty:
                value, error = rows.enclose_adjoint(x.reshape(-1))
                total += value
                size += np.abs(value)
                terms += value != 0.0
                radius = sum_up(radius, error)
        k = len(self.coefficients) + 2
        # A sum with one nonzero term is exact.
        added = np.where(terms > 1, product_up(gamma(k), inflate(size, k)), 0.0)
        return total, sum_up(radius, added)

    def adjoint(self, y: FloatArray, sets: Sequence[BlockSet]) -> tuple[FloatArray, ...]:
        """Return ``B*Y`` on every block; zero on blocks without coefficients."""
        return tuple(
            np.zeros(block.shape) if rows.empty else mirrored(rows.apply(y), block)
            for rows, block in zip(self.coefficients, sets, strict=True)
        )

    def _on_blocks(self, sets: Sequence[BlockSet]) -> LMI:
        """Return the LMI with empty coefficients of the right size for blocks it does not depend on."""
        pairs = list(zip(self.coefficients, sets, strict=True))
        if not any(rows.empty and rows.m != block.entries for rows, block in pairs):
            return self
        parts = tuple(as_rows(None, self.set, block.entries) if rows.empty else rows for rows, block in pairs)
        placed = copy.copy(self)
        object.__setattr__(placed, "coefficients", parts)
        return placed

    def __repr__(self) -> str:
        """Return name, set and kinds of coefficients in one line."""
        return ": ".join(filter(None, lmi_fact(self)))


def lmi_fact(lmi: LMI) -> tuple[str, str]:
    """Return label and description of an LMI for display; the label of an unnamed one includes both."""
    kinds = [rows.kind for rows in lmi.coefficients if not rows.empty]
    description = f"{lmi.set.described()}, {', '.join(kinds) or 'no'} coefficients"
    return (f"LMI {description}", "") if lmi.name is None else (f"LMI {visible(lmi.name)}", description)


def mirrored(entries: FloatArray, block: BlockSet) -> FloatArray:
    """Reshape numbers to the array of a block; the upper triangle is copied to the lower one."""
    if not block.matrix:
        return entries
    array = entries.reshape(block.shape)
    return np.triu(array) + np.triu(array, 1).T


def _constant(values: Any, block: BlockSet, where: str) -> FloatArray:
    """Validate the constant of an LMI as a row on a block in its set."""
    values = values if sp.issparse(values) else block.coordinates(values)
    shape = values.shape if sp.issparse(values) else np.shape(values)
    if shape != block.shape:
        raise ProblemError(f"{where}: the constant has shape {shape}, expected {block.shape}")
    array = float_array(values.toarray() if sp.issparse(values) else values, f"{where}: the constant")
    require_finite(array, f"{where}: the constant must be finite; its entries")
    if np.max(np.abs(array), initial=0.0) > LARGEST:
        raise ProblemError(f"{where}: the constant is too large for floating point")
    try:
        return frozen(Dense(array[None]).array[0] + 0.0)
    except RowError as error:
        raise ProblemError(f"{where}: the constant: {error.detail}") from None


def checked_lmis(
    values: Any, sets: Sequence[BlockSet], block_names: Sequence[str], row_names: Sequence[str] | None
) -> tuple[LMI, ...]:
    """Validate that the LMIs of a problem fit its blocks and that names are distinct."""
    out = tuple(listed(values, "lmis must be a list of LMI"))
    seen = set(row_names or ())
    for j, lmi in enumerate(out):
        if not isinstance(lmi, LMI):
            raise ProblemError(f"LMI {j}: expected an LMI, got {type(lmi).__name__}")
        name = str(j) if lmi.name is None else visible(lmi.name)
        if lmi.name in seen:
            raise ProblemError(f"there is another row or LMI named {name!r}")
        seen |= set() if lmi.name is None else {lmi.name}
        if len(lmi.coefficients) != len(sets):
            raise ProblemError(
                f"LMI {name}: coefficients has {len(lmi.coefficients)} entries for {len(sets)} sets; "
                "give one per set, None where the LMI does not depend on the block"
            )
        for block, rows, called in zip(sets, lmi.coefficients, block_names, strict=True):
            if rows.empty:
                continue
            if rows.m != block.entries:
                raise ProblemError(
                    f"LMI {name}, block {called}: {rows.m} coefficients for the {block.entries} entries of "
                    f"{block.kind}({block.n})"
                )
            if block.matrix and not _is_mirrored(rows, block.n):
                raise ProblemError(
                    f"LMI {name}, block {called}: the coefficients of mirrored entries differ; "
                    "pass (B_pq + B_qp) / 2 for both"
                )
    return tuple(lmi._on_blocks(sets) for lmi in out)


def require_no_lmis(problem: Any, what: str) -> None:
    """Raise ``ProblemError`` for a problem with LMIs; ``what`` names the operation in the message."""
    if problem.lmis:
        raise ProblemError(
            f"{what} does not support LMIs; pass problem.slack_form.problem, which has slack blocks instead"
        )


def _is_mirrored(rows: Rows, n: int) -> bool:
    """Return whether ``B_pq = B_qp`` holds exactly for all entries of a matrix block."""
    if isinstance(rows, Dense):
        array = rows.array.reshape(n, n, -1)
        return bool(np.array_equal(array, array.transpose(1, 0, 2)))
    place = np.arange(n * n).reshape(n, n)
    if isinstance(rows, Sparse):
        apart = rows.array - rows.array[place.T.reshape(-1)]
        return not apart.data.any()
    above = np.triu_indices(n, 1)
    pairs = zip(place[above].tolist(), place.T[above].tolist(), strict=True)
    return all(np.array_equal(rows.exact_row(i), rows.exact_row(j)) for i, j in pairs)


def symmetric_multipliers(parts: FloatArray, lmis: Sequence[LMI]) -> FloatArray:
    """Symmetrise the concatenated multipliers of the LMIs."""
    pieces = split_multipliers(parts, lmis)
    return np.concatenate(
        [np.zeros(0), *(lmi.set.symmetrize(p).reshape(-1) for lmi, p in zip(lmis, pieces, strict=True))]
    )


def split_multipliers(parts: FloatArray, lmis: Sequence[LMI]) -> tuple[FloatArray, ...]:
    """Split the concatenated multipliers of the LMIs into one array per LMI."""
    pieces = np.split(parts, np.cumsum([lmi.set.entries for lmi in lmis])[:-1]) if lmis else []
    return tuple(piece.reshape(lmi.set.shape) for piece, lmi in zip(pieces, lmis, strict=True))
