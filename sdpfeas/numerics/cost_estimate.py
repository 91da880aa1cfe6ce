"""Former names of :mod:`sdpfeas.numerics.limits`; removed when no module uses them."""

from __future__ import annotations

from typing import NamedTuple

from sdpfeas.numerics.limits import (
    EIGEN_FLOPS,
    SLOW_RATE,
    WRITE_FLOPS,
    estimated_seconds,
    guard,
    limited,
    time_left,
)

__all__ = ["Work", "limited", "need", "seconds", "time_left"]


class Work(NamedTuple):
    """An amount of work: multiply-adds, ``n**3`` of eigendecompositions, and numbers written."""

    products: float = 0.0
    cubes: float = 0.0
    numbers: float = 0.0

    def plus(self, other: Work) -> Work:
        """Return the sum of two amounts of work."""
        return Work(self.products + other.products, self.cubes + other.cubes, self.numbers + other.numbers)

    def times(self, count: float) -> Work:
        """Return the work multiplied by ``count``."""
        return Work(*(count * a for a in self))

    @property
    def flops(self) -> float:
        """The work in multiply-adds."""
        return self.products + EIGEN_FLOPS * self.cubes + WRITE_FLOPS * self.numbers


def need(
    what: str, products: float = 0.0, cubes: float = 0.0, numbers: float = 0.0, *, memory: float = 0.0
) -> None:
    """Former form of ``guard``."""
    guard(what, Work(products, cubes, numbers).flops, memory=memory)


def seconds(work: Work, negligible: float = 0.0) -> float:
    """Former form of ``estimated_seconds``."""
    slow = work.flops / SLOW_RATE
    return slow if slow <= negligible else estimated_seconds(work.flops)
