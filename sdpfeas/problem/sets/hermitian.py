"""The cone of Hermitian positive semidefinite matrices.

Projection: ``U max(Lambda, 0) U*`` for ``H = U Lambda U*``. Support function: 0 if ``G`` is negative
semidefinite, else infinite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.exact_arithmetic import semidefinite_exact, sum_of
from sdpfeas.numerics.limits import EIGEN_FLOPS
from sdpfeas.numerics.linalg import FloatArray, check_input
from sdpfeas.numerics.rounding import (
    definite,
    product_up,
    semidefinite,
    smallest_eigenvalue_lower,
    sqrt_upper,
    sum_up,
    symmetric_norm_upper,
)
from sdpfeas.problem.sets.base import LARGEST_SIDE, BlockSet, Frame
from sdpfeas.problem.sets.psd import PSD
from sdpfeas.problem.validation import float_array

__all__ = ["HermitianPSD"]


@dataclass(frozen=True, init=False, repr=False)
class HermitianPSD(BlockSet):
    """The cone of Hermitian positive semidefinite matrices.

    A matrix ``H`` is stored as the real matrix ``R = Re H + Im H``, flattened row by row. The symmetric part
    of ``R`` is ``Re H``, the skew-symmetric part is ``Im H``. The map is an isometry: ``<R, S> = Re tr(H G)``
    for ``S = Re G + Im G``. Rows and points may be given as complex arrays; for rows ``Re H + Im H`` must be
    exact in floating point. :meth:`to_complex` restores the complex matrix.

    Parameters
    ----------
    side : int
        Side of the matrices. The attribute ``n`` is the number of stored entries, ``side²``.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> cone = sf.HermitianPSD(2)
    >>> x = cone.coordinates(np.array([[1.0, 1.0j], [-1.0j, 1.0]]))
    >>> print(x)
    [ 1.  1. -1.  1.]
    >>> print(cone.spectrum(x).round(12) + 0.0)
    [0. 2.]
    >>> print(cone.to_complex(x))
    [[1.+0.j 0.+1.j]
     [0.-1.j 1.+0.j]]
    """

    kind = "HermitianPSD"
    matrix = False
    entrywise = False
    lower = 0.0

    def __init__(self, side: int) -> None:
        side = self.checked_size(side, "the side", math.isqrt(LARGEST_SIDE))
        object.__setattr__(self, "n", side**2)

    def __repr__(self) -> str:
        """Format the set with its side."""
        return f"HermitianPSD({self.degree})"

    def spec(self) -> dict[str, Any]:
        """Return the side as plain data, for files and hashes."""
        return {"kind": self.kind, "side": self.degree}

    @property
    def degree(self) -> int:
        """Number of eigenvalues, the side of the complex matrix."""
        return math.isqrt(self.n)

    @property
    def side(self) -> int:
        """Side of the real symmetric embedding, which has every eigenvalue twice."""
        return 2 * self.degree

    # ------------------------------------------------------------ complex matrices

    def coordinates(self, values: Any, *, exact: bool = True) -> Any:
        """Convert complex or real matrices to stored vectors; return any other input unchanged.

        Parameters
        ----------
        values : array_like
            Matrices, of shape (..., side, side).
        exact : bool
            Raise for matrices that are not Hermitian and for entries that would be rounded.

        Raises
        ------
        ProblemError
            If ``exact`` and a matrix is not Hermitian or an entry would be rounded.
        """
        try:
            array = np.asarray(values)
        except ValueError:
            return values
        side = self.degree
        if array.dtype.kind not in "biufc" or array.shape[-2:] != (side, side):
            return values
        if array.ndim == 2 and array.dtype.kind != "c" and side == 1:
            return values  # a row of one number rather than a matrix
        turned = np.swapaxes(array, -1, -2).conj()
        if exact and not np.array_equal(array, turned):
            raise ProblemError("a matrix is not Hermitian; pass (H + H') / 2 if that is what you mean")
        first = float_array(array.real, "real parts", exact=exact)
        second = float_array(array.imag, "imaginary parts", exact=exact)
        if not exact:
            first, second = (
                0.5 * (p + s * np.swapaxes(p, -1, -2)) for p, s in ((first, 1.0), (second, -1.0))
            )
        with np.errstate(over="ignore", invalid="ignore"):
            total, lost = sum_of(first, second)
        if exact and np.any(lost):
            raise ProblemError(
                "the sum of the real and the imaginary part of an entry is no floating-point number; pass "
                "coordinates(H, exact=False), rounded, if that is what you mean"
            )
        return total.reshape(*array.shape[:-2], self.n)

    def to_complex(self, x: FloatArray) -> np.ndarray:
        """Return the Hermitian matrix that a stored vector represents.

        Parameters
        ----------
        x : ndarray
            A vector of length ``n``.
        """
        half = 0.5 * x.reshape(self.degree, self.degree)
        return np.asarray((half + half.T) + 1j * (half - half.T))

    def _doubled(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the real embedding of ``2 H`` and the rounding errors of its entries."""
        r = x.reshape(self.degree, self.degree)
        with np.errstate(over="ignore", invalid="ignore"):
            same, skew = sum_of(r, r.T), sum_of(r, -r.T)
            return _embedded(same[0], skew[0]), np.abs(_embedded(same[1], skew[1]))

    # ------------------------------------------------------------ arrays and spectra

    def identity(self) -> FloatArray:
        """Return the identity matrix."""
        return np.eye(self.degree).reshape(-1)

    def symmetrize(self, x: FloatArray) -> FloatArray:
        """Return the vector itself: every vector represents a Hermitian matrix."""
        return x

    def decompose(self, x: FloatArray) -> tuple[FloatArray, Frame]:
        """Return the ascending eigenvalues and the eigenvectors."""
        check_input(x, 4.0 * EIGEN_FLOPS * self.degree**3)
        lam, vec = np.linalg.eigh(self.to_complex(x))
        return lam, vec

    def compose(self, frame: Frame, lam: FloatArray) -> FloatArray:
        """Return the stored vector of the matrix with the given eigenvalues and eigenvectors."""
        assert frame is not None
        full = (frame * lam) @ frame.conj().T
        full = 0.5 * (full + full.conj().T)
        return np.asarray(full.real + full.imag).reshape(-1)

    def coefficients(self, frame: Frame, x: FloatArray) -> FloatArray:
        """Return ``v* x v`` for every eigenvector v."""
        assert frame is not None
        return np.asarray(np.einsum("ij,ij->j", frame.conj(), self.to_complex(x) @ frame).real)

    def random_frame(self, rng: np.random.Generator) -> Frame:
        """Draw a random unitary matrix."""
        side = self.degree
        q, r = np.linalg.qr(rng.normal(size=(side, side)) + 1j * rng.normal(size=(side, side)))
        phase = np.diagonal(r)
        return np.asarray(q * (phase / np.abs(phase)))

    def spectrum(self, x: FloatArray) -> FloatArray:
        """Return the eigenvalues without computing eigenvectors."""
        check_input(x, 2.0 * EIGEN_FLOPS * self.degree**3)
        return np.asarray(np.linalg.eigvalsh(self.to_complex(x)))

    # ------------------------------------------------------------ proofs, on real matrices of twice the side

    def distance_upper(self, x: FloatArray) -> float:
        """Return zero for a semidefinite matrix, else the norm of ``t·I`` with ``x + t·I`` semidefinite."""
        doubled, off = self._doubled(x)
        if not np.isfinite(doubled).all():
            return math.inf
        slip = symmetric_norm_upper(off)
        if definite(doubled, shift=slip) or (slip == 0.0 and semidefinite(doubled)):
            return 0.0
        lacking = float(sum_up(max(-smallest_eigenvalue_lower(doubled), 0.0), slip))
        return float(product_up(0.5 * lacking, sqrt_upper(self.degree)))

    def interior_radius(self, x: FloatArray, share: float) -> float | None:
        """Prove ``share`` times the smallest eigenvalue."""
        depth = share * self.depth(x)
        doubled, off = self._doubled(x)
        shift = float(sum_up(symmetric_norm_upper(off), 2.0 * depth))
        return depth if depth > 0.0 and definite(doubled, shift=shift) else None

    def support_upper(
        self, g: FloatArray, error: FloatArray, slip: float, moves: np.ndarray | None
    ) -> tuple[float, float]:
        """Return zero if all these matrices are negative semidefinite; see :meth:`BlockSet.support_upper`."""
        doubled, off = self._doubled(g)
        square = error.reshape(self.degree, self.degree)
        spread = sum_up(off, np.tile(sum_up(square, square.T), (2, 2)))
        if moves is not None:
            moved = moves.reshape(square.shape)
            moves = np.tile(moved | moved.T, (2, 2))
        return PSD(2 * self.degree).support_upper(doubled, spread, 2.0 * slip, moves)

    def nonnegative_exact(self, x: np.ndarray) -> bool:
        """Decide semidefiniteness of the real symmetric embedding."""
        r = x.reshape(self.degree, self.degree)
        return semidefinite_exact(_embedded(r + r.T, r - r.T))

    # ------------------------------------------------------------ reformulation

    @property
    def psd_side(self) -> int:
        """Side of the real symmetric embedding."""
        return 2 * self.degree

    def psd_map(self) -> Any:
        """Return the map from stored vectors to the embedding ``[[Re H, -Im H], [Im H, Re H]]``."""
        side = self.degree
        i, j = (part.reshape(-1) for part in np.indices((side, side)))
        own, mirrored = i * side + j, j * side + i
        # (down, right) of a quarter, and the weight of the mirrored entry next to that of the entry itself.
        quarters = ((0, 0, 0.5, 0.5), (1, 1, 0.5, 0.5), (1, 0, 0.5, -0.5), (0, 1, -0.5, 0.5))
        places = [(i + down * side) * 2 * side + j + right * side for down, right, _, _ in quarters]
        values = np.concatenate([np.full(self.n, v) for _, _, *pair in quarters for v in pair])
        rows = np.concatenate([place for place in places for _ in range(2)])
        columns = np.tile(np.concatenate([own, mirrored]), 4)
        return sp.csr_array((values, (rows, columns)), shape=(4 * self.n, self.n))

    def psd_preimage(self, x: FloatArray) -> FloatArray:
        """Return half of the real embedding, since the embedding has every eigenvalue twice."""
        return 0.25 * self._doubled(x)[0]


def _embedded(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Return the real embedding ``[[R, -S], [S, R]]`` of the Hermitian matrix ``R + iS``."""
    return np.asarray(np.block([[real, -imaginary], [imaginary, real]]))
