"""Fair PCA and max-min distance analysis: the scikit-learn contract, values by definition, bad data."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("sklearn", minversion="1.6")

from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from wlda_data import blobs

from sdpfeas.drivers.bracket import BisectionResult
from sdpfeas.errors import ProblemError
from sdpfeas.estimators import FairPCA, MaxMinDistance, WorstCaseLDA
from sdpfeas.estimators.projection_refinement import MinVarianceObjective, RatioObjective, _Search
from sdpfeas.families import FantopeMaxMin
from sdpfeas.families.class_scatter import ClassScatter
from sdpfeas.families.problem_cards import find_problem
from sdpfeas.families.projection_problems import GroupCovariances


class TargetAsGroup(FairPCA):
    """Fair PCA with the target as the group, since the checks of scikit-learn pass nothing else."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        return super().fit(X, groups=y, sample_weight=sample_weight)


def not_unique(estimator: Any) -> dict[str, str]:
    if not isinstance(estimator, FairPCA):
        return {}
    reason = "a group of the check has one distinct sample, so that every projection keeps variance zero"
    return {"check_sample_weight_equivalence_on_dense_data": reason}


@parametrize_with_checks([TargetAsGroup(), MaxMinDistance(shrinkage=0.1)], expected_failed_checks=not_unique)
def test_scikit_learn_contract(estimator: Any, check: Any) -> None:
    check(estimator)


def kept_by_definition(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> np.ndarray:
    return np.array([np.sum(np.var(X[y == g] @ W, axis=0)) for g in np.unique(y)])


def check_fair(fair: FairPCA, X: np.ndarray, y: np.ndarray) -> None:
    lower, upper = fair.delta_bounds_
    W = fair.components_.T
    size = float(np.max(fair.variances_ + fair.losses_))
    assert fair.proven_
    assert fair.converged_
    assert lower == fair.delta_ <= upper
    np.testing.assert_allclose(W.T @ W, np.eye(W.shape[1]), atol=1e-10)
    kept = kept_by_definition(X, y, W)
    np.testing.assert_allclose(fair.variances_, kept, atol=1e-9 * size)
    by_aim = kept if fair.aim == "variance" else -fair.losses_
    assert fair.value_ == pytest.approx(np.min(by_aim), abs=1e-9 * size)
    assert fair.worst_group_ == fair.classes_[np.argmin(by_aim)]
    assert fair.rounded_value_ <= fair.value_ <= upper + 1e-9 * size
    assert fair.relaxation_gap_ == pytest.approx((upper - fair.value_) / size, abs=1e-9)


@settings(max_examples=12)
@given(
    st.integers(0, 10**6),
    st.integers(2, 4),
    st.integers(2, 6),
    st.sampled_from(["variance", "loss"]),
    st.sampled_from([1e-4, 1.0, 1e5]),
    st.booleans(),
)
def test_fair_pca_by_its_definition(
    seed: int, groups: int, features: int, aim: Any, scale: float, refine: bool
) -> None:
    X, y = blobs(seed, groups, features, samples=features + 3)
    rng = np.random.default_rng(seed)
    X = scale * X * np.exp(rng.uniform(-1, 1, features))
    fair = FairPCA(n_components=max(1, features - 2), aim=aim, refine=refine).fit(X, groups=y)
    check_fair(fair, X, y)
    # No projection that anybody draws is above the bound.
    for _ in range(20):
        W, _ = np.linalg.qr(rng.standard_normal((features, fair.components_.shape[0])))
        kept = kept_by_definition(X, y, W)
        if aim == "loss":
            kept = kept - (fair.variances_ + fair.losses_)
        assert np.min(kept) <= fair.delta_bounds_[1] + 1e-9 * scale**2


def test_fairness_is_what_pca_lacks() -> None:
    """One group varies along another axis than the large one: PCA forgets it."""
    rng = np.random.default_rng(0)
    many = rng.standard_normal((200, 3)) * [3.0, 1.0, 0.1]
    few = rng.standard_normal((40, 3)) * [0.1, 1.0, 2.0]
    X, y = np.concatenate([many, few]), np.repeat(["many", "few"], [200, 40])
    fair = FairPCA(n_components=1, tol=1e-6, refine=True).fit(X, groups=y)
    plain = kept_by_definition(X, y, PCA(1).fit(X).components_.T)
    assert fair.value_ > 3.0 * np.min(plain)
    # Two groups: the relaxation is tight.
    assert fair.relaxation_gap_ < 1e-3


def test_losses_of_groups_that_agree_are_zero() -> None:
    X, _ = blobs(3, classes=1, features=4, samples=20)
    both = np.concatenate([X, X])
    fair = FairPCA(n_components=2, aim="loss").fit(both, groups=np.repeat([0, 1], 20))
    assert fair.delta_bounds_[0] == pytest.approx(0.0, abs=1e-8)
    assert fair.value_ == pytest.approx(0.0, abs=1e-8)
    assert fair.relaxation_gap_ < 1e-8


def test_centring() -> None:
    X, y = blobs(1, classes=2, features=3, samples=30)
    apart, overall = (FairPCA(n_components=1, centring=c).fit(X, groups=y) for c in ("group", "overall"))
    assert overall.delta_ > apart.delta_
    W = overall.components_.T
    kept = [np.mean(((X[y == g] - X.mean(axis=0)) @ W) ** 2) for g in (0, 1)]
    np.testing.assert_allclose(overall.variances_, kept, rtol=1e-9)


def test_fair_pca_of_wide_data() -> None:
    X, y = blobs(5, classes=3, features=60, samples=6)
    fair = FairPCA(n_components=3).fit(X, groups=y)
    check_fair(fair, X, y)
    assert fair.transform(X).shape == (18, 3)


def test_the_gradient_of_refinement() -> None:
    X, y = blobs(2, classes=3, features=5)
    groups = GroupCovariances(X, y)
    rng = np.random.default_rng(0)
    for objective in (
        MinVarianceObjective(groups, groups.most(2)),
        RatioObjective(ClassScatter.from_samples(X, y)),
    ):
        search = _Search(objective, np.eye(5)[:, :2], math.inf, math.inf)
        U, D = rng.standard_normal((2, 3, 2, 5))
        sharpness = np.array([1.0, 10.0, 30.0])
        _, G = search._smoothed(U, sharpness)
        ends = [search._smoothed(U + h * D, sharpness)[0] for h in (1e-6, -1e-6)]
        np.testing.assert_allclose((ends[0] - ends[1]) / 2e-6, np.sum(G * D, axis=(1, 2)), rtol=1e-5)


def test_groups_are_required_and_are_not_the_target() -> None:
    X, y = blobs(3, classes=2, features=4)
    with pytest.raises(ValueError, match="FairPCA requires groups"):
        FairPCA().fit(X, y)
    with pytest.raises(ValueError, match="FairPCA requires groups"):
        make_pipeline(FairPCA(), LogisticRegression()).fit(X, y)
    groups = np.arange(y.size) % 2
    model = make_pipeline(FairPCA(), LogisticRegression()).fit(X, y, fairpca__groups=groups)
    alone = FairPCA().fit(X, groups=groups)
    np.testing.assert_array_equal(model[0].components_, alone.components_)
    assert not np.allclose(alone.variances_, FairPCA().fit(X, groups=y).variances_)


def test_groups_are_routed_through_pipelines_and_searches() -> None:
    X, y = blobs(3, classes=2, features=4, samples=15)
    groups = np.array(["a", "b", "c"])[np.arange(y.size) % 3]
    with config_context(enable_metadata_routing=True):
        fair = FairPCA().set_fit_request(groups=True)
        model = make_pipeline(fair, LogisticRegression())
        model.fit(X, y, groups=groups)
        assert model[0].classes_.tolist() == ["a", "b", "c"]
        search = GridSearchCV(model, {"fairpca__n_components": [1, 2]}, cv=2, error_score="raise")
        search.fit(X, y, groups=groups)
        assert search.best_estimator_[0].classes_.tolist() == ["a", "b", "c"]
        with pytest.raises(ValueError, match="FairPCA requires groups"):
            model.fit(X, y)


@pytest.mark.parametrize("centring", ["group", "overall"])
def test_weights_repeat_samples(centring: Any) -> None:
    X, y = blobs(6, classes=3, features=4)
    weights = np.random.default_rng(0).integers(0, 4, y.size)
    weights[[0, 8, 16]] = 2
    repeated = np.repeat(X, weights, axis=0), np.repeat(y, weights)
    fair = FairPCA(centring=centring).fit(X, groups=y, sample_weight=weights)
    again = FairPCA(centring=centring).fit(repeated[0], groups=repeated[1])
    np.testing.assert_allclose(fair.variances_, again.variances_, rtol=1e-2)
    assert fair.delta_ == pytest.approx(again.delta_, rel=2e-3)
    pairs = MaxMinDistance(n_components=1).fit(X, y, sample_weight=weights)
    assert pairs.delta_ == pytest.approx(MaxMinDistance(n_components=1).fit(*repeated).delta_, rel=2e-3)


def test_shrinkage_of_groups_and_of_the_pooled_scatter() -> None:
    X, y = blobs(7, classes=3, features=5)
    variance = np.array([np.trace(np.cov(X[y == g].T, bias=True)) for g in range(3)])
    fair = FairPCA(n_components=2, shrinkage=1.0).fit(X, groups=y)
    np.testing.assert_allclose(fair.variances_, 0.4 * variance, rtol=1e-9)
    FairPCA(shrinkage="auto").fit(X, groups=y)
    wide, y = blobs(7, classes=3, features=40)
    assert MaxMinDistance(n_components=1, shrinkage="auto").fit(wide, y).value_ > 0.0


def test_all_estimators_draw_on_given_axes() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    X, y = blobs(7, classes=3, features=5)
    fitted = FairPCA().fit(X, groups=y), MaxMinDistance().fit(X, y), WorstCaseLDA().fit(X, y)
    for estimator, axes in zip(fitted, figure.subplots(3), strict=True):
        assert estimator.plot(X, y, ax=axes) is figure
        assert f"{estimator.delta_bounds_[1]:.5g}" in axes.get_title()
        words = [text.get_text() for text in axes.get_legend().get_texts()]
        assert any("worst" in word or "closest pair" in word for word in words)
    assert FairPCA(n_components=3).fit(X, groups=y).plot(X, y).get_suptitle()


def test_helpers_are_not_completed() -> None:
    public = {name for name in dir(FairPCA()) if not name.startswith("_")}
    assert not public & {"checked_samples", "take_bracket"}


# ---------------------------------------------------------------- max-min distance


def whitened_distances(X: np.ndarray, y: np.ndarray, W: np.ndarray) -> np.ndarray:
    means = np.array([X[y == k].mean(axis=0) for k in np.unique(y)]) @ W
    i, j = np.triu_indices(means.shape[0], 1)
    return np.sum((means[i] - means[j]) ** 2, axis=1)


def within(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return sum(np.sum(y == k) * np.cov(X[y == k].T, bias=True) for k in np.unique(y)) / len(y)


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(2, 6), st.sampled_from([1e-3, 1.0, 1e5]))
def test_max_min_distance_by_its_definition(seed: int, classes: int, features: int, scale: float) -> None:
    X, y = blobs(seed, classes, features, samples=features + 4)
    X = scale * X
    r = max(1, min(classes - 1, features) - 1)
    found = MaxMinDistance(n_components=r, refine=True).fit(X, y)
    W = found.components_.T
    np.testing.assert_allclose(W.T @ within(X, y) @ W, np.eye(r), atol=1e-8)
    distances = whitened_distances(X, y, W)
    assert found.value_ == pytest.approx(np.min(distances), rel=1e-8)
    upper = found.delta_bounds_[1]
    assert found.proven_
    assert found.rounded_value_ <= found.value_ <= upper * (1 + 1e-9)
    assert found.relaxation_gap_ == pytest.approx(1.0 - found.value_ / upper, abs=1e-9)
    i, j = np.triu_indices(classes, 1)
    worst = int(np.argmin(distances))
    assert found.worst_pair_ == (found.classes_[i[worst]], found.classes_[j[worst]])


def test_all_directions_leave_no_choice() -> None:
    X, y = load_wine(return_X_y=True)
    found = MaxMinDistance(tol=1e-8).fit(X, y)
    assert found.components_.shape == (2, 13)
    assert found.relaxation_gap_ < 1e-7


def test_it_is_worst_case_discriminant_analysis_with_one_scatter() -> None:
    """With whitened data and two classes of equal scatter the two agree."""
    rng = np.random.default_rng(4)
    half = rng.standard_normal((15, 3))
    X = np.concatenate([half, half + np.array([2.0, 1.0, 0.5])])
    y = np.repeat([0, 1], 15)
    root = np.linalg.cholesky(np.linalg.inv(within(X, y)))
    found = MaxMinDistance(n_components=1, tol=1e-6).fit(X, y)
    lda = WorstCaseLDA(n_components=1, tol=1e-6).fit(X @ root, y)
    assert found.delta_ == pytest.approx(lda.delta_, rel=1e-5)


def test_singular_scatter_asks_for_shrinkage() -> None:
    X, y = blobs(0, classes=3, features=12, samples=3)
    with pytest.raises(ProblemError, match="give shrinkage"):
        MaxMinDistance().fit(X, y)
    found = MaxMinDistance(n_components=1, shrinkage=0.2).fit(X, y)
    assert found.value_ > 0.0


def test_equal_means_give_zero() -> None:
    X, y = blobs(0, classes=2, features=3)
    X[y == 1] += X[y == 0].mean(axis=0) - X[y == 1].mean(axis=0)
    found = MaxMinDistance(n_components=1).fit(X, y)
    assert found.delta_bounds_ == pytest.approx((0.0, 0.0), abs=1e-8)


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (TargetAsGroup(aim="mean"), "aim must be"),
        (TargetAsGroup(centring="none"), "centring must be"),
        (TargetAsGroup(n_components=0), "positive integer"),
        (TargetAsGroup(n_components=9), "no more dimensions"),
        (MaxMinDistance(n_components=3), "no more dimensions"),
        (MaxMinDistance(shrinkage=2.0), "shrinkage"),
        (MaxMinDistance(shrinkage="most"), "shrinkage"),
        (TargetAsGroup(tol=-1.0), "tol"),
    ],
)
def test_bad_parameters_are_refused(estimator: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        clone(estimator).fit(*blobs())


def test_running_out_of_time_is_told() -> None:
    X, y = blobs(0, classes=4, features=30, samples=40)
    with pytest.warns(ConvergenceWarning, match="only found to lie in"):
        fair = FairPCA(n_components=3, tol=1e-9, time_limit=1e-6).fit(X, groups=y)
    assert fair.components_.shape == (3, 30)


@pytest.mark.parametrize("name", ["fair-pca-wine", "fair-pca-digits", "max-min-distance-digits"])
def test_shipped_cards_can_be_built(name: str) -> None:
    for member in find_problem(name).members():
        assert isinstance(member.build(0), FantopeMaxMin)


@pytest.mark.parametrize("scale", [1e154, 1e300, 1e-162, 1e-300])
def test_variances_that_are_no_numbers_are_refused(scale: float) -> None:
    """They were infinite, or zero with a proof."""
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(ProblemError, match="scale the samples"):
        FairPCA(n_components=1).fit(scale * X, groups=y)


def test_bounds_among_the_smallest_numbers_are_rounded_outwards() -> None:
    model = FairPCA()
    low, high, unit = 1.0 + 2.0**-52, 1.0 + 2.0**-51, 2.0**-1040
    model._take_bracket(BisectionResult(low, high, None, None, (), True, True, ""), unit)
    below, above = (Fraction(end) for end in model.delta_bounds_)
    assert below < Fraction(low) * Fraction(unit) < Fraction(high) * Fraction(unit) < above
