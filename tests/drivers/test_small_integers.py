"""Small planted problems of integers are decided, and rightly, by the default call."""

import numpy as np
import pytest
import small_integers

import sdpfeas as sf

#: Share of the problems that may stay undecided.
UNDECIDED = 0.005


def undecided(seeds: range) -> int:
    """How many problems stay undecided; none may be decided wrongly."""
    count = 0
    for seed in seeds:
        problem, truth = small_integers.planted(np.random.default_rng(seed))
        found = sf.solve(problem, time_limit=10.0)
        if found.verdict is sf.Verdict.UNDECIDED:
            count += 1
        else:
            assert (found.verdict is sf.Verdict.FEASIBLE) == truth, seed
    return count


def test_a_few_small_problems_are_all_decided() -> None:
    assert undecided(range(60)) == 0


@pytest.mark.slow
def test_hardly_any_small_problem_stays_undecided() -> None:
    seeds = range(1000, 5000)
    assert undecided(seeds) <= UNDECIDED * len(seeds)
