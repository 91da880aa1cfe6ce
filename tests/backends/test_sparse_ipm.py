"""The sparse interior-point method: linear algebra, verdicts, limits and degenerate problems."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from iterations import iterate_once
from strategies import scattered

import sdpfeas as sf
from sdpfeas.backends.dispatch import dispatch_program
from sdpfeas.backends.ipm import schur_complement as schur_module
from sdpfeas.backends.ipm import spectral_ipm as backend_module
from sdpfeas.backends.ipm.normal_equations import SparseNormalEquations
from sdpfeas.backends.ipm.primal_dual_forms import PrimalForm
from sdpfeas.backends.ipm.schur_complement import SchurComplement
from sdpfeas.backends.ipm.sparse_cones import HkmIterate, in_interior
from sdpfeas.backends.ipm.sparse_system import SparseSystem
from sdpfeas.backends.ipm.standard_form import ConeBlock, StandardForm
from sdpfeas.families import planted
from sdpfeas.numerics import limits
from sdpfeas.problem.objective import ConicProgram

SEEDS = st.integers(0, 2**32 - 1)

#: Sides of the matrices, then numbers; and how many entries a row has on each of them.
SHAPES: dict[str, tuple[list[int], int, int]] = {
    "single entries": ([6], 0, 1),
    "few entries": ([7], 3, 3),
    "dense rows": ([4, 4], 2, 100),
    "many small": ([2] * 9 + [1] * 4, 5, 1),
    "different sizes": ([1, 3, 3, 5], 1, 2),
    "numbers only": ([], 6, 2),
    "second order": ([], 2, 2),
    "second order and matrices": ([3, 3], 1, 2),
}

#: Dimensions of second-order cones beside them: several of one, and one beyond what is written out.
CURVED = [3, 2, 3, 3, 12]


def random_cones(rng: np.random.Generator, m: int, shape: str, dense_row: bool) -> list[ConeBlock]:
    """Cones with random sparse rows; the last row may be dense."""
    sides, lines, entries = SHAPES[shape]
    cones = []
    for n in sides:
        full = np.zeros((m, n, n))
        for row in full:
            for _ in range(min(entries, n * n)):
                i, j = rng.integers(n, size=2)
                row[i, j] = row[j, i] = rng.normal() if rng.random() < 0.8 else 0.0
        if dense_row:
            full[-1] = 1.0
        cones.append(ConeBlock(n, sp.csr_array(full.reshape(m, -1)), rng.normal() * np.eye(n).reshape(-1)))
    curved = CURVED if shape.startswith("second order") else []
    cones += [ConeBlock(0, scattered(rng, m, n, 0.5), rng.normal(size=n), second_order=True) for n in curved]
    if lines:
        cones.append(ConeBlock(0, scattered(rng, m, lines, 0.4), rng.normal(size=lines)))
    return cones


def random_iterate(rng: np.random.Generator, form: StandardForm) -> HkmIterate:
    found = []
    for _ in range(2):
        flat = rng.uniform(0.5, 2.0, size=form.size)
        for group in form.psd_groups:
            root = rng.normal(size=(group.count, group.n, group.n + 2))
            group.view(flat)[:] = root @ np.swapaxes(root, 1, 2)
        for cones in form.second_order_groups:
            vectors = rng.normal(size=(cones.count, cones.n))
            vectors[:, 0] = np.linalg.norm(vectors[:, 1:], axis=1) * rng.uniform(1.01, 3.0, cones.count)
            cones.view(flat)[:] = vectors
        found.append(flat)
    return HkmIterate(form, *found)


def test_second_order_directions_solve_the_linearised_equation() -> None:
    """``x dz + z dx`` in the scaled algebra: both sides of the linearised equation, at random vectors."""
    rng = np.random.default_rng(3)
    form = StandardForm.from_cones(
        [ConeBlock(0, sp.csr_array((1, n)), second_order=True) for n in CURVED], np.zeros(1)
    )
    iterate = random_iterate(rng, form)
    # sym(x z z^-1) = x, and the Jordan product of z and z^-1 is the identity.
    assert np.allclose(iterate.apply_hkm(iterate.z), iterate.x)
    for cones in form.second_order_groups:
        z, inverse = cones.view(iterate.z), cones.view(iterate.inverse_dual())
        assert np.allclose(np.sum(z * inverse, axis=1), 1.0)
        assert np.allclose(z[:, :1] * inverse[:, 1:] + inverse[:, :1] * z[:, 1:], 0.0)
    change = rng.normal(size=form.size)
    primal, _ = iterate.max_steps(change, change)
    for share, fine in ((0.999, True), (1.001, False)):
        assert in_interior(form, iterate.x + share * primal * change) == fine


def as_array(matrix) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sparse", [False, True])
@settings(max_examples=8)
@given(seed=SEEDS, dense_row=st.booleans())
def test_schur_complement_equals_its_definition(shape, sparse, seed, dense_row) -> None:
    """For every formula that may be chosen for a row, and for dense and sparse sums."""
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        if sparse:
            patch.setattr(schur_module, "SPARSE_SCHUR_ROWS", 0)
            patch.setattr(schur_module, "SPARSE_SCHUR_SHARE", 1e9)
        patch.setattr(schur_module, "CHUNK_NUMBERS", int(rng.integers(1, 200)))
        patch.setattr(schur_module, "MATRIX_OVERHEAD_NS", float(rng.choice([0.0, 1e9])))
        patch.setattr(schur_module, "PRODUCT_OVERHEAD_NS", float(rng.choice([0.0, 1e9])))
        patch.setattr(schur_module, "ENTRY_PAIR_NS", float(rng.choice([1e-3, 1.0, 1e9])))
        patch.setattr(schur_module, "BATCH_SIDE", int(rng.choice([0, 3, 40])))
        form = StandardForm.from_cones(random_cones(rng, 8, shape, dense_row), np.zeros(8))
        complement = SchurComplement(form)
        assert complement.sparse == sparse
        rows = form.rows.toarray()
        for iterate in (random_iterate(rng, form), HkmIterate.multiples_of_identity(form, 3.0, 0.7)):
            expected = rows @ np.array([iterate.apply_hkm(row) for row in rows]).T
            size = np.abs(expected).max(initial=1e-300)
            # A sum that fills in becomes dense on the way.
            for stored in (sparse, not sparse):
                complement.sparse = stored
                found = complement.at(iterate)
                assert sp.issparse(found) == stored
                assert np.allclose(as_array(found), expected, atol=1e-9 * size)


@given(seed=SEEDS, shape=st.sampled_from(sorted(SHAPES)), free=st.integers(0, 2))
def test_a_step_shrinks_every_residual_alike(seed, shape, free) -> None:
    """Newton directions solve the linear equations exactly, so residuals shrink by one common factor."""
    rng = np.random.default_rng(seed)
    m = 5
    columns = sp.csr_array(rng.normal(size=(m, free)))
    cones = [
        replace(c, rows=c.rows + sp.random_array(c.rows.shape, density=0.0))
        for c in random_cones(rng, m, shape, True)
    ]
    # Make the rows linearly independent.
    cones.append(ConeBlock(0, sp.eye_array(m, format="csr")))
    form = StandardForm.from_cones(cones, rng.normal(size=m), columns, rng.normal(size=free))
    core = SparseSystem(SimpleNamespace(form=form))

    def residuals() -> np.ndarray:
        return np.concatenate([core.r_primal, core.r_dual, core.r_free, [core.r_gap]])

    before, mu = residuals(), core.mu
    iterate_once(core)
    size = np.linalg.norm(before)
    share = float(residuals() @ before) / size**2
    assert share < 1.0
    assert np.linalg.norm(residuals() - share * before) < 1e-8 * size
    assert core.mu < mu


@pytest.mark.parametrize("free", [0, 2])
def test_sparse_systems_are_solved(free) -> None:
    rng = np.random.default_rng(free)
    root = scattered(rng, 30, 30, 0.05)
    schur = sp.csc_array(root @ root.T + sp.eye_array(30))
    columns = sp.csr_array(rng.normal(size=(30, free)))
    r1, r2 = rng.normal(size=30), rng.normal(size=free)
    y, u = SparseNormalEquations(schur, columns).solve(r1, r2)
    assert np.allclose(schur @ y + columns @ u, r1, atol=1e-9)
    assert np.allclose(columns.T @ y, r2, atol=1e-9)


@pytest.mark.parametrize(("density", "sparse"), [(0.002, True), (0.01, False)])
def test_factors_that_fill_in_become_dense(density, sparse) -> None:
    rng = np.random.default_rng(0)
    m, n = 450, 900
    rows = sp.csr_array(sp.hstack([scattered(rng, m, n, density), sp.eye_array(m)]))
    right = rows @ rng.uniform(0.5, 2.0, n + m)
    problem = sf.FeasibilityProblem([sf.Nonneg(n + m)], [rows], right, right)
    system = SparseSystem(PrimalForm(problem))
    assert system.schur.sparse
    iterate_once(system)
    assert system.schur.sparse == sparse
    before = system.mu
    iterate_once(system)
    assert system.mu < before


MIXES = sorted(name for name in planted.set_mixes() if "box" not in name and name != "all")


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("bounds", planted.BOUNDS)
@pytest.mark.parametrize("scale", [1, 4])
def test_planted_problems_of_every_kind_are_decided(mix, bounds, scale) -> None:
    rng = np.random.default_rng(7)
    sets = planted.set_mixes(scale)[mix]
    for make in (planted.feasible, planted.infeasible):
        question = make(rng, sets, bounds=bounds)
        result = sf.solve(question.problem, "spectral-ipm", time_limit=20)
        assert result.verdict is question.truth, (make.__name__, result.explain())


def small_problems() -> dict[str, tuple[sf.FeasibilityProblem, str]]:
    eye = np.eye(3)[None]
    many = 40
    blocks = [sf.PSD(2)] * many
    one = [np.zeros((many, 2, 2)) for _ in range(many)]
    for k, rows in enumerate(one):
        rows[k] = np.eye(2)
    units = np.array([np.outer(e, e) for e in np.eye(6)])
    return {
        "one row": (sf.FeasibilityProblem([sf.PSD(3)], [eye], [1.0], [1.0]), "feasible"),
        "one row against it": (sf.FeasibilityProblem([sf.PSD(3)], [eye], [-1.0], [-1.0]), "infeasible"),
        "no rows": (sf.FeasibilityProblem([sf.PSD(3)], [None], [], []), "feasible"),
        "a block without rows": (
            sf.FeasibilityProblem([sf.PSD(3), sf.PSD(2), sf.Nonneg(2)], [eye, None, None], [1.0], [2.0]),
            "feasible",
        ),
        "sides of one": (
            sf.FeasibilityProblem(
                [sf.PSD(1), sf.PSD(1)], [np.ones((1, 1, 1)), -np.ones((1, 1, 1))], [1], [1]
            ),
            "feasible",
        ),
        "many small blocks": (
            sf.FeasibilityProblem(blocks, one, np.arange(1.0, many + 1), np.arange(1.0, many + 1)),
            "feasible",
        ),
        "one of many is infeasible": (
            sf.FeasibilityProblem(
                blocks, one, np.append(np.ones(many - 1), -1.0), np.append(np.ones(many - 1), -1.0)
            ),
            "infeasible",
        ),
        "a dense row among sparse ones": (
            sf.FeasibilityProblem(
                [sf.PSD(6)],
                [np.concatenate([units, np.ones((1, 6, 6))])],
                np.append(np.ones(6), 3.0),
                np.append(np.ones(6), 3.0),
            ),
            "feasible",
        ),
        "off the diagonal too large": (
            sf.FeasibilityProblem(
                [sf.PSD(2)],
                [np.array([[[1.0, 0], [0, 0]], [[0, 0], [0, 1.0]], [[0, 0.5], [0.5, 0]]])],
                [1.0, 1.0, 1.5],
                [1.0, 1.0, 1.5],
            ),
            "infeasible",
        ),
    }


@pytest.mark.parametrize("name", small_problems())
def test_small_and_odd_shapes(name) -> None:
    problem, truth = small_problems()[name]
    result = sf.solve(problem, "spectral-ipm", time_limit=20)
    assert str(result.verdict) == truth, result.explain()
    assert result.proof is not sf.Proof.NUMERIC


@pytest.mark.parametrize("power", [-40, 40])
def test_scaled_rows_do_not_move_a_verdict(power) -> None:
    rng = np.random.default_rng(5)
    for make in (planted.feasible, planted.infeasible):
        question = make(rng, [sf.PSD(5), sf.Nonneg(3)])
        problem, s = (
            question.problem,
            2.0 ** (power * np.arange(question.problem.m) / question.problem.m // 1),
        )
        rows = [r.scaled(s) for r in problem.rows]
        scaled = sf.FeasibilityProblem(problem.sets, rows, problem.lower * s, problem.upper * s)
        assert sf.solve(scaled, "spectral-ipm", time_limit=20).verdict is question.truth


def test_a_problem_without_interior_is_never_proved_wrong() -> None:
    """Only [[0, 0], [0, 1]] is feasible, and arbitrarily close problems are infeasible."""
    rows = np.array([[[1.0, 0], [0, 0]], [[0, 0], [0, 1.0]]])
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], [0.0, 1.0], [0.0, 1.0])
    assert sf.solve(problem, "spectral-ipm", time_limit=20).verdict is not sf.Verdict.INFEASIBLE


def sparse_problem(m: int, n: int) -> sf.FeasibilityProblem:
    rng = np.random.default_rng(0)
    i, j = rng.integers(n, size=(2, m))
    k = np.arange(m)
    half = (np.full(2 * m, 0.5), (np.concatenate([k, k]), np.concatenate([i * n + j, j * n + i])))
    return sf.FeasibilityProblem(
        [sf.PSD(n)], [sp.csr_array(half, shape=(m, n * n))], (i == j) * 1.0, (i == j) * 1.0
    )


def test_the_time_limit_holds() -> None:
    result = sf.solve(sparse_problem(1500, 120), "spectral-ipm", time_limit=0.02)
    assert result.verdict is sf.Verdict.UNDECIDED
    assert result.overshoot < 5.0


def test_memory_is_checked_before_allocation(monkeypatch) -> None:
    monkeypatch.setattr(limits, "UNCHECKED_BYTES", 0)
    monkeypatch.setattr(limits, "available_memory", lambda: 1e6)
    result = sf.solve(sparse_problem(400, 60), "spectral-ipm")
    assert result.verdict is sf.Verdict.UNDECIDED
    assert "memory" in result.raw_status


def test_a_callback_stops_it() -> None:
    problem = planted.feasible(np.random.default_rng(1), [sf.PSD(6)]).problem
    result = sf.solve(problem, "spectral-ipm", callback=lambda progress: True)
    assert result.stop in (sf.Stop.CALLBACK, sf.Stop.FINISHED)


# --- LMIs


def random_map(rng: np.random.Generator, block, target, density: float) -> np.ndarray:
    """Coefficients of a linear map from a block into a set, symmetric in mirrored entries."""
    out = rng.normal(size=(block.entries, *target.shape)) * (
        rng.random((block.entries, *target.shape)) < density
    )
    if target.matrix:
        out = 0.5 * (out + out.transpose(0, 2, 1))
    if block.matrix:
        square = out.reshape(block.n, block.n, *target.shape)
        out = (0.5 * (square + square.swapaxes(0, 1))).reshape(out.shape)
    return out


def inside_of(rng: np.random.Generator, block) -> np.ndarray:
    if block.free:
        return rng.normal(size=block.n)
    if not block.matrix:
        return rng.uniform(0.5, 2.0, size=block.n)
    root = rng.normal(size=(block.n, block.n + 2))
    return root @ root.T


LMI_MIXES = {
    "an inequality": ([sf.Free(5)], [sf.PSD(4)]),
    "many small": ([sf.Free(6)], [sf.PSD(2)] * 8 + [sf.Nonneg(3)]),
    "of matrices": ([sf.PSD(3)], [sf.PSD(4), sf.PSD(3)]),
    "of everything": ([sf.Free(3), sf.PSD(3), sf.Nonneg(2)], [sf.PSD(3), sf.Nonneg(4), sf.PSD(1)]),
}


def planted_lmis(rng: np.random.Generator, mix: str, feasible: bool, rows: int) -> sf.FeasibilityProblem:
    """LMIs with a planted strictly feasible point, or with a planted certificate."""
    sets, targets = LMI_MIXES[mix]
    maps = [[random_map(rng, block, target, 0.6) for block in sets] for target in targets]
    a = [rng.normal(size=(rows, *block.shape)) for block in sets]
    a = [part + part.transpose(0, 2, 1) if part.ndim == 3 else part for part in a]
    lower, upper = np.full(rows, -np.inf), np.full(rows, np.inf)
    if feasible:
        point = [inside_of(rng, block) for block in sets]
        values = sum(np.tensordot(part, x, x.ndim) for part, x in zip(a, point, strict=True))
        kind = np.arange(rows) % 3
        lower = np.where(kind < 2, values - (kind == 1), -np.inf)
        upper = np.where(kind != 1, values + (kind == 2), np.inf)
        constants = [
            inside_of(rng, target)
            - sum(np.tensordot(x.reshape(-1), m, 1) for x, m in zip(point, own, strict=True))
            for target, own in zip(targets, maps, strict=True)
        ]
    else:
        # The first LMI gives B*Y its required value on every block: zero, or interior to the polar cone.
        duals = [inside_of(rng, target) for target in targets]
        for b, block in enumerate(sets):
            wanted = np.zeros(block.shape) if block.free else -inside_of(rng, block)
            size = float(np.sum(duals[0] ** 2))
            found = sum(
                own[b].reshape(block.entries, -1) @ y.reshape(-1) for own, y in zip(maps, duals, strict=True)
            )
            off = (wanted.reshape(-1) - found) / size
            maps[0][b] = maps[0][b] + np.multiply.outer(off, duals[0])
        constants = [inside_of(rng, target) for target in targets]
        total = sum(float(np.sum(c * y)) for c, y in zip(constants, duals, strict=True))
        constants[0] = constants[0] - (1.0 + total) / float(np.sum(duals[0] ** 2)) * duals[0]
        a, rows, lower, upper = [None] * len(sets), 0, [], []
    lmis = [
        sf.LMI(
            target,
            0.5 * (c + c.T) if target.matrix else c,
            [mirrored_map(m, block) for m, block in zip(own, sets, strict=True)],
        )
        for target, c, own in zip(targets, constants, maps, strict=True)
    ]
    return sf.FeasibilityProblem(sets, a if rows else [None] * len(sets), lower, upper, lmis=lmis)


def mirrored_map(values: np.ndarray, block) -> np.ndarray:
    """Make mirrored entries equal to the last bit, on both sides."""
    if values.ndim == 3:
        values = 0.5 * (values + values.transpose(0, 2, 1))
    if not block.matrix:
        return values
    square = values.reshape(block.n, block.n, *values.shape[1:])
    return (0.5 * (square + square.swapaxes(0, 1))).reshape(values.shape)


@pytest.mark.parametrize("mix", LMI_MIXES)
@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("way", ["unknowns", "rows"])
def test_planted_lmis_are_decided_either_way(mix, rows, way, monkeypatch) -> None:
    monkeypatch.setattr(backend_module, "dual_form_is_cheaper", lambda problem: way == "unknowns")
    rng = np.random.default_rng(rows)
    for feasible in (True, False):
        problem = planted_lmis(rng, mix, feasible, rows)
        result = sf.solve(problem, "spectral-ipm", time_limit=20)
        assert result.verdict is (sf.Verdict.FEASIBLE if feasible else sf.Verdict.INFEASIBLE), (
            result.explain()
        )


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("bounds", planted.BOUNDS)
def test_dual_form_gives_the_same_verdicts(mix, bounds, monkeypatch) -> None:
    """The dual form gives the same verdicts as the primal form."""
    monkeypatch.setattr(backend_module, "dual_form_is_cheaper", lambda problem: True)
    rng = np.random.default_rng(3)
    for make in (planted.feasible, planted.infeasible):
        question = make(rng, planted.set_mixes()[mix], bounds=bounds)
        result = sf.solve(question.problem, "spectral-ipm", time_limit=20)
        assert result.verdict is question.truth, result.explain()


def test_cheaper_form_is_chosen_by_flop_count() -> None:
    cheaper = backend_module.dual_form_is_cheaper
    many = np.random.default_rng(0).normal(size=(500, 3, 3))
    problem = sf.FeasibilityProblem(
        [sf.PSD(3)], [many + many.transpose(0, 2, 1)], np.full(500, -1.0), np.full(500, np.inf)
    )
    assert cheaper(problem)
    units = np.array([np.outer(e, e) for e in np.eye(20)])
    assert not cheaper(sf.FeasibilityProblem([sf.PSD(20)], [units], np.ones(20), np.ones(20)))
    lmi = sf.LMI(sf.PSD(20), np.eye(20), [units])
    assert cheaper(sf.FeasibilityProblem([sf.Free(20)], [None], [], [], lmis=[lmi]))


def odd_lmis() -> dict[str, tuple[sf.FeasibilityProblem, str]]:
    free = [sf.Free(2)]
    none: list = [[None], [], []]
    zero = np.zeros((1, 2))
    ball = sf.LMI(sf.PSD(2), np.eye(2), [np.array([[[0.0, 1], [1, 0]], [[1.0, 0], [0, -1]]])])
    return {
        "an unknown that nothing depends on": (
            sf.FeasibilityProblem(
                free, *none, lmis=[sf.LMI(sf.PSD(1), [[-1.0]], [np.array([[[1.0]], [[0.0]]])])]
            ),
            "feasible",
        ),
        "a constant that is inside": (
            sf.FeasibilityProblem(free, *none, lmis=[sf.LMI(sf.PSD(2), np.eye(2), [None])]),
            "feasible",
        ),
        "a constant that is not": (
            sf.FeasibilityProblem(free, *none, lmis=[sf.LMI(sf.PSD(2), np.diag([1.0, -1.0]), [None]), ball]),
            "infeasible",
        ),
        "an empty row that holds": (
            sf.FeasibilityProblem(free, [zero], [0.0], [0.0], lmis=[ball]),
            "feasible",
        ),
        "an empty row that does not": (
            sf.FeasibilityProblem(free, [zero], [1.0], [1.0], lmis=[ball]),
            "infeasible",
        ),
        "a row without bounds": (
            sf.FeasibilityProblem(free, [zero + 1.0], [-np.inf], [np.inf], lmis=[ball]),
            "feasible",
        ),
        "a box among them": (
            sf.FeasibilityProblem(
                [sf.SpectralBox(2, trace=1.0)],
                *none,
                lmis=[sf.LMI(sf.PSD(1), [[-0.4]], [np.array([[[1.0]], [[0.0]], [[0.0]], [[0.0]]])])],
            ),
            "feasible",
        ),
    }


@pytest.mark.parametrize("name", odd_lmis())
def test_odd_lmis(name) -> None:
    problem, truth = odd_lmis()[name]
    result = sf.solve(problem, "spectral-ipm", time_limit=20)
    assert str(result.verdict) == truth, result.explain()


def test_auto_stops_without_strictly_feasible_points() -> None:
    """X e = 0 excludes strictly feasible points; backends that need one are not tried."""
    n = 12
    units = np.array([np.outer(e, e) for e in np.eye(n)])
    rows = np.concatenate([units, np.ones((1, n, n))])
    right = np.append(np.ones(n), 0.0)
    problem = sf.FeasibilityProblem([sf.PSD(n)], [rows], right, right)
    result = sf.solve(problem, "auto", time_limit=20)
    assert result.verdict is not sf.Verdict.INFEASIBLE
    if result.proof is None:
        assert result.claim.info["no_interior"]
        assert len(result.claim.info["tried"]) == 1


def test_thin_interior_is_found() -> None:
    """The same problem with a thin interior: a point is found and proved."""
    n = 12
    units = np.array([np.outer(e, e) for e in np.eye(n)])
    rows = np.concatenate([units, np.ones((1, n, n))])
    right = np.append(np.ones(n), 1e-5)
    problem = sf.FeasibilityProblem([sf.PSD(n)], [rows], right, right)
    result = sf.solve(problem, "spectral-ipm", time_limit=20)
    assert result.verdict is sf.Verdict.FEASIBLE
    assert result.proof is not sf.Proof.NUMERIC


# --- Objectives


def bounded_programs() -> dict[str, ConicProgram]:
    rng = np.random.default_rng(4)
    n = 8
    units = np.array([np.outer(e, e) for e in np.eye(n)])
    weights = rng.normal(size=(n, n))
    cut = sf.FeasibilityProblem([sf.PSD(n)], [units], np.ones(n), np.ones(n))
    mixed = sf.FeasibilityProblem(
        [sf.PSD(4), sf.Nonneg(3), sf.Free(2)],
        [
            np.array([np.eye(4), np.zeros((4, 4))]),
            np.array([[1.0, 1, 1], [0, 0, 1]]),
            np.array([[0.0, 0], [1, 1]]),
        ],
        [-np.inf, 1.0],
        [2.0, 1.0],
    )
    terms = (rng.normal(size=(4, 4)), rng.normal(size=3), np.zeros(2))
    return {
        "max-cut": ConicProgram(cut, (0.5 * (weights + weights.T),)),
        "mixed": ConicProgram(mixed, (0.5 * (terms[0] + terms[0].T), *terms[1:])),
    }


@pytest.mark.parametrize("name", bounded_programs())
@pytest.mark.parametrize("way", ["unknowns", "rows"])
def test_optimal_values_are_met_by_their_bounds(name, way, monkeypatch) -> None:
    """The point is feasible, the multipliers bound the value, and both agree."""
    monkeypatch.setattr(backend_module, "dual_form_is_cheaper", lambda problem: way == "unknowns")
    program = bounded_programs()[name]
    problem = program.problem
    claim = backend_module.SpectralIpm().maximise(program, sf.Inquiry(problem))
    assert claim.stop in (sf.Stop.FINISHED, sf.Stop.STALLED)
    value = program.value(claim.point)
    values = problem.apply(claim.point)
    assert np.all(values >= problem.lower - 1e-6)
    assert np.all(values <= problem.upper + 1e-6)
    g = [c + part for c, part in zip(program.objective, problem.adjoint(claim.certificate), strict=True)]
    for block, part in zip(problem.sets, g, strict=True):
        top = np.abs(part).max() if block.free else block.spectrum(part).max()
        assert top <= 1e-6
    assert value == pytest.approx(-problem.beta_terms(claim.certificate).sum(), rel=1e-5, abs=1e-6)


def test_every_iterate_is_reported_and_can_stop_the_run() -> None:
    program = bounded_programs()["max-cut"]
    seen = []

    def listen(progress) -> bool:
        seen.append(progress.gap)
        return len(seen) == 4

    claim = backend_module.SpectralIpm().maximise(program, sf.Inquiry(program.problem, listener=listen))
    assert claim.stop is sf.Stop.CALLBACK
    assert len(seen) == 4
    assert claim.point is not None


def test_an_objective_over_lmis_needs_no_slacks() -> None:
    """The largest x with I - x F inside is the inverse of the largest eigenvalue of F."""
    rng = np.random.default_rng(6)
    f = rng.normal(size=(7, 7))
    f = 0.5 * (f + f.T)
    problem = sf.FeasibilityProblem(
        [sf.Free(1)], [None], [], [], lmis=[sf.LMI(sf.PSD(7), np.eye(7), [-f[None]])]
    )
    program = ConicProgram(problem, (np.ones(1),))
    claim = dispatch_program(backend_module.SpectralIpm(), program, sf.Inquiry(problem))
    expected = 1.0 / np.linalg.eigvalsh(f)[-1]
    assert claim.point[0][0] == pytest.approx(expected, rel=1e-6)
    _, (y,) = problem.split(claim.certificate)
    assert np.linalg.eigvalsh(y)[0] >= -1e-9
    assert np.vdot(y, f) == pytest.approx(1.0, rel=1e-6)
    assert np.trace(y) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("storage", ["dense", "low-rank"])
def test_second_order_cones_stay_vectors(storage) -> None:
    """The sparse method takes them as vectors; with low-rank rows they become matrices."""
    rng = np.random.default_rng(5)
    sets = [sf.SecondOrder(3)] * 4 + [sf.SecondOrder(1), sf.SecondOrder(20), sf.PSD(3)]
    for planting, verdict in (
        (planted.feasible, sf.Verdict.FEASIBLE),
        (planted.infeasible, sf.Verdict.INFEASIBLE),
    ):
        result = sf.solve(planting(rng, sets, rows=8, storage=storage).problem, "spectral-ipm")
        assert result.verdict is verdict
        assert result.proof is sf.Proof.RIGOROUS
