"""Audits of the evidence on a board, by code that shares no proof code with the verifier.

An audit is a cell of a study: it runs in a worker process under limits, is stored, and is not run again. Its
problem is that of the evidence, its solver the one that found the evidence. :func:`audit_rounds` plans them.
"""

from __future__ import annotations

import gzip
import hashlib
import inspect
import json
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sdpfeas import __version__, sdpcheck
from sdpfeas.certifier import audit as auditor
from sdpfeas.certifier import certify
from sdpfeas.families.problem_cards import find_problem
from sdpfeas.io.result_files import unpack_result
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.study.board.problems import slug
from sdpfeas.study.cells import Cell, Plan, ProblemRow, Record, Settings, SolverRow, digest
from sdpfeas.study.report.study_data import StudyData
from sdpfeas.study.store import Store
from sdpfeas.trials.trial import End, Run, Trial

__all__ = ["AuditPlan", "audit_in_worker", "audit_rounds"]

#: Proofs that are audited, the quickest to repeat first.
PROOFS = ("exact", "rigorous")

#: Characters of exact evidence, with its problem, above which it is not kept for the page of a problem.
LARGEST_PROOF = 4_000_000

#: Pieces of evidence about a problem that are audited at most, unless verdicts contradict each other.
ATTEMPTS = 2


def audit_in_worker(
    question: tuple[FeasibilityProblem, bytes, str], start: Callable[..., None]
) -> tuple[str, str | None, str, bytes | None]:
    """Audit in a worker process: return the finding, what is proved, the reason, and evidence as JSON.gz.

    The question is a problem, the content of a result file, and the verdict that was granted.
    """
    start()
    problem, evidence, verdict = question
    found = auditor.audit(problem, replace(unpack_result(evidence), verdict=verdict))
    text = "" if found.evidence is None else found.evidence.text()
    proof = gzip.compress(text.encode(), mtime=0) if 0 < len(text) <= LARGEST_PROOF else None
    return found.finding.value, found.proved, found.reason, proof


@dataclass(frozen=True, kw_only=True)
class Audited(ProblemRow):
    """A problem with evidence about it, and the verdict that was granted."""

    evidence: bytes = field(repr=False)
    verdict: str

    @property
    def content(self) -> str:
        """Hash of the evidence."""
        return hashlib.sha256(self.evidence).hexdigest()


AuditCell = Cell[SolverRow, Audited]


@dataclass
class AuditPlan(Plan[AuditCell]):
    """Audits to run: one cell per piece of evidence, the limits, and the folder of the problem cards."""

    cells: list[AuditCell]
    settings: Settings
    folder: Path

    def trial(self, cell: AuditCell) -> Trial:
        """The trial that audits the evidence of a cell."""
        card = find_problem(self.folder / f"{slug(cell.problem.label)}.toml")
        question = next(card.members()).build(cell.seed), cell.problem.evidence, cell.problem.verdict
        return Trial(f"{__name__}:audit_in_worker", pickle.dumps(question), self.settings.limits)

    def judge(self, cell: AuditCell, run: Run, *, keep_evidence: bool) -> tuple[Record, bytes | None]:
        """The record of an audit: the finding as raw status, what is proved as verdict; and the proof."""
        about: dict[str, Any] = {
            "claimed": cell.problem.verdict,
            "info": json.dumps({"evidence": cell.problem.content}),
            "solve_time": run.wall_time,
            "cpu_time": run.cpu_time,
            "peak_memory": run.peak_memory,
            "log": run.log,
        }
        if run.end is not End.DONE:
            return Record(outcome=run.end.value, reason=run.detail or run.end.value, **about), None
        finding, proved, reason, evidence = run.value
        verdict, proof = proved or "undecided", "exact" if proved else None
        words = f"{finding.upper()}\n{reason}"
        about |= {"raw_status": finding, "reason": reason, "explanation": words}
        return Record(outcome="done", verdict=verdict, proof=proof, **about), evidence


def audit_rounds(study: Store, audits: Store, folder: Path, settings: Settings) -> Iterator[AuditPlan]:
    """Yield plans, each to be run into ``audits`` before the next is asked for.

    For every problem one piece of evidence after the other is audited, until one is confirmed or
    :data:`ATTEMPTS` are not. If verdicts about a problem contradict each other, all its evidence is audited.
    """
    data = StudyData(study)
    waiting = _candidates(study, data)
    in_conflict = {problem for problem, _ in data.conflicts}
    waiting = {problem: row if problem in in_conflict else row[:ATTEMPTS] for problem, row in waiting.items()}
    while waiting:
        cells = []
        for problem, row in waiting.items():
            count = len(row) if problem in in_conflict else 1
            cells += [_cell(study, data, candidate, settings) for candidate in row[:count]]
            del row[:count]
        yield AuditPlan(cells, settings, folder)
        done = {cell["key"]: cell for cell in audits.cells(texts=False)}
        confirmed = {
            cell.problem.label for cell in cells if done.get(cell.key, {}).get("raw_status") == "confirmed"
        }
        waiting = {problem: row for problem, row in waiting.items() if row and problem not in confirmed}


def _candidates(study: Store, data: StudyData) -> dict[str, list[dict[str, Any]]]:
    """Decided cells with evidence by problem, the quickest to audit first."""
    out: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for cell in data.cells:
        if cell["decided"] and cell["kept"] and cell["proof"] in PROOFS:
            out[cell["problem"]].append(cell)
    for row in out.values():
        row.sort(key=lambda cell: (PROOFS.index(cell["proof"]), len(study.evidence(cell["key"]) or b"")))
    return dict(out)


def _cell(study: Store, data: StudyData, about: dict[str, Any], settings: Settings) -> AuditCell:
    evidence = study.evidence(about["key"]) or b""
    row = next(row for row in data.problem_rows if row["label"] == about["problem"])
    kept = ("key", "label", "name", "kind", "rows", "size", "summary", "card")
    known = {name: row[name] for name in kept}
    problem = Audited(**known, parameters={}, evidence=evidence, verdict=about["verdict"])
    code = inspect.getsource(sdpcheck) + inspect.getsource(certify)
    identity = {
        "auditor": __version__,
        "code": hashlib.sha256(code.encode()).hexdigest(),
        "of": about["solver"],
    }
    solver = SolverRow(
        key=digest(identity), name=about["solver"], backend="auditor", version=__version__,
        options={}, source=auditor.__name__, card="",
    )  # fmt: skip
    key = digest([solver.key, row["key"], problem.content, problem.verdict, settings.plain()])
    return Cell(key, solver, problem, about["seed"])
