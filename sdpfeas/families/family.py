"""How families are named, built and pickled."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from sdpfeas.cards.options import NoOptions, parse_options
from sdpfeas.problem.problem import FeasibilityProblem

if TYPE_CHECKING:
    from sdpfeas.families.base import ParametricFamily

__all__ = ["Family"]


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


def _restored(file: str | None, kind: type[Family] | None, state: dict[str, Any]) -> Family:
    if kind is None:
        from sdpfeas.families.lookup import load_family_file

        kind = load_family_file(Path(file or ""))
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made
