"""Exceptions of the library.

Every error a user can cause is an :class:`SdpfeasError`; it says what was wrong, where, and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SdpfeasError(Exception):
    """Base class of every exception raised on purpose by sdpfeas."""


class ProblemError(SdpfeasError, ValueError):
    """A problem (a set, a row, a bound or a name) is malformed."""


class ClaimError(SdpfeasError, ValueError):
    """A claim does not have the form its problem asks for (not: is wrong)."""


class FileFormatError(SdpfeasError, ValueError):
    """A file is not in the format it should be in."""


class OptionError(SdpfeasError, ValueError):
    """An option is unknown or has the wrong type or value."""


class BackendError(SdpfeasError):
    """A backend cannot be found, loaded or used."""


class CardError(SdpfeasError, ValueError):
    """A card is missing, malformed, or names what does not exist."""


def hint(name: str, known: Iterable[str], otherwise: str = "known:") -> str:
    """What to say when a name is not known: the nearest one that is, or all there are.

    Parameters
    ----------
    name : str
        The unknown name.
    known : iterable of str
        The known ones.
    otherwise : str
        What goes before the list of all.
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"{otherwise} {', '.join(names) or 'none'}"
