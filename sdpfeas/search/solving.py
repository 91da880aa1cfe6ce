"""``solve``: ask a backend, map its claim back, and let the verifier decide."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from sdpfeas.backends.claimed import read_claim
from sdpfeas.backends.contract import Callback, FeasibilityBackend, Progress, WarmStart
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.deadline import Deadline
from sdpfeas.errors import BackendError, ClaimError, OptionError, in_words
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.lifting import Lift
from sdpfeas.problem.sets import SpectralBox
from sdpfeas.search.isolation import run_isolated
from sdpfeas.verifier import verify
from sdpfeas.verifier.results import Check, Claim, Result, Stop, Verdict

__all__ = ["decide", "solve", "solve_claim"]


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
    isolate: bool = False,
    **options: Any,
) -> Result:
    """Answer a feasibility problem, with proof.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    solver : str, Path, type or Solver
        Which backend to ask: its name, a card, a drop-in file, or a class.
    time_limit : float, optional
        Seconds for the backend; verification comes on top.
    warm_start : Result, Claim, Check or WarmStart, optional
        Where to start from; ignored by backends that cannot.
    callback : callable, optional
        Called now and then with a :class:`Progress`; returning True stops the backend.
    rigorous : bool
        Refuse a numeric verdict: only a rigorous or exact proof counts.
    isolate : bool
        Run the backend in a child process: the time limit is then hard, and a crash costs nothing.
    **options
        Options of the backend; ``solver=`` is one of ``cvxpy``'s, so the solver itself is positional.

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
    chosen = find_solver(solver)
    backend = chosen.make(**options)
    fine, why = backend.available()
    if not fine:
        raise BackendError(f"backend {backend.name!r} is not available: {why}")
    if isolate and callback is not None:
        raise OptionError("a callback cannot reach into a child process: drop callback or isolate")
    deadline = Deadline(time_limit)
    start = None
    if warm_start is not None:
        start = WarmStart(
            None if warm_start.point is None else problem.point(warm_start.point),
            None if warm_start.certificate is None else problem.multipliers(warm_start.certificate),
        )
    if isolate:
        everything = {**chosen.options, **options}
        claim = run_isolated(replace(chosen, options=everything), problem, time_limit, start)
    else:
        claim = solve_claim(backend, problem, time_limit=time_limit, warm_start=start, callback=callback)
    solve_time = deadline.elapsed
    check = decide(problem, claim, rigorous=rigorous)
    return Result(
        check=check,
        claim=claim,
        backend=backend.name,
        version=backend.version(),
        options=backend.option_values(),
        wall_time=deadline.elapsed,
        solve_time=solve_time,
        overshoot=0.0 if time_limit is None else max(solve_time - time_limit, 0.0),
    )


def decide(problem: FeasibilityProblem, claim: Claim, *, rigorous: bool = False) -> Check:
    """Verify a claim: the rigorous proof first, a numeric verdict only if that is allowed.

    A claim of the wrong shape is worth nothing, like any other wrong claim.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    claim : Claim
        What the backend handed in.
    rigorous : bool
        Refuse the numeric verdict.
    """
    try:
        check = verify(problem, claim, rigorous=True)
        if check.verdict is Verdict.UNDECIDED and not rigorous:
            numeric = verify(problem, claim)
            if numeric.verdict is not Verdict.UNDECIDED:
                return numeric
    except ClaimError as error:
        reason = f"the backend handed in a malformed claim: {error}"
        return Check(problem, Verdict.UNDECIDED, None, None, reason)
    return check


def solve_claim(
    backend: FeasibilityBackend,
    problem: FeasibilityProblem,
    *,
    time_limit: float | None = None,
    warm_start: WarmStart | None = None,
    callback: Callback | None = None,
) -> Claim:
    """Run a backend on a problem, lifting what it does not take, and map the claim back.

    Whatever a backend raises becomes a claim that says so; only an interrupt passes through.

    Parameters
    ----------
    backend : FeasibilityBackend
        The backend.
    problem : FeasibilityProblem
        The problem in its own units.
    time_limit, warm_start, callback
        As in :func:`solve`.
    """
    begin = time.perf_counter()
    lift = None
    if SpectralBox not in backend.sets and any(isinstance(s, SpectralBox) for s in problem.sets):
        lift = problem.lift()
    asked = problem if lift is None else lift.problem
    fine, why = backend.accepts(asked)
    if not fine:
        return Claim(stop=Stop.UNSUPPORTED, raw_status=why)
    if lift is not None:
        warm_start = None if warm_start is None else _lifted_start(lift, warm_start)
        callback = None if callback is None else _unlifting(lift, callback)
    left = None if time_limit is None else max(time_limit - (time.perf_counter() - begin), 1e-3)
    try:
        returned: Any = backend.solve(asked, time_limit=left, warm_start=warm_start, callback=callback)
    except Exception as error:  # noqa: BLE001 - a backend may raise anything; it costs this answer only
        return Claim(stop=Stop.ERROR, raw_status=in_words(error))
    claim = read_claim(returned)
    if lift is None:
        return claim
    try:
        return replace(
            claim,
            point=None if claim.point is None else lift.unlift_point(lift.problem.point(claim.point)),
            certificate=(
                None
                if claim.certificate is None
                else lift.unlift_certificate(lift.problem.multipliers(claim.certificate))
            ),
        )
    except ClaimError as error:
        return Claim(stop=Stop.ERROR, raw_status=f"malformed claim: {error}")


def _lifted_start(lift: Lift, start: WarmStart) -> WarmStart:
    return WarmStart(
        None if start.point is None else lift.point(start.point),
        None if start.certificate is None else lift.certificate(start.certificate),
    )


def _unlifting(lift: Lift, callback: Callback) -> Callback:
    def wrapped(progress: Progress) -> Any:
        point = None if progress.point is None else lift.unlift_point(progress.point)
        y = None if progress.certificate is None else lift.unlift_certificate(progress.certificate)
        return callback(replace(progress, point=point, certificate=y))

    return wrapped
