"""The verifier's tolerances, each named and scale-free."""

from __future__ import annotations

from dataclasses import dataclass, fields

from sdpfeas.errors import ClaimError

__all__ = ["Tolerances"]


@dataclass(frozen=True)
class Tolerances:
    """Tolerances of the verifier.

    Attributes
    ----------
    residual : float
        Numeric mode: a row may miss a bound by this much, relative to that bound and to the terms that
        bounded blocks add to it.
    rounding : float
        Numeric mode: where terms are no measure (on unbounded vector blocks, and for every entry of ``A*y``
        on them), by this much relative to the terms, which is what rounding alone can cause; but by no more
        than ``residual`` of the size that bounds suggest for a point, and deciding rows for ``A*y``.
    membership : float
        Numeric mode: a block may be this far outside its set, relative to its own norm; every row is charged
        for it.
    margin : float
        Numeric mode: the two sides of a certificate must differ by this much, relative to their size.
    snap : float
        Rigorous mode: an exact solution may be this far from the point, relative to its norm, and exact
        multipliers from the given ones; the distance is bounded and paid for. A claim further off needs
        repair.
    sign : float
        Repair: a multiplier of the forbidden sign is set to zero if it is below this share of the
        largest.
    """

    residual: float = 1e-7
    rounding: float = 1e-13
    membership: float = 1e-9
    margin: float = 1e-10
    snap: float = 1e-8
    sign: float = 1e-5

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if not isinstance(value, (int, float)) or not 0.0 <= value < float("inf"):
                raise ClaimError(f"tolerance {item.name} must be a non-negative number, got {value!r}")
