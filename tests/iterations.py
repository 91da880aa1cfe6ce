"""Single iterations of the interior-point method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sdpfeas.backends.ipm.interior_point import Goal, NewtonSystem, predictor_corrector
from sdpfeas.claims import Claim
from sdpfeas.deadline import Deadline


class NoTest(Goal):
    """Never stops; ``preview`` sees every predictor."""

    def __init__(self, preview: Callable[[Any, float], bool] | None) -> None:
        self._preview = preview

    def test(self, system: NewtonSystem) -> None:
        """Stop at no iterate."""

    def preview(self, system: NewtonSystem, affine: float) -> bool:
        """Call the function given."""
        return self._preview is not None and self._preview(system, affine)

    def claim(self, system: NewtonSystem) -> Claim:
        """Return nothing."""
        return Claim()


def iterate_once(system: NewtonSystem, preview: Callable[[Any, float], bool] | None = None) -> float:
    """Run one predictor–corrector iteration; return its step length."""
    before = system.iteration
    predictor_corrector(system, NoTest(preview), Deadline(None), before + 1)
    assert system.iteration == before + 1
    return system.step_length
