"""The iterate of the sparse interior-point method in its cones, with the HKM direction.

For a matrix x and its dual z the direction of Helmberg, Rendl, Vanderbei and Wolkowicz (1996), Kojima,
Shindoh and Hara (1997) and Monteiro (1997) is ``dx = target - sym(x dz z^-1)``. Sparse rows need no more
than entries of ``x`` and ``z^-1`` for it. :class:`HkmIterate` is the main class. It works on all matrices
of one side at once, and likewise on all second-order cones of one dimension.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from sdpfeas.backends.ipm.standard_form import ConeGroup, StandardForm
from sdpfeas.backends.ipm.structured_cones import extreme_eigenvalues
from sdpfeas.numerics.linalg import FloatArray, cholesky, symmetrize


class HkmIterate:
    """A primal–dual pair of flat vectors in the interior of the cones, with its factorisations.

    Raises ``numpy.linalg.LinAlgError`` if x or z is not in the interior.
    """

    def __init__(self, form: StandardForm, x: FloatArray, z: FloatArray) -> None:
        self.form, self.x, self.z = form, x, z
        #: ``alpha / beta`` where ``x = alpha I`` and ``z = beta I``; None elsewhere.
        self.multiple: float | None = None
        self.x_factors, self.z_factors = cholesky_factors(form, x), cholesky_factors(form, z)

    @classmethod
    def multiples_of_identity(cls, form: StandardForm, primal: float, dual: float) -> HkmIterate:
        """Return ``x = primal I``, ``z = dual I``, not yet factorised."""
        made = cls.__new__(cls)
        unit = identity(form)
        made.form, made.x, made.z = form, primal * unit, dual * unit
        made.multiple = primal / dual
        return made

    # Multiples of the identity are factorised only when the first step is taken.
    @cached_property
    def x_factors(self) -> list[FloatArray]:
        """Cholesky factors of x, one array per group of PSD cones."""
        return cholesky_factors(self.form, self.x)

    @cached_property
    def z_factors(self) -> list[FloatArray]:
        """Cholesky factors of z, one array per group of PSD cones."""
        return cholesky_factors(self.form, self.z)

    @cached_property
    def z_inverses(self) -> list[FloatArray]:
        """Inverse of z, one array per group of PSD cones."""
        return [_inverse(f) for f in self.z_factors]

    def x_matrices(self, k: int) -> FloatArray:
        """Matrices of x in the k-th group of PSD cones."""
        return self.form.psd_groups[k].view(self.x)

    @cached_property
    def scalings(self) -> list[SecondOrderScaling]:
        """Scalings by z, one per group of second-order cones."""
        return [SecondOrderScaling(group.view(self.z)) for group in self.form.second_order_groups]

    @property
    def ratios(self) -> FloatArray:
        """``x / z`` in the orthants."""
        return np.asarray(self.x[self.form.nonneg] / self.z[self.form.nonneg])

    def apply_hkm(self, g: FloatArray) -> FloatArray:
        """``sym(x g z^-1)``, the inverse Hessian of the HKM direction."""
        if self.multiple is not None:
            return self.multiple * g
        return self._symmetrised_product(self.x, g, self.ratios * g[self.form.nonneg])

    def second_order_term(self, dx: FloatArray, dz: FloatArray) -> FloatArray:
        """``sym(dx dz z^-1)``, the second-order term of Mehrotra's corrector."""
        nonneg = self.form.nonneg
        return self._symmetrised_product(dx, dz, dx[nonneg] * dz[nonneg] / self.z[nonneg])

    def _symmetrised_product(self, a: FloatArray, b: FloatArray, nonneg: FloatArray) -> FloatArray:
        """``sym(a b z^-1)``, with the part in the orthants given."""
        out = np.empty_like(b)
        for group, inverse in zip(self.form.psd_groups, self.z_inverses, strict=True):
            product = group.view(a) @ group.view(b) @ inverse
            out[group.slice] = symmetrize(product).reshape(-1)
        for cones, scaling in zip(self.form.second_order_groups, self.scalings, strict=True):
            cones.view(out)[:] = scaling.apply_hkm(cones.view(a), cones.view(b))
        out[self.form.nonneg] = nonneg
        return out

    def inverse_dual(self) -> FloatArray:
        """``z^-1``, flat."""
        out = np.empty_like(self.x)
        for group, inverse in zip(self.form.psd_groups, self.z_inverses, strict=True):
            out[group.slice] = inverse.reshape(-1)
        for cones, scaling in zip(self.form.second_order_groups, self.scalings, strict=True):
            cones.view(out)[:] = scaling.inverse
        out[self.form.nonneg] = 1.0 / self.z[self.form.nonneg]
        return out

    def max_steps(self, dx: FloatArray, dz: FloatArray) -> tuple[float, float]:
        """Longest steps that keep x and z in the cones."""
        primal = _max_step(self.form, self.x, self.x_factors, dx)
        return primal, _max_step(self.form, self.z, self.z_factors, dz)


def identity(form: StandardForm) -> FloatArray:
    """The identity element of every cone, flat."""
    out = np.ones(form.size)
    for group in form.psd_groups:
        group.view(out)[:] = np.eye(group.n)
    for cones in form.second_order_groups:
        cones.view(out)[:, 1:] = 0.0
    return out


def cholesky_factors(form: StandardForm, flat: FloatArray) -> list[FloatArray]:
    """Lower Cholesky factors, one array per group of PSD cones.

    Raises ``numpy.linalg.LinAlgError`` if the vector is not in the interior of all cones.
    """
    if not np.all(flat[form.nonneg] > 0.0):
        raise np.linalg.LinAlgError("a number is not positive")
    if not all(_in_second_order_cones(cones.view(flat)) for cones in form.second_order_groups):
        raise np.linalg.LinAlgError("a vector is outside its cone")
    return [_factor(group, flat) for group in form.psd_groups]


def _factor(group: ConeGroup, flat: FloatArray) -> FloatArray:
    matrices = group.view(flat)
    if group.count == 1:
        return cholesky(matrices[0])[None]
    found: FloatArray = np.linalg.cholesky(matrices).astype(np.float64, copy=False)
    if not np.isfinite(np.trace(found, axis1=1, axis2=2)).all():
        raise np.linalg.LinAlgError("a matrix is not positive definite")
    return found


def in_interior(form: StandardForm, flat: FloatArray) -> bool:
    """Whether a flat vector is in the interior of the cones, by Cholesky factorisation."""
    try:
        cholesky_factors(form, flat)
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


def _max_step(form: StandardForm, flat: FloatArray, factors: list[FloatArray], change: FloatArray) -> float:
    """Longest step along a change that stays in the cones, up to the error of Lanczos' method."""
    least = float(np.min(change[form.nonneg] / flat[form.nonneg], initial=0.0))
    for group, factor in zip(form.psd_groups, factors, strict=True):
        least = min(least, _least_eigenvalue(factor, group.view(change)))
    for cones in form.second_order_groups:
        least = min(least, _least_scaled_eigenvalue(cones.view(flat), cones.view(change)))
    return np.inf if least >= 0.0 else -1.0 / least


def _least_eigenvalue(factor: FloatArray, change: FloatArray) -> float:
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
    return extreme_eigenvalues(symmetrize(scaled), both=False)[0]


# --- Second-order cones: the Jordan algebra of their HKM direction (Alizadeh and Goldfarb 2003)
#
# Vectors ``(t, v)`` are the rows of an array; their eigenvalues are ``t ± ||v||``. The Jordan product is
# ``(a'b, a0 b1 + b0 a1)``, and ``Q(w) g = 2 w w'g - det(w) J g`` takes the place of ``w g w`` for matrices.


class SecondOrderScaling:
    """Vectors z in the interior of second-order cones, with their square roots and inverses."""

    def __init__(self, z: FloatArray) -> None:
        self._root, self._inverse_root = _power(z, 0.5), _power(z, -0.5)
        #: ``z^-1``: the Jordan product with z is (1, 0).
        self.inverse = _power(z, -1.0)

    def apply_hkm(self, x: FloatArray, g: FloatArray) -> FloatArray:
        """``Q(w) ((Q(w^-1) x) (Q(w) g))`` with ``w = z^-1/2``, the analogue of ``sym(x g z^-1)``."""
        w = self._inverse_root
        return _quadratic(w, _jordan_product(_quadratic(self._root, x), _quadratic(w, g)))

    def low_rank_form(self, x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ``d``, ``U`` and ``C`` with ``d I + U C U'`` the matrix of :meth:`apply_hkm`, per cone.

        Shapes (count,), (count, dimension, 4) and (count, 4, 4).
        """
        w = self._inverse_root
        scaled = _quadratic(self._root, x)
        first = scaled[:, 0].copy()
        scaled[:, 0] = 0.0
        det, size = _determinant(w), _dot(w, w)
        columns = np.stack([w, _reflect(w), self.inverse, _quadratic(w, scaled)], axis=2)
        inner = np.zeros((w.shape[0], 4, 4))
        inner[:, 0, 0] = 4.0 * size * first
        inner[:, 0, 1] = inner[:, 1, 0] = -2.0 * det * first
        inner[:, 2, 3] = inner[:, 3, 2] = 1.0
        return first * np.square(det), columns, inner


def _in_second_order_cones(vectors: FloatArray) -> bool:
    """Whether all vectors are in the interior of the cone."""
    return bool(np.all(vectors[:, 0] > np.linalg.norm(vectors[:, 1:], axis=1)))


def _least_scaled_eigenvalue(vectors: FloatArray, changes: FloatArray) -> float:
    """Smallest eigenvalue of ``Q(x^-1/2) dx`` over all cones."""
    scaled = _quadratic(_power(vectors, -0.5), changes)
    return float(np.min(scaled[:, 0] - np.linalg.norm(scaled[:, 1:], axis=1)))


def _power(vectors: FloatArray, exponent: float) -> FloatArray:
    """Powers in the Jordan algebra of vectors in the interior of the cone."""
    length = np.linalg.norm(vectors[:, 1:], axis=1)
    high, low = (vectors[:, 0] + length) ** exponent, (vectors[:, 0] - length) ** exponent
    out = np.empty_like(vectors)
    out[:, 0] = 0.5 * (high + low)
    out[:, 1:] = vectors[:, 1:] * (0.5 * (high - low) / np.where(length > 0.0, length, 1.0))[:, None]
    return out


def _determinant(vectors: FloatArray) -> FloatArray:
    length = np.linalg.norm(vectors[:, 1:], axis=1)
    return np.asarray((vectors[:, 0] + length) * (vectors[:, 0] - length))


def _reflect(vectors: FloatArray) -> FloatArray:
    """``J v``: the sign of all entries but the first is changed."""
    out = -vectors
    out[:, 0] = vectors[:, 0]
    return out


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ij,ij->i", a, b))


def _quadratic(w: FloatArray, g: FloatArray) -> FloatArray:
    """The quadratic representation ``Q(w) g``."""
    return np.asarray(2.0 * _dot(w, g)[:, None] * w - _determinant(w)[:, None] * _reflect(g))


def _jordan_product(a: FloatArray, b: FloatArray) -> FloatArray:
    out = a[:, :1] * b + b[:, :1] * a
    out[:, 0] = _dot(a, b)
    return out
