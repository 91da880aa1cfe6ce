"""Answers of solvers that cannot run here: verify their solution files, and store them as cells of a study.

An answer is a solution file (CSDP or SDPA text, SeDuMi ``.mat``, our ``.npz``), a line of a table with the
status and the time, or both. :func:`plan_answers` matches answers to problems by name.
"""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from sdpfeas.cards.toml import InlineCard, raise_all
from sdpfeas.claims import Claim, Verdict
from sdpfeas.errors import FileFormatError, OptionError, hint, safe_text
from sdpfeas.files import read_file
from sdpfeas.io import PROBLEM_FILES
from sdpfeas.io.result_files import load_result
from sdpfeas.io.solution_files import read_solution
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.study.board.problems import slug
from sdpfeas.study.cell_verification import judge
from sdpfeas.study.cells import Cell, Record, Settings, digest
from sdpfeas.study.comparison import (
    Comparison,
    ComparisonCell,
    PlannedProblem,
    PlannedSolver,
    Spec,
    plan_problems,
)
from sdpfeas.study.store import Store
from sdpfeas.trials.trial import End, Run

__all__ = ["AnswerPlan", "plan_answers"]

#: The table of statuses and times that is read from the folder of the answers if it is there.
TABLE = "answers.csv"

#: The phase and the time in the output of SDPA, and phases that call both programs of the pair feasible.
SDPA_PHASE = re.compile(r"phase\.value\s*=\s*(\w+)")
SDPA_SECONDS = re.compile(r"main loop time\s*=\s*([\d.eE+-]+)")
SDPA_FEASIBLE = ("pdOPT", "pdFEAS")


@dataclass(frozen=True)
class TableLine:
    """What the table of a folder tells about an answer; its fields are the columns."""

    name: str
    seconds: float | None = None
    status: str = ""
    claim: str = ""


@dataclass(frozen=True)
class Answer:
    """An answer to one problem: a solution file, a line of the table, or both."""

    file: Path | None = None
    told: TableLine = field(default_factory=lambda: TableLine(""))

    @property
    def content(self) -> str:
        """Hash of everything that the cell depends on."""
        data = b"" if self.file is None else self.file.read_bytes()
        return digest([hashlib.sha256(data).hexdigest(), repr(self.told)])


@dataclass
class AnswerPlan(Comparison):
    """Cells of a solver that does not run: each is verified from its answer.

    ``unmatched`` lists answers that fit no problem, ``unanswered`` problems without an answer.
    """

    answers: Mapping[str, Answer] = field(default_factory=dict)
    seconds: float | None = None
    unmatched: Sequence[str] = ()
    unanswered: Sequence[str] = ()

    def known(self, cell: ComparisonCell, store: Store) -> tuple[Record, bytes | None]:
        """Verify the answer; a malformed file is an error of its cell."""
        answer = self.answers[cell.key]
        try:
            problem = self.build(cell.problem)
            if not isinstance(problem, FeasibilityProblem):
                raise OptionError("a family of problems; fix its delta in a card")
            seconds, claims = _read(answer, problem)
        except Exception as error:  # noqa: BLE001 - a malformed file must not end a study
            return judge(cell, None, Run(End.ERROR, safe_text(error)), self.settings, keep_evidence=False)
        seconds = self.seconds if seconds is None else seconds
        charged = self.settings.time_limit if seconds is None else seconds
        for claim in claims:
            told = {} if seconds is not None else {"seconds": "not told: the time limit is charged"}
            run = Run(End.DONE, value=replace(claim, info={**claim.info, **told}), wall_time=charged)
            judged = judge(cell, problem, run, self.settings, keep_evidence=True)
            if judged[0].verdict != Verdict.UNDECIDED:
                break
        return judged


def _read(answer: Answer, problem: FeasibilityProblem) -> tuple[float | None, list[Claim]]:
    """Return the seconds of an answer, if they are known, and what it may prove; never empty."""
    told, file = answer.told, answer.file
    seconds, status, claimed, claims = told.seconds, told.status, told.claim, [Claim()]
    if file is not None and file.suffix == ".npz":
        saved = load_result(file)
        if saved.problem_hash != problem.content_hash:
            raise FileFormatError(f"{file.name} answers another problem: the content hash differs")
        claims, status = [saved.claim], status or saved.raw_status
        seconds = saved.solve_time if seconds is None else seconds
    elif file is not None:
        claims = read_solution(file, problem, "lmi" if problem.lmis else "primal")
        text = "" if file.suffix == ".mat" else file.read_text(encoding="utf-8", errors="replace")
        if (phase := SDPA_PHASE.search(text)) is not None:
            status = status or phase[1]
            claimed = claimed or ("feasible" if phase[1] in SDPA_FEASIBLE else "")
        if seconds is None and (spent := SDPA_SECONDS.search(text)) is not None:
            seconds = float(spent[1])
    info = {"claimed": claimed or "undecided"}
    return seconds, [replace(claim, raw_status=status, info=info) for claim in claims]


def plan_answers(
    problems: Sequence[str],
    answers: Path,
    settings: Settings,
    *,
    solver: str,
    version: str,
    table: Path | None = None,
    seconds: float | None = None,
    side: str = "primal",
) -> AnswerPlan:
    """Match the answers in a folder, or one file, to problems by name, and list the cells.

    ``problems`` are names, paths, folders and patterns. An answer fits a problem if its name, without file
    extensions, is the label of the problem, its last part, or the name of the problem's file; ``side`` is
    that of problem files. ``table`` is a CSV file with the columns of :class:`TableLine` (default: the file
    :data:`TABLE` of the folder), and ``seconds`` counts where no time is told. Raises CardError with all
    errors found, FileFormatError for a bad table.
    """
    errors: list[str] = []
    built: OrderedDict[tuple[str, int], Any] = OrderedDict()
    planned = plan_problems(_specs(problems, side), [0], built, errors)[0]
    raise_all(errors)
    if not answers.exists():
        raise OptionError(f"{answers}: no such file or folder")
    found = list(_answers(answers, table))
    row = PlannedSolver(
        key=digest({"answers": solver, "version": version}), name=solver, backend="answers", version=version,
        options={}, source="", card="", found_at="", given={},
    )  # fmt: skip
    cells, matched, used = [], {}, set[str]()
    for problem in planned:
        names = _names(problem)
        fitting = {name: answer for name, answer in found if names.intersection(_stems(name))}
        used.update(fitting)
        if len(fitting) > 1:
            raise OptionError(f"{problem.label} has several answers: {', '.join(fitting)}")
        if not fitting:
            continue
        (answer,) = fitting.values()
        key = digest([row.key, problem.key, settings.plain(), seconds, answer.content])
        cells.append(Cell(key, row, problem, 0))
        matched[key] = answer
    if not cells:
        raise OptionError(f"{answers}: no answer is named like one of the {len(planned)} problems")
    answered = {cell.problem.label for cell in cells}
    return AnswerPlan(
        cells, settings, {}, built,
        answers=matched,
        seconds=seconds,
        unmatched=[name for name, _ in found if name not in used],
        unanswered=[problem.label for problem in planned if problem.label not in answered],
    )  # fmt: skip


def _specs(problems: Sequence[str], side: str) -> list[Spec]:
    """Expand folders to the problem files and cards in them, and name the side of files."""
    if side not in ("primal", "lmi"):
        raise OptionError(f"--side must be primal or lmi, got {side!r}")
    paths = [
        path
        for folder in map(Path, problems)
        for path in (sorted(folder.iterdir()) if folder.is_dir() else [folder])
        if path == folder or path.name.endswith((".toml", *PROBLEM_FILES))
    ]
    return [_on_side(path, side) for path in paths]


def _on_side(path: Path, side: str) -> Spec:
    """A card of the LMI side of a file; the primal side is what a file itself stands for."""
    if side == "primal" or not (path.name.endswith(PROBLEM_FILES) and path.is_file()):
        return str(path)
    table = {"name": f"{path.name.partition('.')[0]}-{side}", "file": path.name, "side": side}
    return InlineCard(path, table, f"file = {path.name!r}\nside = {side!r}\n")


def _names(problem: PlannedProblem) -> set[str]:
    """Names under which a problem can be answered."""
    label = problem.label
    file = getattr(getattr(problem.member, "card", None), "file", None)
    return {label, slug(label), label.rpartition("/")[2], *_stems(Path(file or "").name)}


def _stems(name: str) -> list[str]:
    """A name, and what is left of it without one extension after the other."""
    out = [name]
    while "." in out[-1].strip("."):
        out.append(out[-1].rpartition(".")[0])
    return out


def _answers(place: Path, table: Path | None) -> Iterator[tuple[str, Answer]]:
    """Yield all answers with their names: files, and lines of the table without a file."""
    folder = place if place.is_dir() else place.parent
    usual = folder / TABLE
    table = usual if table is None and usual.is_file() else table
    lines = {} if table is None else {line.name: line for line in _read_table(table)}
    files = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
    for path in files:
        if path == table or path.name.startswith("."):
            continue
        name = path.relative_to(folder).as_posix()
        told = next((lines.pop(stem) for stem in (*_stems(name), *_stems(path.name)) if stem in lines), None)
        yield name, Answer(path, told or TableLine(name))
    if place.is_dir():
        yield from ((name, Answer(None, line)) for name, line in lines.items())


def _read_table(path: Path) -> Iterable[TableLine]:
    try:
        reader = csv.DictReader(io.StringIO(read_file(path).decode("utf-8-sig")))
        columns = [column.name for column in fields(TableLine)]
        for name in reader.fieldnames or ():
            if name not in columns:
                raise FileFormatError(
                    f"{path}: unknown column {name!r}; {hint(name, columns, 'a table has')}"
                )
        return [_table_line(row, f"{path}:{reader.line_num}") for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: {error}") from None


def _table_line(row: Mapping[str, Any], where: str) -> TableLine:
    given = {key: (value or "").strip() for key, value in row.items() if key}
    if not given.get("name"):
        raise FileFormatError(f"{where}: a line without a name")
    if given.get("claim", "") not in ("", "feasible", "infeasible"):
        raise FileFormatError(f"{where}: claim must be feasible, infeasible or empty, got {given['claim']!r}")
    try:
        seconds = float(given["seconds"]) if given.get("seconds") else None
        if seconds is not None and not 0.0 <= seconds < float("inf"):
            raise ValueError
    except ValueError:
        raise FileFormatError(f"{where}: seconds must be a number, got {given['seconds']!r}") from None
    return TableLine(given["name"], seconds, given.get("status", ""), given.get("claim", ""))
