"""The contests on WLDA problems: what is measured, what is charged, and what the tables make of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import contest
from contest import Caps, answered_by, full_cells, not_measured, run_all, turn
from contestants import CONTESTANTS
from peers import class_statistics, one_shot_model
from plots import draw
from products import install
from results import Contest, Lines, Results, distance
from tables import BEGIN, END, insert, render
from targets import Finding, Status, evaluate
from wlda_problems import BY_CLASSES, BY_DIMENSION, SHORT, WLDA, load, size_of, synthetic

import sdpfeas as sf
from sdpfeas.trials.trial import End

BENCHMARKS = Path(contest.__file__).parent


# ---------------------------------------------------------------- problems


@pytest.mark.parametrize("name", [synthetic(3, 12), synthetic(20, 25), *WLDA[:3]])
def test_problems_have_the_size_they_say(name: str, request: pytest.FixtureRequest) -> None:
    if name in WLDA:
        request.getfixturevalue("data_dir")
    X, y = load(name)
    size = size_of(name)
    assert X.shape == (size.samples, size.dimension)
    assert len(np.unique(y)) == size.classes
    assert size.samples >= size.dimension + size.classes
    again, _ = load(name)
    assert np.array_equal(X, again)


def test_lists_of_problems() -> None:
    assert set(SHORT) < set(WLDA)
    assert len(WLDA) == 7
    assert [size_of(p).dimension for p in BY_DIMENSION] == [25, 50, 100, 200, 400, 1000, 2000]
    assert [size_of(p).classes for p in BY_CLASSES] == [3, 6, 10, 20, 40, 60]
    assert {size_of(p).dimension for p in BY_CLASSES} == {100}
    assert size_of(synthetic(60, 100)).samples == 240
    with pytest.raises(ValueError, match="no problem is called 'nosuch'"):
        size_of("nosuch")


def test_the_cvxpy_program_is_ours() -> None:
    X, y = load(synthetic(4, 8))
    model = one_shot_model(*class_statistics(X, y))
    model.solve(solver="CLARABEL")
    found = sf.one_shot(sf.families.WLDA.from_data(X, y), tol=1e-6)
    assert model.value == pytest.approx(0.5 * (found.lower + found.upper), rel=1e-5)
    # Whatever the units of the data.
    scaled = one_shot_model(*class_statistics(1e3 * X, y))
    scaled.solve(solver="CLARABEL")
    assert scaled.value == pytest.approx(model.value, rel=1e-5)


@pytest.mark.parametrize("name", ["ours", "scs-1e-4", "bisect-dual-lbfgs", "paper"])
def test_contestants_agree(name: str) -> None:
    X, y = load(synthetic(3, 4))
    truth = sf.one_shot(sf.families.WLDA.from_data(X, y), tol=1e-6)
    found = CONTESTANTS[name].run(X, y)
    assert found.lower is not None
    assert found.upper is not None
    assert 0.5 * (found.lower + found.upper) == pytest.approx(truth.lower, rel=3e-3)
    assert found.proven == (name in ("ours", "bisect-dual-lbfgs"))
    assert found.converged
    assert min(found.build, found.solve) > 0.0
    assert (found.compile > 0.0) == name.startswith("scs")


@pytest.mark.slow
def test_products_and_eigendecompositions_are_seen() -> None:
    code = (
        "from products import install; clock = install()\n"
        "import numpy as np; from sdpfeas.numerics.linalg import eigh, spectral_matrix\n"
        "lam, vec = eigh(np.eye(200)); seen = clock.eigen\n"
        "assert seen > 0.0 and clock.products == 0.0\n"
        "assert np.allclose(spectral_matrix(vec, lam), np.eye(200))\n"
        "assert clock.eigen == seen and clock.products > 0.0\n"
        "clock.reset(); assert clock.eigen == clock.products == 0.0\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=BENCHMARKS, check=True, timeout=60)
    with pytest.raises(RuntimeError, match="imported already"):
        install()


# ---------------------------------------------------------------- results


def cell(problem: str, contestant: str, wall: float | None = None, **more: object) -> Contest:
    size = size_of(problem)
    standard: dict[str, object] = {"eigh": 0.01, "lower": 1.0, "upper": 1.0, "converged": True}
    if contestant in ("ours", "truth"):
        standard["proven"] = True
    return Contest(
        problem,
        contestant,
        size.classes,
        size.dimension,
        size.samples,
        str(more.pop("end", End.DONE)),
        "",
        300.0,
        8 * 2**30,
        wall=wall,
        cpu=wall,
        **{**standard, **more},  # type: ignore[arg-type]
    )


def test_nothing_is_measured_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = tmp_path / "counter"
    (tmp_path / "stand_in.py").write_text(
        "import time\n"
        "def answer(contest, start):\n"
        f"    open({str(counter)!r}, 'a').write('x')\n"
        "    start(eigh=0.5)\n"
        "    if contest[1] == 'scs-1e-4':\n        time.sleep(60)\n"
        "    return dict(wall=2.0, cpu=2.0, lower=1.0, upper=1.0, unheard_of=1)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(contest, "TARGET", "stand_in:answer")
    names = ("ours", "scs-1e-4", "scs-1e-7")

    def session(cap: float) -> list[Contest | None]:
        problem = synthetic(3, 4)
        found = run_all([(problem, name) for name in names], Caps(cap, 5.0), tmp_path / contest.DATABASE)
        assert "versions" in found.machine
        return [found.find(problem, name) for name in names]

    first = session(0.3)
    assert counter.read_text() == "xx"  # who would only be slower than a capped one does not run
    assert [c.seconds for c in first if c] == [2.0, 0.3, 0.3]
    assert [c.capped for c in first if c] == [False, True, True]
    assert first[0] is not None
    assert first[0].eigh_equivalents == 4.0
    assert session(0.3) == first
    assert counter.read_text() == "xx"
    session(0.4)  # more time: who was capped may try again
    assert counter.read_text() == "xxx"


def test_the_faster_of_two_measurements_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stand_in.py").write_text(
        "from pathlib import Path\n"
        f"FOLDER = Path({str(tmp_path)!r})\n"
        "TIMES = {'ours': [0.4, 0.3], 'clarabel': [2.0, 1.0], 'scs-1e-4': [0.8, 0.9]}\n"
        "def answer(contest, start):\n"
        "    start()\n"
        "    seen = FOLDER / contest[1]\n"
        "    seconds = TIMES[contest[1]][seen.exists()]\n"
        "    seen.touch()\n"
        "    return dict(wall=seconds, cpu=seconds)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(contest, "TARGET", "stand_in:answer")
    problem, names = synthetic(3, 4), ("ours", "clarabel", "scs-1e-4")
    found = run_all([(problem, name) for name in names], Caps(), tmp_path / contest.DATABASE)
    # What is not quick is measured once.
    assert [cell.cpu for name in names if (cell := found.find(problem, name))] == [0.3, 2.0, 0.8]


@pytest.mark.slow
@pytest.mark.parametrize("contestant", ["ours", "profile-bisect-dual-lbfgs"])
def test_a_contest_is_measured_in_a_process_of_its_own(tmp_path: Path, contestant: str) -> None:
    pair = synthetic(3, 5), contestant
    found = run_all([pair], Caps(), tmp_path / contest.DATABASE).find(*pair)
    assert found is not None
    assert (found.end, found.detail, found.proven) == (End.DONE, "", True)
    assert found.eigh_equivalents
    assert found.peak_memory > 2**20
    assert (found.outside is not None) == contestant.startswith("profile-")


def test_missing_data_are_told_from_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDPFEAS_DATA", str(tmp_path))
    plan = contest.plan_contests([("yale", "ours")], Caps())
    assert not plan.cells
    assert "yale" in plan.skipped["yale"]


def test_the_time_is_up(tmp_path: Path) -> None:
    pair = synthetic(3, 5), "ours"
    assert run_all([pair], Caps(), tmp_path / contest.DATABASE, minutes=0.0).find(*pair) is None


def test_truth_and_distance() -> None:
    results = Results()
    assert results.truth("yale") is None
    results.add(cell("yale", "ours", 1.0, lower=2.0, upper=2.000002))
    assert results.truth("yale") == pytest.approx(2.000001)
    results.add(cell("yale", "truth", 1.0, lower=2.0, upper=2.1))
    assert results.truth("yale") == pytest.approx(2.000001)
    results.add(cell("yale", "truth", 1.0, lower=2.0, upper=2.0, proven=False))
    assert results.truth("yale") == pytest.approx(2.000001)
    results.add(cell("yale", "truth", 1.0, lower=2.0, upper=2.00000001))
    assert results.truth("yale") == pytest.approx(2.000000005, rel=1e-12)
    assert distance(cell("yale", "scs-1e-4", 1.0, lower=2.2, upper=2.2), 2.0) == pytest.approx(0.1)
    assert distance(cell("yale", "scs-1e-4", lower=None, end=End.ERROR), 2.0) is None


# ---------------------------------------------------------------- targets and tables

DIGITS, LARGE = "alphadigits", synthetic(10, 400)


def findings(results: Results, words: str) -> dict[str, Finding]:
    return {finding.where: finding for finding in evaluate(results) if words in finding.target}


@pytest.fixture
def recorded() -> Results:
    """Made-up numbers."""
    results = Results()
    results.machine = {"cpu": "abacus", "cores": 2, "memory": 2**34, "versions": {"sdpfeas": "0.1.0"}}
    for made in (
        cell(DIGITS, "ours", 0.5, lower=1.0 - 5e-7),
        cell(DIGITS, "one-shot", 0.4),
        cell(DIGITS, "clarabel", 60.0, build=0.1, compile=0.9, solve=59.0),
        cell(DIGITS, "scs-1e-4", 0.4, lower=1.001, upper=1.001),
        cell(DIGITS, "scs-1e-7", 3.0),
        cell(DIGITS, "bisect-scs", 0.1, converged=False),
        cell(DIGITS, "bisect-dual-lbfgs", 1.0, lower=0.999),
        cell(DIGITS, "paper", end=End.TIMEOUT),
        cell("orl", "ours", 4.0),
        cell("orl", "clarabel", end=End.TIMEOUT, lower=None),
        cell("orl", "scs-1e-4", 5.0, lower=1.01, upper=1.01),
        cell("orl", "scs-1e-7", end=End.MEMORY, lower=None),
        cell("yale", "ours", 1.0),
        cell("yale", "scs-1e-4", 5.0, lower=1.01, upper=1.01),
        cell("yale", "clarabel", end=End.ERROR, lower=None),
        *(cell(p, "ours", (size_of(p).dimension / 100) ** 3, eigh=0.1) for p in BY_DIMENSION),
        cell(synthetic(10, 100), "profile-bisect-dual-lbfgs", 2.0, eigen=1.0, products=0.5, outside=0.25),
    ):
        results.add(made)
    results.add(cell(BY_DIMENSION[-1], "ours", 8000.0, eigh=100.0, peak_memory=4 * 10**9))
    return results


def test_targets_on_made_up_numbers(recorded: Results) -> None:
    clarabel = findings(recorded, "Clarabel")
    assert "yale" not in clarabel  # too small
    assert (clarabel[DIGITS].found, clarabel[DIGITS].status) == ("120×", Status.MET)
    # A bound below the target decides nothing.
    assert (clarabel["orl"].found, clarabel["orl"].status) == ("> 75×", Status.BEYOND)
    assert clarabel[LARGE].status is Status.OPEN
    scs = findings(recorded, "SCS")
    # The faster run is off by 1e-3 and does not count.
    assert (scs[DIGITS].found, scs[DIGITS].status) == ("6.00×", Status.MISSED)
    assert (scs["orl"].found, scs["orl"].status) == ("> 75×", Status.MET)
    assert (scs["yale"].found, scs["yale"].status) == ("no SCS run is that accurate", Status.MET)
    never = findings(recorded, "never slower")
    # Inaccurate or not, it was faster; who gave up was not.
    assert never[DIGITS].found.startswith("0.80× (one shot, SCS")
    assert never[DIGITS].status is Status.MISSED
    assert never["orl"].status is Status.MET
    paper = findings(recorded, "paper form")
    assert (paper[DIGITS].found, paper[DIGITS].status) == ("> 300×", Status.MET)
    certified = findings(recorded, "certified to")
    assert certified[DIGITS].status is Status.MET
    counts = findings(recorded, "certified 1e-6 in")
    assert (counts[LARGE].found, counts[LARGE].status) == ("640", Status.MISSED)
    large = counts[synthetic(10, 2000)]
    assert (large.found, large.status) == ("80, 4.00 GB", Status.MISSED)  # few enough, but too large
    assert counts[synthetic(100, 100)].status is Status.OPEN
    slopes = findings(recorded, "slope")
    assert [(f.found, f.status) for f in slopes.values()] == [("3.00", Status.MET)]
    auto = findings(recorded, "auto, certified 1e-6: ≤ 1.2 × one shot")
    assert (auto[DIGITS].found, auto[DIGITS].status) == ("1.25×", Status.MISSED)
    assert auto["orl"].status is Status.OPEN
    outside = findings(recorded, "outside")
    assert outside[synthetic(10, 100)].status is Status.MET


def test_a_wide_bracket_is_not_certified(recorded: Results) -> None:
    recorded.add(cell("sonar", "ours", 0.1, lower=0.99, upper=1.0))
    assert findings(recorded, "certified to")["sonar"].status is Status.MISSED


def test_tables_show_caps_as_lower_bounds(recorded: Results) -> None:
    text = render(recorded, Lines(Path("none")))
    for title in (
        "Figures",
        "Targets",
        "SDPLIB",
        "Not measured",
        "Times at equal accuracy",
        "Scaling",
        "Memory",
        "Profiles",
        "Machine",
    ):
        assert f"\n## {title}\n" in f"\n{text}"
    lines = [[part.strip() for part in line.split("|")[1:-1]] for line in text.splitlines() if "|" in line]
    head = next(line for line in lines if line[0] == "" and "orl" in line)
    rows = [dict(zip(head, line, strict=True)) for line in lines if line[0].startswith("one shot, Clarabel")]
    assert (rows[0]["orl"], rows[0][DIGITS], rows[0]["yale"]) == ("> 300", "60", "failed")
    assert (rows[1]["orl"], rows[1][DIGITS]) == ("> 75", "120")
    accurate = next(line for line in lines if line[0].endswith("eps 1e-7"))
    assert "> 8 GiB" in accurate
    assert any("3.00" in line for line in lines)
    assert "0.100 + 0.900 + 59" in text
    assert "abacus" in text


@pytest.fixture
def files(tmp_path: Path) -> Lines:
    """Made-up times on two files."""
    rows = [("a", "primal", "FEASIBLE", 0.2, 0.1), ("b", "primal", "FEASIBLE", 0.01, 0.1)]
    rows.append(("b", "lmi", "UNDECIDED", 6.0, 0.01))
    names = ("file", "side", "verdict", "auto", "csdp")
    lines = [{"table": "sdplib", **dict(zip(names, row, strict=True))} for row in rows]
    entries = [{"extra_info": {"line": line}} for line in lines] + [{"extra_info": {}}]
    (tmp_path / contest.LINES).write_text(json.dumps({"benchmarks": entries}))
    return Lines(tmp_path / contest.LINES)


def test_files_beside_csdp(recorded: Results, files: Lines) -> None:
    found = [f for f in evaluate(recorded, files) if "CSDP" in f.target]
    assert [(f.found, f.status) for f in found] == [
        ("1.00 (2 files)", Status.MET),  # what is shorter than 0.05 s counts as that
        ("2.00", Status.MET),
        ("120.00 (1 files)", Status.MISSED),
        ("120.00", Status.MISSED),
    ]
    assert "| b" in render(recorded, files)
    assert {f.status for f in evaluate(recorded) if "CSDP" in f.target} == {Status.OPEN}


def test_figures_show_what_is_there(recorded: Results, files: Lines, tmp_path: Path) -> None:
    shown = draw(recorded, files, tmp_path / "a")
    assert len(shown) == 4
    for name in shown:
        assert (tmp_path / "a" / name).stat().st_size > 1000
    text = (tmp_path / "a" / "bench-dimension.svg").read_text()
    assert "slope 3.00 from 200" in text
    assert draw(recorded, files, tmp_path / "b") == shown
    assert (tmp_path / "b" / "bench-dimension.svg").read_text() == text  # the same numbers, the same file
    page = render(recorded, files, {f"figures/{name}": title for name, title in shown.items()})
    assert "](figures/bench-classes.svg)" in page
    assert draw(Results(), Lines(tmp_path / "none"), tmp_path / "c") == {}


def test_what_was_not_measured_is_said(recorded: Results) -> None:
    small, middle, large = (synthetic(10, d) for d in (25, 50, 100))
    assert (middle, "clarabel") in not_measured(recorded)
    recorded.add(cell(middle, "clarabel", end=End.TIMEOUT, lower=None))
    assert (middle, "clarabel") not in not_measured(recorded)
    assert answered_by(middle, "clarabel") == [(small, "clarabel")]
    assert answered_by("sonar", "scs-1e-7") == [("sonar", "scs-1e-4")]
    assert (large, "scs-1e-4") in not_measured(recorded)
    assert "- scs-1e-4: synthetic-10-25, " in render(recorded, Lines(Path("none")))
    for problem, contestant in full_cells():
        recorded.add(cell(problem, contestant, 1.0))
    assert not_measured(recorded) == []


def test_what_matters_most_is_measured_first() -> None:
    ordered = [
        (synthetic(10, 2000), "ours"),
        (synthetic(10, 5000), "ours-1e-3"),
        (synthetic(10, 400), "clarabel"),
        (synthetic(10, 100), "profile-ours"),
        (synthetic(1000, 100), "ours-1e-3"),
        ("sonar", "bisect-admm"),
    ]
    turns = [turn(*one) for one in ordered]
    assert turns == sorted(set(turns))


def test_what_is_written_by_hand_survives(recorded: Results) -> None:
    text = render(recorded, Lines(Path("none")))
    page = insert("", text)
    assert page.startswith("# Benchmarks\n")
    by_hand = page.replace(BEGIN, f"Why it is so.\n\n{BEGIN}") + "\nMore of it.\n"
    again = insert(by_hand, "new\n")
    assert "Why it is so." in again
    assert again.endswith("\nMore of it.\n")
    assert "Times at equal accuracy" not in again
    with pytest.raises(ValueError, match="must hold"):
        insert(page.replace(END, ""), text)
