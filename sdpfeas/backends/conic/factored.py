"""Clarabel, set up, says how large the factor is that its ordering made, and so what its iterations take."""

from __future__ import annotations

import math
from typing import Any

import scipy.sparse as sp

from sdpfeas.backends.conic.cones import StandardForm
from sdpfeas.backends.conic.cost import Cost, factored_cost, interior_point_cost, setup_cost
from sdpfeas.backends.conic.statuses import panic_answer
from sdpfeas.numerics.effort import Work, need, time_left

__all__ = ["clarabel_cost", "each_iteration", "set_up"]


def set_up(form: StandardForm, **settings: Any) -> Any:
    """Return a solver of Clarabel's for a standard form.

    Parameters
    ----------
    form : StandardForm
        The program.
    **settings
        Clarabel's own.
    """
    import clarabel

    chosen = clarabel.DefaultSettings()
    chosen.verbose = False
    for name, value in settings.items():
        setattr(chosen, name, value)
    cones = [clarabel.ZeroConeT(form.cones.flat)] if form.cones.flat else []
    cones += [clarabel.NonnegativeConeT(form.cones.nonneg)] if form.cones.nonneg else []
    cones += [clarabel.SecondOrderConeT(n) for n in form.cones.second]
    cones += [clarabel.PSDTriangleConeT(n) for n in form.cones.psd]
    quadratic = sp.csc_array((form.cost.size, form.cost.size))
    return clarabel.DefaultSolver(quadratic, form.cost, form.matrix, form.rhs, cones, chosen)


def each_iteration(form: StandardForm, solver: Any) -> Work:
    """What an iteration takes of a solver that is set up."""
    system = solver.get_info().linsolver
    return factored_cost(form, float(system.nnzL), blocked=system.name != "qdldl")


def clarabel_cost(form: StandardForm) -> Cost:
    """What Clarabel takes for a standard form that cvxpy hands over: set up to look, where time matters.

    Parameters
    ----------
    form : StandardForm
        The program.
    """
    cost = setup_cost(form)
    if math.isinf(time_left()):
        return cost
    need("two iterations of CLARABEL", *cost.begin.plus(cost.each.times(2.0)), memory=cost.memory)
    try:
        return cost._replace(each=each_iteration(form, set_up(form, max_threads=1)))
    except BaseException as error:  # noqa: BLE001 - a panic is no Exception; all else is raised again
        panic_answer(error)
        return interior_point_cost(form)
