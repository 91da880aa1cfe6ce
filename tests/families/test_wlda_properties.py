"""WLDA whatever the data: bounds, brackets, invariances and projections over generated data sets."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import examples
from wlda_data import KINDS, hard_data, proven_bracket, some_family, spoilt

pytest.importorskip("sklearn", minversion="1.6")

import sdpfeas as sf
from sdpfeas.drivers.bisection import bisect, one_shot
from sdpfeas.estimators import WorstCaseLDA
from sdpfeas.families import WLDA


@examples(0.4)
@given(hard_data(), st.sampled_from(["compact", "paper"]))
def test_bounds_never_cross(data, formulation):
    X, y, seed = data
    family = some_family(X, y, seed, formulation)
    if family is None:
        return
    rng = np.random.default_rng(seed)
    k = family.sets[0].n
    points = family.initial_points()
    for _ in range(2):
        A = rng.standard_normal((k, k))
        points.append(family.point(A + A.T))
        q, _ = np.linalg.qr(A)
        points.append(family.point(q[:, : family.r] @ q[:, : family.r].T))
    multipliers = family.initial_multipliers()
    for _ in range(2):
        multipliers.append(rng.random(family.m) ** rng.choice([1, 8]))
        multipliers.append(np.where(rng.random(family.m) < 0.3, rng.standard_normal(family.m), 0.0))
    points += [point for z in multipliers for point in family.recovered_points(np.maximum(z, 0.0))]
    better_points, better_multipliers = family.refine(points, multipliers, 1e-3)
    lower = [family.lower_bound(point) for point in points + better_points]
    upper = [family.upper_bound(z) for z in multipliers + better_multipliers]
    assert min(lower) >= 0.0
    assert max(lower) < min(upper)
    known = family.known
    if known is not None and known.delta == math.inf:
        assert min(upper) == math.inf
    if known is not None and known.delta == 0.0:
        assert max(lower) == 0.0


# ---------------------------------------------------------------- all backends


@examples(0.08)
@given(hard_data())
def test_brackets_of_all_backends_intersect(data):
    family = some_family(*data)
    if family is None:
        return
    found = {name: bisect(family, name, tol=1e-2, time_limit=0.5) for name in sf.backends()}
    found["one shot"] = one_shot(family, "spectral-ipm", tol=1e-4, time_limit=0.5)
    found["paper's rows"] = bisect(some_family(*data, "paper"), "auto", tol=1e-2, time_limit=0.5)
    assert all(result.proven for result in found.values())
    assert all(result.lower <= result.upper for result in found.values())
    highest = max(found, key=lambda name: found[name].lower)
    lowest = min(found, key=lambda name: found[name].upper)
    # The formulations are equivalent up to rounding of the data.
    assert found[highest].lower <= found[lowest].upper * (1 + 1e-9), (highest, lowest)


# ---------------------------------------------------------------- invariances


def moved(kind, X, y, rng):
    if kind == "rotation":
        q, _ = np.linalg.qr(rng.standard_normal((X.shape[1], X.shape[1])))
        return X @ q, y
    if kind == "translation":
        return X + rng.standard_normal(X.shape[1]), y
    if kind == "scaling":
        return X * float(rng.choice([1e-20, 3e-3, 7e5, 1e40])), y
    order = rng.permutation(y.size)
    return X[order], np.array(["zebra", "ant", "mole", "bee", "cat", "dog", "eel", "fly"])[y][order]


@examples(0.5)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["rotation", "translation", "scaling", "relabelling"]),
    st.integers(2, 8),
    st.integers(2, 12),
    st.sampled_from(KINDS),
)
@example(0, "rotation", 3, 4, "plain")
def test_threshold_is_invariant(seed, kind, classes, features, spoilt_by):
    rng = np.random.default_rng(seed)
    X, y = spoilt(rng, classes, features, spoilt_by)
    if not np.any(np.ptp(X, axis=0) > 1e-6):
        return
    r = int(rng.integers(1, WLDA.from_data(X, y).rank + 1))
    plain, other = WLDA.from_data(X, y, r), WLDA.from_data(*moved(kind, X, y, rng), r)
    assert (other.rank, other.null_dim, other.vacuous) == (plain.rank, plain.null_dim, plain.vacuous)
    assert (plain.known is None) == (other.known is None)
    if plain.known is not None:
        assert plain.known.delta == other.known.delta
        return
    first, second = proven_bracket(plain, rounds=1), proven_bracket(other, rounds=1)
    slack = 1e-9 * min(first.upper, second.upper)  # the data are rounded on the way
    assert first.lower <= second.upper + slack
    assert second.lower <= first.upper + slack


# ---------------------------------------------------------------- the estimator


def tidy_column(seed, classes, features, scale):
    """Rounded centres and a column without scatter, on which some means agree."""
    rng = np.random.default_rng(seed)
    X, y = spoilt(rng, classes, features, "clean column", alone=False, spread=1e-3, rounded=True)
    return scale * X, y, seed


@examples(0.1)
@given(hard_data(), st.booleans())
@example(tidy_column(335, 4, 2, 1e-8), True)  # refined until no scatter was left, and called infinite
@example(tidy_column(77, 5, 3, 1e-8), True)  # means that coincide on the way up
def test_projections_of_any_data(data, refine):
    X, y, _ = data
    family = some_family(*data)
    if family is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # degenerate data are told, and brackets that stay wide
        wlda = WorstCaseLDA(n_components=family.r, refine=refine, time_limit=1.0).fit(X, y)
    W = wlda.components_.T
    np.testing.assert_allclose(W.T @ W, np.eye(family.r), atol=1e-10)
    lower, upper = wlda.delta_bounds_
    # A ratio without bound may be judged by a tolerance, and says so then.
    assert wlda.proven_ or (lower == math.inf and "not proven" in wlda.reason_)
    assert 0.0 <= lower <= upper
    assert 0.0 <= wlda.rounded_ratio_ <= wlda.ratio_
    # Where ratios are vacuous the best W leans on directions with hardly any scatter: digits are lost.
    assert wlda.ratio_ <= upper * (1 + (1e-5 if family.vacuous else 1e-9))
    assert wlda.relaxation_gap_ >= 0.0
    assert np.isfinite(wlda.transform(X)).all()
