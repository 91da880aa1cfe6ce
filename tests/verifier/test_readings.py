"""Readings: verdicts about the numbers as stored, or as written, and the same ones from everybody."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import sdpfeas as sf
from sdpfeas.certifier.audit import Finding, audit
from sdpfeas.cli.app import app
from sdpfeas.deadline import Deadline
from sdpfeas.errors import OptionError
from sdpfeas.io.result_files import load_result, save_result
from sdpfeas.numerics.exact_arithmetic import written
from sdpfeas.numerics.limits import limited
from sdpfeas.problem.rows import LowRank
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier import decide

BACKENDS = ("auto", "clarabel", "scs", "admm", "dual-lbfgs", "spectral-ipm", "cvxpy")


def sums(a: float, b: float, c: float, *, at_most: bool = False) -> sf.FeasibilityProblem:
    """``x11 = a``, ``x22 = b`` and ``x11 + x22 = c`` (or at most ``c``) on a semidefinite matrix."""
    rows = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.eye(2)])
    lower = [a, b, -np.inf if at_most else c]
    return sf.FeasibilityProblem([sf.PSD(2)], [rows], lower, [a, b, c])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("numbers", [(0.1, 0.2, 0.3), (1 / 3, 2 / 3, 1.0)])
def test_every_backend_gives_the_same_answer(backend: str, numbers: tuple[float, float, float]) -> None:
    """Decimals and fractions that do not add up as stored, and do as written."""
    problem = sums(*numbers)
    stored = sf.solve(problem, backend, time_limit=60)
    assert (stored.verdict, stored.proof, stored.reading) == ("infeasible", "exact", "stored")
    assert "as stored, feasible as written" in stored.reason
    meant = sf.solve(problem, backend, time_limit=60, reading="written")
    assert (meant.verdict, meant.proof, meant.reading) == ("feasible", "exact", "written")
    assert "feasible as written, infeasible by" in meant.reason
    assert "numbers as written" in meant.explain()


def test_the_margin_is_said() -> None:
    """By how much the stored numbers miss each other."""
    check = decide(sums(0.1, 0.2, 0.3), sf.Claim(point=(np.diag([0.1, 0.2]),)))
    assert check.reason.startswith("infeasible by 4.6e-17 as stored, feasible as written")
    assert sf.verify(check.problem, check, exact=True).verdict is sf.Verdict.INFEASIBLE


decimals = st.builds(lambda n, k: n / 10**k, st.integers(1, 10**6), st.integers(0, 6))
fractions = st.builds(lambda n, k: n / k, st.integers(1, 200), st.integers(1, 200))


def _sets(kind: str, total: float) -> tuple[BlockSet, object]:
    """A set in which two numbers add up to a third, and rows that say so."""
    vector = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    diagonal = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.eye(2)])
    if kind == "nonneg":
        return sf.Nonneg(2), vector
    if kind == "free":
        return sf.Free(2), vector
    if kind == "low-rank":
        return sf.PSD(2), LowRank([np.eye(2)[:1], np.eye(2)[1:], np.eye(2)])
    if kind == "box":
        return sf.SpectralBox(2, 0.0, 2.0**20, total), diagonal[:2]
    return sf.PSD(2), diagonal


@settings(max_examples=60)
@given(
    st.one_of(st.tuples(decimals, decimals), st.tuples(fractions, fractions)),
    st.sampled_from(["psd", "nonneg", "free", "low-rank", "box"]),
    st.booleans(),
)
def test_readings_are_told_apart(pair: tuple[float, float], kind: str, at_most: bool) -> None:
    """Truth by fractions: as written the numbers add up, as stored they may not; a trace counts as a row."""
    a, b = pair
    meant = written(a) + written(b)
    c = float(meant)
    block, rows = _sets(kind, c)
    bounds = np.array([a, b, c][: 2 if kind == "box" else 3])
    lower = bounds.copy()
    if at_most and kind != "box":
        lower[2] = -np.inf
    problem = sf.FeasibilityProblem([block], [rows], lower, bounds)
    parts = np.diag([a, b]) if block.matrix else np.array([a, b])
    claim = sf.Claim(point=(parts,))
    if written(c) == meant:
        check = decide(problem, claim, reading="written")
        assert check.verdict == "feasible", check.reason
        assert check.proof in ("exact", "rigorous")
    left = Fraction(c) - Fraction(a) - Fraction(b)
    holds = left >= 0 if at_most and kind != "box" else left == 0
    check = decide(problem, claim)
    if check.proof in ("exact", "rigorous"):
        assert check.verdict == ("feasible" if holds else "infeasible"), check.reason
    if max(len(repr(v)) for v in (a, b, c)) < 9:
        assert check.proof in ("exact", "rigorous"), check.reason
        if not holds:
            assert "infeasible by" in check.reason
            assert "feasible as written" in check.reason


def test_numeric_verify_agrees() -> None:
    """A numeric verdict is not granted where the rows are known to disagree."""
    claim = sf.Claim(point=(np.diag([0.1, 0.2]),))
    check = sf.verify(sums(0.1, 0.2, 0.3), claim)
    assert (check.verdict, check.proof) == ("infeasible", "exact")
    assert sf.verify(sums(0.1, 0.2, 0.3, at_most=True), claim).verdict != "feasible"
    assert sf.verify(sums(0.25, 0.5, 0.75), sf.Claim(point=(np.diag([0.25, 0.5]),))).verdict == "feasible"


def test_both_readings_alike() -> None:
    """What holds in both readings is said to, and short binaries are no question at all."""
    robust = decide(sums(0.1, 0.2, 0.4), sf.Claim(certificate=np.array([-1.0, -1.0, 1.0])))
    assert robust.verdict == "infeasible"
    check = sf.verify(robust.problem, robust, exact=True)
    assert check.reason.endswith("as stored and as written")
    whole = sf.verify(sums(1.0, 2.0, 4.0), sf.Claim(certificate=np.array([-1.0, -1.0, 1.0])), exact=True)
    assert "as written" not in whole.reason


def test_a_wrong_reading_is_refused() -> None:
    """Only two readings are known."""
    problem = sums(0.1, 0.2, 0.3)
    for call in (
        lambda: sf.solve(problem, "scs", reading="meant"),
        lambda: sf.verify(problem, sf.Claim(), reading="WRITTEN"),
        lambda: decide(problem, sf.Claim(), reading=""),
    ):
        with pytest.raises(OptionError, match="reading must be 'stored' or 'written'"):
            call()


def test_large_problems_as_written() -> None:
    """No proof is about numbers as written where rational arithmetic would take too long."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 40, 40))
    rows = rows + rows.transpose(0, 2, 1)
    problem = sf.FeasibilityProblem([sf.PSD(40)], [rows], np.full(60, -1e9), np.full(60, 1e9))
    claim = sf.Claim(point=(np.eye(40),))
    assert decide(problem, claim).proof == "rigorous"
    check = decide(problem, claim, reading="written", rigorous=True)
    assert check.verdict == "undecided"
    assert "too large for exact mode" in check.reason
    assert decide(problem, claim, reading="written").proof == "numeric"


class Counted(Deadline):
    """A deadline that passes after some questions for the time."""

    def __init__(self, questions: int) -> None:
        super().__init__(1e6)
        self.questions = questions

    @property
    def left(self) -> float:
        """Seconds, until there are none."""
        self.questions -= 1
        return 1e6 if self.questions >= 0 else 0.0


@pytest.mark.parametrize("reading", ["stored", "written"])
@pytest.mark.parametrize("claim", [
    sf.Claim(point=(np.diag([0.1, 0.2]),)),
    sf.Claim(certificate=np.array([1.0, 1.0, -1.0])),
])  # fmt: skip
def test_limits_never_escape(reading: str, claim: sf.Claim) -> None:
    """Wherever the time ends, the answer is a check."""
    verdicts = set()
    for questions in range(60):
        problem = sums(0.1, 0.2, 0.3)
        with limited(Counted(questions)):
            verdicts.add(decide(problem, claim, reading=reading).verdict)
    assert len(verdicts - {sf.Verdict.FEASIBLE}) == 2 or reading == "written"


def test_files_and_commands(tmp_path: Path) -> None:
    """The reading travels with the answer, to the auditor too."""
    problem = sums(0.1, 0.2, 0.3)
    problem.save(tmp_path / "p.npz")
    run = CliRunner().invoke(
        app, ["solve", str(tmp_path / "p.npz"), "--solver", "scs", "--reading", "written",
              "-o", str(tmp_path / "a.npz")]
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    assert "numbers as written" in run.output
    saved = load_result(tmp_path / "a.npz")
    assert (saved.reading, saved.verdict) == ("written", "feasible")
    assert audit(problem, saved, "written").finding is Finding.CONFIRMED
    args = ["verify", str(tmp_path / "p.npz"), str(tmp_path / "a.npz")]
    shown = CliRunner().invoke(app, [*args, "--reading", "written"]).output
    assert "FEASIBLE (exact proof, numbers as written)" in shown
    assert "INFEASIBLE" in CliRunner().invoke(app, args).output
    audited = CliRunner().invoke(app, ["audit", *args[1:], "--reading", "written"])
    assert audited.exit_code == 0
    assert "numbers as written" in audited.output
    assert CliRunner().invoke(app, ["audit", *args[1:]]).exit_code == 1
    result = sf.solve(problem, "scs", time_limit=30)
    save_result(result, tmp_path / "b.npz")
    saved = load_result(tmp_path / "b.npz")
    assert saved.reading == "stored"
    assert audit(problem, saved).finding is Finding.CONFIRMED


# ---------------------------------------------------------------- chains about other numbers


def tenths_on_a_face(bound: float) -> sf.FeasibilityProblem:
    """x11 = .1, x22 = .2, their sum, and x33 = 0: no interior, so a chain is looked for."""
    rows = np.array([np.diag(d) for d in ([1.0, 0, 0], [0, 1.0, 0], [1.0, 1.0, 0], [0, 0, 1.0])])
    bounds = [0.1, 0.2, bound, 0.0]
    return sf.FeasibilityProblem([sf.PSD(3)], [rows], bounds, bounds)


@pytest.mark.parametrize("backend", ["auto", "facial", "spectral-ipm"])
def test_a_chain_as_written_does_not_answer_what_was_asked_as_stored(backend: str) -> None:
    problem = tenths_on_a_face(0.3)
    found = sf.solve(problem, backend, time_limit=20)
    assert (found.verdict, found.proof, found.reading) == ("infeasible", "exact", "stored"), found.reason
    assert "as stored, feasible as written" in found.reason
    written = sf.solve(problem, backend, time_limit=20, reading="written")
    assert (written.verdict, written.reading) == ("feasible", "written")
    # Handed in as a claim about the stored numbers it is refuted, too.
    check = sf.verify(problem, written, rigorous=True)
    assert (check.verdict, check.reading) == ("infeasible", "stored"), check.reason
    # What was computed is infeasible as written, whatever it was meant to be.
    assert (
        sf.solve(tenths_on_a_face(0.1 + 0.2), backend, time_limit=20, reading="written").verdict
        == "infeasible"
    )
