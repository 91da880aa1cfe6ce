"""Drop equality rows that are exact linear combinations of others.

Candidates come from a pivoted Cholesky factorisation of the Gram matrix or from elimination modulo a prime,
and are checked in integers. A row follows from others if it is a combination of them, and of the identities
of sets with a prescribed trace, with the same combination of the bounds. If only the bound differs, the rows
contradict each other and the combination is a Farkas certificate. Rows that are nearly dependent are kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy.linalg

from sdpfeas.numerics.integer_matrices import combinations
from sdpfeas.numerics.limits import check_deadline, guard
from sdpfeas.numerics.linalg import FloatArray, symmetrize
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.rows.base import EMPTY
from sdpfeas.problem.sets import BlockSet

#: Largest number of equality rows searched; the Gram matrix takes the square of it.
MAX_ROWS = 3000

#: Relative pivots of the Gram matrix below this mark candidates for dependent rows.
SMALL_PIVOT = 1e-12

#: Limits of the denominators of coefficients, tried in this order.
DENOMINATORS = (1, 60, 5040)

#: Largest distance of a coefficient to a fraction, relative to max(1, |coefficient|).
FRACTION_TOLERANCE = 1e-6

#: Smaller coefficients of normalised rows are treated as rounding errors.
NEGLIGIBLE_COEFFICIENT = 1e-9

#: Largest number of entries converted to integers; takes a few seconds.
INTEGER_ENTRIES = 3_000_000


#: A redundant row, its coefficients in other rows, and its coefficients in identities of blocks.
Following = tuple[int, dict[int, Fraction], dict[int, Fraction]]


@dataclass(frozen=True)
class Contradiction:
    """A linear combination of equality rows that is zero, or a sum of known traces, with another bound.

    ``multipliers``: the combination as fractions, a Farkas certificate; zero for LMIs. ``gap``: difference of
    the two sides. ``size``: sum of the absolute values of the terms of the gap.
    """

    multipliers: np.ndarray
    gap: Fraction
    size: Fraction


@dataclass(frozen=True)
class DropRedundantRows(Reduction):
    """A problem without redundant equality rows; its feasible set is exactly that of the original.

    ``contradiction``: a proof of infeasibility, if rows contradict each other.
    """

    contradiction: Contradiction | None
    _kept: np.ndarray
    _combinations: dict[int, dict[int, Fraction]]

    def multipliers(self, y: FloatArray) -> FloatArray:
        """Insert zeros for the dropped rows."""
        head = np.zeros(self.original.m)
        head[self._kept] = y[: self._kept.size]
        return np.concatenate([head, y[self._kept.size :]])

    def start_multipliers(self, y: FloatArray) -> FloatArray:
        """Distribute the multipliers of dropped rows over the rows of their linear combinations."""
        out = np.array(y)
        for k, weights in self._combinations.items():
            for j, weight in weights.items():
                out[j] += y[k] * float(weight)
        return np.concatenate([out[self._kept], y[self.original.m :]])


def independent_rows(problem: FeasibilityProblem) -> DropRedundantRows:
    """Drop equality rows that are linear combinations of others; cached on the problem."""
    return problem.cached(_independent_rows)


def _independent_rows(problem: FeasibilityProblem) -> DropRedundantRows:
    dropped: dict[int, dict[int, Fraction]] = {}
    contradiction = None
    whole = _Integers(problem)
    with np.errstate(all="ignore"):
        for k, weights, sums in _found(problem, whole):
            terms = [Fraction(problem.lower[k])]
            terms += [-weight * Fraction(problem.lower[j]) for j, weight in weights.items()]
            terms += [-t * Fraction(problem.sets[b].trace or 0.0) for b, t in sums.items()]
            gap = sum(terms, Fraction(0))
            if gap == 0:
                dropped[k] = weights
            elif contradiction is None:
                y = np.full(problem.multiplier_count, Fraction(0), dtype=object)
                y[k] = Fraction(1)
                for j, weight in weights.items():
                    y[j] = -weight
                sign = 1 if gap > 0 else -1
                contradiction = Contradiction(sign * y, abs(gap), sum(map(abs, terms), Fraction(0)))
    kept = np.setdiff1d(np.arange(problem.m), np.array(list(dropped), dtype=np.int64))
    smaller = problem.select_rows(kept) if dropped else problem
    return DropRedundantRows(problem, smaller, contradiction, kept, dropped)


def _found(problem: FeasibilityProblem, whole: _Integers) -> Iterator[Following]:
    """Yield linearly dependent rows with their combinations, verified in exact arithmetic."""
    index = problem.equality_rows
    if index.size > MAX_ROWS:
        yield from whole.eliminated(index.tolist())
        return
    seen = screen(problem)
    open_: dict[int, set[int]] = {}
    for k, near, weights in () if seen is None else _candidates(seen):
        sums = None if weights is None else whole.identities(k, weights)
        if weights is not None and sums is not None:
            yield k, weights, sums
        else:
            open_[k] = near
    if open_:
        # Without simple fractions, eliminate these rows and the rows with nonzero coefficients exactly.
        others = set().union(*open_.values()) - set(open_)
        yield from whole.eliminated([*sorted(others), *open_], len(others))


# --- candidates in floating point


@dataclass(frozen=True)
class Screen:
    """Normalised equality rows and a numerically independent subset.

    ``parts``: set and rows of every block with rows; row ``i`` is divided by ``2**exponents[i]``. ``gram``:
    Gram matrix of the rows, projected orthogonally to the identity of blocks with a prescribed trace.
    ``kept``: positions in ``index`` of a maximal numerically independent subset.
    """

    index: np.ndarray
    parts: list[tuple[BlockSet, Rows]]
    exponents: np.ndarray
    gram: FloatArray
    kept: np.ndarray


def screen(problem: FeasibilityProblem) -> Screen | None:
    """Find a numerically independent subset of the equality rows by pivoted Cholesky factorisation.

    Returns None without equality rows, with more than ``MAX_ROWS``, or if the Gram matrix overflows.
    """
    index = problem.equality_rows
    if not 1 <= index.size <= MAX_ROWS:
        return None
    both = [(block, *rows.select(index).units()) for _, block, rows in problem.blocks() if not rows.empty]
    exponents = np.max([power for _, _, power in both], axis=0, initial=EMPTY)
    exponents = np.where(exponents == EMPTY, 0, exponents)
    parts = [(block, rows.scaled(np.ldexp(1.0, power - exponents))) for block, rows, power in both]
    gram = np.zeros((index.size, index.size))
    for block, rows in parts:
        gram += rows.gram()
        if block.trace is not None:
            along = rows.apply(block.identity())
            gram -= np.outer(along, along) / block.degree
    if not np.isfinite(gram).all():
        return None
    tolerance = SMALL_PIVOT * float(np.max(np.diagonal(gram), initial=0.0))
    guard("the search for redundant rows", float(index.size) ** 3)
    _, pivots, rank, _ = scipy.linalg.lapack.dpstrf(symmetrize(gram), tol=tolerance, lower=1)
    kept = np.sort(pivots[:rank] - 1)
    return Screen(index, parts, exponents, gram, kept)


def _candidates(seen: Screen) -> Iterator[tuple[int, set[int], dict[int, Fraction] | None]]:
    """Yield dependent rows, the rows of their combinations, and coefficients if simple fractions fit."""
    rest = np.setdiff1d(np.arange(seen.index.size), seen.kept)
    if rest.size == 0:
        return
    inner = seen.gram[np.ix_(seen.kept, seen.kept)]
    guard("the search for redundant rows", 2.0 * float(seen.kept.size) ** 2 * (seen.kept.size + rest.size))
    try:
        weights = scipy.linalg.solve(inner, seen.gram[np.ix_(seen.kept, rest)], assume_a="pos").T
    except (np.linalg.LinAlgError, ValueError):
        return
    for k, row in zip(rest, weights, strict=True):
        if not np.isfinite(row).all():
            continue
        near = {int(seen.index[seen.kept[p]]) for p in np.flatnonzero(np.abs(row) > NEGLIGIBLE_COEFFICIENT)}
        simple = next((found for most in DENOMINATORS if (found := _simple(row, most)) is not None), None)
        exact = (
            None
            if simple is None
            else {
                int(seen.index[seen.kept[p]]): w
                * Fraction(2) ** int(seen.exponents[k] - seen.exponents[seen.kept[p]])
                for p, w in simple.items()
            }
        )
        yield int(seen.index[k]), near, exact


def _simple(weights: FloatArray, most: int) -> dict[int, Fraction] | None:
    """Approximate all weights by fractions with denominators up to ``most``; None if one is not close."""
    out = {}
    for p in np.flatnonzero(np.abs(weights) > FRACTION_TOLERANCE):
        value = float(weights[p])
        near = Fraction(value).limit_denominator(most)
        if abs(float(near) - value) > FRACTION_TOLERANCE * max(1.0, abs(value)):
            return None
        if near:
            out[int(p)] = near
    return out


# --- verification in integers


class _Integers:
    """The rows of a problem as integers divided by powers of two, converted once on demand.

    Columns are the stacked entries of all blocks.
    """

    def __init__(self, problem: FeasibilityProblem) -> None:
        self._problem = problem
        self._starts = np.cumsum([0, *(block.entries for block in problem.sets)]).tolist()
        #: Columns of the ones in the identity of every block with a prescribed trace.
        self._eyes = {
            b: (self._starts[b] + np.flatnonzero(block.identity().reshape(-1))).tolist()
            for b, block in enumerate(problem.sets)
            if block.trace is not None
        }
        self._read: dict[int, tuple[dict[int, int], int]] = {}
        self._left = float(INTEGER_ENTRIES)

    @cached_property
    def _entries(self) -> float:
        """Average number of entries of a row."""
        return float(sum(r.entries / r.m for r in self._problem.rows if not r.empty))

    def _row(self, i: int) -> tuple[dict[int, int], int]:
        """Return the nonzero entries of a row, multiplied by ``2**bits``, and ``bits``."""
        if i not in self._read:
            check_deadline("the search for redundant rows")
            terms = {
                self._starts[b] + k: v
                for b in np.flatnonzero(self._problem.upper_norms[:, i]).tolist()
                for k, v in self._problem.rows[b].exact_terms(i).items()
            }
            bits = max((v.denominator.bit_length() - 1 for v in terms.values()), default=0)
            whole = {k: v.numerator << (bits - v.denominator.bit_length() + 1) for k, v in terms.items()}
            self._read[i] = whole, bits
        return self._read[i]

    def eliminated(self, index: list[int], first: int = 0) -> Iterator[Following]:
        """Yield dependent rows among ``index`` by exact elimination; the first ``first`` rows are kept."""
        if self._entries * len(index) > self._left:
            return
        eyes = [dict.fromkeys(columns, 1) for columns in self._eyes.values()]
        rows = [self._row(i)[0] for i in index]
        found = combinations([*eyes, *rows], len(eyes) + first, int(self._left))
        for place, weights in () if found is None else found.items():
            if place < len(eyes):
                continue  # an identity, not a row
            k = index[place - len(eyes)]
            scaled = {
                index[j - len(eyes)]: w
                * Fraction(2) ** (self._row(index[j - len(eyes)])[1] - self._row(k)[1])
                for j, w in weights.items()
                if j >= len(eyes)
            }
            sums = self.identities(k, scaled)
            if sums is not None:
                yield k, scaled, sums

    def identities(self, k: int, weights: dict[int, Fraction]) -> dict[int, Fraction] | None:
        """Return the remainder of row ``k`` minus a combination of others, as multiples of identities.

        The result maps blocks with a prescribed trace to the multiple of their identity. None if the
        remainder has another form, or the budget of ``INTEGER_ENTRIES`` is exhausted.
        """
        self._left -= self._entries * (1 + len(weights))
        if self._left < 0.0:
            return None
        coefficients = {k: Fraction(1), **{j: -w for j, w in weights.items()}}
        shares = {j: w / (1 << self._row(j)[1]) for j, w in coefficients.items()}
        common = math.lcm(*(share.denominator for share in shares.values()))
        rest: dict[int, int] = {}
        for j, share in shares.items():
            check_deadline("the search for redundant rows")
            factor = share.numerator * (common // share.denominator)
            for column, value in self._row(j)[0].items():
                rest[column] = rest.get(column, 0) + factor * value
        out = {}
        for b, columns in self._eyes.items():
            values = {rest.pop(column, 0) for column in columns}
            if len(values) > 1:
                return None
            if value := values.pop():
                out[b] = Fraction(value, common)
        return None if any(rest.values()) else out
