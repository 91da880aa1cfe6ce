"""Sets: the blocks a variable is made of.

Each set knows its exact projection, its support function, the distance of a point from it, and how deep
inside it a point lies. Spectral sets (``PSD``, ``SpectralBox``) act on eigenvalues, so their formulas are
written once on vectors (``*_spectrum``) and once lifted to matrices.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray, eigh, eigvalsh, spectral_matrix, symmetrize
from sdpfeas.problem.validation import finite_number

__all__ = ["PSD", "BlockSet", "Free", "Nonneg", "SpectralBox", "set_from_spec"]

#: A trace may leave ``[n·lower, n·upper]`` by this much, relative to the ends, and is then moved to the
#: end: 0.1·3 is not 0.3 in floating point.
TRACE_ROUNDING = 1e-14

#: No array could hold a larger block.
LARGEST_SIDE = 2**31 - 1


@dataclass(frozen=True)
class BlockSet(ABC):
    """One block of the variable; the base class of every set.

    Parameters
    ----------
    n : int
        Side of the matrix, or length of the vector.
    """

    n: int
    #: Whether members are symmetric n×n matrices (else vectors of length n).
    matrix: ClassVar[bool]
    #: Name used in files and hashes.
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, (int, np.integer)):
            raise ProblemError(f"{self.kind}: n must be an integer, got {self.n!r}")
        if self.n < 1:
            raise ProblemError(f"{self.kind}: n must be at least 1, got {self.n}")
        if self.n > LARGEST_SIDE:
            raise ProblemError(f"{self.kind}: n must be at most {LARGEST_SIDE}")
        object.__setattr__(self, "n", int(self.n))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a member's array."""
        return (self.n, self.n) if self.matrix else (self.n,)

    @property
    def bounded(self) -> bool:
        """Whether the set is compact."""
        return False

    @abstractmethod
    def project_spectrum(self, lam: FloatArray) -> FloatArray:
        """Nearest member of the set's spectrum (or of the set itself, for vectors)."""

    @abstractmethod
    def support_spectrum(self, lam: FloatArray) -> float:
        """Support function of the set's spectrum (or of the set itself, for vectors)."""

    @abstractmethod
    def depth_spectrum(self, lam: FloatArray) -> float:
        """Signed distance of a spectrum from the boundary; positive inside."""

    @abstractmethod
    def interior_point(self) -> FloatArray:
        """Return a member in the (relative) interior, or the only member."""

    def spec(self) -> dict[str, Any]:
        """Parameters as plain data, for files and hashes."""
        return {"kind": self.kind, "n": self.n}

    def spectrum(self, x: FloatArray) -> FloatArray:
        """Eigenvalues of a matrix; a vector is its own spectrum."""
        return eigvalsh(symmetrize(x)) if self.matrix else x

    def project(self, x: FloatArray) -> FloatArray:
        """Nearest member in the Frobenius norm.

        Parameters
        ----------
        x : ndarray
            Point of the set's shape; a matrix is symmetrised first.

        Returns
        -------
        ndarray
            The projection, exactly symmetric.
        """
        if not self.matrix:
            return self.project_spectrum(x)
        lam, vec = eigh(symmetrize(x))
        return spectral_matrix(vec, self.project_spectrum(lam))

    def support(self, g: FloatArray) -> float:
        """Largest inner product of ``g`` with a member; may be infinity."""
        return self.support_spectrum(self.spectrum(g))

    def distance(self, x: FloatArray) -> float:
        """Frobenius distance of ``x`` from the set."""
        lam = self.spectrum(x)
        apart = lam - self.project_spectrum(lam)
        skew = 0.5 * (x - x.T) if self.matrix else np.zeros(0)
        return float(math.hypot(np.linalg.norm(apart), np.linalg.norm(skew)))

    def depth(self, x: FloatArray) -> float:
        """Distance of ``x`` from the boundary in eigenvalue terms; negative outside.

        For a ``SpectralBox`` with a trace this is the depth in the relative interior: the trace itself
        is not looked at.
        """
        return self.depth_spectrum(self.spectrum(x))

    def contains_interior(self, x: FloatArray, *, tolerance: float = 1e-12) -> bool:
        """Whether ``x`` lies in the (relative) interior.

        Parameters
        ----------
        x : ndarray
            Point of the set's shape.
        tolerance : float
            Rounding allowed in the trace, relative to its size.
        """
        return self.depth(x) > 0.0


class _Cone(BlockSet):
    """Everything with a non-negative spectrum."""

    def project_spectrum(self, lam: FloatArray) -> FloatArray:
        """Clip at zero."""
        return np.maximum(lam, 0.0)

    def support_spectrum(self, lam: FloatArray) -> float:
        """Zero for a direction with no positive part, else infinity."""
        return 0.0 if np.max(lam) <= 0.0 else math.inf

    def depth_spectrum(self, lam: FloatArray) -> float:
        """Smallest eigenvalue, or entry."""
        return float(np.min(lam))


@dataclass(frozen=True)
class PSD(_Cone):
    """Symmetric positive semidefinite n×n matrices."""

    matrix = True
    kind = "PSD"

    def interior_point(self) -> FloatArray:
        """Return the identity."""
        return np.eye(self.n)


@dataclass(frozen=True)
class Nonneg(_Cone):
    """Vectors with non-negative entries."""

    matrix = False
    kind = "Nonneg"

    def interior_point(self) -> FloatArray:
        """Return the vector of ones."""
        return np.ones(self.n)


@dataclass(frozen=True)
class Free(BlockSet):
    """Vectors without restriction."""

    matrix = False
    kind = "Free"

    def project_spectrum(self, lam: FloatArray) -> FloatArray:
        """Return the vector as it is."""
        return np.array(lam, dtype=np.float64)

    def support_spectrum(self, lam: FloatArray) -> float:
        """Zero for the zero direction, else infinity."""
        return math.inf if np.any(lam != 0.0) else 0.0

    def depth_spectrum(self, lam: FloatArray) -> float:
        """Infinity: there is no boundary."""
        return math.inf

    def interior_point(self) -> FloatArray:
        """Return the zero vector."""
        return np.zeros(self.n)


@dataclass(frozen=True)
class SpectralBox(BlockSet):
    """Symmetric matrices with ``lower·I <= Z <= upper·I`` and, if given, ``tr Z = trace``.

    With bounds (0, 1) and an integer trace r it is the Fantope, the convex hull of the rank-r projectors.

    Parameters
    ----------
    n : int
        Side of the matrix.
    lower, upper : float
        Bounds on the eigenvalues; finite.
    trace : float, optional
        Prescribed trace, within ``[n·lower, n·upper]``. One that is outside by rounding only (0.3 is less
        than 3·0.1) is moved to the end; ``trace`` then says what it is. Where the bounds are equal it says
        nothing new and is dropped.
    """

    lower: float = 0.0
    upper: float = 1.0
    trace: float | None = None

    matrix = True
    kind = "SpectralBox"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lower", "upper", "trace"):
            value = getattr(self, name)
            if value is None and name == "trace":
                continue
            hint = "; use PSD(n) for an unbounded block" if name == "upper" else ""
            object.__setattr__(self, name, finite_number(value, f"SpectralBox: {name}", hint))
        if self.lower > self.upper:
            raise ProblemError(
                f"SpectralBox: the set is empty, lower = {self.lower} exceeds upper = {self.upper}"
            )
        if not math.isfinite(2.0 * self.n * max(abs(self.lower), abs(self.upper))):
            raise ProblemError(f"SpectralBox: n times the bounds {self.lower} and {self.upper} overflows")
        if self.trace is not None:
            # n·lower is seldom a floating-point number: compare with what it is, not with its rounding.
            low, high = self.n * Fraction(self.lower), self.n * Fraction(self.upper)
            slack = Fraction(TRACE_ROUNDING) * max(abs(low), abs(high))
            if not low - slack <= self.trace <= high + slack:
                raise ProblemError(
                    f"SpectralBox: the set is empty, trace = {self.trace} is outside "
                    f"[n·lower, n·upper] = [{float(low)}, {float(high)}]"
                )
            inside = None if low == high else nearest_between(Fraction(self.trace), low, high)
            object.__setattr__(self, "trace", inside)

    @property
    def bounded(self) -> bool:
        """A box is compact."""
        return True

    @property
    def rank(self) -> float:
        """How many eigenvalues sit at ``upper`` at an extreme point; fractional where it does not fit."""
        if self.trace is None:
            return 0.0
        rank = (self.trace - self.n * self.lower) / (self.upper - self.lower)
        return min(rank, float(self.n))

    @property
    def nuclear_radius(self) -> float:
        """Upper bound of the nuclear norm over the set."""
        if self.lower >= 0.0 and self.trace is not None:
            return self.trace
        return self.n * max(abs(self.lower), abs(self.upper))

    def spec(self) -> dict[str, Any]:
        """Parameters as plain data, for files and hashes."""
        return super().spec() | {"lower": self.lower, "upper": self.upper, "trace": self.trace}

    def project_spectrum(self, lam: FloatArray) -> FloatArray:
        """Clip ``lam - theta`` to the bounds, ``theta`` the exact root that gives the trace."""
        if self.trace is None:
            return np.clip(lam, self.lower, self.upper)
        # A common shift changes nothing, and what is further than the width of the box from the eigenvalue
        # where the trace runs out is at a bound: so rounding is relative to the box, not to lam.
        pivot = np.sort(lam)[::-1][min(int(self.rank), self.n - 1)]
        width = self.upper - self.lower
        with np.errstate(over="ignore"):
            lam = np.clip(lam - pivot, -width, width)
        return np.clip(lam - self._theta(lam), self.lower, self.upper)

    def _theta(self, lam: FloatArray) -> float:
        """Root of ``sum(clip(lam - theta, lower, upper)) = trace``, piecewise linear and falling."""
        assert self.trace is not None
        n, low, high = self.n, self.lower, self.upper
        ascending = np.sort(lam)
        sums = np.concatenate([[0.0], np.cumsum(ascending)])
        knots = np.sort(np.concatenate([ascending - high, ascending - low]))
        at_low = np.searchsorted(ascending, knots + low, side="right")
        at_high = n - np.searchsorted(ascending, knots + high, side="left")
        middle = sums[np.maximum(n - at_high, at_low)] - sums[at_low]
        free = np.maximum(n - at_high - at_low, 0)
        totals = middle - free * knots + low * at_low + high * at_high
        # totals fall along knots; the root lies between the last total >= trace and the next knot.
        k = int(np.searchsorted(-totals, -self.trace, side="right")) - 1
        if k < 0:
            return float(knots[0])
        if k >= knots.size - 1:
            return float(knots[-1])
        probe = 0.5 * (knots[k] + knots[k + 1])
        inside = (lam - probe > low) & (lam - probe < high)
        count = int(inside.sum())
        if count == 0:
            return float(probe)
        fixed = high * int((lam - probe >= high).sum()) + low * int((lam - probe <= low).sum())
        theta = (float(lam[inside].sum()) + fixed - self.trace) / count
        return float(min(max(theta, knots[k]), knots[k + 1]))

    def support_spectrum(self, lam: FloatArray) -> float:
        """``lower·sum + (upper - lower)·(sum of the largest)``; without a trace, eigenvalue by eigenvalue."""
        if self.trace is None:
            return float(np.sum(np.maximum(self.upper * lam, self.lower * lam)))
        descending = np.sort(lam)[::-1]
        whole = math.floor(self.rank)
        top = float(np.sum(descending[:whole]))
        if whole < self.n:
            top += (self.rank - whole) * float(descending[whole])
        return self.lower * float(np.sum(lam)) + (self.upper - self.lower) * top

    def depth_spectrum(self, lam: FloatArray) -> float:
        """Least distance of an eigenvalue from the bounds."""
        return float(min(np.min(lam) - self.lower, self.upper - np.max(lam)))

    def contains_interior(self, x: FloatArray, *, tolerance: float = 1e-12) -> bool:
        """Whether ``x`` lies in the (relative) interior, the trace being right to rounding."""
        if self.trace is not None:
            scale = max(abs(self.trace), self.n * max(abs(self.lower), abs(self.upper)))
            if abs(float(np.trace(x)) - self.trace) > tolerance * scale:
                return False
        return self.depth(x) > 0.0

    def interior_point(self) -> FloatArray:
        """Return the multiple of the identity in the middle."""
        middle = 0.5 * (self.lower + self.upper) if self.trace is None else self.trace / self.n
        return middle * np.eye(self.n)


def nearest_between(value: Fraction, low: Fraction, high: Fraction) -> float:
    """Floating-point number between ``low`` and ``high`` (exactly) that is nearest to ``value``."""
    number = float(min(max(value, low), high))
    if Fraction(number) < low:
        number = math.nextafter(number, math.inf)
    if Fraction(number) > high:
        number = math.nextafter(number, -math.inf)
    if not low <= Fraction(number) <= high:
        raise ProblemError(f"no floating-point number lies between {float(low)!r} and {float(high)!r}")
    return number


_KINDS: dict[str, type[BlockSet]] = {c.kind: c for c in (PSD, Nonneg, Free, SpectralBox)}


def set_from_spec(spec: dict[str, Any]) -> BlockSet:
    """Build a set from what :meth:`BlockSet.spec` returned."""
    spec = dict(spec)
    kind = spec.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ProblemError(f"unknown set kind {kind!r}; known: {', '.join(_KINDS)}")
    try:
        return _KINDS[kind](**spec)
    except TypeError as error:
        raise ProblemError(f"set {kind}: {error}") from None
