"""Replace pairs of inequalities by equations: parallel rows whose bounds meet, and opposite LMIs.

``a'x >= b`` and ``c·a'x <= c·b`` → ``a'x = b``; ``F(x) in K`` and ``-c·F(x) in K``, K a pointed cone → ``F(x)
= 0`` entry by entry. LMIs into Nonneg and 1×1 LMIs count as rows. All comparisons are exact. A pair leaves no
strictly feasible point; an equation does not take one away. Multipliers: ``y > 0`` of an equation goes to the
row with the lower bound, ``y < 0`` to the one with the upper bound; ``Y`` of opposite LMIs is ``(Y + t·I) -
t·I``. A pair whose bounds cross is a Farkas certificate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.numerics.limits import check_deadline, guard
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.base import Reduction, changed
from sdpfeas.problem.reductions.lmi_to_slack import (
    lmi_array,
    lmi_entries,
    lmi_multipliers,
    lmi_rows,
    stacked_rows,
)
from sdpfeas.problem.rows import Dense, Sparse

#: Rows are compared exactly if the ratios of their values at two points have a smaller relative difference.
RATIO_TOLERANCE = 1e-9

#: Largest number of row entries converted to fractions.
MAX_FRACTION_ENTRIES = 100_000

#: Cost of two random points, in multiply-adds per entry; measured at side 7000.
POINT_FLOPS = 600.0


@dataclass(frozen=True)
class PairsToEquations(Reduction):
    """A problem with equations in place of pairs; its feasible set is exactly that of the original.

    ``certificate``: a Farkas certificate of the original problem if the bounds of a pair cross.
    """

    certificate: FloatArray | None
    _as_rows: _Rows | None
    _lines: tuple[_Line, ...]

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Assign ``y > 0`` to the row with the lower bound and ``y < 0`` to that with the upper bound."""
        if self._as_rows is None:
            return y
        out = np.zeros(self._as_rows.count)
        for value, line in zip(y.tolist(), self._lines, strict=False):
            place, factor = line.below if value > 0.0 else line.above
            out[place] += value * factor
        return self._as_rows.back(out, y[len(self._lines) :])

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Sum the multipliers of the rows that were merged into one equation."""
        if self._as_rows is None:
            return y
        rows, rest = self._as_rows.forth(y)
        head = [sum(rows[place] * factor for place, factor in line.members) for line in self._lines]
        return np.concatenate([np.array(head), rest])


@dataclass(frozen=True)
class _Line:
    """A kept row: index, bounds, and the merged rows with factors; ``below, above`` have its bounds."""

    place: int
    lower: float
    upper: float
    below: tuple[int, float]
    above: tuple[int, float]
    members: tuple[tuple[int, float], ...]


class _Rows:
    """The reduction of polyhedral LMIs to inequality rows, and of pairs of opposite LMIs to equality rows."""

    def __init__(self, problem: FeasibilityProblem) -> None:
        self._problem = problem
        self.pairs = list(_opposite(problem.lmis))
        paired = {place for j, k, _ in self.pairs for place in (j, k)}
        self._plain = [
            j
            for j, lmi in enumerate(problem.lmis)
            if j not in paired and lmi.set.cone and lmi.set.polyhedral and _is_exact(lmi)
        ]
        self.used = [*self._plain, *(j for j, _, _ in self.pairs)]
        self._left = [j for j in range(len(problem.lmis)) if j not in paired and j not in self._plain]
        self._sizes = [lmi_entries(problem.lmis[j].set)[0].size for j in self.used]
        self.count = problem.m + sum(self._sizes)

    def made(self) -> FeasibilityProblem:
        """Build the problem with these rows."""
        problem = self._problem
        chosen = [problem.lmis[j] for j in self.used]
        rows = [
            stacked_rows(part, block, [lmi_rows(lmi, b, block) for lmi in chosen])
            for b, block, part in problem.blocks()
        ]
        right = [-lmi.constant[lmi_entries(lmi.set)] for lmi in chosen]
        equal = [np.full(size, j not in self._plain) for j, size in zip(self.used, self._sizes, strict=True)]
        low = np.concatenate([problem.lower, *right])
        high = np.where(np.concatenate([np.zeros(problem.m, dtype=bool), *equal]), low, np.inf)
        high[: problem.m] = problem.upper
        lmis = [problem.lmis[j] for j in self._left]
        return FeasibilityProblem(problem.sets, rows, low, high, block_names=problem.block_names, lmis=lmis)

    def back(self, rows: FloatArray, rest: FloatArray) -> FloatArray:
        """Map multipliers of the rows and of the remaining LMIs to those of the original problem."""
        lmis = self._problem.lmis
        first, *entries = np.split(rows, self._problem.m + np.cumsum([0, *self._sizes])[:-1])
        parts = {j: lmi_array(lmis[j].set, own) for j, own in zip(self.used, entries, strict=True)}
        ends = np.cumsum([lmis[j].set.entries for j in self._left])
        parts |= dict(zip(self._left, np.split(rest, ends), strict=False))
        for j, k, factor in self.pairs:
            block = lmis[j].set
            lacking = max(0.0, -float(np.min(block.spectrum(parts[j]))))
            shift = 2.0 * 2.0 ** np.ceil(np.log2(lacking)) if lacking > 0.0 else 0.0
            parts[j] = parts[j] + shift * block.identity()
            parts[k] = (shift / factor) * block.identity()
        return np.concatenate([first, *(parts[j].reshape(-1) for j in range(len(lmis)))])

    def forth(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map multipliers of the original problem to those of the rows and of the remaining LMIs."""
        first, own = self._problem.split(self._problem.multipliers(y))
        values = list(own)
        for j, k, factor in self.pairs:
            values[j] = values[j] - factor * values[k]
        rows = [lmi_multipliers(self._problem.lmis[j].set, values[j]) for j in self.used]
        rest = [values[j].reshape(-1) for j in self._left]
        return np.concatenate([first, *rows]), np.concatenate([np.zeros(0), *rest])


def meeting_pairs(problem: FeasibilityProblem) -> PairsToEquations:
    """Replace pairs of inequalities with equal bounds by equations; cached on the problem."""
    return problem.cached(_meeting_pairs)


def _meeting_pairs(problem: FeasibilityProblem) -> PairsToEquations:
    as_rows = _Rows(problem)
    flat = as_rows.made() if as_rows.used else problem
    merged, certificate = _merged_rows(flat)
    if certificate is not None:
        certificate = as_rows.back(certificate, np.zeros(flat.multiplier_count - flat.m))
        return PairsToEquations(problem, problem, certificate, None, ())
    if not as_rows.pairs and not merged:
        return PairsToEquations(problem, problem, None, None, ())
    bounds = zip(flat.lower.tolist(), flat.upper.tolist(), strict=True)
    own = (_Line(i, low, high, (i, 1.0), (i, 1.0), ((i, 1.0),)) for i, (low, high) in enumerate(bounds))
    lines = [line for line in (merged.get(each.place, each) for each in own) if line is not None]
    index = np.array([line.place for line in lines], dtype=np.int64)
    kept = flat.select_rows(index)
    low, high = (np.array([getattr(line, end) for line in lines]) for end in ("lower", "upper"))
    return PairsToEquations(problem, changed(kept, lower=low, upper=high), None, as_rows, tuple(lines))


# --- rows


def _merged_rows(problem: FeasibilityProblem) -> tuple[dict[int, _Line | None], FloatArray | None]:
    """Find parallel rows whose bounds are equal, and a Farkas certificate if two rows contradict each other.

    The dictionary maps the kept row of each pair to its equation, and the others to None.
    """
    merged: dict[int, _Line | None] = {}
    left = float(MAX_FRACTION_ENTRIES)
    for group in _groups(problem):
        left -= sum(part.entries // part.m for part in problem.rows if not part.empty) * len(group)
        if left < 0:
            break
        check_deadline("the search for parallel rows")
        parallel: dict[Any, list[tuple[int, Fraction]]] = {}
        for i in group:
            terms = [
                ((b, k), v)
                for b, part in enumerate(problem.rows)
                if not part.empty
                for k, v in sorted(part.exact_terms(i).items())
            ]
            if terms:
                unit = terms[0][1]
                parallel.setdefault(tuple((k, v / unit) for k, v in terms), []).append((i, unit))
        for members in parallel.values():
            if len(members) > 1 and not problem.equality[[i for i, _ in members]].all():
                try:
                    y = _met(problem, members, merged)
                except OverflowError:  # a coefficient or a ratio overflows
                    continue
                if y is not None:
                    return {}, y
    return merged, None


def _met(
    problem: FeasibilityProblem, members: list[tuple[int, Fraction]], merged: dict[int, _Line | None]
) -> FloatArray | None:
    """Merge parallel rows into one equation if their bounds are equal; return a certificate if they cross."""
    ends = []
    for sign in (1, -1):
        # Lower bounds of the common direction (sign 1) and of its negative (sign -1).
        bounds = [
            (sign * Fraction(float(bound)) / unit, i, unit)
            for i, unit in members
            if np.isfinite(bound := (problem.lower if sign * unit > 0 else problem.upper)[i])
        ]
        if not bounds:
            return None
        ends.append(max(bounds, key=lambda each: each[0]))
    (low, below, first), (high, above, second) = ends
    if low < -high:
        return None
    if low > -high:
        y = np.zeros(problem.multiplier_count)
        y[below] = abs(float(second)) if first > 0 else -abs(float(second))
        y[above] = -abs(float(first)) if second > 0 else abs(float(first))
        return np.ldexp(y, -int(np.frexp(np.max(np.abs(y)))[1]))
    chosen, unit = below, first
    bound = float((problem.lower if unit > 0 else problem.upper)[chosen])
    shares = {i: float(other / unit) for i, other in members}
    if not all(shares.values()):
        return None  # a ratio underflows
    sources = (below, 1.0), (above, float(unit / second))
    lower, upper = sources if unit > 0 else sources[::-1]
    merged[chosen] = _Line(chosen, bound, bound, lower, upper, tuple(shares.items()))
    for i, _ in members:
        if i != chosen:
            merged[i] = None
    return None


def _groups(problem: FeasibilityProblem) -> Iterator[list[int]]:
    """Yield groups of rows that may be parallel: ratios of their values at two random points agree."""
    if problem.equality.all():
        return  # only pairs with an inequality are merged
    entries = float(sum(block.entries for block in problem.sets))
    guard("the search for parallel rows", POINT_FLOPS * entries, memory=32.0 * entries)
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        first, second = (
            problem.apply(tuple(block.symmetrize(rng.standard_normal(block.shape)) for block in problem.sets))
            for _ in range(2)
        )
        ratio = first / second
    index = np.flatnonzero(np.isfinite(ratio) & (second != 0.0))
    order = index[np.argsort(ratio[index], kind="stable")]
    values = ratio[order]
    apart = np.flatnonzero(np.diff(values) > RATIO_TOLERANCE * np.maximum(np.abs(values[1:]), 1e-3)) + 1
    yield from (group.tolist() for group in np.split(order, apart) if group.size > 1)


# --- LMIs


def _is_exact(lmi: LMI) -> bool:
    """Return whether all coefficients are stored explicitly."""
    return all(isinstance(part, (Dense, Sparse)) for part in lmi.coefficients)


def _opposite(lmis: tuple[LMI, ...]) -> Iterator[tuple[int, int, float]]:
    """Yield disjoint pairs of LMIs with ``F_k = -factor · F_j``, and the factor."""
    candidates = [
        (j, lmi) for j, lmi in enumerate(lmis) if lmi.set.cone and not lmi.set.polyhedral and _is_exact(lmi)
    ]
    numbers: dict[int, FloatArray] = {}
    waiting: dict[Any, list[int]] = {}
    for j, lmi in candidates if len(candidates) > 1 else ():
        parts = [sp.csr_array(lmi.constant.reshape(1, -1))]
        parts += [part.to_csr() for part in lmi.coefficients if not part.empty]
        whole = sp.csr_array(sp.vstack(parts, format="csr"))
        whole.sum_duplicates()
        whole.eliminate_zeros()
        if 0 < whole.nnz <= MAX_FRACTION_ENTRIES:
            where = tuple(not part.empty for part in lmi.coefficients)
            # Only LMIs with the same sparsity pattern can be multiples of each other.
            pattern = lmi.set, where, whole.indptr.tobytes(), whole.indices.tobytes()
            waiting.setdefault(pattern, []).append(j)
            numbers[j] = whole.data
    for group in waiting.values():
        while group:
            j = group.pop()
            pairs = ((one, k + j - one) for k in group for one in (j, k))
            found = ((one, other, _factor(numbers[one], numbers[other])) for one, other in pairs)
            one, other, factor = next((each for each in found if each[2] is not None), (j, j, None))
            if factor is not None:
                group.remove(one + other - j)
                yield one, other, factor


def _factor(one: FloatArray, other: FloatArray) -> float | None:
    """Return the double ``c > 0`` with ``other = -c·one`` exactly; None if there is none."""
    with np.errstate(all="ignore"):
        factor = -other[0] / one[0]
        if not (0.0 < factor < np.inf) or not np.allclose(
            other, -factor * one, rtol=RATIO_TOLERANCE, atol=0.0
        ):
            return None
    check_deadline("the search for opposite LMIs")
    exact = Fraction(float(factor))
    pairs = zip(one.tolist(), other.tolist(), strict=True)
    return float(factor) if all(Fraction(v) == -exact * Fraction(u) for u, v in pairs) else None
