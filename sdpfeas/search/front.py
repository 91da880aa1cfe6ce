"""What users call: the drivers, for problems and families and for models of cvxpy alike."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from sdpfeas.errors import ClaimError
from sdpfeas.families.base import ParametricFamily
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.search import bisection, solving
from sdpfeas.search import optimum as optima
from sdpfeas.search.driver import BisectionResult
from sdpfeas.search.model_optimum import optimum_model
from sdpfeas.search.models import solve_model, verify_model
from sdpfeas.search.optimum import Optimum
from sdpfeas.search.parameters import bisect_model
from sdpfeas.verifier import verify as verify_claim
from sdpfeas.verifier.results import Check, Claim, Result
from sdpfeas.verifier.tolerances import Tolerances

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["bisect", "optimum", "solve", "verify"]

P = ParamSpec("P")
Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


def is_model(problem: object) -> bool:
    """Whether this is a problem of cvxpy; that need not be imported to say no."""
    # While another thread imports it, it is there in parts.
    kind = getattr(sys.modules.get("cvxpy"), "Problem", None)
    return kind is not None and isinstance(problem, kind)


def _taking_models(
    driver: Callable[Concatenate[Asked, P], Answer], of_models: Callable[..., Answer]
) -> Callable[Concatenate[Asked | cp.Problem, P], Answer]:
    @wraps(driver)
    def asked(problem: Any, /, *arguments: P.args, **settings: P.kwargs) -> Answer:
        ask = of_models if is_model(problem) else driver
        return ask(problem, *arguments, **settings)

    return asked


solve = _taking_models(solving.solve, solve_model)


@wraps(optima.optimum)
def optimum(problem: FeasibilityProblem | cp.Problem, *arguments: Any, **settings: Any) -> Optimum:
    """Bracket an optimal value: of an objective over a problem, or of a cvxpy model with its own."""
    ask: Callable[..., Optimum] = optimum_model if is_model(problem) else optima.optimum
    return ask(problem, *arguments, **settings)


@wraps(bisection.bisect)
def bisect(family: ParametricFamily | cp.Problem, *arguments: Any, **settings: Any) -> BisectionResult:
    """Bracket the threshold of a family, or, as in ``bisect(problem, t)``, a parameter of a cvxpy model."""
    if is_model(family):
        return bisect_model(family, *arguments, **settings)
    return bisection.bisect(family, *arguments, **settings)


def verify(
    problem: FeasibilityProblem | cp.Problem,
    claim: Claim | Result | Check | None = None,
    *,
    rigorous: bool = False,
    exact: bool = False,
    repair: bool = True,
    tolerances: Tolerances | None = None,
    time_limit: float | None = None,
    reading: str = "stored",
) -> Check:
    """Check a claim against the original data of a problem.

    Parameters
    ----------
    problem : FeasibilityProblem or cvxpy.Problem
        The problem, unscaled.
    claim : Claim, Result or Check
        A point, a certificate, or both. Of a cvxpy model it may be left out: then the values of its
        variables and the dual values of its constraints are verified, whoever set them.
    rigorous : bool
        Accept only a proof valid in floating-point arithmetic or, on small problems of round numbers, one in
        rational arithmetic. Otherwise recomputed residuals within the tolerances are enough.
    exact : bool
        Accept only a proof in rational arithmetic, of the numbers to the last bit; for small problems.
    repair : bool
        Try to repair a claim that nearly holds; what was done is said in ``repairs``.
    tolerances : Tolerances, optional
        The tolerances to use.
    time_limit : float, optional
        Seconds. What is estimated to take longer is not begun, and the reason says so.
    reading : {"stored", "written"}
        Whether the numbers of the problem stand for themselves, or for the decimals and fractions they were
        rounded from; see ``docs/verdicts.md``. Proofs about the latter are exact, for small problems.

    Returns
    -------
    Check
        The verdict with its proof and margin; UNDECIDED, with the reason, when nothing is proved.

    Raises
    ------
    ClaimError
        If the claim does not have the shape the problem asks for. A wrong claim raises nothing.
    """
    settings: dict[str, Any] = {
        "rigorous": rigorous,
        "exact": exact,
        "repair": repair,
        "tolerances": tolerances,
        "time_limit": time_limit,
        "reading": reading,
    }
    if is_model(problem):
        return verify_model(problem, claim, **settings)
    if claim is None:
        raise ClaimError("verify needs a Claim, a Result or a Check besides the problem")
    return verify_claim(problem, claim, **settings)
