"""The problems and solvers of a board: one card per problem, from public files and from families.

:func:`plan_board` writes the cards and returns the plan of the study.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from sdpfeas.cards.finder import is_path
from sdpfeas.errors import OptionError
from sdpfeas.files import writing
from sdpfeas.study.board.data_sets import FOLDER, PROBLEM_SETS, Held, State, data_folder, look
from sdpfeas.study.cells import Settings
from sdpfeas.study.comparison import Comparison
from sdpfeas.study.study_file import read_study

__all__ = ["CARDS", "BoardProblem", "board_problems", "plan_board", "set_of", "slug"]

#: Our solvers and all others with a card or a drop-in file, each called once and for any feasible point.
SOLVERS = ("auto", "spectral-ipm", "clarabel-plain", "scs-plain", "cvxopt", "csdp", "sdpa", "dsdp")

#: Folder of the problem cards, and the study file, below the folder of the board.
CARDS, STUDY = "cards", "study.toml"

#: File and largest feasible level of each data set for WLDA, to the digits that its card gives.
WLDA_LEVELS = {
    "sonar": ("sonar.data", 6.5862564),
    "ionosphere": ("ionosphere.data", 4.0674007),
    "balance": ("balance-scale.data", 0.5571432),
    "heart": ("reprocessed.hungarian.data", 0.3772826),
    "waveform": ("waveform-+noise.data", 2.4497790),
}

#: Published optima of fair PCA on the credit data, by groups and dimension.
CREDIT_LEVELS = {
    ("k3", 1): 5.200714112854423,
    ("k3", 7): 14.728309043666705,
    ("k6", 1): 4.867568940970523,
    ("k6", 5): 12.711458207831864,
}

#: A feasible level and an infeasible one, relative to the optimum.
BESIDE = {"below": 0.99, "above": 1.01}

#: Side and rows of the generated problems with a planted answer; the quick board has the smallest.
SIZES = ((6, 8), (15, 20), (40, 40))

#: Files of the quick board.
QUICK = re.compile(r"(truss1|infd1|infp1|hinf1)\.dat-s|.*_10_10_1\.mat")


#: A problem of the board: its label, ``set/name``, and the text of its card.
BoardProblem = tuple[str, str]


def set_of(label: str) -> str:
    """The set that a problem belongs to, by its label."""
    return label.partition("/")[0]


def slug(label: str) -> str:
    """A file name for a problem or a solver."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-.") or "unnamed"


def board_problems(
    held: Sequence[Held], sets: Sequence[str] | None = None, *, quick: bool = False
) -> list[BoardProblem]:
    """The problems whose files are there with their known content, and the generated ones.

    ``sets`` selects problem sets (default: all), ``quick`` a few small problems. Raises :class:`OptionError`
    for an unknown set.
    """
    for name in sets or ():
        if name not in PROBLEM_SETS:
            raise OptionError(f"the board has no set {name!r}; it has {', '.join(PROBLEM_SETS)}")
    right = [(entry.set.folder, entry.name) for entry in held if entry.state is State.right]
    makers = {
        "generated": _generated(quick),
        "liu-pataki": _from_files(right, "liu-pataki", ("primal",), quick),
        "wlda": _wlda(right, quick),
        "fairpca": _credit(right, quick),
        "dimacs": _from_files(right, "dimacs", ("primal", "lmi"), quick),
        "sdplib": _from_files(right, "sdplib", ("primal", "lmi"), quick),
    }
    return [problem for name in sets or PROBLEM_SETS for problem in makers[name]]


def plan_board(
    folder: Path,
    settings: Settings,
    *,
    solvers: Sequence[str] | None = None,
    sets: Sequence[str] | None = None,
    quick: bool = False,
) -> Comparison:
    """Write the problem cards and the study file of the board into its folder, and plan the study.

    ``solvers`` are names and paths (default: :data:`SOLVERS`); those not installed are skipped with the
    reason. Raises :class:`OptionError` if no problem is left, or if verdicts would not be rigorous.
    """
    if not settings.rigorous:
        raise OptionError("a board counts rigorous verdicts only")
    problems = board_problems(look(data_folder()), sets, quick=quick)
    if not problems:
        raise OptionError(
            f"none of these problems is available; the command data lists the files missing in {FOLDER}"
        )
    cards = folder / CARDS
    cards.mkdir(parents=True, exist_ok=True)
    paths = [cards / f"{slug(label)}.toml" for label, _ in problems]
    for path, (_, card) in zip(paths, problems, strict=True):
        with writing(path):
            path.write_text(card, encoding="utf-8")
    study = folder / STUDY
    with writing(study):
        study.write_text(_study_file(list(solvers or SOLVERS), paths, settings), encoding="utf-8")
    return replace(read_study(study), solvers=tuple(solvers or SOLVERS)).plan()


def _study_file(solvers: list[str], cards: list[Path], settings: Settings) -> str:
    """The study file of a board."""
    return _toml(
        solvers=[str(Path(name).absolute()) if is_path(name, (".toml", ".py")) else name for name in solvers],
        problems=[f"{CARDS}/{card.name}" for card in cards],
        time_limit=settings.time_limit,
        memory_limit=str(settings.memory_limit),
        rigorous=settings.rigorous,
        keep_evidence=True,
    )


def _toml(**values: Any) -> str:
    """Write keys and values as TOML, tables last; strings, numbers and lists of JSON are valid TOML."""
    tables = {key: table for key, table in values.items() if isinstance(table, dict)}
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in values.items() if key not in tables]
    return "".join([*lines, *(f"[{key}]\n{_toml(**table)}" for key, table in tables.items())])


def _from_files(
    right: Sequence[tuple[str, str]], folder: str, sides: Sequence[str], quick: bool
) -> Iterator[BoardProblem]:
    for name in (name for place, name in right if place == folder):
        if quick and not QUICK.fullmatch(name):
            continue
        stem = re.sub(r"\.(dat-s|mat)(\.gz)?$", "", name)
        for side in sides:
            label = f"{folder}/{stem}" + (f"-{side}" if len(sides) > 1 else "")
            more: dict[str, Any] = {}
            if folder == "liu-pataki":
                # Thirds by construction, but some right-hand sides were computed in floating point.
                more = {"description": "right-hand sides rounded to thirds", "bounds_denominator": 3}
            yield label, _toml(name=label, file=f"{folder}/{name}", side=side, **more)


def _beside(prefix: str, level: float, **card: Any) -> Iterator[BoardProblem]:
    """A problem just below the optimum, and one above."""
    for where, factor in BESIDE.items():
        label, about = f"{prefix}-{where}", f"{where} the optimum {level:g}"
        yield label, _toml(name=label, description=about, delta=factor * level, **card)


def _wlda(right: Sequence[tuple[str, str]], quick: bool) -> Iterator[BoardProblem]:
    for dataset, (file, level) in WLDA_LEVELS.items():
        if not quick and ("wlda", file) in right:
            yield from _beside(f"wlda/{dataset}", level, family="wlda", data={"dataset": dataset})


def _credit(right: Sequence[tuple[str, str]], quick: bool) -> Iterator[BoardProblem]:
    for (groups, r), level in CREDIT_LEVELS.items():
        if not quick and ("fairpca", "credit.npz") in right:
            options = {"groups": groups, "r": r}
            yield from _beside(f"fairpca/{groups}-d{r}", level, family="credit", options=options)


def _generated(quick: bool) -> Iterator[BoardProblem]:
    seeds = range(1 if quick else 2)
    for (n, rows), seed, feasible in product(SIZES[:1] if quick else SIZES, seeds, (True, False)):
        label = f"generated/mixed-n{n}-{'feasible' if feasible else 'infeasible'}-{seed}"
        options = {"n": n, "rows": rows, "feasible": feasible, "seed": seed}
        yield label, _toml(name=label, family="planted", options=options)
    disguises = (False,) if quick else (False, True)
    for truth, disguised, seed in product(("weak", "face", "strong"), disguises, seeds):
        label = f"generated/faces-{truth}{'-disguised' * disguised}-{seed}"
        options = {"truth": truth, "length": 2, "n": 8, "rows": 8, "disguised": disguised, "seed": seed}
        yield label, _toml(name=label, family="planted-faces", options=options)
