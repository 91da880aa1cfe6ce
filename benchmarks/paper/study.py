"""Experiments and the study that runs them.

An experiment fits one method on one split of a task, classifies the test samples with 5 nearest neighbours,
and measures error and time. :func:`plan_targets` lists the experiments of tables and figures as cells of a
study: each cell runs in a worker process under a time and a memory limit, and is stored under a hash of
everything that can change its result, so that it is computed once.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import pickle
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.paper.methods import METHODS, Method, find_method
from benchmarks.paper.protocol import Sample, Task, data
from benchmarks.paper.targets import Column, Target
from sdpfeas import __version__
from sdpfeas.datasets import DataError

# Internals: the study has no public Python interface; `sdpfeas compare` is built from the same parts.
from sdpfeas.study.cells import Cell, Plan, ProblemRow, Record, Settings, SolverRow, digest
from sdpfeas.study.store import Store
from sdpfeas.trials.trial import End, Run, Trial

__all__ = [
    "NOT_RUN",
    "Experiment",
    "ExperimentCell",
    "PaperPlan",
    "Score",
    "answer",
    "plan_targets",
    "record_of",
    "run_experiment",
]

#: The paper classifies by this many nearest neighbours.
NEIGHBOURS = 5

#: Prefix of the reason of a cell that was skipped.
NOT_RUN = "not run: "

#: Outcomes of a cell that hit a limit; a larger problem would hit it too.
LIMITS = (End.TIMEOUT.value, End.MEMORY.value)


# ---------------------------------------------------------------- one experiment


@dataclass(frozen=True)
class Experiment:
    """A method on a split of a task; with ``picture`` the projected test samples are returned too."""

    method: str
    task: Task
    split: int
    picture: bool = False


@dataclass(frozen=True)
class Score:
    """The result of an experiment.

    Attributes
    ----------
    error : float
        Fraction of test samples that were misclassified.
    time : float
        Seconds the method took to find its projection.
    bracket : tuple of float, optional
        Bounds of ``delta*``.
    proven, finished : bool
        Whether the bounds are proved; whether the method converged.
    ratio : float, optional
        Worst-case ratio of the projection.
    remark : str
        Message of the method.
    picture : bytes, optional
        Projected test samples ``Z`` and labels ``y``, as an ``.npz`` file.
    """

    error: float
    time: float
    bracket: tuple[float, float] | None
    proven: bool
    finished: bool
    ratio: float | None
    remark: str
    picture: bytes | None = None

    @property
    def infinite(self) -> bool:
        """Whether ``delta*`` is infinite: some projection has zero class scatters and distinct means."""
        return self.bracket is not None and math.isinf(self.bracket[0])


def run_experiment(experiment: Experiment, sample: Sample) -> Score:
    """Fit the method on a split that was drawn beforehand, and classify the test samples.

    The measured time is that of the fit alone.
    """
    method = find_method(experiment.method)
    begin = time.perf_counter()
    fitted = method.fit(sample.X, sample.y, sample.components)
    spent = time.perf_counter() - begin
    Z = fitted.project(sample.X_test)
    classifier = KNeighborsClassifier(min(NEIGHBOURS, len(sample.y))).fit(fitted.project(sample.X), sample.y)
    wrong = classifier.predict(Z) != sample.y_test
    return Score(
        error=float(np.mean(wrong)),
        time=spent,
        bracket=None if fitted.bracket is None else (float(fitted.bracket[0]), float(fitted.bracket[1])),
        proven=fitted.proven,
        finished=fitted.finished,
        ratio=None if fitted.ratio is None else float(fitted.ratio),
        remark=fitted.remark,
        picture=_packed(Z, sample.y_test) if experiment.picture else None,
    )


#: Methods that have run once in this process.
_warm: set[str] = set()


def answer(experiment: Experiment, start: Callable[..., None]) -> dict[str, Any]:
    """Run an experiment in a worker process: the target of a trial. ``start`` starts the clock.

    The first time, the method runs once on a small problem, so that its imports are not measured.
    """
    sample = experiment.task.sample(experiment.split)
    if experiment.method not in _warm:
        _warm_up(experiment.method)
        _warm.add(experiment.method)
    start()
    return asdict(run_experiment(experiment, sample))


def _warm_up(method: str) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 8)
    X = rng.standard_normal((24, 3)) + 4.0 * np.eye(3)[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_experiment(Experiment(method, Task("iris"), 0), Sample(X, y, X, y, 2))


def _packed(Z: np.ndarray, y: np.ndarray) -> bytes:
    with io.BytesIO() as file:
        np.savez_compressed(file, Z=Z, y=np.unique(y, return_inverse=True)[1])
        return file.getvalue()


# ---------------------------------------------------------------- the study


@dataclass(frozen=True, kw_only=True)
class PlannedMethod(SolverRow):
    """A method in the place of a solver of the study."""

    method: Method

    @classmethod
    def of(cls, method: Method) -> PlannedMethod:
        """Key the method by its name, its settings and the version of sdpfeas."""
        return cls(
            key=digest([method.name, method.settings, __version__]),
            name=method.name,
            backend="experiment",
            version=__version__,
            options={"settings": method.settings},
            source="benchmarks.paper.methods",
            card="",
            method=method,
        )


@dataclass(frozen=True, kw_only=True)
class PlannedTask(ProblemRow):
    """A task in the place of a problem of the study."""

    task: Task
    classes: int

    def exceeds(self, other: PlannedTask) -> bool:
        """Whether it is larger than another in classes or dimension, and smaller in neither."""
        ours, theirs = (self.size, self.classes), (other.size, other.classes)
        return ours != theirs and ours[0] >= theirs[0] and ours[1] >= theirs[1]


@dataclass(frozen=True)
class ExperimentCell(Cell[PlannedMethod, PlannedTask]):
    """One method on one split of one task."""

    picture: bool = False

    @property
    def experiment(self) -> Experiment:
        """The experiment that the cell runs."""
        return Experiment(self.solver.name, self.problem.task, self.seed, self.picture)


@dataclass
class PaperPlan(Plan[ExperimentCell]):
    """All cells of the requested tables and figures.

    Attributes
    ----------
    targets : list of Target
        The tables and figures.
    cells : list of ExperimentCell
        The cells, without duplicates.
    settings : Settings
        Limits of a cell.
    skipped : dict
        Data sets that are missing, with the reason.
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
        """Run the experiment; methods take no time limit, so the worker is killed at it."""
        limits = replace(self.settings.limits, time=self.settings.time_limit)
        return Trial(f"{__name__}:answer", pickle.dumps(cell.experiment), limits)

    def judge(self, cell: ExperimentCell, run: Run, *, keep_evidence: bool) -> tuple[Record, bytes | None]:
        """Store test error, time and bracket, and the projected samples if a figure shows them."""
        return record_of(run), None if run.value is None else run.value["picture"]

    def known(self, cell: ExperimentCell, store: Store) -> tuple[Record, None] | None:
        """Skip a method that is only timed if it hit a limit on a smaller problem of the plan."""
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
                task, outcome = smaller[row["key"]], row["outcome"]
                size = f"{task.classes} classes, {task.size} dimensions"
                return Record(outcome=outcome, reason=f"{NOT_RUN}{outcome} on {task.name} ({size})"), None
        return None

    def phases(self) -> list[PaperPlan]:
        """Split the plan in two: methods that are only timed run last, on the smallest problem first."""
        late = [cell for cell in self.cells if cell.solver.method.time_only]
        late.sort(key=lambda cell: (cell.problem.size, cell.problem.classes))
        first = [cell for cell in self.cells if not cell.solver.method.time_only]
        return [replace(self, cells=part) for part in (first, late) if part]


def plan_targets(targets: Sequence[Target], settings: Settings) -> PaperPlan:
    """List the cells of tables and figures; missing data sets are skipped with the reason."""
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
    """Hash everything that can change the result of a cell."""
    return digest([method.key, task.key, split, settings.plain()])


def _planned(task: Task, sizes: tuple[int, int], prints: dict[str, str]) -> PlannedTask:
    """Describe a task for the study; ``prints`` caches the hashes of the data sets."""
    found = data(task.dataset)
    if task.dataset not in prints:
        content = hashlib.sha256(np.ascontiguousarray(found.X).tobytes())
        content.update("\0".join(map(str, found.y.tolist())).encode())
        prints[task.dataset] = content.hexdigest()
    train, test = sizes
    features = task.features or found.X.shape[1]
    size = min(features, task.pca or features, train - 1)
    return PlannedTask(
        key=digest([prints[task.dataset], task.plain()]),
        label=task.label,
        name=task.dataset,
        parameters=task.plain(),
        kind="experiment",
        rows=train,
        size=size,
        summary=f"{train} training and {test} test samples, {size} dimensions",
        card="",
        task=task,
        classes=task.class_count(),
    )


def record_of(run: Run) -> Record:
    """The row of the database for a run: test error, time, bracket."""
    if run.end is not End.DONE:
        reason = "killed at the time limit" if run.end is End.TIMEOUT else run.detail
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
