"""Charts of a study: described once, drawn as SVG in pages and by matplotlib in files.

A :class:`Chart` holds two axes and one :class:`Series` per solver. Pages draw it with the macro ``svg`` of
``templates/chart.html.j2``: a small SVG element with links and tooltips, coloured by the style sheet. Files
for papers are drawn from the same description by :func:`write_figures`, which needs matplotlib; pages do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, ClassVar

from sdpfeas.errors import OptionError
from sdpfeas.escaping import escape_figure
from sdpfeas.extras import extra
from sdpfeas.files import writing
from sdpfeas.study.report.study_data import StudyData, format_time
from sdpfeas.study.scaling import SIZE, Scaling

__all__ = [
    "COLOURS",
    "Axis",
    "Chart",
    "Series",
    "SeriesStyle",
    "accuracy_chart",
    "profile_chart",
    "scaling_chart",
    "solver_style",
    "write_figure",
    "write_figures",
]

#: Colours of the series, on light and on dark ground.
COLOURS = (
    ("#2563c9", "#6ea2ff"),
    ("#d9730d", "#f39a4a"),
    ("#0f8a5f", "#45c795"),
    ("#b5367a", "#ee7fb6"),
    ("#6b4fd3", "#a894ff"),
    ("#a07d00", "#d9b93f"),
    ("#0c8599", "#4fc3d6"),
    ("#737b87", "#a5adb8"),
)

#: Markers as polygons around the origin, y upwards, about one unit in each direction.
MARKERS = (
    tuple((math.cos(k * math.pi / 8), math.sin(k * math.pi / 8)) for k in range(16)),  # circle
    ((-0.9, -0.9), (-0.9, 0.9), (0.9, 0.9), (0.9, -0.9)),  # square
    ((0, 1.25), (1.25, 0), (0, -1.25), (-1.25, 0)),  # diamond
    ((0, 1.2), (1.2, -1), (-1.2, -1)),  # triangle
    (
        (-1.2, -0.4), (-0.4, -0.4), (-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4),
        (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2), (-0.4, 0.4), (-1.2, 0.4),
    ),  # cross
    ((0, -1.2), (1.2, 1), (-1.2, 1)),  # triangle upside down
    ((-1.1, 1.1), (1.1, -1.1), (1.1, 1.1), (-1.1, -1.1)),  # bow tie
    ((-1.1, 1.1), (1.1, 1.1), (-1.1, -1.1), (1.1, -1.1)),  # hourglass
)  # fmt: skip

#: Lengths of dashes and of the gaps between them, in pixels of a page; none is a solid line.
DASHES = ((), (7, 3), (2, 3), (9, 3, 2, 3), (4, 2), (12, 4), (1, 2), (10, 3, 2, 3, 2, 3))

#: Radius of a marker and width of a line, in pixels of a page.
MARKER_PIXELS, LINE_PIXELS = 4.0, 2.2

#: Columns of a legend in a file.
LEGEND_COLUMNS = 2

#: Relative errors below this are rounding errors, or exactly zero; they are drawn at this level.
ERROR_FLOOR = 1e-17

#: Performance profiles end here: a larger ratio says no more than "much slower".
RATIO_LIMIT = 1e4


# ---------------------------------------------------------------- the description


@dataclass(frozen=True)
class SeriesStyle:
    """The style of the series with this number. Colour is never the only difference between two series.

    There are as many colours as markers and dashes; each time the colours repeat, the others shift by one.
    """

    number: int

    @property
    def colour(self) -> str:
        """The colour as a CSS variable of the style sheet."""
        return f"var(--s{self.number % len(COLOURS)})"

    @property
    def marker_path(self) -> str:
        """The marker as an SVG path around the origin."""
        polygon = MARKERS[self._shape]
        return _path([(MARKER_PIXELS * x, -MARKER_PIXELS * y) for x, y in polygon]) + "Z"

    @property
    def dash_array(self) -> str:
        """The dashes as SVG writes them."""
        return " ".join(f"{length:g}" for length in DASHES[self._shape])

    @property
    def matplotlib(self) -> dict[str, Any]:
        """Colour, marker and dashes as keywords of ``Axes.plot``."""
        light, _ = COLOURS[self.number % len(COLOURS)]
        dashes = tuple(length / LINE_PIXELS for length in DASHES[self._shape])
        linestyle = (0, dashes) if dashes else "-"
        return {"color": light, "marker": MARKERS[self._shape], "linestyle": linestyle, "markersize": 5}

    @property
    def _shape(self) -> int:
        return (self.number + self.number // len(COLOURS)) % len(MARKERS)


@dataclass(frozen=True)
class Dot:
    """A marked point, its tooltip, and the key of the cell that a click opens, if any."""

    x: float
    y: float
    tip: str
    cell: str = ""


@dataclass(frozen=True)
class Series:
    """One solver in a chart: a line or a staircase, a band (x, low, high), dots.

    ``note`` stands beside the name in the legend.
    """

    name: str
    style: SeriesStyle
    note: str = ""
    line: Sequence[tuple[float, float]] = ()
    staircase: bool = False
    band: Sequence[tuple[float, float, float]] = ()
    dots: Sequence[Dot] = ()


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic scale from ``low`` to ``high``."""

    low: float
    high: float
    label: str
    log: bool = False
    percent: bool = False

    @classmethod
    def around(cls, values: Sequence[float], label: str, *, log: bool = False) -> Axis:
        """A scale that holds all finite values, with a margin of five per cent."""
        shown = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
        low, high = (min(shown), max(shown)) if shown else (1.0, 10.0)
        if log:
            if high / low < 4:
                middle = math.sqrt(low * high)
                low, high = middle / 2, middle * 2
            margin = (high / low) ** 0.05
            return cls(low / margin, high * margin, label, True)
        margin = 0.05 * ((high - low) or 1.0)
        return cls(low - margin, high + margin, label)

    def fraction(self, value: float) -> float:
        """Position of a value between the ends, from 0 to 1."""
        if self.log:
            return math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
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
            return [(10.0**k, _power_of_ten(k)) for k in decades if k % skip == 0]
        steps: tuple[float, ...] = (1.0, 2.0, 5.0) if high - low < 2.2 else (1.0,)
        if high - low < 0.7:
            steps = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0)
        found = [f * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for f in steps]
        return [(v, f"{v:g}") for v in found if self.low <= v <= self.high]


def _power_of_ten(k: int) -> str:
    if -3 <= k <= 4:
        return f"{10.0**k:g}"
    return "10" + str(k).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


@dataclass(frozen=True)
class Chart:
    """A chart: its title for screen readers, axes, series, and a heading where several stand side by side."""

    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    heading: str = ""

    #: Size of the SVG element and edges of the area between the axes, in pixels.
    WIDTH: ClassVar[int] = 640
    HEIGHT: ClassVar[int] = 360
    LEFT: ClassVar[int] = 62
    RIGHT: ClassVar[int] = 624
    TOP: ClassVar[int] = 14
    BOTTOM: ClassVar[int] = 312

    def across(self, x: float) -> float:
        """Pixels from the left."""
        return round(self.LEFT + self.x.fraction(x) * (self.RIGHT - self.LEFT), 1)

    def down(self, y: float) -> float:
        """Pixels from the top."""
        return round(self.BOTTOM - self.y.fraction(y) * (self.BOTTOM - self.TOP), 1)

    def line_path(self, series: Series) -> str:
        """The line of a series as an SVG path."""
        points = [(self.across(x), self.down(y)) for x, y in series.line]
        if series.staircase:
            corners = [corner for a, b in pairwise(points) for corner in ((b[0], a[1]), b)]
            points = [points[0], *corners]
        return _path([point for point, _ in groupby(points)])

    def band_path(self, series: Series) -> str:
        """The band of a series as an SVG path, cut off at the top and the bottom of the chart."""
        border = [(x, high) for x, _, high in series.band] + [(x, low) for x, low, _ in reversed(series.band)]
        inside = [(x, min(max(y, self.y.low), self.y.high)) for x, y in border]
        return _path([(self.across(x), self.down(y)) for x, y in inside]) + "Z"


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{round(x, 1):g},{round(y, 1):g}" for x, y in points)


# ---------------------------------------------------------------- the charts of a study


def profile_chart(data: StudyData) -> Chart:
    """Performance profiles of all solvers (Dolan and Moré 2002)."""
    worst = max((profile.ratios[-1] for profile in data.profiles.values()), default=1.0)
    end = min(max(worst * 1.15, 2.0), RATIO_LIMIT)
    series = []
    for name in data.solvers:
        profile = data.profiles[name]
        points = [(r, s) for r, s in zip(profile.ratios, profile.shares, strict=True) if r <= end]
        points.append((end, points[-1][1]))
        note = f"{profile.wins:.0%} fastest, {profile.solved:.0%} decided"
        series.append(Series(name, solver_style(data, name), note, points, staircase=True))
    return Chart(
        "Performance profiles",
        Axis(1.0, end, "within this factor of the fastest time", log=True),
        Axis(0.0, 1.04, "share of instances decided", percent=True),
        series,
    )


def scaling_chart(scaling: Scaling, solvers: Sequence[str], time_label: str) -> Chart:
    """Time against a parameter, with fitted power laws and their confidence bands.

    ``solvers`` are those of the whole study, which determine the styles.
    """
    label = "largest block" if scaling.axis == SIZE else scaling.axis
    series = []
    for number, name in enumerate(solvers):
        if name not in scaling.points:
            continue
        points, fit, style = scaling.points[name], scaling.fits.get(name), SeriesStyle(number)
        dots = [Dot(n, t, f"{name}: {label} {n:g}, {format_time(t)}") for n, t in points]
        if fit is None:
            series.append(Series(name, style, dots=dots))
            continue
        note = f"slope {fit.slope:.2f} ({fit.slope_low:.2f} … {fit.slope_high:.2f})"
        line = list(zip(fit.sizes, fit.times, strict=True))
        band = list(zip(fit.sizes, fit.low, fit.high, strict=True)) if name in scaling.bands else ()
        series.append(Series(name, style, note, line, band=band, dots=dots))
    return Chart(
        f"Time against {label} on {scaling.name}",
        Axis.around([dot.x for each in series for dot in each.dots], label, log=True),
        Axis.around([dot.y for each in series for dot in each.dots], time_label, log=True),
        series,
        heading=scaling.name,
    )


def accuracy_chart(data: StudyData) -> Chart:
    """Error of the evidence against time."""
    problems = {cell["key"]: cell["problem"] for cell in data.cells}
    series = []
    for name in data.solvers:
        dots = [
            Dot(
                max(seconds, 1e-6),
                max(error, ERROR_FLOOR),
                f"{name} on {problems[cell]}: error {error:.2g}, {format_time(seconds)}",
                cell,
            )
            for seconds, error, cell in data.accuracy.get(name, ())
        ]
        if dots:
            series.append(Series(name, solver_style(data, name), dots=dots))
    errors = [dot.y for each in series for dot in each.dots]
    return Chart(
        "Accuracy against time",
        Axis.around([dot.x for each in series for dot in each.dots], data.time_label, log=True),
        Axis.around([*errors, ERROR_FLOOR, 1e-6], "relative error of the evidence", log=True),
        series,
    )


def solver_style(data: StudyData, solver: str) -> SeriesStyle:
    """The style of a solver in all charts and tables."""
    return SeriesStyle(data.solvers.index(solver))


# ---------------------------------------------------------------- files


def write_figures(data: StudyData, folder: Path) -> list[Path]:
    """Write every chart of a study as ``.png`` and ``.svg`` file into a folder; return their paths.

    Raises :class:`~sdpfeas.errors.MissingExtraError` if matplotlib is not installed.
    """
    charts = {"profiles": profile_chart(data)}
    for scaling in data.scalings:
        safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in scaling.name)
        charts[f"scaling-{safe}"] = scaling_chart(scaling, data.solvers, data.time_label)
    if data.accuracy:
        charts["accuracy"] = accuracy_chart(data)
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{name}.{extension}" for name in charts for extension in ("png", "svg")]
    for path in written:
        write_figure([charts[path.stem]], path)
    return written


def write_figure(charts: Sequence[Chart], path: Path) -> None:
    """Write charts side by side into a file of any format that matplotlib knows.

    Raises :class:`~sdpfeas.errors.MissingExtraError` if matplotlib is not installed.
    """
    with extra("plot", "a figure"):
        from matplotlib.figure import Figure
    columns = math.ceil(math.sqrt(len(charts)))
    rows = math.ceil(len(charts) / columns)
    legend = max(math.ceil(len(chart.series) / LEGEND_COLUMNS) for chart in charts)
    size = (6.4 * columns, (3.8 + 0.2 * legend) * rows)
    figure = Figure(figsize=size, layout="constrained")
    parts = figure.subfigures(rows, columns, squeeze=False).flat
    for chart, part in zip(charts, parts, strict=False):
        _draw(chart, part)
    try:
        with writing(path):
            figure.savefig(path, dpi=160)
    except ValueError as error:  # an unknown file extension
        raise OptionError(f"{path}: {error}") from None


def _draw(chart: Chart, figure: Any) -> None:
    """Draw a chart in a figure of matplotlib, with the legend below it as in a page."""
    axes = figure.subplots()
    for series in chart.series:
        style = series.style.matplotlib
        if series.band:
            x, low, high = zip(*series.band, strict=True)
            axes.fill_between(x, low, high, alpha=0.13, linewidth=0, color=style["color"])
        if series.line:
            stairs = "steps-post" if series.staircase else "default"
            axes.plot(*zip(*series.line, strict=True), **style | {"marker": "", "drawstyle": stairs})
        if series.dots:
            axes.plot([d.x for d in series.dots], [d.y for d in series.dots], **style | {"linestyle": "none"})
        label = escape_figure(series.name) + (f": {series.note}" if series.note else "")
        axes.plot([], [], label=label, **style)
    for axis, side in ((chart.x, "x"), (chart.y, "y")):
        values, labels = zip(*axis.ticks(), strict=True)
        scale = {f"{side}scale": "log" if axis.log else "linear", f"{side}lim": (axis.low, axis.high)}
        axes.set(**scale, **{f"{side}label": axis.label})
        getattr(axes, f"set_{side}ticks")(values, labels)
    axes.minorticks_off()
    axes.set_title(escape_figure(chart.heading))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if chart.series:
        figure.legend(loc="outside lower center", ncols=LEGEND_COLUMNS, frameon=False, fontsize="small")
