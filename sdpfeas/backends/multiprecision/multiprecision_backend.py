"""The backend ``multiprecision``: rational points, multipliers and bounds for small problems.

All steps work on one :class:`ConicPair` and follow the central path of a homogeneous self-dual embedding:

1. :func:`reduce_to_interior`: the path without cost ends at a strictly feasible X, at multipliers that prove
   infeasibility, or at an X on a proper face together with an exposing vector ``-A*y``. The face is
   recognised in rational numbers, the pair restricted to it, and the step repeated (Borwein and Wolkowicz
   1981). Nothing about the face is proved, and nothing needs to be: its points are points of the problem.
2. :func:`dual_interior`: the path without right-hand side ends at a strictly feasible ``Z = C - A*y``.
3. :func:`optimal_pair`: the path of the program itself. Its iterates are combined with the two interior
   points, ``X + t (X_int - X)`` with a tiny t, so that they stay feasible when residuals are removed.
4. Dual multipliers on a face become multipliers of the whole pair by adding a large multiple of the exposing
   vector, which costs nothing since ``b'y = 0``.

Evidence is rounded to rationals, moved exactly onto the equations, and verified exactly.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import flint
import numpy as np

from sdpfeas.backends.base import CONES, FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.backends.multiprecision.central_path import (
    Blocks,
    Iterate,
    Rows,
    central_path,
    column,
    definite,
    solve,
    symmetric,
)
from sdpfeas.backends.multiprecision.conic_pair import ConicPair, DualForm, Face, PrimalForm
from sdpfeas.backends.multiprecision.size_limits import iteration_products, supported
from sdpfeas.claims import Claim, Stop
from sdpfeas.numerics.exact_arithmetic import Reading, fractions_to_floats, number, simplest_between
from sdpfeas.numerics.limits import guard
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.validation import counted

#: Time of a product in multiprecision arithmetic, in multiply-adds of doubles, and iterations of a short run.
PRODUCT_FLOPS, ITERATIONS = 500.0, 10.0

#: Most faces in a row.
MAX_FACES = 6

#: Growth of the weight of an interior point or exposing vector while a combination is not definite, in bits.
WEIGHT_BITS = 8

#: Largest numerator times denominator of a simple fraction, as a power of the error.
SIMPLE_SHARE = 0.7


@dataclass(frozen=True)
class MultiprecisionOptions:
    """Options of ``multiprecision``: ``bits`` of precision."""

    bits: int = 512


#: A point of a pair: X and x.
Values = tuple[Blocks, Any]


@dataclass(frozen=True)
class Primal:
    """The faces to which a pair was restricted, and a strictly feasible point of the last one.

    Without a point, multipliers that prove infeasibility there, or the last iterate.
    """

    faces: list[Face]
    pair: ConicPair
    iterations: int
    point: Values | None = None
    certificate: Any = None
    last: Iterate | None = None


def reduce_to_interior(pair: ConicPair) -> Primal:
    """Restrict a pair to faces until a strictly feasible point or a certificate of infeasibility is found."""
    faces, count = list[Face](), 0
    while True:
        rows = Rows(pair)
        at: Iterate | None = None
        for at in central_path(pair, cost=False):
            count += 1
            if at.tau > at.kappa:
                found = onto_rows(rows, *at.point)
                if found is not None and definite(found[0]):
                    return Primal(faces, pair, count, found)
            else:
                y = onto_free(rows, at.y, zero=True)
                if y is not None and bound_of(rows, y) > rounding() and definite(rows.slack(y, flint.arb(0))):
                    return Primal(faces, pair, count, certificate=y)
        face = None
        if at is not None and at.tau > at.kappa and len(faces) < MAX_FACES:
            face = face_of(pair, at)
        if face is None:
            return Primal(faces, pair, count, last=at)
        faces.append(face)
        pair = face.pair


def rounding() -> Any:
    """Return a bound of what rounding leaves of a value that is zero."""
    return flint.arb(2) ** (-flint.ctx.prec // 2)


def bound_of(rows: Rows, y: Any) -> Any:
    """Return ``b'y``."""
    return (rows.right.transpose() * y)[0, 0].mid()


def onto_rows(rows: Rows, blocks: Blocks, free: Any) -> Values | None:
    """Move a point onto the rows by the least-norm correction; None if the rows are dependent."""
    weights = rows.inverse_gram * (rows.right - rows.apply(blocks, free)[0])
    if not all(v.is_finite() for v in weights.entries()):
        return None
    # rows.slack(-w, 0) is the sum of w_i A_i.
    step = rows.slack(-weights, flint.arb(0))
    moved = [symmetric(x + d) for x, d in zip(blocks, step, strict=True)]
    return moved, (free + rows.free.transpose() * weights).mid()


def onto_free(rows: Rows, y: Any, *, zero: bool = False) -> Any | None:
    """Move multipliers onto ``B'y = c``, or ``B'y = 0``; None if the columns of B are dependent."""
    if not rows.free.ncols():
        return y
    off = -(rows.free.transpose() * y) if zero else rows.free_cost - rows.free.transpose() * y
    weights = solve((rows.free.transpose() * rows.free).mid(), off.mid())
    return (y + rows.free * weights).mid() if all(v.is_finite() for v in weights.entries()) else None


def face_of(pair: ConicPair, at: Iterate) -> Face | None:
    """Return the face of X, with rational bases; None if it is not proper or not recognised."""
    threshold = (at.mu / at.tau**2).sqrt()
    bases = list[Any]()
    for x in at.point[0]:
        basis = range_basis(x, threshold)
        if basis is None:
            return None
        bases.append(basis)
    if all(basis.ncols() == n for basis, n in zip(bases, pair.sides, strict=True)):
        return None
    return pair.restrict(bases, at.y)


def range_basis(matrix: Any, threshold: Any) -> Any | None:
    """Return a rational basis of the range of a nearly singular matrix; None if there is no simple one.

    Pivoted Cholesky factorisation: pivots below ``threshold`` are zero. In the coordinates of the pivots the
    basis is the identity, and its other entries are rounded to fractions of few bits.
    """
    n = matrix.nrows()
    rest, chosen = matrix.mid(), list[int]()
    for _ in range(n):
        pivot = max((i for i in range(n) if i not in chosen), key=lambda i: float(rest[i, i]))
        if not rest[pivot, pivot] > threshold:
            break
        chosen.append(pivot)
        side = flint.arb_mat(n, 1, [rest[i, pivot] for i in range(n)])
        rest = (rest - side * side.transpose() / rest[pivot, pivot]).mid()
    basis = flint.fmpq_mat(n, len(chosen))
    if not chosen:
        return basis
    core = flint.arb_mat([[matrix[i, j] for j in chosen] for i in chosen])
    across = flint.arb_mat([[matrix[i, j] for i in range(n)] for j in chosen])
    weights = solve(core.mid(), across.mid())
    error = float(threshold) ** 0.5
    for place in range(n):
        for k, own in enumerate(chosen):
            value = Fraction(int(own == place)) if place in chosen else _simple(weights[k, place], error)
            if value is None:
                return None
            basis[place, k] = number(value)
    return basis


def _simple(value: Any, error: float) -> Fraction | None:
    """Return the simplest fraction within ``error``; None if it needs nearly as many bits as the error."""
    if not (value.is_finite() and error < 1e-6):
        return None
    exact, within = _rational(value), Fraction(error)
    near = Fraction(int(exact.p), int(exact.q))
    low, high = abs(near) - within, abs(near) + within
    if low <= 0:
        return Fraction(0)
    unit = max(low.denominator, high.denominator)  # powers of two
    found = simplest_between(int(low * unit), int(high * unit), unit, int(error**-SIMPLE_SHARE))
    return found if found is None or near > 0 else -found


def dual_interior(pair: ConicPair) -> tuple[Any, Values | None]:
    """Find y with ``C - A*y`` definite and ``B'y = c``, or X with ``A(X) = 0`` and ``<C, X>`` negative."""
    rows = Rows(pair.without(right=False))
    for at in central_path(pair, right=False):
        if at.tau > at.kappa:
            y = onto_free(rows, at.y / at.tau)
            if y is not None and definite(rows.slack(y, flint.arb(1))):
                return y, None
        else:
            found = onto_rows(rows, at.primal, at.free)
            if found is not None and rows.apply(*found)[1] < -rounding() and definite(found[0]):
                return None, found
    return None, None


def optimal_pair(
    primal: Primal, interior: Any | None, wanted: Callable[[Any, Any], bool]
) -> tuple[Values | None, Any]:
    """Improve an interior point and multipliers along the central path until ``wanted(value, bound)``."""
    rows = Rows(primal.pair)
    point, y = primal.point, interior
    for at in central_path(primal.pair):
        value, bound = at.cost / at.tau, bound_of(rows, at.y) / at.tau
        if not at.tau > at.kappa or not (at.exhausted or wanted(value, bound)):
            continue
        point, y = _inner_point(rows, at, primal.point), _inner_multipliers(rows, at, interior)
        if point is not None and (y is None or wanted(rows.apply(*point)[1], bound_of(rows, y))):
            break
    return point, y


def _inner_point(rows: Rows, at: Iterate, interior: Values | None) -> Values | None:
    """Return the combination of an iterate, moved onto the rows, with as little of the interior as needed."""
    near = None if interior is None else onto_rows(rows, *at.point)
    if interior is None or near is None:
        return interior
    starts, ends = near[0], interior[0]

    def combined(share: Any) -> Blocks:
        return [symmetric(x + (own - x) * share) for x, own in zip(starts, ends, strict=True)]

    share = least_share(lambda share: definite(combined(share)))
    return combined(share), (near[1] + (interior[1] - near[1]) * share).mid()


def _inner_multipliers(rows: Rows, at: Iterate, interior: Any | None) -> Any | None:
    """Return the combination of the multipliers of an iterate with as little of the interior as needed."""
    near = None if interior is None else onto_free(rows, at.y / at.tau)
    if near is None:
        return interior

    def combined(share: Any) -> Any:
        return (near + (interior - near) * share).mid()

    return combined(least_share(lambda share: definite(rows.slack(combined(share), flint.arb(1)))))


def least_share(inside: Callable[[Any], bool]) -> Any:
    """Return the least power of two in a grid, at most one, that is ``inside``, as all larger ones are."""
    shares = [flint.arb(2) ** -k for k in range(0, flint.ctx.prec, WEIGHT_BITS)]
    # One is inside: the interior point itself.
    return shares[bisect_left(shares, 1, 1, key=lambda share: not inside(share)) - 1]


def lift(faces: list[Face], y: Any, *, cost: bool) -> Any | None:
    """Turn strictly feasible multipliers on the last face into those of the first pair; None on failure.

    On every face a large multiple of the exposing vector is added, until ``C - A*y`` is definite; without
    ``cost``, ``-A*y``.
    """
    for face in reversed(faces):
        rows = Rows(face.whole)
        whole = [flint.arb(0)] * rows.m
        for i, value in zip(face.kept, y.entries(), strict=True):
            whole[i] = value
        base, unit = column(whole), flint.arb(int(cost))
        for k in range(0, flint.ctx.prec, WEIGHT_BITS):
            found = onto_free(rows, (base + face.exposing * flint.arb(2) ** k).mid(), zero=not cost)
            if found is not None and definite(rows.slack(found, unit)):
                y = found
                break
        else:
            return None
    return y


# --- rational evidence


def _rational(value: Any) -> Any:
    mantissa, exponent = value.mid().man_exp()
    return flint.fmpq(mantissa) * flint.fmpq(2) ** int(exponent)


def _rationals(matrix: Any) -> list[Any]:
    return [_rational(v) for v in matrix.entries()]


def _rational_point(pair: ConicPair, point: Values | None, *, zero: bool = False) -> Any | None:
    """Round a point to rationals and move it onto the rows exactly; None without one."""
    if point is None:
        return None
    blocks = [flint.fmpq_mat(x.nrows(), x.ncols(), _rationals(x)) for x in point[0]]
    return pair.corrected(blocks, _rationals(point[1]), zero=zero)


def _rational_multipliers(pair: ConicPair, y: Any | None, *, zero: bool = False) -> Any | None:
    """Round multipliers to rationals and correct them exactly; None without any."""
    return None if y is None else pair.corrected_multipliers(_rationals(y), zero=zero)


def _from_faces(primal: Primal, form: PrimalForm, point: Values | None) -> Point | None:
    """Map a point on the last face to one of the problem, in fractions."""
    found = _rational_point(primal.pair, point)
    if found is None:
        return None
    blocks, free = found
    for face in reversed(primal.faces):
        blocks = face.point(blocks)
    return form.point(blocks, free)


class Multiprecision(FeasibilityBackend):
    """Search in multiprecision arithmetic for a rational point or rational Farkas certificate."""

    name = "multiprecision"
    sets = CONES
    lmis = True
    Options = MultiprecisionOptions

    def accepts(self, problem: FeasibilityProblem) -> tuple[bool, str]:
        """Return whether the problem is in cones, and its rows can be written exactly."""
        if not supported(problem):
            return False, f"backend {self.name!r} takes cones with rows that can be written exactly"
        return super().accepts(problem)

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Search for a point or a certificate; see :meth:`FeasibilityBackend.solve`."""
        if not supported(problem, inquiry.reading):
            return Claim(
                stop=Stop.UNSUPPORTED, raw_status="the rows are not exact for the numbers as written"
            )
        work = ITERATIONS * PRODUCT_FLOPS * iteration_products(problem)
        guard("an interior-point method in multiprecision arithmetic", work)
        with flint.ctx.workprec(self.options.bits):
            # One row per variable instead of one per entry of an LMI.
            if all(block.free for block in problem.sets):
                return _dual_claim(DualForm(problem, inquiry.reading))
            return _claim(PrimalForm(problem, inquiry.reading))

    def rational_bounds(
        self, program: ConicProgram, tol: float, absolute_tol: float
    ) -> tuple[Point | None, np.ndarray | None]:
        """Search for a rational point and multipliers whose values enclose a maximum within a tolerance."""

        def wanted(value: Any, bound: Any) -> bool:
            width = abs(value - bound)
            return bool(width < absolute_tol or width < tol * abs(bound))

        with flint.ctx.workprec(self.options.bits):
            form = PrimalForm(program.problem, Reading.STORED, program.objective)
            primal = reduce_to_interior(form.pair)
            found, y = optimal_pair(primal, dual_interior(primal.pair)[0], wanted)
            y = None if y is None else lift(primal.faces, y, cost=True)
            values = _rational_multipliers(form.pair, y)
            return _from_faces(primal, form, found), None if values is None else form.multipliers(values)


def _claim(form: PrimalForm) -> Claim:
    """Search for a point or a certificate of the primal program."""
    found = reduce_to_interior(form.pair)
    count = found.iterations
    where = f" on a face, after {counted(len(found.faces), 'step')}" if found.faces else ""
    point = _from_faces(found, form, found.point)
    if point is not None:
        return _found(point, f"point found{where}", count)
    y = None if found.certificate is None else lift(found.faces, found.certificate, cost=False)
    values = _rational_multipliers(form.pair, y, zero=True)
    if values is not None:
        return _found(form.multipliers(values), f"certificate found{where}", count)
    claim = Claim(stop=Stop.STALLED, raw_status=f"no evidence found{where}", iterations=count)
    last = found.last
    if last is None or found.faces or last.tau > last.kappa:
        return claim
    # On the boundary of the cone: the verifier may find simple numbers near it.
    unit = max((abs(v) for v in last.y.entries()), default=flint.arb(1))
    y = form.multipliers([_rational(v / unit) for v in last.y.entries()])
    return replace(claim, certificate=fractions_to_floats(y))


def _dual_claim(form: DualForm) -> Claim:
    """Search for a strictly feasible point of the dual program, or a certificate against it."""
    y, against = dual_interior(form.pair)
    values = _rational_multipliers(form.pair, y)
    if values is not None:
        return _found(form.point(values), "point found")
    exact = _rational_point(form.pair, against, zero=True)
    if exact is not None:
        return _found(form.multipliers(*exact), "certificate found")
    return Claim(stop=Stop.STALLED, raw_status="no evidence found")


def _found(evidence: Any, status: str, iterations: int | None = None) -> Claim:
    """Return a claim with a rational point, a tuple of arrays, or rational multipliers."""
    claim = Claim(raw_status=status, iterations=iterations, rational=evidence)
    if isinstance(evidence, tuple):
        return replace(claim, point=tuple(map(fractions_to_floats, evidence)))
    return replace(claim, certificate=fractions_to_floats(evidence))
