"""
The joint spectral radius, from both sides
==========================================

How fast can products of two matrices grow, in the worst order? That rate is their joint spectral radius. Any
product bounds it from below, by its spectral radius. A norm bounds it from above: ``P`` positive definite and
``A_i'PA_i <= g²P`` for both says that no step stretches by more than ``g`` (Ando and Shih; Blondel, Nesterov
and Theys). So the least such ``g`` is asked for, by halving, and each half is proved.
"""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np

import sdpfeas as sf

matrices = [np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[0.75, 0.0], [0.75, 0.75]])]


def stretched_by_at_most(g):
    """Ask for a quadratic norm in which neither matrix stretches by more than ``g``."""
    builder = sf.ProblemBuilder()
    builder.block("P", sf.PSD(2))
    builder.row("size", {"P": np.eye(2)}, equal=1.0)
    for k, A in enumerate(matrices):
        builder.lmi(f"step {k}", np.zeros((2, 2)), {"P": lambda P, A=A: g * g * P - A.T @ P @ A})
    return builder.build()


# %%
# Halve until an end is proved no longer. Whatever is UNDECIDED ends the search: it never counts as an answer.

lower, upper, ends = 1.0, 2.0, []
while upper - lower > 1e-5:
    middle = (lower + upper) / 2
    verdict = sf.solve(stretched_by_at_most(middle), rigorous=True).verdict
    if verdict == sf.Verdict.FEASIBLE:
        upper = middle
    elif verdict == sf.Verdict.INFEASIBLE:
        lower = middle
    else:
        break
    ends.append((lower, upper))
print(f"no product of n factors grows faster than {upper:.5f}^n, proved;")
print(f"quadratic norms can show no less than {lower:.5f}, proved")

# %%
# Below: the best product of each length. What is left between curve and line no quadratic norm can close.

lengths = range(1, 11)
best = []
for n in lengths:
    radii = [
        np.max(np.abs(np.linalg.eigvals(np.linalg.multi_dot([*word, np.eye(2)]))))
        for word in product(matrices, repeat=n)
    ]
    best.append(max(radii) ** (1 / n))
print(f"some product grows like {max(best):.5f}^n (computed, not proved)")

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(lengths, best, "o-", label="best product of n factors")
ax.axhline(upper, color="tab:red", label="quadratic norm, proved")
ax.set_xlabel("n, the number of factors")
ax.set_ylabel("growth of a factor")
ax.legend()
plt.show()
