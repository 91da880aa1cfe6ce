"""Proofs about LMIs: planted evidence is proved, wrong evidence never, and units do not matter."""

from fractions import Fraction
from types import SimpleNamespace

import known_answers
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, examples

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.families.planted import PlantedProblem, feasible_lmis, infeasible_lmis
from sdpfeas.problem.rows import Dense, NoRows
from sdpfeas.verifier.multipliers import Multipliers
from sdpfeas.verifier.outcome import Tolerances
from sdpfeas.verifier.rigorous import lmi_displacement, prove_certificate

MIXES = {
    "free": [sf.Free(4)],
    "psd": [sf.PSD(3)],
    "free psd": [sf.Free(2), sf.PSD(3)],
    "box nonneg": [sf.SpectralBox(3, trace=1.0), sf.Nonneg(2)],
    "all": [sf.PSD(2), sf.Nonneg(2), sf.Free(2), sf.SpectralBox(2, -1.0, 2.0)],
    "new": [sf.SecondOrder(3), sf.HermitianPSD(2), sf.Free(1)],
}
TARGETS = {
    "psd": [sf.PSD(4)],
    "two psd": [sf.PSD(3), sf.PSD(4)],
    "nonneg": [sf.Nonneg(7)],
    "nonneg psd": [sf.Nonneg(3), sf.PSD(4)],
    "box": [sf.SpectralBox(4, -1.0, 2.0)],
    "new": [sf.SecondOrder(4), sf.HermitianPSD(3)],
}
STORAGE = ["dense", "sparse", "low-rank", "stacked", "combined"]


def draw(seed: int, truth: bool | None = None, **options) -> PlantedProblem:
    """A planted problem of any kind."""
    rng = np.random.default_rng(seed)
    truth = bool(rng.integers(2)) if truth is None else truth
    sets = MIXES[str(rng.choice(list(MIXES)))]
    targets = TARGETS[str(rng.choice(list(TARGETS)))]
    given_ = {
        "storage": str(rng.choice(STORAGE)),
        "rows": int(rng.integers(4)),
        "bounds": str(rng.choice(["mixed", "inequality", "equality"])),
    } | options
    # As many equations as there are dimensions, at most.
    given_["rows"] = min(given_["rows"], 2) if given_["bounds"] == "equality" else given_["rows"]
    return (feasible_lmis if truth else infeasible_lmis)(rng, sets, targets, **given_)


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("targets", TARGETS)
@pytest.mark.parametrize("mix", MIXES)
def test_what_is_planted_is_proved(mix, targets, truth):
    plant = feasible_lmis if truth else infeasible_lmis
    for seed, storage in enumerate(STORAGE[:2] if mix == "all" else STORAGE):
        rng = np.random.default_rng(seed)
        item = plant(rng, MIXES[mix], TARGETS[targets], storage=storage, rows=seed % 3)
        check = sf.verify(item.problem, item.claim, rigorous=True, repair=False)
        assert (check.verdict, check.proof) == (item.truth, sf.Proof.RIGOROUS), check.reason
        assert 0.0 < check.margin <= 1.0


@examples(0.3)
@given(SEEDS)
def test_small_margins_are_proved(seed):
    item = draw(seed, margin=1e-6)
    assert sf.verify(item.problem, item.claim, rigorous=True).verdict is item.truth


# ---------------------------------------------------------------- units and bases


def turned(problem: sf.FeasibilityProblem, seed: int) -> sf.FeasibilityProblem:
    """The problem with every PSD LMI in another basis, and all of them in other units."""
    rng = np.random.default_rng(seed)
    lmis = []
    for lmi in problem.lmis:
        unit = 2.0 ** int(rng.integers(-60, 60)) if lmi.set.cone else 1.0
        turn = lmi.set.random_frame(rng) if lmi.set.matrix else None

        def seen(a, turn=turn, unit=unit, block=lmi.set):
            return unit * (a if turn is None else block.symmetrize(turn.T @ a @ turn))

        parts = [[seen(rows.adjoint(e)) for e in np.eye(rows.m)] for rows in lmi.coefficients]
        lmis.append(sf.LMI(lmi.set, seen(lmi.constant), [np.array(p) for p in parts], lmi.name))
    return sf.FeasibilityProblem(problem.sets, problem.rows, problem.lower, problem.upper, lmis=lmis)


@examples(0.2)
@given(SEEDS)
def test_neither_basis_nor_units_move_a_point(seed):
    item = draw(seed, truth=True)
    assert sf.verify(turned(item.problem, seed), item.claim, rigorous=True).verdict is sf.Verdict.FEASIBLE


@examples(0.3)
@given(SEEDS, st.integers(-900, 900))
def test_a_certificate_may_have_any_length(seed, power):
    item = draw(seed, truth=False)
    claim = sf.Claim(certificate=np.ldexp(item.certificate, power))
    assert sf.verify(item.problem, claim, rigorous=True, repair=False).verdict is sf.Verdict.INFEASIBLE


# ---------------------------------------------------------------- wrong claims


def wrong_claims(rng: np.random.Generator, item: PlantedProblem, count: int):
    """Evidence of the opposite of the truth, or of nothing."""
    problem = item.problem
    base = item.point or tuple(planted.interior(rng, block) for block in problem.sets)
    y = item.certificate
    if y is None:
        y = rng.normal(size=problem.multiplier_count)
        rows, own = problem.split(y)
        rows[np.isinf(problem.lower)] = -np.abs(rows[np.isinf(problem.lower)])
        rows[np.isinf(problem.upper)] = np.abs(rows[np.isinf(problem.upper)])
        for lmi, part in zip(problem.lmis, own, strict=True):
            part[...] = planted.interior(rng, lmi.set) if lmi.set.cone else lmi.set.symmetrize(part)
        # As near to a certificate as least squares take it.
        columns = np.array([_gradient(problem, e) for e in np.eye(y.size)])
        nearest = y - np.linalg.lstsq(columns.T, columns.T @ y, rcond=1e-12)[0]
    else:
        nearest = y
    for _ in range(count):
        point = tuple(x + 10.0 ** rng.uniform(-12, 2) * rng.normal(size=x.shape) for x in base)
        point = tuple(b.project(x) for b, x in zip(problem.sets, point, strict=True))
        scale = 2.0 ** int(rng.integers(-100, 100))
        certificate = rng.choice([1.0, -1.0]) * (nearest if rng.random() < 0.5 else y)
        certificate = certificate + 10.0 ** rng.uniform(-15, 1) * rng.normal(size=y.size)
        if rng.random() < 0.1:
            certificate[int(rng.integers(y.size))] = rng.choice([np.nan, np.inf, 0.0, 1e250, 1e-320])
        yield sf.Claim(point=point) if rng.random() < 0.5 else sf.Claim(certificate=scale * certificate)


def _gradient(problem: sf.FeasibilityProblem, y: np.ndarray) -> np.ndarray:
    return np.concatenate([g.reshape(-1) for g in problem.adjoint(problem.multipliers(y))])


def refused(seed: int, claims: int, repair: bool) -> None:
    item = draw(seed, margin=10.0 ** np.random.default_rng(seed).uniform(-8, -1))
    for claim in wrong_claims(np.random.default_rng([seed, 1]), item, claims):
        check = sf.verify(item.problem, claim, rigorous=True, repair=repair)
        assert check.verdict is not item.wrong_verdict, (seed, check.explain())


@pytest.mark.parametrize("seed", range(12))
def test_wrong_claims_are_refused(seed):
    refused(seed, 12, repair=seed % 3 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_twenty_thousand_wrong_claims_are_refused(part):
    for seed in range(50):
        refused(1000 * part + seed + 100, 40, repair=seed % 10 == 0)


def integer_lmi(
    rng: np.random.Generator, n: int, k: int, slack: float
) -> tuple[sf.FeasibilityProblem, np.ndarray]:
    """An LMI of integers whose value at an integer point is singular, but for a slack on the diagonal."""
    matrices = rng.integers(-3, 4, (n, k, k))
    matrices = matrices + matrices.transpose(0, 2, 1)
    x = rng.integers(-3, 4, n)
    root = rng.integers(-2, 3, (k, max(k - 1, 1)))
    constant = root @ root.T - np.tensordot(x, matrices, 1) + slack * np.eye(k)
    lmi = sf.LMI(sf.PSD(k), constant, [matrices.astype(float)])
    return sf.FeasibilityProblem([sf.Free(n)], [None], [], [], lmis=[lmi]), x.astype(float)


@examples(0.5)
@given(SEEDS, st.sampled_from([0.0, 2.0**-48, -(2.0**-48), 2.0**-40, -(2.0**-40), 1e-5, -1e-5]))
def test_a_proof_at_the_point_holds_in_rational_arithmetic(seed, slack):
    rng = np.random.default_rng(seed)
    problem, x = integer_lmi(rng, 3, 4, slack)
    check = sf.verify(problem, sf.Claim(point=(x,)), rigorous=True, repair=False)
    if check.verdict is sf.Verdict.FEASIBLE:
        (lmi,) = problem.lmis
        exact = known_answers.rationals(lmi.constant)
        for i, own in enumerate(check.point[0]):
            exact = exact + Fraction(float(own)) * known_answers.rationals(lmi.coefficients[0].exact_row(i))
        assert known_answers.exactly_psd(exact)
    if slack >= 1e-5:
        assert check.verdict is sf.Verdict.FEASIBLE


def test_weakly_infeasible_lmis_stay_undecided():
    """[[x, 1], [1, 0]] is never positive semidefinite, and as near to it as one likes."""
    lmi = sf.LMI(sf.PSD(2), [[0.0, 1.0], [1.0, 0.0]], [[[[1.0, 0.0], [0.0, 0.0]]]])
    problem = sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[lmi])
    for big in 10.0 ** np.arange(0, 300, 15.0):
        near = np.array([1.0 / big, -1.0, -1.0, big]) / big
        for claim in (sf.Claim(point=([big],)), sf.Claim(certificate=near)):
            for rigorous in (True, False):
                assert sf.verify(problem, claim, rigorous=rigorous).verdict is sf.Verdict.UNDECIDED
    for name in ("clarabel", "spectral-ipm"):
        assert sf.solve(problem, name, time_limit=5).verdict is sf.Verdict.UNDECIDED


def singular_certificate(rng: np.random.Generator, rank: int) -> PlantedProblem:
    """An infeasible LMI of integers whose multiplier has a low rank."""
    matrices = rng.integers(-2, 3, (4, 4, 4))
    matrices = matrices + matrices.transpose(0, 2, 1)
    root = rng.integers(-2, 3, (4, rank))
    root[0, 0] = 1
    y = root @ root.T
    along = np.tensordot(matrices, y, axes=2)
    matrices = matrices * int(np.sum(y * y)) - along[:, None, None] * y
    constant, parts = matrices[0] - y, matrices[1:]
    lmi = sf.LMI(sf.PSD(4), constant.astype(float), [parts.astype(float)], "f")
    problem = sf.FeasibilityProblem([sf.Free(3)], [None], [], [], lmis=[lmi])
    return PlantedProblem(problem, False, certificate=y.reshape(-1).astype(float))


@pytest.mark.parametrize("seed", range(8))
def test_singular_evidence_is_proved_in_rational_arithmetic(seed):
    rng = np.random.default_rng(seed)
    item = singular_certificate(rng, 1 + seed % 3)
    for scale, noise in ((1.0, 0.0), (0.3, 0.0), (1.0, 1e-10)):
        y = scale * item.certificate + noise * rng.normal(size=16)
        check = sf.verify(item.problem, sf.Claim(certificate=y), rigorous=True)
        assert check.verdict == item.truth, check.reason
        if not noise:
            check = sf.verify(item.problem, sf.Claim(certificate=y), exact=True)
            assert check.verdict == item.truth, check.reason
        elif check.proof == sf.Proof.RIGOROUS:
            continue  # there may be others next to it that are not singular
        assert check.proof == sf.Proof.EXACT
        y = check.rational.reshape(4, 4)
        assert known_answers.exactly_psd(y)
        (lmi,) = item.problem.lmis
        rows = [known_answers.rationals(lmi.coefficients[0].exact_row(i)) for i in range(3)]
        assert all(np.sum(row * y) == 0 for row in rows)
        assert np.sum(known_answers.rationals(lmi.constant) * y) < 0
    problem, x = integer_lmi(rng, 3, 4, 0.0)
    check = sf.verify(problem, sf.Claim(point=(x + 1e-11 * rng.normal(size=3),)), rigorous=True)
    assert check.verdict == sf.Verdict.FEASIBLE
    if check.proof == sf.Proof.EXACT:
        (lmi,) = problem.lmis
        rows = [known_answers.rationals(lmi.coefficients[0].exact_row(i)) for i in range(3)]
        exact = known_answers.rationals(lmi.constant) + sum(
            v * r for v, r in zip(check.rational[0], rows, strict=True)
        )
        assert known_answers.exactly_psd(exact)


def test_evidence_that_overflows_is_refused():
    item = draw(5, truth=True)
    for size in (1e200, 1e305, np.inf, np.nan):
        claim = sf.Claim(
            point=tuple(np.full(x.shape, size) for x in item.point),
            certificate=np.full(item.problem.multiplier_count, size),
        )
        assert sf.verify(item.problem, claim).verdict is sf.Verdict.UNDECIDED


# ---------------------------------------------------------------- in words


def contradiction() -> sf.FeasibilityProblem:
    """P >= I and -P >= I on Free entries, and an LMI that has no part in it."""
    builder = sf.ProblemBuilder()
    builder.block("x", sf.Free(2))
    diagonal = [np.diag([1.0, 0.0]), np.diag([0.0, 1.0])]
    builder.row("harmless", {"x": [1.0, 1.0]}, lower=-100.0)
    builder.lmi("above", -np.eye(2), {"x": diagonal})
    builder.lmi("below", -np.eye(2), {"x": [-d for d in diagonal]})
    builder.lmi("loose", 50.0 * np.eye(2), {"x": diagonal})
    return builder.build()


def test_conflicts_name_lmis_and_show_their_matrices():
    problem = contradiction()
    noise = 2.0**-5 * np.eye(2).reshape(-1)
    y = np.concatenate([[0.0], np.eye(2).reshape(-1), (1 + 2.0**-5) * np.eye(2).reshape(-1), noise])
    check = sf.verify(problem, sf.Claim(certificate=y), rigorous=True)
    assert check.verdict is sf.Verdict.INFEASIBLE
    found = {entry.name: entry for entry in check.conflict()}
    assert set(found) == {"above", "below", "loose"}
    assert found["above"].side == "lmi"
    assert np.array_equal(found["above"].multiplier, check.certificate[1:5].reshape(2, 2))
    assert sum(entry.weight for entry in found.values()) == pytest.approx(1.0)
    assert [entry.name for entry in check.conflict(prune=True)] in (["above", "below"], ["below", "above"])
    words = check.explain()
    assert "conflicting rows and LMIs (3)" in words
    assert "LMI above: in PSD(2), multiplier with eigenvalues" in words
    result = sf.solve(problem, "clarabel")
    assert result.verdict == sf.Verdict.INFEASIBLE
    assert result.multiplier("above").shape == (2, 2)
    assert np.array_equal(result.multiplier("above"), result.multiplier(1))
    assert isinstance(result.multiplier("harmless"), float)
    with pytest.raises(sf.ClaimError, match="no row or LMI is called 'nobody'"):
        result.multiplier("nobody")


def test_answers_show_how_deep_lmis_lie():
    builder = sf.ProblemBuilder()
    builder.block("x", sf.Free(1))
    builder.lmi("ball", 2.0 * np.eye(2), {"x": [[0.0, 1.0], [1.0, 0.0]]})
    check = sf.verify(builder.build(), sf.Claim(point=([0.5],)), rigorous=True)
    assert "LMI ball: least eigenvalue 1.5 inside PSD(2)" in check.explain()
    assert check.margin == pytest.approx(0.6)


# ---------------------------------------------------------------- backends


@pytest.mark.parametrize("name", ["auto", "spectral-ipm", "clarabel", "scs", "dual-lbfgs", "admm"])
@pytest.mark.parametrize("truth", [True, False])
def test_backends_agree(name, truth):
    for seed, sets in enumerate((MIXES["free"], MIXES["free psd"], MIXES["box nonneg"])):
        plant = feasible_lmis if truth else infeasible_lmis
        item = plant(np.random.default_rng(seed), sets, TARGETS["nonneg psd"], rows=seed, bounds="inequality")
        found = sf.solve(item.problem, name, time_limit=20)
        assert found.verdict is not item.wrong_verdict
        if name not in ("admm", "dual-lbfgs", "scs"):
            assert found.verdict is item.truth, found.explain()
            assert found.proof is sf.Proof.RIGOROUS


def test_starts_pass_through_the_slacks():
    item = draw(3, truth=True, rows=2)
    found = sf.solve(item.problem, "dual-lbfgs", warm_start=item.claim, time_limit=10)
    assert found.verdict is not item.wrong_verdict


@pytest.mark.parametrize("power", range(-40, -2))
def test_what_a_correction_does_to_constants_counts(power):
    """``diag(x + 1, room - 1 - x)`` has points, though multipliers next to a certificate gain a hair."""
    hair = 2.0**power
    constant, coefficients = np.diag([1.0, 0.125 * hair - 1.0]), np.diag([1.0, -1.0])[None]
    lmi = sf.LMI(sf.PSD(2), constant, [coefficients])
    problem = sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[lmi])
    y = np.diag([1.0, 1.0 + hair]).reshape(-1)
    assert not prove_certificate(problem, y, Tolerances(snap=1.0)).proven


def test_steps_of_a_block_move_an_lmi_by_their_coefficients():
    lmi = SimpleNamespace(coefficients=(NoRows(1, 2, False), Dense(np.array([[3.0, 4.0], [0.0, 2.0]]))))
    assert lmi_displacement(lmi, [1.0, 0.0]) == 0.0
    for step, truth in ((np.array([1.0, 0.0]), 5.0), (np.array([0.0, 1.0]), 2.0), (2.0, 2.0 * 29.0**0.5)):
        assert truth <= lmi_displacement(lmi, [1.0, step]) <= truth * (1.0 + 1e-12)


@pytest.mark.parametrize("rows", [True, False])
def test_sums_of_what_rows_and_lmis_add_to_a_block_are_rounded_once_more(rows: bool) -> None:
    """By the theory the sum of two parts is off by a rounding on top of what each of them is off."""
    lmi = sf.LMI(sf.Nonneg(1), [1.0], [np.ones((2, 1))])
    own = [np.array([[3.0, 1.0]])] if rows else [None]
    bound = [0.0] if rows else []
    problem = sf.FeasibilityProblem([sf.Free(2)], own, bound, bound, lmis=[lmi, lmi])
    y = np.array([1.0, 2.0, 5.0] if rows else [2.0, 5.0])
    total, radius = Multipliers(problem, y).enclose(0)
    parts = [
        part.coefficients[0].enclose_apply(v)[1] for part, v in zip(problem.lmis, y[-2:, None], strict=True)
    ]
    if rows:
        parts.append(problem.rows[0].enclose_adjoint(y[:1])[1])
    assert total.tolist() == ([10.0, 8.0] if rows else [7.0, 7.0])
    assert np.all(radius >= sum(parts) + 2.0**-53 * total)
