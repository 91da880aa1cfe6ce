"""The largest least of linear functions over the Fantope: values, proofs, published optima."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpfeas as sf
from sdpfeas.claims import Claim, Verdict
from sdpfeas.errors import OptionError, ProblemError
from sdpfeas.families import FantopeMaxMin
from sdpfeas.problem.rows import LowRank, PairwiseDifference


def random_family(seed: int, n: int, m: int, r: float, *, offsets: bool = True) -> FantopeMaxMin:
    rng = np.random.default_rng(seed)
    matrices = rng.standard_normal((m, n, n)) * np.exp(rng.uniform(-1, 1, (m, 1, 1)))
    return FantopeMaxMin(
        matrices + np.swapaxes(matrices, 1, 2), r, rng.standard_normal(m) if offsets else None
    )


def check(family: FantopeMaxMin, found: Any, tol: float) -> None:
    assert found.proven
    assert found.converged
    assert found.lower <= found.upper
    assert found.gap <= tol or found.upper - found.lower <= 1e-9
    point = sf.verify(family.at(found.lower), Claim(point=found.point), rigorous=True)
    assert point.verdict is Verdict.FEASIBLE
    above = sf.verify(family.at(found.upper), Claim(certificate=found.certificate), rigorous=True)
    assert above.verdict is Verdict.INFEASIBLE
    assert float(np.min(family.values(found.point))) >= found.lower - 1e-9 * abs(found.lower)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(1, 7), st.integers(1, 6), st.floats(0.05, 1.0), st.booleans())
def test_brackets_are_proved_and_no_point_is_above(
    seed: int, n: int, m: int, share: float, offsets: bool
) -> None:
    family = random_family(seed, n, m, share * n, offsets=offsets)
    found = sf.bisect(family, "auto", tol=1e-5)
    check(family, found, 1e-5)
    rng = np.random.default_rng(seed)
    for _ in range(20):
        q, _ = np.linalg.qr(rng.standard_normal((n, n)))
        z = family.sets[0].project((q * rng.random(n)) @ q.T)
        assert float(np.min(family.values((z,)))) <= found.upper + 1e-9 * family.unit
    for _ in range(10):
        u = rng.random(m)
        assert family.upper_bound(u) >= found.lower


@pytest.mark.parametrize("seed", range(4))
def test_a_single_row_is_the_sum_of_the_largest_eigenvalues(seed: int) -> None:
    family = random_family(seed, 6, 1, 2, offsets=False)
    matrix = family.at(0.0).adjoint(np.ones(1))[0]
    found = sf.bisect(family, "spectral-ipm", tol=1e-9)
    assert found.solves == 0
    assert 0.5 * (found.lower + found.upper) == pytest.approx(
        np.sum(np.linalg.eigvalsh(matrix)[-2:]), rel=1e-9
    )


def test_planted_optimum() -> None:
    """Two rows that disagree about which axis to keep, and a third that never limits."""
    rows = np.array([np.diag([3.0, 0.0, 1.0]), np.diag([0.0, 6.0, 1.0]), 10.0 * np.eye(3)])
    found = sf.bisect(FantopeMaxMin(rows, 1), tol=1e-8)
    assert found.lower <= 2.0 <= found.upper
    lifted = sf.bisect(FantopeMaxMin(rows, 1, [5.0, 5.0, 5.0]), tol=1e-8)
    assert lifted.lower <= -3.0 <= lifted.upper


def test_units_offsets_and_storage_do_not_matter() -> None:
    rng = np.random.default_rng(3)
    factors = rng.standard_normal((4, 2, 8))
    dense = np.einsum("kai,kaj->kij", factors, factors)
    plain = sf.bisect(FantopeMaxMin(dense, 3), tol=1e-7)
    low_rank = sf.bisect(FantopeMaxMin(LowRank(list(factors)), 3), tol=1e-7)
    scaled = sf.bisect(FantopeMaxMin(1e6 * dense, 3, np.full(4, 1e6)), tol=1e-7)
    for other, value in ((low_rank, plain.lower), (scaled, 1e6 * plain.lower - 1e6)):
        assert other.lower <= value * (1 + 2e-7)
        assert other.upper >= value * (1 - 2e-7)


@pytest.mark.parametrize("solver", ["dual-lbfgs", "spectral-ipm"])
def test_named_backends_bisect_to_the_same_value(solver: str) -> None:
    family = random_family(7, 8, 5, 3)
    one = sf.one_shot(family, tol=1e-7)
    found = sf.bisect(family, solver, tol=1e-3)
    check(family, found, 1e-3)
    assert found.lower <= one.upper
    assert found.upper >= one.lower


def test_no_choice_is_no_search() -> None:
    family = random_family(1, 4, 3, 4)
    found = sf.bisect(family, tol=1e-9)
    values = family.values((np.eye(4),))
    assert found.lower <= np.min(values) + 1e-12 * family.unit
    assert found.converged


def test_corrupted_evidence_is_refused() -> None:
    family = random_family(5, 6, 4, 2)
    found = sf.bisect(family, tol=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(20):
        z = found.point[0] + rng.standard_normal((6, 6))
        assert family.lower_bound((z + z.T,)) <= found.upper
        assert family.upper_bound(rng.standard_normal(4)) >= found.lower
    assert family.lower_bound((np.full((6, 6), np.nan),)) == -math.inf
    assert family.upper_bound(np.full(4, np.nan)) == math.inf
    assert family.upper_bound(np.zeros(4)) == math.inf


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.eye(3), 1), "shape"),
        ((np.zeros((0, 3, 3)), 1), "at least one"),
        ((np.eye(3)[None], 0), "r must be positive"),
        ((np.eye(3)[None], 4), "at most 3"),
        ((np.eye(3)[None], math.nan), "r"),
        ((np.eye(3)[None], "two"), "r"),
        ((np.eye(3)[None], 1, [1.0, 2.0]), "1 entries"),
        ((np.eye(3)[None], 1, [math.inf]), "offsets"),
        ((np.triu(np.ones((1, 3, 3))), 1), "symmetric"),
        ((np.full((1, 3, 3), math.nan), 1), "finite|NaN"),
    ],
)
def test_bad_input_is_refused(arguments: Any, words: str) -> None:
    with pytest.raises(ProblemError, match=words):
        FantopeMaxMin(*arguments)


@pytest.mark.parametrize("options", [{"n": 0}, {"r": 9, "n": 4}, {"groups": 0}, {"colour": "red"}])
def test_bad_cards_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        FantopeMaxMin.make(**options)


def test_many_pairs_are_rows_too() -> None:
    means = np.random.default_rng(2).standard_normal((9, 5))
    family = FantopeMaxMin(PairwiseDifference(means), 2, bracket=(0.0, math.inf))
    check(family, sf.bisect(family, tol=1e-6), 1e-6)


# ---------------------------------------------------------------- published optima


def published(folder: Path) -> list[tuple[FantopeMaxMin, float, float]]:
    """Families of fair PCA on the credit data, their published optima, and the size of their terms."""
    covariances = np.load(folder / "fairpca" / "credit.npz")
    out = []
    with (folder / "fairpca" / "published.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            B, d = covariances[row["groups"]], int(row["d"])
            B = 0.5 * (B + np.swapaxes(B, 1, 2))
            most = np.sort(np.linalg.eigvalsh(B), axis=1)[:, -d:].sum(axis=1)
            family = FantopeMaxMin(B, d, most if "loss" in row["objective"] else None)
            out.append((family, float(row["published"]), float(np.max(most))))
    return out


def assert_published(family: FantopeMaxMin, value: float, size: float) -> None:
    """Losses are differences of terms as large as ``size``; the published ones stop at gaps of 5e-9."""
    found = sf.bisect(family, tol=1e-7)
    assert found.proven
    assert found.converged
    assert found.lower - 1e-8 * size <= value <= found.upper + 1e-8 * abs(value)
    if value < found.lower - 1e-8 * abs(value):
        # Not the optimum: a point attains more, provably.
        better = sf.verify(family.at(found.lower), Claim(point=found.point), rigorous=True)
        assert better.verdict is Verdict.FEASIBLE


@pytest.mark.parametrize("place", [0, 65, 70, 103, 104, 131])
def test_published_optima_of_fair_pca(data_dir: Path, place: int) -> None:
    assert_published(*published(data_dir)[place])


@pytest.mark.slow
def test_all_published_optima_of_fair_pca(data_dir: Path) -> None:
    cases = published(data_dir)
    assert len(cases) == 132
    for case in cases:
        assert_published(*case)
