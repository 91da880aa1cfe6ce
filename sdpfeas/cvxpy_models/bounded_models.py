"""Bound the variables of a cvxpy model by constraints: :func:`convert_within`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sdpfeas.cvxpy_models.conversion import CvxpyForm, convert
from sdpfeas.errors import ProblemError, hint
from sdpfeas.escaping import visible
from sdpfeas.extras import cvxpy
from sdpfeas.problem.reductions.bounded_variables import (
    Bound,
    BoundedVariables,
    positive_bound,
    state_bound,
)


def convert_within(model: Any, bound: Bound | None, extra: Any = ()) -> CvxpyForm:
    """Convert a model, and state a bound of its variables as further constraints of the form.

    ``extra`` are constraints besides those of the model, whose other variables are not bounded. With a bound
    the problem of the form has the attribute ``bound``; the problem without it is that of the model itself.
    """
    cp = cvxpy()
    plain = convert(cp.Problem(model.objective, [*model.constraints, *extra]) if extra else model)
    if bound is None:
        return plain
    limits = _limits(model, bound)
    bounds = [made for v, limit in limits.items() for made in _constraints(v, limit)]
    form = convert(cp.Problem(model.objective, [*model.constraints, *extra, *bounds]))
    stated = {id(made) for made in bounds}
    own = [part.main for part in form.parts if id(part.constraint) in stated]
    rows = form.blocks.row_places(np.concatenate([np.zeros(0, dtype=int), *own]))
    original, count = plain.problem, form.problem.multiplier_count - rows.size
    if original.sets != form.problem.sets or original.multiplier_count != count:
        # A variable occurs in the bound only.
        original = form.problem.select_rows(np.delete(np.arange(form.problem.m), rows))
    value = {v.name(): limit for v, limit in limits.items()} if isinstance(bound, Mapping) else float(bound)
    state_bound(BoundedVariables(original, form.problem, rows, value))
    return form


def _limits(model: Any, bound: Bound) -> dict[Any, float]:
    """Return the bound of every variable that gets one."""
    if not isinstance(bound, Mapping):
        return dict.fromkeys((v for v in model.variables() if v.size), positive_bound(bound))
    named = {v.name(): v for v in model.variables()}
    found = {}
    for which, number in bound.items():
        name = which if isinstance(which, str) else which.name() if hasattr(which, "name") else repr(which)
        if name not in named:
            raise ProblemError(f"no variable of the model is {visible(name)!r}; {visible(hint(name, named))}")
        found[named[name]] = positive_bound(number)
    if not found:
        raise ProblemError("the mapping of bounds is empty")
    return found


def _constraints(variable: Any, limit: float) -> list[Any]:
    """Bound the trace of a semidefinite variable, or the entries of any other one.

    All values of Frobenius norm up to ``limit`` satisfy these constraints.
    """
    cp = cvxpy()
    attributes = variable.attributes
    if attributes.get("PSD") or attributes.get("NSD"):
        most = math.nextafter(math.nextafter(math.sqrt(variable.shape[0]), math.inf) * limit, math.inf)
        trace = cp.trace(variable)
        made = [(trace if attributes.get("PSD") else -trace) <= most]
    else:
        parts = [cp.real(variable), cp.imag(variable)] if variable.is_complex() else [variable]
        made = [each <= limit for part in parts for each in (part, -part)]
    return [each.set_label(f"bound of {variable.name()}") for each in made]
