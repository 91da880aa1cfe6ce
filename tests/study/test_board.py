"""The board: right and wrong statuses, and the pages about them."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from study_tools import run, start, write_backend
from typer.testing import CliRunner

from sdpfeas import sdpcheck
from sdpfeas.cli.app import app
from sdpfeas.study.board.board_data import BoardData, Standing
from sdpfeas.study.board.data_sets import PROBLEM_SETS, DataSet, Held, State
from sdpfeas.study.board.problems import board_problems, slug
from sdpfeas.study.board.site import write_site
from sdpfeas.study.cells import Cell, ProblemRow, Record, Settings, SolverRow
from sdpfeas.study.comparison import Comparison
from sdpfeas.study.store import Store

#: It says optimal to everything, and shows nothing for it.
LIAR = 'return Claim(raw_status="optimal")'


# ---------------------------------------------------------------- a whole board


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A board of generated problems, with a solver that is wrong and one that is not installed."""
    folder = tmp_path_factory.mktemp("board")
    liar = write_backend(folder / "solvers", "liar", LIAR)
    absent = folder / "solvers" / "absent.py"
    text = liar.read_text().replace('name = "liar"', 'name = "absent"\n    requires = ("no_such_module",)')
    absent.write_text(text)
    command = ["board", folder / "board", "--quick", "--sets", "generated", "--json"]
    code, out, err = run([*command, "--solvers", "auto", "--solvers", liar, "--solvers", absent])
    assert code == 0, err
    assert "not installed absent" in err
    return folder / "board", json.loads(out)


@pytest.mark.slow
def test_a_lying_solver_is_shown_as_lying(board: tuple[Path, dict[str, Any]]) -> None:
    folder, found = board
    infeasible = [p for p, verdict in found["truths"].items() if verdict == "infeasible"]
    assert len(found["truths"]) == found["problems"] == 5
    assert len(infeasible) == 3
    assert found["solvers"]["liar"]["wrong"] == 3
    assert found["solvers"]["liar"]["right"] == 2
    assert found["solvers"]["liar"]["proved"] == 0
    auto = found["solvers"]["auto"]
    assert auto["right"] == auto["proved"] == 5
    page = (folder / "site" / "solvers" / "liar.html").read_text()
    assert "Wrong statuses" in page
    assert all(f"../problems/{slug(problem)}.html" in page for problem in infeasible)


@pytest.mark.slow
def test_a_missing_solver_is_named(board: tuple[Path, dict[str, Any]]) -> None:
    folder, found = board
    assert "no_such_module" in found["skipped"]["absent"]
    index = (folder / "site" / "index.html").read_text()
    assert "no_such_module" in index


@pytest.mark.slow
def test_every_right_has_evidence_that_an_audit_accepts(board: tuple[Path, dict[str, Any]]) -> None:
    folder, found = board
    for problem in found["truths"]:
        place = folder / "site" / "problems" / slug(problem)
        files = [place.with_name(f"{place.name}{end}") for end in (".toml", ".npz")]
        code, out, err = run(["audit", *files])
        assert code == 0, out + err
        assert "CONFIRMED" in out
        assert sdpcheck.main([str(place.with_name(f"{place.name}.json"))]) == 0


@pytest.mark.slow
def test_a_finished_board_computes_nothing(board: tuple[Path, dict[str, Any]]) -> None:
    folder, found = board
    solvers = ["--solvers", "auto", "--solvers", folder.parent / "solvers" / "liar.py"]
    code, out, err = run(["board", folder, "--quick", "--sets", "generated", *solvers, "--json"])
    assert code == 0, err
    again = json.loads(out)
    assert again["computed"] == 0
    assert again["truths"] == found["truths"]


@pytest.mark.slow
def test_a_killed_board_goes_on(tmp_path: Path) -> None:
    command = ["board", tmp_path / "b", "--quick", "--sets", "generated", "--solvers", "auto,scs-plain"]
    process = start(command)
    database = tmp_path / "b" / "study.db"
    deadline = time.monotonic() + 60

    def done() -> int:
        if not database.is_file():
            return 0
        try:
            with Store(database, readonly=True) as store:
                return sum(cell["state"] == "done" for cell in store.cells(texts=False))
        except Exception:  # noqa: BLE001 - it may be half made
            return 0

    while done() < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = done()
    assert 2 <= kept < 10
    code, out, err = run([*command, "--json"])
    assert code == 0, err
    found = json.loads(out)
    assert found["computed"] == 10 - kept
    assert len(found["truths"]) == 5


# ---------------------------------------------------------------- truth


def _rows(problem: str) -> ProblemRow:
    return ProblemRow(
        key=problem, label=problem, name=problem, parameters={}, kind="problem", rows=1, size=5,
        summary="PSD(5); 1 rows", card=f'name = "{problem}"\n',
    )  # fmt: skip


def _store(path: Path, records: dict[tuple[str, str], Record]) -> Store:
    store = Store(path)
    cells = [
        Cell(
            f"{path.stem}-{solver}-{problem}",
            SolverRow(key=solver, name=solver, backend=solver, version="1", options={}, source="", card=""),
            _rows(problem),
            0,
        )
        for solver, problem in records
    ]
    plan: Any = Comparison(cells, Settings(time_limit=10, rigorous=True))  # type: ignore[arg-type]
    store.begin_run(plan, "sdpfeas board", {"versions": {}}, None)
    by_key = {cell.key: cell for cell in cells}
    while (key := store.take()) is not None:
        cell = by_key[key]
        record = records[cell.solver.name, cell.problem.label]
        kept = b"evidence" if path.stem == "study" else gzip.compress(b"proof")
        evidence = kept if record.verdict != "undecided" else None
        store.finish(key, record, evidence)
    store.end_run()
    return store


def _answer(verdict: str, claimed: str | None = None) -> Record:
    proof = None if verdict == "undecided" else "rigorous"
    return Record(outcome="done", verdict=verdict, proof=proof, claimed=claimed, raw_status=claimed or "")


def _audit(finding: str, claimed: str, proved: str) -> Record:
    info = json.dumps({"evidence": hashlib.sha256(b"evidence").hexdigest()})
    return Record(outcome="done", verdict=proved, claimed=claimed, raw_status=finding, info=info)


def made(
    tmp_path: Path, study: dict[tuple[str, str], Record], audits: dict[tuple[str, str], Record]
) -> BoardData:
    with _store(tmp_path / "study.db", study) as one, _store(tmp_path / "audits.db", audits) as two:
        return BoardData(one, two)


P = "generated/p"


def test_words_are_held_against_what_is_proved(tmp_path: Path) -> None:
    study = {
        ("good", P): _answer("infeasible", "infeasible"),
        ("liar", P): _answer("undecided", "feasible"),
        ("mute", P): _answer("undecided"),
        ("lucky", P): _answer("undecided", "infeasible"),
    }
    data = made(tmp_path, study, {("good", P): _audit("confirmed", "infeasible", "infeasible")})
    standing = {cell["solver"]: cell["standing"] for cell in data.data.cells}
    assert standing == {
        "good": Standing.right,
        "liar": Standing.wrong,
        "mute": Standing.silent,
        "lucky": Standing.right,
    }
    assert not data.contradictions


def test_a_status_within_the_tolerance_of_its_solver_is_told_apart(tmp_path: Path) -> None:
    def status(error: float | None) -> Record:
        info = {} if error is None else {"dimacs_error": error}
        words = {"claimed": "feasible", "raw_status": "solved", "info": json.dumps(info)}
        return Record(outcome="done", solve_time=1.0, **words)

    study = {
        ("good", P): _answer("infeasible", "infeasible"),
        ("near", P): status(1e-7),
        ("far", P): status(1e-3),
        ("mute", P): status(None),
        ("good", "sdplib/q"): _answer("feasible", "feasible"),
        ("near", "sdplib/q"): status(1e-7),
        ("far", "sdplib/q"): status(1e-3),
    }
    audits = {
        ("good", P): _audit("confirmed", "infeasible", "infeasible"),
        ("good", "sdplib/q"): _audit("confirmed", "feasible", "feasible"),
    }
    with _store(tmp_path / "study.db", study) as one, _store(tmp_path / "audits.db", audits) as two:
        data = BoardData(one, two)
        first = write_site(data, one, tmp_path / "site")
    standing = {cell["solver"]: cell["standing"] for cell in data.about(P)}
    assert standing["near"] is Standing.within
    assert standing["far"] is standing["mute"] is Standing.wrong
    assert "Contradicted by proof, but by less than that tolerance: 1." in " ".join(data.headlines())
    times = {row.solver: row for row in data.times()}
    assert {name: row.matched for name, row in times.items()} == {"good": 2, "near": 1, "far": 0, "mute": 0}
    assert times["good"].late == times["good"].mean
    assert times["near"].matched_mean < times["near"].mean < times["near"].late
    assert "within tolerance" in first.read_text()
    assert "lied" not in first.read_text() + (first.parent / "solvers" / "far.html").read_text()


@pytest.mark.parametrize("finding", ["not confirmed", "numeric", ""])
def test_what_no_audit_confirms_is_no_truth(tmp_path: Path, finding: str) -> None:
    study = {("good", P): _answer("feasible", "feasible"), ("liar", P): _answer("undecided", "infeasible")}
    audits = {("good", P): _audit(finding, "feasible", "undecided")}
    data = made(tmp_path, study, audits)
    assert not data.truths
    assert P in data.unaudited
    assert {cell["standing"] for cell in data.data.cells} == {Standing.open}


def test_an_audit_of_other_evidence_counts_for_nothing(tmp_path: Path) -> None:
    study = {("good", P): _answer("feasible", "feasible")}
    stale = _audit("confirmed", "feasible", "feasible")
    other = Record(**{**stale.__dict__, "info": json.dumps({"evidence": "0" * 64})})
    assert not made(tmp_path, study, {("good", P): other}).truths
    turned = tmp_path / "turned"
    turned.mkdir()
    audits = {("good", P): _audit("confirmed", "infeasible", "infeasible")}
    assert not made(turned, study, audits).truths


@pytest.mark.parametrize("how", ["verifier", "auditor"])
def test_contradictory_proofs_are_said_loudly(tmp_path: Path, how: str) -> None:
    study = {("one", P): _answer("feasible", "feasible"), ("two", P): _answer("undecided", "infeasible")}
    audits = {("one", P): _audit("confirmed", "feasible", "feasible")}
    if how == "verifier":
        study["two", P] = _answer("infeasible", "infeasible")
    else:
        audits = {("one", P): _audit("refuted", "feasible", "infeasible")}
    with _store(tmp_path / "study.db", study) as one, _store(tmp_path / "audits.db", audits) as two:
        data = BoardData(one, two)
        first = write_site(data, one, tmp_path / "site")
    assert len(data.contradictions) == 1
    assert not data.truths
    assert all(cell["standing"] is not Standing.right for cell in data.data.cells)
    assert "CONTRADICTION" in data.headlines()[0]
    assert 'role="alert"' in first.read_text()


# ---------------------------------------------------------------- the plan


def _held(state: State) -> list[Held]:
    names = {"sdplib": "truss1.dat-s", "liu-pataki": "weak_clean_10_10_1.mat", "wlda": "sonar.data"}
    return [
        Held(DataSet(folder, folder, "", {name: ""}), name, Path(folder) / name, state)
        for folder, name in names.items()
    ]


def test_only_files_known_by_content_are_asked_about() -> None:
    right = [label for label, _ in board_problems(_held(State.right))]
    assert {"sdplib/truss1-primal", "sdplib/truss1-lmi", "liu-pataki/weak_clean_10_10_1"} <= set(right)
    assert {"wlda/sonar-below", "wlda/sonar-above"} <= set(right)
    for state in (State.other, State.missing):
        assert {label.partition("/")[0] for label, _ in board_problems(_held(state))} == {"generated"}


def test_labels_and_files_are_unique() -> None:
    labels = [label for label, _ in board_problems(_held(State.right))]
    assert len(set(labels)) == len(labels)
    assert len(set(map(slug, labels))) == len(labels)
    assert {label.partition("/")[0] for label in labels} <= set(PROBLEM_SETS)
    quick = {label for label, _ in board_problems(_held(State.right), quick=True)}
    assert quick < set(labels)


# ---------------------------------------------------------------- pages


class _Links(HTMLParser):
    """Every address in a page, and whether tags are closed as they were opened."""

    VOID = ("meta", "link", "br", "input", "img", "line", "path", "circle", "rect")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag


def look_through(site: Path, count: int) -> None:
    """Every page is well formed, every address leads to a file of the site."""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) == count
    for page in pages:
        text = page.read_text(encoding="utf-8")
        links = _Links()
        links.feed(text)
        assert links.open == []
        for link in links.found:
            if link.startswith(("#", "data:")):
                continue
            assert not re.match(r"[a-z]+:|//", link), (page, link)
            assert (page.parent / link.partition("#")[0]).resolve().is_file(), (page, link)
    assert "url(" not in (site / "style.css").read_text()


def test_pages_are_whole_and_stay_at_home(tmp_path: Path) -> None:
    odd = '<b>&" odd\x1b\u202e'
    study = {
        ("good", P): _answer("infeasible", "infeasible"),
        (odd, P): _answer("undecided", "feasible"),
        ("good", "sdplib/q"): _answer("undecided"),
        (odd, "sdplib/q"): Record(outcome="timeout", reason="<script>alert(1)</script>"),
    }
    audits = {("good", P): _audit("confirmed", "infeasible", "infeasible")}
    with _store(tmp_path / "study.db", study) as one, _store(tmp_path / "audits.db", audits) as two:
        first = write_site(BoardData(one, two), one, tmp_path / "site")
    look_through(tmp_path / "site", 1 + 2 + 2)
    text = "".join(page.read_text() for page in first.parent.rglob("*.html"))
    assert "<script>alert" not in text
    assert "<b>&" not in text
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    assert (first.parent / "problems" / "generated-p.npz").read_bytes() == b"evidence"
    assert (first.parent / "problems" / "generated-p.json").read_bytes() == b"proof"
    page = (first.parent / "problems" / "generated-p.html").read_text()
    assert "python sdpcheck.py generated-p.json" in page
    tables = (first.parent / "board.md").read_text()
    assert re.search(r"\| good +\| +1 \| +1 \| +0 \| +0 \| +1 \| +0 \| +1 \|", tables)


def test_reasons_are_shown_whole_or_cut_between_words(tmp_path: Path) -> None:
    reason = "point: the equality rows are missed by more than the distance to the boundary allows; "
    study = {
        ("good", P): _answer("infeasible", "infeasible"),
        ("poor", P): Record(outcome="done", verdict="undecided", reason=3 * reason),
        ("long", P): Record(outcome="done", verdict="undecided", reason=30 * reason),
    }
    audits = {("good", P): _audit("confirmed", "infeasible", "infeasible")}
    with _store(tmp_path / "study.db", study) as one, _store(tmp_path / "audits.db", audits) as two:
        site = write_site(BoardData(one, two), one, tmp_path / "site").parent
    page = (site / "problems" / "generated-p.html").read_text()
    assert (3 * reason).strip() in page
    cut = re.findall(r"<p>(point: [^<]*) …</p>", page)
    assert len(cut) == 1
    assert cut[0].split()[-1] in reason.split()
    assert reason[:40] in (site / "solvers" / "poor.html").read_text()


@pytest.mark.slow
def test_pages_of_a_whole_board(board: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = board
    look_through(folder / "site", 1 + 2 + 5)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "light"), (1280, "dark"), (390, "dark")]
)
def test_pages_in_a_browser(
    board: tuple[Path, dict[str, Any]], browser: Any, width: int, scheme: str
) -> None:
    folder, _ = board
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    trouble: list[str] = []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else trouble.append(r.url))
    for name in ("index.html", "solvers/liar.html", "problems/generated-faces-weak-0.html"):
        page.goto((folder / "site" / name).as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", dark)[:3])) < 200) == (scheme == "dark")
        page.click("#theme")
        turned = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert turned != dark
        for words in page.query_selector_all(".why p"):  # a reason is read without scrolling sideways
            box = words.bounding_box()
            assert box["x"] + box["width"] <= width, name
    page.goto((folder / "site" / "index.html").as_uri())
    wrong = page.query_selector(".counts td.wrong").bounding_box()
    assert wrong["x"] + wrong["width"] <= width  # what matters most is seen without scrolling, on a phone too
    page.click('a[href="solvers/liar.html"] >> nth=0')
    assert "liar" in page.title()
    assert trouble == []
    page.close()


@pytest.mark.slow
def test_every_truth_of_a_board_made_elsewhere() -> None:
    """Every truth of the board that SDPFEAS_BOARD names is audited by the command, from its files alone."""
    named = os.environ.get("SDPFEAS_BOARD")
    if not named:
        pytest.skip("SDPFEAS_BOARD names no board")
    one, two = (Store(Path(named) / f"{name}.db", readonly=True) for name in ("study", "audits"))
    with one, two:
        data = BoardData(one, two)
    assert data.truths
    assert not data.contradictions
    wrong = []
    for problem in data.truths:
        place = Path(named) / "site" / "problems" / slug(problem)
        found = CliRunner().invoke(app, ["audit", f"{place}.toml", f"{place}.npz"])
        if found.exit_code != 0:
            wrong.append((problem, found.output))
    assert wrong == []
