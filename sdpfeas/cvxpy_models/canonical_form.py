"""The canonical form of a cvxpy problem, ``b - A x`` in cones, every row and column accounted for."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray

# ------------------------------------------------------------
# A "solver" for cvxpy to compile for: it takes what a problem of ours can hold.


def reader(
    answer: Callable[[dict[str, Any], Any, dict[str, Any]], Any] | None = None,
    admit: Callable[[Any], None] | None = None,
) -> Any:
    """Make such a solver.

    ``answer``: takes the data cvxpy compiled, what it needs for the way back, and the options of
    ``Problem.solve``; returns a ``cvxpy.reductions.Solution``. Without it the solver solves nothing.
    ``admit``: takes the problem before cvxpy compiles it, and raises an error if it is not to be solved.
    """
    from cvxpy.constraints import SOC, NonNeg, SvecPSD, Zero
    from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver
    from cvxpy.utilities.psd_utils import TriangleKind

    class Reader(ConicSolver):  # type: ignore[misc]
        """Nothing but what it takes, and whom it asks."""

        SUPPORTED_CONSTRAINTS = (Zero, NonNeg, SOC, SvecPSD)
        PSD_TRIANGLE_KIND = TriangleKind.LOWER
        # Scaled by sqrt(2), entries off the diagonal would be rounded.
        PSD_SQRT2_SCALING = False

        def name(self) -> str:
            return "SDPFEAS"

        def import_solver(self) -> None:
            pass

        def can_solve(self, problem_form: Any) -> bool:
            if admit is not None:
                asked = vars(problem_form).get("_problem")
                if asked is None:
                    raise ProblemError("this version of cvxpy does not show the problem to its solvers")
                admit(asked)
            return bool(super().can_solve(problem_form))

        def cite(self, data: Any) -> str:
            return ""

        def apply(self, problem: Any) -> Any:
            """As cvxpy's own; where only constraints are asked for, without its general way to get there."""
            bounds = (problem.lower_bounds, problem.upper_bounds, problem.lb_tensor, problem.ub_tensor)
            plain = problem.P is None and problem.A.shape[1] == 1 and all(bound is None for bound in bounds)
            if answer is not None or problem.total_param_size or not plain:
                return super().apply(problem)
            matrix, b = _stuffed(problem)
            return {"param_prob": problem, "A": matrix, "b": b}, {self.VAR_ID: problem.x.id}

        def solve_via_data(
            self, data: Any, warm_start: bool, verbose: bool, solver_opts: Any, solver_cache: Any = None
        ) -> Any:
            if answer is None:
                raise NotImplementedError
            return lambda inverse_data: answer(data, inverse_data, dict(solver_opts))

        def invert(self, solution: Any, inverse_data: Any) -> Any:
            return solution(inverse_data)

    return Reader()


def _stuffed(program: Any) -> tuple[Any, FloatArray]:
    """``A`` and ``b`` of a cone program without parameters, ``b - A x`` in its cones.

    cvxpy keeps both in one column, entry by entry, the constants last: equations with the opposite sign, and
    of second-order cones all bounds before what they bound.
    """
    m, n = program.constr_size, program.x.size
    stored = sp.coo_array(program.A)
    at, data = stored.coords[0].astype(np.int64), stored.data
    place, sign = np.arange(m), -np.ones(m)
    start = 0
    for constraint in program.constraints:
        size, kind = constraint.size, type(constraint).__name__
        if kind == "Zero":
            sign[start : start + size] = 1.0
        elif kind == "SOC":
            cones = constraint.args[0].size
            length = size // max(cones, 1)
            rows = np.arange(start, start + size).reshape(cones, length)
            place[start : start + size] = np.concatenate([rows[:, 0], rows[:, 1:].ravel()])
        start += size
    column, row = np.divmod(at, max(m, 1))
    data = data * sign[row]
    own = column < n
    b = np.zeros(m)
    np.add.at(b, place[row[~own]], -data[~own])
    return sp.csr_array((data[own], (place[row[own]], column[own])), shape=(m, n)), b


#: Steps on the way to the canonical form that keep what a problem says.
_STEPS = {
    "EvalParams",
    "Complex2Real",
    "Dcp2Cone",
    "CvxAttr2Constr",
    "ExactCone2Cone",
    "EliminateZeroSized",
} | {"ConeMatrixStuffing", "Reader"}
#: Coefficients are scaled by powers of two; above this none is rounded by it.
_SMALLEST = 2.0**-1000
#: Cones that become blocks and rows.
_CONES = ("Zero", "NonNeg", "SOC", "SvecPSD")


@dataclass(frozen=True)
class CanonicalForm:
    """``b - matrix @ x`` in a product of cones, ``x`` free.

    ``matrix, b``: the data; ``matrix`` holds every entry once, in order, and no zeros. ``zero, nonneg``:
    the rows that are zero, and those that are not negative. ``second_order, semidefinite``: for every cone
    its rows: the bound first, then what it bounds the length of; the lower triangle column by column.
    ``pieces``: the rows of every constraint of the form, with the number cvxpy knows it by.
    """

    matrix: Any
    b: FloatArray
    zero: np.ndarray
    nonneg: np.ndarray
    second_order: list[np.ndarray]
    semidefinite: list[np.ndarray]
    pieces: tuple[tuple[int, np.ndarray], ...]
    _chain: Any
    _inverse: Any

    def steps(self) -> list[tuple[Any, Any]]:
        """The reductions of cvxpy that led here, the last (which hands over to a solver) left out."""
        return list(zip(self._chain.reductions, self._inverse, strict=True))[:-1]

    def columns(self) -> dict[int, tuple[int, tuple[int, ...]]]:
        """Where the variables of the last reduction begin among the columns, and their shapes."""
        stuffing = self._inverse[-2]
        return {v: (at, stuffing.var_shapes[v]) for v, at in stuffing.var_offsets.items()}

    def selected(self, keep: np.ndarray) -> CanonicalForm:
        """The form with some of its rows only; a mask that keeps or drops every cone as a whole."""
        place = np.cumsum(keep) - 1

        def left(rows: np.ndarray) -> np.ndarray:
            found: np.ndarray = place[rows[keep[rows]]]
            return found

        return replace(
            self,
            matrix=self.matrix[np.flatnonzero(keep)],
            b=self.b[keep],
            zero=left(self.zero),
            nonneg=left(self.nonneg),
            second_order=[left(rows) for rows in self.second_order if keep[rows[0]]],
            semidefinite=[left(rows) for rows in self.semidefinite if keep[rows[0]]],
            pieces=tuple((number, left(rows)) for number, rows in self.pieces),
        )

    @property
    def inner(self) -> np.ndarray:
        """Rows in which a member of a cone grows as it moves along the axis of the cone, and inequalities."""
        firsts = [cone[:1] for cone in self.second_order]
        for cone in self.semidefinite:
            j, i = np.triu_indices((math.isqrt(8 * cone.size + 1) - 1) // 2)
            firsts.append(cone[i == j])
        return np.concatenate([self.nonneg, *firsts])

    def loosened(self, rows: np.ndarray) -> CanonicalForm:
        """The form with some of its rows loosened by one number, a column of its own at the end.

        An inequality may be missed by it, an equation on both sides, and a cone along its axis (the identity,
        the bound of a length).
        """
        m, n = self.matrix.shape
        equal = np.intersect1d(self.zero, rows)
        inner = np.concatenate([equal, self.inner])
        moved = inner[np.isin(inner, rows)]
        # Below: the other side of the equations, and the number itself, which is not negative.
        column = sp.csr_array((-np.ones(moved.size), (moved, np.zeros(moved.size, int))), shape=(m, 1))
        below = sp.csr_array(-np.ones((equal.size, 1)))
        last = sp.csr_array(([-1.0], ([0], [n])), shape=(1, n + 1))
        matrix = sp.vstack(
            [sp.hstack([self.matrix, column]), sp.hstack([-self.matrix[equal], below]), last], format="csr"
        )
        added = np.arange(m, m + equal.size + 1)
        return replace(
            self,
            matrix=sp.csr_array(matrix),
            b=np.concatenate([self.b, -self.b[equal], [0.0]]),
            zero=np.setdiff1d(self.zero, equal),
            nonneg=np.concatenate([self.nonneg, equal, added]),
        )

    def completing(self, x: FloatArray, open_columns: np.ndarray, slack: float) -> CanonicalForm | None:
        """The form in some columns only, the others being given; None if no row asks for them.

        ``open_columns``: mask of those to be found. ``slack``: by how much, relative to the numbers in a
        row, inequalities and cones are loosened.
        """
        keep = np.zeros(self.b.size, dtype=bool)
        for _, rows in self.pieces:
            if rows.size and open_columns[self.matrix[rows].indices].any():
                keep[rows] = True
        if not keep.any():
            return None
        given = np.where(open_columns, 0.0, x)
        b = self.b - self.matrix @ given
        size = np.abs(self.b) + abs(self.matrix) @ np.abs(given) + 1.0
        b[self.inner] += slack * size[self.inner]
        return replace(self, matrix=sp.csr_array(self.matrix[:, np.flatnonzero(open_columns)]), b=b).selected(
            keep
        )

    def invert(self, x: FloatArray) -> dict[int, Any]:
        """The values of cvxpy's variables, by their number, where the variables of the form are ``x``."""
        from cvxpy.reductions.solution import Solution

        stuffed = self._inverse[-1][self._chain.solver.VAR_ID]
        found = Solution("optimal", 0.0, {stuffed: x}, {}, {})
        for reduction, inverse in reversed(self.steps()):
            found.primal_vars = _Found(found.primal_vars)
            found = reduction.invert(found, inverse)
        return dict(found.primal_vars)

    def duals(self, z: FloatArray) -> dict[int, Any]:
        """Multipliers of the rows by the number of their constraint, as cvxpy expects them of a solver."""
        halved = np.array(z)
        for rows in self.semidefinite:  # a row off the diagonal stands for two entries
            n = (math.isqrt(8 * rows.size + 1) - 1) // 2
            j, i = np.triu_indices(n)
            halved[rows[i != j]] *= 0.5
        return {number: halved[rows] if rows.size != 1 else halved[rows][0] for number, rows in self.pieces}

    def invert_duals(self, z: FloatArray) -> dict[int, Any]:
        """The dual values of cvxpy's constraints, by their number, where those of the rows are ``z``."""
        from cvxpy.reductions.solution import Solution

        duals = self.duals(z)
        found = Solution("optimal", 0.0, {}, duals, {})
        for reduction, inverse in reversed(self.steps()):
            found.primal_vars = _Found()
            found.dual_vars = _Found(found.dual_vars)
            if type(reduction).__name__ != "ConeMatrixStuffing":
                found = reduction.invert(found, inverse)
                continue
            constraints = inverse.id2cons
            found.dual_vars = {n: _shaped(value, constraints[n]) for n, value in found.dual_vars.items()}
        return dict(found.dual_vars)


class _Found(dict[int, Any]):
    """Values of variables. The real or the imaginary part of one may be in no row: it is zero."""

    def __missing__(self, variable: int) -> float:
        return 0.0


def _shaped(value: Any, constraint: Any) -> Any:
    """Multipliers in the shape of a constraint; those of second-order cones stay one after the other."""
    if constraint.shape == () or type(constraint).__name__ == "SOC":
        return value
    return np.reshape(value, constraint.shape, order="F")


def canonical_form(problem: Any) -> CanonicalForm:
    """Compile a problem."""
    from cvxpy.error import DCPError, DPPError, ParameterError, SolverError

    try:
        with warnings.catch_warnings(), _without_values(problem.variables()):
            warnings.simplefilter("ignore")  # about how fast cvxpy compiles
            data, chain, inverse = problem.get_problem_data(reader(), ignore_dpp=True)
    except SolverError:
        raise ProblemError("cvxpy finds no linear, second-order and semidefinite form of this") from None
    # Complex numbers, empty arrays and axes that cvxpy does not expect run into its assertions and worse.
    except (
        *(DCPError, DPPError, ParameterError, NotImplementedError),
        *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError),
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ProblemError(f"cvxpy cannot bring this into semidefinite form: {reason}") from None
    unknown = sorted({type(step).__name__ for step in chain.reductions} - _STEPS)
    if unknown:
        raise ProblemError(
            f"this version of cvxpy takes steps that are not known to be exact: {', '.join(unknown)}"
        )
    return counted(data, chain, inverse)


@contextmanager
def _without_values(variables: list[Any]) -> Iterator[None]:
    """Take values away for a while: cvxpy computes with them as it compiles, and may fail."""
    values = [(variable, variable._value) for variable in variables]
    try:
        for variable in variables:
            variable._value = None
        yield
    finally:
        for variable, value in values:
            variable._value = value


def counted(data: Any, chain: Any = None, inverse: Any = None) -> CanonicalForm:
    """The form, with the cone of every row; refused if a row or a column is left over.

    ``data``: what cvxpy hands to a solver. ``chain, inverse``: the steps that led there, for the way back.
    """
    if any(data.get(bound) is not None for bound in ("lower_bounds", "upper_bounds")):
        raise ProblemError("this version of cvxpy keeps the bounds of variables apart; state them as rows")
    program = data["param_prob"]
    matrix = sp.csr_array(data["A"])
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    rows: dict[str, list[np.ndarray]] = {kind: [] for kind in _CONES}
    pieces = []
    start = 0
    for constraint in program.constraints:
        kind = type(constraint).__name__
        if kind not in rows:
            raise ProblemError(f"cvxpy's canonical form holds a cone that no problem of ours does: {kind}")
        if kind == "SOC" and (constraint.axis != 0 or len(constraint.args[1].shape) > 2):
            raise ProblemError("cvxpy mixes up the entries of lengths along an axis of arrays like this one")
        sizes = [constraint.size] if kind in ("Zero", "NonNeg") else constraint.cone_sizes()
        first = start
        for size in sizes:
            length = size * (size + 1) // 2 if kind == "SvecPSD" else size
            rows[kind].append(np.arange(start, start + length))
            start += length
        pieces.append((constraint.id, np.arange(first, start)))
    columns = sum(variable.size for variable in program.variables)
    if matrix.shape != (start, columns) or np.shape(data["b"]) != (start,) or program.x.size != columns:
        raise ProblemError(
            f"cvxpy's canonical form has shape {matrix.shape}, but its cones and variables account for "
            f"{(start, columns)}; please report this"
        )
    if matrix.nnz and np.min(np.abs(matrix.data)) < _SMALLEST:
        raise ProblemError(f"a coefficient is below {_SMALLEST:.0e}: halves of it may be rounded")
    if program.is_mixed_integer():
        raise ProblemError("integer and boolean variables make no semidefinite problem")
    none = [np.zeros(0, dtype=int)]
    return CanonicalForm(
        matrix,
        np.asarray(data["b"], dtype=float),
        np.concatenate(rows["Zero"] or none),
        np.concatenate(rows["NonNeg"] or none),
        rows["SOC"],
        rows["SvecPSD"],
        tuple(pieces),
        chain,
        inverse,
    )
