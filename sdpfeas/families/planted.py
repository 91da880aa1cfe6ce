"""Random problems whose answer is known because it was planted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from sdpfeas.families.base import Family
from sdpfeas.linalg import FloatArray, symmetrize
from sdpfeas.operators import Dense
from sdpfeas.problem import FeasibilityProblem, Point
from sdpfeas.sets import PSD, BlockSet, Free, Nonneg, SpectralBox

__all__ = ["Planted", "PlantedOptions"]


@dataclass(frozen=True)
class PlantedOptions:
    """Parameters of a planted problem.

    Attributes
    ----------
    sets : {"psd", "box", "mixed"}
        One PSD block; one SpectralBox; or one block of every kind.
    n : int
        Side of the matrices.
    rows : int
        Number of rows.
    feasible : bool
        Which answer to plant.
    equality : float
        Share of equality rows.
    margin : float
        How clear the answer is: slack of the rows at the planted point, or gap of the planted
        certificate, relative to the size of the rows.
    seed : int
        Seed.
    """

    sets: Literal["psd", "box", "mixed"] = "mixed"
    n: int = 6
    rows: int = 8
    feasible: bool = True
    equality: float = 0.5
    margin: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 2 or self.rows < 2:
            raise ValueError("n and rows must be at least 2")
        if not (0.0 <= self.equality <= 1.0 and self.margin > 0.0):
            raise ValueError("equality must lie between 0 and 1, and margin above 0")


class Planted(Family):
    """Random dense problems with a planted point or a planted certificate."""

    name = "planted"
    Options = PlantedOptions

    @classmethod
    def build(cls, options: PlantedOptions) -> FeasibilityProblem:
        """Return a problem whose answer is ``options.feasible``."""
        return plant(options)[0]


def plant(options: PlantedOptions) -> tuple[FeasibilityProblem, Point | FloatArray]:
    """Return a problem and the evidence planted in it: a point in the interior, or a certificate.

    Parameters
    ----------
    options : PlantedOptions
        What to plant.
    """
    rng = np.random.default_rng(options.seed)
    sets = _sets(options)
    rows = [_random_rows(rng, block, options.rows) for block in sets]
    point = tuple(_random_member(rng, block) for block in sets)
    equal = rng.random(options.rows) < options.equality
    if options.feasible:
        return _around(options, rng, sets, rows, point, equal), point
    equal[-1] = True
    return _contradicting(options, rng, sets, rows, point, equal)


def _sets(options: PlantedOptions) -> list[BlockSet]:
    box = SpectralBox(options.n, trace=max(1.0, options.n // 2))
    if options.sets == "psd":
        return [PSD(options.n)]
    if options.sets == "box":
        return [box]
    # A*y has to vanish on the Free block: fewer entries than rows.
    return [PSD(options.n), box, Nonneg(3), Free(max(1, min(2, options.rows - 2)))]


def _random_rows(rng: np.random.Generator, block: BlockSet, m: int) -> FloatArray:
    a = rng.standard_normal((m, *block.shape))
    return symmetrize(a) if block.matrix else a


def _random_member(rng: np.random.Generator, block: BlockSet) -> FloatArray:
    if isinstance(block, Free):
        return rng.standard_normal(block.n)
    if isinstance(block, Nonneg):
        return rng.uniform(0.5, 2.0, block.n)
    q, _ = np.linalg.qr(rng.standard_normal(block.shape))
    if isinstance(block, SpectralBox):
        # Between a random projector and the middle: inside, with the right trace.
        lam = (np.arange(block.n) < block.rank).astype(np.float64)
        return symmetrize(0.5 * (q * lam) @ q.T + 0.5 * block.interior_point())
    return symmetrize((q * rng.uniform(0.5, 2.0, block.n)) @ q.T)


def _apply(rows: list[FloatArray], point: Point) -> FloatArray:
    return sum((np.tensordot(a, x, x.ndim) for a, x in zip(rows, point, strict=True)), np.zeros(len(rows[0])))


def _sizes(rows: list[FloatArray]) -> FloatArray:
    return np.sqrt(sum((np.sum(a.reshape(len(a), -1) ** 2, axis=1) for a in rows), np.zeros(len(rows[0]))))


def _problem(
    sets: list[BlockSet], rows: list[FloatArray], lower: FloatArray, upper: FloatArray
) -> FeasibilityProblem:
    parts: list[Any] = [Dense(a) for a in rows]
    return FeasibilityProblem(sets, parts, lower, upper)


def _around(
    options: PlantedOptions,
    rng: np.random.Generator,
    sets: list[BlockSet],
    rows: list[FloatArray],
    point: Point,
    equal: np.ndarray,
) -> FeasibilityProblem:
    value, slack = _apply(rows, point), options.margin * _sizes(rows)
    side = rng.integers(0, 3, value.size)  # below, above, or both
    lower = np.where(equal, value, np.where(side == 1, -np.inf, value - slack))
    upper = np.where(equal, value, np.where(side == 0, np.inf, value + slack))
    return _problem(sets, rows, lower, upper)


def _contradicting(
    options: PlantedOptions,
    rng: np.random.Generator,
    sets: list[BlockSet],
    rows: list[FloatArray],
    point: Point,
    equal: np.ndarray,
) -> tuple[FeasibilityProblem, FloatArray]:
    m = options.rows
    y = rng.uniform(0.5, 1.5, m) * rng.choice([-1.0, 1.0], m)
    support = 0.0
    for block, a in zip(sets, rows, strict=True):
        # The last row is what makes A*y a direction of known support.
        target = np.zeros(block.shape) if isinstance(block, Free) else -_random_member(rng, block)
        a[-1] = (target - np.tensordot(y[:-1], a[:-1], 1)) / y[-1]
        support += block.support(target)
    value = _apply(rows, point)
    gap = options.margin * float(np.linalg.norm(y * _sizes(rows)))
    # Every row holds at the planted point, but for the last, which is off by just the gap.
    lower = np.where(equal | (y > 0.0), value, -np.inf)
    upper = np.where(equal | (y < 0.0), value, np.inf)
    bound = (support + gap - float(y[:-1] @ value[:-1])) / y[-1]
    lower[-1] = upper[-1] = bound
    return _problem(sets, rows, lower, upper), y
