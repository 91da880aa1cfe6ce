"""LMIs in problems: what is refused, hashes, files, pickles, the builder, and slacks in their place."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.errors import FileFormatError
from sdpfeas.families.planted import feasible_lmis, infeasible_lmis
from sdpfeas.io.sdpa import primal_data
from sdpfeas.npz import Format
from sdpfeas.problem.reductions.box_to_psd import lift
from sdpfeas.problem.reductions.presolve import presolve
from sdpfeas.problem.rows import Dense, Sparse

EYE, OFF = np.eye(2), np.array([[0.0, 1.0], [1.0, 0.0]])
ALL = [sf.PSD(2), sf.Nonneg(2), sf.Free(2), sf.SpectralBox(2, -1.0, 2.0)]
TARGETS = [sf.PSD(3), sf.Nonneg(2), sf.SpectralBox(2, 0.0, 3.0), sf.SecondOrder(3), sf.HermitianPSD(2)]


def lmi(**changes):
    """An LMI on Free(2) that is fine but for what is changed."""
    given = {"set": sf.PSD(2), "constant": EYE, "coefficients": [np.stack([OFF, EYE])], "name": "f"} | changes
    return sf.LMI(**given)


def problem(*lmis, sets=None, **more):
    sets = [sf.Free(2)] if sets is None else sets
    return sf.FeasibilityProblem(list(sets), [None] * len(sets), [], [], lmis=list(lmis), **more)


BAD_LMIS = {
    "no set": ({"set": 3}, "expected a set"),
    "Free": ({"set": sf.Free(2), "constant": [0.0, 0.0]}, "no bounds"),
    "a trace": ({"set": sf.SpectralBox(2, trace=1.0)}, "prescribed trace"),
    "the name": ({"name": ""}, "non-empty string"),
    "a wrong shape": ({"constant": np.eye(3)}, r"shape \(3, 3\), expected \(2, 2\)"),
    "a vector": ({"constant": [1.0, 2.0]}, "shape"),
    "a skew constant": ({"constant": [[1.0, 2.0], [0.0, 1.0]]}, "not symmetric"),
    "NaN": ({"constant": [[np.nan, 0.0], [0.0, 1.0]]}, "NaN or infinity"),
    "a huge constant": ({"constant": 1e300 * EYE}, "too large"),
    "a rounded constant": ({"constant": [[2**53 + 1, 0], [0, 1]]}, "rounded"),
    "text": ({"constant": "one"}, "shape"),
    "an array for all": ({"coefficients": np.stack([OFF, EYE])}, "one entry per block"),
    "skew coefficients": ({"coefficients": [[EYE, [[0.0, 1.0], [0.0, 0.0]]]]}, "entry 1: the"),
    "coefficients of another size": ({"coefficients": [np.ones((2, 3, 3))]}, r"block of shape \(3, 3\)"),
    "infinite coefficients": ({"coefficients": [np.full((2, 2, 2), np.inf)]}, "NaN or infinity"),
    "huge coefficients": ({"coefficients": [np.stack([OFF, 1e300 * EYE])]}, "too large"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LMIS)
def test_a_malformed_lmi_is_refused(case):
    changes, said = BAD_LMIS[case]
    with pytest.raises(sf.ProblemError, match=said):
        lmi(**changes)


def test_lmis_must_fit_the_problem():
    with pytest.raises(sf.ProblemError, match="2 coefficients for the 3 entries"):
        problem(lmi(), sets=[sf.Free(3)])
    with pytest.raises(sf.ProblemError, match="1 entries for 2 sets"):
        problem(lmi(), sets=[sf.Free(2), sf.Free(1)])
    with pytest.raises(sf.ProblemError, match="another row or LMI named 'f'"):
        problem(lmi(), lmi())
    with pytest.raises(sf.ProblemError, match="another row or LMI named 'f'"):
        sf.FeasibilityProblem([sf.Free(2)], [[[1.0, 0.0]]], [0.0], [1.0], ["f"], lmis=[lmi()])
    with pytest.raises(sf.ProblemError, match="expected an LMI"):
        problem("lmi")
    with pytest.raises(sf.ProblemError, match="list of LMI"):
        sf.FeasibilityProblem([sf.Free(2)], [None], [], [], lmis=lmi())
    uneven = np.zeros((2, 2, 2, 2))
    uneven[0, 1] = EYE
    with pytest.raises(sf.ProblemError, match="mirrored entries differ"):
        problem(lmi(coefficients=[uneven]), sets=[sf.PSD(2)])
    flat = sp.csr_array(uneven.reshape(4, 4))
    with pytest.raises(sf.ProblemError, match="mirrored entries differ"):
        problem(lmi(coefficients=[flat]), sets=[sf.PSD(2)])
    low = sf.LowRank([[[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 2.0]], [[1.0, 0.0]]])
    with pytest.raises(sf.ProblemError, match="mirrored entries differ"):
        problem(lmi(coefficients=[low]), sets=[sf.PSD(2)])


def test_lmis_are_immutable():
    item = lmi()
    for change in (lambda: setattr(item, "name", "g"), lambda: item.constant.__setitem__((0, 0), 2.0)):
        with pytest.raises((AttributeError, ValueError)):
            change()
    again = pickle.loads(pickle.dumps(problem(item)))
    assert again == problem(item)
    with pytest.raises(ValueError, match="WRITEABLE"):
        again.lmis[0].constant.setflags(write=True)


def test_the_hash_sees_lmis_and_only_them():
    plain = sf.FeasibilityProblem([sf.Free(2)], [None], [], [])
    # What this problem hashed to before there were LMIs.
    assert plain.content_hash == "30f13a975246acd4f21afdc192a6c93aab03e2ebfac7f1b827145faf9d7fccca"
    changes = [{}, {"name": "g"}, {"constant": 2 * EYE}, {"coefficients": [np.stack([EYE, OFF])]},
               {"set": sf.SpectralBox(2)}, {"name": None}, {"coefficients": [None]}]  # fmt: skip
    hashes = [problem(lmi(**change)).content_hash for change in changes]
    assert len({plain.content_hash, *hashes}) == len(changes) + 1


@pytest.mark.parametrize("storage", ["dense", "sparse", "low-rank", "combined"])
def test_files_and_pickles_keep_every_bit(tmp_path, storage):
    rng = np.random.default_rng(0)
    item = feasible_lmis(rng, ALL, TARGETS, storage=storage, rows=2).problem
    item.save(tmp_path / "p.npz")
    again = sf.FeasibilityProblem.load(tmp_path / "p.npz")
    assert again == item == pickle.loads(pickle.dumps(item))
    assert [one.name for one in again.lmis] == [f"lmi {j}" for j in range(len(TARGETS))]
    assert repr(again) == repr(item)
    assert "LMI lmi 0: PSD(3), " in repr(item)


def test_readers_that_know_no_lmis_refuse_their_files(tmp_path):
    problem(lmi()).save(tmp_path / "p.npz")
    old = Format("problem", 1, version_key="version")
    with pytest.raises(FileFormatError, match="version 2"), old.unpack((tmp_path / "p.npz").read_bytes()):
        pass
    sf.FeasibilityProblem([sf.Free(2)], [None], [], []).save(tmp_path / "q.npz")
    with old.unpack((tmp_path / "q.npz").read_bytes()) as (header, _):
        assert "lmis" not in header


def test_multipliers_are_cut_and_symmetrised():
    item = sf.FeasibilityProblem([sf.Free(2)], [[[1.0, 0.0]]], [0.0], [1.0], ["r"], lmis=[lmi()])
    assert item.multiplier_count == 5
    y = item.multipliers([7.0, 1.0, 2.0, 4.0, 3.0])
    rows, (own,) = item.split(y)
    assert rows.tolist() == [7.0]
    assert own.tolist() == [[1.0, 3.0], [3.0, 3.0]]
    with pytest.raises(sf.ClaimError, match=r"expected \(5,\)"):
        item.multipliers([1.0])
    check = sf.verify(item, sf.Claim(certificate=y))
    assert check.verdict is sf.Verdict.UNDECIDED


@pytest.mark.parametrize("storage", ["dense", "sparse", "low-rank", "combined", "stacked"])
def test_values_and_adjoints_belong_together(storage):
    item = feasible_lmis(np.random.default_rng(1), ALL, TARGETS, storage=storage, rows=2).problem
    rng = np.random.default_rng(2)
    for one in item.lmis:
        point = tuple(block.symmetrize(rng.normal(size=block.shape)) for block in item.sets)
        y = one.set.symmetrize(rng.normal(size=one.set.shape))
        back = one.adjoint(y, item.sets)
        left = np.vdot(y, one.value(point) - one.constant)
        assert left == pytest.approx(sum(np.vdot(g, x) for g, x in zip(back, point, strict=True)), rel=1e-9)
        value, radius = one.enclose(point)
        assert np.all(np.abs(value - one.value(point)) <= radius + 1e-12)


# ---------------------------------------------------------------- slacks


@pytest.mark.parametrize("storage", ["dense", "sparse", "low-rank", "combined"])
@pytest.mark.parametrize("truth", [True, False])
def test_slacks_keep_evidence(storage, truth):
    plant = feasible_lmis if truth else infeasible_lmis
    item = plant(np.random.default_rng(3), ALL, TARGETS, storage=storage, rows=3)
    slacks = item.problem.slack_form
    assert not slacks.problem.lmis
    assert slacks is item.problem.slack_form
    if truth:
        forth = slacks.start_point(item.point)
        assert sf.verify(slacks.problem, sf.Claim(point=forth)).verdict is item.truth
        assert all(a is b for a, b in zip(forth, slacks.point(forth), strict=False))
    else:
        forth = slacks.start_multipliers(item.certificate)
        assert sf.verify(slacks.problem, sf.Claim(certificate=forth)).verdict is item.truth
        assert np.array_equal(slacks.multipliers(forth), item.problem.multipliers(item.certificate))


def test_slacks_hold_the_numbers_of_the_lmi_as_they_are():
    item = feasible_lmis(np.random.default_rng(6), [sf.PSD(2), sf.Free(2)], [sf.PSD(3), sf.Nonneg(2)]).problem
    made, start = item.slack_form.problem, 0
    for one in item.lmis:
        place = np.triu_indices(3) if one.set.matrix else (np.arange(2),)
        own = slice(start, start + place[0].size)
        start = own.stop
        assert np.array_equal(made.lower[own], -one.constant[place])
        for rows, coefficients in zip(made.rows[:2], one.coefficients, strict=True):
            values = coefficients.array[:, *place].T
            assert np.array_equal(rows.array.toarray()[own], values)


def test_without_lmis_the_slack_form_is_the_problem_itself():
    plain = sf.FeasibilityProblem([sf.Free(2)], [None], [], [])
    assert plain.slack_form.problem is plain


@pytest.mark.parametrize("use", [lift, presolve, primal_data])
def test_lmis_are_never_forgotten(use):
    with pytest.raises(sf.ProblemError, match="does not support LMIs"):
        use(problem(lmi()))


def test_rows_are_scaled_and_selected_beside_lmis():
    item = feasible_lmis(np.random.default_rng(4), ALL, TARGETS, rows=3)
    scaled = item.problem.scaled()
    assert scaled.problem.lmis == item.problem.lmis
    y = np.arange(1.0, item.problem.multiplier_count + 1.0)
    y = item.problem.multipliers(y)
    assert np.array_equal(scaled.multipliers(scaled.start_multipliers(y)), y)
    assert item.problem.select_rows([0]).lmis == item.problem.lmis


# ---------------------------------------------------------------- the builder


def built(terms, constant=EYE, into=None, block=None):
    builder = sf.ProblemBuilder()
    builder.block("P", sf.PSD(2) if block is None else block)
    builder.block("t", sf.Free(1))
    builder.lmi("decay", constant, terms, into=into)
    return builder.build()


def test_the_builder_takes_linear_maps():
    a = np.array([[-1.0, 2.0], [0.5, -3.0]])
    item = built({"P": lambda p: -(a.T @ p + p @ a), "t": -EYE}, constant=-0.5 * EYE)
    (one,) = item.lmis
    p = np.array([[2.0, 0.25], [0.25, 1.0]])
    expected = -(a.T @ p + p @ a) - 3.0 * EYE - 0.5 * EYE
    assert np.allclose(one.value(item.point([p, [3.0]])), expected, rtol=0, atol=1e-14)
    assert one.set == sf.PSD(2)
    assert built({"P": np.diag}, constant=[0.0, 0.0]).lmis[0].set == sf.Nonneg(2)


def test_the_builder_takes_every_form_of_coefficients():
    full = np.zeros((2, 2, 2, 2))
    full[0, 0], full[1, 1], full[0, 1], full[1, 0] = OFF, EYE, 0.5 * EYE, 0.5 * EYE
    first = built({"P": full}).content_hash
    assert isinstance(built({"P": full}).lmis[0].coefficients[0], Dense)
    flat = sp.csr_array(full.reshape(4, 4))
    p = np.array([[2.0, 0.25], [0.25, 1.0]])
    for other in (flat, Dense(full.reshape(4, 2, 2)), lambda x: x[0, 0] * OFF + (x[1, 1] + x[0, 1]) * EYE):
        item = built({"P": other})
        assert np.array_equal(item.lmis[0].value(item.point([p, [0.0]])), EYE + 2.0 * OFF + 1.25 * EYE)
    assert built({"P": Dense(full.reshape(4, 2, 2))}).content_hash == first
    for parts in ([sp.csr_array(OFF), EYE], [OFF, EYE], np.stack([OFF, EYE])):
        item = built({"P": parts}, block=sf.Nonneg(2))
        assert np.array_equal(item.lmis[0].value(item.point([[2.0, 3.0], [0.0]])), 4.0 * EYE + 2.0 * OFF)
    assert isinstance(built({"t": sp.csr_array(OFF)}).lmis[0].coefficients[1], Sparse)


def test_complex_matrices_are_taken():
    h = np.array([[2.0, 1j], [-1j, 3.0]])
    forms = [{"P": [h, EYE]}, {"P": np.array([h, EYE])}, {"P": lambda x: x[0] * h + x[1] * EYE}]
    for terms in forms:
        item = built(terms, constant=4.0 * h, block=sf.Free(2))
        (one,) = item.lmis
        assert one.set == sf.HermitianPSD(2)
        value = one.set.to_complex(one.value(item.point([[1.0, 2.0], [0.0]])))
        assert np.array_equal(value, 5.0 * h + 2.0 * EYE)
    assert sf.LMI(sf.HermitianPSD(2), 4.0 * h, [[h, EYE]]).constant.tolist() == one.constant.tolist()
    with pytest.raises(sf.ProblemError, match="not Hermitian"):
        built({"P": [h, EYE]}, constant=1j * h, block=sf.Free(2))
    with pytest.raises(sf.ProblemError, match="real array"):
        built({"P": [h, EYE]}, constant=EYE, block=sf.Free(2))


BAD_TERMS = {
    "no mapping": ([EYE], "must map names"),
    "an unknown block": ({"Q": EYE}, "no block named 'Q'"),
    "a wrong shape": ({"P": np.ones((2, 2))}, r"block P: coefficients have shape \(2, 2\)"),
    "a wrong number": ({"t": [sp.csr_array(EYE)] * 2}, "2 matrices do not match the entries of"),
    "no linear map": ({"P": lambda p: p @ p}, "not linear"),
    "the modulus": ({"P": np.abs}, "not linear"),
    "a maximum": ({"P": lambda p: np.maximum(p, -p)}, "not linear"),
    "the positive part": ({"P": lambda p: np.maximum(p, 0.0)}, "not linear"),
    "squares": ({"P": lambda p: p**2}, "not linear"),
    "linear near zero": ({"P": lambda p: np.clip(p, -100.0, 100.0)}, "not linear"),
    "linear far off": ({"P": lambda p: np.where(np.abs(p) < 0.1, 0.0, p)}, "not linear"),
    "a complex map": ({"P": lambda p: p * (1 + 0j)}, "real array"),
    "symmetric for units only": (
        {"P": lambda p: p + (p[0, 0] * p[0, 1]) * np.array([[0, 1], [-1, 0]])},
        "symm",
    ),
    "an affine map": ({"P": lambda p: p + EYE}, "not linear"),
    "a skew map": ({"P": lambda p: np.array([[1.0, 0.0], [1.0, 1.0]]) @ p}, "not symmetric"),
    "a map into vectors": ({"P": np.diag}, "shape"),
    "a map without numbers": ({"P": lambda p: np.nan * p}, "NaN"),
    "sparse of a wrong shape": ({"P": sp.csr_array((3, 4))}, "sparse coefficients"),
}


@pytest.mark.parametrize("case", BAD_TERMS)
def test_the_builder_refuses_what_is_no_lmi(case):
    terms, said = BAD_TERMS[case]
    with pytest.raises(sf.ProblemError, match=said) as refusal:
        built(terms)
    assert "decay" in str(refusal.value)


def test_the_builder_takes_no_hermitian_part_of_maps():
    skew = np.array([[1.0, 1j], [1j, 1.0]])
    third = np.array([[1.0, 1 / 3 + 1j * 1e-20], [1 / 3 - 1j * 1e-20, 1.0]])  # 1/3 + 1e-20 is rounded
    for wrong, said in ((skew, "Hermitian"), (third, "no floating-point number")):
        for form in ([wrong], lambda x, h=wrong: x[0] * h):
            with pytest.raises(sf.ProblemError, match=said):
                built({"P": form}, constant=EYE, block=sf.Free(1), into=sf.HermitianPSD(2))


def test_the_builder_refuses_names_and_constants():
    with pytest.raises(sf.ProblemError, match="square matrix or a vector"):
        built({"P": OFF}, constant=np.ones((2, 3)))
    with pytest.raises(sf.ProblemError, match="into must be a set"):
        built({}, into="PSD")
    builder = sf.ProblemBuilder()
    builder.block("x", sf.Free(1))
    builder.lmi("f", EYE, {"x": OFF})
    for again in (lambda: builder.lmi("f", EYE, {}), lambda: builder.row("f", {"x": [1.0]}, lower=0.0)):
        with pytest.raises(sf.ProblemError, match="row or LMI named 'f' already"):
            again()
