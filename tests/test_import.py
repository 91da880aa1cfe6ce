"""What `import sdpfeas` costs, and what it offers."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import sdpfeas as sf


def in_a_fresh_process(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def loaded(code: str) -> set[str]:
    return set(in_a_fresh_process(f"import sys\n{code}\nprint(*sys.modules)").split())


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert not loaded("import sdpfeas") & {"numpy", "scipy", "dataclasses"}
    # It must not only be put off: what few need is not imported with every name either.
    every_name = loaded("from sdpfeas import *")
    assert {"numpy", "scipy.sparse", "sdpfeas.search.solving"} <= every_name
    heavy = {
        "cvxpy",
        "clarabel",
        "scs",
        "scipy.optimize",
        "scipy.spatial",
        "scipy.stats",
        "sklearn",
        "matplotlib",
    }
    for_the_command_line = {"typer", "rich", "psutil", "asyncio"}
    assert not every_name & (heavy | for_the_command_line)


def test_every_public_name_is_there() -> None:
    assert set(sf.__all__) <= set(dir(sf))
    assert all(getattr(sf, name) is not None for name in sf.__all__)
    assert sf.families.__name__ == "sdpfeas.families"
    assert "clarabel" in sf.backends()
    with pytest.raises(AttributeError, match="no attribute 'solv'"):
        sf.solv  # type: ignore[attr-defined]


def test_type_checkers_see_the_names_where_they_are() -> None:
    """The imports written down for type checkers are those that happen."""
    source = Path(sf.__file__).read_text(encoding="utf-8")
    (block,) = (node for node in ast.parse(source).body if isinstance(node, ast.If))
    written = {n.name: s.module for s in block.body if isinstance(s, ast.ImportFrom) for n in s.names}
    assert {written.pop("backends"), written.pop("families")} == {"sdpfeas.backends.registry", "sdpfeas"}
    assert written == sf._PLACE  # type: ignore[attr-defined]


@pytest.mark.slow
def test_importing_costs_little_beside_cvxpy() -> None:
    def seconds(code: str) -> float:
        clock = f"import time; start = time.process_time(); {code}; print(time.process_time() - start)"
        return statistics.median(float(in_a_fresh_process(clock)) for _ in range(5))

    cvxpy = seconds("import cvxpy")
    assert seconds("import sdpfeas") <= 0.3 * cvxpy
