"""From what a user asks for to the list of cells: solvers × problems × seeds, each with its key."""

from __future__ import annotations

import hashlib
import inspect
import json
import pickle
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sdpfeas import __version__
from sdpfeas.backends.registry import Solver, backends, find_solver
from sdpfeas.errors import SdpfeasError
from sdpfeas.families.base import ParametricFamily
from sdpfeas.families.problem_cards import ProblemMember, find_problem
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.study.card_errors import located, raise_all
from sdpfeas.study.settings import Settings

__all__ = ["Cell", "Plan", "PlannedProblem", "PlannedSolver", "make_plan", "problem_key"]

#: Problems kept in memory once built; others are built again when their turn comes.
CACHED_PROBLEMS = 32

#: Where two families are compared to tell them apart, relative to their unit.
PROBES = (0.37, 1.7)


@dataclass(frozen=True)
class PlannedSolver:
    """A solver of a study and the hash of all that can change its answers."""

    solver: Solver
    key: str
    options: dict[str, Any]
    version: str

    @property
    def name(self) -> str:
        """What it is called in tables."""
        return self.solver.name


@dataclass(frozen=True)
class PlannedProblem:
    """A problem of a study: how to build it, its content hash, and its size."""

    source: ProblemMember
    seed: int
    key: str
    kind: str
    rows: int
    size: int
    summary: str

    @property
    def label(self) -> str:
        """Name and parameters in one string."""
        return self.source.label


@dataclass(frozen=True)
class Cell:
    """One solver on one problem with one seed."""

    key: str
    solver: PlannedSolver
    problem: PlannedProblem
    seed: int


@dataclass
class Plan:
    """All cells of a study, in the order they are run.

    Attributes
    ----------
    cells : list of Cell
        The cells.
    settings : Settings
        What they run under.
    skipped : dict
        Solvers that cannot run here, with the reason.
    """

    cells: list[Cell]
    settings: Settings
    skipped: dict[str, str] = field(default_factory=dict)
    _built: OrderedDict[tuple[str, int], Any] = field(default_factory=OrderedDict)

    def build(self, problem: PlannedProblem) -> Any:
        """The problem, or family, of a cell; built again where it is not at hand."""
        return _cached_build(self._built, problem.source, problem.seed)


def make_plan(
    solvers: Sequence[str], problems: Sequence[str], seeds: int | Iterable[int], settings: Settings
) -> Plan:
    """Find everything, check everything, and list the cells.

    Parameters
    ----------
    solvers, problems : sequence of str
        Names, paths and patterns; ``all`` stands for every backend available here.
    seeds : int or iterable of int
        How many seeds (from 0), or which.
    settings : Settings
        Limits and modes.

    Raises
    ------
    CardError
        If anything is wrong with any of them; all of it is said at once.
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
    return Plan(cells, settings, skipped, built)


def _expand(specs: Sequence[str], what: str, errors: list[str]) -> list[str]:
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
        if not found:
            errors.append(f"{spec}: no {what} matches")
        out.extend(found)
    if not out and not errors:
        errors.append(f"no {what} was given")
    return list(dict.fromkeys(out))


def _natural(path: str) -> list[Any]:
    """A sorting key that puts p9 before p10."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", path)]


def _plan_solvers(specs: Sequence[str], errors: list[str], skipped: dict[str, str]) -> list[PlannedSolver]:
    names = [
        name
        for spec in _expand(specs, "solver", errors)
        for name in ([n for n, info in backends().items() if info.available] if spec == "all" else [spec])
    ]
    chosen: dict[str, PlannedSolver] = {}
    for spec in dict.fromkeys(names):
        try:
            solver = find_solver(spec)
            backend = solver.make()
        except SdpfeasError as error:
            errors.append(located(error, spec))
            continue
        fine, why = backend.available()
        if not fine:
            skipped[solver.name] = why
            continue
        planned = _plan_solver(solver)
        if solver.name in chosen:
            if chosen[solver.name].key != planned.key:
                errors.append(f"{spec}: another solver of this study is called {solver.name!r} too")
            continue
        chosen[solver.name] = planned
    return list(chosen.values())


def _plan_solver(solver: Solver) -> PlannedSolver:
    backend = solver.make()
    options = backend.option_values()
    version = backend.version()
    identity = {
        "backend": backend.name,
        "options": options,
        "version": version,
        "sdpfeas": __version__,
        "code": _code_digest(solver.kind),
    }
    return PlannedSolver(solver, _digest(identity), options, version)


def _code_digest(kind: type) -> str:
    """Hash of the file a class is written in, or of all files beside it where it is the head of a package."""
    code = inspect.getsourcefile(kind)
    if code is None:
        return ""
    file = Path(code)
    files = sorted(file.parent.glob("*.py")) if file.name == "__init__.py" else [file]
    return hashlib.sha256(b"".join(part.read_bytes() for part in files)).hexdigest()


def _plan_problems(
    specs: Sequence[str], seeds: list[int], built: OrderedDict[tuple[str, int], Any], errors: list[str]
) -> dict[int, list[PlannedProblem]]:
    sources: dict[str, ProblemMember] = {}
    for spec in _expand(specs, "problem", errors):
        try:
            found = list(find_problem(spec).members())
        except SdpfeasError as error:
            errors.append(located(error, spec))
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
                planned[seed].append(PlannedProblem(**{**vars(first), "seed": seed}))
                continue
            try:
                first = _plan_problem(source, seed, built)
            except SdpfeasError as error:
                errors.append(located(error, source.origin))
                break
            planned[seed].append(first)
    return planned


def _plan_problem(
    source: ProblemMember, seed: int, built: OrderedDict[tuple[str, int], Any]
) -> PlannedProblem:
    made = _cached_build(built, source, seed)
    whole = isinstance(made, FeasibilityProblem)
    kind, shown = ("problem", made) if whole else ("family", made.at(PROBES[1] * made.unit))
    key = problem_key(made)
    size = max(block.n for block in shown.sets)
    summary = ", ".join(f"{block.kind}({block.n})" for block in shown.sets[:6])
    if len(shown.sets) > 6:
        summary += f", … ({len(shown.sets)} blocks)"
    return PlannedProblem(source, seed, key, kind, shown.m, size, f"{summary}; {shown.m} rows")


def problem_key(made: FeasibilityProblem | ParametricFamily) -> str:
    """The content hash under which cells about a problem, or a family, are stored.

    Parameters
    ----------
    made : FeasibilityProblem or ParametricFamily
        The problem, or the family.
    """
    if isinstance(made, FeasibilityProblem):
        return made.content_hash
    return _digest([made.at(probe * made.unit).content_hash for probe in PROBES])


def _cached_build(built: OrderedDict[tuple[str, int], Any], source: ProblemMember, seed: int) -> Any:
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
    return _digest({"solver": solver.key, "problem": problem.key, "seed": seed, "settings": settings.plain()})


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def pickled(problem: Any) -> bytes:
    """The bytes a worker is sent."""
    return pickle.dumps(problem, protocol=pickle.HIGHEST_PROTOCOL)
