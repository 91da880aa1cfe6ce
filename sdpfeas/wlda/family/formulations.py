"""The two ways to pose worst-case discriminant analysis at a fixed ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.families.lines import column
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import UNIT
from sdpfeas.problem.rows import Combined, Rows, Stacked
from sdpfeas.problem.sets import Nonneg, SpectralBox
from sdpfeas.wlda.family.options import Formulation

__all__ = ["compact", "joined_weights", "level_weights", "paper", "paper_rows", "split_weights"]


def compact(
    box: SpectralBox, pairs: Rows, scatters: Rows, pair_names: list[str], scatter_names: list[str]
) -> dict[str, Any]:
    """``<S_ij, Z> - delta·t >= 0`` and ``t - <S_k, Z> >= 0``, as arguments of a parametric family."""
    m = pairs.m + scatters.m
    return {
        "sets": [box, Nonneg(1)],
        "rows": [Stacked([pairs, scatters.scaled(-np.ones(scatters.m))]), column(pairs.m, m, m)],
        "slopes": [None, column(0, pairs.m, m)],
        "lower": np.zeros(m),
        "upper": np.full(m, np.inf),
        "row_names": _distinct(pair_names + scatter_names),
        "block_names": ["Z", "t"],
    }


def paper(
    box: SpectralBox, pairs: Rows, scatters: Rows, pair_names: list[str], scatter_names: list[str]
) -> dict[str, Any]:
    """``<S_ij - delta·S_k, Z> >= 0`` for every pair and class, as arguments of a parametric family."""
    every = np.arange(pairs.m * scatters.m)
    ones = np.ones(every.size)
    first = sp.csr_array((ones, (every, every // scatters.m)), (every.size, pairs.m))
    second = sp.csr_array((ones, (every, every % scatters.m)), (every.size, scatters.m))
    return {
        "sets": [box],
        "rows": [Combined(first, pairs)],
        "slopes": [Combined(second, scatters)],
        "lower": np.zeros(every.size),
        "upper": np.full(every.size, np.inf),
        "row_names": _distinct([f"{p} / {g}" for p in pair_names for g in scatter_names]),
        "block_names": ["Z"],
    }


def paper_rows(base: Rows, pairs: int, delta: float) -> Combined:
    """Rows ``S_ij - delta·S_k`` as one combination of the pairs and the scatters stacked in ``base``.

    Parameters
    ----------
    base : Rows
        The pairs, then the scatters; shared by all values of ``delta``.
    pairs : int
        How many of its rows are pairs.
    delta : float
        The ratio.
    """
    groups = base.m - pairs
    every = np.arange(pairs * groups)
    data = np.concatenate([np.ones(every.size), np.full(every.size, -delta)])
    place = np.concatenate([every // groups, pairs + every % groups])
    return Combined(sp.csr_array((data, (np.tile(every, 2), place)), (every.size, base.m)), base)


def split_weights(
    formulation: Formulation, y: FloatArray, pairs: int, groups: int
) -> tuple[FloatArray, FloatArray]:
    """Weights of the pairs and of the classes in multipliers of a formulation."""
    if formulation == "compact":
        return y[:pairs], y[pairs:]
    table = y.reshape(pairs, groups)
    return table.sum(axis=1), table.sum(axis=0)


def joined_weights(formulation: Formulation, pairs: FloatArray, groups: FloatArray) -> FloatArray:
    """Multipliers of a formulation with given weights of the pairs and of the classes."""
    return np.concatenate([pairs, groups]) if formulation == "compact" else np.outer(pairs, groups).ravel()


def level_weights(pairs: FloatArray, groups: FloatArray, delta: float) -> FloatArray:
    """Compact multipliers with the weights of the classes such that t has no positive coefficient."""
    if not float(groups.sum()) > 0.0:
        return np.concatenate([pairs, groups])
    room = 1.0 - 8.0 * (pairs.size + groups.size + 8) * UNIT
    return np.concatenate([pairs, groups * (room * delta * float(pairs.sum()) / float(groups.sum()))])


def _distinct(names: list[str]) -> list[str]:
    """Number the names where labels print alike."""
    if len(set(names)) == len(names):
        return names
    return [f"{name} ({i})" for i, name in enumerate(names)]
