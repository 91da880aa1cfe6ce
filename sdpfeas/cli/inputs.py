"""From what a user types to a problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import typer

from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.cards.toml import locate_error
from sdpfeas.cli.console import busy, out, print_json
from sdpfeas.drivers.optimum import optimum
from sdpfeas.errors import BackendError, CardError, OptionError, ProblemError
from sdpfeas.escaping import escape_terminal
from sdpfeas.families.problem_cards import ProblemCard, find_problem
from sdpfeas.io import PROBLEM_FILES, read_problem
from sdpfeas.problem.problem import FeasibilityProblem


@dataclass(frozen=True)
class Loaded:
    """A problem and what is worth saying about where it came from."""

    problem: FeasibilityProblem
    note: str = ""


def is_problem_file(spec: str) -> bool:
    """Whether a problem is named by a file that holds it, rather than by a card."""
    return spec.endswith(PROBLEM_FILES)


def load_member(
    spec: str, *, side: str = "primal", seed: int = 0, member: dict[str, Any] | None = None
) -> tuple[Any, str]:
    """The one problem or family a file or card stands for.

    ``spec``: a file, a card, or the name of a card. ``side``: for files with two sides, the one to read.
    ``seed``: seed, for what is drawn at random. ``member``: values of the sweep that pick one member of a
    card that has several.
    """
    wanted = member or {}
    card = named_problem(spec)
    if is_problem_file(spec):
        card = replace(card, side=_side(side))
    sources = [
        source
        for source in card.members()
        if all(str(source.parameters.get(key)) == str(value) for key, value in wanted.items())
    ]
    if not sources:
        raise ProblemError(f"{spec} has no member with {wanted}")
    if len(sources) > 1:
        labels = ", ".join(source.label for source in sources[:6])
        more = " …" if len(sources) > 6 else ""
        raise ProblemError(
            f"{spec} stands for {len(sources)} problems: {labels}{more}; pick one with --member"
        )
    return sources[0].build(seed), sources[0].label


def named_problem(spec: str) -> ProblemCard:
    """As :func:`find_problem`; what is wrong with a card is said with file and line."""
    try:
        return find_problem(spec)
    except CardError as error:
        raise CardError(locate_error(error, spec)) from None


def named_solver(spec: str) -> Solver:
    """As :func:`find_solver`; what is wrong with a card is said with file and line."""
    try:
        return find_solver(spec)
    except (BackendError, CardError) as error:
        raise CardError(locate_error(error, spec)) from None


def _side(text: str) -> Literal["primal", "lmi"]:
    if text == "primal":
        return "primal"
    if text == "lmi":
        return "lmi"
    raise OptionError(f"--side is primal or lmi, got {text!r}")


def load_problem(
    spec: str,
    *,
    side: str = "primal",
    seed: int = 0,
    member: dict[str, Any] | None = None,
    delta: float | None = None,
) -> Loaded:
    """As :func:`load_member`, with a family taken at ``delta``."""
    built, label = load_member(spec, side=side, seed=seed, member=member)
    if isinstance(built, FeasibilityProblem):
        return Loaded(built)
    if delta is None:
        raise ProblemError(f"{label} is a family of problems; say which one with --delta")
    return Loaded(built.at(delta), f"{label} at delta = {delta:g}")


def describe_problem(problem: FeasibilityProblem) -> dict[str, Any]:
    """A problem in plain data."""
    equal = int(problem.equality.sum())
    return {
        "blocks": [
            {"name": problem.block_name(b), **block.spec(), "rows": None if rows.empty else rows.kind}
            for b, block, rows in problem.blocks()
        ],
        "rows": problem.m,
        "equality_rows": equal,
        "inequality_rows": problem.m - equal,
        "content_hash": problem.content_hash,
    }


# ------------------------------------------------------------
# ``sdpfeas solve --objective``: the optimal value of a file's objective.

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
        out().print(f"[bold]{escape_terminal(Path(spec).name)}[/]: {escape_terminal(found.reason)}")
    else:
        ends = f"{found.lower:.10g} <= {found.sense} <= {found.upper:.10g}"
        ends += "" if found.reading == "stored" else f", numbers as {found.reading}"
        out().print(f"[bold]{escape_terminal(Path(spec).name)}[/]: {ends}")
        out().print(f"{found.proved_ends}; {escape_terminal(found.reason)}")
    if undecided is not None and not found.converged:
        raise typer.Exit(undecided)
