"""``cvxpy``: any semidefinite solver that cvxpy finds, by name.

Through cvxpy some solvers (SDPA, CVXOPT) return no certificate for infeasible problems. The margin problem is
always feasible, so its multipliers give a certificate for them as well. Warm starts and callbacks are not
supported. In cvxpy a failure of the solver is an exception, and a limit looks like an inaccurate solution, so
the compiled problem is passed to the solver step by step, and its own status is kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.conic.conic_backend import ConicBackend, ConicOptions, ConicSolution, Form
from sdpfeas.backends.conic.conic_cost import interior_point_cost, solver_deadline, splitting_cost
from sdpfeas.claims import Stop
from sdpfeas.deadline import Deadline
from sdpfeas.errors import BackendError
from sdpfeas.extras import cvxpy
from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray, svec_map
from sdpfeas.problem.conic_form import ConicForm

__all__ = ["Cvxpy", "CvxpyOptions"]

#: Names of the time limit among the settings of a solver.
TIME_LIMITS = {"CLARABEL": "time_limit", "SCS": "time_limit_secs", "COPT": "TimeLimit"}

#: Stop reasons by cvxpy's status. Any other status is an error.
CVXPY_STOPS = {
    "optimal": Stop.FINISHED,
    "infeasible": Stop.FINISHED,
    "unbounded": Stop.FINISHED,
    "infeasible_or_unbounded": Stop.FINISHED,
    "optimal_inaccurate": Stop.STALLED,
    "infeasible_inaccurate": Stop.STALLED,
    "unbounded_inaccurate": Stop.STALLED,
    "user_limit": Stop.ITERATION_LIMIT,
    "solver_error": Stop.NUMERICAL,
}


@dataclass(frozen=True)
class CvxpyOptions(ConicOptions):
    """Options of ``cvxpy``, besides those of :class:`ConicOptions`.

    ``solver`` is the name of a solver, in cvxpy's spelling. ``settings`` are passed to the solver. The form
    is "primal" by default, since cvxpy drops the rays of unbounded problems.
    """

    direct_form: Form = "primal"
    solver: str = "CLARABEL"
    settings: dict = field(default_factory=dict)  # type: ignore[type-arg]

    def solver_settings(self, deadline: Deadline) -> dict[str, Any]:
        """Return the settings in the solver's names."""
        name, limit = self.solver.upper(), deadline.limit
        # Without it, cvxpy discards the last iterate of a stalled solve.
        out: dict[str, Any] = {"accept_unknown": True} if name == "CLARABEL" else {}
        out |= self.settings
        if limit is None:
            return out
        if name in TIME_LIMITS:
            out[TIME_LIMITS[name]] = min(limit, out.get(TIME_LIMITS[name], limit))
        elif name == "MOSEK":
            own = {"MSK_DPAR_OPTIMIZER_MAX_TIME": limit}
            out["mosek_params"] = {**own, **out.get("mosek_params", {})}
        return out


class Cvxpy(ConicBackend):
    """Any semidefinite solver that cvxpy finds, by name."""

    name = "cvxpy"
    requires = ("cvxpy",)
    distribution = "cvxpy"
    Options = CvxpyOptions

    def solve_cones_on_rows(self, form: ConicForm, deadline: Deadline) -> ConicSolution:
        """Solve a form with free variables."""
        name = self.options.solver.upper()
        require_solver(name)
        cells = float(form.matrix.nnz) + sum(form.semidefinite) ** 2
        guard("cvxpy's compiler", 200.0 * WRITE_FLOPS * cells, memory=300.0 * cells)
        cost = splitting_cost(form) if name == "SCS" else interior_point_cost(form)
        solver_deadline(cost, name, deadline)
        # The raw status replaces the warnings of cvxpy.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = model_of(form)
            settings = self.options.solver_settings(deadline)
            compiled = model.problem.get_problem_data(name, solver_opts=settings)
            if deadline.expired:
                return ConicSolution(raw_status="compiled", stop=Stop.TIME_LIMIT)
            stop = solver_deadline(cost, name, deadline)
            return _run(model, compiled, self.options.solver_settings(stop), stop)


def _run(model: Model, compiled: Any, settings: dict[str, Any], deadline: Deadline) -> ConicSolution:
    """Solve the compiled problem. The solver's status is kept even if cvxpy fails afterwards."""
    data, chain, inverse = compiled
    words = ""
    try:
        result = chain.solve_via_data(model.problem, data, solver_opts=settings)
        words = _raw_status(result)
        model.problem.unpack_results(result, chain, inverse)
    except cvxpy().error.SolverError as error:
        status = f"{words}; SolverError: {error}".removeprefix("; ")
        return ConicSolution(raw_status=status, stop=Stop.ERROR)
    except BaseException as error:  # noqa: BLE001 - a panic is no Exception; all else is raised again
        return ConicSolution.of_panic(error)
    status = str(model.problem.status)
    stop = CVXPY_STOPS.get(status, Stop.ERROR)
    if stop is not Stop.FINISHED and deadline.expired:
        stop = Stop.TIME_LIMIT
    steps = model.problem.solver_stats.num_iters or 0
    return ConicSolution(
        model.x(), model.z(), "; ".join(dict.fromkeys(filter(None, (words, status)))), stop, int(steps)
    )


def _raw_status(result: Any) -> str:
    """Return the status in the raw result of any solver; empty if it has none."""
    if isinstance(result, Mapping):
        return str(result.get("info", result).get("status", ""))
    return str(getattr(result, "status", ""))


@dataclass(frozen=True)
class Model:
    """A cone form with free variables as a cvxpy problem."""

    form: ConicForm
    problem: Any
    variables: Any
    constraints: list[Any]

    def x(self) -> FloatArray | None:
        """Return the variables, or None without values."""
        return None if self.variables.value is None else np.asarray(self.variables.value, dtype=np.float64)

    def z(self) -> FloatArray | None:
        """Return the multipliers of the rows, or None without values."""
        values = [constraint.dual_value for constraint in self.constraints]
        if any(value is None for value in values):
            return None
        # cvxpy splits the dual value of a second-order cone into two pieces.
        pieces = [value if isinstance(value, list) else [value] for value in values]
        flat = np.concatenate([np.ravel(p) for piece in pieces for p in piece]).astype(np.float64)
        return np.asarray(self.form.whole(self.form.rows).T @ flat)


def model_of(form: ConicForm) -> Model:
    """Write a form with free variables as a cvxpy problem, with one constraint per kind or cone."""
    cp = cvxpy()
    rows, matrix, rhs = form.rows, sp.csr_array(form.matrix), form.rhs
    x = cp.Variable(form.columns.size)
    # Written this way, the dual values of cvxpy have the signs of our multipliers.
    zero, nonneg = rows.kinds[:2]
    constraints = [matrix[zero] @ x == rhs[zero]] if rows.free else []
    constraints += [matrix[nonneg] @ x <= rhs[nonneg]] if rows.nonneg else []
    for _, part in rows.second_order_slices:
        slack = rhs[part] - matrix[part] @ x
        constraints.append(cp.SOC(slack[0], slack[1:]))
    for n, part in rows.semidefinite_slices:
        whole = svec_map(n, form.triangle)
        entries = whole @ rhs[part] - (whole @ matrix[part]) @ x
        constraints.append(cp.reshape(entries, (n, n), order="C") >> 0)
    objective = cp.Minimize(form.cost @ x if form.cost.any() else 0)
    return Model(form, cp.Problem(objective, constraints), x, constraints)


def installed_sdp_solvers() -> list[str]:
    """Return the names of the installed solvers of cvxpy that accept PSD cones."""
    constraints = cvxpy().constraints
    solvers = import_module("cvxpy.reductions.solvers.defines")
    psd = {constraints.PSD, constraints.SvecPSD}
    supported = {name: set(each.SUPPORTED_CONSTRAINTS) for name, each in solvers.SOLVER_MAP_CONIC.items()}
    return [name for name in solvers.INSTALLED_CONIC_SOLVERS if psd & supported[name]]


def require_solver(name: str) -> None:
    """Raise ``BackendError`` unless the solver is installed and accepts PSD cones."""
    found = installed_sdp_solvers()
    if name not in found:
        raise BackendError(
            f"cvxpy finds no solver {name!r} for semidefinite programs here; installed: {', '.join(found)}"
        )
