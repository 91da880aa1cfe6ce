"""The one program of worst-case discriminant analysis, over all pairs and classes or those that matter."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sdpfeas.families.active_rows import Part, WorkingRows
from sdpfeas.families.base import column
from sdpfeas.families.wlda.pricing import Pricing, balanced_weights
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.rows import LowRank, Rows, Stacked
from sdpfeas.problem.sets import Nonneg, SpectralBox

#: Relative error of the ratio that a start is made for.
START_ACCURACY = 1e-2

#: Up to so many pairs all are worked on at once; their structure makes up for their number.
FEW_PAIRS = 800

#: Pairs to begin with: those closer than so many times the closest, but at least and at most so many times
#: the dimension; and classes within this share of the widest.
CLOSE, LEAST, MOST = 2.0, 4, 8
WIDE = 0.5


def one_program(
    box: SpectralBox,
    pairs: Rows,
    scatters: Rows,
    pricing: Pricing,
    means: FloatArray,
    pair_index: np.ndarray,
    weights: tuple[FloatArray, FloatArray, float] | None = None,
) -> tuple[WorkingRows | None, ConicProgram]:
    """Pose ``max t`` subject to ``<S_ij, Z'> >= t``, ``<S_k, Z'> <= s`` and ``Z'`` in tau times the box.

    ``pairs, scatters``: one row a pair of classes, and one a class. ``pair_index``: the two classes of
    every pair. ``weights``: weights of the pairs and of the classes to start from, and a ratio near what
    they rule out; default: balanced ones.

    Returns: the rows that are worked on; None if all are.
    """
    u, w, near = balanced_weights(box, pairs, scatters) if weights is None else weights
    delta, matrix = pricing.price(u, w, near, START_ACCURACY)
    apart, wide = pairs.apply(matrix), scatters.apply(matrix)
    least, most = float(np.min(apart)), float(np.max(wide))
    limit = float(2.0 ** np.round(np.log2(most))) if most > 0.0 else 1.0
    working = None
    chosen = [np.arange(pairs.m), np.arange(scatters.m)]
    if pairs.m <= FEW_PAIRS:
        program = _posed(box, Stacked([pairs, scatters]), pairs.m, scatters.m, limit)
    else:

        def pose(rows: Sequence[np.ndarray]) -> ConicProgram:
            i, j = pair_index[rows[0]].T
            count = rows[0].size
            # Rounded differences: what is computed from them is proved about the means themselves.
            some = LowRank.from_stacked(means[i] - means[j], np.ones(count), np.arange(count), count)
            classes = scatters.select(rows[1])
            return _posed(box, Stacked([some, classes]), count, classes.m, limit)

        def room(point: Point) -> FloatArray:
            level = max(float(point[1][0]), 1e-300)
            return np.asarray(pairs.apply(point[0]) / level - 1.0)

        def spare(point: Point) -> FloatArray:
            return np.asarray(1.0 - scatters.apply(point[0]) / limit)

        count = int(np.clip(np.count_nonzero(apart < CLOSE * least), LEAST * box.n, MOST * box.n))
        closest = np.sort(np.argpartition(apart, min(count, pairs.m - 1))[:count])
        chosen = [closest, np.flatnonzero(wide >= WIDE * most)]
        parts = [Part(room, chosen[0], pairs.m), Part(spare, chosen[1], scatters.m)]
        working = WorkingRows(parts, pose)
        program = working.program
    if not (math.isfinite(delta) and least > 0.0 and most > 0.0):
        return working, program
    tau = limit / most
    point = tau * matrix, np.array([0.9 * tau * least]), np.array([tau])
    u, w = u[chosen[0]], w[chosen[1]]
    if not (u.sum() > 0.0 and w.sum() > 0.0):
        return working, program
    start = point, np.concatenate([u / u.sum(), -delta * w / w.sum()])
    return working, replace(program, start=start)


def _posed(box: SpectralBox, rows: Rows, pairs: int, groups: int, limit: float) -> ConicProgram:
    level = column(0, pairs, pairs + groups, -1.0)
    problem = FeasibilityProblem(
        [box, Nonneg(1), Nonneg(1)],
        [rows, level, None],
        np.concatenate([np.zeros(pairs), np.full(groups, -np.inf)]),
        np.concatenate([np.full(pairs, np.inf), np.full(groups, limit)]),
        block_names=["Z", "t", "tau"],
    )
    return ConicProgram(problem, (np.zeros(box.shape), np.ones(1), np.zeros(1)), scale=2)
