"""Finding families by name or file.

A family is named by a path to a drop-in file (``.py``), or by a name, looked up as
:mod:`sdpfeas.cards.finder` says: what ships, the entry points of the group ``sdpfeas.families``, then
``NAME.py`` beside the card that names it, if the user named that card by its path.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

from sdpfeas.backends.registry import require_own
from sdpfeas.cards.finder import is_path
from sdpfeas.cards.shelves import PROBLEMS
from sdpfeas.errors import CardError
from sdpfeas.families.family import Family, load_family_file

__all__ = ["family_names", "find_family", "load_family"]


def find_family(name: str, card: Path | None = None, *, by_path: bool = True) -> type[Family]:
    """Find a family.

    Parameters
    ----------
    name : str
        A path or a name.
    card : Path, optional
        The card that names it.
    by_path : bool
        Whether the user named that card by its path, so that code beside it may be run.

    Raises
    ------
    CardError
        If there is none of that name, or its file cannot be loaded.
    """
    if is_path(name, (".py",)):
        return load_family_file(Path(name) if card is None else PROBLEMS.code(name, card, by_path=by_path))
    found = PROBLEMS.find(name, card if by_path else None, cards=False)
    if found is None and card is not None and (card.parent / f"{name}.py").is_file():
        raise CardError(PROBLEMS.why_not(card))
    if found is None:
        raise CardError(f"no family named {name!r}; {PROBLEMS.hint(name, cards=False)}")
    return load_family_file(found) if isinstance(found, Path) else load_family(found)


def load_family(entry: EntryPoint) -> type[Family]:
    """Load the family that an entry point names.

    Parameters
    ----------
    entry : EntryPoint
        The entry point.
    """
    require_own(entry.module)
    try:
        return _checked(entry.load(), entry.name)
    except CardError:
        raise
    except Exception as error:
        raise CardError(f"family {entry.name!r} could not be loaded: {error}") from error


def family_names() -> list[str]:
    """Names of all families that can be found from here."""
    return PROBLEMS.names(cards=False)


def _checked(kind: object, name: str) -> type[Family]:
    if not (isinstance(kind, type) and issubclass(kind, Family)):
        raise CardError(f"family {name!r} is not a Family subclass")
    return kind
