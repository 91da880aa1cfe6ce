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

from collections.abc import Callable, Iterator
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
    without,
)
from sdpfeas.backends.multiprecision.conic_pair import (
    ConicPair,
    DualForm,
    Face,
    Form,
    conic_form,
)
from sdpfeas.backends.multiprecision.size_limits import iteration_products, supported
from sdpfeas.claims import Claim, Stop
from sdpfeas.numerics.exact_arithmetic import Reading, fractions_to_floats
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


@dataclass(frozen=True)
class MultiprecisionOptions:
    """Options of ``multiprecision``: ``bits`` of precision."""

    bits: int = 512


@dataclass(frozen=True)
class Level:
    """A pair, the face to which it was restricted, and the multipliers of the exposing vector."""

    pair: ConicPair
    face: Face
    exposing: Any


@dataclass(frozen=True)
class Primal:
    """A strictly feasible point of the last face, or multipliers that prove infeasibility of that pair."""

    levels: list[Level]
    pair: ConicPair
    blocks: Blocks | None
    free: Any
    certificate: Any
    iterations: int
    last: Iterate | None = None


def reduce_to_interior(pair: ConicPair) -> Primal:
    """Restrict a pair to faces until a strictly feasible point or a certificate of infeasibility is found."""
    levels, count = list[Level](), 0
    while True:
        rows = Rows(pair)
        last: Iterate | None = None
        for at in central_path(pair, cost=False):
            count += 1
            last = at
            if at.tau > at.kappa:
                found = onto_rows(rows, [x / at.tau for x in at.primal], at.free / at.tau)
                if found is not None and definite(found[0]):
                    return Primal(levels, pair, *found, None, count)
            else:
                y = onto_free(rows, at.y, zero=True)
                if y is not None and bound_of(rows, y) > 0 and definite(rows.slack(y, flint.arb(0))):
                    return Primal(levels, pair, None, None, y, count)
            if at.mu < flint.arb(2) ** (-flint.ctx.prec // 2):
                break
        face = None
        if last is not None and last.tau > last.kappa and len(levels) < MAX_FACES:
            face = face_of(pair, last)
        if last is None or face is None:
            return Primal(levels, pair, None, None, None, count, last)
        levels.append(Level(pair, face, last.y))
        pair = face.pair


def bound_of(rows: Rows, y: Any) -> Any:
    """Return ``b'y``."""
    return sum((a * b for a, b in zip(rows.right.entries(), y.entries(), strict=True)), flint.arb(0)).mid()


def onto_rows(rows: Rows, blocks: Blocks, free: Any) -> tuple[Blocks, Any] | None:
    """Move a point onto the rows by the least-norm correction; None if the rows are dependent."""
    off = (rows.right - rows.apply(blocks, free)[0]).mid()
    weights = solve(_gram(rows), off)
    if not all(v.is_finite() for v in weights.entries()):
        return None
    # rows.slack(-w, 0) is the sum of w_i A_i.
    step = rows.slack(-weights, flint.arb(0))
    moved = [symmetric(x + d) for x, d in zip(blocks, step, strict=True)]
    return moved, (free + rows.free.transpose() * weights).mid()


def _gram(rows: Rows) -> Any:
    """Return the inner products of the rows, free variables included; cached on the rows."""
    if rows.gram is None:
        unit = [
            flint.arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)]) for n in rows.pair.sides
        ]
        lines = rows.schur_complement(unit, unit).table()[: rows.m]
        inner = flint.arb_mat([line[: rows.m] for line in lines]) if lines else flint.arb_mat(0, 0)
        rows.gram = (inner + rows.free * rows.free.transpose()).mid()
    return rows.gram


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
    for x in at.primal:
        basis = range_basis(x / at.tau, threshold)
        if basis is None:
            return None
        bases.append(basis)
    if all(basis.ncols() == n for basis, n in zip(bases, pair.sides, strict=True)):
        return None
    return pair.restrict(bases)


def range_basis(matrix: Any, threshold: Any) -> Any | None:
    """Return a rational basis of the range of a nearly singular matrix; None if there is no simple one.

    Pivoted Cholesky factorisation: pivots below ``threshold`` are zero. In the coordinates of the pivots the
    basis is the identity, and its other entries are rounded to fractions of few bits.
    """
    n = matrix.nrows()
    rest, chosen = matrix.mid(), list[int]()
    for _ in range(n):
        pivot = max((i for i in range(n) if i not in chosen), key=lambda i: float(rest[i, i]), default=None)
        if pivot is None or not rest[pivot, pivot] > threshold:
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
            value = (
                _simple(weights[k, place], error) if place not in chosen else flint.fmpq(int(own == place))
            )
            if value is None:
                return None
            basis[place, k] = value
    return basis


def _simple(value: Any, error: float) -> Any | None:
    """Return the simplest fraction within ``error``; None if it needs nearly as many bits as the error."""
    if not (value.is_finite() and error < 1e-6):
        return None
    near = _fraction(value)
    low, high = near - Fraction(error), near + Fraction(error)
    found = _simplest_between(low, high)
    bits = found.numerator.bit_length() + found.denominator.bit_length()
    return None if bits > 0.7 * -np.log2(error) else flint.fmpq(found.numerator, found.denominator)


def _simplest_between(low: Fraction, high: Fraction) -> Fraction:
    """Return the fraction of smallest denominator in an interval."""
    if low <= 0 <= high:
        return Fraction(0)
    if high < 0:
        return -_simplest_between(-high, -low)
    whole = low.numerator // low.denominator
    if whole == low:
        return Fraction(whole)
    if whole + 1 <= high:
        return Fraction(whole + 1)
    return whole + 1 / _simplest_between(1 / (high - whole), 1 / (low - whole))


@dataclass(frozen=True)
class Dual:
    """Multipliers with ``C - A*y`` definite, or a definite X that rules them out, each None if not found."""

    y: Any = None
    blocks: Blocks | None = None
    free: Any = None


def dual_interior(pair: ConicPair) -> Dual:
    """Find y with ``C - A*y`` definite and ``B'y = c``, or X with ``A(X) = 0`` and ``<C, X>`` negative."""
    rows = Rows(without(pair, right=False))
    for at in central_path(pair, right=False):
        if at.tau > at.kappa:
            y = onto_free(rows, at.y / at.tau)
            if y is not None and definite(rows.slack(y, flint.arb(1))):
                return Dual(y)
        else:
            found = onto_rows(rows, at.primal, at.free)
            if found is not None and rows.apply(*found)[1] < 0 and definite(found[0]):
                return Dual(None, *found)
        if at.mu < flint.arb(2) ** (-flint.ctx.prec // 2):
            break
    return Dual()


@dataclass(frozen=True)
class Pair:
    """A strictly feasible primal point and dual multipliers of a pair, each None if not found."""

    blocks: Blocks | None
    free: Any
    y: Any


def optimal_pair(primal: Primal, y: Any | None, wanted: Callable[[Any, Any], bool]) -> Pair:
    """Improve interior points along the central path until ``wanted(value, bound)``."""
    pair, rows = primal.pair, Rows(primal.pair)
    best = Pair(primal.blocks, primal.free, y)
    for at in central_path(pair):
        if not at.tau > at.kappa:
            continue
        value, bound = (at.cost / at.tau).mid(), (bound_of(rows, at.y) / at.tau).mid()
        exhausted = at.mu < flint.arb(2) ** (-flint.ctx.prec // 2)
        if not (exhausted or wanted(value, bound)):
            continue
        best = Pair(*_mixed_point(rows, at, primal), _mixed_multipliers(rows, at, y))
        ends = _ends(rows, best)
        if exhausted or ((ends[0] is None or ends[1] is None or wanted(*ends)) and best.blocks is not None):
            break
    return best


def _ends(rows: Rows, found: Pair) -> tuple[Any, Any]:
    """Return the value of a point and the bound of multipliers."""
    value = None if found.blocks is None else rows.apply(found.blocks, found.free)[1]
    return value, None if found.y is None else bound_of(rows, found.y)


def _shares() -> Iterator[Any]:
    """Yield the weights of an interior point in a combination, from tiny to one."""
    for k in range(flint.ctx.prec, -1, -WEIGHT_BITS):
        yield flint.arb(2) ** -k


def _mixed_point(rows: Rows, at: Iterate, primal: Primal) -> tuple[Blocks | None, Any]:
    """Return a strictly feasible combination of an iterate and the interior point."""
    if primal.blocks is None:
        return None, None
    for share in _shares():
        blocks = [
            symmetric(x / at.tau * (1 - share) + own * share)
            for x, own in zip(at.primal, primal.blocks, strict=True)
        ]
        free = (at.free / at.tau * (1 - share) + primal.free * share).mid()
        found = onto_rows(rows, blocks, free)
        if found is not None and definite(found[0]):
            return found
    return primal.blocks, primal.free


def _mixed_multipliers(rows: Rows, at: Iterate, interior: Any | None) -> Any | None:
    """Return a strictly feasible combination of the multipliers of an iterate and the interior ones."""
    if interior is None:
        return None
    for share in _shares():
        y = onto_free(rows, (at.y / at.tau * (1 - share) + interior * share).mid())
        if y is not None and definite(rows.slack(y, flint.arb(1))):
            return y
    return interior


def lift(levels: list[Level], y: Any, *, cost: bool) -> Any | None:
    """Turn strictly feasible multipliers on the last face into those of the first pair; None on failure.

    On every face a large multiple of the exposing vector is added, until ``C - A*y`` is definite; without
    ``cost``, ``-A*y``.
    """
    for level in reversed(levels):
        rows = Rows(level.pair)
        whole = [flint.arb(0)] * rows.m
        for i, value in zip(level.face.kept, y.entries(), strict=True):
            whole[i] = value
        base, unit = column(whole), flint.arb(int(cost))
        for k in range(0, flint.ctx.prec, WEIGHT_BITS):
            found = onto_free(rows, (base + level.exposing * flint.arb(2) ** k).mid(), zero=not cost)
            if found is not None and definite(rows.slack(found, unit)):
                y = found
                break
        else:
            return None
    return y


# --- rational evidence


def _fraction(value: Any) -> Fraction:
    mantissa, exponent = value.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _rational(value: Any) -> Any:
    mantissa, exponent = value.mid().man_exp()
    return flint.fmpq(mantissa) * flint.fmpq(2) ** int(exponent)


def _rationals(matrix: Any) -> list[Any]:
    return [_rational(v) for v in matrix.entries()]


def _rational_blocks(blocks: Blocks) -> list[Any]:
    return [flint.fmpq_mat(x.nrows(), x.ncols(), _rationals(x)) for x in blocks]


def _rational_point(primal: Primal, blocks: Blocks, free: Any) -> tuple[list[Any], list[Any]] | None:
    """Round a point to rationals, move it onto the rows exactly, and map it from the faces."""
    found = primal.pair.corrected(_rational_blocks(blocks), _rationals(free))
    if found is None:
        return None
    whole, rest = found
    for level in reversed(primal.levels):
        whole = level.face.point(whole)
    return whole, rest


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
        form = conic_form(problem, inquiry.reading)
        with flint.ctx.workprec(self.options.bits):
            return _lmi_claim(form) if isinstance(form, DualForm) else _claim(form)

    def rational_bounds(self, program: ConicProgram, tol: float, absolute_tol: float) -> RationalBounds:
        """Search for a point and multipliers whose values enclose a maximum within a tolerance."""
        with flint.ctx.workprec(self.options.bits):
            return _rational_bounds(program, tol, absolute_tol)


def _claim(form: Form) -> Claim:
    """Search for a point or a certificate of the primal program."""
    found = reduce_to_interior(form.pair)
    count = found.iterations
    where = f" on a face, after {counted(len(found.levels), 'step')}" if found.levels else ""
    if found.blocks is not None:
        exact = _rational_point(found, found.blocks, found.free)
        if exact is not None:
            point = form.point(*exact, [])
            near = tuple(fractions_to_floats(part) for part in point)
            return Claim(point=near, raw_status=f"point found{where}", iterations=count, rational=point)
    if found.certificate is not None:
        y = lift(found.levels, found.certificate, cost=False)
        values = None if y is None else form.pair.corrected_multipliers(_rationals(y), zero=True)
        if values is not None:
            y = form.multipliers([], [], values)
            status = f"certificate found{where}"
            return Claim(certificate=fractions_to_floats(y), raw_status=status, iterations=count, rational=y)
    claim = Claim(stop=Stop.STALLED, raw_status=f"no evidence found{where}", iterations=count)
    last = found.last
    if last is None or found.levels or last.tau > last.kappa:
        return claim
    # On the boundary of the cone: the verifier may find simple numbers near it.
    unit = max((abs(v) for v in last.y.entries()), default=flint.arb(1))
    y = form.multipliers([], [], [_rational(v / unit) for v in last.y.entries()])
    return replace(claim, certificate=fractions_to_floats(y))


def _lmi_claim(form: Form) -> Claim:
    """Search for a strictly feasible point of the dual program, or a certificate against it."""
    found = dual_interior(form.pair)
    if found.y is not None:
        values = form.pair.corrected_multipliers(_rationals(found.y))
        if values is not None:
            point = form.point([], [], values)
            near = tuple(fractions_to_floats(part) for part in point)
            return Claim(point=near, raw_status="point found", rational=point)
    if found.blocks is not None:
        exact = form.pair.corrected(_rational_blocks(found.blocks), _rationals(found.free), zero=True)
        if exact is not None:
            y = form.multipliers(*exact, [])
            return Claim(certificate=fractions_to_floats(y), raw_status="certificate found", rational=y)
    return Claim(stop=Stop.STALLED, raw_status="no evidence found")


@dataclass(frozen=True)
class RationalBounds:
    """Candidates in fractions for the two ends of a maximum: a point, and dual multipliers."""

    point: Point | None
    multipliers: np.ndarray | None


def _rational_bounds(program: ConicProgram, tol: float, absolute_tol: float) -> RationalBounds:
    def wanted(value: Any, bound: Any) -> bool:
        width = abs(value - bound)
        return bool(width < absolute_tol or width < tol * abs(bound))

    form = conic_form(program.problem, Reading.STORED, program.objective)
    primal = reduce_to_interior(form.pair)
    found = optimal_pair(primal, dual_interior(primal.pair).y, wanted)
    exact = None if found.blocks is None else _rational_point(primal, found.blocks, found.free)
    y = None if found.y is None else lift(primal.levels, found.y, cost=True)
    values = None if y is None else form.pair.corrected_multipliers(_rationals(y))
    if isinstance(form, DualForm):
        point = None if values is None else form.point([], [], values)
        multipliers = None if exact is None else form.multipliers(*exact, [])
    else:
        point = None if exact is None else form.point(*exact, [])
        multipliers = None if values is None else form.multipliers([], [], values)
    return RationalBounds(point, multipliers)
