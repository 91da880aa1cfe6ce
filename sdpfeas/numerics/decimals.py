"""The decimal or fraction that a binary64 number was rounded from: the simplest one that rounds to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from sdpfeas.errors import OptionError

#: Decimals of at most this many digits come before fractions: few doubles have one by chance.
SHORT_DIGITS = 9

#: Every decimal of at most this many digits is the shortest that rounds to its double.
MOST_DIGITS = 15

#: Largest numerator times denominator of a fraction that somebody may have meant, and largest odd factor of
#: an integer times a power of two. Fewer than one double in a million comes so close to one by chance.
SIMPLE = 2**30

#: Integers up to this size were meant as such: fewer than one double in a hundred of that size is one by
#: chance, and a row holds many.
WHOLE = 2**45


@lru_cache(maxsize=65_536)
def written(value: float) -> Fraction:
    """Return the number as written that a double was rounded from: the simplest one that rounds to it.

    In this order: the double itself, if it is an integer up to 2⁴⁵, or one below 2³⁰ times a power of two; a
    decimal of at most 9 digits; a fraction whose numerator times denominator is at most 2³⁰; a decimal of at
    most 15 digits; the double itself. Whatever is returned rounds to ``value``.

    Raises ``ValueError, OverflowError``: if it is NaN or infinite.
    """
    value = float(value)
    stored = Fraction(value)
    if value < 0.0:
        return -written(-value)
    simple = _simple(value, stored)
    if simple is not None:
        return simple
    return Fraction(repr(value)) if _digits(value) <= MOST_DIGITS else stored


def is_simple(value: float | Fraction) -> bool:
    """Whether a finite number is, as written, one that hardly any double is by chance.

    ``value``: a finite number; a fraction is asked whether it is what somebody wrote, and not what a double
    holds.
    """
    try:
        size = abs(float(value))
    except OverflowError:
        return False
    found = _simple(size, Fraction(size))
    return found is not None and (not isinstance(value, Fraction) or found == abs(value))


def _simple(value: float, stored: Fraction) -> Fraction | None:
    """Short binary, short decimal or simple fraction that rounds to a number; None if there is none."""
    if _odd_part(stored.numerator) <= SIMPLE or (stored.denominator == 1 and stored <= WHOLE):
        return stored
    if _digits(value) <= SHORT_DIGITS:
        return Fraction(repr(value))
    # Numerator times denominator is at least the number and its inverse.
    return _simplest(value) if 1.0 / SIMPLE < value < SIMPLE else None


def _digits(value: float) -> int:
    """Digits of the shortest decimal that rounds to a number."""
    return len(repr(value).partition("e")[0].replace(".", "").strip("0"))


def _odd_part(number: int) -> int:
    """Divide an integer by the largest power of two that goes into it."""
    return number // (number & -number) if number else 0


def _simplest(value: float) -> Fraction | None:
    """Fraction of smallest denominator that rounds to a positive number; None if it is not simple."""
    # The ends of what rounds to it, in units that make them integers: this is asked of every number.
    ends = [float(value), math.nextafter(value, 0.0), math.nextafter(value, math.inf)]
    unit = 2 * max(Fraction(end).denominator for end in ends)
    middle, below, above = (int(Fraction(end) * unit) for end in ends)
    found = _simplest_between((middle + below) // 2, (middle + above) // 2, unit, SIMPLE)
    # The ends themselves round to even, which may be elsewhere.
    return found if found is not None and float(found) == value else None


def _simplest_between(low: int, high: int, unit: int, most: int) -> Fraction | None:
    """Fraction of smallest denominator between ``low / unit`` and ``high / unit``, both positive.

    None if its numerator times denominator is more than ``most``.
    """
    low_unit, high_unit = unit, unit
    # Convergents of the interval: both ends have the same quotients until a simpler number fits between.
    p, q, before_p, before_q = 1, 0, 0, 1
    while True:
        quotient = -(-low // low_unit)
        inside = quotient * high_unit <= high
        if not inside:
            quotient -= 1
        p, before_p = quotient * p + before_p, p
        q, before_q = quotient * q + before_q, q
        if p * q > most:
            return None
        if inside:
            return Fraction(p, q)
        low, low_unit, high, high_unit = (
            high_unit,
            high - quotient * high_unit,
            low_unit,
            low - quotient * low_unit,
        )


class Reading(StrEnum):
    """Which numbers a verdict is about: the binary64 data, or the decimals and fractions they stand for."""

    STORED = "stored"
    WRITTEN = "written"


#: The exact number that a double stands for, by reading.
READERS: dict[Reading, Callable[[float], Fraction]] = {Reading.STORED: Fraction, Reading.WRITTEN: written}


def as_reading(value: str) -> Reading:
    """Return the reading of a name; raises ``OptionError`` if there is no such reading."""
    if value not in set(Reading):
        known = " or ".join(repr(str(reading)) for reading in Reading)
        raise OptionError(f"reading must be {known}, got {value!r}")
    return Reading(value)
