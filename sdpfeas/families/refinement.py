"""Improve a worst-case criterion of a projection itself, over all r-dimensional subspaces.

A minimum (or a maximum) over classes or groups is smoothed, and raised by L-BFGS, first smooth, then sharp. A
subspace is given by any basis of it, so that there is no constraint: the gradient follows from that of the
projector. Only what is really better, by the definition, is taken.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from sdpfeas.numerics.linalg import FloatArray

#: Sharpness of the smoothed minimum and maximum, stage by stage.
SHARPNESS = (10.0, 100.0, 1e3, 1e4, 1e5)

#: Steps of L-BFGS a stage.
STEPS = 200

#: Starts that are nudged at random, and how far.
NUDGES, NUDGE = 3, 0.5


class Objective(Protocol):
    """What is to be large at a projection, given by orthonormal columns."""

    def value(self, A: FloatArray) -> float:
        """What a projection attains, by the definition."""

    def smoothed(self, A: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
        """A smooth stand-in for minus an increasing function of the value, and its gradient in ``A``."""

    def units(self) -> FloatArray:
        """Upper triangular factor of coordinates in which directions have about the same size."""

    def guess(self, r: int) -> FloatArray:
        """Orthonormal columns of another projection worth starting from."""


def refine_projection(objective: Objective, A: FloatArray, target: float = np.inf) -> FloatArray:
    """Find a projection whose value is at least that of a given one.

    ``A``: orthonormal columns in the coordinates of the objective. ``target``: a value that is good enough.

    Returns: orthonormal columns; ``A`` itself if nothing better was found.
    """
    k, r = A.shape
    best, value = A, objective.value(A)
    if r == k:
        return A
    rng = np.random.default_rng(0)
    starts = [A, objective.guess(r)]
    # Both may be saddle points where the data are symmetric; a nudge gets off.
    starts += [A + NUDGE * rng.standard_normal(A.shape) / np.sqrt(k) for _ in range(NUDGES)]
    for start in starts:
        if value >= target:
            break
        found = _climb(objective, start)
        reached = objective.value(found)
        if reached > value:
            best, value = found, reached
    return best


def _climb(objective: Objective, A: FloatArray) -> FloatArray:
    units = objective.units()
    U = scipy.linalg.solve_triangular(units, A, lower=False)
    best, _ = np.linalg.qr(A)
    value = objective.value(best)
    for sharpness in SHARPNESS:
        U, _ = np.linalg.qr(U)
        answer = minimize(
            _smoothed,
            U.ravel(),
            args=(objective, units, sharpness),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-9},
        )
        if not np.isfinite(answer.x).all():
            break
        U = answer.x.reshape(U.shape)
        W, _ = np.linalg.qr(units @ U)
        reached = objective.value(W)
        if reached > value:
            best, value = W, reached
    return best


def _smoothed(
    flat: FloatArray, objective: Objective, units: FloatArray, sharpness: float
) -> tuple[float, FloatArray]:
    """The smoothed objective at the span of ``units @ U``, and its gradient in U."""
    U = flat.reshape(units.shape[0], -1)
    W, R = np.linalg.qr(units @ U)
    value, G = objective.smoothed(W, sharpness)
    G = G - W @ (W.T @ G)
    corner = np.abs(np.diagonal(R))
    # Where means coincide, or columns do, there is no direction to go in.
    if not np.isfinite(G).all() or not np.min(corner) > 1e-14 * np.max(corner):
        return value, np.zeros(flat.size)
    gradient = units.T @ scipy.linalg.solve_triangular(R, G.T, lower=False).T
    return value, gradient.ravel()


def soft_maximum(values: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
    """Smoothed maximum, and its gradient."""
    top = float(np.max(values))
    shares = np.exp(sharpness * (values - top))
    total = float(shares.sum())
    return top + np.log(total) / sharpness, shares / total
