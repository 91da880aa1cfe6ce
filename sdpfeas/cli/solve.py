"""``solve`` and ``verify``: get an answer, and check one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from sdpfeas.cli import completion
from sdpfeas.cli import library as lib
from sdpfeas.cli.console import (
    EXIT_CODES,
    AsJson,
    ExitCode,
    OptionPairs,
    busy,
    out,
    parse_pairs,
    print_json,
    table,
    verdict_text,
)
from sdpfeas.errors import ClaimError, OptionError
from sdpfeas.escaping import escape_terminal
from sdpfeas.files import writing

Problem = Annotated[
    str,
    typer.Argument(
        metavar="FILE|CARD",
        help="A problem: .npz, .dat-s(.gz), .mat(.gz), .cbf(.gz), a card, or a card's name.",
        autocompletion=completion.problems,
    ),
]
Side = Annotated[str, typer.Option(help="Side of an SDPA or SeDuMi file to read: primal or lmi.")]
Seed = Annotated[int, typer.Option(help="Seed, for problems drawn at random.")]
Delta = Annotated[float | None, typer.Option(help="Value of delta, for a family indexed by one.")]
Reading = Annotated[
    str,
    typer.Option(
        help="Which numbers are asked about: the binary64 data (stored), or the decimals and fractions they "
        "were rounded from (written)."
    ),
]
Member = Annotated[
    list[str] | None,
    typer.Option(
        "--member", metavar="NAME=VALUE", help="Pick one problem of a card with a sweep; repeatable."
    ),
]


#: What ``--set`` means to the search, where the problem is a family; the rest is the backend's.
SEARCH_OPTIONS = ("tol", "absolute_tol", "lower", "upper", "mode", "refine")

#: By so much, relatively, a bracket may be proved wider than it is stored: machines round differently.
ROUNDING = 1e-9


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(
        "solve",
        epilog="Examples: sdpfeas solve p.npz · sdpfeas solve p.dat-s --side lmi --solver clarabel "
        "--exit-code · sdpfeas solve p.npz --solver dual-lbfgs --set form=lifted -o answer.npz",
    )(solve)
    app.command("verify", epilog="Example: sdpfeas verify p.npz answer.npz --rigorous")(verify)


def solve(
    problem: Problem,
    solver: Annotated[
        str,
        typer.Option(
            "--solver", "-b", help="A backend, a card or a drop-in file.", autocompletion=completion.solvers
        ),
    ] = "auto",
    time_limit: Annotated[float | None, typer.Option("--time-limit", "-t", help="Seconds.")] = None,
    options: OptionPairs = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the answer to this file.")
    ] = None,
    rigorous: Annotated[bool, typer.Option("--rigorous", help="Accept no numeric verdict.")] = False,
    reading: Reading = "stored",
    isolate: Annotated[
        bool,
        typer.Option("--isolate", help="Run the backend in a child process; the time limit is hard then."),
    ] = False,
    memory_limit: Annotated[
        str | None, typer.Option("--memory-limit", help="With --isolate, memory of the child, such as 4G.")
    ] = None,
    objective: Annotated[
        bool, typer.Option("--objective", help="Bracket the optimal value of the file's objective.")
    ] = False,
    tol: Annotated[
        float | None,
        typer.Option("--tol", help="Relative width of a bracket."),
    ] = None,
    side: Side = "primal",
    seed: Seed = 0,
    delta: Delta = None,
    member: Member = None,
    as_json: AsJson = False,
    exit_code: ExitCode = False,
) -> None:
    """Answer a problem: feasible with a point, infeasible with a certificate, or undecided.

    For a family indexed by delta the answer is a bracket of the largest feasible delta: by one program where
    the solver is auto and the family has one, else by bisection.
    """
    if memory_limit is not None and not isolate:
        raise OptionError("--memory-limit goes with --isolate: only a child process can be held to it")
    if time_limit is not None and not time_limit > 0:
        raise OptionError(f"--time-limit must be positive, got {time_limit:g}")
    chosen = lib.named_solver(solver)
    if objective:
        undecided = EXIT_CODES[lib.Verdict.UNDECIDED] if exit_code else None
        settings = parse_pairs(options) | ({} if tol is None else {"tol": tol})
        lib.bracket_value(problem, side, chosen, settings, time_limit, as_json, undecided, reading)
        return
    built, label = lib.load_member(problem, side=side, seed=seed, member=parse_pairs(member))
    if not isinstance(built, lib.FeasibilityProblem):
        if delta is None:
            settings = parse_pairs(options) | ({} if tol is None else {"tol": tol})
            _bisect(built, label, chosen, settings, time_limit, output, as_json, exit_code)
            return
        built = built.at(delta)
    if tol is not None:
        raise OptionError("--tol is the width of a bracket: it goes with a family, or with --objective")
    with busy(f"{chosen.name} on {label} …"):
        result = lib.solve(
            built,
            chosen,
            time_limit=time_limit,
            rigorous=rigorous,
            reading=reading,
            isolate=isolate,
            memory_limit=memory_limit,
            options=parse_pairs(options),
        )
    if output is not None:
        lib.save_result(result, output)
    if as_json:
        print_json({"problem": label, **describe_result(result)})
    else:
        _print_explained(result)
        if output is not None:
            out().print(f"written to {escape_terminal(output)}")
    if exit_code:
        raise typer.Exit(EXIT_CODES[result.verdict])


def _bisect(
    family: lib.ParametricFamily,
    label: str,
    solver: lib.Solver,
    options: dict[str, Any],
    time_limit: float | None,
    output: Path | None,
    as_json: bool,
    exit_code: bool,
) -> None:
    with busy(f"{solver.name} on {label} …"):
        search = {name: options.pop(name) for name in SEARCH_OPTIONS if name in options}
        bracket = lib.bisect(family, solver, time_limit=time_limit, options=options, **search)
    if output is not None:
        ends = (bracket.lower, bracket.point), (bracket.upper, bracket.certificate)
        packed = lib.pack_bracket(lib.SavedBracket.of(family, *ends, backend=solver.kind.name))
        with writing(output):
            output.write_bytes(packed)
    steps = len(bracket.history)
    if as_json:
        facts = {"lower": bracket.lower, "upper": bracket.upper, "converged": bracket.converged}
        print_json({"problem": label, **facts, "reason": bracket.reason, "steps": steps})
    else:
        out().print(
            f"[bold]{escape_terminal(label)}[/]: {bracket.lower:.8g} <= delta* <= {bracket.upper:.8g}"
        )
        asked = f"{steps} answers from {escape_terminal(solver.name)}" if steps else "no solver asked"
        out().print(f"{asked}: {escape_terminal(bracket.reason)}")
        if output is not None:
            out().print(f"written to {escape_terminal(output)}")
    if exit_code and not bracket.converged:
        raise typer.Exit(EXIT_CODES[lib.Verdict.UNDECIDED])


def verify(
    problem: Problem,
    result: Annotated[
        Path,
        typer.Argument(
            metavar="RESULT",
            help="A file written by solve -o, or a study written by compare --keep-evidence.",
        ),
    ],
    rigorous: Annotated[bool, typer.Option("--rigorous", help="Accept no numeric verdict.")] = False,
    reading: Reading = "stored",
    exact: Annotated[
        bool, typer.Option("--exact", help="Accept only a proof in rational arithmetic.")
    ] = False,
    side: Side = "primal",
    seed: Seed = 0,
    delta: Delta = None,
    member: Member = None,
    as_json: AsJson = False,
    exit_code: ExitCode = False,
) -> None:
    """Check a stored answer against the problem, from its evidence alone.

    With a study, everything it holds about the problem is checked; exit code 1 if a verdict does not hold. Of
    a family without --delta, brackets are checked: both ends, rigorously.
    """
    asked, label = lib.load_member(problem, side=side, seed=seed, member=parse_pairs(member))
    if not isinstance(asked, lib.FeasibilityProblem):
        if delta is None:
            _verify_brackets(asked, label, result, as_json)
            return
        asked = asked.at(delta)
    if result.suffix == ".db":
        _verify_study(asked, result, rigorous, reading, as_json)
        return
    saved = lib.load_result(result)
    if saved.problem_hash != asked.content_hash:
        raise ClaimError(f"{result} answers another problem: its content hash differs from that of {problem}")
    if exact:
        check = lib.verify(asked, saved.claim, exact=True, reading=reading)
    else:
        check = lib.decide(asked, saved.claim, rigorous=rigorous, reading=reading)
    if as_json:
        print_json(
            {"problem": problem, "written_as": saved.verdict, "by": saved.backend, **describe_check(check)}
        )
    else:
        _print_explained(check)
        if check.verdict != saved.verdict:
            about = (
                "" if saved.reading == reading else f" about the numbers as {escape_terminal(saved.reading)}"
            )
            out().print(
                f"[yellow]the file says {escape_terminal(saved.verdict)}{about}; that did not hold[/]"
            )
    if exit_code:
        raise typer.Exit(EXIT_CODES[check.verdict])


def kept_evidence(asked: lib.FeasibilityProblem | lib.ParametricFamily, path: Path) -> list[dict[str, Any]]:
    """All that a study holds about a problem."""
    with lib.Store(path, readonly=True) as study:
        rows = study.evidence_about(lib.problem_key(asked))
    if not rows:
        raise ClaimError(f"{path} holds no evidence about this problem; was it run with --keep-evidence?")
    return rows


def _verify_study(
    asked: lib.FeasibilityProblem, path: Path, rigorous: bool, reading: str, as_json: bool
) -> None:
    found = []
    for row in kept_evidence(asked, path):
        check = lib.decide(asked, lib.unpack_result(row["data"]).claim, rigorous=rigorous, reading=reading)
        found.append(
            {
                "solver": row["solver"],
                "seed": row["seed"],
                "stored": row["verdict"],
                "verdict": check.verdict.value,
                "proof": None if check.proof is None else check.proof.value,
                "holds": check.verdict == row["verdict"],
            }
        )
    if as_json:
        print_json(found)
    else:
        shown = table("solver", "seed", "stored", "verified", "proof", "")
        for entry in found:
            mark = "" if entry["holds"] else "[bold red]does not hold[/]"
            cells = (entry["solver"], entry["seed"], entry["stored"], entry["verdict"], entry["proof"] or "")
            shown.add_row(*map(escape_terminal, cells), mark)
        out().print(shown)
    if not all(entry["holds"] for entry in found):
        raise typer.Exit(1)


def _verify_brackets(family: lib.ParametricFamily, label: str, path: Path, as_json: bool) -> None:
    found = []
    if path.suffix == ".db":
        for row in kept_evidence(family, path):
            stored = (row["lower"], row["upper"])
            low, high = lib.unpack_bracket(row["data"]).verified(family)
            found.append({"solver": row["solver"], "seed": row["seed"], **_ends(stored, (low, high))})
    else:
        saved = lib.load_bracket(path)
        low, high = family.bracket
        stored = (saved.lower.delta if saved.lower else low, saved.upper.delta if saved.upper else high)
        found.append({"solver": "", "seed": None, **_ends(stored, saved.verified(family))})
    if as_json:
        print_json(found)
    else:
        out().print(f"[bold]{escape_terminal(label)}[/]")
        shown = table("solver", "seed", "lower end, proved now", "upper end, proved now", "")
        for entry in found:
            mark = "" if entry["holds"] else "[bold red]less than what is stored[/]"
            seed = "" if entry["seed"] is None else str(entry["seed"])
            shown.add_row(
                escape_terminal(entry["solver"]), seed, f"{entry['lower']:.9g}", f"{entry['upper']:.9g}", mark
            )
        out().print(shown)
    if not all(entry["holds"] for entry in found):
        raise typer.Exit(1)


def _ends(stored: tuple[float, float], proved: tuple[float, float]) -> dict[str, Any]:
    if all(math.isfinite(end) for end in (*stored, *proved)):
        room = ROUNDING * max(abs(stored[0]), abs(stored[1]))
        holds = proved[0] >= stored[0] - room and proved[1] <= stored[1] + room
    else:
        holds = proved[0] >= stored[0] and proved[1] <= stored[1]
    return {"stored": stored, "lower": proved[0], "upper": proved[1], "holds": holds}


def describe_check(check: lib.Check) -> dict[str, Any]:
    """A check in plain data, without its evidence."""
    return {
        "verdict": check.verdict,
        "proof": check.proof,
        "margin": check.margin,
        "reason": check.reason,
        "reading": check.reading,
        "repairs": check.repairs,
    }


def describe_result(result: lib.Result) -> dict[str, Any]:
    """A result in plain data, without its evidence."""
    return {
        **describe_check(result.check),
        "reason": result.reason,
        "raw_status": result.raw_status,
        "stop": result.stop,
        "iterations": result.iterations,
        "backend": result.backend,
        "version": result.version,
        "options": dict(result.options),
        "wall_time": result.wall_time,
        "solve_time": result.solve_time,
        "overshoot": result.overshoot,
        "content_hash": result.problem.content_hash,
    }


def _print_explained(found: lib.Result | lib.Check) -> None:
    """Print an explanation with its verdict in colour."""
    heading, _, rest = found.explain().partition("\n")
    proof = escape_terminal(heading.removeprefix(found.verdict.upper()))
    out().print(f"[bold]{verdict_text(found.verdict)}[/]{proof}")
    if rest:
        out().print(escape_terminal(rest, lines=True))
