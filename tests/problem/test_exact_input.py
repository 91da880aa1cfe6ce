"""Problem data reach the verifier as they were given: what no double can hold is refused, not rounded."""

import math
from collections import deque
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import sdpfeas as sf
from sdpfeas.families import MaxCut, ParametricFamily
from sdpfeas.problem.rows import Combined, Dense, LowRank, PairwiseDifference, Sparse

ODD = 2**53 + 1
LONG = np.longdouble(1) + np.finfo(np.longdouble).eps
wide = pytest.mark.skipif(LONG == 1 or float(LONG) == LONG, reason="long doubles are doubles here")


def rows(values) -> sf.FeasibilityProblem:
    return sf.FeasibilityProblem([sf.Nonneg(1)], [values], [0.0], [1.0])


def bounds(value) -> sf.FeasibilityProblem:
    return sf.FeasibilityProblem([sf.Nonneg(1)], [[[1.0]]], [value], [value])


def built(value=1.0, **kwargs) -> sf.FeasibilityProblem:
    builder = sf.ProblemBuilder()
    builder.block("t", sf.Nonneg(1))
    builder.row("r", {"t": [value]}, **kwargs)
    return builder.build()


def family(bound) -> ParametricFamily:
    return ParametricFamily([sf.Nonneg(1)], [[[1.0]]], [None], [bound], [math.inf], monotone="as it is")


REFUSED = {
    "int64 rows": lambda: rows(np.array([[ODD]])),
    "uint64 rows": lambda: rows(np.array([[2**64 - 1]], dtype=np.uint64)),
    "negative int64 rows": lambda: rows(np.array([[-ODD]])),
    "Python integers": lambda: rows([[ODD]]),
    "integers beyond 64 bits": lambda: rows([[2**70]]),
    "fractions in rows": lambda: rows([[Fraction(1, 3)]]),
    "decimals in rows": lambda: rows([[Decimal("0.1")]]),
    "int64 bounds": lambda: bounds(ODD),
    "fraction bounds": lambda: bounds(Fraction(1, 3)),
    "a built integer bound": lambda: built(equal=ODD),
    "a built int64 bound": lambda: built(equal=np.int64(ODD)),
    "a built array bound": lambda: built(equal=np.array(ODD)),
    "a built fraction bound": lambda: built(upper=Fraction(1, 3)),
    "a built decimal bound": lambda: built(lower=Decimal("0.1")),
    "built coefficients": lambda: built(ODD),
    "a box": lambda: sf.SpectralBox(2, 0, Fraction(1, 3)),
    "a trace": lambda: sf.SpectralBox(3, trace=Decimal("0.1")),
    "a trace of int64": lambda: sf.SpectralBox(1, 0, 2.0**60, trace=np.int64(ODD)),
    "sparse int64": lambda: rows(sp.csr_array(np.array([[ODD]]))),
    "sparse int64, by coordinates": lambda: rows(sp.coo_array(([ODD], ([0], [0])), shape=(1, 1))),
    "sparse int64, by keys": lambda: rows(sp.dok_array(np.array([[ODD]]))),
    "sparse int64, by lists": lambda: rows(sp.lil_array(np.array([[ODD]]))),
    "factors": lambda: LowRank([[ODD]]),
    "signs": lambda: LowRank([[1.0]], signs=[[ODD]]),
    "stacked factors": lambda: LowRank.from_stacked(np.array([[ODD]]), [1.0], [0], 1),
    "means": lambda: PairwiseDifference(np.array([[ODD], [0]])),
    "coefficients": lambda: Combined(np.array([[ODD]]), Dense([[1.0]])),
    "bounds of a family": lambda: family(ODD),
    "delta": lambda: family(0.0).at(Fraction(1, 3)),
    "weights of a graph": lambda: MaxCut(np.array([[0, ODD], [ODD, 0]])),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_be_rounded_is_refused(what):
    with pytest.raises(sf.ProblemError, match=r"rounded|real array"):
        REFUSED[what]()


def test_integers_among_floats_are_looked_at_too():
    """NumPy makes doubles of such a list before anybody sees it."""
    for mixed in ([ODD, 0.5], (ODD, 0.5), deque([ODD, 0.5]), [np.int64(ODD), 0.5], [np.array(ODD), 0.5]):
        with pytest.raises(sf.ProblemError, match="9007199254740993"):
            sf.FeasibilityProblem([sf.Nonneg(2)], [[mixed]], [0.0], [1.0])
    with pytest.raises(sf.ProblemError, match="9007199254740993"):
        sf.FeasibilityProblem([sf.PSD(1)], [[np.array([[ODD]]), np.eye(1)]], [0.0] * 2, [1.0] * 2)
    with pytest.raises(sf.ProblemError, match="9223372036854775809"):
        sf.FeasibilityProblem([sf.Nonneg(2)], [[[2**63 + 1, -1]]], [0.0], [1.0])


@wide
def test_long_doubles_are_refused_where_they_say_more():
    for action in (
        lambda: rows(np.array([[LONG]])),
        lambda: rows([[LONG]]),
        lambda: rows(sp.csr_array(np.array([[LONG]]))),
        lambda: bounds(LONG),
        lambda: built(equal=LONG),
        lambda: sf.SpectralBox(2, 0, LONG),
        lambda: rows(np.array([[np.longdouble(2) ** 2000]])),
        lambda: rows(np.array([[np.longdouble(2) ** -2000]])),
    ):
        with pytest.raises(sf.ProblemError, match="rounded"):
            action()


def test_numbers_that_fit_are_taken_as_they_are():
    big = 2**60 + 2**10
    for values in (
        np.array([[big]]),
        [[big]],
        np.array([[big]], dtype=np.uint64),
        np.array([[big]], dtype=np.longdouble),
        sp.csr_array(np.array([[big]])),
    ):
        assert rows(values).rows[0].exact_row(0)[0] == big
    assert rows(np.array([[2**63]], dtype=np.uint64)).rows[0].exact_row(0)[0] == 2**63
    assert built(equal=Fraction(1, 4)).lower[0] == built(equal=Decimal("0.25")).lower[0] == 0.25
    assert built(equal=big).lower[0] == built(equal=np.int64(big)).lower[0] == big
    assert bounds(np.float32(0.1)).lower[0] == float(np.float32(0.1))
    assert math.isinf(built(lower=-np.longdouble("inf")).lower[0])


def test_claims_may_be_rounded():
    """They are checked as they are stored, so nothing false can come of it."""
    problem = sf.FeasibilityProblem([sf.Nonneg(1)], [[[1.0]]], [0.0], [2.0**60])
    check = sf.verify(problem, sf.Claim(point=([ODD],)), exact=True)
    assert check.verdict == "feasible"
    assert check.point[0][0] == 2.0**53


# ---------------------------------------------------------------- sums


def test_entries_given_twice_are_added_up_exactly():
    place = ([0, 0, 0], [0, 0, 0])
    exact = Sparse(sp.coo_array(([1e16, 1.0, -1e16], place), shape=(1, 1)), 1, matrix=False)
    assert exact.exact_row(0)[0] == 1
    for values in ([0.1, 0.2, 0.3], [1.0, 2.0**-60, 0.0], [1.7e308, 1.7e308, 0.0]):
        with pytest.raises(sf.ProblemError, match=r"row 0.*more than once.*rounded"):
            Sparse(sp.coo_array((values, place), shape=(1, 1)), 1, matrix=False)


def test_notes_of_scipy_are_not_believed():
    twice = sp.csr_array(([0.1, 0.2], [0, 0], [0, 2]), shape=(1, 1))
    twice.has_canonical_format = True
    with pytest.raises(sf.ProblemError, match=r"row 0.*more than once.*rounded"):
        Sparse(twice, 1, matrix=False)
    mixed = sp.csr_array(([1.0, 2.0, 3.0, 0.0], [2, 0, 1, 2], [0, 2, 4]), shape=(2, 3))
    mixed.has_canonical_format = True
    rows = Sparse(mixed, 3, matrix=False)
    assert rows.array.indices.tolist() == [0, 2, 1]
    assert rows.array.data.tolist() == [2.0, 1.0, 3.0]


def test_entries_of_a_file_given_twice_are_added_up_exactly(tmp_path):
    path = tmp_path / "twice.dat-s"
    text = "1\n1\n1\n1.0\n{k} 1 1 1 {a}\n{k} 1 1 1 {b}\n"
    for k, side in ((1, "primal"), (1, "lmi"), (0, "lmi")):
        path.write_text(text.format(k=k, a="0.25", b="0.5"))
        problem = sf.read_sdpa(path, side)
        if side == "primal":
            found = problem.rows[0].exact_row(0)
        elif k == 0:
            found = -problem.lmis[0].constant
        else:
            found = problem.lmis[0].coefficients[0].exact_row(0)
        assert found.ravel()[0] == 0.75
        path.write_text(text.format(k=k, a="0.1", b="0.2"))
        with pytest.raises(sf.FileFormatError, match=r"line 6, column 9: .*more than once.*rounded"):
            sf.read_sdpa(path, side)


# ---------------------------------------------------------------- symmetric matrices

NEXT = math.nextafter(0.1, 1.0)


def skewed(a: float, b: float):
    matrix = np.array([[1.0, a], [b, 1.0]])
    return [lambda: Dense([matrix]), lambda: Sparse(sp.csr_array(matrix.reshape(1, 4)), 2)]


@pytest.mark.parametrize(
    ("a", "b"), [(0.1, NEXT), (NEXT, 0.1), (5e-324, 0.0), (0.0, 5e-324), (1e-11, 0.1e-11)]
)
def test_a_mean_that_would_be_rounded_is_refused(a, b):
    for make in skewed(a, b):
        with pytest.raises(sf.ProblemError, match=r"row 0.*up to rounding.*pass \(A \+ A'\) / 2"):
            make()


@given(st.floats(0.25, 0.5), st.integers(-8, 8))
def test_a_matrix_that_is_nearly_symmetric_stands_for_its_mean(a, steps):
    b = a + steps * 2.0**-54
    mean = (Fraction(a) + Fraction(b)) / 2
    for make in skewed(a, b):
        if float(mean) == mean:
            assert make().exact_row(0)[0, 1] == make().exact_row(0)[1, 0] == mean
        else:
            with pytest.raises(sf.ProblemError, match="up to rounding"):
                make()


def test_the_verdict_on_a_nearly_symmetric_row_is_not_decided_by_rounding():
    """The mean is 0.1 and half a unit; rounded to 0.1, the row would agree with the other."""
    a, b = np.array([[0.0, 0.1], [NEXT, 0.0]]), np.array([[0.0, 0.1], [0.1, 0.0]])
    with pytest.raises(sf.ProblemError, match=r"block 0, row 0: .*up to rounding"):
        sf.FeasibilityProblem([sf.PSD(2)], [[a, b]], [1.0, 1.0], [1.0, 1.0])
