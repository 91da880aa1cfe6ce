"""Examples on the pages run and print what the pages show; the check of the built site detects errors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from check_site import complaints
from look import look

DOCS = Path(__file__).resolve().parents[2] / "docs"
README = DOCS.parent / "README.md"
PAGES = sorted(DOCS.rglob("*.md"))
RUN = [README, *(page for page in PAGES if page.stem != "studies")]  # that one runs in tests/test_docs.py


def snippets(page: Path, language: str = "python") -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def timeless(text: str) -> str:
    """What is printed, but for how long it took."""
    return re.sub(r"[\d.e-]+ s;", "… s;", text)


@pytest.mark.parametrize("page", list(filter(snippets, RUN)), ids=lambda page: page.stem)
def test_snippets_run(
    page: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "snippet"}
    for code in snippets(page):
        exec(compile(code, str(page), "exec"), names)
    out = capsys.readouterr().out
    assert out.strip()
    for shown in snippets(page, "text"):
        assert timeless(shown) in timeless(out)


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([a-z/-]+)$", index, re.MULTILINE))
    pages = {p.relative_to(DOCS).with_suffix("").as_posix() for p in PAGES} - {"index"}
    assert pages <= listed
    assert pages <= set(re.findall(r"\(([a-z/-]+)\.md\)", index))  # and in its tables


def test_first_pages_show_what_they_print() -> None:
    for name in ("start", "facial-reduction", "howto/state", "howto/conflict", "howto/verify"):
        assert snippets(DOCS / f"{name}.md", "text"), name


def test_the_check_of_the_site_finds_what_is_wrong(tmp_path: Path) -> None:
    assert complaints(tmp_path)
    page = tmp_path / "index.html"
    page.write_text('<a href="https://example.org">out</a> <img src="a.png"> <a href="index.html#x">x</a>')
    assert complaints(tmp_path) == ["index.html: a.png leads nowhere"]
    page.write_text('<script src="https://example.org/x.js"></script><link href="//example.org/x.css">')
    assert len(complaints(tmp_path)) == 2


@pytest.mark.slow
def test_the_look_at_the_site_finds_what_is_wrong(tmp_path: Path) -> None:
    page = tmp_path / "index.html"
    page.write_text("<article><p>fine</p></article>")
    found = look(tmp_path)
    if found is None:
        pytest.skip("no browser: install Debian's chromium to run this test")
    assert found == []
    page.write_text('<article><p style="width: 2000px; color: #999; background: #aaa">wide</p></article>')
    words = look(tmp_path) or []
    assert sum("wider than the window" in each for each in words) == 3
    assert sum("contrast" in each for each in words) == 3
