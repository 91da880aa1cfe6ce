"""Table of the worst-case ratios that methods attain on the training data, next to the proven bound.

``python -m benchmarks.paper.attained`` takes the data sets of the paper's tables, and Wine and digits, at
several numbers of components r from 1 to c - 1. The ratio of a method is that of an orthonormal basis of the
span of its directions. The gap is what any projection could still gain over worst-case LDA, relative to
the bound.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import Annotated

import numpy as np
import typer

import sdpfeas as sf
from benchmarks.paper.methods import METHODS, Fit, Fitted
from benchmarks.paper.protocol import Task
from benchmarks.paper.targets import TARGETS

# Internals: the ratio that the estimator reports.
from sdpfeas.estimators import WorstCaseLDA
from sdpfeas.estimators.projection_refinement import RatioObjective
from sdpfeas.families.class_scatter import ClassScatter

#: Most numbers of components per data set; both ends are always among them.
MAX_DIMENSIONS = 6

#: Relative differences below this are ties.
TIE = 1e-3

#: Iterations of the trace ratio, which converges quadratically.
TRACE_RATIO_ITERATIONS = 30


def trace_ratio(X: np.ndarray, y: np.ndarray, r: int) -> Fitted:
    """Maximise ``tr(W'S_b W) / tr(W'S_w W)`` over orthonormal W (Wang, Yan, Xu, Tang, Huang, CVPR 2007)."""
    labels, index = np.unique(y, return_inverse=True)
    means = np.array([X[index == g].mean(axis=0) for g in range(labels.size)])[index]
    between, within = np.cov(means.T, bias=True), np.cov((X - means).T, bias=True)
    ratio, W = 0.0, np.eye(X.shape[1])[:, :r]
    for _ in range(TRACE_RATIO_ITERATIONS):
        W = np.linalg.eigh(np.atleast_2d(between - ratio * within))[1][:, ::-1][:, :r]
        ratio = float(np.trace(W.T @ between @ W) / np.trace(W.T @ within @ W))
    return Fitted(lambda samples: samples @ W)


COMPETITORS: dict[str, Fit] = {
    **{name: METHODS[name].fit for name in ("lda", "olda", "zhang-sdp", "zhang-socp")},
    "trace-ratio": trace_ratio,
}


def tasks() -> dict[str, Task]:
    """Return the data sets of tables 1 and 3, and Wine and digits with all samples."""
    columns = (*TARGETS["table1"].columns, *TARGETS["table3"].columns)
    return {"wine": Task("wine", 1.0), "digits": Task("digits", 1.0), **{c.key: c.task for c in columns}}


def dimensions(most: int) -> list[int]:
    """Return at most ``MAX_DIMENSIONS`` numbers from 1 to ``most``, denser at the lower end."""
    return sorted({round(v) for v in np.geomspace(1, most, MAX_DIMENSIONS)})


def attained_ratio(objective: RatioObjective, fitted: Fitted, features: int) -> float:
    """Return the ratio of an orthonormal basis of the span of a linear projection."""
    W = fitted.project(np.eye(features)) - fitted.project(np.zeros((1, features)))
    A, _ = np.linalg.qr(objective.basis.T @ W)
    return objective.value(A)


def main(
    data: Annotated[str | None, typer.Option(help="Only these data sets, comma-separated.")] = None,
    competitors: Annotated[str | None, typer.Option(help="Only these, comma-separated.")] = None,
) -> None:
    """Print the ratios attained on the first training split as a Markdown table."""
    known = tasks()
    rivals = {name: COMPETITORS[name] for name in (competitors.split(",") if competitors else COMPETITORS)}
    print(f"| data | c | r | bound | WLDA | gap | search, refinement (s) | {' | '.join(rivals)} | |")
    print("|---" * (8 + len(rivals)) + "|")
    for name in data.split(",") if data else known:
        try:
            sample = known[name].sample(0)
        except sf.SdpfeasError as error:
            print(error, file=sys.stderr)
            continue
        classes = ClassScatter.from_samples(sample.X, sample.y)
        objective = RatioObjective(classes)
        for r in dimensions(min(classes.c - 1, classes.k)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begin = time.process_time()
                WorstCaseLDA(n_components=r, refine=False).fit(sample.X, sample.y)
                search = time.process_time() - begin
                found = WorstCaseLDA(n_components=r).fit(sample.X, sample.y)
                total = time.process_time() - begin - search
                ratios = {
                    rival: attained_ratio(objective, fit(sample.X, sample.y, r), sample.X.shape[1])
                    for rival, fit in rivals.items()
                }
            best = max(ratios.values())
            cells = " | ".join(f"{ratio:.4g}" for ratio in ratios.values())
            print(
                f"| {name} | {classes.c} | {r} | {found.delta_bounds_[1]:.5g} | {found.ratio_:.5g} "
                f"| {found.relaxation_gap_:.2%} | {search:.2f}, {max(total - search, 0.0):.2f} | {cells} "
                f"| {'' if found.ratio_ >= (1.0 - TIE) * best else 'below'} |"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    typer.run(main)
