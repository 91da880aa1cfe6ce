"""Repairs of multipliers where there are LMIs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, sign_violation
from sdpfeas.verifier.certificate_repair import repaired_certificates
from sdpfeas.verifier.equality import MAX_DENSE_ROWS
from sdpfeas.verifier.lmis import LmiMultipliers
from sdpfeas.verifier.tolerances import Tolerances

__all__ = ["repaired_multipliers"]


def repaired_multipliers(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances
) -> Iterator[tuple[FloatArray, tuple[str, ...]]]:
    """Multipliers moved onto the equations of the Free blocks; with LMIs, then all that slacks allow.

    Parameters
    ----------
    problem : FeasibilityProblem
        Any problem.
    y : ndarray
        Multipliers that could not be proved as they are.
    tolerances : Tolerances
        As in :func:`repaired_certificates`.
    """
    if not problem.lmis:
        yield from repaired_certificates(problem, y, tolerances)
        return
    if not np.isfinite(y).all() or not y.any():
        return
    y = y / float(np.max(np.abs(y)))
    given = None if sign_violation(problem, y).any() else LmiMultipliers(problem, y)
    for metric in (False, True):
        moved = None if given is None else given.corrected(metric=metric)
        if moved is not None and np.isfinite(moved).all() and not sign_violation(problem, moved).any():
            yield moved, ("made A*y vanish on the free blocks",)
    slacks = problem.slack_form
    if slacks.problem.m <= MAX_DENSE_ROWS:
        for z, said in repaired_certificates(slacks.problem, slacks.start_multipliers(y), tolerances):
            yield slacks.multipliers(z), said
