"""What all cards have in common: where they lie, and how they are read."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from sdpfeas.errors import CardError
from sdpfeas.files import read_file

#: Where the library is installed.
PACKAGE = Path(__file__).parent.parent

#: Bytes that count for one byte of a card: it takes as long to read as so many of an array.
CARD_ROOM = 2**15

#: Tables and lists may be nested this deep.
MAX_DEPTH = 32

__all__ = ["parse_toml", "read_card", "shipped_cards"]


def shipped_cards(folder: str) -> Path:
    """Folder with the cards that ship with the library (``solvers`` or ``problems``)."""
    installed = PACKAGE / "_cards" / folder
    # In a checkout the cards are edited at the root; only a wheel carries them inside the package.
    return installed if installed.is_dir() else PACKAGE.parent / folder


def read_card(path: Path) -> tuple[dict[str, Any], str]:
    """Read a card: what it holds, and its text.

    Raises
    ------
    CardError
        If it cannot be read, is too large for a card, or is not TOML.
    """
    try:
        text = read_file(path, CARD_ROOM).decode()
        return parse_toml(text), text
    except OSError as error:
        raise CardError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise CardError(f"{path}: not UTF-8 text, from byte {error.start + 1} on") from None
    except ValueError as error:
        raise CardError(f"{path}: {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """What TOML text holds.

    Parameters
    ----------
    text : str
        The text.

    Raises
    ------
    ValueError
        If it is not TOML, or nothing that a card could hold: nested too deeply, or with integers of more than
        64 bits.
    """
    too_deep = f"nested more than {MAX_DEPTH} deep"
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    level: list[Any] = [found]
    for _ in range(MAX_DEPTH):
        inner = [part for part in level if isinstance(part, (dict, list))]
        level = [item for part in inner for item in (part.values() if isinstance(part, dict) else part)]
        if any(isinstance(item, int) and abs(item) >= 2**63 for item in level):
            raise ValueError("an integer has more than 64 bits")
    if any(isinstance(part, (dict, list)) for part in level):
        raise ValueError(too_deep)
    return found
