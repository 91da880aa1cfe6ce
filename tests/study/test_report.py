"""Reports: what they say, and what they look like in a real browser."""

from __future__ import annotations

import json
import math
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sdpfeas.study.cells import Cell, Clock, ProblemRow, Record, Settings, SolverRow
from sdpfeas.study.comparison import Comparison
from sdpfeas.study.report import render_html, render_markdown
from sdpfeas.study.report.charts import Axis
from sdpfeas.study.report.study_data import StudyData, format_time, headlines
from sdpfeas.study.stats import (
    fit_power_law,
    natural_shift,
    performance_profiles,
    shifted_geometric_mean,
)
from sdpfeas.study.store import Store

# ---------------------------------------------------------------- statistics


def test_performance_profile() -> None:
    found = performance_profiles({"a": [1.0, 2.0, None], "b": [2.0, 1.0, None]})
    assert found["a"].ratios == (1.0, 2.0)
    assert found["a"].shares == pytest.approx((1 / 3, 2 / 3))
    assert found["a"].solved == found["b"].solved == pytest.approx(2 / 3)


def test_times_below_the_floor_are_equal() -> None:
    found = performance_profiles({"a": [1e-6], "b": [9e-4]})
    assert found["a"].wins == found["b"].wins == 1.0


def test_shifted_geometric_mean() -> None:
    mean = shifted_geometric_mean([1.0, 4.0], [60.0, 60.0], 0.0)
    assert mean.value == pytest.approx(2.0)
    charged = shifted_geometric_mean([1.0, None], [60.0, 60.0], 1.0)
    assert charged.value == pytest.approx(math.sqrt(2 * 61) - 1)
    assert charged.charged == 1


def test_shift_has_the_scale_of_the_times() -> None:
    assert natural_shift({"a": [0.011, 0.013, 5.0], "b": [9.0, 9.0, 9.0]}) == pytest.approx(0.01)
    assert natural_shift({"a": [None]}) == 1.0


def test_power_law_is_recovered_with_its_uncertainty() -> None:
    rng = np.random.default_rng(0)
    sizes = np.repeat([5.0, 10, 20, 40, 80], 4)
    times = 1e-6 * sizes**3 * np.exp(rng.normal(0, 0.2, sizes.size))
    fit = fit_power_law(sizes.tolist(), times.tolist())
    assert fit is not None
    assert fit.slope_low < 3.0 < fit.slope_high
    assert fit.slope_high - fit.slope_low < 0.5
    assert all(low <= t <= high for low, t, high in zip(fit.low, fit.times, fit.high, strict=True))
    assert fit_power_law([1.0, 2.0], [1.0, 2.0]) is None


@pytest.mark.parametrize("ends", [(1e-5, 1e3), (0.9, 1.1), (0.002, 0.3), (3.0, 3.0)])
def test_axes_have_a_few_ticks(ends: tuple[float, float]) -> None:
    for log in (True, False):
        ticks = Axis.around(list(ends), "x", log=log).ticks()
        assert 2 <= len(ticks) <= 12


def test_times_for_people() -> None:
    assert [format_time(t) for t in (2e-6, 0.0123, 1.5, 4321.0, None)] == [
        "2 µs",
        "12.3 ms",
        "1.5 s",
        "4321 s",
        "–",
    ]


# ---------------------------------------------------------------- a study to report on

SOLVERS = ("fast & <b>bold</b>", "steady", "optimist")
SIZES = (5, 10, 20, 40)


def solver_row(name: str) -> SolverRow:
    return SolverRow(
        key=name,
        name=name,
        backend="made",
        version="1.0",
        options={"gap": 1e-9},
        source="made.py",
        card='backend = "made"\n',
    )


def problem_row(name: str, size: int) -> ProblemRow:
    return ProblemRow(
        key=f"{name}{size}",
        label=f"{name}[n={size}]",
        name=name,
        parameters={"n": size},
        kind="problem",
        rows=3,
        size=size,
        summary=f"PSD({size}); 3 rows",
        card='family = "made"\n',
    )


def record(solver: str, card: str, size: int, seed: int) -> Record:
    """What the made-up solvers do: one is quick, one slow and sure, one claims what it likes."""
    truth = "feasible" if card == "yes" else "infeasible"
    if solver == "optimist":
        lie = card == "no"
        return Record(
            outcome="done",
            verdict="undecided" if lie else "feasible",
            proof=None if lie else "numeric",
            claimed="feasible",
            raw_status="optimal",
            solve_time=0.002 * size,
            reason="row 3 is violated",
            explanation="UNDECIDED\nrow 3 is violated",
            log="</script><script>window.hacked = true</script>",
            error=None if lie else 1e-8,
        )
    if solver == "steady" and size == 40 and seed == 1:
        return Record(outcome="timeout", reason="killed 0.6 s past its time limit", solve_time=11.5)
    factor = 1e-4 if solver.startswith("fast") else 5e-4
    return Record(
        outcome="done",
        verdict=truth,
        proof="rigorous",
        margin=0.1,
        claimed=truth,
        raw_status="solved",
        iterations=size,
        solve_time=factor * size**2 * (1 + 0.1 * seed),
        cpu_time=factor * size**2,
        error=0.0 if truth == "infeasible" else 1e-12,
        explanation=f"{truth.upper()} (rigorous proof)",
        log="iteration 1\niteration 2\n",
        peak_memory=80 << 20,
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path = tmp_path_factory.mktemp("report") / "study.db"
    cells = []
    for seed in (0, 1):
        for solver in SOLVERS:
            for card in ("yes", "no"):
                for size in SIZES:
                    key = f"{solver}-{card}-{size}-{seed}".replace(" ", "_")
                    cells.append(Cell(key, solver_row(solver), problem_row(card, size), seed))
    store = Store(path)
    environment = {
        "cpu": "a processor",
        "cores": 2,
        "memory": 2**34,
        "system": "Linux",
        "versions": {"numpy": "2"},
    }
    plan: Any = Comparison(cells, Settings(time_limit=10))  # type: ignore[arg-type]
    store.begin_run(plan, "sdpfeas compare", environment, None)
    by_key = {cell.key: cell for cell in cells}
    while (key := store.take()) is not None:
        cell = by_key[key]
        size = cell.problem.size
        store.finish(key, record(cell.solver.name, cell.problem.name, size, cell.seed))
    store.end_run()
    yield store
    store.close()


def test_the_model_knows_truth_and_lies(study: Store) -> None:
    data = StudyData(study)
    assert len(data.cells) == 48
    assert len(data.wrong_cells) == 8
    assert {cell["solver"] for cell in data.wrong_cells} == {"optimist"}
    assert not data.conflicts
    assert data.overall.ranking[0][0] == SOLVERS[0]
    steady = next(row for row in data.overall.ranking if row[0] == "steady")
    assert (steady[1], steady[2].charged) == (14, 2)
    assert {scaling.name for scaling in data.scalings} == {"yes", "no"}
    assert data.scalings[0].fits[SOLVERS[0]].slope == pytest.approx(2.0, abs=0.05)
    text = " ".join(headlines(data, lambda name: f"**{name}**"))
    assert "decides all 16 instances" in text
    assert "contradict a proof (**optimist**)" in text


def test_all_that_tie_are_named(tmp_path: Path) -> None:
    """Two are as fast, one is slow, and all decide the same."""
    cells = [
        Cell(f"{s}{c}", solver_row(s), problem_row(c, 5), 0) for s in ("one", "two", "slow") for c in "ab"
    ]
    with Store(tmp_path / "tie.db") as store:
        plan: Any = Comparison(cells, Settings(time_limit=10))  # type: ignore[arg-type]
        store.begin_run(plan, "sdpfeas compare", {"versions": {}}, None)
        while (key := store.take()) is not None:
            seconds = 2.0 if key.startswith("slow") else 0.5
            store.finish(
                key, Record(outcome="done", verdict="feasible", proof="rigorous", solve_time=seconds)
            )
        lines = headlines(StudyData(store))
    assert lines[0].startswith("one decides all 2 instances, and so do two and slow")
    assert "on a par with two" in lines[0]
    assert lines[1].startswith("one and two are fastest most often: on 100%")
    assert lines[2].startswith("On a the winners are one and two:")


def test_conflicts_are_found(tmp_path: Path, study: Store) -> None:
    with Store(tmp_path / "copy.db") as store:
        copied = sqlite3.connect(study.path)
        copied.backup(store._db)
        copied.close()
        store._db.execute("UPDATE cells SET verdict='infeasible', proof='numeric' WHERE key='steady-yes-5-0'")
        data = StudyData(store)
        assert data.conflicts == {("yes[n=5]", 0)}
        assert data.matrix["yes[n=5]"]["steady"].conflict
        assert "contradict each other" in " ".join(headlines(data))


def test_markdown(study: Store) -> None:
    text = render_markdown(study)
    assert re.search(r"\| steady +\| 14 of 16 \|", text)
    assert "‡ the raw status contradicts a proof" in text
    assert re.search(r"\| optimist +\| +8 of 16 \|", text)


def test_html_stands_alone(study: Store) -> None:
    page = render_html(study)
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", page)
    assert "@import" not in page
    assert "url(" not in page
    # Names and logs are data, never markup.
    assert "<b>bold</b>" not in page.split('id="data"')[0]
    assert page.count("</script>") == 2
    payload = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert payload is not None
    assert len(json.loads(payload[1])["cells"]) == 48


def test_hostile_names_are_visible_text(tmp_path: Path, study: Store) -> None:
    with Store(tmp_path / "hostile.db") as store:
        copied = sqlite3.connect(study.path)
        copied.backup(store._db)
        copied.close()
        name = "\x1b[31m\u202e</script><img src=x onerror=alert(1)>\" onclick='x"
        store._db.execute("UPDATE solvers SET name = ? WHERE name = 'optimist'", (name,))
        store._db.execute("UPDATE cells SET raw_status = ?, reason = ?", (name, name))
        page = render_html(store)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    shown = page.split('id="data"')[0]
    assert "&lt;img src=x onerror=alert(1)&gt;&#34; onclick=&#39;x" in shown
    assert "<img" not in page
    assert page.count("</script>") == 2


@pytest.mark.parametrize("state", ["nothing computed", "everything failed"])
def test_odd_studies_have_reports_too(tmp_path: Path, study: Store, state: str) -> None:
    with Store(tmp_path / "odd.db") as store:
        copied = sqlite3.connect(study.path)
        copied.backup(store._db)
        copied.close()
        if state == "nothing computed":
            store._db.execute("UPDATE cells SET state = 'pending'")
        else:
            store._db.execute("UPDATE cells SET outcome = 'crash', verdict = 'undecided', claimed = NULL")
        assert "No instance was decided" in render_html(store)
        assert "No instance was decided" in render_markdown(store)


@pytest.mark.parametrize("share", ["some", "all"])
def test_cells_that_asked_no_solver_have_no_winner(tmp_path: Path, study: Store, share: str) -> None:
    with Store(tmp_path / "unasked.db") as store:
        copied = sqlite3.connect(study.path)
        copied.backup(store._db)
        copied.close()
        closed = "UPDATE cells SET outcome = 'done', verdict = 'bracket', info = '{\"solves\": 0}'"
        store._db.execute(closed + (" WHERE key LIKE '%yes-5-0'" if share == "some" else ""))
        data = StudyData(store)
        count = 1 if share == "some" else 16
        assert len(data.unasked_instances) == count
        assert data.overall.instances == 16 - count
        assert data.matrix["yes[n=5]"]["steady"].unasked == (1 if share == "some" else 2)
        page, text = render_html(store), render_markdown(store)
        assert "no solver asked</em>" in page
        assert "∅ no solver asked" in text
        for rendered in (page, text):
            assert "before any solver was asked; no solver wins there" in rendered
            assert "No instance was decided" not in rendered
            assert ("is fastest most often" in rendered) == (share == "some")


@pytest.mark.slow
def test_figures(study: Store, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    from sdpfeas.study.report.charts import write_figures

    names = {path.name for path in write_figures(StudyData(study), tmp_path)}
    assert {"profiles.png", "profiles.svg", "scaling-yes.png", "accuracy.svg"} <= names
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)


@pytest.mark.slow
def test_figures_and_page_show_the_same_bands(
    study: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="the extra [plot] is not installed")
    from sdpfeas.study.report.charts import write_figures

    widths = sorted(
        fit.slope_high - fit.slope_low for s in StudyData(study).scalings for fit in s.fits.values()
    )
    counts = {}
    for telling in (-1.0, widths[len(widths) // 2], math.inf):
        monkeypatch.setattr("sdpfeas.study.scaling.WIDEST_INTERVAL", telling)
        write_figures(StudyData(study), tmp_path)
        drawn = "".join(path.read_text() for path in tmp_path.glob("scaling-*.svg"))
        counts[telling] = drawn.count("PolyCollection")  # FillBetweenPolyCollection since matplotlib 3.10
        assert render_html(study).count('class="band"') == counts[telling]
    assert sorted(set(counts.values())) == list(counts.values())


def test_waiting_for_a_processor_is_spoken_of(tmp_path: Path, study: Store) -> None:
    assert "processor time is far below" not in " ".join(headlines(StudyData(study)))
    with Store(tmp_path / "copy.db") as changed:
        copied = sqlite3.connect(study.path)
        copied.backup(changed._db)
        copied.close()
        changed._db.execute("UPDATE cells SET cpu_time = 0.3 * solve_time WHERE key LIKE 'steady%'")
        wall, processor = StudyData(changed), StudyData(changed, Clock.processor)
        text = " ".join(headlines(wall))
        assert "processor time is far below wall time (at worst" in text
        assert "rank by processor time before you compare" in text
        assert "before you compare" not in " ".join(headlines(processor))
        mean = {c: {s: m.value for s, _, m in d.overall.ranking} for c, d in ((0, wall), (1, processor))}
        assert mean[1]["steady"] < mean[0]["steady"]
        assert "processor times" in render_markdown(changed, Clock.processor)


# ---------------------------------------------------------------- in a browser

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no browser: install Debian's chromium to run this test")
    with playwright.sync_playwright() as tool:
        started = tool.chromium.launch(executable_path=program, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, study: Store, tmp_path: Path) -> Iterator[Any]:
    path = tmp_path / "report.html"
    path.write_text(render_html(study), encoding="utf-8")
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    troubles: list[str] = []
    opened.on("console", lambda message: troubles.append(message.text))
    opened.on("pageerror", lambda error: troubles.append(str(error)))
    opened.on(
        "request",
        lambda request: request.url.startswith(("file:", "data:", "blob:")) or troubles.append(request.url),
    )
    opened.goto(path.as_uri())
    yield opened
    opened.close()
    assert troubles == []


def column(page: Any, number: int) -> list[str]:
    found: list[str] = page.locator(f"#cell-table tbody tr td:nth-child({number})").all_inner_texts()
    return found


def test_charts_render(page: Any) -> None:
    charts = page.locator("svg.chart")
    assert charts.count() == 4
    for k in range(4):
        box = charts.nth(k).bounding_box()
        assert box["width"] > 300
        assert box["height"] > 150
    assert page.locator('[data-chart="profiles"] .line').count() == 3
    assert page.locator('[data-chart="scaling"] .band').count() >= 5
    assert page.locator('[data-chart="accuracy"] .dot').count() > 20
    assert page.evaluate("window.hacked") is None


def test_sorting(page: Any) -> None:
    page.click("button[data-column=size]")
    assert [int(v) for v in column(page, 4)] == sorted(int(v) for v in column(page, 4))
    page.click("button[data-column=size]")
    assert [int(v) for v in column(page, 4)] == sorted((int(v) for v in column(page, 4)), reverse=True)
    page.click("button[data-column=iterations]")
    shown = column(page, 11)
    numbers = [int(v) for v in shown if v]
    assert numbers == sorted(numbers)
    assert shown[-1] == ""


def test_filtering(page: Any) -> None:
    assert page.inner_text("#count") == "48 of 48"
    page.select_option("#by-solver", "optimist")
    assert page.inner_text("#count") == "16 of 48"
    page.select_option("#by-verdict", "undecided")
    assert page.inner_text("#count") == "8 of 48"
    page.fill("#search", "n=40")
    assert page.inner_text("#count") == "2 of 48"
    page.fill("#search", "")
    page.select_option("#by-solver", "")
    page.select_option("#by-verdict", "")
    page.check("#odd")
    assert page.inner_text("#count") == "10 of 48"


def test_details(page: Any) -> None:
    page.locator("table.matrix td").first.click()
    assert page.locator("dialog").is_visible()
    assert "iteration 2" in page.inner_text("dialog pre >> nth=1")
    page.get_by_role("button", name="seed 1").click()
    assert page.locator(".seeds [aria-current=true]").inner_text() == "seed 1"
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()
    lies = page.locator(".statuses tbody tr")
    assert lies.count() == 8
    assert "optimist" in lies.first.inner_text()
    assert "steady" in lies.first.inner_text()
    lies.first.click()
    assert page.locator("dialog .chip.wrong").count() == 1
    page.keyboard.press("Escape")
    page.locator('[data-chart="accuracy"] .dot').first.focus()
    page.keyboard.press("Enter")
    assert page.locator("dialog").is_visible()


def test_legend_hides_a_series(page: Any) -> None:
    page.locator('[data-chart="profiles"] .key', has_text="steady").click()
    hidden = page.locator('[data-chart="profiles"] .line.gone')
    assert hidden.count() == 1


def test_light_and_dark(page: Any) -> None:
    def background() -> str:
        colour: str = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return colour

    light = background()
    page.click("#theme")
    dark = background()
    assert light != dark
    page.click("#theme")
    assert background() == light
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_download(page: Any) -> None:
    with page.expect_download() as waiting:
        page.click("#get-csv")
    text = Path(waiting.value.path()).read_text()
    assert len(text.splitlines()) == 49
    assert text.startswith("solver,problem,")
    page.select_option("#by-solver", "optimist")
    page.fill("#search", "n=40")
    with page.expect_download() as waiting:
        page.click("#get-csv")
    lines = Path(waiting.value.path()).read_text().splitlines()
    assert lines[0] == text.splitlines()[0]
    kept = [line for line in text.splitlines() if line.startswith("optimist,") and "n=40" in line]
    assert len(kept) == 4
    assert sorted(lines[1:]) == sorted(kept)
    with page.expect_download() as waiting:
        page.click("#get-json")
    assert {cell["solver"] for cell in json.loads(Path(waiting.value.path()).read_text())} == {"optimist"}


def test_ranking_by_processor_time_on_request(page: Any) -> None:
    def means() -> list[str]:
        found: list[str] = page.locator("[data-ranking]:visible .ranks td:last-child").all_inner_texts()
        return found

    wall = means()
    page.click("text=by processor time")
    assert means() != wall
    assert "processor time" in page.inner_text("[data-ranking=processor]")
    page.click("text=by wall time")
    assert means() == wall


def test_the_table_of_cells_fits_a_usual_window(tmp_path: Path, browser: Any) -> None:
    """With long names, all columns, and every badge."""
    names = ("bisect-spectral-ipm[residual=1e-9]", "clarabel-direct-without-objective")
    problem = ProblemRow(
        **{**asdict(problem_row("planted", 40)), "label": "planted-mixed[feasible=false, n=1000, rows=2000]"}
    )
    records = [
        Record(outcome="done", verdict="infeasible", proof="rigorous", claimed="feasible", raw_status="x",
               solve_time=123.4, cpu_time=123.4, iterations=20_000, error=1.5e-12, peak_memory=2**33),
        Record(outcome="out of memory", solve_time=1234.5, claimed="infeasible", peak_memory=2**33),
    ]  # fmt: skip
    cells = [Cell(name, solver_row(name), problem, 123) for name in names]
    with Store(tmp_path / "wide.db") as store:
        plan: Any = Comparison(cells, Settings(time_limit=10))  # type: ignore[arg-type]
        store.begin_run(plan, "sdpfeas compare", {"versions": {}}, None)
        for each in records:
            key = store.take()
            assert key is not None
            store.finish(key, each)
        path = tmp_path / "report.html"
        path.write_text(render_html(store), encoding="utf-8")
    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    opened.goto(path.as_uri())
    widths = opened.evaluate(
        "(() => { const box = document.getElementById('cell-table').parentElement;"
        " return [box.scrollWidth, box.clientWidth]; })()"
    )
    opened.close()
    assert widths[0] <= widths[1]


def test_a_narrow_screen_does_not_scroll_sideways(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    time.sleep(0.1)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    beyond = """[...document.querySelectorAll('.card:not(.wide), .card .over')].filter((card) =>
        getComputedStyle(card).overflowX === 'visible' && card.scrollWidth > card.clientWidth).length"""
    assert page.evaluate(beyond) == 0
    page.locator("nav a", has_text="About").click()
    page.wait_for_function("scrollY > 1000")
    box = page.locator("nav").bounding_box()
    assert 0 <= box["y"] < 100
