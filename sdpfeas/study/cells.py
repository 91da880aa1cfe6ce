"""The parts of any study: settings, cells, the records of finished cells, and plans."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sdpfeas.errors import OptionError
from sdpfeas.trials.trial import Limits, Run, Trial

if TYPE_CHECKING:
    from sdpfeas.study.store import Store

#: Outcomes of runs that ended without an answer.
FAILED = ("timeout", "out of memory", "crash", "error")


class Clock(StrEnum):
    """The time that is compared: wall time or processor time."""

    wall = "wall"
    processor = "processor"

    @property
    def other(self) -> Clock:
        """The other clock."""
        return Clock.processor if self is Clock.wall else Clock.wall


class Retry(StrEnum):
    """Finished cells that are computed again."""

    failed = "failed"
    undecided = "undecided"
    all = "all"

    def picks(self, cell: Mapping[str, Any]) -> bool:
        """Whether a finished cell with this outcome and verdict is computed again."""
        if self is Retry.failed:
            return cell["outcome"] in FAILED
        return self is Retry.all or cell["verdict"] == "undecided"


@dataclass(frozen=True)
class Settings:
    """Limits and options of all cells of a study; part of the key of a cell.

    ``time_limit``: seconds that a backend is given; it is killed after :attr:`hard_limit`. ``memory_limit``:
    bytes of resident memory of the worker and its descendants together. ``threads``: threads of the numerical
    libraries. ``rigorous``: whether numeric verdicts are rejected. ``tol``: relative width at which the
    bracket of a family counts as decided.
    """

    time_limit: float = 60.0
    memory_limit: int = 4 * 2**30
    threads: int = 1
    rigorous: bool = False
    tol: float = 1e-3

    def __post_init__(self) -> None:
        """Validate the limits."""
        if not self.time_limit > 0:
            wrong = f"the time limit must be positive, got {self.time_limit:g}"
            raise OptionError(wrong, key="time_limit")
        if self.memory_limit < 2**26:
            raise OptionError(
                "the memory limit must be at least 64M: an empty Python process needs that much",
                key="memory_limit",
            )
        if self.threads < 1:
            raise OptionError(f"threads must be at least 1, got {self.threads}", key="threads")
        if not 0 < self.tol < 1:
            raise OptionError(f"tol must lie between 0 and 1, got {self.tol:g}", key="tol")

    @property
    def hard_limit(self) -> float:
        """Seconds after which the worker of a cell is killed."""
        return 1.1 * self.time_limit + 0.5

    @property
    def limits(self) -> Limits:
        """The limits of the trial of a cell."""
        return Limits(self.hard_limit, self.memory_limit, self.threads)

    def plain(self) -> dict[str, Any]:
        """The settings as plain data."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class SolverRow:
    """The record of a solver.

    ``key`` is a hash of everything that can change its answers; ``name`` is shown in tables.
    """

    key: str
    name: str
    backend: str
    version: str
    options: Mapping[str, Any]
    source: str
    card: str


@dataclass(frozen=True, kw_only=True)
class ProblemRow:
    """The record of a problem: its content hash, where it comes from, and its size.

    ``label`` combines name and parameters.
    """

    key: str
    label: str
    name: str
    parameters: Mapping[str, Any]
    kind: str
    rows: int
    size: int
    summary: str
    card: str


S_co = TypeVar("S_co", bound=SolverRow, covariant=True)
P_co = TypeVar("P_co", bound=ProblemRow, covariant=True)


@dataclass(frozen=True)
class Cell(Generic[S_co, P_co]):
    """One solver on one problem with one seed."""

    key: str
    solver: S_co
    problem: P_co
    seed: int


@dataclass(frozen=True)
class Record:
    """The record of a finished cell.

    ``outcome`` is ``"done"`` or how the run failed. ``verdict``, ``proof``, ``margin``, ``reason`` and
    ``explanation`` are those of the verification in the parent process; ``raw_status``, ``stop`` and
    ``iterations`` were reported by the backend, and ``claimed`` is the verdict that the raw status claims.
    ``error`` is the relative error of the evidence before any repair; ``lower`` and ``upper`` are the proven
    bracket of a family.
    """

    outcome: str
    verdict: str = "undecided"
    proof: str | None = None
    margin: float | None = None
    claimed: str | None = None
    reason: str = ""
    explanation: str = ""
    raw_status: str = ""
    stop: str = ""
    iterations: int | None = None
    solve_time: float = 0.0
    cpu_time: float | None = None
    verify_time: float = 0.0
    peak_memory: int = 0
    error: float | None = None
    lower: float | None = None
    upper: float | None = None
    info: str = "{}"
    log: str = ""


C = TypeVar("C", bound=Cell[Any, Any])


class Plan(ABC, Generic[C]):
    """The cells of a study in the order of execution, the trial of each, and the record made of its run.

    ``skipped`` holds the solvers that cannot run here, with the reason.
    """

    cells: Sequence[C]
    settings: Settings
    skipped: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def trial(self, cell: C) -> Trial:
        """The trial that computes a cell."""

    @abstractmethod
    def judge(self, cell: C, run: Run, *, keep_evidence: bool) -> tuple[Record, bytes | None]:
        """Make the record of a run, and the evidence to store if it is kept."""

    def known(self, cell: C, store: Store) -> tuple[Record, bytes | None] | None:
        """The record and the evidence of a cell that need not be run; None if it must be."""
        return None


def digest(value: Any) -> str:
    """Hash plain data by its JSON; other values are hashed by their text."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
