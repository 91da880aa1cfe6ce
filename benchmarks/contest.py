"""Contests on WLDA problems, each a cell of a study: ``python benchmarks/contest.py [--full]``.

Every cell runs a contestant on a problem in a process of its own, under limits enforced from outside
(``trial.py``). Cells that the documentation needs come first, so a run may be stopped at any time;
``--resume`` measures what is missing. At the end tables are printed, and targets that are missed. The study
is ``contests.db`` in the folder of the results; ``sdpfeas export`` and ``sdpfeas merge`` work on it.
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from contestants import CONTESTANTS, OURS, OWN, PROFILE
from results import CAPPED, Results
from targets import SIZES, missed
from wlda_problems import BY_CLASSES, BY_DIMENSION, DATA, PROFILED, SHORT, WLDA, load, size_of

from sdpfeas import __version__
from sdpfeas.cli.console import err
from sdpfeas.cli.progress import StudyProgress
from sdpfeas.datasets import DataError
from sdpfeas.study.cells import Cell, Plan, ProblemRow, Record, Settings, SolverRow, digest
from sdpfeas.study.engines import LocalEngine
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Store
from sdpfeas.trials.trial import Limits, Run, Trial

__all__ = ["DATABASE", "SERIES", "Caps", "ContestPlan", "full_cells", "not_measured", "run_all", "turn"]

#: The study in a folder of results, and the JSON file of the other benchmarks.
DATABASE, LINES = "contests.db", "lines.json"

#: What a trial runs.
TARGET = "trial:answer"

#: Seconds a contestant may take until its clock starts, unless it may take more in all.
SETUP_LIMIT = 600.0

#: Processor seconds below which a cell is measured twice.
QUICK = 1.0

#: Who takes part in the two series.
SERIES = ("ours", "ours-1e-3", "bisect-dual-lbfgs", "clarabel", "scs-1e-4", "paper")

#: Whose time is taken apart.
TAKEN_APART = ("ours", "bisect-dual-lbfgs")

#: Peers that the figures show; bisections over other backends come last.
SHOWN = ("clarabel", "scs-1e-4", "scs-1e-7", "paper", "bisect-dual-lbfgs", "bisect-spectral-ipm")

#: Sizes beyond these take minutes a cell.
MODERATE_CLASSES, MODERATE_DIMENSION = 200, 2000

#: The short set leaves out what is slow and decides nothing: contestants, everywhere or up to a dimension,
#: and problems of the series and of the sizes beyond these.
NEVER_SHORT = ("bisect-clarabel", "bisect-cvxpy")
SHORT_UP_TO = {"bisect-admm": 60, "bisect-scs": 60, "paper": 80}
SHORT_SERIES = (*TAKEN_APART, "clarabel", "scs-1e-4")
SHORT_DIMENSION, SHORT_PROFILE, SHORT_CLASSES, SHORT_SIZE = 400, 200, 200, 1000

Pair = tuple[str, str]


@dataclass(frozen=True)
class Caps:
    """Limits of a cell.

    Attributes
    ----------
    cap, own_cap : float
        Seconds for peers, and for the contestants that are measured whatever they take.
    memory : int
        Bytes resident.
    """

    cap: float = 60.0
    own_cap: float = 900.0
    memory: int = 8 * 2**30

    def seconds(self, problem: str, contestant: str) -> float:
        """The limit of a cell; a series of peers needs no more than its slope."""
        if contestant in OWN or contestant.startswith(PROFILE):
            return self.own_cap
        return min(self.cap, CONTESTANTS[contestant].cap, math.inf if problem in WLDA else SERIES_CAP)


#: Seconds for a peer on a problem of the series only.
SERIES_CAP = 20.0


# ---------------------------------------------------------------- which cells, and their order


def full_cells() -> Iterator[Pair]:
    """All cells of a full run, by problem and contestant; some of them twice."""
    yield from _sizes()
    yield from ((problem, contestant) for contestant in SERIES for problem in (*BY_DIMENSION, *BY_CLASSES))
    yield from ((problem, PROFILE + contestant) for contestant in TAKEN_APART for problem in PROFILED)
    yield from ((problem, contestant) for problem in WLDA for contestant in CONTESTANTS)


def short_cells() -> Iterator[Pair]:
    """The short set."""
    yield from (
        (problem, contestant)
        for problem in SHORT
        for contestant in CONTESTANTS
        if contestant not in NEVER_SHORT
        and size_of(problem).dimension <= SHORT_UP_TO.get(contestant, math.inf)
    )
    by_dimension = [p for p in BY_DIMENSION if size_of(p).dimension <= SHORT_DIMENSION]
    yield from ((problem, contestant) for contestant in SHORT_SERIES for problem in by_dimension)
    yield from ((problem, contestant) for contestant in TAKEN_APART for problem in BY_CLASSES[::2])
    profiled = [p for p in PROFILED if size_of(p).dimension <= SHORT_PROFILE]
    yield from ((problem, PROFILE + contestant) for contestant in TAKEN_APART for problem in profiled)
    for problem, contestant in _sizes():
        size = size_of(problem)
        if size.classes <= SHORT_CLASSES and size.dimension <= SHORT_SIZE:
            yield problem, contestant


def _sizes() -> Iterator[Pair]:
    yield from ((problem, "ours" if tol == 1e-6 else "ours-1e-3") for problem, tol, _, _ in SIZES)


def turn(problem: str, contestant: str) -> int:
    """When a cell is measured, from 0 on; equal ones in the order in which they are listed.

    Parameters
    ----------
    problem, contestant : str
        The cell.
    """
    size = size_of(problem)
    if size.classes > MODERATE_CLASSES:
        return 5
    if size.dimension > MODERATE_DIMENSION:
        return 2
    if contestant.startswith(PROFILE):
        return 4
    if contestant in OURS:
        return 0
    return 3 if contestant in SHOWN else 6


def answered_by(problem: str, contestant: str) -> list[Pair]:
    """Cells that answer this one if they used up a limit.

    They are the same contestant on a smaller problem of a series, and a contestant that does a part of the
    same work.

    Parameters
    ----------
    problem, contestant : str
        The cell.
    """
    part = CONTESTANTS[contestant].implied_by if contestant in CONTESTANTS else None
    out = [] if part is None else [(problem, part)]
    if problem in WLDA and contestant not in SERIES:
        return out
    for series in (BY_DIMENSION, BY_CLASSES):
        if problem in series:
            out += [(smaller, contestant) for smaller in series[: series.index(problem)]]
    return out


def not_measured(results: Results) -> list[Pair]:
    """Cells of the full run that are not there.

    Parameters
    ----------
    results : Results
        The cells.
    """
    return [pair for pair in dict.fromkeys(full_cells()) if results.find(*pair) is None]


# ---------------------------------------------------------------- the study


@dataclass
class ContestPlan(Plan[Cell[SolverRow, ProblemRow]]):
    """Contests to run, each once.

    Attributes
    ----------
    cells : list of Cell
        The cells.
    caps : Caps
        Their limits.
    skipped : dict
        Problems whose data are missing, with the reason.
    """

    cells: list[Cell[SolverRow, ProblemRow]]
    caps: Caps
    skipped: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Describe the limits for the store."""
        self.settings = Settings(self.caps.cap, self.caps.memory)

    def trial(self, cell: Cell[SolverRow, ProblemRow]) -> Trial:
        """Run the contestant in a new process."""
        pair = cell.problem.label, cell.solver.name
        cap = self.caps.seconds(*pair)
        limits = Limits(cap, self.caps.memory, setup=max(SETUP_LIMIT, cap))
        return Trial(TARGET, pickle.dumps(pair), limits, label=f"{cell.key} {time.monotonic()}")

    def judge(
        self, cell: Cell[SolverRow, ProblemRow], run: Run, *, keep_evidence: bool
    ) -> tuple[Record, bytes | None]:
        """Store times and bracket; what has no column goes into ``info``."""
        found = {**(run.facts or {}), **(run.value or {})}
        record = self._record(cell, run.end.value, run.detail, found)
        return Record(**{**asdict(record), "peak_memory": run.peak_memory, "log": run.log}), None

    def known(self, cell: Cell[SolverRow, ProblemRow], store: Store) -> tuple[Record, None] | None:
        """Charge the limit without a run where an easier cell used it up."""
        pair = cell.problem.label, cell.solver.name
        easier, cap = answered_by(*pair), self.caps.seconds(*pair)
        for row in store.cells():
            capped = (row["problem"], row["solver"]) in easier and row["outcome"] in CAPPED
            if capped and json.loads(row["info"])["cap"] >= cap:
                reason = f"not run: {row['solver']} on {row['problem']} used up the limit"
                return self._record(cell, row["outcome"], reason, {}), None
        return None

    def _record(
        self, cell: Cell[SolverRow, ProblemRow], end: str, detail: str, found: dict[str, Any]
    ) -> Record:
        size = size_of(cell.problem.label)
        sizes = {"classes": size.classes, "dimension": size.dimension, "samples": size.samples}
        cap = self.caps.seconds(cell.problem.label, cell.solver.name)
        proven = bool(found.get("proven"))
        return Record(
            outcome=end,
            verdict="bracket" if proven and found.get("converged") else "undecided",
            proof="rigorous" if proven else None,
            reason=detail,
            solve_time=found.get("wall") or cap,
            cpu_time=found.get("cpu"),
            lower=found.get("lower"),
            upper=found.get("upper"),
            info=json.dumps({**sizes, "cap": cap, "memory_cap": self.caps.memory, **found}),
        )


def plan_contests(pairs: Iterable[Pair], caps: Caps, seed: int = 0) -> ContestPlan:
    """Plan contests in order of importance; problems whose data are missing are skipped.

    Parameters
    ----------
    pairs : iterable
        Problems and contestants.
    caps : Caps
        The limits.
    seed : int
        Number of the round.
    """
    pairs, skipped = list(dict.fromkeys(pairs)), dict[str, str]()
    for problem in {problem for problem, _ in pairs}.intersection(DATA):
        try:
            load(problem)
        except DataError as error:
            skipped[problem] = str(error)
    cells = [contest_cell(*pair, caps, seed) for pair in pairs if pair[0] not in skipped]
    return ContestPlan(cells, caps, skipped)


def contest_cell(problem: str, contestant: str, caps: Caps, seed: int) -> Cell[SolverRow, ProblemRow]:
    entry, size = CONTESTANTS[contestant.removeprefix(PROFILE)], size_of(problem)
    solver = SolverRow(
        key=digest([contestant, __version__]), name=contestant, backend="contestant", version=__version__,
        options={"title": entry.title}, source="benchmarks/contestants.py", card="",
    )  # fmt: skip
    row = ProblemRow(
        key=digest(problem), label=problem, name=problem.partition("-")[0], parameters=asdict(size),
        kind="family", rows=size.classes, size=size.dimension, summary=f"{size.samples} samples", card="",
    )  # fmt: skip
    key = digest([solver.key, row.key, seed, caps.seconds(problem, contestant), caps.memory])
    return Cell(key, solver, row, seed)


def run_all(pairs: Iterable[Pair], caps: Caps, database: Path, minutes: float = math.inf) -> Results:
    """Run contests, the important ones first, and quick ones once more at the end; return what was measured.

    A machine is faster at times, and a ratio of two cells that were measured minutes apart shows it. So the
    faster one of two runs counts.

    Parameters
    ----------
    pairs : iterable
        Problems and contestants.
    caps : Caps
        The limits.
    database : Path
        Where they are kept.
    minutes : float
        Stop after so long.
    """
    until = time.monotonic() + 60.0 * minutes
    pairs = list(pairs)
    turns = sorted({turn(*pair) for pair in pairs})
    database.parent.mkdir(parents=True, exist_ok=True)
    with Store(database) as store:
        for each in turns:
            _run(store, plan_contests((pair for pair in pairs if turn(*pair) == each), caps), until)
        quick = [
            (cell["problem"], cell["solver"])
            for cell in store.cells(texts=False)
            if cell["seed"] == 0 and cell["cpu_time"] is not None and cell["cpu_time"] < QUICK
        ]
        _run(store, plan_contests((pair for pair in quick if pair in pairs), caps, seed=1), until)
    return Results(database)


def _run(store: Store, plan: ContestPlan, until: float) -> None:
    left = until - time.monotonic()
    if left <= 0 or not plan.cells:
        return
    for name, why in plan.skipped.items():
        err().print(f"[yellow]skipped[/] {name}: {why}")
    progress, engine = StudyProgress(plan, store.kept(), err()), LocalEngine()
    runner = Runner(store, plan, engine, listener=progress)
    alarm = threading.Timer(min(left, threading.TIMEOUT_MAX), runner.stop)
    alarm.daemon = True
    alarm.start()
    try:
        with progress:
            runner.run(command=" ".join(sys.argv))
    finally:
        alarm.cancel()
        engine.close()


def main() -> None:
    """Run the contests that the command line asks for; exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "only", nargs="*", metavar="PROBLEM CONTESTANT", help="one cell, as in synthetic-10-10000 ours-1e-3"
    )
    parser.add_argument("--full", action="store_true", help="all problems; else the short set")
    parser.add_argument("--cap", type=float, metavar="S", help="seconds a peer may take (60)")
    parser.add_argument("--own-cap", type=float, metavar="S", help="seconds for ours (900; short set 300)")
    parser.add_argument("--memory", type=float, default=8.0, metavar="GIB", help="resident memory (8)")
    parser.add_argument("--results", type=Path, metavar="DIR", help="folder of the results")
    parser.add_argument("--minutes", type=float, default=math.inf, metavar="M", help="stop after so long")
    parser.add_argument("--resume", action="store_true", help="measure only what is not there yet")
    asked = parser.parse_args()
    usual = Path(__file__).parent / "results" / ("full" if asked.full else "short")
    database = (asked.results or usual) / DATABASE
    if not (asked.resume or asked.only):
        database.unlink(missing_ok=True)
    own = asked.own_cap or (900.0 if asked.full else 300.0)
    caps = Caps(asked.cap or 60.0, own, int(asked.memory * 2**30))
    pairs = [(asked.only[0], asked.only[1])] if asked.only else full_cells() if asked.full else short_cells()
    results = run_all(pairs, caps, database, asked.minutes)
    if asked.only:
        cell = results.find(*asked.only)
        print(cell if cell is None else f"{cell}\neigendecompositions: {cell.eigh_equivalents}")
        return
    from tables import accuracy_tables, profile_tables, scaling_tables

    if not asked.full:  # a full run has its page
        print("\n\n".join(make(results) for make in (accuracy_tables, scaling_tables, profile_tables)))
    found = missed(results)
    print("\n".join(found))
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
