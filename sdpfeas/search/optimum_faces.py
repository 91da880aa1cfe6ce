"""Programs without an interior: the same objective over the smaller problem on faces that hold all points.

A chain proves, in integers, that all points lie on faces of the sets (:mod:`sdpfeas.verifier.chains`). There
the problem may have an interior, and both bounds of its value are bounds of the original's.
"""

from __future__ import annotations

from contextlib import suppress

from sdpfeas.backends.facial.backend import Facial
from sdpfeas.backends.facial.reduce import reduce
from sdpfeas.deadline import Deadline
from sdpfeas.errors import LimitError
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.problem.reductions.base import Reduction

__all__ = ["program_on_face"]

#: Share of the time left that faces are looked for.
LOOK = 0.3


def program_on_face(
    problem: FeasibilityProblem, terms: Point, deadline: Deadline
) -> tuple[Reduction, ConicProgram] | None:
    """The program on the faces that hold all points, with the ways back; None if there are no smaller ones.

    Parameters
    ----------
    problem : FeasibilityProblem
        A problem without LMIs.
    terms : tuple of ndarray
        What is maximised.
    deadline : Deadline
        When to stop.
    """
    if deadline.expired or not Facial.takes(problem):
        return None
    left = deadline.limit
    with suppress(LimitError):
        found = reduce(problem, time_limit=None if left is None else LOOK * left)
        faces = found.faces
        if faces is None or faces.problem is not problem:
            return None
        reduction = found.reduction if len(found.chain) else None
        made = None if reduction is None else faces.terms(terms)
        if reduction is not None and made is not None:
            return reduction, ConicProgram(reduction.problem, made)
    return None
