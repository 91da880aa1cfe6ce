"""Every public function and class has an example in its docstring, and every example runs."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

import sdpfeas as sf
import sdpfeas.dropin
import sdpfeas.estimators
import sdpfeas.testing

#: The abstract base class of the sets; its subclasses have the examples.
NO_EXAMPLE = {"BlockSet"}


def public_objects() -> Iterator[tuple[str, Any]]:
    for module in (sf, sf.families, sdpfeas.estimators, sdpfeas.testing, sdpfeas.dropin):
        for name in module.__all__:
            value = getattr(module, name)
            exception = inspect.isclass(value) and issubclass(value, Exception)
            if (inspect.isclass(value) or inspect.isroutine(value)) and not exception:
                yield f"{module.__name__}.{name}", value


OBJECTS = dict(public_objects())


@pytest.mark.parametrize("name", sorted(name for name in OBJECTS if name.split(".")[-1] not in NO_EXAMPLE))
def test_every_public_object_has_an_example_that_runs(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    if "cvxpy" in name:
        pytest.importorskip("cvxpy")
    monkeypatch.delenv("SDPFEAS_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    value = OBJECTS[name]
    # Examples of drop-in functions assume `from sdpfeas.dropin import *`; all others import what they use.
    names = dict(vars(sdpfeas.dropin)) if name.startswith("sdpfeas.dropin.") else {}
    tests = doctest.DocTestFinder().find(inspect.unwrap(value), name, globs=names)
    assert any(test.examples for test in tests if test.name == name), f"{name} has no example"
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert sum(runner.run(test).failed for test in tests) == 0
