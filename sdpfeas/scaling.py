"""Row scaling by powers of two: exact both ways in floating point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sdpfeas.linalg import FloatArray

if TYPE_CHECKING:
    from sdpfeas.problem import FeasibilityProblem

__all__ = ["Scaling", "power_of_two", "scale_rows"]


@dataclass(frozen=True)
class Scaling:
    """A problem with scaled rows, and the way back.

    Attributes
    ----------
    original, problem : FeasibilityProblem
        The problem before and after scaling; they have the same points.
    factors : ndarray
        The power of two each row was multiplied by.
    """

    original: FeasibilityProblem
    problem: FeasibilityProblem
    factors: FloatArray

    def certificate(self, y: FloatArray) -> FloatArray:
        """Map a certificate of the original problem to the scaled one."""
        return y / self.factors

    def unscale_certificate(self, y: FloatArray) -> FloatArray:
        """Map a certificate of the scaled problem to the original one."""
        return y * self.factors


def power_of_two(sizes: FloatArray) -> FloatArray:
    """Powers of two that bring positive ``sizes`` into [1/2, 2); 1 where a size is zero."""
    out = np.ones_like(sizes)
    positive = sizes > 0.0
    out[positive] = 2.0 ** np.clip(-np.floor(np.log2(sizes[positive])), -500, 500)
    return out


def scale_rows(problem: FeasibilityProblem) -> Scaling:
    """Scale the rows of a problem to norm about one.

    Parameters
    ----------
    problem : FeasibilityProblem
        Any problem.

    Returns
    -------
    Scaling
        The scaled problem; points are the same, certificates are mapped exactly.
    """
    from sdpfeas.problem import FeasibilityProblem

    factors = power_of_two(problem.norms)
    rows = [None if r is None else r.scaled(factors) for r in problem.rows]
    scaled = FeasibilityProblem(
        problem.sets,
        rows,
        problem.lower * factors,
        problem.upper * factors,
        problem.row_names,
        problem.block_names,
    )
    return Scaling(problem, scaled, factors)
