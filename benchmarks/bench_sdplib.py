"""Both sides of the SDPLIB files under SDPFEAS_DATA, and what ``auto`` takes for them beside CSDP.

Processor time, one thread, verification included, reading the file not. CSDP (Debian's ``coinor-csdp``) is
given the same question, the side without its objective; both are asked alternately, and the least of three
rounds counts. Times below 0.05 s count as 0.05 s. A second benchmark shows what ``auto`` adds to the backend
that decides.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families import planting as planted

#: Seconds that a shorter time counts as, and seconds for one question.
LEAST, LIMIT = 0.05, 60.0

ROUNDS = 3

#: Geometric mean of the ratios, and any of them, at the most.
MEAN, WORST = 1.5, 10.0

FOLDER = Path(os.environ.get("SDPFEAS_DATA", "")) / "sdplib"
FILES = sorted(FOLDER.glob("*.dat-s")) if "SDPFEAS_DATA" in os.environ else []

Line = tuple[str, str, str, float, float]


def csdp_time(file: Path) -> float:
    """Processor time of CSDP on a file."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {**os.environ, **one}
    subprocess.run(["csdp", str(file)], env=environment, capture_output=True, timeout=10 * LIMIT, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def processor_time(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


@pytest.fixture(scope="module")
def lines() -> Iterator[list[Line]]:
    """Lines of the table; printed, with the means, when all are there."""
    found: list[Line] = []
    yield found
    print(f"\n\n{'file':12s} {'side':7s} {'verdict':24s} {'auto':>8s} {'CSDP':>8s} {'ratio':>6s}")
    for name, side, verdict, ours, theirs in found:
        print(f"{name:12s} {side:7s} {verdict:24s} {ours:8.3f} {theirs:8.3f} {ratio(ours, theirs):6.2f}")
    for side in ("primal", "lmi"):
        ratios = [ratio(ours, theirs) for _, own, _, ours, theirs in found if own == side]
        if ratios:
            print(f"{side}: geometric mean {np.exp(np.mean(np.log(ratios))):.2f}, worst {max(ratios):.2f}")


def ratio(ours: float, theirs: float) -> float:
    return max(ours, LEAST) / max(theirs, LEAST)


@pytest.mark.skipif(shutil.which("csdp") is None, reason="the program csdp is not on the PATH")
@pytest.mark.skipif(not FILES, reason="SDPFEAS_DATA is not set, or holds no sdplib")
@pytest.mark.parametrize("side", ["primal", "lmi"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_sdplib(benchmark: Any, lines: list[Line], tmp_path: Path, path: Path, side: Any) -> None:
    problem = sf.read_sdpa(path, side=side)
    file = tmp_path / "question.dat-s"
    sf.write_sdpa(problem, file, side)  # without the objective
    results: list[sf.Result] = []
    ours, theirs = [], []

    def both() -> None:
        theirs.append(csdp_time(file))
        # A fresh one: what a problem remembers of itself is part of the work.
        fresh = sf.read_sdpa(path, side=side)
        ours.append(processor_time(lambda: results.append(sf.solve(fresh, "auto", time_limit=LIMIT))))

    sf.solve(problem, "auto", time_limit=LIMIT)  # imports
    benchmark.pedantic(both, rounds=ROUNDS)
    verdict = f"{results[-1].verdict} ({results[-1].proof or 'no proof'})"
    lines.append((path.stem, side, verdict, min(ours), min(theirs)))
    benchmark.extra_info["ratio"] = ratio(min(ours), min(theirs))
    assert benchmark.extra_info["ratio"] <= WORST


def test_the_means(benchmark: Any, lines: list[Line]) -> None:
    for side in ("primal", "lmi"):
        ratios = [ratio(ours, theirs) for _, own, _, ours, theirs in lines if own == side]
        if ratios:
            assert np.exp(np.mean(np.log(ratios))) <= MEAN
    benchmark.pedantic(lambda: None)


def deciding() -> dict[str, sf.FeasibilityProblem]:
    rng = np.random.default_rng(0)
    classes, d = 8, 30
    means = 3.0 * rng.normal(size=(classes, d))
    data = np.concatenate([mean + rng.normal(size=(20, d)) for mean in means])
    family = sf.families.WLDA.from_data(data, np.repeat(np.arange(classes), 20), n_components=classes - 1)
    return {
        "planted, PSD(40)": planted.feasible(rng, [sf.PSD(40)], rows=60).problem,
        "planted, PSD(40), infeasible": planted.infeasible(rng, [sf.PSD(40)], rows=60).problem,
        "WLDA, 8 classes, 30": family.at(0.5),
    }


@pytest.mark.parametrize("name", deciding())
def test_what_auto_adds(benchmark: Any, name: str) -> None:
    """``auto`` over the backend that decides, both with their proofs."""
    problem = deciding()[name]
    decided = sf.solve(problem, "auto")
    assert decided.verdict is not sf.Verdict.UNDECIDED
    ours: list[float] = []
    alone: list[float] = []

    def both() -> None:
        ours.append(processor_time(lambda: sf.solve(problem, "auto")))
        alone.append(processor_time(lambda: sf.solve(problem, "spectral-ipm")))

    benchmark.pedantic(both, rounds=15)
    benchmark.extra_info["ratio"] = float(np.median(ours) / np.median(alone))
    print(f"\n{name}: auto takes {benchmark.extra_info['ratio']:.3f} of what spectral-ipm takes")
    assert benchmark.extra_info["ratio"] <= 1.1
