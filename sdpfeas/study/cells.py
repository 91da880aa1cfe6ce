"""What every study is made of, whatever it runs: cells, what is stored about them, and their plan."""

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


# ------------------------------------------------------------
# What a study asks of every cell: limits, threads, and how strict to be.

# ------------------------------------------------------------
# What can be chosen about a study: which cells are computed again, and which time counts.

#: Outcomes that count as failures of the run, not as answers.
FAILED = ("timeout", "out of memory", "crash", "error")


class Clock(StrEnum):
    """Which time counts: that on the wall, or that of the processor."""

    wall = "wall"
    processor = "processor"

    @property
    def other(self) -> Clock:
        """The one that does not."""
        return Clock.processor if self is Clock.wall else Clock.wall


class Retry(StrEnum):
    """Which finished cells to compute again."""

    failed = "failed"
    undecided = "undecided"
    all = "all"

    def picks(self, cell: Mapping[str, Any]) -> bool:
        """Whether a finished cell, given by its outcome and verdict, is one of them."""
        if self is Retry.failed:
            return cell["outcome"] in FAILED
        return self is Retry.all or cell["verdict"] == "undecided"


@dataclass(frozen=True)
class Settings:
    """Limits and modes every cell of a study runs under; part of a cell's key.

    ``time_limit``: seconds a backend is given. It is killed at 1.1 times that plus half a second.
    ``memory_limit``: bytes of resident memory a cell's process and its children may hold together.
    ``threads``: threads the numerical libraries may use. ``tol``: relative width at which the bracket of a
    family is narrow enough.
    """

    time_limit: float = 60.0
    memory_limit: int = 4 * 2**30
    threads: int = 1
    rigorous: bool = False
    tol: float = 1e-3

    def __post_init__(self) -> None:
        """Refuse limits that make no sense."""
        if not self.time_limit > 0:
            raise OptionError(f"the time limit must be positive, got {self.time_limit:g}")
        if self.memory_limit < 2**26:
            raise OptionError(
                "the memory limit must be at least 64M: an empty Python process needs that much"
            )
        if self.threads < 1:
            raise OptionError(f"threads must be at least 1, got {self.threads}")
        if not 0 < self.tol < 1:
            raise OptionError(f"tol must lie between 0 and 1, got {self.tol:g}")

    @property
    def hard_limit(self) -> float:
        """Seconds after which a cell is killed."""
        return 1.1 * self.time_limit + 0.5

    @property
    def limits(self) -> Limits:
        """What the trial of a cell may use."""
        return Limits(self.hard_limit, self.memory_limit, self.threads)

    def plain(self) -> dict[str, Any]:
        """The settings as plain data."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class SolverRow:
    """What is stored about a solver, or whatever else is compared.

    ``key``: hash of all that can change its answers. ``name``: what it is called in tables.
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
    """What is stored about a problem.

    ``label``: name and parameters in one string. ``name, parameters, kind, rows, size, summary, card``:
    where it comes from, and how large it is.
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
    """What is stored about a finished cell.

    ``outcome``: ``"done"``, or how the run failed. ``verdict, proof, margin, reason, explanation``: what
    the parent's own verification found. ``claimed``: the verdict the raw status claims. ``raw_status, stop,
    iterations``: how the backend ended, in its own words. ``error``: relative error of the evidence as
    handed in. ``lower, upper``: for a family, the proven bracket.
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
    """All cells of a study in the order they are run, what each of them runs, and what is made of it.

    ``skipped``: what was asked for and cannot run here, with the reason.
    """

    cells: Sequence[C]
    settings: Settings
    skipped: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def trial(self, cell: C) -> Trial:
        """What to run for a cell."""

    @abstractmethod
    def judge(self, cell: C, run: Run, *, keep_evidence: bool) -> tuple[Record, bytes | None]:
        """What to store about a run, and the evidence to keep."""

    def known_record(self, cell: C, store: Store) -> Record | None:
        """What to store about a cell that need not be run; None if it must."""
        return None


def digest(value: Any) -> str:
    """A hash of plain data.

    ``value``: what JSON can say; anything else counts by its text.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
