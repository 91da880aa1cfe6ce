"""Convert a cvxpy problem to a feasibility problem: :func:`from_cvxpy`, :func:`convert`.

:class:`CvxpyForm` maps points to values of variables and multipliers to dual values, and back. cvxpy itself
only maps solutions back. Its maps are linear, and every number of the user is a multiple of one entry of the
canonical form (real and imaginary part separately). Two evaluations, at all ones and at the positions
1, 2, ..., determine the entries and factors (:class:`EntryMap`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.cvxpy_models.accepted_atoms import implied_constraints, require_accepted
from sdpfeas.cvxpy_models.blocks import Blocks
from sdpfeas.cvxpy_models.canonical_form import CanonicalForm, canonical_form
from sdpfeas.cvxpy_models.comparison import require_equivalent
from sdpfeas.cvxpy_models.constraints import ConstraintRows, trace_constraints
from sdpfeas.errors import ProblemError
from sdpfeas.extras import cvxpy
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import Reduction

if TYPE_CHECKING:
    import cvxpy as cp


@dataclass(frozen=True)
class EntryMap:
    """Entries of the form and factors of every number, by id of a variable or constraint.

    Real parts come first, then imaginary parts. ``size`` is the number of entries of the form.
    """

    size: int
    places: dict[int, np.ndarray]
    factors: dict[int, FloatArray]

    def forth(self, values: dict[int, Any]) -> tuple[FloatArray, np.ndarray]:
        """Map values to entries of the form; also return the mask of the entries they determine."""
        out, known = np.zeros(self.size), np.zeros(self.size, dtype=bool)
        for name, value in values.items():
            if name in self.places:
                there = self.factors[name] != 0.0
                where = self.places[name][there]
                out[where] = _flat(value)[there] / self.factors[name][there]
                known[where] = True
        return out, known


def _flat(value: Any) -> FloatArray:
    """Return all numbers of a value, real parts first."""
    if isinstance(value, (list, tuple)):
        return np.concatenate([_flat(each) for each in value])
    array = np.ravel(value.toarray() if sp.issparse(value) else np.asarray(value), order="F")
    return np.concatenate([np.real(array), np.imag(array)]).astype(float)


def _asked(size: int, back: Callable[[FloatArray], dict[int, Any]]) -> EntryMap:
    ones, positions = back(np.ones(size)), back(np.arange(1.0, size + 1.0))
    places, factors = {}, {}
    for name, value in ones.items():
        factor, at = _flat(value), _flat(positions[name])
        place = np.divide(at, factor, out=np.ones(at.size), where=factor != 0.0)
        rounded = np.rint(place)
        # A sum of several entries has no single position, and is skipped.
        single = (np.abs(place - rounded) <= 1e-9 * size) & (rounded >= 1) & (rounded <= size)
        factors[name] = np.where(single, factor, 0.0)
        places[name] = np.where(single, rounded, 1).astype(int) - 1
    return EntryMap(size, places, factors)


def from_cvxpy(problem: cp.Problem) -> FeasibilityProblem:
    """Convert the constraints of a cvxpy problem to a feasibility problem.

    The objective and its domain are ignored. Atoms have the domains of cvxpy's documentation: ``x**3 <= 1``
    implies ``x >= 0``.

    Verdicts are about the canonical form. cvxpy computes its coefficients from the constants in double
    precision: ``0.1 * x + 0.2 * x`` becomes ``0.30000000000000004 * x``. An exponent is the simplest fraction
    that rounds to it: ``x**(1/3)`` is the cube root.

    Parameters
    ----------
    problem : cvxpy.Problem
        A DCP problem with linear, second-order and semidefinite constraints. Parameters need values.

    Returns
    -------
    FeasibilityProblem
        An equivalent problem.

    Raises
    ------
    ProblemError
        If the problem is of another kind, or if its canonical form is not exactly equivalent (exponents that
        are not simple fractions, attributes of complex variables, and so on).

    Warns
    -----
    RoundingWarning
        If the matrix of a quadratic form is not exactly the product of the factors that cvxpy computes.

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
    """The reduction of a cvxpy problem to a feasibility problem.

    Points of the original are values by variable, its multipliers dual values by constraint. ``compiled`` has
    every constraint that cvxpy compiled, with the user's constraint.
    """

    original: Any
    problem: FeasibilityProblem
    canonical: CanonicalForm
    blocks: Blocks
    compiled: tuple[tuple[Any, Any], ...]

    def values(self, point: Point) -> dict[Any, Any]:
        """Return the values of cvxpy's variables at a point."""
        found = self.canonical.invert(self.columns(point))
        return {v: _shaped(found[v.id], v.shape) for v in self._variables if v.id in found}

    def columns(self, point: Point) -> FloatArray:
        """Return the variables of the canonical form at a point."""
        return self.blocks.columns(self.problem.point(point))

    def duals(self, y: FloatArray) -> dict[Any, Any]:
        """Return the dual values of cvxpy's constraints for multipliers of ``problem``."""
        found = self.canonical.invert_duals(self.blocks.row_multipliers(y))
        return {c: found[made.id] for made, c in reversed(self.compiled) if made.id in found}

    def point(self, point: Point) -> Any:
        """Map a point back: values by variable."""
        return self.values(point)

    def multipliers(self, y: FloatArray) -> Any:
        """Map multipliers back: dual values by constraint."""
        return self.duals(y)

    def start_point(self, point: Any) -> Point:
        """Map values by variable to a point; auxiliary variables are zero."""
        x, _ = self.value_map.forth({v.id: value for v, value in point.items()})
        return self.blocks.forth(x)

    def start_multipliers(self, y: Any) -> FloatArray:
        """Map dual values by constraint to multipliers.

        Rows that define atoms have no dual value in cvxpy; theirs are the least-squares solution for which
        the weighted rows cancel.
        """
        numbers = {id(original): made.id for made, original in reversed(self.compiled)}
        values = {numbers[id(c)]: value for c, value in y.items() if id(c) in numbers}
        z, known = self.dual_map.forth(values)
        open_rows = np.flatnonzero(~known & self.blocks.asked)
        if open_rows.size:
            columns = self.blocks.free_columns
            matrix = self.canonical.matrix[:, columns]
            rest = matrix.T @ np.where(known, z, 0.0)
            z[open_rows] = sp.linalg.lsqr(matrix[open_rows].T, -rest, atol=1e-14, btol=1e-14)[0]
        return self.blocks.multipliers(z)

    def number(self, constraint: Any) -> int | None:
        """Return the id of the compiled constraint of a user's constraint."""
        return next((made.id for made, original in self.compiled if original is constraint), None)

    def assign(self, point: Point) -> None:
        """Set the values of cvxpy's variables from a point of ``problem``."""
        for variable, value in self.values(point).items():
            variable.save_value(value)

    def assign_duals(self, y: FloatArray) -> None:
        """Set the dual values of cvxpy's constraints from multipliers, such as ``result.certificate``."""
        for constraint, value in self.duals(y).items():
            constraint.save_dual_value(value)

    @cached_property
    def value_map(self) -> EntryMap:
        """Map of values of variables to columns of the canonical form."""
        return _asked(self.canonical.matrix.shape[1], self.canonical.variable_values)

    @cached_property
    def dual_map(self) -> EntryMap:
        """Map of dual values to rows of the canonical form."""
        return _asked(self.canonical.b.size, self.canonical.invert_duals)

    @property
    def _variables(self) -> list[Any]:
        return [v for v in self.original.variables() if v.size]

    @cached_property
    def parts(self) -> list[ConstraintRows]:
        """The user's constraints and attributes, with their rows of the canonical form."""
        own = {v: self._columns_of(v) for v in self._variables}
        given = len({id(c) for c in self.original.constraints})
        return trace_constraints(self.canonical, self.compiled, self._variables, own, given)

    @cached_property
    def auxiliary(self) -> np.ndarray:
        """Mask of the auxiliary columns, which are not values of the user's variables."""
        mask = np.ones(self.canonical.matrix.shape[1], dtype=bool)
        for variable in self._variables:
            mask[self._columns_of(variable)] = False
        return mask

    def _columns_of(self, variable: Any) -> np.ndarray:
        """Return the columns of the canonical form of a variable."""
        way, number = self.value_map, variable.id
        if number not in way.places:
            return np.zeros(0, dtype=int)
        return np.unique(way.places[number][way.factors[number] != 0.0])


def _shaped(value: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast a value to the shape of its variable."""
    return value if np.shape(value) == shape or sp.issparse(value) else np.full(shape, value)


def convert(problem: cp.Problem) -> CvxpyForm:
    """Convert a cvxpy problem as :func:`from_cvxpy` does; return the reduction."""
    cp = cvxpy()
    if not isinstance(problem, cp.Problem):
        raise ProblemError(f"from_cvxpy takes a cvxpy.Problem, got {type(problem).__name__}")
    # A constraint object may be stated twice.
    asked = cp.Problem(cp.Minimize(0), list({id(c): c for c in problem.constraints}.values()))
    require_accepted(asked)
    compiled = [(_with_constants(c), c) for c in asked.constraints]
    compiled += [(implied, c) for c in asked.constraints for implied in implied_constraints(c)]
    if not asked.variables():  # cvxpy compiles no constants alone
        unused = cp.Variable(name="unused") >= 0
        compiled.append((unused, unused))
    form = canonical_form(cp.Problem(cp.Minimize(0), [made for made, _ in compiled]))
    blocks = Blocks(form)
    made = CvxpyForm(problem, blocks.problem(), form, blocks, tuple(compiled))
    require_equivalent(made)
    return made


def _with_constants(constraint: Any) -> Any:
    """Replace parameters by their values; cvxpy's own reduction would lose the id of the constraint."""
    from cvxpy.reductions.eval_params import replace_params_with_consts

    if not constraint.parameters():
        return constraint
    arguments = [replace_params_with_consts(argument) for argument in constraint.args]
    return type(constraint)(*arguments, *(constraint.get_data() or []))
