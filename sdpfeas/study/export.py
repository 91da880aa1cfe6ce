"""Study data as a flat table: CSV always, Parquet where pyarrow is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sdpfeas.errors import OptionError
from sdpfeas.extras import extra
from sdpfeas.files import writing
from sdpfeas.io.tables import csv_table
from sdpfeas.study.store import Store

__all__ = ["COLUMNS", "to_csv", "write_table"]

#: Columns of the table, in order. Long texts stay in the database.
COLUMNS = (
    "solver",
    "problem",
    "card",
    "parameters",
    "seed",
    "kind",
    "rows",
    "size",
    "state",
    "outcome",
    "verdict",
    "proof",
    "margin",
    "claimed",
    "raw_status",
    "stop",
    "reason",
    "iterations",
    "solve_time",
    "cpu_time",
    "verify_time",
    "peak_memory",
    "error",
    "lower",
    "upper",
    "attempts",
    "key",
)


def to_csv(cells: list[dict[str, Any]]) -> str:
    """The table as CSV text."""
    return csv_table(COLUMNS, cells)


def write_table(store: Store, path: Path) -> int:
    """Write all cells to a ``.csv``, ``.json`` or ``.parquet`` file and return how many there are.

    Raises ``OptionError``: if the ending is none of these, or pyarrow is needed and missing.
    """
    cells = store.cells(texts=False)
    with writing(path):
        if path.suffix == ".csv":
            path.write_text(to_csv(cells), encoding="utf-8")
        elif path.suffix == ".json":
            kept = [{name: cell[name] for name in COLUMNS} for cell in cells]
            path.write_text(json.dumps(kept, indent=1), encoding="utf-8")
        elif path.suffix == ".parquet":
            _write_parquet(cells, path)
        else:
            raise OptionError(f"{path}: a table is written as .csv, .json or .parquet")
    return len(cells)


def _write_parquet(cells: list[dict[str, Any]], path: Path) -> None:
    with extra("parquet", "a Parquet file"):
        import pyarrow as pa
        from pyarrow import parquet
    table = pa.table({name: [cell[name] for cell in cells] for name in COLUMNS})
    parquet.write_table(table, path)
