"""Fair PCA of the credit data, from covariance matrices of its groups.

The matrices of Tantipongpipat, Samadi, Singh, Morgenstern and Vempala ("Multi-criteria dimensionality
reduction with applications to fairness", NeurIPS 2019) in ``fairpca/credit.npz`` of the folder that
``SDPFEAS_DATA`` names: for 3, 4 or 6 groups, ``max min_i <B_i, Z>`` over the Fantope of trace r.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sdpfeas.errors import CardError
from sdpfeas.families.family import Family
from sdpfeas.families.fantope import FantopeMaxMin
from sdpfeas.files import read_file
from sdpfeas.npz import unpack_arrays


@dataclass(frozen=True)
class CreditOptions:
    """Parameters.

    Attributes
    ----------
    groups : {"k3", "k4", "k6"}
        Which groups.
    r : int
        Number of directions, the trace of ``Z``.
    """

    groups: Literal["k3", "k4", "k6"] = "k6"
    r: int = 5


class CreditFairPca(Family):
    """Fair PCA of groups of the credit data; members are FantopeMaxMin families."""

    name = "credit"
    Options = CreditOptions

    @classmethod
    def build(cls, options: CreditOptions) -> FantopeMaxMin:
        """Build the family."""
        path = Path(os.environ.get("SDPFEAS_DATA", "")) / "fairpca" / "credit.npz"
        if not path.is_file():
            raise CardError(f"there is no {path}; set SDPFEAS_DATA to the folder with the data")
        return FantopeMaxMin(unpack_arrays(read_file(path))[options.groups], options.r)
