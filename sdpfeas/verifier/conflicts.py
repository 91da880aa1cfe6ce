"""Conflicts and relaxations: which constraints of an infeasible problem conflict, and how far.

The weights of a :class:`Conflict` come from the Farkas certificate. :mod:`sdpfeas.drivers.infeasibility`
searches for minimal conflicts, and for the least :class:`Relaxation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem

#: A set takes no part in a contradiction if ``A*y`` cancels on it to this share of its terms.
CANCELLED_SHARE = 1e-9


@dataclass(frozen=True)
class Conflict:
    """One row, LMI or set of an infeasible problem, with its weight in the contradiction.

    Attributes
    ----------
    row : int or None
        Index of the row; None for an LMI or a set.
    name : str
        Its name.
    multiplier : float or ndarray
        Its entry of the certificate; a matrix for an LMI. For a set, ``-(A*y)_b``, which lies in the dual
        cone. NaN for a facial reduction certificate, whose steps have multipliers of their own.
    weight : float
        Share of the certificate: multiplier times norm of the row; all shares add up to one.
    side : str
        ``"lower"`` or ``"upper"``: the bound that takes part; ``"lmi"`` for an LMI, ``"set"`` for a set.
    block, lmi : int or None
        Index of the block for a set, of the LMI for an LMI.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> builder = sf.ProblemBuilder()
    >>> builder.block("X", sf.PSD(2))
    >>> builder.row("trace", {"X": np.eye(2)}, upper=1)
    >>> builder.row("corner", {"X": [[1, 0], [0, 0]]}, lower=2)
    >>> print(sorted(entry.name for entry in sf.solve(builder.build()).conflict()))
    ['corner', 'trace']
    """

    row: int | None
    name: str
    multiplier: float | FloatArray
    weight: float
    side: str
    block: int | None = None
    lmi: int | None = None

    def described(self, problem: FeasibilityProblem) -> str:
        """Describe the constraint: bound, set or LMI."""
        if self.lmi is not None:
            target, multiplier = problem.lmis[self.lmi].set, np.asarray(self.multiplier)
            if not np.isfinite(multiplier).all():  # each step of a chain has its own
                return f"in {target.described()}"
            lam = target.spectrum(multiplier)
            ends = f"{float(np.min(lam)):.3g} to {float(np.max(lam)):.3g}"
            return f"in {target.described()}, multiplier with eigenvalues {ends}"
        if self.block is not None:
            return f"in {problem.sets[self.block].described()}"
        assert self.row is not None
        if problem.equality[self.row]:
            return f"= {problem.lower[self.row]:g}"
        if self.side == "lower":
            return f">= {problem.lower[self.row]:g}"
        return f"<= {problem.upper[self.row]:g}"


def conflicts(problem: FeasibilityProblem, y: FloatArray, *, sets: bool = False) -> list[Conflict]:
    """Return the rows and LMIs with a nonzero multiplier, and with ``sets`` the sets, largest weight first.

    Sets take part if the rows alone do not contradict each other: ``tr X <= -1`` and ``X in PSD(3)``.
    """
    weights = shares(problem, y)
    rows, own = problem.split(y)
    found = [
        Conflict(
            row=int(i),
            name=problem.row_name(int(i)),
            multiplier=float(y[i]),
            weight=float(weights[i]),
            side="lower" if y[i] > 0 else "upper",
        )
        for i in np.flatnonzero(rows)
    ]
    for j, part in enumerate(own):
        if part.any():
            weight = float(weights[problem.m + j])
            found.append(Conflict(None, problem.lmi_name(j), part, weight, "lmi", lmi=j))
    if sets:
        found += _sets(problem, y)
    total = max(sum(each.weight for each in found), np.finfo(float).tiny)
    found = [replace(each, weight=each.weight / total) for each in found]
    return sorted(found, key=lambda each: -each.weight)


def shares(problem: FeasibilityProblem, y: FloatArray) -> FloatArray:
    """Weights of the rows, then of the LMIs: multiplier times norm, relative to the largest of each.

    A weight is zero only if the multiplier is.
    """
    rows, own = problem.split(y)
    sizes = np.append(np.abs(rows), [float(np.max(np.abs(part))) for part in own])
    # Relative to the largest, to avoid overflow.
    weights = sizes / _largest(y) * (_norms(problem) / _largest(_norms(problem)))
    return np.where(sizes > 0.0, np.maximum(weights, np.finfo(float).tiny), 0.0)


def _largest(numbers: FloatArray) -> float:
    return float(np.max(np.abs(numbers), initial=0.0)) or 1.0


def _norms(problem: FeasibilityProblem) -> FloatArray:
    return np.maximum(np.append(problem.norms, [lmi.norm for lmi in problem.lmis]), np.finfo(float).tiny)


def _sets(problem: FeasibilityProblem, y: FloatArray) -> list[Conflict]:
    """Return the sets on which ``A*y`` does not vanish; on a Free block it always does."""
    top, scale = _largest(_norms(problem)), _largest(y)
    unit = y / scale
    rows, own = problem.split(unit)
    with np.errstate(all="ignore"):
        combined = problem.adjoint(unit)
        found = []
        for b, (block, part) in enumerate(zip(problem.sets, combined, strict=True)):
            size = float(np.linalg.norm(part / top))
            terms = float(np.abs(rows) @ (problem.block_norms[b] / top))
            for lmi, multiplier in zip(problem.lmis, own, strict=True):
                if not lmi.coefficients[b].empty:
                    terms += float(np.linalg.norm(multiplier)) * (lmi.norm / top)
            if not block.free and size > CANCELLED_SHARE * terms:
                found.append(Conflict(None, problem.block_name(b), -scale * part, size, "set", b))
    return found


# --- relaxations

#: Relative increase of the loosenings in the relaxed problem, which has no interior at the least ones.
WIDENING = 1e-5


@dataclass(frozen=True)
class Loosening:
    """A constraint, and by how much a relaxation loosens it.

    An inequality is relaxed by the amount, an equation to one side, a semidefinite constraint by that
    multiple of the identity, a second-order one by a longer bound.

    Attributes
    ----------
    name : str
        The constraint.
    amount : float
        The sum of all entries.
    amounts : ndarray
        The amount of every entry: for a row of the lower, then of the upper bound (finite ones).
    constraint, variable : optional
        The constraint of a cvxpy model, or the variable with the attribute.

    Examples
    --------
    >>> import cvxpy as cp, sdpfeas as sf
    >>> x = cp.Variable(2)
    >>> model = cp.Problem(cp.Minimize(0), [x >= 2, (cp.sum(x) <= 1).set_label("budget")])
    >>> [each] = sf.solve(model).relax(only=["budget"]).loosenings
    >>> print(each)
    loosen `budget` by 3
    """

    name: str
    amount: float
    amounts: FloatArray
    constraint: Any = None
    variable: Any = None

    def __str__(self) -> str:
        """Return the advice in one line."""
        return f"loosen `{self.name}` by {self.amount:.4g}"


@dataclass(frozen=True, repr=False)
class Relaxation:
    """The least weighted sum of loosenings that makes a problem or model feasible, in a proved bracket.

    Attributes
    ----------
    lower, upper : float
        The bracket: some relaxation of weight ``upper`` makes the problem feasible, none of a weight below
        ``lower`` does. Both are infinite if no loosening of these constraints suffices.
    loosenings : tuple of Loosening
        A relaxation of weight ``upper``: the constraints that are loosened, by how much, heaviest first.
    names : tuple of str
        The constraints that were free to be loosened.
    converged : bool
        Whether the bracket is within the tolerance.
    reason : str
        Why the search ended.
    time : float
        Seconds.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> builder = sf.ProblemBuilder()
    >>> builder.block("hours", sf.Nonneg(2))
    >>> builder.row("first", {"hours": [1, 0]}, lower=5)
    >>> builder.row("second", {"hours": [0, 1]}, lower=4)
    >>> builder.row("day", {"hours": [1, 1]}, upper=8)
    >>> relaxation = sf.solve(builder.build()).relax(weights={"day": 10, "second": 2})
    >>> print(relaxation)
    loosen `first` by 1
    >>> print(sf.solve(relaxation.problem).verdict)
    feasible
    """

    lower: float
    upper: float
    loosenings: tuple[Loosening, ...]
    names: tuple[str, ...]
    converged: bool
    reason: str
    time: float
    build: Callable[[], Any]

    @property
    def name(self) -> str:
        """The constraints that were free to be loosened, in one line."""
        return ", ".join(self.names)

    @cached_property
    def problem(self) -> Any:
        """The relaxed problem or cvxpy model, loosened by ``1 + 1e-5`` times the amounts.

        At the least amounts its feasible set has no interior, and nothing could be proved.
        """
        if not math.isfinite(self.upper):
            raise ProblemError(f"there is no relaxed problem: {self.reason}")
        return self.build()

    def __str__(self) -> str:
        """Return the advice, one line per constraint."""
        if math.isfinite(self.upper):
            return "\n".join(map(str, self.loosenings)) or "nothing has to be loosened"
        alone = "alone " if len(self.names) == 1 else ""
        shown = f"`{self.name}`" if len(self.names) <= 3 else f"{len(self.names)} constraints"
        if math.isinf(self.lower):
            return f"loosening {shown} {alone}does not help"
        return f"loosening {shown} by {self.lower:.4g} does not help; more was not proved to"

    def __repr__(self) -> str:
        """Show the bracket, the number of constraints and the stop reason in one line."""
        count = f"{len(self.loosenings)} of {len(self.names)} constraints"
        return (
            f"Relaxation: {self.lower:.8g} <= least sum <= {self.upper:.8g} "
            f"({count}, {self.time:.3g} s): {self.reason}"
        )
