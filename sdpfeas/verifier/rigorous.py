"""Rigorous mode: proofs in floating-point arithmetic with a bound on every rounding error.

Notation: ``A(X)`` is the vector of row values ``<A_i, X>``, ``A*y = sum_i y_i A_i``, ``beta(y)`` the sum of
``y_i lower_i`` over ``y_i > 0`` and of ``y_i upper_i`` over ``y_i < 0``, ``sigma_b`` the support function of
set ``b``. Theorem numbers refer to docs/mathematics.md.

:func:`prove_point` proves feasibility by an existence proof (Theorem 5): if the equality rows are linearly
independent on the blocks that may move, and the least-norm correction of their residual is shorter than the
distance of the point to the boundary of its sets, then an exact solution exists near the point. All other
rows and LMIs must hold at every point within that distance. Compare Jansson, Chaykin and Keil, "Rigorous
error bounds for the optimal value in semidefinite programming" (2007).

:func:`prove_certificate` proves infeasibility by Farkas' lemma (Theorem 1): there is no feasible point if
``sum_b sigma_b((A*y)_b) < beta(y)``. Both sides are bounded outward. Nothing here changes a claim; see
:mod:`sdpfeas.verifier.repair`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import (
    TINY,
    difference_down,
    gamma,
    inflate,
    norm_upper,
    product_up,
    sum_lower,
    sum_up,
)
from sdpfeas.problem.lmi import LMI, mirrored
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.rows import Dense, Rows, Sparse, Stacked
from sdpfeas.problem.rows.base import dense_array
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.equality_correction import (
    MAX_DENSE_ROWS,
    SPARSE_PRODUCT_ROWS,
    CorrectionSystem,
    FreeColumns,
    Movable,
    correction_systems,
)
from sdpfeas.verifier.gram import BOUND_SHARE
from sdpfeas.verifier.outcome import Outcome, Tolerances, refuse
from sdpfeas.verifier.point_metric import (
    MET_RADII,
    CongruenceBlock,
    EntrywiseBlock,
    MetricSystem,
    metric_block,
    metric_system,
    only_stored,
)

__all__ = ["prove_certificate", "prove_point"]

DEFAULTS = Tolerances()

#: Values with a proven radius for each.
Enclosed = tuple[FloatArray, FloatArray]

#: Row values, their radii, and the sums of the magnitudes of their terms.
EnclosedRows = tuple[FloatArray, FloatArray, FloatArray]

#: The local metric is tried only if every equality residual is below this share of its terms; a larger
#: residual needs a repair first.
MAX_RESIDUAL_SHARE = 1e-7

#: The same for ``SPARSE_PRODUCT_ROWS`` equality rows or more: then a repair costs less than the metric.
MAX_RESIDUAL_SHARE_OF_MANY = 1e-11


def prove_point(problem: FeasibilityProblem, point: Point, tolerances: Tolerances = DEFAULTS) -> Outcome:
    """Prove that an exact solution exists at or near ``point``; matrices must be exactly symmetric."""
    if not all(np.isfinite(x).all() for x in point):
        return refuse("the point holds NaN or infinity")
    point = tuple(
        _clip_negative(x, tolerances.snap) if block.cone and block.entrywise else x
        for block, x in zip(problem.sets, point, strict=True)
    )
    value, radius, size = enclose_rows(problem, point)
    if not (np.isfinite(value).all() and np.isfinite(radius).all()):
        return refuse("the row values overflow")
    lmis = [lmi.enclose(point) for lmi in problem.lmis]
    if not all(np.isfinite(part).all() for both in lmis for part in both):
        return refuse("the values of the LMIs overflow")
    best = refuse("no existence proof was attempted")
    enclosed = value, radius, size
    for system in _candidate_systems(problem, point, enclosed):
        outcome = _prove_with(problem, point, enclosed, lmis, system, tolerances)
        if outcome.proven:
            return outcome
        best = outcome
    return best


def _candidate_systems(
    problem: FeasibilityProblem, point: Point, enclosed: EnclosedRows
) -> Iterator[CorrectionSystem | MetricSystem]:
    """Yield linear systems for the least-norm correction of the equality rows, the cheapest first."""
    yield from correction_systems(problem, point)
    index = problem.equality_rows
    value, radius, size = (part[index] for part in enclosed)
    share = MAX_RESIDUAL_SHARE if index.size < SPARSE_PRODUCT_ROWS else MAX_RESIDUAL_SHARE_OF_MANY
    missed = np.abs(value - problem.lower[index]) > share * (size + np.abs(problem.lower[index])) + radius
    if missed.any():
        return
    system = metric_system(problem, point)
    if system is not None:
        yield system


def _clip_negative(x: FloatArray, snap: float) -> FloatArray:
    """Set slightly negative entries to zero; the existence proof starts from there."""
    low = np.minimum(x, 0.0)
    return np.maximum(x, 0.0) if norm_upper(low) <= snap * norm_upper(x) < math.inf else x


def enclose_rows(problem: FeasibilityProblem, point: Point) -> EnclosedRows:
    """Return the row values, a proven radius for each, and the sums of the magnitudes of their terms."""
    total, radius, size = (np.zeros(problem.m) for _ in range(3))
    for rows, x in zip(problem.rows, point, strict=True):
        if not rows.empty:
            value, error = rows.enclose_apply(x)
            total += value
            size += np.abs(value)
            radius = sum_up(radius, error)
    k = len(problem.sets) + 2
    return total, sum_up(radius, product_up(gamma(k), inflate(size, k))), size


def _prove_with(
    problem: FeasibilityProblem,
    point: Point,
    enclosed: EnclosedRows,
    lmis: list[Enclosed],
    system: CorrectionSystem | MetricSystem,
    tolerances: Tolerances,
) -> Outcome:
    """Apply Theorem 5 with one correction system.

    Blocks outside the system stay fixed, up to the distance ``snapped_distance`` to an exact member of their
    set. ``local`` bounds the length of the least-norm correction in units of the distance to the boundary, so
    ``local < 1`` keeps the corrected blocks inside. ``drift`` bounds the change of every row value, ``moved``
    the displacement of every block.
    """
    value, radius, terms = enclosed
    equal = problem.equality
    drift = np.zeros(problem.m)
    moved: list[float | FloatArray] = [0.0] * len(problem.sets)
    for b, (block, x) in enumerate(zip(problem.sets, point, strict=True)):
        if b in system.blocks:
            continue
        eta = block.snapped_distance(x, tolerances.snap)
        if not math.isfinite(eta):
            return refuse(f"block {problem.block_name(b)} is not provably in its set")
        moved[b] = eta
        drift = sum_up(drift, product_up(problem.upper_norms[b], eta))
    for b, apart in system.starts(point).items():
        rows = problem.rows[b]
        moved[b] = norm_upper(apart)
        drift = drift if rows.empty else sum_up(drift, rows.magnitude_apply_upper(apart))
    local = 0.0
    if equal.any():
        off = np.abs(value[equal] - problem.lower[equal])
        local = system.correction_upper(inflate(off + radius[equal] + drift[equal], 4))
        if not math.isfinite(local):
            reason = "the equality rows are not provably independent on the blocks that can move"
            return refuse(reason, dependent=True)
        if not local < 1.0:
            return refuse(
                "the equality rows are missed by more than the distance to the boundary allows "
                f"({local:.3g} times)"
            )
        size = max(norm_upper(x) for x in point)
        met = bool(np.all(off <= MET_RADII * radius[equal]))
        if not met and any(local * part.reach > tolerances.snap * size for part in system.parts):
            return refuse(
                f"the equality rows are missed by more than {tolerances.snap:g} of the size of the point"
            )
        drift = sum_up(drift, product_up(local, system.drift_upper(problem)))
        for part in system.parts:
            moved[part.block] = sum_up(moved[part.block], product_up(part.weight, local))
    slack = np.minimum(difference_down(value, problem.lower), difference_down(problem.upper, value))
    left = difference_down(slack, sum_up(radius, drift))[~equal]
    if not np.all(left >= 0.0):
        worst = np.flatnonzero(~equal)[int(np.argmin(left))]
        return refuse(f"row {problem.row_name(int(worst))} is not provably within its bounds")
    scale = (terms + largest_bound(problem))[~equal]
    relative = np.divide(np.minimum(left, scale), scale, out=np.ones_like(left), where=scale > 0.0)
    margin = min(1.0 - local, float(np.min(relative, initial=1.0)))
    for j, (lmi, (middle, error)) in enumerate(zip(problem.lmis, lmis, strict=True)):
        slip = lmi_displacement(lmi, moved)
        if not lmi.set.proves_near(middle, error, slip):
            return refuse(f"LMI {problem.lmi_name(j)} does not provably hold")
        margin = min(margin, lmi_margin(lmi.set, middle, float(sum_up(norm_upper(error), slip))))
    where = "next to" if local > 0.0 or drift.any() or any(np.any(step) for step in moved) else "at"
    what = "every set, every row and every LMI holds" if lmis else "every set and every row holds"
    return Outcome(True, margin, f"an exact solution lies {where} the point: {what}")


def prove_certificate(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances = DEFAULTS
) -> Outcome:
    """Prove by Farkas' lemma that ``y``, or an exact certificate near it, rules out every point.

    On a Free block ``A*y`` must vanish exactly. There the least-norm correction of ``y`` is bounded as in
    Theorem 5 (``shift``, in units of how far each multiplier may move without changing sign), and its effect
    on both sides is charged. ``y`` holds one multiplier per row, then those of the LMIs.
    """
    if not np.isfinite(y).all():
        return refuse("the certificate holds NaN or infinity")
    size = float(np.max(np.abs(y), initial=0.0))
    if size == 0.0:
        return refuse("the certificate is zero")
    # A power of two changes nothing but keeps products clear of overflow and underflow.
    exponent = math.frexp(size)[1]
    scaled = np.ldexp(y, -exponent)
    y = scaled if np.array_equal(np.ldexp(scaled, exponent), y) else y
    wrong = sign_violation(problem, y)
    if np.any(wrong > 0.0):
        name = problem.row_name(int(np.argmax(wrong)))
        return refuse(f"the multiplier of row {name} has the sign its missing bound forbids")
    if problem.lmis:
        return prove_lmi_certificate(problem, y, tolerances)
    free = FreeColumns(problem, y)
    shift = free.correction_upper()
    if not math.isfinite(shift):
        return refuse(
            "A*y does not vanish on the free blocks, and no certificate for which it does is provably near"
        )
    if not shift <= (0.5 if free.met else min(tolerances.snap, 0.5)):
        return refuse(
            "A*y does not vanish on the free blocks: "
            f"an exact certificate may be {shift:.3g} of the size away"
        )
    terms = problem.beta_terms(y)
    lost = terms.size * TINY  # what underflow may have taken from the products
    slip = product_up(shift, free.bound_norm()) if shift else 0.0
    beta = sum_lower(terms, float(sum_up(slip, lost)))
    support_total, scale = 0.0, float(np.sum(np.abs(terms)))
    for b, block, rows in problem.blocks():
        if rows.empty or block.free:
            continue
        g, error = rows.enclose_adjoint(y)
        if not (np.isfinite(g).all() and np.isfinite(error).all()):
            return refuse("A*y overflows")
        if shift == 0.0 and block.matrix and block.cone and rows.is_nonpositive(np.sign(y)):
            continue  # a non-positive combination of squares: no eigenvalue is needed
        slip = float(product_up(shift, free.row_norm(b))) if shift else 0.0
        support, size = block.support_upper(g, error, slip, free.moves(b) if shift else None)
        if math.isfinite(support):
            support_total = float(sum_up(support_total, support))
            scale += size
        elif block.bounded:
            return refuse(f"block {problem.block_name(b)}: eigenvalues could not be enclosed")
        else:
            return refuse(f"A*y is not provably non-positive on block {problem.block_name(b)}")
    gap = float(difference_down(beta, support_total))
    if not gap > 0.0:
        return refuse(f"the two sides of the certificate do not provably differ (gap {gap:.3g})")
    near = "the multipliers" if shift == 0.0 else "exact multipliers next to the given ones"
    margin = min(gap / scale, 1.0) if scale > 0.0 else 1.0
    return Outcome(True, margin, f"{near} rule out every point: the rows contradict each other")


def lmi_displacement(lmi: LMI, moved: list[float | FloatArray]) -> float:
    """Bound the displacement of ``F(X)`` if every block moves by at most ``moved``.

    ``moved`` holds for every block a Frobenius norm, or for a vector one weight per entry, to be multiplied
    by a vector of norm at most one.
    """
    total = 0.0
    for rows, step in zip(lmi.coefficients, moved, strict=True):
        if not rows.empty and np.any(step):
            total = float(sum_up(total, norm_upper(product_up(rows.norms_upper, step))))
    return total


def lmi_margin(target: BlockSet, value: FloatArray, slip: float) -> float:
    """Depth of a value in its set minus ``slip``, relative to its largest absolute eigenvalue; between 0 and
    1.
    """
    lam = target.spectrum(value)
    size = float(np.max(np.abs(lam)))
    size = max(size, target.spectral_radius) if target.bounded else size
    return min(max((target.depth_spectrum(lam) - slip) / size, 0.0), 1.0) if size > 0.0 else 1.0


class LmiMultipliers:
    """Multipliers of rows and LMIs, with the equations ``(A*y + B*Y)_b = 0`` on the Free blocks.

    ``y`` holds the multipliers of the rows, then those of the LMIs.
    """

    def __init__(self, problem: FeasibilityProblem, y: FloatArray) -> None:
        self.problem, self.flat = problem, y
        self.rows, self.own = problem.split(y)
        self._free = [b for b, block in enumerate(problem.sets) if block.free]

    def enclose(self, b: int) -> Enclosed:
        """Return ``A*y + B*Y`` on one block, with a proven radius for every entry."""
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
        """Upper bounds of the absolute values of ``A*y + B*Y`` on the free entries."""
        return np.concatenate([np.zeros(0), *(inflate(np.abs(g) + e, 4) for g, e in self._left)])

    @cached_property
    def _left(self) -> list[Enclosed]:
        return [self.enclose(b) for b in self._free]

    @property
    def met(self) -> bool:
        """Whether ``A*y + B*Y`` vanishes on the free entries up to a few times the rounding error."""
        return all(bool(np.all(np.abs(g) <= MET_RADII * e)) for g, e in self._left)

    @cached_property
    def _columns(self) -> Any | None:
        """Coefficients of the rows on the free entries, one line per entry; None if they are not stored
        explicitly.
        """
        parts = []
        for b in self._free:
            rows = self.problem.rows[b]
            if not only_stored(rows):
                return None
            parts.append(rows.columns())
        if all(sp.issparse(part) for part in parts):
            return sp.csr_array(sp.hstack(parts, format="csr").T)
        return np.hstack([dense_array(part) for part in parts]).T

    @cached_property
    def weight(self) -> FloatArray:
        """How far the multiplier of every row may move; zero if no Free block occurs in the row.

        A multiplier whose sign is restricted may move by its own size, so that a correction shorter than one
        keeps its sign.
        """
        problem, size = self.problem, np.abs(self.rows)
        if not problem.m or self._columns is None:
            return np.zeros(problem.m)
        touched = np.asarray(abs(self._columns).sum(axis=0)).ravel() > 0.0
        signed = np.isinf(problem.lower) | np.isinf(problem.upper)
        unit = power_of_two(problem.norms)
        return np.where(touched, np.where(signed, size, float(np.max(size / unit)) * unit), 0.0)

    def _coefficients(self, lmi: LMI) -> Rows:
        """Coefficients of an LMI on all free entries, one row per entry."""
        parts = [lmi.coefficients[b] for b in self._free]
        return parts[0] if len(parts) == 1 else Stacked(parts)

    def _movable(self, weights: list[float | FloatArray | None]) -> tuple[list[Movable], np.ndarray]:
        """Return the multipliers that may move, and the indices of the equations in which they occur."""
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
        """Return the correction system with the given weights, and the indices of its equations; None if it
        is too large.

        ``weights`` holds how far the multiplier of every LMI may move, as in :class:`Movable`; None if it is
        fixed.
        """
        parts, index = self._movable(weights)
        if not parts or index.size > MAX_DENSE_ROWS:
            return None
        return CorrectionSystem(parts, index.size), index

    def metric_system(self) -> tuple[MetricSystem, np.ndarray] | None:
        """Return the correction system in the local metric of the multipliers; None if no block may move."""
        proved = self.depths()
        parts, index = self._movable(
            [
                1.0 if w is None and lmi.set.matrix else w
                for w, lmi in zip(proved, self.problem.lmis, strict=True)
            ]
        )
        if index.size > MAX_DENSE_ROWS:
            return None
        found: list[EntrywiseBlock | CongruenceBlock] = []
        for part in parts:
            target = self.problem.lmis[part.block].set if part.block < len(proved) else None
            if target is not None and target.matrix and target.cone:
                rooted = metric_block(part.block, target, self.own[part.block], part.rows)
                found += [] if rooted is None else [rooted]
            else:
                found.append(EntrywiseBlock(part.block, part.rows, part.weight))
        return (MetricSystem(found, index.size), index) if found else None

    def depths(self) -> list[float | FloatArray | None]:
        """Proven bounds of how far the multiplier of every LMI may move inside the dual cone; None if it is
        fixed.
        """
        out: list[float | FloatArray | None] = []
        for lmi, own in zip(self.problem.lmis, self.own, strict=True):
            out.append(
                norm_upper(own) or 1.0 if lmi.set.bounded else lmi.set.interior_radius(own, BOUND_SHARE)
            )
        return out

    def corrected(self, *, metric: bool = False) -> FloatArray | None:
        """Return multipliers with ``A*y + B*Y = 0`` on the Free blocks up to rounding; None if none are
        found.

        With ``metric``, matrices are corrected in their local metric, which needs multipliers in the interior
        of the cone.
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
    """Prove by Farkas' lemma that multipliers of rows and LMIs, or exact ones near them, rule out every
    point.

    There is no feasible point if ``sum_b sigma_b((A*y + B*Y)_b) + sum_j sigma_j(-Y_j) < beta(y) - <Y,
    F(0)>``. ``y`` must be finite and have the right sign for every row.
    """
    given = LmiMultipliers(problem, y)
    local, parts, moved = 0.0, dict[int, Movable | EntrywiseBlock | CongruenceBlock](), np.zeros(problem.m)
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
            continue  # the correction is shorter than the distance to the boundary of the dual cone
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


def _constant_slip(lmi: LMI, part: Movable | EntrywiseBlock | CongruenceBlock) -> float:
    """Bound the change of ``<Y, F(0)>`` under a unit correction of the multiplier ``Y``."""
    coarse = norm_upper(product_up(np.abs(lmi.constant), part.weight))
    return min(coarse, part.slope(lmi.constant)) if isinstance(part, CongruenceBlock) else coarse


def _correction(
    given: LmiMultipliers, tolerances: Tolerances
) -> tuple[CorrectionSystem | MetricSystem, float] | Outcome:
    """Return a system that provably makes ``A*y + B*Y`` vanish on the Free blocks, with the length of the
    correction; or the reason why there is none.
    """
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
    """Bound the change of ``A*y + B*Y`` on a block under a correction; mark entries that may change."""
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
