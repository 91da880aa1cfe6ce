"""cvxpy problems as feasibility problems, and points back as values of cvxpy's variables.

cvxpy brings the constraints into conic form, ``b - A x`` in a product of cones with free variables ``x``. A
variable that is an entry of a semidefinite matrix and nothing else, or a non-negative number, becomes (an
entry of) a block of its own; what remains is free, and variables no row asks for are left out and are zero on
the way back. All of that is exact: no coefficient is rounded.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import Sparse
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["CvxpyForm", "convert", "from_cvxpy"]


def from_cvxpy(problem: cp.Problem) -> FeasibilityProblem:
    """The constraints of a cvxpy problem as a feasibility problem.

    The objective is ignored: the question is whether the constraints can be met at all.

    Parameters
    ----------
    problem : cvxpy.Problem
        A convex problem by cvxpy's rules, whose constraints need no cones but the non-negative, the
        second-order and the semidefinite one. Parameters need values.

    Raises
    ------
    ProblemError
        If it is anything else; the message says what.
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
    _chain: Any
    _inverse: Any
    _back: tuple[Any, ...]

    def values(self, point: Point) -> dict[Any, Any]:
        """The values of cvxpy's variables at a point.

        Parameters
        ----------
        point : tuple of ndarray
            A point of ``problem``.
        """
        from cvxpy.reductions.solution import Solution

        parts = self.problem.point(point)
        x: FloatArray = sum(
            (matrix @ np.ravel(part) for matrix, part in zip(self._back, parts, strict=True)),
            np.zeros(self._back[0].shape[0]),
        )
        stuffed = self._inverse[-1][self._chain.solver.VAR_ID]
        found = Solution("optimal", 0.0, {stuffed: x}, {}, {})
        for reduction, inverse in reversed(
            list(zip(self._chain.reductions, self._inverse, strict=True))[:-1]
        ):
            found = reduction.invert(found, inverse)
        return {v: found.primal_vars[v.id] for v in self._original.variables() if v.id in found.primal_vars}

    def assign(self, point: Point) -> None:
        """Set the values of cvxpy's variables from a point.

        Parameters
        ----------
        point : tuple of ndarray
            A point of ``problem``, such as ``result.point``.
        """
        for variable, value in self.values(point).items():
            variable.save_value(value)


def convert(problem: cp.Problem) -> CvxpyForm:
    """As :func:`from_cvxpy`, with the way back to cvxpy's variables.

    Parameters
    ----------
    problem : cvxpy.Problem
        The problem.
    """
    import cvxpy as cp

    if not isinstance(problem, cp.Problem):
        raise ProblemError(f"from_cvxpy takes a cvxpy.Problem, got {type(problem).__name__}")
    asked = cp.Problem(cp.Minimize(0), problem.constraints)
    data, chain, inverse = _conic_form(asked)
    dims = data["dims"]
    matrix, b = sp.csr_array(data["A"]), np.asarray(data["b"], dtype=float)
    if any(bound is not None for bound in (data.get("lower_bounds"), data.get("upper_bounds"))):
        raise ProblemError("this version of cvxpy keeps the bounds of variables apart; state them as rows")
    parts = _Parts(matrix, b, int(dims.zero), int(dims.nonneg), [int(n) for n in dims.psd])
    return CvxpyForm(parts.problem(), asked, chain, inverse, parts.back())


def _conic_form(problem: Any) -> tuple[Any, Any, Any]:
    from cvxpy.error import DCPError, DPPError, ParameterError, SolverError

    if problem.is_mixed_integer():
        raise ProblemError("integer and boolean variables make no semidefinite problem")
    if not problem.is_dcp():
        raise ProblemError("the constraints are not convex by cvxpy's rules (problem.is_dcp() is False)")
    if not problem.variables():
        raise ProblemError("the problem has no variables")
    if not problem.constraints:
        raise ProblemError("the problem has no constraints")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about how fast cvxpy compiles
            found: tuple[Any, Any, Any] = problem.get_problem_data(_reader(), ignore_dpp=True)
    except SolverError:
        culprits = ", ".join(_beyond_semidefinite(problem)) or "a constraint"
        raise ProblemError(
            f"{culprits} needs another cone (exponential or power) than the linear, second-order and "
            "semidefinite ones"
        ) from None
    except (DCPError, DPPError, ParameterError, ValueError) as error:
        raise ProblemError(f"cvxpy cannot bring this into semidefinite form: {_one_line(error)}") from None
    return found


def _beyond_semidefinite(problem: Any) -> list[str]:
    """Names of the functions and constraints that no semidefinite problem holds."""
    from cvxpy.atoms import EXP_ATOMS
    from cvxpy.constraints import PSD as SEMIDEFINITE
    from cvxpy.constraints import SOC, Equality, Inequality, NonNeg, NonPos, Zero

    plain = (SEMIDEFINITE, SOC, Equality, Inequality, NonNeg, NonPos, Zero)
    names = {atom.__name__ for atom in problem.atoms() if atom in EXP_ATOMS}
    names |= {
        type(constraint).__name__ for constraint in problem.constraints if not isinstance(constraint, plain)
    }
    return sorted(names)


def _reader() -> Any:
    """A "solver" for cvxpy to compile for: it takes what a problem of ours can hold, and solves nothing."""
    from cvxpy.constraints import NonNeg, SvecPSD, Zero
    from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver
    from cvxpy.utilities.psd_utils import TriangleKind

    class Reader(ConicSolver):  # type: ignore[misc]
        """Nothing but what it takes."""

        SUPPORTED_CONSTRAINTS = (Zero, NonNeg, SvecPSD)
        PSD_TRIANGLE_KIND = TriangleKind.LOWER
        # Scaled by sqrt(2), entries off the diagonal would be rounded.
        PSD_SQRT2_SCALING = False

        def name(self) -> str:
            return "SDPFEAS"

        def import_solver(self) -> None:
            pass

        def cite(self, data: Any) -> str:
            return ""

        def solve_via_data(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        def invert(self, solution: Any, inverse_data: Any) -> Any:
            raise NotImplementedError

    return Reader()


class _Parts:
    """A conic form taken apart: which variables make up which block, and what is left to be a row.

    Parameters
    ----------
    matrix, b
        ``b - matrix @ x`` lies in the cones.
    zero, nonneg : int
        How many of its entries are zero, and how many non-negative, in this order.
    psd : list of int
        The sides of the matrices whose lower triangles follow, column by column.
    """

    def __init__(self, matrix: Any, b: FloatArray, zero: int, nonneg: int, psd: list[int]) -> None:
        self._matrix, self._b = matrix, b
        self._free = np.ones(matrix.shape[1], dtype=bool)
        self._sets: list[BlockSet] = []
        self._back: list[Any] = []
        #: For every slack: its set, and the rows its lower triangle stands in.
        self._slacks: list[tuple[PSD, np.ndarray]] = []
        self._equal = np.arange(b.size) < zero
        self._kept = np.ones(b.size, dtype=bool)
        single = np.diff(matrix.indptr) == 1
        self._only = np.full(b.size, -1)
        self._only[single] = matrix.indices[matrix.indptr[:-1][single]]
        self._factor = np.zeros(b.size)
        self._factor[single] = matrix.data[matrix.indptr[:-1][single]]
        start = zero + nonneg
        matrices = []
        for n in psd:
            rows = np.arange(start, start + n * (n + 1) // 2)
            if self._is_variable(rows):
                matrices.append((n, rows))
            else:
                self._slacks.append((PSD(n), rows))
                self._equal[rows] = True
            start += rows.size
        signs = self._signed_variables(np.arange(zero, zero + nonneg))
        (rest,) = np.nonzero(self._free)
        used = np.zeros(matrix.shape[1], dtype=bool)
        used[matrix[self._kept].indices] = True
        if not used.any():  # nothing is asked of anything, but a problem needs a block
            used[:] = True
        for n, rows in matrices:
            if used[self._only[rows]].any():
                j, i = np.triu_indices(n)  # of the lower triangle, column by column
                self._add(PSD(n), self._only[rows], -1.0 / self._factor[rows], _entries(n, i, j))
        signs = signs[used[self._only[signs]]]
        if signs.size:
            self._add(Nonneg(signs.size), self._only[signs], -np.sign(self._factor[signs]))
        rest = rest[used[rest]]
        if rest.size:
            self._add(Free(rest.size), rest, np.ones(rest.size))

    def _is_variable(self, rows: np.ndarray) -> bool:
        """Whether a matrix is made of variables that are in no other block; they are taken then."""
        columns, factors = self._only[rows], self._factor[rows]
        if np.any(columns < 0) or np.any(self._b[rows]) or not np.all(self._free[columns]):
            return False
        powers_of_two = np.frexp(np.abs(factors))[0] == 0.5
        if not np.all(powers_of_two) or np.unique(columns).size < columns.size:
            return False
        self._kept[rows] = False
        self._free[columns] = False
        return True

    def _signed_variables(self, rows: np.ndarray) -> np.ndarray:
        """Those of the rows that say no more than the sign of a variable; the variables are taken then."""
        taken = []
        for row in rows[(self._only[rows] >= 0) & (self._b[rows] == 0.0)]:
            column = self._only[row]
            if self._free[column]:
                self._free[column] = False
                self._kept[row] = False
                taken.append(row)
        return np.array(taken, dtype=int)

    def _add(self, block: BlockSet, columns: np.ndarray, factors: FloatArray, entries: Any = None) -> None:
        """Add a block some variables are made of: ``x[columns] = factors · entries``."""
        k = np.arange(columns.size)
        spread = sp.csr_array((factors, (columns, k)), shape=(self._matrix.shape[1], columns.size))
        self._sets.append(block)
        self._back.append(spread if entries is None else sp.csr_array(spread @ entries))

    def problem(self) -> FeasibilityProblem:
        """The feasibility problem."""
        kept = self._kept
        matrix, b = self._matrix[kept], self._b[kept]
        rows = [
            Sparse(matrix @ back, block.n, block.shape == (block.n, block.n))
            for block, back in zip(self._sets, self._back, strict=True)
        ]
        place = np.cumsum(kept) - 1
        for block, own in self._slacks:
            j, i = np.triu_indices(block.n)
            where = sp.csr_array(
                (np.ones(own.size), (place[own], np.arange(own.size))), shape=(b.size, own.size)
            )
            rows.append(Sparse(where @ _entries(block.n, i, j), block.n))
        lower = np.where(self._equal[kept], b, -np.inf)
        return FeasibilityProblem([*self._sets, *(block for block, _ in self._slacks)], rows, lower, b)

    def back(self) -> tuple[Any, ...]:
        """For every block, the matrix that turns it into its share of the variables."""
        width = self._matrix.shape[1]
        return (*self._back, *(sp.csr_array((width, block.n**2)) for block, _ in self._slacks))


def _entries(n: int, i: np.ndarray, j: np.ndarray) -> Any:
    """Rows that read entries of a symmetric matrix, themselves symmetric."""
    k = np.arange(i.size)
    halves = np.full(2 * i.size, 0.5)
    return sp.csr_array(
        (halves, (np.concatenate([k, k]), np.concatenate([i * n + j, j * n + i]))), shape=(i.size, n * n)
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
