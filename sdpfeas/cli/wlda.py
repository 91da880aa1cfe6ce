"""``wlda``: worst-case linear discriminant analysis of a table, with a proven bracket."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from sdpfeas.cli import completion
from sdpfeas.cli import library as lib
from sdpfeas.cli.console import AsJson, busy, out, print_json
from sdpfeas.errors import OptionError
from sdpfeas.escaping import escape_terminal

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "wlda",
        epilog="Examples: sdpfeas wlda iris.csv --label species -r 2 · sdpfeas wlda data.npz --write W.npz "
        "--plot projected.png",
    )(wlda)


def wlda(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="A .csv, .npz (X and y) or .parquet file.")],
    label: Annotated[
        str | None, typer.Option(help="Column of the labels: name or number; the last one.")
    ] = None,
    components: Annotated[int | None, typer.Option("--components", "-r", help="Final dimension.")] = None,
    solver: Annotated[
        str,
        typer.Option(
            "--solver", "-b", help="A backend, a card or a drop-in file.", autocompletion=completion.solvers
        ),
    ] = "auto",
    tol: Annotated[float, typer.Option(help="Relative width of the bracket.")] = 1e-3,
    time_limit: Annotated[float | None, typer.Option("--time-limit", "-t", help="Seconds.")] = None,
    standardize: Annotated[
        bool, typer.Option("--standardize", help="Scale every feature to unit variance.")
    ] = False,
    shrinkage: Annotated[
        str | None, typer.Option(help="Shrink the class scatters: a share, or auto.")
    ] = None,
    refine: Annotated[
        bool, typer.Option("--refine", help="Improve the projection itself after rounding.")
    ] = False,
    write: Annotated[
        Path | None, typer.Option(help="Write the projection W (features × components) as .npz or .csv.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Write a picture of the projected samples.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the projection that separates the two closest classes best, and prove how good it is."""
    lib.check_outputs(write, plot)
    samples = lib.read_samples(data, label)
    X = lib.standardized(samples.X) if standardize else samples.X
    options = {"solver": solver, "tol": tol, "shrinkage": _share(shrinkage), "time_limit": time_limit}
    with busy("searching …"):
        found, notes = lib.fitted(X, samples.y, n_components=components, refine=refine, **options)
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
        "written": lib.write_fit(found, samples, X, write, plot),
    }
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    o = out()
    o.print(
        f"{report['samples']} samples, {report['features']} features, {report['classes']} classes "
        f"-> {report['components']} component(s)"
    )
    proof = "proven" if report["proven"] else "[yellow]not proven[/]"
    o.print(f"[bold]{report['lower']:.8g} <= delta* <= {report['upper']:.8g}[/] ({proof})")
    o.print(f"ratio of the projection: {report['ratio']:.8g}")
    pair = " and ".join(escape_terminal(name) for name in report["worst_pair"])
    o.print(f"closest pair: {pair}; widest class: {escape_terminal(report['worst_class'])}")
    o.print(f"{report['solves']} solve(s), {report['time']:.3g} s; {escape_terminal(report['reason'])}")
    for note in report["notes"]:
        o.print(f"[yellow]note:[/] {escape_terminal(note)}")
    for path in report["written"]:
        o.print(f"written: {escape_terminal(path)}")


def _share(text: str | None) -> float | str | None:
    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"--shrinkage is a share between 0 and 1, or auto; got {text!r}") from None
