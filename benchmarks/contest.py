"""Shared parts of the contests: one test per cell, and a table at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest
from laboratory import Laboratory, MissingData
from results import Contest, Results

__all__ = ["compete", "print_at_end"]


def compete(benchmark: Any, laboratory: Laboratory, problem: str, contestant: str) -> Contest:
    """Measure a cell within a test.

    pytest-benchmark sees the whole cell, with the start of its process; what counts is in ``extra_info``.

    Parameters
    ----------
    benchmark
        The fixture of pytest-benchmark.
    laboratory : Laboratory
        Measures it.
    problem, contestant : str
        The cell.
    """
    benchmark.group = problem
    try:
        cell: Contest = benchmark.pedantic(laboratory.measure, args=(problem, contestant), rounds=1)
    except MissingData as error:
        pytest.skip(str(error))
    benchmark.extra_info.update(asdict(cell))
    return cell


def print_at_end(
    config: pytest.Config, laboratory: Laboratory, tables: Callable[[Results], str]
) -> Iterator[None]:
    """Print tables past pytest's capture, when the tests of a module are done; a full run has its page.

    Parameters
    ----------
    config : pytest.Config
        Knows the capture.
    laboratory : Laboratory
        Has the cells.
    tables : callable
        Makes the tables.
    """
    yield
    if config.getoption("--full"):
        return
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n\n{tables(laboratory.results)}\n")
