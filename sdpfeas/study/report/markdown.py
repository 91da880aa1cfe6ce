"""The report on a study in Markdown, short enough for a README."""

from __future__ import annotations

from sdpfeas.escaping import in_markdown
from sdpfeas.io.tables import markdown_table
from sdpfeas.study.report.study_data import MatrixCell, StudyData, format_time, headlines
from sdpfeas.study.settings import Clock
from sdpfeas.study.store import Store

__all__ = ["render_markdown"]


def render_markdown(store: Store, clock: Clock = Clock.wall) -> str:
    """The report as Markdown text; ``clock`` is the time that counts."""
    data = StudyData(store, clock)
    out = ["# Comparison of solvers", ""]
    out += [f"- {line}" for line in headlines(data, lambda name: f"**{in_markdown(name)}**")]
    out += ["", "## Ranking", "", *_ranking(data), "", "## Verdicts", "", *_verdicts(data)]
    if data.scalings:
        lead = "Exponent of the fitted power law, with its 95 % confidence interval."
        out += ["", "## Scaling", "", lead]
    for scaling in data.scalings:
        rows = [
            [in_markdown(solver), f"{fit.slope:.2f} ({fit.slope_low:.2f} to {fit.slope_high:.2f})"]
            for solver, fit in scaling.fits.items()
        ]
        out += ["", *markdown_table([in_markdown(scaling.name), "exponent"], rows)]
    return "\n".join(out) + "\n"


def _ranking(data: StudyData) -> list[str]:
    best = data.overall
    shift = format_time(data.shift)
    lead = (
        f"Shifted geometric means of {data.time_word}s, shift {shift}; an undecided instance costs its time "
        "limit."
    )
    rows = [
        [
            in_markdown(solver),
            f"{solved} of {best.instances}",
            format_time(mean.value),
            str(mean.charged),
            f"{data.profiles[solver].wins:.0%}",
        ]
        for solver, solved, mean in best.ranking
    ]
    return [lead, "", *markdown_table(["solver", "decided", "mean", "charged", "fastest on"], rows)]


def _verdicts(data: StudyData) -> list[str]:
    rows = [
        [in_markdown(problem), *(_matrix_text(data.matrix[problem].get(solver)) for solver in data.solvers)]
        for problem in data.problems
    ]
    table = markdown_table(["problem", *map(in_markdown, data.solvers)], rows, numbers=False)
    notes = []
    if data.unasked_instances:
        notes.append("∅ no solver asked: the family's own bounds closed the bracket")
    if data.lies:
        notes.append("‡ the raw status contradicts a proof")
    if any(cell["unproven"] for cell in data.cells):
        notes.append("† the raw status claims what could not be verified")
    if data.conflicts:
        notes.append("⚡ verified verdicts contradict each other")
    return [*table, "", "; ".join(notes) + "."] if notes else table


def _matrix_text(cell: MatrixCell | None) -> str:
    if cell is None:
        return ""
    several = len(cell.verdicts) > 1
    parts = [in_markdown(word) + f" ×{count}" * several for word, count in cell.verdicts.items()]
    told = {"∅": cell.unasked, "‡": cell.lies, "†": cell.unproven, "⚡": cell.conflict}
    marks = "".join(mark for mark, holds in told.items() if holds)
    return f"{', '.join(parts)}{marks} {format_time(cell.time)}"
