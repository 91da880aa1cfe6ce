"""Points that lose their interior are not offered for a proof; points in a thin interior are."""

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.backends.inquiry import Inquiry

SIDE = 8


def sunk(depth: float, seed: int) -> sf.FeasibilityProblem:
    """Equality rows whose feasible set has an interior of a given depth in two eigendirections."""
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.normal(size=(SIDE, SIDE)))[0]
    halves = rng.normal(size=(4, SIDE, SIDE))
    given = [np.eye(SIDE), frame[:, :2] @ frame[:, :2].T]
    rows = np.concatenate([given, halves + np.swapaxes(halves, 1, 2)])
    point = (frame * ([depth / 2.0] * 2 + [1.0] * (SIDE - 2))) @ frame.T
    right = np.einsum("kij,ij->k", rows, point)
    right[1] = depth
    return sf.FeasibilityProblem([sf.PSD(SIDE)], [rows], right, right)


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every offered point before the final one, whether its proof was granted."""
    found: list[bool] = []
    plain = Inquiry.offer

    def offer(self, point=None, multipliers=None, gap=None, *, final=False, **exact) -> bool:
        granted = plain(self, point, multipliers, gap, final=final, **exact)
        if point is not None and not final:
            found.append(granted)
        return granted

    monkeypatch.setattr(Inquiry, "offer", offer)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_points_without_interior_are_not_offered_on_the_way(offered: list[bool], seed: int) -> None:
    result = sf.solve(sunk(0.0, seed), "spectral-ipm")
    assert result.claim.info["no_interior"]
    assert not offered
    assert result.verdict is not sf.Verdict.INFEASIBLE


@pytest.mark.parametrize("depth", [1e-4, 1e-6, 1e-8, 1e-10])
def test_a_thin_interior_is_proved_at_once(offered: list[bool], depth: float) -> None:
    result = sf.solve(sunk(depth, 0), "spectral-ipm")
    assert (result.verdict, result.proof) == (sf.Verdict.FEASIBLE, sf.Proof.RIGOROUS)
    assert offered == [True]


def test_auto_looks_for_faces_before_it_tries_to_prove_what_has_no_interior(offered: list[bool]) -> None:
    result = sf.solve(sunk(0.0, 0), "auto", time_limit=20)
    assert any(line.startswith("spectral-ipm") for line in result.claim.info["tried"])
    assert not offered
