"""What cone solvers take, before they are asked: they cannot be stopped in the middle of a factorisation."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.conic.cone_program import StandardForm
from sdpfeas.backends.conic.raw_status import panic_answer
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.cost_estimate import Work, need, seconds, time_left
from sdpfeas.numerics.linalg import FloatArray, triangle_size
from sdpfeas.problem.problem import FeasibilityProblem

#: A sparse factorisation does one multiply-add in the time of so many in a dense product: Clarabel's takes
#: between 8 and 20, more the more rows there are.
SCATTERED = 20.0

#: The same where it works on dense blocks of the factor, of which it stores the zeros, too: 0.3 to 0.8.
BLOCKED = 0.8

#: Numbers written for every entry of the system while Clarabel sets up: 15 to 25.
SETUP = 25.0

#: A matrix with entries left out is taken apart into cliques, which takes a look at every entry that its
#: factor might have: so many numbers written, where a row has more entries than this. With fewer there is
#: little to do.
CLIQUES, CONNECTED = 16.0, 4.0

#: Numbers written for every entry of the factor in an iteration: 8 to 16.
PASSES = 16.0

#: SCS orders its system (AMD) in time quadratic in the entries of its longest row or column: so many numbers
#: written per pair, measured at 31,000 to 180,000 entries.
ORDERING = 0.11

#: Share of the time left that is kept for reading the answer.
READING = 0.05


class Cost(NamedTuple):
    """What a solver takes to begin and for every iteration, and its bytes."""

    begin: Work
    each: Work
    memory: float


def affordable(cost: Cost, name: str, deadline: Deadline) -> Deadline:
    """Return when a solver has to stop, so that its last iteration ends in time.

    ``deadline``: when it all has to be over.

    Raises ``OutOfTime, OutOfMemory``: if there is no time or memory even to begin.
    """
    need(f"two iterations of {name}", *cost.begin.plus(cost.each.times(2.0)), memory=cost.memory)
    if deadline.limit is None:
        return deadline
    left = deadline.left
    return deadline.within(max((1.0 - READING) * left - seconds(cost.each, 0.05 * left), 1e-3))


def need_program(problem: FeasibilityProblem) -> None:
    """Refuse to write a problem out as a cone program if that takes too long or too much memory."""
    entries = sum(rows.entries for rows in problem.rows)
    places = problem.m + sum(float(np.prod(block.shape)) for block in problem.sets)
    need("the cone program", numbers=40.0 * entries + 300.0 * places, memory=60.0 * entries + 200.0 * places)


def interior_point_cost(form: StandardForm) -> Cost:
    """What an interior-point method takes that factorises one sparse system, as Clarabel does.

    A matrix of side n is a dense block of the system with n(n + 1)/2 rows.
    """
    blocks = np.array([float(triangle_size(n)) for n in form.cones.psd])
    touched = np.diff(form.matrix.tocsc().indptr).astype(np.float64)
    factor = float(np.sum(blocks**3) / 3.0 + touched @ touched / 2.0)
    filled = float(form.matrix.nnz + np.sum(blocks**2) / 2.0)
    cones = float(sum(float(n) ** 3 for n in form.cones.psd))
    each = Work(products=SCATTERED * factor + 20.0 * cones, cubes=4.0 * cones, numbers=20.0 * filled)
    return Cost(each, each, 64.0 * filled)


def setup_cost(form: StandardForm) -> Cost:
    """What Clarabel takes at the very least: to set up, and for iterations if nothing is filled in.

    How much is filled in hangs on its ordering, and a matrix with few entries is taken apart, which may take
    longer than iterations; once set up it says what came of it, and :func:`factored_cost` what that takes.
    """
    used = np.diff(form.matrix.tocsr().indptr) > 0
    used |= form.rhs != 0.0
    blocks = np.array([float(np.count_nonzero(used[place])) for _, place in form.cones.matrices])
    entries = float(form.matrix.nnz + np.sum(blocks**2) / 2.0)
    each = Work(products=float(np.sum(blocks**3)) / 6.0, numbers=PASSES * entries)
    whole = np.array([float(triangle_size(n)) for n in form.cones.psd])
    apart = (blocks < whole) & (blocks > CONNECTED * np.array(form.cones.psd, dtype=float))
    cliques = float(np.sum(whole[apart] ** 2)) / 2.0
    begin = Work(numbers=SETUP * entries + CLIQUES * cliques)
    return Cost(begin, each, interior_point_cost(form).memory)


def factored_cost(form: StandardForm, entries: float, *, blocked: bool) -> Work:
    """What an iteration of an interior-point method takes whose factor is known.

    ``blocked``: whether it is made of dense blocks, and not entry by entry.
    """
    # No factor of as many entries takes less than one whose columns are all equally long.
    factor = entries**2 / (2.0 * max(sum(form.matrix.shape), 1))
    cones = float(sum(float(n) ** 3 for n in form.cones.psd))
    return Work(
        products=(BLOCKED if blocked else SCATTERED) * factor + 20.0 * cones,
        cubes=4.0 * cones,
        numbers=PASSES * entries,
    )


def splitting_cost(form: StandardForm) -> Cost:
    """What a splitting method takes that factorises one sparse system once, as SCS does."""
    rows, columns = (np.diff(m.indptr).astype(np.float64) for m in (form.matrix.tocsr(), form.matrix.tocsc()))
    # One side is eliminated first, and leaves a matrix of the size of the other that is more or less filled.
    factor, fill = min(_eliminated(rows, columns.size), _eliminated(columns, rows.size))
    filled = float(form.matrix.nnz) + fill
    cones = float(sum(float(n) ** 3 for n in form.cones.psd))
    each = Work(cubes=3.0 * cones, numbers=8.0 * filled)
    longest = max(float(part.max()) if part.size else 0.0 for part in (rows, columns))
    begin = Work(products=SCATTERED * factor, numbers=60.0 * filled + ORDERING * longest**2)
    return Cost(begin, each, 80.0 * filled)


def _eliminated(touched: FloatArray, others: int) -> tuple[float, float]:
    """Multiply-adds of eliminating unknowns that touch so many others each, and these; what gets filled."""
    pairs, most = float(touched @ touched), float(others) ** 2
    return pairs / 2.0 + (others**3 / 6.0 if pairs > most else 0.0), min(pairs, most) / 2.0


# ------------------------------------------------------------
# Clarabel, set up, says how large the factor is that its ordering made, and so what its iterations take.


def set_up(form: StandardForm, **settings: Any) -> Any:
    """Return a solver of Clarabel's for a standard form."""
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
    """What Clarabel takes for a standard form that cvxpy hands over: set up to look, where time matters."""
    cost = setup_cost(form)
    if math.isinf(time_left()):
        return cost
    need("two iterations of CLARABEL", *cost.begin.plus(cost.each.times(2.0)), memory=cost.memory)
    try:
        return cost._replace(each=each_iteration(form, set_up(form, max_threads=1)))
    except BaseException as error:  # noqa: BLE001 - a panic is no Exception; all else is raised again
        panic_answer(error)
        return interior_point_cost(form)
