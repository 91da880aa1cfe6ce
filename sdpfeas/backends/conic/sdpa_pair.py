"""A problem as solvers of SDPA's pair of programs get it, and their answers as ours.

The pair is that of an SDPA file: matrices ``X`` with ``<F_i, X> = c_i``, and numbers ``y`` with
``sum_k y_k F_k - F_0 = Z`` positive semidefinite. A problem is one side of it, and what proves it infeasible
is a ray of the other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.sdpa_sides import (
    EqualityForm,
    LmiForm,
    SdpaData,
    equality_form,
    lmi_form,
    primal_data,
)

__all__ = ["PairAnswer", "PosedPair", "SedumiData", "Side", "as_lmi", "pose"]

#: Which side of the pair a problem is, or whichever fits.
Side = Literal["auto", "lmi", "equality"]


class PairAnswer(NamedTuple):
    """What a solver found for both sides.

    Attributes
    ----------
    y : ndarray
        One number per matrix of the file.
    X : sequence of ndarray
        One array per block.
    """

    y: FloatArray
    X: Sequence[FloatArray]


@dataclass(frozen=True)
class SedumiData:
    """The same pair in memory: ``A x = b`` with ``x`` in cones, and ``c - A'y`` in them.

    The numbers of diagonal blocks come first, then whole matrices. ``x`` is ``X``, and ``y`` has the other
    sign.

    Attributes
    ----------
    A : sparse array
        One row per matrix of the file.
    b, c : ndarray
        Its right side, and the costs.
    nonneg : int
        How many numbers of ``x`` are nonnegative.
    semidefinite : tuple of int
        Sides of the matrices.
    """

    A: sp.csr_array
    b: FloatArray
    c: FloatArray
    nonneg: int
    semidefinite: tuple[int, ...]
    _starts: np.ndarray
    _sizes: np.ndarray

    def blocks(self, x: FloatArray) -> list[FloatArray]:
        """Cut ``x`` into the blocks of the file, in their order there."""
        out = []
        for start, size in zip(self._starts.tolist(), self._sizes.tolist(), strict=True):
            part = x[start : start + (size * size if size > 0 else -size)]
            out.append(part.reshape(size, size) if size > 0 else part)
        return out


class PosedPair(ABC):
    """A problem as one side of a pair without empty matrices, which some solvers do not take.

    Attributes
    ----------
    data : SdpaData
        The file.
    side : str
        Which side the problem is.
    wants : str
        What a point is made of, ``"X"`` or ``"y"``; a certificate is made of the other.
    """

    side: ClassVar[Literal["lmi", "equality"]]
    wants: ClassVar[Literal["X", "y"]]

    def __init__(self, data: SdpaData) -> None:
        self._count = data.c.size
        self._kept = np.unique(data.matrix[data.matrix > 0]) - 1
        numbers = np.zeros(self._count + 1, dtype=np.int64)
        numbers[self._kept + 1] = np.arange(1, self._kept.size + 1)
        self.data = replace(data, c=data.c[self._kept], matrix=numbers[data.matrix])

    def _full(self, y: FloatArray) -> FloatArray:
        out = np.zeros(self._count)
        out[self._kept] = y
        return out

    @abstractmethod
    def point(self, answer: PairAnswer) -> Point:
        """The point of the problem that an answer holds."""

    @abstractmethod
    def certificate(self, answer: PairAnswer) -> FloatArray:
        """The multipliers of the problem that an answer holds."""

    @cached_property
    def sedumi(self) -> SedumiData:
        """The pair in memory."""
        data = self.data
        diagonal = data.sizes < 0
        length = np.where(diagonal, -data.sizes, data.sizes**2)
        order = np.argsort(~diagonal, kind="stable")
        starts = np.empty_like(length)
        starts[order] = np.concatenate([[0], np.cumsum(length[order])[:-1]])
        size = np.where(diagonal, 0, data.sizes)[data.block]
        place = starts[data.block] + data.row * size + np.where(diagonal[data.block], data.row, data.column)
        mirror = starts[data.block] + data.column * size + data.row
        off = ~diagonal[data.block] & (data.row != data.column)
        entries = np.concatenate([data.value, data.value[off]])
        where = np.concatenate([data.matrix, data.matrix[off]]), np.concatenate([place, mirror[off]])
        whole = sp.csr_array((entries, where), shape=(data.c.size + 1, int(length.sum())))
        costs = -whole[[0]].toarray()[0]
        sides = tuple(data.sizes[~diagonal].tolist())
        return SedumiData(whole[1:], data.c, costs, int(length[diagonal].sum()), sides, starts, data.sizes)


class _Rows(PosedPair):
    """``<F_i, X> = c_i``: the point is X, a certificate -y."""

    side, wants = "equality", "X"

    def __init__(self, form: EqualityForm) -> None:
        super().__init__(primal_data(form.problem))
        self._form = form

    def point(self, answer: PairAnswer) -> Point:
        return self._form.point(tuple(answer.X))

    def certificate(self, answer: PairAnswer) -> FloatArray:
        return self._form.multipliers(self._full(-answer.y))


class _Lmi(PosedPair):
    """``sum_k y_k F_k - F_0 = Z``: the point is y, a certificate X."""

    side, wants = "lmi", "y"

    def __init__(self, form: LmiForm) -> None:
        super().__init__(form.data)
        self._form = form

    def point(self, answer: PairAnswer) -> Point:
        return self._form.point((self._full(answer.y),))

    def certificate(self, answer: PairAnswer) -> FloatArray:
        return self._form.multipliers(np.concatenate([x.reshape(-1) for x in answer.X]))


def as_lmi(problem: FeasibilityProblem) -> LmiForm | None:
    """The problem as a linear matrix inequality; None if it is not one.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    """
    try:
        form = lmi_form(problem)
    except ProblemError:
        return None
    return form if form.data.matrix.any() else None


def pose(problem: FeasibilityProblem, side: Side) -> PosedPair:
    """Make a problem one side of a pair.

    Parameters
    ----------
    problem : FeasibilityProblem
        Made of PSD, Nonneg and Free blocks.
    side : {"auto", "lmi", "equality"}
        Which side; ``"auto"`` is a linear matrix inequality where the problem is one. Every other problem
        gets slack variables, and its Free blocks are split in two.
    """
    form = None if side == "equality" else as_lmi(problem)
    return _Rows(equality_form(problem)) if form is None else _Lmi(form)
