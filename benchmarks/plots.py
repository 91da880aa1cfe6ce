"""Plot measured cells on logarithmic axes: times by dimension and classes, ratios, SDPLIB files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
from contest import SERIES
from contestants import CONTESTANTS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from results import Contest, Lines, Results
from targets import FILE_LEAST, ONCE, SIZES, SLOPE_FROM, power_law
from wlda_problems import BY_CLASSES, BY_DIMENSION, WLDA, size_of

__all__ = ["ALL_CLASSES", "ALL_DIMENSIONS", "draw"]

#: Grey that is legible on white and on black; the colours are those of Okabe and Ito.
INK = "#808080"
COLOURS = {
    "ours": "#009E73",
    "ours-1e-3": "#56B4E9",
    "bisect-dual-lbfgs": "#0072B2",
    "clarabel": "#D55E00",
    "scs-1e-4": "#E69F00",
    "scs-1e-7": "#CC79A7",
    "paper": "#8C6BB1",
    "bisect-spectral-ipm": "#999999",
}
MARKERS = dict(zip(COLOURS, "oDsv^<PX", strict=True))

#: The two series with the sizes beyond them that ours alone is asked.
LARGE = [problem for problem, *_ in (*SIZES, *ONCE)]
ALL_DIMENSIONS = (*BY_DIMENSION, *(p for p in LARGE if size_of(p).dimension > 2000))
# With more classes than dimensions there is nothing to choose unless the final dimension is given.
ALL_CLASSES = (*BY_CLASSES, *(p for p in LARGE if size_of(p).components is not None))

#: Where a line through the times begins, if there are enough of them: below, a step is Python.
CLASSES_FROM = 10


def draw(results: Results, lines: Lines, folder: Path) -> dict[str, str]:
    """Write every figure for which something was measured; return what they show, by the name of the file.

    Parameters
    ----------
    results : Results
        The cells.
    lines : Lines
        What was measured beside them.
    folder : Path
        Where to write.
    """
    figures: dict[str, tuple[str, Callable[[], Figure | None]]] = {
        "bench-dimension.svg": (
            "Processor seconds against the dimension, 10 classes",
            lambda: _growth(results, ALL_DIMENSIONS, "dimension", SLOPE_FROM),
        ),
        "bench-classes.svg": (
            "Processor seconds against the number of classes, d = 100",
            lambda: _growth(results, ALL_CLASSES, "classes", CLASSES_FROM),
        ),
        "bench-peers.svg": ("Times as long as ours, certified to 1e-6", lambda: _ratios(results)),
        "bench-sdplib.svg": (
            "Both sides of the SDPLIB files: `auto`, proofs included, against CSDP",
            lambda: _files(lines),
        ),
    }
    written = {}
    settings = {"svg.hashsalt": "sdpfeas", "svg.fonttype": "none", "font.size": 10}
    for name, (title, make) in figures.items():
        with mpl.rc_context(settings):
            figure = make()
            if figure is not None:
                folder.mkdir(parents=True, exist_ok=True)
                figure.savefig(folder / name, transparent=True, metadata={"Date": None})
                written[name] = title
    return written


def _growth(results: Results, problems: tuple[str, ...], size: str, least: int) -> Figure | None:
    """Times of a series, the power law through what finished, and caps as arrows."""
    figure = Figure(figsize=(8.6, 4.6), layout="constrained")
    axes = figure.subplots()
    for contestant in SERIES:
        cells = [cell for problem in problems if (cell := results.find(problem, contestant)) is not None]
        if any(cell.seconds is not None for cell in cells):
            _series(axes, contestant, cells, size, least)
    if not axes.has_data():
        return None
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = sorted({getattr(size_of(problem), size) for problem in problems})
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlabel("dimension" if size == "dimension" else "classes")
    axes.set_ylabel("processor seconds")
    figure.legend(loc="outside right upper", frameon=False, fontsize="small", labelcolor=INK)
    _plain(axes)
    return figure


def _series(axes: Axes, contestant: str, cells: list[Contest], size: str, least: int) -> None:
    colour = COLOURS[contestant]
    done = [cell for cell in cells if cell.cpu is not None and not cell.capped]
    fit = power_law(done, size, least) or power_law(done, size)
    label = _short(contestant)
    if fit is not None:
        label += f"\nslope {fit.slope:.2f} from {fit.sizes[0]:.0f}"
    x, y = [getattr(cell, size) for cell in done], [cell.cpu for cell in done]
    axes.plot(x, y, MARKERS[contestant], ls="-", lw=0.8, color=colour, ms=5, label=label)
    if fit is not None:
        axes.plot(fit.sizes, fit.times, ls="--", lw=1.2, color=colour)
    for cell in (cell for cell in cells if cell.capped):
        at = getattr(cell, size), cell.cap
        axes.plot(*at, marker="$\\uparrow$", ls="", color=colour, ms=9)
        axes.annotate("cap", at, (5, -3), textcoords="offset points", fontsize="x-small", color=colour)


def _short(contestant: str) -> str:
    return CONTESTANTS[contestant].title.strip("*").replace(" through cvxpy", "").replace(", certified", ",")


def _ratios(results: Results) -> Figure | None:
    """Ratios of the times of the competitors to ours, per problem."""
    problems = [
        problem for problem in WLDA if (ours := results.find(problem, "ours")) is not None and ours.cpu
    ]
    figure = Figure(figsize=(8.6, 4.2), layout="constrained")
    axes = figure.subplots()
    drawn = False
    for contestant, colour in COLOURS.items():
        cells = [results.find(problem, contestant) for problem in problems]
        if contestant == "ours" or not any(cells):
            continue
        axes.plot([], [], MARKERS[contestant], color=colour, label=_short(contestant))
        for place, (cell, problem) in enumerate(zip(cells, problems, strict=True)):
            ours = results.find(problem, "ours")
            if cell is None or cell.seconds is None or ours is None or ours.cpu is None:
                continue
            marker, size = ("$\\rightarrow$", 9) if cell.capped else (MARKERS[contestant], 6)
            axes.plot(cell.seconds / ours.cpu, place, marker=marker, color=colour, ms=size)
            drawn = True
    if not drawn:
        return None
    axes.axvline(1.0, color=COLOURS["ours"], lw=1.2)
    axes.set_xscale("log")
    axes.set_yticks(range(len(problems)), problems)
    axes.invert_yaxis()
    axes.set_xlabel("times as long as ours (arrows: at least)")
    figure.legend(loc="outside right upper", frameon=False, fontsize="small", labelcolor=INK)
    _plain(axes)
    return figure


def _files(lines: Lines) -> Figure | None:
    """One point a side of a file; below the diagonal ours is faster."""
    found = lines.about("sdplib")
    if not found:
        return None
    figure = Figure(figsize=(5.6, 4.6), layout="constrained")
    axes = figure.subplots()
    for side, colour, marker in (
        ("primal", COLOURS["clarabel"], "o"),
        ("lmi", COLOURS["bisect-dual-lbfgs"], "s"),
    ):
        own = [line for line in found if line["side"] == side]
        x = [max(line["csdp"], FILE_LEAST) for line in own]
        y = [max(line["auto"], FILE_LEAST) for line in own]
        axes.plot(
            x, y, marker, color=colour, ms=5, label=f"{'LMI' if side == 'lmi' else side} sides ({len(own)})"
        )
    ends = [FILE_LEAST, max(max(line["auto"], line["csdp"], 2 * FILE_LEAST) for line in found)]
    axes.plot(ends, ends, color=INK, lw=1)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(f"CSDP, processor seconds (at least {FILE_LEAST:g})")
    axes.set_ylabel("auto, processor seconds")
    axes.legend(frameon=False, fontsize="small", labelcolor=INK)
    _plain(axes)
    return figure


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(which="both", colors=INK)
    axes.grid(color=INK, alpha=0.2, lw=0.6)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)
