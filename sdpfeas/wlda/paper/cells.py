"""The cells of a study of experiments, in the form the store and the runner of studies know."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from sdpfeas import __version__
from sdpfeas.study.plan import Cell, Plan
from sdpfeas.study.settings import Settings
from sdpfeas.wlda.data import DataError
from sdpfeas.wlda.paper.experiment import Experiment
from sdpfeas.wlda.paper.methods import METHODS, Method
from sdpfeas.wlda.paper.protocol import Task, data
from sdpfeas.wlda.paper.targets import Column, Target

__all__ = ["ExperimentCell", "PaperPlan", "plan_targets"]


@dataclass(frozen=True)
class _Kind:
    """What the store files a method under."""

    name: str = "experiment"


@dataclass(frozen=True)
class PlannedMethod:
    """A method, as the store and the runner see a solver."""

    method: Method

    @property
    def key(self) -> str:
        """Hash of what could change its answers."""
        return _digest([self.method.name, self.method.settings, __version__])

    @property
    def name(self) -> str:
        """What it is called."""
        return self.method.name

    @property
    def version(self) -> str:
        """The library's."""
        return __version__

    @property
    def options(self) -> dict[str, Any]:
        """Its settings."""
        return {"settings": self.method.settings}

    @property
    def solver(self) -> PlannedMethod:
        """Itself."""
        return self

    kind = _Kind()
    source = "sdpfeas.wlda.paper.methods"
    text = ""


@dataclass(frozen=True)
class PlannedTask:
    """A task, as the store and the runner see a problem."""

    task: Task
    key: str
    rows: int
    size: int
    classes: int
    summary: str
    kind: str = "experiment"
    text: str = ""

    @property
    def label(self) -> str:
        """Name and parameters."""
        return self.task.label

    @property
    def name(self) -> str:
        """The data set."""
        return self.task.dataset

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters."""
        return self.task.plain()

    @property
    def source(self) -> PlannedTask:
        """Itself."""
        return self

    def exceeds(self, other: PlannedTask) -> bool:
        """Whether it has more classes or dimensions than another, and not fewer of either."""
        ours, theirs = (self.size, self.classes), (other.size, other.classes)
        return ours != theirs and ours[0] >= theirs[0] and ours[1] >= theirs[1]


@dataclass(frozen=True)
class ExperimentCell:
    """One method on one split of one task."""

    key: str
    solver: PlannedMethod
    problem: PlannedTask
    seed: int
    picture: bool = False

    @property
    def experiment(self) -> Experiment:
        """What to run."""
        return Experiment(self.solver.name, self.problem.task, self.seed, self.picture)


@dataclass
class PaperPlan:
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

    @property
    def study(self) -> Plan:
        """The plan as the store and the runner of studies take it."""
        # They read names, keys, sizes and seeds of a cell, all of which ours have.
        return Plan(cast("list[Cell]", self.cells), self.settings)

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
    methods = {name: PlannedMethod(METHODS[name]) for name in target.methods}
    return [
        ExperimentCell(cell_key(method, task, split, settings), method, task, split, picture)
        for name, method in methods.items()
        for split in range(column.splits(name))
    ]


def cell_key(method: PlannedMethod, task: PlannedTask, split: int, settings: Settings) -> str:
    """Hash of all that can change what comes of a cell."""
    return _digest([method.key, task.key, split, settings.plain()])


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
    key = _digest([prints[task.dataset], task.plain()])
    return PlannedTask(task, key, train, size, task.class_count(), words)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
