"""Write the tables as Markdown and CSV, and the figures as SVG and PNG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.paper.methods import METHODS
from benchmarks.paper.summary import Entry, TargetSummary, disagreements, published_time

# Internals: files and tables are written as `sdpfeas report` writes them.
from sdpfeas.escaping import escape_markdown
from sdpfeas.extras import extra
from sdpfeas.files import writing
from sdpfeas.io.tables import csv_table, markdown_table
from sdpfeas.npz import unpack_arrays
from sdpfeas.study.report.study_data import format_time
from sdpfeas.study.store import Store

__all__ = ["LEGEND", "Grid", "grids", "plain", "to_markdown", "write_figure", "write_tables"]

LEGEND = (
    "Ours first, the paper's after the slash. ✓: our mean is within one published standard deviation of the "
    "published mean; ✗: it is not. n: splits that finished, if some hit a limit, failed or were left out."
)

NOTHING = "–"

#: Tables with more columns than this are transposed.
MOST_COLUMNS = 7


@dataclass(frozen=True)
class Grid:
    """A table of text: title, column heads and rows. The first column holds the names of the rows."""

    title: str
    columns: list[str]
    rows: list[list[str]]

    def transposed(self) -> Grid:
        """Exchange rows and columns."""
        columns, *rows = map(list, zip(self.columns, *self.rows, strict=True))
        return Grid(self.title, columns, rows)


def grids(summary: TargetSummary) -> list[Grid]:
    """The tables of a target: errors, times, delta*, significance; empty ones are left out."""
    heads = [summary.target.columns[place].title for place in summary.places]
    if not heads:
        return []
    if summary.target.kind == "picture":
        return [
            Grid("5-NN on the projected samples themselves, error in %", ["", *heads], _errors(summary)),
            Grid("delta*, the optimal worst-case ratio", ["", *heads], _deltas(summary)),
        ]
    made = [
        Grid("Test error in %, mean (standard deviation)", ["", *heads], _errors(summary)),
        Grid("Time, mean over splits", ["", *heads], _times(summary)),
        Grid("delta*, the optimal worst-case ratio", ["", *heads], _deltas(summary)),
        Grid("WLDA (ours) against LDA, paired over splits", ["", *heads], _significance(summary)),
    ]
    return [grid.transposed() if len(heads) > MOST_COLUMNS else grid for grid in made if grid.rows]


def _errors(summary: TargetSummary) -> list[list[str]]:
    sizes = [summary.sizes[place] for place in summary.places]
    rows = [["training / test samples", *(f"{train} / {test}" for train, test in sizes)]]
    shown = [method for method in summary.target.methods if not METHODS[method].time_only]
    rows += [[METHODS[method].title, *map(_error, summary.row(method))] for method in shown]
    return rows


def _error(entry: Entry) -> str:
    text = _own_error(entry)
    printed = entry.error_published
    if printed is not None:
        mark = {True: " ✓", False: " ✗", None: ""}[entry.within]
        text += f" / {printed.mean:.2f} ({printed.deviation:.2f}){mark}"
    return text


def _own_error(entry: Entry) -> str:
    if entry.mean is None:
        return _missing(entry)
    text = f"{entry.mean:.2f}" + ("" if entry.deviation is None else f" ({entry.deviation:.2f})")
    lost = entry.timed_out + len(entry.failures)
    if lost or entry.planned < entry.column.runs:
        text += f", n = {len(entry.errors)} of {entry.column.runs}"
    return text


def _missing(entry: Entry) -> str:
    if entry.timed_out:
        return f"> {entry.limit:g} s"
    if entry.too_large:
        return "out of memory"
    if entry.failures:
        return "failed"
    return NOTHING


def _times(summary: TargetSummary) -> list[list[str]]:
    return [[METHODS[method].title, *map(_time, summary.row(method))] for method in summary.target.methods]


def _time(entry: Entry) -> str:
    if entry.timed_out:
        text = f"> {entry.limit:g} s"
    elif entry.time is None:
        text = _missing(entry)
    else:
        text = format_time(entry.time)
        if entry.unfinished:
            text += " †"
    printed = entry.time_published
    return text if printed is None else f"{text} / {printed.text.replace('>', '> ')}"


def _deltas(summary: TargetSummary) -> list[list[str]]:
    rows = []
    for method in ("wlda", "wlda-refined", "wlda-shrunk"):
        if method in summary.target.methods:
            rows.append(
                [f"{METHODS[method].title}: proven bracket, split 0", *_row(summary, method, _bracket)]
            )
            rows.append([f"{METHODS[method].title}: splits", *_row(summary, method, _bracket_state)])
    if {"wlda", "sd-wlda"} <= set(summary.target.methods):
        agree = []
        for place in summary.places:
            ours, theirs = summary.entries["wlda", place], summary.entries["sd-wlda", place]
            distances, count = disagreements(ours, theirs)
            words = f"{count - len(distances)} of {count}" if count else NOTHING
            worst = max(distances.values(), key=abs, default=0.0)
            agree.append(f"{words} ✗, up to {100.0 * worst:+.2g} %" if distances else words)
        rows.append(["SD-WLDA agrees with ours", *agree])
    return rows


def _row(summary: TargetSummary, method: str, show: Callable[[Entry], str]) -> list[str]:
    return [show(entry) for entry in summary.row(method)]


def _bracket(entry: Entry) -> str:
    found = entry.brackets.get(0)
    if found is None:
        return _missing(entry)
    return "infinite" if math.isinf(found[0]) else f"[{found[0]:.6g}, {found[1]:.6g}]"


def _bracket_state(entry: Entry) -> str:
    found = entry.brackets
    if not found:
        return NOTHING
    parts = [f"{len(found) - entry.unproven} of {len(found)} proven"]
    infinite = sum(math.isinf(low) for low, _ in found.values())
    if infinite:
        parts.append(f"{infinite} infinite")
    widths = [(high - low) / abs(high) for low, high in found.values() if math.isfinite(high) and high != 0.0]
    if widths:
        parts.append(f"widest {max(widths):.1e}")
    return ", ".join(parts)


def _significance(summary: TargetSummary) -> list[list[str]]:
    found = [summary.comparison(place) for place in summary.places]
    if not any(found):
        return []
    return [
        ["difference, percentage points", *(NOTHING if c is None else f"{c.difference:+.2f}" for c in found)],
        ["splits", *(NOTHING if c is None else str(c.splits) for c in found)],
        ["p, corrected t-test", *(NOTHING if c is None else _p(c.corrected) for c in found)],
        ["p, signed-rank test", *(NOTHING if c is None else _p(c.signed_rank) for c in found)],
    ]


def _p(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.3f}" if value >= 1e-3 else "< 0.001"


def to_markdown(summary: TargetSummary, command: str, environment: str) -> str:
    """A page about a table or figure, with the command that made it and the machine it ran on."""
    target = summary.target
    out = [f"# {target.name}: {target.title}", "", f"Made by `{command}`. {environment}", "", LEGEND]
    for grid in grids(summary):
        out += ["", f"## {grid.title}", "", *markdown_table(grid.columns, grid.rows, numbers=False)]
    notes = _notes(summary)
    if notes:
        out += ["", "## Notes", "", *(f"- {escape_markdown(note)}" for note in notes)]
    return "\n".join(out) + "\n"


def _notes(summary: TargetSummary) -> list[str]:
    notes = [f"{title} left out: {why}" for title, why in summary.skipped.items()]
    for entry in summary.entries.values():
        where = f"{METHODS[entry.method].title} on {entry.column.title}"
        if entry.unfinished:
            notes.append(f"† {where} stopped before it converged: {entry.unfinished[0]}")
        if entry.not_run:
            notes.append(f"{where} was {entry.not_run[0]}")
        elif entry.failures:
            notes.append(f"{where} failed on {len(entry.failures)} of {entry.planned}: {entry.failures[0]}")
    solvers = {"sdpt3": "SDPT3", "sedumi": "SeDuMi"}
    first = summary.target.columns[0].key
    stand_ins = [name for key, name in solvers.items() if published_time(summary.target.name, key, first)]
    if stand_ins:
        notes.append(f"The primal SDP stands beside the paper's times of {' and '.join(stand_ins)}.")
    return notes


def plain(summary: TargetSummary) -> list[dict[str, Any]]:
    """One record per method and column, as plain data for JSON and CSV."""
    return [_plain_entry(summary.target.name, entry) for entry in summary.entries.values()]


def _plain_entry(table: str, entry: Entry) -> dict[str, Any]:
    printed, time = entry.error_published, entry.time_published
    return {
        "table": table,
        "method": entry.method,
        "column": entry.column.title,
        "task": entry.column.task.label,
        "splits": len(entry.errors),
        "planned": entry.planned,
        "timed_out": entry.timed_out,
        "failed": len(entry.failures),
        "error": entry.mean,
        "deviation": entry.deviation,
        "published_error": None if printed is None else printed.mean,
        "published_deviation": None if printed is None else printed.deviation,
        "within": entry.within,
        "time": entry.time,
        "published_time": None if time is None else time.seconds,
    }


def write_tables(summary: TargetSummary, folder: Path, command: str, environment: str) -> list[Path]:
    """Write a page, a CSV file of means and a CSV file of all cells; return the paths."""
    name = summary.target.name
    page, means, cells = (folder / f"{name}{ending}" for ending in (".md", ".csv", "-cells.csv"))
    with writing(page):
        page.write_text(to_markdown(summary, command, environment), encoding="utf-8")
    _write_csv(means, plain(summary))
    _write_csv(cells, _all_cells(summary))
    return [page, means, cells]


def _all_cells(summary: TargetSummary) -> Iterable[dict[str, Any]]:
    for entry in summary.entries.values():
        for split, cell in sorted(entry.cells.items()):
            yield {
                "table": summary.target.name,
                "method": entry.method,
                "column": entry.column.title,
                "split": split,
                "outcome": cell["outcome"],
                "error": cell["error"],
                "time": cell["solve_time"],
                "delta_lower": cell["lower"],
                "delta_upper": cell["upper"],
                "proof": cell["proof"],
                "infinite": cell["lower"] is not None and math.isinf(cell["lower"]),
                "remark": cell["reason"],
            }


def _write_csv(path: Path, records: Iterable[dict[str, Any]]) -> None:
    rows = list(records)
    with writing(path):
        path.write_text(csv_table(list(rows[0]) if rows else ["table"], rows), encoding="utf-8")


# ---------------------------------------------------------------- figures

COLOURS = ("#2563c9", "#d9730d", "#0f8a5f", "#b5367a", "#6b4fd3", "#a07d00", "#0c8599", "#737b87")
MARKERS = "osD^Pv"
DASHES = ("-", "--", ":", "-.", (0, (4, 2)), (0, (8, 3)))


def write_figure(summary: TargetSummary, store: Store, folder: Path) -> list[Path]:
    """Draw a figure as SVG and PNG and return the paths; a table has none.

    Raises MissingExtraError if matplotlib is not installed.
    """
    if summary.target.kind == "table" or not summary.places:
        return []
    with extra("plot", "a figure"):
        import matplotlib as mpl
        from matplotlib.figure import Figure
    if not (summary.target.methods and summary.places):
        return []  # none of the requested methods is in this figure
    drawn = summary.target.kind == "picture"
    figure = _pictures(Figure, summary, store) if drawn else _curves(Figure, summary)
    written = []
    # A fixed salt: two runs write the same file.
    with mpl.rc_context({"svg.hashsalt": summary.target.name}):
        for suffix, metadata in ((".svg", {"Date": None}), (".png", {"Software": None})):
            path = folder / f"{summary.target.name}{suffix}"
            with writing(path):
                figure.savefig(path, dpi=160, metadata=metadata)
            written.append(path)
    return written


def _curves(figure_class: Any, summary: TargetSummary) -> Any:
    """Errors with their deviations, or times; one panel per kind of column."""
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
        points = [(x, entry.time) for x, entry in entries if entry.time is not None and not entry.timed_out]
        if points:
            axes.plot(*zip(*points, strict=True), label=title, **style)
        return
    bars = [(x, entry.mean, entry.deviation or 0.0) for x, entry in entries if entry.mean is not None]
    if bars:
        x, mean, deviation = zip(*bars, strict=True)
        axes.errorbar(x, mean, deviation, capsize=2, elinewidth=0.8, label=title, **style)


def _pictures(figure_class: Any, summary: TargetSummary, store: Store) -> Any:
    """Projected samples: one row per method, one column per data set; a single data set fills one row."""
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
