"""Fair PCA of the credit data, from the covariance matrices of its groups.

The matrices of Tantipongpipat, Samadi, Singh, Morgenstern and Vempala ("Multi-criteria dimensionality
reduction with applications to fairness", NeurIPS 2019) are read from ``fairpca/credit.npz`` in the folder
that ``SDPFEAS_DATA`` names. For 3, 4 or 6 groups, maximise ``min_i <B_i, Z>`` over the Fantope of trace r.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sdpfeas import families
from sdpfeas.dropin import Family, data_file, read_arrays


@dataclass(frozen=True)
class CreditOptions:
    """Parameters: the partition into groups, and the number of directions r, the trace of ``Z``."""

    groups: Literal["k3", "k4", "k6"] = "k6"
    r: int = 5


class CreditFairPca(Family):
    """Fair PCA of groups of the credit data; members are FantopeMaxMin families."""

    name = "credit"
    Options = CreditOptions

    @classmethod
    def build(cls, options: CreditOptions) -> families.FantopeMaxMin:
        """Build the family."""
        covariances = read_arrays(data_file("fairpca/credit.npz"))[options.groups]
        return families.FantopeMaxMin(covariances, options.r)
