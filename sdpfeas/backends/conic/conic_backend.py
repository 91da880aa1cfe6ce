"""Base class of the backends that call conic solvers.

:class:`ConicBackend` solves the cone form of a problem (:mod:`sdpfeas.problem.conic_form`) with and without a
margin. A subclass solves one form, and returns a :class:`ConicSolution`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from sdpfeas.backends.base import SPECTRAL_SETS, FeasibilityBackend
from sdpfeas.backends.inquiry import Inquiry
from sdpfeas.claims import Claim, Stop, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.errors import OutOfTime
from sdpfeas.numerics.linalg import FloatArray, Triangle
from sdpfeas.problem.conic_form import ConicForm, conic_form
from sdpfeas.problem.objective import ConicProgram
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import SecondOrder

#: Margin above which a point is certainly interior, whatever the error of the solver; then the multipliers
#: are dropped.
CLEAR_MARGIN = 1e-5

#: Objective of the cone form: none, or the largest margin; "auto" tries both, in the backend's order.
Objective = Literal["auto", "none", "margin"]

#: Which of a cone form and its dual is passed to a solver.
Form = Literal["auto", "primal", "dual"]


@dataclass(frozen=True)
class ConicSolution:
    """Solution, or infeasibility certificate, of a cone form.

    ``x`` are the variables, ``z`` the multipliers of the rows. If the solver reports primal infeasibility,
    ``z`` is a ray and ``x`` is None; if dual infeasibility, ``x`` is a ray and ``z`` is None.
    """

    x: FloatArray | None = None
    z: FloatArray | None = None
    raw_status: str = ""
    stop: Stop = Stop.FINISHED
    iterations: int = 0
    info: Mapping[str, Any] = field(default_factory=dict)

    def back(self, form: ConicForm) -> ConicSolution:
        """Map a solution of a form to one of the form that it was made from."""
        x, z = form.back(self.x, self.z)
        return replace(self, x=x, z=z)

    @classmethod
    def of_panic(cls, error: BaseException) -> ConicSolution:
        """Convert a Rust panic, which is no ``Exception``, into an empty solution; re-raise anything else."""
        if type(error).__name__ != "PanicException":
            raise error
        return cls(raw_status=f"panic: {error}", stop=Stop.NUMERICAL)


@dataclass(frozen=True)
class ConicOptions(ABC):
    """Options of all backends that call conic solvers.

    ``direct_form`` chooses the variables that the solver gets: entries of the point ("primal") or multipliers
    ("dual"); "auto" takes the form with fewer variables, and the other one after numerical failure.
    ``objective`` asks for any feasible point ("none") or for the largest margin; "auto" tries both, in the
    backend's order, until one is proved.
    """

    direct_form: Form = "auto"
    objective: Objective = "auto"

    @abstractmethod
    def solver_settings(self, deadline: Deadline) -> dict[str, Any]:
        """Return the settings in the solver's names."""


class ConicBackend(FeasibilityBackend):
    """Base class of the backends that write the problem in cone form for a conic solver.

    Without an objective, interior-point methods stop deep inside the feasible set, first-order methods at its
    boundary. With a margin the solver searches for the point deepest inside, which also separates problems
    close to the boundary; on unbounded sets that point may be far away. If the margin is not positive, the
    multipliers are a certificate, but on the boundary of its cone, where rounding undoes proofs on unbounded
    sets. Then a second solve asks for a deeper certificate.
    """

    sets = SPECTRAL_SETS | {SecondOrder}
    lmis = True
    maximises = True
    maximises_lmis = True
    presolves = True
    triangle: ClassVar[Triangle] = "upper"
    #: Order of the two objectives if the option is "auto".
    objectives: ClassVar[tuple[Objective, ...]] = ("none", "margin")

    @abstractmethod
    def solve_cones_on_rows(self, form: ConicForm, deadline: Deadline) -> ConicSolution:
        """Solve a form with free variables.

        Raises ``OutOfTime`` or ``OutOfMemory`` if it does not fit.
        """

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Solve with one objective or, if it proves nothing, with both."""
        form = conic_form(problem, self.triangle)
        if self.options.objective != "auto":
            return self._solve_with_objective(form, problem, self.options.objective, inquiry)
        first = self._solve_with_objective(form, problem, self.objectives[0], inquiry)
        if inquiry.deadline.expired:
            return replace(first, stop=Stop.TIME_LIMIT)
        if inquiry.offer(first.point, first.certificate):
            return first
        try:
            second = self._solve_with_objective(form, problem, self.objectives[1], inquiry)
        except OutOfTime as error:
            return replace(first, stop=Stop.TIME_LIMIT, raw_status=f"{first.raw_status}; {error}")
        return replace(
            self._better(first, second, inquiry),
            raw_status=f"{first.raw_status}; {self.objectives[1]}: {second.raw_status}",
            iterations=(first.iterations or 0) + (second.iterations or 0),
        )

    def maximise(self, program: ConicProgram, inquiry: Inquiry) -> Claim:
        """Maximise a linear objective; see :meth:`FeasibilityBackend.maximise`."""
        form = conic_form(program.problem, self.triangle, objective=program.objective, scale=program.scale)
        solution = self._solve_form(form, inquiry.deadline)
        with inquiry.proof_time():
            return _claim(form, solution)

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
        self, form: ConicForm, problem: FeasibilityProblem, objective: Objective, inquiry: Inquiry
    ) -> Claim:
        deadline = inquiry.deadline
        if objective == "none":
            solution = self._solve_form(form, deadline)
        else:
            solution = self._solve_with_margin(form, deadline)
        try:
            with inquiry.proof_time():
                claim = _claim(form, _with_claimed_verdict(solution))
                claim = replace(claim, certificate=_farkas(problem, claim.certificate))
        except OutOfTime as error:
            return Claim(stop=Stop.TIME_LIMIT, raw_status=f"{solution.raw_status}; {error}")
        if objective == "none":
            return claim
        if solution.info.get("margin", 0.0) > CLEAR_MARGIN:
            return replace(claim, certificate=None)
        if claim.certificate is None or inquiry.offer(claim.point, claim.certificate):
            return claim
        # The margin is not positive: search for a certificate deeper inside its cone.
        assert solution.z is not None
        search = form.deeper_certificates(solution.z)
        if search is None:
            return claim
        if deadline.expired:
            return replace(claim, stop=Stop.TIME_LIMIT)
        try:
            found = self._solve_with_margin(search, deadline)
        except OutOfTime:
            return replace(claim, stop=Stop.TIME_LIMIT)
        deeper = _farkas(problem, search.evidence(found.x, None)[1])
        return replace(
            claim,
            certificate=claim.certificate if deeper is None else deeper,
            raw_status=f"{claim.raw_status}; deeper certificate: {found.raw_status}",
            stop=found.stop if claim.stop is Stop.FINISHED else claim.stop,
            iterations=solution.iterations + found.iterations,
        )

    def _solve_with_margin(self, form: ConicForm, deadline: Deadline) -> ConicSolution:
        """Search for the solution deepest inside the cones; its margin is stored in ``info``."""
        widened = form.with_margin()
        found = self._solve_form(widened, deadline)
        info = {} if found.x is None else {"margin": float(found.x[form.columns.free])}
        return replace(found.back(widened), info={**found.info, **info})

    def _solve_form(self, form: ConicForm, deadline: Deadline) -> ConicSolution:
        """Solve a cone form or its dual; after numerical failure the other, if the choice is free."""
        first = self.options.direct_form
        if first == "auto":
            first = "dual" if form.rows.size < form.columns.size else "primal"
        solution = self._solve_as(form, first, deadline)
        if self.options.direct_form != "auto" or solution.stop is not Stop.NUMERICAL:
            return solution
        second = self._solve_as(form, "primal" if first == "dual" else "dual", deadline)
        status = f"{solution.raw_status} ({first} form), then {second.raw_status}"
        return replace(second, raw_status=status, iterations=solution.iterations + second.iterations)

    def _solve_as(self, form: ConicForm, which: Form, deadline: Deadline) -> ConicSolution:
        passed = form if which == "primal" else form.dual()
        free = passed.cones_on_rows()
        found = self.solve_cones_on_rows(free, deadline).back(free)
        found = found if passed is form else found.back(passed)
        return replace(found, info={**found.info, "form": which})


def _claim(form: ConicForm, solution: ConicSolution) -> Claim:
    """Map a solution of a cone form to a claim about the problem, with multipliers as certificate."""
    x = solution.x if solution.x is not None and np.isfinite(solution.x).all() else None
    point, y = form.evidence(x, solution.z)
    return Claim(point, y, solution.raw_status, solution.stop, solution.iterations, solution.info)


def _farkas(problem: FeasibilityProblem, y: FloatArray | None) -> FloatArray | None:
    """Return normalised multipliers if ``beta(y) > sigma(A*y)`` on the bounded sets, else None."""
    size = 0.0 if y is None else float(np.max(np.abs(y), initial=0.0))
    if y is None or not 0.0 < size < np.inf:
        return None
    y = y / size
    gain = float(np.sum(problem.beta_terms(y)))
    values = [*zip(problem.sets, problem.adjoint(y), strict=True)]
    values += [(lmi.set, -own) for lmi, own in zip(problem.lmis, problem.split(y)[1], strict=True)]
    gain -= sum(block.support(g) for block, g in values if block.bounded)
    return y if gain > 0.0 else None


def _with_claimed_verdict(solution: ConicSolution) -> ConicSolution:
    """Store the claimed verdict of a finished solve; with a margin the status does not show it."""
    if solution.stop is not Stop.FINISHED:
        return solution
    inside = solution.x is not None and solution.info.get("margin", 1.0) > 0.0
    verdict = Verdict.FEASIBLE if inside else Verdict.INFEASIBLE
    return replace(solution, info={**solution.info, "claimed": str(verdict)})
