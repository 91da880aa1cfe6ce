"""The public ``solve``, ``verify``, ``optimum`` and ``bisect``: they accept problems, families and models."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from sdpfeas.cvxpy_models.models import bisect_model, optimum_model, solve_model, verify_model
from sdpfeas.drivers import bisection
from sdpfeas.drivers import optimum as optima
from sdpfeas.drivers import solve as solving
from sdpfeas.drivers.bracket import BisectionResult
from sdpfeas.drivers.optimum import Optimum
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier import verify as verify_claim

if TYPE_CHECKING:
    import cvxpy as cp

P = ParamSpec("P")
Problem = TypeVar("Problem")
Outcome = TypeVar("Outcome")


def is_model(problem: object) -> bool:
    """Whether an object is a ``cvxpy.Problem``, without an import of cvxpy."""
    # While another thread imports cvxpy, the module exists without the class.
    kind = getattr(sys.modules.get("cvxpy"), "Problem", None)
    return kind is not None and isinstance(problem, kind)


def _or_model(
    driver: Callable[Concatenate[Problem, P], Outcome], for_models: Callable[..., Outcome]
) -> Callable[Concatenate[Problem | cp.Problem, P], Outcome]:
    @wraps(driver)
    def call(problem: Any, *arguments: P.args, **settings: P.kwargs) -> Outcome:
        run = for_models if is_model(problem) else driver
        return run(problem, *arguments, **settings)

    # The first argument may be passed by name, which ParamSpec cannot express.
    return cast("Callable[Concatenate[Problem | cp.Problem, P], Outcome]", call)


solve = _or_model(solving.solve, solve_model)
verify = _or_model(verify_claim, verify_model)


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
