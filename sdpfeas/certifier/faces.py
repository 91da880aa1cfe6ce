"""Facial reduction in the certifier: prove its steps, and find exact points on the last face."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sdpfeas import sdpcheck
from sdpfeas.certifier.numbers import primitive
from sdpfeas.certifier.standard_form import Bounds, Functional, StandardForm, Vector
from sdpfeas.errors import NotProved

#: Most entries of all rows on a face.
MOST_ENTRIES = 2_000_000


def replay(
    form: StandardForm, steps: Sequence[Vector]
) -> tuple[list[list[Any]], bool, list[Any], list[Bounds]]:
    """Prove steps of facial reduction; raises NotProved.

    Returns their proofs, whether the last one proves infeasibility, the faces, and the tighter bounds.
    """
    faces: list[Any] = [None] * len(form.blocks)
    proofs, bounds = list[list[Any]](), list(form.bounds)
    for k, y in enumerate(steps):
        proof, bound, after = form.prove_multipliers(y, faces, bounds)
        proofs.append(proof)
        if bound > 0 and k == len(steps) - 1:
            return proofs, True, faces, bounds
        if bound != 0:
            raise NotProved("a step of facial reduction has the wrong bound, or follows a contradiction")
        faces = after
        bounds = [(pair[weight < 0],) * 2 if weight else pair for pair, weight in zip(bounds, y, strict=True)]
    return proofs, False, faces, bounds


def on_face(form: StandardForm, faces: Sequence[Any], bounds: Sequence[Bounds], x: Vector) -> Vector:
    """Return an exact solution near ``x`` on the faces; raises NotProved.

    The unknowns are the entries of ``T`` in ``X = V T V'``, and the same of blocks of LMIs.
    """
    if len(form.rows) * form.size > MOST_ENTRIES:
        raise NotProved("the problem is too large for a point on a face")
    blocks, near, slacks = list[sdpcheck.Block](), list[Fraction](), dict[int, int]()
    #: Every new unknown as the old entries that it is multiplied with.
    images = list[Functional]()
    for b, (block, face, start) in enumerate(zip(form.blocks, faces, form.starts, strict=False)):
        part = form.part(x, b)
        if face is None or block.cone == "Free":
            if b in form.slacks:
                slacks[len(blocks)] = form.slacks[b]
            blocks.append(block)
            images += [{start + k: Fraction(1)} for k in range(block.size)]
            near += part
        elif block.cone == "Nonneg" and face:
            blocks.append(sdpcheck.Block({"kind": "Nonneg", "n": len(face)}))
            images += [{start + k: Fraction(1)} for k in face]
            near += [part[k] for k in face]
        elif face:
            basis = [primitive(column) for column in face]
            blocks.append(sdpcheck.Block({"kind": "PSD", "n": len(basis)}))
            images += congruence(basis, start)
            near += coordinates(basis, part)
    index: dict[int, list[tuple[int, Fraction]]] = {}
    for s, image in enumerate(images):
        for k, v in image.items():
            index.setdefault(k, []).append((s, v))
    rows: list[Functional] = []
    for row in form.rows:
        turned: Functional = {}
        for k, v in row.items():
            for s, weight in index.get(k, ()):
                turned[s] = turned.get(s, Fraction(0)) + v * weight
        rows.append(turned)
    found, _ = StandardForm(blocks, rows, bounds, slacks).feasible(near)
    out = [Fraction(0)] * form.size
    for s, v in enumerate(found):
        for k, weight in images[s].items():
            out[k] += v * weight
    return out


def congruence(basis: Sequence[Vector], start: int) -> list[Functional]:
    """Return for every listed entry of ``T`` the entries of ``V T V'`` that it is multiplied with."""
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


def coordinates(basis: Sequence[Vector], listed: Sequence[Fraction]) -> Vector:
    """Return ``T`` with ``V T V'`` near the listed matrix, and equal to it on the face."""
    places = own_indices(basis)
    return [
        listed[max(i, j) * (max(i, j) + 1) // 2 + min(i, j)] / (basis[a][i] * basis[b][j])
        for a, i in enumerate(places)
        for b, j in enumerate(places[: a + 1])
    ]


def own_indices(basis: Sequence[Sequence[Fraction]]) -> list[int]:
    """Return for every column of a face an index at which it alone is not zero.

    The columns are products of normal forms of kernels, so there is one.
    """
    return [
        next(i for i, v in enumerate(column) if v and not any(o[i] for o in basis if o is not column))
        for column in basis
    ]
