"""Base classes of the backends that call conic solvers, and the formulation as a cone program.

:class:`ConeFormulation` writes a feasibility problem as a cone program and maps solutions back.
:class:`ConicBackend` solves it with and without a margin; :class:`DirectBackend` adds the choice between
calling a solver directly and through cvxpy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.base import SPECTRAL_SETS, FeasibilityBackend
from sdpfeas.backends.conic.cone_program import (
    ConeProgram,
    Cones,
    ConeSolution,
    Form,
    SlackElimination,
    StandardForm,
    solve_direct,
)
from sdpfeas.backends.conic.conic_cost import need_program
from sdpfeas.backends.conic.cvxpy_model import CvxpySolver, solve_with_cvxpy
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.claims import Claim, Stop, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.errors import OutOfTime
from sdpfeas.numerics.linalg import FloatArray, Triangle, svec_map, symmetrize
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem, Point, largest_bound
from sdpfeas.problem.reductions.presolve import presolve
from sdpfeas.problem.reductions.row_scaling import power_of_two
from sdpfeas.problem.sets import BlockSet, SecondOrder

#: Margin above which a point is certainly interior, whatever the error of the solver; then the multipliers
#: are dropped.
CLEAR_MARGIN = 1e-5

#: Objective of the cone program: none, or the largest margin; "auto" tries both, in the backend's order.
Objective = Literal["auto", "none", "margin"]


class ConicBackend(FeasibilityBackend):
    """Base class of the backends that write the problem as a cone program for a conic solver.

    Without an objective, interior-point methods stop deep inside the feasible set, first-order methods at its
    boundary. With a margin the solver searches for the point deepest inside, which also separates problems
    close to the boundary; on unbounded sets that point may be far away. If the margin is not positive, the
    multipliers are a certificate, but on the boundary of its cone, where rounding undoes proofs on unbounded
    sets. Then a second program asks for a deeper certificate.
    """

    sets = SPECTRAL_SETS | {SecondOrder}
    maximises = True
    triangle: ClassVar[Triangle] = "upper"
    #: Order of the two objectives if the option is "auto".
    objectives: ClassVar[tuple[Objective, ...]] = ("none", "margin")

    @abstractmethod
    def _solve_program(self, program: ConeProgram, deadline: Deadline) -> ConeSolution:
        """Solve a cone program."""

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Search for a point or a certificate; see :meth:`FeasibilityBackend.solve`."""
        need_program(problem)
        small = presolve(problem)
        if small.answer is not None:
            return Claim(*small.answer, raw_status="presolved")
        return self._solve_presolved(small.problem, inquiry.through(small)).back(small)

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise a linear objective; see :meth:`FeasibilityBackend.maximise`."""
        need_program(program.problem)
        formulation = ConeFormulation(program.problem, self.triangle, program.objective, program.scale)
        solution = self._solve_program(formulation.program, inquiry.deadline)
        with inquiry.proof_time():
            claim = formulation.claim(solution)
        if solution.z is None:
            return claim
        return replace(claim, certificate=formulation.multipliers(solution.z))

    def _solve_presolved(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Solve with one objective or, if it proves nothing, with both."""
        formulation = ConeFormulation(problem, self.triangle)
        if self.options.objective != "auto":
            return self._solve_with_objective(formulation, self.options.objective, inquiry)
        first = self._solve_with_objective(formulation, self.objectives[0], inquiry)
        if inquiry.deadline.expired:
            return replace(first, stop=Stop.TIME_LIMIT)
        if inquiry.offer(first.point, first.certificate):
            return first
        try:
            second = self._solve_with_objective(formulation, self.objectives[1], inquiry)
        except OutOfTime as error:
            return replace(first, stop=Stop.TIME_LIMIT, raw_status=f"{first.raw_status}; {error}")
        return replace(
            self._better(first, second, inquiry),
            raw_status=f"{first.raw_status}; {self.objectives[1]}: {second.raw_status}",
            iterations=(first.iterations or 0) + (second.iterations or 0),
        )

    @staticmethod
    def _better(first: Claim, second: Claim, inquiry: Inquiry) -> Claim:
        """Return the better claim: one with a proof, else with a numeric verdict, else with any evidence."""
        if inquiry.offer(second.point, second.certificate):
            return second
        for claim in (first, second):
            if inquiry.offer(claim.point, claim.certificate, final=True):
                return claim
        return second if first.point is None and first.certificate is None else first

    def _solve_with_objective(
        self, formulation: ConeFormulation, objective: Objective, inquiry: Inquiry
    ) -> Claim:
        program, deadline = formulation.program, inquiry.deadline
        if objective == "none":
            solution = _with_claimed_verdict(self._solve_program(program, deadline))
        else:
            deepest = self._solve_program(program.with_margin(), deadline)
            solution = _with_claimed_verdict(program.without_margin(deepest))
        try:
            with inquiry.proof_time():
                claim = formulation.claim(solution)
        except OutOfTime as error:
            return Claim(stop=Stop.TIME_LIMIT, raw_status=f"{solution.raw_status}; {error}")
        if objective == "none":
            return claim
        if solution.info.get("margin", 0.0) > CLEAR_MARGIN:
            return replace(claim, certificate=None)
        if claim.certificate is None or inquiry.offer(claim.point, claim.certificate):
            return claim
        try:
            return self._deepen_certificate(formulation, solution, claim, deadline)
        except OutOfTime:
            return replace(claim, stop=Stop.TIME_LIMIT)

    def _deepen_certificate(
        self, formulation: ConeFormulation, solution: ConeSolution, claim: Claim, deadline: Deadline
    ) -> Claim:
        """Search for a certificate deeper inside its cone than that of the claim."""
        assert solution.z is not None
        search = formulation.program.deeper_certificates(solution.z)
        if search is None:
            return claim
        if deadline.expired:
            return replace(claim, stop=Stop.TIME_LIMIT)
        found = search.without_margin(self._solve_program(search.with_margin(), deadline))
        deeper = None if found.x is None else formulation.certificate(found.x)
        return replace(
            claim,
            certificate=claim.certificate if deeper is None else deeper,
            raw_status=f"{claim.raw_status}; deeper certificate: {found.raw_status}",
            stop=found.stop if claim.stop is Stop.FINISHED else claim.stop,
            iterations=solution.iterations + found.iterations,
        )


def _with_claimed_verdict(solution: ConeSolution) -> ConeSolution:
    """Store the claimed verdict of a finished solve; with a margin the status does not show it."""
    if solution.stop is not Stop.FINISHED:
        return solution
    inside = solution.x is not None and solution.info.get("margin", 1.0) > 0.0
    verdict = Verdict.FEASIBLE if inside else Verdict.INFEASIBLE
    return replace(solution, info={**solution.info, "claimed": str(verdict)})


@dataclass(frozen=True)
class DirectOptions(ABC):
    """Options of backends whose solver is called directly or through cvxpy.

    ``mode`` chooses between the two. Both decide the same problems, but cvxpy takes two to four times as long
    on small ones (``benchmarks/bench_compile.py``), and has the primal form only. ``direct_form`` chooses the
    variables in direct mode: entries of the point ("primal") or multipliers ("dual"); "auto" takes the form
    with fewer variables, and the other one after numerical failure. ``objective`` asks for any feasible point
    ("none") or for the largest margin; "auto" tries both, in the backend's order, until one is proved.
    """

    mode: Literal["direct", "cvxpy"] = "direct"
    direct_form: Form = "auto"
    objective: Objective = "auto"

    @abstractmethod
    def settings(self, deadline: Deadline) -> dict[str, Any]:
        """Return the settings in the solver's names."""


class DirectBackend(ConicBackend):
    """Base class of the backends whose solver is called directly or through cvxpy."""

    #: The solver, as cvxpy calls it.
    cvxpy_solver: ClassVar[CvxpySolver]

    @abstractmethod
    def solve_standard_form(self, form: StandardForm, deadline: Deadline) -> ConeSolution:
        """Solve a standard form, with multipliers of all its rows.

        Raises ``OutOfTime`` or ``OutOfMemory`` if it does not fit.
        """

    def _solve_program(self, program: ConeProgram, deadline: Deadline) -> ConeSolution:
        if self.options.mode == "cvxpy":
            return solve_with_cvxpy(program, self.cvxpy_solver, self.options.settings, deadline)
        form = self.options.direct_form
        return solve_direct(program, form, lambda standard: self.solve_standard_form(standard, deadline))


class ConeFormulation:
    """Writes a feasibility problem as a cone program, and maps solutions back.

    ``Z in SpectralBox(lower, upper, trace)`` -> ``P = Z - lower·I`` with ``P >= 0``,
    ``(upper - lower)·I - P >= 0`` as rows, and one row for the trace. Blocks are divided by their size, then
    rows scaled to norm about one, both by powers of two. Slacks with rows of their own are eliminated.

    ``objective`` is to be maximised, one array per block. ``scale`` is the index of a ``Nonneg(1)`` block by
    which every box is multiplied.
    """

    def __init__(
        self,
        problem: FeasibilityProblem,
        triangle: Triangle,
        objective: Point | None = None,
        scale: int | None = None,
    ) -> None:
        self.problem = problem
        self._triangle = triangle
        self._scale_block = scale
        self._scales = _block_scales(problem)
        self._weights = power_of_two(np.hypot.reduce(self._scales[:, None] * problem.block_norms, axis=0))
        self._assign_columns()
        self._elimination = SlackElimination(self._program(objective))
        self.program = self._elimination.program

    def _assign_columns(self) -> None:
        """Assign columns to blocks: free entries, non-negative ones, second-order cones, matrices."""
        sets = self.problem.sets
        free = [b for b, s in enumerate(sets) if s.free]
        nonneg = [b for b, s in enumerate(sets) if s.cone and (s.entrywise or s.shape == (1,))]
        second = [b for b, s in enumerate(sets) if isinstance(s, SecondOrder) and s.n > 1]
        matrices = [b for b, s in enumerate(sets) if s.matrix]
        self._columns: dict[int, slice] = {}
        start = 0
        for b in (*free, *nonneg, *second, *matrices):
            self._columns[b] = slice(start, start + sets[b].dimension)
            start = self._columns[b].stop
        count_free, count_nonneg = (sum(sets[b].n for b in kind) for kind in (free, nonneg))
        self._cones = Cones(
            count_free, count_nonneg, *(tuple(sets[b].n for b in kind) for kind in (second, matrices))
        )
        self._equal = self.problem.equality_rows
        self._low, self._high = self.problem.lower_rows, self.problem.upper_rows

    def _program(self, objective: Point | None) -> ConeProgram:
        problem, equal, low, high = self.problem, self._equal, self._low, self._high
        boxes = [(b, s) for b, s in enumerate(problem.sets) if s.bounded]
        traced = [(b, box) for b, box in boxes if box.trace is not None]
        self._traces = len(traced)
        matrix, offset = self._rows()
        lower, upper = problem.lower * self._weights - offset, problem.upper * self._weights - offset
        parts = [(matrix[equal], lower[equal]), *(self._trace_row(b, box) for b, box in traced)]
        parts += [(-matrix[low], -lower[low]), (matrix[high], upper[high])]
        parts += [self._box_rows(b, box) for b, box in boxes]
        width = np.minimum(0.5 * (upper - lower), 1.0)
        row_interior = [np.zeros(equal.size + len(traced)), width[low], width[high]]
        row_interior += [self._inner_radius(b) * self._identity(b) for b, _ in boxes]
        return ConeProgram(
            matrix=sp.csr_array(sp.vstack([part for part, _ in parts], format="csr")),
            rhs=np.concatenate([rhs for _, rhs in parts]),
            cost=self._cost(objective),
            rows=Cones(equal.size + len(traced), low.size + high.size, (), tuple(box.n for _, box in boxes)),
            columns=self._cones,
            row_interior=np.concatenate(row_interior),
            column_interior=self._interior(),
            row_strict=np.zeros(sum(rhs.size for _, rhs in parts), dtype=bool),
            column_strict=self._strict(),
            triangle=self._triangle,
        )

    def _rows(self) -> tuple[Any, FloatArray]:
        """Return the scaled coefficients on all columns, and the row values at zero variables."""
        problem, parts, offset = self.problem, [], np.zeros(self.problem.m)
        tau = np.zeros(problem.m)
        for b in self._columns:
            rows, block = problem.rows[b], problem.sets[b]
            part = rows.to_csr()
            parts.append(
                self._scales[b] * (part @ svec_map(block.n, self._triangle) if block.matrix else part)
            )
            if block.bounded and block.lower != 0.0:
                shift = rows.apply(block.lower * block.identity())
                if self._scale_block is None:
                    offset += shift
                else:
                    tau += shift
        matrix = sp.csr_array(sp.hstack(parts, format="csr"))
        if self._scale_block is not None:
            matrix = matrix + sp.csr_array(self._tau_columns(tau))
        return sp.csr_array(sp.diags_array(self._weights) @ matrix), self._weights * offset

    def _tau_columns(self, values: FloatArray) -> Any:
        """Return a matrix whose only nonzero column is that of the scale block, if there is one."""
        shape = (values.size, self._cones.size)
        if self._scale_block is None:
            return sp.csr_array(shape)
        k = np.arange(values.size)
        at = np.full(values.size, self._columns[self._scale_block].start)
        return sp.csr_array((self._scales[self._scale_block] * values, (k, at)), shape=shape)

    def _box_rows(self, b: int, box: BlockSet) -> tuple[Any, FloatArray]:
        """Return rows whose slack is ``upper·I - Z``."""
        place = self._columns[b]
        size = place.stop - place.start
        k = np.arange(size)
        own = sp.csr_array((np.ones(size), (k, place.start + k)), shape=(size, self._cones.size))
        return self._scaled_rhs(own, (box.upper - box.lower) / self._scales[b] * self._identity(b))

    def _trace_row(self, b: int, box: BlockSet) -> tuple[Any, FloatArray]:
        """Return the row of a prescribed trace."""
        assert box.trace is not None
        own = np.zeros((1, self._cones.size))
        own[0, self._columns[b]] = self._identity(b)
        return self._scaled_rhs(
            sp.csr_array(own), np.array([(box.trace - box.n * box.lower) / self._scales[b]])
        )

    def _scaled_rhs(self, own: Any, rhs: FloatArray) -> tuple[Any, FloatArray]:
        """Return rows of a box, whose right-hand side is constant or a multiple of the scale block."""
        if self._scale_block is None:
            return own, rhs
        return own - self._tau_columns(rhs), np.zeros_like(rhs)

    def _cost(self, objective: Point | None) -> FloatArray:
        out = np.zeros(self._cones.size)
        if objective is not None:
            for b, place in self._columns.items():
                out[place] = -self._scales[b] * self._packed(b, objective[b])
        return out

    def _interior(self) -> FloatArray:
        """Return an interior direction of the cones of the columns."""
        out = np.zeros(self._cones.size)
        for b, place in self._columns.items():
            if not self.problem.sets[b].free:
                out[place] = self._inner_radius(b) * self._identity(b)
        return out

    def _strict(self) -> np.ndarray:
        """Return a mask of the columns of unbounded cones, where ``A*y`` must be strictly interior."""
        out = np.zeros(self._cones.size, dtype=bool)
        for b, place in self._columns.items():
            out[place] = self.problem.sets[b].cone
        return out

    def _inner_radius(self, b: int) -> float:
        """Return the inner radius of a bounded set in scaled coordinates, and one for a cone."""
        block = self.problem.sets[b]
        return block.depth(block.interior_point()) / self._scales[b] if block.bounded else 1.0

    def _identity(self, b: int) -> FloatArray:
        return self._packed(b, self.problem.sets[b].identity())

    def _packed(self, b: int, x: FloatArray) -> FloatArray:
        if not self.problem.sets[b].matrix:
            return x
        return np.asarray(svec_map(x.shape[0], self._triangle).T @ x.reshape(-1))

    def claim(self, solution: ConeSolution) -> Claim:
        """Map a solution of the cone program to a claim about the problem."""
        x, z = solution.x, solution.z
        return Claim(
            point=self.point(x) if x is not None and np.isfinite(x).all() else None,
            certificate=None if z is None else self.certificate(z),
            raw_status=solution.raw_status,
            stop=solution.stop,
            iterations=solution.iterations,
            info=solution.info,
        )

    def point(self, x: FloatArray) -> Point:
        """Map the variables of the cone program to a point."""
        x = self._elimination.variables(x)
        tau = 1.0
        if self._scale_block is not None:
            tau = self._scales[self._scale_block] * x[self._columns[self._scale_block].start]
        out = []
        for b, block in enumerate(self.problem.sets):
            value = self._scales[b] * x[self._columns[b]]
            if block.matrix:
                value = symmetrize((svec_map(block.n, self._triangle) @ value).reshape(block.shape))
            if block.bounded:
                value = value + tau * block.lower * block.identity()
            out.append(value)
        return tuple(out)

    def multipliers(self, z: FloatArray) -> FloatArray:
        """Map the multipliers of the cone program to those of the rows, with the signs of a certificate."""
        z = self._elimination.multipliers(z)
        start = self._equal.size + self._traces
        y = np.zeros(self.problem.m)
        y[self._equal] = -z[: self._equal.size]
        for index, sign in ((self._low, 1.0), (self._high, -1.0)):
            y[index] += sign * np.maximum(z[start : start + index.size], 0.0)
            start += index.size
        return y * self._weights

    def certificate(self, z: FloatArray) -> FloatArray | None:
        """Return normalised multipliers if ``beta(y) > sigma(A*y)`` on the bounded sets, else None."""
        y = self.multipliers(z)
        size = float(np.max(np.abs(y), initial=0.0))
        if not 0.0 < size < np.inf:
            return None
        y = y / size
        gain = float(np.sum(self.problem.beta_terms(y)))
        for block, g in zip(self.problem.sets, self.problem.adjoint(y), strict=True):
            if block.bounded:
                gain -= block.support(g)
        return y if gain > 0.0 else None


def _block_scales(problem: FeasibilityProblem) -> FloatArray:
    """Return block scales, powers of two: the width of a box, else the median size implied by the rows."""
    sizes = np.ones(len(problem.sets))
    known = largest_bound(problem)
    for b, block in enumerate(problem.sets):
        if block.bounded:
            sizes[b] = block.upper - block.lower
            known = known + problem.block_norms[b] * block.spectral_radius
    for b, block in enumerate(problem.sets):
        norms = problem.block_norms[b]
        known_rows = (norms > 0.0) & (known > 0.0)
        if not block.bounded and known_rows.any():
            sizes[b] = np.exp(np.median(np.log(known[known_rows]) - np.log(norms[known_rows])))
    return 1.0 / power_of_two(sizes, 100)
