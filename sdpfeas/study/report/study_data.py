"""The results of a study as data: truth, contradictions, rankings, and the summary in sentences.

:class:`StudyData` reads a study once; report, board and command line take every number from it. An *instance*
is a problem with a seed, a *cell* is a solver on an instance.
"""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

from sdpfeas.study.cells import FAILED, Clock
from sdpfeas.study.scaling import Measurement, Scaling, scalings
from sdpfeas.study.stats import (
    GeometricMean,
    Profile,
    natural_shift,
    performance_profiles,
    shifted_geometric_mean,
)
from sdpfeas.study.store import Store

__all__ = ["Group", "MatrixCell", "StudyData", "format_time", "headlines"]

DECIDED = ("feasible", "infeasible", "bracket")

#: Solvers whose mean times differ by less than this factor are called equally fast.
TIE = 1.1

#: Up to this many problem cards, the summary names each winner.
NAMED_WINNERS = 6

#: The summary warns of cells with less processor time than this share of the wall time, by so many seconds.
BUSY_SHARE, BUSY_SECONDS = 0.5, 0.05

#: How times and memory of a cell are measured (:mod:`sdpfeas.trials.worker_main`).
MEASURED = (
    "time of the worker and of the child processes it waited for; memory as the peak of the worker, and "
    "of its process tree every quarter of a second; no cgroups"
)

Instance = tuple[str, int]


@dataclass(frozen=True)
class Group:
    """The ranking on one problem card, or on all: solver, decided instances and mean time, the best first."""

    name: str
    instances: int
    ranking: tuple[tuple[str, int, GeometricMean], ...]

    @property
    def even(self) -> list[str]:
        """Other solvers that decided as many as the first, the fastest first."""
        return [solver for solver, solved, _ in self.ranking[1:] if solved == self.ranking[0][1]]

    @property
    def tied(self) -> list[str]:
        """Those of them whose mean time is about that of the first."""
        best = TIE * self.ranking[0][2].value
        return [row[0] for row in self.ranking[1:] if row[0] in self.even and row[2].value < best]

    @property
    def lead(self) -> float | None:
        """Mean time of the second over that of the first; None if no other decided as many."""
        if not self.ranking or not self.ranking[0][1] or not self.even:
            return None
        best = self.ranking[0][2].value
        return self.ranking[1][2].value / best if best > 0 else None


@dataclass(frozen=True)
class MatrixCell:
    """One solver on one problem, over all seeds."""

    #: How often each verdict or failure occurred, the most frequent first.
    verdicts: dict[str, int]
    #: Median seconds over the decided seeds; over all seeds if none is decided.
    time: float
    #: How often the raw status contradicts a proof, and how often it claims what could not be proved.
    wrong: int
    unproven: int
    #: Whether a verdict contradicts that of another solver.
    conflict: bool
    #: How often the bracket closed before the solver was called.
    unasked: int
    #: The keys of the cells.
    keys: tuple[str, ...]


class StudyData:
    """All cells of a study and what follows from them.

    ``clock`` is the time that is compared; cells without a processor time count with their wall time.
    ``axis`` is the parameter that times are drawn against, chosen per card by default.
    """

    def __init__(self, store: Store, clock: Clock = Clock.wall, axis: str | None = None) -> None:
        self.path, self.clock, self.axis = store.path, clock, axis
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
        newest = max(self.cells, key=lambda cell: cell["finished"] or 0.0, default={})
        for cell in self.cells:
            # Changes in files of the library other than the backend's do not change the key of a cell.
            cell["other_code"] = any(cell[name] != newest[name] for name in ("library", "revision"))
            cell["wrong"] = self._is_wrong(cell)
            cell["unproven"] = bool(cell["claimed"]) and not cell["decided"] and not cell["wrong"]
            cell["conflict"] = self._instance(cell) in self.conflicts and cell["decided"]

    @property
    def time_word(self) -> str:
        """Name of the compared time."""
        return f"{'solve' if self.clock is Clock.wall else 'processor'} time"

    @property
    def time_label(self) -> str:
        """Label of an axis of times."""
        return f"{self.time_word} in seconds"

    @property
    def run_facts(self) -> dict[str, str]:
        """Machine, versions, limits and command of the last run."""
        run = self.runs[-1]
        environment, settings = json.loads(run["environment"]), json.loads(run["settings"])
        versions = environment.get("versions", {})
        return {
            "machine": f"{environment.get('cpu')}, {environment.get('cores')} cores, "
            f"{environment.get('memory', 0) / 2**30:.0f} GiB; {environment.get('system')}",
            "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
            "BLAS": f"{environment.get('blas')}, {settings.get('threads')} thread(s) per cell",
            "revision": environment.get("revision") or "installed release",
            "limits": f"{settings['time_limit']:g} s and "
            f"{settings['memory_limit'] / 2**20:,.0f} MiB per cell",
            "measured": MEASURED,
            "command": run["command"],
            "runs": f"{len(self.runs)}",
        }

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
        """The proved verdict of each instance; rigorous and exact proofs overrule numeric ones."""
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

    def _is_wrong(self, cell: dict[str, Any]) -> bool:
        truth = self.truth.get(self._instance(cell))
        return (
            truth is not None and cell["claimed"] in ("feasible", "infeasible") and cell["claimed"] != truth
        )

    @cached_property
    def wrong_cells(self) -> list[dict[str, Any]]:
        """Cells whose raw status contradicts what is proved."""
        return [cell for cell in self.cells if cell["wrong"]]

    def proved_by(self, cell: dict[str, Any]) -> list[str]:
        """Solvers whose evidence proves the truth about the instance of a cell."""
        instance = self._instance(cell)
        rivals = self.by_instance[instance]
        return [name for name, other in rivals.items() if other["verdict"] == self.truth.get(instance)]

    @cached_property
    def unasked_instances(self) -> set[Instance]:
        """Instances whose bracket some search closed before any solver was called; they have no winner."""
        return {self._instance(cell) for cell in self.cells if cell["unasked"]}

    # ------------------------------------------------------------ tables

    @cached_property
    def matrix(self) -> dict[str, dict[str, MatrixCell]]:
        """Verdicts and median times by problem and solver."""
        groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
        for cell in self.cells:
            groups[cell["problem"], cell["solver"]].append(cell)
        out: dict[str, dict[str, MatrixCell]] = {problem: {} for problem in self.problems}
        for (problem, solver), cells in groups.items():
            verdicts = Counter(cell["shown"] for cell in cells)
            decided = [c["time"] for c in cells if c["decided"]]
            out[problem][solver] = MatrixCell(
                dict(verdicts.most_common()),
                statistics.median(decided or [c["time"] for c in cells]),
                sum(c["wrong"] for c in cells),
                sum(c["unproven"] for c in cells),
                any(c["conflict"] for c in cells),
                sum(c["unasked"] for c in cells),
                tuple(c["key"] for c in cells),
            )
        return out

    def times(
        self, card: str | None, solved: Callable[[dict[str, Any]], bool] = itemgetter("decided")
    ) -> tuple[dict[str, list[float | None]], list[float]]:
        """Times by solver on the instances of a card, None where not ``solved``, and the time limits.

        Instances on which no solver was called are left out.
        """
        instances = [
            instance
            for instance, row in self.by_instance.items()
            if instance not in self.unasked_instances
            and (card is None or next(iter(row.values()))["card"] == card)
        ]
        times: dict[str, list[float | None]] = {}
        for solver in self.solvers:
            row: list[float | None] = []
            for instance in instances:
                cell = self.by_instance[instance].get(solver)
                row.append(cell["time"] if cell is not None and solved(cell) else None)
            times[solver] = row
        charges = [max(c["limit"] for c in self.by_instance[i].values()) for i in instances]
        return times, charges

    def bar_shares(self, group: Group) -> dict[str, tuple[float, float]]:
        """Lengths of the bars of a ranking by solver, in per cent of the longest.

        A bar is ``log(1 + mean / shift)``, the mean of ``log(1 + t / shift)`` over the instances; its parts
        are those of the decided instances and of the charged ones.
        """
        times, charges = self.times(None if group is self.overall else group.name)
        parts = {}
        for solver, row in times.items():
            decided = sum(math.log1p(t / self.shift) for t in row if t is not None)
            charged = sum(
                math.log1p(charge / self.shift) for t, charge in zip(row, charges, strict=True) if t is None
            )
            parts[solver] = decided, charged
        longest = max(map(sum, parts.values()), default=0.0) or 1.0
        return {
            solver: (100 * own / longest, 100 * charged / longest) for solver, (own, charged) in parts.items()
        }

    @cached_property
    def shift(self) -> float:
        """Shift of the geometric means, in seconds."""
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

    @property
    def measurements(self) -> list[Measurement]:
        """Times of the decided cells, for scaling studies."""
        return [
            Measurement(cell["solver"], cell["card"], cell["parameters"], cell["size"], cell["time"])
            for cell in self.cells
            if cell["decided"] and not cell["unasked"]
        ]

    @cached_property
    def scalings(self) -> list[Scaling]:
        """Time against the axis of every card, with all other parameters fixed."""
        return scalings(self.measurements, self.axis)

    @cached_property
    def accuracy(self) -> dict[str, list[tuple[float, float, str]]]:
        """Time, error of the evidence and cell key, by solver."""
        out: dict[str, list[tuple[float, float, str]]] = {}
        for cell in self.cells:
            if cell["decided"] and cell["error"] is not None:
                out.setdefault(cell["solver"], []).append((cell["time"], cell["error"], cell["key"]))
        return out


# ---------------------------------------------------------------- sentences


def headlines(data: StudyData, show: Callable[[str], str] = str) -> list[str]:
    """The summary in sentences: who wins where, by how much, and warnings. ``show`` escapes names."""
    out = []
    best = data.overall
    if best.ranking and best.ranking[0][1]:
        name, solved, mean = best.ranking[0]
        many = f"{solved} of" if mean.charged else "all"
        text = f"{show(name)} decides {many} {best.instances} instances"
        if best.even:
            does = "does" if len(best.even) == 1 else "do"
            text += f", and so {does} {_listed(best.even, show)}; {_compared(best, show)}"
        elif len(best.ranking) > 1:
            other, others, slower = best.ranking[1]
            means = f"mean {format_time(mean.value)} against {format_time(slower.value)}"
            text += f", ahead of {show(other)} with {others} ({means})"
        out.append(text + ".")
        wins = max(profile.wins for profile in data.profiles.values())
        winners = [solver for solver, profile in data.profiles.items() if profile.wins == wins]
        out.append(
            f"{_listed(winners, show)} {'is' if len(winners) == 1 else 'are'} fastest most often: on "
            f"{wins:.0%} of the instances (times below a millisecond count as equal)."
        )
    elif not any(cell["decided"] for cell in data.cells):
        out.append("No instance was decided by any solver.")
    out += _winners(data, show)
    if data.unasked_instances:
        many = _count(len(data.unasked_instances), "instance")
        out.append(f"On {many} the bracket closed before any solver was asked; no solver wins there.")
    out.append(_warning(data, show))
    out += _waits(data, show)
    others = sum(cell["other_code"] for cell in data.cells)
    if others:
        many = _count(others, "cell")
        out.append(f"{many} came from another version or commit of the library than the newest cell.")
    if data.missing:
        out.append(f"{data.missing} cells are not computed yet: this is a report on an unfinished study.")
    return out


def _winners(data: StudyData, show: Callable[[str], str]) -> list[str]:
    won = [group for group in data.groups if group.ranking[0][1]]
    if len(data.groups) < 2:
        return []
    if len(won) <= NAMED_WINNERS:
        return [f"On {show(group.name)} {_winner(group, show)}: {_compared(group, show)}." for group in won]
    tally = Counter(name for group in won for name in (group.ranking[0][0], *group.tied))
    parts = ", ".join(f"{show(name)} on {count}" for name, count in tally.most_common())
    ties = "; ties count for each" if tally.total() > len(won) else ""
    return [f"Of {len(data.groups)} problem cards, the winner is {parts}{ties}."]


def _winner(group: Group, show: Callable[[str], str]) -> str:
    names = [group.ranking[0][0], *group.tied]
    return f"the winner is {show(names[0])}" if len(names) == 1 else f"the winners are {_listed(names, show)}"


def _listed(names: Sequence[str], show: Callable[[str], str]) -> str:
    """Names with commas and an "and"."""
    *first, last = map(show, names)
    return f"{', '.join(first)} and {last}" if first else last


def _waits(data: StudyData, show: Callable[[str], str]) -> list[str]:
    """A warning if the machine was busy, or worked for a cell in processes that are not counted."""
    spans = [(c, c["solve_time"], c["cpu_time"]) for c in data.cells if c["cpu_time"] is not None]
    found = [each for each in spans if each[2] < BUSY_SHARE * each[1] and each[1] - each[2] > BUSY_SECONDS]
    if not found:
        return []
    cell, wall, processor = max(found, key=lambda each: each[1] - each[2])
    advice = "" if data.clock is Clock.processor else "; rank by processor time before you compare"
    text = (
        f"On {_count(len(found), 'cell')} processor time is far below wall time (at worst "
        f"{format_time(processor)} of {format_time(wall)}, {show(cell['solver'])} on "
        f"{show(cell['problem'])}): the machine was busy, or other processes did the work{advice}."
    )
    return [text]


def _warning(data: StudyData, show: Callable[[str], str]) -> str:
    parts = []
    if data.conflicts:
        parts.append(f"on {_count(len(data.conflicts), 'instance')} verified verdicts contradict each other")
    if data.wrong_cells:
        wrong = ", ".join(show(name) for name in dict.fromkeys(c["solver"] for c in data.wrong_cells))
        says = "raw status contradicts" if len(data.wrong_cells) == 1 else "raw statuses contradict"
        parts.append(f"{len(data.wrong_cells)} {says} a proof ({wrong})")
    unproven = sum(cell["unproven"] for cell in data.cells)
    if unproven:
        parts.append(f"{_count(unproven, 'claim')} could not be verified and count as undecided")
    failed = sum(cell["failed"] for cell in data.cells)
    if failed:
        parts.append(f"{_count(failed, 'cell')} failed (limits, crashes, errors)")
    if not parts:
        return "No verdict contradicts another, no raw status contradicts a proof, and nothing failed."
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _compared(group: Group, show: Callable[[str], str]) -> str:
    _, solved, mean = group.ranking[0]
    lead = group.lead
    base = f"mean {format_time(mean.value)}"
    if solved < group.instances:
        base = f"{solved} of {group.instances} decided, {base}"
    if lead is None:
        others = group.ranking[1:]
        return f"{base}; the next decides {others[0][1]}" if others else base
    if group.tied:
        return f"{base}, on a par with {_listed(group.tied, show)}"
    times = f"{lead:.2g}" if lead < 100 else f"{lead:.0f}"
    return f"{base}, {times} × faster than {show(group.even[0])}"


def format_time(seconds: float | None) -> str:
    """A time with a unit, to three digits."""
    if seconds is None or seconds != seconds:
        return "–"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
