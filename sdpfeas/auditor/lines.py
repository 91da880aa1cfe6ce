"""Sparse matrices of the auditor: of every line the positions that hold a number, and these numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any

import numpy as np

from sdpfeas.auditor.arithmetic import NotProved, product, rational, solved, through, zeros

__all__ = ["Lines", "Row", "moved_along", "shortest"]

Row = tuple[np.ndarray, np.ndarray]  # positions, and the numbers there

#: A share of numbers that are not zero above which a product is one of whole matrices.
FULL = 0.2


class Lines:
    """A matrix of rational numbers, by its lines; zeros are left out, and no position comes twice."""

    def __init__(self, lines: Iterable[Row], width: int) -> None:
        self.lines, self.width = list[Row](), width
        for place, values in lines:
            kept = values != 0
            own = np.asarray(place)[kept]
            order = np.argsort(own, kind="stable")
            if own.size and (
                own[order[0]] < 0 or own[order[-1]] >= width or (np.diff(own[order]) == 0).any()
            ):
                raise NotProved("a row holds a position twice, or one that does not exist")
            self.lines.append((own[order], values[kept][order]))

    @classmethod
    def of(cls, table: np.ndarray) -> Lines:
        """A matrix that is stored whole."""
        return cls(((np.arange(table.shape[1]), line) for line in table), table.shape[1])

    @classmethod
    def beside(cls, parts: list[Lines]) -> Lines:
        """Matrices side by side."""
        starts = list(accumulate((part.width for part in parts), initial=0))
        whole = []
        for own in zip(*(part.lines for part in parts), strict=True):
            places = [place + start for (place, _), start in zip(own, starts, strict=False)]
            whole.append((np.concatenate(places), np.concatenate([values for _, values in own])))
        return cls(whole, starts[-1])

    def __len__(self) -> int:
        """The number of lines."""
        return len(self.lines)

    def dense(self) -> np.ndarray:
        """The matrix, whole."""
        out = zeros(len(self), self.width)
        for line, (place, values) in zip(out, self.lines, strict=True):
            line[place] = values
        return out

    def pick(self, chosen: np.ndarray) -> Lines:
        """The lines that a mask names."""
        return Lines((self.lines[i] for i in np.flatnonzero(chosen)), self.width)

    def cut(self, start: int, stop: int) -> Lines:
        """A range of columns."""
        own = ((place, values, (place >= start) & (place < stop)) for place, values in self.lines)
        return Lines(((place[kept] - start, values[kept]) for place, values, kept in own), stop - start)

    def turned(self) -> Lines:
        """The transpose."""
        columns: list[tuple[list[int], list[Any]]] = [([], []) for _ in range(self.width)]
        for i, (place, values) in enumerate(self.lines):
            for k, value in zip(place.tolist(), values, strict=True):
                columns[k][0].append(i)
                columns[k][1].append(value)
        made = ((np.array(at, dtype=int), np.array([*held, None], dtype=object)[:-1]) for at, held in columns)
        return Lines(made, len(self))

    def scaled(self, weights: np.ndarray) -> Lines:
        """Every column times a number."""
        return Lines(((place, values * weights[place]) for place, values in self.lines), self.width)

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> Lines:
        """The numbers of every line changed."""
        return Lines(((place, function(values)) for place, values in self.lines), self.width)

    def times(self, x: np.ndarray) -> np.ndarray:
        """The product with a vector."""
        sums = [values.dot(x[place]) if place.size else rational(0) for place, values in self.lines]
        return np.array([*sums, None], dtype=object)[:-1]

    def products(self, other: Lines) -> np.ndarray:
        """The scalar products of all lines with those of another matrix."""
        if sum(place.size for place, _ in self.lines) > FULL * len(self) * self.width:
            return product(self.dense(), other.dense().T)
        out = zeros(len(self), len(other))
        for (at, values), (there, others) in zip(self.turned().lines, other.turned().lines, strict=True):
            if at.size and there.size:
                out[np.ix_(at, there)] += np.outer(values, others)
        return out

    def mirrored(self, side: int) -> bool:
        """Whether every line, as a square matrix, is symmetric."""
        for place, values in self.lines:
            mirror = place % side * side + place // side
            order = np.argsort(mirror)
            if (mirror[order] != place).any() or (values[order] != values).any():
                return False
        return True


def moved_along(moved: Lines, lines: Lines, cuts: Iterable[Any], parts: Iterable[Any]) -> Lines:
    """Lines moved by squared weights, but on semidefinite blocks by ``X A X``, the metric of X there."""
    out, end = list[Lines](), 0
    for (start, stop), (block, x) in zip(cuts, parts, strict=True):
        if block.kind == "PSD":
            out += [moved.cut(end, start), Lines.of(through(lines.cut(start, stop).dense(), x))]
            end = stop
    return Lines.beside([*out, moved.cut(end, moved.width)])


def shortest(lines: Lines, moved: Lines, off: np.ndarray) -> np.ndarray | None:
    """The step on which the lines come to ``off``, of least norm in a metric; None if there is none.

    Of each line, its image under the metric is in ``moved``: the line times squared weights, say. Lines may
    depend on each other: any solution of the normal equations leads to the same step.
    """
    z = solved(lines.products(moved), off)
    return None if z is None else moved.turned().times(z)
