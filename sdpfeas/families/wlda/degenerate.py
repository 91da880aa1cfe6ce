"""What class scatters give away before any solve: equal means, and directions without scatter.

Both make ratios trivial (see :mod:`~sdpfeas.families.wlda.geometry`). Here they are found, put into words,
and taken out of the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sdpfeas.families.wlda.geometry import (
    JUDGED,
    RANK_TOLERANCE,
    ClassScatter,
    NullSpace,
    separated_exactly,
    split,
)

#: Coordinates whose sizes differ by more than this are worth a word: proofs work with 1e16, and squares.
WIDE = 1e8


@dataclass(frozen=True)
class Analysis:
    """Class scatters ready to be posed, and what was found out about them.

    ``scatter``: all of them; equal means are exactly equal, and scatters exactly zero on ``null``.
    ``core``: what the problems are posed on. ``compared``: groups of classes; those within a group are
    compared. ``groups``: the groups that were asked for. ``same``: for every class the first one with its
    mean. ``null_dim``: dimension of the common null space of the scatters. ``null``: that null space, where
    it holds all directions asked for. ``separated``: whether all means provably differ on that null space.
    ``vacuous``: whether it makes every ratio feasible, though none is attained.
    """

    scatter: ClassScatter
    core: ClassScatter
    trace: int
    compared: list[np.ndarray]
    groups: list[np.ndarray]
    same: np.ndarray
    null_dim: int
    null: NullSpace | None = None
    vacuous: bool = False
    notes: tuple[str, ...] = ()
    separated: bool = False

    @cached_property
    def coincide(self) -> bool:
        """Whether means that are compared are equal."""
        return any(np.unique(self.same[group]).size < group.size for group in self.groups)

    @cached_property
    def coincide_exactly(self) -> bool:
        """Whether means that are compared are provably equal, to the last bit."""
        same = self.scatter.coincident
        return same is not None and any(np.unique(same[group]).size < group.size for group in self.groups)

    def alike(self) -> list[np.ndarray]:
        """Classes with the same mean, group by group."""
        return [group for group in split(np.arange(self.same.size), self.same) if group.size > 1]

    def distinct(self) -> list[np.ndarray]:
        """The groups with one class of every mean, as far as there are two left to compare."""
        kept = [np.array([part[0] for part in split(group, self.same[group])]) for group in self.groups]
        return [group for group in kept if group.size > 1]


def analyse(scatter: ClassScatter, r: int, groups: list[np.ndarray]) -> Analysis:
    """Find equal means and the common null space of the scatters, and choose what to pose.

    ``scatter``: means and scatters, on the range of the total scatter. ``groups``: which classes to compare
    with each other.
    """
    notes: tuple[str, ...] = ()
    if scatter.k < scatter.basis.shape[0]:
        notes += (f"the total scatter has rank {scatter.k} of {scatter.basis.shape[0]} features",)
    same = scatter.equal_means()
    if any(np.unique(same[group]).size < group.size for group in groups):
        notes += ("two classes have the same mean",)
    if np.unique(same).size < scatter.c:
        scatter = scatter.merged_means(same)
    null_dim = scatter.k - scatter.within_rank()
    plain = Analysis(scatter, scatter, r, groups, groups, same, null_dim, notes=notes)
    if null_dim < r:
        return plain
    found = _split_null(plain, r)
    # About the data as they were given, before anything was rounded to zero.
    exactly = found.null is not None and separated_exactly(plain.scatter, r, groups, RANK_TOLERANCE)
    return replace(found, separated=exactly)


def _split_null(found: Analysis, r: int) -> Analysis:
    """Rotate the common null space to the end, and leave it out if it only makes ratios vacuous."""
    q, inside = found.null_dim, found.scatter.within_rank()
    turned = found.scatter.rotated(found.scatter.null_basis()).without_last(q)
    alike = turned.equal_means(start=inside)
    stuck = [part for group in found.groups for part in split(group, alike[group]) if part.size > 1]
    same, groups = found.same, found.groups
    if not stuck:
        note = f"the class scatters share a null space of dimension {q}, in which all means differ"
        null = NullSpace(turned, inside, [])
        return Analysis(turned, turned, r, groups, groups, same, q, null, notes=(*found.notes, note))
    if inside == 0:
        return Analysis(turned, turned, r, groups, groups, same, q, notes=found.notes)
    note = (
        f"the class scatters share a null space of dimension {q}, on which some means agree: every "
        "ratio is feasible there, as 0 >= delta·0, but none is attained"
    )
    null = NullSpace(turned, inside, stuck)
    core = turned.rotated(np.eye(turned.k)[:, :inside])
    return Analysis(turned, core, 1, stuck, groups, same, q, null, True, (*found.notes, note))


def unbounded(found: Analysis, r: int) -> str:
    """Say why the ratio is unbounded, and whether that is proved.

    ``found``: what was found out about the data.
    """
    return (
        f"the class scatters share a null space of dimension {found.null_dim} >= r = {r} on which all class "
        f"means differ: the ratio is unbounded{'' if found.separated else JUDGED}"
    )


def scale_caveat(scatter: ClassScatter) -> str:
    """Say so where coordinates differ in size by more than proofs can bridge; else nothing.

    ``scatter``: what the problems are posed on.
    """
    powers = scatter.feature_powers()
    spread = float(np.max(powers) / np.min(powers))
    if spread <= WIDE:
        return ""
    return (
        f"features differ in size by {math.log10(spread):.0f} orders of magnitude, more than proofs bridge: "
        "bounds may stay loose, and the upper one infinite; scale the features"
    )
