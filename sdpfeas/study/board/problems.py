"""What the board asks: one card a problem, from the public files that are here and from families."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sdpfeas.errors import OptionError
from sdpfeas.files import writing
from sdpfeas.study.board.catalogue import Held, State

__all__ = ["SETS", "BoardProblem", "board_problems", "set_of", "slug", "write_cards"]

#: Sets of the board: those of files, by their folders, and what is generated with a planted answer.
SETS = {
    "generated": "generated",
    "liu-pataki": "Liu–Pataki",
    "wlda": "WLDA",
    "fairpca": "fair PCA",
    "dimacs": "DIMACS",
    "sdplib": "SDPLIB",
}

#: The largest levels at which the problem of a data set is feasible, to the digits that its card gives.
WLDA_LEVELS = {
    "sonar": ("sonar.data", 6.5862564),
    "ionosphere": ("ionosphere.data", 4.0674007),
    "balance": ("balance-scale.data", 0.5571432),
    "heart": ("reprocessed.hungarian.data", 0.3772826),
    "waveform": ("waveform-+noise.data", 2.4497790),
}

#: Published optima of fair PCA of the credit data, by groups and dimension.
CREDIT_LEVELS = {
    ("k3", 1): 5.200714112854423,
    ("k3", 7): 14.728309043666705,
    ("k6", 1): 4.867568940970523,
    ("k6", 5): 12.711458207831864,
}

#: A level below and a level above an optimum, relative to it: feasible, and not.
BESIDE = {"below": 0.99, "above": 1.01}

#: Files that the quick board takes.
QUICK = re.compile(r"(truss1|infd1|infp1|hinf1)\.dat-s|.*_10_10_1\.mat")


@dataclass(frozen=True)
class BoardProblem:
    """A problem of the board.

    Attributes
    ----------
    label : str
        Its set and its name, with a slash between.
    card : str
        The text of its card.
    """

    label: str
    card: str


def set_of(label: str) -> str:
    """The set that a problem belongs to, by its label."""
    return label.partition("/")[0]


def slug(label: str) -> str:
    """What files about a problem or a solver are called."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", label).strip("-.") or "unnamed"


def board_problems(
    held: Sequence[Held], sets: Sequence[str] | None = None, *, quick: bool = False
) -> list[BoardProblem]:
    """The problems that can be asked here.

    Parameters
    ----------
    held : sequence of Held
        What is known of public files; those that are here, as known, are taken.
    sets : sequence of str, optional
        Which sets; default: all.
    quick : bool
        A few small ones.

    Raises
    ------
    OptionError
        If a set is unknown.
    """
    for name in sets or ():
        if name not in SETS:
            raise OptionError(f"the board has no set {name!r}; it has {', '.join(SETS)}")
    right = [(entry.set.folder, entry.name) for entry in held if entry.state is State.right]
    makers = {
        "generated": _generated(quick),
        "liu-pataki": _from_files(right, "liu-pataki", ("primal",), quick),
        "wlda": _wlda(right, quick),
        "fairpca": _credit(right, quick),
        "dimacs": _from_files(right, "dimacs", ("primal", "lmi"), quick),
        "sdplib": _from_files(right, "sdplib", ("primal", "lmi"), quick),
    }
    return [problem for name in sets or SETS for problem in makers[name]]


def write_cards(problems: Sequence[BoardProblem], folder: Path) -> list[Path]:
    """Write one card a problem into a folder, and say where.

    Parameters
    ----------
    problems : sequence of BoardProblem
        The problems.
    folder : Path
        Created if need be.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{slug(problem.label)}.toml" for problem in problems]
    for path, problem in zip(paths, problems, strict=True):
        with writing(path):
            path.write_text(problem.card, encoding="utf-8")
    return paths


def _card(label: str, *lines: str) -> BoardProblem:
    return BoardProblem(label, "\n".join([f'name = "{label}"', *lines, ""]))


def _from_files(
    right: Sequence[tuple[str, str]], folder: str, sides: Sequence[str], quick: bool
) -> Iterator[BoardProblem]:
    for name in (name for place, name in right if place == folder):
        if quick and not QUICK.fullmatch(name):
            continue
        stem = re.sub(r"\.(dat-s|mat)(\.gz)?$", "", name)
        for side in sides:
            label = f"{folder}/{stem}" + (f"-{side}" if len(sides) > 1 else "")
            lines = [f'file = "{folder}/{name}"', f'side = "{side}"']
            if folder == "liu-pataki":
                # Thirds by construction, but some right-hand sides were computed in floating point.
                lines += ['description = "right-hand sides rounded to thirds"', "bounds_denominator = 3"]
            yield _card(label, *lines)


def _wlda(right: Sequence[tuple[str, str]], quick: bool) -> Iterator[BoardProblem]:
    for dataset, (file, level) in WLDA_LEVELS.items():
        if quick or ("wlda", file) not in right:
            continue
        for where, factor in BESIDE.items():
            about = f"{where} the optimum {level:g}"
            yield _card(
                f"wlda/{dataset}-{where}",
                f'description = "{about}"',
                'family = "wlda"',
                f"delta = {factor * level!r}",
                "[data]",
                f'dataset = "{dataset}"',
            )


def _credit(right: Sequence[tuple[str, str]], quick: bool) -> Iterator[BoardProblem]:
    for (groups, r), level in CREDIT_LEVELS.items():
        if quick or ("fairpca", "credit.npz") not in right:
            continue
        for where, factor in BESIDE.items():
            yield _card(
                f"fairpca/{groups}-d{r}-{where}",
                f'description = "{where} the optimum {level:g}"',
                'family = "credit"',
                f"delta = {factor * level!r}",
                "[options]",
                f'groups = "{groups}"',
                f"r = {r}",
            )


def _generated(quick: bool) -> Iterator[BoardProblem]:
    for n, rows in ((6, 8),) if quick else ((6, 8), (15, 20), (40, 40)):
        for seed in range(1 if quick else 2):
            for feasible in (True, False):
                truth = "feasible" if feasible else "infeasible"
                options = [f"n = {n}", f"rows = {rows}", f"feasible = {str(feasible).lower()}"]
                label = f"generated/mixed-n{n}-{truth}-{seed}"
                yield _card(label, 'family = "planted"', "[options]", *options, f"seed = {seed}")
    for truth in ("weak", "face", "strong"):
        for disguised in (False,) if quick else (False, True):
            for seed in range(1 if quick else 2):
                name = f"faces-{truth}{'-disguised' * disguised}-{seed}"
                options = [f'truth = "{truth}"', "length = 2", "n = 8", "rows = 8"]
                options += [f"disguised = {str(disguised).lower()}", f"seed = {seed}"]
                yield _card(f"generated/{name}", 'family = "planted-faces"', "[options]", *options)
