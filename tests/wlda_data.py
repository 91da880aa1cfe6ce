"""Data for discriminant analysis, good and bad, and what tests do with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st

from sdpfeas.drivers.bracket import Bracket
from sdpfeas.errors import ProblemError
from sdpfeas.families import WLDA

#: What may be wrong with features.
KINDS = ("plain", "collinear", "constant", "duplicated", "clean column")


def proven_bracket(family, tol=1e-3, rounds=15):
    """A proven bracket without any backend: the family's own first guesses, refined."""
    bracket = Bracket(family, tol, 1e-9, *family.bracket)
    for point in family.initial_points():
        bracket.offer_point(point)
    for y in family.initial_multipliers():
        bracket.offer_multipliers(y)
        bracket.offer_recovered_points(y)
    for _ in range(rounds):
        bracket.has_new_evidence = True
        bracket.refine()
    assert bracket.lower <= bracket.upper
    return bracket


def blobs(seed=0, classes=3, features=4, samples=8, spread=1.0):
    rng = np.random.default_rng(seed)
    centres = 3.0 * rng.standard_normal((classes, features))
    X = np.concatenate([c + spread * rng.standard_normal((samples, features)) for c in centres])
    return X, np.repeat(np.arange(classes), samples)


def spoilt(rng, classes, features, kind, *, alone=True, spread=1.0, rounded=False):
    """Labelled samples with something wrong in their features, and maybe classes of one sample."""
    sizes = rng.integers(1 if alone else 2, 7, classes)
    centres = rng.standard_normal((classes, features))
    if rounded:
        centres = np.round(centres)  # means that agree in some features
    y = np.repeat(np.arange(classes), sizes)
    X = centres[y] + spread * rng.standard_normal((y.size, features))
    if kind == "collinear":
        X[:, -1] = X[:, 0] - 2.0 * X[:, (features - 1) // 2]
    elif kind == "constant":
        X[:, rng.integers(features)] = 0.1
    elif kind == "duplicated":
        X = np.concatenate([X, X[:1]])
        y = np.append(y, y[0])
        X[y == 1] = X[y == 1][0]
    elif kind == "clean column":
        X[:, 0] = centres[y, 0]
    return X, y


@st.composite
def hard_data(draw):
    """Generated data sets with everything that goes wrong in real ones: samples, labels, a seed."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    X, y = spoilt(
        rng,
        draw(st.integers(2, 8)),
        draw(st.integers(2, 12)),
        draw(st.sampled_from(KINDS)),
        alone=draw(st.booleans()),
        spread=draw(st.sampled_from([1e-3, 1.0, 10.0])),
        rounded=draw(st.booleans()),
    )
    X = X * draw(st.sampled_from([1e-150, 1e-8, 1.0, 1e8, 1e150]))
    if draw(st.booleans()):
        X = X * 10.0 ** rng.uniform(-4, 4, X.shape[1])
    X = X + draw(st.sampled_from([0.0, 1.0, 1e6])) * np.max(np.abs(X))
    return X, y, seed


def some_family(X, y, seed, formulation="compact"):
    """The family with some final dimension; None where nothing varies."""
    rng = np.random.default_rng(seed)
    if np.all(np.ptp(X, axis=0) <= 8.0 * np.finfo(float).eps * np.max(np.abs(X), axis=0)):
        with pytest.raises(ProblemError, match="constant"):
            WLDA.from_data(X, y)
        return None
    rank = WLDA.from_data(X, y).rank
    return WLDA.from_data(X, y, int(rng.integers(1, rank + 1)), formulation=formulation)
