"""Bounds behind existence proofs, each next to the truth in fractions: none is off by more than is said."""

from __future__ import annotations

import math
from fractions import Fraction

import known_answers
import numpy as np
import pytest
import scipy.sparse as sp
from equations import equations, symmetric
from strategies import exact, total

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.numerics.linalg import random_orthogonal, symmetrize
from sdpfeas.numerics.rounding import gamma
from sdpfeas.problem.rows import Combined, Dense, LowRank, Rows
from sdpfeas.verifier.equality_correction import CorrectionSystem
from sdpfeas.verifier.gram import ENTRY_ROUNDINGS, ScaledGram, SparseGram
from sdpfeas.verifier.point_metric import (
    CongruenceBlock,
    Movable,
    Orthonormalisation,
    ScaledVectors,
    _norm_of,
    metric_block,
    metric_system,
)


def squared(values: np.ndarray) -> Fraction:
    return total(values * values)


def powers_of_two(exponents: np.ndarray) -> np.ndarray:
    return np.array([Fraction(2) ** int(e) for e in exponents], dtype=object)


def within_slips(written: ScaledVectors, truth: np.ndarray, room: float = 1e-13) -> None:
    """Vectors are what they were up to their slips, which are small, and no shorter than is said."""
    scale = powers_of_two(written.exponents)
    for i, own in enumerate(truth.reshape(truth.shape[0], -1)):
        slip = Fraction(float(written.slips[i]))
        assert slip >= 0
        assert squared(own / scale[i] - exact(written.vectors[i])) <= slip**2
        assert slip <= Fraction(room) * max(*(abs(v) for v in own / scale[i]), Fraction(1, 2**900))
        assert Fraction(float(written.norms[i])) ** 2 >= squared(own)


@pytest.mark.parametrize("q", [0.0, 0.125, 0.25])
def test_vectors_near_orthonormal_give_the_least_singular_value(q: float) -> None:
    """Inner products r² and q: a target (1, -1) takes exactly √(2 / (r² - q)), at any scale."""
    root = 0.5 * np.array([[math.sqrt(0.75 + q), math.sqrt(0.75 - q)]])
    vectors = math.sqrt(2.0) * np.concatenate([root, root * [1.0, -1.0]])
    a, b = exact(vectors)
    least = total(a * a) - abs(total(a * b))
    for power in (0, 40, -40):
        written = ScaledVectors(vectors, np.zeros(2), np.full(2, power))
        bound = Fraction(Orthonormalisation(written).shortest_upper(np.ones(2))) * Fraction(2) ** power
        assert 2 / least <= bound**2 <= 2 / least * Fraction(1 + 1e-12)
    one = Orthonormalisation(ScaledVectors(vectors[:1], np.zeros(1), np.zeros(1, dtype=np.int64)))
    assert Fraction(one.shortest_upper(np.ones(1))) ** 2 >= 1 / total(a * a)


@pytest.mark.parametrize("gap", [0.5, 2.0**-10, 2.0**-20])
@pytest.mark.parametrize("share", [0.0, 0.125, 0.25, 1.0])
def test_what_vectors_are_off_counts_where_they_are_nearly_dependent(gap: float, share: float) -> None:
    """(1, 0) and (1, gap), the second off by a share of the gap: at worst its end is that much nearer."""
    slip = share * gap
    written = ScaledVectors(np.array([[1.0, 0.0], [1.0, gap]]), np.array([0.0, slip]), np.array([3, -5]))
    bound = Orthonormalisation(written).shortest_upper(np.array([0.0, 1.0]))
    if share == 1.0:
        assert bound == math.inf
    else:
        truth = 32.0 / (gap - slip)
        assert truth <= bound <= 4.0 * truth
    # The same of the first, next to a second that is orthogonal: no combination is needed.
    apart = ScaledVectors(0.75 * np.eye(2), np.array([share, 0.0]), np.zeros(2, dtype=np.int64))
    bound = Orthonormalisation(apart).shortest_upper(np.array([1.0, 0.0]))
    assert bound == math.inf if share == 1.0 else bound >= 1.0 / (0.75 - share)


def test_parts_of_vectors_beside_each_other_lose_nothing() -> None:
    rng = np.random.default_rng(4)
    for high, low in ((0, -3), (-3, 0), (5, 5), (0, -40), (0, -1100)):
        left, right = rng.normal(size=(2, 3)), rng.normal(size=(2, 2))
        parts = [
            ScaledVectors(left, np.array([1e-15, 0.0]), np.array([high, low])),
            ScaledVectors(right, np.array([1e-15, 2e-15]), np.array([low, high])),
        ]
        joined = ScaledVectors.beside(parts)
        assert joined.exponents.tolist() == [max(high, low)] * 2
        for i in range(2):
            scale = [Fraction(2) ** int(part.exponents[i]) for part in parts]
            truth = np.concatenate([exact(p.vectors[i]) * s for p, s in zip(parts, scale, strict=True)])
            slips = sum(Fraction(float(p.slips[i])) * s for p, s in zip(parts, scale, strict=True))
            top = Fraction(2) ** max(high, low)
            off = squared(truth - exact(joined.vectors[i]) * top)
            own = Fraction(float(joined.slips[i])) * top
            # Underflow comes on top of what each was off.
            assert (own - slips) ** 2 >= off
            assert own >= slips
            assert own <= 2 * slips + top * Fraction(1, 2**1000)


def metric_cases(rng: np.random.Generator):
    """Blocks with a point inside and rows on them, stored and not."""
    for block in (sf.PSD(2), sf.SpectralBox(2, -1.0, 2.0, trace=0.5), sf.HermitianPSD(2), sf.SecondOrder(3)):
        yield block, planted.interior(rng, block)
    yield sf.Nonneg(3), np.array([0.0, 3.0, 1e-30])
    yield sf.Nonneg(3), np.array([0.0, 0.7, 1e-290])
    yield sf.PSD(2), planted.interior(rng, sf.PSD(2)) * np.array([[2.0**300, 1.0], [1.0, 2.0**-300]])


@pytest.mark.parametrize("stored", [True, False])
def test_rows_seen_by_steps_are_off_by_no_more_than_is_said(stored: bool) -> None:
    rng = np.random.default_rng(7)
    for block, x in metric_cases(rng):
        values = np.array([block.symmetrize(rng.normal(size=block.shape)) for _ in range(3)])
        values[2] = 0.0
        rows: Dense | Combined = Dense(values)
        truth = exact(values)
        if not stored:
            mix = rng.normal(size=(3, 3)) * [[1.0], [1.0], [0.0]]
            rows, truth = Combined(sp.csr_array(mix), Dense(values)), np.tensordot(exact(mix), truth, 1)
        part = metric_block(0, block, x, rows)
        assert part is not None
        if isinstance(part, Movable):
            seen = truth * exact(part.weight)
        else:
            lower = exact(part._root) * powers_of_two(part._powers)[:, None]
            if part._map is None:
                whole = truth
            else:
                whole = np.array([exact(part._map.toarray()).dot(a) for a in truth])
                # The matrix that steps are taken from is not quite behind the point.
                shadow = exact(part._map.toarray()).T.dot(exact(part._matrix).reshape(-1))
                for near in (x, x + 2.0**-20):
                    off, apart = part.start(near), np.abs(shadow - exact(near))
                    assert off is not None
                    assert all(Fraction(o) >= a for o, a in zip(off.tolist(), apart, strict=True))
                    assert np.all(off <= apart.astype(float) + 1e-13)
            n = lower.shape[0]
            seen = np.array([lower.T.dot(a.reshape(n, n)).dot(lower) for a in whole])
            slacks = [exact(part._matrix)] if block.cone else []
            if block.bounded:
                slacks = [
                    exact(np.eye(n)) * Fraction(shift) + int(sign) * exact(x) for sign, shift in block.slacks
                ]
            for slack in slacks:
                assert known_answers.exactly_psd(slack - lower.dot(lower.T))
            assert Fraction(part.reach) ** 2 >= squared(lower.dot(lower.T))
        written = part.transformed(rows)
        within_slips(written, seen)
        assert not written.norms[2]
        if isinstance(part, CongruenceBlock) and block.trace is not None:
            within_slips(part.transformed_trace(), lower.T.dot(lower)[None])
            assert part.trace_off >= abs(float(np.trace(x)) - block.trace) - 1e-15


@pytest.mark.parametrize("terms", [1, 40])
def test_slips_cover_what_long_sums_may_be_off(terms: int) -> None:
    """By the theory sums are off by gamma times those of the magnitudes, whatever they came out as."""
    rng = np.random.default_rng(13)
    n = 12
    root = random_orthogonal(rng, n)
    part = metric_block(
        0, sf.PSD(n), symmetrize(root @ np.diag(np.linspace(1.0, 2.0, n)) @ root.T), Dense(np.eye(n)[None])
    )
    assert isinstance(part, CongruenceBlock)
    mix = rng.normal(size=(1, terms))
    parts = np.array([planted.symmetric(rng, n) for _ in range(terms)])
    rows = Dense(parts) if terms == 1 else Combined(sp.csr_array(mix), Dense(parts))
    sizes = np.abs(parts[0]) if terms == 1 else np.tensordot(np.abs(mix[0]), np.abs(parts), 1)
    lower = np.abs(np.ldexp(part._root, part._powers[:, None]))
    written = part.transformed(rows)
    slip = float(np.ldexp(written.slips[0], int(written.exponents[0])))
    depth = 2 * n + (terms if terms > 1 else 0)
    assert slip >= gamma(depth) * np.linalg.norm(lower.T @ sizes @ lower)
    if terms > 1:
        vector = Combined(sp.csr_array(mix), Dense(parts[:, 0]))
        seen = Movable(0, vector, np.ones(n)).transformed(vector)
        slip = float(np.ldexp(seen.slips[0], int(seen.exponents[0])))
        assert slip >= gamma(terms) * np.linalg.norm(np.abs(mix[0]) @ np.abs(parts[:, 0]))


def nearly_lost() -> list[tuple[sf.BlockSet, np.ndarray, Rows, np.ndarray]]:
    """Entries that underflow takes, and that the steps of a graded point bring back."""
    graded = np.diag([2.0**600, 2.0**-600])
    bits, power = 2.0**-1074, np.array([[2.0**-900, 0.0], [0.0, 2.0**300]])
    factor = np.array([[2.0**-600, 1.0]])
    half = sf.HermitianPSD(2)
    thin = np.array([[3.0 * bits, bits, 5.0 * bits, bits]])
    return [
        (half, half.identity(), Dense(thin), exact(thin)),
        (sf.PSD(2), graded, Combined(sp.csr_array(np.eye(1)), Dense(power[None])), exact(power)[None]),
        (
            sf.PSD(2),
            graded,
            LowRank([factor]),
            exact(factor).T.dot(exact(factor))[None],
        ),
    ]


@pytest.mark.parametrize("case", range(3))
def test_what_underflow_takes_counts_where_a_graded_point_makes_it_large(case: int) -> None:
    """Halves of the last bit, an entry 2**-1200 of its row, a square of 2**-600: gone, and all there is."""
    block, x, rows, truth = nearly_lost()[case]
    part = metric_block(0, block, x, rows)
    assert isinstance(part, CongruenceBlock)
    lower = exact(part._root) * powers_of_two(part._powers)[:, None]
    whole = truth if part._map is None else np.array([exact(part._map.toarray()).dot(a) for a in truth])
    n = lower.shape[0]
    seen = lower.T.dot(whole[0].reshape(n, n)).dot(lower).reshape(-1)
    written = part.transformed(rows)
    scale = Fraction(2) ** int(written.exponents[0])
    slip = Fraction(float(written.slips[0]))
    assert 0 < squared(seen / scale - exact(written.vectors[0])) <= slip**2


def test_norms_of_sparse_matrices_are_bounded() -> None:
    """Also where the largest row or the largest column alone decides."""
    for matrix in (
        np.diag([3.0, 1.0]),
        np.array([[2.0, 2.0], [0.0, 0.0]]),
        np.array([[2.0, 0.0], [2.0, 0.5]]),
    ):
        for turned in (matrix, matrix.T):
            norm = float(np.linalg.norm(turned, 2))
            assert norm <= _norm_of(sp.csr_array(turned)) <= 1.5 * norm


@pytest.mark.parametrize("scale", [1.0, 2.0**-20])
def test_rows_that_are_no_equations_move_by_no_more_than_is_said(scale: float) -> None:
    """Rows that touch one block only, the other one only, and both, beside an equation."""
    rng = np.random.default_rng(17)
    x, z = planted.interior(rng, sf.PSD(2)), np.array([1.0, 2.0])
    matrices, vectors = symmetric(rng, 4, 2), rng.normal(size=(4, 2))
    matrices[2], vectors[3] = 0.0, 0.0
    matrices[1:] *= scale
    vectors[1:] *= scale
    first = float(np.sum(matrices[0] * x) + vectors[0] @ z)
    upper = [first, np.inf, np.inf, np.inf]
    sets = [sf.PSD(2), sf.Nonneg(2)]
    problem = sf.FeasibilityProblem(sets, [matrices, vectors], [first, -9.0, -9.0, -9.0], upper)
    system = metric_system(problem, (x, z))
    assert system is not None
    drift = system.drift_upper(problem)
    assert drift[0] == 0.0
    assert np.all(drift <= 20.0 * scale)
    sizes = [part.size for part in system.parts]
    for _ in range(50):
        s = rng.normal(size=sum(sizes))
        steps = np.split(s / np.linalg.norm(s), np.cumsum(sizes)[:-1])
        moved = [part.step(own) for part, own in zip(system.parts, steps, strict=True)]
        assert np.all(np.abs(problem.apply(tuple(moved)))[1:] <= drift[1:])


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_a_trace_is_off_has_to_be_corrected_too(place: int) -> None:
    """Beside blocks without a trace, wherever the box with one stands."""
    rng = np.random.default_rng(19)
    box = sf.SpectralBox(2, 0.0, 1.0, trace=1.0)
    sets: list = [sf.Nonneg(3), sf.PSD(2)]
    point = [np.array([1.0, 0.5, 2.0]), planted.interior(rng, sf.PSD(2))]
    sets.insert(place, box)
    point.insert(place, np.array([[0.5, 0.1], [0.1, 0.501]]))
    rows = [np.array([block.symmetrize(rng.normal(size=block.shape)) for _ in range(2)]) for block in sets]
    system = metric_system(equations(sets, rows, point), tuple(point))
    assert system is not None
    seen = [part.transformed(part.rows) for part in system.parts]
    lines = np.hstack([np.ldexp(w.vectors, w.exponents[:, None]) for w in seen])
    (traced,) = (part for part in system.parts if part.trace is not None)
    root = np.ldexp(traced._root, traced._powers[:, None])
    along = [(root.T @ root if part is traced else np.zeros(part.size)).reshape(-1) for part in system.parts]
    table = np.vstack([lines, np.concatenate(along)])
    for residual in (np.zeros(2), np.array([1e-3, 0.0])):
        shortest = np.linalg.norm(np.linalg.pinv(table) @ [*residual, 1e-3])
        assert shortest * (1.0 - 1e-9) <= system.correction_upper(residual) <= 10.0 * shortest


@pytest.mark.parametrize("block", [sf.SecondOrder(3), sf.HermitianPSD(2)])
def test_shadows_of_steps_are_no_longer_than_their_reach(block) -> None:
    """Near a ray of the boundary one step takes all there is, and its shadow is longer than the matrix."""
    ray = np.array([1.0, 1.0, 0.0]) if block.shape == (3,) else block.coordinates(np.ones((2, 2)))
    x = ray + 1e-6 * block.identity()
    part = metric_block(0, block, x, Dense(x[None]))
    assert isinstance(part, CongruenceBlock)
    *_, turn = np.linalg.svd(np.ldexp(part._root, part._powers[:, None]))
    step = part.step(np.outer(turn[0], turn[0]).reshape(-1))
    assert 0.2 * part.reach <= np.linalg.norm(step) <= part.reach


def test_singular_points_have_no_root_however_rounding_turns_out() -> None:
    """Exactly singular, which a computed factor does not see: no step is allowed from there."""
    rng = np.random.default_rng(11)
    rows = Dense(np.eye(3)[None])
    for _ in range(60):
        factor = rng.integers(-(2**24), 2**24, (3, 2)).astype(float)
        x = factor @ factor.T
        assert metric_block(0, sf.PSD(3), x, rows) is None
        size = float(2.0**51)
        for lower, upper, inside in ((0.0, size, x), (-size, 0.0, -x)):
            assert metric_block(0, sf.SpectralBox(3, lower, upper), inside, rows) is None


def sparse_vectors(rng: np.random.Generator, exponents: np.ndarray) -> tuple[SparseGram, np.ndarray]:
    """A few sparse vectors of any size, some nearly dependent; and what they are exactly."""
    table = rng.normal(size=(5, 12)) * (rng.random((5, 12)) < 0.4)
    table[:, :5] += np.eye(5)
    table[1] = table[0] + 2.0**-6 * table[1]
    table = table / np.max(np.abs(table), axis=1)[:, None]
    return SparseGram(sp.csr_array(table), exponents), exact(table) * powers_of_two(exponents)[:, None]


def test_gram_matrices_of_sparse_vectors_are_off_by_no_more_than_is_said() -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        exponents = rng.integers(-30, 31, 5)
        gram, vectors = sparse_vectors(rng, exponents)
        assert gram.usable
        scaled = vectors * powers_of_two(gram.exponents)[:, None]
        truth = scaled.dot(scaled.T)
        assert all(Fraction(1, 4) <= v <= 4 for v in np.diagonal(truth))
        off = max(total(np.abs(line)) for line in exact(gram.matrix.toarray()) - truth)
        # Half of what is left is for entries that are off themselves.
        assert 2 * off <= Fraction(gram.error) <= Fraction(1, 10**12)
        as_array = gram.factorable()
        assert isinstance(as_array, ScaledGram)
        # The shortest vector with given inner products, from the exact Gram matrix of the vectors.
        own = rng.normal(size=5)
        target = np.ldexp(own, -gram.exponents)
        shortest = math.sqrt(float(own @ np.linalg.solve(truth.astype(float), own)))
        for each in (gram, as_array):
            assert each.smallest_lower > 0.0
            least = Fraction(each.smallest_lower) * exact(np.eye(5))
            assert known_answers.exactly_psd(truth - least)
            assert not known_answers.exactly_psd(truth - 4 * least)
            assert each.shortest_upper(np.abs(target)) >= shortest * (1.0 - 1e-9)
            found = np.ldexp(each.combination(target), -gram.exponents)
            np.testing.assert_allclose(truth.astype(float) @ found, own, rtol=1e-9)


def test_what_entries_of_sparse_vectors_are_off_counts() -> None:
    """Each may be off by a few roundings, all of them the same way; the products are rounded once more."""
    gram = SparseGram(sp.csr_array(0.75 * np.eye(3)), np.zeros(3, dtype=np.int64))
    assert gram.error >= 0.5625 * (2 * ENTRY_ROUNDINGS + 1) * 2.0**-53


def test_sparse_vectors_that_are_dependent_or_no_numbers_are_told() -> None:
    table = sp.csr_array(np.array([[1.0, 0.0, 0.5], [1.0, 0.0, 0.5]]))
    power = np.zeros(2, dtype=np.int64)
    assert SparseGram(table, power).smallest_lower == 0.0
    assert SparseGram(table, power).factorable().smallest_lower == 0.0
    for bad in (np.nan, np.inf, 0.0):
        wrong = sp.csr_array(np.array([[1.0, 0.0], [0.0, 1.0]]))
        wrong.data[1] = bad
        for gram in (SparseGram(wrong, power), SparseGram(wrong, power).factorable()):
            assert gram.smallest_lower == 0.0
            assert gram.shortest_upper(np.ones(2)) == math.inf


def test_without_a_block_that_can_move_no_residual_is_corrected() -> None:
    """A point on the boundary of every set leaves nothing to move (qap10 of SDPLIB)."""
    assert CorrectionSystem([], 3).correction_upper(np.zeros(3)) == math.inf
