"""Scaling studies: how times grow with one parameter of the problems while all others are fixed.

:func:`scalings` groups measurements and fits power laws; :func:`read_benchmarks` reads the measurements of
pytest-benchmark. Studies and ``sdpfeas scaling`` share both.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdpfeas.errors import FileFormatError, OptionError, hint
from sdpfeas.study.stats import Fit, fit_power_law

__all__ = ["SIZE", "Measurement", "Scaling", "read_benchmarks", "scalings"]

#: The axis that every problem has: the order of its largest block.
SIZE = "size"

#: A parameter needs at least so many values to be an axis.
LEAST_VALUES = 3

#: Confidence bands of slopes wider than this are not drawn.
WIDEST_INTERVAL = 2.0

#: Seconds below which a time counts as this, so that its logarithm is finite.
SHORTEST_SECONDS = 1e-6


@dataclass(frozen=True)
class Measurement:
    """The time of a solver on a problem that it decided."""

    solver: str
    card: str
    parameters: Mapping[str, Any]
    size: float
    seconds: float

    def value(self, axis: str) -> float | None:
        """Its value on an axis; None if it has no positive number there."""
        found = self.size if axis == SIZE else self.parameters.get(axis)
        number = isinstance(found, (int, float)) and not isinstance(found, bool)
        return float(found) if number and found > 0 else None  # type: ignore[arg-type, operator]

    def fixed(self, axis: str) -> tuple[tuple[str, str], ...]:
        """The parameters other than the axis. The size depends on them, so it fixes none."""
        rest = {} if axis == SIZE else self.parameters
        return tuple((key, str(value)) for key, value in rest.items() if key not in (axis, "seed"))


@dataclass(frozen=True)
class Scaling:
    """Time against one parameter: points and fitted power laws by solver.

    ``name`` is the card and the values of the parameters that are fixed.
    """

    name: str
    axis: str
    points: dict[str, list[tuple[float, float]]]
    fits: dict[str, Fit]

    @property
    def bands(self) -> dict[str, Fit]:
        """The fits whose confidence bands are drawn."""
        return {
            name: fit for name, fit in self.fits.items() if fit.slope_high - fit.slope_low <= WIDEST_INTERVAL
        }


def scalings(found: Sequence[Measurement], axis: str | None = None) -> list[Scaling]:
    """Group measurements by card and fixed parameters, and fit a power law for every solver.

    ``axis`` is a swept parameter or ``"size"``. By default every card has the axis with most values: a swept
    parameter, else the size. If no card has three values, all problems together are taken by size. Raises
    OptionError if an axis was asked for that nothing varies along.
    """
    by_card: dict[str, list[Measurement]] = defaultdict(list)
    for each in found:
        by_card[each.card].append(each)
    out = []
    for card, rows in by_card.items():
        axes = _axes(rows)
        chosen = axis if axis in axes else None if axis is not None else next(iter(axes), None)
        out += [] if chosen is None else _along(card, rows, chosen)
    if axis is not None and not out:
        known = sorted({name for rows in by_card.values() for name in _axes(rows)})
        text = hint(axis, known, "there are") if known else "no parameter has three values"
        raise OptionError(f"no problem varies along {axis!r}; {text}")
    if not out and SIZE in _axes(found):
        out = _along("all problems", found, SIZE)
    return out


def _axes(rows: Iterable[Measurement]) -> dict[str, int]:
    """Axes with enough values, and how many; swept parameters first, then by number of values."""
    values: dict[str, set[float]] = defaultdict(set)
    for row in rows:
        for axis in (*row.parameters, SIZE):
            value = row.value(axis)
            if value is not None and axis != "seed":
                values[axis].add(value)
    enough = {axis: len(seen) for axis, seen in values.items() if len(seen) >= LEAST_VALUES}
    return dict(sorted(enough.items(), key=lambda item: (item[0] == SIZE, -item[1])))


def _along(card: str, rows: Sequence[Measurement], axis: str) -> list[Scaling]:
    groups: dict[tuple[tuple[str, str], ...], dict[str, list[tuple[float, float]]]] = {}
    for row in rows:
        value = row.value(axis)
        if value is not None:
            points = groups.setdefault(row.fixed(axis), defaultdict(list))
            points[row.solver].append((value, max(row.seconds, SHORTEST_SECONDS)))
    out = []
    for fixed, points in groups.items():
        if len({value for row in points.values() for value, _ in row}) < LEAST_VALUES:
            continue
        inside = ", ".join(f"{key}={value}" for key, value in fixed)
        fits = {name: fit_power_law(*zip(*row, strict=True)) for name, row in points.items()}
        kept = {name: fit for name, fit in fits.items() if fit is not None}
        out.append(Scaling(f"{card}[{inside}]" if inside else card, axis, dict(points), kept))
    return out


def read_benchmarks(path: Path) -> list[Measurement]:
    """Read a JSON file of pytest-benchmark: the median time of every decided benchmark of this library.

    Raises FileFormatError if it is another file, or holds no benchmark with a verdict.
    """
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
        found = [
            Measurement(
                str(info["solver"]),
                str(info.get("card", entry["fullname"].partition("[")[0])),
                dict(info.get("parameters", {})),
                float(info["size"]),
                float(entry["stats"]["median"]),
            )
            for entry, info in ((entry, entry.get("extra_info", {})) for entry in entries)
            if info.get("verdict", "undecided") != "undecided"
        ]
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror or error}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise FileFormatError(f"{path}: not a JSON file of pytest-benchmark, or damaged") from None
    if not found or not all(math.isfinite(each.seconds) for each in found):
        raise FileFormatError(f"{path}: no benchmark with a verdict; use benchmark_solve of sdpfeas.testing")
    return found
