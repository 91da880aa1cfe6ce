"""Families in general: bounds that are proofs, level sets, planted problems, and drop-in families."""

import math
import pickle
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

import sdpfeas as sf
from sdpfeas.backends.ipm.spectral_ipm import SpectralIpm
from sdpfeas.claims import Claim, Verdict
from sdpfeas.drivers.bisection import bisect, one_shot
from sdpfeas.errors import CardError, OptionError, ProblemError
from sdpfeas.families import LevelSet, MaxCut, ParametricFamily, Planted, Theta, find_family
from sdpfeas.families.parametric_family import moved_rows
from sdpfeas.families.planted import BOUNDS, MATRIX_STORAGE, PlantedOptions
from sdpfeas.families.threshold_bounds import certificate_root
from sdpfeas.problem.rows import NoRows, Sparse
from sdpfeas.verifier.outcome import Proof

ROOT = Path(__file__).parents[2]
GOLDEN = (1 + 5**0.5) / 2


def diagonal_family(**changes):
    """``x_1 >= delta``, ``x_2 + delta·x_1 <= 4``, ``x_1 <= 3`` on two non-negative numbers: delta* = 2."""
    arguments = {
        "sets": [sf.Nonneg(2)],
        "rows": [np.array([[1.0, 0], [0, 1], [1, 0]])],
        "slopes": [np.array([[0.0, 0], [-1, 0], [0, 0]])],
        "lower": [0.0, -np.inf, -np.inf],
        "upper": [np.inf, 4.0, 3.0],
        "lower_slope": [1.0, 0.0, 0.0],
        "monotone": "both rows ask less at a smaller delta",
        "bracket": (0.0, math.inf),
    }
    return ParametricFamily(**{**arguments, **changes})


# ---------------------------------------------------------------- the general family


def test_problems_are_linear_in_delta():
    family = diagonal_family()
    point = (np.array([1.5, 2.0]),)
    np.testing.assert_allclose(family.at(0.0).apply(point), [1.5, 2.0, 1.5])
    np.testing.assert_allclose(family.at(2.0).apply(point), [1.5, 5.0, 1.5])
    assert family.at(2.0).lower[0] == 2.0


def test_bounds_of_a_small_family():
    family = diagonal_family()
    assert family.lower_bound((np.array([2.0, 0.0]),)) == pytest.approx(2.0, rel=1e-9)
    assert family.lower_bound((np.array([1.0, 3.0]),)) == pytest.approx(1.0, rel=1e-9)
    # delta·x_1 <= 4 and x_1 >= delta: weights delta and 1.
    assert 2.0 < family.upper_bound([2.0, -1.0, 0.0]) < 2.0 + 1e-6
    assert family.upper_bound([0.0, 0.0, -1.0]) == math.inf
    assert family.upper_bound([1.0, 1.0, 1.0]) == math.inf


class Skewed(ParametricFamily):
    """Twice the corner of a 2×2 matrix of trace at most 2: the threshold is 2. Its hooks are not to trust."""

    def __init__(self, block, **handed):
        rows = np.array([[[0.0, 1.0], [1.0, 0.0]], np.eye(2)])
        super().__init__(
            [block],
            [rows],
            [None],
            [0.0, -np.inf],
            [np.inf, 2.0],
            lower_slope=[1.0, 0.0],
            monotone="by design",
        )
        self.handed = handed

    def project_point(self, point):
        return (
            (self.handed["project_point"],)
            if "project_point" in self.handed
            else super().project_point(point)
        )

    def point_at(self, point, delta):
        return (self.handed["point_at"],) if "point_at" in self.handed else point


@pytest.mark.parametrize("power", [-1073, -600, 0, 600, 1023])
@pytest.mark.parametrize("delta", [1.5, 1.5 * 2.0**-600, 5e-324, 1.5 * 2.0**600])
def test_rows_at_delta_are_the_rows_that_are_meant(power, delta):
    """A slope that is a power of two may take delta out of the range of floating point."""
    slope = sp.csr_array([[2.0**power, 0.0], [0.0, 2.0**power]])
    for fixed in (None, sp.csr_array([[0.0, 3.0], [0.0, 0.0]])):
        family = ParametricFamily(
            [sf.Nonneg(2)], [fixed], [slope], np.zeros(2), np.full(2, np.inf), monotone="by design"
        )
        try:
            rows = family.at(delta).rows[0]
        except ProblemError:
            assert Fraction(2) ** power * Fraction(delta) > Fraction(1e307)  # no number is that large
            continue
        for i in range(2):
            assert rows.exact_row(i)[i] == -Fraction(delta) * Fraction(2) ** power
    below = ParametricFamily(
        [sf.Nonneg(1)], [None], [sp.csr_array([[2.0**-600]])], [0.0], [np.inf], monotone="by design"
    ).at(1.5 * 2.0**-600)
    # -1.5·2^-1200·x >= 0 does not hold at x = 1.
    check = sf.verify(below, Claim(point=(np.ones(1),)), rigorous=True, repair=False)
    assert check.verdict is Verdict.UNDECIDED


def test_bounds_that_move_beyond_the_largest_number():
    family = ParametricFamily(
        [sf.Nonneg(1)], [[[1.0]]], [None], [0.0], [np.inf], lower_slope=[1e300], monotone="by design"
    )
    largest = float(np.finfo(float).max)
    assert family.rounded_at(1e300, -1).lower[0] == family.at(1e300).lower[0] == largest
    assert family.rounded_at(-1e300, 1).lower[0] == -largest
    with pytest.raises(ProblemError):
        family.rounded_at(1e300, 1)
    assert family.lower_bound((np.array([1e305]),)) <= 1e5


@pytest.mark.parametrize("hook", ["project_point", "point_at"])
@pytest.mark.parametrize("block", [sf.PSD(2), sf.SpectralBox(2, 0.0, 3.0)], ids=["psd", "box"])
def test_bounds_do_not_trust_the_hooks_of_a_family(block, hook):
    good = np.array([[1.0, 0.9], [0.9, 1.0]])
    for upper, lower in ((100.0, 0.0), (0.0, 100.0), (1.9, 0.0), (1e300, 0.0)):
        skewed = np.array([[1.0, upper], [lower, 1.0]])
        assert Skewed(block, **{hook: skewed}).lower_bound((good,)) <= 2.0
    # The symmetric part of what comes back is a point like any other, and is what the bound shows.
    family = Skewed(block, **{hook: np.array([[0.9, 1.6], [0.0, 0.9]])})
    bound = family.prove_lower((np.array([[0.9, 0.8], [0.8, 0.9]]),))
    assert 1.5 < bound.delta <= 1.6
    assert np.array_equal(bound.evidence[0], bound.evidence[0].T)


def test_a_matrix_with_overflowing_pivots_bounds_nothing():
    corner = np.array([[1e-302, 1e-302 * (1 - 1e-10), 0, 1e3], [1e-302 * (1 - 1e-10), 1e-302, 0, 0],
                       [0, 0, 1e-302, 0], [1e3, 0, 0, 1e-302]])  # fmt: skip
    rows = np.zeros((2, 4, 4))
    rows[0, 0, 3] = rows[0, 3, 0] = 1.0
    rows[1] = np.eye(4)
    family = ParametricFamily(
        [sf.PSD(4)],
        [rows],
        [None],
        [0.0, -np.inf],
        [np.inf, 2.0],
        lower_slope=[1.0, 0.0],
        monotone="by design",
    )
    family.project_point = lambda point: point
    assert family.lower_bound((corner,)) <= 2.0


def test_thresholds_that_are_zero_or_negative():
    # x >= delta and x <= -5.
    family = ParametricFamily(
        [sf.Free(1)], [np.array([[1.0], [1.0]])], [None], [0.0, -np.inf], [np.inf, -5.0],
        lower_slope=[1.0, 0.0], monotone="less is asked",
    )  # fmt: skip
    assert family.lower_bound((np.array([-5.0]),)) == pytest.approx(-5.0, rel=1e-9)
    assert family.upper_bound([1.0, -1.0]) == pytest.approx(-5.0, rel=1e-9)
    assert family.upper_bound([1.0, -1.0]) > -5.0


def test_rounding_of_moving_bounds_is_on_the_safe_side():
    family = diagonal_family(lower_slope=[0.1, 0.0, 0.0])
    delta = 0.3  # 0.1·0.3 is no floating-point number
    inner, outer = family.rounded_at(delta, 1).lower[0], family.rounded_at(delta, -1).lower[0]
    assert outer < inner
    assert outer <= family.at(delta).lower[0] <= inner


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"lower": [4.0, 4.0, 3.0], "upper": [4.0, 4.0, 3.0]},
            "equality constraint must not depend on delta",
        ),
        ({"rows": [np.ones((3, 5))]}, "shape"),
    ],
)
def test_malformed_families_are_refused(change, message):
    with pytest.raises(ProblemError, match=message):
        diagonal_family(**change)


@pytest.mark.parametrize("delta", [math.nan, math.inf])
def test_delta_must_be_finite(delta):
    with pytest.raises(ProblemError, match="finite"):
        diagonal_family().at(delta)


def test_families_are_pickled():
    family = pickle.loads(pickle.dumps(diagonal_family()))
    assert family.at(1.5) == diagonal_family().at(1.5)


@given(st.integers(0, 2**32 - 1))
def test_roots_are_where_certificates_begin(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    box = sf.SpectralBox(n, trace=int(rng.integers(1, n + 1)))
    a = rng.standard_normal((n, n))
    b = rng.standard_normal((n, n))
    fixed, slope = a @ a.T, b @ b.T + 0.1 * np.eye(n)
    root = certificate_root([box], (fixed,), (slope,), 0.0, 0.0, 0.0).delta
    assert box.support(fixed - root * slope) == pytest.approx(0.0, abs=1e-9 * np.trace(fixed))
    assert box.support(fixed - 0.99 * root * slope) > 0.0
    assert box.support(fixed - 1.01 * root * slope) < 0.0
    # From inside, and from far left, the same.
    for start in (3.0 * root, -10.0):
        again = certificate_root([box], (fixed,), (slope,), 0.0, 0.0, start).delta
        assert again == pytest.approx(root, rel=1e-9)


def test_roots_far_to_the_left_are_walked_to():
    box = sf.SpectralBox(2, trace=1)
    root = certificate_root([box], (-1000.0 * np.eye(2),), (np.eye(2),), 0.0, 0.0, 1.0).delta
    assert root == pytest.approx(-1000.0)


def test_no_root_where_multipliers_prove_nothing():
    box = sf.SpectralBox(2, trace=1)
    assert certificate_root([box], (np.eye(2),), (np.zeros((2, 2)),), 0.0, 0.0, 0.0).delta == math.inf
    assert certificate_root([box], (np.eye(2),), (-np.eye(2),), 0.0, 0.0, 0.0).delta == math.inf


# ---------------------------------------------------------------- level sets


@pytest.mark.parametrize(
    ("family", "value"),
    [
        (Theta.make(graph="cycle", n=5), 5**0.5),
        (Theta.make(graph="petersen"), 4.0),
        (MaxCut.make(graph="cycle", n=5), 5 / 2 * (1 + math.cos(math.pi / 5))),  # n/4·lam_max(L)
        (MaxCut.make(graph="petersen"), 12.5),
    ],
    ids=["theta-c5", "theta-petersen", "max-cut-c5", "max-cut-petersen"],
)
def test_graph_values(family, value):
    found = bisect(family, SpectralIpm, tol=1e-2, time_limit=30)
    assert found.proven
    assert found.converged
    assert found.lower <= value <= found.upper
    single = one_shot(family, SpectralIpm, tol=1e-4, time_limit=30)
    assert single.lower <= value <= single.upper
    assert single.upper - single.lower <= 1e-2 * value


@examples(0.3)
@given(st.integers(0, 2**32 - 1), st.integers(3, 8), st.floats(0.0, 1.0))
def test_graph_bounds_never_cross(seed, n, p):
    rng = np.random.default_rng(seed)
    for family in (
        Theta.make(graph="random", n=n, p=p, seed=seed),
        MaxCut.make(graph="random", n=n, p=p, seed=seed),
    ):
        points = family.initial_points()
        a = rng.standard_normal((n, n))
        x = a @ a.T
        points += [(x / np.trace(x),), (x / np.sqrt(np.outer(np.diag(x), np.diag(x))),)]
        multipliers = [*family.initial_multipliers(), np.append(1.0, rng.standard_normal(family.m - 1))]
        multipliers.append(np.append(1.0, -np.abs(rng.standard_normal(family.m - 1)) * n))
        lower = max(family.lower_bound(point) for point in points)
        upper = min(family.upper_bound(y) for y in multipliers)
        assert lower <= upper


@pytest.mark.parametrize("parameters", [{"n": 2}, {"graph": "tree"}, {"p": 2.0}, {"vertices": 5}])
def test_bad_graph_parameters_are_refused(parameters):
    with pytest.raises(OptionError):
        Theta.make(**parameters)


def test_bad_adjacency_is_refused():
    for matrix in (np.ones((2, 3)), [[0, 1], [2, 0]], [[0, np.nan], [np.nan, 0]]):
        with pytest.raises(ProblemError):
            MaxCut(matrix)


def test_level_set_of_a_linear_program():
    # max x + y subject to x + 2y <= 4, 3x + y <= 6.
    rows = [[[1.0, 2.0], [3.0, 1.0]]]
    family = LevelSet([sf.Nonneg(2)], [[[1.0, 1.0]]], rows, [-np.inf] * 2, [4.0, 6.0], bracket=(0.0, 100.0))
    assert family.lower_bound((np.array([1.6, 1.2]),)) == pytest.approx(2.8, rel=1e-9)
    assert family.upper_bound([1.0, -0.4, -0.2]) == pytest.approx(2.8, rel=1e-6)


# ---------------------------------------------------------------- planted problems


@given(
    st.sampled_from(["psd", "box", "mixed"]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
    st.integers(2, 7),
    st.integers(2, 10),
    st.sampled_from(BOUNDS),
    st.sampled_from(MATRIX_STORAGE),
)
def test_planted_evidence_holds(sets, feasible, seed, n, rows, bounds, storage):
    parameters = {"sets": sets, "feasible": feasible, "seed": seed, "n": n, "rows": rows}
    parameters |= {"bounds": bounds, "storage": storage}
    item = Planted.plant(PlantedOptions(**parameters))
    assert item.problem == Planted.make(**parameters)
    assert item.problem.m == rows
    check = sf.verify(item.problem, item.claim)
    assert check.verdict is (Verdict.FEASIBLE if feasible else Verdict.INFEASIBLE)


@pytest.mark.parametrize("parameters", [{"n": 1}, {"bounds": "none"}, {"margin": 0.0}, {"sets": "cone"}])
def test_bad_planted_parameters_are_refused(parameters):
    with pytest.raises(OptionError):
        Planted.make(**parameters)


# ---------------------------------------------------------------- drop-in families, as a stranger's


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A folder far from the repository that holds copies of the drop-in families."""
    for name in ("lyapunov.py", "correlation.py"):
        shutil.copy(ROOT / "problems" / name, tmp_path / f"my_{name}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def certified(family, tol=1e-3):
    found = bisect(family, SpectralIpm, tol=tol, time_limit=60)
    assert found.proven
    assert found.converged
    for delta, claim, verdict in (
        (found.lower, Claim(point=found.point), Verdict.FEASIBLE),
        (found.upper, Claim(certificate=found.certificate), Verdict.INFEASIBLE),
    ):
        check = sf.verify(family.at(delta), claim, rigorous=True)
        assert check.verdict is verdict
        assert check.proof in (Proof.RIGOROUS, Proof.EXACT)
    return found


def test_decay_rate_of_one_system_is_its_spectral_abscissa(stranger):
    kind = find_family(str(stranger / "my_lyapunov.py"))
    matrix = [[-1.0, 3.0], [0.0, -2.0]]
    found = certified(kind.make(matrices=[matrix], condition=1e6))
    assert found.lower <= 1.0 <= found.upper * (1 + 1e-9)


def test_joint_spectral_radius_of_a_shear_and_its_transpose(stranger):
    kind = find_family("./my_lyapunov.py")
    family = kind.make(time="discrete", matrices=[[[1.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [1.0, 1.0]]])
    found = certified(family)
    # The golden ratio, attained by the product of the two.
    assert 1 / math.sqrt(found.upper) <= GOLDEN <= 1 / math.sqrt(found.lower)


def test_switched_systems_decay_no_faster_than_each(stranger):
    kind = find_family("./my_lyapunov.py")
    rng = np.random.default_rng(3)
    matrices = rng.standard_normal((2, 3, 3)) - 3.0 * np.eye(3)
    both = certified(kind(matrices), tol=1e-2)
    slowest = min(-np.max(np.linalg.eigvals(a).real) for a in matrices)
    assert both.lower <= slowest


def test_known_correlation_matrix_has_its_smallest_eigenvalue(stranger):
    kind = find_family("./my_correlation.py")
    matrix = np.array([[1, 0.5, -0.3], [0.5, 1, 0.4], [-0.3, 0.4, 1]])
    found = certified(kind(matrix))
    smallest = np.linalg.eigvalsh(matrix)[0]
    assert found.lower <= smallest <= found.upper


def test_completion_is_as_good_as_the_best_of_a_grid(stranger):
    kind = find_family("./my_correlation.py")
    matrix = np.array([[1, 0.8, np.nan], [0.8, 1, 0.3], [np.nan, 0.3, 1]])
    family = kind(matrix)
    found = certified(family)
    best = max(
        np.linalg.eigvalsh([[1, 0.8, x], [0.8, 1, 0.3], [x, 0.3, 1]])[0] for x in np.linspace(-1, 1, 2001)
    )
    assert found.lower <= best + 1e-6
    assert found.upper >= best
    completed = family.completion(found.point)
    assert np.linalg.eigvalsh(completed)[0] == pytest.approx(best, rel=1e-2)


def test_impossible_correlations_have_a_negative_threshold(stranger):
    matrix = np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]])
    found = certified(find_family("./my_correlation.py")(matrix))
    assert found.upper < 0.0


def test_drop_in_families_travel_to_other_processes(stranger):
    family = find_family("./my_correlation.py").make(n=4, seed=1)
    Path("family.pickle").write_bytes(pickle.dumps(family))
    code = "import pickle; print(pickle.load(open('family.pickle', 'rb')).at(0.1).content_hash)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == family.at(0.1).content_hash


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "exactly one family"),
        ("import nonsense_module", "could not be loaded"),
        (
            "from sdpfeas.families import Planted as P\nclass A(P): name = 'a'\nclass B(P): name = 'b'",
            "exactly one family",
        ),
    ],
)
def test_files_that_hold_no_family_are_refused(tmp_path, text, message):
    path = tmp_path / "broken.py"
    path.write_text(text)
    with pytest.raises(CardError, match=message):
        find_family(str(path))


def test_unknown_families_are_refused_with_a_hint():
    with pytest.raises(CardError, match="did you mean 'wlda'"):
        find_family("wldaa")
    with pytest.raises(CardError, match="no such file"):
        find_family("nowhere/family.py")


@pytest.mark.parametrize("exponent", [0, -1, -5, 3, -1000, 1000])
@pytest.mark.parametrize("delta", [5e-324, 1.5e-323, 1e-310, 3 * 2.0**-1022, 1.0, 1e300, 1.7e308])
def test_rows_that_move_are_not_rounded(exponent: int, delta: float) -> None:
    """Half of the smallest number is none, though the smallest number is."""
    rows = moved_rows(NoRows(1, 1, False), Sparse(sp.csr_array([[2.0**exponent]]), 1, False), delta)
    if rows is not None:
        assert rows.exact_row(0)[0] == -Fraction(delta) * Fraction(2) ** exponent


def test_rows_that_overlap_or_are_rounded_are_not_added() -> None:
    one, three = (Sparse(sp.csr_array([[value, 0.0]]), 2, False) for value in (1.0, 3.0))
    other = Sparse(sp.csr_array([[0.0, 5.0]]), 2, False)
    assert moved_rows(three, one, 2.0) is None
    assert moved_rows(other, three, 2.0) is None
    found = moved_rows(other, one, 2.0)
    assert found is not None
    assert found.to_csr().toarray().tolist() == [[-2.0, 5.0]]
