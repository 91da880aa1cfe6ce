"""Values of cvxpy's variables and constraints, entry by entry, as multiples of entries of the canonical form.

cvxpy maps solutions back and has no way forth. Both its maps are linear, and every number of the user is a
multiple of one number of the form (or a pair of such, real and imaginary), so two questions, at all ones and
at the positions, tell which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.io.cvxpy.canonical import CanonicalForm
from sdpfeas.numerics.linalg import FloatArray

__all__ = ["Way", "dual_way", "value_way"]


@dataclass(frozen=True)
class Way:
    """For every name, which entries its numbers are multiples of: real parts, then imaginary ones.

    Attributes
    ----------
    size : int
        How many entries the form has.
    places, factors : dict
        For every name, entry by entry.
    """

    size: int
    places: dict[int, np.ndarray]
    factors: dict[int, FloatArray]

    def forth(self, values: dict[int, Any]) -> tuple[FloatArray, np.ndarray]:
        """Entries of the form where the values are these, and which of them are known by that."""
        out, known = np.zeros(self.size), np.zeros(self.size, dtype=bool)
        for name, value in values.items():
            if name in self.places:
                there = self.factors[name] != 0.0
                where = self.places[name][there]
                out[where] = _flat(value)[there] / self.factors[name][there]
                known[where] = True
        return out, known


def _flat(value: Any) -> FloatArray:
    """All numbers of a value, real parts first."""
    if isinstance(value, (list, tuple)):
        return np.concatenate([_flat(each) for each in value])
    array = np.ravel(value.toarray() if sp.issparse(value) else np.asarray(value), order="F")
    return np.concatenate([np.real(array), np.imag(array)]).astype(float)


def _asked(size: int, back: Callable[[FloatArray], dict[int, Any]]) -> Way:
    ones, positions = back(np.ones(size)), back(np.arange(1.0, size + 1.0))
    places, factors = {}, {}
    for name, value in ones.items():
        factor, at = _flat(value), _flat(positions[name])
        place = np.divide(at, factor, out=np.ones(at.size), where=factor != 0.0)
        rounded = np.rint(place)
        # Sums of several entries have no single place; nothing is read from them.
        single = (np.abs(place - rounded) <= 1e-9 * size) & (rounded >= 1) & (rounded <= size)
        factors[name] = np.where(single, factor, 0.0)
        places[name] = np.where(single, rounded, 1).astype(int) - 1
    return Way(size, places, factors)


def value_way(form: CanonicalForm) -> Way:
    """Values of variables, by their number."""

    def back(x: FloatArray) -> dict[int, Any]:
        found: dict[int, Any] = {}
        for number, (at, shape) in form.columns().items():
            size = int(np.prod(shape, dtype=int))
            found[number] = np.reshape(x[at : at + size], shape, order="F")
        for reduction, _ in reversed(form.steps()):
            found = reduction.var_forward(found)
        return found

    return _asked(form.matrix.shape[1], back)


def dual_way(form: CanonicalForm) -> Way:
    """Dual values of constraints, by their number."""
    return _asked(form.b.size, form.invert_duals)
