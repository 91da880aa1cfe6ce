"""Single rows that expose a face, or contradict all points: after Zhu, Pataki and Tran-Dinh."""

from __future__ import annotations

import numpy as np

from sdpfeas.backends.facial.table import Table
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray, eigvalsh

__all__ = ["exposing"]

#: Eigenvalues of a row above minus this, relative to the largest, may be those of a semidefinite one.
SLIP = 1e-7


def exposing(table: Table) -> np.ndarray | None:
    """Multipliers, of the rows in integers, of all vectors of a table that lie in the cone up to their sign.

    One that has a positive ``beta`` contradicts all points, and is returned alone. None if there is none.

    Parameters
    ----------
    table : Table
        Its vectors are looked at one by one.
    """
    vectors, flat = table.near
    need("a sieve over rows", numbers=4.0 * vectors.size)
    found = list[tuple[int, int]]()
    loose = ~np.any(flat != 0.0, axis=1) & np.any(table.vectors != 0, axis=1)
    for k in np.flatnonzero(loose):
        beta = int(table.vectors[k, -1])
        for sign in (1, -1):
            # A row scaled to weigh one: thresholds are relative.
            if sign * beta >= 0 and _in_cone(table, sign * vectors[k]):
                if beta:
                    return np.asarray(sign * table.weights[k])
                found.append((int(k), sign))
                break
    if not found:
        return None
    total = sum(sign * table.weights[k] for k, sign in found)
    return np.asarray(total)


def _in_cone(table: Table, vector: FloatArray) -> bool:
    size = float(np.max(np.abs(vector), initial=0.0))
    matrices, rays = table.split(vector)
    if np.any(rays[:-1] < 0.0):
        return False
    for matrix in matrices:
        if np.min(np.diagonal(matrix), initial=0.0) < -SLIP * size:
            return False
    return all(not m.any() or eigvalsh(m)[0] >= -SLIP * size for m in matrices)
