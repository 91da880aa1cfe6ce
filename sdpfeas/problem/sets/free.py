"""Vectors without restriction."""

from __future__ import annotations

from dataclasses import dataclass

from sdpfeas.problem.sets.vectors import VectorSet

__all__ = ["Free"]


@dataclass(frozen=True)
class Free(VectorSet):
    """Vectors without restriction."""

    kind = "Free"
