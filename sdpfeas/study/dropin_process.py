"""Load drop-in backends and families of a study in worker processes, and return plain data.

The process that plans a study also grants its verdicts. So it imports no foreign code: a worker describes
drop-in backends and families, and builds their problems.
"""

from __future__ import annotations

import hashlib
import inspect
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sdpfeas.backends.registry import Solver, find_solver
from sdpfeas.cards.toml import InlineCard
from sdpfeas.drivers.isolation import source_of
from sdpfeas.errors import CardError, SdpfeasError
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.families.problem_cards import ProblemMember, find_problem
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.problem_file import pack_problem, unpack_problem
from sdpfeas.study.cells import digest
from sdpfeas.trials.trial import End, Limits, Trial
from sdpfeas.trials.workers import run_once, run_shared

#: Levels, relative to the unit of a family, whose problems identify the family.
PROBES = (0.37, 1.7)


# --- descriptions of solvers and problems


def solver_facts(solver: Solver) -> dict[str, Any]:
    """Describe a solver as plain data."""
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
        "code": _code_digest(solver.kind),
        "missing": "" if fine else why or "not available",
    }


def _code_digest(kind: type) -> str:
    """Hash of the file that defines a class, or of all files of its package."""
    code = inspect.getsourcefile(kind)
    if code is None:
        return ""
    file = Path(code)
    files = sorted(file.parent.glob("*.py")) if file.name == "__init__.py" else [file]
    return hashlib.sha256(b"".join(part.read_bytes() for part in files)).hexdigest()


def problem_facts(made: FeasibilityProblem | ParametricFamily) -> dict[str, Any]:
    """Describe a problem or a family as plain data."""
    whole = isinstance(made, FeasibilityProblem)
    shown = made if isinstance(made, FeasibilityProblem) else made.at(PROBES[1] * made.unit)
    blocks = [*shown.sets, *(lmi.set for lmi in shown.lmis)]
    # The size of an LMI is the order of its matrix, not the number of its variables.
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


# --- in the parent process


def foreign_solver(spec: str | InlineCard) -> dict[str, Any]:
    """Describe a drop-in solver, as :func:`solver_facts` does, in a new worker process."""
    found: dict[str, Any] = call_worker(f"{__name__}:serve_request", str(spec), ("solver", spec), once=True)
    return found


def foreign_members(spec: str | InlineCard) -> list[ForeignMember]:
    """List the members of a problem card or file with foreign code."""
    found = call_worker(f"{__name__}:serve_request", str(spec), ("members", spec))
    return [ForeignMember(spec, k, **facts) for k, facts in enumerate(found)]


@dataclass(frozen=True)
class ForeignMember:
    """A member of a problem card with foreign code; the counterpart of :class:`ProblemMember`."""

    spec: str | InlineCard
    index: int
    name: str
    label: str
    parameters: Mapping[str, Any]
    text: str
    origin: str
    seeded: bool

    def build(self, seed: int = 0) -> FeasibilityProblem | ForeignFamily:
        """Build the problem, or describe the family, in a worker."""
        kind, found = call_worker(
            f"{__name__}:serve_request", str(self.spec), ("build", self.spec, self.index, seed)
        )
        if kind == "problem":
            return unpack_problem(found, FeasibilityProblem)
        return ForeignFamily(_absolute(self.spec), self.index, seed, found)


def _absolute(spec: str | InlineCard) -> str | InlineCard:
    """Make the path of a specification absolute, for a worker with another current folder."""
    if isinstance(spec, InlineCard):
        return replace(spec, path=spec.path.absolute())
    return str(Path(spec).absolute()) if Path(spec).exists() else spec


@dataclass(frozen=True)
class ForeignFamily:
    """A reference to a parametric family with foreign code, and its description."""

    spec: str | InlineCard
    index: int
    seed: int
    facts: Mapping[str, Any]

    def load(self) -> ParametricFamily:
        """Load the family; in worker processes only."""
        made = _member(self.spec, self.index).build(self.seed)
        assert isinstance(made, ParametricFamily)
        return made


def call_worker(target: str, label: str, request: Any, *, once: bool = False) -> Any:
    """Run a function of the library in a worker that may import foreign code; raise its error as CardError.

    ``label`` names the origin of the code: a worker serves one label only. ``once`` uses a new process.
    """
    trial = Trial(target, pickle.dumps(request), Limits(), f"foreign code of {label}")
    run = (run_once if once else run_shared)(trial)
    if run.end is not End.DONE:
        raise CardError(f"{label}: {run.end}: {run.detail}")
    fine, value = run.value
    if not fine:
        message, key = value
        raise CardError(str(message), key=str(key))
    return value


# --- in the worker process


def serve_request(request: tuple[Any, ...], start: Callable[..., None]) -> tuple[bool, Any]:
    """Describe a solver, list the members of a card, or build one; the target of a trial."""
    start()
    what, *arguments = request
    try:
        actions: dict[str, Callable[..., Any]] = {"solver": _solver, "members": _members, "build": _build}
        return True, actions[what](*arguments)
    except SdpfeasError as error:
        return False, (str(error), error.key)


def _solver(spec: str | InlineCard) -> dict[str, Any]:
    return solver_facts(find_solver(spec))


def _members(spec: str | InlineCard) -> list[dict[str, Any]]:
    names = ("name", "label", "text", "origin", "seeded")
    return [
        {**{name: getattr(member, name) for name in names}, "parameters": dict(member.parameters)}
        for member in find_problem(spec).members()
    ]


def _build(spec: str | InlineCard, index: int, seed: int) -> tuple[str, Any]:
    made = _member(spec, index).build(seed)
    if isinstance(made, FeasibilityProblem):
        return "problem", pack_problem(made)
    return "family", problem_facts(made)


def _member(spec: str | InlineCard, index: int) -> ProblemMember:
    return next(member for k, member in enumerate(find_problem(spec).members()) if k == index)
