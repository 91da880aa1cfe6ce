"""Sets: projections, support functions, membership, interior."""

import math
import pickle
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st
from strategies import SEEDS, block_sets, examples, random_array, random_member, spectral_boxes

import sdpfeas as sf
from sdpfeas.problem.sets import set_from_spec

SCALES = st.sampled_from([1e-8, 1.0, 3.0, 1e3, 1e8])


@given(block_sets(), SEEDS, SCALES)
def test_projection_is_a_member_and_idempotent(block, seed, scale):
    x = random_array(block, np.random.default_rng(seed), scale)
    p = block.project(x)
    rounding = 1e-13 * (1.0 + np.linalg.norm(p))
    assert p.shape == block.shape
    if block.matrix:
        assert np.array_equal(p, p.T)
        lam = np.linalg.eigvalsh(p)
        if isinstance(block, sf.SpectralBox):
            assert block.lower - rounding <= lam[0] <= lam[-1] <= block.upper + rounding
            assert block.trace is None or np.trace(p) == pytest.approx(block.trace, abs=rounding)
        else:
            assert lam[0] >= -rounding
    assert block.distance(p) <= rounding
    assert np.linalg.norm(block.project(p) - p) <= rounding


@given(block_sets(), SEEDS, SCALES)
def test_projection_is_non_expansive(block, seed, scale):
    rng = np.random.default_rng(seed)
    x = random_array(block, rng, scale)
    y = x + random_array(block, rng, 10.0 ** rng.uniform(-6, 1))
    apart = np.linalg.norm(block.project(x) - block.project(y))
    assert apart <= np.linalg.norm(x - y) + 1e-13 * np.linalg.norm(x)


@given(block_sets(), SEEDS, SCALES)
def test_projection_is_nearest(block, seed, scale):
    """No member lies in front of the plane through the projection: <x - p, z - p> <= 0."""
    rng = np.random.default_rng(seed)
    x = random_array(block, rng, scale)
    p = block.project(x)
    for _ in range(5):
        z = random_member(block, rng)
        size = np.linalg.norm(x - p) * (np.linalg.norm(z) + np.linalg.norm(p)) + np.linalg.norm(x)
        assert np.vdot(x - p, z - p) <= 1e-12 * (1.0 + size)
    assert block.distance(x) == pytest.approx(np.linalg.norm(x - p), abs=1e-13 * (1 + np.linalg.norm(x)))


def _constraints(block, x):
    if isinstance(block, sf.PSD):
        return [x >> 0]
    if isinstance(block, sf.Nonneg):
        return [x >= 0]
    if isinstance(block, sf.Free):
        return []
    eye = np.eye(block.n)
    trace = [] if block.trace is None else [cp.trace(x) == block.trace]
    return [x - block.lower * eye >> 0, block.upper * eye - x >> 0, *trace]


def _variable(block):
    return cp.Variable(block.shape, symmetric=block.matrix and block.n > 1)


@examples(0.5)
@given(block_sets(4), SEEDS)
@example(sf.SpectralBox(4, trace=1.5), 1)
@example(sf.SpectralBox(3, -1.0, 2.0, trace=0.25), 2)
@example(sf.SpectralBox(3, -1.0, 2.0), 3)
@example(sf.SpectralBox(3, 0.1, 0.1, trace=0.3), 4)
@example(sf.SpectralBox(3, 0.0, 1.0, trace=3.0), 5)
@example(sf.SpectralBox(3, 0.0, 1.0, trace=0.0), 6)
def test_projection_agrees_with_a_convex_solver(block, seed):
    target = random_array(block, np.random.default_rng(seed), 2.0)
    x = _variable(block)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - target)), _constraints(block, x))
    try:
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    except cp.SolverError:
        reject()  # nothing to compare with: the solver gave up, on about one example in a thousand
    assert x.value is not None
    # Distances pin the projection down: the solver's point may itself be off by the root of its gap.
    assert np.linalg.norm(block.project(target) - x.value) <= 2e-5
    assert block.distance(target) == pytest.approx(np.linalg.norm(x.value - target), abs=1e-7)


def _support_by_eigenvalues(block, g):
    """Greedy filling: every eigenvalue starts at the lower bound, the largest take what the trace leaves."""
    lam = np.linalg.eigvalsh(g)[::-1] if block.matrix else g
    if isinstance(block, sf.Free):
        return 0.0 if not lam.any() else math.inf
    if not isinstance(block, sf.SpectralBox):
        return 0.0 if np.max(lam) <= 0.0 else math.inf
    value = block.lower * lam.sum()
    left = math.inf if block.trace is None else block.trace - block.n * block.lower
    for eigenvalue in lam:
        if block.trace is None and eigenvalue < 0.0:
            break
        step = min(left, block.upper - block.lower)
        value += step * eigenvalue
        left -= step
    return value


@given(block_sets(), SEEDS, SCALES)
def test_support_agrees_with_a_formula_on_eigenvalues(block, seed, scale):
    g = random_array(block, np.random.default_rng(seed), scale)
    tolerance = 1e-12 * scale * (1.0 + getattr(block, "nuclear_radius", 0.0)) * block.n
    assert block.support(g) == pytest.approx(_support_by_eigenvalues(block, g), abs=tolerance)


@given(block_sets(), SEEDS)
def test_no_member_exceeds_the_support(block, seed):
    rng = np.random.default_rng(seed)
    g = random_array(block, rng)
    if not block.bounded:
        g = -block.project(g) if not isinstance(block, sf.Free) else np.zeros(block.n)
    bound = block.support(g - 1e-14 * np.eye(block.n) if isinstance(block, sf.PSD) else g)
    for _ in range(10):
        z = random_member(block, rng)
        assert np.vdot(g, z) <= bound + 1e-11 * (1.0 + np.linalg.norm(z))


@given(spectral_boxes(), SEEDS)
def test_support_is_attained(box, seed):
    """Far along a direction the projection is the maximiser."""
    g = random_array(box, np.random.default_rng(seed))
    gaps = np.diff(np.linalg.eigvalsh(g))
    if gaps.size and gaps.min() < 1e-3:
        return
    z = box.project(1e6 * g)
    assert np.vdot(g, z) == pytest.approx(box.support(g), abs=1e-8)


@examples(0.3)
@given(spectral_boxes(4), SEEDS)
def test_support_agrees_with_a_convex_solver(box, seed):
    g = random_array(box, np.random.default_rng(seed))
    z = _variable(box)
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(g, z))), _constraints(box, z))
    problem.solve(solver=cp.CLARABEL)
    assert problem.value == pytest.approx(box.support(g), abs=1e-6)


def test_projection_far_away_keeps_the_trace():
    """Rounding is relative to the box, not to the eigenvalues."""
    box = sf.SpectralBox(3, trace=1)
    for size in (1.0, 1e16, 1e100, 1e300):
        assert np.allclose(box.project_spectrum(np.full(3, size)), 1 / 3, atol=1e-15)
        assert np.allclose(box.project_spectrum(np.array([-size, size, size])), [0.0, 0.5, 0.5], atol=1e-15)
        assert np.array_equal(box.project_spectrum(np.array([-size, 0.0, 2 * size])), [0.0, 0.0, 1.0])


@given(spectral_boxes(), SEEDS, st.integers(-30, 300))
def test_projection_of_a_spectrum_meets_the_trace(box, seed, exponent):
    rng = np.random.default_rng(seed)
    lam = rng.normal(size=box.n).round(1) * 10.0**exponent
    p = box.project_spectrum(lam)
    assert np.all((p >= box.lower) & (p <= box.upper))
    if box.trace is not None:
        size = box.n * max(abs(box.lower), abs(box.upper))
        assert p.sum() == pytest.approx(box.trace, abs=4e-16 * box.n * size)


@given(block_sets(), SEEDS)
def test_interior(block, seed):
    inner = block.interior_point()
    single = isinstance(block, sf.SpectralBox) and (
        block.lower == block.upper
        or (block.trace is not None and min(block.rank, block.n - block.rank) < 1e-9)
    )
    assert block.distance(inner) <= 1e-15 * (1 + np.linalg.norm(inner))
    if single:
        assert block.depth(inner) == pytest.approx(0.0, abs=1e-15)
        return
    assert block.contains_interior(inner)
    x = random_array(block, np.random.default_rng(seed), 3.0)
    depth = block.depth(x)
    if isinstance(block, sf.Free):
        assert depth == math.inf
    elif depth < 0.0:
        assert not block.contains_interior(x)
        assert block.distance(x) >= -depth * (1 - 1e-12)


def test_depth_counts_eigenvalues():
    assert sf.PSD(2).depth(np.array([[2.0, 1.0], [1.0, 2.0]])) == pytest.approx(1.0)
    assert sf.SpectralBox(2, 0.0, 4.0).depth(np.array([[2.0, 1.0], [1.0, 2.0]])) == pytest.approx(1.0)
    assert sf.Nonneg(2).depth(np.array([3.0, -1.0])) == -1.0


def test_interior_asks_for_the_trace():
    box = sf.SpectralBox(2, trace=1)
    assert box.contains_interior(np.diag([0.5, 0.5]))
    assert not box.contains_interior(np.diag([0.5, 0.6]))
    assert not box.contains_interior(np.diag([0.0, 1.0]))


def test_distance_counts_asymmetry():
    assert sf.PSD(2).distance(np.array([[1.0, 1.0], [-1.0, 1.0]])) == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize(
    ("n", "lower", "upper", "trace"),
    [
        (3, 0.1, 1.0, 0.3),
        (3, 0.1, 0.7, 2.1),
        (6, 0.7, 0.7 + 0.2, 5.4),
        (7, -0.3, 0.1, 0.7),
        (6, 0.1, 0.3, 0.6),
        (49, 0.0, 1 / 49, 1.0),
    ],
)
def test_a_trace_at_its_end_leaves_a_member_exactly(n, lower, upper, trace):
    """In rational arithmetic the set is not empty, though 3 times 0.1 is not 0.3."""
    box = sf.SpectralBox(n, lower, upper, trace)
    assert box.trace is not None
    assert n * Fraction(lower) <= Fraction(box.trace) <= n * Fraction(upper)
    assert box.trace == pytest.approx(trace, rel=1e-14)
    assert 0.0 <= box.rank <= n


def test_a_trace_that_the_bounds_imply_is_dropped():
    """No floating-point number is 3 times 0.1: with the trace the set would be empty."""
    box = sf.SpectralBox(3, 0.1, 0.1, trace=0.3)
    assert box == sf.SpectralBox(3, 0.1, 0.1)
    assert np.allclose(box.project(np.ones((3, 3))), 0.1 * np.eye(3), atol=1e-16)


@given(block_sets())
def test_spec_round_trips(block):
    assert set_from_spec(block.spec()) == block


def test_pickles_of_before_the_sets_had_files_of_their_own_load():
    old = (
        b"(lp0\nccopy_reg\n_reconstructor\np1\n(csdpfeas.problem.sets\nPSD\np2\nc__builtin__\nobject\np3\nNtp4"
        b"\nRp5\n(dp6\nVn\np7\nI2\nsbag1\n(csdpfeas.problem.sets\nSpectralBox\np8\ng3\nNtp9\nRp10\n(dp11\ng7\nI3"
        b"\nsVlower\np12\nF-1.0\nsVupper\np13\nF2.0\nsVtrace\np14\nF0.5\nsba."
    )
    assert pickle.loads(old) == [sf.PSD(2), sf.SpectralBox(3, -1.0, 2.0, trace=0.5)]


@pytest.mark.parametrize("block", [sf.PSD(2), sf.Nonneg(2), sf.Free(2), sf.SpectralBox(2, trace=1)])
def test_sets_are_immutable(block):
    for name in block.spec():
        with pytest.raises(AttributeError):
            setattr(block, name, 1)


def test_numpy_numbers_are_numbers():
    box = sf.SpectralBox(np.int64(3), np.float32(0.5), np.int32(1), np.float64(2))
    assert box == sf.SpectralBox(3, 0.5, 1.0, 2.0)
    assert type(box.n) is int
    assert type(box.trace) is float


@pytest.mark.parametrize(("n", "trace"), [(4, 1.0), (5, 2.0), (3, 3.0)])
def test_the_radius_of_a_box_is_that_of_its_projectors(n: int, trace: float) -> None:
    box = sf.SpectralBox(n, trace=trace)
    corner = np.diag([1.0] * int(trace) + [0.0] * (n - int(trace)))
    assert box.radius == pytest.approx(np.linalg.norm(corner - box.middle * np.eye(n)))
    assert sf.SpectralBox(n, -1.0, 3.0).radius == pytest.approx(np.linalg.norm(2.0 * np.eye(n)))


@pytest.mark.parametrize(
    "kind", [sf.PSD, sf.Nonneg, sf.Free, sf.SpectralBox, sf.SecondOrder, sf.HermitianPSD]
)
@pytest.mark.parametrize("n", [True, 2.0, "2", None])
def test_sizes_are_integers(kind: type, n: object) -> None:
    with pytest.raises(sf.ProblemError, match="must be an integer"):
        kind(n)


@pytest.mark.parametrize(
    "box", [sf.SpectralBox(4, trace=1.5), sf.SpectralBox(4, -1.0, 2.0), sf.SpectralBox(4, 0.5, 1.0, 3.0)]
)
def test_maximisers_attain_the_support_and_know_the_largest_eigenvalue(box: sf.SpectralBox) -> None:
    """Rounding errors are bounded by the size, also where few eigenvectors are computed."""
    turn = np.linalg.qr(np.random.default_rng(4).normal(size=(4, 4)))[0]
    g = turn @ np.diag([-1000.0, 1.0, 2.0, 3.0]) @ turn.T
    best = box.maximiser((g + g.T) / 2)
    assert best.lam @ best.weights == pytest.approx(box.support(g), rel=1e-10)
    assert (
        500.0 <= best.size <= 2000.0
    )  # the norm of a row is at least half the norm of a matrix of side four


@pytest.mark.parametrize("off", [0.9e-12, 1.1e-12])
def test_a_trace_may_be_off_by_rounding_in_the_interior(off: float) -> None:
    box = sf.SpectralBox(4, 0.0, 8.0, 16.0)  # its scale: four eigenvalues of at most eight
    x = 4.0 * np.eye(4)
    x[0, 0] += 32.0 * off
    assert box.contains_interior(x) == (off < 1e-12)


def test_points_far_from_a_set_are_not_taken_for_members_nearby() -> None:
    block = sf.PSD(2)
    assert block.snapped_distance(np.zeros((2, 2)), 1e-6) == 0.0
    assert 1e-9 <= block.snapped_distance(np.diag([1.0, -1e-9]), 1e-6) < 1e-8
    assert block.snapped_distance(np.diag([1.0, -1e-3]), 1e-6) == math.inf


@pytest.mark.parametrize("above", [0.5e-14, 2e-14])
def test_a_trace_beyond_the_box_by_more_than_rounding_is_refused(above: float) -> None:
    if above < 1e-14:
        assert sf.SpectralBox(2, trace=2.0 * (1.0 + above)).trace == 2.0
    else:
        with pytest.raises(sf.ProblemError, match="the set is empty"):
            sf.SpectralBox(2, trace=2.0 * (1.0 + above))


def test_graded_matrices_are_proved_inside_unless_asked_otherwise() -> None:
    graded = np.diag([1e20, 1e-5])
    assert sf.PSD(2).proves_inside(graded)
    assert not sf.PSD(2).proves_inside(graded, graded=False)
