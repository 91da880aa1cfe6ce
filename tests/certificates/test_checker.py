"""The checker accepts valid evidence of every kind, alone and from files, and refuses everything else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import corpus
import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas import sdpcheck

VALID = corpus.valid()


@pytest.mark.parametrize("name", VALID)
def test_valid_evidence_is_accepted(name: str) -> None:
    kind = VALID[name]["kind"]
    assert sdpcheck.check(None, VALID[name]).startswith(kind)
    assert name.startswith(kind)


def test_wrong_evidence_is_refused() -> None:
    found = list(corpus.wrong())
    assert len(found) > 500
    assert len({name for name, _ in found}) == len(found)
    for name, document in found:
        try:
            accepted = sdpcheck.check(None, document)
        except ValueError:
            continue
        pytest.fail(f"{name} is accepted: {accepted}")


def test_the_checker_runs_alone(tmp_path: Path) -> None:
    """Without the package: one file, isolated from site packages and from this folder."""
    alone = tmp_path / "sdpcheck.py"
    alone.write_text(Path(sdpcheck.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    document = VALID["infeasible-psd"]
    files = tmp_path / "problem.json", tmp_path / "evidence.json"
    files[0].write_text(json.dumps(document["problem"]))
    files[1].write_text(json.dumps(document | {"problem": sdpcheck.digest(document["problem"])}))

    def run(*paths: Path) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-I", "-S", alone, *paths],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert not done.stderr
        return done.returncode, done.stdout

    code, said = run(*files)
    assert code == 0
    assert said.startswith("VALID infeasible")
    assert run(files[1])[0] == 1  # there is no problem
    other = tmp_path / "other.json"
    other.write_text(json.dumps(VALID["feasible-psd"]["problem"]))
    assert run(other, files[1]) == (1, "REFUSED the evidence is about another problem\n")
    assert run(tmp_path / "none.json")[0] == 1
    assert run()[0] == 1


TEXT = json.dumps(VALID["feasible-linear"])


@pytest.mark.parametrize(
    "wrong",
    [
        TEXT[:-1],
        TEXT.replace('"kind": "feasible"', '"kind": "infeasible", "kind": "feasible"', 1),
        TEXT.replace('"point": [[1', '"point": [[1.0', 1),
        TEXT.replace('"point": [[1', '"point": [[NaN', 1),
        TEXT.replace('"point": [[1', '"point": [[Infinity', 1),
        TEXT.replace('"point": [[1', '"point": [[1e0', 1),
        TEXT.replace('"point": [[1', '"point": [[' + "1" * 5000, 1),
        TEXT.replace('"point": [[1', '"point": [["' + "1" * 5000 + '"', 1),
        "[" * 100_000,
        "[]",
        "null",
        "",
        "\ufeff" + TEXT,
    ],
    ids=lambda text: text[:20],
)
def test_files_that_are_no_evidence_are_refused(
    wrong: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wrong != TEXT
    path = tmp_path / "evidence.json"
    path.write_text(wrong, encoding="utf-8")
    assert sdpcheck.main([str(path)]) == 1
    assert capsys.readouterr().out.startswith("REFUSED")


BOX = {"kind": "SpectralBox", "n": 20_000, "lower": 0, "upper": 1, "trace": None}
VECTOR = {"kind": "Nonneg", "n": 3_000_000}


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        ({"sets": [BOX], "rows": []}, "a set is empty or too large"),
        ({"sets": [VECTOR, VECTOR], "rows": []}, "the problem is too large"),
        ({"sets": [], "rows": [], "lmis": [{"set": BOX, "constant": [], "coefficients": []}]}, "too large"),
        ({"sets": [BOX | {"n": 2, "lower": 2}], "rows": []}, "in the wrong order"),
        ({"sets": [BOX | {"n": 0}], "rows": []}, "empty"),
        ({"sets": [BOX | {"n": True}], "rows": []}, "out of range"),
        ({"sets": [BOX | {"n": 10**30}], "rows": []}, "out of range"),
        ({"sets": [BOX | {"n": 2, "lower": False}], "rows": []}, "malformed"),
        ({"sets": [BOX | {"n": 2, "lower": "\u0661"}], "rows": []}, "malformed"),
    ],
)
def test_hostile_problems_are_refused_before_memory_is_used(problem: dict[str, object], why: str) -> None:
    with pytest.raises(sdpcheck.Refused, match=why):
        sdpcheck.Problem(problem | {"format": "sdpfeas problem 1"})


def test_a_common_denominator_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few numbers in a file, with denominators that have no common divisor."""
    monkeypatch.setattr(sdpcheck, "MOST_MEMORY", 10_000)
    row = [sdpcheck.number(f"1/{2**300 + k:#x}") for k in range(1, 30, 2)]
    with pytest.raises(sdpcheck.Refused, match="common denominator"):
        sdpcheck.integers([row] * 10)


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is limited on Linux")
def test_a_hostile_file_cannot_exhaust_memory(tmp_path: Path) -> None:
    """Ten bytes of a file stand for a number of 12 kB; here with a limit of 256 MB."""
    small = tmp_path / "sdpcheck.py"
    code = Path(sdpcheck.__file__).read_text(encoding="utf-8")
    assert code.count("5_000_000, 2**32") == 1
    small.write_text(code.replace("5_000_000, 2**32", "5_000_000, 2**28"), encoding="utf-8")
    parts = [{"block": 0, "entries": [[0, f"0x1p{90_000 + i % 7}"]]} for i in range(40_000)]
    rows = [{"lower": 0, "upper": 1, "blocks": [part]} for part in parts]
    path = tmp_path / "evidence.json"
    problem = VALID["infeasible-linear"]["problem"] | {"rows": rows}
    path.write_text(json.dumps(VALID["infeasible-linear"] | {"problem": problem}))
    done = subprocess.run(
        [sys.executable, "-I", "-S", small, path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "REFUSED there is not enough memory\n"


def test_numbers() -> None:
    cases = {
        "0x1.8p-3": 0.1875,
        "-0x1p+0": -1,
        "0x0p0": 0,
        "0xffp-8": Fraction(255, 256),
        "-3/6": -0.5,
        "0x10/0x8": 2,
    }
    for text, value in cases.items():
        assert sdpcheck.number(text) == value
    for value in (1 / 3, 5e-324, -1.7e308, 2.0**-1022):
        assert sdpcheck.number(value.hex()) == Fraction(value)


def test_the_example_of_the_page_is_valid() -> None:
    page = (Path(__file__).parents[2] / "docs" / "certificate-format.md").read_text(encoding="utf-8")
    problem, evidence = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL)[:2])
    assert sdpcheck.check(problem, evidence | {"problem": sdpcheck.digest(problem)})


def test_a_bracket_is_as_good_as_the_optimum() -> None:
    for sense, value in (("min", 0), ("max", 2)):
        ends = [sdpcheck.number(VALID[f"bracket-{sense}"][end]) for end in ("lower", "upper")]
        assert ends[0] <= value <= ends[1]
        assert ends[1] - ends[0] < Fraction(1, 10**5)


def test_one_hundred_and_fifty_rows_and_columns() -> None:
    """Evidence about a matrix of side 150 is short, and checked in seconds."""
    rng = np.random.default_rng(0)
    n = 150
    rows = np.zeros((n, n, n))
    rows[np.arange(n), np.arange(n), np.arange(n)] = 1.0
    problem = sf.FeasibilityProblem([sf.PSD(n)], [rows], np.ones(n), np.ones(n))
    noise = rng.normal(size=(n, n)) / 200
    made = sf.certify(sf.verify(problem, sf.Claim(point=(np.eye(n) + noise + noise.T,)), rigorous=True))
    assert len(json.dumps(made.document)) < 1_000_000
    assert sdpcheck.check(made.problem, made.document)
