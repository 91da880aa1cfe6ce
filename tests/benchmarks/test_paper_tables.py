"""From cells to tables: means, flags, caps, brackets, agreement, significance."""

import csv
import json
import math

import numpy as np
import pytest
from scipy.stats import ttest_rel

from benchmarks.paper.protocol import Task
from benchmarks.paper.report import Grid, _time, grids, plain, to_markdown, write_tables
from benchmarks.paper.study import plan_targets
from benchmarks.paper.summary import (
    Entry,
    PublishedError,
    PublishedTime,
    compare_paired,
    disagreements,
    summarise,
)
from benchmarks.paper.targets import Column, Target
from sdpfeas.study.cells import Settings

COLUMN = Column("iris", "Iris", Task("iris"), 6)
TARGET = Target("table1", "a test", ("lda", "sd-wlda", "wlda", "primal-scs"), (COLUMN,))


def cell(error=0.1, time=1.0, bracket=None, outcome="done", reason="", finished=True, proven=True):
    lower, upper = bracket or (None, None)
    info = json.dumps({"finished": finished, "ratio": None})
    proof = "rigorous" if proven and bracket else None
    return {
        "state": "done",
        "outcome": outcome,
        "error": error if outcome == "done" else None,
        "solve_time": time,
        "lower": lower,
        "upper": upper,
        "proof": proof,
        "reason": reason,
        "info": info,
    }


def entry(*cells, method="wlda", error=None, time=None, planned=None):
    return Entry(method, COLUMN, dict(enumerate(cells)), planned or len(cells), 300.0, error, time)


def summary_of(**rows):
    plan = plan_targets([TARGET], Settings(time_limit=300.0))
    cells = []
    for method, made in rows.items():
        for split, found in enumerate(made):
            cells.append({**found, "key": plan.keys[method.replace("_", "-"), COLUMN.task, split]})
    return summarise(plan, cells)[0]


def shown(summary, title):
    grid = next(grid for grid in grids(summary) if grid.title.startswith(title))
    return {row[0]: row[1] for row in grid.rows}


def test_mean_and_deviation_have_one_less_in_the_denominator():
    # The paper's Table 5 prints 2.22 (4.97) for one run of five at 11.11 %: the sample deviation.
    made = entry(cell(1 / 9), *(cell(0.0) for _ in range(4)))
    assert round(made.mean, 2) == 2.22
    assert round(made.deviation, 2) == 4.97
    assert entry(cell(0.1)).deviation is None


@pytest.mark.parametrize(("mean", "within"), [(0.10, True), (0.119, True), (0.125, False), (0.075, False)])
def test_within_one_published_deviation(mean, within):
    assert entry(cell(mean), error=PublishedError(10.0, 2.0)).within is within


def test_nothing_published_nothing_compared():
    assert entry(cell()).within is None


def test_errors_are_flagged_in_the_table():
    summary = summary_of(lda=[cell(0.03)] * 6, wlda=[cell(0.30, bracket=(1.0, 1.0))] * 6)
    errors = shown(summary, "Test error")
    assert errors["LDA"] == "3.00 (0.00) / 3.19 (1.62) ✓"
    assert errors["WLDA (ours)"] == "30.00 (0.00) / 2.89 (1.67) ✗"
    assert errors["SD-WLDA (paper form)"] == "– / 2.89 (1.67)"
    assert errors["training / test samples"] == "105 / 45"
    assert "primal SDP (SCS)" not in errors


def test_timeouts_are_shown_as_such():
    timeout = cell(outcome="timeout", time=300.1)
    summary = summary_of(primal_scs=[timeout], wlda=[cell(), timeout, cell()], lda=[timeout])
    times, errors = shown(summary, "Time"), shown(summary, "Test error")
    assert times["primal SDP (SCS)"] == "> 300 s / 3.7s"
    assert times["WLDA (ours)"].startswith("> 300 s")
    assert errors["WLDA (ours)"].startswith("10.00 (0.00), n = 2 of 6")
    assert errors["LDA"].startswith("> 300 s")
    assert _time(entry(cell(outcome="out of memory"))) == "out of memory"


def test_failures_and_early_ends_are_told():
    failed = cell(outcome="error", reason="ValueError: no")
    early = cell(bracket=(0.0, 2.0), proven=False, finished=False, reason="claims nothing")
    text = to_markdown(summary_of(lda=[failed], primal_scs=[early]), "a command", "a machine.")
    assert "LDA on Iris failed on 1 of 6: ValueError: no" in text
    assert "1 s † / 3.7s" in text
    assert "† primal SDP (SCS) on Iris stopped before it converged: claims nothing" in text
    assert "Made by `a command`. a machine." in text


def test_brackets_and_infinite_ratios_are_labelled():
    infinite = cell(bracket=(math.inf, math.inf))
    found = shown(summary_of(wlda=[cell(bracket=(2.0, 2.001)), infinite]), "delta*")
    assert found["WLDA (ours): proven bracket, split 0"] == "[2, 2.001]"
    assert found["WLDA (ours): splits"] == "2 of 2 proven, 1 infinite, widest 5.0e-04"
    first = shown(summary_of(wlda=[infinite]), "delta*")
    assert first["WLDA (ours): proven bracket, split 0"] == "infinite"


def test_an_unproven_bracket_is_not_counted_as_proven():
    found = shown(summary_of(wlda=[cell(bracket=(2.0, 2.0), proven=False)]), "delta*")
    assert found["WLDA (ours): splits"].startswith("0 of 1 proven")


@pytest.mark.parametrize(
    ("other", "apart"),
    [
        ((0.9993, 0.9995), {}),
        ((1.0005, 1.0008), {}),
        ((1.0018, 1.003), {}),
        ((1.003, 1.004), {0: pytest.approx(0.003)}),
        ((0.9, 0.99), {0: pytest.approx(-0.009)}),
        ((math.inf, math.inf), {0: math.inf}),
    ],
)
def test_brackets_agree_within_both_tolerances(other, apart):
    ours, theirs = entry(cell(bracket=(0.999, 1.0))), entry(cell(bracket=other, proven=False))
    assert disagreements(ours, theirs) == (apart, 1)


def test_disagreement_is_flagged():
    good, bad = cell(bracket=(1.0, 1.0)), cell(bracket=(2.0, 2.0), proven=False)
    found = shown(summary_of(wlda=[good, good], sd_wlda=[good, bad]), "delta*")
    assert found["SD-WLDA agrees with ours"] == "1 of 2 ✗, up to +1e+02 %"


def test_a_bracket_that_was_left_open_agrees_with_nothing():
    ours, open_end = entry(cell(bracket=(1.0, 1.0))), cell(bracket=(0.0, 2.0), proven=False, finished=False)
    assert disagreements(ours, entry(open_end)) == ({}, 0)


def test_both_infinite_is_agreement():
    made = entry(cell(bracket=(math.inf, math.inf)))
    assert disagreements(made, made) == ({}, 1)


def test_paired_test_is_the_plain_one_up_to_the_correction():
    rng = np.random.default_rng(0)
    a, b = rng.normal(10, 2, 12), rng.normal(11, 2, 12)
    found = compare_paired(dict(enumerate(a)), dict(enumerate(b)), 70, 30)
    assert found.splits == 12
    assert math.isclose(found.difference, np.mean(a - b))
    # With hardly anything tested the correction vanishes.
    assert math.isclose(
        compare_paired(dict(enumerate(a)), dict(enumerate(b)), 10**9, 1).corrected,
        ttest_rel(a, b).pvalue,
        rel_tol=1e-6,
    )
    assert found.corrected > ttest_rel(a, b).pvalue


def test_paired_test_uses_common_splits_only_and_says_nothing_on_few():
    assert compare_paired({0: 1.0}, {1: 2.0}, 7, 3) is None
    few = compare_paired({0: 1.0, 1: 2.0}, {0: 2.0, 1: 2.0, 2: 9.0}, 7, 3)
    assert (few.splits, few.difference, few.corrected, few.signed_rank) == (2, -0.5, None, None)
    same = dict.fromkeys(range(8), 3.0)
    assert compare_paired(same, same, 7, 3).corrected == 1.0


def test_files_hold_every_cell_with_its_bracket(tmp_path):
    summary = summary_of(wlda=[cell(0.1, bracket=(2.0, 2.001)), cell(0.2, bracket=(3.0, 3.001))])
    paths = write_tables(summary, tmp_path, "command", "machine.")
    assert [path.name for path in paths] == ["table1.md", "table1.csv", "table1-cells.csv"]
    with paths[2].open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["method"] == "wlda"]
    assert [(row["split"], row["delta_lower"], row["proof"]) for row in rows] == [
        ("0", "2.0", "rigorous"),
        ("1", "3.0", "rigorous"),
    ]
    means = {(row["method"], row["splits"]): row for row in plain(summary)}
    assert means["wlda", 2]["error"] == pytest.approx(15.0)
    assert means["wlda", 2]["within"] is False


def test_a_grid_can_be_transposed():
    grid = Grid("t", ["", "a", "b"], [["x", "1", "2"], ["y", "3", "4"]])
    assert grid.transposed().columns == ["", "x", "y"]
    assert grid.transposed().rows == [["a", "1", "3"], ["b", "2", "4"]]
    assert grid.transposed().transposed() == grid


def test_a_published_bound_keeps_its_sign():
    made = entry(cell(), method="primal-scs", time=PublishedTime(">48h", 172800.0, True))
    assert _time(made) == "1 s / > 48h"
