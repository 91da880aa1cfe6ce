"""Thresholds that are known without a solve: proved of the data as they are, or called not proven."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.estimators import WorstCaseLDA
from sdpfeas.families import WLDA
from sdpfeas.families.class_scatter import affinely_independent

MEANS = np.array([[0.0, 0.0], [1.0, 0.0]])


@pytest.mark.parametrize(("scatter", "proven"), [(0.0, True), (2.0**-74, False), (5e-324, False)])
def test_infinity_by_the_rank_tolerance_is_not_proven(scatter: float, proven: bool) -> None:
    """A scatter of 2**-74 leaves a threshold of 2**74: only one of zero leaves none."""
    family = WLDA.from_scatter(MEANS, [np.diag([scatter, 1.0])] * 2, 1)
    found = sf.bisect(family, "auto")
    assert (found.lower, found.proven) == (math.inf, proven)
    assert ("not proven" in found.reason) is not proven


def test_fewer_samples_than_features_are_proved_unbounded() -> None:
    """Affinely independent samples can be sent to the vertices of a simplex, whatever the rounding."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 60)), np.arange(20) % 4
    assert WLDA.from_data(X, y).known.proven
    assert WLDA.from_data(1e200 * X, y).known.proven
    doubled = np.vstack([X, X[:1]])
    assert not affinely_independent(doubled)
    assert not affinely_independent(np.vstack([X, X.mean(axis=0)]))
    # As many copies of one sample as one likes leave the null space, but it takes another argument.
    known = WLDA.from_data(doubled, np.append(y, 0)).known
    assert (known.delta, known.proven) == (math.inf, False)


@pytest.mark.parametrize("slip", [0.0, 1e-15])
def test_equal_means_are_equal_to_the_last_bit_or_not_proven(slip: float) -> None:
    """Samples in another order have the same mean; one that moved by rounding has not."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    X[y == 1] = X[y == 0][::-1]
    X[1, 0] += slip
    found = sf.bisect(WLDA.from_data(X, y, 1), "auto")
    assert (found.lower, found.upper, found.proven) == (0.0, 0.0, slip == 0.0)


def test_equal_given_means() -> None:
    """Means that are given as such are compared as such, before they are centred."""
    scatters = [np.eye(2), 2.0 * np.eye(2), np.eye(2)]
    same = np.array([[0.1, 0.3], [0.1, 0.3], [7.0, 1.0]])
    assert WLDA.from_scatter(same, scatters, 1).known.proven
    off = same.copy()
    off[1, 0] = np.nextafter(off[1, 0], 1.0)
    known = WLDA.from_scatter(off, scatters, 1).known
    assert (known.delta, known.proven) == (0.0, False)


def test_equal_means_without_scatter_prove_nothing() -> None:
    """Where no class scatters in the directions asked for, 0 >= delta·0 holds for every delta."""
    family = WLDA.from_scatter([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]], [np.diag([1.0, 0.0])] * 3, 1)
    assert family.known is None or not family.known.proven


def test_large_integers_are_not_rounded() -> None:
    """Means that differ by one beyond 2**53 are equal as doubles, and nothing is proved of those."""
    big = 2**53
    with pytest.raises(sf.ProblemError, match="rounded"):
        WLDA.from_scatter(np.array([[big], [big + 1]]), np.ones((2, 1, 1)))
    X, y = np.array([[big - 10], [big + 10], [big - 9], [big + 11]]), [0, 0, 1, 1]
    for samples in (X, X.tolist()):
        with pytest.raises(sf.ProblemError, match="rounded"):
            WLDA.from_data(samples, y)
    with pytest.raises(sf.ProblemError, match="rounded"):
        WorstCaseLDA().fit(X, y)
    assert WLDA.from_data(X - big, y).known is None
    with pytest.raises(sf.ProblemError, match="masked"):
        WLDA.from_data(np.ma.masked_greater(X - big, 10), y)


@pytest.mark.parametrize(
    "weights",
    [np.zeros(4), [1, 1, 0, 1], -np.ones(4), [1, 1, 1], [1, 1, 1, math.nan], ["a"] * 4, np.ones((4, 1))],
)
def test_weights_are_positive_numbers(weights: object) -> None:
    X, y = np.arange(8.0).reshape(4, 2) ** 2, [0, 0, 1, 1]
    with pytest.raises(sf.ProblemError, match="weights"):
        WLDA.from_data(X, y, 1, weights=weights)  # type: ignore[arg-type]
    plain, weighted = WLDA.from_data(X, y, 1), WLDA.from_data(X, y, 1, weights=[1, 1, 1, 1])
    assert np.allclose(plain.at(0.5).apply(plain.initial_points()[0]),
                       weighted.at(0.5).apply(plain.initial_points()[0]))  # fmt: skip
