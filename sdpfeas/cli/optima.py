"""``sdpfeas solve --objective``: the optimal value of a file's objective."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from sdpfeas.backends.registry import Solver
from sdpfeas.cli.console import busy, out, print_json
from sdpfeas.cli.inputs import is_problem_file
from sdpfeas.errors import OptionError
from sdpfeas.harmless import in_terminal
from sdpfeas.io.formats import read_problem
from sdpfeas.search.optimum import optimum

__all__ = ["bracket_value"]

#: What ``--set`` means to the search; the rest is the backend's.
SEARCH_OPTIONS = ("tol", "absolute_tol")


def bracket_value(
    spec: str,
    side: Any,
    solver: Solver,
    options: dict[str, Any],
    time_limit: float | None,
    as_json: bool,
    undecided: int | None,
    reading: str = "stored",
) -> None:
    """Print the proven bracket of the optimal value; end with a code where it is wider than asked for."""
    if not is_problem_file(spec):
        raise OptionError("--objective goes with a file that holds one, such as p.dat-s or p.mat")
    problem, objective = read_problem(Path(spec), side)
    if objective is None:
        raise OptionError(f"{spec} holds no objective; .dat-s and .mat files do")
    search = {name: options.pop(name) for name in SEARCH_OPTIONS if name in options}
    with busy(f"{solver.name} on {Path(spec).name} …"):
        found = optimum(
            problem,
            objective,
            solver=solver,
            time_limit=time_limit,
            reading=reading,
            options=options,
            **search,
        )
    if as_json:
        facts: dict[str, Any] = {"lower": found.lower, "upper": found.upper, "converged": found.converged}
        facts["reading"] = str(found.reading)
        facts["infeasible"] = found.infeasible is not None
        print_json({"problem": spec, "sense": found.sense, **facts, "reason": found.reason})
    elif found.infeasible is not None:
        out().print(f"[bold]{in_terminal(Path(spec).name)}[/]: {in_terminal(found.reason)}")
    else:
        ends = f"{found.lower:.10g} <= {found.sense} <= {found.upper:.10g}"
        ends += "" if found.reading == "stored" else f", numbers as {found.reading}"
        out().print(f"[bold]{in_terminal(Path(spec).name)}[/]: {ends}")
        out().print(f"both ends are proved; {in_terminal(found.reason)}")
    if undecided is not None and not found.converged:
        raise typer.Exit(undecided)
