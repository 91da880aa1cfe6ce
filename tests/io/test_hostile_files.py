"""Small files that stand for something huge are refused before memory is taken, in every reader."""

from __future__ import annotations

import gzip
import io
import json
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.datasets import load_dataset
from sdpfeas.errors import FileFormatError, SdpfeasError
from sdpfeas.families.bracket_file import load_bracket
from sdpfeas.io.result_files import load_result
from sdpfeas.io.sdpa import read_sdpa
from sdpfeas.io.tables import read_samples
from sdpfeas.npz import Format

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit at which bombs are quickly made."""
    monkeypatch.setenv("SDPFEAS_READ_LIMIT", "4M")


@contextmanager
def refused(words: str, megabytes: int = 8, seconds: float = 5.0) -> Iterator[None]:
    """What runs inside is refused as too large, with next to no memory or time spent."""
    tracemalloc.start()
    begin = time.process_time()
    try:
        with pytest.raises(SdpfeasError, match=words) as caught:
            yield
        taken = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "SDPFEAS_READ_LIMIT=" in str(caught.value)
    assert taken < megabytes * MEGABYTE
    assert time.process_time() - begin < seconds


def zeros(megabytes: int, name: str = "rows0.array") -> tuple[bytes, str]:
    """A compressed array, its bytes and its name."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.zeros(megabytes * MEGABYTE // 8))
    return stream.getvalue(), name


def archive(path: Path, kind: str, header: dict[str, Any], *members: tuple[bytes, str]) -> Path:
    """A file of ours with whatever members."""
    full = {"format": f"sdpfeas-{kind}", "version": 1, "format_version": 1, **header}
    text = io.BytesIO()
    np.lib.format.write_array(text, np.frombuffer(json.dumps(full).encode(), dtype=np.uint8))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for content, name in ((text.getvalue(), "header"), *members):
            made.writestr(f"{name}.npy", content)
    return path


READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "problem": ("problem", sf.FeasibilityProblem.load),
    "result": ("result", load_result),
    "bracket": ("bracket", load_bracket),
    "samples": ("samples", read_samples),
}


@pytest.mark.parametrize("which", READERS)
def test_compressed_zeros(tmp_path: Path, which: str) -> None:
    kind, read = READERS[which]
    path = archive(tmp_path / "bomb.npz", kind, {}, zeros(24, "X" if which == "samples" else "lower"))
    assert path.stat().st_size < MEGABYTE
    with refused("too large"):
        read(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compressions_that_unpack_at_once(tmp_path: Path, compression: int) -> None:
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", compression) as made:
        made.writestr("header.npy", bytes(MEGABYTE))
    with pytest.raises(FileFormatError, match="uses a compression that NumPy does not write"):
        load_result(tmp_path / "bomb.npz")


def test_a_directory_that_lies(tmp_path: Path) -> None:
    """The sizes of the directory are what is checked; no more than they say is ever unpacked."""
    path = archive(tmp_path / "bomb.npz", "result", {}, zeros(24, "certificate"))
    data = path.read_bytes()
    size = (24 * MEGABYTE + 128).to_bytes(4, "little")
    assert data.count(size) == 2
    path.write_bytes(data.replace(size, (5000).to_bytes(4, "little")))
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="not a result file"):
        load_result(path)
    assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE
    tracemalloc.stop()


@pytest.mark.parametrize("shape", [(10**9,), (10**15,), (2**62, 2**62), (-1, 4)])
def test_a_shape_that_lies(tmp_path: Path, shape: tuple[int, ...]) -> None:
    head = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, described)  # type: ignore[arg-type]
    path = archive(tmp_path / "bomb.npz", "result", {}, (head.getvalue() + bytes(64), "certificate"))
    tracemalloc.start()
    with pytest.raises(FileFormatError, match="does not match its shape"):
        load_result(path)
    assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE
    tracemalloc.stop()


def test_a_header_of_empty_lists(tmp_path: Path) -> None:
    path = archive(tmp_path / "bomb.npz", "result", {"options": [[] for _ in range(100_000)]})
    with refused("bytes of header"):
        load_result(path)


def saved(path: Path, sets: list[dict[str, Any]], rows: list[Any], **arrays: np.ndarray) -> Path:
    header = {"sets": sets, "rows": rows, "row_names": None, "block_names": None}
    path.write_bytes(Format("problem", 1, version_key="version").pack(header, arrays))
    return path


NOTHING = np.zeros(0)


@pytest.mark.parametrize("n", [1500, 100_000, 2**31 - 1])
def test_a_large_block(tmp_path: Path, n: int) -> None:
    path = saved(tmp_path / "p.npz", [{"kind": "PSD", "n": n}], [None], lower=NOTHING, upper=NOTHING)
    with refused("numbers in a point"):
        sf.FeasibilityProblem.load(path)


@pytest.mark.parametrize("n", [0, -3, 2**31, 10**30, 2.5, float("nan"), float("inf"), "3", None, [3], True])
def test_a_block_of_no_size(tmp_path: Path, n: Any) -> None:
    path = saved(tmp_path / "p.npz", [{"kind": "Nonneg", "n": n}], [None], lower=NOTHING, upper=NOTHING)
    with pytest.raises(FileFormatError, match="n must be"):
        sf.FeasibilityProblem.load(path)


def test_many_rows_from_few_means(tmp_path: Path) -> None:
    """A hundred thousand means stand for five billion pairs, also as the base of a single row."""
    pairs = {"kind": "pairwise-difference", "numbers": {}, "arrays": ["means"], "children": []}
    sets, means = [{"kind": "PSD", "n": 1}], np.full((100_000, 1), 1e40)
    one = {"data": np.ones(1), "indices": np.zeros(1, dtype=int), "indptr": np.array([0, 1])}
    plain = saved(tmp_path / "a.npz", sets, [pairs], lower=NOTHING, upper=NOTHING, **{"rows0.means": means})
    combined = {"kind": "combined", "numbers": {"m": 1}, "arrays": list(one), "children": [pairs]}
    arrays = {f"rows0.{name}": array for name, array in one.items()} | {"rows0.0.means": means}
    deep = saved(tmp_path / "b.npz", sets, [combined], lower=np.zeros(1), upper=np.ones(1), **arrays)
    for path in (plain, deep):
        with refused("4,999,950,000 rows"):
            sf.FeasibilityProblem.load(path)


def test_pairs_of_another_number_than_bounds_take_no_memory() -> None:
    rows = sf.PairwiseDifference(np.full((20_000, 1), 1e40))
    tracemalloc.start()
    with pytest.raises(sf.ProblemError, match="199990000 rows, but lower and upper have 1 entries"):
        sf.FeasibilityProblem([sf.PSD(1)], [rows], [0.0], [1.0])
    assert tracemalloc.get_traced_memory()[1] < MEGABYTE
    tracemalloc.stop()


@pytest.mark.parametrize("m", [10**12, -4, float("nan"), "many"])
def test_a_number_of_rows_that_lies(tmp_path: Path, m: Any) -> None:
    for kind, arrays in (
        ("low-rank", {"factors": np.ones((1, 2)), "signs": np.ones(1), "owner": np.zeros(1, dtype=int)}),
        ("sparse", {"data": np.ones(1), "indices": np.zeros(1, dtype=int), "indptr": np.array([0, 1])}),
    ):
        spec = {"kind": kind, "numbers": {"m": m, "n": 2, "matrix": True}, "arrays": list(arrays)}
        named = {f"rows0.{name}": array for name, array in arrays.items()}
        bounds = {"lower": np.zeros(1), "upper": np.ones(1)}
        sets = [{"kind": "PSD", "n": 2}]
        path = saved(tmp_path / "p.npz", sets, [{**spec, "children": []}], **bounds, **named)
        with pytest.raises(FileFormatError):
            sf.FeasibilityProblem.load(path)


def test_rows_nested_deeply(tmp_path: Path) -> None:
    spec: dict[str, Any] = {"kind": "dense", "numbers": {}, "arrays": ["array"], "children": []}
    for _ in range(200):
        spec = {"kind": "stacked", "numbers": {}, "arrays": [], "children": [spec]}
    arrays = {"rows0" + ".0" * 200 + ".array": np.ones((1, 1)), "lower": np.zeros(1), "upper": np.ones(1)}
    path = saved(tmp_path / "p.npz", [{"kind": "Nonneg", "n": 1}], [spec], **arrays)
    with pytest.raises(FileFormatError, match="nested more than"):
        sf.FeasibilityProblem.load(path)


# ---------------------------------------------------------------- SDPA


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"1\n1\n2\n3\n" + b"1 1 1 1 1\n" * 300_000, "bytes or more|lines|entries"),
        (b"1\n1\n2\n3\n" + b"1 1 1 1 1 " * 40_000, "entries"),
        (b"*\n" * 40_000 + b"1\n1\n2\n3\n1 1 1 1 1\n", "lines"),
        (b" " * 4 * MEGABYTE, "bytes or more"),
        (b"20000\n1\n2\n" + b"0 " * 20_000 + b"\n1 1 1 1 1\n", "rows"),
        (b"1\n200\n" + b"1 " * 200 + b"\n0\n1 1 1 1 1\n", "blocks"),
        (b"1\n1\n2000\n3\n1 1 1 1 1\n", "numbers in a point"),
        (b"1\n1\n400\n3\n1 1 1 1 1\n", "entries of matrices"),
    ],
)
def test_sdpa(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "bomb.dat-s.gz"
    path.write_bytes(gzip.compress(text))
    assert path.stat().st_size < MEGABYTE
    with refused(words):
        read_sdpa(path, "lmi")


def test_raising_the_limit_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.dat-s"
    path.write_bytes(b"1\n1\n2000\n3\n1 1 1 1 1\n")
    with pytest.raises(FileFormatError) as caught:
        read_sdpa(path)
    monkeypatch.setenv("SDPFEAS_READ_LIMIT", str(caught.value).partition("LIMIT=")[2].split()[0])
    assert read_sdpa(path).sets == (sf.PSD(2000),)


# ---------------------------------------------------------------- samples


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(["a,b"] + ["1,2"] * 200_000))
    with refused("bytes of CSV"):
        read_samples(path)


def test_one_long_label(tmp_path: Path) -> None:
    """Each entry of an array of text takes as much as the longest."""
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["x,kind", f"1,{'long' * 25_000}", *["2,short"] * 1000]))
    assert path.stat().st_size < MEGABYTE
    with refused("characters of labels"):
        read_samples(path)


def test_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra [parquet] is not installed")
    import pyarrow as pa

    many = {"x": np.zeros(10**6), "kind": np.zeros(10**6, dtype=int)}
    words = {"x": np.zeros(2000), "kind": ["long" * 2500] * 2000}
    for columns, said in ((many, "numbers"), (words, "characters of labels")):
        parquet.write_table(pa.table(columns), tmp_path / "t.parquet", compression="zstd")
        assert (tmp_path / "t.parquet").stat().st_size < MEGABYTE
        with refused(said):
            read_samples(tmp_path / "t.parquet")


def test_parquet_says_where(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra [parquet] is not installed")
    import pyarrow as pa

    path = tmp_path / "t.parquet"
    columns = {"x": [1.5, 2, 3], "t": ["4", "5", "6"], "kind": ["a", "a", "b"]}
    parquet.write_table(pa.table(columns), path)
    found = read_samples(path, "kind")
    assert (found.X.tolist(), found.y.tolist()) == ([[1.5, 4], [2, 5], [3, 6]], ["a", "a", "b"])
    for bad, words in (
        ({"x": [1.0, None, 2.0]}, "sample 2, column x"),
        ({"kind": ["a", None, "b"]}, "labels"),
    ):
        parquet.write_table(pa.table({**columns, **bad}), path)
        with pytest.raises(FileFormatError, match=words):
            read_samples(path, "kind")


def test_matlab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.io import savemat

    monkeypatch.setenv("SDPFEAS_DATA", str(tmp_path))
    (tmp_path / "wlda").mkdir()
    path = tmp_path / "wlda" / "Yale_32x32.mat"
    savemat(path, {"fea": np.zeros((4, 9), np.uint8), "gnd": np.array([1, 1, 2, 2])}, do_compression=True)
    assert load_dataset("yale").X.shape == (4, 9)
    savemat(path, {"fea": np.zeros((80, 100_000), np.uint8)}, do_compression=True)
    assert path.stat().st_size < MEGABYTE
    with refused("decompressed bytes"):
        load_dataset("yale")
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(SdpfeasError, match="not the expected file"):
        load_dataset("yale")


def test_text_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDPFEAS_DATA", str(tmp_path))
    (tmp_path / "wlda").mkdir()
    (tmp_path / "wlda" / "sonar.data").write_text("1,2,R\n" * 200_000)
    with refused("counts as"):
        load_dataset("sonar")


# ---------------------------------------------------------------- indices that SciPy would believe


@pytest.mark.parametrize(
    ("indices", "indptr"),
    [
        ([0, 1, 0], [0, 3, 0]),  # overlooked by SciPy's own check, which then writes beyond its arrays
        ([0, 1, 0], [0, 2, 1]),
        ([0, 1, 0], [1, 2, 3]),
        ([0, 1, 0], [0, -1, 3]),
        ([0, 1, 0], [0, 2, 4]),
        ([0, 2, 0], [0, 2, 3]),
        ([0, -1, 0], [0, 2, 3]),
        ([0.0, 1.0, 0.5], [0, 2, 3]),
        ([0, 1, 0], []),
    ],
)
def test_sparse_rows_with_indices_that_lie(tmp_path: Path, indices: list[Any], indptr: list[int]) -> None:
    arrays = {"data": np.ones(3), "indices": np.array(indices), "indptr": np.array(indptr, dtype=np.int64)}
    spec = {"kind": "sparse", "numbers": {"m": 2, "n": 2, "matrix": False}, "arrays": list(arrays)}
    named = {f"rows0.{name}": array for name, array in arrays.items()}
    bounds = {"lower": np.zeros(2), "upper": np.ones(2)}
    path = saved(
        tmp_path / "p.npz", [{"kind": "Nonneg", "n": 2}], [{**spec, "children": []}], **bounds, **named
    )
    with pytest.raises(FileFormatError, match="sparse rows are malformed"):
        sf.FeasibilityProblem.load(path)


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_a_sparse_array_changed_by_hand(kind: Any) -> None:
    rows = kind(np.ones((2, 2)))
    rows.indptr[:] = [0, 4, 0]
    with pytest.raises(sf.ProblemError, match="malformed"):
        sf.FeasibilityProblem([sf.Nonneg(2)], [rows], [0.0, 0.0], [1.0, 1.0])
