"""Weights to begin with: of the pairs and classes that limit the ratio more than of the others."""

from __future__ import annotations

import math

import numpy as np

from sdpfeas.numerics.linalg import PARTIAL_SIZE, FloatArray, leading_pairs
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import SpectralBox

__all__ = ["balanced_weights"]

#: Rounds. Every one costs a partial eigendecomposition; together they spare an interior-point method three to
#: five steps of a dozen eigendecompositions each. Where it takes a full one, fewer do.
ROUNDS, FEW_ROUNDS = 20, 10

#: Weights are multiplied by a power of how far a row is from limiting the ratio: bold at first, with more
#: care in every round, since what is bold all the time swings, ...
POWER, CALMER = 1.3, 0.93
#: ... and no row is taken to be further than this.
FURTHEST = 1e-3


def balanced_weights(box: SpectralBox, pairs: Rows, scatters: Rows) -> tuple[FloatArray, FloatArray, float]:
    """Weights of the pairs and of the classes, by multiplicative updates from equal ones.

    Every round takes the matrix that is best for the present weights and gives more weight to pairs that are
    close on it and to classes that are wide on it. Nothing is proved, nor has to be.

    Parameters
    ----------
    box : SpectralBox
        Where matrices are from.
    pairs, scatters : Rows
        One row a pair of classes, and one a class.

    Returns
    -------
    u, w : ndarray
        Weights of sum one.
    delta : float
        About the smallest ratio that they rule out.
    """
    u, w = np.full(pairs.m, 1.0 / pairs.m), np.full(scatters.m, 1.0 / scatters.m)
    # The best matrix for no ratio at all would say little; all directions alike say about how large one is.
    z = np.eye(box.n)
    delta = _ratio(u, pairs.apply(z), w, scatters.apply(z))
    top = box.maximiser_spectrum(np.arange(1.0, box.n + 1.0))
    count = int(np.count_nonzero(top))
    for k in range(FEW_ROUNDS if box.n < PARTIAL_SIZE else ROUNDS):
        _, vec = leading_pairs(pairs.adjoint(u) - delta * scatters.adjoint(w), count)
        z = (vec * top[-count:]) @ vec.T
        means, spreads = pairs.apply(z), scatters.apply(z)
        if not (np.max(means) > 0.0 and np.max(spreads) > 0.0):
            break
        delta, power = _ratio(u, means, w, spreads), POWER * CALMER**k
        u = u / np.maximum(means / np.max(means), FURTHEST) ** power
        w = w * np.maximum(spreads / np.max(spreads), FURTHEST) ** power
        u, w = u / u.sum(), w / w.sum()
    return u, w, delta


def _ratio(u: FloatArray, means: FloatArray, w: FloatArray, spreads: FloatArray) -> float:
    spread = float(w @ spreads)
    ratio = float(u @ means) / spread if spread > 0.0 else 0.0
    return ratio if math.isfinite(ratio) else 0.0
