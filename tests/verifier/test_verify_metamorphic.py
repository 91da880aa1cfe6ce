"""The same claim in other words gets the same verdict: units of rows, order, coordinates."""

from __future__ import annotations

from collections.abc import Iterator

import known_answers
import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families import planted
from sdpfeas.families.planted import PlantedProblem
from sdpfeas.numerics.linalg import random_orthogonal

MIXES = planted.set_mixes()

MODES = ({}, {"rigorous": True, "repair": False}, {"rigorous": True}, {"repair": False})

#: The fast suite judges every claim in two of the four modes, the next one in the other two.
HALVES = pytest.mark.parametrize("half", [0, pytest.param(1, marks=pytest.mark.slow)])


def modes(k: int) -> tuple[dict[str, bool], ...]:
    """Two of the modes: one of each accuracy, one with repair."""
    return MODES[:2] if k % 2 == 0 else MODES[2:]


def cases(mix: str) -> Iterator[PlantedProblem]:
    rng = np.random.default_rng([11, list(MIXES).index(mix)])
    for storage in ("dense", "combined"):
        for edge in (False, True):
            yield planted.feasible(rng, MIXES[mix], storage=storage, edge=edge)
        yield planted.infeasible(rng, MIXES[mix], storage=storage)


def claims(rng: np.random.Generator, case: PlantedProblem) -> Iterator[sf.Claim]:
    """The planted evidence, nearly that, and far from it."""
    for size in (0.0, 1e-9, 1e-6, 1e-2, 3.0):
        if case.point is not None:
            yield sf.Claim(
                point=tuple(
                    x
                    + size * (planted.symmetric(rng, x.shape[0]) if x.ndim == 2 else rng.normal(size=x.shape))
                    for x in case.point
                )
            )
        if case.certificate is not None:
            yield sf.Claim(certificate=case.certificate * (1.0 + size * rng.normal(size=case.problem.m)))


def same(before: sf.Check, after: sf.Check, what: str) -> None:
    assert after.verdict is before.verdict, (what, before.explain(), after.explain())
    assert after.proof is before.proof, (what, before.explain(), after.explain())


@HALVES
@pytest.mark.parametrize("mix", MIXES)
def test_units_of_rows_do_not_matter(mix: str, half: int) -> None:
    rng = np.random.default_rng(12)
    decided = 0
    for number, case in enumerate(cases(mix)):
        factors = 2.0 ** rng.integers(-30, 31, size=case.problem.m)
        other = known_answers.rescaled_rows(case.problem, factors)
        for k, claim in enumerate(claims(rng, case), start=number + half):
            y = None if claim.certificate is None else claim.certificate / factors
            for mode in modes(k):
                before = sf.verify(case.problem, claim, **mode)
                same(before, sf.verify(other, sf.Claim(claim.point, y), **mode), f"rows rescaled, {mode}")
                decided += before.verdict is not sf.Verdict.UNDECIDED
    assert decided > 0


@HALVES
@pytest.mark.parametrize("mix", MIXES)
def test_order_does_not_matter(mix: str, half: int) -> None:
    rng = np.random.default_rng(13)
    for number, case in enumerate(cases(mix)):
        rows = rng.permutation(case.problem.m)
        blocks = [int(b) for b in rng.permutation(len(case.problem.sets))]
        other = known_answers.permuted_blocks(known_answers.permuted_rows(case.problem, rows), blocks)
        for k, claim in enumerate(claims(rng, case), start=number + half):
            point = None if claim.point is None else tuple(claim.point[b] for b in blocks)
            y = None if claim.certificate is None else claim.certificate[rows]
            for mode in modes(k):
                before = sf.verify(case.problem, claim, **mode)
                same(before, sf.verify(other, sf.Claim(point, y), **mode), f"reordered, {mode}")


@HALVES
@pytest.mark.parametrize("mix", [m for m in MIXES if "psd" in m or "box" in m])
def test_coordinates_do_not_matter(mix: str, half: int) -> None:
    rng = np.random.default_rng(14)
    for number, case in enumerate(cases(mix)):
        turns = [random_orthogonal(rng, s.n) if s.matrix else None for s in case.problem.sets]
        other = known_answers.rotated(case.problem, turns)
        for k, claim in enumerate(claims(rng, case), start=number + half):
            point = None
            if claim.point is not None:
                point = tuple(
                    x if q is None else q @ x @ q.T for x, q in zip(claim.point, turns, strict=True)
                )
            for mode in modes(k):
                before = sf.verify(case.problem, claim, **mode)
                after = sf.verify(other, sf.Claim(point, claim.certificate), **mode)
                same(before, after, f"rotated, {mode}")


@HALVES
@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("truth", [True, False])
def test_exact_proofs_do_not_depend_on_units_or_order(mix: str, truth: bool, half: int) -> None:
    rng = np.random.default_rng([15, list(MIXES).index(mix), truth])
    for degenerate in (False, True) if half == 0 else (True,):
        case = known_answers.integer_problem(rng, MIXES[mix], truth=truth, degenerate=degenerate)
        factors = 2.0 ** rng.integers(-30, 31, size=case.problem.m)
        order = rng.permutation(case.problem.m)
        other = known_answers.permuted_rows(known_answers.rescaled_rows(case.problem, factors), order)
        for size in (0.0, 1e-10, 1e-7, 0.3):
            point = y = moved = None
            if case.point is not None:
                point = tuple(x + size * np.ones(x.shape) for x in case.point)
            if case.certificate is not None:
                y = case.certificate * (1.0 + size * rng.normal(size=case.problem.m))
                moved = (y / factors)[order]
            for mode in ({"exact": True}, {"exact": True, "repair": False}, {"rigorous": True}):
                before = sf.verify(case.problem, sf.Claim(point, y), **mode)
                same(before, sf.verify(other, sf.Claim(point, moved), **mode), f"exact, {mode}")
                assert before.verdict is not case.wrong_verdict
                if size == 0.0:
                    assert before.verdict is case.truth, before.explain()


@HALVES
@pytest.mark.parametrize("power", [-60, -20, 20, 60])
def test_units_of_the_variable_do_not_matter(power: int, half: int) -> None:
    """X in other units: cones stay what they are, bounds and boxes scale along."""
    rng = np.random.default_rng(16)
    unit = 2.0**power
    for storage in ("dense", "sparse"):
        for sets, scaled in (
            ([sf.PSD(3), sf.Nonneg(2), sf.Free(2)], [sf.PSD(3), sf.Nonneg(2), sf.Free(2)]),
            ([sf.SpectralBox(3, trace=1.5)], [sf.SpectralBox(3, 0.0, unit, 1.5 * unit)]),
        ):
            for case in (
                planted.feasible(rng, sets, storage=storage),
                planted.infeasible(rng, sets, storage=storage),
            ):
                p = case.problem
                other = sf.FeasibilityProblem(scaled, p.rows, p.lower * unit, p.upper * unit)
                for k, claim in enumerate(claims(rng, case), start=half):
                    point = None if claim.point is None else tuple(unit * x for x in claim.point)
                    for mode in modes(k):
                        before = sf.verify(p, claim, **mode)
                        after = sf.verify(other, sf.Claim(point, claim.certificate), **mode)
                        same(before, after, f"units of X, {mode}")
