"""Cone forms through cvxpy, with the raw status of the solver.

cvxpy hides the raw status: a limit looks like an inaccurate solution, and a failure is an exception. So the
compiled problem is passed to the solver step by step, and the raw result is read too. Entry point:
:func:`solve_with_cvxpy`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.conic.conic_cost import Cost, interior_point_cost, solver_deadline
from sdpfeas.backends.conic.conic_solution import ConicSolution
from sdpfeas.claims import Stop
from sdpfeas.deadline import Deadline
from sdpfeas.errors import BackendError
from sdpfeas.extras import cvxpy
from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray, svec_map
from sdpfeas.problem.conic_form import ConicForm

#: Stop reasons by cvxpy's status, for solvers whose raw result is not read. Any other status is an error.
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
class CvxpySolver:
    """A solver of cvxpy.

    ``name`` is cvxpy's name of it. ``read`` reads its raw result, if the format is known. ``time_limit`` is
    the name of that setting, if there is one. ``settings`` are always passed.
    """

    name: str
    cost: Callable[[ConicForm], Cost] = interior_point_cost
    read: Callable[[Any], ConicSolution] | None = None
    time_limit: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def solve_with_cvxpy(
    form: ConicForm,
    solver: CvxpySolver,
    settings: Callable[[Deadline], dict[str, Any]],
    deadline: Deadline,
) -> ConicSolution:
    """Solve a cone form through cvxpy.

    ``settings`` maps the time left to settings of the solver; it is called again after cvxpy has compiled.
    """
    free = form.cones_on_rows()
    cells = float(free.matrix.nnz) + sum(free.semidefinite) ** 2
    guard("cvxpy's compiler", 200.0 * WRITE_FLOPS * cells, memory=300.0 * cells)
    cost = solver.cost(free)
    solver_deadline(cost, solver.name, deadline)
    # The raw status replaces the warnings of cvxpy.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(free)
        options = {**solver.settings, **settings(deadline)}
        compiled = model.problem.get_problem_data(solver.name, solver_opts=options)
        if deadline.expired:
            return ConicSolution(raw_status="compiled", stop=Stop.TIME_LIMIT)
        stop = solver_deadline(cost, solver.name, deadline)
        return _run(model, solver, compiled, {**solver.settings, **settings(stop)}, deadline).back(free)


def _run(
    model: Model, solver: CvxpySolver, compiled: Any, options: dict[str, Any], deadline: Deadline
) -> ConicSolution:
    """Solve the compiled problem. The raw status is kept even if cvxpy fails afterwards."""
    data, chain, inverse = compiled
    raw = ConicSolution(stop=Stop.ERROR)
    try:
        result = chain.solve_via_data(model.problem, data, solver_opts=options)
        raw = _read_any(result) if solver.read is None else solver.read(result)
        model.problem.unpack_results(result, chain, inverse)
    except cvxpy().error.SolverError as error:
        status = f"{raw.raw_status}; SolverError: {error}".removeprefix("; ")
        return replace(raw, x=None, z=None, raw_status=status)
    except BaseException as error:  # noqa: BLE001 - a panic is no Exception; all else is raised again
        return ConicSolution.of_panic(error)
    status = str(model.problem.status)
    if solver.read is None:
        raw = _with_cvxpy_status(raw, model, deadline)
    return replace(raw, x=model.x(), z=model.z(), info={**raw.info, "cvxpy_status": status})


def _read_any(result: Any) -> ConicSolution:
    """Read the status from the raw result of any solver."""
    status = result.get("status", "") if isinstance(result, Mapping) else getattr(result, "status", "")
    return ConicSolution(raw_status=str(status), stop=Stop.ERROR)


def _with_cvxpy_status(raw: ConicSolution, model: Model, deadline: Deadline) -> ConicSolution:
    """Take stop reason and iterations from cvxpy."""
    status = str(model.problem.status)
    stop = CVXPY_STOPS.get(status, Stop.ERROR)
    if status == "user_limit" and deadline.expired:
        stop = Stop.TIME_LIMIT
    words = dict.fromkeys([raw.raw_status, status])
    stats = model.problem.solver_stats
    steps = None if stats is None else stats.num_iters
    return ConicSolution(raw_status="; ".join(w for w in words if w), stop=stop, iterations=int(steps or 0))


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
