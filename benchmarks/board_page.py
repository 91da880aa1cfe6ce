"""Put the tables of a finished board into docs/board.md: ``python benchmarks/board_page.py FOLDER``.

``make board`` computes the board and calls this.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
from pathlib import Path

from sdpfeas.escaping import escape_markdown
from sdpfeas.study.store import Store

#: The marks around the generated part of the page.
BEGIN, END = "<!-- tables of the board: begin -->", "<!-- tables of the board: end -->"

PAGE = Path(__file__).resolve().parents[1] / "docs" / "board.md"


def described(folder: Path) -> str:
    """Describe when and where the board was computed, from its last run."""
    with Store(folder / "study.db", readonly=True) as study:
        runs = study.runs()
    environment, settings = json.loads(runs[-1]["environment"]), json.loads(runs[-1]["settings"])
    day = dt.datetime.fromtimestamp(runs[-1]["started"], dt.UTC)
    minutes = sum((run["finished"] or run["seen"]) - run["started"] for run in runs) / 60.0
    facts = [
        f"{day.day} {day:%B %Y}",
        f"commit {environment['revision']}" if environment["revision"] else "an installed release",
        f"{environment['cores']} cores with {environment['memory'] / 1e9:.0f} GB",
        f"BLAS of NumPy: {environment['blas']}",
        f"{settings['time_limit']:g} s per cell, one thread",
        f"{minutes:.0f} minutes without the audits",
    ]
    return escape_markdown("; ".join(facts)) + "."


def main() -> None:
    """Replace the generated part of the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the board")
    folder = parser.parse_args().folder
    tables = (folder / "site" / "board.md").read_text(encoding="utf-8").replace("\n## ", "\n### ")
    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE} must hold {BEGIN} and, after it, {END}")
    made = f"{BEGIN}\n\n{described(folder)}\n\n{tables}\n{END}"
    PAGE.write_text(before + made + after, encoding="utf-8")


if __name__ == "__main__":
    main()
