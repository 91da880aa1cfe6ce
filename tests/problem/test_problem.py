"""Problems: maps, names, equality, hashes, files, pickles, scaling."""

import copy
import io
import json
import os
import pickle
import subprocess
import sys
import zipfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    MATRIX_KINDS,
    SEEDS,
    VECTOR_KINDS,
    everywhere,
    examples,
    make_rows,
    problems,
    random_array,
)

import sdpfeas as sf
from sdpfeas.problem import problem_file as files
from sdpfeas.problem.problem import hash_of, restricting_rows
from sdpfeas.problem.rows import Combined, Dense, LowRank, PairwiseDifference, Sparse, Stacked


def every_kind() -> sf.FeasibilityProblem:
    """Small problem with every set and every kind of rows, the same in every process."""
    base = np.arange(8.0).reshape(2, 2, 2)
    dense = base + np.swapaxes(base, 1, 2)
    low = LowRank([[[1.0, 2.0], [0.5, -1.0]], [[3.0, 1 / 3]]], [[1.0, -1.0], [2.0]])
    pairs = PairwiseDifference([[0.1, 0.2], [0.3, -0.4]])
    stacked = Stacked([pairs, Dense(dense[:1])])
    sparse = sp.csr_array([[1, 0, 2.5], [0, 0, -1]])
    return sf.FeasibilityProblem(
        [sf.PSD(2), sf.SpectralBox(2, 0.1, 0.7, 1.1), sf.SpectralBox(2), sf.PSD(2), sf.Nonneg(3), sf.Free(1)],
        [dense, low, stacked, Combined([[1.0, 0.1], [0, -2.0]], stacked), sparse, None],
        [-np.inf, 0.1],
        [1 / 3, 0.1],
        ["first", "zweite: ≤"],
        ["A", "B", "C", "D", "t", "free"],
    )  # fmt: skip


# ---------------------------------------------------------------- the linear map


@given(problems(), SEEDS)
def test_adjoint_identity(problem, seed):
    rng = np.random.default_rng(seed)
    point = tuple(random_array(block, rng) for block in problem.sets)
    y = rng.normal(size=problem.m)
    inner = sum(np.vdot(x, g) for x, g in zip(point, problem.adjoint(y), strict=True))
    size = (1.0 + problem.norms.sum()) * sum(np.linalg.norm(x) for x in point) * (1 + np.abs(y).sum())
    assert problem.apply(point) @ y == pytest.approx(inner, abs=1e-11 * size)


@given(problems())
def test_norms_and_masks(problem):
    assert problem.norms.shape == (problem.m,)
    assert problem.block_norms.shape == problem.upper_norms.shape == (len(problem.sets), problem.m)
    assert np.all(problem.block_norms <= problem.upper_norms)
    assert np.array_equal(problem.equality, problem.lower == problem.upper)


def test_beta_terms_treat_zero_times_infinity_as_zero():
    p = sf.FeasibilityProblem([sf.Free(1)], [np.ones((3, 1))], [-np.inf, 2.0, -np.inf], [3.0, np.inf, np.inf])
    assert p.beta_terms(np.array([0.0, 2.0, 0.0])).tolist() == [0.0, 4.0, 0.0]
    assert p.beta_terms(np.array([-2.0, 0.0, 0.0])).tolist() == [-6.0, 0.0, 0.0]
    assert p.beta_terms(np.array([1.0, -1.0, 1.0])).tolist() == [-np.inf, -np.inf, -np.inf]


@given(problems(), SEEDS)
def test_select_rows(problem, seed):
    rng = np.random.default_rng(seed)
    index = rng.permutation(problem.m)[: rng.integers(0, problem.m + 1)]
    part = problem.select_rows(index)
    point = tuple(random_array(block, rng) for block in problem.sets)
    assert np.allclose(part.apply(point), problem.apply(point)[index], rtol=1e-10, atol=1e-10)
    assert np.array_equal(part.lower, problem.lower[index])
    assert np.array_equal(part.upper, problem.upper[index])
    assert problem.row_names is None or part.row_names == tuple(problem.row_names[i] for i in index)
    mask = np.isin(np.arange(problem.m), index)
    assert problem.select_rows(mask) == problem.select_rows(np.sort(index))


def test_a_problem_without_rows():
    for rows in (None, np.zeros((0, 2, 2)), sp.csr_array((0, 4))):
        p = sf.FeasibilityProblem([sf.PSD(2)], [rows], [], [])
        assert p.m == 0
        assert p.apply((np.eye(2),)).shape == (0,)
        assert np.array_equal(p.adjoint(np.zeros(0))[0], np.zeros((2, 2)))
        assert sf.verify(p, sf.Claim(point=(np.eye(2),)), rigorous=True).verdict == sf.Verdict.FEASIBLE
        assert p.scaled().problem.m == 0
        assert p.lift().problem.m == 0


# ---------------------------------------------------------------- equality and hashes


@given(problems())
def test_equal_problems_are_equal(problem):
    again = sf.FeasibilityProblem(
        list(problem.sets),
        list(problem.rows),
        problem.lower.tolist(),
        problem.upper.tolist(),
        problem.row_names,
        problem.block_names,
    )
    assert again == problem
    assert hash(again) == hash(problem)
    assert again.content_hash == problem.content_hash
    assert problem != "something else"


def _variants():
    """The problem of `every_kind` with one thing changed."""
    p = every_kind()

    def build(**changes):
        data = {"sets": list(p.sets), "rows": list(p.rows), "lower": p.lower, "upper": p.upper,
                "row_names": p.row_names, "block_names": p.block_names} | changes  # fmt: skip
        return sf.FeasibilityProblem(**data)

    def with_rows(b, rows):
        return build(rows=[rows if k == b else old for k, old in enumerate(p.rows)])

    def with_set(b, block):
        return build(sets=[block if k == b else old for k, old in enumerate(p.sets)])

    def nudged(array):
        out = np.array(array)
        out.flat[out.size - 1] = np.nextafter(out.flat[out.size - 1], np.inf)
        return out

    dense, low, stacked, combined, sparse, _ = p.rows
    swapped = LowRank.from_stacked(low.factors, low.signs, [0, 1, 1], 2)
    coefficients = combined.coefficients
    yield "lower", build(lower=[-np.inf, 0.05])
    yield "lower finite", build(lower=[-1e300, 0.1])
    yield "upper", build(upper=nudged(p.upper))
    yield "row name", build(row_names=["first", "second"])
    yield "no row names", build(row_names=None)
    yield "block name", build(block_names=["A", "B", "C", "D", "t", "Free"])
    yield "no block names", build(block_names=None)
    yield "set kind", with_set(4, sf.Free(3))
    yield "unused set", with_set(5, sf.Free(2))
    yield "box bound", with_set(1, sf.SpectralBox(2, 0.1, 0.8, 1.1))
    yield "box trace", with_set(1, sf.SpectralBox(2, 0.1, 0.7, np.nextafter(1.1, 2)))
    yield "no box trace", with_set(1, sf.SpectralBox(2, 0.1, 0.7))
    yield "dense entry", with_rows(0, nudged(dense.array))
    yield "dense for sparse", with_rows(4, sparse.array.toarray())
    yield "factor", with_rows(1, LowRank.from_stacked(nudged(low.factors), low.signs, low.owner, 2))
    yield "sign", with_rows(1, LowRank.from_stacked(low.factors, nudged(low.signs), low.owner, 2))
    yield "owner", with_rows(1, swapped)
    yield (
        "means",
        with_rows(2, Stacked([PairwiseDifference(nudged(stacked.parts[0].means)), stacked.parts[1]])),
    )
    yield "order of parts", with_rows(2, Stacked(stacked.parts[::-1]))
    yield "coefficient", with_rows(3, Combined(nudged(coefficients.toarray()), stacked))
    yield "base", with_rows(3, Combined(coefficients, Stacked([stacked.parts[1], stacked.parts[0]])))
    yield "sparse entry", with_rows(4, sp.csr_array([[1, 0, 2.5], [0, 0, -2]]))
    yield "sparse place", with_rows(4, sp.csr_array([[1, 2.5, 0], [0, 0, -1]]))
    yield "rows dropped", with_rows(4, None)
    yield "rows moved", build(rows=[dense, low, stacked, stacked, sparse, None])


def test_the_hash_sees_every_datum():
    hashes = {"original": every_kind().content_hash}
    for what, problem in _variants():
        assert problem != every_kind(), what
        hashes[what] = problem.content_hash
    assert len(set(hashes.values())) == len(hashes)


def test_the_hash_does_not_see_how_data_were_given():
    a = sf.FeasibilityProblem([sf.PSD(2)], [[[[1, 0], [0, -0.0]]]], [0], (1,))
    b = sf.FeasibilityProblem(
        (sf.PSD(np.int32(2)),), [np.asfortranarray(np.diag([1.0, 0.0])[None])], np.float32([-0.0]), [True]
    )
    assert a == b
    coo = sp.coo_array(([1.0, 2.0, 0.0], ([0, 0, 0], [3, 0, 1])), shape=(1, 4))
    wide = sp.csr_array(coo)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    same = [sf.FeasibilityProblem([sf.PSD(2)], [s], [0], [1]) for s in (coo, sp.csc_matrix(coo), wide)]
    assert same[0] == same[1] == same[2]


def test_the_hash_is_the_same_in_every_process():
    program = "import test_problem; print(test_problem.every_kind().content_hash)"
    found = set()
    for seed in ("0", "12345"):
        env = os.environ | {
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(map(str, Path(__file__).parents[:2])),
        }
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        )
        found.add(done.stdout.strip())
    assert found == {every_kind().content_hash}


def test_the_hash_is_the_same_in_every_version():
    """Stored studies refer to it: change it only together with the format's version."""
    p = sf.FeasibilityProblem([sf.SpectralBox(2, trace=1)], [[np.eye(2)]], [0.5], [np.inf], ["r"])
    assert p.content_hash == "b7bf173d6b8a59c5363af155db7b4348bd646bd2a43934f23db07773067a0b9e"


# ---------------------------------------------------------------- immutability and pickles


def assert_frozen(problem):
    for name in ("sets", "rows", "lower", "upper", "row_names", "block_names", "anything"):
        with pytest.raises(AttributeError, match="immutable"):
            setattr(problem, name, None)
        with pytest.raises(AttributeError, match="immutable"):
            delattr(problem, name)
    for name in ("lower", "upper", "equality", "norms", "block_norms", "upper_norms"):
        _assert_read_only(getattr(problem, name))
    everywhere(problem, lambda rows: [_assert_read_only(array) for array in rows.state()[1].values()])


def _assert_read_only(array):
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.setflags(write=True)
    base = array.base
    assert not isinstance(base, np.ndarray) or not base.flags.writeable


def test_arrays_that_were_read_only_when_given_are_copied():
    given = {
        "lower": np.zeros(1),
        "dense": np.eye(2)[None],
        "constant": np.eye(2),
        "factors": np.ones((1, 2)),
        "data": np.ones(2),
    }
    for array in given.values():
        array.setflags(write=False)
    sparse = sp.csr_array((given["data"], np.array([0, 3]), np.array([0, 2])), shape=(1, 4))
    low_rank = LowRank.from_stacked(given["factors"], np.ones(1), np.zeros(1, int), 1)
    lmi = sf.LMI(sf.PSD(2), given["constant"], [None, None, None])
    rows = [given["dense"], Sparse(sparse, 2), low_rank]
    problem = sf.FeasibilityProblem([sf.PSD(2)] * 3, rows, given["lower"], np.ones(1), lmis=[lmi])
    before = hash_of(problem)
    for array in given.values():
        array.setflags(write=True)
        array[:] = 7.0
    assert np.array_equal(problem.lower, [0.0])
    assert np.array_equal(problem.lmis[0].constant, np.eye(2))
    for each, expected in zip(problem.rows, (np.eye(2), np.eye(2), np.ones((2, 2))), strict=True):
        assert np.array_equal(np.array(each.exact_row(0), dtype=float).reshape(2, 2), expected)
    assert hash_of(problem) == before


@given(problems())
def test_problems_are_immutable_and_stay_so_in_pickles_and_copies(problem):
    assert_frozen(problem)
    for again in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem), copy.copy(problem)):
        assert again == problem
        assert_frozen(again)


def test_problems_do_not_follow_the_arrays_they_came_from():
    lower, rows, names = np.zeros(1), np.eye(2)[None].copy(), ["r"]
    p = sf.FeasibilityProblem([sf.PSD(2)], [rows], lower, [1.0], names)
    before = p.content_hash
    lower[0], rows[0, 0, 0], names[0] = -7.0, 9.0, "s"
    del p.__dict__["content_hash"]
    assert p.content_hash == before


# ---------------------------------------------------------------- files


@given(problems(wild=30.0))
def test_save_and_load(tmp_path_factory, problem):
    path = tmp_path_factory.mktemp("files") / "no suffix"
    problem.save(path)
    again = sf.FeasibilityProblem.load(path)
    assert again == problem
    assert again.content_hash == problem.content_hash
    assert_frozen(again)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("kind", "matrix"), [(k, True) for k in MATRIX_KINDS] + [(k, False) for k in VECTOR_KINDS]
)
def test_save_and_load_every_kind(tmp_path, kind, matrix):
    rows = make_rows(kind, 3, 2, np.random.default_rng(5), matrix=matrix).rows
    block = sf.PSD(2) if matrix else sf.Free(2)
    problem = sf.FeasibilityProblem([block], [rows], np.zeros(rows.m), np.ones(rows.m))
    problem.save(str(tmp_path / "p.npz"))
    again = sf.FeasibilityProblem.load(str(tmp_path / "p.npz"))
    assert again == problem
    for i in range(rows.m):
        assert np.array_equal(again.rows[0].exact_row(i), rows.exact_row(i))


def test_files_hold_no_pickle(tmp_path):
    every_kind().save(tmp_path / "p")
    with np.load(tmp_path / "p", allow_pickle=False) as archive:
        assert all(archive[name].dtype.kind in "fiu" for name in archive.files)


def test_damaged_files_are_refused(tmp_path):
    """Any byte changed or the tail cut off: our own error or, where nothing was lost, the same problem."""
    path = tmp_path / "p"
    problem = every_kind()
    problem.save(path)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(600):
        damaged = bytearray(data)
        if rng.random() < 0.2:
            del damaged[rng.integers(len(data)) :]
        else:
            damaged[rng.integers(len(data))] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(damaged))
        try:
            assert sf.FeasibilityProblem.load(path) == problem
        except sf.FileFormatError:
            refused += 1
    assert refused > 300


def test_headers_as_python_2_wrote_them_are_refused(tmp_path):
    """NumPy reads them, with a warning; none of our files has one."""
    path = tmp_path / "p"
    every_kind().save(path)
    with zipfile.ZipFile(path) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in held.items():
            archive.writestr(name, content.replace(b",), }  ", b"L,), } ").replace(b",), }\n", b"L,)}\n"))
    with pytest.raises(sf.FileFormatError):
        sf.FeasibilityProblem.load(path)


def _written(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            buffer = io.BytesIO()
            np.save(buffer, content)
            archive.writestr(f"{name}.npy", buffer.getvalue())
    return path


def _header(problem):
    packed: dict = {}
    return {
        "format": files.FORMAT.name,
        "version": files.FORMAT.version,
        "sets": [block.spec() for block in problem.sets],
        "rows": [files._pack(rows, f"rows{b}", packed) for b, rows in enumerate(problem.rows)],
        "row_names": problem.row_names,
        "block_names": problem.block_names,
    }, {"lower": problem.lower, "upper": problem.upper, **packed}


FOREIGN = {
    "empty": b"",
    "text": b"hello, world",
    "zip without arrays": None,
    "npy": b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }".ljust(128)
    + b"\n"
    + bytes(8),
    "pickle": pickle.dumps({"lower": [1.0]}),
    "zip magic only": b"PK\x03\x04",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_foreign_files_are_refused(tmp_path, what):
    path = tmp_path / "p"
    content = FOREIGN[what]
    if content is None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt", "hello")
    else:
        path.write_bytes(content)
    with pytest.raises(sf.FileFormatError, match=str(path)):
        sf.FeasibilityProblem.load(path)


def test_a_folder_is_no_problem_and_a_missing_file_is_missing(tmp_path):
    with pytest.raises(sf.FileFormatError):
        sf.FeasibilityProblem.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        sf.FeasibilityProblem.load(tmp_path / "nowhere")


def test_the_header_helper_writes_what_save_writes(tmp_path):
    header, arrays = _header(every_kind())
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    assert sf.FeasibilityProblem.load(_written(tmp_path / "p", header=text, **arrays)) == every_kind()


def _set(path, value):
    """Change of one place in a header."""

    def change(header, arrays):
        *way, last = path
        node = header
        for step in way:
            node = node[step]
        node[last] = value

    return change


def _array(name, value):
    return lambda header, arrays: arrays.__setitem__(name, value)


HEADERS = {
    "other format": _set(["format"], "something"),
    "newer version": _set(["version"], 99),
    "no sets": _set(["sets"], []),
    "sets are no list": _set(["sets"], 5),
    "set is no table": _set(["sets", 0], 5),
    "unknown set": _set(["sets", 0, "kind"], "Ball"),
    "unhashable set": _set(["sets", 0, "kind"], []),
    "unknown parameter": _set(["sets", 0, "radius"], 2),
    "size is text": _set(["sets", 0, "n"], "2"),
    "other size": _set(["sets", 0, "n"], 3),
    "huge size": _set(["sets", 0, "n"], 10**400),
    "rows are a table": _set(["rows"], {}),
    "fewer rows": _set(["rows"], []),
    "unknown rows": _set(["rows", 0, "kind"], "magic"),
    "no kind": lambda header, arrays: header["rows"][0].pop("kind"),
    "array not there": _set(["rows", 0, "arrays"], ["nothing"]),
    "huge count": _set(["rows", 1, "numbers", "m"], 10**15),
    "huge sparse count": _set(["rows", 4, "numbers", "m"], 10**15),
    "endless count": _set(["rows", 1, "numbers", "m"], 10**400),
    "infinite count": _set(["rows", 1, "numbers", "m"], float("inf")),
    "negative count": _set(["rows", 1, "numbers", "m"], -1),
    "part missing": _set(["rows", 2, "children", 0], None),
    "parts missing": _set(["rows", 2, "children"], []),
    "base missing": _set(["rows", 3, "children"], []),
    "names of wrong length": _set(["row_names"], ["one"]),
    "names twice": _set(["row_names"], ["one", "one"]),
    "names are numbers": _set(["row_names"], [1, 2]),
    "no names key": lambda header, arrays: header.pop("row_names"),
    "lower missing": lambda header, arrays: arrays.pop("lower"),
    "lower is text": _array("lower", np.array(["a", "b"])),
    "lower is NaN": _array("lower", np.array([np.nan, 0.0])),
    "lower exceeds upper": _array("lower", np.array([5.0, 5.0])),
    "dense rows of NaN": _array("rows0.array", np.full((2, 2, 2), np.nan)),
    "asymmetric rows": _array("rows0.array", np.arange(8.0).reshape(2, 2, 2)),
    "sparse columns outside": _array("rows4.indices", np.array([0, 2, 77])),
    "sparse rows outside": _array("rows4.indptr", np.array([0, 2, 77])),
    "owners outside": _array("rows1.owner", np.array([0, 0, 5])),
    "owners out of order": _array("rows1.owner", np.array([1, 0, 0])),
    "owners fractional": _array("rows1.owner", np.array([0.0, 0.5, 1.0])),
    "signs too few": _array("rows1.signs", np.ones(2)),
}


@pytest.mark.parametrize("what", HEADERS)
def test_wrong_contents_are_refused(tmp_path, what):
    header, arrays = _header(every_kind())
    HEADERS[what](header, arrays)
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    path = _written(tmp_path / "p", header=text, **arrays)
    with pytest.raises(sf.FileFormatError, match=str(path)):
        sf.FeasibilityProblem.load(path)


@pytest.mark.parametrize("text", ["", "[]", "5", "{", "null", '"x"', "[" * 100_000, "\udcff"])
def test_wrong_headers_are_refused(tmp_path, text):
    data = np.frombuffer(text.encode(errors="surrogateescape"), dtype=np.uint8)
    path = _written(tmp_path / "p", header=data, lower=np.zeros(0), upper=np.zeros(0))
    with pytest.raises(sf.FileFormatError, match=str(path)):
        sf.FeasibilityProblem.load(path)


# ---------------------------------------------------------------- scaling


@examples(2)
@given(problems(wild=30.0))
def test_scaling_is_exact_both_ways(problem):
    _check_scaling(problem)


@examples(1.2)
@given(problems(wild=120.0), st.integers(-1000, 1000))
def test_scaling_is_exact_at_any_scale(problem, exponent):
    bounds = [np.array(b) * 2.0**exponent for b in (problem.lower, problem.upper)]
    if all(
        np.array_equal(b * 2.0**-exponent, o)
        for b, o in zip(bounds, (problem.lower, problem.upper), strict=True)
    ):
        _check_scaling(sf.FeasibilityProblem(problem.sets, problem.rows, *bounds))


def _check_scaling(problem):
    scaling = problem.scaled()
    factors, scaled = scaling.factors[: problem.m], scaling.problem
    assert np.all(np.frexp(factors)[0] == 0.5)  # powers of two
    assert np.array_equal(scaled.lower / factors, problem.lower)
    assert np.array_equal(scaled.upper / factors, problem.upper)
    for old, new in zip(problem.rows, scaled.rows, strict=True):
        for i in range(problem.m if old is not None else 0):
            assert np.array_equal(new.exact_row(i), Fraction(factors[i]) * old.exact_row(i))
    y = np.random.default_rng(0).normal(size=problem.m)
    assert np.array_equal(scaling.multipliers(scaling.start_multipliers(y)), y)
    assert np.array_equal(scaling.start_multipliers(scaling.multipliers(y)), y)
    assert (scaled.row_names, scaled.block_names) == (problem.row_names, problem.block_names)


@given(problems())
def test_scaled_rows_have_norm_about_one(problem):
    norms = problem.scaled().problem.norms
    assert np.all((norms == 0.0) | ((norms > 0.4) & (norms < 2.1)))


def test_scaling_drops_no_bound():
    """A bound times the factor of its row would overflow, or vanish: the factor must give way."""
    p = sf.FeasibilityProblem([sf.Nonneg(1)], [[[1e-200]]], [-np.inf], [1e300])
    assert np.isfinite(p.scaled().problem.upper).all()
    p = sf.FeasibilityProblem([sf.Nonneg(1)], [[[1e200]]], [1e-200], [np.inf])
    assert p.scaled().problem.lower[0] > 0.0


# ---------------------------------------------------------------- words


def test_repr_is_readable():
    text = repr(every_kind())
    assert text.splitlines()[0] == "FeasibilityProblem: 6 blocks, 2 rows (1 equality, 1 inequality)"
    assert "  B: SpectralBox(2, 0.1, 0.7, 1.1), low-rank rows" in text
    assert "  free: Free(1), no rows" in text
    assert "PSD(1234567)" in repr(sf.FeasibilityProblem([sf.PSD(1234567)], [None], [], []))


def test_names():
    p = every_kind()
    assert (p.row_name(1), p.block_name(4)) == ("zweite: ≤", "t")
    bare = sf.FeasibilityProblem([sf.Free(1)], [[[1.0]]], [0.0], [0.0])
    assert (bare.row_name(0), bare.block_name(0)) == ("0", "0")


# ---------------------------------------------------------------- the builder


def test_builder_builds_what_it_was_told():
    builder = sf.ProblemBuilder()
    builder.block("X", sf.PSD(2))
    builder.block("t", sf.Nonneg(2))
    builder.block("unused", sf.Free(1))
    builder.row("trace", {"X": np.eye(2)}, equal=1.0)
    builder.row("mixed", {"X": sp.csr_array([[0, 0.5], [0.5, 0]]), "t": [1, -2]}, lower=-1, upper=2)
    builder.row("vector", {"t": sp.csr_array([[0.0, 3.0]])}, upper=5)
    builder.row("empty", {}, lower=-1)
    p = builder.build()
    assert p.row_names == ("trace", "mixed", "vector", "empty")
    assert p.block_names == ("X", "t", "unused")
    assert p.lower.tolist() == [1.0, -1.0, -np.inf, -1.0]
    assert p.upper.tolist() == [1.0, 2.0, 5.0, np.inf]
    x = np.array([[1.0, 2.0], [2.0, 5.0]])
    assert p.apply((x, np.array([1.0, 10.0]), np.zeros(1))).tolist() == [6.0, 2.0 + 1 - 20, 30.0, 0.0]
    assert p.rows[2].empty
    assert isinstance(p.rows[0], Sparse)


def test_a_builder_goes_on_after_build_and_after_errors():
    builder = sf.ProblemBuilder()
    builder.block("t", sf.Nonneg(1))
    builder.row("a", {"t": [1.0]}, lower=0)
    first = builder.build()
    with pytest.raises(sf.ProblemError):
        builder.row("b", {"t": [np.nan]}, lower=0)
    builder.row("b", {"t": [2.0]}, lower=0)
    assert (first.m, builder.build().m) == (1, 2)


def test_rows_that_alone_use_a_free_entry_restrict_nothing():
    rows = [[[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]]
    sets, bounds = [sf.Free(3), sf.Nonneg(1)], [np.zeros(5), np.ones(5)]
    for other in (None, np.ones((5, 1))):
        problem = sf.FeasibilityProblem(sets, [rows[0], other], *bounds)
        assert restricting_rows(problem).tolist() == [False, True, True, False, True]
    lmi = sf.LMI(sf.PSD(1), [[0.0]], [[[[0.0]], [[0.0]], [[1.0]]], None])
    problem = sf.FeasibilityProblem(sets, [rows[0], None], *bounds, lmis=[lmi])
    assert restricting_rows(problem).tolist() == [False, True, True, True, True]
    bounded = sf.FeasibilityProblem([sf.Nonneg(3)], rows, *bounds)
    assert restricting_rows(bounded).all()
