"""Pages of reports and boards in HTML and Markdown, made from the Jinja templates beside this module.

:func:`render_page` fills a template. Every text that a template shows is escaped for its format: control
characters become visible. :func:`render_html` and :func:`render_markdown` make the report.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from sdpfeas import __version__
from sdpfeas.escaping import escape_html, escape_markdown, visible
from sdpfeas.io.tables import BAR, markdown_table
from sdpfeas.study.cells import Clock
from sdpfeas.study.history import version_table
from sdpfeas.study.report import charts
from sdpfeas.study.report.study_data import StudyData, format_time, headlines
from sdpfeas.study.store import Store, to_csv

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

#: Characters of a log that the report shows; the database holds more.
LOG_LENGTH = 6000

#: Characters of a raw status that tables show.
STATUS_LENGTH = 60

#: Columns of the table of cells: their names in the data, and on the page.
TABLE = {
    "solver": "solver",
    "problem": "problem",
    "seed": "seed",
    "size": "size",
    "rows": "rows",
    "shown": "verdict",
    "proof": "proof",
    "claimed": "raw claim",
    "solve_time": "time",
    "cpu_time": "processor",
    "iterations": "iterations",
    "error": "error",
    "peak_memory": "memory",
}

#: Texts of several lines.
TEXTS = ("reason", "explanation", "raw_status", "info", "log")


# ---------------------------------------------------------------- templates


def render_page(template: str, **context: Any) -> str:
    """Fill a template."""
    return _environment(template.endswith(".md.j2")).get_template(template).render(context)


def asset(name: str) -> str:
    """The text of the style sheet or of a script."""
    return (files("sdpfeas.study.report") / "templates" / name).read_text(encoding="utf-8")


def sentences(headlines: Callable[[Callable[[str], str]], list[str]], *, markdown: bool) -> list[Markup]:
    """A summary with its names escaped and in bold; the rest of its sentences is text of our own."""
    from markupsafe import Markup

    def show(name: str) -> str:
        return f"**{escape_markdown(name)}**" if markdown else f"<strong>{escape_html(name)}</strong>"

    return [Markup(line) for line in headlines(show)]


@cache
def _environment(markdown: bool) -> Environment:
    # Imported here: worker processes import this package and render nothing.
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    def escaped(value: Any) -> Any:
        """Untrusted text; for HTML, autoescaping does the rest."""
        if not isinstance(value, str) or hasattr(value, "__html__"):
            return value
        return Markup(escape_markdown(value)) if markdown else visible(value)

    def table(text: str, **how: Any) -> Markup:
        """Align the lines of a Markdown table whose cells are separated by bars."""
        head, *rows = [[cell.strip() for cell in BAR.split(line)] for line in text.strip().splitlines()]
        return Markup("\n".join([*markdown_table(head, rows, **how), ""]))

    environment = Environment(
        loader=PackageLoader("sdpfeas.study.report"),
        autoescape=True,
        finalize=escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters |= {
        "cut": _cut,
        "lines": lambda text: Markup(escape_html(text.strip(), lines=True)),
        "table": table,
        "short": lambda text: text if len(text) <= STATUS_LENGTH else f"{text[: STATUS_LENGTH - 1]}…",
        "time": format_time,
    }
    environment.globals |= {
        "COLOURS": charts.COLOURS,
        "accuracy_chart": charts.accuracy_chart,
        "asset": lambda name: Markup(asset(name)),
        "profile_chart": charts.profile_chart,
        "scaling_chart": charts.scaling_chart,
        "solver_style": charts.solver_style,
    }
    return environment


def _cut(text: str, length: int) -> str:
    """The text, or its beginning up to a space."""
    return text if len(text) <= length else text[:length].rpartition(" ")[0] + " …"


# ---------------------------------------------------------------- the report


def render_html(
    store: Store, clock: Clock = Clock.wall, axis: str | None = None, *, history: bool = False
) -> str:
    """The report on a study as one HTML file that works offline.

    ``clock`` is the time that is compared; the ranking is given by both. ``axis`` is the parameter that times
    are drawn against. ``history`` adds a table of earlier versions of the solvers.
    """
    data, other = StudyData(store, clock, axis), StudyData(store, clock.other, axis)
    started = datetime.fromtimestamp(data.runs[-1]["started"], UTC) if data.runs else None
    return render_page(
        "report.html.j2",
        data=data,
        other=other,
        when=f"{started:%Y-%m-%d %H:%M UTC}" if started else "",
        version=__version__,
        sentences=sentences(partial(headlines, data), markdown=False),
        solver_texts=[
            (row["name"], f"{row['backend']} {row['version']}", row["card"] or _options(row))
            for row in data.solver_rows
        ],
        problem_texts=_problem_texts(data),
        payload=_payload(data),
        history=_history(store, clock) if history else [],
        history_columns=HISTORY,
    )


def render_markdown(
    store: Store, clock: Clock = Clock.wall, axis: str | None = None, *, history: bool = False
) -> str:
    """The report as Markdown text, with the options of :func:`render_html`."""
    data = StudyData(store, clock, axis)
    return render_page(
        "report.md.j2",
        data=data,
        sentences=sentences(partial(headlines, data), markdown=True),
        history=_history(store, clock) if history else [],
        history_columns=HISTORY,
    )


def _options(solver: dict[str, Any]) -> str:
    options = json.loads(solver["options"])
    return "\n".join(f"{name} = {value!r}" for name, value in options.items()) or "no options"


def _problem_texts(data: StudyData) -> list[tuple[str, str, str]]:
    """Label, summary and card of every problem; the seeds of one have the same label."""
    seeds = Counter(row["label"] for row in data.problem_rows)
    rows = {row["label"]: row for row in data.problem_rows}
    return [
        (label, row["summary"] + (f"; {seeds[label]} seeds" if seeds[label] > 1 else ""), row["card"])
        for label, row in rows.items()
    ]


def _payload(data: StudyData) -> dict[str, Any]:
    """The data behind the page: the cells of its table, and the lines of the CSV file by cell."""
    cells = []
    problems, solvers = ({name: k for k, name in enumerate(each)} for each in (data.problems, data.solvers))
    by_problem = sorted(data.cells, key=lambda c: (problems[c["problem"]], solvers[c["solver"]], c["seed"]))
    for cell in by_problem:  # the seeds of one problem beside each other
        shown = {name: _plain(value, lines=name in TEXTS) for name, value in cell.items()}
        cells.append(shown | {"log": _middle_left_out(shown["log"] or ""), "parameters": None})
    head = to_csv([])
    rows = [[cell["key"], to_csv([cell])[len(head) :]] for cell in data.all_cells]
    return {
        "name": data.path.stem,
        "columns": list(TABLE.items()),
        "cells": cells,
        "csv": {"head": head, "rows": rows},
    }


def _plain(value: Any, *, lines: bool) -> Any:
    """A value of a cell as JSON can hold it and a page may show it."""
    if isinstance(value, str):
        return visible(value, lines=lines)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _middle_left_out(log: str) -> str:
    if len(log) <= LOG_LENGTH:
        return log
    half = LOG_LENGTH // 2
    gap = f"[… {len(log) - LOG_LENGTH:,} characters left out; they are in the database …]"
    return f"{log[:half]}\n{gap}\n{log[-half:]}"


#: Columns of the table of versions.
HISTORY = ("solver", "version", "hash", "last cell", "library", "host", "cells", "decided", "time")


def _history(store: Store, clock: Clock) -> list[list[str]]:
    """Rows of the table of versions; times are relative to the newest version of a solver."""
    out = []
    for row in version_table(store.history(), clock):
        day = datetime.fromtimestamp(row["finished"], UTC).date().isoformat() if row["finished"] else "–"
        ratio = "–" if math.isnan(row["ratio"]) else f"{row['ratio']:.2f} ×"
        library = " ".join(filter(None, (row["library"], row["revision"])))
        names = (row["solver"], row["solver_version"] or "–", row["solver_hash"][:8], day, library or "–")
        out.append([*names, row["host"] or "–", str(row["cells"]), str(row["decided"]), ratio])
    return out
