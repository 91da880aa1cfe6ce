"""The base class of families, and finding families by name or file.

A family is named by a path to a drop-in file (``.py``), or by a name, looked up as
:mod:`sdpfeas.cards.finder` says: what ships, the entry points of the group ``sdpfeas.families``, then
``NAME.py`` beside the card that names it, if the user named that card by its path.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sdpfeas.cards.finder import PROBLEMS, is_path
from sdpfeas.cards.loader import dropin_file, load_class
from sdpfeas.cards.options import NoOptions, parse_options
from sdpfeas.errors import CardError
from sdpfeas.problem.problem import FeasibilityProblem

if TYPE_CHECKING:
    from sdpfeas.families.base import ParametricFamily

__all__ = ["Family", "family_names", "find_family", "load_family"]


class Family(ABC):
    """Code that makes problems; the base class of what a problem card or a drop-in file names.

    Attributes
    ----------
    name : str
        The name it is asked for by.
    Options : type
        The dataclass of its parameters.
    """

    name: ClassVar[str]
    Options: ClassVar[type] = NoOptions

    @classmethod
    def make(cls, **parameters: Any) -> FeasibilityProblem | ParametricFamily:
        """Build a member from plain parameters, as a card holds them.

        Parameters
        ----------
        **parameters
            Fields of ``Options``.

        Raises
        ------
        OptionError
            If a parameter is unknown, ill-typed or out of range.
        """
        return cls.build(parse_options(cls.Options, parameters, f"family {cls.name!r}"))

    @classmethod
    @abstractmethod
    def build(cls, options: Any) -> FeasibilityProblem | ParametricFamily:
        """Build a member from checked options."""

    @classmethod
    def seeded(cls, options: Any) -> bool:
        """Whether another ``seed`` among the options gives another member."""
        return hasattr(options, "seed")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by the file a drop-in class came from: other processes cannot import its module."""
        file = dropin_file(type(self))
        return _restored, (file, None if file else type(self), dict(vars(self)))


def find_family(name: str, card: Path | None = None, *, by_path: bool = True) -> type[Family]:
    """Find a family.

    Parameters
    ----------
    name : str
        A path or a name.
    card : Path, optional
        The card that names it.
    by_path : bool
        Whether the user named that card by its path, so that code beside it may be run.

    Raises
    ------
    CardError
        If there is none of that name, or its file cannot be loaded.
    """
    if is_path(name, (".py",)):
        return load_family(Path(name) if card is None else PROBLEMS.code(name, card, by_path=by_path))
    found = PROBLEMS.find(name, card if by_path else None, cards=False)
    if found is None and card is not None and (card.parent / f"{name}.py").is_file():
        raise CardError(PROBLEMS.why_not(card))
    if found is None:
        raise CardError(f"no family named {name!r}; {PROBLEMS.hint(name, cards=False)}")
    return load_family(found)


def load_family(found: Path | EntryPoint) -> type[Family]:
    """Load the family that an entry point names, or the one that a drop-in file defines."""
    return load_class(found, Family, "family", CardError)  # type: ignore[type-abstract]


def family_names() -> list[str]:
    """Names of all families that can be found from here."""
    return PROBLEMS.names(cards=False)


def _restored(file: str | None, kind: type[Family] | None, state: dict[str, Any]) -> Family:
    if kind is None:
        kind = load_family(Path(file or ""))
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made
