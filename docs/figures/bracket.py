"""Draw how the bracket closes, as published and certified, from the same initial bracket: bracket.svg.

Run ``.venv/bin/python docs/figures/bracket.py``; it takes some seconds and always draws the same.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

import sdpfeas as sf
from sdpfeas.drivers.bracket import BisectionResult

OUT = Path(__file__).with_suffix(".svg")

#: What to search: a bracket that contains delta* = 16.47 and says little more.
INITIAL = {"lower": 0.0, "upper": 100.0}
TOL = 1e-3

#: The Okabe–Ito colours; legible on white and on black.
SEARCHES = {
    "as published": ("#E69F00", {"mode": "paper"}),
    "certified, backend alone": ("#56B4E9", {"refine": False}),
    "certified": ("#009E73", {}),
}
INK = "#808080"


def family() -> sf.families.WLDA:
    """Worst-case discriminant analysis of the Wine data, standardised."""
    X, y = load_wine(return_X_y=True)
    return sf.families.WLDA.from_data(StandardScaler().fit_transform(X), y)


def searches() -> dict[str, BisectionResult]:
    """One search a method, all from the same bracket."""
    wine = family()
    return {
        name: sf.bisect(wine, "spectral-ipm", tol=TOL, **INITIAL, **how)
        for name, (_, how) in SEARCHES.items()
    }


def ends(found: BisectionResult) -> tuple[np.ndarray, np.ndarray]:
    """Both ends before the first solve and after each."""
    rows = [found.initial, *((step.lower, step.upper) for step in found.history)]
    lower, upper = np.array(rows).T
    return lower, upper


def draw(found: dict[str, BisectionResult]) -> Figure:
    """Ends of the brackets, and their relative widths."""
    figure = Figure(figsize=(8.6, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, result in found.items():
        colour = SEARCHES[name][0]
        lower, upper = ends(result)
        solves = np.arange(lower.size)
        left.fill_between(solves, lower, upper, step="post", color=colour, alpha=0.25, lw=0)
        for end in (lower, upper):
            left.step(solves, end, where="post", color=colour, lw=1.6)
        left.plot(solves[-1], upper[-1], "o", color=colour, ms=5)
        width = np.maximum((upper - lower) / upper, 1e-6)
        label = f"{name}: {result.solves} solves"
        right.semilogy(solves, width, "o-", color=colour, lw=1.6, ms=4, label=label)
    left.set_ylim(INITIAL["lower"], INITIAL["upper"])
    left.set_ylabel("ends of the bracket")
    right.axhline(TOL, color=INK, lw=1, ls=":")
    right.annotate("tolerance", (3, TOL), (0, 3), textcoords="offset points", color=INK, fontsize="small")
    right.set_ylabel("relative width")
    right.legend(frameon=False, fontsize="small", labelcolor=INK, loc="upper right")
    for axes in (left, right):
        _plain(axes)
    return figure


def _plain(axes: Axes) -> None:
    axes.set_xlabel("feasibility solves")
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    axes.tick_params(which="both", colors=INK)
    axes.xaxis.label.set_color(INK)
    axes.yaxis.label.set_color(INK)


def main() -> None:
    """Write the figure."""
    found = searches()
    if not all(result.converged for result in found.values()):
        raise SystemExit("a search did not converge; the figure is left as it was")
    with mpl.rc_context({"svg.hashsalt": "sdpfeas", "svg.fonttype": "none", "font.size": 10}):
        draw(found).savefig(OUT, transparent=True, metadata={"Date": None})
    for name, result in found.items():
        print(f"{name}: {result.solves} solves, [{result.lower:.6g}, {result.upper:.6g}]")


if __name__ == "__main__":
    main()
