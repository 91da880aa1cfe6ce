"""The pages of a board: an overview, one a solver, one a problem."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from sdpfeas.cards.toml import parse_toml
from sdpfeas.escaping import in_html
from sdpfeas.study.board.catalogue import known_sets
from sdpfeas.study.board.model import BoardData, Standing, Truth
from sdpfeas.study.board.pieces import (
    MEANINGS,
    ORDER,
    chip,
    number,
    page,
    problem_link,
    solver_link,
    title,
    track,
)
from sdpfeas.study.board.problems import SETS, set_of, slug
from sdpfeas.study.report.sections import profiles, run_facts, section, short, strong, swatch
from sdpfeas.study.report.words import format_time

__all__ = ["overview", "problem_page", "solver_page"]

#: How many characters of a reason are shown.
REASON_LENGTH = 400


# ---------------------------------------------------------------- the overview


def overview(board: BoardData) -> str:
    """The first page.

    Parameters
    ----------
    board : BoardData
        The board.
    """
    lead = (
        f"{len(board.data.solvers)} solvers on {len(board.data.problems)} problems. No status is believed: "
        "a solver is right, or lied, against what is proved, whoever proved it."
    )
    parts = [
        title("Who is right about semidefinite feasibility?", lead),
        _alarm(board),
        _summary(board),
        _standings(board),
        _grouped(board, "sets", "By set", board.by_set, {name: _set_title(name) for name in board.by_set}),
        _grouped(board, "sizes", "By size", board.by_size, {}, "The side of the largest block."),
        _lies(board, board.data.cells, "lies", "Statuses against a proof", ""),
        _problems(board),
        profiles(board.data),
        _about(board),
    ]
    return page("the board", "", "".join(parts))


def _alarm(board: BoardData) -> str:
    if not board.contradictions:
        return ""
    lines = "".join(f"<li>{in_html(line)}</li>" for line in board.contradictions)
    text = "Proofs contradict each other. One of them is wrong, which is a bug of ours: please report it."
    return f'<div class="alarm" role="alert"><strong>{text}</strong><ul>{lines}</ul></div>'


def _set_title(name: str) -> str:
    known = known_sets().get(name)
    return SETS[name] if known is None else known.title


def _summary(board: BoardData) -> str:
    total: Counter[str] = Counter()
    for count in board.overall.values():
        total.update(count)

    def tile(value: int, label: str, kind: str = "") -> str:
        return f'<div class="tile {kind}"><b>{value:,}</b><span>{label}</span></div>'

    tiles = [
        tile(len(board.truths), f"of {len(board.data.problems)} problems proved and audited", "good"),
        tile(total["right"], "statuses are right", "good"),
        tile(total["lied"], "say the opposite of a proof", "bad" if total["lied"] else ""),
        tile(total["undecided"], "claim nothing"),
        tile(total["open"], "claim what nobody proved", "warn" if total["open"] else ""),
        tile(len(board.contradictions), "contradictions", "bad" if board.contradictions else ""),
    ]
    lines = "".join(f"<li>{line}</li>" for line in board.headlines(strong))
    body = f'<div class="tiles">{"".join(tiles)}</div><ul class="news">{lines}</ul>'
    return section("summary", "Summary", "", body)


def _legend() -> str:
    items = "".join(
        f'<span><i class="{standing.name}"></i><b>{standing.value}</b> {MEANINGS[standing]}</span>'
        for standing in ORDER
    )
    return f'<p class="standings">{items}</p>'


def _standings(board: BoardData) -> str:
    rows = []
    ranked = sorted(
        board.overall.items(), key=lambda item: (item[1]["lied"], -item[1]["proved"], -item[1]["right"])
    )
    for solver, count in ranked:
        rows.append(
            f'<tr><th scope="row">{solver_link(board, solver, "")}</th>'
            f'<td class="barcell">{track(count)}</td>{number(count["right"], "right")}'
            f"{number(count['lied'], 'lied')}{number(count['undecided'])}{number(count['open'])}"
            f"{number(count['proved'])}</tr>"
        )
    table = (
        '<div class="card over"><table class="ranks counts"><thead><tr><th>solver</th><th></th><th>right</th>'
        "<th>lied</th><th>undecided</th><th>open</th><th>proved</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table>{_legend()}</div>"
    )
    lead = (
        "Fewest lies first, then most proofs. <em>Proved</em> counts the answers that come with evidence of "
        "their own that is rigorously verified: there the word of the solver does not matter."
    )
    return section("standings", "Standings", lead, table)


def _grouped(
    board: BoardData,
    anchor: str,
    title: str,
    groups: Mapping[str, Mapping[str, Counter[str]]],
    names: Mapping[str, str],
    more: str = "",
) -> str:
    head = "".join(f'<th scope="col">{solver_link(board, name, "")}</th>' for name in board.data.solvers)
    rows = []
    for group, row in groups.items():
        cells = "".join(_group_cell(row[solver]) for solver in board.data.solvers)
        many = max(count["cells"] for count in row.values())
        shown = in_html(names.get(group, group))
        rows.append(f'<tr><th scope="row">{shown} <small>{many}</small></th>{cells}</tr>')
    table = (
        f'<div class="scroll"><table class="matrix groups"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
    lead = f"{more} Statuses that are right, and below those that lied. Beside a name, how many problems."
    return section(anchor, title, lead.strip(), table)


def _group_cell(count: Counter[str]) -> str:
    if not count["cells"]:
        return '<td class="none">·</td>'
    lied = f'<em class="chip lie">{count["lied"]} lied</em>' if count["lied"] else ""
    return f"<td><b>{count['right']}</b>{track(count)}{lied}</td>"


def _lies(board: BoardData, cells: Sequence[dict[str, Any]], anchor: str, title: str, up: str) -> str:
    lies = [cell for cell in cells if cell["standing"] is Standing.lied]
    if not lies:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{solver_link(board, cell["solver"], up)}</th>'
        f"<td>{problem_link(cell['problem'], up)}</td><td><q>{in_html(short(cell['raw_status']))}</q></td>"
        f"<td>{chip(cell['claimed'])}</td><td>{_proved(board.truths[cell['problem']])}</td></tr>"
        for cell in lies
    )
    table = (
        '<div class="card over lies tall"><table class="ranks"><thead><tr><th>solver</th><th>problem</th>'
        f"<th>it said</th><th>that is</th><th>proved</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )
    lead = f"{len(lies)}: the word of the solver beside what is proved, and by whose evidence."
    return section(anchor, title, lead, table)


def _proved(truth: Truth) -> str:
    return f"{chip(truth.verdict)} {in_html(truth.proof)}, by evidence of {in_html(truth.solver)}"


def _problems(board: BoardData) -> str:
    head = "".join(f'<th scope="col"><span>{in_html(name)}</span></th>' for name in board.data.solvers)
    blocks: list[str] = []
    for name in board.by_set:
        problems = [problem for problem in board.data.problems if set_of(problem) == name]
        rows = "".join(_problem_row(board, problem) for problem in problems)
        table = (
            f'<div class="scroll tall"><table class="matrix"><thead><tr><th></th><th>truth</th>{head}</tr>'
            f"</thead><tbody>{rows}</tbody></table></div>"
        )
        summary = f"<b>{in_html(_set_title(name))}</b> <span>{len(problems)} problems</span>"
        blocks.append(f"<details{' open' * (not blocks)}><summary>{summary}</summary>{table}</details>")
    lead = (
        "Every problem with its truth and every answer. ✓ right, ✗ lied, ? undecided, ~ open; a filled cell "
        "comes with evidence of its own that is proved."
    )
    return section("problems", "Problems", lead, f'<div class="card">{"".join(blocks)}</div>')


MARKS = {Standing.right: "✓", Standing.lied: "✗", Standing.silent: "?", Standing.open: "~"}


def _problem_row(board: BoardData, problem: str) -> str:
    answers = {cell["solver"]: cell for cell in board.about(problem)}
    shown = _truth_chip(board, problem)
    cells = []
    for solver in board.data.solvers:
        cell = answers.get(solver)
        if cell is None:
            cells.append('<td class="none">·</td>')
            continue
        standing = cell["standing"]
        own = f" {cell['verdict']}" if cell["decided"] else ""
        told = f"{solver}: {cell['raw_status'] or cell['shown']}"
        cells.append(
            f'<td class="{standing.name}{own}" data-tip="{in_html(short(told))}">'
            f"<b>{MARKS[standing]}</b><small>{format_time(cell['time'])}</small></td>"
        )
    name = problem_link(problem, "", problem.partition("/")[2])
    return f'<tr><th scope="row">{name}</th><td>{shown}</td>{"".join(cells)}</tr>'


def _about(board: BoardData) -> str:
    versions = "".join(
        f"<dt>{in_html(row['name'])}</dt><dd>{in_html(row['backend'])} {in_html(row['version'])}</dd>"
        for row in board.data.solver_rows
    )
    missing = "".join(
        f"<dt>{in_html(name)}</dt><dd>not installed: {in_html(why)}</dd>"
        for name, why in board.skipped.items()
    )
    words = (
        "<p>A truth is a verdict with a rigorous or exact proof that the auditor, which shares no code with "
        "the verifier, confirmed from the evidence alone; the evidence is on the page of the problem. A "
        "status is read from the solver's own words. Times are processor times. A status counts against a "
        "solver only where the proof is about the numbers as the solver was given them.</p>"
    )
    body = f'<div class="card">{words}</div><dl class="card facts gap">{versions}{missing}</dl>'
    return section("about", "About this board", "", f'{body}<div class="gap">{run_facts(board.data)}</div>')


# ---------------------------------------------------------------- a solver


@cache
def _known() -> Mapping[str, list[str]]:
    text = (files("sdpfeas.study.board") / "known.toml").read_text(encoding="utf-8")
    return {name: entry["notes"] for name, entry in parse_toml(text).items()}


def solver_page(board: BoardData, solver: str) -> str:
    """The page of a solver.

    Parameters
    ----------
    board : BoardData
        The board.
    solver : str
        Its name.
    """
    row = next(row for row in board.data.solver_rows if row["name"] == solver)
    cells, count = board.of(solver), board.overall[solver]
    heading = f"{swatch(board.data.solvers.index(solver))}{in_html(solver)}"
    lead = (
        f"{in_html(row['backend'])} {in_html(row['version'])}: of {count['cells']} statuses {count['right']} "
        f"right, {count['lied']} lied, {count['undecided']} undecided, {count['open']} open; "
        f"{count['proved']} answers proved by evidence of its own."
    )
    known = _known().get(row["backend"], [])
    notes = "".join(f"<li>{in_html(note)}</li>" for note in known)
    issues = section("known", "Known issues", "", f'<ul class="news plain">{notes}</ul>') if notes else ""
    unproved = [cell for cell in cells if cell["standing"] is Standing.right and not cell["decided"]]
    failures = [cell for cell in cells if cell["standing"] is Standing.silent and not cell["decided"]]
    silent = [cell for cell in cells if cell["standing"] is Standing.silent and cell["decided"]]
    open_ = [cell for cell in cells if cell["standing"] is Standing.open]
    parts = [
        title(heading, lead),
        f'<div class="card gap">{track(count)}{_legend()}</div>',
        _lies(board, cells, "lies", "Where it lied", "../"),
        issues,
        _answers(board, failures, "failures", "Where it decided nothing", "No claim, and no evidence."),
        _answers(board, unproved, "unproved", "Right without a proof", "Its evidence proves nothing here."),
        _answers(
            board, open_, "open", "Claims that nobody proved", "Nothing is proved of the numbers given."
        ),
        _answers(board, silent, "silent", "Proved without a word", "Its evidence is better than its word."),
    ]
    return page(solver, "../", "".join(parts))


def _answers(board: BoardData, cells: Sequence[dict[str, Any]], anchor: str, title: str, lead: str) -> str:
    if not cells:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{problem_link(cell["problem"], "../")}</th>'
        f"<td>{_truth_chip(board, cell['problem'])}</td>"
        f"<td><q>{in_html(short(cell['raw_status'] or cell['outcome']))}</q></td>"
        f'<td class="n">{format_time(cell["time"])}</td></tr>{_why(cell["reason"], 4)}'
        for cell in cells
    )
    table = (
        '<div class="card over lies tall"><table class="ranks"><thead><tr><th>problem</th><th>truth</th>'
        f'<th>it said</th><th class="n">time</th></tr></thead><tbody>{rows}</tbody></table></div>'
    )
    return section(anchor, title, f"{len(cells)}. {lead} Below each, the verifier's reason.", table)


def _why(reason: str, columns: int) -> str:
    """The word of the verifier, in a line of its own: beside the rest it would be cut off at the edge."""
    if len(reason) > REASON_LENGTH:
        reason = reason[:REASON_LENGTH].rpartition(" ")[0] + " …"
    return f'<tr class="why"><td colspan="{columns}"><p>{in_html(reason)}</p></td></tr>' if reason else ""


def _truth_chip(board: BoardData, problem: str) -> str:
    truth = board.truths.get(problem)
    if truth is None:
        return chip("undecided", "not proved")
    return chip(truth.verdict, truth.verdict)


# ---------------------------------------------------------------- a problem


def problem_page(board: BoardData, problem: str, evidence: bool) -> str:
    """The page of a problem.

    Parameters
    ----------
    board : BoardData
        The board.
    problem : str
        Its label.
    evidence : bool
        Whether its evidence lies beside the page.
    """
    row = next(row for row in board.data.problem_rows if row["label"] == problem)
    lead = f"{in_html(_set_title(set_of(problem)))} · {in_html(row['summary'])}"
    body = [
        title(in_html(problem), lead),
        _truth_section(board, problem, evidence),
        _every_answer(board, problem),
        section("card", "The problem", "", f"<pre>{in_html(row['card'].strip(), lines=True)}</pre>"),
    ]
    return page(problem, "../", "".join(body))


def _truth_section(board: BoardData, problem: str, evidence: bool) -> str:
    truth, name = board.truths.get(problem), slug(problem)
    told = [line for line in board.contradictions if line.startswith(f"{problem}: ")]
    if truth is None:
        why = board.unaudited.get(problem, "nobody proved anything")
        words = " ".join(told) or f"Not known: {why}."
        return section("truth", "The truth", "", f'<div class="card">{in_html(words)}</div>')
    facts = {
        "verdict": f"{chip(truth.verdict)} {in_html(truth.proof)} proof",
        "evidence of": solver_link(board, truth.solver, "../"),
        "verifier": in_html(truth.reason),
        "auditor": in_html(truth.audit),
    }
    if evidence:
        facts["download"] = (
            f'<a href="{name}.toml" download>problem card</a> · <a href="{name}.npz" download>evidence</a>'
        )
        command = shlex.join(["sdpfeas", "audit", f"{name}.toml", f"{name}.npz"])
        own = set_of(problem) in known_sets()
        where = "in the folder of the two files" + ", with SDPFEAS_DATA set to that of the public ones" * own
        facts["check it"] = f"<code>{in_html(command)}</code> {where}"
    listed = "".join(f"<dt>{key}</dt><dd>{value}</dd>" for key, value in facts.items())
    return section("truth", "The truth", "", f'<dl class="card facts">{listed}</dl>')


def _every_answer(board: BoardData, problem: str) -> str:
    rows = "".join(
        f'<tr><th scope="row">{solver_link(board, cell["solver"], "../")}</th>'
        f"<td>{chip(cell['standing'].name, cell['standing'].value)}</td>"
        f"<td><q>{in_html(short(cell['raw_status'] or cell['outcome']))}</q></td>"
        f"<td>{chip(cell['verdict'])} <small>{in_html(cell['proof'] or '')}</small></td>"
        f'<td class="n">{format_time(cell["time"])}</td></tr>{_why(cell["reason"], 5)}'
        for cell in board.about(problem)
    )
    table = (
        '<div class="card over lies"><table class="ranks"><thead><tr><th>solver</th><th>its status</th>'
        '<th>it said</th><th>verified</th><th class="n">time</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    lead = "What the solver said, what its evidence is worth, and below it the verifier's reason."
    return section("answers", "Every answer", lead, table)
