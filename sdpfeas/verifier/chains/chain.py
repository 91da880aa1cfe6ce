"""A chain, as a claim holds it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.errors import ClaimError
from sdpfeas.problem.reductions.integral import READINGS, Reading
from sdpfeas.problem.validation import listed

__all__ = ["Chain"]


@dataclass(frozen=True, eq=False)
class Chain:
    """Multipliers that prove, one after the other, that every point lies in a smaller face of its sets.

    Let ``y`` obey the signs of a certificate, with ``beta(y) = 0``, and let ``A*y`` be negative semidefinite
    on the face reached so far. Then every point is orthogonal to it, which leaves a smaller face, and rows
    with a multiplier hold with equality. If ``beta(y) > 0`` there is no point at all.

    Parameters
    ----------
    steps : sequence
        One vector a step, with one multiplier per row, then one per entry of every LMI: fractions, integers
        or floats, taken as they are.
    reading : {"stored", "written"}
        Which numbers it is about: the binary64 data of the problem, or the decimals and fractions that they
        were rounded from.

    Raises
    ------
    ClaimError
        If a step is not a vector of finite numbers.
    """

    steps: tuple[np.ndarray, ...]
    reading: Reading = "stored"

    def __post_init__(self) -> None:
        if self.reading not in READINGS:
            raise ClaimError(f"a chain reads numbers as {', '.join(READINGS)}; got {self.reading!r}")
        given = listed(self.steps, "a chain is a list of steps, each with one multiplier per row", ClaimError)
        steps = tuple(_fractions(step, k) for k, step in enumerate(given))
        object.__setattr__(self, "steps", steps)

    def __len__(self) -> int:
        """How many steps there are."""
        return len(self.steps)

    def then(self, *steps: np.ndarray) -> Chain:
        """Return the chain with more steps at its end."""
        return Chain((*self.steps, *steps), self.reading)


def _fractions(step: Any, k: int) -> np.ndarray:
    if isinstance(step, np.ndarray) and step.ndim != 1:
        raise ClaimError(f"step {k} of a chain has shape {step.shape}: one multiplier per row is needed")
    if isinstance(step, (str, bytes)) or not isinstance(step, Iterable):
        raise ClaimError(f"step {k} of a chain is no vector")
    values = list(step)
    out = np.empty(len(values), dtype=object)
    try:
        out[:] = [Fraction(v.item() if isinstance(v, np.generic) else v) for v in values]
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        raise ClaimError(f"step {k} of a chain holds what is no finite number") from None
    out.setflags(write=False)
    return out
