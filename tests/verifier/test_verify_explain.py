"""What a check says: in words, with its margin, and for a contradiction with the rows that make it."""

from __future__ import annotations

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.verifier import exact


def contradiction() -> tuple[sf.FeasibilityProblem, np.ndarray]:
    """tr X <= 1 and X11 >= 2 contradict each other; the other rows are idle."""
    n = 3
    rows = np.zeros((5, n, n))
    rows[0] = np.eye(n)
    rows[1, 0, 0] = 1.0
    rows[2, 1, 1] = 1.0
    rows[3, 1, 2] = rows[3, 2, 1] = 1.0
    rows[4] = np.ones((n, n))
    names = ["total", "first", "second", "mixed", "everything"]
    lower = np.array([-np.inf, 2.0, 0.0, -1.0, -np.inf])
    upper = np.array([1.0, np.inf, 5.0, 1.0, 2.0])
    problem = sf.FeasibilityProblem([sf.PSD(n)], [rows], lower, upper, row_names=names, block_names=["X"])
    return problem, np.array([-1.0, 0.75, 0.125, 0.0625, -0.03125])


def test_an_infeasible_check_names_its_rows() -> None:
    problem, y = contradiction()
    check = sf.verify(problem, sf.Claim(certificate=y), rigorous=True)
    assert check.verdict is sf.Verdict.INFEASIBLE
    rows = check.conflict()
    weights = [entry.weight for entry in rows]
    assert weights == sorted(weights, reverse=True)
    assert sum(weights) == pytest.approx(1.0)
    assert {entry.name for entry in rows} == {"total", "first", "second", "mixed", "everything"}
    for entry in rows:
        assert check.certificate is not None
        assert entry.multiplier == check.certificate[entry.row]
        assert entry.name == problem.row_name(entry.row)
        assert entry.side == ("lower" if entry.multiplier > 0 else "upper")
        norm = float(np.linalg.norm(problem.rows[0].array[entry.row]))
        total = sum(abs(e.multiplier) * float(np.linalg.norm(problem.rows[0].array[e.row])) for e in rows)
        assert entry.weight == pytest.approx(abs(entry.multiplier) * norm / total)
    text = check.explain()
    assert text.startswith("INFEASIBLE (rigorous proof)")
    assert "margin" in text
    assert text.index("row total: <= 1") < text.index("row first: >= 2") < text.index("row second: >= 0")
    assert "conflicting rows (5), heaviest first" in text


def test_a_long_list_is_cut() -> None:
    problem, y = contradiction()
    check = sf.verify(problem, sf.Claim(certificate=y), rigorous=True)
    text = check.explain(limit=2)
    assert "row first" in text
    assert "row second" not in text
    assert "and 3 more" in text


def test_pruning_leaves_a_smaller_contradiction_that_holds() -> None:
    problem, y = contradiction()
    for mode in ({}, {"rigorous": True}, {"exact": True}):
        check = sf.verify(problem, sf.Claim(certificate=y), **mode)
        small = check.conflict(prune=True)
        assert {entry.name for entry in small} == {"total", "first"}
        assert "conflicting rows (2)" in check.explain(prune=True)
        # The rows that are left contradict each other all by themselves.
        index = sorted(entry.row for entry in small)
        part = problem.select_rows(index)
        left = np.array([next(e.multiplier for e in small if e.row == i) for i in index])
        again = sf.verify(part, sf.Claim(certificate=left), **mode)
        assert again.verdict is sf.Verdict.INFEASIBLE
        assert again.proof is check.proof


@pytest.mark.parametrize("mix", ["psd", "box trace", "box nonneg", "psd free", "all"])
def test_pruned_rows_contradict_each_other(mix: str) -> None:
    rng = np.random.default_rng(51)
    for _ in range(3):
        case = planted.infeasible(rng, planted.set_mixes()[mix])
        check = sf.verify(case.problem, case.claim, rigorous=True)
        whole, small = check.conflict(), check.conflict(prune=True)
        assert 0 < len(small) <= len(whole)
        index = sorted(entry.row for entry in small)
        y = np.array([next(e.multiplier for e in small if e.row == i) for i in index])
        again = sf.verify(case.problem.select_rows(index), sf.Claim(certificate=y), rigorous=True)
        assert again.verdict is sf.Verdict.INFEASIBLE
        # Not one of them can be spared in the certificate that is left.
        for k in range(len(index)):
            if len(index) > 1:
                fewer = np.array(y)
                fewer[k] = 0.0
                claim = sf.Claim(certificate=fewer)
                part = sf.verify(case.problem.select_rows(index), claim, rigorous=True)
                kept = part.certificate
                assert kept is None or np.count_nonzero(kept) >= len(index)


def test_a_feasible_check_explains_itself() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [3.0])
    check = sf.verify(problem, sf.Claim(point=(np.eye(2),)), rigorous=True)
    assert check.explain().startswith("FEASIBLE (rigorous proof)")
    assert "margin" in check.explain()
    assert check.conflict() == []
    # Half the way between the bounds, in units of the row's size.
    assert check.margin == pytest.approx(1.0 / 5.0, rel=1e-6)


def test_margins_grow_with_the_slack() -> None:
    margins = []
    for bound in (1.9, 1.5, 1.0):
        problem = sf.FeasibilityProblem([sf.SpectralBox(2)], [np.eye(2)[None]], [bound], [np.inf])
        found = {}
        for mode in ({}, {"rigorous": True}, {"exact": True}):
            found[str(mode)] = sf.verify(problem, sf.Claim(point=(np.eye(2),)), **mode).margin
        assert max(found.values()) == pytest.approx(min(found.values()), rel=1e-3)
        margins.append(found["{}"])
    assert margins == sorted(margins)
    gaps = []
    for bound in (2.1, 2.5, 3.0):
        problem = sf.FeasibilityProblem([sf.SpectralBox(2)], [np.eye(2)[None]], [bound], [np.inf])
        gaps.append(sf.verify(problem, sf.Claim(certificate=np.ones(1)), rigorous=True).margin)
    assert gaps == sorted(gaps)
    assert all(0.0 < gap <= 1.0 for gap in gaps)


def test_an_undecided_check_says_why() -> None:
    problem = sf.FeasibilityProblem(
        [sf.PSD(2)], [np.eye(2)[None]], [1.0], [3.0], row_names=["trace"], block_names=["X"]
    )
    for claim, words in (
        (sf.Claim(point=(5.0 * np.eye(2),)), ["trace"]),
        (sf.Claim(point=(np.diag([2.0, -1.0]),)), ["X"]),
        (sf.Claim(point=(np.full((2, 2), np.nan),)), ["NaN"]),
        (sf.Claim(certificate=np.ones(1)), ["X"]),
        (sf.Claim(certificate=np.zeros(1)), ["zero"]),
    ):
        for mode in ({}, {"rigorous": True}):
            check = sf.verify(problem, claim, repair=False, **mode)
            assert check.verdict is sf.Verdict.UNDECIDED
            assert check.margin is None
            assert check.explain().startswith("UNDECIDED\n")
            for word in words:
                assert word in check.explain(), (word, check.explain())


def test_no_interior_is_said() -> None:
    """Feasible only on a face: residuals are zero, and that is no evidence."""
    rows = np.zeros((2, 2, 2))
    rows[0, 0, 0] = rows[1, 1, 1] = 1.0
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [0.0, 1.0 / 3.0], [0.0, 1.0 / 3.0])
    check = sf.verify(problem, sf.Claim(point=(np.diag([0.0, 1.0 / 3.0]),)))
    assert check.verdict is sf.Verdict.UNDECIDED
    assert "no interior found" in check.reason


def test_repairs_are_said_in_every_mode() -> None:
    problem = sf.FeasibilityProblem(
        [sf.SpectralBox(2, trace=1), sf.Nonneg(1)], [np.eye(2)[None], [[-1.0]]], [0.0], [np.inf]
    )
    claim = sf.Claim(point=(np.diag([1.0, 0.0]), np.array([7.0])))
    for mode in ({}, {"rigorous": True}, {"exact": True}):
        assert sf.verify(problem, claim, repair=False, **mode).verdict is sf.Verdict.UNDECIDED
        check = sf.verify(problem, claim, **mode)
        assert check.verdict is sf.Verdict.FEASIBLE
        assert any("vector blocks" in repair for repair in check.repairs)
        assert "repaired before it held" in check.explain()


def test_rounding_is_a_repair() -> None:
    assert exact.DENOMINATORS
    problem = sf.FeasibilityProblem([sf.Nonneg(1)], [[[3.0]]], [1.0], [1.0])
    check = sf.verify(problem, sf.Claim(point=(np.array([0.33333333]),)), exact=True)
    assert check.verdict is sf.Verdict.FEASIBLE
    assert any("denominators of at most" in repair for repair in check.repairs)
