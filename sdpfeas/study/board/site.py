"""Writes a board as plain files that open from disk."""

from __future__ import annotations

import shutil
from importlib.resources import files
from pathlib import Path

from sdpfeas.files import writing
from sdpfeas.study.board.markdown import render_board
from sdpfeas.study.board.model import BoardData
from sdpfeas.study.board.pages import overview, problem_page, solver_page
from sdpfeas.study.board.problems import slug
from sdpfeas.study.report.html import asset
from sdpfeas.study.store import Store

__all__ = ["write_site"]


def write_site(board: BoardData, study: Store, folder: Path) -> Path:
    """Write all pages, the tables as text, and the evidence behind every truth; return the first page.

    Parameters
    ----------
    board : BoardData
        The board.
    study : Store
        Its study, which holds the evidence.
    folder : Path
        Created if need be; pages of an earlier board in it are removed.
    """
    for part in ("solvers", "problems"):
        shutil.rmtree(folder / part, ignore_errors=True)
        (folder / part).mkdir(parents=True)
    own = (files("sdpfeas.study.board") / "assets" / "board.css").read_text(encoding="utf-8")
    _write(folder / "board.css", asset("report.css") + own)
    _write(folder / "page.js", asset("page.js"))
    for solver in board.data.solvers:
        _write(folder / "solvers" / f"{slug(solver)}.html", solver_page(board, solver))
    cards = {row["label"]: row["card"] for row in board.data.problem_rows}
    for problem in board.data.problems:
        place = folder / "problems" / slug(problem)
        truth = board.truths.get(problem)
        kept = study.evidence(truth.cell) if truth is not None else None
        _write(place.with_name(f"{place.name}.html"), problem_page(board, problem, kept is not None))
        if kept is not None:
            _write(place.with_name(f"{place.name}.toml"), cards[problem])
            path = place.with_name(f"{place.name}.npz")
            with writing(path):
                path.write_bytes(kept)
    _write(folder / "board.md", render_board(board))
    first = folder / "index.html"
    _write(first, overview(board))
    return first


def _write(path: Path, text: str) -> None:
    with writing(path):
        path.write_text(text, encoding="utf-8")
