"""Definiteness in rational arithmetic, against principal minors of every small matrix."""

from itertools import chain, combinations, product

import numpy as np
import pytest

from sdpfeas.numerics.exact_arithmetic import number, semidefinite_exact


def determinant(a):
    if not len(a):
        return 1
    rest = [[row[:k] + row[k + 1 :] for row in a[1:]] for k in range(len(a))]
    return sum((-1) ** k * a[0][k] * determinant(rest[k]) for k in range(len(a)))


def by_minors(a):
    places = chain.from_iterable(combinations(range(len(a)), size) for size in range(1, len(a) + 1))
    return all(determinant([[a[i][j] for j in some] for i in some]) >= 0 for some in places)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_semidefinite_as_principal_minors_say(n):
    upper = [(i, j) for i in range(n) for j in range(i, n)]
    numbers = range(-1, 3)
    found = set()
    for values in product(numbers, repeat=len(upper)):
        entries = dict(zip(upper, values, strict=True))
        a = [[entries[min(i, j), max(i, j)] for j in range(n)] for i in range(n)]
        truth = by_minors(a)
        assert semidefinite_exact(np.array([[number(v) for v in row] for row in a], dtype=object)) == truth, a
        found.add(truth)
    assert found == {True, False}
