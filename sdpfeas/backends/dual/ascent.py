"""Ascent by scipy's L-BFGS-B, within limits of time and iterations that every evaluation checks."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from scipy.optimize import minimize

from sdpfeas.backends.dual.function import DualFunction, Evaluation
from sdpfeas.deadline import Deadline
from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.verifier.results import Stop

__all__ = ["Ascent", "Ended", "Limits"]

#: Iterations between two calls of the callback.
CALL_EVERY = 5

#: Most steps of one line search.
LINE_SEARCH = 40

#: Numbers that could be written while scipy looks at one bound, in Python and several times.
SETUP = 4000.0

#: scipy's status for a line search that failed.
ABNORMAL = 2


class Limits(Protocol):
    """The options an ascent looks at."""

    @property
    def max_iterations(self) -> int:
        """Iterations over all runs."""

    @property
    def memory(self) -> int:
        """Corrections kept."""

    @property
    def restarts(self) -> int:
        """Fresh starts when the line search stalls."""


class Ended(Exception):
    """The search is over."""

    def __init__(self, stop: Stop, status: str) -> None:
        super().__init__(status)
        self.stop, self.status = stop, status


class Ascent:
    """Runs of L-BFGS-B that share limits, counters and callback.

    Parameters
    ----------
    limits : Limits
        What L-BFGS-B may do.
    deadline : Deadline
        When to stop.
    inspect : callable
        Called with the function and every evaluation; may raise :class:`Ended`.
    report : callable, optional
        Called with iterations, function and an evaluation every few iterations; True stops.
    """

    def __init__(
        self,
        limits: Limits,
        deadline: Deadline,
        inspect: Callable[[DualFunction, Evaluation], None],
        report: Callable[[int, DualFunction, Evaluation], bool] | None,
    ) -> None:
        self.limits, self.deadline = limits, deadline
        self._inspect, self._report = inspect, report
        self.iterations = self.evaluations = self.rounds = 0
        self.latest: Evaluation | None = None
        self._at: tuple[DualFunction, FloatArray] | None = None

    def evaluate(self, function: DualFunction, z: FloatArray) -> Evaluation:
        """Evaluate within the limits; the same place twice costs nothing."""
        if self._at is not None and self._at[0] is function and np.array_equal(self._at[1], z):
            assert self.latest is not None
            return self.latest
        if self.deadline.expired and self.latest is not None:
            raise Ended(Stop.TIME_LIMIT, "time limit")
        # Where only the weight is another, the eigendecompositions are the same.
        same = self._at is not None and np.array_equal(self._at[0].units.blocks, function.units.blocks)
        try:
            need("an evaluation of the dual function", *function.problem.work.times(2.0))
            found = function.evaluate(z, self.latest if same else None)
        except np.linalg.LinAlgError as error:
            raise Ended(Stop.NUMERICAL, str(error)) from None
        if not (math.isfinite(found.value) and np.isfinite(found.gradient).all()):
            raise Ended(Stop.NUMERICAL, "the dual function overflows")
        first = self.latest is None
        self.latest, self._at = found, (function, np.array(z))
        self.evaluations += 1
        if first:
            self._call()
        self._inspect(function, found)
        return found

    def climb(
        self, function: DualFunction, z: FloatArray, ftol: float, gtol: float
    ) -> tuple[Evaluation, str]:
        """Maximise from ``z``; the evaluation at the end and L-BFGS-B's word for it."""
        self.rounds += 1
        found = self.evaluate(function, z)
        if function.size == 0:
            raise Ended(Stop.FINISHED, "no row has a finite bound")
        settings = {"maxcor": self.limits.memory, "ftol": ftol, "gtol": gtol, "maxls": LINE_SEARCH}
        unlimited = {"maxiter": 10**9, "maxfun": 10**9}
        bounds = function.bounds
        need("the set-up of L-BFGS-B", numbers=SETUP * len(bounds or ()))
        for _ in range(1 + self.limits.restarts):
            before = self.iterations
            answer = minimize(
                lambda at: self._descend(function, at),
                z,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                callback=lambda _: self.advance(CALL_EVERY),
                options={**settings, **unlimited},
            )
            z = np.asarray(answer.x)
            # A line search that fails at its first step will fail again.
            if answer.status != ABNORMAL or self.iterations == before:
                break
        found = self.evaluate(function, z)
        return found, str(answer.message).strip()

    def _descend(self, function: DualFunction, z: FloatArray) -> tuple[float, FloatArray]:
        found = self.evaluate(function, z)
        return -found.value, -found.gradient

    def advance(self, every: int) -> None:
        """Count an iteration, and call the callback if their number is a multiple of ``every``."""
        self.iterations += 1
        if self.iterations % every == 0:
            self._call()
        if self.iterations >= self.limits.max_iterations:
            raise Ended(Stop.ITERATION_LIMIT, "iteration limit")

    def _call(self) -> None:
        assert self.latest is not None
        assert self._at is not None
        if self._report is not None and self._report(self.iterations, self._at[0], self.latest):
            raise Ended(Stop.CALLBACK, "stopped by the callback")

    def useful(self, function: DualFunction, y: FloatArray) -> FloatArray:
        """Variables along ``y`` where the function is no lower than at zero."""
        zero = np.zeros(function.size)
        level = self.evaluate(function, zero).value
        z = function.variables(y)
        for share in (1.0, 0.1, 0.01):
            if self.evaluate(function, share * z).value >= level:
                return share * z
        return zero
