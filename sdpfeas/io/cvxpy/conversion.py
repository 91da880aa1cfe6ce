"""From a cvxpy problem to a feasibility problem, and from a point back to cvxpy's variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.extras import cvxpy
from sdpfeas.io.cvxpy.accepted import left_out, require_accepted
from sdpfeas.io.cvxpy.blocks import Blocks
from sdpfeas.io.cvxpy.canonical import CanonicalForm, canonical_form
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["CvxpyForm", "convert", "from_cvxpy"]


def from_cvxpy(problem: cp.Problem) -> FeasibilityProblem:
    """The constraints of a cvxpy problem as a feasibility problem.

    The objective is ignored, its domain included: the question is whether the constraints can be met at all.
    Functions mean what cvxpy's documentation says, domains included: ``x**3 <= 1`` asks for ``x >= 0``.

    What is proved is about the canonical form, whose coefficients cvxpy computes from the constants in double
    precision: ``0.1 * x + 0.2 * x`` becomes ``0.30000000000000004 * x``. An exponent is the simplest fraction
    that rounds to it, as it was meant: ``x**(1/3)`` is the cube root.

    Parameters
    ----------
    problem : cvxpy.Problem
        A convex problem by cvxpy's rules, whose constraints need no cones but the non-negative, the
        second-order and the semidefinite one. Parameters need values.

    Raises
    ------
    ProblemError
        If it is anything else, or if cvxpy would change it on the way (exponents that are no simple
        fractions, attributes of complex variables and so on); the message says what.

    Warns
    -----
    RoundingWarning
        If the matrix of a quadratic form is not exactly the product of the factors cvxpy finds for it.
    """
    return convert(problem).problem


@dataclass(frozen=True)
class CvxpyForm:
    """A cvxpy problem as a feasibility problem, with the way back.

    Attributes
    ----------
    problem : FeasibilityProblem
        The problem.
    """

    problem: FeasibilityProblem
    _original: Any
    _canonical: CanonicalForm
    _back: tuple[Any, ...]

    def values(self, point: Point) -> dict[Any, Any]:
        """The values of cvxpy's variables at a point.

        Parameters
        ----------
        point : tuple of ndarray
            A point of ``problem``.
        """
        parts = self.problem.point(point)
        x: FloatArray = sum(
            (matrix @ np.ravel(part) for matrix, part in zip(self._back, parts, strict=True)),
            np.zeros(self._back[0].shape[0]),
        )
        found = self._canonical.invert(x)
        return {v: _shaped(found[v.id], v.shape) for v in self._original.variables() if v.id in found}

    def assign(self, point: Point) -> None:
        """Set the values of cvxpy's variables from a point.

        Parameters
        ----------
        point : tuple of ndarray
            A point of ``problem``, such as ``result.point``.
        """
        for variable, value in self.values(point).items():
            variable.save_value(value)


def _shaped(value: Any, shape: tuple[int, ...]) -> Any:
    """A value in the shape of its variable; a single number stands for all entries."""
    return value if np.shape(value) == shape or sp.issparse(value) else np.full(shape, value)


def convert(problem: cp.Problem) -> CvxpyForm:
    """As :func:`from_cvxpy`, with the way back to cvxpy's variables.

    Parameters
    ----------
    problem : cvxpy.Problem
        The problem.
    """
    cp = cvxpy()
    if not isinstance(problem, cp.Problem):
        raise ProblemError(f"from_cvxpy takes a cvxpy.Problem, got {type(problem).__name__}")
    asked = cp.Problem(cp.Minimize(0), problem.constraints)
    require_accepted(asked)
    form = canonical_form(cp.Problem(cp.Minimize(0), [*asked.constraints, *left_out(asked)]))
    blocks = Blocks(form)
    return CvxpyForm(blocks.problem(), asked, form, blocks.back())
