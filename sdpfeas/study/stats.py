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


#: One time per instance for each solver, None if it did not solve the instance.
Times = Mapping[str, Sequence[float | None]]


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


def performance_profiles(times: Times, floor: float = 1e-3) -> dict[str, Profile]:
    """Performance profiles (Dolan and Moré 2002).

    Times below ``floor`` seconds count as equal, since they measure the system more than the solver.
    Instances that no solver solved count in the denominator.
    """
    table = np.maximum(np.array([*times.values()], dtype=float), floor)
    ratios = table / np.fmin.reduce(table, axis=0)
    grid = np.unique(np.append(ratios[np.isfinite(ratios)], 1.0))
    out = {}
    for name, row in zip(times, ratios, strict=True):
        solved = np.searchsorted(np.sort(row[np.isfinite(row)]), grid, side="right")
        out[name] = Profile(tuple(grid.tolist()), tuple((solved / max(row.size, 1)).tolist()))
    return out


@dataclass(frozen=True)
class GeometricMean:
    """A shifted geometric mean; ``charged`` instances were unsolved and count with their time limit."""

    value: float
    charged: int


def natural_shift(times: Times) -> float:
    """The median over the instances of the best time, rounded to one digit.

    A much larger shift hides differences; with a much smaller one the fastest instances dominate the mean.
    """
    best = np.fmin.reduce(np.array([*times.values()], dtype=float), axis=0)
    if np.isnan(best).all():
        return 1.0
    return float(f"{max(float(np.nanmedian(best)), 1e-4):.0e}")


def shifted_geometric_mean(
    times: Sequence[float | None], charges: Sequence[float], shift: float
) -> GeometricMean:
    """Compute ``exp(mean(log(t + shift))) - shift``; an unsolved instance counts with its time limit."""
    measured = np.array(times, dtype=float)
    unsolved = np.isnan(measured)
    if not times:
        return GeometricMean(math.nan, 0)
    value = np.exp(np.log(np.where(unsolved, charges, measured) + shift).mean()) - shift
    return GeometricMean(float(value), int(unsolved.sum()))


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
    from scipy.stats import linregress
    from scipy.stats import t as student

    if len(set(sizes)) < 3:
        return None
    x, y = np.log(np.asarray(sizes, dtype=float)), np.log(np.asarray(times, dtype=float))
    found = linregress(x, y)
    reach = float(student.ppf(0.975, x.size - 2) * found.stderr)
    grid = np.linspace(x.min(), x.max(), 40)
    line = found.intercept + found.slope * grid
    band = reach * np.sqrt(x.var() + (grid - x.mean()) ** 2)

    def out(values: np.ndarray) -> tuple[float, ...]:
        return tuple(np.exp(np.clip(values, -700, 700)).tolist())

    slope = float(found.slope)
    return Fit(slope, slope - reach, slope + reach, out(grid), out(line), out(line - band), out(line + band))
