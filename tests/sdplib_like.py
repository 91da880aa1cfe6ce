"""Stand-ins for large files of SDPLIB: the same sizes and patterns, random numbers, written as SDPA files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

#: A nonzero of the file: matrix (0 is the constant), block, row, column (both from 1), value.
Entry = tuple[int, int, int, int, float]


def _write(path: Path, costs: np.ndarray, sides: tuple[int, ...], entries: Iterable[Entry]) -> Path:
    lines = [str(costs.size), str(len(sides)), " ".join(map(str, sides)), " ".join(map(str, costs))]
    lines += [f"{k} {b} {i} {j} {value!r}" for k, b, i, j, value in entries]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _edges(n: int, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Distinct pairs i < j from 1."""
    found: set[tuple[int, int]] = set()
    while len(found) < count:
        i, j = sorted(int(k) + 1 for k in rng.integers(0, n, 2))
        if i < j:
            found.add((i, j))
    return sorted(found)


def _laplacian(n: int, edges: list[tuple[int, int]], scale: float) -> list[Entry]:
    degree = np.bincount(np.array(edges).reshape(-1), minlength=n + 1)
    entries: list[Entry] = [(0, 1, k, k, scale * float(degree[k])) for k in range(1, n + 1) if degree[k]]
    return entries + [(0, 1, i, j, -scale) for i, j in edges]


def max_cut(path: Path, n: int = 7000, edges: int = 17_148) -> Path:
    """Max-cut: ``diag(X) = 1``. The defaults are the sizes of maxG60; 500 and 1355 those of mcp500-1."""
    entries = _laplacian(n, _edges(n, edges, np.random.default_rng(n)), -0.25)
    return _write(path, np.ones(n), (n,), entries + [(k, 1, k, k, 1.0) for k in range(1, n + 1)])


def partition(path: Path, n: int = 500, edges: int = 625) -> Path:
    """Graph equipartition: ``diag(X) = 1`` and ``<ones, X> = 0``. The defaults are the sizes of gpp500-1."""
    entries = _laplacian(n, _edges(n, edges, np.random.default_rng(n)), -1.0)
    entries += [(1, 1, i, j, 1.0) for i in range(1, n + 1) for j in range(i, n + 1)]
    entries += [(k + 1, 1, k, k, 1.0) for k in range(1, n + 1)]
    return _write(path, np.append(0.0, np.ones(n)), (n,), entries)


def theta(path: Path, n: int = 1001, edges: int = 5985) -> Path:
    """Lovasz's theta: ``trace X = 1``, ``X_ij = 0`` on edges. The defaults are the sizes of thetaG51."""
    entries: list[Entry] = [(0, 1, i, j, 1.0) for i in range(1, n + 1) for j in range(i, n + 1)]
    entries += [(1, 1, k, k, 1.0) for k in range(1, n + 1)]
    pairs = _edges(n, edges, np.random.default_rng(n))
    entries += [(k, 1, i, j, 1.0) for k, (i, j) in enumerate(pairs, start=2)]
    return _write(path, np.append(1.0, np.zeros(edges)), (n,), entries)


def control(path: Path, n: int = 40) -> Path:
    """Largest t with ``[-PA - A'P - C'DC, -PB; -B'P, D] >= t I`` and ``I >= P``, D diagonal.

    The default has the sizes of control8: 861 variables, sides 80 and 40.
    """
    rng = np.random.default_rng(n)
    a, b, c = (np.round(rng.normal(size=(n, n)), 4) for _ in range(3))
    a -= 15.0 * np.eye(n)
    matrices: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros((2 * n, 2 * n)), -np.eye(n))]
    for i in range(n):
        for j in range(i, n):
            p = np.zeros((n, n))
            p[i, j] = p[j, i] = 1.0
            matrices.append((np.block([[-p @ a - a.T @ p, -p @ b], [-b.T @ p, np.zeros((n, n))]]), -p))
    for i in range(n):
        d = np.zeros((n, n))
        d[i, i] = 1.0
        zero = np.zeros((n, n))
        matrices.append((np.block([[-c.T @ d @ c, zero], [zero, d]]), zero))
    matrices.append((-np.eye(2 * n), np.zeros((n, n))))
    entries = [
        (k, block, i + 1, j + 1, float(matrix[i, j]))
        for k, parts in enumerate(matrices)
        for block, matrix in enumerate(parts, start=1)
        for i, j in zip(*np.nonzero(np.triu(matrix)), strict=True)
    ]
    costs = np.zeros(len(matrices) - 1)
    costs[-1] = -1.0
    return _write(path, costs, (2 * n, n), entries)
