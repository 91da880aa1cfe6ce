"""20,000 proofs of the verifier, from all generators of the tests, certified and checked.

``make fuzz``, or ``SDPFEAS_AUDITS=20000 pytest -m slow tests/certifier/test_many_verdicts.py``.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator

import anywhere
import known_answers
import numpy as np
import pytest
from auditing import audited

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding
from sdpfeas.families import planted

MODES = ({"rigorous": True}, {"exact": True})


def questions(seed: int) -> Iterator[tuple[sf.FeasibilityProblem, sf.Claim, bool | None]]:
    """Problems with claims about them, and their truth; about a hundred from one seed."""
    rng = np.random.default_rng(seed)
    mixes = list(planted.set_mixes().values())
    for sets, truth in itertools.product(mixes, (True, False)):
        made = known_answers.integer_problem(rng, sets, truth=truth, degenerate=bool(rng.random() < 0.5))
        yield made.problem, sf.Claim(point=made.point, certificate=made.certificate), truth
        storage = str(rng.choice(planted.MATRIX_STORAGE))
        make = planted.feasible if truth else planted.infeasible
        made = make(rng, sets, storage=storage, bounds=str(rng.choice(planted.BOUNDS)))
        yield made.problem, sf.Claim(point=made.point, certificate=made.certificate), truth
    for _ in range(20):
        posed = anywhere.draw(rng)
        if posed is not None:
            for claim in itertools.islice(anywhere.claims(rng, posed), 2):
                yield posed.problem, claim, posed.feasible
    for length in (1, 2, 3):
        weak = known_answers.weak_chain(length)
        yield weak.problem, sf.Claim(point=(known_answers.chain_point(length, 1e-6),)), False


def audit_some(count: int, first: int = 0) -> Counter[str]:
    """Audit so many proofs; how often each finding came up."""
    found: Counter[str] = Counter()
    for seed in itertools.count(first):
        for problem, claim, truth in questions(seed):
            for mode in MODES:
                check = sf.verify(problem, claim, **mode)
                if check.verdict is sf.Verdict.UNDECIDED:
                    continue
                assert truth is None or (check.verdict is sf.Verdict.FEASIBLE) is truth, (
                    seed,
                    check.explain(),
                )
                finding = audited(check)
                assert finding.finding is not Finding.REFUTED, (seed, mode, check.explain(), finding)
                found[f"{check.proof} {finding.finding.value}"] += 1
                if finding.finding is not Finding.CONFIRMED:
                    print(f"seed {seed}, {check.verdict}, {problem.sets}: {finding.reason}")
                if found.total() >= count:
                    return found
    raise AssertionError("unreachable")


def confirmed(found: Counter[str]) -> float:
    """Share of the proofs that were confirmed."""
    return sum(n for name, n in found.items() if name.endswith(Finding.CONFIRMED.value)) / found.total()


def test_a_hundred_proofs_are_audited() -> None:
    """None is refuted, and nearly all are confirmed."""
    assert confirmed(audit_some(100)) > 0.98


@pytest.mark.slow
def test_twenty_thousand_proofs_are_audited() -> None:
    """The same, of as many as ``SDPFEAS_AUDITS`` says."""
    found = audit_some(int(os.environ.get("SDPFEAS_AUDITS", "20000")), first=1)
    print(dict(found))
    assert confirmed(found) > 0.995
