"""A projection in a picture: its classes, the closest pair of them, and how good it is proved to be."""

from __future__ import annotations

from typing import Any

import numpy as np

from sdpfeas.extras import extra
from sdpfeas.harmless import in_figure
from sdpfeas.numerics.linalg import FloatArray

__all__ = ["new_figure", "plot_projection"]

#: Components that are drawn against each other at most, and classes that a legend lists.
MOST_PANELS = 5
MOST_LISTED = 20


def new_figure(side: float = 6.0) -> Any:
    """An empty figure of Matplotlib."""
    with extra("plot", "a plot"):
        from matplotlib.figure import Figure
    return Figure(figsize=(side, 0.77 * side), layout="constrained")


def plot_projection(found: Any, Z: FloatArray, y: np.ndarray) -> Any:
    """Draw projected samples, two components a panel.

    The two closest classes are joined by a line between their means, the widest is drawn with a ring around
    its mean, and the title says what was proved about the ratio.

    Parameters
    ----------
    found : WorstCaseLDA
        The fitted estimator.
    Z : ndarray
        Projected samples, shape (samples, components).
    y : ndarray
        Their labels.
    """
    count = min(Z.shape[1], MOST_PANELS)
    panels = [(i, j) for i in range(count) for j in range(i)] or [(0, 0)]
    side = max(count - 1, 1)
    figure = new_figure(6.0 if side == 1 else 3.2 * side)
    grid = figure.subplots(side, side, squeeze=False)
    for axes in grid.flat:
        axes.set_visible(False)
    for i, j in panels:
        axes = grid[max(i - 1, 0), j]
        axes.set_visible(True)
        if count == 1:
            _histogram(axes, found, Z[:, 0], y)
        else:
            _scatter(axes, found, Z[:, [j, i]], y)
            axes.set_xlabel(f"component {j + 1}")
            axes.set_ylabel(f"component {i + 1}")
        axes.spines[["top", "right"]].set_visible(False)
    if len(found.classes_) <= MOST_LISTED:
        grid[0, 0].legend(frameon=False, fontsize="small")
    lower, upper = found.delta_bounds_
    proof = "" if found.proven_ else ", not proven"
    figure.suptitle(
        f"{lower:.5g} ≤ δ* ≤ {upper:.5g}{proof}; this projection: {found.ratio_:.5g}", fontsize="medium"
    )
    return figure


def _histogram(axes: Any, found: Any, values: FloatArray, y: np.ndarray) -> None:
    for name in found.classes_:
        axes.hist(values[y == name], bins=30, alpha=0.55, label=in_figure(_titled(found, name)))
    axes.set_xlabel("component 1")
    axes.set_ylabel("samples")


def _scatter(axes: Any, found: Any, values: FloatArray, y: np.ndarray) -> None:
    means = {}
    for name in found.classes_:
        mine = values[y == name]
        drawn = axes.scatter(mine[:, 0], mine[:, 1], s=14, alpha=0.7, label=in_figure(_titled(found, name)))
        if mine.size:
            means[name] = mine.mean(axis=0)
            if name == found.worst_class_:
                axes.plot(
                    *means[name], marker="o", markersize=16, fillstyle="none", color=drawn.get_facecolor()[0]
                )
    pair = [means[name] for name in found.worst_pair_ if name in means]
    if len(pair) == 2:
        axes.plot(*np.transpose(pair), color="black", linewidth=1.2, marker="x")
    axes.set_aspect("equal", adjustable="datalim")


def _titled(found: Any, name: Any) -> str:
    """The name of a class, with what is special about it."""
    facts = {"closest pair": name in found.worst_pair_, "widest": name == found.worst_class_}
    special = [what for what, holds in facts.items() if holds]
    return f"{name} ({', '.join(special)})" if special else str(name)
