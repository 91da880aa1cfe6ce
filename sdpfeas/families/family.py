"""How families are named, built, pickled, and read from files."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sdpfeas.backends.registry import defined_in, load_module
from sdpfeas.cards.options import NoOptions, parse_options
from sdpfeas.errors import BackendError, CardError
from sdpfeas.problem.problem import FeasibilityProblem

if TYPE_CHECKING:
    from sdpfeas.families.base import ParametricFamily

__all__ = ["Family", "load_family_file"]


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
        kind = type(self)
        file = getattr(sys.modules.get(kind.__module__), "__file__", None)
        dropped_in = kind.__module__.startswith("_sdpfeas_dropin_")
        return _restored, (file if dropped_in else None, None if dropped_in else kind, dict(vars(self)))


def load_family_file(path: Path) -> type[Family]:
    """Load the one family a drop-in file defines.

    Parameters
    ----------
    path : Path
        A Python file.
    """
    if not path.is_file():
        raise CardError(f"{path}: no such file")
    try:
        module = load_module(path.resolve())
    except BackendError as error:
        raise CardError(str(error)) from error
    found = [kind for kind in defined_in(module, Family) if kind.__dict__.get("name")]
    if len(found) != 1:
        names = ", ".join(item.__name__ for item in found) or "none"
        raise CardError(
            f"{path}: a drop-in file defines exactly one family class with a name; found: {names}"
        )
    return found[0]


def _restored(file: str | None, kind: type[Family] | None, state: dict[str, Any]) -> Family:
    if kind is None:
        kind = load_family_file(Path(file or ""))
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made
