"""Problems as users write them, with every equation that holds: decided, and rigorously.

The two-qubit Werner state ``p |singlet><singlet| + (1 - p) I/4`` has a symmetric extension to two copies of
the second qubit exactly if p <= 2/3. All equations of both partial traces and of the swap are written down.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from strategies import scattered

import sdpfeas as sf
from sdpfeas.numerics.integer_matrices import combinations, lift
from sdpfeas.problem.reductions.redundant_rows import independent_rows

#: Exchanges the two copies.
SWAP = np.kron(np.eye(2), np.eye(4)[[0, 2, 1, 3]])


def werner(p: float) -> np.ndarray:
    singlet = np.zeros((4, 4))
    singlet[1, 1] = singlet[2, 2] = 0.5
    singlet[1, 2] = singlet[2, 1] = -0.5
    return p * singlet + (1.0 - p) * np.eye(4) / 4.0


def units(n: int, real: bool) -> Iterator[np.ndarray]:
    """Hermitian, or symmetric, matrices with a one (or i) in one place and its mirror image."""
    for i in range(n):
        for j in range(i, n):
            for entry in (1.0, 1j)[: 1 if real or i == j else 2]:
                out = np.zeros((n, n), dtype=complex)
                out[i, j], out[j, i] = entry, np.conj(entry)
                yield out.real if real else out


def extension(p: float, real: bool) -> sf.FeasibilityProblem:
    builder = sf.ProblemBuilder()
    builder.block("state", sf.PSD(8) if real else sf.HermitianPSD(8))
    for k, unit in enumerate(units(4, real)):
        bound = float(np.vdot(unit, werner(p)).real)
        first = np.kron(unit, np.eye(2))
        builder.row(f"first copy {k}", {"state": first}, lower=bound, upper=bound)
        builder.row(f"second copy {k}", {"state": SWAP @ first @ SWAP}, lower=bound, upper=bound)
    for k, unit in enumerate(units(8, real)):
        builder.row(f"swap {k}", {"state": unit - SWAP @ unit @ SWAP}, lower=0.0, upper=0.0)
    return builder.build()


def model(p: float, real: bool):
    import cvxpy as cp

    state = cp.Variable((8, 8), symmetric=True) if real else cp.Variable((8, 8), hermitian=True)
    return cp.Problem(
        cp.Minimize(0),
        [
            state >> 0,
            cp.partial_trace(state, (4, 2), axis=1) == werner(p),
            cp.partial_trace(SWAP @ state @ SWAP, (4, 2), axis=1) == werner(p),
            SWAP @ state @ SWAP == state,
        ],
    )


@pytest.mark.parametrize("real", [True, False])
@pytest.mark.parametrize("form", [extension, model])
def test_symmetric_extensions_of_werner_states_are_decided(form, real: bool) -> None:
    for p, truth in ((0.666, sf.Verdict.FEASIBLE), (0.6673, sf.Verdict.INFEASIBLE)):
        found = sf.solve(form(p, real), "auto", time_limit=60)
        assert (found.verdict, found.proof) == (truth, sf.Proof.RIGOROUS), found.explain()


@pytest.mark.parametrize("backend", ["spectral-ipm", "clarabel", "scs", "admm"])
def test_redundant_equations_are_no_obstacle_to_backends(backend: str) -> None:
    for p, truth in ((0.5, sf.Verdict.FEASIBLE), (0.8, sf.Verdict.INFEASIBLE)):
        found = sf.solve(extension(p, False), backend, time_limit=60)
        assert (found.verdict, found.proof) == (truth, sf.Proof.RIGOROUS), found.explain()


def test_wrong_states_contradict_themselves() -> None:
    """The two copies are to look different: no semidefinite cone is needed to see that."""
    problem = extension(0.5, False)
    bounds = np.array(problem.lower)
    bounds[problem.row_names.index("second copy 3")] += 0.125
    twin = sf.FeasibilityProblem(problem.sets, problem.rows, bounds, bounds)
    found = sf.solve(twin, "auto", time_limit=60)
    assert found.verdict is sf.Verdict.INFEASIBLE
    assert found.proof is not sf.Proof.NUMERIC


# ---------------------------------------------------------------- large ones, and no simple fractions


def many(
    rng: np.random.Generator, block: sf.problem.sets.BlockSet, m: int
) -> tuple[sp.csr_array, np.ndarray]:
    """Sparse rows of integers, each sharing an entry with the next, and some that follow from others."""
    n = block.n
    i, j = np.triu_indices(n, 1)
    pick = rng.permutation(i.size)[: m + 1]
    upper, lower = i[pick] * n + j[pick], j[pick] * n + i[pick]
    columns = np.stack([upper[:-1], lower[:-1], upper[1:], lower[1:]], 1).ravel()
    plain = sp.csr_array(
        (np.tile([1.0, 1.0, -2.0, -2.0], m), (np.repeat(np.arange(m), 4), columns)), (m, n * n)
    )
    mix = scattered(rng, 100, m, 3.0 / m)
    mix.data = np.round(mix.data * 1000.0) - 500.0
    eye = sp.csr_array(np.eye(n).reshape(1, -1))
    whole = [plain, mix @ plain, plain[:50], sp.csr_array((3, n * n)), plain[[7]] * 7919.0]
    if block.trace is not None:
        whole.append(plain[[9]] + 3.0 * eye)
    x = np.eye(n) + 0.25 * (rng.integers(0, 2, (n, n)) - 0.5) / n
    return sp.csr_array(sp.vstack(whole, format="csr")), np.round(1024.0 * (x + x.T)) / 4096.0


@pytest.mark.parametrize("trace", [False, True])
def test_thousands_of_rows_that_follow_from_others_are_dropped(trace: bool) -> None:
    rng = np.random.default_rng(0)
    n, m = 80, 3010
    rows, x = many(rng, sf.SpectralBox(n, trace=1.0) if trace else sf.PSD(n), m)
    block = sf.SpectralBox(n, trace=float(np.trace(x))) if trace else sf.PSD(n)
    bounds = rows @ x.reshape(-1)
    problem = sf.FeasibilityProblem([block], [rows], bounds, bounds)
    found = independent_rows(problem)
    assert found.problem.m == m
    assert found.contradiction is None
    check = sf.verify(problem, sf.Claim(point=(x,)), rigorous=True)
    assert (check.verdict, check.proof) == (sf.Verdict.FEASIBLE, sf.Proof.RIGOROUS), check.reason
    bounds[-1] += 2.0**-10
    twin = sf.FeasibilityProblem([block], [rows], bounds, bounds)
    check = sf.verify(twin, sf.Claim(point=(x,)), rigorous=True)
    assert (check.verdict, check.proof) == (sf.Verdict.INFEASIBLE, sf.Proof.EXACT), check.reason


def test_combinations_need_not_be_simple() -> None:
    """Weights 3/7919 and -5/10007 are found modulo a prime and checked in fractions."""
    rng = np.random.default_rng(1)
    rows = rng.integers(-9, 10, (6, 5, 5)).astype(float)
    rows = rows + rows.transpose(0, 2, 1)
    last = 3.0 * rows[0] - 5.0 * rows[1] + rows[2]
    rows[0] *= 7919.0
    rows[1] *= 10007.0
    rows = np.concatenate([rows, last[None]])
    x = 2.0 * np.eye(5) + 1.0
    bounds = np.tensordot(rows, x, 2)
    problem = sf.FeasibilityProblem([sf.PSD(5)], [rows], bounds, bounds)
    assert independent_rows(problem).problem.m == 6
    check = sf.verify(problem, sf.Claim(point=(x,)), rigorous=True)
    assert (check.verdict, check.proof) == (sf.Verdict.FEASIBLE, sf.Proof.RIGOROUS)
    rows[-1, 0, 0] = np.nextafter(rows[-1, 0, 0], np.inf)  # nearly so is not enough
    problem = sf.FeasibilityProblem([sf.PSD(5)], [rows], bounds, bounds)
    assert independent_rows(problem).problem.m == 7


def test_combinations_modulo_a_prime_are_lifted() -> None:
    rows = [{0: 2, 1: 1}, {1: 3, 2: 5}, {0: 14, 1: 10, 2: 5}, {3: 1}, {}]
    found = combinations(rows)
    assert found is not None
    assert set(found) == {4, 2}
    assert found[2] == {0: 7, 1: 1}
    assert found[4] == {}
    assert combinations(rows, most=1) is None
    assert lift(0) == 0
