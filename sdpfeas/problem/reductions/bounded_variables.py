"""State a bound of the variables as rows: :func:`bound_variables`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError, hint
from sdpfeas.escaping import visible
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.rounding import norm_upper, product_up
from sdpfeas.problem.reductions.base import Reduction, changed
from sdpfeas.problem.reductions.box_to_psd import padded_rows
from sdpfeas.problem.validation import distinct

if TYPE_CHECKING:
    from sdpfeas.problem.problem import FeasibilityProblem

#: Factor of the largest eigenvalue that a bounding row must outweigh, for rounding errors.
MARGIN = 1.0 + 1e-9

#: A bound of all variables, or of some by name or index.
Bound = float | Mapping[Any, float]


@dataclass(frozen=True, eq=False)
class BoundedVariables(Reduction):
    """``X`` → ``X`` with rows that bound it. Multipliers: those of these rows are dropped.

    ``rows`` are the indices of the bounding rows in ``problem``, and ``value`` is the bound as the user
    stated it. Points of ``problem`` are points of ``original``. A certificate of ``problem`` proves that
    ``original`` has no feasible point within the bound, and nothing about points beyond it.
    """

    rows: np.ndarray
    value: Bound

    def __str__(self) -> str:
        """Return the bound in words."""
        return describe_bound(self.value)

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Drop the multipliers of the bounding rows."""
        return np.delete(y, self.rows)

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Give the bounding rows the multiplier zero."""
        out = np.zeros(self.problem.multiplier_count)
        out[np.delete(np.arange(out.size), self.rows)] = y
        return out


class WithoutBound(Reduction):
    """A problem with a bound → the problem without it.

    Multipliers of the bounding rows: those that make ``A*y`` vanish on Free blocks and lie in the polar cone
    on others. So multipliers that are nearly a certificate without the bound become one with it.
    """

    def __init__(self, bounded: BoundedVariables) -> None:
        super().__init__(bounded.problem, bounded.original)
        self._bounded = bounded

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Add multipliers of the bounding rows."""
        out = self._bounded.start_multipliers(y)
        left = self.problem.adjoint(y)
        for i, b, k, weight, sign in self._bounds:
            # On a Free block the row touches one entry, on others it is a multiple of the identity.
            block = self.problem.sets[b]
            missed = left[b][k] if block.free else np.max(block.spectrum(left[b]), initial=0.0) * MARGIN
            wanted = -float(missed) / weight
            if wanted * sign >= 0.0:
                out[i] = wanted
        return out

    @cached_property
    def _bounds(self) -> list[tuple[int, int, int, float, int]]:
        """Bounding rows: index, block, first entry, coefficient, and the sign of multipliers (0: any)."""
        problem, found = self.original, []
        index = self._bounded.rows
        signs = np.isfinite(problem.lower[index]).astype(int) - np.isfinite(problem.upper[index])
        for b, _, rows in problem.blocks():
            table = rows.select(index).to_csr()
            for place in np.flatnonzero(np.diff(table.indptr)):
                at = table.indptr[place]
                row = int(index[place]), b, int(table.indices[at]), float(table.data[at]), int(signs[place])
                found.append(row)
        return found

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Drop the multipliers of the bounding rows."""
        return self._bounded.multipliers(y)


def state_bound(bound: BoundedVariables) -> FeasibilityProblem:
    """Set the attribute ``bound`` of the problem with the bounding rows."""
    object.__setattr__(bound.problem, "bound", bound)
    return bound.problem


def describe_bound(bound: Bound) -> str:
    """Return a bound in words."""
    if isinstance(bound, Mapping):
        return "the bounds " + ", ".join(f"{visible(str(name))}: {shown(v)}" for name, v in bound.items())
    return f"the bound {shown(bound)}"


def shown(number: float) -> str:
    """Format a bound, without rounding."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def positive_bound(number: Any) -> float:
    """Return a bound as a float; raise ``ProblemError`` unless it is positive and finite."""
    if isinstance(number, (bool, str)) or not np.isreal(number) or not 0.0 < float(number) < math.inf:
        raise ProblemError(f"a bound must be a positive finite number, got {number!r}")
    return float(number)


def bound_variables(problem: FeasibilityProblem, bound: Bound) -> BoundedVariables:
    """Bound every block in an unbounded set, or those of a mapping; see ``FeasibilityProblem.bounded``."""
    limits = _limits(problem, bound)
    tails, starts = dict[int, Any](), dict[int, int]()
    lower, upper, names = list[float](), list[float](), list[str]()
    for b, limit in limits.items():
        block, name = problem.sets[b], problem.block_name(b)
        starts[b] = problem.m + len(upper)
        if block.free:
            tails[b] = sp.eye_array(block.n, format="csr")
            lower += block.n * [-limit]
            upper += block.n * [limit]
            names += [f"bound of {name}[{i}]" for i in range(block.n)]
        else:
            unit = block.identity()
            tails[b] = sp.csr_array(unit.reshape(1, -1))
            lower.append(-np.inf)
            upper.append(float(product_up(norm_upper(unit), limit)))
            names.append(f"bound of {name}")
    total = problem.m + len(upper)
    rows = [
        padded_rows(old, block, problem.m, total, starts.get(b, problem.m), tails.get(b))
        for b, block, old in problem.blocks()
    ]
    named = problem.row_names
    bounded = changed(
        problem,
        rows=rows,
        lower=np.concatenate([problem.lower, lower]),
        upper=np.concatenate([problem.upper, upper]),
        row_names=None if named is None else [*named, *distinct(names, list(named))],
    )
    keys = block_keys(problem)
    value = {keys[b]: limit for b, limit in limits.items()} if isinstance(bound, Mapping) else float(bound)
    return BoundedVariables(problem, bounded, np.arange(problem.m, total), value)


def _limits(problem: FeasibilityProblem, bound: Bound) -> dict[int, float]:
    """Return the bound of every block that gets one."""
    unbounded = [b for b, block in enumerate(problem.sets) if not block.bounded]
    if not isinstance(bound, Mapping):
        return dict.fromkeys(unbounded, positive_bound(bound))
    names, found = block_keys(problem), dict[int, float]()
    for which, number in bound.items():
        place = which if isinstance(which, int) else names.index(which) if which in names else -1
        if not 0 <= place < len(names):
            raise ProblemError(
                f"no block is called {visible(str(which))!r}; {visible(hint(str(which), names))}"
            )
        if place not in unbounded:
            raise ProblemError(f"block {problem.block_name(place)} is in a bounded set: it takes no bound")
        found[place] = positive_bound(number)
    if not found:
        raise ProblemError("the mapping of bounds is empty")
    return found


def block_keys(problem: FeasibilityProblem) -> list[str]:
    """Return the names of the blocks, or else their indices as text."""
    return (
        [str(b) for b in range(len(problem.sets))] if problem.block_names is None else [*problem.block_names]
    )
