"""Typed options of backends and families: a dataclass each, validated by name and type."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sdpfeas.errors import OptionError, hint

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Range:
    """Range of a number, for annotations such as ``Annotated[int, Range(0)]``; no number is infinite.

    With ``above``, the number must be larger than ``least``, not only as large.

    Examples
    --------
    >>> from sdpfeas.dropin import Range
    >>> 0.0 in Range(0.0, 1.0), 0.0 in Range(0.0, 1.0, above=True), 1.0 in Range(0.0, 1.0)
    (True, False, False)
    """

    least: float
    below: float = math.inf
    above: bool = False

    def __contains__(self, value: float) -> bool:
        return (value > self.least if self.above else value >= self.least) and value < self.below

    def __str__(self) -> str:
        least = f"above {self.least:g}" if self.above else f"at least {self.least:g}"
        return least if math.isinf(self.below) else f"{least} and below {self.below:g}"


#: Types of options: a number between 0 and 1, at least 0, or above 0; an integer of at least 1.
Share = Annotated[float, Range(0.0, 1.0, above=True)]
NonNegative = Annotated[float, Range(0.0)]
Positive = Annotated[float, Range(0.0, above=True)]
Count = Annotated[int, Range(1)]


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """Options of a backend that has none."""


def parse_options(kind: type[T], values: Mapping[str, Any], owner: str) -> T:
    """Build an options dataclass from plain values by name.

    The fields of ``kind`` are annotated with bool, int, float, str, ``Literal`` or an optional of these,
    numbers also with a :class:`Range`; its ``__post_init__`` raises ValueError for other conditions.
    ``owner`` appears in messages. Raises OptionError for an unknown name (with a suggestion), a wrong type,
    or a value out of range.
    """
    hints = get_type_hints(kind, include_extras=True) if values else {}
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in names:
            unknown = f"{owner} has no option {name!r}; {hint(name, names, 'known options:')}"
            raise OptionError(unknown, key=name)
        fits, converted = _fit(value, hints[name])
        if not fits:
            raise OptionError(
                f"{owner}: option {name!r} must be {_spell(hints[name])}, got {value!r} "
                f"({type(value).__name__})",
                key=name,
            )
        checked[name] = converted
    try:
        return kind(**checked)
    except ValueError as error:
        raise OptionError(f"{owner}: {error}", key=getattr(error, "key", "")) from None


def describe_options(kind: type) -> dict[str, tuple[str, Any]]:
    """Names of all options with a description of their type and their default."""
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: (_spell(hints[field.name]), field.default) for field in dataclasses.fields(kind)}


def _fit(value: Any, hint: Any) -> tuple[bool, Any]:
    origin = get_origin(hint)
    if origin is Annotated:
        kind, limits = get_args(hint)
        fits, converted = _fit(value, kind)
        return fits and converted in limits, converted
    if origin is Literal:
        return value in get_args(hint) and not isinstance(value, bool), value
    if origin in (Union, types.UnionType):
        for option in get_args(hint):
            fits, converted = _fit(value, option)
            if fits:
                return True, converted
        return False, value
    if hint is type(None):
        return value is None, value
    if hint is float:
        fits = isinstance(value, (int, float)) and not isinstance(value, bool)
        try:
            number = float(value) if fits else math.nan
        except OverflowError:  # integer overflow
            number = math.nan
        # NaN would pass every range check.
        return not math.isnan(number), number
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    return isinstance(value, hint), value


def _spell(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Annotated:
        kind, limits = get_args(hint)
        return f"{_spell(kind)} {limits}"
    if origin is Literal:
        return "one of " + ", ".join(repr(v) for v in get_args(hint))
    if origin in (Union, types.UnionType):
        return " or ".join(_spell(option) for option in get_args(hint))
    if hint is type(None):
        return "None"
    return {float: "a number", int: "an integer", bool: "true or false", str: "a string"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )
