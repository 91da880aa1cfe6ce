"""No verdict flips where a problem is told in other words, whoever is asked, and no audit refutes one."""

from __future__ import annotations

import numpy as np
import pytest
from auditing import audited
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, examples
from tiny import WORDS, tiny

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding

#: Asked in turn; each proves in its own way.
BACKENDS = ("auto", "facial", "clarabel", "spectral-ipm", "dual-lbfgs")


def no_flip(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first = tiny(rng)
    chosen = rng.choice(len(WORDS), 2, replace=False)
    seen: dict[str, str] = {}
    for told in (first, *(WORDS[k](rng, first) for k in chosen)):
        problem = told.build()
        backend = str(rng.choice(BACKENDS))
        found = sf.solve(problem, backend, time_limit=1.0)
        if found.verdict == "undecided" or found.reading != "stored":
            continue
        seen[found.verdict] = backend
        assert len(seen) == 1, seen
        if found.proof != "numeric":
            assert audited(found.check).finding is not Finding.REFUTED


@examples(0.1)
@given(SEEDS)
def test_no_verdict_flips(seed: int) -> None:
    no_flip(seed)


@pytest.mark.slow
@examples(4.0)
@given(st.integers(2**32, 2**33))
def test_no_verdict_flips_often(seed: int) -> None:
    no_flip(seed)
