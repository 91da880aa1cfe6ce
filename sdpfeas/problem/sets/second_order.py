"""The second-order cone ``t >= ||z||``.

Its eigenvalues are ``(t ± ||z||) / sqrt(2)``. Projection: negative eigenvalues become 0. Support function: 0
if ``g_1 <= -||g_2||``, else infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import difference_down, norm_upper, product_up, sqrt_upper, sum_up
from sdpfeas.problem.sets.base import BlockSet, Frame

__all__ = ["SecondOrder"]

#: Normalises the eigenvalues so that frames are orthonormal.
SQRT_2 = math.sqrt(2.0)

#: Violation ``||z|| - t``, relative to ``||z||``, below which membership is decided in rational arithmetic.
EXACT_TEST_SHARE = 1e-12


@dataclass(frozen=True)
class SecondOrder(BlockSet):
    """Vectors ``(t, z)`` of length n with ``t >= ||z||``, the Euclidean norm.

    The eigenvalues of ``(t, z)`` are ``(t ± ||z||) / √2``. For ``n = 1`` the only eigenvalue is ``t``.

    Parameters
    ----------
    n : int
        Length of the vectors.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> cone = sf.SecondOrder(3)
    >>> print(cone.project(np.array([5.0, 3.0, 4.0])).round(12))
    [5. 3. 4.]
    >>> print(cone.project(np.array([0.0, 3.0, 4.0])).round(12))
    [2.5 1.5 2. ]
    """

    kind = "SecondOrder"
    matrix = False
    entrywise = False
    lower = 0.0

    @property
    def degree(self) -> int:
        """Number of eigenvalues: two, or one for ``n = 1``."""
        return min(self.n, 2)

    def identity(self) -> FloatArray:
        """Return ``(√2, 0)``."""
        out = np.zeros(self.n)
        out[0] = SQRT_2 if self.n > 1 else 1.0
        return out

    def symmetrize(self, x: FloatArray) -> FloatArray:
        """Return the vector itself."""
        return x

    def decompose(self, x: FloatArray) -> tuple[FloatArray, Frame]:
        """Return the ascending eigenvalues and the unit vector ``z / ||z||``."""
        if self.n == 1:
            return np.array(x), None
        if not np.isfinite(x).all():
            raise np.linalg.LinAlgError("vector holds NaN or infinity")
        size = float(np.max(np.abs(x[1:])))
        length = size * float(np.linalg.norm(x[1:] / size)) if size > 0.0 else 0.0
        axis = np.zeros(self.n - 1)
        axis[0] = 1.0
        if length > 0.0:
            axis = x[1:] / size / np.linalg.norm(x[1:] / size)
        return np.array([x[0] - length, x[0] + length]) / SQRT_2, axis

    def compose(self, frame: Frame, lam: FloatArray) -> FloatArray:
        """Return the vector with the given eigenvalues and direction of ``z``."""
        if frame is None:
            return np.array(lam)
        return np.concatenate([[lam[0] + lam[1]], (lam[1] - lam[0]) * frame]) / SQRT_2

    def coefficients(self, frame: Frame, x: FloatArray) -> FloatArray:
        """Return the inner products with the frame elements ``(1, ∓axis) / √2``."""
        if frame is None:
            return np.array(x)
        along = float(frame @ x[1:])
        return np.array([x[0] - along, x[0] + along]) / SQRT_2

    def random_frame(self, rng: np.random.Generator) -> Frame:
        """Draw a random direction of ``z``."""
        if self.n == 1:
            return None
        axis = rng.normal(size=self.n - 1)
        return np.asarray(axis / np.linalg.norm(axis))

    # ------------------------------------------------------------ proofs

    def distance_upper(self, x: FloatArray) -> float:
        """Bound ``max(||z|| - t, 0)``: raising ``t`` by that much gives a member."""
        length = norm_upper(x[1:])
        lacking = float(sum_up(length, -x[0]))
        if not lacking > 0.0:
            return 0.0 if lacking <= 0.0 else math.inf
        if lacking <= EXACT_TEST_SHARE * length and self._holds(x):
            return 0.0
        return lacking

    def _holds(self, x: FloatArray) -> bool:
        """Decide membership of the binary64 data in rational arithmetic."""
        if not np.isfinite(x).all():
            return False
        return self.nonnegative_exact(np.array([Fraction(v) for v in x.tolist()], dtype=object))

    def interior_radius(self, x: FloatArray, share: float) -> float | None:
        """Prove ``share`` times the smaller eigenvalue."""
        depth = share * self.depth(x)
        left = float(difference_down(x[0], norm_upper(x[1:])))
        return depth if depth > 0.0 and left >= float(product_up(sqrt_upper(2.0), depth)) else None

    def support_upper(
        self, g: FloatArray, error: FloatArray, slip: float, moves: np.ndarray | None
    ) -> tuple[float, float]:
        """Return zero if all these vectors are in the polar cone; see :meth:`BlockSet.support_upper`."""
        apart = moves is not None and bool(np.any(moves))
        if not apart and not error.any():
            return (0.0 if self.distance_upper(-g) == 0.0 else math.inf), 0.0
        # A perturbation of norm s changes t + ||z|| by at most √2·s.
        slips = float(product_up(sqrt_upper(2.0), slip)) if apart else 0.0
        length = norm_upper(sum_up(np.abs(g[1:]), error[1:]))
        return (0.0 if float(sum_up(length, error[0], slips)) <= -g[0] else math.inf), 0.0

    def nonnegative_exact(self, x: np.ndarray) -> bool:
        """Decide ``t >= 0`` and ``t² >= ||z||²``."""
        return bool(x[0] >= 0 and x[0] * x[0] >= sum((v * v for v in x[1:]), 0 * x[0]))

    # ------------------------------------------------------------ reformulation

    @property
    def psd_side(self) -> int:
        """Side of the arrow matrix, n."""
        return self.n

    def psd_map(self) -> Any:
        """Return the map to arrow matrices: ``t`` on the diagonal, ``z`` in the first row and column."""
        n, k = self.n, np.arange(1, self.n)
        place = np.concatenate([np.arange(n) * (n + 1), k, k * n])
        entry = np.concatenate([np.zeros(n, dtype=np.int64), k, k])
        return sp.csr_array((np.ones(place.size), (place, entry)), shape=(n * n, n))

    def psd_preimage(self, x: FloatArray) -> FloatArray:
        """Return ``(2/t) v v' + s·I`` with ``v = (t/2, z/2)`` and s such that the trace is t."""
        t, z = max(float(x[0]), 0.0), 0.5 * x[1:]
        out = np.zeros((self.n, self.n))
        if t > 0.0:
            out[0, 0], out[0, 1:], out[1:, 0] = 0.5 * t, z, z
            out[1:, 1:] = np.outer(z, z / (0.5 * t))
        out[np.diag_indices(self.n)] += max(t - float(np.trace(out)), 0.0) / self.n
        return out
