"""Read measurements: contests from a study store, other lines from the JSON of pytest-benchmark."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from sdpfeas.study.store import Store
from sdpfeas.trials.trial import End

__all__ = ["Contest", "Lines", "Results", "distance"]

#: How a cell ends that used up a limit.
CAPPED = (End.TIMEOUT, End.MEMORY)


@dataclass(frozen=True)
class Contest:
    """One contestant on one problem.

    Attributes
    ----------
    problem, contestant : str
        Who, and on what.
    classes, dimension, samples : int
        Size of the problem.
    end : str
        How it ended, an :class:`~sdpfeas.trials.trial.End`.
    detail : str
        In words, where it did not end well.
    cap, memory_cap : float
        Seconds and bytes it was allowed.
    wall, cpu : float, optional
        Seconds of the fastest run.
    build, compile, solve : float, optional
        What they are made of: family or model, cvxpy's compile, the rest.
    runs : int
        How often it ran.
    lower, upper : float, optional
        Its bracket; equal where it gives one value.
    proven, converged : bool
        Whether that is proved; whether it got as far as it wanted to.
    note : str
        What it said at the end.
    peak_memory : int
        Most bytes resident.
    eigh : float, optional
        Processor seconds of one ``scipy.linalg.eigh`` of that dimension, in the same process.
    eigen, products, outside : float, optional
        Of a profile: seconds in eigendecompositions and matrix products, and the share of everything else.
    hot_spots : list
        Of a profile: functions with their calls and their own share of the time.
    """

    problem: str
    contestant: str
    classes: int
    dimension: int
    samples: int
    end: str
    detail: str
    cap: float
    memory_cap: float
    wall: float | None = None
    cpu: float | None = None
    build: float | None = None
    compile: float | None = None
    solve: float | None = None
    runs: int = 0
    lower: float | None = None
    upper: float | None = None
    proven: bool = False
    converged: bool = False
    note: str = ""
    peak_memory: int = 0
    eigh: float | None = None
    eigen: float | None = None
    products: float | None = None
    outside: float | None = None
    hot_spots: list[tuple[str, int, float]] = field(default_factory=list)

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Contest:
        """Read a finished cell of a study that ``contest.py`` ran."""
        known = {entry.name for entry in fields(cls)}
        facts = json.loads(row["info"])
        return cls(
            problem=row["problem"],
            contestant=row["solver"],
            end=row["outcome"],
            detail=row["reason"] or "",
            peak_memory=row["peak_memory"] or 0,
            **{name: value for name, value in facts.items() if name in known},
        )

    @property
    def capped(self) -> bool:
        """Whether it used up a limit: all that is known is a lower bound."""
        return self.end in CAPPED

    @property
    def seconds(self) -> float | None:
        """Processor seconds it is charged: the cap if it used up a limit, nothing if it failed."""
        return self.cap if self.capped else self.cpu

    @property
    def value(self) -> float | None:
        """Middle of the bracket."""
        if self.lower is None or self.upper is None:
            return None
        return 0.5 * (self.lower + self.upper)

    @property
    def eigh_equivalents(self) -> float | None:
        """Its time in eigendecompositions, both in processor time; one that was capped is charged the cap."""
        return None if self.seconds is None or not self.eigh else self.seconds / self.eigh


def distance(cell: Contest, truth: float | None) -> float | None:
    """Relative distance of a cell's value from the truth.

    Parameters
    ----------
    cell : Contest
        The cell.
    truth : float, optional
        The truth, where it is known.
    """
    if truth is None or cell.value is None or not math.isfinite(cell.value):
        return None
    return abs(cell.value - truth) / abs(truth)


class Results:
    """Contests of one or more studies.

    Of two rounds of a cell the faster one counts, of two studies the later.

    Parameters
    ----------
    *studies : Path
        The databases.

    Attributes
    ----------
    machine : dict
        Where the last one was measured.
    """

    def __init__(self, *studies: Path) -> None:
        self.machine: dict[str, Any] = {}
        self._cells: dict[tuple[str, str], Contest] = {}
        for path in studies:
            found: dict[tuple[str, str], Contest] = {}
            with Store(path, readonly=True) as store:
                for cell in (Contest.of(row) for row in store.cells() if row["state"] == "done"):
                    key = cell.problem, cell.contestant
                    if key not in found or (cell.cpu or math.inf) < (found[key].cpu or math.inf):
                        found[key] = cell
                for run in store.runs():
                    self.machine = json.loads(run["environment"])
            self._cells |= found

    def find(self, problem: str, contestant: str) -> Contest | None:
        """The cell of a contestant on a problem.

        Parameters
        ----------
        problem, contestant : str
            Their names.
        """
        return self._cells.get((problem, contestant))

    def truth(self, problem: str) -> float | None:
        """Middle of the narrowest bracket proved by the one-shot runs.

        Parameters
        ----------
        problem : str
            Its name.
        """
        cells = [self.find(problem, contestant) for contestant in ("truth", "ours")]
        proven = [
            (cell.upper - cell.lower, cell.value)
            for cell in cells
            if cell is not None and cell.proven and cell.lower is not None and cell.upper is not None
        ]
        return min(proven)[1] if proven else None

    def add(self, cell: Contest) -> None:
        """Add a cell.

        Parameters
        ----------
        cell : Contest
            The cell.
        """
        self._cells[cell.problem, cell.contestant] = cell


class Lines:
    """Lines of tables that are no contests: what benchmarks put into ``extra_info`` as ``line``.

    Parameters
    ----------
    path : Path
        The JSON file that ``--benchmark-json`` wrote; nothing is read if there is none.
    """

    def __init__(self, path: Path) -> None:
        entries = json.loads(path.read_text(encoding="utf-8"))["benchmarks"] if path.is_file() else []
        self._lines: list[dict[str, Any]] = [
            entry["extra_info"]["line"] for entry in entries if "line" in entry["extra_info"]
        ]

    def about(self, table: str) -> list[dict[str, Any]]:
        """All lines of a table.

        Parameters
        ----------
        table : str
            Its name.
        """
        return [line for line in self._lines if line["table"] == table]
