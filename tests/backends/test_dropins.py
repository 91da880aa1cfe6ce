"""The drop-in backends in solvers/, used exactly as a stranger's plugin would be.

Every test works on a copy in a temporary folder, with another working directory, and knows the backend by
its path only.
"""

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sdplib_like

import sdpfeas as sf
from sdpfeas.claims import claimed_verdict
from sdpfeas.dropin import Deadline
from sdpfeas.families import planted
from sdpfeas.testing import check_backend

SOLVERS = Path(__file__).parents[2] / "solvers"
CSDP = shutil.which("csdp")
NEEDS_CSDP = pytest.mark.skipif(CSDP is None, reason="the program csdp (coinor-csdp) is not installed")
BACKENDS = ["dykstra", pytest.param("csdp", marks=NEEDS_CSDP)]


@pytest.fixture
def drop_in(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy of a drop-in in a folder of its own; the working directory is yet another one."""
    plugins, elsewhere = tmp_path / "plugins", tmp_path / "elsewhere"
    plugins.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    return Path(shutil.copy(SOLVERS / f"{request.param}.py", plugins))


every = pytest.mark.parametrize("drop_in", BACKENDS, indirect=True)
csdp = pytest.mark.parametrize("drop_in", [pytest.param("csdp", marks=NEEDS_CSDP)], indirect=True)
dykstra = pytest.mark.parametrize("drop_in", ["dykstra"], indirect=True)


@every
def test_found_by_path_and_by_folder(drop_in: Path) -> None:
    solver = sf.find_solver(drop_in)
    assert solver.name == drop_in.stem
    assert solver.kind.available() == (True, "")
    assert solver.kind.version()
    own = Path("solvers")
    own.mkdir()
    (own / "mine.toml").write_text(f'backend = "{drop_in.stem}"\n[options]\nmax_iterations = 7\n')
    shutil.copy(drop_in, own)
    card = sf.find_solver("mine")
    assert card.make().option_values()["max_iterations"] == 7


@every
@pytest.mark.parametrize("name", planted.set_mixes())
@pytest.mark.parametrize("truth", [True, False])
def test_planted_problems(drop_in: Path, name: str, truth: bool) -> None:
    plant = planted.feasible if truth else planted.infeasible
    item = plant(np.random.default_rng([7, truth]), planted.set_mixes()[name])
    result = sf.solve(item.problem, drop_in, time_limit=20)
    assert result.verdict == item.truth
    assert result.backend == drop_in.stem
    assert result.raw_status


def matrix_inequality(rng: np.random.Generator, truth: bool) -> planted.PlantedProblem:
    """An LMI without slack variables."""
    plant = planted.feasible_lmis if truth else planted.infeasible_lmis
    return plant(rng, [sf.Free(2)], [sf.PSD(3)])


@every
@pytest.mark.parametrize("truth", [True, False])
def test_linear_matrix_inequalities(drop_in: Path, truth: bool) -> None:
    rng = np.random.default_rng(8)
    for item in (planted.lmi(rng, 4, 3, truth=truth), matrix_inequality(rng, truth)):
        assert sf.solve(item.problem, drop_in, time_limit=20).verdict == item.truth


@every
def test_no_rows_and_empty_rows(drop_in: Path) -> None:
    sets = [sf.PSD(2), sf.Free(1), sf.SpectralBox(2, trace=1.0)]
    nothing = sf.FeasibilityProblem(sets, [None] * 3, [], [])
    assert sf.solve(nothing, drop_in).verdict == sf.Verdict.FEASIBLE
    rows = [np.array([np.zeros((2, 2)), np.eye(2)])]
    fine = sf.FeasibilityProblem([sf.PSD(2)], rows, [0.0, 1.0], [0.0, 1.0])
    assert sf.solve(fine, drop_in).verdict == sf.Verdict.FEASIBLE
    broken = sf.FeasibilityProblem([sf.PSD(2)], rows, [1.0, 1.0], [1.0, 1.0])
    assert sf.solve(broken, drop_in).verdict == sf.Verdict.INFEASIBLE


@every
def test_options_are_checked(drop_in: Path) -> None:
    item = planted.feasible(np.random.default_rng(9), [sf.PSD(2)])
    with pytest.raises(sf.OptionError, match="max_iterations"):
        sf.solve(item.problem, drop_in, options={"max_iteration": 3})
    with pytest.raises(sf.OptionError, match="at least 1"):
        sf.solve(item.problem, drop_in, options={"max_iterations": 0})


@every
def test_isolated(drop_in: Path) -> None:
    item = planted.feasible(np.random.default_rng(10), [sf.PSD(3)])
    result = sf.solve(item.problem, drop_in, isolate=True, time_limit=20)
    assert result.verdict == sf.Verdict.FEASIBLE


def slow_for_projections() -> sf.FeasibilityProblem:
    """Only points of rank two, and none with an interior: alternating projections crawl."""
    rng = np.random.default_rng(11)
    n, m = 20, 180
    x = planted.with_spectrum(rng, np.concatenate([np.zeros(n - 2), [1.0, 2.0]]))
    rows = np.array([planted.symmetric(rng, n) for _ in range(m)])
    value = np.tensordot(rows, x, axes=2)
    return sf.FeasibilityProblem([sf.PSD(n)], [rows], value, value)


def slow_for_csdp() -> sf.FeasibilityProblem:
    """Thousands of rows with one entry each: a short file and a large linear system."""
    n, m = 100, 3000
    i, j = (index[:m] for index in np.triu_indices(n, 1))
    k = np.arange(m)
    data = np.full(2 * m, 0.5), (np.concatenate([k, k]), np.concatenate([i * n + j, j * n + i]))
    rows = sp.csr_array(data, shape=(m, n * n))
    value = np.full(m, 0.9)
    return sf.FeasibilityProblem([sf.PSD(n)], [rows], value, value)


SLOW = {"dykstra": slow_for_projections, "csdp": slow_for_csdp}


@every
def test_time_limit_holds(drop_in: Path) -> None:
    problem = SLOW[drop_in.stem]()
    backend = sf.find_solver(drop_in).make()
    begin = time.perf_counter()
    claim = backend.solve(problem, sf.Inquiry(problem, deadline=Deadline(0.1)))
    # Half a second is allowed, the rest is for a busy machine.
    assert time.perf_counter() - begin < 1.1 * 0.1 + 0.5 + 1.0
    assert claim.stop == sf.Stop.TIME_LIMIT


# ---------------------------------------------------------------- Dykstra


@dykstra
def test_callback_stops(drop_in: Path) -> None:
    seen: list[sf.Progress] = []

    def callback(progress: sf.Progress) -> bool:
        seen.append(progress)
        return True

    result = sf.solve(slow_for_projections(), drop_in, callback=callback, time_limit=30)
    assert result.stop == sf.Stop.CALLBACK
    assert len(seen) == 1
    assert seen[0].point is not None
    assert seen[0].certificate is not None


# ---------------------------------------------------------------- CSDP


def test_csdp_says_why_it_is_not_available(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    solver = sf.find_solver(SOLVERS / "csdp.py")
    fine, why = solver.kind.available()
    assert not fine
    assert "coinor-csdp" in why
    item = planted.feasible(np.random.default_rng(12), [sf.PSD(2)])
    with pytest.raises(sf.BackendError, match="not on the PATH"):
        sf.solve(item.problem, SOLVERS / "csdp.py")


@csdp
def test_csdp_keeps_the_raw_status(drop_in: Path) -> None:
    rng = np.random.default_rng(13)
    good = sf.solve(planted.feasible(rng, [sf.PSD(3)]).problem, drop_in)
    assert good.raw_status == "exit code 0: solved"
    bad = sf.solve(planted.infeasible(rng, [sf.PSD(3)]).problem, drop_in)
    assert bad.raw_status == "exit code 1: primal infeasible"
    short = sf.solve(planted.infeasible(rng, [sf.PSD(3)]).problem, drop_in, options={"max_iterations": 1})
    assert "exit code" in short.raw_status


@csdp
def test_csdp_forms_agree(drop_in: Path) -> None:
    for truth in (True, False):
        item = matrix_inequality(np.random.default_rng(14), truth)
        for form in ("auto", "lmi", "equality"):
            result = sf.solve(item.problem, drop_in, options={"form": form})
            assert result.verdict == item.truth
            assert result.claim.info["form"] == ("equality" if form == "equality" else "lmi")
    item = planted.feasible(np.random.default_rng(15), [sf.PSD(2)])
    assert sf.solve(item.problem, drop_in, options={"form": "lmi"}).stop == sf.Stop.UNSUPPORTED


@csdp
def test_csdp_leaves_nothing_behind(drop_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    sf.solve(planted.feasible(np.random.default_rng(16), [sf.PSD(3)]).problem, drop_in)
    inquiry = sf.Inquiry(slow_for_csdp(), deadline=Deadline(0.1))
    sf.find_solver(drop_in).make().solve(slow_for_csdp(), inquiry)
    assert not list(scratch.iterdir())
    assert not list(Path.cwd().iterdir())


@csdp
def test_csdp_that_fails_is_an_error_not_an_answer(
    drop_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "bin" / "csdp"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho out of luck\nexit 206\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:/usr/bin:/bin")
    result = sf.solve(planted.feasible(np.random.default_rng(17), [sf.PSD(2)]).problem, drop_in)
    assert result.verdict == sf.Verdict.UNDECIDED
    assert result.stop == sf.Stop.ERROR
    assert "exit code 206" in result.raw_status
    assert "out of luck" in result.raw_status


#: Sides without a strictly feasible point anybody found, or beyond the verifier so far: never infeasible.
HARD = {
    ("arch0", "lmi"), ("control3", "lmi"), ("gpp100", "primal"), ("hinf1", "primal"), ("hinf3", "primal"),
    ("hinf4", "primal"), ("qap5", "primal"), ("truss2", "primal"),
}  # fmt: skip
SMALL = ["control1", "hinf1", "hinf2", "infd1", "infp1", "mcp100", "qap5", "theta1", "truss1", "truss4"]
LARGE = ["arch0", "control2", "control3", "gpp100", "hinf3", "hinf4", "truss2", "truss3"]


@csdp
@pytest.mark.parametrize("side", ["primal", "lmi"])
@pytest.mark.parametrize("name", SMALL + [pytest.param(n, marks=pytest.mark.slow) for n in LARGE])
def test_csdp_on_sdplib(data_dir: Path, drop_in: Path, name: str, side: str) -> None:
    path = data_dir / "sdplib" / f"{name}.dat-s"
    if not path.is_file():
        pytest.skip(f"no {path}")
    result = sf.solve(sf.read_sdpa(path, side), drop_in, time_limit=60)
    if (name, side) in {("infd1", "primal"), ("infp1", "lmi")}:
        assert result.verdict == sf.Verdict.INFEASIBLE
    elif (name, side) in HARD:
        assert result.verdict != sf.Verdict.INFEASIBLE
    else:
        assert result.verdict == sf.Verdict.FEASIBLE


# ---------------------------------------------------------------- solvers that come as packages

#: Drop-ins, and the module each of them needs.
PACKAGED = {"cvxopt": "cvxopt", "dsdp": "cvxopt", "sdpa": "sdpap"}
packaged = pytest.mark.parametrize("name", PACKAGED)


@pytest.mark.slow
@packaged
def test_packaged_solvers_conform(name: str) -> None:
    pytest.importorskip(PACKAGED[name], reason=f"{name} is not installed")
    wrong = [finding for finding in check_backend(SOLVERS / f"{name}.py") if not finding.passed]
    assert wrong == []


@packaged
@pytest.mark.parametrize("truth", [True, False])
def test_packaged_solvers_decide_both_ways(name: str, truth: bool, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(PACKAGED[name], reason=f"{name} is not installed")
    rng = np.random.default_rng(3)
    plant = planted.feasible if truth else planted.infeasible
    items = [plant(rng, [sf.Nonneg(2), sf.PSD(3), sf.Free(1)]), planted.lmi(rng, 3, 2, truth=truth)]
    items.append(matrix_inequality(rng, truth))
    for item in items:
        result = sf.solve(item.problem, SOLVERS / f"{name}.py", rigorous=True)
        assert result.verdict == item.truth
        said = claimed_verdict(result.claim)
        # A word about bounds, or about one side of two, is none about the problem.
        silent = any(words in result.raw_status for words in ("at its bound", "one side or both", "UNKNOWN"))
        assert said == (None if silent else item.truth)
    assert capfd.readouterr().out == ""


def test_sdpa_reads_phases_by_side() -> None:
    """Infeasible on one side is unbounded on the other: the phase is about the side that was asked."""
    pytest.importorskip("sdpap", reason="SDPA is not installed")
    item = matrix_inequality(np.random.default_rng(14), False)
    phases = {}
    for form in ("lmi", "equality"):
        result = sf.solve(item.problem, SOLVERS / "sdpa.py", options={"form": form})
        assert (result.verdict, result.claim.info["form"]) == (item.truth, form)
        phases[form] = result.raw_status.partition(":")[0]
    assert phases["lmi"] in ("pUNBD", "pFEAS_dINF")
    assert phases["equality"] in ("dUNBD", "pINF_dFEAS", "pdINF")


@pytest.mark.parametrize("form", ["lmi", "equality"])
def test_sdpa_makes_no_claim_of_the_other_side(form: str) -> None:
    """Stopped early, one side has become feasible: never the one that has no point."""
    pytest.importorskip("sdpap", reason="SDPA is not installed")
    rng = np.random.default_rng(0)
    item = matrix_inequality(rng, False) if form == "lmi" else planted.infeasible(rng, [sf.PSD(4)])
    said = {}
    for iterations in (1, 2, 6):
        options = {"form": form, "max_iterations": iterations}
        claim = sf.solve(item.problem, SOLVERS / "sdpa.py", options=options).claim
        assert claim.info["form"] == form
        said[claim.raw_status.partition(":")[0]] = claim.info["claimed"]
    early, late = ("dFEAS", "pUNBD") if form == "lmi" else ("pFEAS", "dUNBD")
    assert said == {early: "undecided", late: "infeasible"}


@pytest.mark.parametrize("name", PACKAGED)
def test_a_package_that_is_missing_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    solver = sf.find_solver(SOLVERS / f"{name}.py")
    monkeypatch.setattr(solver.kind, "requires", ("no_such_package",))
    fine, why = solver.kind.available()
    assert not fine
    assert "no_such_package" in why


def test_sdpa_takes_as_many_iterations_as_its_first_shows_to_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot be stopped: control8 of SDPLIB took 16.8 s for a limit of 5 s."""
    pytest.importorskip("sdpap", reason="SDPA is not installed")
    problem = sf.read_sdpa(sdplib_like.control(tmp_path / "control.dat-s", 10), "primal")
    kind = sf.find_solver(SOLVERS / "sdpa.py").kind
    run, asked = kind._run, []

    def slow(self: object, given: object, iterations: int) -> object:
        asked.append(iterations)
        time.sleep(0.1 * iterations)
        return run(self, given, iterations)

    monkeypatch.setattr(kind, "_run", slow)
    begin = time.perf_counter()
    result = sf.solve(problem, kind, time_limit=1.0)
    assert time.perf_counter() - begin < 1.6
    if asked:  # refused beforehand on a machine that is busy
        assert asked[0] == 1
        assert all(1 <= count <= 8 for count in asked[1:])
        assert result.stop is sf.Stop.TIME_LIMIT or result.verdict is not sf.Verdict.UNDECIDED


@pytest.mark.slow
@pytest.mark.parametrize("side", ["primal", "lmi"])
@pytest.mark.parametrize("n", [25, 40])
def test_sdpa_keeps_its_limit_on_control_problems(n: int, side: Any, tmp_path: Path) -> None:
    """In processor time."""
    pytest.importorskip("sdpap", reason="SDPA is not installed")
    problem = sf.read_sdpa(sdplib_like.control(tmp_path / "control.dat-s", n), side)
    for limit in (1.0, 5.0):
        begin = time.process_time()
        sf.solve(problem, SOLVERS / "sdpa.py", time_limit=limit)
        assert time.process_time() - begin < 1.1 * limit + 0.5
