"""The work of ``estimators``: fit a table, write the projection and a picture."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas import estimators
from sdpfeas.errors import OptionError, ProblemError, SdpfeasError
from sdpfeas.estimators.worst_case_lda import new_figure
from sdpfeas.extras import extra
from sdpfeas.files import writing
from sdpfeas.io.tables import Samples, csv_table

__all__ = ["check_outputs", "fitted", "standardized", "write_fit"]


def fitted(X: np.ndarray, y: np.ndarray, **options: Any) -> tuple[Any, list[str]]:
    """Fit the estimator; return it with what it warned of."""
    with extra("wlda", "sdpfeas wlda"):
        estimator = estimators.WorstCaseLDA(**options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            found = estimator.fit(X, y)
        except SdpfeasError:
            raise
        except ValueError as error:  # scikit-learn's, about the data
            raise ProblemError(str(error).splitlines()[0]) from None
    return found, [str(w.message) for w in caught if issubclass(w.category, UserWarning)]


def standardized(X: np.ndarray) -> np.ndarray:
    """Every feature with unit variance and mean zero."""
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def check_outputs(write: Path | None, plot: Path | None) -> None:
    """Refuse what could not be written in the end, before anything is computed."""
    if write is not None and write.suffix not in (".npz", ".csv"):
        raise OptionError(f"{write}: the projection is written as .npz or .csv")
    if plot is None:
        return
    kinds = sorted(new_figure().canvas.get_supported_filetypes())
    if plot.suffix.removeprefix(".").lower() not in kinds:
        raise OptionError(f"{plot}: a plot is written as one of .{', .'.join(kinds)}")


def write_fit(
    found: Any, samples: Samples, X: np.ndarray, write: Path | None, plot: Path | None
) -> list[str]:
    """Write the projection and a picture, and return what was written."""
    weights, written = found.components_.T, []
    if write is not None:
        if write.suffix == ".csv":
            columns = ["feature", *(f"w{k + 1}" for k in range(weights.shape[1]))]
            rows = zip(samples.features, *weights.T.tolist(), strict=True)
            text = csv_table(columns, (dict(zip(columns, row, strict=True)) for row in rows))
            with writing(write):
                write.write_text(text, encoding="utf-8")
        else:
            with writing(write), write.open("wb") as file:
                np.savez_compressed(file, W=weights, features=np.array(samples.features))
        written.append(str(write))
    if plot is not None:
        figure = found.plot(X, samples.y)
        with writing(plot):
            figure.savefig(plot, dpi=160)
        written.append(str(plot))
    return written
