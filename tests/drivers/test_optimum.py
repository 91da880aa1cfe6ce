"""Proven brackets of optimal values: planted optima, both senses, all sets, nothing without an interior."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import sdplib_like
from hypothesis import given, settings
from hypothesis import strategies as st

import sdpfeas as sf
from sdpfeas.cli import main
from sdpfeas.drivers.certified_program import multiplied
from sdpfeas.families import planted
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.reductions.redundant_rows import independent_rows
from sdpfeas.problem.sets import BlockSet

SETS: dict[str, list[BlockSet]] = {
    "psd": [sf.PSD(4)],
    "nonneg": [sf.Nonneg(6)],
    "free": [sf.PSD(3), sf.Free(2)],
    "second order": [sf.SecondOrder(4), sf.Nonneg(3)],
    "hermitian": [sf.HermitianPSD(3)],
    "box": [sf.SpectralBox(3, trace=1.5), sf.Nonneg(2)],
}


def planted_optimum(rng: np.random.Generator, sets: list[BlockSet], rows: int) -> tuple[Any, Any, float]:
    """A program whose optimal value is known: complementary X and S of known spectra, c = -S - A*y."""
    point, slack = [], []
    for block in sets:
        frame = block.random_frame(rng)
        if block.free:
            point.append(rng.normal(size=block.n))
            slack.append(np.zeros(block.n))
            continue
        half = block.degree // 2
        lam = np.concatenate([np.zeros(half), rng.uniform(0.5, 2.0, block.degree - half)])
        point.append(block.compose(frame, lam))
        slack.append(block.compose(frame, np.where(lam == 0.0, rng.uniform(0.5, 2.0, block.degree), 0.0)))
    # The first row keeps points bounded: with an identity in it both sides have an interior.
    blocks = [np.array(planted.random_rows(rng, block, rows, "dense").array) for block in sets]
    for block, a in zip(sets, blocks, strict=True):
        a[0] = np.zeros(block.shape) if block.free else block.identity()
    y = rng.normal(size=rows)
    problem = sf.FeasibilityProblem(sets, blocks, np.zeros(rows), np.zeros(rows))
    right = problem.apply(tuple(point))
    problem = sf.FeasibilityProblem(sets, blocks, right, right)
    terms = tuple(-s - g for s, g in zip(slack, problem.adjoint(y), strict=True))
    return problem, terms, float(sum(np.vdot(c, x) for c, x in zip(terms, point, strict=True)))


@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("name", [name for name in SETS if name != "box"])
def test_planted_optima_are_bracketed(name: str, sense: str) -> None:
    rng = np.random.default_rng(7)
    problem, terms, value = planted_optimum(rng, SETS[name], 3)
    if sense == "min":
        terms, value = tuple(-c for c in terms), -value
    found = sf.optimum(problem, sf.Objective(terms, sense, offset=2.0), 1e-6)  # type: ignore[arg-type]
    slip = 1e-11 * (1.0 + abs(value))
    assert found.lower - slip <= value + 2.0 <= found.upper + slip
    assert found.converged, found
    assert found.upper - found.lower <= 1e-5 * (1.0 + abs(value))
    check = sf.verify(problem, sf.Claim(point=found.point), rigorous=True)
    assert check.verdict is sf.Verdict.FEASIBLE


def test_a_box_has_its_support_as_optimum() -> None:
    rng = np.random.default_rng(8)
    block = sf.SpectralBox(4, trace=1.5)
    c = planted.symmetric(rng, 4)
    rows = np.eye(4)[None]
    problem = sf.FeasibilityProblem([block], [rows], [1.0], [2.0])
    found = sf.optimum(problem, [c])
    assert found.lower - 1e-12 <= block.support(c) <= found.upper + 1e-12
    assert found.converged


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_brackets_hold_whatever_the_solver_says(seed: int) -> None:
    """Linear programs with integers, whose optimum is at a vertex that is known exactly."""
    rng = np.random.default_rng(seed)
    a, b = rng.integers(1, 9, size=5).astype(float), float(rng.integers(1, 9))
    c = rng.integers(-9, 10, size=5).astype(float)
    problem = sf.FeasibilityProblem([sf.Nonneg(5)], [a[None]], [-np.inf], [b])
    value = max(0.0, float(np.max(c * b / a)))
    found = sf.optimum(problem, [c], 1e-6, "clarabel")
    assert found.lower <= value * (1 + 1e-15) <= found.upper * (1 + 1e-15)


def test_an_lmi_is_optimised_too() -> None:
    """The largest t with diag(4, 9) - t·I positive semidefinite is four."""
    builder = sf.ProblemBuilder()
    builder.block("t", sf.Free(1))
    builder.lmi("bound", np.diag([4.0, 9.0]), {"t": -np.eye(2)[None]})
    found = sf.optimum(builder.build(), [np.ones(1)], 1e-6)
    assert found.lower <= 4.0 <= found.upper
    assert found.converged, found


@pytest.mark.parametrize("sense", ["max", "min"])
def test_lmis_in_several_free_blocks(sense: Any) -> None:
    """The two ends of the numbers that keep two matrices semidefinite: eigenvalues, known exactly."""
    a, b = np.array([[2.0, 1.0], [1.0, 2.0]]), np.diag([5.0, 7.0])
    first = sf.LMI(sf.PSD(2), a, [-np.eye(2)[None], None])  # s <= 1
    second = sf.LMI(sf.PSD(2), b, [None, -np.eye(2)[None]])  # t <= 5
    third = sf.LMI(sf.SecondOrder(2), [9.0, 0.0], [[[0.0, 1.0]], None])  # |s| <= 9
    fourth = sf.LMI(sf.Nonneg(1), [3.0], [None, [[1.0]]])  # t >= -3
    sets = [sf.Free(1), sf.Free(1)]
    problem = sf.FeasibilityProblem(sets, [None, None], [], [], lmis=[first, second, third, fourth])
    found = sf.optimum(problem, sf.Objective(([2.0], [1.0]), sense))
    value = 7.0 if sense == "max" else -21.0
    assert found.lower <= value <= found.upper
    assert found.converged, found
    assert sf.verify(problem, sf.Claim(point=found.point), rigorous=True).verdict is sf.Verdict.FEASIBLE


UNBOUNDED_LMI = sf.LMI(sf.PSD(2), np.eye(2), [np.array([np.diag([1.0, 0.0]), [[0.0, 1.0], [1.0, 0.0]]])])


@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize(
    ("problem", "terms"),
    [
        (sf.FeasibilityProblem([sf.Nonneg(2)], [[[1.0, -1.0]]], [0.0], [0.0]), [1.0, 1.0]),
        (sf.FeasibilityProblem([sf.PSD(2)], [np.diag([1.0, 0.0])[None]], [1.0], [1.0]), np.diag([0.0, 1.0])),
        (sf.FeasibilityProblem([sf.SecondOrder(3)], [[[0.0, 1.0, 0.0]]], [1.0], [1.0]), [1.0, 0.0, 0.0]),
        (sf.FeasibilityProblem([sf.Free(2)], [None], [], [], lmis=[UNBOUNDED_LMI]), [1.0, 0.0]),
    ],
    ids=["linear", "psd", "second order", "lmi"],
)
def test_an_unbounded_objective_is_proved(problem: sf.FeasibilityProblem, terms: Any, sense: Any) -> None:
    value = math.inf if sense == "max" else -math.inf
    found = sf.optimum(problem, sf.Objective((np.sign(value) * np.array(terms),), sense), time_limit=60)
    assert found.unbounded
    assert found.converged
    assert (found.lower, found.upper) == (value, value)
    assert found.point is not None
    assert sf.verify(problem, sf.Claim(point=found.point), rigorous=True).verdict is sf.Verdict.FEASIBLE
    assert "unbounded" in repr(found)
    assert "unbounded" in found._repr_html_()
    # The other way the same problem has a finite optimum, or none that is attained.
    other = sf.optimum(problem, sf.Objective((-np.sign(value) * np.array(terms),), sense), time_limit=60)
    assert not other.unbounded


def test_the_sense_of_an_objective_is_stated() -> None:
    with pytest.raises(TypeError, match="sense"):
        sf.Objective((np.ones(1),))  # type: ignore[call-arg]


def test_nothing_is_proved_where_there_is_nothing_to_prove() -> None:
    # Unbounded: no multipliers; infeasible: no point; without an interior: the lower end stays open.
    free = sf.FeasibilityProblem([sf.Nonneg(2)], [np.array([[1.0, -1.0]])], [0.0], [0.0])
    assert sf.optimum(free, [np.ones(2)], time_limit=1).upper == math.inf
    empty = sf.FeasibilityProblem([sf.Nonneg(2)], [np.array([[1.0, 1.0]])], [-2.0], [-1.0])
    assert sf.optimum(empty, [np.ones(2)], time_limit=1).lower == -math.inf
    with pytest.raises(sf.ProblemError, match="needs a problem with at least one row or LMI"):
        sf.optimum(sf.FeasibilityProblem([sf.Nonneg(2)], [None], [], []), [np.ones(2)])
    with pytest.raises(sf.BackendError, match="takes no objective"):
        sf.optimum(free, [np.ones(2)], solver="admm")
    with pytest.raises(sf.ClaimError, match="shape"):
        sf.optimum(free, [np.ones(3)])
    with pytest.raises(sf.OptionError, match="sense"):
        sf.Objective([np.ones(2)], "most")  # type: ignore[arg-type]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.dat-s"
    # max <F_0, Y>, tr Y = 1: the largest eigenvalue of F_0, three.
    path.write_text("1\n1\n2\n1\n0 1 1 1 2\n0 1 2 2 2\n0 1 1 2 1\n1 1 1 1 1\n1 1 2 2 1\n")
    with pytest.raises(SystemExit) as caught:
        main(["solve", str(path), "--objective", "--json"])
    assert not caught.value.code
    said = json.loads(capsys.readouterr().out)
    assert said["lower"] <= 3.0 <= said["upper"]
    assert said["converged"]
    assert said["reading"] == "stored"
    with pytest.raises(SystemExit):
        main(["solve", str(path), "--objective", "--reading", "written"])
    assert ", numbers as written" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["solve", "theta-cycle", "--objective"])
    assert "needs a file with an objective" in capsys.readouterr().err


#: Optimal values that are published with SDPLIB 1.2 and the DIMACS challenge; maxima of the primal side.
PUBLISHED = {
    "sdplib/truss1.dat-s": -8.999996,
    "sdplib/truss4.dat-s": -9.009996,
    "sdplib/truss8.dat-s": -133.1146,
    "sdplib/arch0.dat-s": 0.566517,
    "sdplib/control1.dat-s": 17.78463,
    "sdplib/control2.dat-s": 8.3,
    "sdplib/control3.dat-s": 13.63327,
    "sdplib/control5.dat-s": 16.8836,
    "sdplib/mcp100.dat-s": 226.1574,
    "sdplib/mcp250-3.dat-s": 981.1726,
    "sdplib/mcp500-1.dat-s": 598.1485,
    "sdplib/theta1.dat-s": 23.0,
    "sdplib/theta3.dat-s": 42.16698,
    "dimacs/truss5.mat.gz": 132.6357,
    "dimacs/toruspm3-8-50.mat.gz": -527.8087,
    "dimacs/hamming_7_5_6.mat.gz": -42.66667,
}


@pytest.mark.slow
@pytest.mark.parametrize("side", ["primal", "lmi"])
@pytest.mark.parametrize("name", PUBLISHED)
def test_published_values(data_dir: Path, name: str, side: Any) -> None:
    problem, objective = sf.read_problem(data_dir / name, side)
    assert objective is not None
    found = sf.optimum(problem, objective, 1e-6, time_limit=120)
    value = PUBLISHED[name]
    # As many digits as are published, seven.
    assert found.lower - 1e-6 * abs(value) <= value <= found.upper + 1e-6 * abs(value), found
    assert found.converged


@pytest.mark.slow
@pytest.mark.parametrize("side", ["primal", "lmi"])
def test_a_published_value_of_zero_is_bracketed(data_dir: Path, side: Any) -> None:
    problem, objective = sf.read_problem(data_dir / "dimacs" / "copo14.mat.gz", side)
    assert objective is not None
    # No width is narrow beside zero, and how near a provable point is hangs on how the solver ends.
    found = sf.optimum(problem, objective, 1e-6, absolute_tol=1e-7, time_limit=120)
    assert -1e-7 < found.lower <= 0.0 <= found.upper < 1e-7
    assert found.converged


@pytest.mark.slow
@pytest.mark.parametrize("side", ["primal", "lmi"])
def test_a_value_in_a_thin_interior_is_bracketed(data_dir: Path, side: Any) -> None:
    """No point of minphase is deeper inside than 2e-12; the published value is 5.98."""
    problem, objective = sf.read_problem(data_dir / "dimacs" / "minphase.mat.gz", side)
    assert objective is not None
    found = sf.optimum(problem, objective, 1e-6, time_limit=120)
    assert 5.975 <= found.lower <= found.upper <= 5.985
    assert found.converged, found


def test_rows_that_follow_from_others_ask_for_nothing() -> None:
    """The largest eigenvalue, three, with the trace prescribed three times over."""
    rows = np.stack([np.eye(2), 2.0 * np.eye(2), -np.eye(2)])
    right = [1.0, 2.0, -1.0]
    problem = sf.FeasibilityProblem([sf.PSD(2)], [rows], right, right)
    goal = np.array([[2.0, 1.0], [1.0, 2.0]])
    found = sf.optimum(problem, [goal], 1e-6)
    assert found.lower <= 3.0 <= found.upper
    assert found.converged, found
    assert found.multipliers is not None
    assert found.multipliers.shape == (3,)
    # They bound the objective, on the problem as it was given.
    assert np.linalg.eigvalsh(goal + problem.adjoint(found.multipliers)[0])[-1] <= 1e-12
    assert -np.dot(right, found.multipliers) == pytest.approx(3.0, abs=1e-5)


def _nql30(data_dir: Path, meant: bool) -> tuple[sf.FeasibilityProblem, sf.Objective]:
    """Rows of sixtieths, stored with thirteen digits; sixty times them, as meant, are integers."""
    problem, objective = sf.read_problem(data_dir / "dimacs" / "nql30.mat.gz")
    assert objective is not None
    if not meant:
        return problem, objective
    rows = [60.0 * part.to_csr() for part in problem.rows]
    for part in rows:
        assert np.max(np.abs(part.data - np.round(part.data))) < 1e-10
        part.data = np.round(part.data)
    assert len(rows) == len(problem.sets)
    return sf.FeasibilityProblem(problem.sets, rows, 60.0 * problem.lower, 60.0 * problem.upper), objective


@pytest.mark.slow
def test_nql30_as_meant_has_the_published_value(data_dir: Path) -> None:
    found = sf.optimum(*_nql30(data_dir, meant=True), 1e-6, time_limit=300)
    assert found.converged, found
    assert -0.94605 < found.lower <= found.upper < -0.94595  # published: -0.9460


@pytest.mark.slow
def test_nql30_as_stored_has_the_value_zero(data_dir: Path) -> None:
    """A combination of rows that vanishes as meant leaves the one variable of the objective as stored."""
    meant, objective = _nql30(data_dir, meant=True)
    stored = _nql30(data_dir, meant=False)[0]
    fewer = independent_rows(meant)
    dropped = int(np.flatnonzero(fewer.multipliers(np.ones(fewer.problem.m)) == 0.0)[0])
    unit = np.zeros(meant.m)
    unit[dropped] = 1.0
    share = fewer.multipliers(fewer.start_multipliers(unit))
    weights = {j: -Fraction(float(share[j])).limit_denominator(1000) for j in np.flatnonzero(share)}
    weights[dropped] = Fraction(1)
    assert sum(w * Fraction(stored.lower[j]) for j, w in weights.items()) == 0
    table = sp.hstack([part.to_csr() for part in stored.rows], "csr")
    left: dict[int, Fraction] = {}
    for j, w in weights.items():
        for place in range(table.indptr[j], table.indptr[j + 1]):
            column = int(table.indices[place])
            left[column] = left.get(column, Fraction(0)) + w * Fraction(float(table.data[place]))
    goal = np.concatenate([c.reshape(-1) for c in objective.terms])
    # What is left is a multiple of the objective, so every point has the value zero.
    ratio = {c: left.get(c, Fraction(0)) / Fraction(float(goal[c])) for c in np.flatnonzero(goal).tolist()}
    assert len(set(ratio.values())) == 1
    assert next(iter(ratio.values())) != 0
    assert not any(v for c, v in left.items() if not goal[c])
    found = sf.optimum(stored, objective, 1e-6, time_limit=20)
    assert found.lower <= 0.0 <= found.upper


def _thirtieths() -> tuple[sf.FeasibilityProblem, sf.Objective]:
    """``x/30 = y/60``, twice, once with digits: as stored, or as written, only zero meets both."""
    rows = np.array([[0.0333333333333, -0.0166666666667, 0.0], [2.0, -1.0, 0.0], [1.0, 0.0, 1.0]])
    right = [0.0, 0.0, 1.0]
    problem = sf.FeasibilityProblem([sf.Nonneg(3)], [rows], right, right)
    return problem, sf.Objective((np.array([0.1, 0.0, 0.0]),), "max", offset=0.2)


def test_decimals_are_not_taken_for_the_fractions_they_are_near() -> None:
    problem, objective = _thirtieths()
    for reading in ("stored", "written"):
        found = sf.optimum(problem, objective, time_limit=1, reading=reading)
        assert found.lower <= 0.2 <= math.nextafter(found.upper, 1.0)
        assert found.upper < 0.25 or not found.converged
        assert found.reading == reading
    assert "numbers as written" in repr(found)
    assert "as written" in found._repr_html_()


def test_an_end_beside_a_large_bound_is_about_the_stored_numbers() -> None:
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    problem = sf.FeasibilityProblem([sf.Free(2)], [rows], [0.0004, 1e11], [np.inf, 1e11])
    for reading in ("stored", "written"):
        found = sf.optimum(
            problem, sf.Objective((np.array([1.0, 0.0]),), "min"), time_limit=3, reading=reading
        )
        assert found.lower <= 0.0004 <= found.upper
    with pytest.raises(sf.OptionError, match="'stored' or 'written', got 'meant'"):
        sf.optimum(problem, [np.ones(2)], reading="meant")


def test_values_as_written() -> None:
    """``0.1 x = 0.3`` has the solution three, as written."""
    problem = sf.FeasibilityProblem([sf.Nonneg(2)], [np.array([[0.1, 0.1]])], [0.3], [0.3])
    found = sf.optimum(problem, [np.array([1.0, 0.0])], reading="written")
    assert found.lower <= 3.0 <= found.upper
    assert found.converged, found
    assert "as written (0.1 for 1/10)" in found.reason
    whole = sf.FeasibilityProblem([sf.Nonneg(2)], [np.ones((1, 2))], [3.0], [3.0])
    assert "which is as stored" in sf.optimum(whole, [np.array([1.0, 0.0])], reading="written").reason
    mixed = sf.FeasibilityProblem([sf.Nonneg(2)], [np.array([[1 / 49, np.e]])], [1.0], [1.0])
    open_ = sf.optimum(mixed, [np.ones(2)], reading="written")
    assert (open_.lower, open_.upper, open_.converged) == (-math.inf, math.inf, False)
    assert "the numbers as written: row 0 is not exactly representable in doubles" in open_.reason
    with pytest.raises(sf.OptionError, match="'stored' or 'written', got 'said'"):
        sf.optimum(whole, [np.ones(2)], reading="said")


def test_a_value_without_an_interior_is_bracketed_on_the_face() -> None:
    """Rows with a bound of zero leave two coordinates, and there the largest eigenvalue is three."""
    rng = np.random.default_rng(5)
    half, turn = rng.normal(size=(2, 2)), np.diag([9.0, -9.0]) * np.pi
    rows = np.zeros((3, 4, 4))
    # Their sum is definite on two coordinates, neither of them is, and the numbers are of no kind.
    rows[0, :2, :2], rows[1, :2, :2] = half @ half.T + np.eye(2) + turn, half @ half.T + np.eye(2) - turn
    rows[2, 2:, 2:] = np.eye(2)
    goal = np.zeros((4, 4))
    goal[2:, 2:] = [[2.0, 1.0], [1.0, 2.0]]
    goal[0, 3] = goal[3, 0] = 7.5
    right = [0.0, 0.0, 1.0]
    problem = sf.FeasibilityProblem([sf.PSD(4)], [rows], right, right)
    found = sf.optimum(problem, [goal], 1e-6)
    assert found.converged, found
    assert found.lower <= 3.0 <= found.upper
    assert found.point is not None
    assert np.max(np.abs(found.point[0][:2])) == 0.0
    # The other side has no multipliers but these, and its supremum is not attained.
    lmi = sf.LMI(sf.PSD(4), -goal, [rows])
    other = sf.FeasibilityProblem([sf.Free(3)], [None], [], [], lmis=[lmi])
    turned = sf.optimum(other, sf.Objective((np.array(right),), "min"), 1e-6, time_limit=10)
    assert turned.lower <= 3.0 <= turned.upper
    assert turned.lower > 3.0 - 1e-4


def test_an_objective_that_is_zero_has_the_value_zero() -> None:
    problem = sf.FeasibilityProblem([sf.Nonneg(2)], [np.ones((1, 2))], [1.0], [1.0])
    found = sf.optimum(problem, sf.Objective((np.zeros(2),), "min", offset=2.5))
    assert (found.lower, found.upper, found.converged) == (2.5, 2.5, True)
    empty = sf.FeasibilityProblem([sf.Nonneg(2)], [np.ones((1, 2))], [-1.0], [-1.0])
    assert sf.optimum(empty, [np.zeros(2)]).lower == -math.inf
    assert sf.optimum(empty, [np.zeros(2)]).infeasible is not None


def test_unknowns_of_an_lmi_that_others_make_up_for() -> None:
    """``diag(4, 9) - (s + 2t) I`` is semidefinite for ``s + 2t <= 4``, whichever of the two."""
    lmi = sf.LMI(sf.PSD(2), np.diag([4.0, 9.0]), [np.stack([-np.eye(2), -2.0 * np.eye(2)])])
    problem = sf.FeasibilityProblem([sf.Free(2)], [None], [], [], lmis=[lmi])
    found = sf.optimum(problem, [np.array([1.0, 2.0])], 1e-6)
    assert found.converged, found
    assert found.lower <= 4.0 <= found.upper
    assert found.point is not None
    assert found.point[0].shape == (2,)


@pytest.mark.slow
def test_hinf12_has_the_value_zero(data_dir: Path) -> None:
    """Zero rows leave one entry of the first block and two of the second, where the objective vanishes.

    Solvers end with other small numbers, at their tolerance.
    """
    problem, objective = sf.read_problem(data_dir / "dimacs" / "hinf12.mat.gz")
    assert objective is not None
    point = [np.zeros(block.shape) for block in problem.sets]
    point[0][5, 5] = 1.0
    assert np.array_equal(problem.apply(tuple(point)), problem.lower)  # one entry a row, so this is exact
    assert objective.value(tuple(point)) == 0.0
    found = sf.optimum(problem, objective, time_limit=60)
    assert (found.lower, found.upper) == (0.0, 0.0)
    assert sf.solve(problem, time_limit=60, rigorous=True).verdict is sf.Verdict.FEASIBLE
    turned = sf.optimum(*sf.read_problem(data_dir / "dimacs" / "hinf12.mat.gz", "lmi"), time_limit=30)
    assert -10.0 < turned.lower <= 0.0 <= turned.upper <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("side", ["primal", "lmi"])
@pytest.mark.parametrize(("name", "value"), [("gpp100", -44.94355), ("qap5", -436.0)])
def test_published_values_on_faces(data_dir: Path, name: str, value: float, side: Any) -> None:
    problem, objective = sf.read_problem(data_dir / "sdplib" / f"{name}.dat-s", side)
    found = sf.optimum(problem, objective, 1e-6, time_limit=300)
    assert found.converged, found
    assert found.lower - 1e-5 <= value <= found.upper + 1e-5


def test_free_variables_that_were_split_are_joined() -> None:
    """Split, they leave multipliers no interior, and the better end could not be proved."""
    rng = np.random.default_rng(3)
    problem, terms, value = planted_optimum(rng, SETS["free"], 3)
    matrices, free = problem.rows[0], np.asarray(problem.rows[1].array)
    kept = rng.normal(size=(3, 1))
    rows = np.concatenate([free[:, :1], kept, -free[:, 1:], -free[:, :1], free[:, 1:]], axis=1)
    split = sf.FeasibilityProblem([sf.PSD(3), sf.Nonneg(5)], [matrices, rows], problem.lower, problem.upper)
    goal = (terms[0], np.array([terms[1][0], -100.0, -terms[1][1], -terms[1][0], terms[1][1]]))
    found = sf.optimum(split, goal, 1e-6)
    assert found.converged
    assert found.lower - 1e-9 <= value <= found.upper + 1e-9
    assert found.point is not None
    assert found.point[1].min() >= 0.0
    assert np.allclose(split.apply(found.point), split.lower, atol=1e-6)


def test_a_problem_without_points_has_no_value() -> None:
    """A proof that there is no point, at once, in place of ever larger bounds."""
    builder = sf.ProblemBuilder()
    builder.block("x", sf.Nonneg(1))
    builder.row("low", {"x": [1.0]}, lower=1.0)
    builder.row("high", {"x": [1.0]}, upper=0.5)
    problem = builder.build()
    for sense, value in (("min", np.inf), ("max", -np.inf)):
        found = sf.optimum(problem, sf.Objective((np.ones(1),), sense))
        assert found.lower == found.upper == value
        assert found.converged
        assert found.point is None
        assert found.infeasible is not None
        assert found.infeasible.verdict is sf.Verdict.INFEASIBLE
        assert found.reason in repr(found)


HERMITIAN = np.array([[1.0, 1.0 + 1e-20j], [1.0 - 1e-20j, 1.0]])


@pytest.mark.parametrize(
    ("block", "terms"),
    [
        (sf.Nonneg(2), [2**53 + 1, 0]),
        (sf.Nonneg(2), np.array([2**53 + 1, 0])),
        (sf.Nonneg(2), np.array([1, 0], dtype=np.longdouble) / 3),
        (sf.Nonneg(2), [math.inf, 0.0]),
        (sf.PSD(2), np.array([[0.0, 1.0], [2.0**-53, 0.0]])),
        (sf.HermitianPSD(2), HERMITIAN),
        (sf.HermitianPSD(2), np.array([[0.0, 1.0j], [1.0j, 0.0]])),
    ],
)
def test_an_objective_is_never_rounded(block: BlockSet, terms: Any) -> None:
    """Bounds of the next objective that doubles hold are none of this one."""
    rows = block.identity()[None] if block.kind != "HermitianPSD" else np.eye(2, dtype=complex)[None]
    problem = sf.FeasibilityProblem([block], [rows], [1.0], [1.0])
    with pytest.raises(sf.ProblemError, match=r"round|finite|Hermitian|floating"):
        sf.optimum(problem, [terms])


def test_the_symmetric_part_of_an_objective_counts() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    found = sf.optimum(problem, [np.array([[1.0, 1.0], [0.0, 1.0]])])
    assert found.lower <= 1.5 <= found.upper
    assert found.converged


@pytest.mark.parametrize("solver", ["auto", "clarabel", "spectral-ipm"])
@pytest.mark.parametrize("blocks", [[sf.Nonneg(1)], [sf.Nonneg(1), sf.Free(1)], [sf.PSD(2), sf.Free(1)]])
def test_rows_of_nothing_leave_an_optimum(solver: str, blocks: list[BlockSet]) -> None:
    """Where 0 = 0 is the only row, none is left once those that follow from others are left out."""
    rows = [np.zeros((1, *block.shape)) for block in blocks]
    problem = sf.FeasibilityProblem(blocks, rows, [0.0], [0.0])
    terms = [np.zeros(block.shape) if block.free else block.identity() for block in blocks]
    found = sf.optimum(problem, sf.Objective(terms, "min"), solver=solver, time_limit=10)
    assert found.lower <= 0.0 <= found.upper


@pytest.mark.parametrize("solver", ["auto", "spectral-ipm"])
@pytest.mark.parametrize(("sign", "sense", "open_"), [(1.0, "max", "upper"), (-1.0, "min", "lower")])
def test_the_reason_names_the_end_that_is_open_and_doubts_no_proved_one(
    solver: str, sign: float, sense: Any, open_: str
) -> None:
    """``X_12`` is unbounded where ``X_11`` is one, along a parabola and no ray, which proves nothing."""
    corner = np.diag([1.0, 0.0])
    problem = sf.FeasibilityProblem([sf.PSD(2)], [corner[None]], [1.0], [1.0])
    goal = sf.Objective((sign * np.array([[0.0, 1.0], [1.0, 0.0]]),), sense=sense)
    found = sf.optimum(problem, goal, solver=solver, time_limit=1.0)
    assert not math.isfinite(getattr(found, open_))
    assert math.isfinite(found.lower) != math.isfinite(found.upper)
    assert found.reason.startswith(f"no {open_} bound could be proved: ")
    assert "not proved" not in found.reason
    proved = "lower" if open_ == "upper" else "upper"
    assert f"(only the {proved} end is proved, " in repr(found)


@pytest.mark.parametrize(("sense", "proved"), [("max", "lower"), ("min", "upper")])
def test_the_command_names_the_ends_that_are_proved(tmp_path: Path, capsys, sense: Any, proved: str) -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.diag([1.0, 0.0])[None]], [1.0], [1.0])
    sign = 1.0 if sense == "max" else -1.0
    off, corner = np.array([[0.0, 1.0], [1.0, 0.0]]), np.diag([1.0, 0.0])
    for name, goal in (("open", sign * off), ("closed", sign * corner), ("ray", sign * (np.eye(2) - corner))):
        sf.write_cbf(problem, tmp_path / f"{name}.cbf", sf.Objective((goal,), sense))
        with pytest.raises(SystemExit):
            main(["solve", str(tmp_path / f"{name}.cbf"), "--objective", "--time-limit", "5"])
        said = " ".join(capsys.readouterr().out.split())
        if name == "open":
            missing = "upper" if proved == "lower" else "lower"
            assert f"only the {proved} end is proved; no {missing} bound could be proved: " in said
            assert "both ends" not in said
        elif name == "ray":
            assert "unboundedness is proved; the objective is unbounded along a ray" in said
        else:
            assert "both ends are proved; the bracket is within the tolerance" in said


def rows_of(*rows: tuple[list[float], float, float]) -> sf.FeasibilityProblem:
    """Rows on free variables."""
    matrix = np.array([row for row, _, _ in rows], dtype=float)
    lower, upper = ([row[k] for row in rows] for k in (1, 2))
    return sf.FeasibilityProblem([sf.Free(matrix.shape[1])], [matrix], lower, upper)


INF = np.inf


@pytest.mark.parametrize(
    ("problem", "objective", "value"),
    [
        (rows_of(([1.0], 1.0, INF), ([1.0], -INF, 1.0)), [1.0], 1.0),
        (rows_of(([1, 1], 1.0, INF), ([1, 1], -INF, 1.0), ([1, 0], 0.0, 3.0)), [1.0, 2.0], 2.0),
        (rows_of(([2, 2], 2.0, INF), ([1, 1], -INF, 1.0), ([1, 0], 0.0, 3.0)), [1.0, 0.0], 3.0),
        (rows_of(([1, 0], 4e-4, INF), ([0, 1], 1e9, 1e9)), [-1.0, 0.0], -4e-4),
        (rows_of(([1, 0], 4e-4, INF), ([0, 1], 1e9, 1e9)), [-1.0, 1.0], None),
        (rows_of(([7.0], -INF, 1.0)), [1.0], None),
    ],
)
def test_tiny_linear_programs_have_exact_brackets(
    problem: sf.FeasibilityProblem, objective: list[float], value: float | None
) -> None:
    found = sf.optimum(problem, [np.array(objective)], time_limit=10.0)
    assert found.converged
    assert found.upper <= np.nextafter(found.lower, INF)
    if value is not None:
        assert found.lower == found.upper == value


def test_parts_that_do_not_touch_are_bracketed_apart() -> None:
    """A semidefinite part keeps its tolerance beside large numbers, and one without points decides."""
    rows = [np.array([[[1.0, 0], [0, 1]], np.zeros((2, 2))]), np.array([[0.0], [1.0]])]
    problem = sf.FeasibilityProblem([sf.PSD(2), sf.Free(1)], rows, [4e-4, 1e9], [4e-4, 1e9])
    off = np.array([[0.0, 0.5], [0.5, 0.0]])
    found = sf.optimum(problem, [off, np.zeros(1)], time_limit=10.0)
    assert found.converged
    assert found.lower <= 2e-4 <= found.upper <= 2e-4 * (1 + 2e-6)
    both = sf.optimum(problem, [off, np.ones(1)], time_limit=10.0)
    assert both.lower <= 1e9 + 2e-4 <= both.upper
    assert both.point is not None
    empty = sf.FeasibilityProblem([sf.PSD(2), sf.Nonneg(1)], rows, [4e-4, -1.0], [4e-4, -1.0])
    none = sf.optimum(empty, [off, np.zeros(1)], time_limit=10.0)
    assert none.infeasible is not None
    assert none.upper == -INF


#: No strictly feasible point on the primal side (qap), and thin interiors of the dual (buck).
STRUCTURES = {
    "qap": lambda path: sdplib_like.assignment(path, 5),
    "buck": lambda path: sdplib_like.structure(path, 4, 3, "buck", (1.0, 0.5)),
    "truss": sdplib_like.truss_loads,
}


@pytest.mark.parametrize(("name", "side"), [("qap", "primal"), ("buck", "lmi"), ("truss", "lmi")])
def test_structures_of_public_collections_close(tmp_path: Path, name: str, side: Any) -> None:
    problem, objective = sf.read_problem(STRUCTURES[name](tmp_path / "p.dat-s"), side)
    assert objective is not None
    found = sf.optimum(problem, objective, 1e-6, time_limit=100)
    assert found.converged, found


@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("feasible", [False, True])
def test_rays_are_recognised_before_other_proofs_are_tried(feasible: bool, sense: Any) -> None:
    """Random dense data, as in infd and infp of SDPLIB; in multiprecision arithmetic they take a minute."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(10, 30, 30))
    rows = rows + np.swapaxes(rows, 1, 2)
    inner = np.eye(30) * 0.1
    right = np.array([float(np.sum(row * inner)) for row in rows])
    if not feasible:  # <definite, X> = -1 contradicts X >= 0
        rows[0] = np.eye(30) + 0.1 * np.diag(rng.random(30))
        right[0] = -1.0
    problem = sf.FeasibilityProblem([sf.PSD(30)], [rows], right, right)
    terms = rng.normal(size=(30, 30))
    found = sf.optimum(problem, sf.Objective((terms + terms.T,), sense), 1e-6, time_limit=20)
    assert found.unbounded is feasible, found
    assert (found.infeasible is None) is feasible


# ---------------------------------------------------------------- exact values


def ends(found: sf.Optimum) -> tuple[float, float]:
    return found.lower, found.upper


@pytest.mark.parametrize(("side", "value"), [(1.0, Fraction(1, 2)), (3.0, Fraction(1, 6))])
@pytest.mark.parametrize("sense", ["max", "min"])
def test_exact_values_are_fractions(side: float, value: Fraction, sense: str) -> None:
    problem = sf.FeasibilityProblem([sf.PSD(2)], [side * np.eye(2)[None]], [1.0], [1.0])
    corner = np.array([[0.0, 0.5], [0.5, 0.0]])
    found = sf.optimum(problem, sf.Objective((corner,), sense, 2.0), exact=True)
    assert found.value == 2 + (value if sense == "max" else -value)
    assert found.lower <= found.value <= found.upper
    assert found.upper - found.lower <= 1e-15
    assert sf.optimum(problem, sf.Objective((corner,), sense)).value is None


def test_exact_values_with_inequalities_free_variables_and_lmis() -> None:
    """``x + t`` with ``[[1, x], [x, 1]]`` semidefinite, ``t <= 2`` and a matrix of trace at most one."""
    lmi = sf.LMI(sf.PSD(2), np.eye(2), [np.array([[[0.0, 1.0], [1.0, 0.0]], np.zeros((2, 2))]), None])
    rows = [np.array([[0.0, 1.0], [0.0, 0.0]]), np.stack([np.zeros((2, 2)), np.eye(2)])]
    problem = sf.FeasibilityProblem([sf.Free(2), sf.PSD(2)], rows, [-np.inf, -np.inf], [2.0, 1.0], lmis=[lmi])
    goal = (np.ones(2), np.array([[0.0, 1.0], [1.0, 0.0]]))
    found = sf.optimum(problem, goal, exact=True)
    assert (found.value, *ends(found)) == (4, 4.0, 4.0)


def test_irrational_values_have_none() -> None:
    """The golden ratio is the largest eigenvalue; its bracket holds no simple fraction."""
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    found = sf.optimum(problem, [np.array([[1.0, 1.0], [1.0, 0.0]])], 1e-9, exact=True)
    assert found.value is None
    assert found.converged
    assert "no exact value" in found.reason
    # A wide bracket holds one, which is refuted.
    wide = sf.optimum(problem, [np.array([[1.0, 1.0], [1.0, 0.0]])], 1e-3, exact=True)
    assert wide.value is None
    assert wide.lower <= (1.0 + 5.0**0.5) / 2.0 <= wide.upper


def test_an_objective_is_multiplied_exactly_or_not_at_all() -> None:
    problem = sf.FeasibilityProblem([sf.Nonneg(2)], [np.ones((1, 2))], [1.0], [1.0])
    assert multiplied(ConicProgram(problem, (np.array([0.5, 0.1]),)), 3) is None
    assert multiplied(ConicProgram(problem, (np.array([1e308, 0.0]),)), 3) is None
    assert multiplied(ConicProgram(problem, (np.array([5e-324, 0.25]),)), 3) is not None


@pytest.mark.parametrize("name", ["theta1", "qap5"])
def test_values_of_public_files_are_exact(data_dir: Path, name: str) -> None:
    found = sf.optimum(*sf.read_problem(data_dir / "sdplib" / f"{name}.dat-s"), exact=True)
    assert found.value == {"theta1": 23, "qap5": -436}[name]
    assert found.lower == found.upper


def test_an_end_without_strictly_feasible_multipliers_is_proved_at_a_simple_value() -> None:
    """``max t + 2 X01`` with ``t + tr X <= 3``, ``t <= 2``: the multipliers (0, 1) are the only ones."""
    rows = [np.array([[1.0], [1.0]]), np.stack([np.zeros((2, 2)), np.eye(2)])]
    problem = sf.FeasibilityProblem([sf.Free(1), sf.PSD(2)], rows, [-np.inf] * 2, [2.0, 3.0])
    found = sf.optimum(problem, (np.ones(1), np.array([[0.0, 1.0], [1.0, 0.0]])))
    assert found.converged
    assert found.lower <= 3.0 <= found.upper
    assert found.upper == 3.0
