"""Public data sets known by content: what is there, what is missing, what is something else.

Nothing is bundled. Files lie in the folder that the environment variable ``SDPFEAS_DATA`` names, each in the
folder of its set and under the name it is published with.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from pathlib import Path

from sdpfeas.cards.toml import parse_toml
from sdpfeas.errors import OptionError

__all__ = ["FOLDER", "DataSet", "Held", "State", "data_folder", "known_sets", "look"]

#: The environment variable that names the folder with data files.
FOLDER = "SDPFEAS_DATA"

#: Bytes that are hashed at a time.
PIECE = 2**20


class State(StrEnum):
    """What is found in the place of a known file."""

    right = "right"
    missing = "missing"
    other = "other"


@dataclass(frozen=True)
class DataSet:
    """A public set of files.

    Attributes
    ----------
    folder : str
        Where its files go, below the data folder.
    title, about : str
        What it is called, and what it is.
    hashes : mapping
        SHA-256 by file name.
    """

    folder: str
    title: str
    about: str
    hashes: Mapping[str, str]


@dataclass(frozen=True)
class Held:
    """A file of a set.

    Attributes
    ----------
    set : DataSet
        The set.
    name : str
        Name of the file.
    path : Path
        Where it goes.
    state : State
        What is there.
    """

    set: DataSet
    name: str
    path: Path
    state: State


@cache
def known_sets() -> Mapping[str, DataSet]:
    """All sets known, by their folders."""
    text = (files("sdpfeas.study.board") / "data.toml").read_text(encoding="utf-8")
    return {
        folder: DataSet(folder, entry["title"], entry["about"], entry["files"])
        for folder, entry in parse_toml(text).items()
    }


def data_folder() -> Path | None:
    """The folder that the environment names; None if it names none that exists."""
    named = os.environ.get(FOLDER, "")
    return Path(named) if named and Path(named).is_dir() else None


def look(folder: Path | None, sets: list[str] | None = None) -> list[Held]:
    """Look for every known file, and compare what is there by its content.

    Parameters
    ----------
    folder : Path, optional
        The data folder; without one everything is missing.
    sets : list of str, optional
        The sets to look for, by their folders; default: all.

    Raises
    ------
    OptionError
        If a set is unknown.
    """
    known = known_sets()
    for name in sets or []:
        if name not in known:
            raise OptionError(f"no set is called {name!r}; there are {', '.join(known)}")
    out = []
    for entry in (known[name] for name in sets or known):
        for name, digest in entry.hashes.items():
            path = (folder or Path(f"${FOLDER}")) / entry.folder / name
            found = _hash(path) if folder is not None else None
            state = State.missing if found is None else State.right if found == digest else State.other
            out.append(Held(entry, name, path, state))
    return out


def _hash(path: Path) -> str | None:
    """SHA-256 of a file; None if there is none that can be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()
