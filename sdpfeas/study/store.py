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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, fields
from functools import cache
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

#: Exceptions of a damaged database; its text may be invalid UTF-8.
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)

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


#: Conditions on the rows of a table besides the types of the schema. A NULL meets a comparison.
RULES = {
    "runs": "id >= 0 AND started BETWEEN 0 AND 1e308 AND is_settings(settings) AND is_table(environment)",
    "solvers": "is_table(options)",
    "problems": "rows >= 0 AND size >= 0 AND is_table(parameters)",
    "cells": """
        attempts >= 0 AND run >= 0 AND peak_memory >= 0
        AND taken BETWEEN 0 AND 1e308 AND finished BETWEEN 0 AND 1e308
        AND solve_time BETWEEN 0 AND 1e308 AND cpu_time BETWEEN 0 AND 1e308
        AND verify_time BETWEEN 0 AND 1e308 AND (info IS NULL OR is_table(info))
        AND (state != 'done' OR outcome IS NOT NULL AND verdict IS NOT NULL
             AND solve_time IS NOT NULL AND verify_time IS NOT NULL)""",
    "plan": """EXISTS (
        SELECT 1 FROM cells JOIN solvers ON solvers.key = cells.solver
        JOIN problems ON problems.key = cells.problem AND problems.label = plan.problem
        WHERE cells.key = plan.cell)""",
    "evidence": "TRUE",
}


def _is_table(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, TypeError, RecursionError):
        return False


def _is_settings(text: str) -> bool:
    """Whether a text is a JSON object with finite limits of time and memory."""
    limits = (
        [json.loads(text).get(name) for name in ("time_limit", "memory_limit")] if _is_table(text) else []
    )
    return bool(limits) and all(isinstance(each, (int, float)) and 0 <= each < math.inf for each in limits)


@cache
def _conditions() -> dict[str, str]:
    """What holds for every row of a sound study, by table: the types of the schema and :data:`RULES`."""
    stored_as = {"TEXT": "'text'", "INTEGER": "'integer'", "REAL": "'real', 'integer'", "BLOB": "'blob'"}
    out = {}
    with closing(sqlite3.connect(":memory:")) as empty:
        empty.executescript(SCHEMA)
        for table, rule in RULES.items():
            types = []
            for _, name, kind, filled, _, key in empty.execute(f"PRAGMA table_info({table})"):
                null = "" if filled or key else ", 'null'"
                types.append(f"typeof({name}) IN ({stored_as[kind]}{null})")
            out[table] = " AND ".join([*types, f"({rule})"])
    return out


#: Statements that copy the attached study ``other``, as :meth:`Store.absorb` describes.
MERGE = """
INSERT OR IGNORE INTO solvers SELECT * FROM other.solvers;
INSERT OR IGNORE INTO problems SELECT * FROM other.problems;
INSERT OR IGNORE INTO evidence SELECT * FROM other.evidence;
INSERT INTO runs (host, pid, born, started, seen, finished, command, settings, environment)
    SELECT host, pid, born, started, seen, coalesce(finished, seen), command, settings, environment
    FROM other.runs AS theirs WHERE NOT EXISTS (
        SELECT 1 FROM main.runs AS own
        WHERE (own.host, own.pid, own.born, own.started)
            = (theirs.host, theirs.pid, theirs.born, theirs.started))
    ORDER BY id;
CREATE TEMP TABLE theirs AS SELECT * FROM other.cells;
UPDATE theirs SET run = (
    SELECT own.id FROM main.runs AS own JOIN other.runs AS known USING (host, pid, born, started)
    WHERE known.id = theirs.run);
UPDATE theirs SET state = 'pending', run = NULL WHERE state = 'running';
DELETE FROM theirs WHERE EXISTS (
    SELECT 1 FROM main.cells AS own
    WHERE own.key = theirs.key AND (own.state != 'done', coalesce(own.finished, 9e999))
        <= (theirs.state != 'done', coalesce(theirs.finished, 9e999)));
INSERT OR REPLACE INTO cells SELECT * FROM theirs;
DROP TABLE theirs;
INSERT OR REPLACE INTO plan
    SELECT solver, problem, seed, added.cell, coalesce(own.position, added.position + (
        SELECT coalesce(max(position) + 1, 0) FROM main.plan))
    FROM other.plan AS added LEFT JOIN main.plan AS own USING (solver, problem, seed)
    WHERE own.cell IS NULL
        OR coalesce((SELECT finished FROM main.cells WHERE key = added.cell), 0)
         > coalesce((SELECT finished FROM main.cells WHERE key = own.cell), 0);
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
        self._uri = self.path.absolute().as_uri()
        log = self.path.with_name(f"{self.path.name}-wal")
        if readonly and not os.access(self.path.parent, os.W_OK) and not log.exists():
            # SQLite cannot create its files in this folder. A database that nobody can write is immutable.
            self._uri += "?immutable=1"
        db = sqlite3.connect(self._uri, timeout=60, isolation_level=None, check_same_thread=False, uri=True)
        db.create_function("is_table", 1, _is_table)
        db.create_function("is_settings", 1, _is_settings)
        return db

    def _open(self, readonly: bool) -> None:
        found = self._db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise FileFormatError(f"{self.path}: a damaged database: {' '.join(str(found).split()):.200}")
        if not readonly:
            self._execute_with_retry("PRAGMA journal_mode=WAL")
            # With WAL, commits survive a crash of the process; a power failure may lose the last ones.
            self._db.execute("PRAGMA synchronous=NORMAL")
            with self._transaction():
                self._execute_all(SCHEMA)
                self._db.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?)", (str(VERSION),))
        row = self._db.execute("SELECT value FROM meta WHERE name = 'version'").fetchone()
        if row is None or str(row[0]) != str(VERSION):
            found = "no version" if row is None else f"version {row[0]}"
            raise FileFormatError(f"{self.path}: a study database of {found}; this library reads {VERSION}")
        for table, condition in _conditions().items():
            bad = self._db.execute(f"SELECT * FROM {table} WHERE NOT ({condition}) LIMIT 1").fetchone()
            if bad is not None:
                shown = ", ".join(f"{name} = {bad[name]!r:.40}" for name in bad.keys())  # noqa: SIM118
                raise FileFormatError(f"{self.path}: damaged: an invalid row of {table}: {shown:.300}")

    def _execute_all(self, statements: str) -> None:
        """Execute several statements within a transaction, which ``executescript`` would commit."""
        for statement in statements.split(";"):
            self._db.execute(statement)

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
        now = time.time()
        run = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "born": psutil.Process().create_time(),
            "started": now,
            "seen": now,
            "command": command,
            "settings": plan.settings.plain(),
            "environment": environment,
        }
        solvers = {cell.solver.key: cell.solver for cell in plan.cells}
        problems = {(cell.problem.key, cell.problem.label): cell.problem for cell in plan.cells}
        cells = [(cell.key, cell.solver.key, cell.problem.key, cell.seed) for cell in plan.cells]
        places = [(c.solver.name, c.problem.label, c.seed, c.key, k) for k, c in enumerate(plan.cells)]
        with self._transaction():
            self._insert("INTO runs", tuple(run), [tuple(run.values())])
            self.run_id = self._db.execute("SELECT last_insert_rowid()").fetchone()[0]
            for table, kind, rows in (("solvers", SolverRow, solvers), ("problems", ProblemRow, problems)):
                names = [column.name for column in fields(kind)]
                values = [[getattr(row, name) for name in names] for row in rows.values()]
                self._insert(f"OR REPLACE INTO {table}", names, values)
            self._insert("OR IGNORE INTO cells", ("key", "solver", "problem", "seed"), cells)
            self._insert("OR REPLACE INTO plan", ("solver", "problem", "seed", "cell", "position"), places)
            self._db.execute(
                "CREATE TEMP TABLE IF NOT EXISTS wanted (cell TEXT PRIMARY KEY, position INTEGER)"
            )
            self._db.execute("DELETE FROM wanted")
            self._insert("OR IGNORE INTO wanted", ("cell", "position"), [place[3:] for place in places])
            keep = self.kept(retry)
            self._db.executemany(
                "UPDATE cells SET state = 'pending' WHERE state = 'done' AND key = ?",
                [(cell.key,) for cell in plan.cells if cell.key not in keep],
            )
        self.release_dead()

    def _insert(self, table: str, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        marks = ", ".join("?" * len(names))
        self._db.executemany(
            f"INSERT {table} ({', '.join(names)}) VALUES ({marks})", [[*map(_stored, row)] for row in rows]
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
            return [dict(row) for row in self._db.execute(query, values).fetchall()]

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
        more = ("run", "summary", "kept", *(TEXTS if texts else ()))
        return self._rows(
            f"SELECT {_selected(*COLUMNS, *more)} FROM plan JOIN cells ON cells.key = plan.cell "
            "JOIN problems ON problems.key = cells.problem AND problems.label = plan.problem "
            "JOIN solvers ON solvers.key = cells.solver LEFT JOIN runs ON runs.id = cells.run "
            "ORDER BY plan.position, plan.solver, plan.problem, plan.seed"
        )

    def history(self) -> list[dict[str, Any]]:
        """All finished cells, those of earlier versions of a solver included, the earliest first.

        Each has the version and hash of its solver, and when and where it was computed.
        """
        own = {"solver": "solvers.name", "problem": "min(problems.label)", "seed": "cells.seed"}
        return self._rows(
            f"SELECT {_selected(*COLUMNS, 'info', **own)} FROM cells "
            "JOIN solvers ON solvers.key = cells.solver "
            "JOIN problems ON problems.key = cells.problem LEFT JOIN runs ON runs.id = cells.run "
            "WHERE cells.state = 'done' GROUP BY cells.key ORDER BY cells.finished"
        )

    def absorb(self, other: Store) -> None:
        """Copy all runs, solvers, problems, cells and evidence of another study into this one.

        Of two records of one cell the finished one is kept, of two finished ones the earlier. Where both
        studies planned a solver on a problem in different versions, the plan takes the later one.
        """
        with self._lock, self._readable():
            self._db.execute("ATTACH DATABASE ? AS other", (other._uri,))
            try:
                with self._transaction():
                    self._execute_all(MERGE)
            finally:
                self._db.execute("DETACH DATABASE other")

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

#: Columns of the exported table.
COLUMNS = (
    "solver", "problem", "card", "parameters", "seed", "kind", "rows", "size", "state", "outcome", "verdict",
    "proof", "margin", "claimed", "raw_status", "stop", "reason", "iterations", "solve_time", "cpu_time",
    "verify_time", "peak_memory", "error", "lower", "upper", "attempts", "finished", "host", "cpu", "library",
    "revision", "solver_version", "solver_hash", "problem_hash", "key",
)  # fmt: skip

#: Long texts of a cell, which are not exported.
TEXTS = ("explanation", "info", "log")

#: What is selected for a column that is not one of the table ``cells``.
SELECTED = {
    **{name: f"plan.{name}" for name in ("solver", "problem", "seed")},
    **{name: f"problems.{name}" for name in ("parameters", "kind", "rows", "size", "summary")},
    "card": "problems.name",
    "host": "runs.host",
    "cpu": "json_extract(runs.environment, '$.cpu')",
    "library": "coalesce(json_extract(runs.environment, '$.versions.sdpfeas'), '')",
    "revision": "coalesce(json_extract(runs.environment, '$.revision'), '')",
    "solver_version": "solvers.version",
    "solver_hash": "cells.solver",
    "problem_hash": "cells.problem",
    "kept": "EXISTS (SELECT 1 FROM evidence WHERE evidence.cell = cells.key)",
}


def _selected(*names: str, **own: str) -> str:
    """The columns of a query, of which some may be taken from elsewhere."""
    return ", ".join(f"{(SELECTED | own).get(name, f'cells.{name}')} AS {name}" for name in names)


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
