"""One program after the other, on subspaces that grow: the way to a bracket in many dimensions."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from sdpfeas.backends.inquiry import Inquiry, Progress
from sdpfeas.errors import ClaimError, LimitError
from sdpfeas.families.subspaces import Subspaces
from sdpfeas.numerics.effort import limited
from sdpfeas.search.bracket import relative_gap
from sdpfeas.search.driver import Search
from sdpfeas.verifier.results import Claim, Stop

__all__ = ["by_subspaces"]

#: Rounds at most, and how many without progress end the search.
ROUNDS, PATIENCE = 60, 4

#: A program is solved to this share of the gap that is left, but no further than this share of the tolerance.
INNER, FINEST = 0.05, 0.1

#: Proofs are tried when the gap is estimated to be below this share of the tolerance, and again when it has
#: shrunk to this share.
PROMISING, AGAIN = 0.5, 0.3


def by_subspaces(search: Search, spaces: Subspaces) -> Claim:
    """Bracket the threshold of a family along growing subspaces.

    Parameters
    ----------
    search : Search
        The search.
    spaces : Subspaces
        What its family knows about subspaces.

    Returns
    -------
    Claim
        The last point and multipliers, with how it ended and the iterations of all rounds.
    """
    bracket, iterations = search.bracket, 0
    claim = Claim(stop=Stop.STALLED)
    with suppress(np.linalg.LinAlgError):
        basis = spaces.first()
        gap, least, since, promising = 1.0, np.inf, 0, PROMISING * bracket.tol
        for _ in range(ROUNDS):
            inner = _solved(search, spaces, basis, max(INNER * gap, FINEST * bracket.tol))
            iterations += inner.iterations or 0
            if inner.point is None or inner.certificate is None:
                break
            matrix = spaces.matrix(inner.point)
            attained, upper, directions = spaces.ahead(inner.certificate, basis, matrix)
            gap = relative_gap(attained, upper)
            if gap <= promising:
                promising = AGAIN * gap
                y = spaces.multipliers(inner.certificate)
                claim = replace(claim, point=spaces.point(basis, matrix), certificate=y)
                with suppress(ClaimError):
                    bracket.offer_point(claim.point)
                    bracket.offer_multipliers(claim.certificate)
                if bracket.closed:
                    return replace(claim, stop=Stop.CALLBACK, iterations=iterations)
            since = since + 1 if not gap < least else 0
            least = min(gap, least)
            if since == PATIENCE or not np.isfinite(gap) or search.deadline.expired:
                break
            basis = spaces.grown(basis, matrix, directions)
    return replace(claim, iterations=iterations)


def _solved(search: Search, spaces: Subspaces, basis: np.ndarray, wanted: float) -> Claim:
    """Solve the program of a subspace to an accuracy."""

    def enough(progress: Progress) -> bool:
        return progress.gap is not None and progress.gap <= wanted

    program = spaces.program(basis)
    inquiry = Inquiry(program.problem, deadline=search.deadline, wanted="margin", listener=enough)
    try:
        with limited(inquiry.limit):
            return search.backend.maximise(program, inquiry)
    except LimitError as error:
        return Claim(stop=Stop.TIME_LIMIT, raw_status=str(error))
