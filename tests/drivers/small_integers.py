"""Small problems with integer data and an exactly known answer, over all sets and LMIs mixed."""

from __future__ import annotations

from typing import Any

import numpy as np

import sdpfeas as sf

KINDS = ("psd", "hermitian", "box", "box trace", "box single", "box no trace", "nonneg", "free", "soc")


def _complex(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-2, 3, shape) + 1j * rng.integers(-2, 3, shape)


def _gram(rng: np.random.Generator, n: int, rank: int) -> np.ndarray:
    factor = rng.integers(-2, 3, (n, rank)).astype(float)
    return factor @ factor.T


def member(rng: np.random.Generator, kind: str) -> tuple[Any, np.ndarray]:
    """A set and a member of it with integer entries, often on its boundary."""
    n = int(rng.integers(1, 4))
    if kind == "psd":
        return sf.PSD(n), _gram(rng, n, int(rng.integers(0, n + 1)))
    if kind == "hermitian":
        block = sf.HermitianPSD(max(n, 2))
        factor = _complex(rng, (block.degree, int(rng.integers(0, block.degree + 1))))
        return block, np.asarray(block.coordinates(factor @ factor.conj().T), dtype=float)
    if kind.startswith("box"):
        n = max(n, 2)
        diagonal = rng.integers(0, 2, n).astype(float)
        if kind == "box single":
            return sf.SpectralBox(n, 1.0, 1.0), np.eye(n)
        if kind == "box no trace":
            return sf.SpectralBox(n, 0.0, 1.0, 0.0), np.zeros((n, n))
        trace = float(diagonal.sum()) if kind == "box trace" else None
        return sf.SpectralBox(n, 0.0, 1.0, trace), np.diag(diagonal)
    if kind == "nonneg":
        return sf.Nonneg(n), rng.integers(0, 3, n).astype(float)
    if kind == "free":
        return sf.Free(n), rng.integers(-3, 4, n).astype(float)
    x = np.array([[5.0, 3.0, 4.0], [0.0, 0.0, 0.0], [3.0, 1.0, -2.0], [1.0, 0.0, 1.0]])
    return sf.SecondOrder(3), x[rng.integers(0, 4)]


def _values(rng: np.random.Generator, block: Any, m: int) -> np.ndarray:
    if isinstance(block, sf.HermitianPSD):
        pairs = [_complex(rng, (block.degree, block.degree)) for _ in range(m)]
        return np.array([block.coordinates(a + a.conj().T) for a in pairs], dtype=float).reshape(m, -1)
    parts = rng.integers(-2, 3, (m, *block.shape)).astype(float)
    return parts + parts.transpose(0, 2, 1) if block.matrix else parts


def planted(rng: np.random.Generator) -> tuple[sf.FeasibilityProblem, bool]:
    """A problem and whether it has a point."""
    chosen = [member(rng, str(rng.choice(KINDS))) for _ in range(int(rng.integers(1, 4)))]
    sets, point = [block for block, _ in chosen], tuple(x for _, x in chosen)
    m = int(rng.integers(1, 7))
    rows = [_values(rng, block, m) for block in sets]
    held = sf.FeasibilityProblem(sets, rows, np.full(m, -np.inf), np.full(m, np.inf))
    value = held.apply(held.point(point))
    slack = rng.integers(0, 2, m)
    kind = np.full(m, 2) if rng.random() < 0.5 else rng.integers(0, 3, m)
    lower = np.where(kind == 1, -np.inf, value - slack * (kind == 0))
    upper = np.where(kind == 0, np.inf, value + slack * (kind == 1))
    lmis = []
    if rng.random() < 0.4:
        target, inside = member(rng, str(rng.choice(["psd", "hermitian", "nonneg", "soc"])))
        parts = []
        total = np.array(inside)
        for block, x in zip(sets, point, strict=True):
            if block.matrix and rng.random() < 0.5:
                parts.append(None)
                continue
            own = _values(rng, target, block.entries)
            if block.matrix:
                own = own.reshape(block.n, block.n, *target.shape)
                own = (own + own.swapaxes(0, 1)).reshape(block.entries, *target.shape)
            total = total - np.tensordot(x.reshape(-1), own, axes=1).reshape(total.shape)
            parts.append(own)
        lmis = [sf.LMI(target, total, parts)]
    truth = bool(rng.random() < 0.6)
    if not truth:
        # A row that asks a combination of the others, and of a member of the dual cones, for less than it is.
        y = rng.integers(-2, 3, m).astype(float)
        y = np.where(np.isneginf(lower), -np.abs(y), np.where(np.isposinf(upper), np.abs(y), y))
        bound = (
            float(held.beta_terms(y) @ np.ones(m))
            if not y.any()
            else float(
                np.sum(np.where(y > 0, np.where(np.isfinite(lower), lower, 0) * y, 0))
                + np.sum(np.where(y < 0, np.where(np.isfinite(upper), upper, 0) * y, 0))
            )
        )
        extra, reach = [], 0.0
        for block, part in zip(sets, rows, strict=True):
            whole = np.tensordot(y, part, axes=1)
            if block.bounded:
                extra.append(whole + np.zeros(block.shape))
            elif block.free:
                extra.append(whole)
            else:
                extra.append(whole + np.asarray(member_of_dual(rng, block)))
        rows = [np.concatenate([part, e[None]]) for part, e in zip(rows, extra, strict=True)]
        # <A*y + S, X> >= bound for all points; ask for less.
        lower = np.append(lower, -np.inf)
        upper = np.append(upper, bound - 1.0 + reach)
    return sf.FeasibilityProblem(sets, rows, lower, upper, lmis=lmis), truth


def member_of_dual(rng: np.random.Generator, block: Any) -> np.ndarray:
    """An integer member of a self-dual cone."""
    name = {"PSD": "psd", "HermitianPSD": "hermitian", "Nonneg": "nonneg", "SecondOrder": "soc"}
    kind = name[type(block).__name__]
    while True:
        other, x = member(rng, kind)
        if other == block:
            return x
