"""Examples in the docstrings of families, estimators and the conformance suite run as written."""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

from sdpfeas import estimators, families, testing

PUBLIC = {
    f"{module.__name__}.{name}": getattr(module, name)
    for module in (families, estimators, testing)
    for name in module.__all__
}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_an_example_that_runs(name: str) -> None:
    value: Any = PUBLIC[name]
    examples = doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", {}, name, None, None)
    assert examples.examples
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(examples).failed == 0
