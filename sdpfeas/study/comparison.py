"""From what a user asks for to the list of cells: solvers × problems × seeds, each with its key."""

from __future__ import annotations

import gc
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from sdpfeas import __version__
from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.cards.finder import PROBLEMS, SOLVERS, Finder, ForeignCode, own_code_only
from sdpfeas.cards.toml import locate_error, raise_all
from sdpfeas.claims import Claim, Stop, pack_claim
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bisection import bisect
from sdpfeas.drivers.isolation import ask_plainly, find_backend
from sdpfeas.errors import SdpfeasError, safe_text
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.families.problem_cards import ProblemMember, find_problem
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import PSD, SpectralBox
from sdpfeas.study.cell_verification import judge
from sdpfeas.study.cells import Cell, Plan, ProblemRow, Record, Settings, SolverRow, digest
from sdpfeas.study.dropin_process import (
    ForeignFamily,
    ForeignMember,
    foreign_members,
    foreign_solver,
    problem_facts,
    solver_facts,
)
from sdpfeas.trials.trial import Run, Trial

#: Problems kept in memory once built; others are built again when their turn comes.
CACHED_PROBLEMS = 32


@dataclass(frozen=True, kw_only=True)
class PlannedSolver(SolverRow):
    """A solver of a comparison.

    ``found_at``: where a worker finds the class of its backend. ``given``: options that differ from the
    defaults.
    """

    found_at: str
    given: Mapping[str, Any]
    spec: str = ""


@dataclass(frozen=True, kw_only=True)
class PlannedProblem(ProblemRow):
    """A problem of a comparison, and how to build it."""

    member: ProblemMember | ForeignMember
    seed: int


#: One solver on one problem with one seed.
ComparisonCell = Cell[PlannedSolver, PlannedProblem]


@dataclass
class Comparison(Plan[ComparisonCell]):
    """Solvers × problems × seeds.

    ``skipped``: solvers that cannot run here, with the reason.
    """

    cells: list[ComparisonCell]
    settings: Settings
    skipped: dict[str, str] = field(default_factory=dict)
    _built: OrderedDict[tuple[str, int], Any] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def build(self, problem: PlannedProblem) -> Any:
        """The problem, or family, of a cell; built again where it is not at hand."""
        with self._lock:
            return _cached_build(self._built, problem.member, problem.seed)

    def trial(self, cell: ComparisonCell) -> Trial:
        """Ask the solver about the problem."""
        source, settings = cell.solver.found_at, self.settings
        problem = self.build(cell.problem)
        question = CellTask(source, dict(cell.solver.given), problem, settings.time_limit, settings.tol)
        return Trial(f"{__name__}:run_cell", pickle.dumps(question), settings.limits, source)

    def judge(self, cell: ComparisonCell, run: Run, *, keep_evidence: bool) -> tuple[Record, bytes | None]:
        """Verify what the solver claims."""
        return judge(cell, self.build(cell.problem), run, self.settings, keep_evidence=keep_evidence)


def make_plan(
    solvers: Sequence[str], problems: Sequence[str], seeds: int | Iterable[int], settings: Settings
) -> Comparison:
    """Find everything, check everything, and list the cells.

    ``solvers, problems``: names, paths and patterns; ``all`` stands for every backend available here.
    ``seeds``: how many seeds (from 0), or which.

    Raises ``CardError``: if anything is wrong with any of them; all of it is said at once.
    """
    errors: list[str] = []
    built: OrderedDict[tuple[str, int], Any] = OrderedDict()
    skipped: dict[str, str] = {}
    chosen = _plan_solvers(solvers, errors, skipped)
    seed_list = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not seed_list:
        errors.append("--seeds: at least one seed is needed")
    planned = _plan_problems(problems, seed_list, built, errors)
    if not errors and not chosen:
        reasons = "; ".join(f"{name}: {why}" for name, why in skipped.items())
        errors.append(f"no solver can run here ({reasons})" if skipped else "no solver was given")
    raise_all(errors)
    cells = [
        Cell(_cell_key(solver, problem, seed, settings), solver, problem, seed)
        for seed in seed_list
        for solver in chosen
        for problem in planned[seed]
    ]
    return Comparison(cells, settings, skipped, built)


def _expand(specs: Sequence[str], what: str, errors: list[str], finder: Finder) -> list[str]:
    """Names, paths, and what patterns match: files, else names that can be looked up."""
    out: list[str] = []
    for spec in (part.strip() for given in specs for part in given.split(",")):
        if not spec:
            continue
        if not any(mark in spec for mark in "*?["):
            out.append(spec)
            continue
        pattern = Path(spec)
        root = Path(pattern.anchor or ".")
        matches = root.glob(str(pattern.relative_to(pattern.anchor)))
        found = sorted((str(path) for path in matches if path.is_file()), key=_natural)
        found = found or [name for name in finder.names() if fnmatchcase(name, spec)]
        if not found:
            errors.append(f"{spec}: no {what} matches; names that ship are matched without a folder")
        out.extend(found)
    if not out and not errors:
        errors.append(f"no {what} was given")
    return list(dict.fromkeys(out))


def _natural(path: str) -> list[Any]:
    """A sorting key that puts p9 before p10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", path)]


def _plan_solvers(specs: Sequence[str], errors: list[str], skipped: dict[str, str]) -> list[PlannedSolver]:
    chosen: dict[str, PlannedSolver] = {}
    asked = _expand(specs, "solver", errors, SOLVERS)
    names = dict.fromkeys(sorted(SOLVERS.registered()) if "all" in asked else (), True)
    for spec, one_of_all in (names | {spec: False for spec in asked if spec != "all"}).items():
        try:
            facts = _described(spec)
        except SdpfeasError as error:
            if not one_of_all:
                errors.append(locate_error(error, spec))
            continue
        if facts["missing"]:
            if not one_of_all:
                skipped[facts["name"]] = facts["missing"]
            continue
        solver = _plan_solver(facts, spec)
        if solver.name in chosen:
            if chosen[solver.name].key != solver.key:
                errors.append(f"{spec}: another solver of this study is called {solver.name!r} too")
            continue
        chosen[solver.name] = solver
    return list(chosen.values())


def _plan_solver(facts: Mapping[str, Any], spec: str = "") -> PlannedSolver:
    identity = {name: facts[name] for name in ("backend", "options", "version", "code")}
    kept = {name: facts[name] for name in ("name", "backend", "version", "options", "source", "card")}
    key = digest({**identity, "sdpfeas": __version__})
    return PlannedSolver(key=key, **kept, found_at=facts["found_at"], given=facts["given"], spec=spec)


def _described(spec: str) -> dict[str, Any]:
    """What a study has to know about a solver; code that is not the library's runs in a worker."""
    try:
        with own_code_only():
            return solver_facts(find_solver(spec))
    except ForeignCode:
        return foreign_solver(spec)


def _members(spec: str) -> list[ProblemMember | ForeignMember]:
    try:
        with own_code_only():
            return list(find_problem(spec).members())
    except ForeignCode:
        return list(foreign_members(spec))


def _plan_problems(
    specs: Sequence[str], seeds: list[int], built: OrderedDict[tuple[str, int], Any], errors: list[str]
) -> dict[int, list[PlannedProblem]]:
    sources: dict[str, ProblemMember | ForeignMember] = {}
    for spec in _expand(specs, "problem", errors, PROBLEMS):
        try:
            found = _members(spec)
        except SdpfeasError as error:
            errors.append(locate_error(error, spec))
            continue
        for source in found:
            if source.label in sources:
                errors.append(f"{spec}: another problem of this study is called {source.label!r} too")
            sources[source.label] = source
    planned: dict[int, list[PlannedProblem]] = {seed: [] for seed in seeds}
    for source in sources.values():
        first: PlannedProblem | None = None
        for seed in seeds:
            if first is not None and not source.seeded:
                planned[seed].append(replace(first, seed=seed))
                continue
            try:
                first = _plan_problem(source, seed, built)
            except SdpfeasError as error:
                errors.append(locate_error(error, source.origin))
                break
            planned[seed].append(first)
    return planned


def _plan_problem(
    source: ProblemMember | ForeignMember, seed: int, built: OrderedDict[tuple[str, int], Any]
) -> PlannedProblem:
    made = _cached_build(built, source, seed)
    return PlannedProblem(
        label=source.label,
        name=source.name,
        parameters=source.parameters,
        card=source.text,
        member=source,
        seed=seed,
        **(made.facts if isinstance(made, ForeignFamily) else problem_facts(made)),
    )


def _cached_build(
    built: OrderedDict[tuple[str, int], Any], source: ProblemMember | ForeignMember, seed: int
) -> Any:
    place = (source.label, seed if source.seeded else 0)
    if place in built:
        built.move_to_end(place)
        return built[place]
    made = source.build(seed)
    built[place] = made
    while len(built) > CACHED_PROBLEMS:
        built.popitem(last=False)
    return made


def _cell_key(solver: PlannedSolver, problem: PlannedProblem, seed: int, settings: Settings) -> str:
    return digest({"solver": solver.key, "problem": problem.key, "seed": seed, "settings": settings.plain()})


# ------------------------------------------------------------
# What a worker does for a cell of a comparison: ask the backend, or bisect the family.


@dataclass(frozen=True)
class CellTask:
    """What is asked of a backend.

    ``source``: where its class is found again. ``tol``: relative width of the bracket, for a family.
    """

    source: str
    options: Mapping[str, Any]
    problem: FeasibilityProblem | ParametricFamily | ForeignFamily
    time_limit: float
    tol: float


#: Backends that have been warmed up in this process.
_warm: set[str] = set()


def run_cell(question: CellTask, start: Callable[..., None]) -> dict[str, Any]:
    """Answer a question, the backend warm: the target of the trial that is a cell."""
    backend = find_backend(question.source, question.options)
    asked = question.problem
    problem = asked.load() if isinstance(asked, ForeignFamily) else asked
    if question.source not in _warm:
        start()
        _warm_up(backend, question.time_limit)
        _warm.add(question.source)
        # What is loaded by now stays; without this every collection would walk all of it.
        gc.collect()
        gc.freeze()
    start()
    if isinstance(problem, FeasibilityProblem):
        return _ask(backend, problem, question.time_limit)
    try:
        return pack_claim(_bisect(backend, problem, question))
    except Exception as error:  # noqa: BLE001 - as for a single solve
        return pack_claim(Claim(stop=Stop.ERROR, raw_status=safe_text(error)))


def _warm_up(backend: FeasibilityBackend, time_limit: float) -> None:
    """Solve two trivial problems: what is imported and compiled on the way is not what a study measures."""
    for block in (PSD(2), SpectralBox(2, trace=1.0)):
        trivial = FeasibilityProblem([block], [np.diag([1.0, 0.5])[None]], [0.5], [1.0])
        _ask(backend, trivial, min(time_limit, 5.0))


def _ask(backend: FeasibilityBackend, problem: FeasibilityProblem, time_limit: float) -> dict[str, Any]:
    return ask_plainly(backend, problem, Inquiry(problem, deadline=Deadline(time_limit)))


def _bisect(backend: FeasibilityBackend, family: ParametricFamily, question: CellTask) -> Claim:
    solver = Solver(backend.name, type(backend), question.options)
    found = bisect(family, solver, tol=question.tol, time_limit=question.time_limit)
    return Claim(
        point=found.point,
        certificate=found.certificate,
        raw_status=f"{found.lower:.9g} <= delta* <= {found.upper:.9g}: {found.reason}",
        stop=Stop.FINISHED if found.converged else Stop.STALLED,
        iterations=sum(step.iterations or 0 for step in found.history),
        info={"solves": found.solves},
    )
