"""A report in Markdown, for a README."""

from __future__ import annotations

from sdpfeas.study.report.model import MatrixCell, StudyData, format_time
from sdpfeas.study.store import Store

__all__ = ["render_markdown"]

WORDS = {
    "feasible": "feasible",
    "infeasible": "infeasible",
    "bracket": "bracket",
    "undecided": "undecided",
}


def render_markdown(store: Store) -> str:
    """The report as Markdown text.

    Parameters
    ----------
    store : Store
        The study.
    """
    data = StudyData(store)
    out = ["# Comparison of solvers", ""]
    out += [f"- {line}" for line in data.headlines()]
    out += ["", "## Ranking", ""]
    best = data.overall
    shift = format_time(data.shift)
    out.append(
        f"Shifted geometric means of solve times, shift {shift}; an undecided instance costs its time limit."
    )
    out += ["", "| solver | decided | mean | charged | fastest on |", "|---|--:|--:|--:|--:|"]
    for solver, solved, mean in best.ranking:
        out.append(
            f"| {solver} | {solved} of {best.instances} | {format_time(mean.value)} | {mean.charged} | "
            f"{data.profiles[solver].wins:.0%} |"
        )
    out += ["", "## Verdicts", "", "| problem | " + " | ".join(data.solvers) + " |"]
    out.append("|---|" + "---|" * len(data.solvers))
    for problem in data.problems:
        row = [_matrix_text(data.matrix[problem].get(solver)) for solver in data.solvers]
        out.append(f"| {problem.replace('|', '/')} | " + " | ".join(row) + " |")
    notes = []
    if data.lies:
        notes.append("‡ the raw status contradicts a proof")
    if any(cell["unproven"] for cell in data.cells):
        notes.append("† the raw status claims what could not be verified")
    if data.conflicts:
        notes.append("⚡ verified verdicts contradict each other")
    if notes:
        out += ["", "; ".join(notes) + "."]
    if data.scalings:
        out += [
            "",
            "## Scaling",
            "",
            "Exponent of the fitted power law, with its 95 % confidence interval.",
            "",
        ]
        for scaling in data.scalings:
            out += [f"| {scaling.name} | exponent |", "|---|---|"]
            for solver, fit in scaling.fits.items():
                out.append(f"| {solver} | {fit.slope:.2f} ({fit.slope_low:.2f} to {fit.slope_high:.2f}) |")
            out.append("")
    return "\n".join(out).rstrip() + "\n"


def _matrix_text(cell: MatrixCell | None) -> str:
    if cell is None:
        return ""
    parts = []
    for word, count in cell.verdicts.items():
        shown = WORDS.get(word, word)
        parts.append(
            shown if sum(cell.verdicts.values()) == 1 or len(cell.verdicts) == 1 else f"{shown} ×{count}"
        )
    marks = ("‡" if cell.lies else "") + ("†" if cell.unproven else "") + ("⚡" if cell.conflict else "")
    return f"{', '.join(parts)}{marks} {format_time(cell.time)}"
