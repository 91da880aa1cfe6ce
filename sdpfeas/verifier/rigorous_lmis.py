"""What LMIs add to floating-point proofs.

FEASIBLE: the value of the LMI is enclosed, and all that is near it is proved to lie in the set: for PSD by
one factorisation. INFEASIBLE: multipliers ``(y, Y)`` with

``sum_b sigma_b((A*y + B*Y)_b) + sigma_C(-Y) < beta(y) - <Y, F(0)>``

where sigma_C(-Y) is zero for a cone and Y in its dual. On Free blocks ``A*y + B*Y`` has to vanish exactly.
That is shown like equality rows of a point: the equations are the free entries, what may move are the
multipliers, each Y by less than its depth in the cone.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import TINY, gamma, inflate, norm_upper, product_up, sum_lower, sum_up
from sdpfeas.problem.lmi import LMI, mirrored
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Dense, Rows, Sparse, Stacked
from sdpfeas.problem.rows.matrix_view import dense_columns, vector_columns
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.equality_correction import MAX_DENSE_ROWS, CorrectionSystem, Movable
from sdpfeas.verifier.gram import BOUND_SHARE
from sdpfeas.verifier.outcome import Outcome, Tolerances, refuse
from sdpfeas.verifier.point_metric import MET, Entrywise, MetricSystem, Rooted, metric_part, only_stored

Enclosed = tuple[FloatArray, FloatArray]


def lmi_slip(lmi: LMI, moved: list[float | FloatArray]) -> float:
    """Bound of how far ``F(X)`` moves where every block moves by no more than so much.

    ``moved``: for every block a Frobenius norm, or one weight an entry of a vector of norm at most one.
    """
    total = 0.0
    for rows, step in zip(lmi.coefficients, moved, strict=True):
        if not rows.empty and np.any(step):
            total = float(sum_up(total, norm_upper(product_up(rows.norms_upper, step))))
    return total


def lmi_margin(target: BlockSet, value: FloatArray, slip: float) -> float:
    """Depth of a value in its set less what it may be off, relative to its largest eigenvalue."""
    lam = target.spectrum(value)
    size = float(np.max(np.abs(lam)))
    size = max(size, target.spectral_radius) if target.bounded else size
    return min(max((target.depth_spectrum(lam) - slip) / size, 0.0), 1.0) if size > 0.0 else 1.0


class LmiMultipliers:
    """Multipliers of a problem with LMIs, and the equations on its Free blocks.

    ``y``: the multipliers of the rows, then those of the LMIs.
    """

    def __init__(self, problem: FeasibilityProblem, y: FloatArray) -> None:
        self.problem, self.flat = problem, y
        self.rows, self.own = problem.split(y)
        self._free = [b for b, block in enumerate(problem.sets) if block.free]

    def enclose(self, b: int) -> Enclosed:
        """``A*y + B*Y`` on one block, with a proven radius for every entry."""
        block, rows = self.problem.sets[b], self.problem.rows[b]
        parts: list[Enclosed] = []
        if not rows.empty and self.rows.any():
            parts.append(rows.enclose_adjoint(self.rows))
        for lmi, own in zip(self.problem.lmis, self.own, strict=True):
            coefficients = lmi.coefficients[b]
            if not coefficients.empty and own.any():
                value, error = coefficients.enclose_apply(own)
                parts.append((mirrored(value, block), mirrored(error, block)))
        total, radius, size = (np.zeros(block.shape) for _ in range(3))
        terms = np.zeros(block.shape, dtype=np.int64)
        for value, error in parts:
            total += value
            size += np.abs(value)
            terms += value != 0.0
            radius = sum_up(radius, error)
        k = len(parts) + 2
        return total, sum_up(radius, np.where(terms > 1, product_up(gamma(k), inflate(size, k)), 0.0))

    @cached_property
    def residual(self) -> FloatArray:
        """Upper bounds of what is left on the free entries."""
        return np.concatenate([np.zeros(0), *(inflate(np.abs(g) + e, 4) for g, e in self._left)])

    @cached_property
    def _left(self) -> list[Enclosed]:
        return [self.enclose(b) for b in self._free]

    @property
    def met(self) -> bool:
        """Whether the free entries vanish as well as floating point can make them."""
        return all(bool(np.all(np.abs(g) <= MET * e)) for g, e in self._left)

    @cached_property
    def _columns(self) -> Any | None:
        """Coefficients of the rows on the free entries, one line each; None if they cannot be had exactly."""
        parts = []
        for b in self._free:
            rows = self.problem.rows[b]
            if not only_stored(rows):
                return None
            parts.append(vector_columns(rows))
        if all(sp.issparse(part) for part in parts):
            return sp.csr_array(sp.hstack(parts, format="csr").T)
        return np.hstack([dense_columns(part) for part in parts]).T

    @cached_property
    def weight(self) -> FloatArray:
        """How far the multiplier of every row may move: not at all if no Free block has a part in the row."""
        problem, size = self.problem, np.abs(self.rows)
        if not problem.m or self._columns is None:
            return np.zeros(problem.m)
        touched = np.asarray(abs(self._columns).sum(axis=0)).ravel() > 0.0
        signed = np.isinf(problem.lower) | np.isinf(problem.upper)
        unit = power_of_two(problem.norms)
        return np.where(touched, np.where(signed, size, float(np.max(size / unit)) * unit), 0.0)

    def _coefficients(self, lmi: LMI) -> Rows:
        """Those of all free entries, one row for each."""
        parts = [lmi.coefficients[b] for b in self._free]
        return parts[0] if len(parts) == 1 else Stacked(parts)

    def _movable(self, weights: list[float | FloatArray | None]) -> tuple[list[Movable], np.ndarray]:
        """The multipliers that may move, with the equations they have a part in."""
        touched = self.residual != 0.0  # or not a number
        found: list[tuple[int, Rows, float | FloatArray]] = []
        for j, (lmi, weight) in enumerate(zip(self.problem.lmis, weights, strict=True)):
            if weight is not None and np.any(weight):
                rows = self._coefficients(lmi)
                touched |= rows.norms_upper > 0.0
                found.append((j, rows, weight))
        if self.weight.any():
            columns: Any = self._columns
            touched |= np.asarray(abs(columns).sum(axis=1)).ravel() > 0.0
            rows = Sparse(columns, self.problem.m, False) if sp.issparse(columns) else Dense(columns)
            found.append((len(weights), rows, self.weight))
        index = np.flatnonzero(touched)
        return [Movable(j, rows.select(index), weight) for j, rows, weight in found], index

    def system(self, weights: list[float | FloatArray | None]) -> tuple[CorrectionSystem, np.ndarray] | None:
        """Equations that the multipliers are moved for, and which; None if there are too many.

        ``weights``: how far the multiplier of every LMI may move, as in :class:`Movable`; None for not at
        all.
        """
        parts, index = self._movable(weights)
        if not parts or index.size > MAX_DENSE_ROWS:
            return None
        return CorrectionSystem(parts, index.size), index

    def metric_system(self) -> tuple[MetricSystem, np.ndarray] | None:
        """As :meth:`system`, every matrix in its own metric; None if nothing is proved of it."""
        proved = self.depths()
        parts, index = self._movable(
            [
                1.0 if w is None and lmi.set.matrix else w
                for w, lmi in zip(proved, self.problem.lmis, strict=True)
            ]
        )
        if index.size > MAX_DENSE_ROWS:
            return None
        found: list[Entrywise | Rooted] = []
        for part in parts:
            target = self.problem.lmis[part.block].set if part.block < len(proved) else None
            if target is not None and target.matrix and target.cone:
                rooted = metric_part(part.block, target, self.own[part.block], part.rows)
                found += [] if rooted is None else [rooted]
            else:
                found.append(Entrywise(part.block, part.rows, part.weight))
        return (MetricSystem(found, index.size), index) if found else None

    def depths(self) -> list[float | FloatArray | None]:
        """How far the multiplier of every LMI may move and is proved to stay where it has to be."""
        out: list[float | FloatArray | None] = []
        for lmi, own in zip(self.problem.lmis, self.own, strict=True):
            out.append(norm_upper(own) or 1.0 if lmi.set.bounded else lmi.set.room(own, BOUND_SHARE))
        return out

    def corrected(self, *, metric: bool = False) -> FloatArray | None:
        """Multipliers for which ``A*y + B*Y`` vanishes on Free blocks up to rounding, if any are found.

        ``metric``: whether matrices are moved in their own metric; for those in the interior.
        """
        sizes: list[float | FloatArray | None] = []
        for lmi, own in zip(self.problem.lmis, self.own, strict=True):
            largest = float(np.max(np.abs(own)))
            whole = np.maximum(own, 1e-3 * largest) if lmi.set.entrywise else largest
            sizes.append(whole if largest > 0.0 else None)
        found: tuple[CorrectionSystem | MetricSystem, np.ndarray] | None = None
        if self.residual.any():
            found = self.metric_system() if metric else self.system(sizes)
        if found is None or not found[0].usable:
            return None
        system, index = found
        evidence: Point = (*self.own, self.rows)
        for _ in range(2):
            now = LmiMultipliers(self.problem, _flat(evidence))
            off = np.concatenate([now.enclose(b)[0] for b in self._free])
            evidence = system.correct(evidence, -off[index])
        return _flat(evidence)


def _flat(evidence: Point) -> FloatArray:
    *own, rows = evidence
    return np.concatenate([rows, *(part.reshape(-1) for part in own)])


def prove_lmi_certificate(problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances) -> Outcome:
    """Prove that multipliers of rows and LMIs, or exact ones next to them, rule out every point.

    ``y``: finite multipliers, of the right sign for every row.
    """
    given = LmiMultipliers(problem, y)
    local, parts, moved = 0.0, dict[int, Movable | Entrywise | Rooted](), np.zeros(problem.m)
    if given.residual.any():
        moving = _correction(given, tolerances)
        if isinstance(moving, Outcome):
            return moving
        system, local = moving
        parts = {part.block: part for part in system.parts}
        if len(problem.lmis) in parts:
            moved = given.weight
    terms = problem.beta_terms(y)
    slips = [norm_upper(product_up(moved, largest_bound(problem)))]
    slips += [_constant_slip(lmi, parts[j]) for j, lmi in enumerate(problem.lmis) if j in parts]
    slip = product_up(local, sum_up(0.0, *slips)) if local else 0.0
    beta = sum_lower(terms, float(sum_up(slip, terms.size * TINY)))
    total, scale = 0.0, float(np.sum(np.abs(terms)))
    for j, (lmi, own) in enumerate(zip(problem.lmis, given.own, strict=True)):
        part = parts.get(j)
        if part is not None and not lmi.set.bounded:
            continue  # a step shorter than its depth leaves it in the cone
        slip = 0.0 if part is None else float(product_up(local, part.reach))
        everywhere = np.ones(lmi.set.shape, dtype=bool) if slip else None
        support, size = lmi.set.support_upper(-own, np.zeros(lmi.set.shape), slip, everywhere)
        if not math.isfinite(support):
            name = problem.lmi_name(j)
            return refuse(f"the multiplier of LMI {name} is not provably in the dual of its set")
        total, scale = float(sum_up(total, support)), scale + size
    for b, block in enumerate(problem.sets):
        if block.free:
            continue
        g, error = given.enclose(b)
        if not (np.isfinite(g).all() and np.isfinite(error).all()):
            return refuse("A*y overflows")
        slip, moves = _block_slip(problem, b, local, moved, parts)
        support, size = block.support_upper(g, error, slip, moves if slip else None)
        if not math.isfinite(support):
            return refuse(f"A*y is not provably non-positive on block {problem.block_name(b)}")
        total, scale = float(sum_up(total, support)), scale + size
    gap = float(np.nextafter(beta - total, -np.inf))
    if not gap > 0.0:
        return refuse(f"the two sides of the certificate do not provably differ (gap {gap:.3g})")
    near = "the multipliers" if local == 0.0 else "exact multipliers next to the given ones"
    margin = min(gap / scale, 1.0) if scale > 0.0 else 1.0
    return Outcome(True, margin, f"{near} rule out every point: rows and LMIs contradict each other")


def _constant_slip(lmi: LMI, part: Movable | Entrywise | Rooted) -> float:
    """Bound of how far a unit step of the multiplier moves its product with the constant."""
    coarse = norm_upper(product_up(np.abs(lmi.constant), part.weight))
    return min(coarse, part.slope(lmi.constant)) if isinstance(part, Rooted) else coarse


def _correction(
    given: LmiMultipliers, tolerances: Tolerances
) -> tuple[CorrectionSystem | MetricSystem, float] | Outcome:
    """What is moved to make the equations of Free blocks hold, and how far; or why that is not proved."""
    refused = refuse("A*y does not vanish on the free blocks, and no multiplier can be moved provably")
    size = norm_upper(given.flat)
    for make in (lambda: given.system(given.depths()), given.metric_system):
        found = make()
        if found is None:
            continue
        system, index = found
        local = system.correction_upper(given.residual[index])
        if not math.isfinite(local):
            refused = refuse(
                "A*y does not vanish on the free blocks, and their columns are not provably independent"
            )
        elif not local < 1.0 or not (
            given.met or all(local * part.reach <= tolerances.snap * size for part in system.parts)
        ):
            refused = refuse(
                "A*y does not vanish on the free blocks: an exact certificate may be "
                f"{local:.3g} of the distance to the boundary away"
            )
        else:
            return system, local
    return refused


def _block_slip(
    problem: FeasibilityProblem, b: int, local: float, moved: FloatArray, parts: dict[int, Any]
) -> tuple[float, np.ndarray]:
    """Bound of how far a correction moves ``A*y + B*Y`` on a block, and which entries it may move."""
    block, rows = problem.sets[b], problem.rows[b]
    moves = np.zeros(block.shape, dtype=bool)
    slips = []
    if not rows.empty and moved.any():
        slips.append(norm_upper(product_up(moved, problem.upper_norms[b])))
        moves |= rows.magnitude_adjoint_upper(moved) != 0.0
    for j, lmi in enumerate(problem.lmis):
        coefficients = lmi.coefficients[b]
        if j in parts and not coefficients.empty:
            slips.append(float(product_up(norm_upper(coefficients.norms_upper), parts[j].reach)))
            moves |= coefficients.norms_upper.reshape(block.shape) != 0.0
    return (float(product_up(local, sum_up(0.0, *slips))) if local else 0.0), moves
