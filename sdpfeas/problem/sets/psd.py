"""The cone of positive semidefinite matrices."""

from __future__ import annotations

from dataclasses import dataclass

from sdpfeas.problem.sets.matrices import MatrixSet

__all__ = ["PSD"]


@dataclass(frozen=True)
class PSD(MatrixSet):
    """Symmetric positive semidefinite n×n matrices."""

    kind = "PSD"
    lower = 0.0
