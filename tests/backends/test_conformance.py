"""Every built-in backend, and every drop-in that can run here, passes the conformance suite."""

from pathlib import Path

import pytest

import sdpfeas as sf
from sdpfeas.testing import check_backend

ROOT = Path(__file__).parents[2]
#: Alternating projections take their time, and of the programs that are wrapped alike one is enough here.
SLOW = {"dykstra", "dsdp", "sdpa"}
DROP_INS = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else [])
    for path in sorted((ROOT / "solvers").glob("*.py"))
]


@pytest.mark.parametrize("name", sorted(sf.backends()))
def test_built_in_backends_conform(name: str) -> None:
    failed = [f for f in check_backend(name) if not f.passed]
    assert not failed, "\n".join(f"{f.name}: {f.detail}" for f in failed)


@pytest.mark.parametrize("path", DROP_INS)
def test_drop_in_backends_conform(path: Path) -> None:
    kind = sf.find_solver(path).kind
    fine, reason = kind.available()
    if not fine:
        pytest.skip(f"{kind.name}: {reason}")
    failed = [f for f in check_backend(path) if not f.passed]
    assert not failed, "\n".join(f"{f.name}: {f.detail}" for f in failed)


class Liar(sf.FeasibilityBackend):
    """Claims whatever comes first."""

    name = "liar"

    def solve(self, problem, inquiry):
        point = tuple(block.interior_point() for block in problem.sets)
        return sf.Claim(point=point, raw_status="optimal")


def test_a_liar_is_found_out_but_never_believed() -> None:
    findings = {f.name: f for f in check_backend(Liar)}
    assert not findings["every set, planted certificate"].passed
    assert not any("WRONG" in f.detail for f in findings.values())


class Raiser(sf.FeasibilityBackend):
    """Raises in a function of its own."""

    name = "raiser"
    calls_back = True

    def solve(self, problem, inquiry):
        return self._helper()

    def _helper(self):
        raise RuntimeError("no can do")


def test_what_a_backend_raises_is_shown_and_passes_no_check() -> None:
    findings = check_backend(Raiser)
    assert {f.name for f in findings if f.passed} == {"available", "unknown option"}
    for finding in findings:
        if not finding.passed:
            assert finding.detail.startswith("raised RuntimeError: no can do in test_conformance.py, line ")
            assert "(_helper), called from test_conformance.py, line " in finding.detail
            assert len(finding.detail.splitlines()) == 1


class Silent(sf.FeasibilityBackend):
    """Hands in nothing."""

    name = "silent"

    def solve(self, problem, inquiry):
        return sf.Claim(raw_status="unknown")


def test_nothing_twice_is_not_deterministic() -> None:
    finding = {f.name: f for f in check_backend(Silent)}["deterministic"]
    assert (finding.passed, "no point was returned, so nothing can be compared" in finding.detail) == (
        False,
        True,
    )
