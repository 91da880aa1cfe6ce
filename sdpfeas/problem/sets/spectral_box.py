"""Symmetric matrices ``lower·I <= Z <= upper·I``, optionally with ``tr Z = trace`` (a scaled Fantope).

Projection: eigenvalues ``clip(lam - theta, lower, upper)``, with ``theta`` such that the trace holds (0
without one). Support function: ``lower·tr G + (upper - lower)·s``, where ``s`` is the sum of the positive
eigenvalues of G or, with a trace, of the largest ``(trace - n·lower) / (upper - lower)`` ones (the last one
in part).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray, leading_pairs
from sdpfeas.numerics.rounding import (
    TINY,
    eigenvalue_enclosure,
    gamma,
    inflate,
    largest_sum_upper,
    norm_upper,
    product_up,
    quotient_up,
    sqrt_upper,
    sum_lower,
    sum_up,
    sum_upper,
    symmetric_norm_upper,
)
from sdpfeas.problem.sets.base import MatrixSet, Maximiser
from sdpfeas.problem.validation import finite_number

__all__ = ["SpectralBox", "nearest_between"]

#: A trace may leave ``[n·lower, n·upper]`` by this much, relative to the ends, and is then moved to the
#: end: 0.1·3 is not 0.3 in floating point.
TRACE_ROUNDING = 1e-14


@dataclass(frozen=True)
class SpectralBox(MatrixSet):
    """Symmetric matrices with ``lower·I <= Z <= upper·I`` and, if given, ``tr Z = trace``.

    With bounds (0, 1) and an integer trace r it is the Fantope, the convex hull of the rank-r projectors.

    Parameters
    ----------
    n : int
        Side of the matrix.
    lower, upper : float
        Bounds on the eigenvalues; finite.
    trace : float, optional
        Prescribed trace, within ``[n·lower, n·upper]``. A trace outside this interval by rounding only (0.3
        is less than 3·0.1) is replaced by the end of the interval. If ``lower = upper`` the trace is
        redundant and the attribute is None.

    Examples
    --------
    The Fantope of trace 1; its support function is the largest eigenvalue:

    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> fantope = sf.SpectralBox(3, 0.0, 1.0, trace=1.0)
    >>> print(np.diag(fantope.project(np.diag([2.0, 0.5, 0.0]))))
    [1. 0. 0.]
    >>> fantope.support(np.diag([2.0, 0.5, 0.0]))
    2.0
    """

    lower: float = 0.0
    upper: float = 1.0
    trace: float | None = None

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
        if not math.isfinite(2.0 * self.n * self.spectral_radius):
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
        return super().nuclear_radius

    @property
    def radius(self) -> float:
        """Frobenius radius: how far members are from the middle at most."""
        width = self.upper - self.lower
        if self.trace is None:
            return 0.5 * width * math.sqrt(self.n)
        return width * math.sqrt(max(self.rank * (1.0 - self.rank / self.n), 0.0))

    @property
    def middle(self) -> float:
        """Half way between the bounds, or what has the trace."""
        return 0.5 * (self.lower + self.upper) if self.trace is None else self.trace / self.n

    def spec(self) -> dict[str, Any]:
        """Parameters as plain data, for files and hashes."""
        return super().spec() | {"lower": self.lower, "upper": self.upper, "trace": self.trace}

    def project_spectrum(self, lam: FloatArray) -> FloatArray:
        """Clip ``lam - theta`` to the bounds, ``theta`` the exact root that gives the trace."""
        if self.trace is None:
            return np.clip(lam, self.lower, self.upper)
        # A common shift changes nothing, and what is further than the width of the box from the eigenvalue
        # where the trace runs out is at a bound: so rounding is relative to the box, not to lam.
        width = self.upper - self.lower
        with np.errstate(over="ignore"):
            lam = np.clip(lam - self.threshold(lam), -width, width)
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

    def maximiser_spectrum(self, lam: FloatArray) -> FloatArray:
        """Upper bound where an eigenvalue is positive; with a trace, at the largest ones."""
        if self.trace is None:
            return np.where(lam > 0.0, self.upper, self.lower)
        weights = np.zeros(self.n)
        whole = math.floor(self.rank)
        weights[self.n - whole :] = 1.0
        if whole < self.n:
            weights[self.n - whole - 1] = self.rank - whole
        return self.lower + (self.upper - self.lower) * weights

    def maximiser(self, g: FloatArray) -> Maximiser:
        """Where the inner product with ``g`` is largest; the leading eigenvectors do, if no other counts."""
        if self.lower != 0.0 or not self.trace:
            return super().maximiser(g)
        weights = self.maximiser_spectrum(np.zeros(self.n))
        weights = weights[weights > 0.0]
        lam, vec = leading_pairs(g, weights.size)
        size = float(np.max(np.sqrt(np.einsum("ij,ij->i", g, g))))
        return Maximiser(lam, weights, vec, max(size, float(np.max(np.abs(lam), initial=0.0))))

    def threshold(self, lam: FloatArray) -> float:
        """Eigenvalue where the trace runs out; zero without a trace."""
        return 0.0 if self.trace is None else float(np.sort(lam)[::-1][min(int(self.rank), self.n - 1)])

    def scaled(self, factor: float) -> SpectralBox:
        """Return the set of all ``factor·X``."""
        trace = None if self.trace is None else self.trace * factor
        return SpectralBox(self.n, self.lower * factor, self.upper * factor, trace)

    def shrunk(self, margin: float) -> SpectralBox:
        """Return the box with its bounds pulled to its middle by a share of the way."""
        lower, upper = (bound + margin * (self.middle - bound) for bound in (self.lower, self.upper))
        return SpectralBox(self.n, lower, upper, self.trace)

    def distance_upper(self, x: FloatArray) -> float:
        """Strictly inside, what the trace is off; else what the eigenvalues are off as well."""
        if self.trace is not None and not (
            self.n * Fraction(self.lower) <= Fraction(self.trace) <= self.n * Fraction(self.upper)
        ):
            return math.inf
        room = float(quotient_up(self.trace_missed(x), self.n))
        if self.proves_inside(x, room):
            # A shift of the diagonal makes up for the trace.
            return float(product_up(room, sqrt_upper(self.n)))
        lam, _, error = eigenvalue_enclosure(x)
        target = self.project_spectrum(lam)
        off = norm_upper(inflate(np.abs(lam - target), 2))
        # An exact spectrum with the right trace is no further from the target than its sum is off.
        missed = 0.0 if self.trace is None else _sum_missed(target, self.trace)
        return float(sum_up(off, product_up(error, sqrt_upper(self.n)), missed))

    def proves_inside(self, x: FloatArray, room: float = 0.0, *, graded: bool = True) -> bool:
        """Prove it as for any other set, or of the matrix as a whole: few of its eigenvalues may be large."""
        whole = super().proves_inside(x, room, graded=False)
        return whole or (graded and super().proves_inside(x, room))

    def proves_near(self, x: FloatArray, error: FloatArray, slip: float) -> bool:
        """Prove that all matrices near ``x`` are between the bounds; a trace has to be met by ``x`` alone."""
        if not error.any() and slip == 0.0:
            return self.distance_upper(x) == 0.0
        return self.trace is None and self.proves_inside(x, float(sum_up(symmetric_norm_upper(error), slip)))

    def support_upper(
        self, g: FloatArray, error: FloatArray, slip: float, moves: np.ndarray | None
    ) -> tuple[float, float]:
        """By a few leading eigenvectors and a Cholesky factor, or else by all eigenvalues."""
        if self.lower == 0.0 and self.upper == 1.0 and self.trace is not None and self.trace < self.n:
            found, largest = largest_sum_upper(g, self.trace)
            if math.isfinite(found):
                off = product_up(self.trace, sum_up(symmetric_norm_upper(error), slip))
                return float(sum_up(found, off)), self.trace * largest
        lam, _, radius = eigenvalue_enclosure(g)
        bound = self.spectral_radius
        total = inflate(np.sum(np.abs(lam)), self.n)
        rounding = product_up(2.0 * gamma(8 * self.n + 32), bound, total)
        spread = sum_up(radius, symmetric_norm_upper(error), slip)
        lost = 64.0 * self.n * TINY * (1.0 + bound)  # what underflow may have taken
        # The nuclear radius may have been rounded itself.
        extra = sum_up(product_up(inflate(self.nuclear_radius, 2), spread), rounding, lost)
        size = self.nuclear_radius * float(np.max(np.abs(lam)))
        return float(sum_up(self.support_spectrum(lam), extra)), size

    def trace_missed(self, x: FloatArray) -> float:
        """Proven bound of how far the sum of the diagonal is from the trace."""
        return 0.0 if self.trace is None else _sum_missed(np.diagonal(x), self.trace)


def _sum_missed(values: FloatArray, total: float) -> float:
    """Proven bound of how far the exact sum of values is from a number."""
    terms = np.append(values, -total)
    return max(sum_upper(terms), -sum_lower(terms), 0.0)


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
