"""What backends claim in their own words."""

import math

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.claims import Claim, Stop, Verdict, claimed_verdict
from sdpfeas.families.planted import PlantedFaces

ONE = np.ones(1)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("optimal", Verdict.FEASIBLE),
        ("optimal_inaccurate", Verdict.FEASIBLE),
        ("infeasible", Verdict.INFEASIBLE),
        ("PrimalInfeasible", Verdict.INFEASIBLE),
        ("infeasibility screen: 1e-4 < 1e-3", Verdict.INFEASIBLE),
        ("certificate found", Verdict.INFEASIBLE),
        ("solved", Verdict.FEASIBLE),
        ("point found", Verdict.FEASIBLE),
        ("CONVERGENCE: REL_REDUCTION", Verdict.FEASIBLE),
        ("infeasible_or_unbounded", None),
        ("time limit", None),
        ("MaxIterations", None),
        ("", None),
    ],
)
def test_status_words(status, expected):
    # Backends hand in both kinds of evidence for warm starts: the word counts.
    for claim in (Claim(raw_status=status), Claim(raw_status=status, point=(), certificate=ONE)):
        assert claimed_verdict(claim) is expected


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"margin": 0.1}, Verdict.FEASIBLE),
        ({"margin": -0.1}, Verdict.INFEASIBLE),
        ({"margin": math.nan}, Verdict.FEASIBLE),
        ({"margin": 0.0}, Verdict.FEASIBLE),
        ({"margin": 1.0, "claimed": "infeasible"}, Verdict.INFEASIBLE),
        ({"margin": 1.0, "claimed": "undecided"}, None),
    ],
)
def test_a_margin_is_a_claim_and_an_explicit_word_is_a_stronger_one(info, expected):
    assert claimed_verdict(Claim(raw_status="Solved", info=info)) is expected


def test_a_point_that_was_found_needs_no_margin():
    # The dual method goes on to lower margins after it has found a point.
    claim = Claim(raw_status="point found", point=(), certificate=ONE, info={"margin": -0.3})
    assert claimed_verdict(claim) is Verdict.FEASIBLE


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        (Claim(point=()), Verdict.FEASIBLE),
        (Claim(certificate=ONE), Verdict.INFEASIBLE),
        (Claim(point=(), certificate=ONE), None),
        (Claim(certificate=ONE, stop=Stop.ITERATION_LIMIT), None),
        (Claim(certificate=ONE, stop=Stop.STALLED), None),
        (Claim(), None),
    ],
)
def test_without_a_word_the_evidence_counts_if_it_is_of_one_kind(claim, expected):
    assert claimed_verdict(claim) is expected


def test_auto_speaks_by_the_last_it_asked():
    """What was tried in vain before is part of its words, and not of what it claims."""
    problem = PlantedFaces.make(truth="weak", disguised=True, length=2, n=8, rows=8, seed=0)
    result = sf.solve(problem, "auto")
    assert "no further progress" in result.raw_status
    assert result.verdict is claimed_verdict(result.claim) is Verdict.INFEASIBLE
