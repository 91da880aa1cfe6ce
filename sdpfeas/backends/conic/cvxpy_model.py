"""Cone programs as cvxpy problems, and answers back with the solver's own status.

cvxpy keeps the raw status to itself: a limit and an inaccurate answer look alike, and a failure is an
exception. So the compiled problem is solved step by step, and the solver's own result kept.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.conic.cone_program import Answer, ConePair, Cones, StandardForm
from sdpfeas.backends.conic.conic_cost import Cost, affordable
from sdpfeas.backends.conic.raw_status import READERS, panic_answer
from sdpfeas.claims import Stop
from sdpfeas.deadline import Deadline
from sdpfeas.errors import BackendError
from sdpfeas.extras import cvxpy
from sdpfeas.numerics.cost_estimate import need
from sdpfeas.numerics.linalg import FloatArray, svec_map

#: Statuses of cvxpy with the reason to stop they stand for, where the solver itself says no more.
STOPS = {
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

#: Settings without which cvxpy throws the last iterate away where the solver stalls.
KEEP_LAST = {"CLARABEL": {"accept_unknown": True}}


@dataclass(frozen=True)
class Model:
    """A cvxpy problem with the handles to read its solution by."""

    pair: ConePair
    problem: Any
    variables: list[Any]
    constraints: list[Any]

    def x(self) -> FloatArray | None:
        """Values of the variables, packed as in the pair; None if there are none."""
        return self._packed([v.value for v in self.variables], self.pair.columns)

    def z(self) -> FloatArray | None:
        """Multipliers of the rows, packed as in the pair; None if there are none."""
        return self._packed([c.dual_value for c in self.constraints], self.pair.rows)

    def _packed(self, values: list[Any], cones: Cones) -> FloatArray | None:
        if any(value is None for value in values):
            return None
        # The multiplier of a second-order cone comes in two pieces.
        pieces = [value if isinstance(value, list) else [value] for value in values]
        parts = [np.concatenate([np.ravel(p) for p in piece]).astype(np.float64) for piece in pieces]
        vectors = len(parts) - len(cones.psd)
        for k, n in enumerate(cones.psd, vectors):
            parts[k] = svec_map(n, self.pair.triangle).T @ parts[k]
        return np.concatenate(parts)


def model_of(pair: ConePair) -> Model:
    """Write a cone program as a cvxpy problem: one variable per kind and cone, one constraint likewise."""
    cp = cvxpy()
    columns, rows = pair.columns, pair.rows
    variables, factors = [], []
    matrix = sp.csc_array(pair.matrix)
    if columns.flat:
        variables.append(cp.Variable(columns.flat))
        factors.append(matrix[:, : columns.flat])
    if columns.nonneg:
        variables.append(cp.Variable(columns.nonneg, nonneg=True))
        factors.append(matrix[:, columns.flat : columns.head])
    for n, place in columns.vectors:
        variables.append(cp.Variable(n))
        factors.append(matrix[:, place])
    for n, place in columns.matrices:
        variables.append(cp.Variable((n, n), PSD=True))
        factors.append(matrix[:, place] @ svec_map(n, pair.triangle).T)
    flat = [v if v.ndim == 1 else cp.vec(v, order="C") for v in variables]
    left = [sp.csr_array(factor) for factor in factors]

    def value(part: slice) -> Any:
        return sum(factor[part] @ v for factor, v in zip(left, flat, strict=True))

    # cvxpy's multipliers have the signs of ours when the constraints are written this way round.
    zero, nonneg = slice(0, rows.flat), slice(rows.flat, rows.head)
    constraints = [value(zero) == pair.rhs[zero]] if rows.flat else []
    constraints += [value(nonneg) <= pair.rhs[nonneg]] if rows.nonneg else []
    for _, place in rows.vectors:
        slack = pair.rhs[place] - value(place)
        constraints.append(cp.SOC(slack[0], slack[1:]))
    for n, place in rows.matrices:
        entries = svec_map(n, pair.triangle) @ (pair.rhs[place] - value(place))
        constraints.append(cp.reshape(entries, (n, n), order="C") >> 0)
    cost = _unpacked_cost(pair)
    objective = cp.Minimize(sum(c @ v for c, v in zip(cost, flat, strict=True)) if pair.cost.any() else 0)
    own = [cp.SOC(v[0], v[1:]) for v in variables[bool(columns.flat) + bool(columns.nonneg) :] if v.ndim == 1]
    return Model(pair, cp.Problem(objective, [*constraints, *own]), variables, constraints)


def _unpacked_cost(pair: ConePair) -> list[FloatArray]:
    columns = pair.columns
    out = [pair.cost[: columns.flat]] if columns.flat else []
    out += [pair.cost[columns.flat : columns.head]] if columns.nonneg else []
    out += [pair.cost[place] for _, place in columns.vectors]
    return out + [svec_map(n, pair.triangle) @ pair.cost[place] for n, place in columns.matrices]


def ask_cvxpy(
    pair: ConePair,
    solver: str,
    settings: Callable[[Deadline], dict[str, Any]],
    deadline: Deadline,
    cost: Callable[[StandardForm], Cost],
) -> Answer:
    """Answer a cone program with a solver of cvxpy's.

    ``solver``: name of the solver, in cvxpy's spelling. ``settings``: gives the solver's settings, asked
    for after compiling, so that a time limit is what is then left.
    """
    extra = KEEP_LAST.get(solver, {})
    cells = float(pair.matrix.nnz) + sum(pair.rows.psd) ** 2 + sum(pair.columns.psd) ** 2
    need("cvxpy's compiler", numbers=200.0 * cells, memory=300.0 * cells)
    price = cost(pair.standard_form())
    affordable(price, solver, deadline)
    # cvxpy warns of what the raw status says anyway.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = model_of(pair)
        compiled = model.problem.get_problem_data(solver, solver_opts={**extra, **settings(deadline)})
        if deadline.expired:
            return Answer(raw_status="compiled", stop=Stop.TIME_LIMIT)
        stop = affordable(price, solver, deadline)
        return _run(model, solver, compiled, {**extra, **settings(stop)}, deadline)


def _run(model: Model, solver: str, compiled: Any, options: dict[str, Any], deadline: Deadline) -> Answer:
    """Solve the compiled problem; whatever goes wrong, what the solver itself said is kept."""
    data, chain, inverse = compiled
    answer = Answer(stop=Stop.ERROR)
    try:
        raw = chain.solve_via_data(model.problem, data, solver_opts=options)
        answer = READERS[solver](raw) if solver in READERS else _read_unknown(raw)
        model.problem.unpack_results(raw, chain, inverse)
    except cvxpy().error.SolverError as error:
        status = f"{answer.raw_status}; SolverError: {error}".removeprefix("; ")
        return replace(answer, x=None, z=None, raw_status=status)
    except BaseException as error:  # noqa: BLE001 - a panic is no Exception; all else is raised again
        return panic_answer(error)
    return _unpacked(model, answer, solver, deadline)


def _read_unknown(raw: Any) -> Answer:
    """Read what little the results of all solvers have in common."""
    status = raw.get("status", "") if isinstance(raw, Mapping) else getattr(raw, "status", "")
    return Answer(raw_status=str(status), stop=Stop.ERROR)


def _unpacked(model: Model, answer: Answer, solver: str, deadline: Deadline) -> Answer:
    status = str(model.problem.status)
    if solver not in READERS:
        stop = STOPS.get(status, Stop.ERROR)
        if status == "user_limit" and deadline.expired:
            stop = Stop.TIME_LIMIT
        words = dict.fromkeys([answer.raw_status, status])
        stats = model.problem.solver_stats
        steps = None if stats is None else stats.num_iters
        answer = Answer(raw_status="; ".join(w for w in words if w), stop=stop, iterations=int(steps or 0))
    return replace(answer, x=model.x(), z=model.z(), info={**answer.info, "cvxpy_status": status})


def installed_sdp_solvers() -> list[str]:
    """Names of the solvers cvxpy finds here that take positive semidefinite matrices."""
    constraints = cvxpy().constraints
    solvers = import_module("cvxpy.reductions.solvers.defines")
    matrices = {constraints.PSD, constraints.SvecPSD}
    takes = {name: set(solver.SUPPORTED_CONSTRAINTS) for name, solver in solvers.SOLVER_MAP_CONIC.items()}
    return [name for name in solvers.INSTALLED_CONIC_SOLVERS if matrices & takes[name]]


def require_solver(solver: str) -> None:
    """Refuse a solver cvxpy does not find.

    Raises ``BackendError``: if it is unknown, not installed, or takes no matrices; the message names those
    that do.
    """
    found = installed_sdp_solvers()
    if solver not in found:
        raise BackendError(
            f"cvxpy finds no solver {solver!r} for semidefinite programs here; installed: {', '.join(found)}"
        )
