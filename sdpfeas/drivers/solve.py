"""``solve``: decide one feasibility problem with a backend, and verify what the backend found."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.dispatch import dispatch
from sdpfeas.backends.inquiry import FINAL_PROOF_SECONDS, Callback, Inquiry, WarmStart
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.cards.finder import ForeignCode, own_code_only
from sdpfeas.claims import Claim, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.isolation import make_available, run_isolated
from sdpfeas.errors import ClaimError, LimitError, OptionError
from sdpfeas.files import parse_size
from sdpfeas.numerics.limits import limited
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.bounded_variables import Bound
from sdpfeas.verifier import decide
from sdpfeas.verifier.outcome import Proof
from sdpfeas.verifier.results import Result


class Evidence(Protocol):
    """An object with a point and dual multipliers: a Result, a Claim, a Check or a WarmStart."""

    @property
    def point(self) -> Any:
        """One array per set, or None."""

    @property
    def certificate(self) -> Any:
        """One multiplier per row, or None."""


def solve(
    problem: FeasibilityProblem,
    solver: str | Path | type[FeasibilityBackend] | Solver = "auto",
    /,
    *,
    time_limit: float | None = None,
    warm_start: Evidence | None = None,
    callback: Callback | None = None,
    rigorous: bool = False,
    reading: str = "stored",
    isolate: bool = False,
    memory_limit: int | str | None = None,
    bound: Bound | None = None,
    options: Mapping[str, Any] | None = None,
) -> Result:
    """Decide a feasibility problem or a cvxpy model, with proof.

    The backend only claims; the verdict is granted by the verifier on the data as given. For a
    ``cvxpy.Problem`` the constraints are decided and the objective is ignored. Values and dual values are set
    on its variables and constraints, and the result also knows them by name.

    Parameters
    ----------
    problem : FeasibilityProblem or cvxpy.Problem
        The problem.
    solver : str, Path, type or Solver
        The backend: its name, a solver card, a drop-in file, or a class.
    time_limit : float, optional
        Seconds for everything, proofs included. Work that is estimated to take longer than the time left is
        not started, and the reason names it.
    warm_start : Result, Claim, Check or WarmStart, optional
        Where to start from; ignored by backends without warm starts.
    callback : callable, optional
        Called during the solve with a :class:`Progress`; returning True stops the backend.
    rigorous : bool
        Refuse a numeric verdict: only a rigorous or exact proof counts.
    reading : {"stored", "written"}
        The data that the verdict is about: binary64 data as given, or the decimals and fractions they were
        rounded from; see ``docs/verdicts.md``.
    isolate : bool
        Run the backend in a child process, so that the time limit is hard and a crash is survived. The first
        child takes about a second to start; it is reused for the library's own backends.
    memory_limit : int or str, optional
        With ``isolate``, bytes (or a size such as ``"4G"``) for the child and its descendants.
    bound : float or mapping, optional
        Points with a larger norm do not interest: INFEASIBLE then means that no point within the bound is
        feasible. A mapping gives one number for each block (or variable of a model) that it names. See
        :meth:`FeasibilityProblem.bounded` and ``docs/verdicts.md``.
    options : mapping, optional
        Options of the backend.

    Returns
    -------
    Result
        FEASIBLE with a point, INFEASIBLE with a certificate, or UNDECIDED with the reason.

    Raises
    ------
    BackendError
        If the solver cannot be found or cannot run here.
    OptionError
        If an option is unknown or of the wrong type.

    Examples
    --------
    A positive semidefinite matrix of trace one has no off-diagonal entry of 0.6.

    >>> import numpy as np, sdpfeas as sf
    >>> builder = sf.ProblemBuilder()
    >>> builder.block("X", sf.PSD(2))
    >>> builder.row("trace", {"X": np.eye(2)}, equal=1.0)
    >>> builder.row("corner", {"X": [[0, 0.5], [0.5, 0]]}, lower=0.6)
    >>> result = sf.solve(builder.build(), rigorous=True)
    >>> print(result.verdict)
    infeasible

    The same as a cvxpy model, with a corner that is possible:

    >>> import cvxpy as cp
    >>> X = cp.Variable((2, 2), PSD=True)
    >>> model = cp.Problem(cp.Minimize(0), [cp.trace(X) == 1, X[0, 1] >= 0.4])
    >>> print(sf.solve(model).verdict)
    feasible
    >>> bool(X.value[0, 1] >= 0.4)
    True
    """
    if not isinstance(problem, FeasibilityProblem):
        raise ClaimError(f"solve needs a FeasibilityProblem, got {type(problem).__name__}")
    chosen_options = backend_options(options)
    chosen = _find_solver(solver, isolate)
    backend = chosen if isinstance(chosen, str) else make_available(chosen, chosen_options)
    if isolate and callback is not None:
        raise OptionError("a callback cannot be called from a child process: drop callback or isolate")
    if memory_limit is not None and not isolate:
        raise OptionError("memory_limit needs isolate=True: it is enforced on a child process only")
    memory = parse_size(memory_limit, "memory_limit") if isinstance(memory_limit, str) else memory_limit
    deadline = Deadline(time_limit)
    if bound is not None:
        problem = problem.bounded(bound)
    start = None
    if warm_start is not None:
        start = WarmStart(
            None if warm_start.point is None else problem.point(warm_start.point),
            None if warm_start.certificate is None else problem.multipliers(warm_start.certificate),
        )
    with few_threads(problem.sides, problem.m):
        inquiry = Inquiry(
            problem, deadline=deadline, start=start, rigorous=rigorous, reading=reading, listener=callback
        )
        if isinstance(backend, str) or isolate:
            claim, about = run_isolated(
                chosen, chosen_options, problem, time_limit, start,
                rigorous=rigorous, reading=reading, memory_limit=memory,
            )  # fmt: skip
        else:
            claim, about = dispatch(backend, problem, inquiry), {}
        solve_time = deadline.elapsed
        check = inquiry.final_check(claim)
    wall_time = deadline.elapsed
    if not isinstance(backend, str):
        about = {
            "backend": backend.name,
            "version": backend.version(),
            "options": backend.option_values(),
        }
    result = Result(
        check=check,
        claim=claim,
        backend=str(about.get("backend", chosen)),
        version=str(about.get("version", "")),
        options=dict(about.get("options", chosen_options)),
        wall_time=wall_time,
        solve_time=solve_time,
        overshoot=0.0 if time_limit is None else max(wall_time - time_limit, 0.0),
    )
    return result if bound is None else without_bound(result, deadline)


def without_bound(result: Result, deadline: Deadline) -> Result:
    """Verify the evidence of a bounded problem on the problem without the bound.

    Returns the result for that problem if the verdict is the same. That is the case for a point, and for a
    certificate that does not need the bound.
    """
    check, bound = result.check, result.problem.bound
    if bound is None or check.verdict is Verdict.UNDECIDED:
        return result
    rational, rigorous = check.rational, check.proof is not Proof.NUMERIC
    if check.certificate is not None and rational is not None:
        rational = bound.multipliers(rational)
    y = None if check.certificate is None else bound.multipliers(check.certificate)
    evidence = Claim(point=check.point, certificate=y, rational=rational)
    with suppress(LimitError), limited(deadline.later(FINAL_PROOF_SECONDS)):
        found = decide(bound.original, evidence, rigorous=rigorous, reading=check.reading)
        if found.verdict is check.verdict:
            return replace(result, check=found, claim=result.claim.back(bound))
    return result


def _find_solver(solver: str | Path | type[FeasibilityBackend] | Solver, isolate: bool) -> Solver | str:
    """Find a solver; return its name if its code is not the library's and only a child may import it."""
    if not (isolate and isinstance(solver, (str, Path))):
        return find_solver(solver)
    try:
        with own_code_only():
            return find_solver(solver)
    except ForeignCode:
        return str(solver)


def backend_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Copy ``options=``; raise an error unless it is a mapping."""
    if options is not None and not isinstance(options, Mapping):
        raise OptionError(f"options must be a mapping of names to values, got {type(options).__name__}")
    return dict(options or {})
