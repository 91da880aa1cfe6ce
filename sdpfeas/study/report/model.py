"""What a report says, before it is drawn: instances, truth, lies, disagreements, rankings."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sdpfeas.study.settings import FAILED, Clock
from sdpfeas.study.stats import (
    Fit,
    GeometricMean,
    Profile,
    fit_power_law,
    natural_shift,
    performance_profiles,
    shifted_geometric_mean,
)
from sdpfeas.study.store import Store

__all__ = ["Group", "MatrixCell", "Scaling", "StudyData"]


DECIDED = ("feasible", "infeasible", "bracket")

#: A confidence interval of the exponent wider than this says nothing, and its band only hides the others.
TELLING = 2.0

Instance = tuple[str, int]


@dataclass(frozen=True)
class Group:
    """How the solvers did on one problem card, or on everything.

    Attributes
    ----------
    name : str
        The card.
    instances : int
        Problems × seeds.
    ranking : tuple
        Solver, solved instances and geometric mean, the best first.
    """

    name: str
    instances: int
    ranking: tuple[tuple[str, int, GeometricMean], ...]

    @property
    def lead(self) -> float | None:
        """How many times slower the second is than the first; None without a second that solved as many."""
        rivals = [row for row in self.ranking[1:] if row[1] == self.ranking[0][1]]
        if not self.ranking or not self.ranking[0][1] or not rivals:
            return None
        best = self.ranking[0][2].value
        return rivals[0][2].value / best if best > 0 else None


@dataclass(frozen=True)
class MatrixCell:
    """One solver on one problem, over all seeds.

    Attributes
    ----------
    verdicts : dict
        How often each verdict or failure came out.
    time : float, optional
        Median seconds over the seeds that were decided, else over all.
    lies, unproven : int
        How often the raw status contradicts what is proved, and claims what could not be proved.
    conflict : bool
        Whether a verdict contradicts another solver's.
    unasked : int
        How often the bracket closed before the solver was asked anything.
    keys : tuple of str
        The cells.
    """

    verdicts: dict[str, int]
    time: float | None
    lies: int
    unproven: int
    conflict: bool
    unasked: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Scaling:
    """Time against size on one card."""

    name: str
    points: dict[str, list[tuple[float, float]]]
    fits: dict[str, Fit]

    @property
    def bands(self) -> dict[str, Fit]:
        """The fits whose confidence band is worth drawing."""
        return {name: fit for name, fit in self.fits.items() if fit.slope_high - fit.slope_low <= TELLING}


class StudyData:
    """All cells of a study and what follows from them.

    Parameters
    ----------
    store : Store
        The study.
    clock : Clock
        Which time is compared; cells without a processor time count by that on the wall.
    """

    def __init__(self, store: Store, clock: Clock = Clock.wall) -> None:
        self.path, self.clock = store.path, clock
        self.runs = store.runs()
        self.solver_rows = store.solvers()
        self.problem_rows = store.problems()
        limits = {run["id"]: json.loads(run["settings"]) for run in self.runs}
        default = limits[self.runs[-1]["id"]]["time_limit"] if self.runs else 60.0
        everything = store.cells()
        for cell in everything:
            cell["parameters"] = json.loads(cell["parameters"])
            cell["limit"] = limits.get(cell["run"], {}).get("time_limit", default)
        self.all_cells = everything
        self.missing = sum(cell["state"] != "done" for cell in everything)
        self.cells = [cell for cell in everything if cell["state"] == "done"]
        self.solvers = list(dict.fromkeys(cell["solver"] for cell in everything))
        self.problems = list(dict.fromkeys(cell["problem"] for cell in everything))
        self.cards = list(dict.fromkeys(cell["card"] for cell in everything))
        for cell in self.cells:
            processor = clock is Clock.processor and cell["cpu_time"] is not None
            cell["time"] = cell["cpu_time" if processor else "solve_time"]
            cell["decided"] = cell["verdict"] in DECIDED
            cell["failed"] = cell["outcome"] in FAILED
            cell["shown"] = cell["outcome"] if cell["failed"] else cell["verdict"]
            cell["unasked"] = cell["decided"] and json.loads(cell["info"] or "{}").get("solves") == 0
        for cell in self.cells:
            cell["lie"] = self._is_lie(cell)
            cell["unproven"] = bool(cell["claimed"]) and not cell["decided"] and not cell["lie"]
            cell["conflict"] = self._instance(cell) in self.conflicts and cell["decided"]

    @property
    def time_word(self) -> str:
        """What the times are called."""
        return f"{'solve' if self.clock is Clock.wall else 'processor'} time"

    @property
    def time_label(self) -> str:
        """What an axis of times is called."""
        return f"{self.time_word} in seconds"

    # ------------------------------------------------------------ truth

    @staticmethod
    def _instance(cell: dict[str, Any]) -> Instance:
        return cell["problem"], cell["seed"]

    @cached_property
    def by_instance(self) -> dict[Instance, dict[str, dict[str, Any]]]:
        """Finished cells by instance and solver."""
        out: dict[Instance, dict[str, dict[str, Any]]] = defaultdict(dict)
        for cell in self.cells:
            out[self._instance(cell)][cell["solver"]] = cell
        return out

    @cached_property
    def truth(self) -> dict[Instance, str]:
        """What is proved about each instance; rigorous and exact proofs overrule numeric ones."""
        out: dict[Instance, str] = {}
        for instance, row in self.by_instance.items():
            strong = {c["verdict"] for c in row.values() if c["decided"] and c["proof"] != "numeric"}
            weak = {c["verdict"] for c in row.values() if c["decided"]}
            found = (strong or weak) & {"feasible", "infeasible"}
            if len(found) == 1:
                out[instance] = found.pop()
        return out

    @cached_property
    def conflicts(self) -> set[Instance]:
        """Instances on which verified verdicts contradict each other."""
        out = set()
        for instance, row in self.by_instance.items():
            decided = [c for c in row.values() if c["decided"]]
            verdicts = {c["verdict"] for c in decided}
            lowers = [c["lower"] for c in decided if c["lower"] is not None]
            uppers = [c["upper"] for c in decided if c["upper"] is not None]
            disjoint = bool(lowers and uppers) and max(lowers) > min(uppers)
            if {"feasible", "infeasible"} <= verdicts or disjoint:
                out.add(instance)
        return out

    def _is_lie(self, cell: dict[str, Any]) -> bool:
        truth = self.truth.get(self._instance(cell))
        return (
            truth is not None and cell["claimed"] in ("feasible", "infeasible") and cell["claimed"] != truth
        )

    @cached_property
    def lies(self) -> list[dict[str, Any]]:
        """Cells whose raw status contradicts what is proved."""
        return [cell for cell in self.cells if cell["lie"]]

    def proved_by(self, cell: dict[str, Any]) -> list[str]:
        """Solvers whose evidence proves the truth about the instance of a cell."""
        instance = self._instance(cell)
        rivals = self.by_instance[instance]
        return [name for name, other in rivals.items() if other["verdict"] == self.truth.get(instance)]

    @cached_property
    def foregone(self) -> set[Instance]:
        """Instances that some search closed before any solver was asked: nobody wins there."""
        return {self._instance(cell) for cell in self.cells if cell["unasked"]}

    # ------------------------------------------------------------ tables

    @cached_property
    def matrix(self) -> dict[str, dict[str, MatrixCell]]:
        """Verdicts by problem and solver."""
        groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for cell in self.cells:
            groups[cell["problem"], cell["solver"]].append(cell)
        out: dict[str, dict[str, MatrixCell]] = {problem: {} for problem in self.problems}
        for (problem, solver), cells in groups.items():
            verdicts: dict[str, int] = defaultdict(int)
            for cell in cells:
                verdicts[cell["shown"]] += 1
            decided = [c["time"] for c in cells if c["decided"]]
            out[problem][solver] = MatrixCell(
                dict(verdicts),
                statistics.median(decided or [c["time"] for c in cells]),
                sum(c["lie"] for c in cells),
                sum(c["unproven"] for c in cells),
                any(c["conflict"] for c in cells),
                sum(c["unasked"] for c in cells),
                tuple(c["key"] for c in cells),
            )
        return out

    def times(self, card: str | None) -> tuple[dict[str, list[float | None]], list[float]]:
        """Times by solver on the instances of a card; None where not decided; and what failures cost.

        Instances on which no solver had to be asked are left out.
        """
        instances = [
            instance
            for instance, row in self.by_instance.items()
            if instance not in self.foregone and (card is None or next(iter(row.values()))["card"] == card)
        ]
        times: dict[str, list[float | None]] = {}
        for solver in self.solvers:
            row: list[float | None] = []
            for instance in instances:
                cell = self.by_instance[instance].get(solver)
                row.append(cell["time"] if cell is not None and cell["decided"] else None)
            times[solver] = row
        charges = [max(c["limit"] for c in self.by_instance[i].values()) for i in instances]
        return times, charges

    def log_shares(self, solver: str, group: Group) -> tuple[float, float]:
        """The logarithm of a shifted mean over the shift, split into decided instances and charged ones."""
        times, charges = self.times(None if group is self.overall else group.name)
        decided = charged = 0.0
        for t, charge in zip(times[solver], charges, strict=True):
            if t is None:
                charged += math.log1p(charge / self.shift)
            else:
                decided += math.log1p(t / self.shift)
        count = max(len(charges), 1)
        return decided / count, charged / count

    @cached_property
    def shift(self) -> float:
        """Shift of the geometric means."""
        return natural_shift(self.times(None)[0])

    def group(self, card: str | None) -> Group:
        """Ranking on one card, or on everything."""
        times, charges = self.times(card)
        rows = [
            (solver, sum(t is not None for t in row), shifted_geometric_mean(row, charges, self.shift))
            for solver, row in times.items()
        ]
        rows.sort(key=lambda row: (-row[1], row[2].value))
        return Group(card or "all problems", len(charges), tuple(rows))

    @cached_property
    def overall(self) -> Group:
        """Ranking on everything."""
        return self.group(None)

    @cached_property
    def groups(self) -> list[Group]:
        """Ranking on every card."""
        return [self.group(card) for card in self.cards]

    @cached_property
    def profiles(self) -> dict[str, Profile]:
        """Performance profiles over all instances."""
        return performance_profiles(self.times(None)[0])

    @cached_property
    def scalings(self) -> list[Scaling]:
        """Time against size, on every card with three sizes or more; on all problems if no card has them."""
        found = [s for s in (self._scaling(card) for card in self.cards) if s is not None]
        if found:
            return found
        whole = self._scaling(None)
        return [] if whole is None else [whole]

    def _scaling(self, card: str | None) -> Scaling | None:
        points: dict[str, list[tuple[float, float]]] = defaultdict(list)
        sizes = set()
        for cell in self.cells:
            if cell["decided"] and not cell["unasked"] and (card is None or cell["card"] == card):
                points[cell["solver"]].append((float(cell["size"]), max(cell["time"], 1e-6)))
                sizes.add(cell["size"])
        if len(sizes) < 3:
            return None
        fits = {}
        for solver, row in points.items():
            fit = fit_power_law([n for n, _ in row], [t for _, t in row])
            if fit is not None:
                fits[solver] = fit
        return Scaling(card or "all problems", dict(points), fits)

    @cached_property
    def accuracy(self) -> dict[str, list[tuple[float, float, str]]]:
        """Time, error of the evidence and cell key, by solver."""
        out: dict[str, list[tuple[float, float, str]]] = {}
        for cell in self.cells:
            if cell["decided"] and cell["error"] is not None:
                out.setdefault(cell["solver"], []).append((cell["time"], cell["error"], cell["key"]))
        return out
