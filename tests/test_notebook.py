"""What a console and a notebook show of results: the facts, and nothing that a name smuggles in."""

from __future__ import annotations

import math
import sqlite3
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.errors import TruthError
from sdpfeas.notebook import bars, bracket_history, spectrum
from sdpfeas.study.store import Store

STORED = Path(__file__).parent / "study" / "stored"


def element(html: str) -> ET.Element:
    """The card, which must be well-formed and complete in itself."""
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "<script" not in html
    return ET.fromstring(html)


def words(html: str) -> str:
    return " ".join(element(html).itertext())


def problem(least: float = 2.0, row: str = "first", block: str = "X") -> sf.FeasibilityProblem:
    """tr X <= 1 and X11 >= least."""
    rows = np.array([np.eye(3), np.diag([1.0, 0.0, 0.0])])
    names = {"row_names": ["total", row], "block_names": [block]}
    return sf.FeasibilityProblem([sf.PSD(3)], [rows], [-np.inf, least], [1.0, np.inf], **names)


def test_an_infeasible_result_shows_its_conflict() -> None:
    result = sf.solve(problem())
    assert repr(result).startswith("Result: INFEASIBLE (")
    assert "proof, margin " in repr(result)
    assert "auto in " in repr(result)
    assert "\n" not in repr(result)
    text = words(result._repr_html_())
    for part in ("INFEASIBLE", str(result.proof), "margin", "total", "first", "X", "%", "auto"):
        assert part in text
    shares = [e.weight for e in result.conflict(sets=True)]
    assert f"{shares[0]:.1%}" in text
    assert len(element(result._repr_html_()).findall(".//{*}rect")) == 3
    assert repr(result.check).startswith("Check: INFEASIBLE (")
    assert "first" in words(result.check._repr_html_())


def test_a_feasible_result_shows_the_spectrum() -> None:
    result = sf.solve(problem(0.25))
    assert repr(result).startswith("Result: FEASIBLE (")
    card = result._repr_html_()
    assert len(element(card).findall(".//{*}rect")) == 3
    lam = np.linalg.eigvalsh(result["X"])
    assert f"{lam[0]:.3g} … {lam[-1]:.3g}" in words(card)


def test_an_undecided_result_says_why() -> None:
    check = sf.verify(problem(), sf.Claim(point=(np.eye(3),)))
    assert repr(check) == f"Check: UNDECIDED: {check.reason}"
    assert check.reason in words(check._repr_html_())


def test_brackets_close() -> None:
    goal, rows = np.diag([1.0, 0.0, 0.0])[None], np.eye(3)[None]
    family = sf.families.LevelSet([sf.PSD(3)], [goal], [rows], [0.5], [1.0])
    found = sf.bisect(family, "auto", tol=1e-2)
    assert repr(found).startswith(
        f"BisectionResult: {found.lower:.8g} <= delta* <= {found.upper:.8g} (proven"
    )
    text = words(found._repr_html_())
    assert "PROVEN" in text
    assert f"{found.upper:.6g}" in text
    assert len(element(found._repr_html_()).findall(".//{*}rect")) == min(len(found.history) + 1, 80)


def test_brackets_of_models_and_optima() -> None:
    cp = pytest.importorskip("cvxpy")
    X, level = cp.Variable((2, 2), PSD=True, name="X"), cp.Parameter(name="level")
    total = cp.trace(X) == 1
    found = sf.bisect(cp.Problem(cp.Minimize(0), [total, X[0, 1] >= level]), level, tol=0.1)
    said = f"level = {found.lower:.8g} is feasible, {found.upper:.8g} is not"
    assert repr(found).startswith(f"ParameterBracket: {said} (proven")
    assert said in words(found._repr_html_())
    best = sf.optimum(cp.Problem(cp.Minimize(X[0, 0]), [total, X[0, 1] >= 0.4]))
    text = words(best._repr_html_())
    for part in ("PROVEN", f"{best.lower:.10g} ≤ min ≤ {best.upper:.10g}", best.reason):
        assert part in text
    assert "OPEN" in words(replace(best, upper=math.inf)._repr_html_())


def test_problems_and_studies(tmp_path: Path) -> None:
    assert "PSD(3), dense rows" in repr(problem())
    text = words(problem()._repr_html_())
    for part in ("FeasibilityProblem", "1 block, 2 rows", "X", "PSD(3), dense rows"):
        assert part in text
    many = sf.FeasibilityProblem([sf.PSD(1)] * 40, [None] * 40, [], [])
    assert repr(many).endswith("… and 28 more")
    with Store(tmp_path / "empty.db") as store:
        assert repr(store).endswith("empty.db, 0 cell(s)")
        assert "0 cell(s)" in words(store._repr_html_())
    assert "closed" in repr(store)
    assert "closed" in words(store._repr_html_())


def test_a_study_shows_what_every_solver_decided(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "study.db") as made:
        made.executescript((STORED / "study.sql").read_text(encoding="utf-8"))
    made.close()
    with Store(tmp_path / "study.db") as store:
        text, cells = words(store._repr_html_()), store.cells()
        solvers, problems = ({cell[what] for cell in cells} for what in ("solver", "problem"))
        assert f"{len(solvers)} solver(s), {len(problems)} problem(s), {len(cells)} cell(s)" in text
        for solver in solvers:
            became = [c["verdict"] or c["outcome"] or c["state"] for c in cells if c["solver"] == solver]
            assert solver in text
            for what in set(became):
                assert f"{became.count(what)} {what}" in text
        assert f"{len(cells)} cell(s): " in repr(store)


def test_nothing_is_true_or_false() -> None:
    result = sf.solve(problem())
    for thing in (result, result.check, result.verdict):
        with pytest.raises(TruthError, match="verdict == 'feasible'"):
            bool(thing)
        with pytest.raises(TypeError):
            _ = not thing


def test_by_name() -> None:
    infeasible, feasible = sf.solve(problem()), sf.solve(problem(0.25))
    assert feasible["X"] is feasible.point[0]
    assert feasible[0] is feasible[-1]
    assert infeasible.multiplier("first") == infeasible.certificate[1] > 0
    assert infeasible.multiplier(0) == infeasible.certificate[0] < 0
    for ask, match in (
        (lambda: feasible["Y"], "no block is called 'Y'; known: X"),
        (lambda: feasible[1], "no block 1"),
        (lambda: feasible[1.5], "not by float"),
        (lambda: infeasible.multiplier("frist"), "did you mean 'first'"),
        (lambda: infeasible.multiplier(True), "not by bool"),
    ):
        with pytest.raises(sf.ClaimError, match=match):
            ask()
    nothing = replace(infeasible, claim=sf.Claim(), check=replace(infeasible.check, certificate=None))
    with pytest.raises(sf.ClaimError, match="no point"):
        nothing["X"]
    with pytest.raises(sf.ClaimError, match="no multipliers"):
        nothing.multiplier("first")
    nameless = sf.FeasibilityProblem([sf.PSD(1)], [np.ones((1, 1, 1))], [1.0], [1.0])
    with pytest.raises(sf.ClaimError, match="have no names"):
        sf.solve(nameless)["X"]


def test_sets_are_among_the_conflicts() -> None:
    rows = [np.array([np.eye(2)]), np.array([[1.0]]), np.array([[0.0]])]
    sets = [sf.PSD(2), sf.Nonneg(1), sf.Nonneg(1)]
    asked = sf.FeasibilityProblem(sets, rows, [-np.inf], [-1.0], ["sum"], ["X", "t", "idle"])
    check = sf.solve(asked).check
    entries = {entry.name: entry for entry in check.conflict(sets=True)}
    assert set(entries) == {"sum", "X", "t"}
    assert sum(entry.weight for entry in entries.values()) == pytest.approx(1.0)
    assert np.allclose(entries["X"].multiplier, -check.certificate[0] * np.eye(2))
    assert (entries["X"].side, entries["X"].row, entries["X"].block) == ("set", None, 0)
    assert "and with X in PSD(2), t in Nonneg(1)" in check.explain()


def test_names_are_shown_and_not_obeyed() -> None:
    evil = '<script>alert("1")</script>\x1b[31m'
    card = sf.solve(problem(row=evil, block=evil))._repr_html_()
    assert "<script" not in card
    assert "\x1b" not in card
    element(card)
    element(problem(row=evil, block=evil)._repr_html_())


def test_pictures_take_anything() -> None:
    assert bars([]) == spectrum([]) == bracket_history([]) == ""
    assert spectrum([("x", [math.nan])]) == ""
    assert bracket_history([(-math.inf, math.inf)]) == ""
    for picture in (
        bars([("a" * 500, 0.0)]),
        spectrum([("x", [0.0] * 1000), ("y", [-1e300, 1e300])]),
        bracket_history([(-math.inf, math.inf), (0.0, math.inf), (0.0, 0.0)]),
    ):
        assert "nan" not in picture
        assert "inf" not in picture.replace("conflict", "")
        element(picture)


def test_pictures_say_what_they_show() -> None:
    shown = [bars([("a", 0.5)]), spectrum([("X", [1.0, 2.0])]), bracket_history([(0.0, 2.0), (0.0, 1.0)])]
    for picture in shown:
        root = ET.fromstring(picture)
        space = "{http://www.w3.org/2000/svg}"
        title = root.find(f"{space}title")
        assert title is not None
        assert title.text in [text.text for text in root.iter(f"{space}text")]  # seen, and not only heard


def test_a_bracket_that_took_no_step_has_no_picture() -> None:
    assert bracket_history([(1.0, 2.0)]) == ""
    close = bracket_history([(9.0, 10.0), (9.6254203, 9.6254208)])
    assert ">9.6254203<" in close
    assert ">9.6254208<" in close
