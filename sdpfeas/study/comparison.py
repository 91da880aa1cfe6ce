"""Comparisons of solvers: plan the cells (solver, problem, seed), and run a cell in a worker process.

:func:`make_plan` resolves names and patterns to a :class:`Comparison`; :func:`run_cell` calls the backend, or
bisects the family, in the worker.
"""

from __future__ import annotations

import gc
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
from sdpfeas.cards.toml import InlineCard, locate_error, raise_all
from sdpfeas.claims import Claim, Stop, pack_claim
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.bisection import bisect
from sdpfeas.drivers.isolation import find_backend, run_and_pack
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

#: Problems that are cached after they are built; others are built again when they are needed.
CACHED_PROBLEMS = 32


@dataclass(frozen=True, kw_only=True)
class PlannedSolver(SolverRow):
    """A solver of a comparison, with the import location of its backend and the options that were given."""

    found_at: str
    given: Mapping[str, Any]
    spec: Spec = ""


@dataclass(frozen=True, kw_only=True)
class PlannedProblem(ProblemRow):
    """A problem of a comparison, with the card member that builds it."""

    member: ProblemMember | ForeignMember
    seed: int


#: What names a solver or a problem: a name, a path or a pattern, or a table of a study file.
Spec = str | InlineCard

#: One solver on one problem with one seed.
ComparisonCell = Cell[PlannedSolver, PlannedProblem]


@dataclass
class Comparison(Plan[ComparisonCell]):
    """The plan of a comparison: solvers × problems × seeds."""

    cells: list[ComparisonCell]
    settings: Settings
    skipped: dict[str, str] = field(default_factory=dict)
    _built: OrderedDict[tuple[str, int], Any] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def build(self, problem: PlannedProblem) -> Any:
        """Build the problem or family of a cell, or take it from the cache."""
        with self._lock:
            return _cached_build(self._built, problem.member, problem.seed)

    def trial(self, cell: ComparisonCell) -> Trial:
        """The trial that calls the solver."""
        source, settings = cell.solver.found_at, self.settings
        problem = self.build(cell.problem)
        task = source, dict(cell.solver.given), problem, settings.time_limit, settings.tol
        return Trial(f"{__name__}:run_cell", pickle.dumps(task), settings.limits, source)

    def judge(self, cell: ComparisonCell, run: Run, *, keep_evidence: bool) -> tuple[Record, bytes | None]:
        """Verify the claim of the solver."""
        return judge(cell, self.build(cell.problem), run, self.settings, keep_evidence=keep_evidence)


def make_plan(
    solvers: Sequence[Spec], problems: Sequence[Spec], seeds: int | Iterable[int], settings: Settings
) -> Comparison:
    """Resolve and validate solvers and problems, and list the cells.

    ``solvers`` and ``problems`` are names, paths, patterns and tables of a study file; ``all`` stands for
    every available backend. ``seeds`` is the number of seeds, counted from 0, or a list. Raises CardError
    with all errors found.
    """
    errors: list[str] = []
    built: OrderedDict[tuple[str, int], Any] = OrderedDict()
    skipped: dict[str, str] = {}
    chosen = _plan_solvers(solvers, errors, skipped)
    seed_list = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not seed_list:
        errors.append("--seeds: at least one seed is needed")
    planned = plan_problems(problems, seed_list, built, errors)
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


def expand_specs(specs: Sequence[Spec], what: str, errors: list[str], finder: Finder) -> list[Spec]:
    """Expand patterns to files, else to known names; other specifications are kept."""
    out: list[Spec] = []
    names = [spec for spec in specs if isinstance(spec, str)]
    for spec in (part.strip() for given in names for part in given.split(",")):
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
    out += [spec for spec in specs if isinstance(spec, InlineCard)]
    if not out and not errors:
        errors.append(f"no {what} was given")
    return [spec for k, spec in enumerate(out) if spec not in out[:k]]


def _natural(path: str) -> list[Any]:
    """Sorting key of natural order: p9 before p10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", path)]


def _plan_solvers(specs: Sequence[Spec], errors: list[str], skipped: dict[str, str]) -> list[PlannedSolver]:
    chosen: dict[str, PlannedSolver] = {}
    asked = expand_specs(specs, "solver", errors, SOLVERS)
    every = sorted(set(SOLVERS.registered()).difference(map(str, asked))) if "all" in asked else []
    for spec in [*every, *(spec for spec in asked if spec != "all")]:
        one_of_all = spec in every
        try:
            facts = _describe_solver(spec)
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


def _plan_solver(facts: Mapping[str, Any], spec: Spec = "") -> PlannedSolver:
    identity = {name: facts[name] for name in ("backend", "options", "version", "code")}
    kept = {name: facts[name] for name in ("name", "backend", "version", "options", "source", "card")}
    key = digest({**identity, "sdpfeas": __version__})
    return PlannedSolver(key=key, **kept, found_at=facts["found_at"], given=facts["given"], spec=spec)


def _describe_solver(spec: Spec) -> dict[str, Any]:
    """Describe a solver; foreign code is loaded in a worker only."""
    try:
        with own_code_only():
            return solver_facts(find_solver(spec))
    except ForeignCode:
        return foreign_solver(spec)


def _members(spec: Spec) -> list[ProblemMember | ForeignMember]:
    try:
        with own_code_only():
            return list(find_problem(spec).members())
    except ForeignCode:
        return list(foreign_members(spec))


def plan_problems(
    specs: Sequence[Spec], seeds: list[int], built: OrderedDict[tuple[str, int], Any], errors: list[str]
) -> dict[int, list[PlannedProblem]]:
    """List the problems by seed; errors are appended with file and line, problems cached in ``built``."""
    sources: dict[str, ProblemMember | ForeignMember] = {}
    for spec in expand_specs(specs, "problem", errors, PROBLEMS):
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
        try:
            made = [_plan_problem(source, seed, built) for seed in (seeds if source.seeded else seeds[:1])]
        except SdpfeasError as error:
            errors.append(locate_error(error, source.origin))
            continue
        for seed, problem in zip(seeds, made if source.seeded else made * len(seeds), strict=True):
            planned[seed].append(problem)
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


# --- in the worker process


#: The payload of a cell: import location and options of the backend, the problem, time limit and tolerance.
CellTask = tuple[str, dict[str, Any], FeasibilityProblem | ParametricFamily | ForeignFamily, float, float]

#: Backends that have solved the warm-up problems in this process.
_warm: set[str] = set()


def run_cell(task: CellTask, start: Callable[..., None]) -> dict[str, Any]:
    """Solve the problem of a cell, or bisect its family; the target of a trial."""
    source, options, asked, time_limit, tol = task
    backend = find_backend(source, options)
    problem = asked.load() if isinstance(asked, ForeignFamily) else asked
    if source not in _warm:
        start()
        _warm_up(backend, time_limit)
        _warm.add(source)
        # Exclude the objects loaded so far from garbage collections during the measurement.
        gc.collect()
        gc.freeze()
    start()
    if isinstance(problem, FeasibilityProblem):
        return _solve(backend, problem, time_limit)
    try:
        solver = Solver(backend.name, type(backend), options)
        found = bisect(problem, solver, tol=tol, time_limit=time_limit)
        claim = Claim(
            point=found.point,
            certificate=found.certificate,
            raw_status=f"{found.lower:.9g} <= delta* <= {found.upper:.9g}: {found.reason}",
            stop=Stop.FINISHED if found.converged else Stop.STALLED,
            iterations=sum(step.iterations or 0 for step in found.history),
            info={"solves": found.solves},
        )
    except Exception as error:  # noqa: BLE001 - as for a single solve
        claim = Claim(stop=Stop.ERROR, raw_status=safe_text(error))
    return pack_claim(claim)


def _warm_up(backend: FeasibilityBackend, time_limit: float) -> None:
    """Solve two trivial problems, so that imports and compilation are not measured."""
    for block in (PSD(2), SpectralBox(2, trace=1.0)):
        trivial = FeasibilityProblem([block], [np.diag([1.0, 0.5])[None]], [0.5], [1.0])
        _solve(backend, trivial, min(time_limit, 5.0))


def _solve(backend: FeasibilityBackend, problem: FeasibilityProblem, time_limit: float) -> dict[str, Any]:
    return run_and_pack(backend, problem, Inquiry(problem, deadline=Deadline(time_limit)))
