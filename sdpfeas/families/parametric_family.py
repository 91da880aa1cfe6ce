"""Base classes of problem families, and families that are linear in a scalar parameter ``delta``.

:class:`Family` is code that builds problems from the parameters of a problem card. :class:`MonotoneFamily` is
a family of feasibility problems, one for every ``delta``, that are feasible up to a threshold ``delta*`` and
infeasible beyond. :class:`ParametricFamily` is one whose problems are linear in ``delta``: every point proves
a lower bound of ``delta*`` and every vector of dual multipliers an upper bound, no matter which backend
computed them (:mod:`~sdpfeas.families.threshold_bounds`). :func:`sdpfeas.bisect` brackets both.
:func:`find_family` finds a family by its name or by the path of a drop-in file.
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
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from sdpfeas.cards.finder import PROBLEMS, dropin_file, is_path, load_class
from sdpfeas.cards.options import NoOptions, parse_options
from sdpfeas.errors import CardError, ProblemError
from sdpfeas.families.threshold_bounds import EXACT, Bound, Root, certificate_root, prove_lower, prove_upper
from sdpfeas.numerics.floating_point_environment import require_ieee
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point, sign_violation
from sdpfeas.problem.rows import Combined, NoRows, Rows, Sparse, Stacked, as_rows
from sdpfeas.problem.sets import BlockSet
from sdpfeas.problem.validation import finite_number, float_array

if TYPE_CHECKING:
    from sdpfeas.families.subspace_restriction import SubspaceRestriction


class Family(ABC):
    """Base class of code that builds problems; a problem card or a drop-in file names a subclass.

    Attributes
    ----------
    name : str
        Name by which cards and :func:`find_family` refer to the family.
    Options : type
        Dataclass of its parameters.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> from sdpfeas.families import Family
    >>> @dataclass(frozen=True)
    ... class TraceOptions:
    ...     n: int = 2
    ...     trace: float = 1.0
    >>> class FixedTrace(Family):
    ...     name = "fixed-trace"
    ...     Options = TraceOptions
    ...
    ...     @classmethod
    ...     def build(cls, options):
    ...         trace = np.eye(options.n)[None]
    ...         bound = [options.trace]
    ...         return sf.FeasibilityProblem([sf.PSD(options.n)], [trace], bound, bound)
    >>> print(sf.solve(FixedTrace.make(n=3)).verdict)
    feasible
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
            If a parameter is unknown, of the wrong type or out of range.
        """
        return cls.build(parse_options(cls.Options, parameters, f"family {cls.name!r}"))

    @classmethod
    @abstractmethod
    def build(cls, options: Any) -> FeasibilityProblem | ParametricFamily:
        """Build a member from validated options."""

    @classmethod
    def seeded(cls, options: Any) -> bool:
        """Return whether a different ``seed`` option gives a different member.

        Options decide by a property ``seeded``; without one, by whether they have a ``seed``.
        """
        return bool(getattr(options, "seeded", hasattr(options, "seed")))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle a drop-in class by the path of its file, since other processes cannot import its module."""
        file = dropin_file(type(self))
        return _unpickle, (file, None if file else type(self), dict(vars(self)))


def find_family(name: str, card: Path | None = None, *, by_path: bool = True) -> type[Family]:
    """Find a family by its name or by the path of a drop-in file.

    Names are looked up among the families of the library, then among the entry points of the group
    ``sdpfeas.families``, then as ``NAME.py`` beside the card, provided that the user named the card by its
    path.

    Parameters
    ----------
    name : str
        A path ending in ``.py``, or a name.
    card : Path, optional
        Card in which the name occurs.
    by_path : bool
        Whether the user named that card by its path, so that code beside it may be executed.

    Raises
    ------
    CardError
        If there is no such family, or its file cannot be loaded.

    Examples
    --------
    >>> from sdpfeas.families import find_family
    >>> find_family("theta").__name__
    'Theta'
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
    """Return the names of all families that :func:`find_family` finds from the current directory.

    Examples
    --------
    >>> from sdpfeas.families import family_names
    >>> "max-cut" in family_names()
    True
    """
    return PROBLEMS.names(cards=False)


def _unpickle(file: str | None, kind: type[Family] | None, state: dict[str, Any]) -> Family:
    if kind is None:
        kind = load_family(Path(file or ""))
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


@dataclass(frozen=True)
class KnownThreshold:
    """Threshold that degenerate data determine without a solve: zero or infinity.

    Attributes
    ----------
    delta : float
        The threshold.
    reason : str
        Why it is the threshold.
    substitute : ParametricFamily, optional
        Family whose optimal point, mapped by ``from_substitute``, is a meaningful point of this one.
    point : tuple of ndarray, optional
        A meaningful point if there is no substitute.
    proven : bool
        Whether the threshold is proved. Otherwise it was decided with a tolerance, and holds up to rounding
        of the data.

    Examples
    --------
    Two classes have the same mean, so that no projection separates them:

    >>> import numpy as np
    >>> from sdpfeas.families import WLDA
    >>> means = [[0.0, 0.0], [0.0, 0.0], [1.0, 2.0]]
    >>> family = WLDA.from_scatter(means, np.array([np.eye(2)] * 3), r=1)
    >>> family.known.delta, family.known.proven
    (0.0, True)
    """

    delta: float
    reason: str
    substitute: ParametricFamily | None = None
    point: Point | None = None
    proven: bool = False


class MonotoneFamily(Family):
    """Feasibility problems indexed by a scalar ``delta``, feasible up to a threshold and infeasible beyond.

    A subclass defines :meth:`at`, and :func:`sdpfeas.bisect` brackets the threshold by the proved verdicts
    at a few values of ``delta``. That feasibility is monotone is assumed. If the problems are linear in
    ``delta``, a :class:`ParametricFamily` needs far fewer solves.

    Attributes
    ----------
    bracket : tuple of float
        Bounds of the threshold that are known a priori.
    unit : float
        Typical magnitude of ``delta``.
    caveat : str
        Why a search may end without a bracket, if the data suggest so; else empty.

    Examples
    --------
    The largest side of a square with a corner at the origin, inside the unit disk:

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> class Square(sf.families.MonotoneFamily):
    ...     def at(self, delta):
    ...         builder = sf.ProblemBuilder()
    ...         builder.block("x", sf.SecondOrder(3))
    ...         builder.row("radius", {"x": [1, 0, 0]}, equal=1)
    ...         builder.row("width", {"x": [0, 1, 0]}, lower=delta)
    ...         builder.row("height", {"x": [0, 0, 1]}, lower=delta)
    ...         return builder.build()
    >>> found = sf.bisect(Square(), lower=0.0, upper=1.0)
    >>> found.lower <= 0.5**0.5 <= found.upper, found.proven, found.converged
    (True, True, True)
    """

    name = ""
    caveat = ""
    sets: tuple[BlockSet, ...] = ()
    m = 0
    bracket: tuple[float, float] = (-math.inf, math.inf)
    unit = 1.0

    @classmethod
    def build(cls, options: Any) -> FeasibilityProblem | ParametricFamily:
        """Build a member from validated options."""
        raise ProblemError(f"family {cls.name or cls.__name__!r} cannot be built from a card")

    @abstractmethod
    def at(self, delta: float) -> FeasibilityProblem:
        """Return the problem at ``delta``."""

    def exact_at(self, delta: float) -> bool:
        """Return whether :meth:`at` rounds no number of the problem at ``delta``."""
        return True

    @property
    def known(self) -> KnownThreshold | None:
        """The threshold if the data determine it without a solve; else None."""
        return None

    def from_substitute(self, point: Point) -> Point:
        """Map a point of ``known.substitute`` to a point of this family."""
        return point

    def initial_points(self) -> list[Point]:
        """Return points for a first lower bound; none by default."""
        return []

    def initial_multipliers(self) -> list[FloatArray]:
        """Return multipliers for a first upper bound; none by default."""
        return []

    def estimate_delta(self, point: Point) -> float:
        """Return an estimate of the largest ``delta`` at which a point is feasible."""
        return -math.inf

    def recovered_points(self, y: FloatArray, near: float | None = None) -> list[Point]:
        """Return primal points recovered from dual multipliers; none by default."""
        return []

    def refine(
        self, points: list[Point], multipliers: list[FloatArray], tol: float
    ) -> tuple[list[Point], list[FloatArray]]:
        """Return points and multipliers with better bounds than all given ones; none by default.

        Parameters
        ----------
        points : list of tuple of ndarray
            Points found so far.
        multipliers : list of ndarray
            Multipliers found so far.
        tol : float
            Width of the bracket that is required, relative to its upper end.
        """
        return [], []

    def prove_lower(self, point: Any, above: float = -math.inf) -> Bound | None:
        """Prove a lower bound of ``delta*`` from a point; None if nothing is proved, as by default."""
        return None

    def prove_upper(
        self, y: ArrayLike, near: float | None = None, push: float = 0.0, below: float = math.inf
    ) -> Bound | None:
        """Prove an upper bound of ``delta*`` from multipliers; None if nothing is proved, as by default."""
        return None


class ParametricFamily(MonotoneFamily):
    """Feasibility problems that are linear in a scalar ``delta``, and feasible up to a threshold.

    Find ``X`` in the sets with ``lower + delta·lower_slope <= A(X) - delta·B(X) <= upper +
    delta·upper_slope``. Feasibility must be monotone: a problem that is feasible at ``delta`` is feasible at
    every smaller value. Hence there is a threshold ``delta*``, the supremum of the values at which the
    problem is feasible.

    Subclasses may override the methods that compute bounds: :meth:`project_point`, :meth:`largest_delta` and
    :meth:`point_at` for points, :meth:`normalise_multipliers`, :meth:`root` and :meth:`multipliers_at` for
    multipliers. These need not be correct: whatever they return is verified before a bound is granted.

    Parameters
    ----------
    sets : sequence of BlockSet
        One set per block.
    rows, slopes : sequence
        The maps A and B, block by block, as in :class:`FeasibilityProblem`; ``None`` for a zero map.
    lower, upper : array_like
        Bounds of the rows at ``delta = 0``.
    monotone : str
        Why feasibility is monotone.
    lower_slope, upper_slope : array_like, optional
        Change of the bounds per unit of ``delta``. Must be zero for equality constraints.
    bracket : tuple of float
        Bounds of ``delta*`` that are known a priori. The family is feasible at the lower one, unless that is
        minus infinity.
    unit : float
        Typical magnitude of ``delta``; replaces relative by absolute tolerances if the threshold is zero.
    row_names, block_names : sequence of str, optional
        Names, as in :class:`FeasibilityProblem`.

    Attributes
    ----------
    caveat : str
        Why a search may end without a bracket, if the data suggest so; else empty.

    Examples
    --------
    The largest eigenvalue of ``C``, as the maximum of ``<C, X>`` over ``X`` with trace 1:

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> from sdpfeas.families import ParametricFamily
    >>> C = np.array([[2.0, 1.0], [1.0, 2.0]])
    >>> family = ParametricFamily(
    ...     [sf.SpectralBox(2, trace=1.0)],
    ...     [C[None]],
    ...     [None],
    ...     [0.0],
    ...     [np.inf],
    ...     lower_slope=[1.0],
    ...     monotone="a point above a level is above every lower level",
    ... )
    >>> print(sf.solve(family.at(2.9)).verdict, sf.solve(family.at(3.1)).verdict)
    feasible infeasible
    >>> family.lower_bound([np.full((2, 2), 0.5)]) <= 3.0 <= family.upper_bound([1.0])
    True
    """

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
                "the bound of an equality constraint must not depend on delta; "
                "introduce a variable fixed at 1 and put delta into its coefficient"
            )
        self.m = m = int(self._lower.size)
        self._rows = [as_rows(entry, block, m) for entry, block in zip(rows, sets, strict=True)]
        self._slopes = [as_rows(entry, block, m) for entry, block in zip(slopes, sets, strict=True)]
        self._names = (row_names, block_names)
        #: Maps A and B of a block that has both, stacked, so that all problems share their storage.
        self._both = [
            None if a.empty or b.empty else Stacked([a, b])
            for a, b in zip(self._rows, self._slopes, strict=True)
        ]

    # --- problems

    @property
    def equality(self) -> np.ndarray:
        """Boolean mask of the equality constraints."""
        return np.asarray(self._lower == self._upper)

    def at(self, delta: float) -> FeasibilityProblem:
        """Return the problem at ``delta``; bounds that depend on ``delta`` are rounded to nearest.

        Parameters
        ----------
        delta : float
            Any finite number.
        """
        return self.rounded_at(delta, 0)

    def exact_at(self, delta: float) -> bool:
        """Return whether the bounds at ``delta`` are representable, so that :meth:`at` rounds none of them.

        Parameters
        ----------
        delta : float
            Any finite number.
        """
        moving = ((self._lower, self._lower_slope), (self._upper, self._upper_slope))
        return all(
            np.array_equal(shifted_bound(bound, slope, delta, 1), shifted_bound(bound, slope, delta, -1))
            for bound, slope in moving
        )

    def rounded_at(self, delta: float, inward: int) -> FeasibilityProblem:
        """Return the problem at ``delta`` with bounds rounded inwards (1), outwards (-1) or to nearest (0).

        Rows are not rounded, since ``delta`` enters them as a separate coefficient.

        Parameters
        ----------
        delta : float
            Any finite number.
        inward : int
            Direction of rounding.
        """
        delta = finite_number(delta, "delta")
        rows = [self._combined(b, delta) for b in range(len(self.sets))]
        low = shifted_bound(self._lower, self._lower_slope, delta, inward)
        high = shifted_bound(self._upper, self._upper_slope, delta, -inward)
        return FeasibilityProblem(self.sets, rows, low, high, *self._names)

    def _combined(self, b: int, delta: float) -> Rows:
        fixed, slope, both = self._rows[b], self._slopes[b], self._both[b]
        if slope.empty or delta == 0.0:
            return fixed
        moved = moved_rows(fixed, slope, delta)
        if moved is not None:
            return moved
        eye = sp.eye_array(self.m, format="csr")
        if both is None:
            return Combined(-delta * eye, slope)
        return Combined(sp.hstack([eye, -delta * eye]), both)

    @cached_property
    def _template(self) -> FeasibilityProblem:
        return self.at(self._start)

    @property
    def _start(self) -> float:
        low, high = self.bracket
        if math.isfinite(low):
            return low
        return min(0.0, high)

    # --- initial bounds and refinement

    @property
    def infinite(self) -> bool:
        """Whether the family is known to be feasible at every ``delta``."""
        return self.known is not None and self.known.delta == math.inf

    def initial_points(self) -> list[Point]:
        """Return points for a first lower bound."""
        return [tuple(block.interior_point() for block in self.sets)]

    def estimate_delta(self, point: Point) -> float:
        """Return a cheap estimate of :meth:`largest_delta` that is never much below it."""
        return self.largest_delta(point)

    # --- lower bounds

    def lower_bound(self, point: Any) -> float:
        """Return a proven lower bound of ``delta*`` from any point; minus infinity if nothing is proved.

        Parameters
        ----------
        point : tuple of ndarray
            One array per set. It need not be feasible at any ``delta``.
        """
        bound = self.prove_lower(point)
        return self.bracket[0] if bound is None else max(bound.delta, self.bracket[0])

    def prove_lower(self, point: Any, above: float = -math.inf) -> Bound | None:
        """Prove a lower bound of ``delta*`` from any point; None if nothing is proved.

        Parameters
        ----------
        point : tuple of ndarray
            One array per set.
        above : float
            Do not attempt a proof if the bound is at most this; the bound returned is then minus infinity.

        Returns
        -------
        Bound or None
            The bound with the point that proves it.
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
        """Project every block of a point onto its set."""
        return tuple(
            block.project(x) if block.distance(x) > 0.0 else x
            for block, x in zip(self.sets, point, strict=True)
        )

    def largest_delta(self, point: Point) -> float:
        """Return the largest ``delta`` whose inequality rows hold at a point, in floating point."""
        fixed = row_values(self._rows, point, self.m)
        slope = row_values(self._slopes, point, self.m)
        open_rows = ~self.equality
        best = self.bracket[1]
        # lower + delta·lower_slope <= fixed - delta·slope, and the same for the upper bounds.
        for sign, bound, move in (
            (1.0, self._lower, self._lower_slope),
            (-1.0, self._upper, self._upper_slope),
        ):
            slack, loss = sign * (fixed - bound), sign * (slope + move)
            binding = open_rows & np.isfinite(bound) & (loss > 0.0)
            best = min(best, float(np.min(slack[binding] / loss[binding], initial=math.inf)))
        return best

    def point_at(self, point: Point, delta: float) -> Point:
        """Adapt the parts of a point that depend on ``delta``; returns the point itself by default."""
        return point

    def checked_projection(self, point: Point) -> Point:
        """Return :meth:`project_point` with shapes checked and matrices symmetrised."""
        return self._template.point(self.project_point(point))

    def checked_point_at(self, point: Point, delta: float) -> Point:
        """Return :meth:`point_at` with shapes checked and matrices symmetrised."""
        return self._template.point(self.point_at(point, delta))

    # --- upper bounds

    def upper_bound(self, y: ArrayLike) -> float:
        """Return a proven upper bound of ``delta*`` from any multipliers; infinity if nothing is proved.

        Parameters
        ----------
        y : array_like
            One multiplier per row. They need not be an infeasibility certificate at any ``delta``.
        """
        bound = self.prove_upper(y)
        return self.bracket[1] if bound is None else min(bound.delta, self.bracket[1])

    def prove_upper(
        self, y: ArrayLike, near: float | None = None, push: float = 0.0, below: float = math.inf
    ) -> Bound | None:
        """Prove an upper bound of ``delta*`` from any multipliers; None if nothing is proved.

        Parameters
        ----------
        y : array_like
            One multiplier per row.
        near : float, optional
            Value of ``delta`` at which the multipliers were computed, as a start for root finding.
        push : float
            How much the bound may be increased, relative to its size, for a cheaper proof.
        below : float
            Do not attempt a proof if the bound is at least this; the bound returned is then infinity.

        Returns
        -------
        Bound or None
            The bound with the certificate that proves it.
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
        """Scale multipliers to size one and set multipliers of the wrong sign to zero."""
        y = y * 2.0 ** -np.floor(np.log2(np.max(np.abs(y))))
        return np.where(sign_violation(self._template, y) > 0.0, 0.0, y)

    def root(self, y: FloatArray, near: float | None = None, accuracy: float = EXACT) -> Root:
        """Return the smallest ``delta`` that multipliers prove infeasible, in floating-point arithmetic.

        Parameters
        ----------
        y : ndarray
            Normalised multipliers.
        near : float, optional
            Start of the root finding.
        accuracy : float
            Sufficient relative accuracy. The root is approached from below.
        """
        fixed = adjoints(self._rows, y)
        slope = adjoints(self._slopes, y)
        up, down = y > 0.0, y < 0.0
        beta = float(self._lower[up] @ y[up] + self._upper[down] @ y[down])
        beta_slope = float(self._lower_slope[up] @ y[up] + self._upper_slope[down] @ y[down])
        start = self._start if math.isfinite(self.bracket[0]) or near is None else near
        return certificate_root(self.sets, fixed, slope, beta, beta_slope, start, self.unit, accuracy)

    def multipliers_at(self, y: FloatArray, delta: float) -> FloatArray:
        """Adapt the multipliers that depend on ``delta``; returns them unchanged by default."""
        return y

    def checked_multipliers_at(self, y: FloatArray, delta: float) -> FloatArray:
        """Return :meth:`multipliers_at` with its shape checked."""
        return self._template.multipliers(self.multipliers_at(y, delta))

    # --- the equivalent conic program

    def conic_program(self) -> ConicProgram | None:
        """Return a conic program whose optimal value is ``delta*`` up to a factor; None if there is none."""
        return None

    def subspace_restriction(self) -> SubspaceRestriction | None:
        """Return the restriction to subspaces if the dimension is large enough to need it; else None."""
        return None

    def program_point(self, point: Point) -> Point:
        """Map a point of :meth:`conic_program` to a point of the family."""
        return point

    def program_multipliers(self, y: FloatArray) -> FloatArray:
        """Map multipliers of :meth:`conic_program` to multipliers of the rows of the family."""
        return y

    def describe(self) -> Mapping[str, Any]:
        """Return sizes and other facts as plain data."""
        return {"family": self.name, "rows": self.m, "blocks": [block.spec() for block in self.sets]}

    def __repr__(self) -> str:
        """Return the class name, the sets and the number of rows."""
        sets = ", ".join(f"{block.kind}({block.n})" for block in self.sets)
        return f"{type(self).__name__}: {sets}; {self.m} rows"


# --- Rows and bounds that depend on delta

#: Largest finite number: values beyond it are rounded to infinity outwards and to this number inwards.
_LARGEST = Fraction(float(np.finfo(np.float64).max))


def shifted_bound(bound: FloatArray, slope: FloatArray, delta: float, direction: int) -> FloatArray:
    """Return ``bound + delta·slope``, rounded up (1), down (-1) or to nearest (0)."""
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


def moved_rows(fixed: Rows, slope: Rows, delta: float) -> Rows | None:
    """Return sparse rows ``fixed - delta·slope`` on a vector block; None if a number would be rounded."""
    if slope.matrix or not isinstance(slope, Sparse) or not isinstance(fixed, (Sparse, NoRows)):
        return None
    with np.errstate(over="ignore"):
        base, step = fixed.to_csr(), slope.to_csr() * -delta
    mantissas, exponents = np.frexp(slope.array.data)
    # Exponents of the slopes themselves: 2·product may be representable where the product is not.
    exact = np.ldexp(np.abs(step.data), 1 - exponents) == abs(delta)
    if not (np.all(exact) and np.all(np.abs(mantissas) == 0.5)):
        return None
    # Entries of both, and products that underflow, have no place of their own in the sum.
    total = sp.csr_array(base + step)
    if total.nnz != base.nnz + step.nnz:
        return None
    return Sparse.unchecked(total, slope.n, False)


def row_values(rows: Sequence[Rows], point: Point, m: int) -> FloatArray:
    """Evaluate all rows at a point."""
    return sum((part.apply(x) for part, x in zip(rows, point, strict=True)), np.zeros(m))


def adjoints(rows: Sequence[Rows], y: FloatArray) -> Point:
    """Return ``A*y``, block by block."""
    return tuple(part.adjoint(y) for part in rows)


def column(start: int, stop: int, m: int, value: float = 1.0) -> Sparse:
    """Return rows on a scalar block: ``value`` in the rows ``start:stop``, zero in the others."""
    count = stop - start
    ends = np.clip(np.arange(m + 1) - start, 0, count)
    parts = np.full(count, value), np.zeros(count, dtype=np.int64), ends
    return Sparse.unchecked(sp.csr_array(parts, (m, 1)), 1, False)
