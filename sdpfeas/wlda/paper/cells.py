"""The cells of a study of experiments: what they run, and what is stored of it."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from sdpfeas import __version__
from sdpfeas.study.cells import Cell, Plan, ProblemRow, Record, SolverRow, digest
from sdpfeas.study.settings import Settings
from sdpfeas.study.store import Store
from sdpfeas.trials.trial import End, Run, Trial
from sdpfeas.wlda.data import DataError
from sdpfeas.wlda.paper.experiment import Experiment, Score
from sdpfeas.wlda.paper.methods import METHODS, Method
from sdpfeas.wlda.paper.protocol import Task, data
from sdpfeas.wlda.paper.targets import Column, Target

__all__ = ["NOT_RUN", "ExperimentCell", "PaperPlan", "plan_targets", "record_of"]


#: How the reason of a cell begins that was given up without being run.
NOT_RUN = "not run: "

#: Limits that a larger problem would run into, too.
LIMITS = (End.TIMEOUT.value, End.MEMORY.value)


@dataclass(frozen=True, kw_only=True)
class PlannedMethod(SolverRow):
    """A method, in the place of a solver."""

    method: Method

    @classmethod
    def of(cls, method: Method) -> PlannedMethod:
        """File a method under what could change its answers."""
        return cls(
            key=digest([method.name, method.settings, __version__]),
            name=method.name,
            backend="experiment",
            version=__version__,
            options={"settings": method.settings},
            source="sdpfeas.wlda.paper.methods",
            card="",
            method=method,
        )


@dataclass(frozen=True, kw_only=True)
class PlannedTask(ProblemRow):
    """A task, in the place of a problem."""

    task: Task
    classes: int

    def exceeds(self, other: PlannedTask) -> bool:
        """Whether it has more classes or dimensions than another, and not fewer of either."""
        ours, theirs = (self.size, self.classes), (other.size, other.classes)
        return ours != theirs and ours[0] >= theirs[0] and ours[1] >= theirs[1]


@dataclass(frozen=True)
class ExperimentCell(Cell[PlannedMethod, PlannedTask]):
    """One method on one split of one task."""

    picture: bool = False

    @property
    def experiment(self) -> Experiment:
        """What to run."""
        return Experiment(self.solver.name, self.problem.task, self.seed, self.picture)


@dataclass
class PaperPlan(Plan[ExperimentCell]):
    """All cells of the tables and figures asked for.

    Attributes
    ----------
    targets : list of Target
        The tables and figures.
    cells : list of ExperimentCell
        The cells, each once.
    settings : Settings
        The cap of a cell.
    skipped : dict
        Data sets that are not here, with the reason.
    sizes : dict
        For every task that can run, numbers of training and test samples.
    keys : dict
        Key of a cell by method, task and split.
    """

    targets: list[Target]
    cells: list[ExperimentCell]
    settings: Settings
    skipped: dict[str, str] = field(default_factory=dict)
    sizes: dict[Task, tuple[int, int]] = field(default_factory=dict)
    keys: dict[tuple[str, Task, int], str] = field(default_factory=dict)

    def trial(self, cell: ExperimentCell) -> Trial:
        """Run the experiment; methods know nothing of a limit, so it is the cap."""
        limits = replace(self.settings.limits, time=self.settings.time_limit)
        return Trial("sdpfeas.wlda.paper.experiment:answer", pickle.dumps(cell.experiment), limits)

    def judge(self, cell: ExperimentCell, run: Run, *, keep_evidence: bool) -> tuple[Record, bytes | None]:
        """Store test error, time and bracket; the projected samples are kept where a figure shows them."""
        return record_of(run), None if run.value is None else run.value["picture"]

    def foregone(self, cell: ExperimentCell, store: Store) -> Record | None:
        """What is only timed is not run where the method was at a limit on a smaller problem of the plan."""
        if not cell.solver.method.time_only:
            return None
        smaller = {
            other.key: other.problem
            for other in self.cells
            if other.solver.key == cell.solver.key and cell.problem.exceeds(other.problem)
        }
        for row in store.cells(texts=False):
            if row["key"] not in smaller or row["state"] != "done" or row["outcome"] not in LIMITS:
                continue
            if not row["reason"].startswith(NOT_RUN):
                task, word = smaller[row["key"]], "capped" if row["outcome"] == LIMITS[0] else row["outcome"]
                size = f"{task.classes} classes, {task.size} dimensions"
                return Record(outcome=row["outcome"], reason=f"{NOT_RUN}{word} on {task.name} ({size})")
        return None

    def phases(self) -> list[PaperPlan]:
        """The same in two parts: what is only timed is slow, and comes last, the smallest first."""
        late = [cell for cell in self.cells if cell.solver.method.time_only]
        late.sort(key=lambda cell: (cell.problem.size, cell.problem.classes))
        first = [cell for cell in self.cells if not cell.solver.method.time_only]
        return [replace(self, cells=part) for part in (first, late) if part]


def plan_targets(targets: Sequence[Target], settings: Settings) -> PaperPlan:
    """List the cells of tables and figures; data sets that are not here are skipped with the reason.

    Parameters
    ----------
    targets : sequence of Target
        The tables and figures.
    settings : Settings
        The cap of a cell.
    """
    skipped: dict[str, str] = {}
    tasks: dict[Task, PlannedTask] = {}
    prints: dict[str, str] = {}
    cells: dict[str, ExperimentCell] = {}
    sizes: dict[Task, tuple[int, int]] = {}
    for target in targets:
        for column in target.columns:
            task = column.task
            if task.dataset in skipped:
                continue
            try:
                if task not in tasks:
                    sizes[task] = task.sizes()
                    tasks[task] = _planned(task, sizes[task], prints)
            except DataError as error:
                skipped[task.dataset] = str(error)
                continue
            for cell in _cells(target, column, tasks[task], settings):
                cells.setdefault(cell.key, cell)
    keys = {(cell.solver.name, cell.problem.task, cell.seed): cell.key for cell in cells.values()}
    return PaperPlan(list(targets), list(cells.values()), settings, skipped, sizes, keys)


def _cells(target: Target, column: Column, task: PlannedTask, settings: Settings) -> list[ExperimentCell]:
    picture = target.kind == "picture"
    methods = {name: PlannedMethod.of(METHODS[name]) for name in target.methods}
    return [
        ExperimentCell(cell_key(method, task, split, settings), method, task, split, picture)
        for name, method in methods.items()
        for split in range(column.splits(name))
    ]


def cell_key(method: PlannedMethod, task: PlannedTask, split: int, settings: Settings) -> str:
    """Hash of all that can change what comes of a cell."""
    return digest([method.key, task.key, split, settings.plain()])


def _planned(task: Task, sizes: tuple[int, int], prints: dict[str, str]) -> PlannedTask:
    found = data(task.dataset)
    if task.dataset not in prints:
        content = hashlib.sha256(np.ascontiguousarray(found.X).tobytes())
        content.update("\0".join(map(str, found.y.tolist())).encode())
        prints[task.dataset] = content.hexdigest()
    train, test = sizes
    features = task.features or found.X.shape[1]
    size = min(features, task.pca or features, train - 1)
    words = f"{train} trained on, {test} tested, {size} dimensions"
    return PlannedTask(
        key=digest([prints[task.dataset], task.plain()]),
        label=task.label,
        name=task.dataset,
        parameters=task.plain(),
        kind="experiment",
        rows=train,
        size=size,
        summary=words,
        card="",
        task=task,
        classes=task.class_count(),
    )


def record_of(run: Run) -> Record:
    """What is stored about an experiment: its test error, its time, its bracket.

    Parameters
    ----------
    run : Run
        What became of it.
    """
    if run.end is not End.DONE:
        reason = "killed at the cap" if run.end is End.TIMEOUT else run.detail
        return Record(outcome=run.end.value, reason=reason, solve_time=run.wall_time)
    score = Score(**run.value)
    lower, upper = score.bracket or (None, None)
    return Record(
        outcome=run.end.value,
        verdict="bracket" if score.proven and score.finished else "undecided",
        proof="rigorous" if score.proven else None,
        reason=score.remark,
        solve_time=score.time,
        cpu_time=run.cpu_time,
        peak_memory=run.peak_memory,
        error=score.error,
        lower=lower,
        upper=upper,
        info=json.dumps({"finished": score.finished, "ratio": score.ratio}),
    )
