"""Gram matrices in single precision: accurate at any scale, and used only where possible."""

from __future__ import annotations

import numpy as np
import pytest

from sdpfeas.backends.ipm import transformed_rows
from sdpfeas.backends.ipm.transformed_rows import (
    low_rank_weights,
    rank_one_gram,
    transform_rows,
    weighted_gram,
)
from sdpfeas.problem.rows import Dense, LowRank, Rows, Stacked


def rows_of(rng: np.random.Generator, n: int, size: float) -> Rows:
    root = rng.standard_normal((2, n, n))
    return Stacked(
        [
            LowRank(size * rng.standard_normal((5, n))),
            LowRank([rng.standard_normal((3, n)), rng.standard_normal((1, n))]),
            Dense(root @ np.swapaxes(root, 1, 2)),
        ]
    )


@pytest.mark.parametrize("size", [1.0, 1e-60, 1e60])
def test_near_the_full_one_at_any_scale(size: float) -> None:
    rng = np.random.default_rng(0)
    n = 12
    image = transform_rows(rows_of(rng, n, size), rng.standard_normal((n, n)))
    ratio = np.geomspace(1e-6, 1e6, n)
    kernel, extra = 1.0 + np.outer(ratio, ratio), [np.eye(n)]
    full, mixed = weighted_gram(image, kernel, extra)
    rough, known = weighted_gram(image, kernel, extra, single_precision=True)
    unit = np.sqrt(np.diagonal(full))
    assert 0.0 < np.max(np.abs(rough - full) / np.outer(unit, unit)) < 1e-5
    np.testing.assert_allclose(known, mixed, rtol=1e-10, err_msg="what a system is solved for stays in full")


def test_rows_without_a_positive_trace_are_summed_up_in_full() -> None:
    rng = np.random.default_rng(1)
    rows = Stacked([LowRank(rng.standard_normal((3, 6))), LowRank([np.eye(6)[:2]], [[1.0, -1.0]])])
    image, kernel = transform_rows(rows, np.eye(6)), np.full((6, 6), 2.0)
    assert np.array_equal(
        weighted_gram(image, kernel, single_precision=True)[0], weighted_gram(image, kernel)[0]
    )


@pytest.mark.parametrize("size", [1.0, 1e-60, 1e60])
def test_few_terms_of_the_kernel_do_for_many_rows(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    n = 80
    scatters = LowRank(list(rng.standard_normal((6, 2, n))), list(rng.uniform(0.5, 2.0, (6, 2))))
    rows = Stacked([LowRank(size * rng.standard_normal((40, n))), Dense(np.eye(n)[None]), scatters])
    image = transform_rows(rows, rng.standard_normal((n, n)))
    ratio = np.geomspace(1e-4, 1e3, n)
    kernel = 1.0 + np.outer(ratio, ratio)
    full = weighted_gram(image, kernel)[0]
    monkeypatch.setattr(transformed_rows, "_gram_by_strips", None)  # would take all entries
    rough = weighted_gram(image, kernel, single_precision=True)[0]
    unit = np.sqrt(np.diagonal(full))
    assert 0.0 < np.max(np.abs(rough - full) / np.outer(unit, unit)) < 1e-5


@pytest.mark.parametrize("accuracy", [1e-2, 1e-5, 1e-9])
def test_terms_keep_what_they_promise(accuracy: float) -> None:
    rng = np.random.default_rng(3)
    n = 60
    vectors = rng.standard_normal((30, n)) * np.geomspace(1e-2, 1e2, n)
    ratio = rng.permutation(np.geomspace(1e-5, 1e4, n))
    weight = 1.0 / (1.0 + np.outer(ratio, ratio))
    terms, adding = low_rank_weights(weight, vectors, accuracy)
    assert 0 < adding < len(terms) < n
    products = vectors[:, None] * vectors
    exact = np.einsum("abi,ij,abj->ab", products, weight, products, optimize=True)
    unit = np.sqrt(np.diagonal(exact))
    found = rank_one_gram(vectors, terms, adding)
    assert np.array_equal(found, found.T)
    assert np.max(np.abs(found - exact) / np.outer(unit, unit)) <= accuracy
