"""Proofs that rational matrices are positive semidefinite are accepted by the checker."""

from fractions import Fraction

import pytest

from sdpfeas import sdpcheck
from sdpfeas.certifier.factors import prove_semidefinite


@pytest.mark.parametrize("k", [1, 2**53 + 1, 2**63 - 1, 2**63 + 1, 2**64 - 1, 2**64 + 1, 10**40])
def test_kernels_with_long_denominators(k: int) -> None:
    vector = [Fraction(1), Fraction(1, k), Fraction(k, 7)]
    matrix = [[a * b for b in vector] for a in vector]
    kernel = sdpcheck.semidefinite(matrix, prove_semidefinite(matrix))
    assert len(kernel) == 2
