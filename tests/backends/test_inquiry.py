"""The inquiry: who proves what, how often, and when a backend is told to stop."""

import ast
import hashlib
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.backends.auto import preferred
from sdpfeas.backends.base import ALL_SETS
from sdpfeas.backends.dispatch import dispatch
from sdpfeas.backends.inquiry import FREE_PROOF_SECONDS, Listener
from sdpfeas.deadline import Deadline
from sdpfeas.families import planted
from sdpfeas.families.level_set import Theta
from sdpfeas.verifier import numeric, proof_attempts

ROOT = Path(__file__).parents[2]
MIXES = planted.set_mixes()

#: What a backend may know of the verifier: the words of a claim, and linear algebra that proves nothing.
ALLOWED = {
    "sdpfeas.verifier.results",
    "sdpfeas.verifier.outcome",
    "sdpfeas.verifier.equality_correction",
    "sdpfeas.verifier.multipliers",
    "sdpfeas.verifier.point_metric",
    # A chain is proved step by step as it is found.
    "sdpfeas.verifier.facial_reduction",
}


def plant(truth: bool, mix: str = "psd", seed: int = 0, **how: Any) -> planted.PlantedProblem:
    make = planted.feasible if truth else planted.infeasible
    return make(np.random.default_rng([seed, truth]), MIXES[mix], **how)


class Backend(sf.FeasibilityBackend):
    """Hands in whatever it is told to."""

    name = "told"
    sets = ALL_SETS
    script: Any = None

    def solve(self, problem: sf.FeasibilityProblem, inquiry: sf.Inquiry) -> sf.Claim:
        return type(self).script(problem, inquiry)


def scripted(script: Any) -> type[Backend]:
    return type("Told", (Backend,), {"script": staticmethod(script)})


# ---------------------------------------------------------------- each claim is proved once


class Proofs:
    """Counts the proofs of every kind, by the evidence they are about."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[tuple[str, bytes]] = Counter()
        for name in ("prove_point", "prove_certificate", "exact_point", "exact_certificate"):
            for module in (proof_attempts, numeric):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, self._counted(name, getattr(module, name)))

    def _counted(self, name: str, function: Any) -> Any:
        def wrapper(problem: sf.FeasibilityProblem, evidence: Any, *more: Any, **how: Any) -> Any:
            parts = evidence if isinstance(evidence, tuple) else (evidence,)
            key = hashlib.blake2b(b"".join(np.ascontiguousarray(p).tobytes() for p in parts))
            key.update(str(problem.m).encode())  # a proof without redundant rows is another one
            self.counts[name, key.digest()] += 1
            return function(problem, evidence, *more, **how)

        return wrapper

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def repeated(self) -> int:
        return sum(count - 1 for count in self.counts.values())


@pytest.mark.parametrize("truth", [True, False], ids=["feasible", "infeasible"])
@pytest.mark.parametrize("name", [*sorted(sf.backends()), "solvers/dykstra.py"])
def test_each_claim_is_proved_once(name: str, truth: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    proofs = Proofs(monkeypatch)
    solver = ROOT / name if name.endswith(".py") else name
    for seed, mix in enumerate(("psd", "box trace", "psd free", "all")):
        for bounds in ("inequality", "mixed"):
            item = plant(truth, mix, seed, bounds=bounds)
            assert sf.solve(item.problem, solver).verdict is item.truth
    assert proofs.total > 0
    assert proofs.repeated == 0, proofs.counts.most_common(3)


@pytest.mark.parametrize("truth", [True, False], ids=["feasible", "infeasible"])
def test_auto_proves_no_more_than_the_backend_that_decides(
    truth: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    item = planted.feasible if truth else planted.infeasible
    problem = item(np.random.default_rng(3), [sf.PSD(12)], rows=20).problem
    (first, options), *_ = preferred(problem)
    totals = []
    for name, how in ((first, options), ("auto", {})):
        with monkeypatch.context() as patch:
            proofs = Proofs(patch)
            assert sf.solve(problem, name, options=how).verdict is not sf.Verdict.UNDECIDED
            totals.append(proofs.total)
    assert totals[0] == totals[1] > 0


def test_refused_evidence_is_not_proved_again_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    proofs = Proofs(monkeypatch)
    problem = plant(False).problem
    wrong = tuple(s.interior_point() for s in problem.sets)

    def insist(problem: sf.FeasibilityProblem, inquiry: sf.Inquiry) -> sf.Claim:
        assert not any(inquiry.offer(point=wrong) for _ in range(5))
        assert not inquiry.offer(point=tuple(x.copy() for x in wrong), final=True)
        return sf.Claim(point=wrong)

    result = sf.solve(problem, scripted(insist))
    assert result.verdict is sf.Verdict.UNDECIDED
    assert "point:" in result.reason
    assert proofs.total > 0
    assert proofs.repeated == 0


def test_backends_import_no_proofs() -> None:
    files = [*(ROOT / "sdpfeas" / "backends").rglob("*.py"), *(ROOT / "solvers").glob("*.py")]
    files = [f for f in files if f.name != "inquiry.py"]
    assert len(files) > 20
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sdpfeas.verifier"):
                assert node.module in ALLOWED, f"{file.name} imports {node.module}"


# ---------------------------------------------------------------- granted, refused, stopped


def test_what_is_granted_on_the_way_is_the_answer_whatever_comes_back() -> None:
    item = plant(True)
    good = sf.solve(item.problem, "spectral-ipm").point

    def lies_in_the_end(problem: sf.FeasibilityProblem, inquiry: sf.Inquiry) -> sf.Claim:
        assert inquiry.offer(point=good)
        assert inquiry.granted is not None
        raise RuntimeError("too late")

    result = sf.solve(item.problem, scripted(lies_in_the_end))
    assert result.verdict is sf.Verdict.FEASIBLE
    assert result.stop is sf.Stop.ERROR
    claim = dispatch(scripted(lies_in_the_end)(), item.problem, sf.Inquiry(item.problem))
    assert sf.verify(item.problem, claim, rigorous=True).verdict is sf.Verdict.FEASIBLE


def test_a_numeric_verdict_is_enough_in_the_end_only() -> None:
    rows = np.eye(2)[None]
    problem = sf.FeasibilityProblem([sf.SpectralBox(2, trace=1.0)], [rows], [1.0], [1.0 + 1e-13])
    point = (np.diag([0.25, 0.75 - 1e-9]),)
    assert sf.verify(problem, sf.Claim(point=point), rigorous=True, repair=False).proof is None
    for rigorous in (False, True):
        inquiry = sf.Inquiry(problem, rigorous=rigorous)
        assert not inquiry.offer(point=point)
        assert inquiry.offer(point=point, final=True) is not rigorous


@pytest.mark.parametrize("junk", [(np.eye(7),), "here", (np.full((4, 4), np.nan),), 5, ()])
def test_junk_is_refused_not_raised(junk: Any) -> None:
    problem = plant(True).problem
    for final in (False, True):
        inquiry = sf.Inquiry(problem)
        assert not inquiry.offer(point=junk, final=final)
        assert not inquiry.offer(multipliers=junk, final=final)
        assert inquiry.granted is None
    assert sf.Inquiry(problem).final_check(sf.Claim(point=junk)).verdict is sf.Verdict.UNDECIDED


def test_once_the_listener_says_stop_it_stays_so() -> None:
    problem, calls = plant(True).problem, []

    def stop(progress: sf.Progress) -> bool:
        calls.append(progress)
        return True

    inquiry = sf.Inquiry(problem, listener=stop)
    assert inquiry.report(1)
    assert inquiry.finished
    assert inquiry.report(2)
    assert inquiry.offer(point=None)
    assert len(calls) == 1


def test_auto_asks_nobody_else_once_the_listener_says_stop() -> None:
    problem = planted.feasible(
        np.random.default_rng(5), [sf.SpectralBox(8, trace=4)], rows=60, margin=1e-9
    ).problem
    result = sf.solve(problem, "auto", callback=lambda progress: True)
    assert len(result.claim.info["tried"]) == 1


def test_an_offer_that_settles_a_search_needs_no_verifier(monkeypatch: pytest.MonkeyPatch) -> None:
    class Content(Listener):
        def offered(self, *_: Any) -> bool:
            return True

    proofs = Proofs(monkeypatch)
    problem = plant(True).problem
    inquiry = sf.Inquiry(problem, listener=Content())
    assert inquiry.offer(point=tuple(s.interior_point() for s in problem.sets))
    assert inquiry.granted is None
    assert proofs.total == 0


def test_proofs_on_the_way_take_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def slow(*_: Any, **_options: Any) -> Any:
        tried.append(1)
        time.sleep(1.2 * FREE_PROOF_SECONDS)
        return proof_attempts.refuse("slow")

    monkeypatch.setattr(proof_attempts, "prove_point", slow)
    monkeypatch.setattr(proof_attempts, "repaired_points", lambda *_: iter(()))
    problem = plant(True, "box trace").problem
    inquiry = sf.Inquiry(problem)
    points = [(np.eye(problem.sets[0].n) * (1.0 + k),) for k in range(20)]
    assert not any(inquiry.offer(point=point) for point in points)
    assert len(tried) == 1
    inquiry.offer(point=points[-1], final=True)
    assert len(tried) == 2


# ---------------------------------------------------------------- views


def test_a_view_has_an_earlier_deadline_and_shares_what_is_granted() -> None:
    item = plant(True)
    inquiry = sf.Inquiry(item.problem, deadline=Deadline(10.0))
    view = inquiry.within(1.0)
    assert 0.0 < view.deadline.left <= 1.0
    assert inquiry.deadline.left > 5.0
    assert view.within(60.0).deadline.left <= 1.0
    assert view.within(None).deadline.left <= 1.0
    assert view.offer(point=sf.solve(item.problem, "spectral-ipm").point)
    assert inquiry.granted is not None


def test_backends_that_take_cones_see_a_box_through_its_lift() -> None:
    item = plant(True, "box trace")
    known = sf.solve(item.problem, "spectral-ipm")
    seen: dict[str, Any] = {}

    class Cone(Backend):
        sets = frozenset({sf.PSD, sf.Nonneg, sf.Free})

        def solve(self, problem: sf.FeasibilityProblem, inquiry: sf.Inquiry) -> sf.Claim:
            seen["start"] = inquiry.start
            seen["stop"] = inquiry.report(1, inquiry.start.point, np.zeros(problem.m))
            seen["granted"] = inquiry.offer(point=inquiry.start.point)
            return sf.Claim()

    progress: list[sf.Progress] = []
    result = sf.solve(item.problem, Cone, warm_start=known, callback=lambda p: progress.append(p))
    assert len(seen["start"].point) == 2
    assert not seen["stop"]
    assert seen["granted"]
    np.testing.assert_allclose(progress[0].point[0], known.point[0], atol=1e-12)
    assert progress[0].certificate.shape == (item.problem.m,)
    assert result.verdict is sf.Verdict.FEASIBLE


def test_what_is_wanted_reaches_a_backend_behind_another() -> None:
    wanted = []

    def note(problem: sf.FeasibilityProblem, inquiry: sf.Inquiry) -> sf.Claim:
        wanted.append(inquiry.within(5.0).through(problem.lift()).wanted)
        return sf.Claim()

    problem = plant(True).problem
    dispatch(scripted(note)(), problem, sf.Inquiry(problem, wanted="margin"))
    assert wanted == ["margin"]
    with pytest.raises(sf.OptionError, match="wanted"):
        sf.Inquiry(problem, wanted="more")  # type: ignore[arg-type]


# ---------------------------------------------------------------- the driver's options and the backend's


def test_options_of_the_backend_are_a_mapping() -> None:
    problem = plant(True).problem
    result = sf.solve(problem, "spectral-ipm", options={"max_iterations": 40})
    assert result.options["max_iterations"] == 40
    with pytest.raises(sf.OptionError, match="mapping"):
        sf.solve(problem, "spectral-ipm", options=["max_iterations"])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_iterations'"):
        sf.solve(problem, "spectral-ipm", max_iterations=40)  # type: ignore[call-arg]


def test_searches_take_options_likewise() -> None:
    family = Theta.make(graph="cycle", n=5)
    for search in (sf.bisect, sf.one_shot):
        assert search(family, "spectral-ipm", tol=0.1, options={"max_iterations": 40}).converged
        with pytest.raises(TypeError, match="unexpected keyword argument 'max_iterations'"):
            search(family, "spectral-ipm", tol=0.1, max_iterations=40)
