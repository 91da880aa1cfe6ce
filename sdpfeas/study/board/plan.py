"""The fixed plan of the board: every solver that can be had, on every public problem that is here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sdpfeas.errors import OptionError
from sdpfeas.study.board.catalogue import FOLDER, Held, State, data_folder, look
from sdpfeas.study.board.problems import board_problems, write_cards
from sdpfeas.study.plan import Comparison, make_plan
from sdpfeas.study.settings import Settings

__all__ = ["CARDS", "SOLVERS", "missing_data", "plan_board"]

#: Ours, and whatever else can be had, each asked once and for any point.
SOLVERS = ("auto", "spectral-ipm", "clarabel-plain", "scs-plain", "cvxopt", "csdp", "sdpa", "dsdp")

#: Folder of a board with the cards of its problems.
CARDS = "cards"


def plan_board(
    folder: Path,
    settings: Settings,
    *,
    solvers: Sequence[str] | None = None,
    sets: Sequence[str] | None = None,
    quick: bool = False,
) -> Comparison:
    """Write the cards of the problems that can be asked here, and list the cells.

    Parameters
    ----------
    folder : Path
        The folder of the board.
    settings : Settings
        What cells run under; only rigorous verdicts count on a board.
    solvers : sequence of str, optional
        Names and paths; default: :data:`SOLVERS`. Those not installed are skipped with the reason.
    sets : sequence of str, optional
        Sets of problems; default: all.
    quick : bool
        A few small problems.

    Raises
    ------
    OptionError
        If nothing is left to ask.
    """
    if not settings.rigorous:
        raise OptionError("a board counts rigorous verdicts only")
    problems = board_problems(look(data_folder()), sets, quick=quick)
    if not problems:
        raise OptionError(f"none of these problems is here; sdpfeas data says what {FOLDER} lacks")
    cards = write_cards(problems, folder / CARDS)
    return make_plan(solvers or SOLVERS, [str(card) for card in cards], 1, settings)


def missing_data() -> list[Held]:
    """Public files that are not here as they are known."""
    return [entry for entry in look(data_folder()) if entry.state is not State.right]
