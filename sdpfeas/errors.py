"""Exceptions of the library, and helpers that format error messages.

Every error that a user can cause is an :class:`SdpfeasError`.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path


class SdpfeasError(Exception):
    """Base class of the exceptions of sdpfeas.

    ``key`` is the key of a card that the error is about, if any.
    """

    def __init__(self, *args: object, key: str = "") -> None:
        super().__init__(*args)
        self.key = key


class ProblemError(SdpfeasError, ValueError):
    """A problem (a set, a row, a bound or a name) is malformed."""


class ClaimError(SdpfeasError, ValueError):
    """A claim does not fit the shapes of its problem. A claim that is merely wrong raises no error."""


class NotProved(SdpfeasError):
    """No exact evidence is found for an answer; the message says what is missing."""


class TruthError(SdpfeasError, TypeError):
    """An object without a truth value was used as a condition."""


class FileFormatError(SdpfeasError, ValueError):
    """A file cannot be parsed in its format."""


class FileWriteError(SdpfeasError, OSError):
    """A file cannot be written: the disk is full, or permission is denied."""


class OptionError(SdpfeasError, ValueError):
    """An option is unknown or has the wrong type or value."""


class MissingExtraError(OptionError, ImportError):
    """An optional package is needed and not installed."""


class BackendError(SdpfeasError):
    """A backend cannot be found, loaded or used."""


class CardError(SdpfeasError, ValueError):
    """A card is missing or malformed, or refers to something that does not exist."""


class StudyError(SdpfeasError):
    """A study could not be completed."""


class LimitError(SdpfeasError):
    """Work was not started because it does not fit into a limit."""


class OutOfTime(LimitError):
    """Work does not fit into the remaining time.

    ``needed`` and ``left`` are in seconds; None if the time is up.
    """

    def __init__(self, what: str, needed: float | None = None, left: float | None = None) -> None:
        numbers = "" if needed is None else f": about {needed:.2g} s needed, {left:.2g} s left"
        super().__init__(f"out of time before {what}{numbers}")


class OutOfMemory(LimitError):
    """Work does not fit into the available memory."""

    def __init__(self, what: str, needed: float, left: float) -> None:
        sizes = f"about {needed / 2**30:.2g} GiB needed, {left / 2**30:.2g} GiB left"
        super().__init__(f"not enough memory for {what}: {sizes}")


class FloatingPointStateError(LimitError):
    """The floating-point environment of this thread violates IEEE 754, so nothing can be proved."""


class RoundingWarning(UserWarning):
    """Input data were rounded: verdicts are about the rounded data."""


def safe_text(value: object, limit: int = 2000) -> str:
    """Convert any value or exception of foreign code to text of at most ``limit`` characters."""
    kind = type(value).__name__
    try:
        text = f"{kind}: {value}" if isinstance(value, BaseException) else str(value)
    except Exception:  # noqa: BLE001 - __str__ is foreign code, too
        text = f"<{kind}>"
    return storable(text[:limit])


def storable(text: str) -> str:
    """Escape lone surrogates, which occur in file names and cannot be encoded as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def traceback_summary(error: BaseException) -> str:
    """The three innermost stack frames of an exception in one line, the innermost first."""
    places = traceback.extract_tb(error.__traceback__)[::-1][:3]
    return ", called from ".join(f"{Path(p.filename).name}, line {p.lineno} ({p.name})" for p in places)


def hint(name: str, known: Iterable[str], otherwise: str = "known:") -> str:
    """Suggest the closest known name, or list all of them after ``otherwise``."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"{otherwise} {', '.join(names) or 'none'}"
