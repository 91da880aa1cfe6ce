"""The content of a board: the truth about every problem, and how often each solver was right.

:class:`BoardData` compares the raw status of every solver with what was proved and audited.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from importlib.resources import files
from typing import Any, NamedTuple

from sdpfeas.cards.toml import parse_toml
from sdpfeas.study.board.data_sets import PROBLEM_SETS
from sdpfeas.study.board.problems import set_of
from sdpfeas.study.cells import Clock
from sdpfeas.study.report.study_data import StudyData
from sdpfeas.study.stats import shifted_geometric_mean
from sdpfeas.study.store import Store

__all__ = ["BoardData", "Standing", "Truth"]

#: Size classes by the side of the largest block: the largest side, and the name.
SIZES = ((10, "up to 10"), (30, "11 to 30"), (100, "31 to 100"), (10**9, "above 100"))


#: Tolerance of a solver without an option that names it.
TOLERANCE = 1e-6

#: The DIMACS error up to which points count in times at matched accuracy.
MATCHED_ACCURACY = 1e-6

#: Failures are charged the time limit and, beside it, so many times the limit.
LATE = 3.0


class Standing(StrEnum):
    """The raw status of a solver against what is proved, in the order in which bars show it."""

    right = "right"
    silent = "undecided"
    open = "open"
    within = "within tolerance"
    wrong = "wrong"

    @property
    def meaning(self) -> str:
        """The explanation in the legend."""
        return {
            Standing.right: "the raw status agrees with what is proved",
            Standing.silent: "no claim: undecided, out of time, failed",
            Standing.open: "a claim, and nothing is proved of the numbers given",
            Standing.within: "contradicted by proof, by a point within the solver's tolerance",
            Standing.wrong: "contradicted by proof, beyond the solver's tolerance",
        }[self]

    @property
    def mark(self) -> str:
        """The sign for it in a matrix."""
        return dict(zip(Standing, "✓?~≈✗", strict=True))[self]


@dataclass(frozen=True)
class Truth:
    """The proved verdict of a problem, and the evidence for it."""

    verdict: str
    proof: str
    #: The solver whose evidence it is, and the key of the cell that holds it.
    solver: str
    cell: str
    #: How the verifier proved it, and how the auditor did.
    reason: str
    audit: str
    #: The exact evidence that the checker accepted, as JSON.gz; None if it is too large to be kept.
    checked: bytes | None


class Times(NamedTuple):
    """Mean times of a solver, and the instances they count.

    ``late`` charges failures three times the limit. ``matched`` counts right statuses whose points have the
    matched accuracy, and answers with a proof, with the mean ``matched_mean``.
    """

    solver: str
    proved: int
    mean: float
    late: float
    matched: int
    matched_mean: float


class BoardData:
    """All answers of a board, compared with the truth.

    A verdict is a truth on a board if the verifier granted its evidence a rigorous or exact proof, the
    auditor confirmed it, and nothing contradicts it. ``study`` holds the answers with their evidence,
    ``audits`` the audits of that evidence.
    """

    def __init__(self, study: Store, audits: Store) -> None:
        self.data = StudyData(study, Clock.processor)
        #: Problems with two proofs that cannot both be right, and which.
        self.contradictions: dict[str, str] = {}
        self.truths: dict[str, Truth] = {}
        #: Problems with a proof of the verifier that no audit confirms, and what the audits say.
        self.unaudited: dict[str, str] = {}
        self._judge(study, audits)
        self.notes = parse_toml((files("sdpfeas.study.board") / "known.toml").read_text(encoding="utf-8"))
        self._rows = {row["name"]: row for row in self.data.solver_rows}
        for cell in self.data.cells:
            cell["standing"] = self._standing(cell)
            cell["set"] = set_of(cell["problem"])
            cell["size class"] = next(name for largest, name in SIZES if cell["size"] <= largest)

    # ------------------------------------------------------------ truth

    def _judge(self, study: Store, audits: Store) -> None:
        answers = {(cell["problem"], cell["solver"]): cell for cell in self.data.cells}
        findings: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = defaultdict(list)
        for found in audits.cells():
            own = answers.get((found["problem"], found["solver"]))
            evidence = None if own is None else study.evidence(own["key"])
            if own is None or evidence is None or found["state"] != "done":
                continue
            # An audit of other evidence, or of another verdict, is about an answer that is gone.
            audited = json.loads(found["info"] or "{}").get("evidence")
            if audited == hashlib.sha256(evidence).hexdigest() and found["claimed"] == own["verdict"]:
                findings[found["problem"]].append((own, found))
        for problem in self.data.problems:
            decided = [cell for cell in self.about(problem) if cell["decided"]]
            clashes = [
                f"the verifier grants {own['verdict']} to {own['solver']}, and the auditor proves "
                f"{found['verdict']}"
                for own, found in findings[problem]
                if found["raw_status"] == "refuted"
            ]
            if len({cell["verdict"] for cell in decided}) > 1:
                granted = ", ".join(f"{c['solver']} {c['verdict']} ({c['proof']})" for c in decided)
                clashes.append(f"the verifier granted both verdicts: {granted}")
            confirmed = [pair for pair in findings[problem] if pair[1]["raw_status"] == "confirmed"]
            if clashes:
                self.contradictions[problem] = "; ".join(clashes)
            elif confirmed:
                own, found = confirmed[0]
                known = own["verdict"], own["proof"], own["solver"], own["key"], own["reason"]
                self.truths[problem] = Truth(*known, found["reason"], audits.evidence(found["key"]))
            elif decided:
                said = [f"{f['raw_status'] or f['outcome']}: {f['reason']}" for _, f in findings[problem]]
                self.unaudited[problem] = "; ".join(said) or "not audited yet"

    def _standing(self, cell: dict[str, Any]) -> Standing:
        claimed = cell["claimed"]
        if claimed not in ("feasible", "infeasible"):
            return Standing.silent
        truth = self.truths.get(cell["problem"])
        if truth is None:
            return Standing.open
        if claimed == truth.verdict:
            return Standing.right
        return Standing.within if _dimacs_error(cell) <= self._tolerance(cell) else Standing.wrong

    def _tolerance(self, cell: dict[str, Any]) -> float:
        """The accuracy that a solver was asked for, or that it documents of a status of less accuracy."""
        row = self._rows[cell["solver"]]
        options = json.loads(row["options"])
        reduced = self.notes.get(row["backend"], {}).get("reduced", {})
        asked = options.get("tolerance", options.get("eps", TOLERANCE))
        return float(reduced.get(cell["raw_status"], asked))

    # ------------------------------------------------------------ times

    def times(self) -> list[Times]:
        """The mean times of every solver, in the order of the ranking."""
        times, charges = self.data.times(None)
        late = [LATE * charge for charge in charges]
        matched = self.data.times(None, self._is_accurate)[0]
        out = []
        for name, proved, mean in self.data.overall.ranking:
            slow = shifted_geometric_mean(times[name], late, self.data.shift)
            even = shifted_geometric_mean(matched[name], charges, self.data.shift)
            solved = sum(t is not None for t in matched[name])
            out.append(Times(name, proved, mean.value, slow.value, solved, even.value))
        return out

    @staticmethod
    def _is_accurate(cell: dict[str, Any]) -> bool:
        """Whether a status is right and, if it claims a point, this has the matched accuracy; or proved."""
        accurate = cell["claimed"] == "infeasible" or _dimacs_error(cell) <= MATCHED_ACCURACY
        return bool(cell["decided"] or (cell["standing"] is Standing.right and accurate))

    # ------------------------------------------------------------ counts

    def count(self, cells: Iterable[dict[str, Any]]) -> Counter[str]:
        """Count the standings, and the cells that are proved by their own evidence."""
        out: Counter[str] = Counter()
        for cell in cells:
            out[cell["standing"].value] += 1
            out["proved"] += bool(cell["decided"])
            out["failed"] += bool(cell["failed"])
            out["cells"] += 1
        return out

    def of(self, solver: str) -> list[dict[str, Any]]:
        """The cells of a solver."""
        return [cell for cell in self.data.cells if cell["solver"] == solver]

    def about(self, problem: str) -> list[dict[str, Any]]:
        """The cells about a problem."""
        return [cell for cell in self.data.cells if cell["problem"] == problem]

    def answers(self, problem: str) -> dict[str, dict[str, Any]]:
        """The cells about a problem by solver."""
        return {cell["solver"]: cell for cell in self.about(problem)}

    def problems_of(self, set_name: str) -> list[str]:
        """The problems of a set."""
        return [problem for problem in self.data.problems if set_of(problem) == set_name]

    def _grouped(self, key: str, names: Iterable[str]) -> dict[str, dict[str, Counter[str]]]:
        """Counts by group and solver, for the groups that have cells."""
        out: dict[str, dict[str, Counter[str]]] = {}
        for name in names:
            group = [cell for cell in self.data.cells if cell[key] == name]
            if group:
                out[name] = {
                    solver: self.count(cell for cell in group if cell["solver"] == solver)
                    for solver in self.data.solvers
                }
        return out

    @cached_property
    def by_set(self) -> dict[str, dict[str, Counter[str]]]:
        """Counts by set and solver."""
        return self._grouped("set", PROBLEM_SETS)

    @cached_property
    def by_size(self) -> dict[str, dict[str, Counter[str]]]:
        """Counts by size and solver."""
        return self._grouped("size class", [name for _, name in SIZES])

    @cached_property
    def overall(self) -> dict[str, Counter[str]]:
        """Counts by solver."""
        return {solver: self.count(self.of(solver)) for solver in self.data.solvers}

    @property
    def total(self) -> Counter[str]:
        """Counts over all solvers."""
        return sum(self.overall.values(), Counter())

    @property
    def contradicted(self) -> Counter[tuple[str, ...]]:
        """How often proof contradicts a status: by solver, status, standing, proved verdict and set."""
        return Counter(
            (
                cell["solver"],
                cell["raw_status"],
                cell["standing"].value,
                self.truths[cell["problem"]].verdict,
                PROBLEM_SETS[cell["set"]],
            )
            for cell in self.data.cells
            if cell["standing"] in (Standing.wrong, Standing.within)
        )

    @property
    def ranked(self) -> list[tuple[str, Counter[str]]]:
        """Counts by solver: fewest wrong statuses first, then most proofs, then most right statuses."""
        return sorted(
            self.overall.items(), key=lambda item: (item[1]["wrong"], -item[1]["proved"], -item[1]["right"])
        )

    @property
    def skipped(self) -> dict[str, str]:
        """Solvers that were not installed at the last run, with the reason."""
        if not self.data.runs:
            return {}
        found = json.loads(self.data.runs[-1]["environment"]).get("skipped", {})
        return {str(name): str(why) for name, why in found.items()}

    # ------------------------------------------------------------ words

    def headlines(self, show: Callable[[str], str] = str) -> list[str]:
        """The board in sentences; ``show`` escapes names."""
        total = len(self.data.problems)
        out = [f"Of {total} problems, the truth of {len(self.truths)} is proved and audited."]
        wrong = {name: count["wrong"] for name, count in self.overall.items() if count["wrong"]}
        if wrong:
            listed = ", ".join(f"{show(name)} {number}" for name, number in sorted(wrong.items(), key=_most))
            out.append(
                f"Raw statuses that are contradicted by proof, beyond the tolerance of their solver: "
                f"{sum(wrong.values())} ({listed})."
            )
        else:
            out.append("No raw status is contradicted by proof beyond the tolerance of its solver.")
        within = self.total[Standing.within]
        if within:
            out.append(f"Contradicted by proof, but by less than that tolerance: {within}.")
        others = [show(name) for name, count in self.overall.items() if count["cells"] and not count["wrong"]]
        if wrong and others:
            out.append(f"No such status from {', '.join(others)}.")
        best = max(self.overall.items(), key=lambda item: item[1]["proved"], default=None)
        if best is not None and best[1]["proved"]:
            out.append(
                f"Most answers with a proof: {show(best[0])}, {best[1]['proved']} of {best[1]['cells']}."
            )
        if self.unaudited:
            out.append(
                f"{len(self.unaudited)} more are proved by the verifier and not confirmed by the auditor."
            )
        if self.skipped:
            out.append(f"Not installed: {', '.join(show(name) for name in self.skipped)}.")
        if self.data.missing:
            out.append(f"{self.data.missing} cells are not computed yet: the board is unfinished.")
        if self.contradictions:
            out.insert(0, f"{len(self.contradictions)} CONTRADICTIONS between proofs: one of them is wrong.")
        return out

    def plain(self) -> dict[str, Any]:
        """The board as plain data."""
        return {
            "problems": len(self.data.problems),
            "truths": {problem: truth.verdict for problem, truth in self.truths.items()},
            "solvers": {name: dict(count) for name, count in self.overall.items()},
            "skipped": self.skipped,
            "missing": self.data.missing,
            "contradictions": [f"{problem}: {why}" for problem, why in self.contradictions.items()],
        }


def _dimacs_error(cell: dict[str, Any]) -> float:
    """The DIMACS error of a claimed point; infinite without a point."""
    return float(json.loads(cell["info"] or "{}").get("dimacs_error", math.inf))


def _most(item: tuple[str, int]) -> tuple[int, str]:
    return -item[1], item[0]
