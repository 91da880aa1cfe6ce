"""Second-order cones of one dimension, many at once: the Jordan algebra behind their HKM directions.

Vectors are rows of an array, ``(t, v)`` with eigenvalues ``t ± ||v||``. The product of two is ``(a'b, a0 b1 +
b0 a1)``, and ``Q(w) g = 2 w w'g - det(w) J g`` is what ``w g w`` is for matrices. With ``w`` the inverse root
of z, ``sym(x g z^-1)`` reads ``Q(w) ((Q(w^-1) x) (Q(w) g))``; as a matrix that is a multiple of the identity
and four vectors.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from sdpfeas.backends.ipm.standard_form import PsdGroup, StandardForm
from sdpfeas.backends.ipm.structured_cones import extremes
from sdpfeas.numerics.linalg import FloatArray, cholesky, symmetrize


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
    """Vectors z inside the cone, and what their roots do."""

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


# ------------------------------------------------------------
# Cones of the standard form: an iterate, its factors, and the HKM direction.
#
# For a matrix x and its dual z the direction is ``dx = target - sym(x dz z^-1)`` (Helmberg, Rendl, Vanderbei
# and Wolkowicz; Kojima, Shindoh and Hara; Monteiro): what it needs of sparse rows are entries of ``x`` and
# ``z^-1``. Matrices of one side are worked on together.


class HkmIterate:
    """A form of flat vectors inside the cones, factorised.

    Raises ``numpy.linalg.LinAlgError``: if either is not inside.
    """

    def __init__(self, form: StandardForm, x: FloatArray, z: FloatArray) -> None:
        self.form, self.x, self.z = form, x, z
        #: Product of the two multiples of the identity that x and z^-1 are, where they are.
        self.multiple: float | None = None
        self.x_factors, self.z_factors = factors(form, x), factors(form, z)

    @classmethod
    def multiples(cls, form: StandardForm, primal: float, dual: float) -> HkmIterate:
        """Return multiples of the identity."""
        made = cls.__new__(cls)
        unit = identity(form)
        made.form, made.x, made.z = form, primal * unit, dual * unit
        made.multiple = primal / dual
        return made

    # Of a multiple of the identity these are needed only when it has to be left.
    @cached_property
    def x_factors(self) -> list[FloatArray]:
        """Cholesky factors of x, group by group."""
        return factors(self.form, self.x)

    @cached_property
    def z_factors(self) -> list[FloatArray]:
        """Cholesky factors of z, group by group."""
        return factors(self.form, self.z)

    @cached_property
    def inverses(self) -> list[FloatArray]:
        """Inverse of z, group by group."""
        return [_inverse(f) for f in self.z_factors]

    def xs(self, k: int) -> FloatArray:
        """Matrices of a group."""
        return self.form.psd_groups[k].view(self.x)

    @cached_property
    def scalings(self) -> list[Scaling]:
        """What belongs to z in second-order cones, bundle by bundle."""
        return [Scaling(bundle.view(self.z)) for bundle in self.form.second_order_groups]

    @property
    def ratios(self) -> FloatArray:
        """``x / z`` for the numbers."""
        return np.asarray(self.x[self.form.nonneg] / self.z[self.form.nonneg])

    def respond(self, g: FloatArray) -> FloatArray:
        """``sym(x g z^-1)``."""
        if self.multiple is not None:
            return self.multiple * g
        out = np.empty_like(g)
        for k, group in enumerate(self.form.psd_groups):
            product = self.xs(k) @ group.view(g) @ self.inverses[k]
            out[group.slice] = symmetrize(product).reshape(-1)
        for bundle, scaling in zip(self.form.second_order_groups, self.scalings, strict=True):
            bundle.view(out)[:] = scaling.respond(bundle.view(self.x), bundle.view(g))
        lines = self.form.nonneg
        out[lines] = g[lines] * self.ratios
        return out

    def correction(self, dx: FloatArray, dz: FloatArray) -> FloatArray:
        """``sym(dx dz z^-1)``."""
        out = np.empty_like(dx)
        for k, group in enumerate(self.form.psd_groups):
            product = group.view(dx) @ group.view(dz) @ self.inverses[k]
            out[group.slice] = symmetrize(product).reshape(-1)
        for bundle, scaling in zip(self.form.second_order_groups, self.scalings, strict=True):
            bundle.view(out)[:] = scaling.respond(bundle.view(dx), bundle.view(dz))
        lines = self.form.nonneg
        out[lines] = dx[lines] * dz[lines] / self.z[lines]
        return out

    def inverse_dual(self) -> FloatArray:
        """``z^-1``, flat."""
        out = np.empty_like(self.x)
        for group, inverse in zip(self.form.psd_groups, self.inverses, strict=True):
            out[group.slice] = inverse.reshape(-1)
        for bundle, scaling in zip(self.form.second_order_groups, self.scalings, strict=True):
            bundle.view(out)[:] = scaling.inverse
        out[self.form.nonneg] = 1.0 / self.z[self.form.nonneg]
        return out

    def limits(self, dx: FloatArray, dz: FloatArray) -> tuple[float, float]:
        """Longest steps that keep x and z inside."""
        first = step_limit(self.form, self.x, self.x_factors, dx)
        return first, step_limit(self.form, self.z, self.z_factors, dz)


def identity(form: StandardForm) -> FloatArray:
    """The identity of every cone, flat."""
    out = np.ones(form.size)
    for group in form.psd_groups:
        group.view(out)[:] = np.eye(group.side)
    for bundle in form.second_order_groups:
        bundle.view(out)[:, 1:] = 0.0
    return out


def factors(form: StandardForm, flat: FloatArray) -> list[FloatArray]:
    """Lower Cholesky factors, group by group.

    Raises ``numpy.linalg.LinAlgError``: if something is not positive definite, or not positive.
    """
    if not np.all(flat[form.nonneg] > 0.0):
        raise np.linalg.LinAlgError("a number is not positive")
    if not all(all_inside(bundle.view(flat)) for bundle in form.second_order_groups):
        raise np.linalg.LinAlgError("a vector is outside its cone")
    return [_factor(group, flat) for group in form.psd_groups]


def _factor(group: PsdGroup, flat: FloatArray) -> FloatArray:
    matrices = group.view(flat)
    if group.count == 1:
        return cholesky(matrices[0])[None]
    found: FloatArray = np.linalg.cholesky(matrices).astype(np.float64, copy=False)
    if not np.isfinite(np.trace(found, axis1=1, axis2=2)).all():
        raise np.linalg.LinAlgError("a matrix is not positive definite")
    return found


def inside(form: StandardForm, flat: FloatArray) -> bool:
    """Whether a flat vector is inside the cones, as far as its Cholesky factors tell."""
    try:
        factors(form, flat)
    except np.linalg.LinAlgError:
        return False
    return True


def _inverse(factor: FloatArray) -> FloatArray:
    """Inverses from Cholesky factors."""
    if factor.shape[0] == 1:
        half: Any = scipy.linalg.lapack.dpotri(factor[0], lower=1)[0]
        full = half + half.T
        full[np.diag_indices_from(full)] *= 0.5
        return np.asarray(full)[None]
    root = np.linalg.inv(factor)
    return np.asarray(np.swapaxes(root, -1, -2) @ root)


def step_limit(form: StandardForm, flat: FloatArray, own: list[FloatArray], change: FloatArray) -> float:
    """Longest step along a change that stays inside, nearly."""
    lines = form.nonneg
    least = float(np.min(change[lines] / flat[lines], initial=0.0))
    for group, factor in zip(form.psd_groups, own, strict=True):
        least = min(least, _lowest(factor, group.view(change)))
    for bundle in form.second_order_groups:
        least = min(least, lowest(bundle.view(flat), bundle.view(change)))
    return np.inf if least >= 0.0 else -1.0 / least


def _lowest(factor: FloatArray, change: FloatArray) -> float:
    """Smallest eigenvalue of ``L^-1 change L^-T`` over all matrices of a group."""
    if factor.shape[0] > 1:
        root = np.linalg.inv(factor)
        scaled = root @ change @ np.swapaxes(root, -1, -2)
        return float(np.min(np.linalg.eigvalsh(symmetrize(scaled))[:, 0]))
    trsm = scipy.linalg.blas.dtrsm
    half = trsm(1.0, factor[0], change[0].T, lower=1)
    scaled = trsm(1.0, factor[0], half.T, lower=1)
    if not np.isfinite(scaled).all():
        raise np.linalg.LinAlgError("the direction is not finite")
    return extremes(symmetrize(scaled), both=False)[0]
