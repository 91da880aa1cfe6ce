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

#: A file with LMIs: readers that know nothing of them have to refuse it.
WITH_LMIS = replace(FORMAT, version=2)

#: Rows made of other rows may be nested this deep.
MAX_DEPTH = 32


def save_problem(problem: FeasibilityProblem, path: str | PathLike[str]) -> None:
    """Write a problem to ``path`` exactly as named (no suffix is added)."""
    with writing(path):
        Path(path).write_bytes(pack_problem(problem))


def pack_problem(problem: FeasibilityProblem) -> bytes:
    """The content of the file of a problem."""
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

    ``build``: the class of problems, which knows this module.

    Raises ``FileFormatError``: if the file is not such a problem or is damaged; or if the problem is too
    large, which is found out before any memory is taken for it (see :mod:`sdpfeas.files`). Raises
    ``FileNotFoundError``: if there is no such file.
    """
    if not Path(path).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return load(path, lambda data: unpack_problem(data, build))


def unpack_problem(data: bytes, build: type[FeasibilityProblem]) -> FeasibilityProblem:
    """A problem from the content of its file."""
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
    # A few means stand for all their pairs, and a number in the header for as many rows of zeros.
    require_within_limit(made.m, "rows", each=16)
    return made
