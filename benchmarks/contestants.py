"""The contestants: functions from labelled samples to an answer with its times."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["CONTESTANTS", "OURS", "OWN", "PEERS", "PROFILE", "Contestant", "Found"]

#: A contestant with this in front of its name has its time taken apart.
PROFILE = "profile-"

#: Seconds for a bisection over another backend: it decides no target, and many would use up any cap.
SHORT_CAP = 5.0


@dataclass(frozen=True)
class Found:
    """The answer of a contestant with its times.

    Attributes
    ----------
    lower, upper : float, optional
        Its bracket; both ends are the value where it gives no more than that, None is an end it lacks.
    proven, converged : bool
        Whether the bracket is proved; whether the contestant got as far as it wanted to.
    note : str
        What it said at the end.
    build, compile, solve : float
        Seconds for family or model, for cvxpy's compile, and for the rest.
    """

    lower: float | None
    upper: float | None
    proven: bool
    converged: bool
    note: str
    build: float
    compile: float
    solve: float


@dataclass(frozen=True)
class Contestant:
    """One row of the tables.

    Attributes
    ----------
    title : str
        What it is called there.
    run : callable
        From samples, labels and, where it is given, the final dimension to the answer.
    implied_by : str, optional
        A contestant that does a part of the same work: if that one hits the cap, this one would too.
    cap : float
        Seconds that it may take at most, whatever others may.
    """

    title: str
    run: Callable[..., Found]
    implied_by: str | None = None
    cap: float = math.inf


def _one_shot(tol: float) -> Callable[..., Found]:
    def search(family: Any) -> Any:
        import sdpfeas as sf

        return sf.one_shot(family, "spectral-ipm", tol=tol)

    return _family_search(search)


def _bisection(backend: str, tol: float = 1e-3) -> Callable[..., Found]:
    def search(family: Any) -> Any:
        import sdpfeas as sf

        return sf.bisect(family, backend, tol=tol)

    return _family_search(search)


def _as_published(family: Any) -> Any:
    import sdpfeas as sf

    return sf.bisect(family, "paper", tol=1e-3, lower=0.0, mode="paper")


def _family_search(search: Callable[[Any], Any], **options: Any) -> Callable[..., Found]:
    def run(X: np.ndarray, y: np.ndarray, components: int | None = None) -> Found:
        import sdpfeas as sf

        begin = time.perf_counter()
        family = sf.families.WLDA.from_data(X, y, components, **options)
        built = time.perf_counter()
        found = search(family)
        solve = time.perf_counter() - built
        return Found(
            _finite(found.lower),
            _finite(found.upper),
            bool(found.proven),
            bool(found.converged),
            found.reason,
            built - begin,
            0.0,
            solve,
        )

    return run


def _finite(end: float) -> float | None:
    # JSON has no infinity.
    return float(end) if math.isfinite(end) else None


def _cvxpy(solver: str, **options: Any) -> Callable[..., Found]:
    def run(X: np.ndarray, y: np.ndarray) -> Found:
        from peers import run_cvxpy

        found = run_cvxpy(X, y, solver, **options)
        return Found(
            found.value,
            found.value,
            False,
            found.status == "optimal",
            found.status,
            found.build,
            found.compile,
            found.solve,
        )

    return run


def _scs(eps: float) -> Callable[..., Found]:
    return _cvxpy("SCS", eps_abs=eps, eps_rel=eps)


def _other(backend: str, implied_by: str | None = None) -> Contestant:
    title = f"bisection, {backend}, certified 1e-3"
    return Contestant(title, _bisection(backend), implied_by, SHORT_CAP)


CONTESTANTS: dict[str, Contestant] = {
    "ours": Contestant("**bisect, auto, certified 1e-6**", _bisection("auto", 1e-6)),
    "ours-1e-3": Contestant("bisect, auto, certified 1e-3", _bisection("auto")),
    "one-shot": Contestant("one shot, spectral-ipm, certified 1e-6", _one_shot(1e-6)),
    "truth": Contestant("one shot, spectral-ipm, certified 1e-8", _one_shot(1e-8)),
    "clarabel": Contestant("one shot, Clarabel through cvxpy", _cvxpy("CLARABEL")),
    "scs-1e-4": Contestant("one shot, SCS through cvxpy, eps 1e-4", _scs(1e-4)),
    "scs-1e-7": Contestant("one shot, SCS through cvxpy, eps 1e-7", _scs(1e-7), "scs-1e-4"),
    "bisect-spectral-ipm": Contestant("bisection, spectral-ipm, certified 1e-3", _bisection("spectral-ipm")),
    "bisect-dual-lbfgs": Contestant(
        "bisection, dual-lbfgs (spectral), certified 1e-3", _bisection("dual-lbfgs")
    ),
    "bisect-admm": _other("admm"),
    "bisect-clarabel": _other("clarabel"),
    "bisect-scs": _other("scs"),
    "bisect-cvxpy": _other("cvxpy", "bisect-clarabel"),
    "paper": Contestant(
        "bisection on claims, paper form (lifted), 1e-3",
        _family_search(_as_published, formulation="paper"),
    ),
}

#: What a user asks, and what it is made of.
OURS = ("ours", "ours-1e-3", "one-shot", "truth")

#: These are measured whatever they take; everybody else is capped.
OWN = ("ours", "ours-1e-3")

#: Whom we must not be slower than: what there was before, and what others solve with.
PEERS = ("clarabel", "scs-1e-4", "scs-1e-7", "bisect-clarabel", "bisect-scs", "bisect-cvxpy", "paper")
