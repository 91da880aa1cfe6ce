"""Measure the cost of verification in units of one dense eigendecomposition.

The claim is of the size of the largest problem in the paper: 100 dimensions, 40 classes, 820 rows. The unit
is one ``scipy.linalg.eigh`` of that dimension on the same machine, in the same run, with one thread; both are
taken in processor time, which hardly depends on what else the machine does. A problem is new in every round,
so that norms and the like are computed each time; building it is not counted.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import known_answers

import sdpfeas as sf
from sdpfeas.families import planted

DIMENSION, CLASSES = 100, 40

#: At most so many eigendecompositions, in numeric and in rigorous mode.
LIMITS = {False: 10.0, True: 60.0}

ROUNDS = 15


def least(run: Callable[[], object], rounds: int) -> float:
    """Return the least time of several runs: what else the machine did does not count."""
    times = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


@pytest.fixture(scope="module")
def data() -> known_answers.Discriminant:
    return known_answers.discriminant(np.random.default_rng(100), DIMENSION, CLASSES)


@pytest.fixture(scope="module")
def point(data: known_answers.Discriminant) -> tuple[float, np.ndarray]:
    """A threshold with a projector that is feasible there."""
    pairs = sf.PairwiseDifference(data.means)
    vec = np.linalg.eigh(pairs.adjoint(np.ones(pairs.m)))[1][:, -data.components :]
    z = vec @ vec.T
    z = 0.5 * (z + z.T)
    return 0.9 * data.ratio(z), z


@pytest.fixture(scope="module")
def certificate(data: known_answers.Discriminant) -> tuple[float, np.ndarray]:
    """A threshold with multipliers that rule it out."""
    m = CLASSES * (CLASSES - 1) // 2
    u, w = np.ones(m), np.full(CLASSES, m / CLASSES)
    return 1.1 * data.ruled_out_from(u, w), np.concatenate([u, w])


def claims(
    data: known_answers.Discriminant, point: tuple[float, np.ndarray], certificate: tuple[float, np.ndarray]
) -> dict[str, tuple[float, sf.Claim, bool]]:
    """By name: the threshold, the claim, and whether it needs repair."""
    low, z = point
    high, y = certificate
    _, t = data.point(z, low)
    within = np.arange(y.size) >= y.size - CLASSES
    noise = planted.symmetric(np.random.default_rng(101), DIMENSION)
    return {
        "point": (low, sf.Claim(point=(z, t)), False),
        "point, scalar off": (low, sf.Claim(point=(z, 3.0 * t)), True),
        "point, matrix off": (low, sf.Claim(point=(z + 1e-7 * noise, t)), True),
        "point, all off": (low, sf.Claim(point=(z + 1e-7 * noise, 0.0 * t)), True),
        "certificate": (high, sf.Claim(certificate=np.where(within, (1.0 - 1e-12) * y, y)), False),
        "certificate, sums off": (high, sf.Claim(certificate=np.where(within, (1.0 + 1e-8) * y, y)), True),
        "certificate, sign off": (
            high,
            sf.Claim(certificate=np.where(np.arange(y.size) == 3, -1e-9, y)),
            True,
        ),
    }


NAMES = (
    "point",
    "point, scalar off",
    "point, matrix off",
    "point, all off",
    "certificate",
    "certificate, sums off",
    "certificate, sign off",
)


@pytest.mark.parametrize("rigorous", [False, True], ids=["numeric", "rigorous"])
@pytest.mark.parametrize("name", NAMES)
def test_verify_in_eigendecompositions(
    benchmark: Any,
    data: known_answers.Discriminant,
    point: tuple[float, np.ndarray],
    certificate: tuple[float, np.ndarray],
    name: str,
    rigorous: bool,
    capsys: pytest.CaptureFixture[str],
) -> None:
    delta, claim, off = claims(data, point, certificate)[name]
    assert data.at(delta).m == 820
    check = sf.verify(data.at(delta), claim, rigorous=rigorous)
    wanted = sf.Verdict.FEASIBLE if claim.point is not None else sf.Verdict.INFEASIBLE
    assert check.verdict is wanted, check.explain()
    assert bool(check.repairs) == off, check.explain()

    matrix = planted.symmetric(np.random.default_rng(102), DIMENSION)
    before = least(lambda: scipy.linalg.eigh(matrix), 50)
    problems = [data.at(delta) for _ in range(ROUNDS)]
    times: list[float] = []

    def verify(problem: sf.FeasibilityProblem) -> None:
        start = time.process_time()
        sf.verify(problem, claim, rigorous=rigorous)
        times.append(time.process_time() - start)

    def fresh() -> tuple[tuple[sf.FeasibilityProblem], dict[str, Any]]:
        return (problems.pop() if problems else data.at(delta),), {}

    benchmark.pedantic(verify, setup=fresh, rounds=ROUNDS)
    unit = min(before, least(lambda: scipy.linalg.eigh(matrix), 50))
    ratio = min(times) / unit
    benchmark.extra_info["eigendecompositions"] = ratio
    mode = "rigorous" if rigorous else "numeric"
    with capsys.disabled():
        print(
            f"\n{name}, {mode}: {ratio:.1f} eigendecompositions of {1e3 * unit:.2f} ms "
            f"(limit {LIMITS[rigorous]:.0f})"
        )
    if len(times) >= ROUNDS:  # with --benchmark-disable there is one round, which measures nothing
        assert ratio <= LIMITS[rigorous]
