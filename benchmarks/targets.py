"""Compare measured speed with the targets of the library."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from contestants import CONTESTANTS, PEERS
from results import Contest, Lines, Results, distance
from wlda_problems import BY_DIMENSION, PROFILED, WLDA, size_of, synthetic

from sdpfeas.study.stats import Fit, fit_power_law

__all__ = ["ONCE", "SIZES", "Finding", "Status", "evaluate", "file_ratio", "missed", "power_law", "slope"]

#: The numbers of the targets.
CLARABEL_RATIO, CLARABEL_FROM = 100.0, 80
SCS_RATIO, SCS_RATIO_SMALL, SCS_SMALL, SCS_ACCURACY = 20.0, 8.0, ("yale", "alphadigits"), 1e-4
AUTO_RATIO, BISECTION_RATIO = 1.2, 3.0
PAPER_RATIO, PAPER_FROM = 10.0, 50
EIGH_LIMIT, EIGH_AT = 250.0, (400,)
SLOPE_LIMIT, SLOPE_FROM = 3.1, 200
OVERHEAD_LIMIT = 0.3

#: Problem, tolerance, eigendecompositions at most, gigabytes at most.
SIZES = (
    (synthetic(100, 100), 1e-6, 1500.0, 1.0),
    (synthetic(100, 100, 20), 1e-6, 1500.0, 1.0),
    (synthetic(200, 100), 1e-6, 5000.0, 1.0),
    (synthetic(200, 100, 20), 1e-6, 5000.0, 1.0),
    (synthetic(10, 400), 1e-3, 60.0, 1.0),
    (synthetic(10, 1000), 1e-3, 35.0, 2.0),
    (synthetic(10, 1000), 1e-6, 80.0, 2.0),
    (synthetic(10, 2000), 1e-3, 35.0, 3.0),
    (synthetic(10, 2000), 1e-6, 80.0, 3.0),
    (synthetic(1000, 100), 1e-3, 600_000.0, 4.0),
    (synthetic(1000, 100, 20), 1e-3, 600_000.0, 4.0),
    (synthetic(10, 5000), 1e-3, 35.0, 6.0),
)

#: The same, for what takes an hour or more and is measured by itself (``cell.py``).
ONCE = ((synthetic(10, 10_000), 1e-3, 35.0, 12.0),)

#: Beside CSDP on SDPLIB: seconds that a shorter time counts as, and the ratios, on average and at most.
FILE_LEAST, FILE_MEAN, FILE_WORST = 0.05, 1.5, 10.0

SCS = ("scs-1e-4", "scs-1e-7")


class Status(StrEnum):
    """Whether a target is met."""

    MET = "met"
    MISSED = "**missed**"
    BEYOND = "beyond the cap"
    OPEN = "not measured"


@dataclass(frozen=True)
class Finding:
    """One target in one place.

    Attributes
    ----------
    target : str
        What is wanted.
    where : str
        On which problem.
    found : str
        What was measured.
    status : Status
        Whether that is enough.
    """

    target: str
    where: str
    found: str
    status: Status


def evaluate(results: Results, lines: Lines | None = None) -> list[Finding]:
    """Hold every target against what was measured.

    Parameters
    ----------
    results : Results
        The cells.
    lines : Lines, optional
        What was measured beside them.
    """
    return [
        *_certified(results),
        *_sizes(results),
        *_files(lines),
        *_auto(results),
        *_against_clarabel(results),
        *_against_scs(results),
        *_against_all(results),
        *_against_paper(results),
        *_in_eigendecompositions(results),
        *_slope(results),
        *_overhead(results),
    ]


def missed(results: Results) -> list[str]:
    """Targets about ours alone that are missed, in words.

    Parameters
    ----------
    results : Results
        The cells.
    """
    found = [*_certified(results), *_sizes(results), *_auto(results)]
    return [f"missed: {f.target}: {f.where}: {f.found}" for f in found if f.status is Status.MISSED]


def power_law(cells: list[Contest], size: str, least: int = 0) -> Fit | None:
    """A power law through the times of cells that finished; None with fewer than three sizes.

    Parameters
    ----------
    cells : list of Contest
        The cells.
    size : str
        The attribute that grows.
    least : int
        Leave out what is smaller.
    """
    used = [cell for cell in cells if cell.cpu is not None and getattr(cell, size) >= least]
    return fit_power_law([getattr(cell, size) for cell in used], [cell.cpu or 0.0 for cell in used])


def slope(cells: list[Contest], size: str, least: int = 0) -> float | None:
    """The exponent of :func:`power_law`.

    Parameters
    ----------
    cells, size, least
        As there.
    """
    fit = power_law(cells, size, least)
    return None if fit is None else fit.slope


def _judged(good: bool) -> Status:
    return Status.MET if good else Status.MISSED


def _times(ratio: float, bound: bool = False) -> str:
    digits = f"{ratio:.2f}" if ratio < 10.0 else f"{ratio:,.0f}"
    return f"{'> ' if bound else ''}{digits}×"


def _ratio(target: str, problem: str, slow: Contest | None, fast: Contest | None, wanted: float) -> Finding:
    """Ratio of two times; a time that reached its cap counts with the cap, so the ratio is a lower bound."""
    if slow is None or fast is None or slow.seconds is None:
        failed = slow is not None and slow.seconds is None
        return Finding(target, problem, f"failed: {slow.detail}" if slow and failed else "–", Status.OPEN)
    if fast.cpu is None:
        return Finding(target, problem, fast.detail, Status.MISSED)
    ratio = slow.seconds / fast.cpu
    status = Status.BEYOND if slow.capped and ratio < wanted else _judged(ratio >= wanted)
    return Finding(target, problem, _times(ratio, slow.capped), status)


def _certified(results: Results) -> Iterator[Finding]:
    for problem in WLDA:
        cell, target = results.find(problem, "ours"), "certified to 1e-6"
        if cell is None:
            yield Finding(target, problem, "–", Status.OPEN)
        elif cell.lower is None or cell.upper is None:
            yield Finding(target, problem, cell.detail or cell.note, Status.MISSED)
        else:
            width = (cell.upper - cell.lower) / abs(cell.upper)
            yield Finding(target, problem, f"width {width:.1e}", _judged(cell.proven and width <= 1e-6))


def _sizes(results: Results) -> Iterator[Finding]:
    for problem, tol, most, gigabytes in (*SIZES, *ONCE):
        accuracy = f"{tol:.0e}".replace("e-0", "e-")
        target = f"certified {accuracy} in ≤ {most:,.0f} eigendecompositions and {gigabytes:g} GB"
        cell = results.find(problem, "ours" if tol == 1e-6 else "ours-1e-3")
        count = None if cell is None else cell.eigh_equivalents
        if cell is None or count is None:
            found = Finding(target, problem, "–" if cell is None else cell.detail, Status.OPEN)
        else:
            bound = "> " if cell.capped else "" if cell.converged else "not closed: "
            good = cell.proven and cell.converged and count <= most
            good = good and cell.peak_memory <= gigabytes * 1e9
            words = f"{bound}{count:,.0f}, {cell.peak_memory / 1e9:.2f} GB"
            found = Finding(target, problem, words, _judged(good))
        yield found


def file_ratio(ours: float, theirs: float) -> float:
    """Of two times on a file, the first over the second; what is too short to matter counts as more.

    Parameters
    ----------
    ours, theirs : float
        Seconds.
    """
    return max(ours, FILE_LEAST) / max(theirs, FILE_LEAST)


def _files(lines: Lines | None) -> Iterator[Finding]:
    found = [] if lines is None else lines.about("sdplib")
    for side in ("primal", "lmi"):
        ratios = [file_ratio(line["auto"], line["csdp"]) for line in found if line["side"] == side]
        where, mean = f"SDPLIB, {side} sides", f"≤ {FILE_MEAN:g} × CSDP in the geometric mean"
        worst = f"≤ {FILE_WORST:g} × CSDP on every file"
        if not ratios:
            yield from (Finding(target, where, "–", Status.OPEN) for target in (mean, worst))
            continue
        value = math.exp(sum(map(math.log, ratios)) / len(ratios))
        yield Finding(mean, where, f"{value:.2f} ({len(ratios)} files)", _judged(value <= FILE_MEAN))
        yield Finding(worst, where, f"{max(ratios):.2f}", _judged(max(ratios) <= FILE_WORST))


def _auto(results: Results) -> Iterator[Finding]:
    for contestant, wanted in (("ours", AUTO_RATIO), ("bisect-spectral-ipm", BISECTION_RATIO)):
        target = f"{CONTESTANTS[contestant].title.strip('*')}: ≤ {wanted:g} × one shot, 1e-6"
        for problem in WLDA:
            cell, alone = results.find(problem, contestant), results.find(problem, "one-shot")
            if cell is None or cell.seconds is None or alone is None or alone.cpu is None:
                yield Finding(target, problem, "–", Status.OPEN)
            else:
                ratio = cell.seconds / alone.cpu
                yield Finding(target, problem, _times(ratio, cell.capped), _judged(ratio <= wanted))


def _against_clarabel(results: Results) -> Iterator[Finding]:
    target = f"≥ {CLARABEL_RATIO:g}× faster than Clarabel at d ≥ {CLARABEL_FROM}"
    for problem in WLDA:
        if size_of(problem).dimension >= CLARABEL_FROM:
            pair = results.find(problem, "clarabel"), results.find(problem, "ours")
            yield _ratio(target, problem, *pair, CLARABEL_RATIO)


def _against_scs(results: Results) -> Iterator[Finding]:
    for problem in WLDA:
        wanted = SCS_RATIO_SMALL if problem in SCS_SMALL else SCS_RATIO
        target = f"≥ {wanted:g}× faster than the fastest SCS run within {SCS_ACCURACY:g} of the truth"
        ours, truth = results.find(problem, "ours"), results.truth(problem)
        runs = [cell for name in SCS if (cell := results.find(problem, name)) is not None]
        if ours is None or not runs:
            yield Finding(target, problem, "–", Status.OPEN)
            continue
        valid = [cell for cell in runs if cell.capped or _accurate(cell, truth)]
        if valid:
            yield _ratio(target, problem, min(valid, key=lambda cell: cell.seconds or 0.0), ours, wanted)
        else:
            yield Finding(target, problem, "no SCS run is that accurate", Status.MET)


def _accurate(cell: Contest, truth: float | None) -> bool:
    off = distance(cell, truth)
    return off is not None and off <= SCS_ACCURACY


def _against_all(results: Results) -> Iterator[Finding]:
    target = "never slower than a peer"
    for problem in WLDA:
        found = [cell for name in PEERS if (cell := results.find(problem, name)) is not None]
        # Who gave up early was not faster.
        timed = [cell for cell in found if cell.capped or (cell.converged and cell.cpu is not None)]
        if not timed:
            yield Finding(target, problem, "–", Status.OPEN)
            continue
        fastest = min(timed, key=lambda cell: cell.seconds or 0.0)
        finding = _ratio(target, problem, fastest, results.find(problem, "ours"), 1.0)
        title = CONTESTANTS[fastest.contestant].title
        yield Finding(target, problem, f"{finding.found} ({title})", finding.status)


def _against_paper(results: Results) -> Iterator[Finding]:
    target = f"dual-lbfgs spectral, 1e-3: ≥ {PAPER_RATIO:g}× faster than the paper form at d ≥ {PAPER_FROM}"
    for problem in WLDA:
        if size_of(problem).dimension >= PAPER_FROM:
            pair = results.find(problem, "paper"), results.find(problem, "bisect-dual-lbfgs")
            yield _ratio(target, problem, *pair, PAPER_RATIO)


def _in_eigendecompositions(results: Results) -> Iterator[Finding]:
    target = f"certified 1e-6 in ≤ {EIGH_LIMIT:g} eigendecompositions"
    for problem in BY_DIMENSION:
        if size_of(problem).dimension in EIGH_AT:
            cell = results.find(problem, "ours")
            count = None if cell is None else cell.eigh_equivalents
            if count is None:
                yield Finding(target, problem, "–", Status.OPEN)
            else:
                yield Finding(target, problem, f"{count:.0f}", _judged(count <= EIGH_LIMIT))


def _slope(results: Results) -> Iterator[Finding]:
    target = f"slope in d ≤ {SLOPE_LIMIT:g}"
    cells = [cell for problem in BY_DIMENSION if (cell := results.find(problem, "ours")) is not None]
    found, where = slope(cells, "dimension", SLOPE_FROM), f"c = 10, d ≥ {SLOPE_FROM}"
    if found is None:
        yield Finding(target, where, "–", Status.OPEN)
    else:
        yield Finding(target, where, f"{found:.2f}", _judged(found <= SLOPE_LIMIT))


def _overhead(results: Results) -> Iterator[Finding]:
    target = f"dual-lbfgs outside eigendecompositions and products < {OVERHEAD_LIMIT:.0%} at d ≥ 100"
    for problem in PROFILED:
        cell = results.find(problem, "profile-bisect-dual-lbfgs")
        if cell is None or cell.outside is None:
            yield Finding(target, problem, "–", Status.OPEN)
        else:
            yield Finding(target, problem, f"{cell.outside:.0%}", _judged(cell.outside < OVERHEAD_LIMIT))
