"""Compile a cvxpy problem to ``b - A x`` in cones, with every row and column accounted for.

The entry point is :func:`canonical_form`.
"""

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


def capturing_solver(
    answer: Callable[[dict[str, Any], Any, dict[str, Any]], Any] | None = None,
    admit: Callable[[Any], None] | None = None,
) -> Any:
    """Make a cvxpy solver that captures the compiled data.

    It supports linear, second-order and semidefinite cones. ``answer`` maps the data, cvxpy's inverse data
    and the options of ``Problem.solve`` to a ``cvxpy.reductions.Solution``; without it nothing is solved.
    ``admit`` gets the problem before it is compiled, and raises an error to refuse it.
    """
    from cvxpy.constraints import SOC, NonNeg, SvecPSD, Zero
    from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver
    from cvxpy.utilities.psd_utils import TriangleKind

    class Reader(ConicSolver):  # type: ignore[misc]
        """Supported cones, and the functions called."""

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

        def solve_via_data(
            self, data: Any, warm_start: bool, verbose: bool, solver_opts: Any, solver_cache: Any = None
        ) -> Any:
            if answer is None:
                raise NotImplementedError
            return lambda inverse_data: answer(data, inverse_data, dict(solver_opts))

        def invert(self, solution: Any, inverse_data: Any) -> Any:
            return solution(inverse_data)

    return Reader()


def triangle_side(size: int) -> int:
    """Return the side of a matrix whose triangle has so many entries."""
    return (math.isqrt(8 * size + 1) - 1) // 2


#: Reductions of cvxpy that give an exactly equivalent problem.
_EXACT_REDUCTIONS = {
    "EvalParams",
    "Complex2Real",
    "Dcp2Cone",
    "CvxAttr2Constr",
    "ExactCone2Cone",
    "EliminateZeroSized",
} | {"ConeMatrixStuffing", "Reader"}
#: Coefficients are scaled by powers of two, which is exact above this size.
MIN_COEFFICIENT = 2.0**-1000
#: Supported cones.
_CONES = ("Zero", "NonNeg", "SOC", "SvecPSD")


@dataclass(frozen=True)
class CanonicalForm:
    """``b - matrix @ x`` in a product of cones, ``x`` free.

    ``matrix`` is in canonical CSR format without zeros. ``zero`` and ``nonneg`` are the rows in these cones.
    ``second_order`` and ``semidefinite`` have the rows of every cone: the bound, then the vector; the lower
    triangle by columns. ``pieces`` are the rows of every constraint of the form, with the id that cvxpy gave
    it.
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
        """Return cvxpy's reductions with their inverse data, without the last, which calls the solver."""
        return list(zip(self._chain.reductions, self._inverse, strict=True))[:-1]

    def variable_values(self, x: FloatArray) -> dict[int, Any]:
        """Return the numbers that the variables ``x`` of the form stand for in cvxpy's variables, by id."""
        stuffing = self._inverse[-2]
        found: dict[int, Any] = {}
        for number, at in stuffing.var_offsets.items():
            shape = stuffing.var_shapes[number]
            size = int(np.prod(shape, dtype=int))
            found[number] = np.reshape(x[at : at + size], shape, order="F")
        for reduction, _ in reversed(self.steps()):
            found = reduction.var_forward(found)
        return found

    def selected(self, keep: np.ndarray) -> CanonicalForm:
        """Return the form with the rows of a mask, which keeps or drops every cone as a whole."""
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
        """Inequality rows, and the rows of every cone that its interior direction increases."""
        firsts = [cone[:1] for cone in self.second_order]
        for cone in self.semidefinite:
            j, i = np.triu_indices(triangle_side(cone.size))
            firsts.append(cone[i == j])
        return np.concatenate([self.nonneg, *firsts])

    def completing(self, x: FloatArray, open_columns: np.ndarray, slack: float) -> CanonicalForm | None:
        """Return the form in the columns of a mask, with the others fixed at ``x``; None if no row has them.

        ``slack`` relaxes inequalities and cones, relative to the size of the row.
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
        """Map the variables ``x`` of the form to values of cvxpy's variables, by id."""
        from cvxpy.reductions.solution import Solution

        stuffed = self._inverse[-1][self._chain.solver.VAR_ID]
        found = Solution("optimal", 0.0, {stuffed: x}, {}, {})
        for reduction, inverse in reversed(self.steps()):
            found.primal_vars = _ZeroByDefault(found.primal_vars)
            found = reduction.invert(found, inverse)
        return dict(found.primal_vars)

    def duals(self, z: FloatArray) -> dict[int, Any]:
        """Return multipliers of the rows by the id of their constraint, in the convention of solvers."""
        halved = np.array(z)
        for rows in self.semidefinite:  # a row off the diagonal stands for two entries
            j, i = np.triu_indices(triangle_side(rows.size))
            halved[rows[i != j]] *= 0.5
        return {number: halved[rows] if rows.size != 1 else halved[rows][0] for number, rows in self.pieces}

    def invert_duals(self, z: FloatArray) -> dict[int, Any]:
        """Map multipliers ``z`` of the rows to dual values of cvxpy's constraints, by id."""
        from cvxpy.reductions.solution import Solution

        duals = self.duals(z)
        found = Solution("optimal", 0.0, {}, duals, {})
        for reduction, inverse in reversed(self.steps()):
            found.primal_vars = _ZeroByDefault()
            found.dual_vars = _ZeroByDefault(found.dual_vars)
            if type(reduction).__name__ != "ConeMatrixStuffing":
                found = reduction.invert(found, inverse)
                continue
            constraints = inverse.id2cons
            found.dual_vars = {n: _shaped(value, constraints[n]) for n, value in found.dual_vars.items()}
        return dict(found.dual_vars)


class _ZeroByDefault(dict[int, Any]):
    """Values by id; zero for a real or imaginary part that no row has."""

    def __missing__(self, variable: int) -> float:
        return 0.0


def _shaped(value: Any, constraint: Any) -> Any:
    """Reshape multipliers to a constraint; those of second-order cones stay flat."""
    if constraint.shape == () or type(constraint).__name__ == "SOC":
        return value
    return np.reshape(value, constraint.shape, order="F")


def canonical_form(problem: Any) -> CanonicalForm:
    """Compile a problem with cvxpy; raise ``ProblemError`` if it has no exact conic form."""
    from cvxpy.error import DCPError, DPPError, ParameterError, SolverError

    try:
        with warnings.catch_warnings(), _values_removed(problem.variables()):
            warnings.simplefilter("ignore")  # about how fast cvxpy compiles
            data, chain, inverse = problem.get_problem_data(capturing_solver(), ignore_dpp=True)
    except SolverError:
        raise ProblemError(
            "cvxpy finds no linear, second-order or semidefinite form of the problem"
        ) from None
    # Unusual complex numbers, empty arrays and axes trip assertions inside cvxpy.
    except (
        *(DCPError, DPPError, ParameterError, NotImplementedError),
        *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError),
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ProblemError(f"cvxpy cannot compile the problem to semidefinite form: {reason}") from None
    unknown = sorted({type(step).__name__ for step in chain.reductions} - _EXACT_REDUCTIONS)
    if unknown:
        raise ProblemError(
            f"this version of cvxpy uses reductions that are not known to be exact: {', '.join(unknown)}"
        )
    return accounted_form(data, chain, inverse)


@contextmanager
def _values_removed(variables: list[Any]) -> Iterator[None]:
    """Remove the values of variables for a while: cvxpy computes with them as it compiles, and may fail."""
    values = [(variable, variable._value) for variable in variables]
    try:
        for variable in variables:
            variable._value = None
        yield
    finally:
        for variable, value in values:
            variable._value = value


def accounted_form(data: Any, chain: Any = None, inverse: Any = None) -> CanonicalForm:
    """Return the form of the data that cvxpy passes to a solver, with the cone of every row.

    ``chain`` and ``inverse`` are cvxpy's reductions and inverse data. Raises an error unless every row and
    column is accounted for.
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
            raise ProblemError(f"cvxpy's canonical form has an unsupported cone: {kind}")
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
    if matrix.nnz and np.min(np.abs(matrix.data)) < MIN_COEFFICIENT:
        raise ProblemError(f"a coefficient is below {MIN_COEFFICIENT:.0e}: half of it may be rounded")
    if program.is_mixed_integer():
        raise ProblemError("integer and boolean variables are not supported")
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
