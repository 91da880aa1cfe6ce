"""Getting more out of points and weights that are there already.

Convex combinations of points are points, so the best ratio over the hull of a few points is a linear program
(after Charnes and Cooper). Its multipliers are weights, weights rule out ratios, and the projector they do so
by is a new point: column generation, as of Dantzig and Wolfe, stabilised by mixing new weights with the best
ones. A few rounds cost less than one solve and often gain more. Nothing here is proved, nor has to be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sdpfeas.numerics.linalg import FloatArray

__all__ = ["REFINE_ROUNDS", "Oracle", "refine", "unit_weights"]

#: Rounds after a solve.
REFINE_ROUNDS = 12

#: How much of the best weights is kept in new ones.
MIX = 0.5


@dataclass(frozen=True)
class Oracle:
    """What column generation asks of a family.

    Attributes
    ----------
    means, scatters : callable
        Row values of the pairs and of the classes at a matrix.
    price : callable
        From weights of the pairs and of the classes, each of sum one, and a lower bound: the smallest ratio
        they rule out, and the matrix that comes closest to attaining it.
    """

    means: Callable[[FloatArray], FloatArray]
    scatters: Callable[[FloatArray], FloatArray]
    price: Callable[[FloatArray, FloatArray, float], tuple[float, FloatArray]]


def refine(
    oracle: Oracle,
    matrices: Sequence[FloatArray],
    weights: Sequence[tuple[FloatArray, FloatArray]],
    rounds: int,
    tol: float,
) -> tuple[FloatArray, tuple[FloatArray, FloatArray]] | None:
    """Improve on points and weights.

    Parameters
    ----------
    oracle : Oracle
        The family.
    matrices : sequence of ndarray
        Points to start from.
    weights : sequence of pairs of ndarray
        Weights of the pairs and of the classes to start from.
    rounds : int
        Linear programs at most.
    tol : float
        Stop when the two bounds are this close, relative to the upper one.

    Returns
    -------
    tuple or None
        The best combination of points and the best weights found.
    """
    columns = list(matrices)
    means = [oracle.means(z) for z in columns]
    scatters = [oracle.scatters(z) for z in columns]
    attained = [np.min(a) / np.max(b) for a, b in zip(means, scatters, strict=True) if np.max(b) > 0.0]
    near = max(0.0, *attained) if attained else 0.0
    best, bound = None, np.inf
    for u, w in weights:
        unit = unit_weights(u, w)
        if unit is not None:
            value, matrix = oracle.price(*unit, near)
            columns.append(matrix)
            means.append(oracle.means(matrix))
            scatters.append(oracle.scatters(matrix))
            if value < bound:
                best, bound = unit, value
    if best is None or not np.isfinite(bound) or bound <= 0.0:
        return None
    mixture = None
    for _ in range(rounds):
        master = _master(np.array(means).T, np.array(scatters).T, bound)
        if master is None:
            break
        ratio, mixture, unit = master
        if unit is None or bound - ratio <= tol * bound:
            break
        u, w = (MIX * old + (1.0 - MIX) * new for old, new in zip(best, unit, strict=True))
        value, matrix = oracle.price(u, w, ratio)
        columns.append(matrix)
        means.append(oracle.means(matrix))
        scatters.append(oracle.scatters(matrix))
        if value < bound:
            best, bound = (u, w), value
    if mixture is None:
        return None
    total = sum(share * z for share, z in zip(mixture, columns, strict=False))
    return np.asarray(total), best


def unit_weights(u: FloatArray, w: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Scale weights of the pairs and of the classes to sum one; None where there is none of a kind.

    Parameters
    ----------
    u, w : ndarray
        Weights; negative ones count as zero.
    """
    u, w = np.maximum(u, 0.0), np.maximum(w, 0.0)
    if not (u.sum() > 0.0 and w.sum() > 0.0):
        return None
    return u / u.sum(), w / w.sum()


def _master(
    means: FloatArray, scatters: FloatArray, scale: float
) -> tuple[float, FloatArray, tuple[FloatArray, FloatArray] | None] | None:
    """Best ratio over the hull of the columns, the shares of the columns, and the weights that prove it."""
    from scipy.optimize import linprog  # slow to import

    unit = float(np.max(scatters))
    if not unit > 0.0:
        return None
    pairs, count = means.shape
    above = np.hstack([-means / (unit * scale), np.ones((pairs, 1))])
    below = np.hstack([scatters / unit, np.zeros((scatters.shape[0], 1))])
    limit = np.concatenate([np.zeros(pairs), np.ones(scatters.shape[0])])
    cost = np.zeros(count + 1)
    cost[-1] = -1.0
    answer = linprog(cost, np.vstack([above, below]), limit, bounds=(0.0, None), method="highs")
    if answer.x is None or not float(np.sum(answer.x[:-1])) > 0.0:
        return None
    shares = answer.x[:-1] / np.sum(answer.x[:-1])
    multipliers = -np.asarray(answer.ineqlin.marginals)
    return float(answer.x[-1]) * scale, shares, unit_weights(multipliers[:pairs], multipliers[pairs:])
