"""``backends``, ``show`` and ``check-backend``: what there is, and whether it keeps the contract."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from sdpfeas.backends.registry import Solver, backends, describe, find_solver
from sdpfeas.cards.options import describe_options
from sdpfeas.cli.console import AsJson, err, out, print_json, table
from sdpfeas.cli.inputs import describe_problem, is_problem_file, load_problem
from sdpfeas.errors import CardError, SdpfeasError
from sdpfeas.families.problem_cards import ProblemCard, find_problem
from sdpfeas.problem.problem import FeasibilityProblem

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("backends", epilog="Example: sdpfeas backends --json")(list_backends)
    app.command(
        "show",
        epilog="Examples: sdpfeas show problem.npz · sdpfeas show admm · sdpfeas show solvers/paper.toml",
    )(show)
    app.command(
        "check-backend",
        epilog="Examples: sdpfeas check-backend clarabel · sdpfeas check-backend solvers/mine.py",
    )(check_backend)


def list_backends(as_json: AsJson = False) -> None:
    """List the backends: whether each can run here, and what it takes."""
    known = backends()
    if as_json:
        print_json(known)
        return
    shown = table("backend", "version", "native sets", "warm start", "callback", "about")
    for info in known.values():
        about = info.summary if info.available else f"[yellow]unavailable: {escape(info.reason)}[/]"
        name = f"[bold]{info.name}[/]" if info.available else f"[dim]{info.name}[/]"
        shown.add_row(
            name,
            info.version,
            ", ".join(info.sets),
            "yes" if info.warm_starts else "",
            "yes" if info.calls_back else "",
            about,
        )
    out().print(shown)


def show(
    what: Annotated[str, typer.Argument(help="A problem file, a card, a solver or a backend.")],
    as_json: AsJson = False,
) -> None:
    """Show a problem, a card or a solver."""
    if is_problem_file(what):
        _show_problem(what, as_json)
        return
    try:
        solver = find_solver(what)
    except SdpfeasError as no_solver:
        try:
            card = find_problem(what)
        except SdpfeasError as no_problem:
            if not Path(what).is_file():
                raise CardError(f"{no_solver}; {no_problem}") from None
            raise (no_problem if _is_problem_card(Path(what)) else no_solver) from None
        _show_card(card, as_json)
        return
    _show_solver(solver, as_json)


def _is_problem_card(path: Path) -> bool:
    text = path.read_text(encoding="utf-8", errors="replace")
    return re.search(r"^\s*(family|file)\s*=", text, re.MULTILINE) is not None


def _show_problem(what: str, as_json: bool) -> None:
    problem = load_problem(what).problem
    if as_json:
        print_json({"problem": what, **describe_problem(problem)})
        return
    out().print(f"[bold]{escape(what)}[/]")
    out().print(escape(repr(problem)))
    out().print(f"content hash: {problem.content_hash}")


def _show_card(card: ProblemCard, as_json: bool) -> None:
    members = list(card.members())
    family = None if card.family is None else card.family.name
    if as_json:
        labels = [member.label for member in members]
        print_json({"problem": card.name, "family": family, "members": labels, "card": card.text})
        return
    out().print(f"[bold]{escape(card.name)}[/]: {escape(card.description)}".rstrip(": "))
    out().print(f"family {family}" if family else f"file {card.file}")
    if len(members) == 1:
        built = members[0].build(0)
        if isinstance(built, FeasibilityProblem):
            out().print(escape(repr(built)))
        else:
            out().print(f"indexed by delta: {escape(built.monotone)}")
            out().print(escape(repr(built.at(built.unit))))
    else:
        out().print(f"{len(members)} members: {escape(', '.join(m.label for m in members))}")
    out().print(escape(card.text.rstrip()), style="dim")


def _show_solver(solver: Solver, as_json: bool) -> None:
    info = describe(solver.kind)
    known = describe_options(solver.kind.Options)
    values = {**{name: default for name, (_, default) in known.items()}, **solver.options}
    if as_json:
        print_json({"solver": solver.name, "backend": info, "options": values, "card": solver.text or None})
        return
    out().print(f"[bold]{solver.name}[/]: backend {info.name} {info.version}".rstrip())
    out().print(escape(info.summary))
    if not info.available:
        out().print(f"[yellow]unavailable: {escape(info.reason)}[/]")
    out().print(f"native sets: {', '.join(info.sets)}")
    if known:
        shown = table("option", "value", "type")
        for name, (kind, _) in known.items():
            mark = " (card)" if name in solver.options else ""
            shown.add_row(name, escape(f"{values[name]!r}{mark}"), escape(kind))
        out().print(shown)


def check_backend(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="A backend, a card or a drop-in file.")],
    seed: Annotated[int, typer.Option(help="Seed of the planted problems.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Run the conformance suite on a backend; exit code 1 if it does not conform."""
    from sdpfeas import testing

    solver = find_solver(name)
    with err().status(f"checking {solver.name} …"):
        findings: list[Any] = testing.check_backend(solver, seed=seed)
    passed = all(finding.passed for finding in findings)
    if as_json:
        print_json({"backend": solver.name, "conforms": passed, "findings": findings})
    else:
        shown = table("check", "", "detail")
        for finding in findings:
            mark = "[green]pass[/]" if finding.passed else "[bold red]FAIL[/]"
            shown.add_row(escape(finding.name), mark, escape(finding.detail))
        out().print(shown)
        out().print(f"{solver.name} conforms" if passed else f"[bold red]{solver.name} does not conform[/]")
    if not passed:
        raise typer.Exit(1)
