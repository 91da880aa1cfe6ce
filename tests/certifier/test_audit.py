"""The certifier and the audit: right about known truths, and not to be fooled."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import known_answers
import numpy as np
import pytest
import scipy.sparse as sp
import strategies
from auditing import audited, saved
from hypothesis import given
from hypothesis import strategies as st

import sdpfeas as sf
from sdpfeas import sdpcheck
from sdpfeas.certifier.audit import Finding, NotProved, audit, prove
from sdpfeas.certifier.certify import certify_optimum
from sdpfeas.certifier.documents import _rows, expanded
from sdpfeas.certifier.factors import prove_semidefinite
from sdpfeas.certifier.standard_form import StandardForm
from sdpfeas.families import planted
from sdpfeas.io.result_files import SavedResult, load_result, save_result
from sdpfeas.problem.rows import Combined, Dense


def refuses(problem: sf.FeasibilityProblem, verdict: str, evidence: Any) -> str:
    with pytest.raises(NotProved) as caught:
        prove(problem, verdict, evidence)
    return str(caught.value)


def answer(problem: sf.FeasibilityProblem, verdict: str, proof: str | None = "rigorous", **held: Any) -> Any:
    return SavedResult(
        problem.content_hash, verdict, proof, held.get("point"), held.get("y"), rational=held.get("rational")
    )


# ---------------------------------------------------------------- documents and factors


def test_the_checker_imports_nothing_but_the_standard_library() -> None:
    tree = ast.parse(Path(sdpcheck.__file__).read_text(encoding="utf-8"))
    found = [n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom))]
    names = {a.name for n in found if isinstance(n, ast.Import) for a in n.names}
    names |= {str(n.module) for n in found if isinstance(n, ast.ImportFrom)}
    assert names <= {
        "collections",
        "fractions",
        "hashlib",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
        "contextlib",
        "resource",
        "sys",
        "typing",
    }


@given(strategies.samples(wild=40.0))
def test_rows_of_every_kind_are_written_exactly(sample: strategies.Sample) -> None:
    rows = sample.rows
    found = list(_rows(rows, Fraction))
    assert len(found) == rows.m
    for row, wanted in zip(found, sample.values, strict=True):
        dense = [Fraction(0)] * math.prod(rows.shape)
        for k, v in expanded(row):
            dense[k] += v
        assert dense == wanted.reshape(-1).tolist()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
def test_semidefinite_matrices_are_told_from_indefinite_ones(n: int) -> None:
    rng = np.random.default_rng([1, n])
    for rank in range(n + 1):
        f = rng.integers(-3, 4, size=(n, rank)) * 2 ** rng.integers(0, 30, size=(n, 1))
        gram = [[Fraction(int(v)) for v in row] for row in f @ f.T]
        kernel = sdpcheck.semidefinite(gram, prove_semidefinite(gram))
        assert len(kernel) == n - np.linalg.matrix_rank(f.astype(float))
        gram[-1][-1] -= Fraction(1, 10**30)
        if known_answers.exactly_psd(np.array(gram, dtype=object)):
            prove_semidefinite(gram)
        else:
            with pytest.raises(NotProved):
                prove_semidefinite(gram)


# ---------------------------------------------------------------- arithmetic


@pytest.mark.parametrize("trace", [3 * 0.6, 1.8, 1.7999999999999996])
def test_a_box_with_hardly_any_room_is_confirmed(trace: float) -> None:
    """Next to its corner no eigenvectors in floating point are good enough; a multiple of the identity is."""
    problem = sf.FeasibilityProblem([sf.PSD(1), sf.SpectralBox(3, 0.0, 0.6, trace)], [None, None], [], [])
    off = 1e-16 * np.random.default_rng(0).normal(size=(3, 3))
    point = (np.ones((1, 1)), 0.6 * np.eye(3) + off + off.T)
    assert prove(problem, "feasible", point)
    # An exact solution there has no room for anything else.
    rows = [None, np.diag([1.0, -1.0, 0.0])[None]]
    apart = sf.FeasibilityProblem(problem.sets, rows, [1e-9], [np.inf])
    refuses(apart, "feasible", point)


# ---------------------------------------------------------------- known truth


@pytest.mark.parametrize("mix", [m for m in planted.set_mixes() if m not in ("second order", "hermitian")])
def test_planted_evidence_is_proved_and_nothing_else(mix: str) -> None:
    rng = np.random.default_rng([4, list(planted.set_mixes()).index(mix)])
    sets = planted.set_mixes()[mix]
    for bounds in planted.BOUNDS:
        for edge in (False, True):
            case = planted.feasible(rng, sets, bounds=bounds, edge=edge)
            prove(case.problem, "feasible", case.point)
            refuses(case.problem, "infeasible", rng.normal(size=case.problem.m))
        case = planted.infeasible(rng, sets, bounds=bounds)
        prove(case.problem, "infeasible", case.certificate)
        wrong = [planted.interior(rng, block) for block in sets]
        refuses(case.problem, "feasible", wrong)


@pytest.mark.parametrize("degenerate", [False, True])
@pytest.mark.parametrize("truth", [True, False])
def test_exact_evidence_on_the_boundary(truth: bool, degenerate: bool) -> None:
    rng = np.random.default_rng([5, truth, degenerate])
    for sets in ([sf.PSD(3)], [sf.PSD(2), sf.Nonneg(2), sf.Free(1)], [sf.SpectralBox(2), sf.PSD(2)]):
        for _ in range(6):
            case = known_answers.integer_problem(rng, sets, truth=truth, degenerate=degenerate)
            evidence = case.point if truth else case.certificate
            prove(case.problem, "feasible" if truth else "infeasible", evidence)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_weakly_infeasible_problems_are_left_open(length: int) -> None:
    weak = known_answers.weak_chain(length)
    for point in weak.points:
        refuses(weak.problem, "feasible", point)
    for y in weak.multipliers:
        refuses(weak.problem, "infeasible", y)


def test_redundant_rows_are_no_obstacle_and_contradictory_ones_are_seen() -> None:
    rows = np.array([[1.0, 2.0], [3.0, 1.0], [4.0, 3.0]])
    problem = sf.FeasibilityProblem([sf.Nonneg(2)], [rows], [3.0, 4.0, 7.0], [3.0, 4.0, 7.0])
    prove(problem, "feasible", [np.array([1.1, 0.9])])
    hair = math.nextafter(7.0, 8.0)
    problem = sf.FeasibilityProblem([sf.Nonneg(2)], [rows], [3.0, 4.0, hair], [3.0, 4.0, hair])
    refuses(problem, "feasible", [np.ones(2)])
    prove(problem, "infeasible", None)
    # A prescribed trace counts as a row.
    box = sf.FeasibilityProblem([sf.SpectralBox(2, trace=1.0)], [np.eye(2)[None]], [1.5], [1.5])
    prove(box, "infeasible", None)


def test_tiny_and_huge_numbers_are_numbers() -> None:
    tiny, huge = 5e-324, 1e300
    problem = sf.FeasibilityProblem(
        [sf.Nonneg(2)], [np.array([[tiny, 0.0], [0.0, huge]])], [tiny, 1], [tiny, 1]
    )
    prove(problem, "feasible", [np.array([1.0, 1e-300])])
    refuses(problem, "infeasible", np.array([1.0, -1.0]))
    problem = sf.FeasibilityProblem([sf.Nonneg(1)], [np.array([[-tiny]])], [tiny], [np.inf])
    prove(problem, "infeasible", np.array([1.0]))
    refuses(problem, "feasible", [np.array([0.0])])


# ---------------------------------------------------------------- false proofs of the past


def test_false_proofs_are_not_confirmed() -> None:
    # Underflow made a drift vanish: x0 = -1e-200 and 1e-130·x0 >= 0.
    problem = sf.FeasibilityProblem(
        [sf.Free(2)], [np.array([[1.0, 0.0], [1e-130, 0.0]])], [-1e-200, 0.0], [-1e-200, np.inf]
    )
    point = (np.array([0.0, 1.0]),)
    assert audit(problem, answer(problem, "feasible", point=point)).finding is Finding.NOT_CONFIRMED
    y = np.array([-1e-130, 1.0])
    found = audit(problem, answer(problem, "feasible", point=point, y=y))
    assert (found.finding, found.proved) == (Finding.REFUTED, "infeasible")
    # Dependent rows in the denormals.
    b = 2.0**-537 * math.sqrt(0.6)
    rows = Combined(2.0**530 * sp.eye_array(2), Dense(np.array([[b], [1.5948717948717948 * b]])))
    level = [1.0, 1.5948717948717948 + 1e-9]
    problem = sf.FeasibilityProblem([sf.Free(1)], [rows], level, level)
    point = (np.array([1.0 / (2.0**530 * b)]),)
    assert audit(problem, answer(problem, "feasible", point=point)).finding is Finding.REFUTED
    # A factorisation that ran over a NaN.
    x = 1e-302 * np.eye(4)
    x[0, 1] = x[1, 0] = 1e-302 * (1.0 - 1e-10)
    x[0, 3] = x[3, 0] = 1e3
    problem = sf.FeasibilityProblem([sf.PSD(4)], [np.eye(4)[None]], [0.0], [np.inf])
    with pytest.raises(NotProved):
        prove_semidefinite([[Fraction(v) for v in row] for row in x.tolist()])
    problem = sf.FeasibilityProblem([sf.PSD(4)], [-x[None]], [1.0], [np.inf])
    refuses(problem, "infeasible", np.array([1.0]))


# ---------------------------------------------------------------- answers


def test_findings() -> None:
    problem = sf.FeasibilityProblem([sf.Nonneg(1)], [np.ones((1, 1))], [1.0], [2.0])
    good, bad, y = (np.array([1.5]),), (np.array([5.0]),), np.array([1.0])
    cases: list[tuple[Any, Finding, str | None]] = [
        (answer(problem, "feasible", point=good), Finding.CONFIRMED, "feasible"),
        (answer(problem, "feasible", point=bad), Finding.NOT_CONFIRMED, None),
        (answer(problem, "feasible", "numeric", point=good), Finding.NUMERIC, "feasible"),
        (answer(problem, "feasible", "numeric", point=bad), Finding.NUMERIC, None),
        (answer(problem, "infeasible", y=y), Finding.REFUTED, "feasible"),
        (answer(problem, "infeasible", "numeric", y=y), Finding.REFUTED, "feasible"),
        (answer(problem, "undecided", None, point=good), Finding.NOT_CONFIRMED, None),
        (answer(problem, "feasible"), Finding.NOT_CONFIRMED, None),
        (
            answer(problem, "undecided", None, rational=(np.array([Fraction(1)]),)),
            Finding.NOT_CONFIRMED,
            None,
        ),
    ]
    for given_answer, finding, proved in cases:
        found = audit(problem, given_answer)
        assert (found.finding, found.proved) == (finding, proved), found
    for evidence in ((np.array([np.nan]),), (np.ones(2),), (), (np.ones(1), np.ones(1))):
        refuses(problem, "feasible", evidence)
    for wrong in (np.array([np.inf]), np.ones(2)):
        refuses(problem, "infeasible", wrong)


def test_what_is_too_large_is_said_to_be() -> None:
    problem = sf.FeasibilityProblem([sf.PSD(1001)], [None], [], [])
    assert "too large" in refuses(problem, "feasible", [np.eye(1001)])


def test_fractions_of_exact_proofs_are_stored(tmp_path: Path) -> None:
    # x = 1/3 is no float, so only the fractions are a solution with nothing to spare.
    problem = sf.FeasibilityProblem([sf.PSD(1)], [np.array([[[3.0]]])], [1.0], [1.0])
    result = sf.solve(problem, "clarabel")
    check = sf.verify(problem, result, exact=True)
    assert check.proof is sf.Proof.EXACT
    assert check.rational[0][0, 0] == Fraction(1, 3)
    assert audited(check).finding is Finding.CONFIRMED
    path = tmp_path / "answer.npz"
    for rational in ((np.array([[Fraction(1, 3)]], dtype=object),), None):
        kept = answer(problem, "feasible", "exact", point=check.point, rational=rational)
        save_result(kept, path)
        again = load_result(path).rational
        assert (again is None) == (rational is None)
        if rational is not None:
            assert again[0].shape == (1, 1)
            assert again[0][0, 0] == Fraction(1, 3)
    long = Fraction(-(3**20000), 7**15000)
    kept = answer(problem, "infeasible", "exact", y=np.ones(1), rational=np.array([long], dtype=object))
    save_result(kept, path)
    assert load_result(path).rational[0] == long


@given(st.data())
def test_every_proof_of_a_small_problem_is_confirmed(data: st.DataObject) -> None:
    problem = data.draw(strategies.problems())
    rng = np.random.default_rng(data.draw(strategies.SEEDS))
    point = tuple(planted.interior(rng, block) for block in problem.sets)
    for claim in (sf.Claim(point=point), sf.Claim(certificate=rng.normal(size=problem.m))):
        for mode in ({"rigorous": True}, {"exact": True}):
            check = sf.verify(problem, claim, **mode)
            if check.verdict is not sf.Verdict.UNDECIDED:
                found = audited(check)
                assert found.finding is Finding.CONFIRMED, (check.explain(), found)


# ---------------------------------------------------------------- numbers as written


def tenths(bound: float) -> sf.FeasibilityProblem:
    """x11 = .1, x22 = .2 and their sum: as stored they disagree with .3, as written they do not."""
    rows = np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.eye(2)])
    bounds = [0.1, 0.2, bound]
    return sf.FeasibilityProblem([sf.PSD(2)], [rows], bounds, bounds)


def test_answers_as_written_are_audited_as_written() -> None:
    point = (np.diag([0.1, 0.2]),)
    written = sf.verify(tenths(0.3), sf.Claim(point=point), exact=True, reading="written")
    assert written.verdict is sf.Verdict.FEASIBLE
    found = audited(written)
    assert (found.finding, found.proved) == (Finding.CONFIRMED, "feasible"), found.reason
    stored = sf.verify(tenths(0.3), sf.Claim(point=point), exact=True)
    assert stored.verdict is sf.Verdict.INFEASIBLE
    assert audited(stored).finding is Finding.CONFIRMED
    # The same answers, said to be about the other numbers.
    for check, other in ((written, "stored"), (stored, "written")):
        found = audit(check.problem, replace(saved(check), reading=other), other)
        assert found.finding in (Finding.REFUTED, Finding.NOT_CONFIRMED)
    twin = sf.verify(
        tenths(0.4), sf.Claim(certificate=np.array([-1.0, -1.0, 1.0])), exact=True, reading="written"
    )
    assert twin.verdict is sf.Verdict.INFEASIBLE
    assert audited(twin).finding is Finding.CONFIRMED
    lie = replace(saved(twin), verdict="feasible", point=point, rational=None)
    assert audit(twin.problem, lie, "written").finding is Finding.REFUTED


def test_sets_lmis_and_factors_are_read_as_written() -> None:
    """A third and a tenth in every place where numbers are stored."""
    third = 1.0 / 3.0
    box = sf.SpectralBox(3, 0.0, third, trace=1.0)  # as written there is one member, as stored none
    alone = sf.FeasibilityProblem([box], [None], [], [])
    lmi = sf.LMI(sf.Nonneg(2), [-0.3, 0.3], [np.array([[1.0, -1.0], [1.0, -1.0]])])
    below = sf.FeasibilityProblem([sf.Nonneg(2)], [np.eye(2)], [0.1, 0.2], [0.1, 0.2], lmis=[lmi])
    factors = sf.LowRank([np.array([third, 0.0])], [np.array([9.0])])
    ones = sf.FeasibilityProblem([sf.PSD(2)], [factors], [1.0], [1.0])
    cases = (
        (alone, (third * np.eye(3),)),
        (below, (np.array([0.1, 0.2]),)),
        (ones, (np.diag([1.0, 0.0]),)),
    )
    for problem, point in cases:
        check = sf.verify(problem, sf.Claim(point=point), exact=True, reading="written")
        assert check.verdict is sf.Verdict.FEASIBLE, check.reason
        assert audited(check).finding is Finding.CONFIRMED


# ---------------------------------------------------------------- graded evidence


def test_proofs_about_graded_points_and_multipliers_are_confirmed() -> None:
    rng = np.random.default_rng(0)
    powers = np.ldexp(1.0, [-30, 25, -3, 0])
    outer = np.outer(powers, powers)
    rows = rng.normal(size=(5, 4, 4))
    rows = rows + rows.transpose(0, 2, 1)
    x = planted.interior(rng, sf.PSD(4))
    bounds = np.tensordot(rows, x, 2)
    problem = sf.FeasibilityProblem([sf.PSD(4)], [rows / outer], bounds, bounds)
    check = sf.verify(problem, sf.Claim(point=(x * outer,)), rigorous=True)
    assert check.proof is sf.Proof.RIGOROUS
    assert audited(check).finding is Finding.CONFIRMED
    parts = rows[:3] - (np.tensordot(rows[:3], x, 2) / np.sum(x * x))[:, None, None] * x
    lmi = sf.LMI(sf.PSD(4), -x / outer, [parts / outer])
    problem = sf.FeasibilityProblem([sf.Free(3)], [None], [], [], lmis=[lmi])
    check = sf.verify(problem, sf.Claim(certificate=(x * outer).reshape(-1)), rigorous=True)
    assert check.proof is sf.Proof.RIGOROUS
    assert audited(check).finding is Finding.CONFIRMED
    twin = sf.LMI(sf.PSD(4), x / outer, [parts / outer])
    problem = sf.FeasibilityProblem([sf.Free(3)], [None], [], [], lmis=[twin])
    assert refuses(problem, "infeasible", (x * outer).reshape(-1))


def test_rows_without_bounds_ask_for_nothing() -> None:
    """Two missing bounds are no equation."""
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.array([np.eye(2)] * 2)], [-np.inf, 1.0], [np.inf, 1.0])
    answer = SavedResult(problem.content_hash, "feasible", "rigorous", (0.5 * np.eye(2),), None)
    assert audit(problem, answer).finding is Finding.CONFIRMED
    certificate = replace(answer, verdict="infeasible", point=None, certificate=np.array([1.0, 0.0]))
    assert audit(problem, certificate).finding is Finding.REFUTED


@pytest.mark.parametrize(
    "evidence",
    [
        np.array(["a"]),
        np.array([1j]),
        np.array([None]),
        np.array([math.nan]),
        np.ones(2),
        (np.ones(1), np.ones((2, 2))),
        None,
    ],
    ids=str,
)
@pytest.mark.parametrize("verdict", ["feasible", "infeasible"])
@pytest.mark.parametrize("rows", [0, 1])
def test_malformed_evidence_is_not_confirmed(evidence: Any, verdict: str, rows: int) -> None:
    bounds = np.full(rows, 1.0)
    problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]] if rows else [None], bounds, bounds)
    point = None if evidence is None else (evidence,)
    for chain in (None, sf.Chain([[0]] if rows else [])):
        answer = SavedResult(problem.content_hash, verdict, "exact", point, evidence, chain=chain)
        found = audit(problem, answer)
        assert found.finding is not Finding.CONFIRMED
        assert found.proved in (None, "feasible")


def test_zeros_in_a_row_on_a_face_are_not_divided_by() -> None:
    near = [Fraction(1), Fraction(0), Fraction(1) + Fraction(1, 10**9)]
    block, row = sdpcheck.Block({"kind": "PSD", "n": 2}), {0: Fraction(0), 2: Fraction(1)}
    form = StandardForm([block], [row], [(Fraction(1), Fraction(1))], {})
    assert form.feasible(near)[0][2] == 1


def test_rows_at_the_ends_of_the_range_of_doubles_are_corrected() -> None:
    """The norm of a row of large numbers overflows."""
    row = np.array([[3.8736841e-184, 0.0, -2.67442147e32], [0.0, 0.0, 0.0], [-2.67442147e32, 0.0, 0.0]])
    x = 1e257 * np.array([[20.4, -1.2, 8.4], [-1.2, 20.4, 1.2], [8.4, 1.2, 6.0]])
    bound = [float(np.sum(row * x))]
    problem = sf.FeasibilityProblem([sf.PSD(3)], [row[None]], bound, bound)
    check = sf.verify(problem, sf.Claim(point=(x,)), rigorous=True)
    assert check.proof is sf.Proof.RIGOROUS
    assert audited(check).finding is Finding.CONFIRMED


def test_blocks_at_their_boundary_stay_while_others_are_corrected() -> None:
    """The row has no room for the semidefinite block at zero; only the free number is not exact."""
    zero = np.array([[1.0]])
    rows = [np.array([zero, 0 * zero]), np.array([[0.0], [1.0]])]
    problem = sf.FeasibilityProblem([sf.PSD(1), sf.Free(1)], rows, [-np.inf, 0.1], [0.0, 0.1])
    answer = SavedResult(problem.content_hash, "feasible", "exact", (0 * zero, np.array([0.1])), None)
    answer = replace(answer, reading="written")
    assert audit(problem, answer, "written").finding is Finding.CONFIRMED


def test_a_diagonal_adjoint_is_split_exactly_between_the_bounds_of_a_box() -> None:
    """The two sides differ by one part in 10**15."""
    box = sf.SpectralBox(2, 1.0, 2.0)
    least = float(np.nextafter(-1.0, 0.0))
    problem = sf.FeasibilityProblem([box], [np.diag([0.0, -1.0])[None]], [least], [np.inf])
    answer = SavedResult(problem.content_hash, "infeasible", "exact", None, np.array([1.0]))
    assert audit(problem, answer).finding is Finding.CONFIRMED


@pytest.mark.parametrize("side", ["primal", "lmi"])
@pytest.mark.parametrize("name", ["sdplib/control1.dat-s", "dimacs/truss5.mat.gz"])
def test_brackets_of_the_world_are_certified(data_dir: Path, name: str, side: Any) -> None:
    """Both ends keep their digits."""
    problem, objective = sf.read_problem(data_dir / name, side)
    assert objective is not None
    found = sf.optimum(problem, objective, 1e-6)
    document = certify_optimum(problem, objective, found).document
    lower, upper = (float(sdpcheck.number(document[end])) for end in ("lower", "upper"))
    slack = 1e-6 * max(abs(lower), abs(upper)) + 1e-9
    assert found.lower - slack <= lower <= upper <= found.upper + slack
