"""Statistics of running times: performance profiles, shifted geometric means and power-law fits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

__all__ = [
    "Fit",
    "GeometricMean",
    "Profile",
    "fit_power_law",
    "natural_shift",
    "performance_profiles",
    "shifted_geometric_mean",
]


@dataclass(frozen=True)
class Profile:
    """A performance profile: ``shares[k]`` of the instances are solved in ``ratios[k]`` × the best time."""

    ratios: tuple[float, ...]
    shares: tuple[float, ...]

    @property
    def wins(self) -> float:
        """Share of instances on which the solver was the fastest."""
        return self.shares[0]

    @property
    def solved(self) -> float:
        """Share of instances that the solver solved."""
        return self.shares[-1]


def performance_profiles(
    times: Mapping[str, Sequence[float | None]], floor: float = 1e-3
) -> dict[str, Profile]:
    """Performance profiles (Dolan and Moré 2002).

    ``times`` holds one time per instance for each solver, None if unsolved. Times below ``floor`` seconds
    count as equal, since they measure the system more than the solver. Instances that no solver solved count
    in the denominator.
    """
    table = {name: [None if t is None else max(t, floor) for t in row] for name, row in times.items()}
    count = max((len(row) for row in table.values()), default=0)
    best = [
        min((t for t in column if t is not None), default=None)
        for column in zip(*table.values(), strict=True)
    ]
    ratios: dict[str, list[float]] = {}
    for name, measured in table.items():
        found = [t / b for t, b in zip(measured, best, strict=True) if t is not None and b is not None]
        ratios[name] = sorted(found)
    grid = sorted({1.0, *(r for row in ratios.values() for r in row)})
    out = {}
    for name, row in ratios.items():
        shares = np.searchsorted(np.asarray(row), np.asarray(grid), side="right") / max(count, 1)
        out[name] = Profile(tuple(grid), tuple(float(s) for s in shares))
    return out


@dataclass(frozen=True)
class GeometricMean:
    """A shifted geometric mean; ``charged`` instances were unsolved and count with their time limit."""

    value: float
    shift: float
    charged: int
    count: int


def natural_shift(times: Mapping[str, Sequence[float | None]]) -> float:
    """The median over the instances of the best time, rounded to one digit.

    A much larger shift hides differences; with a much smaller one the fastest instances dominate the mean.
    """
    rows = list(times.values())
    best = [
        min(found)
        for found in ([t for t in column if t is not None] for column in zip(*rows, strict=True))
        if found
    ]
    if not best:
        return 1.0
    middle = max(float(np.median(best)), 1e-4)
    digit = 10.0 ** math.floor(math.log10(middle))
    return round(middle / digit) * digit


def shifted_geometric_mean(
    times: Sequence[float | None], charges: Sequence[float], shift: float
) -> GeometricMean:
    """Compute ``exp(mean(log(t + shift))) - shift``; an unsolved instance counts with its time limit."""
    full = [c if t is None else t for t, c in zip(times, charges, strict=True)]
    charged = sum(t is None for t in times)
    if not full:
        return GeometricMean(math.nan, shift, 0, 0)
    value = math.exp(sum(math.log(t + shift) for t in full) / len(full)) - shift
    return GeometricMean(value, shift, charged, len(full))


@dataclass(frozen=True)
class Fit:
    """A power law ``time = factor · size^slope`` fitted to measured times, with 95 % confidence intervals.

    ``sizes``, ``times``, ``low`` and ``high`` are points of the line and of its confidence band.
    """

    slope: float
    slope_low: float
    slope_high: float
    sizes: tuple[float, ...]
    times: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def fit_power_law(sizes: Sequence[float], times: Sequence[float]) -> Fit | None:
    """Fit a power law by least squares on logarithms; None with fewer than three different sizes."""
    from scipy.stats import t as student

    x, y = np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(times, dtype=float))
    if len(set(sizes)) < 3:
        return None
    n = x.size
    centred = x - x.mean()
    spread = float(centred @ centred)
    slope = float(centred @ (y - y.mean())) / spread
    level = float(y.mean())
    residual = y - level - slope * centred
    noise = math.sqrt(float(residual @ residual) / max(n - 2, 1))
    quantile = float(student.ppf(0.975, max(n - 2, 1)))
    grid = np.linspace(x.min(), x.max(), 40)
    line = level + slope * (grid - x.mean())
    band = quantile * noise * np.sqrt(1.0 / n + (grid - x.mean()) ** 2 / spread)
    reach = quantile * noise / math.sqrt(spread)

    def out(values: np.ndarray) -> tuple[float, ...]:
        return tuple(float(v) for v in np.exp(np.clip(values, -700, 700)))

    return Fit(slope, slope - reach, slope + reach, out(grid), out(line), out(line - band), out(line + band))
