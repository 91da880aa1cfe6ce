"""``audit``: prove stored answers again, by a program that shares no code with the verifier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from sdpfeas.cli import library as lib
from sdpfeas.cli.console import AsJson, out, parse_pairs, print_json
from sdpfeas.cli.solve import Delta, Member, Problem, Reading, Seed, Side, kept_evidence
from sdpfeas.errors import ClaimError
from sdpfeas.escaping import escape_terminal

#: Exit code of every finding; of several the largest counts.
CODES = {
    "confirmed": 0,
    "numeric": 1,
    "not confirmed": 1,
    "refuted": 3,
}

STYLES = {
    "confirmed": "green",
    "numeric": "yellow",
    "not confirmed": "yellow",
    "refuted": "bold red",
}

#: An answer, the problem it is about, and what to call it.
Asked: TypeAlias = "tuple[str, lib.FeasibilityProblem, lib.SavedResult]"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "audit",
        epilog="Exit codes: 0 confirmed, 1 not confirmed (or only numeric), 2 it could not run, 3 refuted."
        "\n\nExample: sdpfeas audit p.npz answer.npz",
    )(audit)


def audit(
    problem: Problem,
    answer: Annotated[
        Path,
        typer.Argument(
            metavar="ANSWER",
            help="A file written by solve -o, or a study written by compare --keep-evidence.",
        ),
    ],
    side: Side = "primal",
    seed: Seed = 0,
    delta: Delta = None,
    member: Member = None,
    reading: Reading = "stored",
    as_json: AsJson = False,
) -> None:
    """Prove a stored answer again in rational numbers, sharing no code with the verifier.

    CONFIRMED: the verdict is proved. REFUTED: its opposite is. NOT CONFIRMED: neither. NUMERIC: the answer
    claims no proof, so there is none to confirm; it is said whether the auditor has one. Of a family without
    --delta both ends of a bracket are audited.
    """
    asked, label = lib.load_member(problem, side=side, seed=seed, member=parse_pairs(member))
    if not isinstance(asked, lib.FeasibilityProblem) and delta is not None:
        asked = asked.at(delta)
    found = [_finding(*entry, reading) for entry in _answers(asked, label, answer)]
    if not found:
        raise ClaimError(f"{answer} claims nothing about {label} that could be audited")
    if as_json:
        print_json(found)
    for entry in [] if as_json else found:
        style = STYLES[entry["finding"]]
        claimed = f"{entry['verdict'].upper()} ({entry['proof'] or 'no'} proof)"
        out().print(
            f"[{style}]{entry['finding'].upper()}[/] {escape_terminal(entry['about'])}: "
            f"{escape_terminal(claimed)}, numbers as {reading}"
        )
        out().print(escape_terminal(_in_words(entry)))
    raise typer.Exit(max(CODES[entry["finding"]] for entry in found))


def _answers(asked: lib.FeasibilityProblem | lib.ParametricFamily, label: str, path: Path) -> Iterator[Asked]:
    if path.suffix == ".db":
        for row in kept_evidence(asked, path):
            name = f"{label}, {row['solver']}, seed {row['seed']}"
            if not isinstance(asked, lib.FeasibilityProblem):
                bracket = lib.unpack_bracket(row["data"])
                for end, stored in ((bracket.lower, row["lower"]), (bracket.upper, row["upper"])):
                    if end is not None and end.delta != stored:
                        raise ClaimError(f"{name}: the study says {stored:g}, its evidence {end.delta:g}")
                yield from _ends(asked, name, bracket)
            elif row["verdict"] != lib.Verdict.UNDECIDED:
                yield name, asked, replace(lib.unpack_result(row["data"]), verdict=row["verdict"])
    elif isinstance(asked, lib.FeasibilityProblem):
        saved = lib.load_result(path)
        if saved.problem_hash != asked.content_hash:
            raise ClaimError(f"{path} answers another problem: its content hash differs from that of {label}")
        yield label, asked, saved
    else:
        yield from _ends(asked, label, lib.load_bracket(path))


def _ends(family: lib.ParametricFamily, label: str, bracket: lib.SavedBracket) -> Iterator[Asked]:
    ends = (("lower", bracket.lower, "feasible", 1), ("upper", bracket.upper, "infeasible", -1))
    for name, end, verdict, inward in ends:
        if end is None:
            continue
        if not end.is_about(family):
            raise ClaimError(f"the {name} end of the bracket is about another problem than {label}")
        # A bracket claims one verdict at each end, whatever the answer says; rounding is not in its favour.
        claimed = replace(end.result, verdict=verdict)
        yield f"{label}, {name} end {end.delta:.9g}", family.rounded_at(end.delta, inward), claimed


def _in_words(entry: dict[str, Any]) -> str:
    if entry["finding"] != "numeric":
        return str(entry["reason"])
    own = "has one" if entry["proved"] else "has none"
    return f"the answer claims no proof, and the auditor {own}: {entry['reason']}"


def _finding(
    label: str, problem: lib.FeasibilityProblem, saved: lib.SavedResult, reading: str
) -> dict[str, Any]:
    found = lib.audit(problem, saved, reading)
    return {
        "about": label,
        "verdict": saved.verdict,
        "proof": saved.proof,
        "finding": found.finding,
        "proved": found.proved,
        "reason": found.reason,
        "reading": found.reading,
    }
