"""Verdicts in one line, and as a card in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from sdpfeas.notebook.card import Card
from sdpfeas.notebook.pictures import bars, spectrum

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem, Point
    from sdpfeas.verifier.results import Check

__all__ = ["headline", "labelled", "lmi_depth", "verdict_card"]

#: Conflicts, blocks and the sides of matrices that a picture shows at most.
SHOWN_CONFLICTS = 8
SHOWN_BLOCKS = 6
SHOWN_SIDE = 300


def headline(check: Check) -> str:
    """Verdict, proof and margin; the reason where nothing is proved."""
    if check.proof is None:
        return f"{labelled(check)}: {check.reason}"
    return labelled(check, margin="" if check.margin is None else f", margin {check.margin:.3g}")


def labelled(check: Check, margin: str = "") -> str:
    """Verdict with its proof, and the numbers it is about where these are not the stored ones."""
    parts = [f"{check.proof} proof{margin}"] if check.proof else []
    parts += [] if check.reading == "stored" else [f"numbers as {check.reading}"]
    return check.verdict.upper() + (f" ({', '.join(parts)})" if parts else "")


def lmi_depth(problem: FeasibilityProblem, j: int, point: Point) -> str:
    """How deep the value of an LMI lies in its set."""
    lmi = problem.lmis[j]
    depth = lmi.set.depth(lmi.value(point))
    return f"  LMI {problem.lmi_name(j)}: least eigenvalue {depth:.3g} inside {lmi.set.described()}"


def verdict_card(check: Check, reason: str = "", facts: Sequence[tuple[str, str]] = ()) -> Card:
    """A verdict with its proof and margin; with a picture of the point, or of the conflict."""
    every = [("proof", str(check.proof or "none"))]
    if check.reading != "stored":
        every.append(("numbers", f"as {check.reading}"))
    if check.margin is not None:
        every.append(("margin", f"{check.margin:.3g}, relative to the size of the data"))
    if check.repairs:
        every.append(("repaired", "; ".join(check.repairs)))
    title = f"{len(check.problem.sets)} block(s), {check.problem.m} row(s)"
    note = reason or check.reason
    return Card(
        check.verdict.upper(), str(check.verdict), title, [*every, *facts], picture=_picture(check), note=note
    )


def _picture(check: Check) -> str:
    found = check.conflict(sets=True)
    if found:
        return bars([(each.name, each.weight) for each in found[:SHOWN_CONFLICTS]])
    if check.point is None:
        return ""
    shown: list[tuple[str, list[float]]] = []
    problem = check.problem
    for b, (block, part) in enumerate(zip(problem.sets, check.point, strict=True)):
        if len(shown) < SHOWN_BLOCKS and block.n <= SHOWN_SIDE and not block.free and np.isfinite(part).all():
            with suppress(np.linalg.LinAlgError):
                shown.append((problem.block_name(b), [float(v) for v in block.spectrum(part)]))
    return spectrum(shown)
