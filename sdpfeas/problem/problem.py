"""The feasibility problem: sets, rows, bounds and LMIs, validated on construction and immutable."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from os import PathLike
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.errors import ClaimError, ProblemError
from sdpfeas.escaping import visible
from sdpfeas.notebook import Card
from sdpfeas.numerics.floating_point_environment import require_ieee
from sdpfeas.numerics.limits import check_deadline
from sdpfeas.numerics.linalg import FloatArray, Triangle
from sdpfeas.problem.conic_form import ConicForm, conic_form
from sdpfeas.problem.lmi import LMI, checked_lmis, lmi_fact, split_multipliers, symmetric_multipliers
from sdpfeas.problem.problem_file import load_problem, save_problem
from sdpfeas.problem.reductions.base import changed
from sdpfeas.problem.reductions.bounded_variables import (
    Bound,
    BoundedVariables,
    bound_variables,
    state_bound,
)
from sdpfeas.problem.reductions.box_to_psd import BoxToPsd, lift
from sdpfeas.problem.reductions.lmi_to_slack import LmiToSlack, with_slacks
from sdpfeas.problem.reductions.row_scaling import RowScaling, scale_rows
from sdpfeas.problem.rows import Rows, as_rows
from sdpfeas.problem.rows.base import is_frozen, sealed
from sdpfeas.problem.sets import BlockSet
from sdpfeas.problem.validation import RowError, counted, float_array, listed, row_index


def hash_of(problem: FeasibilityProblem) -> str:
    """Return the SHA-256 of the data of a problem, which does not depend on process or machine."""
    digest = hashlib.sha256(b"sdpfeas problem 1\n")
    header = {
        "sets": [block.spec() for block in problem.sets],
        "row_names": problem.row_names,
        "block_names": problem.block_names,
    }
    digest.update(json.dumps(header, sort_keys=True).encode())
    for array in (problem.lower, problem.upper):
        _hash_array(digest, array)
    for rows in problem.rows:
        _hash_rows(digest, rows)
    for lmi in problem.lmis:
        digest.update(json.dumps({"lmi": lmi.name, "set": lmi.set.spec()}, sort_keys=True).encode())
        _hash_array(digest, lmi.constant)
        for rows in lmi.coefficients:
            _hash_rows(digest, rows)
    return digest.hexdigest()


def _hash_array(digest: Any, array: np.ndarray) -> None:
    kind = "<f8" if array.dtype.kind == "f" else "<i8"
    digest.update(f"{kind}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())


def _hash_rows(digest: Any, rows: Rows) -> None:
    if rows.empty:
        digest.update(b"none")
        return
    numbers, arrays, children = rows.state()
    digest.update(f"{rows.kind}{json.dumps(numbers, sort_keys=True)}{len(children)}".encode())
    for name in sorted(arrays):
        digest.update(name.encode())
        _hash_array(digest, arrays[name])
    for child in children:
        _hash_rows(digest, child)


#: Blocks, and LMIs, listed in the text and HTML representations of a problem.
SHOWN_BLOCKS = 12

T = TypeVar("T")


class Block(NamedTuple):
    """One block of a problem: its position, its set, and the rows on it."""

    position: int
    set: BlockSet
    rows: Rows


#: A point: one array per set.
Point = tuple[FloatArray, ...]


class FeasibilityProblem:
    """Find ``X = (X_1, ..., X_p)``, ``X_b`` in its set, with ``lower <= A(X) <= upper`` row by row.

    Optional LMIs require affine maps of ``X`` to lie in further sets. Problems are immutable and validated
    on construction. Two problems are equal if they hold the same data.

    Parameters
    ----------
    sets : sequence of BlockSet
        One set per block: ``PSD``, ``Nonneg``, ``Free``, ``SpectralBox``, ``SecondOrder`` or
        ``HermitianPSD``.
    rows : sequence
        One entry per set: ``None`` (no row touches the block); an array of shape (m, n, n), or (m, n) for
        a vector block; a sparse (m, n²) matrix of full symmetric matrices, or (m, n); or one of
        ``LowRank``, ``PairwiseDifference``, ``Stacked``, ``Combined``.
    lower, upper : array_like
        Bounds of the rows, shape (m,); infinite where there is none, equal for an equality row.
    row_names, block_names : sequence of str, optional
        Distinct names, used in messages and explanations.
    lmis : sequence of LMI
        Linear matrix inequalities, with coefficients for these sets.

    Raises
    ------
    ProblemError
        If the data are malformed; the message names the block and the row. Also if a number is not exactly
        representable as a double, because proofs hold for the stored data.

    Examples
    --------
    A 2×2 correlation matrix with an off-diagonal entry of at least 0.5:

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> rows = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]], [[0.0, 0.5], [0.5, 0.0]]])
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [1.0, 1.0, 0.5], [1.0, 1.0, np.inf])
    >>> print(sf.solve(problem).verdict)
    feasible
    """

    sets: tuple[BlockSet, ...]
    rows: tuple[Rows, ...]
    lower: FloatArray
    upper: FloatArray
    row_names: tuple[str, ...] | None
    block_names: tuple[str, ...] | None
    lmis: tuple[LMI, ...]
    #: The bound of the variables that some of the rows state, if :meth:`bounded` made the problem.
    bound: BoundedVariables | None = None

    def __init__(
        self,
        sets: Sequence[BlockSet],
        rows: Sequence[Any],
        lower: ArrayLike,
        upper: ArrayLike,
        row_names: Sequence[str] | None = None,
        block_names: Sequence[str] | None = None,
        lmis: Sequence[LMI] = (),
    ) -> None:
        require_ieee()
        set_list = _per_block(sets, "sets")
        if not set_list:
            raise ProblemError("a problem needs at least one set")
        for b, block in enumerate(set_list):
            if not isinstance(block, BlockSet):
                raise ProblemError(f"block {b}: expected a set such as PSD(3), got {type(block).__name__}")
        put = object.__setattr__
        put(self, "sets", tuple(set_list))
        put(self, "block_names", _names(block_names, len(set_list), "block"))
        low, high = _bounds(lower, "lower"), _bounds(upper, "upper")
        if low.shape != high.shape:
            raise ProblemError(
                f"lower has {low.size} entries and upper {high.size}; one each per row is needed"
            )
        put(self, "row_names", _names(row_names, low.size, "row"))
        row_list = _per_block(rows, "rows")
        if len(row_list) != len(set_list):
            raise ProblemError(
                f"rows has {len(row_list)} entries for {len(set_list)} sets; give one per set, "
                "None where no row touches the block"
            )
        put(self, "rows", tuple(self._checked_rows(b, e, low.size) for b, e in enumerate(row_list)))
        self._check_bounds(low, high)
        for name, array in (("lower", low), ("upper", high)):
            put(self, name, sealed(array))
        shown = [self.block_name(b) for b in range(len(self.sets))]
        put(self, "lmis", checked_lmis(lmis, self.sets, shown, self.row_names))

    def _checked_rows(self, b: int, entry: Any, m: int) -> Rows:
        try:
            rows = as_rows(entry, self.sets[b], m)
            # Checked first: require_representable allocates memory for every row.
            if rows.m != m:
                raise ProblemError(f"{rows.m} rows, but lower and upper have {m} entries")
            rows.require_representable()
        except RowError as error:
            row = self.row_name(error.row) if error.row < m else error.row
            raise ProblemError(f"block {self.block_name(b)}, row {row}: {error.detail}") from None
        except ProblemError as error:
            raise ProblemError(f"block {self.block_name(b)}: {error}") from None
        return rows

    def _check_bounds(self, low: FloatArray, high: FloatArray) -> None:
        for name, array, wrong in (("lower", low, np.inf), ("upper", high, -np.inf)):
            for bad, what in ((np.isnan(array), "NaN"), (array == wrong, f"{wrong:+}")):
                if bad.any():
                    place = self.row_name(int(np.argmax(bad)))
                    raise ProblemError(f"row {place}: {name} is {what}, which no point can satisfy")
        crossed = low > high
        if crossed.any():
            i = int(np.argmax(crossed))
            raise ProblemError(
                f"row {self.row_name(i)}: lower = {low[i]} exceeds upper = {high[i]}; "
                f"{counted(int(crossed.sum()), 'such row')}"
            )

    def __setattr__(self, name: str, value: object) -> None:
        """Raise ``AttributeError``: problems are immutable."""
        raise AttributeError(f"FeasibilityProblem is immutable; cannot set {name!r}")

    def __delattr__(self, name: str) -> None:
        """Raise ``AttributeError``: problems are immutable."""
        raise AttributeError(f"FeasibilityProblem is immutable; cannot delete {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Rebuild through the constructor, so that unpickled problems are validated too."""
        args = (self.sets, self.rows, self.lower, self.upper, self.row_names, self.block_names, self.lmis)
        return type(self), args, None if self.bound is None else {"bound": self.bound}

    @property
    def m(self) -> int:
        """Number of rows."""
        return int(self.lower.size)

    @cached_property
    def equality(self) -> np.ndarray:
        """Mask of the equality rows."""
        return np.asarray(sealed(self.lower == self.upper))

    @cached_property
    def equality_rows(self) -> np.ndarray:
        """Indices of the equality rows."""
        return np.asarray(sealed(np.flatnonzero(self.equality)))

    @cached_property
    def inequality_rows(self) -> np.ndarray:
        """Indices of the inequality rows, including rows without a finite bound."""
        return np.asarray(sealed(np.flatnonzero(~self.equality)))

    @cached_property
    def lower_rows(self) -> np.ndarray:
        """Indices of the inequality rows with a finite lower bound."""
        return np.asarray(sealed(np.flatnonzero(~self.equality & np.isfinite(self.lower))))

    @cached_property
    def upper_rows(self) -> np.ndarray:
        """Indices of the inequality rows with a finite upper bound."""
        return np.asarray(sealed(np.flatnonzero(~self.equality & np.isfinite(self.upper))))

    def blocks(self) -> Iterator[Block]:
        """Iterate over the blocks: position, set and rows.

        Yields
        ------
        Block
            A named tuple ``(position, set, rows)``; ``rows.empty`` where no row touches the block.

        Examples
        --------
        >>> import numpy as np, sdpfeas as sf
        >>> problem = sf.FeasibilityProblem([sf.PSD(2), sf.Free(1)], [[np.eye(2)], None], [1.0], [2.0])
        >>> [(b, block.kind, rows.empty) for b, block, rows in problem.blocks()]
        [(0, 'PSD', False), (1, 'Free', True)]
        """
        return map(Block, range(len(self.sets)), self.sets, self.rows)

    def cached(self, compute: Callable[..., T], *args: Hashable) -> T:
        """Return ``compute(self, *args)``, computed once and cached on the problem.

        Parameters
        ----------
        compute : callable
            A function of a problem and ``args``. The cache key is this function object and ``args``.
        *args : hashable
            Further arguments of ``compute``.

        Examples
        --------
        >>> import sdpfeas as sf
        >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [None], [], [])
        >>> problem.cached(sf.FeasibilityProblem.lift) is problem.cached(sf.FeasibilityProblem.lift)
        True
        """
        key = (compute, *args)
        if key not in self._memo:
            self._memo[key] = compute(self, *args)
        found: T = self._memo[key]
        return found

    @cached_property
    def _memo(self) -> dict[Any, Any]:
        return {}

    @cached_property
    def norms(self) -> FloatArray:
        """Frobenius norm of every row over all blocks."""
        with np.errstate(over="ignore"):
            out = np.hypot.reduce(self.block_norms, axis=0)
        return np.asarray(sealed(out))

    @property
    def sides(self) -> list[int]:
        """Sides of the matrix blocks and of the matrix LMIs."""
        sets = (*self.sets, *(lmi.set for lmi in self.lmis))
        return [block.side for block in sets if block.side]

    @cached_property
    def block_norms(self) -> FloatArray:
        """Frobenius norm of every row on every block, shape (blocks, m)."""
        check_deadline("the norms of the rows")
        out = np.array([rows.norms() for rows in self.rows]).reshape(len(self.sets), self.m)
        return np.asarray(sealed(out))

    @cached_property
    def upper_norms(self) -> FloatArray:
        """Proven upper bounds of ``block_norms``."""
        check_deadline("the norms of the rows")
        out = np.array([rows.norms_upper for rows in self.rows]).reshape(len(self.sets), self.m)
        return np.asarray(sealed(out))

    def row_name(self, i: int) -> str:
        """Return the name of row ``i``, escaped for display, or its index if rows have no names."""
        return str(i) if self.row_names is None else visible(self.row_names[i])

    def lmi_name(self, j: int) -> str:
        """Return the name of LMI ``j``, escaped for display, or its index if it has none."""
        name = self.lmis[j].name
        return str(j) if name is None else visible(name)

    def block_name(self, b: int) -> str:
        """Return the name of block ``b``, escaped for display, or its index if blocks have no names."""
        return str(b) if self.block_names is None else visible(self.block_names[b])

    def point(self, values: Any) -> Point:
        """Validate the shapes of a point and symmetrise its matrices.

        Raises
        ------
        ClaimError
            If there is not one real array of the right shape per set. NaN is accepted here; the verifier
            rejects it.
        """
        parts = listed(values, "a point is a tuple with one array per set", ClaimError)
        if len(parts) != len(self.sets):
            raise ClaimError(f"the point has {len(parts)} blocks, the problem {len(self.sets)}")
        out = []
        for b, (part, block) in enumerate(zip(parts, self.sets, strict=True)):
            given = block.coordinates(part, exact=False)
            mirrored = is_frozen(given) and (not block.matrix or np.array_equal(given, given.T))
            if mirrored and given.shape == block.shape:
                out.append(given)  # read-only and symmetric: no copy needed
                continue
            array = _claim_array(given, f"block {self.block_name(b)} of the point", block.shape)
            out.append(block.symmetrize(array))
        return tuple(out)

    @property
    def multiplier_count(self) -> int:
        """Length of a vector of dual multipliers: one per row, then one per entry of every LMI."""
        return self.m + sum(lmi.set.entries for lmi in self.lmis)

    def multipliers(self, values: Any) -> FloatArray:
        """Validate the shape of dual multipliers and symmetrise those of the LMIs.

        Raises
        ------
        ClaimError
            If ``values`` is not a real vector of length ``multiplier_count``.
        """
        y = _claim_array(values, "the certificate", (self.multiplier_count,))
        return np.concatenate([y[: self.m], symmetric_multipliers(y[self.m :], self.lmis)])

    def split(self, y: FloatArray) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        """Split dual multipliers into those of the rows and one array per LMI."""
        return y[: self.m], split_multipliers(y[self.m :], self.lmis)

    def apply(self, point: Point) -> FloatArray:
        """Return the row values ``A(X)``."""
        total = np.zeros(self.m)
        for rows, x in zip(self.rows, point, strict=True):
            total += rows.apply(x)
        return total

    def stable_apply(self, point: Point) -> FloatArray:
        """Return the row values ``A(X)``, computed by the methods with the smallest error bounds."""
        total = np.zeros(self.m)
        for rows, x in zip(self.rows, point, strict=True):
            total += rows.stable_apply(x)
        return total

    def adjoint(self, y: FloatArray) -> Point:
        """Return ``A*y + sum_j B_j*Y_j``, the adjoint of rows and LMIs, one array per block."""
        y, own = self.split(y)
        out = [rows.adjoint(y) for rows in self.rows]
        for lmi, values in zip(self.lmis, own, strict=True):
            for b, part in enumerate(lmi.adjoint(values, self.sets)):
                if not lmi.coefficients[b].empty:
                    out[b] = out[b] + part
        return tuple(out)

    def beta_terms(self, y: FloatArray) -> FloatArray:
        """Return the terms of the bound ``beta(y)`` of a certificate.

        Row ``i`` contributes ``lower_i y_i`` if ``y_i > 0`` and ``upper_i y_i`` if ``y_i < 0``, with
        0·inf = 0. An LMI contributes ``-Y_pq F(0)_pq`` for every entry.
        """
        y, own = self.split(y)
        out = np.zeros(self.m)
        up, down = y > 0.0, y < 0.0
        out[up] = self.lower[up] * y[up]
        out[down] = self.upper[down] * y[down]
        return np.concatenate(
            [out, *(-(part * lmi.constant).reshape(-1) for lmi, part in zip(self.lmis, own, strict=True))]
        )

    def lift(self) -> BoxToPsd:
        """Replace every SpectralBox by two PSD blocks and equality rows."""
        return lift(self)

    def to_conic(self, triangle: Triangle = "lower") -> ConicForm:
        """Return the standard form of cone solvers: ``A x + s = b``, ``s`` in a product of cones.

        Parameters
        ----------
        triangle : {"lower", "upper"}
            The triangle that the solver stores: see :class:`~.conic_form.ConicForm`.
        """
        return conic_form(self, triangle, scaled=False).cones_on_rows()

    def scaled(self) -> RowScaling:
        """Scale rows to norm about one by powers of two (:mod:`sdpfeas.problem.reductions.row_scaling`)."""
        return scale_rows(self)

    @cached_property
    def slack_form(self) -> LmiToSlack:
        """The problem with every LMI replaced by a slack block and equality rows (cached)."""
        return with_slacks(self)

    def select_rows(self, index: ArrayLike, lmis: Sequence[LMI] | None = None) -> FeasibilityProblem:
        """Return the problem with only the rows selected by indices or by a boolean mask.

        ``lmis`` replaces the LMIs.
        """
        index = row_index(index, self.m)
        names = None if self.row_names is None else [self.row_names[i] for i in index]
        return changed(
            self,
            rows=[rows.select(index) if index.size else None for rows in self.rows],
            lower=self.lower[index],
            upper=self.upper[index],
            row_names=names,
            lmis=self.lmis if lmis is None else lmis,
        )

    def bounded(self, bound: Bound) -> FeasibilityProblem:
        """Return the problem with additional rows that bound every block in an unbounded set.

        A block in a cone gets the row ``<I, X_b> <= bound·||I||``, a Free block the rows ``-bound <= x_i <=
        bound``. Every point whose blocks have Frobenius norms up to the bound satisfies them. So if the
        returned problem is infeasible, no feasible point of this one has a norm up to ``bound``; if it is
        feasible, its points are points of this problem. Its attribute ``bound`` names the bound, and holds
        the problem without it as ``bound.original``.

        Parameters
        ----------
        bound : float or mapping
            A positive number, or one for each block of a mapping, by name or index; other blocks stay
            unbounded.

        Examples
        --------
        ``X11 = 0, X12 = 1`` has no solution, but matrices of large norm come arbitrarily close to one.

        >>> import numpy as np, sdpfeas as sf
        >>> rows = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.5], [0.5, 0.0]]])
        >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [0.0, 1.0], [0.0, 1.0])
        >>> within = problem.bounded(1e6)
        >>> within.m, str(within.bound), within.bound.original is problem
        (3, 'the bound 1e+06', True)
        """
        found = bound_variables(self, bound)
        return state_bound(found) if found.rows.size else self

    def save(self, path: str | PathLike[str]) -> None:
        """Write the problem to one ``.npz`` file, without pickles."""
        save_problem(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> FeasibilityProblem:
        """Read a problem written by :meth:`save`.

        Raises
        ------
        FileFormatError
            If the file does not hold a problem in this format.
        """
        return load_problem(path, FeasibilityProblem)

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 of the data of the problem; it does not depend on process or machine."""
        return hash_of(self)

    def __eq__(self, other: object) -> bool:
        """Return whether the other problem holds the same data."""
        if not isinstance(other, FeasibilityProblem):
            return NotImplemented
        return self.content_hash == other.content_hash

    def __hash__(self) -> int:
        """Return a hash of the data."""
        return hash(self.content_hash)

    def __repr__(self) -> str:
        """List sets, kinds of rows and LMIs, one per line."""
        lines = (": ".join(filter(None, fact)) for fact in self._facts())
        return "\n  ".join([f"FeasibilityProblem: {self._summary()}", *lines])

    def _repr_html_(self) -> str:
        """Render sets, kinds of rows and LMIs as an HTML card for notebooks."""
        return Card("FeasibilityProblem", "plain", self._summary(), self._facts()).html()

    def _summary(self) -> str:
        """Return the numbers of blocks and rows in words."""
        equal = int(self.equality.sum())
        size = f"{counted(len(self.sets), 'block')}, {counted(self.m, 'row')}"
        return f"{size} ({equal} equality, {self.m - equal} inequality)"

    def _facts(self) -> list[tuple[str, str]]:
        """Return label and description of the first ``SHOWN_BLOCKS`` blocks and LMIs."""
        facts = [
            (self.block_name(b), f"{block.described()}, {'no' if rows.empty else rows.kind} rows")
            for b, block, rows in islice(self.blocks(), SHOWN_BLOCKS)
        ]
        if len(self.sets) > SHOWN_BLOCKS:
            facts.append((f"… and {len(self.sets) - SHOWN_BLOCKS} more", ""))
        facts += [lmi_fact(lmi) for lmi in self.lmis[:SHOWN_BLOCKS]]
        if len(self.lmis) > SHOWN_BLOCKS:
            facts.append((f"… and {len(self.lmis) - SHOWN_BLOCKS} more LMIs", ""))
        return facts


def sign_violation(problem: FeasibilityProblem, y: FloatArray) -> FloatArray:
    """Return how far each multiplier violates the sign that a missing bound requires."""
    y = y[: problem.m]
    wrong_up = np.where(np.isneginf(problem.lower), np.maximum(y, 0.0), 0.0)
    wrong_down = np.where(np.isposinf(problem.upper), np.maximum(-y, 0.0), 0.0)
    return wrong_up + wrong_down


def restricting_rows(problem: FeasibilityProblem) -> np.ndarray:
    """Return a mask of the rows that restrict other variables.

    A row does not if no other row and no LMI uses one of its entries of a Free block: that entry satisfies
    the row whatever the other variables are, and the multiplier of the row is zero in every certificate.
    """
    out = np.ones(problem.m, dtype=bool)
    for b, block, rows in problem.blocks():
        if block.free and not rows.empty:
            used = sp.coo_array(rows.to_csr())
            uses = np.bincount(used.col, minlength=block.n)
            for lmi in problem.lmis:
                uses += lmi.coefficients[b].norms() > 0.0
            out[used.row[uses[used.col] == 1]] = False
    return out


def largest_bound(problem: FeasibilityProblem) -> FloatArray:
    """Return the magnitude of the larger finite bound of every row; 0 without one."""
    low = np.where(np.isfinite(problem.lower), np.abs(problem.lower), 0.0)
    return np.maximum(low, np.where(np.isfinite(problem.upper), np.abs(problem.upper), 0.0))


def _per_block(values: Any, what: str) -> list[Any]:
    demand = f"{what} must be a list with one entry per block"
    if isinstance(values, np.ndarray) or sp.issparse(values):
        raise ProblemError(f"{demand}, got an array")
    return listed(values, demand)


def _names(names: Any, count: int, what: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    out = tuple(listed(names, f"{what}_names must be a list of strings"))
    if len(out) != count:
        raise ProblemError(f"{what}_names has {len(out)} entries for {count} {what}s")
    seen: dict[str, int] = {}
    for i, name in enumerate(out):
        if not isinstance(name, str) or not name:
            raise ProblemError(f"{what} {i}: a name must be a non-empty string, got {name!r}")
        if name in seen:
            raise ProblemError(f"{what}s {seen[name]} and {i} have the same name {name!r}")
        seen[name] = i
    return out


def _bounds(values: Any, what: str) -> FloatArray:
    array = float_array(values, what) + 0.0
    if array.ndim != 1:
        raise ProblemError(f"{what} must be a vector with one entry per row, got shape {array.shape}")
    return array


def _claim_array(values: Any, what: str, shape: tuple[int, ...]) -> FloatArray:
    # Rounding a claim is sound: the verifier checks the rounded numbers.
    array = float_array(values, what, ClaimError, exact=False)
    if array.shape != shape:
        raise ClaimError(f"{what} has shape {array.shape}, expected {shape}")
    return array
