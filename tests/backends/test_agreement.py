"""Backends agree: no two opposite verdicts, and none that a change of units, order or basis moves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.numerics.linalg import random_orthogonal
from sdpfeas.testing import scaled_rows

#: Backends that are quick enough to be asked every generated problem.
BACKENDS = ["spectral-ipm", "dual-lbfgs", "admm", "clarabel", "scs"]

SEEDS = st.integers(0, 2**32 - 1)
MIXES = st.sampled_from(sorted(planted.set_mixes()))
STORAGE = st.sampled_from(planted.MATRIX_STORAGE)
BOUNDS = st.sampled_from(planted.BOUNDS)


def any_problem(seed: int, mix: str, storage: str, bounds: str, level: float) -> sf.FeasibilityProblem:
    """Return a problem of unknown truth: the bounds of a planted one, moved by ``level`` times their size."""
    rng = np.random.default_rng(seed)
    base = planted.feasible(rng, planted.set_mixes()[mix], storage=storage, bounds=bounds).problem
    open_rows = ~base.equality
    shift = np.where(open_rows, level * base.norms * rng.normal(size=base.m), 0.0)
    return sf.FeasibilityProblem(base.sets, base.rows, base.lower + shift, base.upper + shift)


def ask(problem: sf.FeasibilityProblem, name: str, **settings: object) -> sf.Result:
    return sf.solve(problem, name, time_limit=20, **settings)


@settings(max_examples=25)
@given(seed=SEEDS, mix=MIXES, storage=STORAGE, bounds=BOUNDS, level=st.sampled_from([0.0, 0.3, 1.0, 3.0]))
def test_no_two_backends_contradict_each_other(seed, mix, storage, bounds, level) -> None:
    problem = any_problem(seed, mix, storage, bounds, level)
    results = {name: ask(problem, name) for name in BACKENDS}
    proved = {n: r.verdict for n, r in results.items() if r.proof in (sf.Proof.RIGOROUS, sf.Proof.EXACT)}
    assert len(set(proved.values())) <= 1, proved
    # A numeric verdict may differ from a proof only where the proof's margin is within the tolerance.
    for name, result in results.items():
        if result.proof is sf.Proof.NUMERIC:
            for other in proved:
                if result.verdict is not results[other].verdict:
                    assert results[other].margin < sf.Tolerances().residual, (name, other)


@settings(max_examples=25)
@given(seed=SEEDS, mix=MIXES, storage=STORAGE, bounds=BOUNDS, truth=st.booleans(), data=st.data())
def test_planted_truth_is_never_contradicted(seed, mix, storage, bounds, truth, data) -> None:
    rng = np.random.default_rng(seed)
    plant = planted.feasible if truth else planted.infeasible
    item = plant(rng, planted.set_mixes()[mix], storage=storage, bounds=bounds, margin=1e-2)
    for name in data.draw(st.permutations(BACKENDS))[:2]:
        assert ask(item.problem, name).verdict is not item.wrong_verdict, name


def permuted(problem: sf.FeasibilityProblem, rng: np.random.Generator) -> sf.FeasibilityProblem:
    return problem.select_rows(rng.permutation(problem.m))


def rotated(problem: sf.FeasibilityProblem, rng: np.random.Generator) -> sf.FeasibilityProblem:
    """Return the problem in another orthonormal basis of every matrix block."""
    rows = []
    for block, old in zip(problem.sets, problem.rows, strict=True):
        if old.empty or not block.matrix:
            rows.append(old)
            continue
        turn = random_orthogonal(rng, block.n)
        dense = np.array([old.adjoint(unit) for unit in np.eye(problem.m)])
        rows.append(block.symmetrize(turn @ dense @ turn.T))
    return sf.FeasibilityProblem(problem.sets, rows, problem.lower, problem.upper)


def rescaled(problem: sf.FeasibilityProblem, rng: np.random.Generator) -> sf.FeasibilityProblem:
    return scaled_rows(problem, 10.0 ** rng.uniform(-3, 3, problem.m))


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("change", [permuted, rotated, rescaled], ids=lambda f: f.__name__)
@settings(max_examples=6)
@given(seed=SEEDS, mix=MIXES, truth=st.booleans())
def test_a_change_of_form_never_reverses_a_verdict(name, change, seed, mix, truth) -> None:
    rng = np.random.default_rng(seed)
    item = (planted.feasible if truth else planted.infeasible)(rng, planted.set_mixes()[mix])
    before, after = ask(item.problem, name), ask(change(item.problem, rng), name)
    assert {before.verdict, after.verdict} != {sf.Verdict.FEASIBLE, sf.Verdict.INFEASIBLE}
    assert item.wrong_verdict not in (before.verdict, after.verdict)


@pytest.mark.parametrize("name", BACKENDS)
@settings(max_examples=5)
@given(seed=SEEDS, mix=MIXES, truth=st.booleans())
def test_a_warm_start_never_reverses_a_verdict(name, seed, mix, truth) -> None:
    rng = np.random.default_rng(seed)
    item = (planted.feasible if truth else planted.infeasible)(rng, planted.set_mixes()[mix])
    other = planted.feasible(rng, planted.set_mixes()[mix], rows=item.problem.m)
    start = sf.Claim(point=other.point, certificate=rng.normal(size=item.problem.m))
    assert ask(item.problem, name, warm_start=start).verdict is not item.wrong_verdict
