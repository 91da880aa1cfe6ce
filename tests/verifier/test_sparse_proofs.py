"""Existence proofs with sparse Gram matrices: of equality rows, and of the columns of Free blocks."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import sdpfeas as sf
from sdpfeas.backends.auto import preferred
from sdpfeas.verifier import equality_correction
from sdpfeas.verifier.gram import ScaledGram, SparseGram
from sdpfeas.verifier.multipliers import Multipliers


@pytest.fixture
def always_sparse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use sparse products for problems of any size."""
    monkeypatch.setattr(equality_correction, "SPARSE_PRODUCT_ROWS", 1)
    monkeypatch.setattr(equality_correction, "_sparse_product", lambda rows, size: True)


def integers(rng: np.random.Generator, m: int, n: int) -> np.ndarray:
    """A small sparse integer matrix, sometimes with a row twice, or twice up to its last entry."""
    table = np.asarray(rng.integers(-4, 5, (m, n)) * (rng.random((m, n)) < 0.5), dtype=float)
    table[:, :m] += np.diag(rng.integers(1, 4, m))
    if rng.random() < 0.3:
        table[-1] = table[0]
        table[-1, -1] += rng.choice([0.0, 2.0**-40])
    return table * np.ldexp(1.0, rng.integers(-60, 61, m))[:, None] if rng.random() < 0.3 else table


def noise(rng: np.random.Generator, x: np.ndarray) -> np.ndarray:
    return x + rng.choice([0.0, 1e-15, 1e-10, 1e-6, 1e-2]) * np.abs(x) * rng.normal(size=x.shape)


def test_planted_points_are_never_refuted_nor_planted_certificates(always_sparse: None) -> None:
    """Claims of both kinds about problems with integer data and exactly known answer."""
    proved = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        m, n = 3, 6
        table = integers(rng, m, n)
        kind = sf.Nonneg(n) if seed % 2 else sf.Free(n)
        if seed % 3:
            x = rng.integers(1, 9, n).astype(float)
            rhs = table @ x  # exact: products of small integers and powers of two
            problem = sf.FeasibilityProblem([kind], [sp.csr_array(table)], rhs, rhs)
            claim = sf.Claim(point=(noise(rng, x),), certificate=rng.normal(size=m))
            wrong = sf.Verdict.INFEASIBLE
        else:
            # y'A = 0 exactly by a last row, and y'b = 1 > 0.
            y = rng.integers(1, 5, m).astype(float)
            table = np.vstack([table, -(y @ table)])
            rhs = np.append(np.zeros(m), 1.0)
            problem = sf.FeasibilityProblem([kind], [sp.csr_array(table)], rhs, rhs)
            claim = sf.Claim(point=(rng.normal(size=n) ** 2,), certificate=noise(rng, np.append(y, 1.0)))
            wrong = sf.Verdict.FEASIBLE
            if not np.array_equal(np.append(y, 1.0) @ table, np.zeros(n)):
                continue  # rounded: the answer is not known
        check = sf.verify(problem, claim, rigorous=True)
        assert check.verdict != wrong, seed
        proved += check.verdict != sf.Verdict.UNDECIDED
    assert proved > 100


def sparse_table(rng: np.random.Generator, m: int, n: int) -> sp.csr_array:
    random = sp.random_array((m, n), density=4.0 / m, rng=rng, data_sampler=rng.standard_normal)
    return sp.csr_array(random + sp.csr_array(sp.eye_array(m, n)))


def test_many_sparse_rows_are_proved_with_either_factor() -> None:
    rng = np.random.default_rng(0)
    band = sp.diags_array([np.ones(1200), 0.25 * np.ones(1200)], offsets=[0, 1], shape=(1200, 1201))
    for table, kind in ((sparse_table(rng, 1200, 2000), ScaledGram), (sp.csr_array(band), SparseGram)):
        x = rng.uniform(0.5, 1.5, table.shape[1])
        rhs = table @ x
        problem = sf.FeasibilityProblem([sf.Nonneg(x.size)], [table], rhs, rhs)
        (system,) = equality_correction.correction_systems(problem, (x,))
        assert isinstance(system.solver, kind)
        check = sf.verify(problem, sf.Claim(point=(x,)), rigorous=True)
        assert (check.verdict, check.proof) == ("feasible", "rigorous")
        twice = sp.vstack([table, table[:1]], format="csr")
        other = sf.FeasibilityProblem(
            [sf.Nonneg(x.size)], [twice], np.append(rhs, rhs[0] + 1.0), np.append(rhs, rhs[0] + 1.0)
        )
        assert sf.verify(other, sf.Claim(point=(x,)), rigorous=True).verdict != "feasible"


def free_problem(rng: np.random.Generator) -> tuple[sf.FeasibilityProblem, np.ndarray]:
    """``A x <= b`` on a Free block with 1,100 columns, and a Farkas certificate up to rounding."""
    table = sparse_table(rng, 1800, 1100)
    y = rng.uniform(0.5, 1.5, 1800)
    last = sp.csr_array(-(table.T @ y)[None, :])
    rows, y = sp.vstack([table, last], format="csr"), np.append(y, 1.0)
    b = rng.normal(size=y.size)
    b -= (b @ y + 1.0) / (y @ y) * y
    return sf.FeasibilityProblem([sf.Free(1100)], [rows], np.full(y.size, -np.inf), b), -y


def test_certificates_on_large_free_blocks() -> None:
    problem, y = free_problem(np.random.default_rng(1))
    check = sf.verify(problem, sf.Claim(certificate=y), rigorous=True)
    assert (check.verdict, check.proof) == ("infeasible", "rigorous")
    wrong = np.abs(np.random.default_rng(2).normal(size=y.size)) * -1.0
    given = Multipliers(problem, wrong)
    system, index = next(given.systems([]))
    assert system.out_of_reach(given.residual[index])
    assert sf.verify(problem, sf.Claim(certificate=wrong), rigorous=True).verdict == "undecided"


def test_large_linear_programs_go_to_clarabel_first() -> None:
    rng = np.random.default_rng(0)
    for m, n, first in ((30, 50, "spectral-ipm"), (1200, 2000, "clarabel")):
        rhs = np.ones(m)
        problem = sf.FeasibilityProblem([sf.Nonneg(n)], [sparse_table(rng, m, n)], rhs, rhs)
        assert preferred(problem)[0][0] == first
        cones = [sf.SecondOrder(10)] * (n // 10)
        blocks = [sp.csr_array(sparse_table(rng, m, 10)) for _ in cones]
        assert preferred(sf.FeasibilityProblem(cones, blocks, rhs, rhs))[0][0] == "spectral-ipm"
