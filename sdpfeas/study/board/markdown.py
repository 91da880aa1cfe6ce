"""A board as tables in a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sdpfeas.escaping import in_markdown
from sdpfeas.io.tables import markdown_table
from sdpfeas.study.board.model import BoardData, Standing
from sdpfeas.study.board.problems import SETS
from sdpfeas.study.report.words import format_time

__all__ = ["render_board"]


def render_board(board: BoardData) -> str:
    """The board as Markdown text: sentences, standings, sets, sizes, lies by solver, times.

    Parameters
    ----------
    board : BoardData
        The board.
    """
    out = [f"- {line}" for line in board.headlines(lambda name: f"`{in_markdown(name)}`")]
    out += ["", "## Standings", "", *_standings(board)]
    out += ["", "## By set", "", *_grouped(board, board.by_set, SETS)]
    out += ["", "## By size", "", *_grouped(board, board.by_size, {})]
    if any(count["lied"] for count in board.overall.values()):
        out += ["", "## What was said where the opposite is proved", "", *_lies(board)]
    out += ["", "## Times", "", *_times(board)]
    return "\n".join(out) + "\n"


def _standings(board: BoardData) -> list[str]:
    versions = {row["name"]: row["version"] for row in board.data.solver_rows}
    words = ("right", "lied", "undecided", "open", "proved")
    rows = [
        [in_markdown(name), in_markdown(versions[name]), *(str(count[word]) for word in words)]
        for name, count in board.overall.items()
    ]
    return markdown_table(["solver", "version", *words], rows)


def _grouped(
    board: BoardData, groups: Mapping[str, Mapping[str, Counter[str]]], names: Mapping[str, str]
) -> list[str]:
    head = ["right / lied / of", *map(in_markdown, board.data.solvers)]
    rows = [
        [
            in_markdown(names.get(group, group)),
            *(
                f"{row[solver]['right']} / {row[solver]['lied']} / {row[solver]['cells']}"
                for solver in board.data.solvers
            ),
        ]
        for group, row in groups.items()
    ]
    return markdown_table(head, rows)


def _lies(board: BoardData) -> list[str]:
    told = Counter(
        (cell["solver"], cell["raw_status"], board.truths[cell["problem"]].verdict, SETS[cell["set"]])
        for cell in board.data.cells
        if cell["standing"] is Standing.lied
    )
    rows = [[*map(in_markdown, key), str(number)] for key, number in sorted(told.items())]
    return markdown_table(["solver", "it said", "proved", "set", "times"], rows)


def _times(board: BoardData) -> list[str]:
    best = board.data.overall
    lead = (
        f"Shifted geometric means of processor times, shift {format_time(board.data.shift)}; "
        "an answer without a proof of its own costs the time limit."
    )
    rows = [
        [in_markdown(solver), f"{solved} of {best.instances}", format_time(mean.value)]
        for solver, solved, mean in best.ranking
    ]
    return [lead, "", *markdown_table(["solver", "proved", "mean"], rows)]
