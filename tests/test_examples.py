"""The examples in the docstrings of the public functions run, and print what they say."""

from __future__ import annotations

import doctest

import pytest

import sdpfeas as sf

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
