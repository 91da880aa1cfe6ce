"""Coq accepts the theorem of every valid piece of evidence, by axioms of the reals alone."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import corpus
import pytest

from sdpfeas import sdpcheck
from sdpfeas.certifier.certify import Evidence
from sdpfeas.certifier.coq_files import coq_file
from sdpfeas.errors import NotProved

VALID = {name: document for name, document in corpus.valid().items() if document["kind"] != "bracket"}
QUICK = ("infeasible-face-lmi", "feasible-box")
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
def test_coq_refuses_changed_evidence(tmp_path: Path) -> None:
    """A multiplier, a square or a bound changed: the computation gives false."""
    text = written("infeasible-psd")
    library, theorem = text.split("Theorem infeasible_problem")
    number = re.search(r"Step \[\((-?\d+) # (\d+)\)", theorem)
    assert number is not None
    wrong = theorem.replace(number[0], f"Step [({int(number[1]) * 3 + 1} # {number[2]})", 1)
    assert compiled(f"{library}Theorem infeasible_problem{wrong}", tmp_path).returncode != 0


def test_evidence_is_written_as_squares() -> None:
    for name in VALID:
        text = written(name)
        assert f"Theorem {VALID[name]['kind']}_problem" in text
        assert "Admitted" not in text
        assert not re.search(r"^\s*(Axiom|Parameter|Hypothesis)", text, re.MULTILINE)
    bracket = corpus.valid()["bracket-min"]
    with pytest.raises(NotProved):
        coq_file(Evidence(bracket["problem"], bracket, ""))
