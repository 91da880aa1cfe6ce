"""The charts of a report."""

from __future__ import annotations

from sdpfeas.study.report.model import Scaling, StudyData
from sdpfeas.study.report.svg import Axis, Chart
from sdpfeas.study.report.words import format_time

__all__ = ["accuracy_chart", "profile_chart", "scaling_chart"]

#: Errors below this are rounding, or exactly zero; they are drawn at this level.
ERROR_FLOOR = 1e-17

#: Ratios beyond this say no more than "much slower".
RATIO_LIMIT = 1e4


def profile_chart(data: StudyData) -> str:
    """Performance profiles of all solvers."""
    worst = max((p.ratios[-1] for p in data.profiles.values()), default=1.0)
    end = min(max(worst * 1.15, 2.0), RATIO_LIMIT)
    x = Axis(1.0, end, "within this factor of the fastest time", log=True)
    chart = Chart(x, Axis(0.0, 1.04, "share of instances decided", percent=True), "Performance profiles")
    for index, solver in enumerate(data.solvers):
        profile = data.profiles[solver]
        points = [(r, s) for r, s in zip(profile.ratios, profile.shares, strict=True) if r <= end]
        points.append((end, points[-1][1]))
        chart.line(points, index, solver, step=True)
    return chart.render()


def scaling_chart(data: StudyData, scaling: Scaling) -> str:
    """Time against size with fitted slopes and their confidence bands."""
    sizes = [n for row in scaling.points.values() for n, _ in row]
    times = [t for row in scaling.points.values() for _, t in row]
    chart = Chart(
        Axis.around(sizes, "largest block", log=True),
        Axis.around(times, data.time_label, log=True),
        f"Time against size on {scaling.name}",
    )
    order = {solver: index for index, solver in enumerate(data.solvers)}
    for solver, fit in scaling.bands.items():
        chart.band(fit.sizes, fit.low, fit.high, order[solver], solver)
    for solver, fit in scaling.fits.items():
        chart.line(list(zip(fit.sizes, fit.times, strict=True)), order[solver], solver)
    for solver, row in scaling.points.items():
        dots = [(n, t, f"{solver}: size {n:g}, {format_time(t)}", "") for n, t in row]
        chart.dots(dots, order[solver], solver)
    return chart.render()


def accuracy_chart(data: StudyData) -> str:
    """Error of the evidence against time."""
    rows = data.accuracy
    times = [max(t, 1e-6) for row in rows.values() for t, _, _ in row]
    errors = [max(e, ERROR_FLOOR) for row in rows.values() for _, e, _ in row]
    chart = Chart(
        Axis.around(times, data.time_label, log=True),
        Axis.around([*errors, ERROR_FLOOR, 1e-6], "relative error of the evidence", log=True),
        "Accuracy against time",
    )
    order = {solver: index for index, solver in enumerate(data.solvers)}
    names = {cell["key"]: cell["problem"] for cell in data.cells}
    for solver, row in rows.items():
        dots = [
            (
                max(t, 1e-6),
                max(e, ERROR_FLOOR),
                f"{solver} on {names[key]}: error {e:.2g}, {format_time(t)}",
                key,
            )
            for t, e, key in row
        ]
        chart.dots(dots, order[solver], solver)
    return chart.render()
