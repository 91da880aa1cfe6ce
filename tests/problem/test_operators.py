"""Rows: every storage kind against rational arithmetic done without it."""

import copy
import pickle
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from strategies import MATRIX_KINDS, SEEDS, VECTOR_KINDS, exact, examples, make_rows, samples, total

import sdpfeas as sf
from sdpfeas.numerics.rounding import gamma
from sdpfeas.problem.rows import (
    Combined,
    Dense,
    LowRank,
    PairwiseDifference,
    Rows,
    Sparse,
    Stacked,
    as_rows,
    rows_from_state,
)

KINDS = [(kind, True) for kind in MATRIX_KINDS] + [(kind, False) for kind in VECTOR_KINDS]


def arguments(sample, rng, wild=0.0):
    """A symmetric x and a y with some zeros."""

    def numbers(shape):
        values = rng.normal(size=shape) * 10.0 ** rng.uniform(-wild, wild, size=shape)
        return np.where(rng.random(shape) < 0.3, 0.0, values)

    x = numbers(sample.rows.shape)
    if sample.rows.matrix:
        x = np.triu(x) + np.triu(x, 1).T
    return x, numbers(sample.rows.m)


def floats(values):
    return values.astype(np.float64)


@given(samples(), SEEDS)
def test_apply_and_adjoint_agree_with_the_reference(sample, seed):
    x, y = arguments(sample, np.random.default_rng(seed))
    flat, size = sample.values.reshape(sample.rows.m, -1), sample.magnitude.reshape(sample.rows.m, -1)
    # Means are centred first, so the size of the means counts, not only that of their differences.
    extra = 1e-12 * (1 + np.abs(x).sum()) if sample.rows.m else 0.0
    value = sample.rows.apply(x)
    assert value.shape == (sample.rows.m,)
    assert np.all(
        np.abs(value - floats(flat @ exact(x).ravel()))
        <= 1e-13 * floats(size @ abs(exact(x)).ravel()) + extra
    )
    gradient = sample.rows.adjoint(y)
    assert gradient.shape == sample.rows.shape
    if sample.rows.matrix:
        assert np.array_equal(gradient, gradient.T)
    assert np.allclose(gradient.ravel(), floats(exact(y) @ flat), atol=1e-12 * (1 + np.abs(y).sum()))


@given(samples(), SEEDS)
def test_adjoint_identity(sample, seed):
    x, y = arguments(sample, np.random.default_rng(seed))
    size = float(total(sample.magnitude)) + 1.0
    left, right = sample.rows.apply(x) @ y, np.vdot(x, sample.rows.adjoint(y))
    assert left == pytest.approx(right, abs=1e-12 * size * np.abs(x).sum() * np.abs(y).sum() + 1e-300)


@given(samples(wild=30.0))
def test_exact_rows_are_exact(sample):
    for i in range(sample.rows.m):
        assert np.array_equal(sample.rows.exact_row(i), sample.values[i])


@given(samples())
def test_norms(sample):
    squared = [total(row * row) for row in sample.values]
    bound = [total(row * row) for row in sample.magnitude]
    norms = sample.rows.norms()
    # Norms of combinations come from a Gram matrix: half the digits are lost to cancellation.
    slack = 1e-7 if sample.rows.kind in ("combined", "stacked") else 1e-13
    assert np.allclose(
        norms,
        np.sqrt(floats(np.array(squared))),
        rtol=1e-12,
        atol=slack * np.sqrt(float(max(bound)) + 1e-300),
    )
    for upper, exact_square in zip(_upper_norms(sample.rows), squared, strict=True):
        assert Fraction(upper) ** 2 >= exact_square


def _upper_norms(rows):
    block = sf.PSD(rows.n) if rows.matrix else sf.Free(rows.n)
    problem = sf.FeasibilityProblem([block], [rows], np.zeros(rows.m), np.zeros(rows.m))
    return problem.upper_norms[0].tolist()


@given(samples(wild=30.0))
def test_norms_of_wild_scale(sample):
    for norm, upper, row in zip(sample.rows.norms(), _upper_norms(sample.rows), sample.values, strict=True):
        squared = total(row * row)
        assert Fraction(upper) ** 2 >= squared
        assert (squared == 0) or (upper > 0.0)
        assert norm <= upper


@given(samples())
def test_gram(sample):
    flat = sample.values.reshape(sample.rows.m, -1)
    size = float(total(sample.magnitude)) ** 2 + 1.0
    assert np.allclose(sample.rows.gram(), floats(flat @ flat.T), rtol=0, atol=1e-13 * size)


@examples(2)
@given(samples(wild=30.0))
def test_gram_is_as_accurate_as_it_says(sample):
    """The verifier relies on this bound, also where scales are wild."""
    flat = sample.values.reshape(sample.rows.m, -1)
    error, sizes = gamma(sample.rows.gram_depth), sample.rows.norms_upper
    gap = exact(sample.rows.gram()) - flat @ flat.T
    for i, j in np.ndindex(gap.shape):
        assert abs(gap[i, j]) <= Fraction(error * sizes[i] * sizes[j] * (1 + 1e-12))


@given(samples(wild=30.0), SEEDS)
def test_select(sample, seed):
    rng = np.random.default_rng(seed)
    index = rng.integers(sample.rows.m, size=rng.integers(0, 5))
    if rng.random() < 0.5:
        index = np.unique(index)
    chosen = sample.rows.select(index)
    assert (chosen.m, chosen.shape) == (index.size, sample.rows.shape)
    for k, i in enumerate(index):
        assert np.array_equal(chosen.exact_row(k), sample.values[i])
    assert chosen.apply(np.ones(chosen.shape)).shape == chosen.norms().shape == (index.size,)
    assert chosen.adjoint(np.ones(index.size)).shape == chosen.shape
    assert chosen.gram().shape == (index.size, index.size)
    mask = rng.random(sample.rows.m) < 0.5
    masked = sample.rows.select(mask)
    assert masked.m == mask.sum()
    for k, i in enumerate(np.flatnonzero(mask)):
        assert np.array_equal(masked.exact_row(k), sample.values[i])


@given(samples(wild=30.0), SEEDS)
def test_scaling_by_powers_of_two_is_exact(sample, seed):
    factors = 2.0 ** np.random.default_rng(seed).integers(-60, 60, size=sample.rows.m)
    scaled = sample.rows.scaled(factors)
    for i, factor in enumerate(factors):
        assert np.array_equal(scaled.exact_row(i), Fraction(factor) * sample.values[i])


@examples(6)
@given(samples(wild=30.0), SEEDS, st.sampled_from([0.0, 5.0, 30.0]))
def test_enclosures_hold_and_spare_structural_zeros(sample, seed, wild):
    x, y = arguments(sample, np.random.default_rng(seed), wild)
    _check_enclosures(sample, x, y)


@examples(2)
@given(samples(), SEEDS)
def test_enclosures_are_tight_on_tame_data(sample, seed):
    x, y = arguments(sample, np.random.default_rng(seed))
    _, radius = sample.rows.enclose_apply(x)
    size = np.tensordot(sample.magnitude.reshape(sample.rows.m, -1), abs(exact(x)).ravel(), 1)
    assert np.all(radius <= 1e-14 * floats(size))
    _, radius = sample.rows.enclose_adjoint(y)
    assert np.all(radius <= 1e-14 * floats(np.tensordot(abs(exact(y)), sample.magnitude, 1)))


@examples(2)
@given(samples(wild=150.0), SEEDS)
def test_enclosures_hold_where_products_underflow_or_overflow(sample, seed):
    x, y = arguments(sample, np.random.default_rng(seed), 150.0)
    with np.errstate(all="ignore"):
        _check_enclosures(sample, x, y, zeros=False)


def _check_enclosures(sample, x, y, zeros=True):
    rows, flat = sample.rows, sample.values.reshape(sample.rows.m, -1)
    size = sample.magnitude.reshape(sample.rows.m, -1)
    cases = [
        (rows.enclose_apply(x), flat @ exact(x).ravel(), size @ abs(exact(x)).ravel()),
        (rows.enclose_adjoint(y), exact(y) @ flat, abs(exact(y)) @ size),
    ]
    for (value, radius), truth, magnitude in cases:
        for v, r, t, s in zip(value.ravel(), radius.ravel(), truth, magnitude, strict=True):
            if not (np.isfinite(v) and np.isfinite(r)):
                assert not zeros  # what overflows is refused by the verifier
                continue
            assert abs(Fraction(v) - t) <= Fraction(r)
            if zeros and s == 0:
                assert v == 0.0
                assert r == 0.0


@examples(4)
@given(samples(wild=30.0), SEEDS)
def test_stable_products_are_as_accurate_as_they_say(sample, seed):
    """Of every kind, composed ones too: they are what the enclosures enclose."""
    rows, flat = sample.rows, sample.values.reshape(sample.rows.m, -1)
    size = sample.magnitude.reshape(sample.rows.m, -1)
    x, y = arguments(sample, np.random.default_rng(seed), 5.0)
    cases = [
        (
            rows.stable_apply(x),
            rows.enclose_apply(x)[0],
            flat @ exact(x).ravel(),
            size @ abs(exact(x)).ravel(),
        ),
        (rows.stable_adjoint(y), rows.enclose_adjoint(y)[0], exact(y) @ flat, abs(exact(y)) @ size),
    ]
    for depth, (value, enclosed, right, sizes) in zip(rows.depths, cases, strict=True):
        assert np.array_equal(value, enclosed)
        for v, t, s in zip(value.ravel(), right, sizes, strict=True):
            assert abs(Fraction(v) - t) <= Fraction(gamma(depth)) * s
    point = (x,)
    block = sf.PSD(rows.n) if rows.matrix else sf.Free(rows.n)
    problem = sf.FeasibilityProblem([block], [rows], np.zeros(rows.m), np.zeros(rows.m))
    assert np.array_equal(problem.stable_apply(point), rows.stable_apply(x))


def test_a_new_kind_of_rows_has_to_answer_for_every_product():
    asked = {"stable_apply", "stable_adjoint", "magnitude_apply", "magnitude_adjoint", "depths", "units"}
    assert asked <= Rows.__abstractmethods__


@given(samples(wild=140.0))
def test_units_are_the_rows_but_for_powers_of_two(sample):
    """Numbers far below the largest of a row may be lost, by less than the smallest normal number."""
    units, exponents = sample.rows.units()
    for i, power in enumerate(exponents.tolist()):
        if not sample.magnitude[i].any():
            assert not units.exact_row(i).any()
            continue
        gap = abs(units.exact_row(i) * Fraction(2) ** power - sample.values[i])
        rounding = Fraction(2) ** -50 if sample.rows.kind != "dense" else 0
        lost = 100 * Fraction(2.0**-1022) * Fraction(2) ** power
        assert np.all(gap <= rounding * sample.magnitude[i] + lost)
        assert max(abs(v) for v in units.exact_row(i).ravel()) < 2**110


def test_enclosures_see_underflow():
    """A product that vanishes in floating point but not in truth must not be enclosed by nothing."""
    tiny = Combined([[1e-200]], Dense([[1e-200]]))
    for value, radius in (tiny.enclose_apply(np.ones(1)), tiny.enclose_adjoint(np.ones(1))):
        assert value == 0.0
        assert radius > 0.0
    huge = LowRank([[1e100]], [[1e-300]])
    assert np.isfinite(huge.enclose_apply(np.eye(1))[1]).all()
    for rows in (LowRank([[1e200]]), Dense([[[1e200]]])):
        with np.errstate(all="ignore"):
            rows.enclose_apply(np.array([[1e200]]))  # not OverflowError


def test_enclosures_of_combinations_see_cancellation():
    """The sum of the weights is 40; floating point says 0."""
    weights = np.concatenate([[1e16], np.ones(40), [-1e16]])
    one, k = Dense([[1.0]]), weights.size
    for value, radius in (
        Combined(weights.reshape(k, 1), one).enclose_adjoint(np.ones(k)),
        Combined(weights.reshape(1, k), Stacked([one] * k)).enclose_apply(np.ones(1)),
        Stacked([Dense([[w]]) for w in weights]).enclose_adjoint(np.ones(k)),
    ):
        assert abs(value[0] - 40.0) <= radius[0] <= 1000.0


def test_norms_see_underflow_and_overflow():
    block = np.array([[3.0, 0.0], [0.0, 4.0]])
    for size in (1e-300, 1e-200, 1e200, 1e300):
        for rows in (
            Dense([size * block]),
            Sparse(sp.csr_array(size * block.reshape(1, 4)), 2),
            Combined([[1.0, 0.0]], Dense([size * block, block])),
        ):
            assert rows.norms()[0] == pytest.approx(5 * size, rel=1e-12)
        root = np.sqrt(size)
        assert LowRank([[3 * root, 4 * root]]).norms()[0] == pytest.approx(25 * size, rel=1e-12)
        pair = PairwiseDifference([[0.0, 0.0], [3 * root, 4 * root]])
        assert pair.norms()[0] == pytest.approx(25 * size, rel=1e-12)


@pytest.mark.parametrize(("kind", "matrix"), KINDS)
def test_state_pickle_and_copy_round_trip(kind, matrix):
    rows = make_rows(kind, 3, 3, np.random.default_rng(0), matrix=matrix).rows
    again = [rows_from_state(rows.kind, *rows.state()), pickle.loads(pickle.dumps(rows)), copy.deepcopy(rows)]
    for other in again:
        assert type(other) is type(rows)
        assert (other.m, other.n, other.matrix) == (rows.m, rows.n, rows.matrix)
        for i in range(rows.m):
            assert np.array_equal(other.exact_row(i), rows.exact_row(i))
        _assert_frozen(other)
    assert rows.kind in repr(rows)


def _assert_frozen(rows):
    _, arrays, children = rows.state()
    for array in arrays.values():
        assert not array.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.setflags(write=True)
    for name in ("m", "n", "matrix"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(rows, name, 1)
        with pytest.raises(AttributeError, match="immutable"):
            delattr(rows, name)
    for child in children:
        _assert_frozen(child)


@pytest.mark.parametrize(("kind", "matrix"), KINDS)
def test_rows_are_immutable(kind, matrix):
    _assert_frozen(make_rows(kind, 3, 3, np.random.default_rng(1), matrix=matrix).rows)


def test_sparse_arrays_handed_out_do_not_lead_back():
    rows = Sparse(sp.csr_array([[1.0, 0.0, 0.0, 2.0]]), 2)
    combined = Combined([[1.0]], rows)
    for handed in (rows.array, combined.coefficients):
        with pytest.raises(ValueError, match="read-only"):
            handed.data[0] = 7.0
        handed.data = np.array([7.0, 7.0])[: handed.nnz]
    assert rows.exact_row(0).tolist() == [[1, 0], [0, 2]]
    assert combined.exact_row(0).tolist() == [[1, 0], [0, 2]]


def test_rows_do_not_follow_the_arrays_they_came_from():
    dense, means, factors = np.ones((1, 2, 2)), np.eye(2), np.ones((1, 2))
    sparse = sp.csr_array(np.ones((1, 4)))
    kinds = [Dense(dense), Sparse(sparse, 2), PairwiseDifference(means), LowRank(factors)]
    before = [rows.exact_row(0).tolist() for rows in kinds]
    for array in (dense, means, factors, sparse.data):
        array[...] = 5.0
    assert [rows.exact_row(0).tolist() for rows in kinds] == before


def test_rounding_asymmetry_is_evened_out():
    skewed = np.array([[1.0, 2.0], [2.0 + 1e-12, 1.0]])
    for rows in (Dense([skewed]), Sparse(sp.csr_array(skewed.reshape(1, 4)), 2)):
        row = rows.exact_row(0)
        assert row[0, 1] == row[1, 0]
        assert float(row[0, 1]) == pytest.approx(2.0 + 5e-13, abs=1e-15)


def test_the_smallest_numbers_are_kept():
    assert Dense([[[5e-324]]]).exact_row(0)[0, 0] == Fraction(5e-324)


def test_duplicate_sparse_entries_add_up():
    rows = Sparse(sp.coo_array(([1.0, 2.0, -3.0, 3.0], ([0, 0, 0, 0], [0, 0, 3, 3])), shape=(1, 4)), 2)
    assert rows.exact_row(0).tolist() == [[3, 0], [0, 0]]
    assert rows.array.nnz == 1


def test_nothing_is_densified():
    """One dense copy of these rows would take 300 MB."""
    n, m = 200, 1000
    rng = np.random.default_rng(0)
    diagonal = np.arange(m) % n * (n + 1)
    x, y = np.eye(n), rng.normal(size=m)
    tracemalloc.start()
    try:
        low = LowRank(rng.normal(size=(m, n)))
        pairs = PairwiseDifference(rng.normal(size=(46, n)))
        wide = Sparse(sp.csr_array((np.ones(m), (np.arange(m), diagonal)), (m, n * n)), n)
        combined = Combined(sp.eye_array(m) + sp.eye_array(m, k=1), low)
        for rows in (low, pairs, wide, combined, Stacked([low.select(range(10)), pairs])):
            weights = y[np.arange(rows.m) % m]
            assert rows.apply(x) @ weights == pytest.approx(np.vdot(x, rows.adjoint(weights)), rel=1e-9)
            rows.enclose_apply(x), rows.enclose_adjoint(weights), rows.norms(), rows.scaled(weights)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100e6


def test_as_rows_reads_every_form():
    block = sf.PSD(2)
    eye = np.eye(2)
    assert as_rows(None, block, 3).empty
    assert as_rows(None, block, 3).m == 3
    assert as_rows([eye], block, 1).kind == "dense"
    assert as_rows(sp.coo_matrix(eye.reshape(1, 4)), block, 1).kind == "sparse"
    low = LowRank(eye)
    assert as_rows(low, block, 2) is low
    assert as_rows(sp.csr_array(eye), sf.Free(2), 2).shape == (2,)
    assert as_rows(np.ones((3, 2), dtype=np.int8), sf.Nonneg(2), 3).m == 3


def test_stacked_select_keeps_parts():
    rows = Stacked([Dense([np.eye(2)]), LowRank([[1.0, 2.0]]), Dense([2 * np.eye(2)])])
    assert rows.select([0, 2]).kind == "stacked"
    assert rows.select([1]).kind == "low-rank"
    assert rows.select([2, 0]).kind == "combined"


@pytest.mark.parametrize(("block", "shape"), [(sf.PSD(3), (3, 3)), (sf.Nonneg(3), (3,))])
def test_a_block_that_no_row_touches_has_zero_rows(block, shape):
    problem = sf.FeasibilityProblem([sf.Free(1), block], [np.ones((4, 1)), None], np.zeros(4), np.ones(4))
    rows = problem.rows[1]
    x, y = np.ones(shape), np.ones(4)
    assert rows.empty
    assert not problem.rows[0].empty
    for product in (rows.apply, rows.stable_apply, rows.magnitude_apply, rows.magnitude_apply_upper):
        assert np.array_equal(product(x), np.zeros(4))
    for product in (rows.adjoint, rows.stable_adjoint, rows.magnitude_adjoint, rows.magnitude_adjoint_upper):
        assert np.array_equal(product(y), np.zeros(shape))
    assert not np.any(rows.enclose_apply(x))
    assert not np.any(rows.enclose_adjoint(y))
    assert not np.any(rows.norms())
    assert not np.any(rows.norms_upper)
    assert not np.any(rows.gram())
    assert rows.entries == 0.0
    assert rows.exact_terms(1) == {}
    assert rows.select([1, 2]).m == 2
    assert rows.scaled(y).empty
    assert pickle.loads(pickle.dumps(rows)).shape == shape
    # Composed rows store zeros, since files know no empty part.
    assert [part.kind for part in Stacked([rows, rows.select([0])]).parts] == ["sparse", "sparse"]
    assert Combined(np.eye(4), rows).base.kind == "sparse"
    # What was written before zero rows had a type of their own is the same problem.
    assert sf.FeasibilityProblem(problem.sets, problem.rows, problem.lower, problem.upper) == problem
    given = sf.FeasibilityProblem([block], [None], [], [])
    assert given.rows[0].m == 0
