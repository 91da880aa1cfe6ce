"""Problems as JSON documents of the certificate format (docs/certificate-format.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from sdpfeas.certifier.numbers import text, texts
from sdpfeas.errors import NotProved
from sdpfeas.numerics.exact_arithmetic import READERS, Reading
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import BlockSet

#: Most numbers of a problem that is written.
MOST_NUMBERS = 4_000_000

#: Sets of LMIs that are written as a block with equality rows ``F(X) - S = 0``.
VECTOR_CONES = ("SecondOrder", "HermitianPSD")

#: Largest side of a matrix.
LARGEST_SIDE = 1_000

#: Entries [position, number] of a row on one block, and its terms (weight, vector) for ``w v v'``.
Row = tuple[list[tuple[int, Fraction]], list[tuple[Fraction, list[Fraction]]]]
Read = Callable[[float], Fraction]


def problem_document(
    problem: FeasibilityProblem, reading: str = Reading.STORED, objective: Objective | None = None
) -> dict[str, Any]:
    """Return a problem as a document, with its binary64 data or as decimals (``reading="written"``)."""
    read = READERS[Reading(reading)]
    parts = [*problem.rows, *(rows for lmi in problem.lmis for rows in lmi.coefficients)]
    if sum(_count(rows) for rows in parts) > MOST_NUMBERS or max(problem.sides, default=0) > LARGEST_SIDE:
        raise NotProved("the problem is too large for a certificate")
    columns = [list(_rows(rows, read)) for rows in problem.rows]
    document: dict[str, Any] = {
        "format": "sdpfeas problem 1",
        "sets": [_set(block, read) for block in problem.sets],
        "rows": [
            {"lower": _end(low, read), "upper": _end(high, read), "blocks": _pieces(problem.sets, row)}
            for low, high, row in zip(
                problem.lower.tolist(), problem.upper.tolist(), zip(*columns, strict=True), strict=True
            )
        ],
    }
    for lmi in problem.lmis:
        if lmi.set.kind in VECTOR_CONES:
            _add_slack(document, lmi, problem.sets, read)
        else:
            document.setdefault("lmis", []).append(_lmi(lmi, problem.sets, read))
    if objective is not None:
        terms = [
            _dense(np.asarray(block.coordinates(c)), read)
            for block, c in zip(problem.sets, objective.terms, strict=True)
        ]
        document["objective"] = {
            "sense": objective.sense,
            "constant": text(read(objective.offset)),
            "blocks": _pieces(problem.sets, terms),
        }
    return document


def _count(rows: Rows) -> int:
    """Count the stored numbers of rows."""
    _, arrays, children = rows.state()
    return sum(a.size for a in arrays.values()) + sum(map(_count, children))


def _set(block: BlockSet, read: Read) -> dict[str, Any]:
    spec = block.spec()
    spec["n"] = spec.pop("side", spec.get("n"))
    return {k: text(read(v)) if isinstance(v, float) else v for k, v in spec.items()}


def _end(value: float, read: Read) -> int | str | None:
    return text(read(value)) if np.isfinite(value) else None


def _where(block: BlockSet, k: int) -> list[int]:
    """Return the indices of an entry of a vector or matrix by its position."""
    if not (block.matrix or block.kind == "HermitianPSD"):
        return [k]
    return [*divmod(k, block.n if block.matrix else block.degree)]


def _stated(block: BlockSet, where: list[int]) -> bool:
    """Whether an entry is written: symmetric matrices are written on and below the diagonal."""
    return not block.matrix or where[0] >= where[1]


def _entries(block: BlockSet, entries: Sequence[tuple[int, Fraction]]) -> list[list[Any]]:
    """Write the entries of a row."""
    placed = [(_where(block, k), v) for k, v in entries]
    return [[*where, text(v)] for where, v in placed if _stated(block, where)]


def _pieces(sets: Sequence[BlockSet], parts: Sequence[Row]) -> list[dict[str, Any]]:
    """Write a row: one object per block that it touches."""
    out = []
    for b, (block, (entries, terms)) in enumerate(zip(sets, parts, strict=True)):
        piece: dict[str, Any] = {"block": b}
        if entries:
            piece["entries"] = _entries(block, entries)
        if terms:
            piece["terms"] = [[text(weight), texts(vector)] for weight, vector in terms]
        if len(piece) > 1:
            out.append(piece)
    return out


def _dense(array: np.ndarray, read: Read) -> Row:
    flat = array.reshape(-1)
    return [(int(k), read(float(flat[k]))) for k in np.flatnonzero(flat)], []


def _rows(rows: Rows, read: Read) -> Iterator[Row]:
    """Read every row on one block, from the arrays of its storage kind."""
    _, arrays, children = rows.state()

    def lines() -> Iterator[list[tuple[int, Fraction]]]:
        for a, b in pairwise(arrays["indptr"].tolist()):
            yield [
                (k, read(v))
                for k, v in zip(arrays["indices"][a:b].tolist(), arrays["data"][a:b].tolist(), strict=True)
                if v
            ]

    if rows.kind == "none":
        yield from (([], []) for _ in range(rows.m))
    elif rows.kind == "dense":
        yield from (_dense(row, read) for row in arrays["array"])
    elif rows.kind == "sparse":
        yield from ((line, []) for line in lines())
    elif rows.kind == "low-rank":
        terms: list[list[Any]] = [[] for _ in range(rows.m)]
        for factor, sign, owner in zip(arrays["factors"], arrays["signs"], arrays["owner"], strict=True):
            terms[int(owner)].append((read(float(sign)), [read(v) for v in factor.tolist()]))
        yield from (([], own) for own in terms)
    elif rows.kind == "pairwise-difference":
        means = [[read(v) for v in mean] for mean in arrays["means"].tolist()]
        for i, mean in enumerate(means):
            for other in means[i + 1 :]:
                yield [], [(Fraction(1), [a - b for a, b in zip(mean, other, strict=True)])]
    elif rows.kind == "stacked":
        yield from (row for child in children for row in _rows(child, read))
    elif rows.kind == "combined":
        parts = list(_rows(children[0], read))
        for line in lines():
            total: dict[int, Fraction] = {}
            for k, weight in line:
                for place, v in parts[k][0]:
                    total[place] = total.get(place, Fraction(0)) + weight * v
            scaled = [(weight * w, vector) for k, weight in line for w, vector in parts[k][1]]
            yield sorted((k, v) for k, v in total.items() if v), scaled
    else:
        raise NotProved(f"rows of kind {rows.kind!r} have no document")


def expanded(row: Row) -> list[tuple[int, Fraction]]:
    """Return the entries of a row with its terms added."""
    total = dict(row[0])
    for weight, vector in row[1]:
        own = [(i, v) for i, v in enumerate(vector) if v]
        for i, a in own:
            for j, b in own:
                k = i * len(vector) + j
                total[k] = total.get(k, Fraction(0)) + weight * a * b
    return sorted((k, v) for k, v in total.items() if v)


def _coefficients(
    lmi: Any, sets: Sequence[BlockSet], read: Read
) -> Iterator[tuple[int, list[int], list[tuple[int, Fraction]]]]:
    """Yield block and indices of every variable of an LMI, with the entries of its coefficient."""
    for b, (block, rows) in enumerate(zip(sets, lmi.coefficients, strict=True)):
        for k, row in enumerate(_rows(rows, read)):
            where = _where(block, k)
            if _stated(block, where):
                yield b, where, expanded(row)


def _add_slack(document: dict[str, Any], lmi: Any, sets: Sequence[BlockSet], read: Read) -> None:
    """Add a block ``S`` in the set of an LMI, and the rows ``F(X) - S = 0``."""
    columns: list[dict[int, list[Any]]] = [{} for _ in range(lmi.set.entries)]
    for b, where, entries in _coefficients(lmi, sets, read):
        for place, v in entries:
            columns[place].setdefault(b, []).append([*where, text(v)])
    own = len(document["sets"])
    document["sets"].append(_set(lmi.set, read))
    for k, (column, constant) in enumerate(zip(columns, lmi.constant.tolist(), strict=True)):
        parts = column | {own: [[*_where(lmi.set, k), -1]]}
        blocks = [{"block": b, "entries": entries} for b, entries in parts.items()]
        bound = text(-read(constant))
        document["rows"].append({"lower": bound, "upper": bound, "blocks": blocks})


def _lmi(lmi: Any, sets: Sequence[BlockSet], read: Read) -> dict[str, Any]:
    found = _coefficients(lmi, sets, read)
    coefficients = [[b, *where, _entries(lmi.set, entries)] for b, where, entries in found if entries]
    constant = _entries(lmi.set, _dense(lmi.constant, read)[0])
    return {"set": _set(lmi.set, read), "constant": constant, "coefficients": coefficients}
