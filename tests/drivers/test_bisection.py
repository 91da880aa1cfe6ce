"""The driver: brackets that are proved, searches that end, honest words where nothing is."""

import math
import time

import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.backends.base import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.dual.dual_lbfgs import DualLbfgs
from sdpfeas.backends.ipm.spectral_ipm import SpectralIpm
from sdpfeas.claims import Claim, Stop, Verdict
from sdpfeas.datasets import prepared
from sdpfeas.drivers.bisection import bisect, one_shot
from sdpfeas.drivers.bracket import Bracket
from sdpfeas.errors import BackendError, OptionError, ProblemError
from sdpfeas.families import WLDA, LevelSet, MonotoneFamily, ParametricFamily, Theta
from sdpfeas.problem.reductions.margin_form import MarginForm
from sdpfeas.verifier.outcome import Proof

pytest.importorskip("sklearn")


class Silent(FeasibilityBackend):
    """Never finds anything."""

    name = "silent"
    sets = ALL_SETS
    asked = 0

    def solve(self, problem, inquiry):
        type(self).asked += 1
        return Claim(stop=Stop.STALLED)


class Liar(Silent):
    """Claims everything, with nothing to show."""

    name = "liar"

    def solve(self, problem, inquiry):
        point = tuple(block.interior_point() * 0.0 for block in problem.sets)
        return Claim(point=point, certificate=np.zeros(problem.m), raw_status="point found")


class Mad(Silent):
    """Hands in what is not even a claim about this problem."""

    name = "mad"
    calls_back = True

    def solve(self, problem, inquiry):
        junk = (np.full((2, 2), np.nan),), np.full(problem.m, np.inf)
        for k, (point, y) in enumerate([junk, ((np.eye(9),), np.ones(3)), (None, None)]):
            inquiry.report(k, point, y)
            inquiry.offer(point, y)
        if problem.m % 2:
            raise RuntimeError("mad")
        return Claim(point=(np.eye(9),), certificate=np.ones(problem.m + 1))


class Echo(SpectralIpm):
    """Answers well, and writes down where it was asked."""

    name = "echo"
    deltas: list = []
    starts: list = []

    def solve(self, problem, inquiry):
        self.deltas.append(-problem.rows[1].apply(np.ones(1))[0])
        self.starts.append(inquiry.start)
        return super().solve(problem, inquiry)


@pytest.fixture(scope="module")
def wine():
    return WLDA.from_data(*prepared("wine", standardize=True))


def line(threshold=2.0, lower=-math.inf):
    """``x >= delta`` and ``x <= threshold`` on one free number."""
    return LevelSet([sf.Free(1)], [[[1.0]]], [[[1.0]]], [-np.inf], [threshold], bracket=(lower, math.inf))


def assert_proven(family, found, solver_claims=True):
    assert found.proven
    assert found.lower <= found.upper
    point = sf.verify(family.at(found.lower), Claim(point=found.point), rigorous=True)
    assert point.verdict is Verdict.FEASIBLE
    certificate = sf.verify(family.at(found.upper), Claim(certificate=found.certificate), rigorous=True)
    assert certificate.verdict is Verdict.INFEASIBLE


# ---------------------------------------------------------------- certified


@pytest.mark.parametrize("solver", [SpectralIpm, DualLbfgs])
@pytest.mark.parametrize("formulation", ["compact", "paper"])
def test_certified_bracket(solver, formulation):
    family = WLDA.from_data(*prepared("wine", standardize=True), formulation=formulation)
    found = bisect(family, solver, tol=1e-3)
    assert_proven(family, found)
    assert found.converged
    assert found.gap <= 1e-3
    assert found.lower <= 16.4709647 * (1 + 1e-8)
    assert found.upper >= 16.4709647 * (1 - 1e-8)
    for step in found.history:
        assert step.proof is None or step.proof in set(Proof)
        assert step.lower <= step.upper
        assert step.time > 0.0


@pytest.mark.parametrize("solver", [SpectralIpm, DualLbfgs])
@pytest.mark.parametrize("ends", [{}, {"lower": 0.0, "upper": 100.0}], ids=["found", "given"])
@pytest.mark.parametrize(
    ("name", "standardize"),
    [
        ("wine", True),
        pytest.param("wine", False, marks=pytest.mark.slow),
        pytest.param("breast_cancer", True, marks=pytest.mark.slow),
    ],
)
def test_certified_needs_at_most_half_the_solves_of_the_paper(name, standardize, ends, solver):
    family = WLDA.from_data(*prepared(name, standardize=standardize))
    certified = bisect(family, solver, tol=1e-3, **ends)
    published = bisect(family, solver, tol=1e-3, mode="paper", **ends)
    assert certified.initial == published.initial
    if ends:
        assert certified.initial == (0.0, 100.0)
    assert certified.converged
    assert published.converged
    assert 2 * certified.solves <= published.solves


def test_bracket_never_widens_and_holds_at_every_step(wine):
    found = bisect(wine, SpectralIpm, tol=1e-6, time_limit=60)
    lower, upper = found.initial
    for step in found.history:
        assert lower <= step.lower <= 16.4709648
        assert upper >= step.upper >= 16.4709646
        lower, upper = step.lower, step.upper


def test_the_largest_margin_tells_about_both_sides():
    """A solve that goes on to the largest margin leaves few to come; one that stops when decided left ten."""
    family = WLDA.from_data(*prepared("digits", pca=20))
    found = bisect(family, SpectralIpm, tol=1e-6)
    assert found.converged
    assert found.proven
    assert found.solves <= 4


def test_a_start_spares_the_largest_margin_steps(monkeypatch):
    family = WLDA.from_data(*prepared("digits", pca=20))
    warm = bisect(family, SpectralIpm, tol=1e-3)
    monkeypatch.setattr(MarginForm, "start", lambda form, point, y: None)
    cold = bisect(family, SpectralIpm, tol=1e-3)
    assert warm.converged
    assert warm.proven
    assert warm.lower <= cold.upper
    assert warm.upper >= cold.lower
    steps = [sum(step.iterations for step in found.history) for found in (warm, cold)]
    assert steps[0] <= 0.75 * steps[1]


def test_solves_are_warm_started():
    Echo.deltas, Echo.starts = [], []
    family = WLDA.from_data(*prepared("digits", classes=4, pca=8), n_components=3)
    found = bisect(family, Echo, tol=1e-6)
    assert found.solves == len(Echo.deltas) >= 2
    # The first one from what proves the first bounds.
    first = Echo.starts[0]
    assert first.point is not None
    assert first.certificate is not None
    bracket = Bracket(family, 1e-6, 0.0)
    bracket.offer_point(first.point)
    bracket.offer_multipliers(first.certificate)
    assert (bracket.lower, bracket.upper) == pytest.approx(found.initial, rel=1e-6)
    assert all(start.point is not None or start.certificate is not None for start in Echo.starts[1:])
    assert [step.delta for step in found.history] == pytest.approx(Echo.deltas)


def test_a_solve_is_stopped_once_it_is_decided():
    class Endless(Silent):
        """Offers the same good point for ever."""

        name = "endless"
        calls_back = True
        calls = 0

        def solve(self, problem, inquiry):
            for k in range(10**6):
                Endless.calls += 1
                if inquiry.report(k, (np.array([2.0]),), np.array([1.0, -1.0])):
                    return Claim(stop=Stop.CALLBACK)
            raise AssertionError("never stopped")

    found = bisect(line(), Endless)
    assert found.converged
    assert Endless.calls == found.solves <= 2


def test_initial_bracket_is_found_by_expansion():
    class Oracle(Silent):
        """Knows the threshold, and tells no more than it is asked."""

        name = "oracle"

        def solve(self, problem, inquiry):
            if problem.lower[0] <= problem.upper[1]:
                return Claim(point=(np.array([problem.lower[0]]),))
            return Claim(certificate=np.array([1.0, -1.0]))

    for threshold in (2.0, -700.0, 1e-3, 12345.0):
        found = bisect(line(threshold), Oracle)
        assert found.proven
        assert found.converged
        assert found.lower <= threshold <= found.upper


def test_thresholds_at_zero_end_by_the_absolute_tolerance():
    class Halving(Silent):
        name = "halving"

        def solve(self, problem, inquiry):
            if problem.lower[0] <= 0.0:
                return Claim(point=(np.array([problem.lower[0]]),))
            return Claim(certificate=np.array([1.0, -1.0]))

    found = bisect(line(0.0), Halving, tol=1e-6, absolute_tol=1e-6)
    assert found.converged
    assert found.lower <= 0.0 <= found.upper


# ---------------------------------------------------------------- a family of one method


class DecayRate(MonotoneFamily):
    """``A'P + PA + 2·delta·P <= -I`` with ``P >= 0``: nonlinear in ``(delta, P)``, feasible below 1."""

    def at(self, delta):
        shifted = np.array([[-1.0, 3.0], [0.0, -2.0]]) + delta * np.eye(2)
        builder = sf.ProblemBuilder()
        builder.block("P", sf.PSD(2))
        builder.lmi("decay", -np.eye(2), {"P": lambda P: -(shifted.T @ P + P @ shifted)})
        return builder.build()


class Growing(MonotoneFamily):
    """``x >= delta^3`` and ``sum x <= 2`` for ``1 + floor(delta)`` numbers: problems of several shapes."""

    bracket = (0.0, math.inf)

    def at(self, delta):
        n = 1 + int(delta)
        rows = np.vstack([np.eye(n), -np.ones(n)])
        return sf.FeasibilityProblem([sf.Free(n)], [rows], [*[delta**3] * n, -2.0], np.full(n + 1, np.inf))


@pytest.mark.parametrize("given", [{}, {"lower": -1.0, "upper": 3.0}], ids=["found", "given"])
def test_a_family_of_one_method_is_bracketed(given):
    found = sf.bisect(DecayRate(), tol=1e-2, **given)
    assert found.converged
    assert found.lower <= 1.0 <= found.upper
    assert_proven(DecayRate(), found)
    for step in found.history:
        assert step.verdict is (Verdict.FEASIBLE if step.delta < 1.0 else Verdict.INFEASIBLE)
        assert step.proof in (Proof.RIGOROUS, Proof.EXACT)


def test_problems_of_one_family_may_differ_in_shape():
    found = sf.bisect(Growing(), tol=1e-2)
    assert found.converged
    assert found.lower <= 1.0 <= found.upper
    assert len({len(Growing().at(step.delta).lower) for step in found.history}) > 1


@pytest.mark.parametrize("backend", [Silent, Liar, Mad])
def test_a_family_of_one_method_moves_on_proofs_only(backend):
    found = bisect(DecayRate(), backend, lower=-1.0, upper=3.0)
    assert (found.lower, found.upper) == (-1.0, 3.0)
    assert not found.proven
    assert not found.converged


# ---------------------------------------------------------------- what goes wrong


def test_a_silent_backend_ends_the_search_with_the_bracket_there_is(wine):
    Silent.asked = 0
    found = bisect(wine, Silent)
    assert not found.converged
    assert found.proven
    assert (found.lower, found.upper) == found.initial
    assert "undecided" in found.reason
    assert Silent.asked == found.solves == 5
    assert len({step.delta for step in found.history}) == 5
    assert all(step.verdict is Verdict.UNDECIDED for step in found.history)


def test_mad_claims_move_nothing(wine):
    found = bisect(wine, Mad)
    assert (found.lower, found.upper) == found.initial
    assert not found.converged


@pytest.mark.parametrize("refine", [True, False])
def test_wrong_claims_never_make_a_wrong_bracket(wine, refine):
    found = bisect(wine, Liar, refine=refine)
    assert found.proven
    assert found.lower <= 16.4709647 <= found.upper
    assert found.converged is False or refine


def test_a_liar_without_any_bracket_ends_too():
    found = bisect(line(), Liar)
    assert not found.converged
    assert found.upper == math.inf
    assert found.lower <= 2.0


def test_time_limit(wine):
    class Sleeper(Silent):
        name = "sleeper"

        def solve(self, problem, inquiry):
            time.sleep(min(inquiry.deadline.limit, 0.2))
            return Claim(stop=Stop.TIME_LIMIT)

    begin = time.perf_counter()
    found = bisect(wine, Sleeper, time_limit=0.3)
    assert time.perf_counter() - begin < 5.0
    assert found.reason == "time limit"
    assert not found.converged


def test_callback_sees_every_step_and_may_end_the_search(wine):
    seen = []
    found = bisect(wine, Silent, callback=lambda step: seen.append(step) or len(seen) == 2)
    assert tuple(seen) == found.history
    assert found.solves == 2
    assert found.reason == "stopped by the callback"


def test_given_ends_are_not_called_proven(wine):
    found = bisect(wine, Silent, lower=16.0, upper=17.0)
    assert (found.lower, found.upper) == (16.0, 17.0)
    assert not found.proven
    assert "as given" in found.reason
    solved = bisect(wine, SpectralIpm, lower=1.0, upper=40.0)
    assert solved.initial == (1.0, 40.0)
    assert solved.proven


def test_given_ends_that_are_wrong_are_found_out(wine):
    found = bisect(wine, SpectralIpm, lower=20.0, upper=30.0)
    assert not found.proven
    assert "contradict" in found.reason


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"tol": -1.0}, OptionError, "tol"),
        ({"tol": "x"}, OptionError, "tol"),
        ({"tol": 0.0, "absolute_tol": 0.0}, OptionError, "both"),
        ({"mode": "fast"}, OptionError, "mode"),
        ({"lower": 3.0, "upper": 2.0}, OptionError, "exceeds"),
        ({"lower": math.nan}, OptionError, "lower"),
        ({"time_limit": 0}, OptionError, "time_limit"),
        ({"options": {"nonsense": 1}}, OptionError, "nonsense"),
        ({"solver": "no-such-solver"}, BackendError, "no-such-solver"),
    ],
)
def test_bad_arguments(wine, arguments, error, message):
    with pytest.raises(error, match=message):
        bisect(wine, **{"solver": Silent, **arguments})


def test_only_families_are_searched(wine):
    with pytest.raises(ProblemError, match="ParametricFamily"):
        bisect(wine.at(1.0), Silent)


# ---------------------------------------------------------------- degenerate data


def wide_data(classes=4, samples=3, features=30, seed=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((classes * samples, features))
    return X, np.repeat(np.arange(classes), samples)


@pytest.mark.parametrize("r", [1, 3])
@pytest.mark.parametrize("search", [bisect, one_shot])
def test_infinite_ratio_is_not_searched_for(r, search):
    family = WLDA.from_data(*wide_data(), r)
    found = search(family, SpectralIpm)
    assert (found.lower, found.upper, found.gap) == (math.inf, math.inf, 0.0)
    assert found.converged
    assert "unbounded" in found.reason
    assert family.ratio(found.point) == math.inf


def test_equal_means():
    X, y = prepared("iris")
    X[y == 2] += X[y == 1].mean(axis=0) - X[y == 2].mean(axis=0)
    found = bisect(WLDA.from_data(X, y), SpectralIpm)
    assert (found.lower, found.upper) == (0.0, 0.0)
    assert "same mean" in found.reason
    assert np.trace(found.point[0]) == pytest.approx(2.0)


# ---------------------------------------------------------------- one shot


def test_one_shot_agrees(wine):
    found = one_shot(wine, SpectralIpm, tol=1e-6)
    assert_proven(wine, found)
    assert found.converged
    assert found.lower <= 16.4709648
    assert found.upper >= 16.4709647
    assert found.solves == 1
    assert 0.5 * (found.lower + found.upper) == pytest.approx(16.4709647, rel=1e-6)


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_one_shot_matches_known_values(name):
    found = one_shot(WLDA.from_data(*prepared(name), formulation="paper"), SpectralIpm, tol=1e-5)
    value = {"iris": 9.6254203, "wine": 16.1560431}[name]
    assert found.lower <= value * (1 + 1e-8)
    assert found.upper >= value * (1 - 1e-8)
    assert found.gap <= 1e-5


def test_one_shot_needs_an_objective(wine):
    with pytest.raises(BackendError, match="no objective"):
        one_shot(wine, Silent)
    family = ParametricFamily(
        [sf.Free(1)], [[[1.0]]], [None], [0.0], [1.0], lower_slope=[1.0], monotone="less is asked"
    )
    with pytest.raises(ProblemError, match="no single program"):
        one_shot(family, SpectralIpm)


def test_auto_takes_one_program_and_a_name_means_bisection(wine, monkeypatch):
    programs, deltas = [], []
    maximise, at = SpectralIpm.maximise, WLDA.at
    monkeypatch.setattr(
        SpectralIpm, "maximise", lambda self, *asked: programs.append(1) or maximise(self, *asked)
    )
    monkeypatch.setattr(WLDA, "at", lambda self, delta: deltas.append(delta) or at(self, delta))
    found = bisect(wine, "auto", tol=1e-6)
    assert_proven(wine, found)
    assert found.converged
    assert (found.solves, len(programs)) == (1, 1)
    alone = one_shot(wine, SpectralIpm, tol=1e-6)
    assert (found.lower, found.upper) == (alone.lower, alone.upper)
    programs.clear()
    for solver, options in (("spectral-ipm", {}), ("auto", {"order": "spectral-ipm"})):
        assert bisect(wine, solver, options=options).converged
    assert not programs


def test_auto_goes_on_where_one_program_leaves_the_bracket_open(wine, monkeypatch):
    monkeypatch.setattr(SpectralIpm, "maximise", lambda self, program, inquiry: Claim(stop=Stop.STALLED))
    steps = []
    found = bisect(wine, "auto", callback=lambda step: steps.append(step))
    assert_proven(wine, found)
    assert found.converged
    assert found.solves == len(steps) >= 2
    assert bisect(wine, "auto", callback=lambda step: True).solves == 1


def test_auto_bisects_where_there_is_no_program():
    bounds = [0.0, -np.inf], [np.inf, 2.0]
    family = ParametricFamily(
        [sf.Nonneg(1)], [[[1.0], [1.0]]], [None], *bounds, lower_slope=[1.0, 0.0], monotone="less is asked"
    )
    found = bisect(family, "auto")
    assert found.converged
    assert found.lower <= 2.0 <= found.upper


def test_auto_begins_with_the_ends_that_are_given(wine):
    found = bisect(wine, "auto", lower=0.0, upper=100.0)
    assert found.initial == (0.0, 100.0)
    assert found.proven
    assert "contradict" in bisect(wine, "auto", lower=17.0, upper=18.0).reason


# ---------------------------------------------------------------- as published


def test_paper_mode_halves_on_claims(wine):
    found = bisect(wine, SpectralIpm, tol=1e-3, lower=10.0, upper=22.0, mode="paper")
    assert not found.proven
    assert "not on proofs" in found.reason
    low, high = 10.0, 22.0
    for step in found.history:
        assert step.delta == 0.5 * (low + high)
        assert step.proof is None
        low, high = (step.delta, high) if step.verdict is Verdict.FEASIBLE else (low, step.delta)
        assert (step.lower, step.upper) == (low, high)
    assert high - low <= 1e-3 * low
    assert found.solves == math.ceil(math.log2(12.0 / (1e-3 * 16.47)))


def test_paper_mode_believes_a_liar(wine):
    found = bisect(wine, Liar, lower=10.0, upper=22.0, mode="paper")
    assert found.converged
    assert found.lower > 21.9
    assert not found.proven


def test_paper_mode_ends_where_nothing_is_claimed(wine):
    found = bisect(wine, Silent, mode="paper")
    assert found.solves == 1
    assert not found.converged
    assert "claims nothing" in found.reason


def test_paper_mode_needs_a_bracket():
    with pytest.raises(OptionError, match="finite bracket"):
        bisect(line(), Liar, mode="paper")


def test_theta_of_a_cycle_from_nothing():
    found = bisect(Theta.make(graph="cycle", n=7), DualLbfgs, tol=1e-2, time_limit=60)
    exact = 7 * math.cos(math.pi / 7) / (1 + math.cos(math.pi / 7))
    assert found.lower <= exact <= found.upper


def test_one_shot_proves_only_what_may_close_the_bracket(monkeypatch):
    """Proofs cost as much as iterations; the backend's own gap says when one is worth trying."""
    asked = []
    offer = Bracket.offer_point
    monkeypatch.setattr(Bracket, "offer_point", lambda self, point: asked.append(1) or offer(self, point))
    family = WLDA.from_data(*prepared("wine", standardize=True), n_components=2)
    found = one_shot(family, "spectral-ipm", tol=1e-6)
    assert found.converged
    assert 1 <= len(asked) <= found.history[-1].iterations // 2


def test_a_bracket_is_about_the_numbers_as_stored() -> None:
    """Three times the double 0.1 is not the double 0.3: no point as stored, one on a face as written."""
    rows = sp.csr_array(np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.5, 0.5, 0.1], [0.0, 0.0, 0.0, 1.0]]))
    goal = sp.csr_array(np.array([[0.0, 0.0, 0.0, 1.0]]))
    family = LevelSet([sf.PSD(2)], [goal], [rows], [0.0, 0.3, 3.0], [0.0, 0.3, 3.0])
    assert sf.solve(family.at(0.0), "facial").verdict != "feasible"
    assert sf.solve(family.at(0.0), "facial", reading="written").verdict == "feasible"
    found = sf.bisect(family, "facial", lower=None, upper=4.0)
    assert found.lower == -math.inf
    assert found.point is None
    assert all(step.verdict != "feasible" for step in found.history)
