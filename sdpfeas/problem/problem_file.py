"""Read and write problems as one ``.npz`` file without pickles."""

from __future__ import annotations

import errno
import math
import os
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpfeas.errors import ProblemError
from sdpfeas.files import require_within_limit, writing
from sdpfeas.npz import Format, load
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.rows import Rows, rows_from_state
from sdpfeas.problem.sets import set_from_spec

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem

FORMAT = Format("problem", 1, version_key="version", also=(2,))

#: The version of files with LMIs. Readers without LMI support must reject these files.
WITH_LMIS = replace(FORMAT, version=2)

#: Largest nesting depth of rows that consist of other rows (``Stacked``, ``Combined``).
MAX_DEPTH = 32


def save_problem(problem: FeasibilityProblem, path: str | PathLike[str]) -> None:
    """Write a problem to ``path``; no file extension is added."""
    with writing(path):
        Path(path).write_bytes(pack_problem(problem))


def pack_problem(problem: FeasibilityProblem) -> bytes:
    """Serialise a problem to the bytes of its file."""
    arrays: dict[str, np.ndarray] = {"lower": problem.lower, "upper": problem.upper}
    header: dict[str, Any] = {
        "sets": [block.spec() for block in problem.sets],
        "rows": [_pack(rows, f"rows{b}", arrays) for b, rows in enumerate(problem.rows)],
        "row_names": problem.row_names,
        "block_names": problem.block_names,
    }
    if problem.lmis:
        header["lmis"] = [_pack_lmi(lmi, f"lmi{j}", arrays) for j, lmi in enumerate(problem.lmis)]
    return (WITH_LMIS if problem.lmis else FORMAT).pack(header, arrays)


def load_problem(path: str | PathLike[str], build: type[FeasibilityProblem]) -> FeasibilityProblem:
    """Read a problem written by :func:`save_problem`.

    ``build`` is the class ``FeasibilityProblem``, passed in to avoid an import cycle. Raises
    ``FileNotFoundError`` if there is no file, and ``FileFormatError`` if it is damaged, of another format, or
    exceeds the size limits of :mod:`sdpfeas.files`, which are checked before memory is allocated.
    """
    if not Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return load(path, lambda data: unpack_problem(data, build))


def unpack_problem(data: bytes, build: type[FeasibilityProblem]) -> FeasibilityProblem:
    """Deserialise a problem from the bytes of its file."""
    with FORMAT.unpack(data) as (header, arrays):
        sets = [set_from_spec(spec) for spec in header["sets"]]
        require_within_limit(sum(math.prod(block.shape) for block in sets), "numbers in a point", each=8)
        return build(
            sets,
            [_unpack(spec, f"rows{b}", arrays) for b, spec in enumerate(header["rows"])],
            arrays["lower"],
            arrays["upper"],
            header["row_names"],
            header["block_names"],
            [_unpack_lmi(spec, f"lmi{j}", arrays) for j, spec in enumerate(header.get("lmis", ()))],
        )


def _pack_lmi(lmi: LMI, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    arrays[f"{prefix}.constant"] = lmi.constant
    parts = [_pack(rows, f"{prefix}.rows{b}", arrays) for b, rows in enumerate(lmi.coefficients)]
    return {"name": lmi.name, "set": lmi.set.spec(), "coefficients": parts}


def _unpack_lmi(spec: dict[str, Any], prefix: str, arrays: dict[str, np.ndarray]) -> LMI:
    block = set_from_spec(spec["set"])
    require_within_limit(block.entries, "numbers in the value of an LMI", each=8)
    parts = [_unpack(part, f"{prefix}.rows{b}", arrays) for b, part in enumerate(spec["coefficients"])]
    return LMI(block, arrays[f"{prefix}.constant"], parts, spec["name"])


def _pack(rows: Rows, prefix: str, arrays: dict[str, np.ndarray]) -> dict[str, Any] | None:
    if rows.empty:
        return None
    numbers, own, children = rows.state()
    for name, array in own.items():
        arrays[f"{prefix}.{name}"] = array
    packed = [_pack(child, f"{prefix}.{k}", arrays) for k, child in enumerate(children)]
    return {"kind": rows.kind, "numbers": numbers, "arrays": sorted(own), "children": packed}


def _unpack(
    spec: dict[str, Any] | None, prefix: str, arrays: dict[str, np.ndarray], depth: int = 0
) -> Rows | None:
    if spec is None:
        return None
    if depth > MAX_DEPTH:
        raise ProblemError(f"rows are nested more than {MAX_DEPTH} deep")
    own = {name: arrays[f"{prefix}.{name}"] for name in spec["arrays"]}
    children = [_unpack(c, f"{prefix}.{k}", arrays, depth + 1) for k, c in enumerate(spec["children"])]
    rows = [child for child in children if child is not None]
    if len(rows) != len(children):
        raise ProblemError(f"a part of {prefix} is missing")
    made = rows_from_state(spec["kind"], spec["numbers"], own, rows)
    # A short file can describe very many rows: all pairs of a few means, or a count of zero rows.
    require_within_limit(made.m, "rows", each=16)
    return made
