"""The charts of a report as PNG and SVG files, for papers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sdpfeas.escaping import in_figure
from sdpfeas.extras import extra
from sdpfeas.files import writing
from sdpfeas.study.report.charts import ERROR_FLOOR
from sdpfeas.study.report.model import Scaling, StudyData
from sdpfeas.study.settings import Clock
from sdpfeas.study.store import Store

__all__ = ["write_figures"]

COLOURS = ("#2563c9", "#d9730d", "#0f8a5f", "#b5367a", "#6b4fd3", "#a07d00", "#0c8599", "#737b87")
MARKERS = "osD^Pv"
DASHES = ("-", "--", ":", "-.", (0, (4, 2)), (0, (8, 3)))


def write_figures(store: Store, folder: Path, clock: Clock = Clock.wall) -> list[Path]:
    """Write every chart as ``.png`` and ``.svg`` into a folder, and return what was written.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    with extra("plot", "a figure"):
        from matplotlib.figure import Figure
    data = StudyData(store, clock)
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []

    def save(name: str, draw: Any) -> None:
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.subplots()
        draw(axes)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize="small")
        for suffix in (".png", ".svg"):
            path = folder / f"{name}{suffix}"
            with writing(path):
                figure.savefig(path, dpi=160)
            written.append(path)

    save("profiles", lambda axes: _profiles(data, axes))
    for scaling in data.scalings:
        safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in scaling.name)
        save(f"scaling-{safe}", lambda axes, scaling=scaling: _scaling(data, scaling, axes))
    if data.accuracy:
        save("accuracy", lambda axes: _accuracy(data, axes))
    return written


def _style(data: StudyData, solver: str) -> tuple[str, str, Any]:
    k = data.solvers.index(solver)
    return COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)], DASHES[k % len(DASHES)]


def _profiles(data: StudyData, axes: Any) -> None:
    for solver, profile in data.profiles.items():
        colour, _, dash = _style(data, solver)
        label = in_figure(solver)
        axes.step(profile.ratios, profile.shares, where="post", color=colour, linestyle=dash, label=label)
    axes.set(xscale="log", ylim=(0, 1.03), xlabel="within this factor of the fastest time")
    axes.set_ylabel("share of instances decided")


def _scaling(data: StudyData, scaling: Scaling, axes: Any) -> None:
    for solver, row in scaling.points.items():
        colour, mark, dash = _style(data, solver)
        fit = scaling.fits.get(solver)
        label = in_figure(solver) if fit is None else f"{in_figure(solver)} ({fit.slope:.2f})"
        axes.plot(*zip(*row, strict=True), mark, color=colour, markersize=4, label=label)
        if fit is not None:
            axes.plot(fit.sizes, fit.times, color=colour, linestyle=dash)
        if solver in scaling.bands:
            fit = scaling.bands[solver]
            axes.fill_between(fit.sizes, fit.low, fit.high, color=colour, alpha=0.13, linewidth=0)
    axes.set(xscale="log", yscale="log", xlabel="largest block", ylabel=data.time_label)
    axes.set_title(in_figure(scaling.name))


def _accuracy(data: StudyData, axes: Any) -> None:
    for solver, row in data.accuracy.items():
        colour, mark, _ = _style(data, solver)
        times = [max(t, 1e-6) for t, _, _ in row]
        errors = [max(e, ERROR_FLOOR) for _, e, _ in row]
        axes.plot(times, errors, mark, color=colour, markersize=4, label=in_figure(solver))
    axes.set(xscale="log", yscale="log", xlabel=data.time_label, ylabel="relative error of the evidence")
