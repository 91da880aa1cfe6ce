"""Cone programs without columns that are mere slacks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.conic.cones import ConePair, Cones
from sdpfeas.numerics.linalg import FloatArray

__all__ = ["Condensed"]


class Condensed:
    """A pair without the columns that are mere slacks of equality rows, and the way back.

    A linear matrix inequality posed with a slack and one equality a row for each of its entries becomes what
    it was: a cone on rows.

    Parameters
    ----------
    original : ConePair
        The pair to take them out of.
    """

    def __init__(self, original: ConePair) -> None:
        columns, rows = original.columns, original.rows
        single, whole, home = _slack_columns(original)
        second, psd = (
            [(n, p) for n, p in whole if (n, p) in kind] for kind in (columns.vectors, columns.matrices)
        )
        gone = [single, *([_range(p) for _, p in second]), *([_range(p) for _, p in psd])]
        self._original = original
        self._out = np.concatenate(gone)
        self._stay = np.setdiff1d(np.arange(columns.size), self._out)
        flat = np.setdiff1d(np.arange(rows.flat), home[self._out])
        middle, last = sum(n for n, _ in second), single.size + sum(n for n, _ in second)
        self._order = np.concatenate(
            [
                flat,
                np.arange(rows.flat, rows.head),
                home[single],
                np.arange(rows.head, rows.body),
                home[self._out[single.size : last]],
                np.arange(rows.body, rows.size),
                home[self._out[last:]],
            ]
        )
        ones = flat.size + rows.nonneg
        twos = ones + single.size + sum(rows.second)
        threes = twos + middle + rows.size - rows.body
        self._slots = np.concatenate(
            [
                ones + np.arange(single.size),
                twos + np.arange(middle),
                threes + np.arange(self._out.size - last),
            ]
        )
        self._scale = np.ones(rows.size)
        weights = original.matrix[home[self._out]][:, self._out].diagonal()
        self._scale[self._slots] = 1.0 / weights
        row_unit, row_strict = original.row_unit[self._order], original.row_strict[self._order]
        row_unit[self._slots] = original.column_unit[self._out]
        row_strict[self._slots] = original.column_strict[self._out]
        left = [
            tuple(n for n, p in kind if (n, p) not in whole) for kind in (columns.vectors, columns.matrices)
        ]
        self.pair = replace(
            original,
            matrix=sp.csr_array(sp.diags_array(self._scale) @ original.matrix[self._order][:, self._stay]),
            rhs=self._scale * original.rhs[self._order],
            cost=original.cost[self._stay],
            rows=Cones(
                flat.size,
                rows.nonneg + single.size,
                rows.second + tuple(n for n, _ in second),
                rows.psd + tuple(n for n, _ in psd),
            ),
            columns=Cones(columns.flat, columns.nonneg - single.size, *left),
            row_unit=row_unit,
            column_unit=original.column_unit[self._stay],
            row_strict=row_strict,
            column_strict=original.column_strict[self._stay],
        )

    def variables(self, x: FloatArray) -> FloatArray:
        """Map the variables of the condensed pair to those of the original."""
        out = np.zeros(self._original.columns.size)
        out[self._stay] = x
        out[self._out] = (self.pair.rhs - self.pair.matrix @ x)[self._slots]
        return out

    def multipliers(self, z: FloatArray) -> FloatArray:
        """Map the multipliers of the condensed pair to those of the original."""
        out = np.zeros(self._original.rows.size)
        out[self._order] = self._scale * z
        return out


def _slack_columns(pair: ConePair) -> tuple[np.ndarray, list[tuple[int, slice]], np.ndarray]:
    """Non-negative columns and cones that are slacks, and the row every single entry is alone in."""
    matrix = sp.csc_array(pair.matrix)
    alone = np.diff(matrix.indptr) == 1
    home = np.full(pair.columns.size, -1)
    home[alone] = matrix.indices[matrix.indptr[:-1][alone]]
    home[(home >= pair.rows.flat) | (pair.cost != 0.0)] = -1
    taken: set[int] = set()
    whole, single = [], []
    for n, place in pair.columns.vectors + pair.columns.matrices:
        rows = set(home[place].tolist())
        if len(rows) == place.stop - place.start and -1 not in rows and not rows & taken:
            taken |= rows
            whole.append((n, place))
    for j in range(pair.columns.flat, pair.columns.head):
        if home[j] >= 0 and home[j] not in taken:
            taken.add(int(home[j]))
            single.append(j)
    if len(taken) == pair.columns.size:  # somebody has to stay
        return np.zeros(0, dtype=np.int64), [], home
    return np.array(single, dtype=np.int64), whole, home


def _range(place: slice) -> np.ndarray:
    return np.arange(place.start, place.stop)
