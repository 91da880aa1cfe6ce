"""Finding families by name or file.

A family is named by: a path to a drop-in file (``.py``); a file ``NAME.py`` beside the card that names it, in
``./problems`` or among the shipped cards; a built-in name; an entry point of the group ``sdpfeas.families``.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

from sdpfeas.cards.toml import card_folders
from sdpfeas.errors import CardError, hint
from sdpfeas.families.family import Family, load_family_file

__all__ = ["GROUP", "family_names", "find_family"]

GROUP = "sdpfeas.families"

#: Built-in families; imported when asked for.
BUILT_IN = {
    "max-cut": "sdpfeas.families.graphs:MaxCut",
    "planted": "sdpfeas.families.planted:Planted",
    "theta": "sdpfeas.families.graphs:Theta",
    "wlda": "sdpfeas.wlda.family.wlda:WLDA",
}


def find_family(name: str, beside: Path | None = None) -> type[Family]:
    """Find a family.

    Parameters
    ----------
    name : str
        A path or a name.
    beside : Path, optional
        A folder to look in first.

    Raises
    ------
    CardError
        If there is none of that name, or its file cannot be loaded.
    """
    if name.endswith(".py") or "/" in name:
        path = Path(name)
        if beside is not None and not path.is_absolute() and (beside / path).is_file():
            path = beside / path
        return load_family_file(path)
    for folder in (*([] if beside is None else [beside]), *card_folders("problems")):
        path = folder / f"{name}.py"
        if path.is_file():
            return load_family_file(path)
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return _checked(getattr(import_module(module), attribute), name)
    for entry in entry_points(group=GROUP, name=name):
        try:
            return _checked(entry.load(), name)
        except CardError:
            raise
        except Exception as error:
            raise CardError(f"family {name!r} could not be loaded: {error}") from error
    raise CardError(f"no family named {name!r}; {hint(name, family_names())}")


def family_names() -> list[str]:
    """Names of all families that can be found from here."""
    names = {*BUILT_IN, *(entry.name for entry in entry_points(group=GROUP))}
    for folder in card_folders("problems"):
        names |= {path.stem for path in folder.glob("*.py")}
    return sorted(names)


def _checked(kind: object, name: str) -> type[Family]:
    if not (isinstance(kind, type) and issubclass(kind, Family)):
        raise CardError(f"family {name!r} is not a Family subclass")
    return kind
