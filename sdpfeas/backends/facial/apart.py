"""Faces that rows of any numbers expose: those along which the rows have no entries at all.

Where the exposing vector of rounded numbers has small eigenvalues, zeros are a guess. But where no row that
it is made of has an entry, it is zero whatever the numbers are: a choice of coordinates is a face, and what
is left of the vector is definite by far, so that multipliers may be rounded.
"""

from __future__ import annotations

import numpy as np

from sdpfeas.backends.facial.table import Table
from sdpfeas.numerics.integers import as_floats
from sdpfeas.numerics.linalg import FloatArray, smallest

__all__ = ["apart"]

#: Entries on the diagonal of an exposing vector of trace one below this may stand for zeros.
SMALL = 1e-7

#: Least eigenvalue, of a vector of trace one, of what counts as definite.
DEFINITE = 1e-8

#: Bits of the multipliers.
BITS = 40


def apart(table: Table, found: FloatArray) -> np.ndarray | None:
    """Multipliers of rows in integers that expose a choice of coordinates; None without any.

    Parameters
    ----------
    table : Table
        The table of all rows on a face.
    found : ndarray
        How much of every row of ``table.near`` an approximate exposing vector of trace one is made of.
    """
    lines = as_floats(table.vectors)
    seen = lines != 0.0
    rays = slice(table.rays.start, table.rays.stop - 1)
    used = ~seen[:, -1] & ~np.any(table.flat != 0, axis=1)
    while True:
        vector = np.where(used, found, 0.0) @ lines
        inside = np.zeros(lines.shape[1], dtype=bool)
        inside[rays] = vector[rays] > SMALL
        for part in table.parts:
            positive = vector[part.diagonal] > SMALL
            i, j = np.triu_indices(part.side)
            inside[part.place] = positive[i] & positive[j]
        fewer = used & ~np.any(seen & ~inside, axis=1)
        if np.array_equal(fewer, used):
            break
        used = fewer
    if not inside.any():
        return None
    for part in table.parts:
        matrix = part.matrices(vector[None])[0]
        own = np.flatnonzero(np.diagonal(matrix) > SMALL)
        if own.size and not smallest(matrix[np.ix_(own, own)]) > DEFINITE:
            return None
    sizes = np.linalg.norm(lines[used], axis=1)
    unit = 2.0**-BITS / float(np.max(sizes))
    whole = np.zeros(len(found), dtype=object)
    whole[used] = [int(v) for v in np.rint(found[used] / unit).tolist()]
    return np.asarray(whole.dot(table.weights))
