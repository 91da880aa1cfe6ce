"""A fuzzer over the whole range of exponents: up to three blocks and dimensions, every set and storage.

The short part runs with the other tests. The long one is ``make fuzz``, or
``SDPFEAS_FUZZ=20000 pytest -m slow tests/verifier/test_fuzz_range.py``, with as many problems as that.
"""

from __future__ import annotations

import os

import anywhere
import numpy as np
import pytest
from auditing import audited

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding

MODES = ({"rigorous": True, "repair": False}, {"rigorous": True}, {"exact": True})


def attack(seed: int, *, audit: bool) -> tuple[int, int, int]:
    """Verify what is claimed of one problem; how much was verified, granted and confirmed by the auditor."""
    rng = np.random.default_rng(seed)
    posed = anywhere.draw(rng)
    if posed is None:
        return 0, 0, 0
    lie = {True: sf.Verdict.INFEASIBLE, False: sf.Verdict.FEASIBLE, None: None}[posed.feasible]
    seen, granted, confirmed = 0, set(), 0
    for claim in anywhere.claims(rng, posed):
        for mode in MODES:
            check = sf.verify(posed.problem, claim, **mode)
            seen += 1
            if check.verdict is sf.Verdict.UNDECIDED:
                continue
            assert check.verdict is not lie, (seed, mode, posed.problem, check.explain())
            if audit and check.verdict not in granted:
                finding = audited(check)
                assert finding.finding is not Finding.REFUTED, (seed, mode, check.explain(), finding)
                confirmed += finding.finding is Finding.CONFIRMED
            granted.add(check.verdict)
    assert len(granted) < 2, seed
    return seen, len(granted), confirmed


def test_nothing_is_judged_wrong_anywhere() -> None:
    """A few dozen problems."""
    found = np.sum([attack(seed, audit=seed % 10 == 0) for seed in range(40)], axis=0)
    assert found[1] > 10, "the fuzzer proves hardly anything: it would not notice"


@pytest.mark.slow
def test_nothing_is_judged_wrong_anywhere_for_a_long_time() -> None:
    """As many problems as ``SDPFEAS_FUZZ`` says."""
    count = int(os.environ.get("SDPFEAS_FUZZ", "4000"))
    found = np.sum([attack(1000 + seed, audit=True) for seed in range(count)], axis=0)
    print(f"{count} problems, {found[0]} verifications, {found[1]} decided, {found[2]} of these confirmed")
    assert found[2] > 0.1 * count
