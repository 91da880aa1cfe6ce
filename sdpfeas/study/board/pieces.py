"""Pieces that the pages of a board share: the frame, titles, chips, links and bars."""

from __future__ import annotations

from collections.abc import Mapping

from sdpfeas.escaping import in_html
from sdpfeas.study.board.model import BoardData, Standing
from sdpfeas.study.board.problems import slug
from sdpfeas.study.report.html import document
from sdpfeas.study.report.sections import swatch

__all__ = [
    "MEANINGS",
    "ORDER",
    "chip",
    "number",
    "page",
    "problem_link",
    "solver_link",
    "title",
    "track",
]

#: What each standing is called, and what it means.
MEANINGS = {
    Standing.right: "the raw status says what is proved",
    Standing.lied: "the raw status says the opposite of what is proved",
    Standing.silent: "no claim: undecided, out of time, failed",
    Standing.open: "a claim, and nothing is proved of the numbers given",
}

#: The order in which standings are drawn.
ORDER = (Standing.right, Standing.silent, Standing.open, Standing.lied)


def page(title: str, up: str, body: str) -> str:
    """A whole page; ``up`` leads to the folder of the site."""
    links = "".join(
        f'<a href="{up}index.html#{anchor}">{name}</a>'
        for anchor, name in (
            ("summary", "Summary"),
            ("sets", "By set"),
            ("sizes", "By size"),
            ("problems", "Problems"),
            ("profiles", "Times"),
            ("about", "About"),
        )
    )
    header = (
        f'<header><div class="bar"><a class="brand" href="{up}index.html">sdpfeas <span>the board</span></a>'
        f'<nav aria-label="Sections">{links}</nav>'
        '<button id="theme" type="button" aria-label="Switch between light and dark">◐</button></div>'
        "</header>\n"
    )
    head = f'<link rel="stylesheet" href="{up}board.css">\n'
    script = f'<script src="{up}page.js"></script>\n'
    return document(title, head, f"{header}<main>{body}</main>\n", script)


def title(heading: str, lead: str) -> str:
    """The heading of a page, and a line below it."""
    return f'<div class="title"><h1>{heading}</h1><p>{lead}</p></div>\n'


def chip(kind: str, text: str | None = None) -> str:
    """A word on a coloured ground."""
    return f'<span class="chip {in_html(kind)}">{in_html(text or kind)}</span>'


def solver_link(board: BoardData, solver: str, up: str) -> str:
    """A solver, with its colour, that leads to its page."""
    index = board.data.solvers.index(solver)
    return f'{swatch(index)}<a href="{up}solvers/{slug(solver)}.html">{in_html(solver)}</a>'


def problem_link(problem: str, up: str, name: str = "") -> str:
    """A problem that leads to its page."""
    return f'<a href="{up}problems/{slug(problem)}.html">{in_html(name or problem)}</a>'


def track(count: Mapping[str, int]) -> str:
    """A bar of all standings, with its numbers for those who cannot see it."""
    total = max(count["cells"], 1)
    told = ", ".join(f"{count[standing.value]} {standing.value}" for standing in ORDER)
    parts = "".join(
        f'<i class="{standing.name}" style="width:{100 * count[standing.value] / total:.2f}%"></i>'
        for standing in ORDER
        if count[standing.value]
    )
    return f'<div class="track" role="img" aria-label="{told}" data-tip="{told}">{parts}</div>'


def number(value: int, kind: str = "") -> str:
    """A cell with a count, marked where there is any."""
    mark = f" {kind}" if value and kind else ""
    return f'<td class="n{mark}">{value or "·"}</td>'
