"""What limits a ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Worst"]


@dataclass(frozen=True)
class Worst:
    """What limits the ratio at a point.

    Attributes
    ----------
    ratio : float
        The ratio attained.
    pair : tuple
        Labels of the two classes whose projected means are closest.
    group : object
        Label of the class with the largest projected scatter.
    """

    ratio: float
    pair: tuple[Any, Any]
    group: Any
