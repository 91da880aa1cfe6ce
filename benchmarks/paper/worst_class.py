"""Table of accuracy and worst-class recall of 5-NN after LDA, worst-case LDA and max-min distance analysis.

``python -m benchmarks.paper.worst_class`` draws stratified splits (70 % for training) of standardised data
and shows the mean over the splits with its standard error. The recall of a class is the share of its test
samples that are classified correctly.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import recall_score
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sdpfeas.datasets import load_dataset
from sdpfeas.estimators import MaxMinDistance, WorstCaseLDA

#: Data sets and numbers of components.
CASES = (
    ("wine", 1),
    ("wine", 2),
    ("digits", 2),
    ("digits", 4),
    ("digits", 9),
    ("waveform", 1),
    ("waveform", 2),
    ("balance", 1),
    ("balance", 2),
)

#: Share of the identity in the scatters: some pixels of the digits are constant within all classes.
SHRINKAGE = 0.01

PROJECTIONS: dict[str, Callable[[int], Any]] = {
    "LDA": lambda r: LinearDiscriminantAnalysis(n_components=r, solver="eigen", shrinkage=SHRINKAGE),
    "worst-case LDA": lambda r: WorstCaseLDA(n_components=r, shrinkage=SHRINKAGE),
    "max-min distance": lambda r: MaxMinDistance(n_components=r, shrinkage=SHRINKAGE, refine=True),
}


def main(splits: Annotated[int, typer.Option(help="Splits per data set.")] = 20) -> None:
    """Print accuracy and worst-class recall, in per cent, as a Markdown table."""
    warnings.simplefilter("ignore")
    print(f"| data | c | r | {' | '.join(f'{name}: accuracy | worst class' for name in PROJECTIONS)} |")
    print("|---" * (3 + 2 * len(PROJECTIONS)) + "|")
    for name, r in CASES:
        data = load_dataset(name)
        drawn = list(StratifiedShuffleSplit(splits, test_size=0.3, random_state=0).split(data.X, data.y))
        cells = []
        for make in PROJECTIONS.values():
            recalls = []
            for train, test in drawn:
                model = make_pipeline(StandardScaler(), make(r), KNeighborsClassifier(5))
                model.fit(data.X[train], data.y[train])
                truth, found = data.y[test], model.predict(data.X[test])
                worst = np.min(recall_score(truth, found, average=None))
                recalls.append((float(np.mean(truth == found)), float(worst)))
            mean = 100.0 * np.mean(recalls, axis=0)
            error = 100.0 * np.std(recalls, axis=0, ddof=1) / np.sqrt(splits)
            cells += [f"{m:.1f} ± {e:.1f}" for m, e in zip(mean, error, strict=True)]
        print(f"| {name} | {np.unique(data.y).size} | {r} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    typer.run(main)
