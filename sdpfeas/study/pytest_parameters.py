"""Parametrise the fixtures of :mod:`sdpfeas.pytest_plugin` with solvers and problems.

This module is a pytest plugin that ``sdpfeas.pytest_plugin`` imports when an option asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from sdpfeas.backends.registry import Solver, backends, find_solver
from sdpfeas.cards.finder import PROBLEMS, SOLVERS
from sdpfeas.cards.toml import locate_error, parse_toml, raise_all
from sdpfeas.errors import OptionError, SdpfeasError
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.families.problem_cards import ProblemMember, find_problem
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.pytest_plugin import given_option
from sdpfeas.study.comparison import Spec, expand_specs
from sdpfeas.study.dropin_process import problem_facts, solver_facts
from sdpfeas.study.study_file import Study, StudyOptions, read_study


@dataclass(frozen=True)
class ChosenSolver:
    """A solver, and the limits of its runs."""

    solver: Solver
    time_limit: float
    tol: float

    @property
    def facts(self) -> dict[str, Any]:
        """Description for ``extra_info`` of a benchmark."""
        found = solver_facts(self.solver)
        names = {"name": "solver", "backend": "backend", "version": "solver_version", "options": "options"}
        limits = {"time_limit": self.time_limit, "tol": self.tol}
        return {**{new: found[old] for old, new in names.items()}, "solver_hash": found["code"], **limits}


@dataclass(frozen=True)
class Instance:
    """A member of a problem card with one seed."""

    member: ProblemMember
    seed: int

    @property
    def label(self) -> str:
        """Name, parameters and, if it matters, seed."""
        seed = f"-seed{self.seed}" if self.seed else ""
        return f"{self.member.label}{seed}"

    @property
    def parameters(self) -> dict[str, Any]:
        """Its values of the swept parameters."""
        return dict(self.member.parameters)

    @cached_property
    def problem(self) -> FeasibilityProblem | ParametricFamily:
        """The problem or the family, built on first use."""
        return self.member.build(self.seed)

    @property
    def is_family(self) -> bool:
        """Whether it is a family that is bisected."""
        return isinstance(self.problem, ParametricFamily)

    @property
    def facts(self) -> dict[str, Any]:
        """Description for ``extra_info`` of a benchmark."""
        found = problem_facts(self.problem)
        sizes = {"problem_hash": found["key"], "rows": found["rows"], "size": found["size"]}
        own = {"problem": self.member.label, "card": self.member.name, "seed": self.seed}
        return {**own, "parameters": self.parameters, **sizes}


#: Values of the fixtures ``solver`` and ``instance``.
PARAMETERS = pytest.StashKey[dict[str, list[Any]]]()


def pytest_configure(config: pytest.Config) -> None:
    """Find all solvers and problems before a test is collected."""
    try:
        config.stash[PARAMETERS] = _parameters(config)
    except SdpfeasError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise the fixtures of this plugin, unless the test suite replaced them."""
    labels: dict[str, Callable[[Any], str]] = {
        "solver": lambda chosen: chosen.solver.name,
        "instance": lambda chosen: chosen.label,
    }
    for name, values in metafunc.config.stash[PARAMETERS].items():
        if name in metafunc.fixturenames and values and _is_ours(metafunc, name):
            metafunc.parametrize(name, values, indirect=True, ids=list(map(labels[name], values)))


def _is_ours(metafunc: pytest.Metafunc, name: str) -> bool:
    """Whether a name means the fixture of this plugin, not one of the test suite or of its parameters."""
    state = vars(metafunc)  # pytest has no public names for these
    definitions = state["_arg2fixturedefs"].get(name, ())
    own = bool(definitions) and definitions[-1].func.__module__ == given_option.__module__
    return own and not any(name in call.params for call in state["_calls"])


def _parameters(config: pytest.Config) -> dict[str, list[Any]]:
    file = given_option(config, "sdpfeas_study")
    study = read_study(Path(file)) if file else Study((), (), StudyOptions())
    limits = {
        name: _number(config, f"sdpfeas_{name}", kind)
        for name, kind in (("seeds", int), ("time_limit", float), ("tol", float))
    }
    study = study.overridden(
        given_option(config, "sdpfeas_solvers"), given_option(config, "sdpfeas_problems"), **limits
    )
    options, errors = study.options, list[str]()
    solvers = [
        ChosenSolver(solver, options.time_limit, options.tol)
        for spec in _expanded(study.solvers, "solver", errors)
        for solver in _located(lambda spec: [find_solver(spec)], spec, errors)
    ]
    sweep = dict(_sweep(text) for text in given_option(config, "sdpfeas_sweep"))
    instances = [
        Instance(member, seed)
        for spec in _expanded(study.problems, "problem", errors)
        for member in _located(lambda spec: _members(spec, sweep), spec, errors)
        for seed in range(options.seeds if member.seeded else 1)
    ]
    raise_all(errors)
    return {"solver": solvers, "instance": instances}


def _expanded(specs: Sequence[Spec], what: str, errors: list[str]) -> list[Spec]:
    """Expand patterns, and ``all`` to every backend that is available."""
    if what == "solver" and "all" in specs:
        every = [name for name, backend in backends().items() if backend.available]
        specs = [*every, *(spec for spec in specs if spec != "all")]
    return expand_specs(specs, what, errors, SOLVERS if what == "solver" else PROBLEMS) if specs else []


def _located(find: Callable[[Spec], Any], spec: Spec, errors: list[str]) -> Iterator[Any]:
    """Yield what is found by a specification; an error is appended with file and line."""
    try:
        yield from find(spec)
    except SdpfeasError as error:
        errors.append(locate_error(error, spec))


def _members(spec: Spec, sweep: dict[str, list[Any]]) -> list[ProblemMember]:
    card = find_problem(spec)
    return list((card.swept(sweep) if sweep else card).members())


def _number(config: pytest.Config, name: str, kind: type) -> Any:
    text = given_option(config, name)
    try:
        return kind(text) if text else None
    except ValueError:
        raise OptionError(f"--{name.replace('_', '-')} must be a number, got {text!r}") from None


def _sweep(text: str) -> tuple[str, list[Any]]:
    """Read ``KEY=A,B,C``; values that are no TOML numbers or booleans are strings."""
    key, sign, values = text.partition("=")
    if not (key.strip() and sign and values.strip()):
        raise OptionError(f"--sdpfeas-sweep must be KEY=A,B,C, got {text!r}")
    return key.strip(), [_value(part.strip()) for part in values.split(",")]


def _value(text: str) -> Any:
    try:
        return parse_toml(f"value = {text}")["value"]
    except (ValueError, KeyError):
        return text
