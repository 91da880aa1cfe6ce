"""Matrices of balls: numbers of many bits with radii that hold every rounding (python-flint's Arb)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sdpfeas.numerics.linalg import FloatArray

__all__ = ["ball_matrix", "many_bits", "middles"]

#: Bits of a ball: six times those of a floating-point number.
BITS = 320


@contextmanager
def many_bits() -> Iterator[None]:
    """Compute with many bits while the block runs."""
    import flint

    with flint.ctx.workprec(BITS):
        yield


def ball_matrix(array: FloatArray) -> Any:
    """A matrix of balls that hold exactly these finite numbers; a vector is a column."""
    import flint

    table = array.reshape(-1, 1) if array.ndim == 1 else array
    return flint.arb_mat(table.tolist()) if table.size else flint.arb_mat(*table.shape)


def middles(matrix: Any) -> FloatArray:
    """The floating-point numbers next to the middles of balls."""
    flat = np.array([float(ball.mid()) for ball in matrix.entries()], dtype=np.float64)
    return flat.reshape(matrix.nrows(), matrix.ncols())
