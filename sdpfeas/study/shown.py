"""A study in one line, and as a card in a notebook."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

from sdpfeas.errors import SdpfeasError
from sdpfeas.harmless import visible
from sdpfeas.notebook.card import Card

__all__ = ["Shown"]

#: Solvers that a card lists at most.
SHOWN_SOLVERS = 20


class Shown:
    """What has cells and lies in a file shows itself by what became of them."""

    path: Path

    def cells(self, *, texts: bool = True) -> list[dict[str, Any]]:
        """All cells, with or without their texts."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Where the study is, and how far."""
        place = visible(str(self.path))
        try:
            counts = Counter(_became(cell) for cell in self.cells(texts=False))
        except (SdpfeasError, sqlite3.Error):
            return f"Store: {place}, closed or not readable"
        return f"Store: {place}, {counts.total()} cell(s)" + (f": {_listed(counts)}" if counts else "")

    def _repr_html_(self) -> str:
        """Show what every solver decided, as a card in a notebook."""
        try:
            cells = self.cells(texts=False)
        except (SdpfeasError, sqlite3.Error):
            return Card("Study", "plain", str(self.path), note="closed or not readable").html()
        by_solver: dict[str, Counter[str]] = {}
        for cell in cells:
            by_solver.setdefault(cell["solver"], Counter())[_became(cell)] += 1
        facts = [(name, _listed(counts)) for name, counts in list(by_solver.items())[:SHOWN_SOLVERS]]
        problems = len({cell["problem"] for cell in cells})
        title = f"{self.path.name}: {len(by_solver)} solver(s), {problems} problem(s), {len(cells)} cell(s)"
        more = len(by_solver) - SHOWN_SOLVERS
        note = f"… and {more} more solvers" if more > 0 else ""
        return Card("Study", "plain", title, facts, note=note).html()


def _became(cell: dict[str, Any]) -> str:
    """The verdict of a cell, else how it ended, else where it stands."""
    return str(cell["verdict"] or cell["outcome"] or cell["state"])


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in counts.most_common())
