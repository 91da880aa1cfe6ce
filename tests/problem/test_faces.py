"""Rows on faces: the quick way comes to the same integers as the plain one, for these faces and no others."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.problem.reductions.faces import Faces
from sdpfeas.problem.reductions.integer_rows import IntegralRows, integral_rows


def symmetric(rng, m, n, size):
    a = rng.integers(-size, size + 1, (m, n, n)) * rng.integers(0, 2, (m, n, n))
    return (a + a.transpose(0, 2, 1)).astype(float)


def problem(rng, size=5, sparse=False):
    """Rows on three kinds of blocks, one of them zero, some bounds open."""
    m, n = 7, 5
    a = symmetric(rng, m, n, size)
    b = rng.integers(-size, size + 1, (m, 4)).astype(float)
    c = rng.integers(-size, size + 1, (m, 2)).astype(float)
    a[2], b[2], c[2] = 0.0, 0.0, 0.0
    low = 6.0 * rng.integers(-3, 4, m)
    a[1], b[1], c[1] = 6.0 * a[1], 12.0 * b[1], 18.0 * c[1]
    high = np.where(np.arange(m) < 4, low, np.inf)
    rows = [sp.csr_array(a.reshape(m, -1)) if sparse else a, b, c]
    return sf.FeasibilityProblem([sf.PSD(n), sf.Nonneg(4), sf.Free(2)], rows, low, high)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("reading", ["stored", "written"])
@pytest.mark.parametrize("seed", range(3))
def test_small_integers_are_read_as_all_numbers_are(monkeypatch, seed, reading, sparse):
    item = problem(np.random.default_rng(seed), sparse=sparse)
    quick = IntegralRows(item, reading)
    monkeypatch.setattr(IntegralRows, "_take_whole", lambda self: False)
    plain = IntegralRows(item, reading)
    assert quick.whole
    assert not plain.whole
    for name in ("scales", "lower", "upper", "firm"):
        assert getattr(quick, name) == getattr(plain, name)
    for b in range(3):
        for i in range(item.m):
            for mine, other in zip(quick.row(b, i), plain.row(b, i), strict=True):
                assert mine.tolist() == other.tolist()


@pytest.mark.parametrize("change", [0.5, 2.0**40, 2.0**60 + 2.0**20])
def test_other_numbers_are_not_taken_for_small_integers(change):
    rng = np.random.default_rng(0)
    rows = symmetric(rng, 3, 4, 5)
    rows[1, 2, 2] = change
    item = sf.FeasibilityProblem([sf.PSD(4)], [rows], np.zeros(3), np.ones(3))
    found = IntegralRows(item, "stored")
    assert not found.whole
    place, values = found.row(0, 1)
    assert int(values[place.tolist().index(10)]) == change * found.scales[1]


@pytest.mark.parametrize("size", [3, 2**20, 2**31, 2**45])
@pytest.mark.parametrize("seed", range(3))
def test_tables_hold_what_rows_are(seed, size):
    rng = np.random.default_rng(seed)
    item = problem(rng, size=3 if size > 2**31 else size)
    whole = Faces.whole(integral_rows(item, "stored"))
    basis = rng.integers(-size, size + 1, (5, 3)).astype(object)
    faces = replace(whole, bases=(basis, np.array([0, 3]), None))
    for b in range(3):
        table = faces.table(b)
        lines = table.toarray() if sp.issparse(table) else table
        for i in range(item.m):
            assert lines[i].tolist() == faces.row(b, i).reshape(-1).tolist()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scale", [1.0, 2.0**-900, 0.1])
def test_an_objective_is_turned_exactly_or_not_at_all(seed, scale):
    rng = np.random.default_rng(seed)
    whole = Faces.whole(integral_rows(problem(rng), "stored"))
    basis = rng.integers(-3, 4, (5, 3)).astype(object)
    faces = replace(whole, bases=(basis, np.array([0, 3]), None))
    terms = (scale * symmetric(rng, 1, 5, 9)[0], np.arange(4.0), np.ones(2))
    fractions = np.vectorize(Fraction, otypes=[object])
    wanted = basis.T.dot(fractions(terms[0])).dot(basis)
    found = faces.terms(terms)
    if found is None:
        assert any(Fraction(float(v)) != v for v in wanted.reshape(-1))
        assert scale == 0.1
    else:
        assert (fractions(found[0]) == wanted).all()
        assert found[1].tolist() == [0.0, 3.0]
        assert found[2].tolist() == [1.0, 1.0]
    assert faces.terms((np.full((5, 5), 1.5e308), *terms[1:])) is None  # beyond all doubles, or rounded


def test_a_problem_on_faces_is_made_once_and_for_these_faces_only():
    item = problem(np.random.default_rng(1))
    whole = Faces.whole(integral_rows(item, "stored"))
    basis = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [2, -1]], dtype=object)
    faces = replace(whole, bases=(basis, *whole.bases[1:]))
    made = faces.reduction
    again = replace(whole, bases=(basis.copy(), *whole.bases[1:]))
    assert again.reduction is made
    # What others do to their arrays afterwards changes nothing of it, nor what it is taken for.
    wanted = basis.copy()
    basis[0, 0] = 5
    assert replace(whole, bases=(wanted, *whole.bases[1:])).reduction is made
    other = replace(whole, bases=(basis, *whole.bases[1:])).reduction
    assert other is not made
    assert not np.array_equal(other.problem.rows[0].array, made.problem.rows[0].array)
    bounds = replace(again, lower=(*again.lower[:-1], None))
    assert bounds.reduction.problem.lower[-1] == -np.inf
