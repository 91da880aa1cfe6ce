"""Drop-ins of a study: code that is not the library's runs in workers, and only plain data come back.

The process that plans a study grants its verdicts, too. So it imports no drop-in backend, no drop-in family
and no package that registers either: a worker process says what they are and builds their problems.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.drivers.isolation import source_of
from sdpfeas.errors import CardError, SdpfeasError
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.families.problem_cards import ProblemMember, find_problem
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.problem_file import pack_problem, unpack_problem
from sdpfeas.study.cells import digest
from sdpfeas.trials.trial import End, Limits, Trial
from sdpfeas.trials.workers import run_once, run_shared

#: Where two families are compared to tell them apart, relative to their unit.
PROBES = (0.37, 1.7)


# ---------------------------------------------------------------- what is said about solvers and problems


def solver_facts(solver: Solver) -> dict[str, Any]:
    """What a study has to know about a solver, as plain data."""
    backend = solver.make()
    fine, why = backend.available()
    return {
        "name": solver.name,
        "backend": backend.name,
        "version": backend.version() if fine else "",
        "options": dict(backend.option_values()),
        "source": solver.source,
        "card": solver.text,
        "found_at": source_of(solver.kind),
        "given": dict(solver.options),
        "code": _codedigest(solver.kind),
        "missing": "" if fine else why or "not available",
    }


def _codedigest(kind: type) -> str:
    """Hash of the file a class is written in, or of all files beside it where it is the head of a package."""
    code = inspect.getsourcefile(kind)
    if code is None:
        return ""
    file = Path(code)
    files = sorted(file.parent.glob("*.py")) if file.name == "__init__.py" else [file]
    return hashlib.sha256(b"".join(part.read_bytes() for part in files)).hexdigest()


def problem_facts(made: FeasibilityProblem | ParametricFamily) -> dict[str, Any]:
    """What a study has to know about a problem or a family, as plain data."""
    whole = isinstance(made, FeasibilityProblem)
    shown = made if isinstance(made, FeasibilityProblem) else made.at(PROBES[1] * made.unit)
    blocks = [*shown.sets, *(lmi.set for lmi in shown.lmis)]
    # Of an LMI the matrix counts, and not how many numbers it depends on.
    size = max(block.n for block in ([b for b in blocks if b.matrix] if shown.lmis else []) or blocks)
    summary = ", ".join(f"{block.kind}({block.n})" for block in shown.sets[:6])
    if len(shown.sets) > 6:
        summary += f", … ({len(shown.sets)} blocks)"
    if shown.lmis:
        listed = ", ".join(f"{lmi.set.kind}({lmi.set.n})" for lmi in shown.lmis[:6])
        summary += f"; LMIs in {listed}" + ", …" * (len(shown.lmis) > 6)
    return {
        "key": problem_key(made),
        "kind": "problem" if whole else "family",
        "rows": shown.m,
        "size": size,
        "summary": f"{summary}; {shown.m} rows",
    }


def problem_key(made: FeasibilityProblem | ParametricFamily) -> str:
    """The content hash under which cells about a problem, or a family, are stored."""
    if isinstance(made, FeasibilityProblem):
        return made.content_hash
    return digest([made.at(probe * made.unit).content_hash for probe in PROBES])


# ---------------------------------------------------------------- seen from the parent


def foreign_solver(spec: str) -> dict[str, Any]:
    """As :func:`solver_facts`, of a drop-in, which a worker of its own describes."""
    found: dict[str, Any] = ask_worker(f"{__name__}:answer", spec, ("solver", spec), once=True)
    return found


def foreign_members(spec: str) -> list[ForeignMember]:
    """The members of a problem card, or file, that names foreign code."""
    found = ask_worker(f"{__name__}:answer", spec, ("members", spec))
    return [ForeignMember(spec, k, **facts) for k, facts in enumerate(found)]


@dataclass(frozen=True)
class ForeignMember:
    """One member of a problem card that names foreign code, as :class:`ProblemMember`."""

    spec: str
    index: int
    name: str
    label: str
    parameters: Mapping[str, Any]
    text: str
    origin: str
    seeded: bool

    def build(self, seed: int = 0) -> FeasibilityProblem | ForeignFamily:
        """Have the problem built, or the family described, in a worker."""
        kind, found = ask_worker(f"{__name__}:answer", self.spec, ("build", self.spec, self.index, seed))
        if kind == "problem":
            return unpack_problem(found, FeasibilityProblem)
        place = str(Path(self.spec).absolute()) if Path(self.spec).exists() else self.spec
        return ForeignFamily(place, self.index, seed, found)


@dataclass(frozen=True)
class ForeignFamily:
    """A parametric family whose code is not the library's: what is known of it without running that code."""

    spec: str
    index: int
    seed: int
    facts: Mapping[str, Any]

    def load(self) -> ParametricFamily:
        """The family itself; for worker processes."""
        made = _member(self.spec, self.index).build(self.seed)
        assert isinstance(made, ParametricFamily)
        return made


def ask_worker(target: str, label: str, request: Any, *, once: bool = False) -> Any:
    """Run one of our functions in a worker that may import foreign code; CardError with what it refuses.

    ``label``: whose code it is: a worker serves one label only. ``once``: whether to end the worker with
    the answer.
    """
    trial = Trial(target, pickle.dumps(request), Limits(), f"foreign code of {label}")
    run = (run_once if once else run_shared)(trial)
    if run.end is not End.DONE:
        raise CardError(f"{label}: {run.end}: {run.detail}")
    fine, value = run.value
    if not fine:
        raise CardError(str(value))
    return value


# ---------------------------------------------------------------- seen from the worker


def answer(request: tuple[Any, ...], start: Callable[..., None]) -> tuple[bool, Any]:
    """Describe, list or build: the target of the trial in which foreign code is imported."""
    start()
    what, *arguments = request
    try:
        actions: dict[str, Callable[..., Any]] = {"solver": _solver, "members": _members, "build": _build}
        return True, actions[what](*arguments)
    except SdpfeasError as error:
        return False, str(error)


def _solver(spec: str) -> dict[str, Any]:
    return solver_facts(find_solver(spec))


def _members(spec: str) -> list[dict[str, Any]]:
    names = ("name", "label", "text", "origin", "seeded")
    return [
        {**{name: getattr(member, name) for name in names}, "parameters": dict(member.parameters)}
        for member in find_problem(spec).members()
    ]


def _build(spec: str, index: int, seed: int) -> tuple[str, Any]:
    made = _member(spec, index).build(seed)
    if isinstance(made, FeasibilityProblem):
        return "problem", pack_problem(made)
    return "family", problem_facts(made)


def _member(spec: str, index: int) -> ProblemMember:
    return next(member for k, member in enumerate(find_problem(spec).members()) if k == index)
