"""Mutated files of every kind: each is read as something valid, or refused in words. Nothing else happens."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from mutation import MUTATIONS
from scipy.io import savemat

import sdpfeas as sf
from sdpfeas.cli import main
from sdpfeas.errors import SdpfeasError
from sdpfeas.families.bracket_file import SavedBracket, load_bracket, pack_bracket
from sdpfeas.families.planted import feasible, feasible_lmis, infeasible, set_mixes
from sdpfeas.families.problem_cards import find_problem
from sdpfeas.io.result_files import load_result, save_result
from sdpfeas.io.sdpa import read_sdpa
from sdpfeas.io.sedumi import read_sedumi
from sdpfeas.io.tables import read_samples
from sdpfeas.problem.sets import PSD, Nonneg
from sdpfeas.study.report import render_html, render_markdown
from sdpfeas.study.store import Store, write_table
from sdpfeas.verifier.verifier import decide

STORED = Path(__file__).parents[1] / "study" / "stored"

#: What the command line may end with: it ran, something does not hold, it could not run, refuted, a verdict.
CODES = {0, 1, 2, 3, 10, 20, 30}

SDPA = b"""* made up
2 = mDIM
2 = nBLOCK
(2, -3) = bLOCKsTRUCT
{10.0, 2.0D+01}
0 1 1 1 1.0
0 1 1 2 0.5
1 1 1 1 1.0
1 1 2 2 1.0
1 2 1 1 7.0
2 1 1 2 5.0
2 2 3 3 2.0
"""

SOLVER = b"""# the method as published
backend = "dual-lbfgs"
name = "mine"
description = "one of ours"
[options]
form = "lifted"
epsilon = 1e-3
"""

PROBLEM = b"""family = "planted"
delta = 0.5
[data]
n = 3
[options]
sets = "psd"
feasible = true
[sweep]
seed = [1, 2, 3]
"""


class Corpus:
    """One good file of every kind, and what reads it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(5)
        self.problems = [
            feasible(rng, set_mixes()["all"], storage="low-rank").problem,
            infeasible(rng, set_mixes()["psd nonneg"], storage="sparse", bounds="mixed").problem,
            _composed(),
            feasible_lmis(rng, set_mixes()["psd free"], [PSD(3), Nonneg(2)], storage="low-rank").problem,
        ]
        self.results = [sf.solve(problem, time_limit=20) for problem in self.problems[:2]]
        self.family: Any = find_problem("theta").make(graph="cycle", n=5)
        self.seeds = list(seeds(self))

    def problem(self, path: Path) -> None:
        """Read a problem; what is read can be looked at, and comes back when it is saved."""
        found = sf.FeasibilityProblem.load(path)
        assert repr(found)
        found.save(path)
        assert sf.FeasibilityProblem.load(path) == found
        assert np.isfinite(found.norms).all()

    def result(self, path: Path) -> None:
        """Read an answer; what it claims can be judged."""
        saved = load_result(path)
        for problem in self.problems[:2]:
            assert decide(problem, saved.claim).explain()
        save_result(saved, path)

    def bracket(self, path: Path) -> None:
        """Read a bracket; it proves what it proves, and never more than there is."""
        low, high = load_bracket(path).verified(self.family)
        assert low <= np.sqrt(5) + 1e-9
        assert high >= np.sqrt(5) - 1e-9

    def sdpa(self, path: Path) -> None:
        """Read both sides."""
        for side in ("primal", "lmi"):
            with contextlib.suppress(SdpfeasError):
                assert repr(read_sdpa(path, side))  # type: ignore[arg-type]

    def sedumi(self, path: Path) -> None:
        """Read both sides."""
        for side in ("primal", "lmi"):
            with contextlib.suppress(SdpfeasError):
                assert repr(read_sedumi(path, side))  # type: ignore[arg-type]

    def solver(self, path: Path) -> None:
        """Read a solver card, and make the backend."""
        assert sf.find_solver(path).make().option_values()

    def card(self, path: Path) -> None:
        """Read a problem card, and list its members."""
        for member in find_problem(path).members():
            assert member.label
            assert member.seeded in (True, False)

    def table(self, path: Path) -> None:
        """Read samples."""
        found = read_samples(path)
        assert found.X.shape == (len(found.y), len(found.features))

    def study(self, path: Path) -> None:
        """Read all there is in a study, and write it down."""
        with Store(path, readonly=True) as store:
            for suffix in (".csv", ".json"):
                write_table(store, path.with_suffix(suffix))
            if store.cells():
                render_html(store).encode()
                render_markdown(store).encode()
            for cell in store.cells(texts=False):
                evidence = store.evidence(cell["key"])
                if evidence is not None:
                    other = path.with_suffix(".npz")
                    other.write_bytes(evidence)
                    with contextlib.suppress(SdpfeasError):
                        (load_bracket if cell["kind"] == "family" else load_result)(other)


def _composed() -> sf.FeasibilityProblem:
    """A problem with rows of every kind."""
    rows = sf.Stacked(
        [
            sf.PairwiseDifference(np.arange(6.0).reshape(3, 2)),
            sf.Combined(np.array([[1.0, -2.0], [0.0, 1.0]]), sf.LowRank(np.eye(2))),
        ]
    )
    columns = np.eye(5, 3)
    names = [f"row {i}" for i in range(5)]
    return sf.FeasibilityProblem(
        [sf.SpectralBox(2, trace=1.0), sf.Free(3)],
        [rows, columns],
        -np.ones(5),
        np.ones(5),
        names,
        ["Z", "x"],
    )


Seed = tuple[str, str, str, bytes]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(tmp_path_factory.mktemp("fuzz"))


def seeds(corpus: Corpus) -> Iterator[Seed]:
    """Good files: what reads them, how they are mutated, how they are called, and their bytes."""
    path = corpus.folder / "seed"
    for problem in corpus.problems:
        problem.save(path)
        yield "problem", "archive", "p.npz", path.read_bytes()
    for result in corpus.results:
        save_result(result, path)
        yield "result", "archive", "r.npz", path.read_bytes()
    found = sf.bisect(corpus.family, "spectral-ipm", tol=1e-2)
    ends = (found.lower, found.point), (found.upper, found.certificate)
    yield "bracket", "archive", "b.npz", pack_bracket(SavedBracket.of(corpus.family, *ends))
    yield "sdpa", "text", "p.dat-s", SDPA
    for packed in (False, True):
        matrix = sp.csc_array(np.arange(12).reshape(2, 6) % 5)
        content = {"A": matrix, "b": [1, 2], "c": np.arange(6), "K": {"f": 1, "l": 1, "s": 2}}
        savemat(path, content, appendmat=False, do_compression=packed)
        yield "sedumi", "bytes", "p.mat", path.read_bytes()
    yield "solver", "text", "s.toml", SOLVER
    yield "card", "text", "c.toml", PROBLEM
    rows = "\n".join(f"{k % 2},{k * 0.5},x{k}".replace("x", "") for k in range(12))
    yield "table", "text", "t.csv", f"kind,a,b\n{rows}\n".encode()
    np.savez(path.with_suffix(".npz"), X=np.eye(6), y=np.arange(6) % 2)
    yield "table", "bytes", "t.npz", path.with_suffix(".npz").read_bytes()
    with sqlite3.connect(path.with_suffix(".db")) as made:
        made.executescript((STORED / "study.sql").read_text())
    made.close()
    yield "study", "bytes", "s.db", path.with_suffix(".db").read_bytes()


def attack(corpus: Corpus, seed: Seed, count: int, number: int) -> tuple[int, int]:
    """Mutate a file so many times; returns how often it was read all the same, and how often refused."""
    kind, way, name, data = seed
    read: Callable[[Path], None] = getattr(corpus, kind)
    path = corpus.folder / name
    fine = 0
    for k in range(count):
        rng = np.random.default_rng([2026, number, k])
        mutate = MUTATIONS[way][int(rng.integers(len(MUTATIONS[way])))]
        path.write_bytes(mutate(data, rng))
        for rest in corpus.folder.glob(f"{name}-*"):  # what SQLite leaves beside it
            rest.unlink()
        try:
            read(path)
            fine += 1
        except SdpfeasError:
            continue
        except Exception as error:
            kept = corpus.folder / f"failed-{number}-{k}-{name}"
            path.replace(kept)
            raise AssertionError(f"{kind}, mutant {k} of file {number}, kept as {kept}: {error!r}") from error
    return fine, count - fine


def test_every_seed_is_fine(corpus: Corpus) -> None:
    for kind, _, name, data in corpus.seeds:
        path = corpus.folder / name
        path.write_bytes(data)
        getattr(corpus, kind)(path)


def test_mutants(corpus: Corpus) -> None:
    total = np.zeros(2, dtype=int)
    for number, seed in enumerate(corpus.seeds):
        total += attack(corpus, seed, 8 if seed[0] == "study" else 25, number)
    assert total.min() > 30  # both happen, or the mutations are of no use


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_many_mutants(corpus: Corpus) -> None:
    for number, seed in enumerate(corpus.seeds):
        attack(corpus, seed, 150 if seed[0] == "study" else 1500, 100 + number)


# ---------------------------------------------------------------- through the command line


def commands(corpus: Corpus, kind: str, path: str) -> list[list[str]]:
    """What a user would do with such a file."""
    good = str(corpus.folder / "good.npz")
    folder = str(corpus.folder)
    return {
        "problem": [["show", path], ["solve", path, "-t", "1", "-b", "admm"]],
        "result": [["verify", good, path], ["audit", good, path]],
        "bracket": [["verify", "theta-cycle", path, "--member", "n=5"]],
        "sdpa": [["show", path], ["solve", path, "-t", "1", "--side", "lmi", "-b", "spectral-ipm"]],
        "sedumi": [["show", path], ["solve", path, "-t", "1", "-b", "admm"]],
        "solver": [["show", path], ["solve", good, "-b", path, "-t", "1"]],
        "card": [["show", path]],
        "table": [["wlda", path, "-t", "1"]],
        "study": [
            ["report", path, "-o", f"{folder}/r.html"],
            ["export", path, "-o", f"{folder}/t.csv"],
            ["verify", "planted-mixed", path, "--member", "feasible=true"],
        ],
    }[kind]


def command_attack(corpus: Corpus, count: int, number: int, capsys: Any) -> None:
    corpus.problems[0].save(corpus.folder / "good.npz")
    for at, (kind, way, name, data) in enumerate(corpus.seeds):
        path = corpus.folder / name
        for k in range(count):
            rng = np.random.default_rng([number, at, k])
            mutate = MUTATIONS[way][int(rng.integers(len(MUTATIONS[way])))]
            mutant = mutate(data, rng)
            for arguments in commands(corpus, kind, str(path)):
                path.write_bytes(mutant)
                with pytest.raises(SystemExit) as caught:
                    main(arguments)
                out, err = capsys.readouterr()
                code = caught.value.code or 0
                assert code in CODES, f"{arguments}, mutant {k} of file {at}: exit code {code}, {err}"
                assert "Traceback" not in out + err


def test_commands_on_mutants(corpus: Corpus, capsys: Any) -> None:
    command_attack(corpus, 2, 7, capsys)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_commands_on_many_mutants(corpus: Corpus, capsys: Any) -> None:
    command_attack(corpus, 60, 8, capsys)
