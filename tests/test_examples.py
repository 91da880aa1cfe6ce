"""The examples in the docstrings of the public functions run, and print what they say."""

from __future__ import annotations

import doctest
import inspect
from pkgutil import resolve_name

import pytest

import sdpfeas as sf
from sdpfeas import estimators, families, testing

FUNCTIONS = {name for name in sf.__all__ if name.startswith(("read_", "write_"))} | {
    "Optimum",
    "bisect",
    "cvxpy_solver",
    "from_cvxpy",
    "one_shot",
    "optimum",
    "solve",
    "verify",
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_example(name: str) -> None:
    pytest.importorskip("cvxpy")
    tests = doctest.DocTestFinder().find(getattr(sf, name), name, globs={})
    assert any(test.examples for test in tests)
    assert sum(doctest.DocTestRunner().run(test).failed for test in tests) == 0


@pytest.mark.parametrize(
    "name",
    [f"{module.__name__}.{name}" for module in (families, estimators, testing) for name in module.__all__],
)
def test_example_of_a_family_an_estimator_or_the_conformance_suite(name: str) -> None:
    value = resolve_name(name)
    examples = doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", {}, name, None, None)
    assert examples.examples
    assert doctest.DocTestRunner().run(examples).failed == 0
