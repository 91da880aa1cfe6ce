"""The cone of non-negative vectors."""

from __future__ import annotations

from dataclasses import dataclass

from sdpfeas.problem.sets.vectors import VectorSet

__all__ = ["Nonneg"]


@dataclass(frozen=True)
class Nonneg(VectorSet):
    """Vectors with non-negative entries."""

    kind = "Nonneg"
    lower = 0.0
