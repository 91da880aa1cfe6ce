"""The figures the paper prints, to put ours beside."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from sdpfeas.errors import FileFormatError

__all__ = ["PublishedError", "PublishedTime", "parse_time", "published", "published_error", "published_time"]

UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0}

#: Where the paper has no row of ours, the row it stands beside.
STANDS_FOR = {
    "wlda": "sd-wlda",
    "wlda-refined": "sd-wlda",
    "wlda-shrunk": "sd-wlda",
    "primal-clarabel": "sdpt3",
    "primal-scs": "sedumi",
}


@dataclass(frozen=True)
class PublishedError:
    """A test error in per cent: mean and standard deviation over the runs."""

    mean: float
    deviation: float

    def covers(self, mean: float) -> bool:
        """Whether another mean, in per cent, is within one standard deviation."""
        # A hair's breadth for figures that are printed with two digits.
        return abs(mean - self.mean) <= self.deviation + 0.005


@dataclass(frozen=True)
class PublishedTime:
    """A time: its text, in seconds, and whether it is only a lower bound."""

    text: str
    seconds: float
    bound: bool


@cache
def published() -> dict[str, Any]:
    """All figures, as the data file has them."""
    text = files("sdpfeas.wlda.paper").joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def published_error(table: str, method: str, column: str) -> PublishedError | None:
    """The printed error of a cell, or of the row that ours stands beside; None if there is none.

    Parameters
    ----------
    table, method, column : str
        Where to look, such as ``"table1"``, ``"lda"``, ``"heart"``.
    """
    found = _cell(table, "error", method, column)
    return None if found is None else PublishedError(float(found[0]), float(found[1]))


def published_time(table: str, method: str, column: str) -> PublishedTime | None:
    """The printed time of a cell, or of the row that ours stands beside; None if there is none.

    Parameters
    ----------
    table, method, column : str
        Where to look.
    """
    found = _cell(table, "time", method, column)
    return None if found is None else parse_time(found)


def _cell(table: str, what: str, method: str, column: str) -> Any:
    rows = published().get(table, {}).get(what, {})
    row = rows.get(method) or rows.get(STANDS_FOR.get(method, ""), {})
    return row.get(column)


def parse_time(text: str) -> PublishedTime:
    """Read a time such as ``"1h4m"``, ``"9.9s"`` or ``">48h"``.

    Parameters
    ----------
    text : str
        The time.

    Raises
    ------
    FileFormatError
        If it is none.
    """
    bound = text.startswith(">")
    body = text.removeprefix(">")
    parts = re.findall(r"(\d+(?:\.\d+)?)([hms])", body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        raise FileFormatError(f"not a time: {text!r}")
    return PublishedTime(text, sum(float(number) * UNITS[unit] for number, unit in parts), bound)
