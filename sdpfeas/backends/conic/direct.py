"""Cone solvers that are asked directly, or through cvxpy on request: what their backends share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from sdpfeas.backends.conic.cones import Answer, ConePair, Form, StandardForm, ask_direct
from sdpfeas.backends.conic.conic import ConicBackend, Objective
from sdpfeas.backends.conic.cost import Cost
from sdpfeas.backends.conic.cvxpy_model import ask_cvxpy
from sdpfeas.deadline import Deadline

__all__ = ["DirectBackend", "DirectOptions"]


@dataclass(frozen=True)
class DirectOptions(ABC):
    """Options that all of them have.

    Attributes
    ----------
    mode : {"direct", "cvxpy"}
        Hand the problem over directly, which is the default, or through cvxpy. Both decide the same
        problems, but cvxpy takes two to four times as long on small ones, and has the primal form only; see
        benchmarks/bench_compile.py.
    direct_form : {"auto", "primal", "dual"}
        Direct mode: what the variables are, the entries of the point or the multipliers of the rows; "auto"
        takes what is fewer, and the other form where that one meets numerical trouble.
    objective : {"auto", "none", "margin"}
        Ask for any point, or for the one deepest inside; "auto" begins with what the backend's ``objectives``
        begin with, and goes on with the other where nothing is proved.
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
