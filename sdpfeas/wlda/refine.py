"""Improve the worst-case ratio of a projection itself, over all r-dimensional subspaces.

The ratio is a minimum over a maximum. Both are smoothed, and the logarithm of the ratio is raised by L-BFGS,
first smooth, then sharp. A subspace is given by any basis of it, so that there is no constraint: the gradient
follows from that of the projector. Only what is really better, by the definition, is taken.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.wlda.criterion import Criterion

__all__ = ["refine_projection"]

#: Sharpness of the smoothed minimum and maximum, stage by stage.
SHARPNESS = (10.0, 100.0, 1e3, 1e4, 1e5)

#: Steps of L-BFGS a stage.
STEPS = 200

#: Starts that are nudged at random, and how far.
NUDGES, NUDGE = 3, 0.5


def refine_projection(criterion: Criterion, A: FloatArray, target: float = np.inf) -> FloatArray:
    """Find a projection whose worst-case ratio is at least that of a given one.

    Parameters
    ----------
    criterion : Criterion
        The ratio.
    A : ndarray
        Orthonormal columns in the coordinates of the criterion.
    target : float
        A ratio that is good enough.

    Returns
    -------
    ndarray
        Orthonormal columns; ``A`` itself if nothing better was found.
    """
    k, r = A.shape
    best, value = A, criterion.ratio(A)
    if r == k:
        return A
    rng = np.random.default_rng(0)
    starts = [A, criterion.discriminant(r)]
    # Both may be saddle points where the data are symmetric; a nudge gets off.
    starts += [A + NUDGE * rng.standard_normal(A.shape) / np.sqrt(k) for _ in range(NUDGES)]
    for start in starts:
        if value >= target:
            break
        found = _climb(criterion, start)
        ratio = criterion.ratio(found)
        if ratio > value:
            best, value = found, ratio
    return best


def _climb(criterion: Criterion, A: FloatArray) -> FloatArray:
    units = _units(criterion)
    U = scipy.linalg.solve_triangular(units, A, lower=False)
    best, _ = np.linalg.qr(A)
    value = criterion.ratio(best)
    for sharpness in SHARPNESS:
        U, _ = np.linalg.qr(U)
        answer = minimize(
            _smoothed,
            U.ravel(),
            args=(criterion, units, sharpness),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": STEPS, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-9},
        )
        if not np.isfinite(answer.x).all():
            break
        U = answer.x.reshape(U.shape)
        W, _ = np.linalg.qr(units @ U)
        ratio = criterion.ratio(W)
        if ratio > value:
            best, value = W, ratio
    return best


def _units(criterion: Criterion) -> FloatArray:
    """Upper triangular factor of coordinates in which all classes together have about unit scatter."""
    stack = np.concatenate([criterion.stack, criterion.differences()])
    size = np.sqrt(np.sum(stack * stack, axis=0))
    size = np.where(size > 0.0, size, 1.0)
    floor = 1e-5 * np.eye(criterion.k)
    triangle = scipy.linalg.qr(np.concatenate([stack / size, floor]), mode="economic")[1]
    inverse = scipy.linalg.solve_triangular(triangle, np.eye(criterion.k), lower=False)
    return np.asarray(inverse / size[:, None])


def _smoothed(
    flat: FloatArray, criterion: Criterion, units: FloatArray, sharpness: float
) -> tuple[float, FloatArray]:
    """Minus the logarithm of the smoothed ratio at the span of ``units @ U``, and its gradient."""
    U = flat.reshape(criterion.k, -1)
    W, R = np.linalg.qr(units @ U)
    distances, scatters = criterion.values(W)
    tiny = 1e-300
    low, u = _soft(-np.log(distances + tiny), sharpness)
    high, w = _soft(np.log(scatters + tiny), sharpness)
    u, w = u / (distances + tiny), w / (scatters + tiny)
    differences = criterion.differences()
    G = criterion.stack.T @ (w[criterion.owner, None] * (criterion.stack @ W))
    G -= differences.T @ (u[:, None] * (differences @ W))
    G -= W @ (W.T @ G)
    corner = np.abs(np.diagonal(R))
    # Where means coincide, or columns do, there is no direction to go in.
    if not np.isfinite(G).all() or not np.min(corner) > 1e-14 * np.max(corner):
        return float(low + high), np.zeros(flat.size)
    gradient = units.T @ scipy.linalg.solve_triangular(R, 2.0 * G.T, lower=False).T
    return float(low + high), gradient.ravel()


def _soft(values: FloatArray, sharpness: float) -> tuple[float, FloatArray]:
    """Smoothed maximum, and its gradient."""
    top = float(np.max(values))
    shares = np.exp(sharpness * (values - top))
    total = float(shares.sum())
    return top + np.log(total) / sharpness, shares / total
