"""Facial reduction in the certifier: prove its steps, and find exact points on the last face."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import numpy as np

from sdpfeas import sdpcheck
from sdpfeas.certifier.numbers import floats, fractions, kernel, primitive
from sdpfeas.certifier.standard_form import Functional, StandardForm, Vector, full
from sdpfeas.errors import NotProved

#: Most entries of all rows on a face.
MOST_ENTRIES = 2_000_000


def replay(
    form: StandardForm, steps: Sequence[tuple[Vector, list[Vector]]]
) -> tuple[list[Any], Any, list[Any]]:
    """Prove steps of facial reduction and tighten the bounds of ``form``; raises NotProved.

    Returns the documents of the steps, that of the last one if it proves infeasibility, and the faces.
    """
    faces: list[Any] = [None] * (len(form.sets) + len(form.lmis))
    documents = list[Any]()
    for k, (y, own) in enumerate(steps):
        document, bound, after = form.dual(y, own, faces)
        if bound > 0:
            if k < len(steps) - 1:
                raise NotProved("a step of facial reduction comes after a contradiction")
            return documents, document, faces
        if bound < 0:
            raise NotProved("the two sides of a step of facial reduction have the wrong order")
        faces = after
        form.bounds = [
            (pair[weight < 0],) * 2 if weight else pair for pair, weight in zip(form.bounds, y, strict=True)
        ]
        documents.append(document)
    return documents, None, faces


def on_face(form: StandardForm, faces: Sequence[Any], x: Vector) -> Vector:
    """Return an exact solution near ``x`` on the faces; raises NotProved.

    The unknowns are the entries of ``S`` in ``X = V S V'``. An LMI on a face is ``F(X) p = 0`` for the
    vectors ``p`` orthogonal to the face, and ``U'F(X) U`` in the smaller cone.
    """
    if len(form.rows) * form.size > MOST_ENTRIES:
        raise NotProved("the problem is too large for a point on a face")
    sets, near = list[sdpcheck.Block](), list[Fraction]()
    #: Every new unknown as the old entries that it is multiplied with.
    images = list[Functional]()
    for b, block in enumerate(form.sets):
        part, face, start = form.part(x, b), faces[b], form.starts[b]
        if face is None or block.cone == "Free":
            sets.append(block)
            images += [{start + k: Fraction(1)} for k in range(block.size)]
            near += part
        elif block.cone == "Nonneg" and face:
            sets.append(sdpcheck.Block({"kind": "Nonneg", "n": len(face)}))
            images += [{start + k: Fraction(1)} for k in face]
            near += [part[k] for k in face]
        elif face:
            basis = [primitive(column) for column in face]
            sets.append(sdpcheck.Block({"kind": "PSD", "n": len(basis)}))
            images += congruence(basis, start)
            inverse = np.linalg.pinv(np.array([floats(column) for column in basis]).T)
            small = inverse @ full(block, floats(part)) @ inverse.T
            near += fractions(((small + small.T) / 2)[np.tril_indices(len(basis))])
    index = by_entry(images)
    rows, bounds, lmis = [turned(row, index) for row in form.rows], list(form.bounds), list[Any]()
    for j, (block, constant, parts) in enumerate(form.lmis):
        face = faces[len(form.sets) + j]
        if face is not None:
            for zero in _zeros(block, face):
                rows.append(turned({c: _dot(zero, part) for c, part in parts.items()}, index))
                bounds.append((-_dot(zero, constant),) * 2)
        kept = by_entry(congruence([primitive(c) for c in face], 0)) if face and block.cone == "PSD" else None
        small_block = block if kept is None else sdpcheck.Block({"kind": "PSD", "n": len(face)})
        if face == []:
            continue
        moved: dict[int, Functional] = {}
        for s, image in enumerate(images):
            total: Functional = {}
            for c, weight in image.items():
                for k, v in parts.get(c, {}).items():
                    total[k] = total.get(k, Fraction(0)) + weight * v
            if total:
                moved[s] = total if kept is None else turned(total, kept)
        lmis.append((small_block, dict(constant) if kept is None else turned(constant, kept), moved))
    starts = list(accumulate((block.size for block in sets), initial=0))
    shell: Any = SimpleNamespace(
        sets=sets, starts=starts, bounds=bounds, rows=[], lmis=lmis, objective=[], sense="min"
    )
    reduced = StandardForm(shell, rows)
    out = [Fraction(0)] * form.size
    for s, v in enumerate(reduced.feasible(near)):
        for k, weight in images[s].items():
            out[k] += v * weight
    return out


def congruence(basis: Sequence[Vector], start: int) -> list[Functional]:
    """Return for every listed entry of ``S`` the entries of ``V S V'`` that it is multiplied with."""
    used = [[(i, v) for i, v in enumerate(column) if v] for column in basis]
    out = []
    for a in range(len(basis)):
        for b in range(a + 1):
            image: Functional = {}
            for i, v in used[a]:
                for j, w in used[b]:
                    if a != b or i >= j:
                        k = start + max(i, j) * (max(i, j) + 1) // 2 + min(i, j)
                        image[k] = image.get(k, Fraction(0)) + v * w * (2 if a != b and i == j else 1)
            out.append(image)
    return out


def by_entry(images: Sequence[Functional]) -> dict[int, list[tuple[int, Fraction]]]:
    """Return for every old entry the new unknowns that it is a combination of."""
    out: dict[int, list[tuple[int, Fraction]]] = {}
    for s, image in enumerate(images):
        for k, v in image.items():
            out.setdefault(k, []).append((s, v))
    return out


def turned(functional: Functional, index: dict[int, list[tuple[int, Fraction]]]) -> Functional:
    """Return a functional of old entries as one of new unknowns."""
    out: Functional = {}
    for k, v in functional.items():
        for s, weight in index.get(k, ()):
            out[s] = out.get(s, Fraction(0)) + v * weight
    return {s: v for s, v in out.items() if v}


def _dot(a: Functional, b: Functional) -> Fraction:
    small, large = (a, b) if len(a) < len(b) else (b, a)
    return sum((v * large[k] for k, v in small.items() if k in large), Fraction(0))


def _zeros(block: sdpcheck.Block, face: Any) -> list[Functional]:
    """Return linear forms of the value of an LMI that vanish on a face of its cone."""
    if block.cone == "Nonneg":
        return [{k: Fraction(1)} for k in range(block.size) if k not in set(face)]
    outside = kernel(face, block.side)[0] if face else np.eye(block.side, dtype=int).tolist()
    out = []
    for p in outside:
        for q in range(block.side):
            places = (
                (max(q, j) * (max(q, j) + 1) // 2 + min(q, j), p[j] * Fraction(1, 1 + (q != j)))
                for j in range(block.side)
            )
            out.append({k: v for k, v in places if v})
    return out
