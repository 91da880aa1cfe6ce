"""``admm``: over-relaxed ADMM (Douglas–Rachford splitting) between the sets and the rows.

A feasible point is a common member ``(X, z)`` of ``K × [lower, upper]`` and of the graph ``{(X, A(X))}``
(graph form of Parikh and Boyd, 2014). The first projection is one spectral decomposition per block, the
second one linear system that is factorised once. If the two sets do not meet, the differences of the
iterates converge to a displacement vector, whose multipliers are an infeasibility certificate (Banjac,
Goulart, Stellato and Boyd, 2019).

Solutions and certificates of the plain problem lie on the boundary of their cones, where rounding undoes
proofs. So two runs go side by side: one on a *tightened* problem, with sets and bounds smaller by a margin,
whose solutions are strictly feasible for the original; one on a *widened* problem, with larger cones, whose
certificates are strict. When both have converged without a proof, the margin shrinks.

Warm starts are supported. The method is deterministic. Entry point: :class:`Admm`; the algorithm is
:meth:`MarginSearch._iterate`, one step is :meth:`DouglasRachford.step`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, cg

from sdpfeas.backends.base import ALL_SETS, FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry, WarmStart
from sdpfeas.cards.options import Count, Positive, Range, Share
from sdpfeas.claims import Claim, Stop
from sdpfeas.deadline import Deadline
from sdpfeas.errors import OutOfTime
from sdpfeas.numerics.limits import check_deadline
from sdpfeas.numerics.linalg import FloatArray, cholesky, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound, sign_violation
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.equality_correction import CorrectionSystem, correct_point
from sdpfeas.verifier.multipliers import Multipliers
from sdpfeas.verifier.point_metric import Movable

#: Each margin is this share of the previous one.
MARGIN_SHARE = 1e-2

#: Weight of equality rows relative to inequality rows.
EQUALITY_WEIGHT = 32.0

#: A run has converged if its primal residual is at most this, relative to the iterate, ...
RESIDUAL_TOLERANCE = 1e-9

#: ... or if its displacement vector changes by at most this between screens, relative to its norm.
DISPLACEMENT_TOLERANCE = 1e-5

#: Largest residual of an equality row, relative to its terms, at which a starting point is offered.
START_RESIDUAL = 1e-6

#: Largest number of coefficients for which the rows are stored as one dense matrix.
DENSE_COEFFICIENTS = 250_000

#: Largest number of rows for which ``AA'`` is factorised. Beyond, conjugate gradients are used.
CHOLESKY_ROWS = 3000


@dataclass(frozen=True)
class AdmmOptions:
    """Options of ``admm``.

    Parameters
    ----------
    max_iterations : int
        Iterations of each of the two runs, over all margins.
    margin : float
        First margin by which the problem is tightened and widened, relative to its size.
    min_margin : float
        Last margin.
    relaxation : float
        Over-relaxation, between 0 and 2; 1 is plain ADMM.
    screen_every : int
        Iterations between two screens, in which evidence is offered and progress reported.
    penalty : float
        First penalty: weight of the rows relative to the sets.
    adaptive : bool
        Whether the penalty follows the residuals.
    """

    max_iterations: Count = 20_000
    margin: Share = 1e-3
    min_margin: Share = 1e-7
    relaxation: Annotated[float, Range(0.0, 2.0, above=True)] = 1.6
    screen_every: Count = 25
    penalty: Positive = 1.0
    adaptive: bool = True

    def __post_init__(self) -> None:
        if self.min_margin > self.margin:
            raise ValueError(f"min_margin = {self.min_margin} is above margin = {self.margin}")


class Admm(FeasibilityBackend):
    """Over-relaxed ADMM on all sets, with proof attempts at every screen."""

    name = "admm"
    sets = ALL_SETS
    warm_starts = True
    calls_back = True
    Options = AdmmOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Search for a point or a certificate; see :meth:`FeasibilityBackend.solve`."""
        return MarginSearch(problem, self.options, inquiry).run()


class MarginSearch:
    """Two runs side by side, on the tightened and on the widened problem, with decreasing margins."""

    def __init__(self, problem: FeasibilityProblem, options: AdmmOptions, inquiry: Inquiry) -> None:
        self.original = problem
        self.options = options
        self.inquiry = inquiry
        self.scaling = problem.scaled()
        self.problem = self.scaling.problem
        rows, self.scales = ruiz_scaling(self.problem.block_norms)
        self.weights = rows * np.where(problem.equality, EQUALITY_WEIGHT, 1.0)
        self.bounds = largest_bound(self.problem)
        self.iterations = 0
        self.point: Point | None = None
        self.certificate: FloatArray | None = None

    def run(self) -> Claim:
        """Offer the starting point and certificate, then iterate."""
        start = self.inquiry.start
        # A diverging run may overflow; evidence that is not finite is refused.
        with np.errstate(all="ignore"):
            self.certificate = start.certificate
            if self.certificate is not None and self.inquiry.offer(multipliers=self.certificate):
                return self._claim(Stop.FINISHED, "proved by the starting certificate")
            self.point = start.point
            if self.point is None:
                self.point = tuple(block.interior_point() for block in self.original.sets)
            if self._nearly_feasible(self.point) and self.inquiry.offer(point=self.point):
                return self._claim(Stop.FINISHED, "proved by the starting point")
            try:
                return self._iterate(start)
            except np.linalg.LinAlgError as error:
                return self._claim(Stop.NUMERICAL, str(error))
            except OutOfTime as error:
                return self._claim(Stop.TIME_LIMIT, str(error))

    def _iterate(self, start: WarmStart) -> Claim:
        """Run ADMM on the tightened and the widened problem, from the largest margin to the smallest."""
        self.equalities = equality_projection(self.problem, self.scales)
        space = ScaledSpace(self.problem, self.weights, self.scales)
        tightened = DouglasRachford(space, self.options)
        tightened.start(start.point, None)
        widened: DouglasRachford | None = None
        for margin, last_iteration in self._margins():
            widened = self._widened_run(space.widened(margin), widened, start)
            runs = ((tightened, self._offer_point), (widened, self._offer_certificate))
            while self.iterations < last_iteration and not (tightened.converged and widened.converged):
                steps = min(self.options.screen_every, last_iteration - self.iterations)
                self.iterations += steps
                self._tighten(tightened, margin)
                for run, offer in runs:
                    if run.converged:
                        continue
                    run.advance(steps, self.inquiry.deadline)
                    if offer(run):
                        return self._claim(Stop.FINISHED, f"proof at margin {margin:g}")
                    if self.inquiry.deadline.expired:
                        return self._claim(Stop.TIME_LIMIT, "time limit")
                    if self.options.adaptive:
                        run.adapt_penalty()
                if self.inquiry.report(self.iterations, self.point, self.certificate):
                    return self._claim(Stop.CALLBACK, "stopped by the callback")
            tightened.restart()
        if self.iterations >= self.options.max_iterations:
            return self._claim(Stop.ITERATION_LIMIT, "iteration limit")
        return self._claim(Stop.STALLED, "converged without a proof at every margin")

    def _margins(self) -> Iterator[tuple[float, int]]:
        """Yield the margins, each with its last iteration: a third of those left, the final one all."""
        margin, most = self.options.margin, self.options.max_iterations
        while margin > self.options.min_margin * (1.0 + 1e-9):
            yield margin, self.iterations + (most - self.iterations + 2) // 3
            margin *= MARGIN_SHARE
        yield self.options.min_margin, most

    def _widened_run(
        self, space: ScaledSpace, previous: DouglasRachford | None, start: WarmStart
    ) -> DouglasRachford:
        """Return a run on the widened problem that continues from the previous one, if there is one."""
        run = DouglasRachford(space, self.options)
        if previous is None:
            y = start.certificate
            run.start(start.point, None if y is None else self.scaling.start_multipliers(y))
        else:
            run.continue_from(previous)
        return run

    def _tighten(self, run: DouglasRachford, margin: float) -> None:
        """Move sets and bounds inwards by a margin relative to the current point."""
        problem = self.problem
        point = run.space.point(run.member)
        distance = margin * (self.bounds + term_sizes(problem, point))
        distance = np.minimum(distance, 0.25 * (problem.upper - problem.lower))
        run.lower = (problem.lower + distance) * self.weights
        run.upper = (problem.upper - distance) * self.weights
        if problem.equality.any():
            run.sets = run.space.sets(margin)
            run.floors = [
                margin * float(np.linalg.norm(x)) / block.degree if block.cone else 0.0
                for block, x in zip(problem.sets, run.space.blocks(run.member), strict=True)
            ]

    def _offer_point(self, run: DouglasRachford) -> bool:
        """Offer the point of the tightened run, projected onto the equality rows."""
        point = run.space.point(run.member)
        self.point = point if self.equalities is None else correct_point(self.problem, self.equalities, point)
        passes = point_passes_screen(self.original, self.point)
        return self._is_due(passes, run) and self.inquiry.offer(point=self.point, final=run.converged)

    def _offer_certificate(self, run: DouglasRachford) -> bool:
        """Offer the multipliers of the widened run."""
        for candidate in run.certificate_candidates():
            y = admissible_certificate(self.problem, candidate)
            if y is None:
                continue
            self.certificate = self.scaling.multipliers(y)
            passes = certificate_passes_screen(self.original, self.certificate)
            if self._is_due(passes, run) and self.inquiry.offer(
                multipliers=self.certificate, final=run.converged
            ):
                return True
        return False

    def _is_due(self, passes: bool, run: DouglasRachford) -> bool:
        """Return whether to offer evidence: what passes the screen, with back-off."""
        back_off = run.screens & (run.screens - 1) == 0
        return passes and (run.converged or run.screens < 8 or back_off)

    def _nearly_feasible(self, point: Point) -> bool:
        """Return whether a starting point is good enough for a proof attempt, which may be expensive."""
        problem = self.original
        off = np.abs(problem.apply(point) - problem.lower)[problem.equality]
        size = (largest_bound(problem) + term_sizes(problem, point))[problem.equality]
        return bool(np.all(off <= START_RESIDUAL * size)) and point_passes_screen(problem, point)

    def _claim(self, stop: Stop, status: str) -> Claim:
        return Claim(self.point, self.certificate, status, stop, self.iterations)


class DouglasRachford:
    """One run of over-relaxed Douglas–Rachford splitting. Sets and bounds may change between steps.

    ``(x, z)`` is the governing sequence, ``(member, value)`` its projection onto sets and bounds.
    """

    def __init__(self, space: ScaledSpace, options: AdmmOptions) -> None:
        self.space = space
        self.relaxation = options.relaxation
        self.graph = GraphProjection(space, options.penalty)
        self.sets = space.sets()
        #: Per cone, the least eigenvalue that its members must have.
        self.floors = [0.0] * len(self.sets)
        self.lower = space.problem.lower * space.weights
        self.upper = space.problem.upper * space.weights
        self.x, self.z = np.zeros(space.size), np.zeros(space.problem.m)
        self.converged = False
        self._displacement: tuple[FloatArray, FloatArray] | None = None
        self.screens, self._next_adaptation = 0, 2
        self._project_onto_sets()

    def start(self, point: Point | None, y: FloatArray | None) -> None:
        """Start at a primal point, at multipliers, or both."""
        if point is not None:
            self.x = self.space.vector(point)
            self.z = np.clip(self.space.apply(self.x), self.lower, self.upper)
        if y is not None:
            weighted = y / self.space.weights
            self.x = self.x + self.space.adjoint(weighted)
            self.z = self.z - weighted / self.graph.penalty
        self._project_onto_sets()

    def continue_from(self, other: DouglasRachford) -> None:
        """Start at the iterate of another run."""
        self.x, self.z = other.x, other.z
        self.graph.set_penalty(other.graph.penalty)
        self._project_onto_sets()

    def restart(self) -> None:
        """Restart from the projected iterate, which discards the accumulated displacement."""
        self.x, self.z = self.member, self.value
        self.converged, self._displacement = False, None
        self._project_onto_sets()

    def step(self) -> None:
        """Take one step: reflect at the sets, project onto the graph, relax, project onto the sets."""
        x, z = self.graph.project(2.0 * self.member - self.x, 2.0 * self.value - self.z)
        self._residual = x - self.member, z - self.value
        self.x = self.x + self.relaxation * self._residual[0]
        self.z = self.z + self.relaxation * self._residual[1]
        self._project_onto_sets()

    def _project_onto_sets(self) -> None:
        parts = [
            block.project(x - floor * block.identity()) + floor * block.identity()
            if floor
            else block.project(x)
            for block, x, floor in zip(self.sets, self.space.blocks(self.x), self.floors, strict=True)
        ]
        self.member = np.concatenate([part.reshape(-1) for part in parts])
        self.value = np.clip(self.z, self.lower, self.upper)

    def advance(self, steps: int, deadline: Deadline) -> None:
        """Take several steps, then test whether the residual or the displacement vector has converged."""
        x, z = self.x, self.z
        for _ in range(steps):
            check_deadline("a step of the splitting")
            self.step()
            if deadline.expired:
                break
        last, self._displacement = self._displacement, (self.x - x, self.z - z)
        self.screens += 1
        self.converged = _norm(*self._residual) <= RESIDUAL_TOLERANCE * _norm(self.member, self.value)
        if last is not None:
            change = _norm(self._displacement[0] - last[0], self._displacement[1] - last[1])
            self.converged |= change <= DISPLACEMENT_TOLERANCE * _norm(*self._displacement)

    def adapt_penalty(self) -> None:
        """Balance the residuals of sets and rows (Boyd et al., 2011, 3.4.1), at screens 2, 4, 8, ..."""
        if self.screens < self._next_adaptation:
            return
        self._next_adaptation *= 2
        sets, rows = _norm(self._residual[0]), _norm(self._residual[1])
        if not (sets > 0.0 and rows > 0.0) or 1.0 / 3.0 < rows / sets < 3.0:
            return
        old = self.graph.penalty
        new = float(np.clip(old * np.clip(rows / sets, 0.1, 10.0), 1e-4, 1e4))
        # Keep the multipliers, which are the penalty times the distance to the bounds.
        self.z = self.value + (self.z - self.value) * (old / new)
        self.graph.set_penalty(new)
        self._displacement = None

    def certificate_candidates(self) -> Iterator[FloatArray]:
        """Yield the multipliers of the last displacement vector, then of the accumulated one."""
        assert self._displacement is not None
        for dx, dz in (self._displacement, (self.x - self.member, self.z - self.value)):
            yield -self.space.weights * self.graph.multipliers(dz - self.space.apply(dx))


def _norm(*parts: FloatArray) -> float:
    return float(np.sqrt(sum(float(part @ part) for part in parts)))


# --- Scaled coordinates


class ScaledSpace:
    """Points as vectors in scaled coordinates, with optionally widened cones.

    Block ``b`` is stored as ``X_b / scales[b]``, and row ``i`` is multiplied by ``weights[i]``. The product
    of all cones is widened by the substitution ``X = W - kappa·tr(W)·I`` with ``W`` in the cones, so that
    ``X`` may be slightly indefinite. Vectors hold ``W``.
    """

    def __init__(
        self, problem: FeasibilityProblem, weights: FloatArray, scales: FloatArray, margin: float = 0.0
    ) -> None:
        self.problem = problem
        self.weights = weights
        self.scales = scales
        sizes = [block.entries for block in problem.sets]
        self.size = sum(sizes)
        ends = np.cumsum(sizes)
        self._slices = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
        self._unwidened = self
        self._degree = sum(block.degree for block in problem.sets if block.cone)
        self._kappa = margin / ((1.0 + margin) * self._degree) if self._degree else 0.0

    def widened(self, margin: float) -> ScaledSpace:
        """Return the same space with cones widened by a margin."""
        out = ScaledSpace(self.problem, self.weights, self.scales, margin)
        out._unwidened = self._unwidened
        return out

    def blocks(self, vector: FloatArray) -> list[FloatArray]:
        """Split a vector into one array per set, in scaled coordinates."""
        shapes = (block.shape for block in self.problem.sets)
        return [vector[part].reshape(shape) for part, shape in zip(self._slices, shapes, strict=True)]

    def sets(self, margin: float = 0.0) -> list[BlockSet]:
        """Return the sets in scaled coordinates, with bounded sets shrunk by a margin."""
        return [
            block.shrunk(margin).scaled(1.0 / scale)
            for block, scale in zip(self.problem.sets, self.scales, strict=True)
        ]

    def point(self, vector: FloatArray) -> Point:
        """Return the point of a vector, in the coordinates of the problem."""
        return self._rescaled(self._shifted(self.blocks(vector), self._kappa), self.scales)

    def vector(self, point: Point) -> FloatArray:
        """Return the vector of a point: the inverse of :meth:`point`."""
        back = -self._kappa / (1.0 - self._kappa * self._degree)
        blocks = self._shifted(self._rescaled(point, 1.0 / self.scales), back)
        return np.concatenate([x.reshape(-1) for x in blocks])

    def _shifted(self, blocks: Sequence[FloatArray], kappa: float) -> list[FloatArray]:
        """Subtract ``kappa`` times the total trace of the cones from their diagonals."""
        if kappa == 0.0:
            return list(blocks)
        pairs = list(zip(self.problem.sets, blocks, strict=True))
        shift = kappa * sum(block.trace_of(x) for block, x in pairs if block.cone)
        return [x - shift * block.identity() if block.cone else x for block, x in pairs]

    def _rescaled(self, blocks: Sequence[FloatArray], scales: FloatArray) -> Point:
        return tuple(scale * x for scale, x in zip(scales, blocks, strict=True))

    def apply(self, vector: FloatArray) -> FloatArray:
        """Return the weighted row values of a vector."""
        if self.matrix is not None:
            return self.matrix @ vector
        return self.weights * self.problem.apply(self.point(vector))

    def adjoint(self, y: FloatArray) -> FloatArray:
        """Apply the adjoint of :meth:`apply`."""
        if self.matrix is not None:
            return y @ self.matrix
        return self._adjoint(y)

    def _adjoint(self, y: FloatArray) -> FloatArray:
        gradient = self._rescaled(self.problem.adjoint(self.weights * y), self.scales)
        return np.concatenate([g.reshape(-1) for g in self._shifted(gradient, self._kappa)])

    @cached_property
    def matrix(self) -> FloatArray | None:
        """The rows as one dense matrix, or None if it would be too large."""
        if not 0 < self.size * self.problem.m <= DENSE_COEFFICIENTS:
            return None
        return np.array([self._adjoint(unit) for unit in np.eye(self.problem.m)])

    def gram(self) -> FloatArray:
        """Return the Gram matrix ``AA'`` of the weighted rows."""
        column = self._trace_column()
        total = self._unwidened._unweighted_gram - np.outer(column, column)
        return symmetrize(total * self.weights[:, None] * self.weights)

    @cached_property
    def _unweighted_gram(self) -> FloatArray:
        total = np.zeros((self.problem.m, self.problem.m))
        for rows, scale in zip(self.problem.rows, self.scales, strict=True):
            if not rows.empty:
                total += scale**2 * rows.gram()
        return total

    def _trace_column(self) -> FloatArray:
        """Return ``u`` such that widening the cones subtracts ``uu'`` from the Gram matrix."""
        total = np.zeros(self.problem.m)
        for (_, block, rows), scale in zip(self.problem.blocks(), self.scales, strict=True):
            if block.cone and not rows.empty:
                total += scale * rows.apply(block.identity())
        return np.sqrt(self._kappa * (2.0 - self._kappa * self._degree)) * total


def ruiz_scaling(norms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return weights of rows and scales of blocks that equilibrate ``norms`` (blocks × rows).

    The method is that of Ruiz (2001), rounded to powers of two.
    """
    rows, blocks = np.ones(norms.shape[1]), np.ones(norms.shape[0])
    for _ in range(10):
        scaled = norms * blocks[:, None] * rows
        rows *= _inverse_root(np.sqrt(np.sum(scaled**2, axis=0)))
        touched = np.maximum(np.sum(norms > 0.0, axis=1), 1)
        blocks *= _inverse_root(np.sqrt(np.sum(scaled**2, axis=1) / touched))
    return power_of_two(1.0 / rows), power_of_two(1.0 / blocks)


def _inverse_root(sizes: FloatArray) -> FloatArray:
    return 1.0 / np.sqrt(np.where(sizes > 0.0, sizes, 1.0))


# --- Projection onto the graph of the rows


class GraphProjection:
    """Projection onto the graph ``{(x, A x)}`` in the norm ``|x|^2 + penalty·|z|^2``.

    The projection of ``(v, u)`` has ``x = v + A't`` with ``t = (I/penalty + AA')^-1 (u - A v)``. That system
    is solved by a Cholesky factorisation per penalty or, with many rows, by conjugate gradients without
    ``AA'`` from the previous solution.
    """

    def __init__(self, space: ScaledSpace, penalty: float) -> None:
        self.space = space
        self._gram = space.gram() if space.problem.m <= CHOLESKY_ROWS else None
        self._last = np.zeros(space.problem.m)
        self.set_penalty(penalty)

    def set_penalty(self, penalty: float) -> None:
        """Change the penalty, which refactorises the linear system."""
        self.penalty = penalty
        if self._gram is not None:
            self._factor = cholesky(self._gram + np.eye(self._gram.shape[0]) / penalty), True

    def multipliers(self, residual: FloatArray) -> FloatArray:
        """Solve ``(I/penalty + AA') t = residual``."""
        if self._gram is not None:
            return np.asarray(scipy.linalg.cho_solve(self._factor, residual, check_finite=False))

        def matvec(t: FloatArray) -> FloatArray:
            return t / self.penalty + self.space.apply(self.space.adjoint(t))

        operator = LinearOperator((residual.size, residual.size), matvec=matvec, dtype=np.float64)
        self._last, _ = cg(operator, residual, x0=self._last, rtol=1e-8, maxiter=100)
        return self._last

    def project(self, v: FloatArray, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the projection of ``(v, u)``."""
        t = self.multipliers(u - self.space.apply(v))
        # A x = A v + AA't = u - t/penalty, without applying the rows again.
        return v + self.space.adjoint(t), u - t / self.penalty


# --- From iterates to evidence


def equality_projection(problem: FeasibilityProblem, scales: FloatArray) -> CorrectionSystem | None:
    """Return the system of least-norm corrections onto the equality rows and the traces, factorised once.

    Returns None without such rows, or if it cannot be factorised.
    """
    index = problem.equality_rows
    if index.size == 0:
        return None
    touched = [(b, s, rows) for b, s, rows in problem.blocks() if np.any(problem.block_norms[b][index])]
    parts = [Movable(b, rows.select(index), float(scales[b]), s.trace) for b, s, rows in touched]
    system = CorrectionSystem(parts, index.size)
    return system if system.usable else None


def admissible_certificate(problem: FeasibilityProblem, y: FloatArray) -> FloatArray | None:
    """Return normalised multipliers near ``y`` with the signs of their rows and ``A*y = 0`` on Free blocks.

    Returns None if they vanish.
    """

    def with_signs(y: FloatArray) -> FloatArray:
        return np.where(sign_violation(problem, y) > 0.0, 0.0, y)

    largest = float(np.max(np.abs(y), initial=0.0))
    if not 0.0 < largest < np.inf:
        return None
    y = with_signs(y / largest)
    y = with_signs(next(Multipliers(problem, y).corrected(), y))
    return y if y.any() else None


def point_passes_screen(problem: FeasibilityProblem, point: Point) -> bool:
    """Return whether a point satisfies the inequality rows and is interior where corrections move it."""
    value = problem.apply(point)
    within = (value >= problem.lower) & (value <= problem.upper)
    if not np.all(within | problem.equality):
        return False
    corrected = bool(problem.equality.any())
    return all(
        block.depth(x) > 0.0
        for block, x in zip(problem.sets, point, strict=True)
        if corrected and not block.free
    )


def certificate_passes_screen(problem: FeasibilityProblem, y: FloatArray) -> bool:
    """Return whether ``beta(y) > sigma_K(A*y)`` in floating point, Free blocks left out."""
    gap = float(np.sum(problem.beta_terms(y)))
    for _, block, rows in problem.blocks():
        if rows.empty or block.free:
            continue
        gap -= block.support(rows.adjoint(y))
    return gap > 0.0


def term_sizes(problem: FeasibilityProblem, point: Point) -> FloatArray:
    """Return, per row, the sum of the absolute contributions of the blocks."""
    total = np.zeros(problem.m)
    for rows, x in zip(problem.rows, point, strict=True):
        total += np.abs(rows.apply(x))
    return total
