"""Programs or questions, one after the other, on subspaces that grow: for many dimensions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from sdpfeas.backends.dispatch import ask
from sdpfeas.backends.inquiry import Callback, Inquiry, Progress
from sdpfeas.drivers.bracket import GAP_PER_MARGIN, relative_gap
from sdpfeas.drivers.bracket_search import Search
from sdpfeas.errors import ClaimError, LimitError
from sdpfeas.families.subspaces import Subspaces
from sdpfeas.numerics.cost_estimate import limited
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.results import Claim
from sdpfeas.verifier.verdicts import Stop

#: Rounds at most, and how many without progress end the search.
ROUNDS, PATIENCE = 60, 4

#: A program is solved to this share of the gap that is left, but no further than this share of the tolerance.
INNER, FINEST = 0.05, 0.1

#: Proofs are tried when the gap is estimated to be below this share of the tolerance, and again when it has
#: shrunk to this share.
PROMISING, AGAIN = 0.5, 0.3

#: A question that seems decided tells no more on larger subspaces when a round leaves this share of the gap.
LITTLE_MORE = 0.5


def by_subspaces(search: Search, spaces: Subspaces, delta: float | None = None) -> Claim:
    """Bracket the threshold of a family along growing subspaces.

    ``spaces``: what its family knows about subspaces. ``delta``: ask at this value of the parameter, until
    it is on one side of the threshold and no more can be learnt from it; default: solve the program whose
    optimal value is the threshold.

    Returns: the last point and multipliers, with how it ended and the iterations of all rounds.
    """
    bracket, iterations = search.bracket, 0
    claim = Claim(stop=Stop.STALLED)
    with suppress(np.linalg.LinAlgError):
        basis = spaces.first() if spaces.basis is None else spaces.basis
        known = 1.0 if delta is None else min(relative_gap(bracket.lower, bracket.upper), 1.0)
        least, since, promising = np.inf, 0, PROMISING * bracket.tol
        for _ in range(ROUNDS):
            spaces.basis = basis
            inner = _solved(search, spaces, delta, max(INNER * known, FINEST * bracket.tol))
            iterations += inner.iterations or 0
            if inner.point is None or inner.certificate is None:
                break
            matrix = spaces.matrix(inner.point)
            attained, upper, directions = spaces.ahead(inner.certificate, basis, matrix)
            gap = relative_gap(attained, upper)
            settled = delta is not None and not attained < delta < upper and gap >= LITTLE_MORE * least
            if gap <= promising or settled:
                promising = AGAIN * gap
                y = spaces.multipliers(inner.certificate)
                claim = replace(claim, point=spaces.point(basis, matrix), certificate=y)
                with suppress(ClaimError):
                    bracket.offer_point(claim.point)
                    bracket.offer_multipliers(claim.certificate)
                if bracket.closed or (settled and bracket.decides(delta)):
                    return replace(claim, stop=Stop.CALLBACK, iterations=iterations)
            since = since + 1 if not gap < least else 0
            least = min(gap, least)
            # A margin says less about the threshold than an optimal value: it has to be ever more accurate.
            known = gap if delta is None else min(gap, LITTLE_MORE * known)
            if since == PATIENCE or not np.isfinite(gap) or search.deadline.expired:
                break
            basis = spaces.grown(basis, matrix, directions)
    return replace(claim, iterations=iterations)


def _solved(search: Search, spaces: Subspaces, delta: float | None, wanted: float) -> Claim:
    """Solve the program of the present subspace, or find the largest margin there, to an accuracy."""

    def enough(progress: Progress) -> bool:
        return progress.gap is not None and progress.gap <= wanted

    assert spaces.basis is not None
    if delta is not None:
        wanted /= GAP_PER_MARGIN
        problem = spaces.question(spaces.basis, delta)
        return ask(search.backend, problem, _inquiry(search, problem, enough))
    program = spaces.program(spaces.basis)
    inquiry = _inquiry(search, program.problem, enough)
    try:
        with limited(inquiry.limit):
            return search.backend.maximise(program, inquiry)
    except LimitError as error:
        return Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))


def _inquiry(search: Search, problem: FeasibilityProblem, listener: Callback) -> Inquiry:
    return Inquiry(problem, deadline=search.deadline, wanted="margin", listener=listener)
