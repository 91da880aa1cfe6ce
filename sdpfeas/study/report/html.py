"""The report as one HTML file that works offline: charts, tables, and all the data behind them."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from sdpfeas.escaping import in_html, visible
from sdpfeas.study.export import to_csv
from sdpfeas.study.report.model import StudyData
from sdpfeas.study.report.sections import TABLE, page_body
from sdpfeas.study.settings import Clock
from sdpfeas.study.store import Store

__all__ = ["asset", "document", "render_html"]

#: Characters of a log shown in the report; the database holds more.
LOG_LIMIT = 6000

#: Columns that may have several lines.
TEXTS = ("reason", "explanation", "raw_status", "info", "log")

KEPT = (
    *(name for name, _ in TABLE),
    "key",
    "card",
    "kind",
    "outcome",
    "verdict",
    "margin",
    "reason",
    "explanation",
    "raw_status",
    "stop",
    "cpu_time",
    "verify_time",
    "lower",
    "upper",
    "info",
    "log",
    "lie",
    "unproven",
    "conflict",
    "summary",
    "attempts",
)


def render_html(store: Store, clock: Clock = Clock.wall) -> str:
    """The report as one HTML document.

    Parameters
    ----------
    store : Store
        The study.
    clock : Clock
        Which time counts; the ranking is there by both.
    """
    data = StudyData(store, clock)
    other = StudyData(store, clock.other)
    body = page_body(data, other)
    return document(
        data.path.stem,
        f"<style>\n{asset('report.css')}</style>\n",
        f'{body}<dialog id="detail" aria-label="Cell"></dialog>\n',
        f'<script type="application/json" id="data">{_embedded(_payload(data))}</script>\n'
        f"<script>\n{asset('page.js')}{asset('report.js')}</script>\n",
    )


def asset(name: str) -> str:
    """The text of a style sheet or script that pages share."""
    return (files("sdpfeas.study.report") / "assets" / name).read_text(encoding="utf-8")


def document(title: str, head: str, body: str, scripts: str) -> str:
    """A whole page.

    Parameters
    ----------
    title : str
        What stands in the title of the window.
    head, body, scripts : str
        Styles, what a reader sees, and what makes it move.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>sdpfeas · {in_html(title)}</title>\n{head}</head>\n<body>\n"
        f'{body}<div id="tip" role="status" hidden></div>\n{scripts}</body>\n</html>\n'
    )


def _embedded(value: Any) -> str:
    # A "</script>" or "<!--" inside a solver's log must not end the element it is embedded in.
    return (
        json.dumps(_finite(value), separators=(",", ":")).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    )


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def _payload(data: StudyData) -> dict[str, Any]:
    cells = []
    for cell in data.cells:
        texts = {
            name: visible(cell[name], lines=name in TEXTS) for name in KEPT if isinstance(cell[name], str)
        }
        kept = {name: cell[name] for name in KEPT} | texts
        log = visible(cell["log"] or "", lines=True)
        if len(log) > LOG_LIMIT:
            half = LOG_LIMIT // 2
            gap = f"[… {len(log) - LOG_LIMIT:,} characters left out; they are in the database …]"
            log = f"{log[:half]}\n{gap}\n{log[-half:]}"
        kept["log"] = log
        kept["evidence"] = bool(cell["kept"])
        cells.append(kept)
    return {"name": data.path.stem, "columns": TABLE, "cells": cells, "csv": _csv_lines(data)}


def _csv_lines(data: StudyData) -> dict[str, Any]:
    """The table by lines: its head, and every cell by its key."""
    head = to_csv([])
    return {"head": head, "rows": [[cell["key"], to_csv([cell])[len(head) :]] for cell in data.all_cells]}
