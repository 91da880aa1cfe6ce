"""pytest plugin: fixtures ``solver``, ``problem``, ``family`` and ``instance`` for benchmarks of solvers.

.. code-block:: python

    from sdpfeas.testing import benchmark_solve


    def test_scaling(benchmark, solver, problem):
        benchmark_solve(benchmark, solver, problem)

Solvers and problems come from ``--sdpfeas-solver``, ``--sdpfeas-problem`` and ``--sdpfeas-sweep``, from the
same names in ``pytest.ini`` or ``pyproject.toml`` (``sdpfeas_solvers``, ``sdpfeas_problems``,
``sdpfeas_sweep``), or from a study file (``--sdpfeas-study``, ``sdpfeas_study``). Without any of them the
fixtures skip their tests, and nothing of the library is imported.
"""

from __future__ import annotations

from typing import Any

import pytest

#: Options with their help; each is also a key of pytest's configuration file, without the dashes.
LISTS = {
    "sdpfeas_solvers": ("--sdpfeas-solver", "NAME", "solver: a name, a card or a drop-in file; repeatable"),
    "sdpfeas_problems": ("--sdpfeas-problem", "NAME", "problem: a name, a card or a file; repeatable"),
    "sdpfeas_sweep": ("--sdpfeas-sweep", "KEY=A,B,C", "values of a parameter of the problems; repeatable"),
}
VALUES = {
    "sdpfeas_study": ("--sdpfeas-study", "FILE", "study file with the solvers and problems"),
    "sdpfeas_seeds": ("--sdpfeas-seeds", "N", "number of seeds, from 0 (1)"),
    "sdpfeas_time_limit": ("--sdpfeas-time-limit", "S", "seconds per solve (60)"),
    "sdpfeas_tol": ("--sdpfeas-tol", "T", "relative width of the bracket of a family (0.001)"),
}

#: The plugin that reads the options and parametrises the fixtures; imported only if an option is given.
PARAMETERS = "sdpfeas.study.pytest_parameters"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and the keys of configuration files."""
    group = parser.getgroup("sdpfeas", "solvers and problems of the fixtures solver, problem and family")
    for name, (flag, metavar, text) in LISTS.items():
        group.addoption(flag, action="append", dest=name, metavar=metavar, help=text)
        parser.addini(name, text, type="linelist", default=[])
    for name, (flag, metavar, text) in VALUES.items():
        group.addoption(flag, dest=name, metavar=metavar, help=text)
        parser.addini(name, text, default="")


def given_option(config: pytest.Config, name: str) -> Any:
    """Return an option from the command line, else from the configuration file."""
    return config.getoption(name) or config.getini(name)


def pytest_configure(config: pytest.Config) -> None:
    """Import the rest of the plugin if a solver, a problem or a study file was given."""
    if any(given_option(config, name) for name in ("sdpfeas_solvers", "sdpfeas_problems", "sdpfeas_study")):
        config.pluginmanager.import_plugin(PARAMETERS)


def _parameter(request: pytest.FixtureRequest, what: str) -> Any:
    """Return the parameter of a fixture, and add its description to the JSON of a benchmark."""
    if not hasattr(request, "param"):
        pytest.skip(f"no {what} was chosen: pass --sdpfeas-{what} or --sdpfeas-study")
    if "benchmark" in request.fixturenames:
        request.getfixturevalue("benchmark").extra_info.update(request.param.facts)
    return request.param


@pytest.fixture
def solver(request: pytest.FixtureRequest) -> Any:
    """One of the chosen solvers, a :class:`sdpfeas.Solver`."""
    return _parameter(request, "solver").solver


@pytest.fixture
def instance(request: pytest.FixtureRequest) -> Any:
    """One of the chosen problems: ``label``, ``parameters``, ``seed``, and ``problem``, built."""
    return _parameter(request, "problem")


@pytest.fixture
def problem(instance: Any) -> Any:
    """One of the chosen problems, a :class:`sdpfeas.FeasibilityProblem`; families are skipped."""
    if instance.is_family:
        pytest.skip(f"{instance.label} is a family of problems: use the fixture family or instance")
    return instance.problem


@pytest.fixture
def family(instance: Any) -> Any:
    """One of the chosen families, a ``ParametricFamily``; single problems are skipped."""
    if not instance.is_family:
        pytest.skip(f"{instance.label} is a problem, not a family: use the fixture problem or instance")
    return instance.problem
