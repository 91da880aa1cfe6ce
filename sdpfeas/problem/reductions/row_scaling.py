"""Row scaling by powers of two, exact in floating point: ``A_i`` → ``2^k A_i``, multipliers ``2^k y_i``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import TINY
from sdpfeas.problem.reductions.base import Reduction, changed
from sdpfeas.problem.rows.base import value_range

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem

#: Limits of the binary exponents of the factors, tried in this order until no number over- or underflows.
EXPONENTS = (500, 100, 20, 0)


@dataclass(frozen=True)
class RowScaling(Reduction):
    """A problem with scaled rows and LMIs; it has the same points.

    ``factors``: those of the multipliers, one per row, then one per entry of every LMI.
    """

    factors: FloatArray

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Multiply by the factors."""
        return self.problem.multipliers(y) * self.factors

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Divide by the factors."""
        return self.original.multipliers(y) / self.factors


def power_of_two(sizes: FloatArray, most: int = EXPONENTS[0]) -> FloatArray:
    """Return powers of two that scale positive ``sizes`` into [1/2, 2); 1 for a size of zero.

    ``most``: limit of the magnitude of the exponents.
    """
    out = np.ones_like(sizes)
    positive = sizes > 0.0
    out[positive] = 2.0 ** np.clip(-np.floor(np.log2(sizes[positive])), -most, most)
    return out


def _exact_factors(problem: FeasibilityProblem) -> FloatArray:
    """Return a power of two per row such that scaling the problem involves no rounding."""
    bounds = np.concatenate([problem.lower, problem.upper])
    ranges = [rows.value_range for rows in problem.rows]
    ranges.append(value_range(bounds[np.isfinite(bounds)]))
    smallest, largest = min(r[0] for r in ranges), max(r[1] for r in ranges)
    for most in EXPONENTS:
        factors = power_of_two(problem.norms, most)
        low, high = np.min(factors, initial=1.0), np.max(factors, initial=1.0)
        if smallest * low >= TINY and largest <= np.finfo(np.float64).max / high:
            break
    return factors


def scale_rows(problem: FeasibilityProblem) -> RowScaling:
    """Scale the rows of a problem to norm about one; multipliers are mapped without rounding."""
    factors = _exact_factors(problem)
    rows = [r.scaled(factors) for r in problem.rows]
    scaled = changed(problem, rows=rows, lower=problem.lower * factors, upper=problem.upper * factors)
    unscaled = np.ones(problem.multiplier_count - problem.m)
    return RowScaling(problem, scaled, np.append(factors, unscaled))
