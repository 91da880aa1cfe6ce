"""Which rows of a sparse matrix of integers are combinations of others: elimination modulo a prime.

What comes out is likely and no proof: two different numbers may be the same modulo a prime. Whoever needs to
be sure multiplies the combinations out.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from fractions import Fraction

from sdpfeas.numerics.effort import need

__all__ = ["combinations", "lift"]

#: A prime; fractions with numerators and denominators below the root of half of it are found.
PRIME = 2**521 - 1

#: Numbers that can be written in the time of one operation with integers of any length.
NUMBERS = 400.0

#: Operations between two looks at the time that is left.
BATCH = 20_000


def combinations(
    rows: Sequence[dict[int, int]], first: int = 0, most: int = 3_000_000
) -> dict[int, dict[int, Fraction]] | None:
    """Rows that are likely to be combinations of others, each with the combination it is likely to be.

    Parameters
    ----------
    rows : sequence of dict
        Entries that are not zero, by column.
    first : int
        How many rows are to be kept before all others, where they are independent.
    most : int
        Operations that may be taken.

    Returns
    -------
    dict or None
        For every such row the weights of rows that are none of them; None if it takes too long.
    """
    counts: dict[int, int] = {}
    for row in rows:
        for column in row:
            counts[column] = counts.get(column, 0) + 1
    order = sorted(range(len(rows)), key=lambda i: (i >= first, len(rows[i]), i))
    table = _Table(counts, most)
    found: dict[int, dict[int, Fraction]] = {}
    for i in order:
        steps = table.add(i, rows[i])
        if table.left < 0:
            return None
        if steps is not None:
            weights = table.expanded(steps)
            lifted = {j: lift(w) for j, w in weights.items()}
            if all(w is not None for w in lifted.values()):
                found[i] = {j: w for j, w in lifted.items() if w}
    return None if table.left < 0 else found


class _Table:
    """Rows in echelon form, modulo the prime, with how each was made."""

    def __init__(self, counts: dict[int, int], most: int) -> None:
        self.left = most
        self._counts = counts
        #: Pivot column to place in the lists below.
        self._place: dict[int, int] = {}
        self._rows: list[dict[int, int]] = []
        self._owner: list[int] = []
        self._steps: list[dict[int, int]] = []
        self._scale: list[int] = []
        self._pivots: list[int] = []
        self._spent = 0

    def _spend(self, operations: int) -> None:
        self.left -= operations
        self._spent += operations
        if self._spent > BATCH:
            need("a look for redundant rows", numbers=NUMBERS * BATCH)
            self._spent = 0

    def add(self, owner: int, row: dict[int, int]) -> dict[int, int] | None:
        """Reduce a row and keep what is left; where nothing is, return the rows taken off it, by place."""
        now = {column: value % PRIME for column, value in row.items() if value % PRIME}
        steps: dict[int, int] = {}
        heap = [self._place[column] for column in now if column in self._place]
        heapq.heapify(heap)
        while heap and self.left >= 0:
            place = heapq.heappop(heap)
            factor = now.get(self._pivots[place])
            if factor is None:
                continue
            steps[place] = factor
            other = self._rows[place]
            self._spend(len(other) + 1)
            for column, value in other.items():
                if column not in now:
                    now[column] = -factor * value % PRIME
                    if column in self._place:
                        heapq.heappush(heap, self._place[column])
                else:
                    rest = (now[column] - factor * value) % PRIME
                    if rest:
                        now[column] = rest
                    else:
                        del now[column]
        if not now:
            return steps
        pivot = min(now, key=lambda column: (self._counts.get(column, 0), column))
        inverse = pow(now[pivot], -1, PRIME)
        self._spend(len(now))
        self._place[pivot] = len(self._rows)
        self._pivots.append(pivot)
        self._rows.append({column: value * inverse % PRIME for column, value in now.items()})
        self._owner.append(owner)
        self._steps.append(steps)
        self._scale.append(inverse)
        return None

    def expanded(self, steps: dict[int, int]) -> dict[int, int]:
        """Weights of the rows as they were given that make the same combination."""
        left, out = dict(steps), dict[int, int]()
        heap = [-place for place in left]
        heapq.heapify(heap)
        while heap and self.left >= 0:
            place = -heapq.heappop(heap)
            weight = left.pop(place, None)
            if not weight:
                continue
            weight = weight * self._scale[place] % PRIME
            out[self._owner[place]] = weight
            self._spend(len(self._steps[place]) + 1)
            for earlier, factor in self._steps[place].items():
                if earlier not in left:
                    heapq.heappush(heap, -earlier)
                left[earlier] = (left.get(earlier, 0) - weight * factor) % PRIME
        return out


def lift(residue: int, prime: int = PRIME) -> Fraction | None:
    """The fraction of small numerator and denominator that a residue stands for; None if there is none.

    Parameters
    ----------
    residue : int
        At least zero, and below the prime.
    prime : int
        The prime.
    """
    largest = math.isqrt(prime // 2)
    a, b, before, now = prime, residue, 0, 1
    while b > largest:
        quotient = a // b
        a, b, before, now = b, a - quotient * b, now, before - quotient * now
    if now == 0 or abs(now) > largest:
        return None
    return Fraction(b, now)
