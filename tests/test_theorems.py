"""Theorems that docstrings cite by number are those of docs/mathematics.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8")

#: What each theorem is about: words that stand in its text, and near every citation of it.
SUBJECT = {
    1: r"infeasib",
    2: r"fac(e|ial)|exposing",
    3: r"Cholesky",
    4: r"eigen",
    5: r"existence|exact solution|least-norm|correction",
    6: r"rational",
    7: r"optimal value|maximum",
    8: r"famil",
    9: r"relaxation|Fantope",
}


def citations() -> list[tuple[str, int, str]]:
    found = []
    for path in sorted((ROOT / "sdpfeas").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(r"Theorem (\d+)", text):
            near = " ".join(text[max(0, match.start() - 250) : match.end() + 250].split())
            found.append(
                (f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}", int(match[1]), near)
            )
    return found


def test_the_page_numbers_its_theorems_in_order() -> None:
    numbers = [int(number) for number in re.findall(r"^\*\*Theorem (\d+)", PAGE, re.MULTILINE)]
    assert numbers == sorted(SUBJECT)
    for number, words in SUBJECT.items():
        statement = PAGE[PAGE.index(f"**Theorem {number}") :][:900]
        assert re.search(words, statement), number


@pytest.mark.parametrize(("place", "number", "near"), citations())
def test_citations_are_about_the_theorem(place: str, number: int, near: str) -> None:
    assert re.search(SUBJECT[number], near), place


def test_the_modules_that_prove_cite_their_theorems() -> None:
    cited = {place.split(":")[0]: number for place, number, _ in citations()}
    for module in ("rigorous", "gram", "equality_correction", "facial_reduction", "exact"):
        assert f"sdpfeas/verifier/{module}.py" in cited
