"""``solve``: ask a backend, and take the verdict that was granted on what it found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.dispatch import ask
from sdpfeas.backends.inquiry import Callback, Inquiry, WarmStart
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.cards.loader import ForeignCode, own_code_only
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.isolation import run_isolated
from sdpfeas.errors import BackendError, ClaimError, OptionError
from sdpfeas.files import parse_size
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.results import Result


class Evidence(Protocol):
    """Anything that carries a point and multipliers: a Result, a Claim, a Check, a WarmStart."""

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
    options: Mapping[str, Any] | None = None,
) -> Result:
    """Answer a feasibility problem, with proof.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    solver : str, Path, type or Solver
        Which backend to ask: its name, a card, a drop-in file, or a class.
    time_limit : float, optional
        Seconds for everything, the proofs included. What is estimated to take longer than what is left is
        not begun, and the reason says so.
    warm_start : Result, Claim, Check or WarmStart, optional
        Where to start from; ignored by backends that cannot.
    callback : callable, optional
        Called now and then with a :class:`Progress`; returning True stops the backend.
    rigorous : bool
        Refuse a numeric verdict: only a rigorous or exact proof counts.
    reading : {"stored", "written"}
        Whether the numbers of the problem stand for themselves, or for the decimals and fractions they were
        rounded from; see ``docs/verdicts.md``.
    isolate : bool
        Run the backend in a child process: the time limit is then hard, and a crash costs nothing. The
        first one takes about a second to start; for the library's own backends it is kept for a while.
    memory_limit : int or str, optional
        With ``isolate``, bytes (or a size such as ``"4G"``) that the child and all it starts may hold.
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
        If an option is unknown or ill-typed.
    """
    if not isinstance(problem, FeasibilityProblem):
        raise ClaimError(f"solve needs a FeasibilityProblem, got {type(problem).__name__}")
    chosen_options = backend_options(options)
    chosen: Solver | str = _found(solver, isolate)
    backend = None
    if isinstance(chosen, Solver):
        backend = chosen.make(**chosen_options)
        fine, why = backend.available()
        if not fine:
            raise BackendError(f"backend {backend.name!r} is not available: {why}")
    if isolate and callback is not None:
        raise OptionError("a callback cannot reach into a child process: drop callback or isolate")
    if memory_limit is not None and not isolate:
        raise OptionError("memory_limit needs isolate=True: only a child process can be held to it")
    memory = parse_size(memory_limit, "memory_limit") if isinstance(memory_limit, str) else memory_limit
    deadline = Deadline(time_limit)
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
        if backend is None or isolate:
            claim, about = run_isolated(
                chosen, chosen_options, problem, time_limit, start,
                rigorous=rigorous, reading=reading, memory_limit=memory,
            )  # fmt: skip
        else:
            claim, about = ask(backend, problem, inquiry), {}
        solve_time = deadline.elapsed
        check = inquiry.settle(claim)
    wall_time = deadline.elapsed
    return Result(
        check=check,
        claim=claim,
        backend=str(about.get("backend", chosen)) if backend is None else backend.name,
        version=str(about.get("version", "")) if backend is None else backend.version(),
        options=dict(about.get("options", chosen_options)) if backend is None else backend.option_values(),
        wall_time=wall_time,
        solve_time=solve_time,
        overshoot=0.0 if time_limit is None else max(wall_time - time_limit, 0.0),
    )


def _found(solver: str | Path | type[FeasibilityBackend] | Solver, isolate: bool) -> Solver | str:
    """The solver; the name of one whose code is not the library's where only a child process may run that."""
    if not (isolate and isinstance(solver, (str, Path))):
        return find_solver(solver)
    try:
        with own_code_only():
            return find_solver(solver)
    except ForeignCode:
        return str(solver)


def backend_options(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Check that ``options=`` is a mapping, and copy it."""
    if options is not None and not isinstance(options, Mapping):
        raise OptionError(f"options must be a mapping of names to values, got {type(options).__name__}")
    return dict(options or {})
