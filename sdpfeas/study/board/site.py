"""A board as a site of plain files that opens from disk: pages, tables as text, evidence."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path
from typing import Any

from sdpfeas.files import writing
from sdpfeas.study.board.board_data import MATCHED_ACCURACY, BoardData, Standing
from sdpfeas.study.board.data_sets import PROBLEM_SETS, known_sets
from sdpfeas.study.board.problems import set_of, slug
from sdpfeas.study.report.pages import asset, render_page, sentences
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
    _write(folder / "board.md", _page("board", board, "", markdown=True))
    first = folder / "index.html"
    _write(first, _page("overview", board, ""))
    return first


def _write(path: Path, content: str | bytes) -> None:
    with writing(path):
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


# ---------------------------------------------------------------- pages


def _page(template: str, board: BoardData, up: str, *, markdown: bool = False, **context: Any) -> str:
    context |= {"board": board, "up": up, "sentences": sentences(board.headlines, markdown=markdown)}
    context |= {"PROBLEM_SETS": PROBLEM_SETS, "Standing": Standing, "slug": slug}
    context |= {"MATCHED_ACCURACY": MATCHED_ACCURACY}
    return render_page(f"board/{template}.{'md' if markdown else 'html'}.j2", **context)


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
    why = board.unaudited.get(problem, "no proof was found")
    return _page(
        "problem",
        board,
        "../",
        row=next(row for row in board.data.problem_rows if row["label"] == problem),
        set_title=PROBLEM_SETS[set_of(problem)],
        truth=board.truths.get(problem),
        unknown=board.contradictions.get(problem, f"Not known: {why}."),
        evidence=evidence,
        public=set_of(problem) in known_sets(),
        cells=board.about(problem),
    )
