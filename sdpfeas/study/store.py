"""The database of a study (SQLite), which any number of runners share, and its export as a table.

A cell is a row with a unique key. A runner takes a cell by changing its state in one transaction, so no two
runners compute the same one; cells of dead runners become pending again. The entry point is :class:`Store`.
"""

from __future__ import annotations

import json
import math
import os
import socket
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import psutil

from sdpfeas.errors import FileFormatError, OptionError, SdpfeasError, StudyError, safe_text
from sdpfeas.escaping import visible
from sdpfeas.extras import extra
from sdpfeas.files import require_writable, writing
from sdpfeas.io.tables import csv_table
from sdpfeas.notebook import Card
from sdpfeas.study.cells import Plan, ProblemRow, Record, Retry, SolverRow

#: At most so many solvers are listed in the notebook.
LISTED_SOLVERS = 20

# --- validation: a damaged file is reported as damaged, never read as a study

#: Exceptions of a damaged database; its text may be invalid UTF-8.
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and value >= 0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not math.isnan(value)


def _is_span(value: Any) -> bool:
    return _is_number(value) and 0.0 <= value < math.inf


def _is_table(value: Any) -> bool:
    try:
        return isinstance(json.loads(value), dict)
    except (ValueError, TypeError, RecursionError):
        return False


def _is_settings(value: Any) -> bool:
    if not _is_table(value):
        return False
    settings = json.loads(value)
    return all(_is_span(settings.get(name)) for name in ("time_limit", "memory_limit"))


#: Validators of columns that are always filled, and of columns that may be NULL.
FILLED: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("solver", "problem", "card", "kind", "summary", "state"), _is_text),
    **dict.fromkeys(("key", "name", "label", "backend", "version", "source", "command"), _is_text),
    **dict.fromkeys(("rows", "size", "attempts", "id"), _is_count),
    **dict.fromkeys(("parameters", "options", "environment"), _is_table),
    "settings": _is_settings,
    "seed": lambda value: isinstance(value, int),
    "started": _is_span,
}
OPTIONAL: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("outcome", "verdict", "proof", "claimed", "reason", "explanation"), _is_text),
    **dict.fromkeys(("finished", "taken"), _is_span),
    **dict.fromkeys(("raw_status", "stop", "log", "host"), _is_text),
    **dict.fromkeys(("run", "peak_memory"), _is_count),
    **dict.fromkeys(("solve_time", "cpu_time", "verify_time"), _is_span),
    **dict.fromkeys(("margin", "lower", "upper", "error"), _is_number),
    "iterations": lambda value: isinstance(value, int),
    **dict.fromkeys(("info", "machine"), _is_table),
    "data": lambda value: isinstance(value, bytes),
}

#: Columns that a finished cell always has.
FINISHED = ("outcome", "verdict", "solve_time", "verify_time")


def validated(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row, or raise FileFormatError if a value is invalid in its column."""
    needed = FINISHED if row.get("state") == "done" else ()
    for name, value in row.items():
        if value is None and name in OPTIONAL and name not in needed:
            continue
        fits = FILLED.get(name) or OPTIONAL.get(name)
        if fits is not None and not fits(value):
            raise FileFormatError(f"damaged: {name} is {value!r:.60}")
    return row


VERSION = 1

#: A runner on another machine counts as dead after so many seconds without a heartbeat.
LOST_RUNNER_SECONDS = 60.0

#: Maximum length of a stored text; logs and explanations are already shorter.
TEXT_LIMIT = 200_000

SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, host TEXT NOT NULL, pid INTEGER NOT NULL, born REAL NOT NULL,
    started REAL NOT NULL, seen REAL NOT NULL, finished REAL,
    command TEXT NOT NULL, settings TEXT NOT NULL, environment TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS solvers (
    key TEXT PRIMARY KEY, name TEXT NOT NULL, backend TEXT NOT NULL, version TEXT NOT NULL,
    options TEXT NOT NULL, source TEXT NOT NULL, card TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS problems (
    key TEXT NOT NULL, label TEXT NOT NULL, name TEXT NOT NULL, parameters TEXT NOT NULL, kind TEXT NOT NULL,
    rows INTEGER NOT NULL, size INTEGER NOT NULL, summary TEXT NOT NULL, card TEXT NOT NULL,
    PRIMARY KEY (key, label));
CREATE TABLE IF NOT EXISTS cells (
    key TEXT PRIMARY KEY, solver TEXT NOT NULL, problem TEXT NOT NULL, seed INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'pending', run INTEGER, taken REAL, finished REAL, attempts INTEGER DEFAULT 0,
    outcome TEXT, verdict TEXT, proof TEXT, margin REAL, claimed TEXT, reason TEXT, explanation TEXT,
    raw_status TEXT, stop TEXT, iterations INTEGER, solve_time REAL, cpu_time REAL, verify_time REAL,
    peak_memory INTEGER, error REAL, lower REAL, upper REAL, info TEXT, log TEXT);
CREATE TABLE IF NOT EXISTS plan (
    solver TEXT NOT NULL, problem TEXT NOT NULL, seed INTEGER NOT NULL, cell TEXT NOT NULL,
    position INTEGER NOT NULL, PRIMARY KEY (solver, problem, seed));
CREATE TABLE IF NOT EXISTS evidence (cell TEXT PRIMARY KEY, data BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS cells_by_state ON cells (state);
"""


class Store:
    """An open study database.

    The file is created if it does not exist, unless ``readonly``. Raises FileFormatError if it is not a study
    database or has another version.
    """

    def __init__(self, path: str | os.PathLike[str], *, readonly: bool = False) -> None:
        self.path = Path(path)
        if readonly and not self.path.is_file():
            raise FileFormatError(f"{path}: no such study")
        if not readonly:
            require_writable(self.path)
        self._lock = threading.RLock()
        self.run_id: int | None = None
        try:
            self._db = self._connect(readonly)
            self._db.row_factory = sqlite3.Row
            self._open(readonly)
            self._file = self.path.stat()
        except sqlite3.OperationalError as error:
            raise FileFormatError(f"{path}: cannot be opened as a study database: {error}") from None
        except DATABASE_ERRORS as error:
            raise FileFormatError(f"{path}: not a study database, or damaged: {error}") from None

    def _connect(self, readonly: bool) -> sqlite3.Connection:
        place, more = str(self.path), {}
        log = self.path.with_name(f"{self.path.name}-wal")
        if readonly and not os.access(self.path.parent, os.W_OK) and not log.exists():
            # SQLite cannot create its files in this folder. A database that nobody can write is immutable.
            place, more = f"{self.path.absolute().as_uri()}?immutable=1", {"uri": True}
        return sqlite3.connect(place, timeout=60, isolation_level=None, check_same_thread=False, **more)

    def _open(self, readonly: bool) -> None:
        found = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise FileFormatError(f"{self.path}: a damaged database: {' '.join(str(found).split()):.200}")
        if readonly:
            tables = {row[0] for row in self._db.execute("SELECT name FROM sqlite_master")}
            if not {"meta", "cells", "plan"} <= tables:
                raise FileFormatError(f"{self.path}: not a study database")
        else:
            self._execute_with_retry("PRAGMA journal_mode=WAL")
            # With WAL, commits survive a crash of the process; a power failure may lose the last ones.
            self._db.execute("PRAGMA synchronous=NORMAL")
            with self._transaction():
                for statement in SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?)", (str(VERSION),))
        row = self._db.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
        if row is None or str(row[0]) != str(VERSION):
            found = "no version" if row is None else f"version {row[0]}"
            raise FileFormatError(f"{self.path}: a study database of {found}; this library reads {VERSION}")

    def _execute_with_retry(self, statement: str) -> None:
        # Switching to WAL ignores the busy timeout, and two runners may start at once.
        for attempt in range(200):
            try:
                self._db.execute(statement)
            except sqlite3.OperationalError:
                if attempt == 199:
                    raise
                time.sleep(0.05)
            else:
                return

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._readable():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # an error may have rolled back already
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Turn errors of the database or the disk into StudyError."""
        try:
            yield
        except DATABASE_ERRORS as error:
            raise StudyError(f"{self.path}: database error: {error}") from error

    def require_same_file(self) -> None:
        """Raise StudyError if the file was removed or replaced, since later writes would be lost."""
        with suppress(OSError):
            if os.path.samestat(self._file, self.path.stat()):
                return
        raise StudyError(f"{self.path}: the database was removed or replaced while the study ran")

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    def __enter__(self) -> Store:
        """Return the open database."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the database."""
        self.close()

    def __repr__(self) -> str:
        """Show the path and the number of cells per verdict."""
        place = visible(str(self.path))
        try:
            counts = Counter(_result(cell) for cell in self.cells(texts=False))
        except (SdpfeasError, sqlite3.Error):
            return f"Store: {place}, closed or not readable"
        return f"Store: {place}, {counts.total()} cell(s)" + (f": {_counted(counts)}" if counts else "")

    def _repr_html_(self) -> str:
        """Show the verdicts per solver in a notebook."""
        try:
            cells = self.cells(texts=False)
        except (SdpfeasError, sqlite3.Error):
            return Card("Study", "plain", str(self.path), note="closed or not readable").html()
        by_solver: dict[str, Counter[str]] = {}
        for cell in cells:
            by_solver.setdefault(cell["solver"], Counter())[_result(cell)] += 1
        facts = [(name, _counted(counts)) for name, counts in list(by_solver.items())[:LISTED_SOLVERS]]
        problems = len({cell["problem"] for cell in cells})
        title = f"{self.path.name}: {len(by_solver)} solver(s), {problems} problem(s), {len(cells)} cell(s)"
        more = len(by_solver) - LISTED_SOLVERS
        note = f"… and {more} more solvers" if more > 0 else ""
        return Card("Study", "plain", title, facts, note=note).html()

    # --- writing

    def begin_run(
        self, plan: Plan[Any], command: str, environment: dict[str, Any], retry: Retry | None
    ) -> None:
        """Register this process as a runner and insert the cells of the plan.

        Finished cells stay as they are, except those that ``retry`` selects. ``command`` is recorded.
        """
        born = psutil.Process().create_time()
        now = time.time()
        with self._transaction():
            done = self._db.execute(
                "INSERT INTO runs (host, pid, born, started, seen, command, settings, environment) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    socket.gethostname(),
                    os.getpid(),
                    born,
                    now,
                    now,
                    safe_text(command, TEXT_LIMIT),
                    json.dumps(plan.settings.plain()),
                    json.dumps(environment),
                ),
            )
            self.run_id = done.lastrowid
            self._enter(plan)
            self._db.execute(
                "CREATE TEMP TABLE IF NOT EXISTS wanted (cell TEXT PRIMARY KEY, position INTEGER)"
            )
            self._db.execute("DELETE FROM wanted")
            self._db.executemany(
                "INSERT OR IGNORE INTO wanted VALUES (?, ?)",
                [(cell.key, position) for position, cell in enumerate(plan.cells)],
            )
            keep = self.kept(retry)
            self._db.executemany(
                "UPDATE cells SET state = 'pending' WHERE state = 'done' AND key = ?",
                [(cell.key,) for cell in plan.cells if cell.key not in keep],
            )
        self.release_dead()

    def _enter(self, plan: Plan[Any]) -> None:
        insert = self._db.executemany
        for table, kind, rows in (
            ("solvers", SolverRow, {cell.solver.key: cell.solver for cell in plan.cells}),
            (
                "problems",
                ProblemRow,
                {(cell.problem.key, cell.problem.label): cell.problem for cell in plan.cells},
            ),
        ):
            names = [column.name for column in fields(kind)]
            marks = ", ".join("?" * len(names))
            insert(
                f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({marks})",
                [[_stored(getattr(row, name)) for name in names] for row in rows.values()],
            )
        insert(
            "INSERT OR IGNORE INTO cells (key, solver, problem, seed) VALUES (?, ?, ?, ?)",
            [(cell.key, cell.solver.key, cell.problem.key, cell.seed) for cell in plan.cells],
        )
        insert(
            "INSERT OR REPLACE INTO plan VALUES (?, ?, ?, ?, ?)",
            [
                (cell.solver.name, cell.problem.label, cell.seed, cell.key, position)
                for position, cell in enumerate(plan.cells)
            ],
        )

    def take(self, prefer: str = "") -> str | None:
        """Take the next pending cell of this run's plan; return its key, or None if there is none.

        Cells of the solver ``prefer``, for which a worker is running, come first; then those of solvers that
        no slot of this run is working on.
        """
        with self._transaction():
            row = self._db.execute(
                "SELECT wanted.cell FROM wanted JOIN cells ON cells.key = wanted.cell "
                "WHERE cells.state = 'pending' ORDER BY cells.seed, cells.solver != ?, cells.solver IN "
                "(SELECT solver FROM cells WHERE state = 'running' AND run = ?), wanted.position LIMIT 1",
                (prefer, self.run_id),
            ).fetchone()
            if row is None:
                return None
            self._db.execute(
                "UPDATE cells SET state = 'running', run = ?, taken = ?, attempts = attempts + 1 "
                "WHERE key = ?",
                (self.run_id, time.time(), row[0]),
            )
            return str(row[0])

    def give_back(self, key: str) -> None:
        """Make an unfinished cell of this run pending again."""
        with self._transaction():
            self._db.execute(
                "UPDATE cells SET state = 'pending', run = NULL, attempts = attempts - 1 "
                "WHERE key = ? AND run = ? AND state = 'running'",
                (key, self.run_id),
            )

    def finish(self, key: str, record: Record, evidence: bytes | None = None) -> None:
        """Store the record and the evidence of a cell that this run has taken."""
        self.require_same_file()
        values = {name: _stored(value) for name, value in asdict(record).items()}
        columns = ", ".join(f"{name} = ?" for name in values)
        with self._transaction():
            self._db.execute(
                f"UPDATE cells SET state = 'done', finished = ?, {columns} WHERE key = ? AND run = ?",
                (time.time(), *values.values(), key, self.run_id),
            )
            if evidence is not None:
                self._db.execute("INSERT OR REPLACE INTO evidence VALUES (?, ?)", (key, evidence))

    def heartbeat(self) -> None:
        """Record that this run is alive, and release the cells of dead ones."""
        self.require_same_file()
        with self._transaction():
            self._db.execute("UPDATE runs SET seen = ? WHERE id = ?", (time.time(), self.run_id))
        self.release_dead()

    def end_run(self) -> None:
        """Mark this run as finished."""
        with self._transaction():
            self._db.execute("UPDATE runs SET finished = ? WHERE id = ?", (time.time(), self.run_id))

    def release_dead(self) -> None:
        """Make the cells of dead runners pending again."""
        with self._transaction():
            rows = self._db.execute(
                "SELECT DISTINCT runs.* FROM cells JOIN runs ON runs.id = cells.run WHERE "
                "cells.state = 'running'"
            ).fetchall()
            for row in rows:
                if not _alive(row):
                    self._db.execute(
                        "UPDATE cells SET state = 'pending', run = NULL WHERE run = ? AND state = 'running'",
                        (row["id"],),
                    )

    # --- reading

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[dict[str, Any]]:
        with self._lock, self._readable():
            found = [dict(row) for row in self._db.execute(query, values).fetchall()]
        try:
            return [validated(row) for row in found]
        except FileFormatError as error:
            raise FileFormatError(f"{self.path}: {error}") from None

    def open_cells(self) -> dict[str, int]:
        """Number of cells of this run's plan per state."""
        rows = self._rows(
            "SELECT cells.state AS state, count(*) AS n FROM wanted JOIN cells ON cells.key = wanted.cell "
            "GROUP BY cells.state"
        )
        return {row["state"]: row["n"] for row in rows}

    def left(self) -> int:
        """Number of cells of this run's plan that are pending or run by another runner."""
        rows = self._rows(
            "SELECT count(*) AS n FROM wanted JOIN cells ON cells.key = wanted.cell "
            "WHERE cells.state = 'pending' OR cells.state = 'running' AND cells.run != ?",
            (self.run_id,),
        )
        return int(rows[0]["n"])

    def finished(self) -> set[str]:
        """Keys of the cells that are done."""
        return {row["key"] for row in self._rows("SELECT key FROM cells WHERE state = 'done'")}

    def kept(self, retry: Retry | None = None) -> set[str]:
        """Keys of the finished cells that a new run keeps; ``retry`` selects cells to compute again."""
        rows = self._rows("SELECT key, outcome, verdict FROM cells WHERE state = 'done'")
        again = self.crashed()
        return {r["key"] for r in rows if r["key"] not in again and (retry is None or not retry.picks(r))}

    def crashed(self) -> set[str]:
        """Keys of the cells whose worker died at the first attempt, perhaps for external reasons."""
        query = "SELECT key FROM cells WHERE state = 'done' AND outcome = ? AND attempts < 2"
        return {row["key"] for row in self._rows(query, ("crash",))}

    def cells(self, *, texts: bool = True) -> list[dict[str, Any]]:
        """All cells of the study with names and sizes, in the order of the plan.

        ``texts`` includes logs and explanations.
        """
        names = ["state", "run", "attempts", *(f.name for f in fields(Record))]
        wanted = ", ".join(f"cells.{n}" for n in names if texts or n not in ("log", "explanation", "info"))
        rows = self._rows(
            "SELECT plan.solver AS solver, plan.problem AS problem, plan.seed AS seed, cells.key AS key, "
            "problems.name AS card, problems.parameters AS parameters, problems.kind AS kind, "
            f"problems.rows AS rows, problems.size AS size, problems.summary AS summary, {wanted}, "
            f"cells.problem AS problem_hash, {_PROVENANCE}, "
            "EXISTS (SELECT 1 FROM evidence WHERE evidence.cell = cells.key) AS kept, "
            "(SELECT count(*) FROM plan) AS planned "
            "FROM plan JOIN cells ON cells.key = plan.cell "
            "JOIN problems ON problems.key = cells.problem AND problems.label = plan.problem "
            "JOIN solvers ON solvers.key = cells.solver LEFT JOIN runs ON runs.id = cells.run "
            "ORDER BY plan.position, plan.solver, plan.problem, plan.seed"
        )
        if any(row.pop("planned") != len(rows) for row in rows):
            raise FileFormatError(f"{self.path}: damaged: the plan names cells that are not there")
        return [_with_provenance(row) for row in rows]

    def history(self) -> list[dict[str, Any]]:
        """All finished cells, those of earlier versions of a solver included, the earliest first.

        Each has the version and hash of its solver, and when and where it was computed.
        """
        names = ", ".join(f"cells.{f.name}" for f in fields(Record) if f.name not in ("log", "explanation"))
        rows = self._rows(
            "SELECT cells.key AS key, solvers.name AS solver, min(problems.label) AS problem, "
            "problems.name AS card, problems.parameters AS parameters, problems.kind AS kind, "
            "problems.rows AS rows, problems.size AS size, cells.seed AS seed, cells.state AS state, "
            f"cells.attempts AS attempts, cells.problem AS problem_hash, {_PROVENANCE}, {names} "
            "FROM cells JOIN solvers ON solvers.key = cells.solver "
            "JOIN problems ON problems.key = cells.problem LEFT JOIN runs ON runs.id = cells.run "
            "WHERE cells.state = 'done' GROUP BY cells.key ORDER BY cells.finished"
        )
        return [_with_provenance(row) for row in rows]

    def absorb(self, other: Store) -> None:
        """Copy all runs, solvers, problems, cells and evidence of another study into this one.

        Of two records of one cell the finished one is kept, of two finished ones the earlier. Where both
        studies planned a solver on a problem in different versions, the plan takes the later one.
        """
        with self._transaction():
            runs = self._absorb_runs(other)
            for table in ("solvers", "problems"):
                self._insert(table, other._rows(f"SELECT * FROM {table}"), "OR IGNORE")
            own = {row["key"]: row for row in self._rows("SELECT key, state, finished FROM cells")}
            for cell in other._rows("SELECT * FROM cells"):
                if cell["state"] == "running":  # by a runner of the other study, which finishes it there
                    cell |= {"state": "pending", "run": None}
                cell["run"] = runs.get(cell["run"])
                before = own.get(cell["key"])
                if before is None or _order(cell) < _order(before):
                    self._insert("cells", [cell], "OR REPLACE")
            self._insert("evidence", other._rows("SELECT * FROM evidence"), "OR IGNORE")
            self._absorb_plan(other)

    def _insert(self, table: str, rows: list[dict[str, Any]], conflict: str) -> None:
        for row in rows:
            names, marks = ", ".join(row), ", ".join("?" * len(row))
            values = tuple(row.values())
            self._db.execute(f"INSERT {conflict} INTO {table} ({names}) VALUES ({marks})", values)

    def _absorb_runs(self, other: Store) -> dict[int, int]:
        """Copy the runs; return the new number of each."""
        identity = ("host", "pid", "born", "started")
        known = {tuple(row[name] for name in identity): row["id"] for row in self.runs()}
        numbers = {}
        for row in other.runs():
            number, mark = row.pop("id"), tuple(row[name] for name in identity)
            if mark not in known:
                self._insert("runs", [row | {"finished": row["finished"] or row["seen"]}], "OR FAIL")
                known[mark] = int(self._db.execute("SELECT last_insert_rowid()").fetchone()[0])
            numbers[number] = known[mark]
        return numbers

    def _absorb_plan(self, other: Store) -> None:
        place = ("solver", "problem", "seed")
        own = {tuple(row[name] for name in place): row for row in self._rows("SELECT * FROM plan")}
        finished = {row["key"]: row["finished"] or 0.0 for row in self._rows("SELECT * FROM cells")}
        first = max((row["position"] for row in own.values()), default=-1) + 1
        for row in other._rows("SELECT * FROM plan"):
            before = own.get(tuple(row[name] for name in place))
            if before is None:
                self._insert("plan", [row | {"position": first + row["position"]}], "OR FAIL")
            elif finished[row["cell"]] > finished[before["cell"]]:
                self._insert("plan", [row | {"position": before["position"]}], "OR REPLACE")

    def solvers(self) -> list[dict[str, Any]]:
        """Solvers of the study."""
        return self._rows(
            "SELECT * FROM solvers WHERE key IN (SELECT cells.solver FROM plan JOIN cells ON "
            "cells.key = plan.cell) "
            "ORDER BY name"
        )

    def problems(self) -> list[dict[str, Any]]:
        """Problems of the study."""
        return self._rows(
            "SELECT DISTINCT problems.* FROM problems JOIN plan ON plan.problem = problems.label "
            "JOIN cells ON cells.key = plan.cell AND cells.problem = problems.key ORDER BY plan.position"
        )

    def runs(self) -> list[dict[str, Any]]:
        """Runs that worked on the study, the earliest first."""
        return self._rows("SELECT * FROM runs ORDER BY id")

    def evidence_about(self, problem: str) -> list[dict[str, Any]]:
        """Cells with stored evidence about the problem or family with this content hash."""
        return self._rows(
            "SELECT plan.solver AS solver, plan.problem AS problem, plan.seed AS seed, "
            "cells.verdict AS verdict, cells.lower AS lower, cells.upper AS upper, evidence.data AS data "
            "FROM plan JOIN cells ON cells.key = plan.cell JOIN evidence ON evidence.cell = cells.key "
            "WHERE cells.problem = ? ORDER BY plan.position",
            (problem,),
        )

    def evidence(self, key: str) -> bytes | None:
        """The stored evidence of a cell: the bytes of a result file."""
        return next((r["data"] for r in self._rows("SELECT data FROM evidence WHERE cell = ?", (key,))), None)


#: When, where and by which version of its solver a cell was computed.
_PROVENANCE = (
    "solvers.version AS solver_version, cells.solver AS solver_hash, cells.finished AS finished, "
    "runs.host AS host, runs.environment AS machine"
)


def _with_provenance(row: dict[str, Any]) -> dict[str, Any]:
    """Replace the environment of the run by processor, library version and commit."""
    where = json.loads(row.pop("machine") or "{}")
    library = where.get("versions", {}).get("sdpfeas", "")
    return row | {"cpu": where.get("cpu"), "library": library, "revision": where.get("revision", "")}


def _order(cell: Mapping[str, Any]) -> tuple[bool, float]:
    """Sorting key of two records of one cell: finished ones first, then by time."""
    return cell["state"] != "done", cell["finished"] or math.inf


def _result(cell: dict[str, Any]) -> str:
    """The verdict of a cell, else its outcome, else its state."""
    return str(cell["verdict"] or cell["outcome"] or cell["state"])


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in counts.most_common())


def _stored(value: Any) -> Any:
    """Convert a value for the database."""
    if isinstance(value, Mapping):
        return json.dumps(dict(value), default=str)
    return safe_text(value, TEXT_LIMIT) if isinstance(value, str) else value


def _alive(run: sqlite3.Row) -> bool:
    if run["finished"] is not None:
        return False
    if run["host"] != socket.gethostname():
        return bool(time.time() - run["seen"] < LOST_RUNNER_SECONDS)
    with suppress(psutil.Error):
        process = psutil.Process(run["pid"])
        # Process ids are reused, so the start time is compared, too.
        return process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - run["born"]) < 2.0
    return False


# --- export as a flat table

#: Columns of the exported table. Long texts are left out.
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
    "finished",
    "host",
    "cpu",
    "library",
    "revision",
    "solver_version",
    "solver_hash",
    "problem_hash",
    "key",
)


def to_csv(cells: list[dict[str, Any]]) -> str:
    """Format cells as CSV."""
    return csv_table(COLUMNS, cells)


def write_table(store: Store, path: Path, *, history: bool = False) -> int:
    """Write all cells to a ``.csv``, ``.json`` or ``.parquet`` file; return their number.

    ``history`` includes cells of earlier versions of a solver. Raises OptionError for other file extensions,
    or if pyarrow is needed and missing.
    """
    cells = store.history() if history else store.cells(texts=False)
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
