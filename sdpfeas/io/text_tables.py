"""Tables as text: Markdown and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sdpfeas.harmless import in_csv

__all__ = ["csv_table", "markdown_table"]

#: What would end a cell of a Markdown table too early.
BAR = re.compile(r"(?<!\\)\|")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> list[str]:
    """The lines of a Markdown table that also reads well as it is.

    Parameters
    ----------
    head : sequence of str
        Heads of the columns, as Markdown: names go through ``in_markdown`` of :mod:`sdpfeas.harmless` first.
    rows : iterable of sequence of str
        The rows, likewise.
    numbers : bool
        Whether all columns but the first hold numbers, which go to the right.
    """
    lines = [[BAR.sub(r"\\|", cell) for cell in line] for line in (head, *rows)]
    widths = [max(3, *(len(line[k]) for line in lines)) for k in range(len(head))]
    right = [numbers and k > 0 for k in range(len(head))]
    texts = [
        " | ".join(
            cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(line, widths, right, strict=True)
        )
        for line in lines
    ]
    rule = "|".join("-" * (w + 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True))
    return [f"| {texts[0]} |", f"|{rule}|", *(f"| {text} |" for text in texts[1:])]


def csv_table(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Records as CSV text that no spreadsheet computes with; what is in no column is left out.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns, in order.
    records : iterable of mapping
        Values by column.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([in_csv(record[name]) for name in columns] for record in records)
    return text.getvalue()
