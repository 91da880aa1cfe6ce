"""SeDuMi files: both sides, round trips, files as found in the wild, and hostile ones."""

import gzip
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import loadmat, savemat

import sdpfeas as sf
from sdpfeas.families.planted import feasible
from sdpfeas.io import read_problem
from sdpfeas.io.matlab import read_matlab
from sdpfeas.io.sdpa import read_sdpa_program
from sdpfeas.io.sedumi import read_sedumi, read_sedumi_program, write_sedumi

# One free number, two non-negative ones, one 2×2 matrix; its entries off the diagonal add up.
A = np.array([[1, 2, 0, 1, 4, 0, 1], [0, 0, 3, 0, 1, 1, -1]])
CONE = {"f": 1, "l": 2, "s": 2}
FIRST, SECOND = np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[0.0, 1.0], [1.0, -1.0]])


def written(path: Path, **changed: Any) -> Path:
    content = {"A": sp.csc_array(A), "b": [5, 6], "c": np.arange(7) * 2, "K": CONE, **changed}
    savemat(path, {name: value for name, value in content.items() if value is not None})
    return path


def full(rows: Any, m: int) -> np.ndarray:
    return np.array([rows.adjoint(unit) for unit in np.eye(m)])


def test_primal_side(tmp_path: Path) -> None:
    p, goal = read_sedumi_program(written(tmp_path / "p.mat"))
    assert p.sets == (sf.Free(1), sf.Nonneg(2), sf.PSD(2))
    np.testing.assert_array_equal([p.lower, p.upper], [[5, 6], [5, 6]])
    np.testing.assert_array_equal(full(p.rows[0], 2), [[1], [0]])
    np.testing.assert_array_equal(full(p.rows[1], 2), [[2, 0], [0, 3]])
    np.testing.assert_array_equal(full(p.rows[2], 2), [FIRST, SECOND])
    assert goal.sense == "min"
    for part, expected in zip(goal.terms, ([0], [2, 4], [[6, 9], [9, 12]]), strict=True):
        np.testing.assert_array_equal(part, expected)


def test_lmi_side(tmp_path: Path) -> None:
    p, goal = read_sedumi_program(written(tmp_path / "p.mat"), "lmi")
    y = np.array([0.5, -1.0])
    assert p.sets == (sf.Free(2),)
    assert [one.set for one in p.lmis] == [sf.Nonneg(2), sf.PSD(2)]
    vector, matrix = (one.value((y,)) for one in p.lmis)
    np.testing.assert_allclose(vector, np.array([2.0, 4]) - y @ A[:, 1:3])
    np.testing.assert_allclose(matrix, np.array([[6.0, 9], [9, 12]]) - y[0] * FIRST - y[1] * SECOND)
    # The only row is the free number: y_1 = 0.
    np.testing.assert_allclose(p.apply((y,)) - p.lower, [0.5])
    np.testing.assert_array_equal(goal.terms[0], [5, 6])
    assert goal.sense == "max"


@pytest.mark.parametrize(
    "changed",
    [
        {"A": A},
        {"A": A.T},
        {"A": None, "At": sp.csc_array(A.T)},
        {"A": None, "At": A},
        {"A": A.astype(np.int16)},
        {"A": sp.csc_array(A.astype(float))},
        {"b": np.array([[5], [6]], dtype=np.uint8), "c": sp.csc_array(np.arange(7.0)[:, None] * 2)},
        {"K": {"f": 1, "l": [2], "s": [[2], [0]], "q": [], "r": np.zeros((0, 0))}},
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_the_same_problem_in_other_clothes(tmp_path: Path, changed: dict[str, Any], packed: bool) -> None:
    plain = read_sedumi(written(tmp_path / "p.mat"))
    path = written(tmp_path / "q.mat", **changed)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    assert read_sedumi(path) == plain


def test_second_order_and_rotated_cones(tmp_path: Path) -> None:
    """A member of the cones in the file is one of ours in other words, on both sides."""
    rng = np.random.default_rng(2)
    matrix, b, c = rng.integers(-4, 5, size=(2, 11)), [1, 2], 2 * rng.integers(-4, 5, size=11)
    path = written(tmp_path / "p.mat", A=matrix, b=b, c=c, K={"f": 1, "l": 1, "q": [3, 0, 2], "r": [4]})
    p, goal = read_sedumi_program(path)
    assert p.sets == (sf.Free(1), sf.Nonneg(1), sf.SecondOrder(3), sf.SecondOrder(2), sf.SecondOrder(4))
    for _ in range(20):
        parts = [block.project(rng.normal(size=block.n)) for block in p.sets]
        t, w, *z = parts[-1]
        u, v = t + w, (t - w) / 2
        assert min(u, v) >= -1e-12
        assert 2 * u * v >= np.sum(np.square(z)) - 1e-12
        x = np.concatenate([*parts[:-1], [u, v, *z]])
        np.testing.assert_allclose(p.apply(tuple(parts)), matrix @ x, atol=1e-12)
        assert goal.value(tuple(parts)) == pytest.approx(c @ x)
    q, other = read_sedumi_program(path, "lmi")
    assert (q.sets, q.m) == ((sf.Free(2),), 1)
    assert tuple(one.set for one in q.lmis) == p.sets[1:]
    y = rng.normal(size=2)
    slack = c - matrix.T @ y
    turned = [slack[7] + slack[8] / 2, slack[7] - slack[8] / 2, *slack[9:]]
    expected = (slack[1:2], slack[2:5], slack[5:7], turned)
    for one, value in zip(q.lmis, expected, strict=True):
        np.testing.assert_allclose(one.value((y,)), value, atol=1e-12)
    np.testing.assert_allclose(q.apply((y,)) - q.lower, [-slack[0]], atol=1e-12)
    assert other.value((y,)) == pytest.approx(b @ y)
    write_sedumi(p, tmp_path / "q.mat", goal)
    assert read_sedumi(tmp_path / "q.mat").rows[4].norms().tolist() == p.rows[4].norms().tolist()


def test_big_endian(tmp_path: Path) -> None:
    """Written on machines of the time; SciPy writes none, so by hand."""
    numbers = struct.pack(">II8dII", 9, 56, *range(7), 0.0, 0, 0)[: 8 + 56]
    head = struct.pack(
        ">IIIIIIiiII4s4x",
        6,
        8,
        6,
        0,
        5,
        8,
        7,
        1,
        1,
        4,
        b"c",
    )
    body = head + numbers
    path = tmp_path / "p.mat"
    path.write_bytes(b" " * 124 + b"\x01\x00MI" + struct.pack(">II", 14, len(body)) + body)
    np.testing.assert_array_equal(read_matlab(path)["c\0\0\0".rstrip("\0")].ravel(), range(7))


@pytest.mark.parametrize("suffix", [".mat", ".mat.gz"])
@pytest.mark.parametrize("storage", ["dense", "sparse", "low-rank"])
def test_round_trip_is_exact(tmp_path: Path, storage: str, suffix: str) -> None:
    rng = np.random.default_rng(1)
    sets = [sf.Free(2), sf.Nonneg(4), sf.SecondOrder(3), sf.PSD(3), sf.PSD(2)]
    p = feasible(rng, sets, storage=storage, bounds="equality", rows=5).problem
    goal = sf.Objective([block.symmetrize(rng.standard_normal(block.shape)) for block in sets], "max")
    path = tmp_path / f"p{suffix}"
    write_sedumi(p, path, goal)
    again, kept = read_sedumi_program(path)
    assert again.sets == p.sets
    np.testing.assert_array_equal(again.lower, p.lower)
    for mine, theirs in zip(p.rows, again.rows, strict=True):
        np.testing.assert_array_equal(full(mine, p.m), full(theirs, p.m))
    for mine, theirs in zip(goal.to_maximise(p), kept.to_maximise(again), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    first = path.read_bytes()
    write_sedumi(again, path, kept)
    assert path.read_bytes() == first
    if suffix == ".mat":
        assert loadmat(path)["A"].shape == (5, 2 + 4 + 3 + 9 + 4)


def test_problems_of_another_form_are_refused(tmp_path: Path) -> None:
    for problem, words in (
        (sf.FeasibilityProblem([sf.SpectralBox(1)], [[[[1.0]]]], [1], [1]), "SpectralBox"),
        (sf.FeasibilityProblem([sf.Nonneg(1)], [[[1.0]]], [1], [2]), "inequality"),
    ):
        with pytest.raises(sf.ProblemError, match=words):
            write_sedumi(problem, tmp_path / "p.mat")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"b": None}, "variable b"),
        ({"K": None}, "variable K"),
        ({"K": [1, 2]}, "structure"),
        ({"A": None}, "A or At"),
        ({"At": A.T}, "not both"),
        ({"A": A[:, :6]}, "shape"),
        ({"A": A + 1j}, "real"),
        ({"A": "text"}, "matrix"),
        ({"c": np.arange(6)}, "c has 6 entries"),
        ({"c": np.eye(7)}, "vector"),
        ({"b": [5, np.nan]}, "NaN"),
        ({"A": sp.csc_array(np.where(A == 0, 0, np.inf))}, "NaN or infinity"),
        ({"b": np.array([5, 2**53 + 1])}, "would be rounded"),
        ({"K": {**CONE, "s": [2.5]}}, "numbers of entries"),
        ({"K": {**CONE, "s": [-2]}}, "numbers of entries"),
        ({"K": {**CONE, "e": 3}}, "K.e is not known"),
        ({"A": np.ones((2, 1)), "c": [1], "K": {"r": 1}}, "at least two"),
        ({"A": np.array([[1, 2.0**-60], [1, 1]]), "c": None, "K": {"r": 2}}, "rotated cone would be rounded"),
        ({"K": {**CONE, "scomplex": 1}}, "complex"),
        ({"K": {"f": 0}}, "no cones"),
        ({"A": A + np.array([0, 0, 0, 0, 2.0**60, 1, 0])}, "would be rounded"),
    ],
)
def test_malformed(tmp_path: Path, changed: dict[str, Any], words: str) -> None:
    path = written(tmp_path / "p.mat", **changed)
    with pytest.raises(sf.FileFormatError, match=words) as caught:
        read_sedumi(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"text" * 99, b"\x89HDF\r\n\x1a\n" * 99, b"\x1f\x8b" + b"x" * 99])
def test_no_matlab_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "p.mat").write_bytes(content)
    with pytest.raises(sf.FileFormatError):
        read_sedumi(tmp_path / "p.mat")


def test_bombs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDPFEAS_READ_LIMIT", "4M")
    huge = sp.csc_array((2**30, 1))
    for changed in (
        {"c": np.zeros(10**6)},
        {"A": None, "At": huge, "b": [1], "c": None, "K": {"l": 2**30}},
        {"A": None, "At": sp.csc_array((2**30, 1)), "b": [1], "c": huge, "K": {"s": 2**15}},
        {"A": sp.csc_array(np.ones((1, 40_000))), "b": [1], "c": None, "K": {"l": 40_000}},
        {"A": np.ones((1, 200)), "b": [1], "c": None, "K": {"s": np.ones(200)}},
        {"K": {**CONE, "x": np.zeros((1, 5000), dtype=object)}},
        {"b": np.zeros(20_000), "A": sp.csc_array((20_000, 7))},
    ):
        path = tmp_path / "p.mat"
        content = {"A": sp.csc_array(A), "b": [5, 6], "c": np.arange(7) * 2, "K": CONE, **changed}
        content = {name: value for name, value in content.items() if value is not None}
        savemat(path, content, do_compression=True)
        assert path.stat().st_size < 2**20
        for side in ("primal", "lmi"):
            tracemalloc.start()
            try:
                with pytest.raises(sf.FileFormatError, match="SDPFEAS_READ_LIMIT"):
                    read_sedumi(path, side)  # type: ignore[arg-type]
                assert tracemalloc.get_traced_memory()[1] < 2**23
            finally:
                tracemalloc.stop()


def test_shapes_that_lie(tmp_path: Path) -> None:
    """A shape, a pointer or a length beyond the bytes that are there takes no memory."""
    good = written(tmp_path / "p.mat").read_bytes()
    rng = np.random.default_rng(4)
    tracemalloc.start()
    for _ in range(100):
        data = bytearray(good)
        place = int(rng.integers(128, len(data) - 4)) & ~3
        data[place : place + 4] = struct.pack("<I", int(rng.choice([2**31 - 1, 2**32 - 1, 2**28, 0])))
        (tmp_path / "q.mat").write_bytes(data)
        try:
            read_sedumi(tmp_path / "q.mat")
        except sf.FileFormatError:
            continue
    assert tracemalloc.get_traced_memory()[1] < 2**25
    tracemalloc.stop()


# ---------------------------------------------------------------- SDPA's objective


def test_sdpa_keeps_its_objective(tmp_path: Path) -> None:
    path = tmp_path / "p.dat-s"
    path.write_text("2\n2\n2 -2\n3 4\n0 1 1 2 5\n0 2 2 2 7\n1 1 1 1 1\n2 2 1 1 1\n")
    _, goal = read_sdpa_program(path)
    assert goal.sense == "max"
    np.testing.assert_array_equal(goal.terms[0], [[0, 5], [5, 0]])
    np.testing.assert_array_equal(goal.terms[1], [0, 7])
    problem, other = read_problem(path, "lmi")
    assert other is not None
    assert (other.sense, other.terms[0].tolist()) == ("min", [3, 4])
    assert other.value(problem.point([np.zeros(block.shape) + 2 for block in problem.sets])) == 14


# ---------------------------------------------------------------- real files


def test_files_of_the_world(data_dir: Path) -> None:
    rows = {"hinf12": 43, "minphase": 48, "truss5": 208, "copo14": 1275, "nql30": 3680}
    for name, m in rows.items():
        assert read_sedumi(data_dir / "dimacs" / f"{name}.mat.gz").m == m
    for path in sorted((data_dir / "liu-pataki").glob("*_1.mat")):
        problem = read_sedumi(path)
        assert problem.sets == (sf.PSD(10),)
        assert str(problem.m) in path.name
        assert all(np.array_equal(a, np.round(a)) for a in full(problem.rows[0], problem.m))
