"""LMIs of one number each over the whole range of exponents: linear inequalities of known truth.

A row ``lo <= <a, x> <= hi`` says the same as an LMI into a box of one number, or as LMIs into cones of one
number, whatever these are called.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from linear_truth import contradiction
from strategies import SEEDS, examples, wide_numbers
from test_verify_range import as_point, linear_problem, multipliers

import sdpfeas as sf

CONES = (sf.PSD(1), sf.Nonneg(1), sf.SecondOrder(1), sf.HermitianPSD(1))


def as_lmis(rng: np.random.Generator, problem: sf.FeasibilityProblem):
    """The problem with some rows as LMIs, and for each LMI its row and the sign of its multiplier."""
    chosen = np.flatnonzero(rng.random(problem.m) < 0.7)
    lmis, origin = [], []

    def lmi(target, constant, sign, i):
        parts = []
        for block, rows in zip(problem.sets, problem.rows, strict=True):
            values = None
            if not rows.empty:
                own = np.array([float(v) for v in rows.exact_row(int(i)).reshape(-1)])
                exact = all(a == b for a, b in zip(own, rows.exact_row(int(i)).reshape(-1), strict=True))
                if not (exact and np.isfinite(own).all()):
                    return None
                values = (sign * own).reshape(block.entries, *target.shape)
            parts.append(values)
        return sf.LMI(target, np.full(target.shape, constant), parts)

    kept = []
    for i in range(problem.m):
        low, high = problem.lower[i], problem.upper[i]
        made = []
        if i in chosen:
            if np.isfinite(low) and np.isfinite(high) and rng.random() < 0.5:
                try:
                    box = sf.SpectralBox(1, low, high)
                except sf.ProblemError:
                    box = None
                if box is not None and (box.lower, box.upper) == (low, high):
                    made = [(lmi(box, 0.0, 1.0, i), 1.0)]
            else:
                sides = [(low, 1.0)] if np.isfinite(low) else []
                sides += [(high, -1.0)] if np.isfinite(high) else []
                made = [(lmi(CONES[rng.integers(4)], -s * v, s, i), s) for v, s in sides]
        if made and all(one is not None for one, _ in made):
            lmis += [one for one, _ in made]
            origin += [(i, s) for _, s in made]
        else:
            kept.append(i)
    rows = [r.select(np.array(kept)) if kept else None for r in problem.rows]
    made_problem = sf.FeasibilityProblem(
        problem.sets, rows, problem.lower[kept], problem.upper[kept], lmis=lmis
    )
    return made_problem, kept, origin


def never_judged_wrong(seed: int) -> int:
    rng = np.random.default_rng(seed)
    with np.errstate(all="ignore"):
        try:
            plain, x = linear_problem(rng)
            problem, kept, origin = as_lmis(rng, plain)
        except sf.ProblemError:
            return 0  # numbers that are too large for floating point
    weights = contradiction(plain)
    lie = sf.Verdict.INFEASIBLE if weights is None else sf.Verdict.FEASIBLE
    count = problem.multiplier_count
    claims = [sf.Claim(certificate=wide_numbers(rng, count)), sf.Claim(certificate=rng.normal(size=count))]
    if weights is not None:
        y = multipliers(weights)
        own = [max(s * y[i], 0.0) if problem.lmis[k].set.cone else y[i] for k, (i, s) in enumerate(origin)]
        claims.append(sf.Claim(certificate=np.concatenate([y[kept], own])))
    points = (x, x * (1.0 + 1e-9 * rng.normal(size=x.size)), np.abs(x), wide_numbers(rng, x.size))
    claims += [sf.Claim(point=as_point(problem, point)) for point in points]
    granted = 0
    for claim in claims:
        for mode in ({"rigorous": True, "repair": False}, {"rigorous": True}, {}):
            check = sf.verify(problem, claim, **mode)
            if mode:
                assert check.verdict is not lie, (seed, mode, check.explain())
            granted += check.verdict is not sf.Verdict.UNDECIDED
    return granted


@examples(0.1)
@given(SEEDS)
def test_lmis_of_one_number_are_never_judged_wrong(seed: int) -> None:
    never_judged_wrong(seed)


@pytest.mark.slow
def test_many_lmis_of_one_number_are_never_judged_wrong() -> None:
    """About a thousand problems; some are decided."""
    assert sum(never_judged_wrong(seed) for seed in range(1000)) > 500
