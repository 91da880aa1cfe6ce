"""Families indexed by a scalar: problems linear in ``delta``, with bounds of their threshold.

A parametric family is linear in a scalar ``delta``, and feasible for every ``delta`` up to a threshold
``delta*`` (it says why). Every point then proves a lower bound of ``delta*`` and every vector of multipliers
an upper bound, whoever computed them and however well (:mod:`~sdpfeas.families.threshold_bounds`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.cards.finder import PROBLEMS, dropin_file, is_path, load_class
from sdpfeas.cards.options import NoOptions, parse_options
from sdpfeas.errors import CardError, ProblemError
from sdpfeas.families.subspace_restriction import SubspaceRestriction
from sdpfeas.families.threshold_bounds import EXACT, Bound, Root, certificate_root, prove_lower, prove_upper
from sdpfeas.numerics.floating_point_environment import require_ieee
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point, sign_violation
from sdpfeas.problem.rows import Combined, Rows, Sparse, Stacked, as_rows
from sdpfeas.problem.sets import BlockSet
from sdpfeas.problem.validation import finite_number, float_array

# ------------------------------------------------------------
# What moves with ``delta`` in a linear family: bounds, rounded as a proof needs them, and rows.

#: The largest number; what is beyond it is rounded to infinity outwards, and to it inwards.
_LARGEST = Fraction(float(np.finfo(np.float64).max))


def moved(bound: FloatArray, slope: FloatArray, delta: float, direction: int) -> FloatArray:
    """``bound + delta·slope``, rounded up (1), down (-1) or to nearest (0)."""
    out = np.array(bound)
    step = Fraction(delta)
    for i in np.flatnonzero((slope != 0.0) & np.isfinite(bound)):
        exact = Fraction(float(bound[i])) + step * Fraction(float(slope[i]))
        value = float(min(max(exact, -_LARGEST), _LARGEST))
        if direction > 0 and Fraction(value) < exact:
            value = math.nextafter(value, math.inf)
        elif direction < 0 and Fraction(value) > exact:
            value = math.nextafter(value, -math.inf)
        out[i] = value
    return out


@dataclass(frozen=True)
class Line:
    """``fixed - delta·slope`` on a vector block as one sparse matrix; no entry is in both."""

    fixed: FloatArray
    slope: FloatArray
    pattern: Any

    def exact_at(self, delta: float) -> bool:
        """Whether no product underflows or overflows: a power of two may take ``delta`` out of the range."""
        with np.errstate(over="ignore"):
            # Those of the slopes themselves: twice a product may be a number where the product is none.
            exponents = np.frexp(self.slope)[1] - 1
            return bool(np.all(np.ldexp(np.ldexp(delta, exponents), -exponents) == delta))

    def at(self, delta: float) -> Rows:
        """The rows at ``delta``."""
        pattern = self.pattern
        parts = self.fixed - delta * self.slope, np.array(pattern.indices), np.array(pattern.indptr)
        return Sparse.sound(sp.csr_array(parts, pattern.shape), pattern.shape[1], False)


def line_of(fixed: Rows, slope: Rows) -> Line | None:
    """Rows that move without rounding, or None."""
    if not isinstance(slope, Sparse) or slope.matrix or not isinstance(fixed, Sparse):
        return None
    if not np.all(np.frexp(np.abs(slope.array.data))[0] == 0.5):  # powers of two only
        return None
    if fixed.empty:
        return Line(np.zeros(slope.array.nnz), np.array(slope.array.data), slope.array)
    marks = [sp.csr_array((np.ones(a.nnz), a.indices, a.indptr), a.shape) for a in (fixed.array, slope.array)]
    # One entry for each of either; what is in both would be three.
    pattern = sp.csr_array(marks[0] + 2.0 * marks[1])
    pattern.sort_indices()
    if np.any(pattern.data == 3.0):
        return None
    data = {}
    for mark, rows in ((1.0, fixed), (2.0, slope)):
        data[mark] = np.zeros(pattern.nnz)
        # Both are in the same order, row by row.
        data[mark][pattern.data == mark] = rows.array.data
    return Line(data[1.0], data[2.0], pattern)


def row_values(rows: Sequence[Rows], point: Point, m: int) -> FloatArray:
    """Values of all rows at a point."""
    return sum((part.apply(x) for part, x in zip(rows, point, strict=True)), np.zeros(m))


def adjoints(rows: Sequence[Rows], y: FloatArray) -> Point:
    """``A*y``, block by block."""
    return tuple(part.adjoint(y) for part in rows)


def column(start: int, stop: int, m: int, value: float = 1.0) -> Sparse:
    """Rows on a scalar block: ``value`` in the rows from ``start`` to ``stop``, zero in the others."""
    count = stop - start
    ends = np.clip(np.arange(m + 1) - start, 0, count)
    parts = np.full(count, value), np.zeros(count, dtype=np.int64), ends
    return Sparse.sound(sp.csr_array(parts, (m, 1)), 1, False)


# ------------------------------------------------------------
# The base class of families, and finding families by name or file.
#
# A family is named by a path to a drop-in file (``.py``), or by a name, looked up as
# :mod:`sdpfeas.cards.finder` says: what ships, the entry points of the group ``sdpfeas.families``, then
# ``NAME.py`` beside the card that names it, if the user named that card by its path.


class Family(ABC):
    """Code that makes problems; the base class of what a problem card or a drop-in file names.

    Attributes
    ----------
    name : str
        The name it is asked for by.
    Options : type
        The dataclass of its parameters.
    """

    name: ClassVar[str]
    Options: ClassVar[type] = NoOptions

    @classmethod
    def make(cls, **parameters: Any) -> FeasibilityProblem | ParametricFamily:
        """Build a member from plain parameters, as a card holds them.

        Parameters
        ----------
        **parameters
            Fields of ``Options``.

        Raises
        ------
        OptionError
            If a parameter is unknown, ill-typed or out of range.
        """
        return cls.build(parse_options(cls.Options, parameters, f"family {cls.name!r}"))

    @classmethod
    @abstractmethod
    def build(cls, options: Any) -> FeasibilityProblem | ParametricFamily:
        """Build a member from checked options."""

    @classmethod
    def seeded(cls, options: Any) -> bool:
        """Whether another ``seed`` among the options gives another member."""
        return hasattr(options, "seed")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the file a drop-in class came from: other processes cannot import its module."""
        file = dropin_file(type(self))
        return _restored, (file, None if file else type(self), dict(vars(self)))


def find_family(name: str, card: Path | None = None, *, by_path: bool = True) -> type[Family]:
    """Find a family.

    Parameters
    ----------
    name : str
        A path or a name.
    card : Path, optional
        The card that names it.
    by_path : bool
        Whether the user named that card by its path, so that code beside it may be run.

    Raises
    ------
    CardError
        If there is none of that name, or its file cannot be loaded.
    """
    if is_path(name, (".py",)):
        return load_family(Path(name) if card is None else PROBLEMS.code(name, card, by_path=by_path))
    found = PROBLEMS.find(name, card if by_path else None, cards=False)
    if found is None and card is not None and (card.parent / f"{name}.py").is_file():
        raise CardError(PROBLEMS.why_not(card))
    if found is None:
        raise CardError(f"no family named {name!r}; {PROBLEMS.hint(name, cards=False)}")
    return load_family(found)


def load_family(found: Path | EntryPoint) -> type[Family]:
    """Load the family that an entry point names, or the one that a drop-in file defines."""
    return load_class(found, Family, "family", CardError)  # type: ignore[type-abstract]


def family_names() -> list[str]:
    """Names of all families that can be found from here."""
    return PROBLEMS.names(cards=False)


def _restored(file: str | None, kind: type[Family] | None, state: dict[str, Any]) -> Family:
    if kind is None:
        kind = load_family(Path(file or ""))
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


@dataclass(frozen=True)
class Known:
    """A threshold that is known without a solve: zero or infinity, on degenerate data.

    Attributes
    ----------
    delta : float
        The threshold.
    reason : str
        Why.
    substitute : ParametricFamily, optional
        A family whose best point is a sensible point of this one.
    point : tuple of ndarray, optional
        A sensible point where there is no substitute.
    proven : bool
        Whether that is proved; else it is a judgement by a tolerance, about data up to rounding.
    """

    delta: float
    reason: str
    substitute: ParametricFamily | None = None
    point: Point | None = None
    proven: bool = False


class ParametricFamily(Family):
    """Problems linear in a scalar: rows ``A(X) - delta·B(X)`` between bounds that may move with ``delta``.

    That is, ``lower + delta·lower_slope <= A(X) - delta·B(X) <= upper + delta·upper_slope`` with ``X`` in the
    sets. Feasibility must be monotone: feasible at ``delta`` implies feasible at everything below.

    Parameters
    ----------
    sets : sequence of BlockSet
        One set per block.
    rows, slopes : sequence
        The maps A and B, block by block, as in :class:`FeasibilityProblem`; ``None`` where a map does not
        touch the block.
    lower, upper : array_like
        Bounds of the rows at ``delta = 0``.
    monotone : str
        Why feasibility is monotone.
    lower_slope, upper_slope : array_like, optional
        What is added to the bounds per unit of ``delta``; not for equality rows.
    bracket : tuple of float
        What is known about the threshold beforehand. Its lower end is a value at which the family is
        feasible (or minus infinity).
    unit : float
        The usual size of ``delta``; used where a threshold is zero.
    row_names, block_names : sequence of str, optional
        Names, as in :class:`FeasibilityProblem`.

    Attributes
    ----------
    caveat : str
        Why a search may end without a bracket, if the data give reason to fear so.
    """

    name = ""
    caveat = ""

    def __init__(
        self,
        sets: Sequence[BlockSet],
        rows: Sequence[Any],
        slopes: Sequence[Any],
        lower: ArrayLike,
        upper: ArrayLike,
        *,
        monotone: str,
        lower_slope: ArrayLike | None = None,
        upper_slope: ArrayLike | None = None,
        bracket: tuple[float, float] = (-math.inf, math.inf),
        unit: float = 1.0,
        row_names: Sequence[str] | None = None,
        block_names: Sequence[str] | None = None,
    ) -> None:
        self.sets = tuple(sets)
        self.monotone = monotone
        self.bracket = bracket
        self.unit = unit
        self._lower, self._upper = float_array(lower, "lower"), float_array(upper, "upper")
        self._lower_slope, self._upper_slope = (
            np.zeros(self._lower.size) if v is None else float_array(v, "slopes of bounds")
            for v in (lower_slope, upper_slope)
        )
        moving = (self._lower_slope != 0.0) | (self._upper_slope != 0.0)
        if np.any(moving & (self._lower == self._upper)):
            raise ProblemError(
                "the bound of an equality row must not depend on delta; "
                "put delta on a block that another row fixes at 1"
            )
        m = self._lower.size
        self._rows = [as_rows(entry, block, m) for entry, block in zip(rows, sets, strict=True)]
        self._slopes = [as_rows(entry, block, m) for entry, block in zip(slopes, sets, strict=True)]
        self._names = (row_names, block_names)
        #: Both maps of a block that has both, one after the other, so that they are stored once.
        self._both = [
            None if a.empty or b.empty else Stacked([a, b])
            for a, b in zip(self._rows, self._slopes, strict=True)
        ]

    @classmethod
    def build(cls, options: Any) -> FeasibilityProblem | ParametricFamily:
        """Build a member from checked options."""
        raise ProblemError(f"family {cls.name or cls.__name__!r} cannot be built from a card")

    # ------------------------------------------------------------ problems

    @property
    def m(self) -> int:
        """Number of rows."""
        return int(self._lower.size)

    @property
    def equality(self) -> np.ndarray:
        """Which rows are equality rows."""
        return np.asarray(self._lower == self._upper)

    def at(self, delta: float) -> FeasibilityProblem:
        """Return the problem at ``delta``; bounds that depend on it are rounded to nearest.

        Parameters
        ----------
        delta : float
            Any finite number.
        """
        return self.rounded_at(delta, 0)

    def exact_at(self, delta: float) -> bool:
        """Whether the bounds at ``delta`` are numbers as they are, so that :meth:`at` rounds none.

        Parameters
        ----------
        delta : float
            Any finite number.
        """
        moving = ((self._lower, self._lower_slope), (self._upper, self._upper_slope))
        return all(
            np.array_equal(moved(bound, slope, delta, 1), moved(bound, slope, delta, -1))
            for bound, slope in moving
        )

    def rounded_at(self, delta: float, inward: int) -> FeasibilityProblem:
        """Problem at ``delta`` with bounds rounded inwards (1), outwards (-1) or to nearest (0).

        The rows need no rounding: ``delta`` enters them as a coefficient.

        Parameters
        ----------
        delta : float
            Any finite number.
        inward : int
            Which way.
        """
        delta = finite_number(delta, "delta")
        rows = [self._combined(b, delta) for b in range(len(self.sets))]
        low = moved(self._lower, self._lower_slope, delta, inward)
        high = moved(self._upper, self._upper_slope, delta, -inward)
        return FeasibilityProblem(self.sets, rows, low, high, *self._names)

    def _combined(self, b: int, delta: float) -> Rows:
        fixed, slope, both = self._rows[b], self._slopes[b], self._both[b]
        if slope.empty or delta == 0.0:
            return fixed
        line = self._lines[b]
        if line is not None and line.exact_at(delta):
            return line.at(delta)
        eye = sp.eye_array(self.m, format="csr")
        if both is None:
            return Combined(-delta * eye, slope)
        return Combined(sp.hstack([eye, -delta * eye]), both)

    @cached_property
    def _lines(self) -> list[Line | None]:
        """Blocks whose rows at any ``delta`` need no rounding."""
        return [line_of(fixed, slope) for fixed, slope in zip(self._rows, self._slopes, strict=True)]

    @cached_property
    def _template(self) -> FeasibilityProblem:
        return self.at(self._start)

    @property
    def _start(self) -> float:
        low, high = self.bracket
        if math.isfinite(low):
            return low
        return min(0.0, high)

    # ------------------------------------------------------------ what is known without a solve

    @property
    def known(self) -> Known | None:
        """The threshold, where the data give it away; None where it takes a solve."""
        return None

    @property
    def infinite(self) -> bool:
        """Whether the family is known to be feasible for every ``delta``."""
        return self.known is not None and self.known.delta == math.inf

    def initial_points(self) -> list[Point]:
        """Points to take first lower bounds from."""
        return [tuple(block.interior_point() for block in self.sets)]

    def initial_multipliers(self) -> list[FloatArray]:
        """Multipliers to take first upper bounds from."""
        return []

    def estimate_delta(self, point: Point) -> float:
        """Return about what :meth:`largest_delta` returns, for less; never much below it."""
        return self.largest_delta(point)

    def recovered_points(self, y: FloatArray, near: float | None = None) -> list[Point]:
        """Points that multipliers suggest; none in general."""
        return []

    def refine(
        self, points: list[Point], multipliers: list[FloatArray], tol: float
    ) -> tuple[list[Point], list[FloatArray]]:
        """Points and multipliers that improve on all of those given; none in general.

        Parameters
        ----------
        points : list of tuple of ndarray
            Points found so far.
        multipliers : list of ndarray
            Multipliers found so far.
        tol : float
            The width of the bracket that is asked for, relative to its upper end.
        """
        return [], []

    def from_substitute(self, point: Point) -> Point:
        """Map a point of ``known.substitute`` to one of this family."""
        return point

    # ------------------------------------------------------------ lower bounds

    def lower_bound(self, point: Any) -> float:
        """Return a proven lower bound of ``delta*`` from any point; minus infinity if it proves nothing.

        Parameters
        ----------
        point : tuple of ndarray
            One array per set. It need not be in the sets, nor meet the rows anywhere.
        """
        bound = self.prove_lower(point)
        return self.bracket[0] if bound is None else max(bound.delta, self.bracket[0])

    def prove_lower(self, point: Any, above: float = -math.inf) -> Bound | None:
        """As :meth:`lower_bound`, with the evidence; None if nothing is proved.

        Parameters
        ----------
        point : tuple of ndarray
            One array per set.
        above : float
            Bounds that are no higher are not worth a proof: minus infinity is returned instead.
        """
        require_ieee()
        x = self._template.point(point)
        if not all(np.isfinite(part).all() for part in x):
            return None
        with np.errstate(all="ignore"):
            try:
                return prove_lower(self, x, above)
            except np.linalg.LinAlgError:
                return None

    def project_point(self, point: Point) -> Point:
        """Move the blocks of a point onto their sets."""
        return tuple(
            block.project(x) if block.distance(x) > 0.0 else x
            for block, x in zip(self.sets, point, strict=True)
        )

    def largest_delta(self, point: Point) -> float:
        """Return the largest ``delta`` whose inequality rows hold at a point, in plain arithmetic."""
        fixed = row_values(self._rows, point, self.m)
        slope = row_values(self._slopes, point, self.m)
        open_rows = ~self.equality
        best = self.bracket[1]
        # lower + delta·lower_slope <= fixed - delta·slope, and the same for the upper bounds.
        for sign, bound, move in (
            (1.0, self._lower, self._lower_slope),
            (-1.0, self._upper, self._upper_slope),
        ):
            room, loss = sign * (fixed - bound), sign * (slope + move)
            binding = open_rows & np.isfinite(bound) & (loss > 0.0)
            best = min(best, float(np.min(room[binding] / loss[binding], initial=math.inf)))
        return best

    def point_at(self, point: Point, delta: float) -> Point:
        """Adapt the parts of a point that depend on ``delta``; as it is in general."""
        return point

    def checked_projection(self, point: Point) -> Point:
        """Return :meth:`project_point` with shapes checked and matrices symmetrised."""
        return self._template.point(self.project_point(point))

    def checked_point_at(self, point: Point, delta: float) -> Point:
        """Return :meth:`point_at` with shapes checked and matrices symmetrised."""
        return self._template.point(self.point_at(point, delta))

    # ------------------------------------------------------------ upper bounds

    def upper_bound(self, y: ArrayLike) -> float:
        """Return a proven upper bound of ``delta*`` from any multipliers; infinity if they prove nothing.

        Parameters
        ----------
        y : array_like
            One multiplier per row. They need not be a certificate anywhere.
        """
        bound = self.prove_upper(y)
        return self.bracket[1] if bound is None else min(bound.delta, self.bracket[1])

    def prove_upper(
        self, y: ArrayLike, near: float | None = None, push: float = 0.0, below: float = math.inf
    ) -> Bound | None:
        """As :meth:`upper_bound`, with the evidence; None if nothing is proved.

        Parameters
        ----------
        y : array_like
            One multiplier per row.
        near : float, optional
            The value of ``delta`` the multipliers come from, as a place to start looking.
        push : float
            How far, relative to its size, the bound may be moved outwards for a cheaper proof.
        below : float
            Bounds that are no lower are not worth a proof: infinity is returned instead.
        """
        require_ieee()
        z = self._template.multipliers(y)
        if not np.isfinite(z).all() or not z.any():
            return None
        with np.errstate(all="ignore"):
            try:
                return prove_upper(self, z, near, push, below)
            except np.linalg.LinAlgError:
                return None

    def normalise_multipliers(self, y: FloatArray) -> FloatArray:
        """Scale multipliers to size one and set those of a forbidden sign to zero."""
        y = y * 2.0 ** -np.floor(np.log2(np.max(np.abs(y))))
        return np.where(sign_violation(self._template, y) > 0.0, 0.0, y)

    def root(self, y: FloatArray, near: float | None = None, accuracy: float = EXACT) -> Root:
        """Return the smallest ``delta`` that multipliers rule out, in plain arithmetic.

        Parameters
        ----------
        y : ndarray
            Mended multipliers.
        near : float, optional
            Where to start looking.
        accuracy : float
            Relative error that is good enough; the root is then a little too low.
        """
        fixed = adjoints(self._rows, y)
        slope = adjoints(self._slopes, y)
        up, down = y > 0.0, y < 0.0
        beta = float(self._lower[up] @ y[up] + self._upper[down] @ y[down])
        beta_slope = float(self._lower_slope[up] @ y[up] + self._upper_slope[down] @ y[down])
        start = self._start if math.isfinite(self.bracket[0]) or near is None else near
        return certificate_root(self.sets, fixed, slope, beta, beta_slope, start, self.unit, accuracy)

    def multipliers_at(self, y: FloatArray, delta: float) -> FloatArray:
        """Adapt the multipliers that depend on ``delta``; as they are in general."""
        return y

    def checked_multipliers_at(self, y: FloatArray, delta: float) -> FloatArray:
        """Return :meth:`multipliers_at` with its shape checked."""
        return self._template.multipliers(self.multipliers_at(y, delta))

    # ------------------------------------------------------------ one program instead of a search

    def conic_program(self) -> ConicProgram | None:
        """Return a program whose optimal value is ``delta*`` up to a factor; None if there is none."""
        return None

    def subspace_restriction(self) -> SubspaceRestriction | None:
        """Return what a search in subspaces needs, where dimensions are many; None if it does not pay."""
        return None

    def program_point(self, point: Point) -> Point:
        """Map a point of :meth:`conic_program` to one of the family."""
        return point

    def program_multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers of :meth:`conic_program` to those of the family's rows."""
        return y

    def describe(self) -> Mapping[str, Any]:
        """Sizes and other facts, as plain data."""
        return {"family": self.name, "rows": self.m, "blocks": [block.spec() for block in self.sets]}

    def __repr__(self) -> str:
        """Name, sets and rows."""
        sets = ", ".join(f"{block.kind}({block.n})" for block in self.sets)
        return f"{type(self).__name__}: {sets}; {self.m} rows"
