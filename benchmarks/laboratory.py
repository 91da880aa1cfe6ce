"""Measure cells, once per session and each in its own process, and store them on disk."""

from __future__ import annotations

import datetime as dt
import math
import pickle
import time
from dataclasses import dataclass, fields
from pathlib import Path

from contestants import CONTESTANTS, OWN, PROFILE
from results import Contest, Results
from wlda_problems import size_of

from sdpfeas.study.runner import describe_environment
from sdpfeas.trials.trial import End, Limits, Trial
from sdpfeas.trials.workers import run_once

__all__ = ["Caps", "Laboratory", "MissingData"]

#: What a trial runs.
TARGET = "trial:answer"

#: Seconds a contestant may take until its clock starts, unless it may take more in all.
SETUP_LIMIT = 600.0

#: Processor seconds below which a cell is measured twice.
QUICK = 1.0

#: The files of a folder of results: the contests, and what is measured otherwise.
FILE, LINES = "wlda.json", "lines.json"


class MissingData(Exception):
    """The data of a problem are not here."""


@dataclass(frozen=True)
class Caps:
    """Limits of a cell.

    Attributes
    ----------
    cap, own_cap : float
        Seconds for peers, and for the contestants that are measured whatever they take.
    memory : int
        Bytes resident.
    until : float
        When everything has to be over, on the monotonic clock: caps shrink to what is left.
    """

    cap: float = 60.0
    own_cap: float = 900.0
    memory: int = 8 * 2**30
    until: float = math.inf


class Laboratory:
    """Measures cells under limits.

    Parameters
    ----------
    folder : Path
        Where results are kept.
    caps : Caps
        The limits.
    resume : bool
        Take over what was measured before, as far as these limits allow.
    """

    def __init__(self, folder: Path, caps: Caps, *, resume: bool = False) -> None:
        self.caps = caps
        self.results = Results(folder / FILE, resume=resume)
        self.results.machine = _machine()

    def measure(self, problem: str, contestant: str) -> Contest:
        """The cell of a contestant on a problem, measured unless it is there.

        Parameters
        ----------
        problem, contestant : str
            Their names.

        Raises
        ------
        MissingData
            If the data are not here.
        """
        own = contestant in OWN or contestant.startswith(PROFILE)
        cap = self.caps.own_cap if own else min(self.caps.cap, CONTESTANTS[contestant].cap)
        known = self.results.find(problem, contestant)
        if known is not None and self._still_good(known, cap):
            return known
        cap = min(cap, max(self.caps.until - time.monotonic(), 1.0))
        cell = self._implied(problem, contestant, cap) or self._run(problem, contestant, cap)
        self.results.add(cell)
        return cell

    def measure_again(self, problem: str, contestant: str) -> Contest | None:
        """A quick cell measured once more, later: the faster of the two is kept. None if it is not quick.

        A machine is faster at times, and a ratio of two cells that were measured minutes apart shows it.

        Parameters
        ----------
        problem, contestant : str
            Their names.
        """
        known = self.results.find(problem, contestant)
        if known is None or known.cpu is None or known.capped or known.cpu >= QUICK:
            return None
        cell = self._run(problem, contestant, known.cap)
        if cell.cpu is None or cell.cpu >= known.cpu:
            return known
        self.results.add(cell)
        return cell

    def _still_good(self, cell: Contest, cap: float) -> bool:
        if cell.end == End.TIMEOUT:
            return cell.cap >= cap
        if cell.end == End.MEMORY:
            return cell.memory_cap >= self.caps.memory
        return cell.end != End.CRASH

    def _implied(self, problem: str, contestant: str, cap: float) -> Contest | None:
        part = CONTESTANTS[contestant].implied_by if contestant in CONTESTANTS else None
        smaller = None if part is None else self.results.find(problem, part)
        if smaller is None or not smaller.capped or smaller.cap < cap:
            return None
        return self._cell(problem, contestant, cap, smaller.end, f"not run: {part} used up the limit")

    def _run(self, problem: str, contestant: str, cap: float) -> Contest:
        limits = Limits(cap, self.caps.memory, setup=max(SETUP_LIMIT, cap))
        run = run_once(Trial(TARGET, pickle.dumps((problem, contestant)), limits))
        found = run.value or {}
        if "missing" in found:
            raise MissingData(found["missing"])
        measured = {"peak_memory": run.peak_memory, **(run.facts or {}), **found}
        return self._cell(problem, contestant, cap, run.end, run.detail, measured)

    def _cell(
        self,
        problem: str,
        contestant: str,
        cap: float,
        end: str,
        detail: str,
        measured: dict[str, object] | None = None,
    ) -> Contest:
        size = size_of(problem)
        known = {entry.name for entry in fields(Contest)}
        return Contest(
            problem,
            contestant,
            size.classes,
            size.dimension,
            size.samples,
            str(end),
            detail,
            cap,
            self.caps.memory,
            **{name: value for name, value in (measured or {}).items() if name in known},  # type: ignore[arg-type]
        )


def _machine() -> dict[str, object]:
    found = describe_environment()
    kept = ("system", "cpu", "cores", "memory", "versions", "blas", "revision")
    today = dt.datetime.now(dt.UTC).date().isoformat()
    return {**{name: found[name] for name in kept}, "threads": 1, "date": today}
