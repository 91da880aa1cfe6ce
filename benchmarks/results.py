"""Store measurements in JSON files, which are replaced atomically after every cell."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

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
    """All cells measured so far.

    Parameters
    ----------
    path : Path
        The file.
    resume : bool
        Take over what is there; otherwise begin anew.

    Attributes
    ----------
    machine : dict
        Where they were measured.
    """

    def __init__(self, path: Path, *, resume: bool = True) -> None:
        self.path = path
        self.machine: dict[str, Any] = {}
        self._cells: dict[tuple[str, str], Contest] = {}
        if resume and path.is_file():
            self.include(path)

    def include(self, path: Path) -> None:
        """Take over the cells of a file; they replace cells of the same contestants on the same problems.

        Parameters
        ----------
        path : Path
            The file.
        """
        stored = json.loads(path.read_text(encoding="utf-8"))
        known = {entry.name for entry in fields(Contest)}
        self.machine = stored["machine"]
        for entry in stored["cells"]:
            self._keep(Contest(**{name: value for name, value in entry.items() if name in known}))

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
        """Keep a cell, and write everything to disk.

        Parameters
        ----------
        cell : Contest
            The cell.
        """
        self._keep(cell)
        cells = [asdict(entry) for entry in self._cells.values()]
        _replace(self.path, {"machine": self.machine, "cells": cells})

    def _keep(self, cell: Contest) -> None:
        self._cells[cell.problem, cell.contestant] = cell


class Lines:
    """Lines of tables that are no contests: each has a name, ``table/row``, and its facts.

    Parameters
    ----------
    path : Path
        The file.
    resume : bool
        Take over what is there; otherwise begin anew.
    """

    def __init__(self, path: Path, *, resume: bool = True) -> None:
        self.path = path
        self._lines: dict[str, dict[str, Any]] = {}
        if resume and path.is_file():
            self.include(path)

    def include(self, path: Path) -> None:
        """Take over the lines of a file; they replace lines of the same names.

        Parameters
        ----------
        path : Path
            The file.
        """
        self._lines.update(json.loads(path.read_text(encoding="utf-8")))

    def find(self, name: str) -> dict[str, Any] | None:
        """The facts of a line.

        Parameters
        ----------
        name : str
            Its name.
        """
        return self._lines.get(name)

    def about(self, table: str) -> list[dict[str, Any]]:
        """All lines of a table.

        Parameters
        ----------
        table : str
            What their names begin with.
        """
        return [facts for name, facts in self._lines.items() if name.startswith(f"{table}/")]

    def add(self, name: str, **facts: Any) -> None:
        """Keep a line, and write everything to disk.

        Parameters
        ----------
        name : str
            Its name.
        **facts
            What JSON can hold.
        """
        self._lines[name] = facts
        _replace(self.path, self._lines)


def _replace(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    fresh.replace(path)
