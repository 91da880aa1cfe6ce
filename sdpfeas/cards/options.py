"""Typed options of backends and families: a dataclass each, validated by name and type."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sdpfeas.errors import OptionError, hint

__all__ = ["NoOptions", "describe_options", "parse_options"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class NoOptions:
    """Options of a backend that has none."""


def parse_options(kind: type[T], values: Mapping[str, Any], owner: str) -> T:
    """Build an options dataclass from plain values by name.

    The fields of ``kind`` are annotated with bool, int, float, str, ``Literal`` or an optional of these; its
    ``__post_init__`` raises ValueError for values out of range. ``owner`` appears in messages. Raises
    OptionError for an unknown name (with a suggestion), a wrong type, or a value out of range.
    """
    hints = get_type_hints(kind) if values else {}
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name not in names:
            raise OptionError(f"{owner} has no option {name!r}; {hint(name, names, 'known options:')}")
        fits, converted = _fit(value, hints[name])
        if not fits:
            raise OptionError(
                f"{owner}: option {name!r} must be {_spell(hints[name])}, got {value!r} "
                f"({type(value).__name__})"
            )
        checked[name] = converted
    try:
        return kind(**checked)
    except ValueError as error:
        raise OptionError(f"{owner}: {error}") from None


def describe_options(kind: type) -> dict[str, tuple[str, Any]]:
    """Names of all options with a description of their type and their default."""
    hints = get_type_hints(kind)
    return {field.name: (_spell(hints[field.name]), field.default) for field in dataclasses.fields(kind)}


def _fit(value: Any, hint: Any) -> tuple[bool, Any]:
    origin = get_origin(hint)
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
    if origin is Literal:
        return "one of " + ", ".join(repr(v) for v in get_args(hint))
    if origin in (Union, types.UnionType):
        return " or ".join(_spell(option) for option in get_args(hint))
    if hint is type(None):
        return "None"
    return {float: "a number", int: "an integer", bool: "true or false", str: "a string"}.get(
        hint, getattr(hint, "__name__", str(hint))
    )
