"""CBF files: every cone, round trips, malformed files and hostile ones."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from mutation import MUTATIONS

import sdpfeas as sf
from sdpfeas.families.planted import feasible
from sdpfeas.io.cbf import read_cbf, read_cbf_program, write_cbf

# Variables in all cones and one 2×2 matrix; constraints in all cones and one 2×2 matrix inequality.
EXAMPLE = """# made up
VER
2

OBJSENSE
MAX

PSDVAR
1
2

VAR
9 5
F 1
L- 1
L= 1
Q 3
QR 3

PSDCON
1
2

CON
9 6
L= 1
L+ 1
L- 1
F 1
Q 2
QR 3

OBJFCOORD
1
0 1 0 3.5

OBJACOORD
3
0 1
1 2
7 4

OBJBCOORD
-7.25

FCOORD
2
0 0 0 0 1
1 0 1 0 2.0

ACOORD
9
0 0 1
1 1 1
2 3 1
3 4 1
4 0 1
5 6 2
6 0 2
7 5 4
8 7 6

BCOORD
4
0 -1
1 2
4 8
6 3

HCOORD
2
0 0 0 0 1
0 3 1 0 -1

DCOORD
2
0 0 0 5
0 1 1 6
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "p.cbf"
    path.write_text(text)
    return path


def test_every_cone(tmp_path: Path) -> None:
    p, goal = read_cbf_program(written(tmp_path, EXAMPLE))
    assert p.sets == (sf.Free(1), sf.Nonneg(1), sf.SecondOrder(3), sf.SecondOrder(3), sf.PSD(2))
    assert [lmi.set for lmi in p.lmis] == [sf.SecondOrder(2), sf.SecondOrder(3), sf.PSD(2)]
    rng = np.random.default_rng(1)
    parts = [block.project(rng.normal(size=block.shape)) for block in p.sets]
    free, minus, quadratic, (t, w, z), matrix = parts
    # The numbers of the file: x0, x1 <= 0, x2 = 0, a second-order cone, a rotated one.
    x = np.concatenate([free, -minus, [0.0], quadratic, [t + w, (t - w) / 2, z]])
    assert 2 * x[6] * x[7] >= x[8] ** 2 - 1e-12
    g = np.array(
        [x[0] + matrix[0, 0] - 1, x[1] + 4 * matrix[0, 1] + 2, x[3], x[4], x[0] + 8, 2 * x[6],
         2 * x[0] + 3, 4 * x[5], 6 * x[7]]
    )  # fmt: skip
    value = p.apply(tuple(parts))
    np.testing.assert_allclose(value[:2], [g[0] + 1, g[1] - 2])
    np.testing.assert_allclose(value[2:], g[2:4])
    np.testing.assert_array_equal(p.lower, [1, -2, -np.inf, -np.inf])
    np.testing.assert_array_equal(p.upper, [1, np.inf, 0, np.inf])
    first, second, third = (lmi.value(parts) for lmi in p.lmis)
    np.testing.assert_allclose(first, g[4:6])
    np.testing.assert_allclose(second[0] ** 2 - second[1] ** 2, 2 * g[6] * g[7])
    np.testing.assert_allclose([second[0], second[2]], [g[6] / 2 + g[7], g[8]])
    np.testing.assert_allclose(third, [[5 + x[0], -x[3]], [-x[3], 6]])
    assert goal.sense == "max"
    assert goal.value(tuple(parts)) == pytest.approx(7 * matrix[0, 1] + x[0] + 2 * x[1] + 4 * x[7] - 7.25)


@pytest.mark.parametrize("suffix", [".cbf", ".cbf.gz"])
@pytest.mark.parametrize("bounds", ["equality", "inequality"])
@pytest.mark.parametrize("storage", ["dense", "sparse", "low-rank"])
def test_round_trip_is_exact(tmp_path: Path, storage: str, bounds: str, suffix: str) -> None:
    rng = np.random.default_rng(3)
    sets = [sf.Free(2), sf.Nonneg(3), sf.SecondOrder(3), sf.PSD(3), sf.PSD(2)]
    p = feasible(rng, sets, storage=storage, bounds=bounds, rows=6).problem
    terms = tuple(block.symmetrize(rng.normal(size=block.shape)) for block in sets)
    goal = sf.Objective(terms, "min", 0.1)
    path = tmp_path / f"p{suffix}"
    write_cbf(p, path, goal)
    again, kept = read_cbf_program(path)
    assert again.sets == p.sets
    np.testing.assert_array_equal([again.lower, again.upper], [p.lower, p.upper])
    for mine, theirs in zip(p.rows, again.rows, strict=True):
        for unit in np.eye(p.m):
            np.testing.assert_array_equal(mine.adjoint(unit), theirs.adjoint(unit))
    assert (kept.sense, kept.offset) == ("min", 0.1)
    assert all(np.array_equal(a, b) for a, b in zip(kept.terms, terms, strict=True))
    first = path.read_bytes()
    write_cbf(again, path, kept)
    assert path.read_bytes() == first
    assert sf.read_problem(path)[0] == again


def test_rows_with_two_bounds_and_with_none(tmp_path: Path) -> None:
    p = sf.FeasibilityProblem([sf.Nonneg(1)], [[[1.0], [2.0]]], [1.0, -np.inf], [3.0, np.inf])
    write_cbf(p, tmp_path / "p.cbf")
    again = read_cbf(tmp_path / "p.cbf")
    np.testing.assert_array_equal(again.lower, [1.0, -np.inf, -np.inf])
    np.testing.assert_array_equal(again.upper, [np.inf, 3.0, np.inf])


def test_other_problems_are_refused(tmp_path: Path) -> None:
    boxed = sf.FeasibilityProblem([sf.SpectralBox(1)], [[[[1.0]]]], [1], [1])
    with pytest.raises(sf.ProblemError, match="SpectralBox"):
        write_cbf(boxed, tmp_path / "p.cbf")
    lmi = sf.LMI(sf.PSD(2), np.eye(2), [[[[0.0, 1.0], [1.0, 0.0]]]])
    with pytest.raises(sf.ProblemError, match="LMIs"):
        write_cbf(sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[lmi]), tmp_path / "p.cbf")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("VER\n2", "VER\n9", "versions"),
        ("VER\n2\n", "", "needs VER"),
        ("MAX", "MOST", "MIN or MAX"),
        ("9 5", "9 6", "cone"),
        ("9 5", "10 5", "add up"),
        ("QR 3", "EXP 3", "cone"),
        ("OBJBCOORD", "INT", "not a known keyword"),
        ("OBJBCOORD\n-7.25", "OBJBCOORD\nnan", "finite"),
        ("OBJBCOORD\n-7.25", "OBJBCOORD\n1_0", "finite"),
        ("0 0 1\n1 1 1", "0 0 1e400\n1 1 1", "finite"),
        ("ACOORD\n9", "ACOORD\n99999999999", "only"),
        ("8 7 6", "9 7 6", "beyond"),
        ("8 7 6", "8 9 6", "beyond"),
        ("1 0 1 0 2.0", "1 0 2 0 2.0", "outside its matrix"),
        ("1 0 1 0 2.0", "1 1 1 0 2.0", "beyond"),
        ("8 7 6", "8 7", "line has 2"),
        ("0 3 1 0 -1", "0 -3 1 0 -1", "expected a non-negative integer"),
        ("DCOORD", "HCOORD", "not there yet"),
        ("PSDVAR\n1\n2", "PSDVAR\n1\n0", "at least one row"),
        ("0 0 0 5\n0 1 1 6", "0 0 0 1e17\n0 0 0 1", "rounded"),
    ],
)
def test_malformed(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in EXAMPLE
    path = written(tmp_path, EXAMPLE.replace(old, new, 1))
    with pytest.raises(sf.FileFormatError, match=words) as caught:
        read_cbf(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        "PSDVAR\n1\n100000\n",
        "VAR\n1000000000 1\nL+ 1000000000\n",
        "VAR\n1 1\nF 1\nPSDCON\n1\n60000\n",
        "VAR\n1 1\nF 1\nCON\n500000000 1\nL= 500000000\n",
        "VAR\n200 200\n" + "F 1\n" * 200,
        "VAR\n1 1\nF 1\nACOORD\n40000\n" + "0 0 1\n" * 40_000,
    ],
)
def test_bombs(tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDPFEAS_READ_LIMIT", "4M")
    path = written(tmp_path, f"VER\n1\nOBJSENSE\nMIN\n{body}")
    begin = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(sf.FileFormatError, match="SDPFEAS_READ_LIMIT"):
            read_cbf(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    assert time.process_time() - begin < 5.0


def test_mutants_are_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.cbf"
    for k in range(300):
        rng = np.random.default_rng([9, k])
        mutate = MUTATIONS["text"][k % 3]
        path.write_bytes(mutate(EXAMPLE.encode(), rng))
        with contextlib.suppress(sf.SdpfeasError):
            assert repr(read_cbf(path))
