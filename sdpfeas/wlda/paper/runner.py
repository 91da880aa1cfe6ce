"""Runs the cells that are missing, through the store and the runner of studies."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import cast

from sdpfeas.study.engines import Engine, Place
from sdpfeas.study.plan import Cell
from sdpfeas.study.process import End, Run
from sdpfeas.study.reaper import Reaper
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Record, Store
from sdpfeas.study.worker import Job
from sdpfeas.wlda.paper.cells import ExperimentCell, PaperPlan
from sdpfeas.wlda.paper.experiment import Outcome
from sdpfeas.wlda.paper.seat import ExperimentSeat

__all__ = ["NOT_RUN", "ExperimentEngine", "ExperimentRunner", "record_of"]


class ExperimentEngine(Engine):
    """Child processes on this machine.

    Parameters
    ----------
    jobs : int
        How many at a time.
    """

    def __init__(self, jobs: int = 1) -> None:
        self.jobs = jobs
        self._reaper = Reaper()

    def seat(self) -> ExperimentSeat:
        """A new seat with a child of its own."""
        return ExperimentSeat(self._reaper)

    def close(self) -> None:
        """End the watch over the children."""
        self._reaper.close()


#: How the reason of a cell begins that was given up without being run.
NOT_RUN = "not run: "

#: Limits that a larger problem would run into, too.
LIMITS = (End.TIMEOUT.value, End.MEMORY.value)


class ExperimentRunner(Runner):
    """Takes cells from the store like any runner of a study, and has experiments run.

    What is only timed is not run where the method was at a limit on a problem of the plan with no more
    classes and dimensions: its cell says so, and has the same outcome.

    Parameters
    ----------
    store : Store
        The database.
    plan : PaperPlan
        The cells.
    engine : ExperimentEngine
        Where they run.
    listener : callable, optional
        Told about every cell that starts and ends.
    """

    def __init__(
        self,
        store: Store,
        plan: PaperPlan,
        engine: ExperimentEngine,
        listener: Callable[[Cell, Record | None], None] | None = None,
    ) -> None:
        super().__init__(store, plan.study, engine, listener=listener)

    def _compute(self, cell: Cell, seat: Place) -> None:
        self.listener(cell, None)
        experiment = cast("ExperimentCell", cell).experiment
        hopeless = self._hopeless(cast("ExperimentCell", cell))
        if hopeless is not None:
            self.store.finish(cell.key, hopeless)
            self.listener(cell, hopeless)
            return
        settings = self.plan.settings
        job = Job("", {}, pickle.dumps(experiment), settings.time_limit, settings.tol)
        run = seat.run(job, settings, self._stop)
        record = record_of(run)
        self.store.finish(cell.key, record, None if run.answer is None else run.answer.claim.picture)
        self.listener(cell, record)

    def _hopeless(self, cell: ExperimentCell) -> Record | None:
        """What is stored of a cell that would end like a smaller one; None if it has to be run."""
        if not cell.solver.method.time_only:
            return None
        smaller = {
            other.key: other.problem
            for other in cast("list[ExperimentCell]", self.plan.cells)
            if other.solver.key == cell.solver.key and cell.problem.exceeds(other.problem)
        }
        for row in self.store.cells(texts=False):
            if row["key"] not in smaller or row["state"] != "done" or row["outcome"] not in LIMITS:
                continue
            if not row["reason"].startswith(NOT_RUN):
                task, word = smaller[row["key"]], "capped" if row["outcome"] == LIMITS[0] else row["outcome"]
                size = f"{task.classes} classes, {task.size} dimensions"
                return Record(outcome=row["outcome"], reason=f"{NOT_RUN}{word} on {task.name} ({size})")
        return None


def record_of(run: Run) -> Record:
    """What is stored about an experiment: its test error, its time, its bracket.

    Parameters
    ----------
    run : Run
        What became of it.
    """
    if run.answer is None:
        return Record(outcome=run.end.value, reason=run.detail, solve_time=run.wall_time)
    outcome: Outcome = run.answer.claim
    lower, upper = outcome.bracket or (None, None)
    return Record(
        outcome=run.end.value,
        verdict="bracket" if outcome.proven and outcome.finished else "undecided",
        proof="rigorous" if outcome.proven else None,
        reason=outcome.remark,
        solve_time=outcome.time,
        cpu_time=run.answer.cpu_time,
        peak_memory=run.peak_memory,
        error=outcome.error,
        lower=lower,
        upper=upper,
        info=json.dumps({"finished": outcome.finished, "ratio": outcome.ratio}),
    )
