"""Commands that list and show backends, problems and families, and ``check-backend``."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from sdpfeas.cli import library as lib
from sdpfeas.cli.console import AsJson, complete_names, complete_solvers, out, print_json, spinner, table
from sdpfeas.cli.inputs import is_problem_file, load_member, named_problem, named_solver
from sdpfeas.errors import CardError, SdpfeasError
from sdpfeas.escaping import escape_terminal

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("backends", epilog="Example: sdpfeas backends --json")(list_backends)
    app.command("problems", epilog="Example: sdpfeas problems --json")(list_problems)
    app.command("families", epilog="Example: sdpfeas families")(list_families)
    app.command(
        "show",
        epilog="Examples: sdpfeas show problem.npz · sdpfeas show admm · sdpfeas show solvers/paper.toml",
    )(show)
    app.command(
        "check-backend",
        epilog="Examples: sdpfeas check-backend clarabel · sdpfeas check-backend solvers/mine.py",
    )(check_backend)


def list_backends(as_json: AsJson = False) -> None:
    """List the backends with their availability and the sets they support."""
    known = lib.backends()
    if as_json:
        print_json(known)
        return
    every = {name for info in known.values() for name in info.sets}
    shown = table("backend", "version", "about")
    for info in known.values():
        about, name = escape_terminal(info.summary), escape_terminal(info.name)
        if not info.available:
            about = f"[yellow]unavailable: {escape_terminal(info.reason)}[/]"
        takes = [f"native sets: {_sets(info.sets, every)}"]
        takes += ["warm start"] * info.warm_starts + ["callback"] * info.calls_back
        shown.add_row(
            f"[bold]{name}[/]" if info.available else f"[dim]{name}[/]",
            escape_terminal(info.version),
            f"{about}\n[dim]{escape_terminal('; '.join(takes))}[/]",
        )
    out().print(shown)


def _sets(native: Collection[str], every: Collection[str]) -> str:
    """List the supported sets, abbreviated if at most one is missing."""
    lacks = sorted(set(every) - set(native))
    if len(lacks) > 1 or not native:
        return ", ".join(native)
    return f"all but {lacks[0]}" if lacks else "all"


def list_problems(as_json: AsJson = False) -> None:
    """List the problem cards that ship with the library and those in ./problems."""
    cards = [lib.find_problem(name) for name in lib.problem_names()]
    if as_json:
        print_json({card.name: {"family": _family(card), "about": card.description} for card in cards})
        return
    shown = table("problem", "family or file", "about")
    for card in cards:
        made = _family(card) or str(card.file)
        shown.add_row(
            f"[bold]{escape_terminal(card.name)}[/]", escape_terminal(made), escape_terminal(card.description)
        )
    out().print(shown)


def _family(card: lib.ProblemCard) -> str | None:
    return None if card.family is None else card.family.name


def list_families(as_json: AsJson = False) -> None:
    """List the families of problems with their parameters."""
    found = {name: lib.find_family(name) for name in lib.family_names()}
    options = {name: lib.describe_options(kind.Options) for name, kind in found.items()}
    if as_json:
        print_json({n: {k: str(kind) for k, (kind, _) in known.items()} for n, known in options.items()})
        return
    shown = table("family", "parameters", "about")
    for name, kind in found.items():
        about = re.sub(r":\w+:(?=`)|`", "", (kind.__doc__ or "").strip().partition("\n")[0])
        written = ", ".join(f"{key} = {value!r}" for key, (_, value) in options[name].items())
        shown.add_row(f"[bold]{escape_terminal(name)}[/]", escape_terminal(written), escape_terminal(about))
    out().print(shown)


def show(
    what: Annotated[
        str,
        typer.Argument(help="A problem file, a card, a solver or a backend.", autocompletion=complete_names),
    ],
    as_json: AsJson = False,
) -> None:
    """Show a problem, a card or a solver."""
    if is_problem_file(what):
        _show_problem(what, as_json)
        return
    try:
        solver = named_solver(what)
    except SdpfeasError as no_solver:
        try:
            card = named_problem(what)
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
    problem, _ = load_member(what)
    if as_json:
        print_json({"problem": what, **_describe_problem(problem)})
        return
    out().print(f"[bold]{escape_terminal(what)}[/]")
    out().print(escape_terminal(repr(problem), lines=True))
    out().print(f"content hash: {problem.content_hash}")


def _describe_problem(problem: lib.FeasibilityProblem) -> dict[str, Any]:
    """Summarise a problem as plain data."""
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


def _show_card(card: lib.ProblemCard, as_json: bool) -> None:
    members = list(card.members())
    family = None if card.family is None else card.family.name
    if as_json:
        labels = [member.label for member in members]
        print_json({"problem": card.name, "family": family, "members": labels, "card": card.text})
        return
    out().print(f"[bold]{escape_terminal(card.name)}[/]: {escape_terminal(card.description)}".rstrip(": "))
    out().print(escape_terminal(f"family {family}" if family else f"file {card.file}"))
    if len(members) == 1:
        built = members[0].build(0)
        if isinstance(built, lib.FeasibilityProblem):
            out().print(escape_terminal(repr(built), lines=True))
        else:
            out().print(f"indexed by delta: {escape_terminal(built.monotone)}")
            out().print(escape_terminal(repr(built.at(built.unit)), lines=True))
    else:
        out().print(f"{len(members)} members: {escape_terminal(', '.join(m.label for m in members))}")
    out().print(escape_terminal(card.text.rstrip(), lines=True), style="dim")


def _show_solver(solver: lib.Solver, as_json: bool) -> None:
    info = lib.describe(solver.kind)
    known = lib.describe_options(solver.kind.Options)
    values = {**{name: default for name, (_, default) in known.items()}, **solver.options}
    if as_json:
        print_json({"solver": solver.name, "backend": info, "options": values, "card": solver.text or None})
        return
    backend = escape_terminal(f"{info.name} {info.version}".rstrip())
    out().print(f"[bold]{escape_terminal(solver.name)}[/]: backend {backend}")
    out().print(escape_terminal(info.summary))
    if not info.available:
        out().print(f"[yellow]unavailable: {escape_terminal(info.reason)}[/]")
    out().print(escape_terminal(f"native sets: {', '.join(info.sets)}"))
    if known:
        shown = table("option", "value", "type")
        for name, (kind, _) in known.items():
            mark = " (card)" if name in solver.options else ""
            shown.add_row(
                escape_terminal(name), escape_terminal(f"{values[name]!r}{mark}"), escape_terminal(kind)
            )
        out().print(shown)


def check_backend(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME|FILE",
            help="A backend, a card or a drop-in file.",
            autocompletion=complete_solvers,
        ),
    ],
    seed: Annotated[int, typer.Option(help="Seed of the planted problems.")] = 0,
    problem: Annotated[
        str | None, typer.Option(help="Write this problem of the suite, CHECK/PROBLEM, and run nothing.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File for --problem.")] = Path("problem.npz"),
    as_json: AsJson = False,
) -> None:
    """Run the conformance suite on a backend; exit with 1 if a check fails."""
    if problem is not None:
        lib.conformance_problem(problem, seed).save(output)
        out().print(f"written: {escape_terminal(output)}; next: sdpfeas solve {escape_terminal(output)}")
        return
    solver = named_solver(name)
    with spinner(f"checking {solver.name} …"):
        findings: list[Any] = lib.check_backend(solver, seed=seed)
    passed = all(finding.passed for finding in findings)
    if as_json:
        print_json({"backend": solver.name, "conforms": passed, "findings": findings})
    else:
        shown = table("check", "", "detail")
        for finding in findings:
            mark = "[green]pass[/]" if finding.passed else "[bold red]FAIL[/]"
            shown.add_row(escape_terminal(finding.name), mark, escape_terminal(finding.detail))
        out().print(shown)
        name = escape_terminal(solver.name)
        out().print(f"{name} conforms" if passed else f"[bold red]{name} does not conform[/]")
    if not passed:
        raise typer.Exit(1)
