"""Cone solvers that are asked directly, or through cvxpy on request: what their backends share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.base import SPECTRAL_SETS, FeasibilityBackend
from sdpfeas.backends.conic.cone_program import (
    Answer,
    Condensed,
    ConePair,
    Cones,
    Form,
    StandardForm,
    ask_direct,
)
from sdpfeas.backends.conic.conic_cost import Cost, need_program
from sdpfeas.backends.conic.cvxpy_model import ask_cvxpy
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

# ------------------------------------------------------------
# Feasibility problems posed as cone programs, and what backends that do so have in common.

#: A margin above this is beyond any solver's error: the point is worth verifying, the multipliers are not.
CLEAR = 1e-5

#: What is asked beyond feasibility; "auto" tries one and, where that proves nothing, the other.
Objective = Literal["auto", "none", "margin"]


class PosedProblem:
    """A feasibility problem posed as a cone program, and the way back.

    A SpectralBox is one variable ``P = Z - lower·I``, with ``P`` and ``(upper - lower)·I - P`` positive
    semidefinite and a row for its trace. Blocks are put in units of their size, then rows scaled to norm
    about one, both by powers of two. Slacks with a row of their own are taken out again.

    ``objective``: what to maximise, one array per block. ``scale``: index of a ``Nonneg(1)`` block by which
    every box is multiplied.
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
        self._scale = scale
        self._units = _block_units(problem)
        self._factors = power_of_two(np.hypot.reduce(self._units[:, None] * problem.block_norms, axis=0))
        self._place()
        self._condensed = Condensed(self._pose(objective))
        self.pair = self._condensed.pair

    def _place(self) -> None:
        """Give every block its columns: free ones, non-negative ones, second-order cones, matrices."""
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
        flat, positive = (sum(sets[b].n for b in kind) for kind in (free, nonneg))
        self._cones = Cones(flat, positive, *(tuple(sets[b].n for b in kind) for kind in (second, matrices)))
        self._equal = self.problem.equality_rows
        self._low, self._high = self.problem.lower_rows, self.problem.upper_rows

    def _pose(self, objective: Point | None) -> ConePair:
        problem, equal, low, high = self.problem, self._equal, self._low, self._high
        boxes = [(b, s) for b, s in enumerate(problem.sets) if s.bounded]
        traced = [(b, box) for b, box in boxes if box.trace is not None]
        self._traces = len(traced)
        matrix, offset = self._rows()
        lower, upper = problem.lower * self._factors - offset, problem.upper * self._factors - offset
        parts = [(matrix[equal], lower[equal]), *(self._trace_row(b, box) for b, box in traced)]
        parts += [(-matrix[low], -lower[low]), (matrix[high], upper[high])]
        parts += [self._box_rows(b, box) for b, box in boxes]
        width = np.minimum(0.5 * (upper - lower), 1.0)
        row_unit = [np.zeros(equal.size + len(traced)), width[low], width[high]]
        row_unit += [self._depth(b) * self._identity(b) for b, _ in boxes]
        return ConePair(
            matrix=sp.csr_array(sp.vstack([part for part, _ in parts], format="csr")),
            rhs=np.concatenate([rhs for _, rhs in parts]),
            cost=self._cost(objective),
            rows=Cones(equal.size + len(traced), low.size + high.size, (), tuple(box.n for _, box in boxes)),
            columns=self._cones,
            row_unit=np.concatenate(row_unit),
            column_unit=self._unit(),
            row_strict=np.zeros(sum(rhs.size for _, rhs in parts), dtype=bool),
            column_strict=self._strict(),
            triangle=self._triangle,
        )

    def _rows(self) -> tuple[Any, FloatArray]:
        """The scaled rows on all columns, and what they are where the variables are zero."""
        problem, parts, offset = self.problem, [], np.zeros(self.problem.m)
        tau = np.zeros(problem.m)
        for b in self._columns:
            rows, block = problem.rows[b], problem.sets[b]
            part = rows.to_csr()
            parts.append(
                self._units[b] * (part @ svec_map(block.n, self._triangle) if block.matrix else part)
            )
            if block.bounded and block.lower != 0.0:
                shift = rows.apply(block.lower * block.identity())
                if self._scale is None:
                    offset += shift
                else:
                    tau += shift
        matrix = sp.csr_array(sp.hstack(parts, format="csr"))
        if self._scale is not None:
            matrix = matrix + sp.csr_array(self._tau_columns(tau))
        return sp.csr_array(sp.diags_array(self._factors) @ matrix), self._factors * offset

    def _tau_columns(self, values: FloatArray) -> Any:
        """A matrix of zeros but for the column of the scale, where there is one."""
        shape = (values.size, self._cones.size)
        if self._scale is None:
            return sp.csr_array(shape)
        k = np.arange(values.size)
        at = np.full(values.size, self._columns[self._scale].start)
        return sp.csr_array((self._units[self._scale] * values, (k, at)), shape=shape)

    def _box_rows(self, b: int, box: BlockSet) -> tuple[Any, FloatArray]:
        """Rows whose slack is the distance to the upper bound."""
        place = self._columns[b]
        size = place.stop - place.start
        k = np.arange(size)
        own = sp.csr_array((np.ones(size), (k, place.start + k)), shape=(size, self._cones.size))
        return self._sized(own, (box.upper - box.lower) / self._units[b] * self._identity(b))

    def _trace_row(self, b: int, box: BlockSet) -> tuple[Any, FloatArray]:
        assert box.trace is not None
        own = np.zeros((1, self._cones.size))
        own[0, self._columns[b]] = self._identity(b)
        return self._sized(sp.csr_array(own), np.array([(box.trace - box.n * box.lower) / self._units[b]]))

    def _sized(self, own: Any, rhs: FloatArray) -> tuple[Any, FloatArray]:
        """Rows of a box: their right-hand side is constant, or a multiple of the scale."""
        if self._scale is None:
            return own, rhs
        return own - self._tau_columns(rhs), np.zeros_like(rhs)

    def _cost(self, objective: Point | None) -> FloatArray:
        out = np.zeros(self._cones.size)
        if objective is not None:
            for b, place in self._columns.items():
                out[place] = -self._units[b] * self._packed(b, objective[b])
        return out

    def _unit(self) -> FloatArray:
        """Direction into the interior of the columns."""
        out = np.zeros(self._cones.size)
        for b, place in self._columns.items():
            if not self.problem.sets[b].free:
                out[place] = self._depth(b) * self._identity(b)
        return out

    def _strict(self) -> np.ndarray:
        """Mask of the columns where rounding must not push ``A*y`` across zero: those of unbounded sets."""
        out = np.zeros(self._cones.size, dtype=bool)
        for b, place in self._columns.items():
            out[place] = self.problem.sets[b].cone
        return out

    def _depth(self, b: int) -> float:
        """How deep the set is, in the units of the block; one where it has no bound."""
        block = self.problem.sets[b]
        return block.depth(block.interior_point()) / self._units[b] if block.bounded else 1.0

    def _identity(self, b: int) -> FloatArray:
        return self._packed(b, self.problem.sets[b].identity())

    def _packed(self, b: int, x: FloatArray) -> FloatArray:
        if not self.problem.sets[b].matrix:
            return x
        return np.asarray(svec_map(x.shape[0], self._triangle).T @ x.reshape(-1))

    def claim(self, answer: Answer) -> Claim:
        """Map an answer to the pair to a claim about the problem."""
        x, z = answer.x, answer.z
        return Claim(
            point=self.point(x) if x is not None and np.isfinite(x).all() else None,
            certificate=None if z is None else self.certificate(z),
            raw_status=answer.raw_status,
            stop=answer.stop,
            iterations=answer.iterations,
            info=answer.info,
        )

    def point(self, x: FloatArray) -> Point:
        """Map the variables of the pair to a point."""
        x = self._condensed.variables(x)
        tau = 1.0
        if self._scale is not None:
            tau = self._units[self._scale] * x[self._columns[self._scale].start]
        out = []
        for b, block in enumerate(self.problem.sets):
            value = self._units[b] * x[self._columns[b]]
            if block.matrix:
                value = symmetrize((svec_map(block.n, self._triangle) @ value).reshape(block.shape))
            if block.bounded:
                value = value + tau * block.lower * block.identity()
            out.append(value)
        return tuple(out)

    def multipliers(self, z: FloatArray) -> FloatArray:
        """Map the multipliers of the pair to those of the rows, signs as in a certificate."""
        z = self._condensed.multipliers(z)
        start = self._equal.size + self._traces
        y = np.zeros(self.problem.m)
        y[self._equal] = -z[: self._equal.size]
        for index, sign in ((self._low, 1.0), (self._high, -1.0)):
            y[index] += sign * np.maximum(z[start : start + index.size], 0.0)
            start += index.size
        return y * self._factors

    def certificate(self, z: FloatArray) -> FloatArray | None:
        """Return the multipliers of the rows if their two sides differ the right way round, else None."""
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


def _block_units(problem: FeasibilityProblem) -> FloatArray:
    """Sizes of the blocks, as powers of two: of a box its width, else what the rows suggest."""
    sizes = np.ones(len(problem.sets))
    known = largest_bound(problem)
    for b, block in enumerate(problem.sets):
        if block.bounded:
            sizes[b] = block.upper - block.lower
            known = known + problem.block_norms[b] * block.spectral_radius
    for b, block in enumerate(problem.sets):
        norms = problem.block_norms[b]
        telling = (norms > 0.0) & (known > 0.0)
        if not block.bounded and telling.any():
            sizes[b] = np.exp(np.median(np.log(known[telling]) - np.log(norms[telling])))
    return 1.0 / power_of_two(sizes, 100)


class ConicBackend(FeasibilityBackend):
    """Base class of the backends that pose the problem as a cone program for somebody else's solver.

    Without an objective the solver may stop anywhere: interior-point methods do so deep inside, first-order
    methods at the boundary. With a margin it looks for the point deepest inside, which also tells problems
    apart that are close to the boundary; but on unbounded sets the deepest point may be far away. If there
    is none inside at all, the multipliers are a certificate, though one on the boundary of its cone, where
    rounding undoes proofs on unbounded sets: then a deeper one is asked for.
    """

    sets = SPECTRAL_SETS | {SecondOrder}
    maximises = True
    triangle: ClassVar[Triangle] = "upper"
    #: What to try in which order when the objective is "auto".
    objectives: ClassVar[tuple[Objective, ...]] = ("none", "margin")

    @abstractmethod
    def _ask(self, pair: ConePair, deadline: Deadline) -> Answer:
        """Answer a cone program."""

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Look for a point or a certificate; see :class:`FeasibilityBackend`."""
        need_program(problem)
        small = presolve(problem)
        if small.answer is not None:
            return Claim(*small.answer, raw_status="presolved")
        return self._look(small.problem, inquiry.through(small)).back(small)

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise a linear objective; see :meth:`FeasibilityBackend.maximise`."""
        need_program(program.problem)
        posed = PosedProblem(program.problem, self.triangle, program.objective, program.scale)
        answer = self._ask(posed.pair, inquiry.deadline)
        with inquiry.proof_time():
            claim = posed.claim(answer)
        return claim if answer.z is None else replace(claim, certificate=posed.multipliers(answer.z))

    def _look(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        posed = PosedProblem(problem, self.triangle)
        if self.options.objective != "auto":
            return self._try(posed, self.options.objective, inquiry)
        first = self._try(posed, self.objectives[0], inquiry)
        if inquiry.deadline.expired:
            return replace(first, stop=Stop.TIME_LIMIT)
        if inquiry.offer(first.point, first.certificate):
            return first
        try:
            second = self._try(posed, self.objectives[1], inquiry)
        except OutOfTime as error:
            return replace(first, stop=Stop.TIME_LIMIT, raw_status=f"{first.raw_status}; {error}")
        return replace(
            self._better(first, second, inquiry),
            raw_status=f"{first.raw_status}; {self.objectives[1]}: {second.raw_status}",
            iterations=(first.iterations or 0) + (second.iterations or 0),
        )

    @staticmethod
    def _better(first: Claim, second: Claim, inquiry: Inquiry) -> Claim:
        """The claim that is worth more: a proof, else a numeric verdict, else anything at all."""
        if inquiry.offer(second.point, second.certificate):
            return second
        for claim in (first, second):
            if inquiry.offer(claim.point, claim.certificate, final=True):
                return claim
        return second if first.point is None and first.certificate is None else first

    def _try(self, posed: PosedProblem, objective: Objective, inquiry: Inquiry) -> Claim:
        deadline = inquiry.deadline
        if objective == "none":
            answer = _claimed(self._ask(posed.pair, deadline))
        else:
            answer = _claimed(posed.pair.without_margin(self._ask(posed.pair.with_margin(), deadline)))
        try:
            with inquiry.proof_time():
                claim = posed.claim(answer)
        except OutOfTime as error:
            return Claim(stop=Stop.TIME_LIMIT, raw_status=f"{answer.raw_status}; {error}")
        if objective == "none":
            return claim
        if answer.info.get("margin", 0.0) > CLEAR:
            return replace(claim, certificate=None)
        if claim.certificate is None or inquiry.offer(claim.point, claim.certificate):
            return claim
        try:
            return self._deepen(posed, answer, claim, deadline)
        except OutOfTime:
            return replace(claim, stop=Stop.TIME_LIMIT)

    def _deepen(self, posed: PosedProblem, answer: Answer, claim: Claim, deadline: Deadline) -> Claim:
        """Look for a certificate deeper inside than the one in the claim."""
        assert answer.z is not None
        search = posed.pair.rays_like(answer.z)
        if search is None:
            return claim
        if deadline.expired:
            return replace(claim, stop=Stop.TIME_LIMIT)
        found = search.without_margin(self._ask(search.with_margin(), deadline))
        deeper = None if found.x is None else posed.certificate(found.x)
        return replace(
            claim,
            certificate=claim.certificate if deeper is None else deeper,
            raw_status=f"{claim.raw_status}; deeper certificate: {found.raw_status}",
            stop=found.stop if claim.stop is Stop.FINISHED else claim.stop,
            iterations=answer.iterations + found.iterations,
        )


def _claimed(answer: Answer) -> Answer:
    """Say what a finished answer claims: the status word alone does not, where a margin was asked for."""
    if answer.stop is not Stop.FINISHED:
        return answer
    inside = answer.x is not None and answer.info.get("margin", 1.0) > 0.0
    verdict = Verdict.FEASIBLE if inside else Verdict.INFEASIBLE
    return replace(answer, info={**answer.info, "claimed": str(verdict)})


@dataclass(frozen=True)
class DirectOptions(ABC):
    """Options that all of them have.

    ``mode``: hand the problem over directly, which is the default, or through cvxpy. Both decide the same
    problems, but cvxpy takes two to four times as long on small ones, and has the primal form only; see
    benchmarks/bench_compile.py. ``direct_form``: direct mode: what the variables are, the entries of the
    point or the multipliers of the rows; "auto" takes what is fewer, and the other form where that one
    meets numerical trouble. ``objective``: ask for any point, or for the one deepest inside; "auto" begins
    with what the backend's ``objectives`` begin with, and goes on with the other where nothing is proved.
    """

    mode: Literal["direct", "cvxpy"] = "direct"
    direct_form: Form = "auto"
    objective: Objective = "auto"

    @abstractmethod
    def settings(self, deadline: Deadline) -> dict[str, Any]:
        """The solver's own settings."""


class DirectBackend(ConicBackend):
    """Base class of their backends."""

    #: What cvxpy calls the solver.
    cvxpy_name: ClassVar[str]

    @abstractmethod
    def _cost(self, form: StandardForm) -> Cost:
        """What the solver takes for a standard form."""

    @abstractmethod
    def _solve(self, form: StandardForm, deadline: Deadline) -> Answer:
        """Answer a standard form by a deadline if there is time and memory; with multipliers of all rows."""

    def _ask(self, pair: ConePair, deadline: Deadline) -> Answer:
        if self.options.mode == "cvxpy":
            settings = self.options.settings
            return ask_cvxpy(pair, self.cvxpy_name, settings, deadline, self._cost)

        return ask_direct(pair, self.options.direct_form, lambda form: self._solve(form, deadline))
