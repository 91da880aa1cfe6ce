"""A "solver" for cvxpy to compile for: it takes what a problem of ours can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["reader"]


def reader(answer: Callable[[dict[str, Any], Any, dict[str, Any]], Any] | None = None) -> Any:
    """Make such a solver.

    Parameters
    ----------
    answer : callable, optional
        Takes the data cvxpy compiled, what it needs for the way back, and the options of ``Problem.solve``;
        returns a ``cvxpy.reductions.Solution``. Without it the solver solves nothing.
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
