"""Values of cvxpy's variables and constraints, entry by entry, as multiples of entries of the canonical form.

cvxpy maps solutions back and has no way forth. Both its maps are linear, and every number of the user is a
multiple of one number of the form (or a pair of such, real and imaginary), so two questions, at all ones and
at the positions, tell which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.cvxpy_models.accepted_atoms import left_out, require_accepted
from sdpfeas.cvxpy_models.blocks import Blocks
from sdpfeas.cvxpy_models.canonical_form import CanonicalForm, canonical_form
from sdpfeas.cvxpy_models.comparison import require_same
from sdpfeas.cvxpy_models.constraints import Part, traced
from sdpfeas.errors import ProblemError
from sdpfeas.extras import cvxpy
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction

if TYPE_CHECKING:
    import cvxpy as cp


@dataclass(frozen=True)
class Way:
    """For every name, which entries its numbers are multiples of: real parts, then imaginary ones.

    ``size``: how many entries the form has. ``places, factors``: for every name, entry by entry.
    """

    size: int
    places: dict[int, np.ndarray]
    factors: dict[int, FloatArray]

    def forth(self, values: dict[int, Any]) -> tuple[FloatArray, np.ndarray]:
        """Entries of the form where the values are these, and which of them are known by that."""
        out, known = np.zeros(self.size), np.zeros(self.size, dtype=bool)
        for name, value in values.items():
            if name in self.places:
                there = self.factors[name] != 0.0
                where = self.places[name][there]
                out[where] = _flat(value)[there] / self.factors[name][there]
                known[where] = True
        return out, known


def _flat(value: Any) -> FloatArray:
    """All numbers of a value, real parts first."""
    if isinstance(value, (list, tuple)):
        return np.concatenate([_flat(each) for each in value])
    array = np.ravel(value.toarray() if sp.issparse(value) else np.asarray(value), order="F")
    return np.concatenate([np.real(array), np.imag(array)]).astype(float)


def _asked(size: int, back: Callable[[FloatArray], dict[int, Any]]) -> Way:
    ones, positions = back(np.ones(size)), back(np.arange(1.0, size + 1.0))
    places, factors = {}, {}
    for name, value in ones.items():
        factor, at = _flat(value), _flat(positions[name])
        place = np.divide(at, factor, out=np.ones(at.size), where=factor != 0.0)
        rounded = np.rint(place)
        # Sums of several entries have no single place; nothing is read from them.
        single = (np.abs(place - rounded) <= 1e-9 * size) & (rounded >= 1) & (rounded <= size)
        factors[name] = np.where(single, factor, 0.0)
        places[name] = np.where(single, rounded, 1).astype(int) - 1
    return Way(size, places, factors)


def value_way(form: CanonicalForm) -> Way:
    """Values of variables, by their number."""

    def back(x: FloatArray) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for number, (at, shape) in form.columns().items():
            size = int(np.prod(shape, dtype=int))
            found[number] = np.reshape(x[at : at + size], shape, order="F")
        for reduction, _ in reversed(form.steps()):
            found = reduction.var_forward(found)
        return found

    return _asked(form.matrix.shape[1], back)


def dual_way(form: CanonicalForm) -> Way:
    """Dual values of constraints, by their number."""
    return _asked(form.b.size, form.invert_duals)


# ------------------------------------------------------------
# From a cvxpy problem to a feasibility problem, and back in cvxpy's terms: values and dual values.


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

    Examples
    --------
    >>> import cvxpy as cp, sdpfeas as sf
    >>> X = cp.Variable((2, 2), PSD=True)
    >>> problem = sf.from_cvxpy(cp.Problem(cp.Minimize(0), [cp.trace(X) == 1, X[0, 1] >= 0.6]))
    >>> problem.sets, problem.m
    ((PSD(n=2),), 2)
    >>> print(sf.solve(problem).verdict)
    infeasible
    """
    return convert(problem).problem


@dataclass(frozen=True)
class CvxpyForm(Reduction):
    """A cvxpy problem as a feasibility problem, with the ways between them.

    A reduction whose original is a cvxpy problem: its points are values by variable, its multipliers dual
    values by constraint.
    """

    original: Any
    problem: FeasibilityProblem
    canonical: CanonicalForm
    blocks: Blocks
    posed: tuple[tuple[Any, Any], ...]

    def values(self, point: Point) -> dict[Any, Any]:
        """The values of cvxpy's variables at a point."""
        found = self.canonical.invert(self.columns(point))
        return {v: _shaped(found[v.id], v.shape) for v in self._variables if v.id in found}

    def columns(self, point: Point) -> FloatArray:
        """The variables of the canonical form at a point."""
        return self.blocks.columns(self.problem.point(point))

    def duals(self, y: FloatArray) -> dict[Any, Any]:
        """The dual values of cvxpy's constraints where the rows have these multipliers.

        ``y``: multipliers of the rows of ``problem``, such as a certificate.
        """
        found = self.canonical.invert_duals(self.blocks.row_multipliers(y))
        return {c: found[made.id] for made, c in reversed(self.posed) if made.id in found}

    def point(self, point: Point) -> Any:
        """Map a point back: values by variable."""
        return self.values(point)

    def multipliers(self, y: FloatArray) -> Any:
        """Map multipliers back: dual values by constraint."""
        return self.duals(y)

    def start_point(self, point: Any) -> Point:
        """Map values by variable forth; auxiliary variables, of functions, are zero."""
        x, _ = self.value_way.forth({v.id: value for v, value in point.items()})
        return self.blocks.forth(x)

    def start_multipliers(self, y: Any) -> FloatArray:
        """Map dual values by constraint forth.

        Rows that define functions have no dual value in cvxpy; theirs are chosen for the weighted rows to
        cancel as well as they can.
        """
        numbers = {id(original): made.id for made, original in reversed(self.posed)}
        values = {numbers[id(c)]: value for c, value in y.items() if id(c) in numbers}
        z, known = self.dual_way.forth(values)
        open_rows = np.flatnonzero(~known & self.blocks.asked)
        if open_rows.size:
            columns = self.blocks.free_columns
            matrix = self.canonical.matrix[:, columns]
            rest = matrix.T @ np.where(known, z, 0.0)
            z[open_rows] = sp.linalg.lsqr(matrix[open_rows].T, -rest, atol=1e-14, btol=1e-14)[0]
        return self.blocks.multipliers(z)

    def number(self, constraint: Any) -> int | None:
        """The number that cvxpy gave a constraint of the user when it compiled it."""
        return next((made.id for made, original in self.posed if original is constraint), None)

    def assign(self, point: Point) -> None:
        """Set the values of cvxpy's variables from a point.

        ``point``: a point of ``problem``, such as ``result.point``.
        """
        for variable, value in self.values(point).items():
            variable.save_value(value)

    def assign_duals(self, y: FloatArray) -> None:
        """Set the dual values of cvxpy's constraints from multipliers, such as ``result.certificate``."""
        for constraint, value in self.duals(y).items():
            constraint.save_dual_value(value)

    @cached_property
    def value_way(self) -> Way:
        """Where the values of variables are among the columns of the canonical form."""
        return value_way(self.canonical)

    @cached_property
    def dual_way(self) -> Way:
        """Where dual values are among its rows."""
        return dual_way(self.canonical)

    @property
    def _variables(self) -> list[Any]:
        return [v for v in self.original.variables() if v.size]

    @cached_property
    def parts(self) -> list[Part]:
        """The constraints and attributes as the user knows them, with their rows of the canonical form."""
        own = {v: self._columns_of(v) for v in self._variables}
        return traced(self.canonical, self.posed, self._variables, own)

    @property
    def auxiliary(self) -> np.ndarray:
        """Mask of the columns that are no values of the user's variables."""
        mask = np.ones(self.canonical.matrix.shape[1], dtype=bool)
        for variable in self._variables:
            mask[self._columns_of(variable)] = False
        return mask

    def _columns_of(self, variable: Any) -> np.ndarray:
        """The columns of the canonical form that hold a variable."""
        way, number = self.value_way, variable.id
        if number not in way.places:
            return np.zeros(0, dtype=int)
        return np.unique(way.places[number][way.factors[number] != 0.0])


def _shaped(value: Any, shape: tuple[int, ...]) -> Any:
    """A value in the shape of its variable; a single number stands for all entries."""
    return value if np.shape(value) == shape or sp.issparse(value) else np.full(shape, value)


def convert(problem: cp.Problem) -> CvxpyForm:
    """As :func:`from_cvxpy`, with the way back to cvxpy's variables and constraints."""
    cp = cvxpy()
    if not isinstance(problem, cp.Problem):
        raise ProblemError(f"from_cvxpy takes a cvxpy.Problem, got {type(problem).__name__}")
    asked = cp.Problem(cp.Minimize(0), problem.constraints)
    require_accepted(asked)
    posed = [(_with_constants(c), c) for c in asked.constraints]
    posed += [(implied, c) for c in asked.constraints for implied in left_out(c)]
    form = canonical_form(cp.Problem(cp.Minimize(0), [made for made, _ in posed]))
    blocks = Blocks(form)
    made = CvxpyForm(problem, blocks.problem(), form, blocks, tuple(posed))
    require_same(made)
    return made


def _with_constants(constraint: Any) -> Any:
    """A constraint with values in place of parameters: cvxpy would forget which one it was."""
    from cvxpy.reductions.eval_params import replace_params_with_consts

    if not constraint.parameters():
        return constraint
    arguments = [replace_params_with_consts(argument) for argument in constraint.args]
    return type(constraint)(*arguments, *(constraint.get_data() or []))
