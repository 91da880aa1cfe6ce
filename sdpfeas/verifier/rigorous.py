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
``sum_b sigma_b((A*y)_b) < beta(y)``. Both sides are bounded outward. :func:`excluded_radius` proves by
multipliers that are nearly a certificate that every feasible point has a large norm. Nothing here changes a
claim; see :mod:`sdpfeas.verifier.repair`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from sdpfeas.numerics.limits import WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import (
    TINY,
    UNIT,
    difference_down,
    gamma,
    inflate,
    norm_upper,
    product_up,
    sum_lower,
    sum_up,
    two_product,
)
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.problem.rows.base import stored_rows
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.equality_correction import (
    CorrectionSystem,
    correct_point,
    correction_systems,
)
from sdpfeas.verifier.multipliers import Multipliers
from sdpfeas.verifier.outcome import Outcome, Tolerances, refuse
from sdpfeas.verifier.point_metric import (
    MET_RADII,
    CongruenceBlock,
    MetricSystem,
    metric_system,
    only_stored,
)

__all__ = ["excluded_radius", "prove_certificate", "prove_point"]

DEFAULTS = Tolerances()

#: Values with a proven radius for each.
Enclosed = tuple[FloatArray, FloatArray]

#: Bound of the displacement of a block: a Frobenius norm, or one weight per entry of a vector, to be
#: multiplied by a vector of norm at most one.
Step = float | FloatArray

#: The local metric is tried only if every equality residual is below this share of its terms: a repair costs
#: less than the metric.
MAX_RESIDUAL_SHARE = 1e-11

#: Most entries of the rows for residuals that are rounded once: about a second.
MAX_ACCURATE_ENTRIES = 5e6


def prove_point(
    problem: FeasibilityProblem, point: Point, tolerances: Tolerances = DEFAULTS, *, repair: bool = False
) -> Outcome:
    """Prove that an exact solution exists at or near ``point``; matrices must be exactly symmetric.

    With ``repair``, a point inside its sets that misses the equality rows by too much is corrected, and the
    proof for the corrected point uses the same Gram matrix.
    """
    return _existence(problem, point, tolerances, repair=repair)[0]


def prove_value(
    problem: FeasibilityProblem,
    terms: Point,
    point: Point,
    guide: FloatArray | None = None,
    tolerances: Tolerances = DEFAULTS,
) -> float | None:
    """Prove a lower bound of ``<terms, X>`` at an exact solution ``X`` at or near ``point``; None on failure.

    The bound is the enclosed value at ``point`` less the most that it changes over the displacement ``D`` of
    the existence proof. ``A(D)`` is the residual ``r`` in the equality rows, so for any multipliers ``y`` of
    them ``<terms, D> = <terms + A*y, D> - y'r``. With ``guide`` near the optimal multipliers both terms are
    small: where ``D`` may be large the dual slack ``-(terms + A*y)`` is not.
    """
    outcome, point, moved = _existence(problem, point, tolerances, accurate=True)
    if not outcome.proven:
        return None
    slip = float(sum_up(0.0, *(moved.slope(b, c) for b, c in enumerate(terms))))
    if guide is not None and np.isfinite(guide).all() and moved.residual is not None:
        y = np.zeros(problem.multiplier_count)
        y[: problem.m] = np.where(problem.equality, guide[: problem.m], 0.0)
        products = product_up(np.abs(y[: problem.m][problem.equality]), moved.residual)
        parts = [float(inflate(np.sum(products), products.size))]
        dual = Multipliers(problem, y, terms)
        parts += [moved.slope(b, *dual.enclose(b)) for b in range(len(terms))]
        slip = min(slip, float(sum_up(0.0, *parts)))
    value = math.nextafter(inner_product_lower(terms, point) - slip, -math.inf)
    return value if math.isfinite(value) else None


def inner_product_lower(terms: Point, point: Point) -> float:
    """Lower bound of ``<terms, point>``; minus infinity if it overflows."""
    products, count = list[float](), 0
    for c, x in zip(terms, point, strict=True):
        used = c != 0.0
        found, error = two_product(c[used], x[used])
        products += found.tolist()
        products += error.tolist()
        count += found.size
    try:
        total = math.fsum(products)
    except (OverflowError, ValueError):
        return -math.inf
    lost = sum_up(product_up(2.0 * UNIT, abs(total)), 4.0 * count * TINY)
    found_lower = float(difference_down(total, lost))
    return found_lower if math.isfinite(found_lower) else -math.inf


def _existence(
    problem: FeasibilityProblem,
    point: Point,
    tolerances: Tolerances,
    accurate: bool = False,
    repair: bool = False,
) -> tuple[Outcome, Point, Displacement]:
    """Prove that an exact solution exists near a point: the outcome, the starting point and the distance.

    With ``accurate`` the distance is bounded from residuals rounded once, also if a proof needs none.
    """
    moved = Displacement([math.inf] * len(problem.sets))
    if not all(np.isfinite(x).all() for x in point):
        return refuse("the point holds NaN or infinity"), point, moved
    given, point = (
        point,
        tuple(
            _clip_negative(x, tolerances.snap) if block.cone and block.entrywise else x
            for block, x in zip(problem.sets, point, strict=True)
        ),
    )
    rows = EnclosedRows(problem, point)
    if not (np.isfinite(rows.value).all() and np.isfinite(rows.radius).all()):
        return refuse("the row values overflow"), point, moved
    outcome = refuse("no existence proof was attempted")
    missed = list[CorrectionSystem]()
    for system in _candidate_systems(problem, point, rows):
        outcome, moved = _prove_with(problem, point, rows, system, tolerances, accurate)
        if outcome.proven:
            clipped = (norm_upper(x - own) for x, own in zip(point, given, strict=True))
            return replace(outcome, radius=float(sum_up(moved.length, *clipped))), point, moved
        if repair and moved.missed and isinstance(system, CorrectionSystem):
            missed.append(system)
    for system in missed:
        corrected = correct_point(problem, system, point)
        enclosed = EnclosedRows(problem, corrected)
        if np.isfinite(enclosed.value).all():
            near = system.at(problem, point, corrected)
            found, closer = _prove_with(problem, corrected, enclosed, near, tolerances, accurate)
            if found.proven:
                done = ("moved the point onto the equality rows",)
                found = replace(found, evidence=corrected, repairs=done, radius=closer.length)
                return found, corrected, closer
    return outcome, point, moved


@dataclass
class Displacement:
    """Bounds of the displacement of every block from a point to the exact solution near it.

    ``parts`` holds the blocks that move in the metric of the point, ``local`` the length of their step.
    """

    moved: list[Step]
    parts: dict[int, CongruenceBlock] = field(default_factory=dict)
    local: float = 0.0
    #: Upper bounds of the residuals of the equality rows; None without an accurate bound.
    residual: FloatArray | None = None
    #: Whether a correction exists, but is too long for the proof.
    missed: bool = False

    @property
    def length(self) -> float:
        """Bound of the Frobenius norm over all blocks."""
        return norm_upper(np.array([np.max(step, initial=0.0) for step in self.moved]))

    def slope(self, b: int, array: FloatArray, error: FloatArray | float = 0.0) -> float:
        """Bound the change on block ``b`` of the product with an array within ``error`` of ``array``."""
        if not np.any(self.moved[b]):
            return 0.0
        coarse = norm_upper(product_up(sum_up(np.abs(array), error), self.moved[b]))
        part = self.parts.get(b)
        if part is None or not math.isfinite(coarse) or not array.any():
            return coarse
        lost = product_up(norm_upper(np.broadcast_to(error, array.shape)), part.reach)
        return min(coarse, float(product_up(self.local, sum_up(part.slope(array), lost))))


def _candidate_systems(
    problem: FeasibilityProblem, point: Point, rows: EnclosedRows
) -> Iterator[CorrectionSystem | MetricSystem]:
    """Yield linear systems for the least-norm correction of the equality rows, the cheapest first."""
    yield from correction_systems(problem, point)
    index = problem.equality_rows
    value, radius, size = (part[index] for part in (rows.value, rows.radius, rows.size))
    share = MAX_RESIDUAL_SHARE * (size + np.abs(problem.lower[index]))
    missed = np.abs(value - problem.lower[index]) > share + radius
    if missed.any():
        return
    system = metric_system(problem, point)
    if system is not None:
        yield system


def _clip_negative(x: FloatArray, snap: float) -> FloatArray:
    """Set slightly negative entries to zero; the existence proof starts from there."""
    low = np.minimum(x, 0.0)
    return np.maximum(x, 0.0) if norm_upper(low) <= snap * norm_upper(x) < math.inf else x


class EnclosedRows:
    """Row values at a point: ``value`` with the proven ``radius`` of each, and ``size``, the sums of the
    magnitudes of their terms.
    """

    def __init__(self, problem: FeasibilityProblem, point: Point) -> None:
        self._problem, self._point = problem, point
        total, radius, size = (np.zeros(problem.m) for _ in range(3))
        for rows, x in zip(problem.rows, point, strict=True):
            if not rows.empty:
                value, error = rows.enclose_apply(x)
                total += value
                size += np.abs(value)
                radius = sum_up(radius, error)
        k = len(problem.sets) + 2
        self.value, self.size = total, size
        self.radius = sum_up(radius, product_up(gamma(k), inflate(size, k)))

    @cached_property
    def missed(self) -> FloatArray:
        """Upper bounds of the residuals of the equality rows, from the enclosures."""
        equal = self._problem.equality
        return inflate(np.abs(self.value[equal] - self._problem.lower[equal]) + self.radius[equal], 4)

    @cached_property
    def accurately_missed(self) -> FloatArray | None:
        """The same from residuals that are rounded once; None if the rows are not stored or too large.

        The radius of an enclosure grows with the number of terms of a row. At a point that satisfies its rows
        up to rounding it is a hundred to a thousand times the residual.
        """
        problem, index = self._problem, self._problem.equality_rows
        touching = [(rows, x) for rows, x in zip(problem.rows, self._point, strict=True) if not rows.empty]
        entries = sum(rows.entries for rows, _ in touching)
        if entries > MAX_ACCURATE_ENTRIES or not all(only_stored(rows) for rows, _ in touching):
            return None
        guard("residuals rounded once", 40.0 * WRITE_FLOPS * entries, memory=150.0 * entries)
        places, terms = [np.arange(index.size)], [-problem.lower[index]]
        for rows, x in touching:
            table = rows.select(index).to_csr()
            products = two_product(table.data, x.reshape(-1)[table.indices])
            places += 2 * [stored_rows(table)]
            terms += products
        place, term = np.concatenate(places), np.concatenate(terms)
        order = np.argsort(place, kind="stable")
        ends = np.cumsum(np.bincount(place, minlength=index.size))
        term = term[order]
        if not np.isfinite(term).all():
            return None
        flat, start, sums = term.tolist(), 0, np.empty(index.size)
        for k, end in enumerate(ends.tolist()):
            sums[k] = math.fsum(flat[start:end])
            start = end
        counts = np.diff(ends, prepend=0)
        return sum_up(inflate(np.abs(sums), 2), np.where(counts > 1, 4.0 * counts * TINY, 0.0))


def _prove_with(
    problem: FeasibilityProblem,
    point: Point,
    rows: EnclosedRows,
    system: CorrectionSystem | MetricSystem,
    tolerances: Tolerances,
    accurate: bool,
) -> tuple[Outcome, Displacement]:
    """Apply Theorem 5 with one correction system: the outcome, and how far the exact solution may be.

    Blocks outside the system stay fixed, up to the distance ``snapped_distance`` to an exact member of their
    set. ``local`` bounds the length of the least-norm correction in units of the distance to the boundary, so
    ``local + system.used < 1`` keeps the corrected blocks inside. ``drift`` bounds the change of every row
    value, ``moved`` the displacement of every block.
    """
    value, radius, equal = rows.value, rows.radius, problem.equality
    drift = np.zeros(problem.m)
    moved: list[Step] = [0.0] * len(problem.sets)
    displacement = Displacement(moved)
    lmis = [lmi.enclose(point) for lmi in problem.lmis]
    if not all(np.isfinite(part).all() for both in lmis for part in both):
        return refuse("the values of the LMIs overflow"), displacement
    for b, (block, x) in enumerate(zip(problem.sets, point, strict=True)):
        if b in system.blocks:
            continue
        eta = block.snapped_distance(x, tolerances.snap)
        if not math.isfinite(eta):
            return refuse(f"block {problem.block_name(b)} is not provably in its set"), displacement
        moved[b] = eta
        drift = sum_up(drift, product_up(problem.upper_norms[b], eta))
    for b, apart in system.starts(point).items():
        own = problem.rows[b]
        moved[b] = norm_upper(apart)
        drift = drift if own.empty else sum_up(drift, own.magnitude_apply_upper(apart))
    local = 0.0
    if equal.any():
        missed = sum_up(rows.missed, drift[equal])
        local = system.correction_upper(missed)
        if (accurate or local >= 1.0) and local < math.inf and rows.accurately_missed is not None:
            missed = sum_up(rows.accurately_missed, drift[equal])
            local = system.correction_upper(missed)
        displacement.residual = missed
        if not math.isfinite(local):
            reason = "the equality rows are not provably independent on the blocks that can move"
            return refuse(reason, dependent=True), displacement
        displacement.missed = True
        if not float(sum_up(local, system.used)) < 1.0:
            reason = "the equality rows are missed by more than the distance to the boundary allows"
            return refuse(f"{reason} ({local:.3g} times)"), displacement
        size = max(norm_upper(x) for x in point)
        met = bool(np.all(np.abs(value[equal] - problem.lower[equal]) <= MET_RADII * radius[equal]))
        if not met and any(local * part.reach > tolerances.snap * size for part in system.parts):
            reason = f"the equality rows are missed by more than {tolerances.snap:g} of the size of the point"
            return refuse(reason), displacement
        displacement.missed = False
        drift = sum_up(drift, product_up(local, system.drift_upper(problem)))
        for part in system.parts:
            moved[part.block] = sum_up(moved[part.block], product_up(part.weight, local))
            if isinstance(part, CongruenceBlock) and problem.sets[part.block].matrix:
                displacement.parts[part.block], displacement.local = part, local
    slack = np.minimum(difference_down(value, problem.lower), difference_down(problem.upper, value))
    left = difference_down(slack, sum_up(radius, drift))[~equal]
    if not np.all(left >= 0.0):
        worst = np.flatnonzero(~equal)[int(np.argmin(left))]
        reason = f"row {problem.row_name(int(worst))} is not provably within its bounds"
        return refuse(reason), displacement
    scale = (rows.size + largest_bound(problem))[~equal]
    relative = np.divide(np.minimum(left, scale), scale, out=np.ones_like(left), where=scale > 0.0)
    margin = min(1.0 - local - system.used, float(np.min(relative, initial=1.0)))
    for j, (lmi, (middle, error)) in enumerate(zip(problem.lmis, lmis, strict=True)):
        slip = lmi_displacement(lmi, moved)
        if not lmi.set.proves_near(middle, error, slip):
            return refuse(f"LMI {problem.lmi_name(j)} does not provably hold"), displacement
        margin = min(margin, lmi_margin(lmi.set, middle, float(sum_up(norm_upper(error), slip))))
    where = "next to" if local > 0.0 or drift.any() or any(np.any(step) for step in moved) else "at"
    what = "every set, every row and every LMI holds" if lmis else "every set and every row holds"
    return Outcome(True, margin, f"an exact solution lies {where} the point: {what}"), displacement


def prove_certificate(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances = DEFAULTS
) -> Outcome:
    """Prove by Farkas' lemma that ``y``, or an exact certificate near it, rules out every point.

    ``y`` holds one multiplier per row, then those of the LMIs.
    """
    if not np.isfinite(y).all():
        return refuse("the certificate holds NaN or infinity")
    size = float(np.max(np.abs(y), initial=0.0))
    if size == 0.0:
        return refuse("the certificate is zero")
    y = _scaled(y)
    wrong = sign_violation(problem, y)
    if np.any(wrong > 0.0):
        name = problem.row_name(int(np.argmax(wrong)))
        return refuse(f"the multiplier of row {name} has the sign its missing bound forbids")
    sides = _certificate_sides(problem, y, tolerances)
    if isinstance(sides, Outcome):
        return sides
    beta, support, scale, local = sides
    gap = float(difference_down(beta, support))
    if not gap > 0.0:
        return refuse(f"the two sides of the certificate do not provably differ (gap {gap:.3g})")
    near = "the multipliers" if local == 0.0 else "exact multipliers next to the given ones"
    what = "rows and LMIs" if problem.lmis else "the rows"
    margin = min(gap / scale, 1.0) if scale > 0.0 else 1.0
    return Outcome(True, margin, f"{near} rule out every point: {what} contradict each other")


def _scaled(y: FloatArray) -> FloatArray:
    """Scale multipliers by a power of two, which keeps products clear of overflow and underflow, if that is
    exact.
    """
    exponent = math.frexp(float(np.max(np.abs(y), initial=0.0)))[1]
    scaled = np.ldexp(y, -exponent)
    return scaled if np.array_equal(np.ldexp(scaled, exponent), y) else y


def excluded_radius(problem: FeasibilityProblem, y: FloatArray) -> float:
    """Prove that no feasible point has a norm up to the returned radius; 0.0 if nothing is proved.

    The norm of a point is the largest norm of its unbounded blocks: the Frobenius norm on PSD and
    HermitianPSD, the Euclidean norm on Nonneg, SecondOrder and Free. Bounded blocks do not count.

    Let ``R_b = (A*y + B*Y)_b``, and let ``r_b`` be its distance from the polar cone of an unbounded set
    (``||(R_b)_+||``; on a Free block ``||R_b||``). If ``y`` has the right signs, Theorem 1 for an infeasible
    problem becomes: at every feasible ``X``, ``beta(y) - <Y, F(0)> - sum_j sigma_j(-Y_j) <= sum_b <R_b, X_b>
    <= sum_b sigma_b(R_b) + sum_b r_b ||X_b||``, with ``sigma_b`` on bounded and ``r_b`` on unbounded blocks.
    So a block has at least the norm ``gap / sum_b r_b``, where ``gap`` is the left side minus ``sum_b
    sigma_b(R_b)``. The result is infinite if all ``r_b`` are zero: then ``y`` is a Farkas certificate.
    """
    if not np.isfinite(y).all() or not y.any() or np.any(sign_violation(problem, y) > 0.0):
        return 0.0
    y = _scaled(y)
    given, terms = Multipliers(problem, y), problem.beta_terms(y)
    supports, distances = [0.0], [0.0]
    for lmi, own in zip(problem.lmis, given.own, strict=True):
        supports.append(lmi.set.support_upper(-own, np.zeros(lmi.set.shape), 0.0, None)[0])
    for b, block in enumerate(problem.sets):
        g, error = given.enclose(b)
        if not (np.isfinite(g).all() and np.isfinite(error).all()):
            return 0.0
        support = block.support_upper(g, error, 0.0, None)[0]
        if math.isfinite(support) or block.bounded:
            supports.append(support)
        else:
            # All cones here are self-dual: the polar cone is -K. That of the whole space is {0}.
            apart = norm_upper(g) if block.free else block.distance_upper(-g)
            distances += [apart, norm_upper(error)]
    support, distance = float(sum_up(*supports)), float(sum_up(*distances))
    beta = sum_lower(terms, terms.size * TINY)  # underflow may have taken that much from the products
    gap = float(difference_down(beta, support))
    if not (0.0 < gap < math.inf and distance < math.inf):
        return 0.0
    return math.nextafter(gap / distance, 0.0) if distance > 0.0 else math.inf


def prove_upper_bound(
    problem: FeasibilityProblem, terms: Point, y: FloatArray, tolerances: Tolerances = DEFAULTS
) -> float | None:
    """Prove an upper bound of ``<terms, X>`` over all points of a problem without LMIs; None on failure.

    For multipliers ``y`` of the right signs ``<terms, X> <= sum_b sigma_b((terms + A*y)_b) - beta(y)``.
    """
    if problem.lmis or not np.isfinite(y).all() or np.any(sign_violation(problem, y) > 0.0):
        return None
    sides = _certificate_sides(problem, y, tolerances, terms)
    if isinstance(sides, Outcome):
        return None
    bound = -float(difference_down(sides[0], sides[1]))
    return bound if math.isfinite(bound) else None


def _certificate_sides(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances, terms: Point | None = None
) -> tuple[float, float, float, float] | Outcome:
    """Bound ``beta(y) - <Y, F(0)>`` from below, and ``sum_b sigma_b((terms + A*y + B*Y)_b) + sum_j
    sigma_j(-Y_j)`` from above, or say why not; ``y`` must be finite and have the right sign for every row.

    On a Free block ``terms + A*y + B*Y`` must vanish exactly. There the least-norm correction of ``y`` is
    bounded as in Theorem 5, in units of how far each multiplier may move without leaving its cone, and its
    effect on both sides is charged. Also returns the magnitude of both sides, and the length of the
    correction.
    """
    given = Multipliers(problem, y, terms)
    found = given.correction(tolerances)
    if isinstance(found, Outcome):
        return found
    products = problem.beta_terms(y)
    lost = products.size * TINY  # what underflow may have taken from the products
    beta = sum_lower(products, float(sum_up(found.constant_slip(problem), lost)))
    total, scale = 0.0, float(np.sum(np.abs(products)))
    for j, (lmi, own) in enumerate(zip(problem.lmis, given.own, strict=True)):
        part = found.parts.get(j)
        if part is not None and not lmi.set.bounded:
            continue  # the correction is shorter than the distance to the boundary of the dual cone
        slip = 0.0 if part is None else float(product_up(found.length, part.reach))
        everywhere = np.ones(lmi.set.shape, dtype=bool) if slip else None
        support, size = lmi.set.support_upper(-own, np.zeros(lmi.set.shape), slip, everywhere)
        if not math.isfinite(support):
            name = problem.lmi_name(j)
            return refuse(f"the multiplier of LMI {name} is not provably in the dual of its set")
        total, scale = float(sum_up(total, support)), scale + size
    for b, block, rows in problem.blocks():
        if block.free:
            continue
        g, error = given.enclose(b)
        if not (np.isfinite(g).all() and np.isfinite(error).all()):
            return refuse("A*y overflows")
        slip, moves = found.block_slip(problem, b)
        squares = block.matrix and block.cone and given.touched_by_rows_alone(b)
        if slip == 0.0 and squares and rows.is_nonpositive(np.sign(given.rows)):
            continue  # a non-positive combination of squares: no eigenvalue is needed
        support, size = block.support_upper(g, error, slip, moves)
        if math.isfinite(support):
            total, scale = float(sum_up(total, support)), scale + size
        elif block.bounded:
            return refuse(f"block {problem.block_name(b)}: eigenvalues could not be enclosed")
        else:
            return refuse(f"A*y is not provably non-positive on block {problem.block_name(b)}")
    return beta, total, scale, found.length


def lmi_displacement(lmi: LMI, moved: list[Step]) -> float:
    """Bound the displacement of ``F(X)`` if every block moves by at most ``moved``."""
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
