"""Command ``wlda``: fit worst-case linear discriminant analysis to a table, with a proven bracket."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from sdpfeas.cli import library as lib
from sdpfeas.cli.console import AsJson, Solver, TimeLimit, print_json, say, spinner
from sdpfeas.errors import OptionError, ProblemError, SdpfeasError
from sdpfeas.extras import extra
from sdpfeas.files import writing

if TYPE_CHECKING:
    import numpy as np


def wlda(
    data: Annotated[Path, Argument(metavar="DATA", help="A .csv, .npz (X and y) or .parquet file.")],
    label: Annotated[
        str | None, Option(help="Column of the class labels, by name or number; default: the last.")
    ] = None,
    components: Annotated[
        int | None, Option("--components", "-r", help="Dimension of the projection.")
    ] = None,
    solver: Solver = "auto",
    tol: Annotated[float, Option(help="Relative width of the bracket.")] = 1e-3,
    time_limit: TimeLimit = None,
    standardize: Annotated[
        bool, Option("--standardize", help="Scale every feature to unit variance.")
    ] = False,
    shrinkage: Annotated[
        str | None, Option(help="Shrinkage of the class scatter matrices: a number from 0 to 1, or auto.")
    ] = None,
    refine: Annotated[bool, Option("--refine", help="Optimise the ratio of the projection longer.")] = False,
    write: Annotated[
        Path | None, Option(help="Write the projection W (features × components) as .npz or .csv.")
    ] = None,
    plot: Annotated[Path | None, Option(help="Write a plot of the projected samples.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the projection that maximises the worst-case class separation, and prove bounds on the optimum.

    Examples:
    sdpfeas wlda iris.csv --label species -r 2
    sdpfeas wlda data.npz --write W.npz --plot projected.png
    """
    _check_outputs(write, plot)
    samples = lib.read_samples(data, label)
    X = _standardize(samples.X) if standardize else samples.X
    options = {"solver": solver, "tol": tol, "shrinkage": _share(shrinkage), "time_limit": time_limit}
    with spinner("searching …"):
        found, notes = _fit(X, samples.y, n_components=components, refine=refine or "auto", **options)
    lower, upper = found.delta_bounds_
    report = {
        "samples": int(X.shape[0]),
        "features": int(X.shape[1]),
        "classes": int(found.classes_.size),
        "components": int(found.components_.shape[0]),
        "lower": lower,
        "upper": upper,
        "proven": found.proven_,
        "converged": found.converged_,
        "ratio": found.ratio_,
        "reason": found.reason_,
        "solves": len(found.history_),
        "time": sum(step.time for step in found.history_),
        "worst_pair": [str(name) for name in found.worst_pair_],
        "worst_class": str(found.worst_class_),
        "notes": notes,
        "written": _write_fit(found, samples, X, write, plot),
    }
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    counts = (report[name] for name in ("samples", "features", "classes", "components"))
    say("{} samples, {} features, {} classes -> {} component(s)", *counts)
    proof = "proven" if report["proven"] else "[yellow]not proven[/]"
    say(f"[bold]{report['lower']:.8g} <= delta* <= {report['upper']:.8g}[/] ({proof})")
    say(f"ratio of the projection: {report['ratio']:.8g}")
    say("closest pair: {}; widest class: {}", " and ".join(report["worst_pair"]), report["worst_class"])
    say(f"{report['solves']} solve(s), {report['time']:.3g} s; {{}}", report["reason"])
    for note in report["notes"]:
        say("[yellow]note:[/] {}", note)
    for path in report["written"]:
        say("written: {}", path)


def _share(text: str | None) -> float | str | None:
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"--shrinkage must be a number between 0 and 1, or auto; got {text!r}") from None


def _fit(X: np.ndarray, y: np.ndarray, **options: Any) -> tuple[Any, list[str]]:
    """Fit the estimator; return it with its warnings."""
    with extra("wlda", "sdpfeas wlda"):
        estimator = lib.WorstCaseLDA(**options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            found = estimator.fit(X, y)
        except SdpfeasError:
            raise
        except ValueError as error:  # scikit-learn's, about the data
            raise ProblemError(str(error).splitlines()[0]) from None
    return found, [str(w.message) for w in caught if issubclass(w.category, UserWarning)]


def _standardize(X: np.ndarray) -> np.ndarray:
    """Scale every feature to mean zero and unit variance."""
    import numpy as np

    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def _check_outputs(write: Path | None, plot: Path | None) -> None:
    """Check the extensions of the output files before anything is computed."""
    if write is not None and write.suffix not in (".npz", ".csv"):
        raise OptionError(f"{write}: the projection is written as .npz or .csv")
    if plot is None:
        return
    kinds = sorted(lib.new_figure().canvas.get_supported_filetypes())
    if plot.suffix.removeprefix(".").lower() not in kinds:
        raise OptionError(f"{plot}: a plot is written as one of .{', .'.join(kinds)}")


def _write_fit(
    found: Any, samples: lib.Samples, X: np.ndarray, write: Path | None, plot: Path | None
) -> list[str]:
    """Write the projection and the plot; return the paths."""
    import numpy as np

    weights, written = found.components_.T, []
    if write is not None:
        if write.suffix == ".csv":
            columns = ["feature", *(f"w{k + 1}" for k in range(weights.shape[1]))]
            rows = zip(samples.features, *weights.T.tolist(), strict=True)
            text = lib.csv_table(columns, (dict(zip(columns, row, strict=True)) for row in rows))
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
