"""Names from files are shown in every medium, and obeyed in none."""

from __future__ import annotations

import csv
import html
import io
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.text import Text
from study_tools import write_backend

import sdpfeas as sf
from sdpfeas.cli import main
from sdpfeas.escaping import escape_csv, escape_figure, escape_html, escape_markdown, escape_terminal, visible
from sdpfeas.io.tables import csv_table, markdown_table

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

HOSTILE = [
    "\x1b[31mred\x1b]0;title\x07\x1b]8;;http://evil\x1b\\link",
    "\x9b2J\r\b\x7f",
    "two\nlines\u2028three",
    "[bold]x[/] [link=http://evil]y[/link] [/] \\[z] [red\\",
    "![i](http://evil/b.png) [a](http://evil) <img src=x onerror=alert(1)>",
    "**b** _i_ `c` | d ~~e~~ $f$ #1 @all",
    "https://evil.example www.evil.example &lt;b&gt; \\| \\",
    "</script><script>alert(1)</script><!-- ' \" onmouseover='x",
    '=HYPERLINK("http://evil")',
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\u202eltr\u2066 \ufeff \U000e0041",
    "lone \udce9 surrogate",
    r"$\frac{",
    "-",
    "1. item",
    " ",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_terminal(text: str) -> None:
    shown = Text.from_markup(f"[bold]{escape_terminal(text)}[/]", emoji=False)
    assert shown.plain == visible(text)
    assert [span.style for span in shown.spans] == ["bold"]
    assert not CONTROL.search(escape_terminal(text))
    visible(text).encode()


def rendered(text: str) -> str:
    markdown = pytest.importorskip("markdown_it")
    return str(markdown.MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown(text: str) -> None:
    found = rendered(
        "\n".join(markdown_table(["name", escape_markdown(text)], [[escape_markdown(text), "1"]]))
    )
    shown = html.escape(visible(text).strip(), quote=False)
    assert found.count(shown.replace("'", "&#x27;")) + found.count(shown.replace('"', "&quot;")) >= 2
    assert set(re.findall(r"<(\w+)", found)) <= {"table", "thead", "tbody", "tr", "th", "td"}


@given(st.text())
@example("a\\")
@example("\\*")
def test_text_is_kept_in_every_medium(text: str) -> None:
    shown = visible(text)
    assert html.unescape(escape_html(text)) == shown
    assert Text.from_markup(f"[bold]{escape_terminal(text)}[/]", emoji=False).plain == shown
    assert re.sub(r"\\(.)", r"\1", escape_markdown(text).replace("&amp;", "&")) == shown
    assert len(shown.splitlines()) <= 1


@pytest.mark.parametrize("text", HOSTILE)
def test_csv(text: str) -> None:
    rows = list(csv.reader(io.StringIO(csv_table(["name", "x"], [{"name": text, "x": -1.5, "y": 0}]))))
    assert rows[0] == ["name", "x"]
    assert rows[1][1] == "-1.5"
    assert not re.match(r"\s*[=+@|%-]", rows[1][0])
    assert escape_csv(text).removeprefix("'") == visible(text, lines=True)


def test_numbers_stay_numbers_in_csv() -> None:
    for value in (-1, 2.5, None, "-3", "-1e-5", "+inf"):
        assert escape_csv(value) == value


@pytest.mark.parametrize("text", HOSTILE)
def test_figure(text: str, tmp_path: Path) -> None:
    figures = pytest.importorskip("matplotlib.figure", reason="the extra [plot] is not installed")
    figure = figures.Figure()
    figure.subplots().set_title(escape_figure(text))
    figure.savefig(tmp_path / "x.svg")


# ---------------------------------------------------------------- the whole way


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.scripts = 0
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.scripts += tag == "script"

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.slow
def test_a_study_of_hostile_names(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "4000")
    monkeypatch.setenv("NO_COLOR", "1")

    def toml(text: str) -> str:
        return '"' + "".join(f"\\U{ord(c):08x}" for c in text) + '"'

    write_backend(tmp_path, "honest")
    names = [name for name in HOSTILE if "\udce9" not in name]
    for k, name in enumerate(names):
        (tmp_path / f"s{k}.toml").write_text(f'backend = "honest"\nname = {toml(name)}\n')
        sets, rows = [sf.PSD(1)], [np.ones((1, 1, 1))]
        bounds = ([-2.0], [-1.0]) if k % 2 else ([1.0], [2.0 + k])
        sf.FeasibilityProblem(sets, rows, *bounds, row_names=[name], block_names=[name]).save(f"p{k}.npz")
        (tmp_path / f"p{k}.toml").write_text(f'file = "p{k}.npz"\nname = {toml(name)}\n')

    def call(*arguments: str) -> str:
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        out, err = capsys.readouterr()
        assert caught.value.code in (0, None), err
        return str(out + err)

    cards = ("--solvers", "s[04].toml", "--problems", "p*.toml")
    shown = call("compare", *cards, "--out", "s.db", "--report", "r.html")
    shown += call("report", "s.db", "--format", "md", "-o", "r.md", "--figures", "figures")
    shown += call("export", "s.db", "-o", "s.csv")
    for k in range(len(names)):
        shown += call("show", f"s{k}.toml") + call("show", f"p{k}.npz") + call("show", f"p{k}.toml")
    shown += call("solve", "p1.toml", "-b", "s3.toml") + call("solve", "p4.npz", "-b", "honest.py")
    assert not CONTROL.search(shown)
    for name in names:
        assert visible(name).strip() in shown

    page = Page((tmp_path / "r.html").read_text(encoding="utf-8"))
    assert page.scripts == 2
    assert "img" not in page.tags
    assert not {name for name in page.attributes if name.startswith("on")}
    assert not CONTROL.search("".join(page.words))

    markdown = (tmp_path / "r.md").read_text(encoding="utf-8")
    tags = set(re.findall(r"<(\w+)", rendered(markdown)))
    assert tags <= {"h1", "h2", "p", "ul", "li", "strong", "table", "thead", "tbody", "tr", "th", "td"}

    for row in list(csv.reader((tmp_path / "s.csv").open(encoding="utf-8", newline="")))[1:]:
        assert not any(re.match(r"\s*[=+@|%-](?![\d.e+-]*$)", cell) for cell in row)


def test_names_shown_alike_stay_apart() -> None:
    names = ["a\n", "a\\n"]
    sets = [sf.PSD(1), sf.SpectralBox(1)]
    problem = sf.FeasibilityProblem(sets, [None, None], [], [], block_names=names)
    assert problem.block_name(0) == problem.block_name(1)


def test_feature_names_of_wlda(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the extra [wlda] is not installed")
    rng = np.random.default_rng(1)
    lines = [f"{k % 2},{x + 3 * (k % 2)},{y}" for k, (x, y) in enumerate(rng.standard_normal((20, 2)))]
    (tmp_path / "t.csv").write_text("\n".join(['kind,=1+1,"a ""quoted"" name, really"', *lines]))
    with pytest.raises(SystemExit):
        main(["wlda", str(tmp_path / "t.csv"), "--label", "kind", "--write", str(tmp_path / "W.csv")])
    rows = list(csv.reader((tmp_path / "W.csv").open(newline="")))
    assert [row[0] for row in rows] == ["feature", "'=1+1", 'a "quoted" name, really']
