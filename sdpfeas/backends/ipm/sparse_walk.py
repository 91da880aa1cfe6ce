"""The steps of the sparse interior-point method, until somebody says stop."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.ipm.self_dual import SelfDual
from sdpfeas.errors import OutOfTime
from sdpfeas.verifier.results import Stop

__all__ = ["walk"]


def walk(
    core: SelfDual, inquiry: Inquiry, most: int, visit: Callable[[], Stop | None], stuck: Callable[[], bool]
) -> tuple[Stop, str]:
    """Take steps; why they ended, and in whose words if not our own.

    Parameters
    ----------
    core : SelfDual
        The iterate.
    inquiry : Inquiry
        Until when.
    most : int
        Iterations at most.
    visit : callable
        Called at every iterate, when its factors are there; may say stop.
    stuck : callable
        Called after every step: whether more of them are of no use.
    """
    while core.iteration < most:
        if inquiry.deadline.expired:
            return Stop.TIME_LIMIT, ""
        try:
            core.factorise()
            if (stop := visit()) is not None:
                return stop, ""
            core.advance()
        except np.linalg.LinAlgError:
            return Stop.NUMERICAL, ""
        except OutOfTime as error:
            return Stop.TIME_LIMIT, str(error)
        if not core.sane:
            return Stop.NUMERICAL, ""
        if stuck():
            return Stop.STALLED, ""
    return Stop.ITERATION_LIMIT, ""
