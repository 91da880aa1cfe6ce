"""What every study is made of, whatever it runs: cells, what is stored about them, and their plan."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sdpfeas.study.settings import Settings
from sdpfeas.trials.trial import Run, Trial

if TYPE_CHECKING:
    from sdpfeas.study.store import Store

__all__ = ["Cell", "Plan", "ProblemRow", "Record", "SolverRow", "digest"]


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

    def foregone(self, cell: C, store: Store) -> Record | None:
        """What to store about a cell that need not be run; None if it must."""
        return None


def digest(value: Any) -> str:
    """A hash of plain data.

    ``value``: what JSON can say; anything else counts by its text.
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()
