"""The targets of the fast path, held against the measured cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from contestants import CONTESTANTS, PEERS
from results import Contest, Results, distance
from wlda_problems import BY_DIMENSION, PROFILED, WLDA, size_of

from sdpfeas.study.stats import fit_power_law

__all__ = ["Finding", "Status", "evaluate", "slope"]

#: The numbers of the targets.
CLARABEL_RATIO, CLARABEL_FROM = 100.0, 80
SCS_RATIO, SCS_ACCURACY = 20.0, 1e-4
PAPER_RATIO, PAPER_FROM = 10.0, 50
EIGH_LIMIT, EIGH_AT = 250.0, (400, 1000, 2000)
SLOPE_LIMIT, SLOPE_FROM = 3.1, 200
MEMORY_LIMIT, MEMORY_AT = 3e9, 2000
OVERHEAD_LIMIT = 0.3

SCS = ("scs-1e-4", "scs-1e-7")


class Status(StrEnum):
    """Whether a target is met."""

    MET = "met"
    MISSED = "**missed**"
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


def evaluate(results: Results) -> list[Finding]:
    """Hold every target against the cells.

    Parameters
    ----------
    results : Results
        The cells.
    """
    return [
        *_certified(results),
        *_against_clarabel(results),
        *_against_scs(results),
        *_against_all(results),
        *_against_paper(results),
        *_in_eigendecompositions(results),
        *_slope(results),
        *_memory(results),
        *_overhead(results),
    ]


def slope(cells: list[Contest], size: str, least: int = 0) -> float | None:
    """Exponent of a power law through the times of cells that finished; None with fewer than three.

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
    fit = fit_power_law([getattr(cell, size) for cell in used], [cell.cpu or 0.0 for cell in used])
    return None if fit is None else fit.slope


def _judged(good: bool) -> Status:
    return Status.MET if good else Status.MISSED


def _times(ratio: float, bound: bool = False) -> str:
    digits = f"{ratio:.2f}" if ratio < 10.0 else f"{ratio:,.0f}"
    return f"{'> ' if bound else ''}{digits}×"


def _ratio(target: str, problem: str, slow: Contest | None, fast: Contest | None, wanted: float) -> Finding:
    """How many times longer the one takes than the other; a cap is charged, and is a lower bound."""
    if slow is None or fast is None or slow.seconds is None:
        failed = slow is not None and slow.seconds is None
        return Finding(target, problem, f"failed: {slow.detail}" if slow and failed else "–", Status.OPEN)
    if fast.cpu is None:
        return Finding(target, problem, fast.detail, Status.MISSED)
    ratio = slow.seconds / fast.cpu
    return Finding(target, problem, _times(ratio, slow.capped), _judged(ratio >= wanted))


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


def _against_clarabel(results: Results) -> Iterator[Finding]:
    target = f"≥ {CLARABEL_RATIO:g}× faster than Clarabel at d ≥ {CLARABEL_FROM}"
    for problem in WLDA:
        if size_of(problem).dimension >= CLARABEL_FROM:
            pair = results.find(problem, "clarabel"), results.find(problem, "ours")
            yield _ratio(target, problem, *pair, CLARABEL_RATIO)


def _against_scs(results: Results) -> Iterator[Finding]:
    target = f"≥ {SCS_RATIO:g}× faster than the fastest SCS run within {SCS_ACCURACY:g} of the truth"
    for problem in WLDA:
        ours, truth = results.find(problem, "ours"), results.truth(problem)
        runs = [cell for name in SCS if (cell := results.find(problem, name)) is not None]
        if ours is None or not runs:
            yield Finding(target, problem, "–", Status.OPEN)
            continue
        valid = [cell for cell in runs if cell.capped or _accurate(cell, truth)]
        if valid:
            yield _ratio(target, problem, min(valid, key=lambda cell: cell.seconds or 0.0), ours, SCS_RATIO)
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


def _memory(results: Results) -> Iterator[Finding]:
    target = f"d = {MEMORY_AT:,} in {MEMORY_LIMIT / 1e9:g} GB"
    for problem in BY_DIMENSION:
        if size_of(problem).dimension == MEMORY_AT:
            cell = results.find(problem, "ours")
            if cell is None:
                yield Finding(target, problem, "–", Status.OPEN)
            else:
                good = cell.cpu is not None and cell.peak_memory <= MEMORY_LIMIT
                yield Finding(target, problem, f"{cell.peak_memory / 1e9:.2f} GB", _judged(good))


def _overhead(results: Results) -> Iterator[Finding]:
    target = f"dual-lbfgs outside eigendecompositions and products < {OVERHEAD_LIMIT:.0%} at d ≥ 100"
    for problem in PROFILED:
        cell = results.find(problem, "profile-bisect-dual-lbfgs")
        if cell is None or cell.outside is None:
            yield Finding(target, problem, "–", Status.OPEN)
        else:
            yield Finding(target, problem, f"{cell.outside:.0%}", _judged(cell.outside < OVERHEAD_LIMIT))
