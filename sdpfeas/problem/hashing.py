"""The hash of a problem: of everything it holds, the same in every process and on every machine."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpfeas.problem.rows import Rows

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem

__all__ = ["hash_of"]


def hash_of(problem: FeasibilityProblem) -> str:
    """SHA-256 of the content of a problem."""
    digest = hashlib.sha256(b"sdpfeas problem 1\n")
    header = {
        "sets": [block.spec() for block in problem.sets],
        "row_names": problem.row_names,
        "block_names": problem.block_names,
    }
    digest.update(json.dumps(header, sort_keys=True).encode())
    for array in (problem.lower, problem.upper):
        _hash_array(digest, array)
    for rows in problem.rows:
        _hash_rows(digest, rows)
    for lmi in problem.lmis:
        digest.update(json.dumps({"lmi": lmi.name, "set": lmi.set.spec()}, sort_keys=True).encode())
        _hash_array(digest, lmi.constant)
        for rows in lmi.coefficients:
            _hash_rows(digest, rows)
    return digest.hexdigest()


def _hash_array(digest: Any, array: np.ndarray) -> None:
    kind = "<f8" if array.dtype.kind == "f" else "<i8"
    digest.update(f"{kind}{array.shape}".encode())
    digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())


def _hash_rows(digest: Any, rows: Rows | None) -> None:
    if rows is None:
        digest.update(b"none")
        return
    numbers, arrays, children = rows.state()
    digest.update(f"{rows.kind}{json.dumps(numbers, sort_keys=True)}{len(children)}".encode())
    for name in sorted(arrays):
        digest.update(name.encode())
        _hash_array(digest, arrays[name])
    for child in children:
        _hash_rows(digest, child)
