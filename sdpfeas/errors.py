"""Exceptions of the library.

Every error a user can cause is an :class:`SdpfeasError`; it says what was wrong, where, and what to do.
"""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path


class SdpfeasError(Exception):
    """Base class of every exception raised on purpose by sdpfeas."""


class ProblemError(SdpfeasError, ValueError):
    """A problem (a set, a row, a bound or a name) is malformed."""


class ClaimError(SdpfeasError, ValueError):
    """A claim does not have the form its problem asks for (not: is wrong)."""


class TruthError(SdpfeasError, TypeError):
    """Something that is neither true nor false was asked which it is."""


class FileFormatError(SdpfeasError, ValueError):
    """A file is not in the format it should be in."""


class FileWriteError(SdpfeasError, OSError):
    """A file cannot be written: the disk is full, or the folder is not ours."""


class OptionError(SdpfeasError, ValueError):
    """An option is unknown or has the wrong type or value."""


class MissingExtraError(OptionError, ImportError):
    """What was asked for needs a package that is not installed."""


class BackendError(SdpfeasError):
    """A backend cannot be found, loaded or used."""


class CardError(SdpfeasError, ValueError):
    """A card is missing, malformed, or names what does not exist."""


class StudyError(SdpfeasError):
    """A study could not be carried to its end."""


class LimitError(SdpfeasError):
    """Work was not begun, because it does not fit into a limit."""


class OutOfTime(LimitError):
    """Work does not fit into the time that is left.

    ``needed, left``: seconds; None if the time is up.
    """

    def __init__(self, what: str, needed: float | None = None, left: float | None = None) -> None:
        numbers = "" if needed is None else f": about {needed:.2g} s needed, {left:.2g} s left"
        super().__init__(f"out of time before {what}{numbers}")


class OutOfMemory(LimitError):
    """Work does not fit into the memory that is left."""

    def __init__(self, what: str, needed: float, left: float) -> None:
        sizes = f"about {needed / 2**30:.2g} GiB needed, {left / 2**30:.2g} GiB left"
        super().__init__(f"not enough memory for {what}: {sizes}")


class FloatingPointStateError(LimitError):
    """The arithmetic of this thread is not that of IEEE 754, and cannot be made so: nothing can be proved."""


class RoundingWarning(UserWarning):
    """What will be proved is about data that differ from what was given, in the last digits."""


def safe_text(value: object, limit: int = 2000) -> str:
    """Text of anything, an exception included: cut to a length, fit to be stored, and never an error itself.

    ``value``: whatever a stranger's code handed over or raised.
    """
    kind = type(value).__name__
    try:
        text = f"{kind}: {value}" if isinstance(value, BaseException) else str(value)
    except Exception:  # noqa: BLE001 - how it shows itself is a stranger's code, too
        text = f"<{kind}>"
    return storable(text[:limit])


def storable(text: str) -> str:
    """Text that files and databases can hold: UTF-8 has no lone surrogates, which odd file names bring."""
    return text.encode("utf-8", "backslashreplace").decode()


def traceback_summary(error: BaseException) -> str:
    """Where an exception was raised: the three innermost places, the innermost first, in one line."""
    places = traceback.extract_tb(error.__traceback__)[::-1][:3]
    return ", called from ".join(f"{Path(p.filename).name}, line {p.lineno} ({p.name})" for p in places)


def hint(name: str, known: Iterable[str], otherwise: str = "known:") -> str:
    """What to say when a name is not known: the nearest one that is, or all there are.

    ``otherwise``: what goes before the list of all.
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"{otherwise} {', '.join(names) or 'none'}"
