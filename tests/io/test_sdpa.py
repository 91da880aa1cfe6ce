"""SDPA sparse files: both sides, round trips, files as found in the wild, and hostile ones."""

import contextlib
import gzip
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.dropin import SdpaSolution, to_sdpa
from sdpfeas.families.planted import feasible, feasible_lmis, infeasible, infeasible_lmis
from sdpfeas.io.sdpa import read_sdpa, write_sdpa

# The example of the SDPA manual's format section, with a diagonal block.
EXAMPLE = """"A comment
* another comment
2 = mDIM
2 = nBLOCK
(2, -3) = bLOCKsTRUCT
{10.0, 2.0D+01}
0 1 1 1 1.0
0 1 1 2 0.5
0 2 2 2 -3.0
1 1 1 1 1.0
1 1 2 2 1.0
1 2 1 1 7.0
2 1 1 2 5.0
2 2 3 3 2.0
"""
CONE = sf.LMI(sf.SecondOrder(2), np.ones(2), [np.ones((1, 2))])
F0 = np.array([[1.0, 0.5], [0.5, 0.0]])
F1 = np.eye(2)
F2 = np.array([[0.0, 5.0], [5.0, 0.0]])


@pytest.fixture
def example(tmp_path: Path) -> Path:
    path = tmp_path / "example.dat-s"
    path.write_text(EXAMPLE)
    return path


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "file.dat-s"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def full(rows: object, m: int) -> np.ndarray:
    return np.array([rows.adjoint(unit) for unit in np.eye(m)])  # type: ignore[attr-defined]


def same_problem(a: sf.FeasibilityProblem, b: sf.FeasibilityProblem) -> bool:
    """Same sets, bounds and rows to the last bit, whatever the storage and the names."""
    return (
        a.sets == b.sets
        and np.array_equal(a.lower, b.lower)
        and np.array_equal(a.upper, b.upper)
        and all(
            np.array_equal(
                np.zeros((a.m, *s.shape)) if p is None else full(p, a.m),
                np.zeros((a.m, *s.shape)) if q is None else full(q, a.m),
            )
            for s, p, q in zip(a.sets, a.rows, b.rows, strict=True)
        )
    )


# ---------------------------------------------------------------- the convention


def test_primal_side(example: Path) -> None:
    p = read_sdpa(example)
    assert p.sets == (sf.PSD(2), sf.Nonneg(3))
    np.testing.assert_array_equal(p.lower, [10.0, 20.0])
    np.testing.assert_array_equal(p.upper, [10.0, 20.0])
    np.testing.assert_array_equal(full(p.rows[0], 2), [F1, F2])
    np.testing.assert_array_equal(full(p.rows[1], 2), [[7.0, 0.0, 0.0], [0.0, 0.0, 2.0]])


def test_lmi_side(example: Path) -> None:
    p = read_sdpa(example, side="lmi")
    assert (p.sets, p.m) == ((sf.Free(2),), 0)
    assert [lmi.set for lmi in p.lmis] == [sf.PSD(2), sf.Nonneg(3)]
    x = np.array([3.0, -1.0])
    matrix, diagonal = (lmi.value((x,)) for lmi in p.lmis)
    np.testing.assert_array_equal(matrix, x[0] * F1 + x[1] * F2 - F0)
    expected = x[0] * np.array([7.0, 0, 0]) + x[1] * np.array([0, 0, 2.0]) - np.array([0, -3.0, 0])
    np.testing.assert_array_equal(diagonal, expected)


def test_lmi_certificate_is_a_dual_matrix(tmp_path: Path) -> None:
    # x·diag(1, -1) - I is never positive semidefinite: Y = I has <F_1, Y> = 0 and <F_0, Y> = 2 > 0.
    path = written(tmp_path, "1\n1\n2\n0\n0 1 1 1 1\n0 1 2 2 1\n1 1 1 1 1\n1 1 2 2 -1\n")
    p = read_sdpa(path, side="lmi")
    y = np.eye(2).reshape(-1)
    assert sf.verify(p, sf.Claim(certificate=y), rigorous=True).verdict == sf.Verdict.INFEASIBLE


# ---------------------------------------------------------------- round trips


@pytest.mark.parametrize("side", ["primal", "lmi"])
@pytest.mark.parametrize("suffix", [".dat-s", ".dat-s.gz"])
def test_round_trip_of_a_file(example: Path, tmp_path: Path, side: str, suffix: str) -> None:
    p = read_sdpa(example, side)
    path = tmp_path / f"again{suffix}"
    write_sdpa(p, path, side)
    assert (path.read_bytes()[:2] == b"\x1f\x8b") is suffix.endswith("gz")
    assert read_sdpa(path, side) == p


@pytest.mark.parametrize("storage", ["dense", "sparse", "low-rank", "stacked", "combined"])
def test_round_trip_of_primal_problems_is_exact(tmp_path: Path, storage: str) -> None:
    rng = np.random.default_rng(1)
    p = feasible(rng, [sf.PSD(3), sf.Nonneg(4)], storage=storage, bounds="equality", rows=5).problem
    path = tmp_path / "p.dat-s"
    write_sdpa(p, path)
    assert same_problem(p, read_sdpa(path))


@pytest.mark.parametrize("storage", ["dense", "sparse", "low-rank"])
def test_round_trip_of_lmi_problems_is_exact(tmp_path: Path, storage: str) -> None:
    rng = np.random.default_rng(2)
    p = feasible_lmis(rng, [sf.Free(3), sf.Free(1)], [sf.PSD(4), sf.Nonneg(2)], storage=storage).problem
    path = tmp_path / "p.dat-s"
    write_sdpa(p, path, "lmi")
    q = read_sdpa(path, "lmi")
    assert q.sets == (sf.Free(4),)
    for mine, found in zip(p.lmis, q.lmis, strict=True):
        assert found.set == mine.set
        np.testing.assert_array_equal(found.constant, mine.constant)
        whole = sp.vstack([part.explicit() for part in mine.coefficients])
        np.testing.assert_array_equal(found.coefficients[0].explicit().toarray(), whole.toarray())


def test_same_problem_gives_the_same_bytes(tmp_path: Path, example: Path) -> None:
    p = read_sdpa(example)
    a, b = tmp_path / "a.dat-s.gz", tmp_path / "b.dat-s.gz"
    write_sdpa(p, a)
    time.sleep(0.01)
    write_sdpa(p, b)
    assert a.read_bytes() == b.read_bytes()


def test_blocks_without_rows_survive(tmp_path: Path) -> None:
    p = sf.FeasibilityProblem([sf.PSD(2), sf.Nonneg(3)], [np.eye(2)[None], None], [1.0], [1.0])
    path = tmp_path / "p.dat-s"
    write_sdpa(p, path)
    assert same_problem(p, read_sdpa(path))


# ---------------------------------------------------------------- what cannot be written


@pytest.mark.parametrize(
    ("problem", "side", "words"),
    [
        (sf.FeasibilityProblem([sf.Free(1)], [[[1.0]]], [1], [1]), "primal", "Free"),
        (sf.FeasibilityProblem([sf.SpectralBox(1)], [[[[1.0]]]], [1], [1]), "primal", "SpectralBox"),
        (sf.FeasibilityProblem([sf.Nonneg(1)], [[[1.0]]], [1], [2]), "primal", "inequality"),
        (sf.FeasibilityProblem([sf.Nonneg(1)], [None], [], []), "primal", "at least one row"),
        (sf.FeasibilityProblem([sf.Nonneg(1)], [[[1.0]]], [1], [1]), "lmi", "takes Free blocks"),
        (sf.FeasibilityProblem([sf.Free(1)], [[[1.0]]], [1], [2]), "lmi", "no rows"),
        (sf.FeasibilityProblem([sf.Free(1)], [None], [], []), "lmi", "at least one"),
        (sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[CONE]), "lmi", "into SecondOrder"),
    ],
)  # fmt: skip
def test_other_problems_are_refused(
    tmp_path: Path, problem: sf.FeasibilityProblem, side: str, words: str
) -> None:
    with pytest.raises(sf.ProblemError, match=words):
        write_sdpa(problem, tmp_path / "p.dat-s", side)


def test_side_is_checked(example: Path, tmp_path: Path) -> None:
    with pytest.raises(sf.OptionError, match="side must be"):
        read_sdpa(example, side="dual")  # type: ignore[arg-type]
    with pytest.raises(sf.OptionError, match="side must be"):
        write_sdpa(read_sdpa(example), tmp_path / "p", side="dual")  # type: ignore[arg-type]


@pytest.mark.parametrize("side", ["equality", "lmi"])
def test_a_pair_is_written_as_its_programs_are(tmp_path: Path, side: str) -> None:
    """The file of a pair, read as that side, is feasible exactly where the problem is."""
    for truth in (True, False):
        rng = np.random.default_rng([3, truth])
        if side == "equality":
            # Split in two, a free block leaves no certificate any room.
            sets = [sf.PSD(3), sf.Nonneg(2), *([sf.Free(2)] if truth else [])]
            item = (feasible if truth else infeasible)(rng, sets, bounds="two-sided")
        else:
            targets = [sf.PSD(3), sf.Nonneg(2)]
            item = (feasible_lmis if truth else infeasible_lmis)(rng, [sf.Free(2)], targets)
        pair = to_sdpa(item.problem)
        assert pair.side == side
        path = written(tmp_path, pair.file("a pair"))
        data = sf.read_sdpa(path, "primal" if side == "equality" else "lmi")
        result = sf.solve(data)
        assert result.verdict == item.truth
        if side == "equality":
            assert list(data.sets) == pair.sets
        if truth:
            y = np.zeros(data.m) if side == "equality" else result.point[0]
            blocks = result.point if side == "equality" else [np.zeros(s.shape) for s in pair.sets]
            point = pair.point(SdpaSolution(y, blocks))
            assert sf.verify(item.problem, sf.Claim(point)).verdict == "feasible"
        else:
            parts = [np.zeros(s.shape) for s in pair.sets]
            y = -result.certificate if side == "equality" else np.zeros(2)
            if side == "lmi":
                parts = list(data.split(result.certificate)[1])
            certificate = pair.multipliers(SdpaSolution(y, parts))
            assert sf.verify(item.problem, sf.Claim(certificate=certificate)).verdict == "infeasible"


# ---------------------------------------------------------------- as found in the wild

SMALL = "1\n1\n2\n3.0\n1 1 1 1 1.0\n1 1 1 2 2.0\n"


@pytest.mark.parametrize(
    "text",
    [
        SMALL,
        SMALL.replace("\n", "\r\n"),
        "*c\n\n  * c\n" + SMALL,
        SMALL.replace("1 1 1 2 2.0", "1 1 2 1 2.0"),  # the other triangle
        SMALL.replace("1 1 1 2 2.0", "1 1 1 2 1.5\n1 1 1 2 0.5"),  # repeated entries add up
        SMALL.replace("1 1 1 2 2.0", "{1, 1, (1, 2), +2.0D0}"),
        SMALL.replace("1 1 1 2 2.0", "1 1\n1 2\n2.0"),  # an entry over three lines
        SMALL.replace("1 1 1 1 1.0", "* a comment between entries\n1 1 1 1 1.0"),
        SMALL.replace("3.0\n", "  { 3.0 }   = c\n"),
        "1 = mDIM\n1=nBLOCK\n{+2} block sizes\n\n3.0\n1 1 1 1 1.0 1 1 1 2 2.0",
        "\t1\n1\n(2)\n3\n1\t1\t1\t1\t1\n1 1 1 2 2e0   ",
    ],
)
def test_files_in_the_wild(tmp_path: Path, text: str) -> None:
    p = read_sdpa(written(tmp_path, text))
    np.testing.assert_array_equal(full(p.rows[0], 1), [[[1.0, 2.0], [2.0, 0.0]]])
    np.testing.assert_array_equal(p.lower, [3.0])


@pytest.mark.parametrize("second", ["1 1 2 1 2.0", "1 1 2 1 0.5", "1 1 2 2 1.0\n1 1 2 1 2.0"])
def test_entries_in_both_triangles_are_refused(tmp_path: Path, second: str) -> None:
    """CSDP ends with "Duplicate entry!"; adding them up doubles what a full matrix means."""
    with pytest.raises(sf.FileFormatError, match=rf"line {6 + second.count('1 1')}.*both triangles"):
        read_sdpa(written(tmp_path, SMALL + second + "\n"))
    read_sdpa(written(tmp_path, SMALL.replace("1 1 1 2", "0 1 1 2") + second + "\n"))


def test_numbers_of_the_header_may_span_lines(tmp_path: Path) -> None:
    p = read_sdpa(written(tmp_path, "3\n2\n2\n-1\n1.0 2.0\n3.0\n3 2 1 1 4.0\n"))
    assert p.sets == (sf.PSD(2), sf.Nonneg(1))
    np.testing.assert_array_equal(p.lower, [1.0, 2.0, 3.0])


def test_compressed_files_are_known_by_content(tmp_path: Path) -> None:
    assert read_sdpa(written(tmp_path, gzip.compress(SMALL.encode()))).m == 1


# ---------------------------------------------------------------- malformed and hostile


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("", 1, 1, "file ends"),
        ("* only a comment\n", 2, 1, "number of matrices"),
        ("two\n1\n2\n3\n", 1, 1, "'two'"),
        ("1\n  x\n2\n3\n", 2, 3, "number of blocks"),
        ("0\n1\n2\n3\n", 1, 1, "at least 1"),
        ("1\n-1\n2\n3\n", 2, 1, "at least 1"),
        ("1.5\n1\n2\n3\n", 1, 1, "'1.5'"),
        ("1\n1\n0\n3\n", 3, 1, "zero"),
        ("1\n2\n2 x\n3\n", 3, 3, "entry 2 of the block sizes"),
        ("1\n1\n2 3\n3\n", 3, 3, "more follow"),
        ("1\n1\n2\n3 4\n1 1 1 1 1\n", 4, 3, "more follow"),
        ("2\n1\n2\n3 nan\n1 1 1 1 1\n", 4, 3, "entry 2 of c"),
        ("1\n1\n2\n1e999\n1 1 1 1 1\n", 4, 1, "finite"),
        ("1\n1\n2\n3\n1 1 1 1 oops\n", 5, 9, "'oops'"),
        ("1\n1\n2\n3\n1 1 1 1 1.0-2.0\n", 5, 9, "expected a number"),
        ("1\n1\n2\n3\n1 1 1 1 0x1A\n", 5, 9, "expected a number"),
        ("1\n1\n2\n3\n1 1 1 1 1\n1 1 2 2\n", 6, 1, "five numbers"),
        ("1\n1\n2\n3\n2 1 1 1 1\n", 5, 1, "from 0 to 1"),
        ("1\n1\n2\n3\n-1 1 1 1 1\n", 5, 1, "from 0 to 1"),
        ("1\n1\n2\n3\n1 2 1 1 1\n", 5, 3, "block"),
        ("1\n1\n2\n3\n1 0 1 1 1\n", 5, 3, "block"),
        ("1\n1\n2\n3\n1 1 1 1 1\n1 1 3 1 1\n", 6, 5, "row"),
        ("1\n1\n2\n3\n1 1 1 3 1\n", 5, 7, "column"),
        ("1\n1\n2\n3\n1 1 0 1 1\n", 5, 5, "row"),
        ("1\n1\n2\n3\n1 1 1.5 1 1\n", 5, 1, "integers"),
        ("1\n1\n2\n3\n1 1 1 1 inf\n", 5, 9, "finite"),
        ("1\n1\n2\n3\n1 1 1 1 1e999\n", 5, 9, "finite"),
        ("1\n1\n-2\n3\n1 1 1 2 1\n", 5, 7, "diagonal"),
    ],
)
@pytest.mark.parametrize("side", ["primal", "lmi"])
def test_errors_give_line_and_column(
    tmp_path: Path, side: str, text: str, line: int, column: int, words: str
) -> None:
    with pytest.raises(sf.FileFormatError, match=words) as caught:
        read_sdpa(written(tmp_path, text), side)
    assert f"line {line}, column {column}:" in str(caught.value)


@pytest.mark.parametrize("side", ["primal", "lmi"])
@pytest.mark.parametrize(
    "text",
    [
        "1000000000000\n1\n2\n3\n1 1 1 1 1\n",
        "999999999999999999999999999\n1\n2\n3\n",
        "1\n1000000000000\n2\n3\n1 1 1 1 1\n",
        "1\n1\n1000000000\n3\n1 1 1 1 1\n",
        "1\n1\n-1000000000\n3\n1 1 1 1 1\n",
        "1\n3\n9000 9000 9000\n3\n1 1 1 1 1\n",
    ],
)
def test_hostile_sizes_are_refused_at_once(tmp_path: Path, side: str, text: str) -> None:
    begin = time.perf_counter()
    with pytest.raises(sf.FileFormatError):
        read_sdpa(written(tmp_path, text), side)
    assert time.perf_counter() - begin < 1.0


def test_too_many_rows_times_blocks_are_refused(tmp_path: Path) -> None:
    count = 12_000
    head = f"{count}\n{count}\n{'1 ' * count}\n{'0 ' * count}\n"
    entries = "".join(f"{k} {k} 1 1 1\n" for k in range(1, count + 1))
    for side in ("primal", "lmi"):
        with pytest.raises(sf.FileFormatError, match="rows times blocks"):
            read_sdpa(written(tmp_path, head + entries), side)


def test_a_large_block_on_the_lmi_side_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "1\n1\n9000\n3\n1 1 1 1 1\n")
    assert read_sdpa(path).sets == (sf.PSD(9000),)
    with pytest.raises(sf.FileFormatError, match="entries of matrices"):
        read_sdpa(path, "lmi")


def test_damaged_and_missing_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError):
        read_sdpa(tmp_path / "none.dat-s")
    packed = gzip.compress(SMALL.encode())
    for damaged in (packed[:-9], packed[:12] + b"\xff\xff" + packed[14:]):
        with pytest.raises(sf.FileFormatError):
            read_sdpa(written(tmp_path, damaged))
    monkeypatch.setenv("SDPFEAS_READ_LIMIT", "10")
    with pytest.raises(sf.FileFormatError, match="limit"):
        read_sdpa(written(tmp_path, packed))


def test_noise_never_raises_anything_else(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    for _ in range(150):
        text = bytearray(EXAMPLE.encode())
        for _ in range(rng.integers(1, 6)):
            place = int(rng.integers(len(text)))
            text[place : place + int(rng.integers(0, 3))] = rng.bytes(int(rng.integers(0, 3)))
        for side in ("primal", "lmi"):
            with contextlib.suppress(sf.FileFormatError):
                read_sdpa(written(tmp_path, bytes(text)), side)


@pytest.mark.slow
def test_twenty_megabytes_in_seconds(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    m, n, count = 10_000, 300, 720_000
    ends = np.sort(rng.integers(1, n + 1, (2, count)), axis=0)
    # No place twice: sums of these numbers would be rounded, and are refused.
    places = np.unique(np.vstack([rng.integers(0, m + 1, count), ends]), axis=1)
    rng.shuffle(places, axis=1)
    values = rng.standard_normal(places.shape[1])
    lines = [f"{k} 1 {i} {j} {v!r}" for (k, i, j), v in zip(places.T.tolist(), values.tolist(), strict=True)]
    text = f"{m}\n1\n{n}\n{'0.5 ' * m}\n" + "\n".join(lines)
    path = written(tmp_path, text)
    assert path.stat().st_size > 20e6
    for side in ("primal", "lmi"):
        begin = time.process_time()
        read_sdpa(path, side)
        assert time.process_time() - begin < 10.0


# ---------------------------------------------------------------- SDPLIB

#: Rows on the primal side (m), and the block sizes, of some instances.
SDPLIB = {
    "arch0": (174, [161, -174]),
    "control1": (21, [10, 5]),
    "control2": (66, [20, 10]),
    "control3": (136, [30, 15]),
    "gpp100": (101, [100]),
    "hinf1": (13, [4, 4, 6]),
    "hinf2": (13, [5, 5, 6]),
    "hinf3": (13, [5, 5, 6]),
    "hinf4": (13, [5, 5, 6]),
    "infd1": (10, [30]),
    "infp1": (10, [30]),
    "mcp100": (100, [100]),
    "qap5": (136, [26]),
    "theta1": (104, [50]),
    "truss1": (6, [2] * 6 + [1]),
    "truss2": (58, [4] * 33 + [1]),
    "truss3": (27, [5] * 6 + [1]),
    "truss4": (12, [3] * 6 + [1]),
}


@pytest.mark.parametrize("name", SDPLIB)
def test_sdplib_sizes(data_dir: Path, tmp_path: Path, name: str) -> None:
    m, sizes = SDPLIB[name]
    path = data_dir / "sdplib" / f"{name}.dat-s"
    if not path.is_file():
        pytest.skip(f"no {path}")
    sets = tuple(sf.PSD(n) if n > 0 else sf.Nonneg(-n) for n in sizes)
    p = read_sdpa(path)
    assert (p.m, p.sets) == (m, sets)
    q = read_sdpa(path, "lmi")
    assert (q.m, q.sets) == (0, (sf.Free(m),))
    assert tuple(one.set for one in q.lmis) == sets
    for problem, side in ((p, "primal"), (q, "lmi")):
        write_sdpa(problem, tmp_path / "again.dat-s", side)
        assert read_sdpa(tmp_path / "again.dat-s", side) == problem


def test_sparse_rows_stay_sparse(example: Path) -> None:
    lmis = read_sdpa(example, "lmi").lmis
    for rows in (*read_sdpa(example).rows, *(one.coefficients[0] for one in lmis)):
        assert sp.issparse(rows.array)
