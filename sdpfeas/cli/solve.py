"""Commands ``solve``, ``verify`` and ``audit``: answer a problem, and check stored answers."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer
from typer import Argument, Option

from sdpfeas.cli import library as lib
from sdpfeas.cli.console import (
    EXIT_CODES,
    AsJson,
    ExitCode,
    OptionPairs,
    Rigorous,
    Solver,
    TimeLimit,
    complete_problems,
    marked,
    out,
    parse_pairs,
    print_json,
    print_table,
    say,
    spinner,
    verdict_text,
)
from sdpfeas.cli.inputs import is_problem_file, load_member, named_solver
from sdpfeas.errors import ClaimError, OptionError, SdpfeasError
from sdpfeas.escaping import escape_terminal
from sdpfeas.files import writing

Problem = Annotated[
    str,
    Argument(
        metavar="FILE|CARD",
        help="A problem: .npz, .dat-s(.gz), .mat(.gz), .cbf(.gz), a card or its name.",
        autocompletion=complete_problems,
    ),
]
Side = Annotated[str, Option(help="Side of an SDPA or SeDuMi file to read: primal or lmi.")]
Seed = Annotated[int, Option(help="Seed of random problems.")]
Delta = Annotated[float | None, Option(help="Value of delta, for a family indexed by one.")]
Reading = Annotated[
    str,
    Option(
        help="Data of the verdict: the binary64 numbers (stored), or the decimals and fractions they were "
        "rounded from (written)."
    ),
]
Bound = Annotated[
    float | None, Option(help="Points with a larger norm do not interest: add rows that bound them.")
]
Member = Annotated[
    list[str] | None,
    Option(metavar="NAME=VALUE", help="Select one problem of a card with a sweep; repeatable."),
]
Evidence = Annotated[
    Path,
    Argument(
        metavar="ANSWER", help="A file written by solve -o, or a study written by compare --keep-evidence."
    ),
]

#: Options of ``--set`` that go to the bisection if the problem is a family; the others go to the backend.
SEARCH_OPTIONS = ("tol", "absolute_tol", "lower", "upper", "mode", "refine")

#: Relative widening of a stored bracket that still counts as confirmed: machines round differently.
BRACKET_ROUNDING = 1e-9


#: Seconds after which a bracket is shown while it closes.
PROGRESS_SECONDS = 2.0

#: Options of ``--set`` that ``--objective`` passes to the search; the others go to the backend.
OBJECTIVE_OPTIONS = ("tol", "absolute_tol")

#: Exit code and colour of each finding of an audit; with several findings the largest code is returned.
FINDING_EXIT_CODES = {"confirmed": 0, "numeric": 1, "not confirmed": 1, "refuted": 3}
FINDING_STYLES = {
    "confirmed": "green",
    "numeric": "yellow",
    "not confirmed": "yellow",
    "refuted": "bold red",
}

#: A stored answer: its label, the problem it is about, and its content.
Stored: TypeAlias = "tuple[str, lib.FeasibilityProblem, lib.SavedResult]"


def solve(
    problem: Problem,
    solver: Solver = "auto",
    time_limit: TimeLimit = None,
    options: OptionPairs = None,
    output: Annotated[Path | None, Option("--output", "-o", help="Write the answer to this file.")] = None,
    rigorous: Rigorous = False,
    reading: Reading = "stored",
    isolate: Annotated[
        bool,
        Option("--isolate", help="Run the backend in a child process, which is killed at the time limit."),
    ] = False,
    memory_limit: Annotated[
        str | None, Option(help="With --isolate, memory of the child, such as 4G.")
    ] = None,
    bound: Bound = None,
    objective: Annotated[
        bool, Option("--objective", help="Bracket the optimal value of the file's objective.")
    ] = False,
    relax: Annotated[
        bool, Option("--relax", help="If infeasible, bracket the least loosenings that make it feasible.")
    ] = False,
    tol: Annotated[float | None, Option(help="Relative width of a bracket.")] = None,
    side: Side = "primal",
    seed: Seed = 0,
    delta: Delta = None,
    member: Member = None,
    as_json: AsJson = False,
    exit_code: ExitCode = False,
) -> None:
    """Decide a problem: feasible with a point, infeasible with a certificate, or undecided.

    For a family with a parameter delta, bracket the largest feasible delta: with one conic program if the
    solver is auto and the family has one, else by bisection.

    Examples:
    sdpfeas solve p.npz
    sdpfeas solve p.dat-s --side lmi --solver clarabel --exit-code
    sdpfeas solve p.npz --solver dual-lbfgs --set form=lifted -o answer.npz
    """
    if memory_limit is not None and not isolate:
        raise OptionError("--memory-limit needs --isolate: it limits the child process")
    if time_limit is not None and not time_limit > 0:
        raise OptionError(f"--time-limit must be positive, got {time_limit:g}")
    chosen = named_solver(solver)
    settings = parse_pairs(options) | ({} if tol is None else {"tol": tol})
    if objective:
        _bracket_objective(problem, side, chosen, settings, time_limit, as_json, exit_code, reading, bound)
        return
    built, label = load_member(problem, side=side, seed=seed, delta=delta, member=parse_pairs(member))
    if not isinstance(built, lib.FeasibilityProblem):
        if bound is not None and output is not None:
            raise OptionError("a bracket within a bound is not written to a file: drop --bound or -o")
        _bisect(built, label, chosen, settings, time_limit, output, as_json, exit_code, bound)
        return
    if tol is not None:
        raise OptionError("--tol is the width of a bracket: it needs a family or --objective")
    with spinner(f"{chosen.name} on {label} …"):
        result = lib.solve(
            built,
            chosen,
            time_limit=time_limit,
            rigorous=rigorous,
            reading=reading,
            isolate=isolate,
            memory_limit=memory_limit,
            bound=bound,
            options=settings,
        )
    if output is not None:
        lib.save_result(result, output)
    infeasible = result.verdict is lib.Verdict.INFEASIBLE
    relaxation = result.relax(time_limit=time_limit) if relax and infeasible else None
    if as_json:
        facts = {}
        if relaxation is not None:
            loosenings = {each.name: each.amount for each in relaxation.loosenings}
            ends = {"lower": relaxation.lower, "upper": relaxation.upper}
            facts["relaxation"] = {**ends, "loosenings": loosenings}
        print_json({"problem": label, **_describe_result(result), **facts})
    else:
        _print_explained(result)
        if relaxation is not None:
            say(f"least sum of loosenings: {relaxation.lower:.8g} to {relaxation.upper:.8g}")
            out().print(escape_terminal(str(relaxation), lines=True))
        if output is not None:
            say("written to {}", output)
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
    bound: float | None,
) -> None:
    with spinner(f"{solver.name} on {label} …"):
        search = {name: options.pop(name) for name in SEARCH_OPTIONS if name in options}
        bracket = lib.bisect(family, solver, time_limit=time_limit, bound=bound, options=options, **search)
    if output is not None:
        ends = (bracket.lower, bracket.point), (bracket.upper, bracket.certificate)
        packed = lib.pack_bracket(lib.SavedBracket.of(family, *ends, backend=solver.kind.name))
        with writing(output):
            output.write_bytes(packed)
    steps = len(bracket.history)
    if as_json:
        facts = {"lower": bracket.lower, "upper": bracket.upper, "converged": bracket.converged}
        print_json({"problem": label, **facts, "bound": bound, "reason": bracket.reason, "steps": steps})
    else:
        within = "" if bound is None else f" within the bound {bound:g}"
        say("[bold]{}[/]: {}", label, f"{bracket.lower:.8g} <= delta* <= {bracket.upper:.8g}{within}")
        say("{}: {}", f"{steps} solves by {solver.name}" if steps else "no solver called", bracket.reason)
        if output is not None:
            say("written to {}", output)
    if exit_code and not bracket.converged:
        raise typer.Exit(EXIT_CODES[lib.Verdict.UNDECIDED])


def _bracket_objective(
    spec: str,
    side: Any,
    solver: lib.Solver,
    options: dict[str, Any],
    time_limit: float | None,
    as_json: bool,
    exit_code: bool,
    reading: str,
    bound: float | None,
) -> None:
    """Print the proven bracket of the optimal value; with ``exit_code``, a wide one is undecided."""
    if not is_problem_file(spec):
        raise OptionError("--objective needs a file with an objective, such as p.dat-s or p.mat")
    problem, objective = lib.read_problem(Path(spec), side)
    if objective is None:
        raise OptionError(f"{spec} holds no objective; .dat-s and .mat files do")
    search = {name: options.pop(name) for name in OBJECTIVE_OPTIONS if name in options}
    label = f"{solver.name} on {Path(spec).name}"
    with spinner(f"{label} …") as status:

        def show(lower: float, upper: float, gap: float) -> None:
            if time.monotonic() >= begin + PROGRESS_SECONDS:
                proved = f"{lower:.6g} <= {objective.sense} <= {upper:.6g} proved"
                status.update(escape_terminal(f"{label}: {proved}, gap about {gap:.1e} …"))

        begin = time.monotonic()
        found = lib.optimum(
            problem,
            objective,
            solver=solver,
            time_limit=time_limit,
            reading=reading,
            bound=bound,
            options=options,
            callback=show,
            **search,
        )
    if as_json:
        facts = _attributes(found, "sense lower upper converged reading unbounded reason")
        print_json({"problem": spec, **facts, "bound": bound, "infeasible": found.infeasible is not None})
    elif found.infeasible is not None:
        say("[bold]{}[/]: {}", Path(spec).name, found.reason)
    else:
        ends = f"{found.lower:.10g} <= {found.sense} <= {found.upper:.10g}"
        ends += "" if bound is None else f" within the bound {bound:g}"
        ends += "" if found.reading == "stored" else f", numbers as {found.reading}"
        say("[bold]{}[/]: {}", Path(spec).name, ends)
        say("{}; {}", found.proved_ends, found.reason)
    if exit_code and not found.converged:
        raise typer.Exit(EXIT_CODES[lib.Verdict.UNDECIDED])


def verify(
    problem: Problem,
    answer: Evidence,
    rigorous: Rigorous = False,
    reading: Reading = "stored",
    exact: Annotated[bool, Option("--exact", help="Accept only a proof in rational arithmetic.")] = False,
    side: Side = "primal",
    seed: Seed = 0,
    delta: Delta = None,
    member: Member = None,
    as_json: AsJson = False,
    exit_code: ExitCode = False,
) -> None:
    """Verify a stored answer from its evidence.

    With a study, verify all its evidence about the problem; exit with 1 if a verdict does not hold. For a
    family without --delta, prove both ends of the brackets.

    Examples:
    sdpfeas verify p.npz answer.npz --rigorous
    """
    asked, label = load_member(problem, side=side, seed=seed, delta=delta, member=parse_pairs(member))
    if not isinstance(asked, lib.FeasibilityProblem):
        _verify_brackets(asked, label, answer, as_json)
        return
    if answer.suffix == ".db":
        _verify_study(asked, answer, rigorous, reading, as_json)
        return
    saved = lib.load_result(answer)
    asked = _problem_of(saved, asked, answer)
    if exact:
        check = lib.verify(asked, saved.claim, exact=True, reading=reading)
    else:
        check = lib.decide(asked, saved.claim, rigorous=rigorous, reading=reading)
    if as_json:
        print_json(
            {"problem": problem, "written_as": saved.verdict, "by": saved.backend, **_describe_check(check)}
        )
    else:
        _print_explained(check)
        if check.verdict != saved.verdict:
            about = "" if saved.reading == reading else f" about the numbers as {saved.reading}"
            say("[yellow]the file stores {}{}; that did not hold[/]", saved.verdict, about)
    if exit_code:
        raise typer.Exit(EXIT_CODES[check.verdict])


def _problem_of(saved: lib.SavedResult, asked: lib.FeasibilityProblem, path: Path) -> lib.FeasibilityProblem:
    """Return the problem that a stored answer is about, with its bound; an error if it is another one."""
    try:
        return saved.about(asked)
    except SdpfeasError as error:
        raise ClaimError(f"{path}: {error}") from None


def _kept_evidence(asked: lib.FeasibilityProblem | lib.ParametricFamily, path: Path) -> list[dict[str, Any]]:
    """The evidence that a study holds about a problem."""
    with lib.Store(path, readonly=True) as study:
        rows = study.evidence_about(lib.problem_key(asked))
    if not rows:
        raise ClaimError(f"{path} holds no evidence about this problem; was it run with --keep-evidence?")
    return rows


def _verify_study(
    asked: lib.FeasibilityProblem, path: Path, rigorous: bool, reading: str, as_json: bool
) -> None:
    found = []
    for row in _kept_evidence(asked, path):
        saved = lib.unpack_result(row["data"])
        check = lib.decide(saved.about(asked), saved.claim, rigorous=rigorous, reading=reading)
        facts = {"stored": row["verdict"], "verdict": check.verdict.value, "proof": check.proof}
        holds = check.verdict == row["verdict"]
        found.append({"solver": row["solver"], "seed": row["seed"], **facts, "holds": holds})
    columns = {"stored": "stored", "verdict": "verified", "proof": "proof"}
    _print_verified(found, columns, "does not hold", as_json)


def _verify_brackets(family: lib.ParametricFamily, label: str, path: Path, as_json: bool) -> None:
    found = []
    if path.suffix == ".db":
        for row in _kept_evidence(family, path):
            stored = (row["lower"], row["upper"])
            low, high = lib.unpack_bracket(row["data"]).verified(family)
            found.append({"solver": row["solver"], "seed": row["seed"], **_ends(stored, (low, high))})
    else:
        saved = lib.load_bracket(path)
        low, high = family.bracket
        stored = (saved.lower.delta if saved.lower else low, saved.upper.delta if saved.upper else high)
        found.append({"solver": "", "seed": None, **_ends(stored, saved.verified(family))})
    if not as_json:
        say("[bold]{}[/]", label)
    columns = {"lower": "lower end, proved now", "upper": "upper end, proved now"}
    _print_verified(found, columns, "less than what is stored", as_json)


def _print_verified(found: list[dict[str, Any]], columns: dict[str, str], worse: str, as_json: bool) -> None:
    """Print what was verified again, one answer per row; exit with 1 if something does not hold."""
    if as_json:
        print_json(found)
    else:
        rows = []
        for entry in found:
            values = [entry[name] for name in ("solver", "seed", *columns)]
            texts = ["" if v is None else f"{v:.9g}" if isinstance(v, float) else str(v) for v in values]
            rows.append([*texts, marked("" if entry["holds"] else f"[bold red]{worse}[/]")])
        print_table(["solver", "seed", *columns.values(), ""], rows)
    if not all(entry["holds"] for entry in found):
        raise typer.Exit(1)


def _ends(stored: tuple[float, float], proved: tuple[float, float]) -> dict[str, Any]:
    if all(math.isfinite(end) for end in (*stored, *proved)):
        slack = BRACKET_ROUNDING * max(abs(stored[0]), abs(stored[1]))
        holds = proved[0] >= stored[0] - slack and proved[1] <= stored[1] + slack
    else:
        holds = proved[0] >= stored[0] and proved[1] <= stored[1]
    return {"stored": stored, "lower": proved[0], "upper": proved[1], "holds": holds}


def audit(
    problem: Problem,
    answer: Evidence,
    side: Side = "primal",
    seed: Seed = 0,
    delta: Delta = None,
    member: Member = None,
    reading: Reading = "stored",
    as_json: AsJson = False,
) -> None:
    """Prove a stored answer again in rational arithmetic, with code independent of the verifier.

    CONFIRMED: the verdict is proved. REFUTED: its opposite is proved. NOT CONFIRMED: neither. NUMERIC: the
    answer claims no proof; the reason tells whether the auditor found one. For a family without --delta,
    audit both ends of the bracket.

    Exit codes: 0 confirmed, 1 not confirmed (or only numeric), 2 the audit could not run, 3 refuted.

    Examples:
    sdpfeas audit p.npz answer.npz
    """
    asked, label = load_member(problem, side=side, seed=seed, delta=delta, member=parse_pairs(member))
    found = [_finding(*entry, reading) for entry in _stored_answers(asked, label, answer)]
    if not found:
        raise ClaimError(f"{answer} claims nothing about {label} that could be audited")
    if as_json:
        print_json(found)
    for entry in [] if as_json else found:
        style = FINDING_STYLES[entry["finding"]]
        within = f" within {entry['within']}" if entry["within"] else ""
        claimed = f"{entry['verdict'].upper()}{within} ({entry['proof'] or 'no'} proof), numbers as {reading}"
        say(f"[{style}]{{}}[/] {{}}: {{}}", entry["finding"].upper(), entry["about"], claimed)
        own = f"the answer claims no proof, and the auditor has {'one' if entry['proved'] else 'none'}: "
        say("{}", own * (entry["finding"] == "numeric") + entry["reason"])
    raise typer.Exit(max(FINDING_EXIT_CODES[entry["finding"]] for entry in found))


def certify(
    problem: Problem,
    answer: Annotated[
        Path,
        Argument(
            metavar="ANSWER",
            help="A file written by solve -o (.npz), or a solution of CSDP or SDPA (text) or SeDuMi (.mat).",
        ),
    ],
    output: Annotated[Path, Option("--output", "-o", help="Write the evidence to this file.")],
    problem_file: Annotated[
        Path | None,
        Option(help="Write the problem to this file of its own, which the evidence names by SHA-256."),
    ] = None,
    coq: Annotated[
        Path | None,
        Option(help="Also write a Coq file that states the theorem and proves it by computation."),
    ] = None,
    side: Side = "primal",
    seed: Seed = 0,
    delta: Delta = None,
    member: Member = None,
) -> None:
    """Write exact evidence for a stored answer, which sdpcheck.py checks on its own.

    For a bracket of a family two files are written, with the ends' names added to OUTPUT.

    Examples:
    sdpfeas certify p.npz answer.npz -o evidence.json
    """
    asked, label = load_member(problem, side=side, seed=seed, delta=delta, member=parse_pairs(member))
    if answer.suffix in (".npz", ".db") or not isinstance(asked, lib.FeasibilityProblem):
        found: list[Any] = list(_stored_answers(asked, label, answer))
    else:
        found = [(label, asked, _verified_solution(asked, answer, side))]
    for name, stated, saved in found:
        made = lib.certify(saved, stated)
        end = "" if len(found) == 1 else f"-{saved.verdict}"
        apart = None if problem_file is None else problem_file.with_stem(problem_file.stem + end)
        made.save(output.with_stem(output.stem + end), apart)
        if coq is not None:
            path = coq.with_stem(coq.stem + end)
            with writing(path):
                path.write_text(lib.coq_file(made), encoding="utf-8")
        say("{}: {}", name, made.statement)


def _verified_solution(problem: lib.FeasibilityProblem, path: Path, side: str) -> lib.Check:
    """Verify the solution of another program; return what it proves."""
    for claim in lib.read_solution(path, problem, side):  # type: ignore[arg-type]
        checked = lib.verify(problem, claim, rigorous=True)
        if checked.verdict != lib.Verdict.UNDECIDED:
            return checked
    raise ClaimError(f"{path}: neither the point nor the multipliers prove anything about the problem")


def check(
    files: Annotated[
        list[Path], Argument(metavar="[PROBLEM] EVIDENCE", help="Files of the certificate format.")
    ],
) -> None:
    """Check exact evidence by multiplying and comparing integers; sdpcheck.py does the same on its own.

    Exit codes: 0 valid, 1 refused.
    """
    raise typer.Exit(lib.main([str(path) for path in files]))


def _stored_answers(
    asked: lib.FeasibilityProblem | lib.ParametricFamily, label: str, path: Path
) -> Iterator[Stored]:
    if path.suffix == ".db":
        for row in _kept_evidence(asked, path):
            name = f"{label}, {row['solver']}, seed {row['seed']}"
            if not isinstance(asked, lib.FeasibilityProblem):
                bracket = lib.unpack_bracket(row["data"])
                for end, stored in ((bracket.lower, row["lower"]), (bracket.upper, row["upper"])):
                    if end is not None and end.delta != stored:
                        raise ClaimError(f"{name}: the study stores {stored:g}, its evidence {end.delta:g}")
                yield from _audited_ends(asked, name, bracket)
            elif row["verdict"] != lib.Verdict.UNDECIDED:
                yield name, asked, replace(lib.unpack_result(row["data"]), verdict=row["verdict"])
    elif isinstance(asked, lib.FeasibilityProblem):
        saved = lib.load_result(path)
        yield label, _problem_of(saved, asked, path), saved
    else:
        yield from _audited_ends(asked, label, lib.load_bracket(path))


def _audited_ends(family: lib.ParametricFamily, label: str, bracket: lib.SavedBracket) -> Iterator[Stored]:
    ends = (("lower", bracket.lower, "feasible", 1), ("upper", bracket.upper, "infeasible", -1))
    for name, end, verdict, inward in ends:
        if end is None:
            continue
        if not end.is_about(family):
            raise ClaimError(f"the {name} end of the bracket is about another problem than {label}")
        # A bracket claims a fixed verdict at each end. The level is rounded against the claim.
        claimed = replace(end.result, verdict=verdict)
        yield f"{label}, {name} end {end.delta:.9g}", family.rounded_at(end.delta, inward), claimed


def _attributes(source: Any, names: str) -> dict[str, Any]:
    return {name: getattr(source, name) for name in names.split()}


def _finding(
    label: str, problem: lib.FeasibilityProblem, saved: lib.SavedResult, reading: str
) -> dict[str, Any]:
    found = lib.audit(problem, saved, reading)
    claimed = {"about": label, **_attributes(saved, "verdict proof"), "within": _bound(problem)}
    return {**claimed, **_attributes(found, "finding proved reason reading")}


def _bound(problem: lib.FeasibilityProblem) -> str | None:
    return None if problem.bound is None else str(problem.bound)


def _describe_check(check: lib.Check) -> dict[str, Any]:
    """Summarise a check as plain data, without its evidence."""
    facts = _attributes(check, "verdict proof radius margin reason reading repairs")
    return {**facts, "within": _bound(check.problem)}


def _describe_result(result: lib.Result) -> dict[str, Any]:
    """Summarise a result as plain data, without its evidence."""
    own = "reason raw_status stop iterations backend version wall_time solve_time overshoot"
    more = {"options": dict(result.options), "content_hash": result.problem.content_hash}
    return {**_describe_check(result.check), **_attributes(result, own), **more}


def _print_explained(found: lib.Result | lib.Check) -> None:
    """Print the explanation of a verdict, the verdict in colour."""
    heading, _, rest = found.explain().partition("\n")
    proof = escape_terminal(heading.removeprefix(found.verdict.upper()))
    out().print(f"[bold]{verdict_text(found.verdict)}[/]{proof}")
    if rest:
        out().print(escape_terminal(rest, lines=True))
