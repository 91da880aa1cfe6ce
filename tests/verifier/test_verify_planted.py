"""Planted points and certificates are accepted, with proof, for every set, storage kind and kind of row."""

from __future__ import annotations

import known_answers
import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.families.planted import PlantedProblem

MIXES = list(planted.set_mixes())

#: The fast suite tries one half of what can be combined, another half for the next mixture of sets.
HALVES = pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])

#: Perturbations, relative to the size of the evidence, that repairs have to undo.
NOISE = (1e-9, 1e-6)


def cases(mix: str, scale: int, *, edge: bool = False, truth: bool = True) -> list[PlantedProblem]:
    """Every storage kind with every kind of bounds."""
    rng = np.random.default_rng([1, MIXES.index(mix), scale, edge, truth])
    out = []
    for storage in planted.MATRIX_STORAGE:
        for bounds in planted.BOUNDS:
            sets = planted.set_mixes(scale)[mix]
            if truth and (mix, scale, storage, bounds) == ("two psd", 3, "pairwise", "equality"):
                continue  # 65 such rows in 6 and 9 dimensions depend on each other: not well posed
            if truth:
                case = planted.feasible(rng, sets, storage=storage, bounds=bounds, edge=edge)
            else:
                case = planted.infeasible(rng, sets, storage=storage, bounds=bounds)
            out.append(
                PlantedProblem(
                    case.problem, case.feasible, case.point, case.certificate, f"{storage} {bounds}"
                )
            )
    return out


def noisy(rng: np.random.Generator, case: PlantedProblem, size: float) -> sf.Claim:
    if case.certificate is not None:
        return sf.Claim(certificate=case.certificate * (1.0 + size * rng.normal(size=case.problem.m)))
    assert case.point is not None
    moved = []
    for x in case.point:
        noise = planted.symmetric(rng, x.shape[0]) if x.ndim == 2 else rng.normal(size=x.shape)
        moved.append(x + size * np.linalg.norm(x) * noise)
    return sf.Claim(point=tuple(moved))


@HALVES
@pytest.mark.parametrize("scale", [1, 3])
@pytest.mark.parametrize("kind", ["interior", "edge", "certificate"])
@pytest.mark.parametrize("mix", MIXES)
def test_planted_evidence_is_proved_as_it_is(mix: str, kind: str, scale: int, half: int) -> None:
    first = (MIXES.index(mix) + scale // 2 + half) % 2
    for case in cases(mix, scale, edge=kind == "edge", truth=kind != "certificate")[first::2]:
        check = sf.verify(case.problem, case.claim, rigorous=True, repair=False)
        assert check.verdict is case.truth, (case.name, check.explain())
        assert check.proof is sf.Proof.RIGOROUS
        assert check.repairs == ()
        assert check.margin is not None
        assert 0.0 <= check.margin <= 1.0
        numeric = sf.verify(case.problem, case.claim, repair=False)
        assert numeric.verdict is case.truth, (case.name, numeric.explain())
        assert numeric.proof is sf.Proof.NUMERIC


@HALVES
@pytest.mark.parametrize("kind", ["interior", "edge", "certificate"])
@pytest.mark.parametrize("mix", MIXES)
def test_noise_is_repaired_and_said(mix: str, kind: str, half: int) -> None:
    rng = np.random.default_rng([2, MIXES.index(mix)])
    repaired = 0
    for k, case in enumerate(cases(mix, 1, edge=kind == "edge", truth=kind != "certificate")):
        size = NOISE[(k + MIXES.index(mix) + half) % 2]
        claim = noisy(rng, case, size)
        for rigorous in (True, False):
            check = sf.verify(case.problem, claim, rigorous=rigorous)
            assert check.verdict is case.truth, (case.name, size, check.explain())
            plain = sf.verify(case.problem, claim, rigorous=rigorous, repair=False)
            # Whatever needs repair says so, and nothing else does.
            assert (plain.verdict is sf.Verdict.UNDECIDED) == bool(check.repairs), check.explain()
            repaired += bool(check.repairs)
        again = sf.verify(case.problem, check, rigorous=True)
        assert again.verdict is case.truth, "the evidence of a check stands by itself"
    # Without sets that can be left or rows that must be met there is nothing to repair.
    assert repaired > 0 or (mix == "free" and kind == "edge") or kind == "certificate"


@pytest.mark.parametrize("bounds", planted.BOUNDS)
@pytest.mark.parametrize("mix", ["nonneg free", "psd nonneg free", "box nonneg free"])
def test_entries_that_no_row_touches_beside_a_free_block(mix: str, bounds: str) -> None:
    """Rounding leaves something of A*y on the free block, but nothing where there is nothing."""
    kinds = {"nonneg": sf.Nonneg(2), "psd": sf.PSD(3), "box": sf.SpectralBox(3, trace=1), "free": sf.Free(2)}
    sets = [kinds[name] for name in mix.split()]
    rng = np.random.default_rng([7, planted.BOUNDS.index(bounds)])
    for storage in planted.VECTOR_STORAGE:
        case = planted.infeasible(rng, sets, storage=storage, bounds=bounds)
        problem = with_untouched_entries(case.problem)
        for size in (0.0, *NOISE):
            check = sf.verify(problem, noisy(rng, case, size), rigorous=True)
            assert check.verdict is sf.Verdict.INFEASIBLE, (storage, size, check.explain())


def with_untouched_entries(problem: sf.FeasibilityProblem) -> sf.FeasibilityProblem:
    """The problem with an entry, or a row and column, more in every cone."""
    sets, rows = list(problem.sets), list(problem.rows)
    for b, block in enumerate(problem.sets):
        if isinstance(block, (sf.Nonneg, sf.PSD)):
            sets[b] = type(block)(block.n + 1)
            units = np.eye(problem.m)
            old = np.array([problem.rows[b].adjoint(unit) for unit in units])
            rows[b] = np.pad(old, [(0, 0)] + [(0, 1)] * (old.ndim - 1))
    return sf.FeasibilityProblem(sets, rows, problem.lower, problem.upper)


@pytest.mark.parametrize("n", [2, 5, 12])
@pytest.mark.parametrize("truth", [True, False])
def test_linear_matrix_inequalities(n: int, truth: bool) -> None:
    rng = np.random.default_rng([3, n, truth])
    for _ in range(4):
        case = planted.lmi(rng, n, max(n // 2, 1), truth=truth)
        check = sf.verify(case.problem, case.claim, rigorous=True, repair=False)
        assert check.verdict is case.truth, check.explain()
        check = sf.verify(case.problem, noisy(rng, case, 1e-8), rigorous=True)
        assert check.verdict is case.truth, check.explain()


@pytest.mark.parametrize(("d", "classes"), [(4, 3), (13, 5), (30, 10)])
def test_discriminant_analysis(d: int, classes: int) -> None:
    rng = np.random.default_rng([4, d])
    data = known_answers.discriminant(rng, d, classes)
    pairs = classes * (classes - 1) // 2
    spread = sf.PairwiseDifference(data.means).adjoint(np.ones(pairs))
    vec = np.linalg.eigh(spread)[1][:, -(classes - 1) :]
    z = vec @ vec.T
    z = 0.5 * (z + z.T)
    low = data.ratio(z)
    for share in (0.5, 0.999):
        problem = data.at(share * low)
        check = sf.verify(problem, sf.Claim(point=data.point(z, share * low)), rigorous=True, repair=False)
        assert check.verdict is sf.Verdict.FEASIBLE, check.explain()
        # The scalar is chosen anew when it is off.
        check = sf.verify(problem, sf.Claim(point=(z, np.array([0.0]))), rigorous=True)
        assert check.verdict is sf.Verdict.FEASIBLE, check.explain()
        assert any("vector blocks" in repair for repair in check.repairs)
    u, w = np.ones(pairs), np.full(classes, pairs / classes)
    high = data.ruled_out_from(u, w)
    assert high > low
    for share in (1.001, 2.0):
        problem = data.at(share * high)
        y = np.concatenate([u, w * (1.0 - 1e-12)])
        check = sf.verify(problem, sf.Claim(certificate=y), rigorous=True, repair=False)
        assert check.verdict is sf.Verdict.INFEASIBLE, check.explain()
        y = np.concatenate([u, w * (1.0 + 1e-9)])
        assert sf.verify(problem, sf.Claim(certificate=y), rigorous=True, repair=False).proof is None
        check = sf.verify(problem, sf.Claim(certificate=y), rigorous=True)
        assert check.verdict is sf.Verdict.INFEASIBLE, check.explain()
        assert any("non-negative" in repair for repair in check.repairs)


def test_large_blocks_are_proved() -> None:
    rng = np.random.default_rng(5)
    sets = [sf.PSD(40), sf.SpectralBox(30, trace=7.5), sf.Nonneg(20)]
    for bounds in ("mixed", "equality"):
        case = planted.feasible(rng, sets, bounds=bounds, rows=60)
        assert sf.verify(case.problem, case.claim, rigorous=True, repair=False).verdict is sf.Verdict.FEASIBLE
        case = planted.infeasible(rng, sets, bounds=bounds, rows=60)
        assert (
            sf.verify(case.problem, case.claim, rigorous=True, repair=False).verdict is sf.Verdict.INFEASIBLE
        )


# ---------------------------------------------------------------- repairs, one by one


def repaired(problem: sf.FeasibilityProblem, claim: sf.Claim, word: str) -> sf.Check:
    assert sf.verify(problem, claim, rigorous=True, repair=False).verdict is sf.Verdict.UNDECIDED
    check = sf.verify(problem, claim, rigorous=True)
    assert check.verdict is not sf.Verdict.UNDECIDED, check.explain()
    assert any(word in repair for repair in check.repairs), check.repairs
    assert word in check.explain()
    return check


def big(n: int = 60) -> np.ndarray:
    """Too large for exact mode, so that only a proof in floating point counts."""
    return np.eye(n)


def test_repair_moves_blocks_onto_their_sets() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(60)], [big()[None]], [1.0], [100.0])
    x = np.eye(60) / 10.0
    x[0, 0] = -1e-3
    check = repaired(problem, sf.Claim(point=(x,)), "onto their sets")
    assert check.point is not None
    assert np.linalg.eigvalsh(check.point[0])[0] > -1e-15


def test_repair_moves_points_onto_equality_rows() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(60)], [big()[None]], [60.0], [60.0])
    repaired(problem, sf.Claim(point=(1.001 * np.eye(60),)), "equality rows")


def test_repair_pulls_towards_the_interior() -> None:
    rows = np.array([big(), np.diag(np.arange(60.0))])
    x = np.zeros((60, 60))
    x[1, 1] = 1.0
    x[2, 2] = 1e-9
    problem = sf.FeasibilityProblem([sf.PSD(60)], [rows], [1.0, 1.0], [1.0, np.inf])
    # Singular, with an equality row: no existence proof where it is.
    repaired(problem, sf.Claim(point=(x,)), "interior")


def test_repair_clears_tiny_wrong_signs() -> None:
    problem = sf.FeasibilityProblem(
        [sf.PSD(60)], [np.array([big(), 2.0 * big()])], [-np.inf, -np.inf], [-1.0, 5.0]
    )
    repaired(problem, sf.Claim(certificate=np.array([-1.0, 1e-9])), "wrong sign")


def test_repair_shifts_along_a_definite_row() -> None:
    slope = np.zeros((60, 60))
    slope[0, 0] = 1.0
    # tr X <= 1 is one-sided; X00 <= -1 contradicts X >= 0, and its certificate is singular.
    problem = sf.FeasibilityProblem(
        [sf.PSD(60)], [np.array([big(), slope + 1e-13 * planted.symmetric(np.random.default_rng(0), 60)])],
        [-np.inf, -np.inf], [1.0, -1.0],
    )  # fmt: skip
    repaired(problem, sf.Claim(certificate=np.array([0.0, -1.0])), "definite combination")


def test_repair_clears_free_blocks() -> None:
    rng = np.random.default_rng(6)
    columns = rng.normal(size=(8, 3))
    y = np.linalg.svd(columns)[0][:, -1]
    bounds = np.array(y)
    problem = sf.FeasibilityProblem([sf.Free(3)], [columns], bounds, bounds)
    claim = sf.Claim(certificate=y + 1e-3 * columns @ rng.normal(size=3))
    repaired(problem, claim, "free blocks")


def test_repair_takes_the_symmetric_part() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [3.0])
    x = np.array([[1.0, 0.2], [-0.2, 1.0]])
    check = repaired(problem, sf.Claim(point=(x,)), "symmetric part")
    assert check.point is not None
    np.testing.assert_array_equal(check.point[0], np.eye(2))
