"""Problems of the numbers that others stand for: the same points, in doubles, or a word on why not."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import sdpfeas as sf
from sdpfeas.numerics.exact_arithmetic import written
from sdpfeas.problem.reductions.decimal_data import read_as, read_terms

READ = {"stored": Fraction, "written": written}

values = st.one_of(
    st.integers(-20, 20).map(float),
    st.fractions(-5, 5, max_denominator=30).map(float),
    st.fractions(-5, 5, max_denominator=30).map(lambda f: float(f"{float(f):.13g}")),
    st.integers(-999, 999).map(lambda k: k / 100),
)


@given(st.lists(values, min_size=8, max_size=8), st.sampled_from(["stored", "written"]))
def test_rows_are_multiples_of_what_they_stand_for(numbers: list[float], reading: Any) -> None:
    """In fractions, bounds and storage of every kind included."""
    read = READ[reading]
    a, b = np.array(numbers[:4]).reshape(2, 2), np.array(numbers[4:6])
    bound = np.sort(numbers[6:])
    symmetric = np.array([[[a[0, 0], a[0, 1]], [a[0, 1], a[1, 1]]]])
    kinds = [symmetric, sf.LowRank(b[None]), sp.csr_array(a[:1])]
    problem = sf.FeasibilityProblem([sf.PSD(2), sf.PSD(2), sf.Nonneg(2)], kinds, bound[:1], bound[1:])
    try:
        found = read_as(problem, reading)
    except sf.ProblemError:
        # Squares of long decimals, as they are in low-rank rows, beside other numbers.
        assert reading != "stored"
        assert any(written(v).denominator > 10**9 for v in numbers[4:6])
        return
    pairs = [(float(found.problem.lower[0]), bound[0]), (float(found.problem.upper[0]), bound[1])]
    made = [Fraction(v) for v, _ in pairs]
    asked = [read(float(v)) for _, v in pairs]
    for new, rows in zip(found.problem.rows, problem.rows, strict=True):
        assert not new.empty
        assert not rows.empty
        made += new.exact_row(0).reshape(-1).tolist()
        asked += rows.exact_row(0, read).reshape(-1).tolist()
    scale = next((a / b for a, b in zip(made, asked, strict=True) if b), Fraction(1))
    assert scale > 0
    assert made == [scale * b for b in asked]
    for new, end in pairs:
        assert float(Fraction(new) / scale) == pytest.approx(end, abs=1e-11)
    assert found.factors[0] == pytest.approx(float(scale)) or not any(asked)
    assert bool(found.example) == (found.problem is not problem)


def test_lmis_are_multiples_of_what_they_stand_for() -> None:
    constant, slope = np.array([[0.1, 0.0], [0.0, 0.25]]), np.array([[[1 / 3, 0.0], [0.0, 0.5]]])
    lmi = sf.LMI(sf.PSD(2), constant, [slope], name="bound")
    problem = sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[lmi])
    found = read_as(problem, "written")
    made = found.problem.lmis[0]
    assert np.array_equal(made.constant, [[1.5, 0.0], [0.0, 3.75]])
    assert not made.coefficients[0].empty
    assert np.array_equal(made.coefficients[0].adjoint(np.ones(1)), [[5.0, 0.0], [0.0, 7.5]])
    assert made.name == "bound"
    assert np.array_equal(found.multipliers(np.ones(4)), np.full(4, 15.0))
    y = np.array([0.0, 1.0, 1.0, 3.0])
    assert np.array_equal(found.start_multipliers(found.multipliers(y)), y)


def test_what_is_no_problem_of_doubles_is_refused_with_the_place() -> None:
    mixed = sf.FeasibilityProblem([sf.Nonneg(2)], [np.array([[1 / 49, np.e]])], [1.0], [1.0], ["sum"])
    with pytest.raises(sf.ProblemError, match="row sum is not exactly representable in doubles"):
        read_as(mixed, "written")
    box = sf.FeasibilityProblem([sf.SpectralBox(2, trace=0.3)], [np.eye(2)[None]], [0.0], [1.0])
    with pytest.raises(sf.ProblemError, match=r"0\.3 for 3/10"):
        read_as(box, "written")
    lmi = sf.LMI(sf.Nonneg(2), [1 / 49, np.e], [[[1.0, 1.0]]], name="both")
    posed = sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[lmi])
    with pytest.raises(sf.ProblemError, match="LMI both"):
        read_as(posed, "written")
    with pytest.raises(sf.ProblemError, match="the objective"):
        read_terms((np.array([1 / 49, np.e]),), "written")


def test_objectives_as_written() -> None:
    terms, factor, example = read_terms((np.array([0.1, 0.0]), np.array([[1 / 3]])), "written")
    assert factor == 15
    assert [part.tolist() for part in terms] == [[1.5, 0.0], [[5.0]]]
    assert example == "0.1 for 1/10"
    whole = sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[0.1]])], [1.0], [1.0])
    assert read_as(whole, "written").example == "0.1 for 1/10"
