"""The least that must work. `make dist` runs this file alone against the installed package."""

import numpy as np

import sdpfeas as sf


def trace_between(low: float, high: float) -> sf.FeasibilityProblem:
    """X positive semidefinite, 2 x 2, with low <= trace(X) <= high."""
    return sf.FeasibilityProblem([sf.PSD(2)], [np.array([[[1.0, 0.0], [0.0, 1.0]]])], [low], [high])


def test_version() -> None:
    assert sf.__version__


def test_planted_point_is_proved() -> None:
    p = trace_between(1.0, 2.0)
    check = sf.verify(p, sf.Claim(point=(np.eye(2) * 0.75,)), rigorous=True)
    assert check.verdict == sf.Verdict.FEASIBLE


def test_planted_certificate_is_proved() -> None:
    p = trace_between(-2.0, -1.0)
    check = sf.verify(p, sf.Claim(certificate=np.array([-1.0])), rigorous=True)
    assert check.verdict == sf.Verdict.INFEASIBLE


def test_wrong_claims_are_refused() -> None:
    infeasible = trace_between(-2.0, -1.0)
    point = sf.Claim(point=(np.eye(2) * -0.75,))
    assert sf.verify(infeasible, point, rigorous=True).verdict != sf.Verdict.FEASIBLE
    feasible = trace_between(1.0, 2.0)
    certificate = sf.Claim(certificate=np.array([-1.0]))
    assert sf.verify(feasible, certificate, rigorous=True).verdict != sf.Verdict.INFEASIBLE
