"""A chain told step by step, in words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sdpfeas.errors import LimitError
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.rows_only import slack_rows
from sdpfeas.verifier.chains.chain import Chain
from sdpfeas.verifier.chains.replay import Refused, Step, walk

__all__ = ["tell"]

#: How many names of rows or entries are listed.
LISTED = 4


def tell(problem: FeasibilityProblem, chain: Chain) -> list[str]:
    """Say what every step of a chain shows; nothing if it proves nothing.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    chain : Chain
        A chain that was proved.
    """
    try:
        steps = walk(problem, chain).steps
    except (Refused, LimitError):
        return []
    return [f"step {k}: {_told(problem, step)}" for k, step in enumerate(steps, 1)]


def _told(problem: FeasibilityProblem, step: Step) -> str:
    used = [int(i) for i in np.flatnonzero(step.weights != 0)]
    rows, one = _rows(problem, used)
    if step.gap > 0:
        if not any(image.any() for image in step.before.images(step.weights)):
            read = "reads" if one else "add up to"
            value = step.before.lower[used[0]] if step.weights[used[0]] > 0 else step.before.upper[used[0]]
            if len(used) > 1 or value is None:
                return f"on what is left {rows} {read} 0 = {step.gap}"
            return f"on what is left {rows} {read} 0 = {value / step.before.rows.scales[used[0]]}"
        return f"on what is left {rows} rule{'s' * one} out every point"
    shown = [text for b in range(len(step.before.bases)) if (text := _shrunk(problem, step, b))]
    if not shown:
        return f"{rows} hold{'s' * one} with equality"
    return f"{rows} force{'s' * one} " + "; ".join(shown)


def _shrunk(problem: FeasibilityProblem, step: Step, b: int) -> str:
    """What a step says about one block; nothing if it stays as it was."""
    before, after = step.before.bases[b], step.after.bases[b]
    if before is None or after is None or before.shape == after.shape:
        return ""
    own = b < len(problem.sets)
    if own:
        name = "X" if len(problem.sets) == 1 else f"block {problem.block_name(b)}"
    else:
        name = f"the value of LMI {problem.lmi_name(b - len(problem.sets))}"
    if own and problem.sets[b].shadow_of is not None and after.ndim == 2 and after.shape[1]:
        return f"{name} into a smaller face of its cone"
    if before.ndim == 1:
        gone = sorted(set(before.tolist()) - set(after.tolist()))
        return _listed([f"{name}[{i}]" for i in gone]) + " = 0"
    if not after.shape[1]:
        return f"{name} = 0"
    gone = np.flatnonzero(np.any(before != 0, axis=1) & ~np.any(after != 0, axis=1)).tolist()
    if len(gone) == before.shape[1] - after.shape[1]:
        lines = "its row and column" if len(gone) == 1 else "their rows and columns"
        return _listed([f"{name}[{i},{i}]" for i in gone]) + f" = 0, hence {lines}"
    return f"{name} into a face of side {after.shape[1]} (it was {before.shape[1]})"


def _rows(problem: FeasibilityProblem, used: Sequence[int]) -> tuple[str, bool]:
    """The rows and LMIs that take part, and whether that is one."""
    own = [problem.row_name(i) for i in used if i < problem.m]
    sources = slack_rows(problem)
    names = [problem.lmi_name(j) for j in sorted({sources[i - problem.m] for i in used if i >= problem.m})]
    rows = f"row{'s' * (len(own) > 1)} {_listed(own)}" if own else ""
    lmis = f"LMI{'s' * (len(names) > 1)} {_listed(names)}" if names else ""
    return " and ".join(filter(None, [rows, lmis])), len(own) + len(names) == 1


def _listed(names: Sequence[str]) -> str:
    if len(names) > LISTED:
        return ", ".join(names[:LISTED]) + f" and {len(names) - LISTED} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
