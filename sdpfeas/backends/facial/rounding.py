"""Exact multipliers next to those that a cone solver found.

The solver's exposing vector has small eigenvalues where an exact one has zeros. What is rounded is its
kernel, a subspace, by integer relations between its coordinates (LLL): in the coordinates of the block these
are small. The kernel leaves linear equations for the multipliers, which are solved exactly; what is still
free is taken near what the solver found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from sdpfeas.backends.facial.table import MatrixPart, Table
from sdpfeas.numerics.integers import (
    identity,
    integral,
    kernel,
    need_integers,
    product,
    short_rows,
    solution,
)
from sdpfeas.numerics.linalg import FloatArray, eigh

__all__ = ["exact_multipliers"]

#: Eigenvalues of an exposing vector of trace one below this may stand for zeros.
SMALL = 1e-4
#: An eigenvalue this many times larger than the next marks the end of the kernel.
GAP = 20.0
#: How many guesses of the kernel of a block are tried.
GUESSES = 3
#: Digits of the kernel that relations are looked for in.
DIGITS = (4, 6, 8, 10)
#: Relative errors to round what is free with.
ERRORS = (1e-1, 1e-2, 1e-4, 1e-7, 1e-10)


def exact_multipliers(table: Table, found: FloatArray) -> Iterator[np.ndarray]:
    """Multipliers of the rows in integers near approximate ones.

    Parameters
    ----------
    table : Table
        The table.
    found : ndarray
        How much of every row of ``table.near`` an approximate exposing vector is made of; its trace is about
        one.
    """
    vectors, _ = table.near
    matrices, rays = table.split(found @ vectors)
    spectra = [eigh(m) for m in matrices]
    zeros = [k for k, v in enumerate(rays) if v < SMALL]
    for guess in _guesses([lam for lam, _ in spectra]):
        for digits in DIGITS if any(guess) else DIGITS[:1]:
            bases = [
                _kernel(table, part, frame[:, :k], digits)
                for part, (_, frame), k in zip(table.parts, spectra, guess, strict=True)
            ]
            if any(basis is None for basis in bases):
                continue
            free = _solutions(table, [b for b in bases if b is not None], zeros)
            yield from _near(table, free, found)


def _guesses(spectra: list[FloatArray]) -> list[tuple[int, ...]]:
    """Dimensions of the kernels, the most plausible first."""
    choices: list[list[tuple[float, int]]] = []
    for lam in spectra:
        floor = 1e-13
        values = np.maximum(lam, floor)
        plausible = []
        for k in range(lam.size + 1):
            if k and lam[k - 1] > SMALL:
                break
            below = values[k - 1] if k else floor
            above = values[k] if k < lam.size else SMALL
            ratio = above / (below if k else 1e-7)
            if ratio >= GAP or k == lam.size or k == 0:
                plausible.append((ratio, k))
        choices.append(sorted(plausible, reverse=True)[:GUESSES])
    if not choices:
        return [()]
    # One block after the other away from its best guess.
    best = tuple(c[0][1] for c in choices)
    out = [best]
    for b, choice in enumerate(choices):
        out += [(*best[:b], k, *best[b + 1 :]) for _, k in choice[1:]]
    return out


def _kernel(table: Table, part: MatrixPart, frame: FloatArray, digits: int) -> np.ndarray | None:
    """Integer basis, in the coordinates of the face, of a subspace near that which a frame spans."""
    k = frame.shape[1]
    if k == 0:
        return np.zeros((part.side, 0), dtype=object)
    if k == part.side:
        return identity(part.side)
    basis = table.faces.bases[part.block]
    assert basis is not None
    q, _ = table.frames[part.block]
    n = len(basis)
    need_integers("integer relations of a kernel", 4.0 * n**3 * math.sqrt(n))
    relations = _relations(q @ frame, digits)[: n - k]
    found = kernel(relations)
    if found.shape[1] != k:
        return None
    inside = solution(basis, found)
    return None if inside is None else np.stack([integral(column)[0] for column in inside.T], axis=1)


def _relations(span: FloatArray, digits: int) -> np.ndarray:
    """Short integer vectors nearly orthogonal to the columns of a matrix, the shortest first."""
    n = len(span)
    scaled = np.empty(span.shape, dtype=object)
    scaled[...] = np.rint(10.0**digits * span).astype(np.int64).tolist()
    return short_rows(np.concatenate([identity(n), scaled], axis=1))[:, :n]


def _solutions(table: Table, kernels: list[np.ndarray], zeros: list[int]) -> np.ndarray:
    """All combinations of the rows of a table whose vectors have given kernels and zeros, as columns."""
    count = len(table.vectors)
    equations = [table.flat, table.vectors[:, table.rays][:, zeros]]
    for part, basis in zip(table.parts, kernels, strict=True):
        matrices = part.matrices(table.vectors)
        stacked = product(matrices.reshape(count * part.side, part.side), basis)
        equations.append(stacked.reshape(count, -1))
    whole = np.concatenate(equations, axis=1)
    # Measured: equations that are independent, once these are found modulo a prime, are solved quickly.
    need_integers("multipliers with a given kernel", 0.1 * float(count) ** 3 + 4.0 * whole.size)
    return kernel(whole.T)


def _near(table: Table, free: np.ndarray, found: FloatArray) -> Iterator[np.ndarray]:
    """Members of a space of combinations, as multipliers, near approximate ones; the roundest first."""
    if not free.shape[1]:
        return
    vectors = table.near[0]
    sizes = np.linalg.norm(vectors, axis=1)
    try:
        spanned = free.astype(np.float64)
    except OverflowError:
        return
    with np.errstate(all="ignore"):
        images = spanned.T @ vectors
    if not np.isfinite(images).all():
        return
    lengths = np.linalg.norm(images, axis=1)
    lengths[lengths == 0.0] = 1.0
    target = found @ vectors
    shares, *_ = np.linalg.lstsq((images / lengths[:, None]).T, target, rcond=None)
    whole = float(np.linalg.norm(shares @ (images / lengths[:, None])))
    if not (math.isfinite(whole) and whole > 0.0 and sizes.any()):
        return
    for error in ERRORS if free.shape[1] > 1 else (None,):
        if error is None:
            rounded = np.array([1 if shares[0] > 0.0 else -1], dtype=object)
        else:
            steps = shares / lengths * (float(np.sum(lengths)) / (error * whole))
            if not np.all(np.abs(steps) < 2.0**62):
                continue
            rounded = np.empty(len(steps), dtype=object)
            rounded[:] = np.rint(steps).astype(np.int64).tolist()
        yield product(product(free, rounded[:, None]).T, table.weights)[0]
