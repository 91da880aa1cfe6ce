"""Neither units nor bases move a verdict: powers of ten and two, unitary and orthogonal turns, LMIs too."""

from __future__ import annotations

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.families.planted import PlantedProblem, feasible_lmis, infeasible_lmis
from sdpfeas.numerics.linalg import random_orthogonal
from sdpfeas.problem.sets import BlockSet

BLOCKS = {
    "hermitian": sf.HermitianPSD(3),
    "second order": sf.SecondOrder(5),
    "psd": sf.PSD(4),
    "box": sf.SpectralBox(4, -1.0, 2.0),
}


def turn(rng: np.random.Generator, block: BlockSet) -> np.ndarray:
    """A matrix, orthogonal on arrays flattened, that maps the set onto itself."""
    if isinstance(block, sf.SecondOrder):
        out = np.eye(block.n)
        out[1:, 1:] = random_orthogonal(rng, block.n - 1)
        return out
    frame = block.random_frame(rng)
    images = []
    for unit in np.eye(block.entries):
        if isinstance(block, sf.HermitianPSD):
            full = frame @ block.to_complex(unit) @ frame.conj().T
            images.append((full.real + full.imag).reshape(-1))
        else:
            images.append((frame @ unit.reshape(block.shape) @ frame.T).reshape(-1))
    return np.array(images).T


def turned(block: BlockSet, matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    return block.symmetrize((matrix @ x.reshape(-1)).reshape(block.shape))


def lines(rows, block: BlockSet) -> np.ndarray:
    """Rows of any storage, written out."""
    return np.array([block.symmetrize(rows.adjoint(unit)) for unit in np.eye(rows.m)])


def seen_otherwise(
    rng: np.random.Generator, item: PlantedProblem, block: BlockSet, factor: float
) -> PlantedProblem:
    """The problem in another basis, rows in other units, and the variable in others where it is a cone."""
    matrix, problem = turn(rng, block), item.problem
    own = 1.0 / factor if block.cone else 1.0
    units = factor ** rng.integers(-2, 3, problem.m)
    rows = np.array([turned(block, matrix, a) for a in lines(problem.rows[0], block)])
    shape = (-1,) + (1,) * (rows.ndim - 1)
    made = sf.FeasibilityProblem(
        problem.sets, [rows * (units / own).reshape(shape)], problem.lower * units, problem.upper * units
    )
    point = None if item.point is None else (own * turned(block, matrix, item.point[0]),)
    return PlantedProblem(
        made, item.feasible, point, None if item.certificate is None else item.certificate / units
    )


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("kind", BLOCKS)
def test_units_and_bases_do_not_move_a_verdict(kind: str, truth: bool) -> None:
    block = BLOCKS[kind]
    for seed, factor in enumerate([2.0**-70, 1e-9, 10.0, 1e15]):
        rng = np.random.default_rng([seed, truth])
        make = planted.feasible if truth else planted.infeasible
        bounds = "inequality" if truth else "mixed"  # equality rows would be missed after a turn
        item = seen_otherwise(rng, make(rng, [block], bounds=bounds, margin=1e-2), block, factor)
        check = sf.verify(item.problem, item.claim, rigorous=True)
        assert (check.verdict, check.proof) == (item.truth, sf.Proof.RIGOROUS), check.reason
        # The same evidence about the opposite of the bounds, or none at all, is refused.
        wrong = sf.Claim(
            point=None if item.point is None else (-item.point[0],),
            certificate=None if item.certificate is None else -item.certificate,
        )
        assert sf.verify(item.problem, wrong, rigorous=True, repair=False).verdict is not item.wrong_verdict


@pytest.mark.parametrize("truth", [True, False])
@pytest.mark.parametrize("kind", BLOCKS)
def test_units_and_bases_of_lmis_do_not_move_a_verdict(kind: str, truth: bool) -> None:
    target = BLOCKS[kind]
    for seed, factor in enumerate([2.0**-70, 1e-9, 1e15]):
        rng = np.random.default_rng([seed, truth])
        item = (feasible_lmis if truth else infeasible_lmis)(rng, [sf.Free(3)], [target], rows=0, margin=1e-2)
        matrix, unit = turn(rng, target), factor if target.cone else 1.0
        (lmi,) = item.problem.lmis
        parts = np.array([unit * turned(target, matrix, a) for a in lines(lmi.coefficients[0], target)])
        other = sf.LMI(target, unit * turned(target, matrix, lmi.constant), [parts])
        problem = sf.FeasibilityProblem(item.problem.sets, [None], [], [], lmis=[other])
        y = item.certificate
        claim = sf.Claim(
            point=item.point,
            certificate=None if y is None else turned(target, matrix, y.reshape(target.shape)).reshape(-1),
        )
        check = sf.verify(problem, claim, rigorous=True)
        assert (check.verdict, check.proof) == (item.truth, sf.Proof.RIGOROUS), check.reason


@pytest.mark.parametrize("backend", ["auto", "spectral-ipm", "clarabel"])
@pytest.mark.parametrize("kind", ["hermitian", "second order"])
def test_backends_do_not_mind_bases(kind: str, backend: str) -> None:
    block = BLOCKS[kind]
    for truth in (True, False):
        rng = np.random.default_rng(truth)
        make = planted.feasible if truth else planted.infeasible
        item = seen_otherwise(rng, make(rng, [block], bounds="inequality", margin=1e-2), block, 10.0)
        found = sf.solve(item.problem, backend, time_limit=20)
        assert (found.verdict, found.proof) == (item.truth, sf.Proof.RIGOROUS), found.explain()
