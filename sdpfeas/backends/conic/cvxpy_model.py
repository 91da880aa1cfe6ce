"""Cone programs through cvxpy, with the raw status of the solver.

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

from sdpfeas.backends.conic.cone_program import ConeProgram, Cones, ConeSolution, StandardForm
from sdpfeas.backends.conic.conic_cost import Cost, interior_point_cost, solver_deadline
from sdpfeas.claims import Stop
from sdpfeas.deadline import Deadline
from sdpfeas.errors import BackendError
from sdpfeas.extras import cvxpy
from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.linalg import FloatArray, svec_map

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
    cost: Callable[[StandardForm], Cost] = interior_point_cost
    read: Callable[[Any], ConeSolution] | None = None
    time_limit: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


def solve_with_cvxpy(
    program: ConeProgram,
    solver: CvxpySolver,
    settings: Callable[[Deadline], dict[str, Any]],
    deadline: Deadline,
) -> ConeSolution:
    """Solve a cone program through cvxpy.

    ``settings`` maps the time left to settings of the solver; it is called again after cvxpy has compiled.
    """
    cells = float(program.matrix.nnz) + sum(program.rows.psd) ** 2 + sum(program.columns.psd) ** 2
    need("cvxpy's compiler", numbers=200.0 * cells, memory=300.0 * cells)
    cost = solver.cost(program.standard_form())
    solver_deadline(cost, solver.name, deadline)
    # The raw status replaces the warnings of cvxpy.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(program)
        options = {**solver.settings, **settings(deadline)}
        compiled = model.problem.get_problem_data(solver.name, solver_opts=options)
        if deadline.expired:
            return ConeSolution(raw_status="compiled", stop=Stop.TIME_LIMIT)
        stop = solver_deadline(cost, solver.name, deadline)
        return _run(model, solver, compiled, {**solver.settings, **settings(stop)}, deadline)


def _run(
    model: Model, solver: CvxpySolver, compiled: Any, options: dict[str, Any], deadline: Deadline
) -> ConeSolution:
    """Solve the compiled problem. The raw status is kept even if cvxpy fails afterwards."""
    data, chain, inverse = compiled
    raw = ConeSolution(stop=Stop.ERROR)
    try:
        result = chain.solve_via_data(model.problem, data, solver_opts=options)
        raw = _read_any(result) if solver.read is None else solver.read(result)
        model.problem.unpack_results(result, chain, inverse)
    except cvxpy().error.SolverError as error:
        status = f"{raw.raw_status}; SolverError: {error}".removeprefix("; ")
        return replace(raw, x=None, z=None, raw_status=status)
    except BaseException as error:  # noqa: BLE001 - a panic is no Exception; all else is raised again
        return ConeSolution.of_panic(error)
    status = str(model.problem.status)
    if solver.read is None:
        raw = _with_cvxpy_status(raw, model, deadline)
    return replace(raw, x=model.x(), z=model.z(), info={**raw.info, "cvxpy_status": status})


def _read_any(result: Any) -> ConeSolution:
    """Read the status from the raw result of any solver."""
    status = result.get("status", "") if isinstance(result, Mapping) else getattr(result, "status", "")
    return ConeSolution(raw_status=str(status), stop=Stop.ERROR)


def _with_cvxpy_status(raw: ConeSolution, model: Model, deadline: Deadline) -> ConeSolution:
    """Take stop reason and iterations from cvxpy."""
    status = str(model.problem.status)
    stop = CVXPY_STOPS.get(status, Stop.ERROR)
    if status == "user_limit" and deadline.expired:
        stop = Stop.TIME_LIMIT
    words = dict.fromkeys([raw.raw_status, status])
    stats = model.problem.solver_stats
    steps = None if stats is None else stats.num_iters
    return ConeSolution(raw_status="; ".join(w for w in words if w), stop=stop, iterations=int(steps or 0))


@dataclass(frozen=True)
class Model:
    """A cone program as a cvxpy problem."""

    program: ConeProgram
    problem: Any
    variables: list[Any]
    constraints: list[Any]

    def x(self) -> FloatArray | None:
        """Return the variables of the cone program, or None without values."""
        return self._packed([v.value for v in self.variables], self.program.columns)

    def z(self) -> FloatArray | None:
        """Return the multipliers of the rows, or None without values."""
        return self._packed([c.dual_value for c in self.constraints], self.program.rows)

    def _packed(self, values: list[Any], cones: Cones) -> FloatArray | None:
        if any(value is None for value in values):
            return None
        # cvxpy splits the dual value of a second-order cone into two pieces.
        pieces = [value if isinstance(value, list) else [value] for value in values]
        parts = [np.concatenate([np.ravel(p) for p in piece]).astype(np.float64) for piece in pieces]
        vectors = len(parts) - len(cones.psd)
        for k, n in enumerate(cones.psd, vectors):
            parts[k] = svec_map(n, self.program.triangle).T @ parts[k]
        return np.concatenate(parts)


def model_of(program: ConeProgram) -> Model:
    """Write a cone program as a cvxpy problem, with one variable and one constraint per kind and cone."""
    cp = cvxpy()
    columns, rows = program.columns, program.rows
    variables, factors = [], []
    matrix = sp.csc_array(program.matrix)
    if columns.free:
        variables.append(cp.Variable(columns.free))
        factors.append(matrix[:, : columns.free])
    if columns.nonneg:
        variables.append(cp.Variable(columns.nonneg, nonneg=True))
        factors.append(matrix[:, columns.free : columns.entrywise])
    for n, part in columns.second_slices:
        variables.append(cp.Variable(n))
        factors.append(matrix[:, part])
    for n, part in columns.psd_slices:
        variables.append(cp.Variable((n, n), PSD=True))
        factors.append(matrix[:, part] @ svec_map(n, program.triangle).T)
    flat = [v if v.ndim == 1 else cp.vec(v, order="C") for v in variables]
    left = [sp.csr_array(factor) for factor in factors]

    def value(part: slice) -> Any:
        return sum(factor[part] @ v for factor, v in zip(left, flat, strict=True))

    # Written this way, the dual values of cvxpy have the signs of our multipliers.
    zero, nonneg = slice(0, rows.free), slice(rows.free, rows.entrywise)
    constraints = [value(zero) == program.rhs[zero]] if rows.free else []
    constraints += [value(nonneg) <= program.rhs[nonneg]] if rows.nonneg else []
    for _, part in rows.second_slices:
        slack = program.rhs[part] - value(part)
        constraints.append(cp.SOC(slack[0], slack[1:]))
    for n, part in rows.psd_slices:
        entries = svec_map(n, program.triangle) @ (program.rhs[part] - value(part))
        constraints.append(cp.reshape(entries, (n, n), order="C") >> 0)
    cost = _unpacked_cost(program)
    objective = cp.Minimize(sum(c @ v for c, v in zip(cost, flat, strict=True)) if program.cost.any() else 0)
    own = [cp.SOC(v[0], v[1:]) for v in variables[bool(columns.free) + bool(columns.nonneg) :] if v.ndim == 1]
    return Model(program, cp.Problem(objective, [*constraints, *own]), variables, constraints)


def _unpacked_cost(program: ConeProgram) -> list[FloatArray]:
    columns = program.columns
    out = [program.cost[: columns.free]] if columns.free else []
    out += [program.cost[columns.free : columns.entrywise]] if columns.nonneg else []
    out += [program.cost[part] for _, part in columns.second_slices]
    return out + [svec_map(n, program.triangle) @ program.cost[part] for n, part in columns.psd_slices]


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
