"""The sections of an HTML report, top to bottom."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from sdpfeas import __version__
from sdpfeas.escaping import in_html
from sdpfeas.study.report.charts import accuracy_chart, profile_chart, scaling_chart
from sdpfeas.study.report.model import Group, MatrixCell, StudyData
from sdpfeas.study.report.svg import COLOURS, marker, series_style
from sdpfeas.study.report.words import format_time, headlines
from sdpfeas.study.settings import Clock

__all__ = ["TABLE", "page_body", "profiles", "run_facts", "section", "short", "strong", "swatch"]

#: Up to so many problem cards, each has a ranking of its own; beyond, a table says who wins where.
CARDS_WITH_BARS = 6

#: Beyond so many problems, the matrix scrolls.
ROWS_AT_ONCE = 25

#: Solvers named beside a lie, and characters shown of a raw status.
NAMED, STATUS_LENGTH = 3, 60

SYMBOLS = {"feasible": "✓", "infeasible": "✕", "bracket": "[ ]", "undecided": "?"}

#: Columns of the table of cells: their names in the data, and on the page.
TABLE = (
    ("solver", "solver"),
    ("problem", "problem"),
    ("seed", "seed"),
    ("size", "size"),
    ("rows", "rows"),
    ("shown", "verdict"),
    ("proof", "proof"),
    ("claimed", "raw claim"),
    ("solve_time", "time"),
    ("cpu_time", "processor"),
    ("iterations", "iterations"),
    ("error", "error"),
    ("peak_memory", "memory"),
)


def page_body(data: StudyData, other: StudyData) -> str:
    """Everything a reader sees.

    Parameters
    ----------
    data, other : StudyData
        The study, by the clock that counts and by the other one.
    """
    rest = (_matrix, profiles, _scaling, _accuracy, _cells, _about)
    return _header(data) + _summary(data) + _rankings(data, other) + "".join(part(data) for part in rest)


def strong(name: str) -> str:
    """A name that stands out."""
    return f"<strong>{in_html(name)}</strong>"


def section(anchor: str, title: str, lead: str, body: str) -> str:
    """A section of a page: anchor, title, a paragraph or none, and what follows."""
    text = f'<p class="lead">{lead}</p>' if lead else ""
    return f'<section id="{anchor}"><h2>{in_html(title)}</h2>{text}{body}</section>\n'


def _header(data: StudyData) -> str:
    run = data.runs[-1] if data.runs else None
    when = datetime.fromtimestamp(run["started"], UTC).strftime("%Y-%m-%d %H:%M UTC") if run else ""
    links = "".join(
        f'<a href="#{anchor}">{name}</a>'
        for anchor, name in (
            ("summary", "Summary"),
            ("ranking", "Ranking"),
            ("verdicts", "Verdicts"),
            ("profiles", "Profiles"),
            ("scaling", "Scaling"),
            ("accuracy", "Accuracy"),
            ("cells", "Cells"),
            ("about", "About"),
        )
    )
    return (
        f'<header><div class="bar"><div class="brand">sdpfeas <span>{in_html(data.path.stem)}</span></div>'
        f'<nav aria-label="Sections">{links}</nav>'
        '<button id="theme" type="button" aria-label="Switch between light and dark">◐</button></div>'
        "</header>\n"
        f'<main><div class="title"><h1>Comparison of {len(data.solvers)} solvers on '
        f"{len(data.problems)} problems"
        f"</h1><p>{in_html(when)} · sdpfeas {in_html(__version__)}</p></div>\n"
    )


def _summary(data: StudyData) -> str:
    decided = sum(cell["decided"] for cell in data.cells)
    rigorous = sum(cell["proof"] in ("rigorous", "exact") for cell in data.cells)
    failed = sum(cell["failed"] for cell in data.cells)
    total = len(data.cells)

    def tile(value: str, label: str, kind: str = "") -> str:
        return f'<div class="tile {kind}"><b>{value}</b><span>{label}</span></div>'

    tiles = [
        tile(f"{total:,}", "cells computed"),
        tile(f"{decided / max(total, 1):.0%}", "decided and verified", "good"),
        tile(f"{rigorous / max(decided, 1):.0%}", "of these with a rigorous proof"),
        tile(f"{len(data.lies):,}", "raw statuses against a proof", "bad" if data.lies else ""),
        tile(f"{len(data.conflicts):,}", "verified verdicts in conflict", "bad" if data.conflicts else ""),
        tile(f"{failed:,}", "failed cells", "warn" if failed else ""),
    ]
    lines = "".join(f"<li>{line}</li>" for line in headlines(data, strong))
    return section(
        "summary", "Summary", "", f'<div class="tiles">{"".join(tiles)}</div><ul class="news">{lines}</ul>'
    )


def swatch(index: int) -> str:
    """How the n-th solver is drawn in charts."""
    colour, shape, dash = series_style(index)
    return (
        '<svg class="swatch" viewBox="0 0 26 12" aria-hidden="true">'
        f'<line x1="0" x2="26" y1="6" y2="6" style="stroke:{colour}" stroke-dasharray="{dash}"/>'
        f'<path d="{marker(shape, 13, 6, 3.5)}" style="fill:{colour}"/></svg>'
    )


def _legend(data: StudyData, notes: dict[str, str] | None = None) -> str:
    items = []
    for index, solver in enumerate(data.solvers):
        if notes is not None and solver not in notes:
            continue
        note = f"<small>{notes[solver]}</small>" if notes and notes[solver] else ""
        items.append(
            f'<button type="button" class="key" data-series="{in_html(solver)}" aria-pressed="true">'
            f"{swatch(index)}{in_html(solver)}{note}</button>"
        )
    return f'<div class="legend">{"".join(items)}</div>'


def _rankings(data: StudyData, other: StudyData) -> str:
    """The ranking by both clocks, one of them shown."""
    keys = "".join(
        f'<button type="button" data-clock="{each.clock}" aria-pressed="{str(each is data).lower()}">'
        f"by {each.clock} time</button>"
        for each in sorted((data, other), key=lambda each: each.clock is Clock.processor)
    )
    parts = "".join(
        f'<div data-ranking="{each.clock}"{"" if each is data else " hidden"}>{_ranking(each)}</div>'
        for each in (data, other)
    )
    tools = f'<div class="tools" role="group" aria-label="Which time counts">{keys}</div>'
    return section("ranking", "Ranking", "", tools + parts)


def _ranking(data: StudyData) -> str:
    lead = (
        f'<p class="lead">Shifted geometric mean of the {data.time_word}s, with '
        f"a shift of {format_time(data.shift)} (the median of the best times). An instance a solver does not "
        "decide is charged its time limit. Bars are logarithmic, from the shift up, so that their parts add "
        "up: the hatched part is what the charges contribute.</p>"
    )
    blocks = _bars(data, data.overall)
    if len(data.groups) > 1:
        few = len(data.groups) <= CARDS_WITH_BARS
        parts = "".join(_bars(data, group) for group in data.groups)
        blocks += f'<div class="cards gap">{parts}</div>' if few else _winners(data)
    return lead + blocks


def _bars(data: StudyData, group: Group) -> str:
    order = {solver: index for index, solver in enumerate(data.solvers)}
    full = max((sum(data.log_shares(solver, group)) for solver, _, _ in group.ranking), default=1.0) or 1.0
    rows = []
    for solver, solved, mean in group.ranking:
        own, charges = data.log_shares(solver, group)
        charged = f'<span class="charged">{mean.charged} charged</span>' if mean.charged else ""
        rows.append(
            f'<tr><th scope="row">{swatch(order[solver])}{in_html(solver)}</th>'
            f'<td class="n">{solved}<small>/{group.instances}</small></td><td class="barcell"><div '
            'class="track">'
            f'<i style="width:{100 * own / full:.2f}%;background:var(--s{order[solver] % COLOURS})"></i>'
            f'<i class="hatch" style="width:{100 * charges / full:.2f}%"></i></div></td>'
            f'<td class="n">{format_time(mean.value)}{charged}</td></tr>'
        )
    return (
        f'<div class="card"><h3>{in_html(group.name)}</h3><table class="ranks bars"><thead><tr><th>'
        "solver</th><th>decided</th>"
        f"<th></th><th>mean</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _winners(data: StudyData) -> str:
    order = {solver: index for index, solver in enumerate(data.solvers)}
    rows = []
    for group in data.groups:
        solver, solved, mean = group.ranking[0]
        if not solved:
            rows.append(f'<tr><th scope="row">{in_html(group.name)}</th><td colspan="4">nobody</td></tr>')
            continue
        lead = group.lead
        ahead = "alone" if lead is None else f"{lead:.2f} ×" if lead < 100 else f"{lead:.0f} ×"
        rows.append(
            f'<tr><th scope="row">{in_html(group.name)}</th>'
            f"<td>{swatch(order[solver])}{in_html(solver)}</td>"
            f'<td class="n">{solved}<small>/{group.instances}</small></td>'
            f'<td class="n">{format_time(mean.value)}</td><td class="n">{ahead}</td></tr>'
        )
    return (
        '<div class="card gap wide"><h3>Who wins where</h3><table class="ranks wins"><thead><tr>'
        "<th>problem</th><th>winner</th><th>decided</th><th>mean</th>"
        f"<th>ahead of the next by</th></tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def _matrix(data: StudyData) -> str:
    lead = (
        "What was verified, with the median time. "
        '<span class="chip feasible">✓ feasible</span> <span class="chip infeasible">✕ infeasible</span> '
        '<span class="chip bracket">[ ] bracket</span> <span class="chip undecided">? undecided</span> '
        '<span class="chip failed">! failed</span> '
        '<span class="chip lie">lie</span> the raw status contradicts a proof; '
        '<span class="chip unproven">unproven</span> it claims what could not be verified; '
        '<span class="chip conflict">conflict</span> two verified verdicts contradict each other; '
        '<span class="chip">no solver asked</span> the family\'s own bounds closed the bracket. '
        "Click for details."
    )
    head = "".join(f'<th scope="col"><span>{in_html(solver)}</span></th>' for solver in data.solvers)
    rows = []
    for problem in data.problems:
        row = data.matrix[problem]
        conflict = any(cell.conflict for cell in row.values())
        marks = "".join(_matrix_cell(row.get(solver)) for solver in data.solvers)
        rows.append(
            f'<tr{" class=conflict" if conflict else ""}><th scope="row">{in_html(problem)}</th>{marks}</tr>'
        )
    tall = " tall" if len(rows) > ROWS_AT_ONCE else ""
    table = (
        f'<div class="scroll{tall}"><table class="matrix"><thead><tr><th></th>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
    return section("verdicts", "Verdicts", lead, table + _lies(data))


def _lies(data: StudyData) -> str:
    if not data.lies:
        return ""
    order = {solver: index for index, solver in enumerate(data.solvers)}
    rows = []
    for cell in data.lies:
        truth = data.truth[cell["problem"], cell["seed"]]
        proved_by = data.proved_by(cell)
        shown = ", ".join(proved_by[:NAMED]) + (
            f" and {len(proved_by) - NAMED} more" * (len(proved_by) > NAMED)
        )
        rows.append(
            f'<tr data-cell="{in_html(cell["key"])}" tabindex="0">'
            f'<th scope="row">{swatch(order[cell["solver"]])}{in_html(cell["solver"])}</th>'
            f"<td>{in_html(cell['problem'])}, seed {cell['seed']}</td>"
            f"<td><q>{in_html(short(cell['raw_status']))}</q>, that is "
            f'<span class="chip {cell["claimed"]}">{cell["claimed"]}</span></td>'
            f'<td><span class="chip {truth}">{truth}</span> by {in_html(shown)}</td></tr>'
        )
    return (
        '<div class="card gap lies"><h3>Raw statuses that contradict a proof</h3><div class="inner">'
        '<table class="ranks"><thead><tr><th>solver</th><th>problem</th><th>it said</th><th>proved</th></tr>'
        f"</thead><tbody>{''.join(rows)}</tbody></table></div></div>"
    )


def short(text: str) -> str:
    """As much of a raw status as fits into a line."""
    return text if len(text) <= STATUS_LENGTH else f"{text[: STATUS_LENGTH - 1]}…"


def _matrix_cell(cell: MatrixCell | None) -> str:
    if cell is None:
        return '<td class="none">·</td>'
    words = sorted(cell.verdicts, key=lambda word: -cell.verdicts[word])
    total = sum(cell.verdicts.values())
    kind = words[0] if words[0] in SYMBOLS else "failed"
    symbols = " ".join(
        SYMBOLS.get(word, "!") + (f"<sub>{cell.verdicts[word]}</sub>" if len(words) > 1 else "")
        for word in words
    )
    badges = ""
    if cell.lies:
        badges += f'<em class="chip lie">lie{f" ×{cell.lies}" if total > 1 else ""}</em>'
    if cell.unproven:
        badges += '<em class="chip unproven">unproven</em>'
    if cell.unasked:
        badges += '<em class="chip">no solver asked</em>'
    if cell.conflict:
        badges += '<em class="chip conflict">conflict</em>'
    told = "; ".join(f"{word} {cell.verdicts[word]} of {total}" for word in words)
    failed = "" if words[0] in SYMBOLS else f"<small>{in_html(words[0])}</small>"
    return (
        f'<td class="{kind}" data-cell="{in_html(cell.keys[0])}" tabindex="0" role="button" '
        f'data-tip="{in_html(told)}">'
        f"<b>{symbols}</b>{failed or f'<small>{format_time(cell.time)}</small>'}{badges}</td>"
    )


def profiles(data: StudyData) -> str:
    """The section with performance profiles.

    Parameters
    ----------
    data : StudyData
        The study.
    """
    lead = (
        "Performance profiles (Dolan and Moré): the share of instances a solver decides within a "
        "factor of the "
        "fastest one. At the left end, how often it is the fastest; at the right end, how often it "
        "decides at all."
    )
    notes = {s: f"{p.wins:.0%} fastest, {p.solved:.0%} decided" for s, p in data.profiles.items()}
    chart = f'<figure class="card" data-chart="profiles">{profile_chart(data)}{_legend(data, notes)}</figure>'
    return section("profiles", "Performance profiles", lead, chart)


def _scaling(data: StudyData) -> str:
    lead = (
        f"{data.time_word.capitalize()} against the size of the largest block, "
        "on decided instances. Lines are fitted power laws, shaded with their 95 % confidence bands (left "
        "out where the interval of the exponent, beside the name, is wider than 2)."
    )
    if not data.scalings:
        return section("scaling", "Scaling", "Nothing to fit: this takes at least three different sizes.", "")
    figures = []
    for scaling in data.scalings:
        notes = dict.fromkeys(scaling.points, "")
        for solver, fit in scaling.fits.items():
            notes[solver] = f"n<sup>{fit.slope:.2f}</sup> ({fit.slope_low:.2f} … {fit.slope_high:.2f})"
        figures.append(
            f'<figure class="card" data-chart="scaling"><h3>{in_html(scaling.name)}</h3>'
            f"{scaling_chart(data, scaling)}{_legend(data, notes)}</figure>"
        )
    return section("scaling", "Scaling", lead, f'<div class="cards charts">{"".join(figures)}</div>')


def _accuracy(data: StudyData) -> str:
    lead = (
        "How good the evidence is as the backend handed it in, before any repair: the largest "
        "relative violation of "
        "a row or a set by a point, of a sign by a certificate, or the relative width of a bracket. "
        "Below is better, "
        "left is faster; what is exactly zero lies on the bottom line. Click a mark for its cell."
    )
    if not data.accuracy:
        return section("accuracy", "Accuracy against time", "No evidence to measure.", "")
    notes = dict.fromkeys(data.accuracy, "")
    chart = (
        f'<figure class="card" data-chart="accuracy">{accuracy_chart(data)}{_legend(data, notes)}</figure>'
    )
    return section("accuracy", "Accuracy against time", lead, chart)


def _cells(data: StudyData) -> str:
    def choice(name: str, values: list[str]) -> str:
        options = "".join(f"<option>{in_html(v)}</option>" for v in values)
        every = f'<option value="">every {name}</option>'
        return f'<select id="by-{name}" aria-label="{name}">{every}{options}</select>'

    verdicts = list(dict.fromkeys(cell["shown"] for cell in data.cells))
    tools = (
        '<div class="tools"><input id="search" type="search" placeholder="filter: any text" '
        'aria-label="Filter">'
        + choice("solver", data.solvers)
        + choice("verdict", verdicts)
        + '<label><input type="checkbox" id="odd"> only lies, unproven, conflicts, failures</label>'
        '<span id="count"></span><span class="downloads">Download what is shown '
        '<button type="button" id="get-csv">CSV</button>'
        '<button type="button" id="get-json">JSON</button></span></div>'
    )
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button" data-column="{name}">{label}</button></th>'
        for name, label in TABLE
    )
    table = (
        f'<div class="scroll tall"><table class="cells" id="cell-table"><thead><tr>{head}</tr></thead>'
        "<tbody></tbody></table></div>"
    )
    return section("cells", "Cells", "Every cell; click a row for its log and explanation.", tools + table)


def run_facts(data: StudyData) -> str:
    """Where and how the last run was made.

    Parameters
    ----------
    data : StudyData
        The study.
    """
    for run in data.runs[-1:]:
        environment = json.loads(run["environment"])
        settings = json.loads(run["settings"])
        versions = ", ".join(f"{name} {v}" for name, v in environment.get("versions", {}).items())
        rows = {
            "machine": f"{environment.get('cpu')}, {environment.get('cores')} cores, "
            f"{environment.get('memory', 0) / 2**30:.0f} GiB; {environment.get('system')}",
            "versions": versions,
            "BLAS": f"{environment.get('blas')}, {settings.get('threads')} thread(s) a cell",
            "revision": environment.get("revision") or "installed release",
            "limits": f"{settings['time_limit']:g} s and {settings['memory_limit'] / 2**20:,.0f} MiB a cell",
            "command": run["command"],
            "runs": f"{len(data.runs)}",
        }
        body = "".join(f"<dt>{name}</dt><dd>{in_html(str(text))}</dd>" for name, text in rows.items())
        return f'<dl class="card facts">{body}</dl>'
    return ""


def _about(data: StudyData) -> str:
    parts = [run_facts(data)]
    solvers = [
        (row["name"], row["card"] or _options(row), f"{row['backend']} {row['version']}")
        for row in data.solver_rows
    ]
    problems = [(p["label"], p["card"], p["summary"]) for p in data.problem_rows]
    parts += [_texts("Solvers", solvers), _texts("Problems", problems)]
    return section("about", "About this study", "", "".join(parts)) + "</main>\n"


def _texts(title: str, rows: list[tuple[str, str, str]]) -> str:
    items = "".join(
        f"<details><summary><b>{in_html(name)}</b> <span>{in_html(note)}</span></summary>"
        f"<pre>{in_html(text.strip(), lines=True)}</pre></details>"
        for name, text, note in rows
    )
    return f'<div class="card texts"><h3>{title}</h3>{items}</div>'


def _options(solver: dict[str, Any]) -> str:
    options = json.loads(solver["options"])
    return "\n".join(f"{name} = {value!r}" for name, value in options.items()) or "no options"
