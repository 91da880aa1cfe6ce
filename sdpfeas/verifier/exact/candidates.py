"""What is tried in place of a claim: rounder numbers, and at last its own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rational import rounded

__all__ = ["DENOMINATORS", "SLIP", "candidates"]

#: Denominators a claim is rounded to before it is taken as it is.
DENOMINATORS = (1, 12, 1000, 10**6)

#: What is violated by more than this, relative to its size, is not worth rational arithmetic.
SLIP = 1e-9


def candidates(
    flat: FloatArray, as_it_is: np.ndarray, denominators: tuple[int, ...]
) -> Iterator[tuple[np.ndarray, tuple[str, ...]]]:
    """Numbers near the given ones, the roundest first, with what was done to them."""
    for denominator in denominators:
        yield rounded(flat, denominator), (f"rounded to denominators of at most {denominator}",)
    yield as_it_is, ()
