"""Problem cards: a family and its parameters, or a file, in a few lines of TOML.

.. code-block:: toml

    family = "wlda"
    [data]
    dataset = "yale"
    pca = 50
    [sweep]
    classes = [9, 11, 13, 15]

A problem is named by the path of a card (``.toml``), of a drop-in family (``.py``) or of a problem file, or
by a name. Names are looked up among the cards of the library, the entry points of the group
``sdpfeas.families``, and the cards ``./problems/NAME.toml`` (:mod:`sdpfeas.cards.finder`). The entry point is
:func:`find_problem`.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sdpfeas.cards.finder import PROBLEMS, is_path, shipped_cards
from sdpfeas.cards.options import parse_options
from sdpfeas.cards.toml import InlineCard, read_card
from sdpfeas.errors import CardError, OptionError, ProblemError, SdpfeasError, hint, storable
from sdpfeas.families.parametric_family import Family, ParametricFamily, find_family, load_family
from sdpfeas.io import PROBLEM_FILES, read_problem
from sdpfeas.problem.problem import FeasibilityProblem

#: Largest number of members of a sweep.
MAX_MEMBERS = 10**5

#: Keys of a card, with the type each must have.
KEYS: dict[str, tuple[type, str]] = {
    "family": (str, "a string"),
    "file": (str, "a string"),
    "side": (str, "a string"),
    "bounds_denominator": (int, "an integer"),
    "name": (str, "a string"),
    "description": (str, "a string"),
    "delta": (float, "a number"),
    "bound": (float, "a number"),
    "data": (dict, "a table"),
    "options": (dict, "a table"),
    "sweep": (dict, "a table"),
}


@dataclass(frozen=True)
class ProblemMember:
    """One member of a card, before it is built.

    ``parameters`` are its values of the sweep; empty without a sweep.
    """

    name: str
    parameters: Mapping[str, Any]
    card: ProblemCard

    @property
    def label(self) -> str:
        """Name and parameters in one string."""
        bound = {} if self.card.bound is None else {"bound": f"{self.card.bound:g}"}
        inside = ", ".join(f"{key}={value}" for key, value in {**self.parameters, **bound}.items())
        return f"{self.name}[{inside}]" if inside else self.name

    @property
    def text(self) -> str:
        """Text of the card, or a line that identifies the file."""
        return self.card.text

    @property
    def origin(self) -> str:
        """File of the card, for messages."""
        return self.card.source

    @property
    def seeded(self) -> bool:
        """Whether a different seed gives a different problem."""
        return self.card.seeded(self.parameters)

    def build(self, seed: int = 0) -> FeasibilityProblem | ParametricFamily:
        """Build the problem or the family; ``seed`` is used if the card does not fix one."""
        extra = {"seed": seed} if self.seeded else {}
        return self.card.make(**{**extra, **self.parameters})


@dataclass(frozen=True)
class ProblemCard:
    """A family with its parameters, or a problem file.

    ``family`` is None for a file. Every combination of values in ``sweep`` is a member. ``delta`` fixes the
    parameter of a parametric family, which gives a single problem. ``side`` chooses the primal or the LMI
    side of a file. ``bounds_denominator`` replaces the bounds of a file with integer rows by the nearest
    multiples of one over this number, and multiplies rows and bounds by it: for right-hand sides that are
    fractions by construction but were computed in floating point. This is a different problem, with a
    different content hash. ``bound`` adds rows that bound the variables. ``source`` is the file of the card.
    """

    name: str
    family: type[Family] | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    sweep: Mapping[str, list[Any]] = field(default_factory=dict)
    delta: float | None = None
    file: Path | None = None
    side: Literal["primal", "lmi"] = "primal"
    bounds_denominator: int | None = None
    bound: float | None = None
    description: str = ""
    source: str = ""
    text: str = ""

    def members(self) -> Iterator[ProblemMember]:
        """Yield all members of the sweep; the card itself if there is none."""
        for values in product(*self.sweep.values()):
            yield ProblemMember(self.name, dict(zip(self.sweep, values, strict=True)), self)

    def swept(self, sweep: Mapping[str, Any]) -> ProblemCard:
        """Return the card with more parameters to sweep over, each with a list of values.

        Raises ``CardError`` for a file, an unknown parameter or a value that does not fit.
        """
        if self.family is None:
            raise CardError(f"{self.source}: sweep applies to a family, not to a file", key="sweep")
        known = [*(item.name for item in fields(self.family.Options)), "delta"]
        for key, values in sweep.items():
            if not isinstance(values, list) or not values:
                wrong = f"sweep.{key} must be a list of values, got {values!r}"
                raise CardError(f"{self.source}: {wrong}", key=key)
            if key not in known:
                raise CardError(
                    f"{self.source}: sweep.{key} is not a parameter of family {self.family.name!r}; "
                    f"{hint(key, known)}",
                    key=key,
                )
        card = replace(self, sweep={**self.sweep, **sweep})
        count = math.prod(len(values) for values in card.sweep.values())
        if count > MAX_MEMBERS:
            many = f"the sweep has {count:,} members, more than {MAX_MEMBERS:,}"
            raise CardError(f"{self.source}: {many}", key="sweep")
        for member in card.members():
            card.check({**self.parameters, **member.parameters})
        return card

    def check(self, values: dict[str, Any]) -> None:
        """Raise ``CardError`` unless these are parameters of the family, or a level ``delta`` of it."""
        assert self.family is not None
        delta = values.pop("delta", 0.0)
        if isinstance(delta, bool) or not isinstance(delta, (int, float)):
            raise CardError(f"{self.source}: delta must be a number, got {delta!r}", key="delta")
        try:
            parse_options(self.family.Options, values, f"family {self.family.name!r}")
        except SdpfeasError as error:
            raise CardError(f"{self.source}: {error}", key=error.key) from None

    def make(self, **parameters: Any) -> FeasibilityProblem | ParametricFamily:
        """Build the problem or the family; ``parameters`` (or ``delta``) override those of the card.

        Raises ``CardError`` if a parameter or the data are invalid.
        """
        made = self._read() if self.family is None else self._from_family(self.family, parameters)
        if self.bound is None:
            return made
        if not isinstance(made, FeasibilityProblem):
            wrong = "bound applies to a problem; give delta as well"
            raise CardError(f"{self.source}: {wrong}", key="bound")
        try:
            return made.bounded(self.bound)
        except ProblemError as error:
            raise CardError(f"{self.source}: {error}", key=error.key) from None

    def _from_family(
        self, family: type[Family], parameters: dict[str, Any]
    ) -> FeasibilityProblem | ParametricFamily:
        values = {**self.parameters, **parameters}
        delta = values.pop("delta", self.delta)
        try:
            made = family.make(**values)
        except OptionError as error:
            raise CardError(f"{self.source}: {error}", key=error.key) from None
        if delta is None:
            return made
        if not isinstance(made, ParametricFamily):
            raise CardError(f"{self.source}: family {family.name!r} has no delta")
        return made.at(delta)

    def seeded(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether a different seed gives a different problem."""
        values = {**self.parameters, **parameters}
        values.pop("delta", None)
        if self.family is None or "seed" in values:
            return False
        options: Any = parse_options(self.family.Options, values, f"family {self.family.name!r}")
        return self.family.seeded(options)

    def _read(self) -> FeasibilityProblem:
        assert self.file is not None
        problem = read_problem(self.file, self.side)[0]
        times = self.bounds_denominator
        if times is None:
            return problem
        rows = [times * part.to_csr() for part in problem.rows]
        held = [part.data for part in rows]
        if problem.lmis or any(np.any(v != np.rint(v)) or np.any(np.abs(v) > 2.0**53) for v in held):
            raise CardError(f"{self.source}: bounds_denominator is for rows of integers, without LMIs")
        bounds = np.rint(times * problem.lower), np.rint(times * problem.upper)
        rows = [old if old.empty else new for old, new in zip(problem.rows, rows, strict=True)]
        return FeasibilityProblem(problem.sets, rows, *bounds, problem.row_names, problem.block_names)


def find_problem(spec: str | Path | ProblemCard | InlineCard) -> ProblemCard:
    """Find a problem by a path or a name, or read a table of a study file; a card is returned unchanged.

    Raises ``CardError`` if there is no such problem, or a card is malformed.
    """
    if isinstance(spec, ProblemCard):
        return spec
    if isinstance(spec, InlineCard):
        return _from_table(spec.path, spec.table, spec.text, by_path=True)
    if not isinstance(spec, (str, Path)):
        raise CardError(f"a problem is a name, a path or a card, got {type(spec).__name__}")
    if is_path(spec, (".toml", ".py", *PROBLEM_FILES)):
        return _from_path(Path(spec), by_path=True)
    text = str(spec)
    found = PROBLEMS.find(text)
    if found is None:
        raise CardError(f"no problem named {text!r}; {PROBLEMS.hint(text)}")
    if isinstance(found, Path):
        return _from_path(found, by_path=PROBLEMS.is_shipped(found))
    family = load_family(found)
    return ProblemCard(text, family, description=_summary(family), source=text, text=f'family = "{text}"\n')


def problem_names() -> list[str]:
    """Return the names of all problem cards that can be found from the current directory."""
    places = (shipped_cards(PROBLEMS.folder), Path(PROBLEMS.folder))
    return sorted({path.stem for place in places for path in place.glob("*.toml")})


def _from_path(path: Path, *, by_path: bool) -> ProblemCard:
    if not path.is_file():
        raise CardError(f"{path}: no such file")
    if path.suffix == ".toml":
        return _from_table(path, *read_card(path), by_path=by_path)
    if path.suffix == ".py":
        family = load_family(path)
        text = path.read_text(encoding="utf-8", errors="replace")
        return ProblemCard(family.name, family, description=_summary(family), source=str(path), text=text)
    if path.name.endswith(PROBLEM_FILES):
        named = storable(_stem(path)), storable(str(path)), storable(_identified(path))
        return ProblemCard(named[0], file=path, source=named[1], text=named[2])
    raise CardError(
        f"{path}: a problem is a .toml card, a .py file, or a file ending in {', '.join(PROBLEM_FILES)}"
    )


def _from_table(path: Path, card: Mapping[str, Any], text: str, *, by_path: bool) -> ProblemCard:
    """Make a problem of the content of a card; ``path`` is the file that holds it."""
    for key, value in card.items():
        if key not in KEYS:
            known = hint(key, KEYS, "a problem card has")
            raise CardError(f"{path}: unknown key {key!r}; {known}", key=key)
        kind, spelled = KEYS[key]
        fits = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
        if not fits:
            raise CardError(f"{path}: {key} must be {spelled}, got {value!r}", key=key)
    if ("family" in card) == ("file" in card):
        raise CardError(f'{path}: a problem card needs either family = "NAME" or file = "PATH"')
    name = card.get("name", storable(path.stem))
    about = card.get("description", "")
    if "file" in card:
        return _file_card(path, card, name, about, text)
    return _family_card(path, card, name, about, text, by_path)


def _file_card(path: Path, card: Mapping[str, Any], name: str, about: str, text: str) -> ProblemCard:
    for key in ("data", "options", "sweep", "delta"):
        if key in card:
            raise CardError(f"{path}: {key} applies to a family, not to a file", key=key)
    if card.get("bounds_denominator", 1) < 1:
        wrong = f"bounds_denominator must be positive, got {card['bounds_denominator']}"
        raise CardError(f"{path}: {wrong}", key="bounds_denominator")
    if card.get("side", "primal") not in ("primal", "lmi"):
        raise CardError(f"{path}: side must be 'primal' or 'lmi', got {card['side']!r}", key="side")
    places = [path.parent / card["file"]]
    if os.environ.get("SDPFEAS_DATA"):
        places.append(Path(os.environ["SDPFEAS_DATA"]) / card["file"])
    for place in places:
        if place.is_file():
            if not place.name.endswith(PROBLEM_FILES):
                endings = ", ".join(PROBLEM_FILES)
                wrong = f"{place.name} is not a problem file; its name must end in {endings}"
                raise CardError(f"{path}: {wrong}", key="file")
            marked = f"{text}# {_identified(place)}\n"
            read = {key: card[key] for key in ("side", "bounds_denominator", "bound") if key in card}
            return ProblemCard(name, file=place, description=about, source=str(path), text=marked, **read)
    tried = " nor ".join(str(place) for place in places)
    missing = f"there is no file {tried}; set SDPFEAS_DATA to the folder with the data"
    raise CardError(f"{path}: {missing}", key="file")


def _family_card(
    path: Path, card: Mapping[str, Any], name: str, about: str, text: str, by_path: bool
) -> ProblemCard:
    for key in ("side", "bounds_denominator"):
        if key in card:
            raise CardError(f"{path}: {key} applies to a file, not to a family", key=key)
    try:
        family = find_family(card["family"], path, by_path=by_path)
    except CardError as error:
        raise CardError(f"{path}: {error}", key="family") from None
    data, options, sweep = (card.get(key, {}) for key in ("data", "options", "sweep"))
    twice = sorted(set(data) & set(options))
    if twice:
        raise CardError(f"{path}: {twice[0]!r} is given in [data] and in [options]", key=twice[0])
    parameters = {**data, **options}
    delta = card.get("delta")
    return ProblemCard(
        name, family, parameters, {}, None if delta is None else float(delta), bound=card.get("bound"),
        description=about, source=str(path), text=text,
    ).swept(sweep)  # fmt: skip


def _summary(family: type[Family]) -> str:
    return (family.__doc__ or "").strip().split("\n")[0]


def _stem(path: Path) -> str:
    name = path.name
    for suffix in sorted(PROBLEM_FILES, key=len, reverse=True):
        name = name.removesuffix(suffix)
    return name


def _identified(path: Path) -> str:
    return f"{path.name} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
