r"""Escape untrusted text for terminals, Markdown, HTML, CSV and figures.

Names come from files and may contain anything: escape sequences of terminals, markup of Rich, links and
images of Markdown, HTML, formulas of spreadsheets and of Matplotlib. There is one function per medium. Each
writes control characters, and characters that change the direction of text, as escapes such as ``\x1b``.
"""

from __future__ import annotations

import html
import re
from typing import Any

#: Control characters, bidirectional marks, line separators, invisible tags and lone surrogates.
INVISIBLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)

#: Characters that begin a link, an image, emphasis, code, a cell, a mention or a formula in Markdown.
MARKDOWN_SYNTAX = re.compile(r"[\\`*_\[\]<>|~$#@]|:(?=//)|(?<=www)\.", re.IGNORECASE)

#: The beginning of a cell that a spreadsheet evaluates as a formula.
FORMULA = re.compile(r"\s*[=+\-@|%]")


def visible(text: str, *, lines: bool = False) -> str:
    r"""Replace invisible characters by escapes; ``lines`` keeps line breaks and tabs."""
    kept = "\n\t" if lines else ""
    return INVISIBLE.sub(
        lambda found: found[0] if found[0] in kept else found[0].encode("unicode_escape").decode(), text
    )


def escape_terminal(text: object, *, lines: bool = False) -> str:
    """Escape text for use within Rich markup."""
    from rich.markup import escape

    return escape(visible(str(text), lines=lines))


def escape_markdown(text: str) -> str:
    """Escape text for a line or a table cell of Markdown."""
    return MARKDOWN_SYNTAX.sub(r"\\\g<0>", visible(text)).replace("&", "&amp;")


def escape_html(text: str, *, lines: bool = False) -> str:
    """Escape text for an element or a quoted attribute of HTML or SVG."""
    return html.escape(visible(text, lines=lines))


def escape_csv(value: Any) -> Any:
    """Escape text in a CSV cell, so that a spreadsheet evaluates no formula; other values are unchanged."""
    if not isinstance(value, str):
        return value
    shown = visible(value, lines=True)
    return f"'{shown}" if FORMULA.match(shown) and not _is_number(shown) else shown


def escape_figure(text: str) -> str:
    """Escape text for a figure of Matplotlib."""
    return visible(text).replace("$", r"\$")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
