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

#: Distance of a trace from ``[n·lower, n·upper]``, relative to the larger end, that counts as rounding (0.1·3
#: is not 0.3 in floating point); the trace is then replaced by the nearest end.
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
            # n·lower is rounded in floating point: compare with the exact product.
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
        """``(trace - n·lower) / (upper - lower)``, the eigenvalues at ``upper`` at an extreme point."""
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
        """Largest Frobenius distance of a member from ``middle·I``."""
        width = self.upper - self.lower
        if self.trace is None:
            return 0.5 * width * math.sqrt(self.n)
        return width * math.sqrt(max(self.rank * (1.0 - self.rank / self.n), 0.0))

    @property
    def middle(self) -> float:
        """``(lower + upper) / 2``, or ``trace / n`` with a prescribed trace."""
        return 0.5 * (self.lower + self.upper) if self.trace is None else self.trace / self.n

    def spec(self) -> dict[str, Any]:
        """Return the parameters as plain data, for files and hashes."""
        return super().spec() | {"lower": self.lower, "upper": self.upper, "trace": self.trace}

    def project_spectrum(self, lam: FloatArray) -> FloatArray:
        """Return ``clip(lam - theta, lower, upper)``; theta gives the prescribed trace, or is 0."""
        if self.trace is None:
            return np.clip(lam, self.lower, self.upper)
        # The projection is invariant under a common shift of lam, and eigenvalues further than the width of
        # the box from the threshold are projected to a bound. So rounding is relative to the box, not to lam.
        width = self.upper - self.lower
        with np.errstate(over="ignore"):
            lam = np.clip(lam - self.threshold(lam), -width, width)
        return np.clip(lam - self._theta(lam), self.lower, self.upper)

    def _theta(self, lam: FloatArray) -> float:
        """Solve ``sum(clip(lam - theta, lower, upper)) = trace``, piecewise linear and non-increasing."""
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
        # totals decrease along knots; the root lies between the last knot with total >= trace and the next.
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
        """Return ``lower·sum(lam) + (upper - lower)·s``; s sums the ``rank`` largest or the positive ones."""
        if self.trace is None:
            return float(np.sum(np.maximum(self.upper * lam, self.lower * lam)))
        descending = np.sort(lam)[::-1]
        whole = math.floor(self.rank)
        top = float(np.sum(descending[:whole]))
        if whole < self.n:
            top += (self.rank - whole) * float(descending[whole])
        return self.lower * float(np.sum(lam)) + (self.upper - self.lower) * top

    def maximiser_spectrum(self, lam: FloatArray) -> FloatArray:
        """Return ``upper`` at positive eigenvalues or, with a trace, the ``rank`` largest; else ``lower``."""
        if self.trace is None:
            return np.where(lam > 0.0, self.upper, self.lower)
        weights = np.zeros(self.n)
        whole = math.floor(self.rank)
        weights[self.n - whole :] = 1.0
        if whole < self.n:
            weights[self.n - whole - 1] = self.rank - whole
        return self.lower + (self.upper - self.lower) * weights

    def maximiser(self, g: FloatArray) -> Maximiser:
        """Maximise ``<g, X>``; with ``lower = 0`` and a trace only leading eigenvectors are computed."""
        if self.lower != 0.0 or not self.trace:
            return super().maximiser(g)
        weights = self.maximiser_spectrum(np.zeros(self.n))
        weights = weights[weights > 0.0]
        lam, vec = leading_pairs(g, weights.size)
        size = float(np.max(np.sqrt(np.einsum("ij,ij->i", g, g))))
        return Maximiser(lam, weights, vec, max(size, float(np.max(np.abs(lam), initial=0.0))))

    def threshold(self, lam: FloatArray) -> float:
        """Return the largest eigenvalue after the ``floor(rank)`` leading ones; zero without a trace."""
        return 0.0 if self.trace is None else float(np.sort(lam)[::-1][min(int(self.rank), self.n - 1)])

    def scaled(self, factor: float) -> SpectralBox:
        """Return the set of all ``factor·X``."""
        trace = None if self.trace is None else self.trace * factor
        return SpectralBox(self.n, self.lower * factor, self.upper * factor, trace)

    def shrunk(self, margin: float) -> SpectralBox:
        """Return the box with bounds ``(1 - margin)·bound + margin·middle`` and the same trace."""
        lower, upper = (bound + margin * (self.middle - bound) for bound in (self.lower, self.upper))
        return SpectralBox(self.n, lower, upper, self.trace)

    def distance_upper(self, x: FloatArray) -> float:
        """Bound the trace error if x is proved strictly inside; else add the distance of the eigenvalues."""
        if self.trace is not None and not (
            self.n * Fraction(self.lower) <= Fraction(self.trace) <= self.n * Fraction(self.upper)
        ):
            return math.inf
        shift = float(quotient_up(self.trace_missed(x), self.n))
        if self.proves_inside(x, shift):
            # Adding a multiple of the identity of this size corrects the trace.
            return float(product_up(shift, sqrt_upper(self.n)))
        lam, _, error = eigenvalue_enclosure(x)
        target = self.project_spectrum(lam)
        off = norm_upper(inflate(np.abs(lam - target), 2))
        # A spectrum with the prescribed sum lies within the error of the sum of the target.
        missed = 0.0 if self.trace is None else _sum_missed(target, self.trace)
        return float(sum_up(off, product_up(error, sqrt_upper(self.n)), missed))

    def proves_inside(self, x: FloatArray, margin: float = 0.0, *, graded: bool = True) -> bool:
        """Prove as in :meth:`MatrixSet.proves_inside`; try without row scaling first."""
        whole = super().proves_inside(x, margin, graded=False)
        return whole or (graded and super().proves_inside(x, margin))

    def proves_near(self, x: FloatArray, error: FloatArray, slip: float) -> bool:
        """Prove that all matrices near ``x`` are members; with a trace, only of ``x`` itself."""
        if not error.any() and slip == 0.0:
            return self.distance_upper(x) == 0.0
        return self.trace is None and self.proves_inside(x, float(sum_up(symmetric_norm_upper(error), slip)))

    def support_upper(
        self, g: FloatArray, error: FloatArray, slip: float, moves: np.ndarray | None
    ) -> tuple[float, float]:
        """Bound by leading eigenvectors and a Cholesky factor (Fantope), or by all eigenvalues."""
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
        lost = 64.0 * self.n * TINY * (1.0 + bound)  # bound of the underflow errors
        # inflate covers the rounding of the nuclear radius itself.
        extra = sum_up(product_up(inflate(self.nuclear_radius, 2), spread), rounding, lost)
        size = self.nuclear_radius * float(np.max(np.abs(lam)))
        return float(sum_up(self.support_spectrum(lam), extra)), size

    def trace_missed(self, x: FloatArray) -> float:
        """Return a proven upper bound of ``|tr x - trace|``."""
        return 0.0 if self.trace is None else _sum_missed(np.diagonal(x), self.trace)


def _sum_missed(values: FloatArray, total: float) -> float:
    """Return a proven upper bound of ``|sum(values) - total|``."""
    terms = np.append(values, -total)
    return max(sum_upper(terms), -sum_lower(terms), 0.0)


def nearest_between(value: Fraction, low: Fraction, high: Fraction) -> float:
    """Return the floating-point number in the exact interval [low, high] that is nearest to ``value``."""
    number = float(min(max(value, low), high))
    if Fraction(number) < low:
        number = math.nextafter(number, math.inf)
    if Fraction(number) > high:
        number = math.nextafter(number, -math.inf)
    if not low <= Fraction(number) <= high:
        raise ProblemError(f"no floating-point number lies between {float(low)!r} and {float(high)!r}")
    return number
