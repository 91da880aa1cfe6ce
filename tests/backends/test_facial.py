"""The search for chains: what it finds is proved, on planted problems and on the files of Liu and Pataki."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.backends.dispatch import dispatch
from sdpfeas.backends.facial.facial_backend import Facial
from sdpfeas.backends.facial.facial_search import search
from sdpfeas.backends.inquiry import Inquiry, WarmStart
from sdpfeas.deadline import Deadline
from sdpfeas.families.planted import PlantedChainOptions, PlantedFaces
from sdpfeas.io.result_files import load_result, save_result
from sdpfeas.numerics.linalg import random_orthogonal
from sdpfeas.problem.reductions.integer_rows import integral_rows
from sdpfeas.verifier.facial_reduction import replay


def found(problem):
    """What the first reading leads to."""
    return search(integral_rows(problem, "stored"), Deadline(60))


@pytest.mark.parametrize("disguised", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("truth", ["weak", "face", "strong"])
def test_planted_chains_are_found(truth, length, disguised):
    options = PlantedChainOptions(
        truth=truth, length=length, n=length + 4, rows=length + 4, disguised=disguised, seed=length
    )
    item = PlantedFaces.plant(options)
    got = found(item.problem)
    assert got.contradiction == (truth != "face")
    check = sf.verify(item.problem, sf.Claim(chain=got.chain, point=item.point), rigorous=True)
    assert check.verdict is item.truth


def liu_pataki(path):
    """A file of the set, times three: right-hand sides are thirds, but some were computed and miss them."""
    data = scipy.io.loadmat(path)
    a, b = 3 * data["A"], np.rint(3 * np.asarray(data["b"], dtype=float).ravel())
    a = np.asarray(a.toarray() if hasattr(a, "toarray") else a, dtype=float)
    a = (a if a.shape[0] == b.size else a.T).reshape(-1, 10, 10)
    return sf.FeasibilityProblem([sf.PSD(10)], [(a + a.transpose(0, 2, 1)) / 2], b, b)


@pytest.mark.parametrize("kind", ["weak_clean", "weak_messy", "infeas_clean", "infeas_messy"])
@pytest.mark.parametrize("rows", [10, 20])
def test_liu_pataki(data_dir, kind, rows):
    problem = liu_pataki(data_dir / "liu-pataki" / f"{kind}_{rows}_10_10.mat")
    got = found(problem)
    check = sf.verify(problem, sf.Claim(chain=got.chain), rigorous=True)
    assert (check.verdict, check.proof) == (sf.Verdict.INFEASIBLE, sf.Proof.EXACT)


def twin(item, chain):
    """The problem with its bounds shifted to a point on the last face of a chain."""
    faces = replay(item.problem, chain).faces
    whole = faces.point((np.eye(faces.sizes[0]),))
    bounds = item.problem.apply(whole)
    return sf.FeasibilityProblem(item.problem.sets, item.problem.rows, bounds, bounds)


@pytest.mark.parametrize("solver", ["auto", "facial"])
@pytest.mark.parametrize("disguised", [False, True])
def test_weak_problems_and_their_feasible_twins(solver, disguised, tmp_path):
    for length in (1, 3):
        options = PlantedChainOptions(length=length, n=7, rows=7, disguised=disguised, seed=length)
        item = PlantedFaces.plant(options)
        result = sf.solve(item.problem, solver, time_limit=30)
        assert (result.verdict, result.proof) == (sf.Verdict.INFEASIBLE, sf.Proof.EXACT)
        assert result.chain is not None
        assert "facial" in result.raw_status or solver == "facial"
        # What a file holds is as good.
        save_result(result, tmp_path / "answer.npz")
        held = load_result(tmp_path / "answer.npz")
        assert sf.verify(item.problem, held.claim, rigorous=True).verdict is sf.Verdict.INFEASIBLE
        other = sf.solve(twin(item, sf.Chain(item.chain.steps[:-1])), solver, time_limit=30)
        assert other.verdict is sf.Verdict.FEASIBLE
        assert other.proof is not sf.Proof.NUMERIC


def test_a_diagonal_entry_pinned_to_zero():
    rows = np.zeros((2, 4, 4))
    rows[0, 0, 0], rows[1] = 1.0, np.eye(4)
    result = sf.solve(sf.FeasibilityProblem([sf.PSD(4)], [rows], [0, 1], [0, 1]), time_limit=20)
    assert result.verdict is sf.Verdict.FEASIBLE
    assert result.proof is not sf.Proof.NUMERIC


@pytest.mark.parametrize("truth", ["weak", "face"])
@pytest.mark.parametrize("side", ["primal", "native"])
def test_undecided_comes_back_early(side, truth):
    """Turned by a rotation, such a problem is feasible or not by its last digits: nobody can prove it."""
    item = PlantedFaces.plant(PlantedChainOptions(truth=truth, length=2, n=6, rows=6, side=side))
    q = random_orthogonal(np.random.default_rng(0), 6)

    def turned(matrices):
        moved = q @ np.asarray(matrices).reshape(-1, 6, 6) @ q.T
        return (moved + moved.transpose(0, 2, 1)) / 2

    old = item.problem
    rows = [None] if old.lmis else [turned(old.rows[0].array)]
    lmis = [sf.LMI(v.set, turned(v.constant)[0], [turned(v.coefficients[0].array)]) for v in old.lmis]
    problem = sf.FeasibilityProblem(old.sets, rows, old.lower, old.upper, lmis=lmis)
    result = sf.solve(problem, time_limit=60)
    assert result.verdict is sf.Verdict.UNDECIDED
    assert "numerically on a smaller face" in result.raw_status
    assert result.wall_time < 0.2 * 60


def test_coefficients_that_are_factors_are_refused():
    lmi = sf.LMI(sf.PSD(2), np.eye(2), [sf.LowRank([np.ones(2) / 3])])
    fine, why = Facial().accepts(sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[lmi]))
    assert not fine
    assert "rounded" in why


def test_reduce_and_its_words():
    rows = np.zeros((4, 4, 4))
    rows[0, 0, 0], rows[1, 1, 1], rows[2] = 1.0, 1.0, np.eye(4)
    rows[1, 0, 3] = rows[1, 3, 0] = 1.0
    rows[3, 1, 2] = rows[3, 2, 1] = 0.5
    names = ["corner", "edge", "trace", "cross"]
    problem = sf.FeasibilityProblem([sf.PSD(4)], [rows], [0, 0, 1, 0], [0, 0, 1, 0], names)
    found = sf.reduce(problem, time_limit=20)
    assert found.sizes == ((4, 2),)
    assert not found.infeasible
    assert not found.regular
    told = found.explain()
    assert "row corner forces X[0,0] = 0, hence its row and column" in told
    assert "row edge forces X[1,1] = 0" in told
    point = found.reduction.point((np.eye(2) / 2,))
    assert sf.verify(problem, sf.Claim(point=point, chain=found.chain), rigorous=True).verdict == "feasible"
    other = sf.FeasibilityProblem([sf.PSD(4)], [rows], [0, 0, 1, 1], [0, 0, 1, 1], names)
    assert "row cross reads 0 = 1" in sf.solve(other, time_limit=20).explain()
    whole = sf.reduce(sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1], [1]))
    assert whole.regular
    assert whole.sizes == ((2, 2),)


def on_a_hidden_face(rng, n=13, side=11, rows=65):
    """Many rows of integers, only a sum of which exposes the face that holds all points."""
    basis = np.concatenate([np.eye(side), rng.integers(-1, 2, size=(n - side, side))])
    normal = np.concatenate([-basis[side:].T, np.eye(n - side)])
    a = rng.integers(-2, 3, size=(rows, n, n)).astype(float)
    a += a.transpose(0, 2, 1)
    a[-1] = normal @ normal.T - a[:3].sum(axis=0)
    bounds = np.einsum("kij,ij->k", a, basis @ basis.T)
    return sf.FeasibilityProblem([sf.PSD(n)], [a], bounds, bounds)


def test_the_multipliers_of_a_search_without_interior_expose_a_face(monkeypatch):
    """They save a cone program, and so does asking on the face before a smaller one is looked for."""

    def refuse(*_):
        raise AssertionError("a cone solver was asked for an exposing vector")

    monkeypatch.setattr("sdpfeas.backends.facial.facial_search.solve_auxiliary_problem", refuse)
    problem = on_a_hidden_face(np.random.default_rng(1))
    result = sf.solve(problem, "auto", time_limit=60)
    assert (result.verdict, result.proof) == (sf.Verdict.FEASIBLE, sf.Proof.RIGOROUS)
    assert len(result.check.chain) == 1


@pytest.mark.parametrize("start", ["random", "nan"])
def test_multipliers_that_expose_nothing_do_no_harm(start):
    problem = on_a_hidden_face(np.random.default_rng(2))
    y = {"random": np.random.default_rng(3).normal(size=problem.m), "nan": np.full(problem.m, np.nan)}
    inquiry = Inquiry(problem, deadline=Deadline(60), start=WarmStart(certificate=y[start]), rigorous=True)
    claim = dispatch(Facial(), problem, inquiry)
    assert inquiry.final_check(claim).verdict is sf.Verdict.FEASIBLE
    assert "an auxiliary problem" in claim.raw_status


def test_many_sparse_rows_on_a_large_face():
    """Graphs parted in halves: the sum of all entries is zero, which leaves a face of one dimension less."""
    n = 150
    pins = sp.csr_array((np.ones(n), (np.arange(n), np.arange(n) * (n + 1))), shape=(n, n * n))
    rows = sp.csr_array(sp.vstack([np.ones((1, n * n)), pins]))
    bounds = np.array([0.0] + [1.0] * n)
    problem = sf.FeasibilityProblem([sf.PSD(n)], [rows], bounds, bounds)
    result = sf.solve(problem, "auto", time_limit=60.0)
    assert (result.verdict, result.proof) == (sf.Verdict.FEASIBLE, sf.Proof.RIGOROUS)
    assert result.chain is not None
    assert replay(problem, result.chain).faces.sizes == (n - 1,)
    # The same with a bound that contradicts it.
    wrong = sf.FeasibilityProblem(
        [sf.PSD(n)], [rows], bounds - 2.0 * np.eye(1, n + 1)[0], bounds - 2.0 * np.eye(1, n + 1)[0]
    )
    assert sf.solve(wrong, "auto", time_limit=60.0).verdict is sf.Verdict.INFEASIBLE


def test_whether_there_are_faces_is_asked_once(monkeypatch):
    rng = np.random.default_rng(0)
    data = np.concatenate([3.0 * rng.normal(size=6) + rng.normal(size=(9, 6)) for _ in range(3)])
    problem = sf.families.WLDA.from_data(data, np.repeat(np.arange(3), 9)).at(0.1)
    asked, supports = [], Facial.supports
    monkeypatch.setattr(Facial, "supports", staticmethod(lambda given: asked.append(1) or supports(given)))
    assert sf.solve(problem, "auto").verdict == "feasible"
    assert len(asked) == 1


def test_reduce_returns_what_it_has_when_the_time_is_up() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [0.0], [0.0])
    found = sf.reduce(problem, time_limit=1e-9)
    assert not len(found.chain)
    assert not found.regular
    assert found.sizes == ((2, 2),)
    assert found.explain().startswith("no smaller face was found")
