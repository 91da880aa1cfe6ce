"""Write a problem in rows alone, exactly, over sets with known faces (for facial reduction).

LMIs become slack blocks (``lmi_to_slack``), second-order and Hermitian cones become PSD blocks
(``cones_to_psd``). Facial reduction certificates are mapped in both directions in fractions, so they prove
the same about either problem.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.exact_arithmetic import Reading, sum_of, written
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.base import ComposedReduction, changed
from sdpfeas.problem.reductions.cones_to_psd import ConesToPsd, cones_to_psd
from sdpfeas.problem.reductions.lmi_to_slack import LmiToSlack, lmi_entries, with_slacks
from sdpfeas.problem.rows import Rows, Sparse
from sdpfeas.problem.sets import PSD, BlockSet, Free, HermitianPSD, Nonneg, SecondOrder, SpectralBox

__all__ = ["RowsOnly", "has_faces", "rows_only", "slack_rows"]

#: Sets that facial reduction handles: PSD and Nonneg have faces, the others are kept whole.
FACE_SETS: tuple[type[BlockSet], ...] = (PSD, Nonneg, Free, SpectralBox)

#: Kinds of rows that store their entries explicitly.
EXPLICIT_KINDS = ("dense", "sparse")


class RowsOnly(ComposedReduction):
    """A problem in rows alone, made by ``lmi_to_slack`` and then ``cones_to_psd``."""

    def __init__(self, slack: LmiToSlack, psd_reduction: ConesToPsd) -> None:
        super().__init__(slack, psd_reduction)
        self._slack, self._psd_reduction = slack, psd_reduction

    def rational_point(self, point: Point) -> Point | None:
        """Map a rational point exactly; None if cones were replaced, whose maps are in floating point."""
        return (
            self._slack.point(point) if self._psd_reduction.original is self._psd_reduction.problem else None
        )

    def forth(self, y: np.ndarray) -> np.ndarray:
        """Map rational multipliers of the original problem to those of the rows."""
        return self._slack.to_rows(_as_fractions(y))

    def back(self, y: np.ndarray) -> np.ndarray:
        """Map rational multipliers of the rows to those of the original problem."""
        return self._slack.to_lmis(_as_fractions(y))


def _as_fractions(y: np.ndarray) -> np.ndarray:
    return np.array([*map(Fraction, y.tolist()), None], dtype=object)[:-1]


def slack_rows(problem: FeasibilityProblem) -> list[int]:
    """Return, for every row after the original ones, the index of the LMI it comes from."""
    return [j for j, lmi in enumerate(problem.lmis) for _ in lmi_entries(lmi.set)[0]]


def has_faces(problem: FeasibilityProblem, reading: Reading = Reading.STORED) -> bool:
    """Return whether a problem can be written in rows alone without rounding, over ``FACE_SETS``.

    The rows of Hermitian matrices are sums of data, which are exact in the reading ``stored`` only.
    """
    sets = [*problem.sets, *(lmi.set for lmi in problem.lmis)]
    if not all(type(block) in (*FACE_SETS, SecondOrder, HermitianPSD) for block in sets):
        return False
    if reading != Reading.STORED:
        if any(type(block) is HermitianPSD for block in sets):
            return False
        # Bounds and trace of a box are always the stored doubles, so the reading must not change them.
        numbers = [v for block in sets for v in block.spec().values() if isinstance(v, float)]
        if any(math.isfinite(v) and written(v) != Fraction(v) for v in numbers):
            return False
    parts = [rows for lmi in problem.lmis for rows in lmi.coefficients]
    parts += [rows for _, block, rows in problem.blocks() if type(block) not in FACE_SETS or problem.lmis]
    if not all(rows.empty or rows.kind in EXPLICIT_KINDS for rows in parts):
        return False
    mixed = [rows for _, block, rows in problem.blocks() if type(block) is HermitianPSD]
    # LMIs need no check: the coefficients of their slack blocks are -1.
    return all(_exact_halves(rows) for rows in mixed)


def _exact_halves(rows: Rows) -> bool:
    """Return whether half the sums and differences of mirrored entries are exact doubles."""
    array = rows.to_csr().toarray()
    side = math.isqrt(array.shape[-1])
    own = array.reshape(-1, side, side) / 2
    if not np.array_equal(2.0 * own, array.reshape(own.shape)):
        return False
    mirrored = own.transpose(0, 2, 1)
    return not any(np.any(sum_of(own, other)[1]) for other in (mirrored, -mirrored))


def _sparse(rows: Rows) -> Rows:
    return rows if isinstance(rows, Sparse) else Sparse(rows.explicit(), rows.n, rows.matrix)


def rows_only(problem: FeasibilityProblem) -> RowsOnly:
    """Write a problem in rows alone; cached on the problem.

    Raises ``ProblemError`` if :func:`has_faces` is false.
    """
    return problem.cached(_rows_only)


def _rows_only(problem: FeasibilityProblem) -> RowsOnly:
    if not has_faces(problem):
        raise ProblemError("the problem cannot be written in rows alone without rounding")
    plain = problem
    if problem.lmis:
        # Sparse rows, so that the rows of the LMIs are appended to the same matrix.
        rows = [_sparse(part) for part in problem.rows]
        plain = changed(problem, rows=rows)
    slack = replace(with_slacks(plain), original=problem)
    return RowsOnly(slack, cones_to_psd(slack.problem, FACE_SETS))
