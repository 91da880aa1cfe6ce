"""Hypothesis strategies for sets, rows and problems, with references the library had no part in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import settings
from hypothesis import strategies as st

import sdpfeas as sf
from sdpfeas.problem.rows import Combined, Dense, LowRank, PairwiseDifference, Rows, Sparse, Stacked

SEEDS = st.integers(0, 2**32 - 1)

MATRIX_KINDS = ("dense", "sparse", "low-rank", "pairwise", "stacked", "combined", "nested")
VECTOR_KINDS = ("dense", "sparse", "stacked", "combined", "nested")


def examples(share: float) -> settings:
    """So many times the examples of the profile in use."""
    return settings(max_examples=int(share * settings().max_examples))


# ---------------------------------------------------------------- exact arithmetic


def exact(array: Any) -> np.ndarray:
    """Entries as fractions."""
    return np.vectorize(lambda v: Fraction(float(v)), otypes=[object])(np.asarray(array))


def total(terms: np.ndarray) -> Any:
    """Sum of all entries of an object array, also of an empty one."""
    return sum(terms.ravel().tolist(), Fraction(0))


# ---------------------------------------------------------------- numbers of any size


def wide(low: int = -1074, high: int = 1000) -> st.SearchStrategy[float]:
    """Numbers of any exponent and either sign, round ones and zero among them."""
    mantissas = st.one_of(st.just(1.0), st.floats(1.0, 2.0, exclude_max=True))
    sizes = st.builds(math.ldexp, mantissas, st.integers(low, high))
    return st.one_of(st.just(0.0), st.builds(lambda v, s: s * v, sizes, st.sampled_from([-1.0, 1.0])))


def wide_numbers(rng: np.random.Generator, *shape: int, low: int = -1074, high: int = 1000) -> np.ndarray:
    """Array of such numbers; an eighth of them is zero."""
    values = np.ldexp(rng.uniform(1.0, 2.0, shape), rng.integers(low, high + 1, shape))
    return np.where(rng.random(shape) < 1 / 8, 0.0, values * rng.choice([-1.0, 1.0], shape))


# ---------------------------------------------------------------- sets


@st.composite
def spectral_boxes(draw: st.DrawFn, most: int = 5) -> sf.SpectralBox:
    """Boxes with and without a trace, fractional, at its ends, with bounds that may be equal."""
    n = draw(st.integers(1, most))
    lower = draw(st.sampled_from([0.0, -1.0, 0.1, -0.3, 2.0]))
    width = draw(st.sampled_from([0.0, 1.0, 0.6, 3.5]))
    upper = lower + width
    share = draw(st.sampled_from([None, 0.0, 1.0, 0.5, 0.37, 1.0 / n, (n - 1) / n]))
    if share is None:
        return sf.SpectralBox(n, lower, upper)
    return sf.SpectralBox(n, lower, upper, trace=n * lower + share * n * width)


def block_sets(most: int = 5) -> st.SearchStrategy[Any]:
    """Any set."""
    sizes = st.integers(1, most)
    plain = st.sampled_from([sf.PSD, sf.Nonneg, sf.Free]).flatmap(lambda kind: st.builds(kind, sizes))
    return st.one_of(plain, spectral_boxes(most))


def scattered(rng: np.random.Generator, m: int, n: int, density: float) -> sp.csr_array:
    """As scipy's random_array, which takes a generator by another name before 1.15."""
    return sp.csr_array(rng.random((m, n)) * (rng.random((m, n)) < density))


def random_array(block: Any, rng: np.random.Generator, scale: float = 1.0) -> np.ndarray:
    """Array of a block's shape, symmetric where that is a matrix."""
    x = scale * rng.normal(size=block.shape)
    return (x + x.T) / 2 if block.matrix else x


def random_member(block: Any, rng: np.random.Generator) -> np.ndarray:
    """Member of a set, made without its projection."""
    if isinstance(block, sf.Nonneg):
        return rng.exponential(size=block.n)
    if isinstance(block, sf.Free):
        return rng.normal(size=block.n)
    q, _ = np.linalg.qr(rng.normal(size=(block.n, block.n)))
    if isinstance(block, sf.PSD):
        return (q * rng.exponential(size=block.n)) @ q.T
    if block.trace is None:
        return (q * rng.uniform(block.lower, block.upper, size=block.n)) @ q.T
    # Convex combination of vertices of the set of spectra, in random order each.
    whole = int(np.floor(block.rank + 1e-12))
    vertex = np.full(block.n, block.lower)
    vertex[:whole] = block.upper
    if whole < block.n:
        vertex[whole] += block.trace - vertex.sum()
    weights = rng.dirichlet(np.ones(3))
    return (q * sum(w * rng.permutation(vertex) for w in weights)) @ q.T


# ---------------------------------------------------------------- rows


@dataclass(frozen=True)
class Sample:
    """Rows together with what they stand for, worked out here in rational arithmetic."""

    rows: Rows
    #: Shape (m, n, n) or (m, n), fractions.
    values: np.ndarray
    #: Bounds of the magnitudes that structure gives: zero where no rounding can happen.
    magnitude: np.ndarray


def _outer_sums(factors: list[np.ndarray], signs: list[np.ndarray]) -> np.ndarray:
    n = factors[0].shape[1]
    out = []
    for f, s in zip(factors, signs, strict=True):
        row = np.full((n, n), Fraction(0), dtype=object)
        for vector, sign in zip(f, s, strict=True):
            row = row + sign * np.outer(vector, vector)
        out.append(row)
    return np.stack(out)


def make_rows(
    kind: str, m: int, n: int, rng: np.random.Generator, *, matrix: bool = True, wild: float = 0.0
) -> Sample:
    """Rows of one kind, about ``m`` of them; numbers span ``10**±wild`` and a third of them are zero."""

    def numbers(*shape: int) -> np.ndarray:
        values = rng.normal(size=shape) * 10.0 ** rng.uniform(-wild, wild, size=shape)
        return np.where(rng.random(shape) < 1 / 3, 0.0, values)

    def mix(coefficients: np.ndarray, base: Sample) -> Sample:
        weights = exact(coefficients)
        return Sample(
            Combined(coefficients, base.rows),
            np.tensordot(weights, base.values, 1),
            np.tensordot(np.abs(weights), base.magnitude, 1),
        )

    def inner(kinds: tuple[str, ...]) -> Sample:
        return make_rows(str(rng.choice(kinds)), m, n, rng, matrix=matrix, wild=wild)

    plain = ("dense", "sparse", "low-rank", "pairwise") if matrix else ("dense", "sparse")
    if kind in ("dense", "sparse"):
        array = numbers(m, n, n) if matrix else numbers(m, n)
        if matrix:
            array = np.triu(array) + np.swapaxes(np.triu(array, 1), 1, 2)
        rows: Rows = Dense(array)
        if kind == "sparse":
            rows = Sparse(sp.csr_array(array.reshape(m, -1)), n, matrix)
        return Sample(rows, exact(array), np.abs(exact(array)))
    if kind == "low-rank":
        counts = rng.integers(0, 4, size=m)
        factors, signs = [numbers(k, n) for k in counts], [numbers(k) for k in counts]
        values = _outer_sums([exact(f) for f in factors], [exact(s) for s in signs])
        magnitude = _outer_sums([abs(exact(f)) for f in factors], [abs(exact(s)) for s in signs])
        return Sample(LowRank(factors, signs), values, magnitude)
    if kind == "pairwise":
        c = 2 + int(m > 1) + int(m > 3)
        means = numbers(c, n)
        apart = [exact(means[i]) - exact(means[j]) for i in range(c) for j in range(i + 1, c)]
        values = np.stack([np.outer(d, d) for d in apart])
        return Sample(PairwiseDifference(means), values, np.abs(values))
    if kind == "stacked":
        parts = [inner(plain), inner(plain)]
        return Sample(
            Stacked([part.rows for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.magnitude for part in parts]),
        )
    if kind == "combined":
        base = inner((*plain, "stacked"))
        return mix(numbers(m, base.rows.m), base)
    assert kind == "nested"
    first, second = inner(("combined",)), inner(("stacked",))
    stacked = Sample(
        Stacked([first.rows, second.rows]),
        np.concatenate([first.values, second.values]),
        np.concatenate([first.magnitude, second.magnitude]),
    )
    return mix(numbers(m, stacked.rows.m), stacked)


@st.composite
def samples(draw: st.DrawFn, *, wild: float = 0.0, matrix: bool | None = None) -> Sample:
    """Rows of any kind."""
    is_matrix = draw(st.booleans()) if matrix is None else matrix
    kind = draw(st.sampled_from(MATRIX_KINDS if is_matrix else VECTOR_KINDS))
    m, n = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    return make_rows(kind, m, n, np.random.default_rng(draw(SEEDS)), matrix=is_matrix, wild=wild)


def rows_for(block: Any, m: int, rng: np.random.Generator, wild: float = 0.0) -> Rows:
    """Exactly ``m`` rows of a random kind for a block; none that multiply numbers so wild as to overflow."""
    kinds = MATRIX_KINDS if block.matrix else VECTOR_KINDS
    kind = str(rng.choice(kinds if wild <= 30.0 else ("dense", "sparse")))
    rows = make_rows(kind, m, block.n, rng, matrix=block.matrix, wild=wild).rows
    return rows.select(rng.integers(rows.m, size=m)) if rows.m != m else rows


# ---------------------------------------------------------------- problems


@st.composite
def problems(
    draw: st.DrawFn,
    sets: st.SearchStrategy[Any] | None = None,
    most_blocks: int = 3,
    wild: float = 0.0,
) -> sf.FeasibilityProblem:
    """Problems of any shape, with or without names; nothing is known about their answer."""
    blocks = draw(st.lists(sets or block_sets(3), min_size=1, max_size=most_blocks))
    m = draw(st.integers(0, 4))
    rng = np.random.default_rng(draw(SEEDS))
    rows = [None if m == 0 or rng.random() < 0.2 else rows_for(block, m, rng, wild) for block in blocks]
    middle, slack = rng.normal(size=m), rng.exponential(size=m) * (rng.random(m) < 0.6)
    lower = np.where(rng.random(m) < 0.2, -np.inf, middle)
    upper = np.where(rng.random(m) < 0.2, np.inf, middle + slack)
    named = draw(st.booleans())
    return sf.FeasibilityProblem(
        blocks,
        rows,
        lower,
        upper,
        [f"row {i}" for i in range(m)] if named else None,
        [f"X{b}" for b in range(len(blocks))] if draw(st.booleans()) else None,
    )


def everywhere(problem: sf.FeasibilityProblem, visit: Callable[[Rows], None]) -> None:
    """Visit all rows of a problem, those they are made of included."""
    pending = list(problem.rows)
    while pending:
        rows = pending.pop()
        visit(rows)
        pending += rows.state()[2]
