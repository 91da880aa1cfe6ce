"""Commands that list and show backends, problems and families, and ``check-backend``."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any

import typer

from sdpfeas.cli import library as lib
from sdpfeas.cli.console import (
    AsJson,
    complete_names,
    complete_solvers,
    marked,
    out,
    print_json,
    print_table,
    say,
    spinner,
)
from sdpfeas.cli.inputs import is_problem_file, load_member, named_problem, named_solver
from sdpfeas.errors import CardError, SdpfeasError
from sdpfeas.escaping import escape_terminal


def list_backends(as_json: AsJson = False) -> None:
    """List the backends with their availability and the sets they support.

    Examples:
    sdpfeas backends --json
    """
    known = lib.backends()
    if as_json:
        print_json(known)
        return
    every = {name for info in known.values() for name in info.sets}
    rows = []
    for info in known.values():
        takes = [f"native sets: {_sets(info.sets, every)}"]
        takes += ["warm start"] * info.warm_starts + ["callback"] * info.calls_back
        name = marked("[bold]{}[/]" if info.available else "[dim]{}[/]", info.name)
        about = "{}" if info.available else "[yellow]unavailable: {}[/]"
        summary = info.summary if info.available else info.reason
        rows.append([name, info.version, marked(f"{about}\n[dim]{{}}[/]", summary, "; ".join(takes))])
    print_table(["backend", "version", "about"], rows)


def _sets(native: Collection[str], every: Collection[str]) -> str:
    """List the supported sets, abbreviated if at most one is missing."""
    lacks = sorted(set(every) - set(native))
    if len(lacks) > 1 or not native:
        return ", ".join(native)
    return f"all but {lacks[0]}" if lacks else "all"


def list_problems(as_json: AsJson = False) -> None:
    """List the problem cards that ship with the library and those in ./problems.

    Examples:
    sdpfeas problems --json
    """
    cards = [lib.find_problem(name) for name in lib.problem_names()]
    if as_json:
        print_json({card.name: {"family": _family(card), "about": card.description} for card in cards})
        return
    rows = [
        [marked("[bold]{}[/]", card.name), _family(card) or card.file, card.description] for card in cards
    ]
    print_table(["problem", "family or file", "about"], rows)


def _family(card: lib.ProblemCard) -> str | None:
    return None if card.family is None else card.family.name


def list_families(as_json: AsJson = False) -> None:
    """List the families of problems with their parameters.

    Examples:
    sdpfeas families
    """
    found = {name: lib.find_family(name) for name in lib.family_names()}
    options = {name: lib.describe_options(kind.Options) for name, kind in found.items()}
    if as_json:
        print_json({n: {k: str(kind) for k, (kind, _) in known.items()} for n, known in options.items()})
        return
    rows = []
    for name, kind in found.items():
        about = re.sub(r":\w+:(?=`)|`", "", (kind.__doc__ or "").strip().partition("\n")[0])
        written = ", ".join(f"{key} = {value!r}" for key, (_, value) in options[name].items())
        rows.append([marked("[bold]{}[/]", name), written, about])
    print_table(["family", "parameters", "about"], rows)


def show(
    what: Annotated[
        str,
        typer.Argument(help="A problem file, a card, a solver or a backend.", autocompletion=complete_names),
    ],
    as_json: AsJson = False,
) -> None:
    """Show a problem, a card or a solver.

    Examples:
    sdpfeas show problem.npz
    sdpfeas show admm
    sdpfeas show solvers/paper.toml
    """
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
    say("[bold]{}[/]", what)
    out().print(escape_terminal(repr(problem), lines=True))
    say("content hash: {}", problem.content_hash)


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
    say("{}", f"family {family}" if family else f"file {card.file}")
    if len(members) == 1:
        built = members[0].build(0)
        if isinstance(built, lib.FeasibilityProblem):
            out().print(escape_terminal(repr(built), lines=True))
        else:
            say("indexed by delta: {}", built.monotone)
            out().print(escape_terminal(repr(built.at(built.unit)), lines=True))
    else:
        say("{} members: {}", len(members), ", ".join(m.label for m in members))
    out().print(escape_terminal(card.text.rstrip(), lines=True), style="dim")


def _show_solver(solver: lib.Solver, as_json: bool) -> None:
    info = lib.describe(solver.kind)
    known = lib.describe_options(solver.kind.Options)
    values = {**{name: default for name, (_, default) in known.items()}, **solver.options}
    if as_json:
        print_json({"solver": solver.name, "backend": info, "options": values, "card": solver.text or None})
        return
    say("[bold]{}[/]: backend {}", solver.name, f"{info.name} {info.version}".rstrip())
    say("{}", info.summary)
    if not info.available:
        say("[yellow]unavailable: {}[/]", info.reason)
    say("native sets: {}", ", ".join(info.sets))
    if known:
        mark = dict.fromkeys(solver.options, " (card)")
        rows = [(name, f"{values[name]!r}{mark.get(name, '')}", kind) for name, (kind, _) in known.items()]
        print_table(["option", "value", "type"], rows)


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
    """Run the conformance suite on a backend; exit with 1 if a check fails.

    Examples:
    sdpfeas check-backend clarabel
    sdpfeas check-backend solvers/mine.py
    """
    if problem is not None:
        lib.conformance_problem(problem, seed).save(output)
        say("written: {}; next: sdpfeas solve {}", output, output)
        return
    solver = named_solver(name)
    with spinner(f"checking {solver.name} …"):
        findings: list[Any] = lib.check_backend(solver, seed=seed)
    passed = all(finding.passed for finding in findings)
    if as_json:
        print_json({"backend": solver.name, "conforms": passed, "findings": findings})
    else:
        marks = {True: marked("[green]pass[/]"), False: marked("[bold red]FAIL[/]")}
        rows = [(finding.name, marks[finding.passed], finding.detail) for finding in findings]
        print_table(["check", "", "detail"], rows)
        say("{} conforms" if passed else "[bold red]{} does not conform[/]", solver.name)
    if not passed:
        raise typer.Exit(1)
