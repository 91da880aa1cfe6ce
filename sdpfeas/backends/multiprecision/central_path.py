"""A primal-dual interior-point method in multiprecision arithmetic, on the homogeneous self-dual embedding.

:func:`central_path` follows the central path of the embedding of a :class:`ConicPair` with the HKM direction
and Mehrotra's predictor and corrector (Helmberg, Rendl, Vanderbei and Wolkowicz 1996; Xu, Hung and Ye 1996):

    <A_i, X> + (B x)_i = b_i tau,   Z = C tau - sum_i y_i A_i,   B'y = c tau,
    kappa = b'y - <C, X> - c'x,     X Z = mu I,   tau kappa = mu.

Numbers are the midpoints of Arb balls (python-flint) with the precision of ``flint.ctx``: their radii are
dropped, so nothing here is proved. Only step lengths are computed in doubles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import flint
import numpy as np

from sdpfeas.backends.multiprecision.conic_pair import ConicPair
from sdpfeas.numerics.limits import check_deadline

#: Most iterations of one path.
MAX_ITERATIONS = 300

#: Share of a step to the boundary that is taken, at worst and at best.
STEP_SHARES = 0.9, 0.999

#: The path ends after this many steps that are shorter than a thousandth.
SHORT_STEPS = 5

#: Bits of the first iterations, and more bits for every bit of ``mu``.
LEAST_BITS, BITS_PER_DIGIT = 96, 2.0

Blocks = list[Any]


def floats(matrix: Any) -> np.ndarray:
    """Round a matrix of balls to doubles."""
    flat = np.array([float(v) for v in matrix.mid().entries()])
    return flat.reshape(matrix.nrows(), matrix.ncols())


def column(values: Any) -> Any:
    """Return a column of balls."""
    values = list(values)
    return flint.arb_mat(len(values), 1, values)


def symmetric(matrix: Any) -> Any:
    """Return the symmetric part, rounded."""
    return ((matrix + matrix.transpose()) * flint.arb(0.5)).mid()


def solve(matrix: Any, right: Any) -> Any:
    """Solve a linear system approximately; the result may hold NaN."""
    return matrix.solve(right, algorithm="approx", nonstop=True) if matrix.nrows() else right


def cholesky(matrix: Any) -> Any | None:
    """Return the Cholesky factor; None if a pivot is not positive."""
    n = matrix.nrows()
    factor = [[flint.arb(0)] * n for _ in range(n)]
    for j in range(n):
        own = factor[j]
        pivot = matrix[j, j]
        for k in range(j):
            pivot -= own[k] * own[k]
        pivot = pivot.mid()
        if not pivot > 0:
            return None
        own[j] = pivot.sqrt().mid()
        for i in range(j + 1, n):
            line, value = factor[i], matrix[i, j]
            for k in range(j):
                value -= line[k] * own[k]
            line[j] = (value / own[j]).mid()
    return flint.arb_mat(factor)


def identity_matrix(n: int) -> Any:
    """Return the identity matrix."""
    return flint.arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])


def definite(blocks: Blocks) -> bool:
    """Whether all blocks have Cholesky factors in this precision."""
    return all(cholesky(block) is not None for block in blocks)


def _matrix(n: int, entries: list[tuple[int, int, Any]]) -> Any:
    matrix = flint.arb_mat(n, n)
    for a, b, v in entries:
        matrix[a, b] = v
    return matrix


class Rows:
    """The rows, right-hand side and cost of a pair, rounded to balls; the cost is the row after the last."""

    def __init__(self, pair: ConicPair) -> None:
        self.pair, self.m = pair, len(pair.rows)
        self.free = flint.arb_mat(self.m, len(pair.free_cost), [v for row in pair.free for v in row])
        self.right, self.free_cost = column(pair.right), column(pair.free_cost)
        #: For every block the rows that are not zero there, longest first, as lists of positions and values.
        self.touching: list[dict[int, list[tuple[int, int, Any]]]] = []
        #: The same rows as a matrix with one row each.
        self.flat: list[Any] = []
        rows = [*pair.rows, pair.cost]
        for k, n in enumerate(pair.sides):
            order = sorted((i for i, row in enumerate(rows) if k in row), key=lambda i: -len(rows[i][k]))
            own = {i: [(a, b, flint.arb(v)) for (a, b), v in rows[i][k].items()] for i in order}
            flat = flint.arb_mat(len(own), n * n)
            for place, entries in enumerate(own.values()):
                for a, b, v in entries:
                    flat[place, n * a + b] = v
            self.touching.append(own)
            self.flat.append(flat)

    @cached_property
    def inverse_gram(self) -> Any:
        """The inverse of the inner products of the rows, free variables included; NaN if it is singular."""
        unit = [identity_matrix(n) for n in self.pair.sides]
        lines = [line[: self.m] for line in self.schur_complement(unit, unit).table()[: self.m]]
        inner = flint.arb_mat(lines) if lines else flint.arb_mat(0, 0)
        return solve((inner + self.free * self.free.transpose()).mid(), identity_matrix(self.m)).mid()

    def apply(self, blocks: Blocks, free: Any) -> tuple[Any, Any]:
        """Return ``<A_i, X> + (B x)_i`` as a column, and ``<C, X> + c'x``."""
        total = [flint.arb(0)] * (self.m + 1)
        for rows, flat, x in zip(self.touching, self.flat, blocks, strict=True):
            for i, value in zip(rows, (flat * column(x.entries())).entries(), strict=True):
                total[i] += value
        cost = total[-1] + (self.free_cost.transpose() * free)[0, 0] if self.pair.free_cost else total[-1]
        return (column(total[:-1]) + self.free * free).mid(), cost.mid()

    def slack(self, y: Any, tau: Any) -> Blocks:
        """Return ``C tau - sum_i y_i A_i``."""
        weights = [*(-v for v in y.entries()), tau]
        out = []
        for n, rows, flat in zip(self.pair.sides, self.touching, self.flat, strict=True):
            total = flat.transpose() * column(weights[i] for i in rows)
            out.append(flint.arb_mat(n, n, total.entries()).mid())
        return out

    def schur_complement(self, primal: Blocks, inverse: Blocks) -> Any:
        """Return ``<A_i, X A_j Z^-1>`` for all rows, the cost included."""
        size = self.m + 1
        total = [[flint.arb(0)] * size for _ in range(size)]
        for rows, flat, x, z in zip(self.touching, self.flat, primal, inverse, strict=True):
            n, order = x.nrows(), list(rows)
            # Long rows are multiplied out together, short ones entry by entry.
            long, rest = 0, sum(len(entries) for entries in rows.values())
            while long < len(order) and len(rows[order[long]]) * rest > n**3:
                rest -= len(rows[order[long]])
                long += 1
            images = [(x * _matrix(n, rows[j]) * z).entries() for j in order[:long]]
            check_deadline("a Schur complement in multiprecision arithmetic")
            if images:
                products = (flat * flint.arb_mat(images).transpose()).table()
                for place, i in enumerate(order):
                    for j, value in zip(order[: min(place + 1, long)], products[place], strict=False):
                        total[i][j] += value
                        total[j][i] = total[i][j]
            xs, zs = x.table(), z.table()
            for place, j in enumerate(order[long:], start=long):
                check_deadline("a Schur complement in multiprecision arithmetic")
                for i in order[place:]:
                    for a, b, v in rows[i]:
                        total[i][j] += v * sum((w * xs[a][c] * zs[d][b] for c, d, w in rows[j]), flint.arb(0))
                    total[j][i] = total[i][j]
        return flint.arb_mat(total).mid()


@dataclass(frozen=True)
class Iterate:
    """Values of ``X, x, y, Z, tau, kappa``, or a search direction.

    ``mu``, the cost and whether the precision is exhausted are those of a point on the path.
    """

    primal: Blocks
    free: Any
    y: Any
    slack: Blocks
    tau: Any
    kappa: Any
    mu: Any = None
    cost: Any = None
    exhausted: bool = False

    @property
    def point(self) -> tuple[Blocks, Any]:
        """X and x of the program."""
        return [x / self.tau for x in self.primal], self.free / self.tau

    def moved(self, step: Iterate, length: Any) -> Iterate:
        """Take a step."""
        return Iterate(
            [symmetric(x + dx * length) for x, dx in zip(self.primal, step.primal, strict=True)],
            (self.free + step.free * length).mid(),
            (self.y + step.y * length).mid(),
            [symmetric(z + dz * length) for z, dz in zip(self.slack, step.slack, strict=True)],
            (self.tau + step.tau * length).mid(),
            (self.kappa + step.kappa * length).mid(),
        )


def central_path(pair: ConicPair, *, right: bool = True, cost: bool = True) -> Iterator[Iterate]:
    """Yield the iterates of the method, until the precision is exhausted.

    Without ``right`` or ``cost`` the right-hand side or the cost is zero: the feasibility problem of the dual
    or of the primal program. Early iterates are computed with fewer bits.
    """
    rows = Rows(pair.without(right=right, cost=cost))
    one, most = flint.arb(1), flint.ctx.prec
    identity = [identity_matrix(n) for n in pair.sides]
    at = Iterate(identity, column([0] * len(pair.free_cost)), column([0] * rows.m), identity, one, one)
    short, bits = 0, most
    for _ in range(MAX_ITERATIONS):
        check_deadline("an iteration in multiprecision arithmetic")
        with flint.ctx.workprec(bits):
            system = _System(rows, at)
        mu = system.mu
        exhausted = bool(mu < flint.arb(2) ** (-most // 3))
        yield replace(at, mu=mu, cost=system.cost, exhausted=exhausted)
        if exhausted:
            return
        bits = int(min(most, LEAST_BITS - BITS_PER_DIGIT * math.log2(max(float(mu), 1e-300))))
        with flint.ctx.workprec(bits):
            step, length = system.step()
            short = short + 1 if length < 1e-3 else 0
            if step is None or not length > 0.0 or short == SHORT_STEPS:
                return
            at = at.moved(step, flint.arb(length))


class _System:
    """The Newton system of the embedding at one iterate."""

    def __init__(self, rows: Rows, at: Iterate) -> None:
        self.rows, self.at = rows, at
        value, self.cost = rows.apply(at.primal, at.free)
        inner = at.tau * at.kappa
        for x, z in zip(at.primal, at.slack, strict=True):
            inner += sum((a * b for a, b in zip(x.entries(), z.entries(), strict=True)), flint.arb(0))
        self.mu = (inner / (sum(rows.pair.sides) + 1)).mid()
        #: Residuals of the rows, of Z, of B'y = c and of the equation of kappa.
        self.primal = (rows.right * at.tau - value).mid()
        wanted = rows.slack(at.y, at.tau)
        self.slack = [(s - z).mid() for s, z in zip(wanted, at.slack, strict=True)]
        self.free = (rows.free_cost * at.tau - rows.free.transpose() * at.y).mid()
        self.gap = (at.kappa + self.cost - _dot(rows.right, at.y)).mid()

    def step(self) -> tuple[Iterate | None, float]:
        """Return the search direction and a step length; None if the system cannot be solved."""
        at = self.at
        factors = [cholesky(x) for x in at.primal], [cholesky(z) for z in at.slack]
        if None in factors[0] or None in factors[1]:
            return None, 0.0
        self._form_system(factors[1])
        predictor = self._direction(flint.arb(0), None)
        reach = min(1.0, _step_length(at, predictor, factors))
        centring = flint.arb(max((1.0 - reach) ** 3 if reach > 0.1 else 1.0 - reach, 1e-8))
        corrector = self._direction(centring, predictor)
        share = STEP_SHARES[0] + (STEP_SHARES[1] - STEP_SHARES[0]) * reach**4
        return corrector, min(1.0, share * _step_length(at, corrector, factors))

    def _form_system(self, factors: Blocks) -> None:
        """Compute ``Z^-1`` and the Schur complement."""
        rows, m = self.rows, self.rows.m
        inverses = (solve(f, identity_matrix(f.nrows())) for f in factors)
        self.inverse = [(part.transpose() * part).mid() for part in inverses]
        table = rows.schur_complement(self.at.primal, self.inverse).table()
        self.cross = column(line[m] for line in table[:m])
        self.corner = table[m][m]
        count = rows.free.ncols()
        free = rows.free.table()
        lines = [[*line[:m], *own] for line, own in zip(table[:m], free, strict=True)]
        lines += [[*(own[k] for own in free), *([0] * count)] for k in range(count)]
        self.matrix = flint.arb_mat(lines) if lines else flint.arb_mat(0, 0)

    def _solve(self, sides: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Solve for several right-hand sides, each split into rows and free variables."""
        columns = flint.arb_mat([[*upper.entries(), *lower.entries()] for upper, lower in sides])
        found = solve(self.matrix, columns.transpose()).mid().transpose().table()
        return [(column(own[: self.rows.m]), column(own[self.rows.m :])) for own in found]

    def _direction(self, centring: Any, predictor: Iterate | None) -> Iterate:
        """Return the predictor (``centring`` zero), or the corrector that follows it."""
        at, rows = self.at, self.rows
        share, target = 1 - centring, centring * self.mu
        base = []
        for k, (x, inverse) in enumerate(zip(at.primal, self.inverse, strict=True)):
            part = inverse * target - x
            if predictor is not None:
                part -= symmetric(predictor.primal[k] * predictor.slack[k] * inverse)
            base.append(part.mid())
        scaled = self._scaled(self.slack)
        first = [(r - s * share).mid() for r, s in zip(base, scaled, strict=True)]
        value, cost = rows.apply(first, column([0] * rows.free.ncols()))
        sides = [(self.primal * share - value, self.free * share)]
        if predictor is None:
            # The part of both directions that belongs to tau.
            sides.append((rows.right + self.cross, rows.free_cost))
        (y, free), *more = self._solve(sides)
        if more:
            self.along = more[0]
        second = target - at.tau * at.kappa
        if predictor is not None:
            second -= predictor.tau * predictor.kappa
        towards = rows.right - self.cross
        number = self.gap * share + cost + second / at.tau - _dot(towards, y) + _dot(rows.free_cost, free)
        ratio = _dot(towards, self.along[0]) - _dot(rows.free_cost, self.along[1]) + self.corner
        tau = (number / (ratio + at.kappa / at.tau)).mid()
        y, free = (y + self.along[0] * tau).mid(), (free + self.along[1] * tau).mid()
        slack = [(s + r * share).mid() for s, r in zip(rows.slack(y, tau), self.slack, strict=True)]
        primal = [(r - s).mid() for r, s in zip(base, self._scaled(slack), strict=True)]
        return Iterate(primal, free, y, slack, tau, ((second - at.kappa * tau) / at.tau).mid())

    def _scaled(self, blocks: Blocks) -> Blocks:
        """Return the symmetric part of ``X D Z^-1``."""
        parts = zip(self.at.primal, blocks, self.inverse, strict=True)
        return [symmetric(x * d * inverse) for x, d, inverse in parts]


def _dot(a: Any, b: Any) -> Any:
    return sum((x * y for x, y in zip(a.entries(), b.entries(), strict=True)), flint.arb(0)).mid()


def _step_length(at: Iterate, step: Iterate, factors: tuple[Blocks, Blocks]) -> float:
    """Return the length of the longest step that stays in the cones; zero if it is not a number."""
    length = math.inf
    for value, change in ((at.tau, step.tau), (at.kappa, step.kappa)):
        if not change.is_finite():
            return 0.0
        if change < 0:
            length = min(length, float(-value / change))
    for parts, changes in zip(factors, (step.primal, step.slack), strict=True):
        for factor, change in zip(parts, changes, strict=True):
            half = solve(factor, change)
            relative = floats(solve(factor, half.transpose()))
            if not np.isfinite(relative).all():
                return 0.0
            least = float(np.linalg.eigvalsh((relative + relative.T) / 2.0)[0]) if relative.size else 0.0
            if least < 0.0:
                length = min(length, -1.0 / least)
    return length
