"""Small SVG charts that take their colours from the page, so that they are at home in light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sdpfeas.escaping import in_html

__all__ = ["Axis", "Chart", "marker", "series_style"]

WIDTH, HEIGHT = 640, 360
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 14, 48

#: Shapes of markers and dashes of lines: colour is never the only difference.
MARKERS = ("circle", "square", "diamond", "triangle", "cross", "down", "bow", "hourglass")
DASHES = ("", "7 3", "2 3", "9 3 2 3", "4 2", "12 4", "1 2", "10 3 2 3 2 3")

#: How many colours the page defines.
COLOURS = 8


def series_style(index: int) -> tuple[str, str, str]:
    """Colour, marker and dashes of the n-th series; where colours come round again the others do not."""
    shape = index + index // COLOURS
    return f"var(--s{index % COLOURS})", MARKERS[shape % len(MARKERS)], DASHES[shape % len(DASHES)]


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale with its ticks.

    Attributes
    ----------
    low, high : float
        Its ends.
    label : str
        What it shows.
    log : bool
        Whether it is logarithmic.
    percent : bool
        Whether ticks are shown as percentages.
    """

    low: float
    high: float
    label: str
    log: bool = False
    percent: bool = False

    @classmethod
    def around(cls, values: Sequence[float], label: str, *, log: bool = False) -> Axis:
        """A scale that holds all the values with some room."""
        shown = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        low, high = (min(shown), max(shown)) if shown else (1.0, 10.0)
        if log:
            if high / low < 4:
                middle = math.sqrt(low * high)
                low, high = middle / 2, middle * 2
            room = (high / low) ** 0.05
            return cls(low / room, high * room, label, True)
        room = 0.05 * ((high - low) or 1.0)
        return cls(low - room, high + room, label)

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        if self.log:
            value = max(value, self.low)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Round values with their labels."""
        if not self.log:
            step = 10.0 ** math.floor(math.log10((self.high - self.low) / 4))
            step *= next(f for f in (1, 2, 5, 10) if (self.high - self.low) / (f * step) <= 6)
            first = math.ceil(self.low / step - 1e-9)
            values = [k * step for k in range(first, first + 12) if k * step <= self.high * (1 + 1e-9)]
            return [(v, f"{v:.0%}" if self.percent else f"{v:g}") for v in values]
        low, high = math.log10(self.low), math.log10(self.high)
        decades = range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1)
        if len(decades) >= 3:
            skip = math.ceil(len(decades) / 7)
            return [(10.0**k, _power(k)) for k in decades if k % skip == 0]
        steps: tuple[float, ...] = (1.0, 2.0, 5.0) if high - low < 2.2 else (1.0,)
        if high - low < 0.7:
            steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
        found = [f * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for f in steps]
        return [(v, f"{v:g}") for v in found if self.low <= v <= self.high]


def _power(k: int) -> str:
    if -3 <= k <= 4:
        return f"{10.0**k:g}"
    digits = str(k).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"10{digits}"


def marker(shape: str, x: float, y: float, size: float = 4.0) -> str:
    """The path of a marker."""
    s = size
    if shape == "circle":
        return f"M{x - s:.1f},{y:.1f}a{s},{s} 0 1,0 {2 * s},0a{s},{s} 0 1,0 {-2 * s},0Z"
    if shape == "square":
        s *= 0.9
        return f"M{x - s:.1f},{y - s:.1f}h{2 * s:.1f}v{2 * s:.1f}h{-2 * s:.1f}Z"
    if shape == "diamond":
        s *= 1.25
        return f"M{x:.1f},{y - s:.1f}L{x + s:.1f},{y:.1f}L{x:.1f},{y + s:.1f}L{x - s:.1f},{y:.1f}Z"
    if shape == "cross":
        a, b = s * 1.2, s * 0.4
        arm = a - b
        corners = [(-a, -b), (-b, -b), (-b, -a), (b, -a), (b, -b), (a, -b), (a, b), (b, b), (b, b + arm)]
        corners += [(-b, b + arm), (-b, b), (-a, b)]
        return "M" + "L".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners) + "Z"
    if shape in ("bow", "hourglass"):
        s *= 1.1
        second = (s, s) if shape == "bow" else (s, -s)
        third = (s, -s) if shape == "bow" else (-s, s)
        last = (-s, s) if shape == "bow" else (s, s)
        corners = [(-s, -s), second, third, last]
        return "M" + "L".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners) + "Z"
    s *= 1.2
    up = s if shape == "triangle" else -s
    return f"M{x:.1f},{y - up:.1f}L{x + s:.1f},{y + 0.8 * up:.1f}L{x - s:.1f},{y + 0.8 * up:.1f}Z"


@dataclass
class Chart:
    """A chart under construction.

    Attributes
    ----------
    x, y : Axis
        Its scales.
    title : str
        What it is, for those who cannot see it.
    """

    x: Axis
    y: Axis
    title: str
    _parts: list[str] = field(default_factory=list)

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Position of a point on the page."""
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        return LEFT + self.x.place(x) * (right - LEFT), bottom - self.y.place(y) * (bottom - TOP)

    def line(
        self, points: Sequence[tuple[float, float]], index: int, name: str, *, step: bool = False
    ) -> None:
        """Add a line, or a staircase."""
        colour, _, dash = series_style(index)
        path = ""
        before = 0.0
        for k, point in enumerate(points):
            px, py = self.at(*point)
            if k == 0:
                path = f"M{px:.1f},{py:.1f}"
            elif step:
                path += f"H{px:.1f}" + (f"V{py:.1f}" if abs(py - before) > 0.05 else "")
            else:
                path += f"L{px:.1f},{py:.1f}"
            before = py
        self._parts.append(
            f'<path class="line" data-series="{in_html(name)}" d="{path}" style="stroke:{colour}" '
            f'stroke-dasharray="{dash}"/>'
        )

    def band(
        self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], index: int, name: str
    ) -> None:
        """Add a shaded band."""
        colour, _, _ = series_style(index)
        there = [self.at(x, min(v, self.y.high)) for x, v in zip(xs, high, strict=True)]
        back = [self.at(x, min(max(v, self.y.low), self.y.high)) for x, v in zip(xs, low, strict=True)]
        path = "M" + "L".join(f"{px:.1f},{py:.1f}" for px, py in [*there, *reversed(back)]) + "Z"
        self._parts.append(
            f'<path class="band" data-series="{in_html(name)}" d="{path}" style="fill:{colour}"/>'
        )

    def dots(self, points: Sequence[tuple[float, float, str, str]], index: int, name: str) -> None:
        """Add markers: x, y, what to say, and the key of the cell to open."""
        colour, shape, _ = series_style(index)
        for x, y, words, key in points:
            px, py = self.at(x, y)
            opens = f' data-cell="{in_html(key)}" tabindex="0" role="button"' if key else ""
            self._parts.append(
                f'<path class="dot" data-series="{in_html(name)}" d="{marker(shape, px, py)}" '
                f'style="fill:{colour}" data-tip="{in_html(words)}"{opens}/>'
            )

    def note(self, x: float, y: float, words: str) -> None:
        """Add a reference line across, with a label."""
        _, py = self.at(x, y)
        self._parts.append(
            f'<line class="reference" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{py:.1f}" y2="{py:.1f}"/>'
            f'<text class="tick" x="{WIDTH - RIGHT - 4}" y="{py - 4:.1f}" text-anchor="end">'
            f"{in_html(words)}</text>"
        )

    def render(self) -> str:
        """The SVG element."""
        right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
        title = in_html(self.title)
        out = [
            f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">',
        ]
        for value, text in self.x.ticks():
            px, _ = self.at(value, self.y.high)
            out.append(f'<line class="grid" x1="{px:.1f}" x2="{px:.1f}" y1="{TOP}" y2="{bottom}"/>')
            out.append(
                f'<text class="tick" x="{px:.1f}" y="{bottom + 17}" text-anchor="middle">{text}</text>'
            )
        for value, text in self.y.ticks():
            _, py = self.at(self.x.low, value)
            out.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{py:.1f}" y2="{py:.1f}"/>')
            out.append(f'<text class="tick" x="{LEFT - 8}" y="{py + 4:.1f}" text-anchor="end">{text}</text>')
        out.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
        middle = (LEFT + right) / 2
        out.append(
            f'<text class="label" x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">'
            f"{in_html(self.x.label)}</text>"
        )
        centre = (TOP + bottom) / 2
        out.append(
            f'<text class="label side" transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">'
            f"{in_html(self.y.label)}</text>"
        )
        return "".join(out) + "".join(self._parts) + "</svg>"
