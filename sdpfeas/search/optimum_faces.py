"""Programs without an interior: the same objective over the smaller problem on faces that hold all points.

A chain proves, in integers, that all points lie on faces of the sets (:mod:`sdpfeas.verifier.chains`). There
the problem may have an interior, and both bounds of its value are bounds of the original's.
"""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction

import numpy as np

from sdpfeas.backends.facial.backend import Facial
from sdpfeas.backends.facial.reduce import reduce
from sdpfeas.deadline import Deadline
from sdpfeas.errors import LimitError
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.program import ConicProgram
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.reductions.faces import Faces

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
        about = found.chain.reading == "stored" and found.faces.problem is problem
        reduction = found.reduction if len(found.chain) and about else None
        made = None if reduction is None else _on_face(found.faces, terms)
        if reduction is not None and made is not None:
            return reduction, ConicProgram(reduction.problem, made)
    return None


def _on_face(faces: Faces, terms: Point) -> Point | None:
    """``V' C V`` for every block that is left; None if no doubles hold them."""
    out = []
    for term, basis, size in zip(terms, faces.bases, faces.sizes, strict=True):
        if not size:
            continue
        if basis is None:
            out.append(term)
        elif basis.ndim == 1:
            out.append(term[basis])
        else:
            exact = np.vectorize(Fraction, otypes=[object])(term)
            turned = basis.T.dot(exact).dot(basis)
            near = turned.astype(np.float64)
            if not np.all(np.vectorize(Fraction, otypes=[object])(near) == turned):
                return None
            out.append(near)
    return tuple(out)
