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
    entries = _laplacian(n, _edges(n, edges, np.random.default_rng(n)), 0.25)
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
    """Largest t with ``[-PA - A'P - C'DC, -PB; -B'P, D] >= t I`` and ``P >= I``, D diagonal, A unstable.

    The default has the sizes of control8: 861 variables, sides 80 and 40.
    """
    rng = np.random.default_rng(n)
    a, b, c = (np.round(rng.normal(size=(n, n)), 4) for _ in range(3))
    matrices: list[tuple[np.ndarray, np.ndarray]] = [(np.zeros((2 * n, 2 * n)), np.eye(n))]
    for i in range(n):
        for j in range(i, n):
            p = np.zeros((n, n))
            p[i, j] = p[j, i] = 1.0
            matrices.append((np.block([[-p @ a - a.T @ p, -p @ b], [-b.T @ p, np.zeros((n, n))]]), p))
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


def assignment(path: Path, n: int = 7) -> Path:
    """Relaxation of a quadratic assignment problem (Zhao, Karisch, Rendl and Wolkowicz), as in qap5 to qap10.

    Variable ``X`` of side n² + 1, its corner meant as one: sums of the rest over permutations, the diagonal
    equal to the first row, zeros at pairs that share a place, and a trace. No strictly feasible point exists.
    """
    rng = np.random.default_rng(n)
    flow, distance = (np.triu(rng.integers(0, 9, (n, n)), 1) for _ in range(2))
    flow, distance = flow + flow.T, distance + distance.T

    def at(i: int, j: int) -> int:
        return 2 + n * i + j

    cells = [(i, j) for i in range(n) for j in range(n)]
    pairs = [(p, q) for k, p in enumerate(cells) for q in cells[k + 1 :]]
    costs = [(p, q, -float(flow[p[0], q[0]] * distance[p[1], q[1]])) for p, q in pairs]
    entries: list[Entry] = [(0, 1, at(*p), at(*q), value) for p, q, value in costs if value]
    right = [float(n * n), *[n + 1.0] * (2 * n - 1), *[0.0] * (n * n), n * n + 1.0]
    entries += [(1, 1, i, j, 1.0) for i in range(2, n * n + 2) for j in range(i, n * n + 2)]
    for k in range(2 * n - 1):
        marked = [(i == k) if k < n else (j == k - n + 1) for i, j in cells]
        entries += [(k + 2, 1, at(*p), at(*p), 1.0 + mark) for p, mark in zip(cells, marked, strict=True)]
    k = 2 * n + 1
    for p in cells:
        entries += [(k, 1, 1, at(*p), 1.0), (k, 1, at(*p), at(*p), -2.0)]
        k += 1
    entries += [(k, 1, i, i, 1.0) for i in range(1, n * n + 2)]
    for p, q in pairs:
        if (p[0] == q[0]) != (p[1] == q[1]):
            k += 1
            entries.append((k, 1, at(*p), at(*q), 1.0))
            right.append(0.0)
    return _write(path, np.array(right), (n * n + 1,), entries)


def truss_loads(path: Path, bars: int = 150, freedoms: int = 84, loads: int = 1) -> Path:
    """Truss design against several loads: one block ``[S, U'b; b'U, t]`` per bar, and ``tr S <= 1``.

    The defaults have the sizes of truss7; (150, 84, 2) has those of truss6, (33, 18, 9) those of truss5.
    """
    rng = np.random.default_rng(bars + loads)
    entries: list[Entry] = [(0, bars + 1, 1, 1, -1.0)]
    entries += [(1, k, loads + 1, loads + 1, -1.0) for k in range(1, bars + 1)]
    for k in range(1, bars + 1):
        places = rng.choice(freedoms // 2 + 4, 2, replace=False)  # the last four are fixed
        direction = rng.normal(size=2)
        direction *= 1.0 / np.linalg.norm(direction) / rng.uniform(1.0, 2.0)
        for end, place in zip((1.0, -1.0), places, strict=True):
            for axis in range(2 if place < freedoms // 2 else 0):
                for load in range(loads):
                    variable = 2 + loads * (2 * int(place) + axis) + load
                    value = float(np.round(end * direction[axis], 7))
                    entries.append((variable, k, load + 1, loads + 1, value))
    variable = 1 + loads * freedoms
    for i in range(loads):
        for j in range(i, loads):
            variable += 1
            entries += [(variable, k, i + 1, j + 1, -1.0) for k in range(1, bars + 1)]
            entries += [(variable, bars + 1, 1, 1, 1.0)] * (i == j)
    costs = np.zeros(variable)
    costs[0] = -1.0
    chosen = rng.choice(np.arange(1, 1 + loads * freedoms), 3 * loads, replace=False)
    costs[chosen] = np.round(0.01 * rng.normal(size=chosen.size), 6)
    return _write(path, costs, (*[loads + 1] * bars, 1), entries)


def _truss_grid(columns: int, rows: int, size: tuple[float, float]) -> tuple[int, list[dict[int, float]]]:
    """Free degrees of freedom, and for each bar the vector ``b`` whose ``b b'`` is its stiffness matrix."""
    places = [(x, y) for x in range(columns + 1) for y in range(rows)]
    number = {place: 2 * (k - rows) for k, place in enumerate(places)}  # the first column is fixed
    bars = []
    for x, y in places:
        for end in ((x + 1, y), (x, y + 1), (x + 1, y + 1), (x + 1, y - 1)):
            if end in number and end[0] > 0:
                step = np.array([size[0] * (end[0] - x), size[1] * (end[1] - y)])
                unit = step / (step @ step)
                ends = {number[end]: unit, number[x, y]: -unit}
                bars.append({n + a: float(u[a]) for n, u in ends.items() if n >= 0 for a in (0, 1) if u[a]})
    return 2 * columns * rows, bars


def structure(
    path: Path, columns: int = 16, rows: int = 3, kind: str = "trto", size: tuple[float, float] = (1.0, 2.0)
) -> Path:
    """Lightest truss, as in trto, vibra and buck: ``sum t`` subject to compliance and a second LMI.

    ``kind="vibra"``: ``K(t) - 0.0025 (M(t) + 4 M0)`` is semidefinite; ``"buck"``: ``K(t) + G(t)`` is.
    (16, 3) has the sizes of trto2, (32, 5) those of trto3; ``size`` is that of a cell.
    """
    n, bars = _truss_grid(columns, rows, size)
    rng = np.random.default_rng(n)
    load = n - 2 * (rows // 2) - (1 if kind != "trto" else 0)
    first = 1 if kind == "trto" else 2
    entries: list[Entry] = [(0, first, 1, 1, -0.5), (0, first, 1, 1 + load, 1.0)]
    if kind == "vibra":
        entries += [(0, 1, k, k, 0.01) for k in (n - 3, n - 2)]
    for k, bar in enumerate(bars, start=1):
        both = [(i, j, bar[i] * bar[j]) for i in bar for j in bar if i <= j]
        entries += [(k, first, i + 2, j + 2, value) for i, j, value in both]
        entries.append((k, first + 1, k, k, 1.0))
        if kind != "trto":
            shift = 0.0025 if kind == "vibra" else float(np.round(rng.uniform(-0.012, 0.046), 10))
            touched = {i - i % 2 + a for i in bar for a in (0, 1)}
            more = {(i, i): -shift for i in touched}
            for i, j, value in both:
                more[i, j] = more.get((i, j), 0.0) + value
            entries += [(k, 1, i + 1, j + 1, value) for (i, j), value in more.items()]
    sides = (n + 1, -len(bars)) if kind == "trto" else (n, n + 1, -len(bars))
    return _write(path, np.ones(len(bars)), sides, entries)


#: Stiffness matrix of a square element of plane stress, corners in the order (0,0), (0,1), (1,0), (1,1).
_GRADIENTS = [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0)]


def sheet(path: Path, columns: int = 20, rows: int = 10) -> Path:
    """Sheet of least weight under a load and a vibration limit, as in shmup.

    (20, 10) has the sizes of shmup2.
    """
    places = [(x, y) for x in range(columns + 1) for y in range(rows + 1)]
    number = {place: 2 * (k - rows - 1) for k, place in enumerate(places)}
    n, elements = 2 * columns * (rows + 1), [(x, y) for x in range(columns) for y in range(rows)]
    m = len(elements)
    entries: list[Entry] = [(0, 1, 1, 1, -1.0), (0, 1, 1, n - 2 * (rows // 2) - 1, -1.0)]
    entries += [(0, 3, m + k, m + k, -20.0) for k in range(1, m + 1)]
    law = np.array([[1.0, 0.3, 0.0], [0.3, 1.0, 0.0], [0.0, 0.0, 0.35]])
    stiffness = np.zeros((8, 8))
    for gx in (-0.577350269, 0.577350269):
        for gy in (-0.577350269, 0.577350269):
            strain = np.zeros((3, 8))
            for corner, (sx, sy) in enumerate(_GRADIENTS):
                dx, dy = sx * (1 + sy * gy) / 4, sy * (1 + sx * gx) / 4
                strain[:, 2 * corner] = dx, 0.0, dy
                strain[:, 2 * corner + 1] = 0.0, dy, dx
            stiffness += strain.T @ law @ strain
    for k, (x, y) in enumerate(elements, start=1):
        corners = [(x, y), (x, y + 1), (x + 1, y), (x + 1, y + 1)]
        names = [number[corner] + axis for corner in corners for axis in (0, 1)]
        for a, i in enumerate(names):
            for b, j in enumerate(names):
                if 0 <= i <= j:
                    value = float(np.round(stiffness[a, b], 6))
                    entries.append((k, 1, i + 2, j + 2, value))
                    entries.append((k, 2, i + 1, j + 1, value - 0.0001 * (i == j)))
        entries += [(k, 3, k, k, 1.0), (k, 3, m + k, m + k, -1.0)]
    return _write(path, np.ones(m), (n + 1, n, -2 * m), entries)


def material(path: Path, elements: int = 92, freedoms: int = 210) -> Path:
    """Free material optimisation with two loads, as in mater; the defaults have the sizes of mater-2.

    mater-1 has 20 elements and 50 degrees of freedom, mater-3 326 and 718.
    """
    rng = np.random.default_rng(elements)
    entries: list[Entry] = []
    last = 2 * freedoms + 1
    near = np.linspace(0, freedoms // 2 - 1, elements)
    for k in range(1, elements + 1):
        low = int(np.clip(near[k - 1] - 4, 0, freedoms // 2 - 8))
        for node in rng.choice(np.arange(low, low + 8), 4, replace=False):
            gradients = np.round(0.2 * rng.normal(size=(4, 2)), 15)
            for load in range(2):
                for point in range(4):
                    dx, dy = map(float, gradients[point])
                    column = 4 + 4 * load + point
                    x = freedoms * load + 2 * int(node) + 1
                    entries += [(x, k, 1, column, dx), (x, k, 3, column, dy)]
                    entries += [(x + 1, k, 2, column, dy), (x + 1, k, 3, column, dx)]
        entries += [(last, k, i, i, 1.0) for i in (1, 2, 3)]
        entries += [(last + load, k, 4 * load + i, 4 * load + i, 1.0) for load in (1, 2) for i in range(4)]
    entries += [(last, elements + 1, 1, 1, 1.0), (0, elements + 2, 1, 1, -1.0)]
    entries += [(last + load, elements + 2, 1, 1, -1.0) for load in (1, 2)]
    costs = np.zeros(last + 2)
    costs[1], costs[freedoms + 5], costs[last - 1] = 2.0, -2.0, 1.0
    return _write(path, costs, (*[11] * elements, 1, 1), entries)
