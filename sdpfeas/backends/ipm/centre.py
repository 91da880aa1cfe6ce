"""Points on the central path of one block, for a given dual matrix: where a warm start begins."""

from __future__ import annotations

import numpy as np

from sdpfeas.numerics.linalg import FloatArray

__all__ = ["centred_pair", "centred_spectrum"]


def centred_pair(g: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
    """Positive ``x`` and ``u`` with ``x·u = mu`` and ``u`` close to ``-g`` where that is positive.

    Parameters
    ----------
    g : ndarray
        Numbers, or eigenvalues.
    mu : float
        Where on the central path.
    """
    root = np.sqrt(g * g + 4.0 * mu)
    # Either sign in the form that does not cancel.
    u = np.where(g > 0.0, 2.0 * mu / (root + g), 0.5 * (root - g))
    return mu / u, u


def centred_spectrum(
    g: FloatArray, mu: float, width: float, total: float | None
) -> tuple[FloatArray, FloatArray, float]:
    """Solve ``g - theta + mu/z - mu/(width - z) = 0`` for ``0 < z < width``.

    Parameters
    ----------
    g : ndarray
        Eigenvalues of the dual matrix, ascending.
    mu : float
        Where on the central path.
    width : float
        Width of the box.
    total : float, optional
        What ``z`` has to sum up to; None: theta is zero.

    Returns
    -------
    z, rest : ndarray
        The eigenvalues, and ``width - z`` without cancellation.
    theta : float
        Multiplier of the sum.
    """

    def solved(theta: float) -> tuple[FloatArray, FloatArray]:
        a = (g - theta) * width
        root = np.hypot(a, 2.0 * mu)
        near = 2.0 * mu * width / (root + np.abs(a) + 2.0 * mu)
        far = width - near
        return np.where(a < 0.0, near, far), np.where(a < 0.0, far, near)

    theta = 0.0
    if total is not None:
        from scipy.optimize import brentq  # slow to import

        n = g.size
        low = float(g[0]) - 2.0 * n * mu / (n * width - total)
        high = float(g[-1]) + 2.0 * n * mu / total
        theta = float(
            brentq(lambda t: float(np.sum(solved(t)[0])) - total, low, high, xtol=1e-300, rtol=1e-14)
        )
    return *solved(theta), theta
