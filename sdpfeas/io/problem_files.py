"""Rotated cones ``2 u v >= ||z||²`` as second-order ones: ``u = t + w`` and ``v = (t - w) / 2``."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import FileFormatError
from sdpfeas.numerics.exact_floats import sum_of


def unrotated(columns: Any) -> Any:
    """Coefficients of ``(t, w, z)`` from those of ``(u, v, z)``, one column an entry.

    Raises ``FileFormatError``: if there are fewer than two columns, or a number would be rounded.
    """
    if columns.shape[1] < 2:
        raise FileFormatError("a rotated cone has at least two entries")
    columns = sp.csc_array(columns)
    u, v = columns[:, [0]], columns[:, [1]]
    both = [sum_of(u, 0.5 * v), sum_of(u, -0.5 * v)]
    if any(np.any(lost.data) for _, lost in both) or np.any((v - 2.0 * (0.5 * v)).data):
        raise FileFormatError("a number on a rotated cone would be rounded")
    return sp.hstack([total for total, _ in both] + [columns[:, 2:]], format="csr")
