"""The search for chains: what it finds is proved, on planted problems and on the files of Liu and Pataki."""

import numpy as np
import pytest
import scipy.io

import sdpfeas as sf
from sdpfeas.backends.facial.search import search
from sdpfeas.deadline import Deadline
from sdpfeas.families.chains import PlantedChainOptions, PlantedFaces
from sdpfeas.problem.reductions.integral import readings

pytest.importorskip("flint")


def found(problem):
    """What the first reading leads to."""
    return search(next(readings(problem)), Deadline(60))


@pytest.mark.parametrize("disguised", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("truth", ["weak", "face", "strong"])
def test_planted_chains_are_found(truth, length, disguised):
    options = PlantedChainOptions(
        truth=truth, length=length, n=length + 4, rows=length + 4, disguised=disguised, seed=length
    )
    item = PlantedFaces.plant(options)
    got = found(item.problem)
    assert got.contradiction == (truth != "face")
    check = sf.verify(item.problem, sf.Claim(chain=got.chain, point=item.point), rigorous=True)
    assert check.verdict is item.truth


def liu_pataki(path):
    data = scipy.io.loadmat(path)
    a, b = data["A"], np.asarray(data["b"], dtype=float).ravel()
    a = np.asarray(a.toarray() if hasattr(a, "toarray") else a, dtype=float)
    a = (a if a.shape[0] == b.size else a.T).reshape(-1, 10, 10)
    return sf.FeasibilityProblem([sf.PSD(10)], [(a + a.transpose(0, 2, 1)) / 2], b, b)


@pytest.mark.parametrize("kind", ["weak_clean", "weak_messy", "infeas_clean", "infeas_messy"])
@pytest.mark.parametrize("rows", [10, 20])
def test_liu_pataki(data_dir, kind, rows):
    problem = liu_pataki(data_dir / "liu-pataki" / f"{kind}_{rows}_10_10.mat")
    got = found(problem)
    check = sf.verify(problem, sf.Claim(chain=got.chain), rigorous=True)
    assert (check.verdict, check.proof) == (sf.Verdict.INFEASIBLE, sf.Proof.EXACT)
