"""What a report says in sentences, and how it writes times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from sdpfeas.study.report.model import Group, StudyData
from sdpfeas.study.settings import Clock

__all__ = ["format_time", "headlines"]

#: Times closer than this factor are called equal in words.
TIE = 1.1

#: Up to so many cards, the summary names each winner.
SPELLED_OUT = 6

#: Processor time below this share of the wall time is spoken of, where the wait is longer than these seconds.
WAITING, LEAST_WAIT = 0.5, 0.05


def headlines(data: StudyData, show: Callable[[str], str] = str) -> list[str]:
    """The summary in sentences: who wins where, by how much, and what to beware of.

    Parameters
    ----------
    data : StudyData
        The study.
    show : callable
        Makes of a name what stands for it in the medium of the report.
    """
    out = []
    best = data.overall
    if best.ranking and best.ranking[0][1]:
        name, solved, mean = best.ranking[0]
        many = f"{solved} of" if mean.charged else "all"
        text = f"{show(name)} decides {many} {best.instances} instances"
        if len(best.ranking) > 1:
            other, others, slower = best.ranking[1]
            means = f"mean {format_time(mean.value)} against {format_time(slower.value)}"
            ahead = f", ahead of {show(other)} with {others} ({means})"
            even = f", and so does {show(other)}; {_compared(best, show)}"
            text += even if others == solved else ahead
        out.append(text + ".")
        wins = max(data.profiles.items(), key=lambda item: item[1].wins)
        out.append(
            f"{show(wins[0])} is fastest most often: on {wins[1].wins:.0%} of the instances "
            f"(times below a millisecond count as equal)."
        )
    elif not any(cell["decided"] for cell in data.cells):
        out.append("No instance was decided by any solver.")
    out += _winners(data, show)
    if data.foregone:
        many = _count(len(data.foregone), "instance")
        out.append(f"On {many} the bracket closed before any solver was asked; nobody wins there.")
    out.append(_warning(data, show))
    out += _waits(data, show)
    if data.missing:
        out.append(f"{data.missing} cells are not computed yet: this is a report on an unfinished study.")
    return out


def _winners(data: StudyData, show: Callable[[str], str]) -> list[str]:
    won = [group for group in data.groups if group.ranking[0][1]]
    if len(data.groups) < 2:
        return []
    if len(won) <= SPELLED_OUT:
        return [
            f"On {show(group.name)} the winner is {show(group.ranking[0][0])}: {_compared(group, show)}."
            for group in won
        ]
    tally = Counter(group.ranking[0][0] for group in won)
    parts = ", ".join(f"{show(name)} on {count}" for name, count in tally.most_common())
    return [f"Of {len(data.groups)} problem cards, the winner is {parts}."]


def _waits(data: StudyData, show: Callable[[str], str]) -> list[str]:
    """A warning where processors were waited for, or worked elsewhere."""
    spans = [(c, c["solve_time"], c["cpu_time"]) for c in data.cells if c["cpu_time"] is not None]
    found = [each for each in spans if each[2] < WAITING * each[1] and each[1] - each[2] > LEAST_WAIT]
    if not found:
        return []
    cell, wall, processor = max(found, key=lambda each: each[1] - each[2])
    advice = "" if data.clock is Clock.processor else "; rank by processor time before you compare"
    text = (
        f"On {_count(len(found), 'cell')} processor time is far below wall time (at worst "
        f"{format_time(processor)} of {format_time(wall)}, {show(cell['solver'])} on "
        f"{show(cell['problem'])}): the machine was busy, or other processes did the work{advice}."
    )
    return [text]


def _warning(data: StudyData, show: Callable[[str], str]) -> str:
    parts = []
    if data.conflicts:
        parts.append(f"on {_count(len(data.conflicts), 'instance')} verified verdicts contradict each other")
    if data.lies:
        liars = ", ".join(show(name) for name in dict.fromkeys(c["solver"] for c in data.lies))
        says = "raw status contradicts" if len(data.lies) == 1 else "raw statuses contradict"
        parts.append(f"{len(data.lies)} {says} a proof ({liars})")
    unproven = sum(cell["unproven"] for cell in data.cells)
    if unproven:
        parts.append(f"{_count(unproven, 'claim')} could not be verified and count as undecided")
    failed = sum(cell["failed"] for cell in data.cells)
    if failed:
        parts.append(f"{_count(failed, 'cell')} failed (limits, crashes, errors)")
    if not parts:
        return "No verdict contradicts another, no raw status contradicts a proof, and nothing failed."
    text = "; ".join(parts) + "."
    return text[0].upper() + text[1:]


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _compared(group: Group, show: Callable[[str], str]) -> str:
    _, solved, mean = group.ranking[0]
    lead = group.lead
    base = f"mean {format_time(mean.value)}"
    if solved < group.instances:
        base = f"{solved} of {group.instances} decided, {base}"
    if lead is None:
        others = group.ranking[1:]
        return f"{base}; the next decides {others[0][1]}" if others else base
    rival = next(row for row in group.ranking[1:] if row[1] == solved)
    if lead < TIE:
        return f"{base}, on a par with {show(rival[0])}"
    return (
        f"{base}, {lead:.2g} × faster than {show(rival[0])}"
        if lead < 100
        else (f"{base}, {lead:.0f} × faster than {show(rival[0])}")
    )


def format_time(seconds: float | None) -> str:
    """Seconds for people."""
    if seconds is None or seconds != seconds:
        return "–"
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:.0f} s"
