"""Options of the operator splitting."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AdmmOptions"]


@dataclass(frozen=True)
class AdmmOptions:
    """Options of :class:`Admm`.

    Attributes
    ----------
    max_iterations : int
        Steps of each of the two runs, over all margins.
    margin : float
        By how much the problem is tightened and widened at first, relative to its size.
    min_margin : float
        The last margin that is tried.
    relaxation : float
        Over-relaxation, between 0 and 2; 1 is plain ADMM.
    screen_every : int
        Steps between two screens.
    penalty : float
        Weight of the rows against the sets, to begin with.
    adaptive : bool
        Let the penalty follow the residuals.
    """

    max_iterations: int = 20_000
    margin: float = 1e-3
    min_margin: float = 1e-7
    relaxation: float = 1.6
    screen_every: int = 25
    penalty: float = 1.0
    adaptive: bool = True

    def __post_init__(self) -> None:
        for name in ("max_iterations", "screen_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"option {name!r} must be at least 1, got {getattr(self, name)}")
        if not 0.0 < self.relaxation < 2.0:
            raise ValueError(f"option 'relaxation' must lie between 0 and 2, got {self.relaxation}")
        if not 0.0 < self.min_margin <= self.margin < 1.0:
            raise ValueError(
                "options 'margin' and 'min_margin' must lie between 0 and 1, the second not above the "
                f"first; got {self.margin} and {self.min_margin}"
            )
        if not 0.0 < self.penalty < float("inf"):
            raise ValueError(f"option 'penalty' must be positive, got {self.penalty}")
