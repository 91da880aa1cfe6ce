"""Draw what fair PCA and max-min distance analysis do that PCA and LDA do not: projections.svg.

Run ``.venv/bin/python docs/figures/projections.py``; it takes some seconds and always draws the same.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from sdpfeas.estimators import FairPCA, MaxMinDistance

OUT = Path(__file__).with_suffix(".svg")

#: The Okabe–Ito colours; legible on white and on black.
PLAIN, OURS = "#E69F00", "#009E73"
INK = "#808080"

#: Directions to keep.
SIZES = range(1, 9)


def least_variances(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What the worst group keeps, as a share of its variance: by PCA, by fair PCA, and the proven bound."""
    groups = np.unique(y)
    whole = np.array([np.var(X[y == g], axis=0).sum() for g in groups])
    # Every group counts as a share of its own variance: scale its samples to variance one.
    scaled = np.concatenate([(X[y == g] - X[y == g].mean(axis=0)) / np.sqrt(whole[g]) for g in groups])
    labels = np.concatenate([np.full(np.sum(y == g), g) for g in groups])
    rows = []
    for r in SIZES:
        W = PCA(r, svd_solver="full").fit(X).components_.T
        plain = min(np.var(scaled[labels == g] @ W, axis=0).sum() for g in groups)
        fair = FairPCA(n_components=r, tol=1e-5, refine=True).fit(scaled, groups=labels)
        rows.append((plain, fair.value_, fair.delta_bounds_[1]))
    return tuple(np.array(rows).T)  # type: ignore[return-value]


def least_distances(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Least distance of two whitened class means: by LDA, by max-min distance, and the proven bound."""
    rows = []
    for r in SIZES:
        found = MaxMinDistance(n_components=r, tol=1e-5, refine=True).fit(X, y)
        lda = LinearDiscriminantAnalysis(n_components=r).fit(X, y)
        means = np.array([lda.transform(X[y == k]).mean(axis=0) for k in lda.classes_])
        # scikit-learn divides the scatter within the classes by n - c, we by n.
        scale = len(y) / (len(y) - lda.classes_.size)
        i, j = np.triu_indices(lda.classes_.size, 1)
        plain = scale * np.min(np.sum((means[i] - means[j]) ** 2, axis=1))
        rows.append((np.sqrt(plain), np.sqrt(found.value_), np.sqrt(found.delta_bounds_[1])))
    return tuple(np.array(rows).T)  # type: ignore[return-value]


def draw_one(
    axes: Axes, values: tuple[np.ndarray, np.ndarray, np.ndarray], names: tuple[str, str], what: str
) -> None:
    """One criterion against the number of directions."""
    sizes = np.array(SIZES)
    plain, ours, bound = values
    axes.fill_between(sizes, ours, bound, color=OURS, alpha=0.25, lw=0)
    axes.plot(sizes, bound, "--", color=OURS, lw=1.2, label="proven: none is better")
    axes.plot(sizes, ours, "o-", color=OURS, lw=1.8, ms=4, label=names[1])
    axes.plot(sizes, plain, "s-", color=PLAIN, lw=1.8, ms=4, label=names[0])
    axes.set_xlabel("directions kept")
    axes.set_ylabel(what)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False, labelcolor=INK)
    axes.tick_params(colors=INK)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(INK)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(INK)


def main() -> None:
    """Draw both."""
    mpl.rcParams.update({"svg.hashsalt": "sdpfeas", "font.size": 9})
    X, y = load_digits(return_X_y=True)
    X = PCA(30, svd_solver="full").fit_transform(X)
    figure = Figure(figsize=(8.6, 3.4), layout="constrained")
    figure.patch.set_alpha(0.0)
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.patch.set_alpha(0.0)
    draw_one(left, least_variances(X, y), ("PCA", "fair PCA"), "variance kept of the worst digit")
    draw_one(right, least_distances(X, y), ("LDA", "max-min distance"), "distance of the closest two digits")
    figure.savefig(OUT, metadata={"Date": None})


if __name__ == "__main__":
    main()
