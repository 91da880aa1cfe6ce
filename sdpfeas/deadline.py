"""Time limits shared by the stages of a solve."""

from __future__ import annotations

import copy
import math
import time

from sdpfeas.errors import OptionError

__all__ = ["Deadline"]


class Deadline:
    """A time limit, counted from now.

    Parameters
    ----------
    seconds : float, optional
        Time from now on; None for no limit.

    Examples
    --------
    >>> deadline = Deadline(60.0)
    >>> deadline.expired, 59.0 < deadline.left <= 60.0
    (False, True)
    >>> Deadline(None).left
    inf
    """

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not (_is_number(seconds) and seconds > 0.0):
            raise OptionError(f"time_limit must be a positive number of seconds or None, got {seconds!r}")
        self.start = time.perf_counter()
        self.seconds = math.inf if seconds is None else float(seconds)

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start

    @property
    def left(self) -> float:
        """Seconds left; infinity without a limit, never negative."""
        return max(self.seconds - self.elapsed, 0.0)

    @property
    def limit(self) -> float | None:
        """Seconds left as a limit for the next stage; None without a limit."""
        return None if math.isinf(self.seconds) else max(self.left, 1e-3)

    def later(self, seconds: float) -> Deadline:
        """Return a deadline with the same start that ends ``seconds`` later."""
        out = copy.copy(self)
        out.seconds = self.seconds + seconds
        return out

    def within(self, seconds: float | None) -> Deadline:
        """Return a deadline with the same start that ends no later than ``seconds`` from now."""
        if seconds is None:
            return self
        earlier = copy.copy(self)
        earlier.seconds = min(self.seconds, self.elapsed + seconds)
        return earlier

    @property
    def expired(self) -> bool:
        """Whether the time is up."""
        return self.elapsed >= self.seconds


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
