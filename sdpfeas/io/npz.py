"""Problems in one ``.npz`` file: a JSON header and plain arrays, never pickle."""

from __future__ import annotations

import json
import zipfile
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.errors import FileFormatError, ProblemError
from sdpfeas.operators import Rows, rows_from_state
from sdpfeas.problem import FeasibilityProblem
from sdpfeas.sets import set_from_spec

__all__ = ["load_problem", "save_problem"]

FORMAT = "sdpfeas-problem"
VERSION = 1

#: What reading a file that is damaged, or no archive at all, may raise.
UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    MemoryError,
    OverflowError,
    RuntimeError,  # an encrypted archive, a compression unknown here, a header nested too deeply
    TypeError,
    AttributeError,
    zipfile.BadZipFile,
    zlib.error,
)


def save_problem(problem: FeasibilityProblem, path: str | PathLike[str]) -> None:
    """Write a problem to ``path`` exactly as named (no suffix is added)."""
    arrays: dict[str, np.ndarray] = {"lower": problem.lower, "upper": problem.upper}
    header = {
        "format": FORMAT,
        "version": VERSION,
        "sets": [block.spec() for block in problem.sets],
        "rows": [_pack(rows, f"rows{b}", arrays) for b, rows in enumerate(problem.rows)],
        "row_names": problem.row_names,
        "block_names": problem.block_names,
    }
    text = json.dumps(header).encode()
    with Path(path).open("wb") as file:
        # numpy's stubs do not know that keyword names are free here.
        np.savez_compressed(file, header=np.frombuffer(text, dtype=np.uint8), **arrays)  # type: ignore[arg-type]


def load_problem(path: str | PathLike[str]) -> FeasibilityProblem:
    """Read a problem written by :func:`save_problem`.

    Raises
    ------
    FileFormatError
        If the file is not such a problem or is damaged.
    FileNotFoundError
        If there is no such file.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise FileFormatError(f"{path}: not an .npz archive")
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise FileFormatError(f"{path}: not a problem file: {error}") from None
    try:
        header = json.loads(bytes(arrays.pop("header")).decode())
        if header.get("format") != FORMAT:
            raise FileFormatError(f"{path}: not a problem file: format is {header.get('format')!r}")
        if header.get("version") != VERSION:
            raise FileFormatError(
                f"{path}: written in version {header.get('version')} of the format, this library reads "
                f"version {VERSION}; update sdpfeas"
            )
        rows = [_unpack(spec, f"rows{b}", arrays) for b, spec in enumerate(header["rows"])]
        return FeasibilityProblem(
            [set_from_spec(spec) for spec in header["sets"]],
            rows,
            arrays["lower"],
            arrays["upper"],
            header["row_names"],
            header["block_names"],
        )
    except FileFormatError:
        raise
    except UNREADABLE as error:
        raise FileFormatError(f"{path}: damaged problem file: {error}") from None


def _pack(rows: Rows | None, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any] | None:
    if rows is None:
        return None
    numbers, own, children = rows.state()
    for name, array in own.items():
        arrays[f"{prefix}.{name}"] = array
    packed = [_pack(child, f"{prefix}.{k}", arrays) for k, child in enumerate(children)]
    return {"kind": rows.kind, "numbers": numbers, "arrays": sorted(own), "children": packed}


def _unpack(spec: dict[str, Any] | None, prefix: str, arrays: dict[str, np.ndarray]) -> Rows | None:
    if spec is None:
        return None
    own = {name: arrays[f"{prefix}.{name}"] for name in spec["arrays"]}
    children = [_unpack(c, f"{prefix}.{k}", arrays) for k, c in enumerate(spec["children"])]
    rows = [child for child in children if child is not None]
    if len(rows) != len(children):
        raise ProblemError(f"a part of {prefix} is missing")
    return rows_from_state(spec["kind"], spec["numbers"], own, rows)
