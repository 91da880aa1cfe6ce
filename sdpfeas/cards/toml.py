"""What all cards have in common: where they lie, and how they are read."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from sdpfeas.errors import CardError

#: Where the library is installed.
PACKAGE = Path(__file__).parent.parent

__all__ = ["card_folders", "find_card", "read_card", "shipped_cards"]


def shipped_cards(folder: str) -> Path:
    """Folder with the cards that ship with the library (``solvers`` or ``problems``)."""
    installed = PACKAGE / "_cards" / folder
    # In a checkout the cards are edited at the root; only a wheel carries them inside the package.
    return installed if installed.is_dir() else PACKAGE.parent / folder


def card_folders(folder: str) -> tuple[Path, Path]:
    """Where cards are looked for: at hand, then among those shipped."""
    return Path(folder), shipped_cards(folder)


def find_card(name: str, folder: str) -> Path | None:
    """Find the card or drop-in file of a name; None if there is none.

    Parameters
    ----------
    name : str
        The name, without a suffix.
    folder : str
        ``solvers`` or ``problems``.
    """
    paths = (place / (name + suffix) for place in card_folders(folder) for suffix in (".toml", ".py"))
    return next((path for path in paths if path.is_file()), None)


def read_card(path: Path) -> tuple[dict[str, Any], str]:
    """Read a card: what it holds, and its text.

    Raises
    ------
    CardError
        If it is not TOML.
    """
    text = path.read_text(encoding="utf-8")
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        raise CardError(f"{path}: {error}") from None
