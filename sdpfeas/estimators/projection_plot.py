"""Plots of projected samples, for all estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdpfeas.escaping import escape_figure
from sdpfeas.extras import extra
from sdpfeas.numerics.linalg import FloatArray

#: Largest number of components that are drawn against each other, and of classes in a legend.
MAX_PLOTTED_COMPONENTS = 5
MAX_LEGEND_CLASSES = 20


def new_figure(side: float = 6.0) -> Any:
    """Return an empty Matplotlib figure."""
    with extra("plot", "a plot"):
        from matplotlib.figure import Figure
    return Figure(figsize=(side, 0.77 * side), layout="constrained")


def plot_projection(found: Any, Z: FloatArray, y: np.ndarray, axes: Any = None) -> Any:
    """Draw projected samples, two components per panel; on given axes only the first two.

    A line joins the means of the two closest classes, a ring marks the mean of the class with the largest
    scatter, and the title shows the proven bounds of the objective.
    """
    count = min(Z.shape[1], MAX_PLOTTED_COMPONENTS if axes is None else 2)
    panels = [(i, j) for i in range(count) for j in range(i)] or [(0, 0)]
    side = max(count - 1, 1)
    if axes is None:
        figure = new_figure(6.0 if side == 1 else 3.2 * side)
        grid = figure.subplots(side, side, squeeze=False)
        set_title = figure.suptitle
    else:
        figure, grid, set_title = axes.figure, np.array([[axes]]), axes.set_title
    for panel in grid.flat:
        panel.set_visible(False)
    for i, j in panels:
        panel = grid[max(i - 1, 0), j]
        panel.set_visible(True)
        if count == 1:
            _histogram(panel, found, Z[:, 0], y)
        else:
            _scatter(panel, found, Z[:, [j, i]], y)
            panel.set_xlabel(f"component {j + 1}")
            panel.set_ylabel(f"component {i + 1}")
        panel.spines[["top", "right"]].set_visible(False)
    if len(found.classes_) <= MAX_LEGEND_CLASSES:
        grid[0, 0].legend(frameon=False, fontsize="small")
    lower, upper = found.delta_bounds_
    proof = "" if found.proven_ else ", not proven"
    value = found.ratio_ if hasattr(found, "ratio_") else found.value_
    set_title(f"{lower:.5g} ≤ δ* ≤ {upper:.5g}{proof}; this projection: {value:.5g}", fontsize="medium")
    return figure


def _histogram(axes: Any, found: Any, values: FloatArray, y: np.ndarray) -> None:
    for name in found.classes_:
        axes.hist(values[y == name], bins=30, alpha=0.55, label=escape_figure(_titled(found, name)))
    axes.set_xlabel("component 1")
    axes.set_ylabel("samples")


def _scatter(axes: Any, found: Any, values: FloatArray, y: np.ndarray) -> None:
    means = {}
    for name in found.classes_:
        mine = values[y == name]
        drawn = axes.scatter(
            mine[:, 0], mine[:, 1], s=14, alpha=0.7, label=escape_figure(_titled(found, name))
        )
        if mine.size:
            means[name] = mine.mean(axis=0)
            if name == getattr(found, "worst_class_", None):
                axes.plot(
                    *means[name], marker="o", markersize=16, fillstyle="none", color=drawn.get_facecolor()[0]
                )
    pair = [means[name] for name in getattr(found, "worst_pair_", ()) if name in means]
    if len(pair) == 2:
        axes.plot(*np.transpose(pair), color="black", linewidth=1.2, marker="x")
    axes.set_aspect("equal", adjustable="datalim")


def _titled(found: Any, name: Any) -> str:
    """Return the name of a class, marked if it limits the ratio."""
    facts = {
        "closest pair": name in getattr(found, "worst_pair_", ()),
        "widest": hasattr(found, "worst_class_") and name == found.worst_class_,
        "worst": hasattr(found, "worst_group_") and name == found.worst_group_,
    }
    special = [what for what, holds in facts.items() if holds]
    return f"{name} ({', '.join(special)})" if special else str(name)
