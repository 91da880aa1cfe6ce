"""Which degenerate data are provably so: judgements by a tolerance are about rounded data."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.numerics.rounding import definite, gamma, inflate, norms_upper
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.sets import SpectralBox

if TYPE_CHECKING:
    from sdpfeas.wlda.family.geometry import ClassScatter

__all__ = ["JUDGED", "affinely_independent", "always_scattered", "equal_exactly", "separated_exactly"]

#: What is added to a reason that rests on a tolerance.
JUDGED = ", up to rounding (judged by a tolerance, not proven)"

#: Numbers that are added up as fractions, at the most.
MOST_NUMBERS = 200_000

#: Samples closer to each other than this, relative to the largest entry, are left unproved.
CLOSEST = 1e-100


def affinely_independent(data: FloatArray) -> bool:
    """Prove that no sample lies in the affine hull of the others.

    Then some linear map sends every sample of a class to one vertex of a simplex: the scatters share a null
    space of one dimension less than there are classes, and all means differ on it.

    Parameters
    ----------
    data : ndarray
        Samples, of size about one at the most.
    """
    apart = data[1:] - data[0]
    sizes = norms_upper(apart)
    if apart.shape[0] > apart.shape[1] or not np.all(sizes > CLOSEST):
        return False
    apart = np.ldexp(apart, -np.frexp(sizes)[1][:, None])
    n, d = apart.shape
    # Rounding of the differences and of their products; norms are at most one. Then what underflow takes.
    error = inflate(gamma(d + 8) * n, 4) + n * d * 1e-180
    return definite(symmetrize(apart @ apart.T), shift=float(inflate(error, 4)))


def equal_exactly(data: FloatArray, index: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Group classes whose samples have the same mean to the last bit, as far as that was found out.

    Parameters
    ----------
    data : ndarray
        Samples.
    index : ndarray of int
        The class of every sample.
    same : ndarray of int
        For every class the first one whose mean is the same up to rounding.
    """
    out = np.arange(same.size)
    wanted = np.flatnonzero(np.bincount(same, minlength=same.size)[same] > 1)
    if int(np.isin(index, wanted).sum()) * data.shape[1] > MOST_NUMBERS:
        return out
    means: dict[tuple[Fraction, ...], int] = {}
    for g in wanted:
        rows = data[index == g].tolist()
        sums = (sum(map(Fraction, column), Fraction(0)) for column in zip(*rows, strict=True))
        mean = tuple(total / len(rows) for total in sums)
        out[g] = means.setdefault(mean, int(g))
    return out


def separated_exactly(scatter: ClassScatter, r: int, groups: Sequence[np.ndarray], tolerance: float) -> bool:
    """Prove that the ratio is unbounded: all means differ where no class has any scatter, exactly.

    Parameters
    ----------
    scatter : ClassScatter
        Means and scatters as they are given.
    r : int
        Final dimension.
    groups : list of ndarray
        Which classes are compared with each other.
    tolerance : float
        Means have to differ by so much, relative to their size; rounding is far below.
    """
    if scatter.independent and r < scatter.c:
        return True
    if scatter.still is None or int(scatter.still.sum()) < r:
        return False
    means = scatter.means[:, scatter.still]
    apart = np.max(np.abs(means[:, None, :] - means[None, :, :]), axis=2)
    far = apart > tolerance * float(np.max(np.abs(scatter.means)))
    return all(far[np.ix_(group, group)][~np.eye(group.size, dtype=bool)].all() for group in groups)


def always_scattered(box: SpectralBox, scatters: Rows) -> bool:
    """Prove that every point has some scatter, so that equal means leave no ratio above zero.

    Parameters
    ----------
    box : SpectralBox
        The set of the points.
    scatters : Rows
        One row a class.
    """
    total, error = scatters.enclose_adjoint(-np.ones(scatters.m))
    return box.support_upper(total, error, 0.0, None)[0] < 0.0
