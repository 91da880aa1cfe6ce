"""Second-order cones of one dimension, many at once: the Jordan algebra behind their HKM directions.

Vectors are rows of an array, ``(t, v)`` with eigenvalues ``t ± ||v||``. The product of two is ``(a'b, a0 b1 +
b0 a1)``, and ``Q(w) g = 2 w w'g - det(w) J g`` is what ``w g w`` is for matrices. With ``w`` the inverse root
of z, ``sym(x g z^-1)`` reads ``Q(w) ((Q(w^-1) x) (Q(w) g))``; as a matrix that is a multiple of the identity
and four vectors.
"""

from __future__ import annotations

import numpy as np

from sdpfeas.numerics.linalg import FloatArray

__all__ = ["Scaling", "all_inside", "lowest"]


def all_inside(vectors: FloatArray) -> bool:
    """Whether all vectors are inside the cone."""
    return bool(np.all(vectors[:, 0] > np.linalg.norm(vectors[:, 1:], axis=1)))


def lowest(vectors: FloatArray, changes: FloatArray) -> float:
    """Smallest eigenvalue of changes, in the metric of vectors inside."""
    scaled = _quadratic(_power(vectors, -0.5), changes)
    return float(np.min(scaled[:, 0] - np.linalg.norm(scaled[:, 1:], axis=1)))


def _power(vectors: FloatArray, exponent: float) -> FloatArray:
    """Powers of vectors inside the cone."""
    length = np.linalg.norm(vectors[:, 1:], axis=1)
    high, low = (vectors[:, 0] + length) ** exponent, (vectors[:, 0] - length) ** exponent
    out = np.empty_like(vectors)
    out[:, 0] = 0.5 * (high + low)
    out[:, 1:] = vectors[:, 1:] * (0.5 * (high - low) / np.where(length > 0.0, length, 1.0))[:, None]
    return out


def _determinant(vectors: FloatArray) -> FloatArray:
    length = np.linalg.norm(vectors[:, 1:], axis=1)
    return np.asarray((vectors[:, 0] + length) * (vectors[:, 0] - length))


def _mirrored(vectors: FloatArray) -> FloatArray:
    out = -vectors
    out[:, 0] = vectors[:, 0]
    return out


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", a, b))


def _quadratic(w: FloatArray, g: FloatArray) -> FloatArray:
    """``Q(w) g``."""
    return np.asarray(2.0 * _dot(w, g)[:, None] * w - _determinant(w)[:, None] * _mirrored(g))


def _product(a: FloatArray, b: FloatArray) -> FloatArray:
    out = a[:, :1] * b + b[:, :1] * a
    out[:, 0] = _dot(a, b)
    return out


class Scaling:
    """Vectors z inside the cone, and what their roots do.

    Parameters
    ----------
    z : ndarray
        Shape (count, dimension).
    """

    def __init__(self, z: FloatArray) -> None:
        self._root, self._inverse_root = _power(z, 0.5), _power(z, -0.5)
        #: Inverses of the vectors: the product of both is (1, 0).
        self.inverse = _power(z, -1.0)

    def respond(self, x: FloatArray, g: FloatArray) -> FloatArray:
        """What ``sym(x g z^-1)`` is for matrices."""
        w = self._inverse_root
        return _quadratic(w, _product(_quadratic(self._root, x), _quadratic(w, g)))

    def factors(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ``d``, ``U`` and ``C`` with ``d I + U C U'`` the matrix that responds, for every vector.

        Shapes (count,), (count, dimension, 4) and (count, 4, 4).
        """
        w = self._inverse_root
        scaled = _quadratic(self._root, x)
        first = scaled[:, 0].copy()
        scaled[:, 0] = 0.0
        det, size = _determinant(w), _dot(w, w)
        columns = np.stack([w, _mirrored(w), self.inverse, _quadratic(w, scaled)], axis=2)
        inner = np.zeros((w.shape[0], 4, 4))
        inner[:, 0, 0] = 4.0 * size * first
        inner[:, 0, 1] = inner[:, 1, 0] = -2.0 * det * first
        inner[:, 2, 3] = inner[:, 3, 2] = 1.0
        return first * np.square(det), columns, inner
