"""A board as a site of plain files that opens from disk: pages, tables as text, evidence."""

from __future__ import annotations

import gzip
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sdpfeas.escaping import escape_markdown
from sdpfeas.files import writing
from sdpfeas.io.tables import markdown_table
from sdpfeas.study.board.board_data import MATCHED_ACCURACY, BoardData, Standing
from sdpfeas.study.board.data_sets import PROBLEM_SETS, known_sets
from sdpfeas.study.board.problems import set_of, slug
from sdpfeas.study.report.pages import asset, html_sentences, render_page
from sdpfeas.study.report.study_data import format_time
from sdpfeas.study.store import Store

__all__ = ["write_site"]


def write_site(board: BoardData, study: Store, folder: Path) -> Path:
    """Write all pages, the tables as text, and the evidence behind every truth; return the first page.

    The folder is created if need be; pages of an earlier board in it are removed.
    """
    for part in ("solvers", "problems"):
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir(parents=True)
    for name in ("style.css", "page.js"):
        _write(folder / name, asset(name))
    for solver in board.data.solvers:
        _write(folder / "solvers" / f"{slug(solver)}.html", _solver_page(board, solver))
    cards = {row["label"]: row["card"] for row in board.data.problem_rows}
    for problem in board.data.problems:
        path = folder / "problems" / slug(problem)
        truth = board.truths.get(problem)
        evidence = study.evidence(truth.cell) if truth is not None else None
        _write(path.with_name(f"{path.name}.html"), _problem_page(board, problem, evidence is not None))
        if evidence is not None:
            _write(path.with_name(f"{path.name}.toml"), cards[problem])
            _write(path.with_name(f"{path.name}.npz"), evidence)
            if truth is not None and truth.checked is not None:
                _write(path.with_name(f"{path.name}.json"), gzip.decompress(truth.checked))
    _write(folder / "board.md", _markdown(board))
    first = folder / "index.html"
    _write(first, _overview(board))
    return first


def _write(path: Path, content: str | bytes) -> None:
    with writing(path):
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


# ---------------------------------------------------------------- pages


def _page(template: str, board: BoardData, up: str, **context: Any) -> str:
    names = {"PROBLEM_SETS": PROBLEM_SETS, "Standing": Standing, "slug": slug}
    names |= {"MATCHED_ACCURACY": MATCHED_ACCURACY}
    return render_page(f"board/{template}.html.j2", board=board, up=up, **names, **context)


def _overview(board: BoardData) -> str:
    return _page("overview", board, "", sentences=html_sentences(board.headlines))


def _solver_page(board: BoardData, solver: str) -> str:
    row = next(row for row in board.data.solver_rows if row["name"] == solver)
    return _page(
        "solver",
        board,
        "../",
        row=row,
        cells=board.of(solver),
        count=board.overall[solver],
        known=board.notes.get(row["backend"], {}).get("notes", []),
    )


def _problem_page(board: BoardData, problem: str, evidence: bool) -> str:
    contradictions = [str(each) for each in board.contradictions if each.problem == problem]
    why = board.unaudited.get(problem, "no proof was found")
    return _page(
        "problem",
        board,
        "../",
        row=next(row for row in board.data.problem_rows if row["label"] == problem),
        set_title=PROBLEM_SETS[set_of(problem)],
        truth=board.truths.get(problem),
        unknown=" ".join(contradictions) or f"Not known: {why}.",
        evidence=evidence,
        public=set_of(problem) in known_sets(),
        cells=board.about(problem),
    )


# ---------------------------------------------------------------- Markdown


def _markdown(board: BoardData) -> str:
    """The board as Markdown text: sentences, standings, sets, sizes, wrong statuses by solver, times."""
    out = [f"- {line}" for line in board.headlines(lambda name: f"`{escape_markdown(name)}`")]
    out += ["", "## Standings", "", *_standings(board)]
    out += ["", "## By set", "", *_grouped(board, board.by_set, PROBLEM_SETS)]
    out += ["", "## By size", "", *_grouped(board, board.by_size, {})]
    if board.total["wrong"] + board.total[Standing.within.value]:
        out += ["", "## Statuses contradicted by proof", "", *_wrong_statuses(board)]
    out += ["", "## Times", "", *_times(board)]
    return "\n".join(out) + "\n"


def _standings(board: BoardData) -> list[str]:
    versions = {row["name"]: row["version"] for row in board.data.solver_rows}
    words = ("right", "wrong", Standing.within.value, "undecided", "open", "proved")
    rows = [
        [escape_markdown(name), escape_markdown(versions[name]), *(str(count[word]) for word in words)]
        for name, count in board.overall.items()
    ]
    return markdown_table(["solver", "version", *words], rows)


def _grouped(
    board: BoardData, groups: Mapping[str, Mapping[str, Counter[str]]], names: Mapping[str, str]
) -> list[str]:
    head = ["right / wrong / of", *map(escape_markdown, board.data.solvers)]
    rows = [
        [
            escape_markdown(names.get(group, group)),
            *(
                f"{row[solver]['right']} / {row[solver]['wrong']} / {row[solver]['cells']}"
                for solver in board.data.solvers
            ),
        ]
        for group, row in groups.items()
    ]
    return markdown_table(head, rows)


def _wrong_statuses(board: BoardData) -> list[str]:
    counts = Counter(
        (
            cell["solver"],
            cell["raw_status"],
            cell["standing"].value,
            board.truths[cell["problem"]].verdict,
            PROBLEM_SETS[cell["set"]],
        )
        for cell in board.data.cells
        if cell["standing"] in (Standing.wrong, Standing.within)
    )
    rows = [[*map(escape_markdown, key), str(number)] for key, number in sorted(counts.items())]
    return markdown_table(["solver", "raw status", "that is", "proved", "set", "times"], rows)


def _times(board: BoardData) -> list[str]:
    lead = (
        f"Shifted geometric means of processor times, shift {format_time(board.data.shift)}; an answer "
        "without a proof of its own is charged the time limit or, in the next column, three times the limit. "
        "At matched accuracy a right status counts, too, if its point has a DIMACS error of at most "
        f"{MATCHED_ACCURACY:g}."
    )
    many = board.data.overall.instances
    rows = [
        [
            escape_markdown(row.solver),
            *(f"{row.proved} of {many}", format_time(row.mean), format_time(row.late)),
            *(f"{row.matched} of {many}", format_time(row.matched_mean)),
        ]
        for row in board.times()
    ]
    head = ["solver", "proved", "mean", "failures × 3", "matched accuracy", "mean"]
    return [lead, "", *markdown_table(head, rows)]
