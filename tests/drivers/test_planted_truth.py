"""Default verdicts and audits of planted problems: all sets and LMIs mixed, both readings, any scale.

The truth of every problem is exact: integers, with rows multiplied by powers of two and an unrelated variable
fixed at a large number, neither of which changes it. ``SDPFEAS_TRUTHS`` sets how many problems the slow test
solves and audits (four times each), ``SDPFEAS_TRUTHS_START`` the first seed.
"""

from __future__ import annotations

import os
from collections import Counter

import numpy as np
import pytest
import small_integers
from auditing import audited

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding

PROBLEMS = int(os.environ.get("SDPFEAS_TRUTHS", "1000"))
START = int(os.environ.get("SDPFEAS_TRUTHS_START", "10000"))

#: Numbers that an unrelated variable is fixed at: their roundings are far larger than other bounds.
LARGE = (1e9, 1e12, 1.2345678912345678e16, 2.0**60, 0.1, 1.0 / 3.0)


def disguised(problem: sf.FeasibilityProblem, rng: np.random.Generator) -> sf.FeasibilityProblem:
    """Multiply rows by powers of two, and fix an unrelated variable at a large number."""
    m, factors = problem.m, 2.0 ** rng.integers(-30, 31, problem.m)
    rows = []
    for block, part in zip(problem.sets, problem.rows, strict=True):
        flat = np.zeros((m + 1, int(np.prod(block.shape))))
        if part is not None:
            flat[:m] = part.to_csr().toarray() * factors[:, None]
        rows.append(flat.reshape(m + 1, *block.shape))
    last = np.zeros((m + 1, 1))
    last[m] = 1.0
    lmis = [sf.LMI(lmi.set, lmi.constant, [*lmi.coefficients, None]) for lmi in problem.lmis]
    value = float(rng.choice(LARGE))
    low, high = (np.append(factors * end, value) for end in (problem.lower, problem.upper))
    return sf.FeasibilityProblem([*problem.sets, sf.Free(1)], [*rows, last], low, high, lmis=lmis)


def attack(seed: int) -> Counter[str]:
    """Solve one problem as it is and in disguise, in both readings, and audit what is proved."""
    rng = np.random.default_rng(seed)
    plain, truth = small_integers.planted(rng)
    seen: Counter[str] = Counter()
    for problem in (plain, disguised(plain, rng)):
        for reading in ("stored", "written"):
            options = {} if reading == "stored" else {"reading": reading}
            found = sf.solve(problem, time_limit=5.0, **options)
            assert found.reading == reading
            seen["solved"] += 1
            if found.verdict == "undecided":
                seen["undecided"] += 1
                continue
            assert (found.verdict == "feasible") == truth, (seed, reading, found)
            finding = audited(found.check).finding
            assert finding is not Finding.REFUTED, (seed, reading, found)
            seen[f"audit {finding.value}"] += 1
    return seen


@pytest.mark.parametrize("seed", range(12))
def test_no_verdict_is_false(seed: int) -> None:
    attack(seed)


@pytest.mark.parametrize("seed", [70012, 70025, 70037, 81137])
def test_an_unrelated_number_with_many_digits_takes_no_exact_proof_away(seed: int) -> None:
    """Exact arithmetic decides them; it is not used for data that were rounded, nor after a large point."""
    rng = np.random.default_rng(seed)
    plain, truth = small_integers.planted(rng)
    problem = disguised(plain, rng)
    assert problem.upper[-1] == LARGE[2]
    assert (sf.solve(problem).verdict == "feasible") == truth


@pytest.mark.parametrize("seed", [950375, 950474, 950805, 951090])
def test_rows_that_nearly_hold_are_certified(seed: int) -> None:
    """Points are rounded by more than such rows allow, and then again by less."""
    assert set(attack(seed)) == {"solved", "audit confirmed"}


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_no_verdict_of_many_is_false() -> None:
    seen: Counter[str] = Counter()
    for seed in range(START, START + PROBLEMS):
        seen += attack(seed)
    print(dict(seen))
    assert seen["undecided"] <= 0.02 * seen["solved"]
