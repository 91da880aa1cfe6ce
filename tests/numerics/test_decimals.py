"""Numbers as written: the simplest that round to a double."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sdpfeas.numerics.exact_arithmetic import is_simple, written

finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite)
@example(5e-324)
@example(1.7976931348623157e308)
@example(0.1 + 0.2)
@example(2.0**-30 + 2.0**-60)
def test_rounds_to_the_double(value: float) -> None:
    """Whatever was written gives the double back, sign and all."""
    assert float(written(value)) == value
    assert written(-value) == -written(value)


@given(st.integers(-(10**15) + 1, 10**15 - 1), st.integers(-250, 250))
def test_decimals_come_back(digits: int, exponent: int) -> None:
    """A decimal of up to 15 digits is read as it was written, or as a fraction that is simpler by far."""
    meant = digits * Fraction(10) ** exponent
    found = written(float(meant))
    assert found == meant or abs(found.numerator) * found.denominator <= 2**30 or _odd(found) <= 2**30


@given(st.integers(-(10**9) + 1, 10**9 - 1), st.integers(-250, 250))
def test_short_decimals_come_back(digits: int, exponent: int) -> None:
    """A short decimal is always read as it was written, unless the double is a short binary itself."""
    meant = digits * Fraction(10) ** exponent
    found = written(float(meant))
    assert found == meant or (found == float(meant) and _odd(found) <= 2**30)


@given(st.integers(-3000, 3000), st.integers(1, 3000))
def test_fractions_come_back(numerator: int, denominator: int) -> None:
    """A simple fraction is read as it was written."""
    meant = Fraction(numerator, denominator)
    assert written(numerator / denominator) == meant


@given(st.integers(-(2**30), 2**30), st.integers(-1074, 990))
def test_short_binaries_stand_for_themselves(integer: int, exponent: int) -> None:
    """Integers, and these times powers of two, were not rounded at all."""
    value = math.ldexp(integer, exponent)
    if math.ldexp(value, -exponent) == integer:
        assert written(value) == Fraction(value)


@given(finite, finite)
def test_order_is_kept(a: float, b: float) -> None:
    """What is smaller as stored is smaller as written."""
    assert (a < b) == (written(a) < written(b))


def test_examples() -> None:
    """Decimals, fractions, and what is neither."""
    assert written(0.1) + written(0.2) == written(0.3)
    assert written(1 / 3) == Fraction(1, 3)
    assert written(-2 / 49) == Fraction(-2, 49)
    assert written(0.123456789) == Fraction(123456789, 10**9)
    assert written(3.14159265358979) == Fraction("3.14159265358979")
    assert written(math.pi) == Fraction(math.pi)
    assert written(0.1 + 0.2) == Fraction(0.1 + 0.2)
    assert written(1e23) == 10**23
    assert written(2.0**-1074) == Fraction(1, 2**1074)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_only_numbers(value: float) -> None:
    """NaN and infinity were never written."""
    with pytest.raises((ValueError, OverflowError)):
        written(value)


def _odd(value: Fraction) -> int:
    top = abs(value.numerator)
    if value.denominator & (value.denominator - 1):
        return 2**60
    return top // (top & -top) if top else 0


def test_fractions_are_simple_if_somebody_wrote_them() -> None:
    for value in (
        Fraction(1, 3),
        Fraction(1, 10),
        Fraction(-7),
        Fraction(3, 2**40),
        Fraction(123456789, 10**7),
    ):
        assert is_simple(value)
        assert is_simple(float(value))
    # What doubles hold of them, products of these, and what is too large for a double.
    for value in (Fraction(0.1), Fraction(1.0 / 3.0), Fraction(0.1) ** 2, Fraction(10) ** 400 + 1):
        assert not is_simple(value)
