"""The figures, as SVG and PNG files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.extras import extra
from sdpfeas.files import writing
from sdpfeas.npz import unpack_arrays
from sdpfeas.study.report.figures import COLOURS, DASHES, MARKERS
from sdpfeas.study.store import Store
from sdpfeas.wlda.paper.methods import METHODS
from sdpfeas.wlda.paper.summary import TargetSummary

__all__ = ["write_figure"]


def write_figure(summary: TargetSummary, store: Store, folder: Path) -> list[Path]:
    """Draw a figure and return the files; a table has none.

    Parameters
    ----------
    summary : TargetSummary
        The numbers.
    store : Store
        Where projected samples are kept.
    folder : Path
        Where to write.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    if summary.target.kind == "table" or not summary.places:
        return []
    with extra("plot", "a figure"):
        import matplotlib as mpl
        from matplotlib.figure import Figure
    if not (summary.target.methods and summary.places):
        return []  # of the methods asked for none is in this figure
    drawn = summary.target.kind == "picture"
    figure = _pictures(Figure, summary, store) if drawn else _curves(Figure, summary)
    written = []
    # Two runs write the same file.
    with mpl.rc_context({"svg.hashsalt": summary.target.name}):
        for suffix, metadata in ((".svg", {"Date": None}), (".png", {"Software": None})):
            path = folder / f"{summary.target.name}{suffix}"
            with writing(path):
                figure.savefig(path, dpi=160, metadata=metadata)
            written.append(path)
    return written


def _curves(figure_class: Any, summary: TargetSummary) -> Any:
    """Errors with their deviations, or times, one panel for each kind of column."""
    target = summary.target
    panels = list(dict.fromkeys(target.columns[place].panel for place in summary.places))
    figure = figure_class(figsize=(5.2 * len(panels), 3.8), layout="constrained")
    for axes, panel in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        places = [place for place in summary.places if target.columns[place].panel == panel]
        for k, method in enumerate(target.methods):
            style = {"color": COLOURS[k], "marker": MARKERS[k], "linestyle": DASHES[k], "markersize": 4}
            _curve(axes, summary, method, places, style)
        axes.set(xlabel=target.axis or panel, title=panel if target.axis else "")
        axes.set_ylabel("test error in %" if target.kind == "error" else "seconds")
        if target.kind == "time":
            axes.set_yscale("log")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize="small")
    return figure


def _curve(axes: Any, summary: TargetSummary, method: str, places: list[int], style: dict[str, Any]) -> None:
    entries = [(summary.target.columns[place].x, summary.entries[method, place]) for place in places]
    title = METHODS[method].title
    if summary.target.kind == "time":
        points = [(x, entry.time) for x, entry in entries if entry.time is not None and not entry.capped]
        if points:
            axes.plot(*zip(*points, strict=True), label=title, **style)
        return
    bars = [(x, entry.mean, entry.deviation or 0.0) for x, entry in entries if entry.mean is not None]
    if bars:
        x, mean, deviation = zip(*bars, strict=True)
        axes.errorbar(x, mean, deviation, capsize=2, elinewidth=0.8, label=title, **style)


def _pictures(figure_class: Any, summary: TargetSummary, store: Store) -> Any:
    """Projected samples: a row for each method, a column for each data set; of one data set all in a row."""
    methods, places = summary.target.methods, summary.places
    high, wide = (1, len(methods)) if len(places) == 1 else (len(methods), len(places))
    figure = figure_class(figsize=(3.2 * wide, 2.8 * high), layout="constrained")
    grid = figure.subplots(high, wide, squeeze=False).reshape(len(methods), len(places))
    for row, method in zip(grid, methods, strict=True):
        for axes, place in zip(row, places, strict=True):
            entry = summary.entries[method, place]
            axes.set_title(f"{METHODS[method].title}: {entry.column.title}", fontsize="small")
            axes.set(xticks=[], yticks=[])
            packed = store.evidence(entry.cells[0]["key"]) if 0 in entry.cells else None
            if packed is None:
                continue
            kept = unpack_arrays(packed)
            Z, y = kept["Z"], kept["y"]
            for label in np.unique(y):
                k = int(label)
                mine = Z[y == label]
                colour, mark = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
                axes.scatter(mine[:, 0], mine[:, 1], s=9, color=colour, marker=mark, linewidths=0)
    return figure
