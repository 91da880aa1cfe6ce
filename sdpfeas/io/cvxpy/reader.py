"""A "solver" for cvxpy to compile for: it takes what a problem of ours can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray

__all__ = ["reader"]


def reader(
    answer: Callable[[dict[str, Any], Any, dict[str, Any]], Any] | None = None,
    admit: Callable[[Any], None] | None = None,
) -> Any:
    """Make such a solver.

    Parameters
    ----------
    answer : callable, optional
        Takes the data cvxpy compiled, what it needs for the way back, and the options of ``Problem.solve``;
        returns a ``cvxpy.reductions.Solution``. Without it the solver solves nothing.
    admit : callable, optional
        Takes the problem before cvxpy compiles it, and raises an error if it is not to be solved.
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
