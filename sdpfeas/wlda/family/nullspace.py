"""The common null space of the class scatters, and groups of classes.

Where no class has any scatter, distances between means are all that counts. If the null space is large enough
to hold every direction, it either makes the ratio infinite or, where some means agree on it, every ratio
feasible without being attained.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.rows import PairwiseDifference, Rows, Stacked
from sdpfeas.problem.rows.pairwise import pair_indices
from sdpfeas.wlda.family.geometry import ClassScatter

__all__ = ["NullSpace", "pair_rows", "pairs_of", "split"]


@dataclass(frozen=True)
class NullSpace:
    """Data rotated such that the last coordinates are the common null space of the class scatters."""

    turned: ClassScatter
    inside: int
    stuck: list[np.ndarray]

    def part(self) -> ClassScatter:
        """Return the data on the null space alone."""
        return self.turned.rotated(np.eye(self.turned.k)[:, self.inside :])

    def fill(self, z: FloatArray, r: int, ratio: float) -> FloatArray:
        """Complete a matrix on the range of the scatters by one on the null space, keeping its ratio."""
        n = self.turned.k - self.inside
        apart = self.part().mean_rows().apply(np.eye(n)) / n
        scatter = float(
            np.max(np.einsum("kij,ij->k", self.turned.dense()[:, : self.inside, : self.inside], z))
        )
        far = apart[apart > 0.0]
        room = (r - 0.5) * float(np.min(far, initial=math.inf)) / max(2.0 * ratio * scatter, 1e-300)
        share = min(0.5, room)
        whole = np.zeros((self.turned.k, self.turned.k))
        whole[: self.inside, : self.inside] = share * z
        rest = np.arange(self.inside, self.turned.k)
        whole[rest, rest] = (r - share * float(np.trace(z))) / n
        return whole


def pairs_of(group: np.ndarray) -> np.ndarray:
    """Pairs of a group of classes, in lexicographic order."""
    i, j = pair_indices(group.size)
    return np.stack([group[i], group[j]], axis=1)


def split(group: np.ndarray, keys: np.ndarray) -> list[np.ndarray]:
    """Parts of a group with equal keys."""
    return [group[keys == key] for key in np.unique(keys)]


def pair_rows(scatter: ClassScatter, groups: list[np.ndarray]) -> Rows:
    """One row a pair of classes within each group."""
    parts = [PairwiseDifference(scatter.means[group]) for group in groups]
    return parts[0] if len(parts) == 1 else Stacked(parts)
