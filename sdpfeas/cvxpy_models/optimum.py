"""The optimal value of a cvxpy model, bracketed: its objective becomes a constraint with a bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdpfeas.cvxpy_models import convert
from sdpfeas.cvxpy_models.blocks import Blocks
from sdpfeas.cvxpy_models.comparison import require_met
from sdpfeas.drivers.optimum import Optimum, optimum
from sdpfeas.errors import ProblemError
from sdpfeas.extras import cvxpy
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import Objective, Sense


def optimum_model(model: Any, *arguments: Any, **settings: Any) -> Optimum:
    """Bracket the optimal value of a cvxpy model; see :func:`sdpfeas.optimum` for the settings.

    Any objective that cvxpy takes will do, as long as it is translated exactly: ``f(x) <= t`` is asked for
    and ``t`` minimised. The variables get the values of the point that was found.
    """
    cp = cvxpy()
    sense: Sense = "min" if isinstance(model.objective, cp.Minimize) else "max"
    goal = model.objective.expr
    if goal.is_constant():
        raise ProblemError("the objective is constant; sf.solve answers whether the constraints can be met")
    bound = cp.Variable(name="the value of the objective")
    reached = (goal <= bound) if sense == "min" else (goal >= bound)
    form = convert(cp.Problem(cp.Minimize(0), [*model.constraints, reached.set_label("objective")]))
    column = np.zeros(form.canonical.matrix.shape[1])
    column[form.value_way.places[bound.id]] = form.value_way.factors[bound.id] != 0.0
    found = optimum(form.problem, column_objective(form.blocks, column, sense), *arguments, **settings)
    if found.point is not None:
        require_met(form, found.point)
        form.assign(found.point)
    return found


def column_objective(blocks: Blocks, cost: FloatArray, sense: Sense) -> Objective:
    """The objective ``cost' x`` of a canonical form on the blocks it was cut into."""
    backs = blocks.back()
    sets = blocks.problem().sets
    terms = [(back.T @ cost).reshape(block.shape) for back, block in zip(backs, sets, strict=True)]
    return Objective(tuple(terms), sense)
