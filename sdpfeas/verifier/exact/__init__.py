"""Exact mode: proofs in rational arithmetic, for small problems.

A claim is rounded to small denominators (which repairs what was meant to be a round number), made to meet
its equations exactly, and checked: matrices by the signs of their characteristic polynomials. Floating-point
data are rationals too, so every small problem qualifies.

``rows`` holds a problem in rational arithmetic, ``eligible`` decides which problems are worth it,
``candidates`` lists what is tried in place of a claim, ``algebra`` corrects what misses equations, ``points``
and ``multipliers`` hold the proofs, and ``contradiction`` finds rows that contradict each other.
"""

from sdpfeas.verifier.exact.eligibility import (
    DENOMINATORS,
    has_round_rows,
    is_round,
    read_alike,
    small_enough,
)
from sdpfeas.verifier.exact.proofs import contradiction, exact_certificate, exact_point

__all__ = [
    "DENOMINATORS",
    "contradiction",
    "exact_certificate",
    "exact_point",
    "has_round_rows",
    "is_round",
    "read_alike",
    "small_enough",
]
