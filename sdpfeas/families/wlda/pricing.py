"""Ratios of scatters: what weights rule out, which points they suggest, and where to begin.

Nothing here is proved. Weights are of the pairs of classes and of the classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.linalg

from sdpfeas.families.bounds import EXACT, NO_ROOT, Root, certificate_root
from sdpfeas.families.fantope import REFINE_ROUNDS, Oracle, refine, unit_weights
from sdpfeas.numerics.linalg import PARTIAL_SIZE, FloatArray, eigh, leading_pairs, spectral_matrix
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import SpectralBox

# ------------------------------------------------------------
# Weights to begin with: of the pairs and classes that limit the ratio more than of the others.

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

    ``pairs, scatters``: one row a pair of classes, and one a class.

    Returns: about the smallest ratio that they rule out.
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


Weights = tuple[FloatArray, FloatArray]

#: Accuracy of a ratio in column generation, as a share of the tolerance.
PRICED = 1e-3

#: Up to this side the last two matrices are kept, since they are often asked for again.
KEPT = 2000


@dataclass(frozen=True)
class _Last:
    """A root that was asked for: of which weights, how accurate, and what was found."""

    unit: Weights
    accuracy: float
    found: tuple[Root, FloatArray, FloatArray]


class Pricing:
    """The ratio ``min <S_ij, Z> / max <S_k, Z>`` over a spectral box.

    ``pairs, scatters``: one row a pair of classes, and one a class.
    """

    def __init__(self, box: SpectralBox, pairs: Rows, scatters: Rows) -> None:
        self._box = box
        self._pairs = pairs
        self._scatters = scatters
        self._last: _Last | None = None

    def ratio(self, z: FloatArray) -> float:
        """Return the ratio a matrix attains."""
        least = float(np.min(self._pairs.apply(z)))
        most = float(np.max(self._scatters.apply(z)))
        if most <= 0.0:
            return math.inf if least > 0.0 else 0.0
        return max(least, 0.0) / most

    def root(self, weights: Weights, near: float = 0.0, accuracy: float = EXACT) -> Root:
        """Return the smallest ratio that weights rule out: root of ``sigma(sum u S_ij - delta·sum w S_k)``.

        ``weights``: non-negative weights of the pairs and of the classes. ``accuracy``: relative error of
        the ratio that is good enough.
        """
        unit = unit_weights(*weights)
        return NO_ROOT if unit is None else self._root(unit, near, accuracy)[0]

    def _root(self, unit: Weights, near: float, accuracy: float) -> tuple[Root, FloatArray, FloatArray]:
        """Root of unit weights, and the two matrices they add up to; the last one asked for is kept."""
        known = self._last
        if known is not None and known.accuracy <= accuracy and all(map(np.array_equal, known.unit, unit)):
            return known.found
        fixed, slope = self._pairs.adjoint(unit[0]), self._scatters.adjoint(unit[1])
        root = certificate_root((self._box,), (fixed,), (slope,), 0.0, 0.0, near, accuracy=accuracy)
        if self._box.n <= KEPT:
            self._last = _Last(unit, accuracy, (root, fixed, slope))
        return root, fixed, slope

    def price(
        self, u: FloatArray, w: FloatArray, near: float, accuracy: float = EXACT
    ) -> tuple[float, FloatArray]:
        """Return the smallest ratio that weights of sum one rule out, and the matrix that comes closest.

        ``u, w``: weights of the pairs and of the classes. ``accuracy``: relative error of the ratio that is
        good enough.
        """
        root, fixed, slope = self._root((u, w), max(near, 0.0), accuracy)
        delta = root.delta if math.isfinite(root.delta) else near
        best = self._box.maximiser(fixed - delta * slope)
        return root.delta, self._box.compose(best.frame, best.weights)

    def suggested(self, weights: Weights, near: float = 0.0) -> FloatArray | None:
        """Return the matrix on which weights come closest to being attained, if they rule out any ratio.

        ``weights``: weights of the pairs and of the classes.
        """
        unit = unit_weights(*weights)
        if unit is None:
            return None
        delta, matrix = self.price(*unit, near)
        return matrix if math.isfinite(delta) else None

    def refined(
        self, matrices: Sequence[FloatArray], weights: Sequence[Weights], tol: float
    ) -> tuple[FloatArray, Weights] | None:
        """Return a better matrix and better weights, by a few rounds of column generation.

        ``tol``: the width of the bracket that is asked for, relative to its upper end.
        """
        price = partial(self.price, accuracy=PRICED * tol)
        oracle = Oracle(self._pairs.apply, self._scatters.apply, price)
        return refine(oracle, matrices, weights, REFINE_ROUNDS, 0.2 * tol)

    def narrowest(self) -> FloatArray:
        """Return the projector on directions of least scatter, all classes together."""
        lam, vec = eigh(np.asarray(self._scatters.adjoint(np.ones(self._scatters.m))))
        return spectral_matrix(vec, self._box.maximiser_spectrum(lam)[::-1])

    def initial_matrices(self) -> list[FloatArray]:
        """Return the middle of the box, and the span of the classical discriminant directions."""
        out = [np.asarray(self._box.interior_point())]
        try:
            within = self._scatters.adjoint(np.ones(self._scatters.m))
            between = self._pairs.adjoint(np.ones(self._pairs.m))
            floor = 1e-12 * float(np.trace(within + between)) / within.shape[0]
            _, vec = scipy.linalg.eigh(between, within + floor * np.eye(within.shape[0]))
            q, _ = np.linalg.qr(vec[:, -round(self._box.rank) :])
            out.append(q @ q.T)
        except np.linalg.LinAlgError:
            pass
        return out

    def initial_weights(self) -> list[Weights]:
        """Balanced weights, equal ones, and all weight on what limits the middle of the box."""
        pairs, groups = self._pairs.m, self._scatters.m
        middle = self._box.interior_point()
        worst_pair = (np.arange(pairs) == int(np.argmin(self._pairs.apply(middle)))).astype(np.float64)
        worst_group = (np.arange(groups) == int(np.argmax(self._scatters.apply(middle)))).astype(np.float64)
        equal = np.full(pairs, 1.0 / pairs), np.full(groups, 1.0 / groups)
        balanced = balanced_weights(self._box, self._pairs, self._scatters)[:2]
        return [balanced, equal, (worst_pair, worst_group)]
