"""Tiny problems of small integers over every set, LMIs included: degenerate ones are frequent among them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import sdpfeas as sf
from sdpfeas.problem.sets import BlockSet

#: An LMI: its set, its constant, and for every block its coefficients, or none.
Inequality = tuple[BlockSet, np.ndarray, list[np.ndarray | None]]


@dataclass(frozen=True)
class Tiny:
    """A problem before it is built, so that it can be told in other words."""

    sets: list[BlockSet]
    rows: list[np.ndarray]
    lower: np.ndarray
    upper: np.ndarray
    lmis: list[Inequality]

    def build(self) -> sf.FeasibilityProblem:
        """The problem."""
        lmis = [sf.LMI(*parts) for parts in self.lmis]
        rows = self.rows if self.lower.size else [None] * len(self.sets)
        return sf.FeasibilityProblem(self.sets, rows, self.lower, self.upper, lmis=lmis)


def random_set(rng: np.random.Generator) -> BlockSet:
    """Any set of side three at most; boxes with equal bounds and traces at their ends among them."""
    n, low = int(rng.integers(1, 4)), float(rng.choice([0.0, -1.0]))
    width, share = float(rng.choice([0.0, 1.0, 2.0])), float(rng.choice([0.0, 0.5, 1.0]))
    kinds: list[Callable[[], BlockSet]] = [
        lambda: sf.PSD(n),
        lambda: sf.PSD(n),
        lambda: sf.Nonneg(n),
        lambda: sf.Free(n),
        lambda: sf.SecondOrder(n),
        lambda: sf.HermitianPSD(min(n, 2)),
        lambda: sf.SpectralBox(n),
        lambda: sf.SpectralBox(n, low, low + width, trace=n * (low + share * width)),
    ]
    return kinds[rng.integers(len(kinds))]()


def _integers(rng: np.random.Generator, most: int, count: int, block: BlockSet) -> np.ndarray:
    """So many arrays of the shape of a block, symmetric for matrices, half of the entries zero."""
    shape = (count, *block.shape)
    out = rng.integers(-most, most + 1, shape) * (rng.random(shape) < 0.5) + 0.0
    return np.triu(out) + np.triu(out, 1).swapaxes(1, 2) if block.matrix else out


def _inequality(rng: np.random.Generator, sets: list[BlockSet]) -> Inequality:
    targets = [sf.PSD(2), sf.Nonneg(2), sf.SecondOrder(2), sf.SpectralBox(2), sf.HermitianPSD(2)]
    target = targets[rng.integers(len(targets))]
    parts: list[np.ndarray | None] = []
    for block in sets:
        own = _integers(rng, 1, block.entries, target)
        if block.matrix:  # mirrored entries have the same
            square = own.reshape(block.n, block.n, *target.shape)
            own = (square + square.swapaxes(0, 1)).reshape(own.shape)
        parts.append(own if rng.random() < 0.7 else None)
    return target, _integers(rng, 2, 1, target)[0], parts


def tiny(rng: np.random.Generator) -> Tiny:
    """Draw a problem: equations, inequalities, rows of nothing, rows without bounds."""
    sets = [random_set(rng) for _ in range(rng.integers(1, 4))]
    m = int(rng.integers(0, 5))
    lower = rng.integers(-2, 3, m) + 0.0
    upper = lower + np.where(rng.random(m) < 0.6, 0, rng.integers(0, 3, m))
    lower, upper = (
        np.where(rng.random(m) < 0.15, -np.inf, lower),
        np.where(rng.random(m) < 0.15, np.inf, upper),
    )
    lmis = [_inequality(rng, sets) for _ in range(rng.integers(0, 3))] if rng.random() < 0.35 else []
    return Tiny(sets, [_integers(rng, 2, m, block) for block in sets], lower, upper, lmis)


# ---------------------------------------------------------------- the same in other words


def _times(parts: list[np.ndarray], factors: np.ndarray) -> list[np.ndarray]:
    return [part * factors.reshape(-1, *[1] * (part.ndim - 1)) for part in parts]


def _over_blocks(given: Tiny, change: Callable[[BlockSet, Any], list[tuple[BlockSet, Any]]]) -> Tiny:
    """Replace every block by others; ``change`` does so with what is stored entry by entry of it."""
    sets, rows = list[BlockSet](), list[np.ndarray]()
    lmis: list[Inequality] = [(target, constant, []) for target, constant, _ in given.lmis]
    for b, block in enumerate(given.sets):
        flat = given.rows[b].reshape(len(given.lower), block.entries).T
        for kind, part in change(block, flat):
            sets.append(kind)
            rows.append(part.T.reshape(-1, *kind.shape))
        for (_, _, before), (_, _, after) in zip(given.lmis, lmis, strict=True):
            old = before[b]
            made = change(block, flat if old is None else old)
            after.extend(None if old is None else part for _, part in made)
    return replace(given, sets=sets, rows=rows, lmis=lmis)


def shuffled_blocks(rng: np.random.Generator, given: Tiny) -> Tiny:
    """Blocks in another order."""
    order = rng.permutation(len(given.sets))
    lmis = [(target, constant, [parts[b] for b in order]) for target, constant, parts in given.lmis]
    return replace(given, sets=[given.sets[b] for b in order], rows=[given.rows[b] for b in order], lmis=lmis)


def shuffled_rows(rng: np.random.Generator, given: Tiny) -> Tiny:
    """Rows and LMIs in another order."""
    order = rng.permutation(given.lower.size)
    rows = [part[order] for part in given.rows]
    return replace(
        given, rows=rows, lower=given.lower[order], upper=given.upper[order], lmis=given.lmis[::-1]
    )


def negated_rows(rng: np.random.Generator, given: Tiny) -> Tiny:
    """Some rows with the opposite sign."""
    signs = rng.choice([-1.0, 1.0], given.lower.size)
    lower, upper = (
        np.where(signs < 0, -given.upper, given.lower),
        np.where(signs < 0, -given.lower, given.upper),
    )
    return replace(given, rows=_times(given.rows, signs), lower=lower, upper=upper)


def scaled_rows(rng: np.random.Generator, given: Tiny) -> Tiny:
    """Rows times powers of two."""
    units = 2.0 ** rng.integers(-30, 31, given.lower.size)
    return replace(
        given, rows=_times(given.rows, units), lower=given.lower * units, upper=given.upper * units
    )


def scaled_blocks(rng: np.random.Generator, given: Tiny) -> Tiny:
    """Cones and free blocks in other units."""
    factor = 2.0 ** int(rng.integers(-12, 13))

    def change(block: BlockSet, flat: Any) -> list[tuple[BlockSet, Any]]:
        return [(block, flat * factor if block.cone or block.free else flat)]

    return _over_blocks(given, change)


def split_blocks(rng: np.random.Generator, given: Tiny) -> Tiny:
    """Vectors entry by entry."""

    def change(block: BlockSet, flat: Any) -> list[tuple[BlockSet, Any]]:
        if not isinstance(block, (sf.Nonneg, sf.Free)):
            return [(block, flat)]
        return [(type(block)(1), flat[[k]]) for k in range(block.n)]

    return _over_blocks(given, change)


def split_signs(rng: np.random.Generator, given: Tiny) -> Tiny:
    """Free variables as differences of non-negative ones."""

    def change(block: BlockSet, flat: Any) -> list[tuple[BlockSet, Any]]:
        if not block.free:
            return [(block, flat)]
        return [(sf.Nonneg(2 * block.n), np.concatenate([flat, -flat]))]

    return _over_blocks(given, change)


def said_twice(rng: np.random.Generator, given: Tiny) -> Tiny:
    """Every row and every LMI a second time."""
    rows = [np.concatenate([part, part]) for part in given.rows]
    lower, upper = (np.concatenate([end, end]) for end in (given.lower, given.upper))
    return replace(given, rows=rows, lower=lower, upper=upper, lmis=[*given.lmis, *given.lmis])


WORDS = (
    shuffled_blocks,
    shuffled_rows,
    negated_rows,
    scaled_rows,
    scaled_blocks,
    split_blocks,
    split_signs,
    said_twice,
)
