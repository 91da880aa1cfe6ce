"""Malformed input: always our own exception, and it says where."""

import contextlib
import itertools
import pickle
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import sdpfeas as sf
from sdpfeas.problem.rows import Dense, PairwiseDifference, Sparse, as_rows, rows_from_state
from sdpfeas.problem.sets import set_from_spec

EYE = np.eye(2)
NAN, INF = np.nan, np.inf


def problem(sets=None, rows=None, lower=(0.0,), upper=(1.0,), row_names=None, block_names=None):
    """A problem that is fine but for what is passed."""
    sets = [sf.PSD(2)] if sets is None else sets
    rows = [EYE[None]] if rows is None else rows
    return sf.FeasibilityProblem(sets, rows, lower, upper, row_names, block_names)


def named(rows, block=None):
    """Three rows r0..r2 over blocks X and t, those of X as given."""
    sets = [block or sf.PSD(2), sf.Nonneg(1)]
    return sf.FeasibilityProblem(
        sets, [rows, np.ones((3, 1))], [0.0] * 3, [1.0] * 3, ["r0", "r1", "r2"], ["X", "t"]
    )


def three(change):
    """Three good dense rows, changed in place."""
    rows = np.stack([EYE, EYE, EYE])
    change(rows)
    return rows


def put(place, value):
    return three(lambda rows: rows.__setitem__(place, value))


def sparse(place, value):
    flat = sp.lil_array(three(lambda rows: None).reshape(3, 4))
    flat[place] = value
    return flat


TWO_BLOCKS = (("X", sf.PSD(2)), ("t", sf.Nonneg(2)))


def builder(*rows, blocks=TWO_BLOCKS):
    """Build a problem from calls to ``row``."""
    b = sf.ProblemBuilder()
    for name, block in blocks:
        b.block(name, block)
    for args, kwargs in rows:
        b.row(*args, **kwargs)
    return b.build()


def row(*args, **kwargs):
    return args, kwargs


# Each entry: what is done, and what the message must say.
SETS = {
    "size zero": (lambda: sf.PSD(0), "PSD: n must be at least 1, got 0"),
    "size negative": (lambda: sf.Nonneg(-3), "Nonneg: n .* got -3"),
    "size fractional": (lambda: sf.Free(2.5), "Free: n must be an integer, got 2.5"),
    "size float": (lambda: sf.PSD(2.0), "PSD: n must be an integer"),
    "size text": (lambda: sf.PSD("2"), "PSD: n must be an integer, got '2'"),
    "size none": (lambda: sf.PSD(None), "PSD: n must be an integer, got None"),
    "size true": (lambda: sf.PSD(True), "PSD: n must be an integer, got True"),
    "size array": (lambda: sf.PSD(np.array([2])), "PSD: n must be an integer"),
    "size NaN": (lambda: sf.PSD(NAN), "PSD: n must be an integer, got nan"),
    "size absurd": (lambda: sf.SpectralBox(10**400), "SpectralBox: n must be at most"),
    "lower NaN": (lambda: sf.SpectralBox(2, NAN), "lower must be finite, got nan"),
    "lower -inf": (lambda: sf.SpectralBox(2, -INF), "lower must be finite, got -inf"),
    "upper inf": (lambda: sf.SpectralBox(2, 0, INF), r"upper must be finite.*use PSD\(n\)"),
    "upper text": (lambda: sf.SpectralBox(2, 0, "1"), "upper must be a number, got '1'"),
    "upper none": (lambda: sf.SpectralBox(2, 0, None), "upper must be a number, got None"),
    "upper complex": (lambda: sf.SpectralBox(2, 0, 1j), "upper must be a number"),
    "upper array": (lambda: sf.SpectralBox(2, 0, [1.0]), "upper must be a number"),
    "upper true": (lambda: sf.SpectralBox(2, 0, True), "upper must be a number, got True"),
    "upper too long": (lambda: sf.SpectralBox(2, 0, 10**400), "upper must be a number"),
    "upper overflows": (lambda: sf.SpectralBox(4, 0, 1e308), "1e.308 overflows"),
    "width overflows": (lambda: sf.SpectralBox(1, -1.7e308, 1.7e308), "overflows"),
    "overflow hides an empty set": (lambda: sf.SpectralBox(2, 0, 1.5e308, trace=-5), "overflows"),
    "lower above upper": (lambda: sf.SpectralBox(2, 2, 1), "empty, lower = 2.0 exceeds upper = 1.0"),
    "trace NaN": (lambda: sf.SpectralBox(2, trace=NAN), "trace must be finite"),
    "trace text": (lambda: sf.SpectralBox(2, trace="r"), "trace must be a number, got 'r'"),
    "trace above": (lambda: sf.SpectralBox(2, trace=2.1), r"empty, trace = 2.1 is outside .* \[0.0, 2.0\]"),
    "trace below": (lambda: sf.SpectralBox(3, 1, 2, trace=2), r"empty, trace = 2.0 .* \[3.0, 6.0\]"),
    "trace just above": (lambda: sf.SpectralBox(2, trace=2 + 1e-12), "empty, trace"),
    "spec unknown": (lambda: set_from_spec({"kind": "Ball", "n": 2}), "unknown set kind 'Ball'; known: PSD"),
    "spec without size": (lambda: set_from_spec({"kind": "PSD"}), "set PSD"),
    "spec with more": (lambda: set_from_spec({"kind": "PSD", "n": 2, "q": 1}), "set PSD.*q"),
}

PROBLEMS = {
    "no sets": (lambda: problem(sets=[], rows=[]), "at least one set"),
    "sets not a list": (lambda: problem(sets=sf.PSD(2)), "sets must be a list .* got PSD"),
    "sets text": (lambda: problem(sets="PSD"), "sets must be a list"),
    "sets none": (lambda: problem(sets=5), "sets must be a list .* got int"),
    "sets unordered": (lambda: problem(sets={sf.PSD(2)}), "sets must be a list .* got set"),
    "sets a table": (lambda: problem(sets={"X": sf.PSD(2)}), "sets must be a list .* got dict"),
    "sets endless": (lambda: problem(sets=itertools.repeat(sf.PSD(2))), "sets must be a list"),
    "a class for a set": (lambda: problem(sets=[sf.PSD]), "block 0: expected a set such as"),
    "a number for a set": (lambda: problem(sets=[sf.PSD(2), 3], rows=[None, None]), "block 1: .* got int"),
    "rows not a list": (lambda: problem(rows=EYE), "rows must be a list with one entry per block"),
    "rows not in a list": (lambda: problem(rows=sp.csr_array(EYE.reshape(1, 4))), "rows must be a list"),
    "rows endless": (lambda: problem(rows=itertools.count()), "rows must be a list"),
    "rows a table": (lambda: problem(rows={"X": EYE}), "rows must be a list .* got dict"),
    "rows missing": (lambda: problem(rows=[]), "rows has 0 entries for 1 sets"),
    "rows too many": (lambda: problem(rows=[None, None]), "rows has 2 entries for 1 sets"),
    "row count": (lambda: problem(rows=[np.stack([EYE, EYE])]), "block 0: 2 rows, but lower .* 1 entries"),
    "row count named": (lambda: named(EYE[None]), "block X: 1 rows, but lower and upper have 3"),
    "row count low-rank": (lambda: named(sf.LowRank(EYE)), "block X: 2 rows"),
    "row count sparse": (lambda: named(sp.csr_array((4, 4))), "block X: 4 rows"),
    "matrix for a vector": (
        lambda: named(three(lambda r: None), sf.Nonneg(2)),
        r"block X: .*\(2, 2\).*\(2,\)",
    ),
    "vector for a matrix": (lambda: named(np.ones((3, 2))), r"block X: .*\(2,\).*PSD\(2\)"),
    "one matrix, not a list": (lambda: problem(rows=[EYE]), r"block 0: .*shape \(2,\).*PSD\(2\)"),
    "size of matrices": (lambda: named(np.ones((3, 3, 3))), r"block X: .*\(3, 3\).*\(2, 2\)"),
    "not square": (lambda: named(np.ones((3, 2, 3))), r"block X: dense rows must have shape .*\(3, 2, 3\)"),
    "four dimensions": (lambda: named(np.ones((3, 2, 2, 1))), "block X: dense rows must have shape"),
    "a number for rows": (lambda: named(5.0), r"block X: dense rows must have shape .*\(\)"),
    "text for rows": (lambda: named("rows"), "block X: rows must be a real array"),
    "objects for rows": (lambda: named([object()]), "block X: rows must be a real array"),
    "fractions for rows": (lambda: named([[[Fraction(1)]]]), "block X: rows must be a real array"),
    "ragged rows": (lambda: named([EYE, [1.0]]), "block X: rows must be a real array"),
    "complex rows": (
        lambda: named(three(lambda r: None) * 1j),
        "block X: rows must be a real array: .*complex",
    ),
    "masked rows": (
        lambda: named(np.ma.masked_equal(three(lambda r: None), 0)),
        "block X: .*entries are masked",
    ),
    "a list of sparse rows": (lambda: named([sp.csr_array(EYE)] * 3), "block X: rows must be a real array"),
    "NaN entry": (
        lambda: named(put((1, 0, 0), NAN)),
        r"block X, row r1: .*NaN or infinity at entry \(0, 0\)",
    ),
    "infinite entry": (lambda: named(put((2, 1, 1), -INF)), r"block X, row r2: .* \(1, 1\)"),
    "NaN unnamed": (lambda: problem(rows=[[[[NAN]]]], sets=[sf.PSD(1)]), "block 0, row 0: .*NaN"),
    "NaN beyond the last row": (lambda: problem(rows=[put((2, 0, 0), NAN)]), "block 0, row 2: .*NaN"),
    "NaN in a vector": (lambda: problem([sf.Free(2)], [[[0, NAN]]]), r"block 0, row 0: .*entry \(1,\)"),
    "asymmetric": (
        lambda: named(put((1, 0, 1), 1e-3)),
        "block X, row r1: .*not symmetric, entries differ by 0.001",
    ),
    "asymmetric and huge": (
        lambda: named([EYE, [[0, 1.7e308], [-1.7e308, 0]], EYE]),
        "block X, row r1: .*not symmetric",
    ),
    "upper triangle only": (lambda: named(put((0, 0, 1), 2.0)), "block X, row r0: .*not symmetric"),
    "sparse asymmetric": (lambda: named(sparse((2, 1), 1.0)), "block X, row r2: .*not symmetric"),
    "sparse NaN": (lambda: named(sparse((1, 0), NAN)), "block X, row r1: .*NaN or infinity"),
    "sparse infinite": (lambda: named(sparse((0, 3), INF)), "block X, row r0: .*NaN or infinity"),
    "sparse width": (lambda: named(sp.csr_array((3, 5))), r"block X: .*n² = 4 columns; got shape \(3, 5\)"),
    "sparse square": (lambda: named(sp.csr_array(EYE)), r"block X: .*n² = 4 columns; got shape \(2, 2\)"),
    "sparse vector width": (lambda: named(sp.csr_array((3, 4)), sf.Free(2)), "block X: .*n = 2 columns"),
    "sparse complex": (
        lambda: named(sp.csr_array((3, 4)) * 1j),
        "block X: sparse rows must be real, .*complex",
    ),
    "sparse one-dimensional": (lambda: problem(rows=[sp.coo_array(np.ones(4))]), "block 0: .*two dimensions"),
    "sums to infinity": (
        lambda: named(sp.coo_array(([1e308, 1e308], ([1, 1], [0, 0])), shape=(3, 4))),
        "block X, row r1: .*infinity",
    ),
    "norm overflows": (
        lambda: named(three(lambda r: r.__setitem__(1, np.full((2, 2), 1.7e308)))),
        "block X, row r1: .*overflows",
    ),
    "low-rank overflows": (
        lambda: named(sf.LowRank([[1, 1], [1e200, 0], [1, 1]])),
        "block X, row r1: .*overflows",
    ),
    "pairwise overflows": (
        lambda: named(sf.PairwiseDifference([[0, 0], [1, 0], [1e200, 0]])),
        "block X, row r1: .*overflows",
    ),
    "combined overflows": (
        lambda: named(sf.Combined(np.diag([1, 1, 1e200]), Dense(three(lambda r: None) * 1e200))),
        "block X, row r2: .*overflows",
    ),
    "lower a number": (lambda: problem(lower=0.0), r"lower must be a vector .* shape \(\)"),
    "lower a table": (lambda: problem(lower=[[0.0]]), r"lower must be a vector .* shape \(1, 1\)"),
    "lower text": (lambda: problem(lower=["0"]), "lower must be a real array"),
    "lower none": (lambda: problem(lower=[None]), "lower must be a real array"),
    "upper complex": (lambda: problem(upper=[1j]), "upper must be a real array"),
    "upper ragged": (lambda: problem(upper=[[1], [1, 2]]), "upper must be a real array"),
    "bounds of different length": (lambda: problem(upper=[1, 2]), "lower has 1 entries and upper 2"),
    "lower NaN": (lambda: problem(lower=[NAN]), "row 0: lower is NaN"),
    "upper NaN named": (lambda: problem(upper=[NAN], row_names=["cap"]), "row cap: upper is NaN"),
    "lower +inf": (
        lambda: problem(lower=[INF], upper=[INF]),
        "row 0: lower is .inf, which no point can satisfy",
    ),
    "upper -inf": (lambda: problem(lower=[-INF], upper=[-INF]), "row 0: upper is -inf"),
    "crossed": (lambda: problem(lower=[2.0], row_names=["cap"]), "row cap: lower = 2.0 exceeds upper = 1.0"),
    "crossed by one unit": (lambda: problem(lower=[1.0], upper=[np.nextafter(1, 0)]), "row 0: lower = 1.0"),
    "row names too few": (lambda: problem(row_names=[]), "row_names has 0 entries for 1 rows"),
    "row names text": (lambda: problem(row_names="a"), "row_names must be a list of strings, got str"),
    "row names a number": (lambda: problem(row_names=5), "row_names must be a list of strings, got int"),
    "row names unordered": (lambda: problem(row_names={"a"}), "row_names must be a list .* got set"),
    "row name a number": (lambda: problem(row_names=[7]), "row 0: a name must be .* got 7"),
    "row name empty": (lambda: problem(row_names=[""]), "row 0: a name must be a non-empty string"),
    "row name unhashable": (lambda: problem(row_names=[["a"]]), "row 0: a name must be"),
    "row names twice": (
        lambda: problem(rows=[None], lower=[0] * 3, upper=[1] * 3, row_names=["a", "b", "a"]),
        "rows 0 and 2 have the same name 'a'",
    ),
    "block names too many": (
        lambda: problem(block_names=["X", "Y"]),
        "block_names has 2 entries for 1 blocks",
    ),
    "block names text": (lambda: problem(block_names="X"), "block_names must be a list of strings"),
    "block name none": (lambda: problem(block_names=[None]), "block 0: a name must be"),
    "block names twice": (
        lambda: problem([sf.PSD(2)] * 2, [EYE[None]] * 2, block_names=["X", "X"]),
        "blocks 0 and 1 have the same name 'X'",
    ),
    "row number outside": (lambda: problem().select_rows([1]), "no row 1; rows are numbered 0 to 0"),
    "row number negative": (lambda: problem().select_rows([-1]), "no row -1"),
    "row number fractional": (lambda: problem().select_rows([0.5]), "row numbers must be integers"),
    "mask of wrong length": (lambda: problem().select_rows([True, False]), "mask over 1 rows"),
    "row numbers a table": (lambda: problem().select_rows([[0]]), r"a vector, got shape \(1, 1\)"),
    "one row number": (lambda: problem().select_rows(0), "a vector"),
}

ROWS = {
    "low-rank without rows": (lambda: sf.LowRank([]), "at least one row"),
    "low-rank of nothing": (lambda: sf.LowRank(None), "factors must be a list"),
    "low-rank of a number": (lambda: sf.LowRank(5), "factors must be a list .* got int"),
    "low-rank of a bare array": (lambda: sf.LowRank(np.array(5.0)), "factors must be a list"),
    "low-rank endless": (lambda: sf.LowRank(itertools.repeat([1.0])), "factors must be a list"),
    "low-rank of text": (lambda: sf.LowRank(["ab"]), "row 0: factors must be a real array"),
    "low-rank complex": (lambda: sf.LowRank([[1j]]), "row 0: factors must be a real array"),
    "low-rank of different sizes": (lambda: sf.LowRank([[1, 2], [1, 2, 3]]), r"row 1: .*\(k, 2\).*\(1, 3\)"),
    "low-rank too deep": (lambda: sf.LowRank([[[[1.0]]]]), "row 0: factors must have shape"),
    "low-rank NaN": (lambda: sf.LowRank([[1, 2], [1, NAN]]), r"row 1: factors hold NaN .* \(0, 1\)"),
    "low-rank signs too few": (lambda: sf.LowRank([[1], [2]], [1]), "signs has 1 entries for 2 rows"),
    "low-rank signs a number": (lambda: sf.LowRank([[1]], 1), "signs must be a list"),
    "low-rank signs a table": (lambda: sf.LowRank([[1]], {0: 1}), "signs must be a list .* got dict"),
    "low-rank sign count": (lambda: sf.LowRank([[1], [2]], [1, [1, 1]]), r"row 1: 1 factors but .*\(2,\)"),
    "low-rank sign NaN": (lambda: sf.LowRank([[1], [2]], [1, NAN]), "row 1: signs hold NaN"),
    "low-rank sign text": (lambda: sf.LowRank([[1]], ["+"]), "row 0: signs must be a real array"),
    "stacked owners descend": (lambda: sf.LowRank.from_stacked(EYE, [1, 1], [1, 0], 2), "ascending"),
    "stacked owners outside": (lambda: sf.LowRank.from_stacked(EYE, [1, 1], [0, 2], 2), "no row 2"),
    "stacked shapes": (lambda: sf.LowRank.from_stacked(EYE, [1], [0], 1), r"shapes \(2, 2\), \(1,\)"),
    "pairwise of one mean": (lambda: sf.PairwiseDifference([[1, 2]]), r"c >= 2, got \(1, 2\)"),
    "pairwise of a vector": (lambda: sf.PairwiseDifference([1, 2]), r"shape \(c, n\)"),
    "pairwise of nothing": (lambda: sf.PairwiseDifference(np.zeros((3, 0))), r"got \(3, 0\)"),
    "pairwise NaN": (lambda: sf.PairwiseDifference([[1, 2], [NAN, 0]]), r"means hold NaN .* \(1, 0\)"),
    "pairwise text": (lambda: sf.PairwiseDifference("means"), "means must be a real array"),
    "stacked of nothing": (lambda: sf.Stacked([]), "at least one part"),
    "stacked of a number": (lambda: sf.Stacked(5), "must be a list of Rows, got int"),
    "stacked of rows": (lambda: sf.Stacked(Dense(EYE)), "must be a list of Rows, got Dense"),
    "stacked of arrays": (lambda: sf.Stacked([Dense(EYE), EYE]), "part 1 of stacked rows is ndarray"),
    "stacked of sizes": (
        lambda: sf.Stacked([Dense(EYE), Dense(np.ones((1, 3)))]),
        r"part 1 .*\(3,\), part 0 .*\(2,\)",
    ),
    "stacked of kinds": (
        lambda: sf.Stacked([Dense(EYE), Dense(EYE[None])]),
        r"part 1 .*\(2, 2\), part 0 .*\(2,\)",
    ),
    "combined base": (lambda: sf.Combined([[1.0]], EYE), "base of combined rows is ndarray"),
    "combined width": (lambda: sf.Combined([[1.0]], Dense(EYE)), r"shape \(1, 1\), but the base has 2 rows"),
    "combined vector": (lambda: sf.Combined([1.0, 2.0], Dense(EYE)), "two dimensions"),
    "combined of a shape": (lambda: sf.Combined((1, 2), Dense(EYE)), "two dimensions"),
    "combined NaN": (lambda: sf.Combined([[1, 0], [0, NAN]], Dense(EYE)), "row 1: coefficients .*NaN"),
    "combined text": (lambda: sf.Combined("C", Dense(EYE)), "coefficients of combined rows"),
    "combined none": (lambda: sf.Combined(None, Dense(EYE)), "coefficients of combined rows"),
    "combined complex": (lambda: sf.Combined([[1j, 0]], Dense(EYE)), "coefficients .* must be a real array"),
    "sparse of text": (lambda: Sparse("rows", 2), "sparse rows must be"),
    "sparse of none": (lambda: Sparse(None, 2), "sparse rows must be"),
    "select outside": (lambda: Dense(EYE).select([2]), "no row 2; rows are numbered 0 to 1"),
    "select negative": (lambda: sf.LowRank(EYE).select([-1]), "no row -1"),
    "select fractional": (lambda: PairwiseDifference(EYE).select([0.0]), "must be integers"),
    "select mask": (lambda: Dense(EYE).select([True]), "mask over 2 rows"),
    "rows for another block": (
        lambda: as_rows(Dense(EYE), sf.PSD(2), 1),
        r"PSD\(2\) has members of shape \(2, 2\)",
    ),
    "unknown kind": (lambda: rows_from_state("magic", {}, {}, []), "unknown kind of rows 'magic'"),
}

BUILDER = {
    "builder empty": (lambda: builder(blocks=()), "at least one set"),
    "block twice": (
        lambda: builder(blocks=[("X", sf.PSD(1)), ("X", sf.PSD(1))]),
        "a block named 'X' already",
    ),
    "block not a set": (lambda: builder(blocks=[("X", 3)]), "block X: expected a set, got int"),
    "block class": (lambda: builder(blocks=[("X", sf.PSD)]), "block X: expected a set"),
    "block name number": (lambda: builder(blocks=[(3, sf.PSD(1))]), "name of a block .* got 3"),
    "block name empty": (lambda: builder(blocks=[("", sf.PSD(1))]), "name of a block must be a non-empty"),
    "block name list": (lambda: builder(blocks=[(["X"], sf.PSD(1))]), "name of a block must be"),
    "row twice": (lambda: builder(row("r", {}), row("r", {})), "a row or LMI named 'r' already"),
    "row name none": (lambda: builder(row(None, {})), "name of a row or LMI must be .* got None"),
    "row name list": (lambda: builder(row([], {})), "name of a row or LMI must be"),
    "row of unknown block": (
        lambda: builder(row("r", {"Y": EYE})),
        "row r: no block named 'Y'; blocks: 'X', 't'",
    ),
    "row of no block": (lambda: builder(row("r", {"Y": EYE}), blocks=()), "row r: .*blocks: none"),
    "terms not a table": (lambda: builder(row("r", [EYE])), "row r: terms must map .* got list"),
    "terms none": (lambda: builder(row("r", None)), "row r: terms must map"),
    "terms an array": (lambda: builder(row("r", EYE)), "row r: terms must map"),
    "term shape": (
        lambda: builder(row("r", {"X": np.eye(3)})),
        r"row r, block X: .*\(3, 3\), expected \(2, 2\)",
    ),
    "term vector for matrix": (lambda: builder(row("r", {"X": [1, 2]})), r"row r, block X: .*\(2,\)"),
    "term number": (lambda: builder(row("r", {"t": 1.0})), r"row r, block t: .*\(\), expected \(2,\)"),
    "term text": (
        lambda: builder(row("r", {"t": "ab"})),
        "row r, block t: coefficients must be a real array",
    ),
    "term none": (lambda: builder(row("r", {"t": None})), "row r, block t: coefficients must be a real"),
    "term ragged": (lambda: builder(row("r", {"X": [[1, 2], [3]]})), "row r, block X: coefficients must be"),
    "term complex": (
        lambda: builder(row("r", {"t": [1j, 0]})),
        "row r, block t: coefficients must be a real",
    ),
    "term NaN": (lambda: builder(row("r", {"t": [0, NAN]})), r"row r, block t: .*NaN.*\(1,\)"),
    "term asymmetric": (
        lambda: builder(row("r", {"X": [[0, 1], [0, 0]]})),
        "row r, block X: the matrix is not",
    ),
    "term sparse asymmetric": (
        lambda: builder(row("r", {"X": sp.csr_array([[0, 1.0], [0, 0]])})),
        "row r, block X: the matrix is not",
    ),
    "term sparse shape": (
        lambda: builder(row("r", {"X": sp.csr_array((1, 4))})),
        r"row r, block X: .*\(1, 4\), expected",
    ),
    "term sparse column": (lambda: builder(row("r", {"t": sp.csr_array((2, 1))})), r"block t: .*\(2, 1\)"),
    "term sparse NaN": (lambda: builder(row("r", {"t": sp.csr_array([[NAN, 0]])})), "row r, block t: .*NaN"),
    "term sparse complex": (
        lambda: builder(row("r", {"t": sp.csr_array([[1j, 0]])})),
        "row r, block t: .*must be real",
    ),
    "lower text": (lambda: builder(row("r", {}, lower="1")), "row r: lower must be a number, got '1'"),
    "lower none": (lambda: builder(row("r", {}, lower=None)), "row r: lower must be a number"),
    "lower list": (lambda: builder(row("r", {}, lower=[1.0])), "row r: lower must be a number"),
    "upper complex": (lambda: builder(row("r", {}, upper=1j)), "row r: upper must be a number"),
    "upper NaN": (lambda: builder(row("r", {}, upper=NAN)), "row r: upper is NaN"),
    "equal infinite": (lambda: builder(row("r", {}, equal=INF)), "row r: lower is .inf"),
    "equal text": (lambda: builder(row("r", {}, equal="0")), "row r: equal must be a number"),
    "equal and lower": (lambda: builder(row("r", {}, equal=1, lower=0)), "row r: give either equal or"),
    "equal and upper": (lambda: builder(row("r", {}, equal=1, upper=1)), "row r: give either equal or"),
    "crossed": (lambda: builder(row("r", {}, lower=2, upper=1)), "row r: lower = 2.0 exceeds upper = 1.0"),
}

CLAIMS = {
    "point none": (lambda p: p.point(None), "a point is a tuple with one array per set, got NoneType"),
    "point number": (lambda p: p.point(3.0), "a point is a tuple"),
    "point endless": (lambda p: p.point(itertools.repeat(EYE)), "a point is a tuple"),
    "point text": (lambda p: p.point("ab"), "a point is a tuple"),
    "point a table": (lambda p: p.point({"X": EYE}), "a point is a tuple"),
    "point bare": (lambda p: p.point(np.array(3.0)), "a point is a tuple"),
    "point too short": (lambda p: p.point((EYE,)), "the point has 1 blocks, the problem 2"),
    "point too long": (lambda p: p.point((EYE, [0.0], [0.0])), "the point has 3 blocks"),
    "point shape": (
        lambda p: p.point((np.eye(3), [0.0])),
        r"block X of the point has shape \(3, 3\), expected \(2, 2\)",
    ),
    "point flat": (lambda p: p.point((np.ones(4), [0.0])), r"block X of the point has shape \(4,\)"),
    "point swapped": (lambda p: p.point(([0.0], EYE)), "block X of the point has shape"),
    "point complex": (lambda p: p.point((EYE * 1j, [0.0])), "block X of the point must be a real array"),
    "point objects": (lambda p: p.point((EYE, [None])), "block t of the point must be a real array"),
    "point ragged": (lambda p: p.point(([[1], [1, 2]], [0.0])), "block X of the point must be"),
    "certificate none": (lambda p: p.multipliers(None), "the certificate must be a real array"),
    "certificate number": (lambda p: p.multipliers(1.0), r"the certificate has shape \(\), expected \(1,\)"),
    "certificate long": (lambda p: p.multipliers([1.0, 2.0]), r"the certificate has shape \(2,\)"),
    "certificate text": (lambda p: p.multipliers(["1"]), "the certificate must be a real array"),
    "certificate complex": (lambda p: p.multipliers([1j]), "the certificate must be a real array"),
    "certificate masked": (
        lambda p: p.multipliers(np.ma.masked_equal([1.0], 1.0)),
        "the certificate .*entries are masked",
    ),
    "verify nothing": (lambda p: sf.verify(p, None), "verify needs a Claim"),
    "verify a point": (lambda p: sf.verify(p, (EYE, [0.0])), "verify needs a Claim"),
    "verify without a problem": (lambda p: sf.verify(None, sf.Claim()), "verify needs a FeasibilityProblem"),
    "verify a short point": (lambda p: sf.verify(p, sf.Claim(point=(EYE,))), "the point has 1 blocks"),
    "verify a long certificate": (
        lambda p: sf.verify(p, sf.Claim(certificate=np.ones(9))),
        "the certificate has shape",
    ),
    "scaled certificate": (lambda p: p.scaled().start_multipliers([1.0, 2.0]), "the certificate has shape"),
    "unscaled certificate": (lambda p: p.scaled().multipliers("y"), "the certificate must be"),
    "lifted certificate": (lambda p: p.lift().start_multipliers([]), "the certificate has shape"),
    "lifted point": (lambda p: p.lift().start_point((EYE,)), "the point has 1 blocks"),
}

BAD = {
    f"{where}: {what}": case
    for where, cases in (("set", SETS), ("problem", PROBLEMS), ("rows", ROWS), ("builder", BUILDER))
    for what, case in cases.items()
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_refused_with_its_place(what):
    action, message = BAD[what]
    with pytest.raises(sf.ProblemError, match=message) as caught:
        action()
    assert isinstance(caught.value, ValueError)  # what a caller expects who does not know us
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("what", CLAIMS)
def test_bad_claims_are_refused_with_their_place(what):
    action, message = CLAIMS[what]
    p = problem([sf.PSD(2), sf.Nonneg(1)], [EYE[None], None], block_names=["X", "t"])
    with pytest.raises(sf.ClaimError, match=message):
        action(p)


def test_there_are_enough_cases():
    assert len(BAD) >= 60
    assert len({message for _, message in BAD.values()}) > 100


@pytest.mark.parametrize("value", [Decimal("0.5"), Fraction(1, 2), np.float32(0.5), np.array(0.5)])
def test_every_kind_of_number_is_a_number(value):
    assert sf.SpectralBox(2, 0, value).upper == 0.5


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.complex_numbers(),
    st.text(max_size=2),
    st.binary(max_size=2),
    st.just(object()),
    st.builds(np.zeros, st.lists(st.integers(0, 3), max_size=4)),
    st.builds(lambda s: sp.csr_array((1 + s, 4)), st.integers(0, 2)),
    st.sampled_from([sf.PSD(2), sf.PSD, sf.Nonneg(1), sf.LowRank(EYE), Dense(EYE[None]), np.full(1, NAN)]),
)
MORE_JUNK = st.recursive(
    JUNK, lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner), max_leaves=6
)


@examples(6)
@given(MORE_JUNK)
def test_junk_never_raises_anything_else(x):
    """In every place in turn, the rest being fine."""
    for action in (
        lambda: problem(sets=x),
        lambda: problem(rows=x),
        lambda: problem(rows=[x]),
        lambda: problem(lower=x),
        lambda: problem(upper=x),
        lambda: problem(row_names=x),
        lambda: problem(block_names=x),
        lambda: sf.PSD(x),
        lambda: sf.SpectralBox(2, x),
        lambda: sf.SpectralBox(2, 0, x),
        lambda: sf.SpectralBox(2, 0, 1, x),
        lambda: sf.LowRank(x),
        lambda: sf.LowRank([[1.0]], x),
        lambda: sf.LowRank.from_stacked(EYE, [1, 1], x, 2),
        lambda: sf.PairwiseDifference(x),
        lambda: sf.Stacked(x),
        lambda: sf.Combined(x, Dense(EYE)),
        lambda: sf.Combined([[1.0, 2.0]], x),
        lambda: Sparse(x, 2),
        lambda: problem().select_rows(x),
        lambda: problem().point(x),
        lambda: problem().multipliers(x),
        lambda: builder(row("r", {"X": x})),
        lambda: builder(row("r", {}, lower=x)),
        lambda: builder(row("r", {}, equal=x)),
        lambda: builder(row("r", x)),
        lambda: builder(row(x, {})),
        lambda: builder(blocks=[(x, sf.PSD(1))]),
        lambda: builder(blocks=[("X", x)]),
        lambda: set_from_spec({"kind": x, "n": 2}),
        lambda: set_from_spec({"kind": "PSD", "n": x}),
    ):
        with contextlib.suppress(sf.SdpfeasError):
            action()
