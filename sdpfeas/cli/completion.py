"""What a shell completes: names that can be looked up from here. Files are the shell's own business."""

from __future__ import annotations

from collections.abc import Iterable

from sdpfeas.cards.finder import PROBLEMS, SOLVERS

__all__ = ["listed_problems", "listed_solvers", "problems", "solvers", "things"]


def _begun(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


def _last(incomplete: str, names: Iterable[str]) -> list[str]:
    """Complete the last name of several with commas between."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in _begun(last, names)]


def solvers(incomplete: str) -> list[str]:
    """Backends and solver cards."""
    return _begun(incomplete, SOLVERS.names())


def problems(incomplete: str) -> list[str]:
    """Problem cards and families."""
    return _begun(incomplete, PROBLEMS.names())


def things(incomplete: str) -> list[str]:
    """Whatever can be shown."""
    return _begun(incomplete, sorted({*SOLVERS.names(), *PROBLEMS.names()}))


def listed_solvers(incomplete: str) -> list[str]:
    """Several solvers, or all backends."""
    return _last(incomplete, ["all", *SOLVERS.names()])


def listed_problems(incomplete: str) -> list[str]:
    """Several problems."""
    return _last(incomplete, PROBLEMS.names())
