"""The public interface, as text: what is added, gone or called differently shows in a diff.

`make api` writes tests/api.txt again; a change of it belongs in the changelog.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin

import pytest

import sdpfeas as sf
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import BlockSet

SNAPSHOT = Path(__file__).with_name("api.txt")
#: What scikit-learn puts on every estimator of a certain kind.
SKLEARN = {"set_fit_request", "set_score_request", "set_transform_request"}
DOCS = Path(__file__).resolve().parents[1] / "docs"


def interface() -> str:
    """Every public name with its signature, one line each."""
    import sdpfeas.dropin
    import sdpfeas.estimators
    import sdpfeas.testing

    rooms = (sf, sf.families, sdpfeas.dropin, sdpfeas.estimators, sdpfeas.testing)
    public = {
        value for room in rooms for name in room.__all__ if inspect.isclass(value := getattr(room, name))
    }
    return "\n".join(line for room in rooms for line in _lines(room, public)) + "\n"


def _lines(room: ModuleType, public: set[type]) -> Iterator[str]:
    for name in sorted(room.__all__):
        value = getattr(room, name)
        label = f"{room.__name__}.{name}"
        if inspect.isclass(value):
            yield from _class(label, value, public - {value})
        elif callable(value) and not inspect.ismodule(value) and get_origin(value) is None:
            yield f"{label}{inspect.signature(value)}"
        else:
            yield label


def _class(label: str, kind: type, others: set[type]) -> Iterator[str]:
    """A class and what it adds to other public ones."""
    if issubclass(kind, enum.Enum):
        yield f"{label}: {', '.join(member.value for member in kind)}"
    elif issubclass(kind, Exception):
        yield f"{label}({', '.join(base.__name__ for base in kind.__bases__)})"
    else:
        yield f"{label}{inspect.signature(kind)}"
    if issubclass(kind, (BlockSet, Rows)):
        return  # what they answer to other rooms is a contract of its own, tested in tests/problem
    said = () if issubclass(kind, (enum.Enum, Exception)) else inspect.signature(kind).parameters
    for name in sorted(set(dir(kind)) - set(said) - SKLEARN):
        owner = _owner(kind, name)
        if name.startswith("_") or owner is None or owner in others:
            continue
        value = vars(owner)[name]
        inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        yield f"    {name}{inspect.signature(inner) if inspect.isfunction(inner) else ''}"


def _owner(kind: type, name: str) -> Any:
    """The class of ours that a member comes from, if it is not an inherited one of another package."""
    for base in kind.__mro__:
        if name in vars(base):
            return base if base.__module__.startswith("sdpfeas") else None
    return None


def test_the_interface_is_as_written_down() -> None:
    pytest.importorskip("sklearn", reason="the extra [wlda] is not installed")
    assert interface() == SNAPSHOT.read_text(encoding="utf-8"), "run `make api`, and say so in the changelog"


def test_the_changelog_begins_with_this_version() -> None:
    changes = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.findall(r"^## \[(.*?)\]", changes, re.MULTILINE)
    assert next(name for name in found if name != "Unreleased") == sf.__version__


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "reference.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\.\. auto\w+:: sdpfeas\.(\w+)$", page, re.MULTILINE))
    raised = {name for name in sf.__all__ if getattr(getattr(sf, name), "__module__", "") == "sdpfeas.errors"}
    assert set(sf.__all__) - listed - raised == {"__version__"}
    estimators = set(re.findall(r"sdpfeas\.estimators\.(\w+)$", page, re.MULTILINE))
    assert estimators == {"FairPCA", "MaxMinDistance", "WorstCaseLDA"}


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        SNAPSHOT.write_text(interface(), encoding="utf-8")
    else:
        print(interface(), end="")
