"""Coq accepts the theorem of every valid piece of evidence, by axioms of the reals alone."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import corpus
import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas import sdpcheck
from sdpfeas.certifier.certify import Evidence
from sdpfeas.certifier.coq_files import coq_file

VALID = corpus.valid()
QUICK = ("infeasible-face-lmi", "feasible-box", "bracket-max")
needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="coqc, of Debian's package coq, is not installed"
)


def written(name: str) -> str:
    problem = VALID[name]["problem"]
    document = VALID[name] | {"problem": sdpcheck.digest(problem)}
    return coq_file(Evidence(problem, document, sdpcheck.check(problem, document)))


def compiled(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "theorem.v").write_text(text, encoding="utf-8")
    return subprocess.run(["coqc", "theorem.v"], cwd=folder, capture_output=True, text=True, check=False)


@needs_coq
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in VALID]
)
def test_coq_accepts_the_theorem(name: str, tmp_path: Path) -> None:
    done = compiled(written(name), tmp_path)
    assert done.returncode == 0, done.stderr
    axioms = set(re.findall(r"^(\w[\w.]*)", done.stdout, re.MULTILINE)) - {"Axioms"}
    assert axioms <= {
        "ClassicalDedekindReals.sig_forall_dec",
        "ClassicalDedekindReals.sig_not_dec",
        "FunctionalExtensionality.functional_extensionality_dep",
    }


@needs_coq
def test_coq_accepts_a_point_of_long_denominators(tmp_path: Path) -> None:
    """Entries of thirds and sevenths are rounded, and what that leaves is a second part of the point."""
    rows = [
        np.array([[[0, 3.0], [3, 0]], [[7, 0], [0, 0]], [[0, 0], [0, 0]]]),
        np.array([[0, 0], [0, 0], [3.0, 0]]),
    ]
    free = np.array([[0.0], [3.0], [0.0]])
    b = np.array([2.0, 9.0, 1.0])
    problem = sf.FeasibilityProblem([sf.PSD(2), sf.Nonneg(2), sf.Free(1)], [*rows, free], b, b)
    text = coq_file(sf.certify(sf.solve(problem)))
    assert "flat_map (left_over" in text[text.index("Definition rest") :]
    done = compiled(text, tmp_path)
    assert done.returncode == 0, done.stderr


def mutants(text: str) -> list[str]:
    """Goals that changed multipliers and squares compute to false: every number of them, plus 1, -1 and 2."""
    call = re.search(r"\(infeasible_sound (the_problem denominators\n.*?)\)\.\n  vm_cast", text, re.DOTALL)
    assert call is not None
    found = list(re.finditer(r"-?\b\d+\b(?!%)", call[1]))
    changed = [
        f"{call[1][: m.start()]}{int(m[0]) + d}{call[1][m.end() :]}" for m in found for d in (1, -1, 2)
    ]
    return [f"Goal check_infeasible {each} = false. vm_compute. reflexivity. Qed." for each in changed]


@needs_coq
def test_coq_refuses_changed_evidence(tmp_path: Path) -> None:
    """Over 200 mutants of multipliers and squares: each computes to false."""
    parts, count = list[str](), 0
    for number, name in enumerate(n for n in VALID if n.startswith("infeasible")):
        library, theorem = written(name).split("(* infeasible: ")
        goals = mutants(theorem)
        count += len(goals)
        definitions = theorem[theorem.index("*)") + 2 : theorem.index("Theorem ")]
        parts += [f"Module M{number}.", definitions, *goals, f"End M{number}."]
    assert count > 200
    done = compiled("\n".join([library, *parts]), tmp_path)
    assert done.returncode == 0, done.stderr


@needs_coq
@pytest.mark.parametrize("name", ["infeasible-psd", "bracket-min", "feasible-psd"])
def test_coq_refuses_a_changed_theorem(name: str, tmp_path: Path) -> None:
    """A theorem whose evidence is wrong is not accepted."""
    text = written(name)
    start = text.index("_sound the_problem denominators\n")
    found = re.search(r"\b[1-9]\d*\b(?!%)", text[start:])
    assert found is not None
    wrong = f"{text[: start + found.start()]}{int(found[0]) + 1}{text[start + found.end() :]}"
    assert compiled(wrong, tmp_path).returncode != 0


def test_evidence_is_written_as_squares() -> None:
    for name in VALID:
        text = written(name)
        assert f"Theorem {VALID[name]['kind']}_problem" in text
        assert "Admitted" not in text
        assert not re.search(r"^\s*(Axiom|Parameter|Hypothesis)", text, re.MULTILINE)
