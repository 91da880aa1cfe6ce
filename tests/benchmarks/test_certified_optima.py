"""The page of certified optimal values: brackets meet published ones, and slow BLAS libraries are refused."""

from __future__ import annotations

import math
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import certified_optima as optima
import csdp_timing


@pytest.mark.parametrize(
    ("text", "direction", "end"),
    [("-8.3", -1, -8.30005), ("0.56652", 1, 0.566525), ("-Inf", -1, -math.inf), ("", 1, math.inf)],
)
def test_ends_of_vsdp_get_the_slack_of_their_digits(text: str, direction: int, end: float) -> None:
    assert optima._end(text, direction) == pytest.approx(end, abs=1e-12)


def test_a_printed_value_stands_for_one_unit_of_its_last_digit() -> None:
    found = optima.printed_interval("2.74764e+02")
    assert found is not None
    assert found.lower == pytest.approx(274.763)
    assert found.upper == pytest.approx(274.765)
    assert optima.printed_interval("dualinfeasible") is None


def cell(file: str, lower: float, upper: float) -> optima.Cell:
    return optima.Cell("sdplib", file, "primal", 13, 16, lower, upper, True, seconds=0.2, csdp_seconds=0.1)


def test_errata_and_disjoint_brackets_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "sdplib"
    folder.mkdir()
    published = "name,m,n,printed_in_sdplib,sdpa_gmp_200_bits\nhinf4,13,16,2.74764e+02,2.71498e+02\n"
    (folder / "published.csv").write_text(published)
    (tmp_path / "vsdp").mkdir()
    (tmp_path / "vsdp" / "SDPLIB_SYS1.csv").write_text("name,fL,fU\nhinf4,-280,-275\n")
    text = optima.page([cell("hinf4", 271.4977, 271.4978)], tmp_path, {"cpu": "x"}, "make")
    assert "| 2.74764e+02" in text
    assert "| 2.71498e+02" not in text
    assert "**disjoint: hinf4**" in text
    assert "2.00" in text


@pytest.mark.parametrize(
    ("library", "fast"), [("openblas-pthread/libblas.so.3", True), ("blas/libblas.so.3", False)]
)
def test_csdp_is_not_measured_on_the_reference_blas(
    monkeypatch: pytest.MonkeyPatch, library: str, fast: bool
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/csdp")
    monkeypatch.setattr(csdp_timing, "libraries_of", lambda _: [f"/usr/lib/{library}"])
    if fast:
        csdp_timing.require_fast_blas()
    else:
        with pytest.raises(csdp_timing.SlowBlasError, match="libopenblas0-pthread"):
            csdp_timing.require_fast_blas()


@pytest.mark.parametrize("name", ["sdplib/truss1", "sdplib/theta1", "kocvara/trto1", "sdplib/infp1"])
def test_brackets_meet_those_of_vsdp(data_dir: Path, name: str) -> None:
    folder, _, file = name.partition("/")
    question = {"path": str(data_dir / f"{name}.dat-s"), "side": "primal", "limit": 60.0, "audit_limit": 9.0}
    facts: dict[str, float] = {}
    found = optima.bracket(question, lambda limit=None, **told: facts.update(told))
    assert facts["converged"]
    assert optima.vsdp_brackets(data_dir)[folder, file].meets(facts["lower"], facts["upper"])
    assert found["evidence"] == ("no evidence format" if file == "infp1" else "both ends")
