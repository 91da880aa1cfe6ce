"""Public data sets, known by the SHA-256 hashes of their files.

No data is bundled. Files are looked for in the folder that the environment variable ``SDPFEAS_DATA`` names,
each in the folder of its data set and under the name it is published with.
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

__all__ = ["FOLDER", "PROBLEM_SETS", "DataSet", "Held", "State", "data_folder", "known_sets", "look"]

#: The environment variable that names the folder with data files.
FOLDER = "SDPFEAS_DATA"

#: Titles of the problem sets of a board: data sets by their folders, and generated problems of known truth.
PROBLEM_SETS = {
    "generated": "generated",
    "liu-pataki": "Liu–Pataki",
    "wlda": "WLDA",
    "fairpca": "fair PCA",
    "dimacs": "DIMACS",
    "sdplib": "SDPLIB",
}

#: Bytes read at a time to hash a file.
CHUNK_BYTES = 2**20


class State(StrEnum):
    """Whether a known file is there with its known content, is missing, or has another content."""

    right = "right"
    missing = "missing"
    other = "other"


@dataclass(frozen=True)
class DataSet:
    """A public data set: its folder below the data folder, and the hashes by file name."""

    folder: str
    title: str
    about: str
    hashes: Mapping[str, str]


@dataclass(frozen=True)
class Held:
    """A file of a data set, where it goes, and what is there."""

    set: DataSet
    name: str
    path: Path
    state: State


@cache
def known_sets() -> Mapping[str, DataSet]:
    """All known data sets, by their folders."""
    text = (files("sdpfeas.study.board") / "data.toml").read_text(encoding="utf-8")
    return {
        folder: DataSet(folder, entry["title"], entry["about"], entry["files"])
        for folder, entry in parse_toml(text).items()
    }


def data_folder() -> Path | None:
    """The folder that ``SDPFEAS_DATA`` names; None if it is not set or does not exist."""
    named = os.environ.get(FOLDER, "")
    return Path(named) if named and Path(named).is_dir() else None


def look(folder: Path | None, sets: list[str] | None = None) -> list[Held]:
    """Look for every known file of the named data sets (default: all), and hash what is there.

    Without a data folder every file is missing. Raises :class:`OptionError` for an unknown data set.
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
    """SHA-256 of a file; None if it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                digest.update(chunk)
    except OSError:
        return None
    return digest.hexdigest()
