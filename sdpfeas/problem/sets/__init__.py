"""Sets of the blocks of a variable, one file per set; ``base`` defines their interface."""

from __future__ import annotations

from typing import Any

from sdpfeas.errors import ProblemError
from sdpfeas.problem.sets.base import BlockSet
from sdpfeas.problem.sets.free import Free
from sdpfeas.problem.sets.hermitian import HermitianPSD
from sdpfeas.problem.sets.nonneg import Nonneg
from sdpfeas.problem.sets.psd import PSD
from sdpfeas.problem.sets.second_order import SecondOrder
from sdpfeas.problem.sets.spectral_box import SpectralBox

__all__ = [
    "KINDS",
    "PSD",
    "BlockSet",
    "Free",
    "HermitianPSD",
    "Nonneg",
    "SecondOrder",
    "SpectralBox",
    "set_from_spec",
]

#: Every kind of set, by its name in files.
KINDS: dict[str, type[BlockSet]] = {
    kind.kind: kind for kind in (PSD, Nonneg, Free, SpectralBox, SecondOrder, HermitianPSD)
}


def set_from_spec(spec: dict[str, Any]) -> BlockSet:
    """Build a set from the output of :meth:`BlockSet.spec`."""
    spec = dict(spec)
    kind = spec.pop("kind", None)
    if not isinstance(kind, str) or kind not in KINDS:
        raise ProblemError(f"unknown set kind {kind!r}; known: {', '.join(KINDS)}")
    try:
        return KINDS[kind](**spec)
    except TypeError as error:
        raise ProblemError(f"set {kind}: {error}") from None
