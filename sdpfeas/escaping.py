r"""Names come from files, so anything may stand in them: every medium shows them, and none obeys them.

One function a medium, here and nowhere else: terminals (escape sequences, markup of Rich), Markdown (links,
images, tables), HTML, tables for spreadsheets (formulas), figures (formulas of Matplotlib). In all of them
control characters, and those that turn the direction of text, are shown as escapes such as ``\x1b``.
"""

from __future__ import annotations

import html
import re
from typing import Any

#: Controls, marks that change the direction of text or break lines, invisible tags, lone surrogates.
UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)

#: What begins a link, an image, emphasis, code, a cell, a mention or a formula in some kind of Markdown.
MARKED = re.compile(r"[\\`*_\[\]<>|~$#@]|:(?=//)|(?<=www)\.", re.IGNORECASE)

#: What makes a spreadsheet compute, or look at the next character.
FORMULA = re.compile(r"\s*[=+\-@|%]")


def visible(text: str, *, lines: bool = False) -> str:
    r"""Text in one line, in which nothing hides.

    ``lines``: keep line breaks and tabs: for text of several lines that was put together of harmless parts.
    """
    kept = "\n\t" if lines else ""
    return UNSEEN.sub(
        lambda found: found[0] if found[0] in kept else found[0].encode("unicode_escape").decode(), text
    )


def escape_terminal(text: object, *, lines: bool = False) -> str:
    """Text between the markup of Rich.

    ``text``: any text, or something that stands for one, such as a path.
    """
    from rich.markup import escape

    return escape(visible(str(text), lines=lines))


def escape_markdown(text: str) -> str:
    """Text in a line of Markdown, or in a cell of a table."""
    return MARKED.sub(r"\\\g<0>", visible(text)).replace("&", "&amp;")


def escape_html(text: str, *, lines: bool = False) -> str:
    """Text in an element of HTML or SVG, or in an attribute between quotes."""
    return html.escape(visible(text, lines=lines))


def escape_csv(value: Any) -> Any:
    """A value in a table that a spreadsheet may open; only text changes."""
    if not isinstance(value, str):
        return value
    shown = visible(value, lines=True)
    return f"'{shown}" if FORMULA.match(shown) and not _is_number(shown) else shown


def escape_figure(text: str) -> str:
    """Text in a figure of Matplotlib."""
    return visible(text).replace("$", r"\$")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
