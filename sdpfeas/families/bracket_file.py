"""Brackets in one ``.npz`` file: for each end the result of the problem of the family there.

The evidence of the lower end is a point, that of the upper end an infeasibility certificate.
:func:`load_bracket` reads a file; :meth:`SavedBracket.verified` proves its ends again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from sdpfeas.claims import Verdict
from sdpfeas.families.parametric_family import ParametricFamily
from sdpfeas.io.result_files import SavedResult, pack_result, package_versions, unpack_result
from sdpfeas.npz import Format, load
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import Point
from sdpfeas.problem.validation import finite_number
from sdpfeas.verifier.outcome import Proof

# The results it contains are already compressed.
FORMAT = Format("bracket", 1, compressed=False)


@dataclass(frozen=True)
class SavedEnd:
    """One end of a bracket: the value of ``delta`` and the result of the problem there."""

    delta: float
    result: SavedResult

    def is_about(self, family: ParametricFamily) -> bool:
        """Return whether the result refers to the problem of ``family`` at this end."""
        return family.at(self.delta).content_hash == self.result.problem_hash


@dataclass(frozen=True)
class SavedBracket:
    """Bracket read from a file; unverified, like any claim.

    An end is None if it needs no evidence because it is the a priori bracket of the family.
    """

    lower: SavedEnd | None
    upper: SavedEnd | None

    @classmethod
    def of(
        cls,
        family: ParametricFamily,
        lower: tuple[float, Point | None],
        upper: tuple[float, FloatArray | None],
        **about: Any,
    ) -> SavedBracket:
        """Collect a bracket from its ends, each with its evidence.

        ``about`` holds fields of :class:`SavedResult` that describe the origin of the evidence.
        """

        def end(delta: float, verdict: Verdict, **evidence: Any) -> SavedEnd | None:
            if not math.isfinite(delta) or all(part is None for part in evidence.values()):
                return None
            held = {"point": None, "certificate": None, **evidence}
            problem = family.at(delta).content_hash
            saved = SavedResult(problem, verdict.value, Proof.RIGOROUS.value, **held, **about)
            return SavedEnd(delta, saved)

        about = {"versions": package_versions(), **about}
        return cls(
            end(lower[0], Verdict.FEASIBLE, point=lower[1]),
            end(upper[0], Verdict.INFEASIBLE, certificate=upper[1]),
        )

    def verified(self, family: ParametricFamily) -> tuple[float, float]:
        """Return the bracket that the evidence proves for ``family``.

        An end without evidence, or with evidence for a different problem, is that of the a priori bracket.
        """
        if family.known is not None and family.known.proven:
            return family.known.delta, family.known.delta
        low, high = family.bracket
        if self.lower is not None and self.lower.is_about(family) and self.lower.result.point is not None:
            low = family.lower_bound(self.lower.result.point)
        if (
            self.upper is not None
            and self.upper.is_about(family)
            and self.upper.result.certificate is not None
        ):
            high = family.upper_bound(self.upper.result.certificate)
        return low, high


def pack_bracket(saved: SavedBracket) -> bytes:
    """Return the bytes of a bracket file."""
    ends = {name: end for name in ("lower", "upper") if (end := getattr(saved, name)) is not None}
    header = {"ends": {name: end.delta for name, end in ends.items()}}
    arrays = {name: np.frombuffer(pack_result(end.result), dtype=np.uint8) for name, end in ends.items()}
    return FORMAT.pack(header, arrays)


def unpack_bracket(data: bytes) -> SavedBracket:
    """Parse the bytes of a bracket file; raises ``FileFormatError`` if they are damaged."""
    with FORMAT.unpack(data) as (header, arrays):
        ends = {
            name: SavedEnd(finite_number(delta, f"the {name} end"), unpack_result(arrays[name].tobytes()))
            for name, delta in header["ends"].items()
        }
        return SavedBracket(ends.get("lower"), ends.get("upper"))


def load_bracket(path: str | PathLike[str]) -> SavedBracket:
    """Read a bracket written by ``sdpfeas solve -o``; raises ``FileFormatError`` if that fails."""
    return load(path, unpack_bracket)
