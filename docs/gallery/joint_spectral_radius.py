"""
Bounds of the joint spectral radius
===================================

The joint spectral radius of two matrices is the largest growth rate of their products. The spectral radius of
any product is a lower bound. A quadratic norm gives an upper bound: if ``P`` is positive definite and
``A_i'PA_i <= g²P`` for both matrices, the rate is at most ``g`` (Ando and Shih; Blondel, Nesterov and Theys).
Bisection finds the smallest such ``g``, with a proof at every step.
"""

from itertools import product

import matplotlib.pyplot as plt
import numpy as np

import sdpfeas as sf

matrices = [np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[0.75, 0.0], [0.75, 0.75]])]


def norm_at_most(g):
    """Return the problem of a quadratic norm in which both matrices have norm at most ``g``."""
    builder = sf.ProblemBuilder()
    builder.block("P", sf.PSD(2))
    builder.row("size", {"P": np.eye(2)}, equal=1.0)
    for k, A in enumerate(matrices):
        builder.lmi(f"matrix {k}", np.zeros((2, 2)), {"P": lambda P, A=A: g * g * P - A.T @ P @ A})
    return builder.build()


# %%
# Bisect until the bracket is narrow. An UNDECIDED verdict ends the search; it moves no end.

lower, upper, ends = 1.0, 2.0, []
while upper - lower > 1e-5:
    middle = (lower + upper) / 2
    verdict = sf.solve(norm_at_most(middle), rigorous=True).verdict
    if verdict == sf.Verdict.FEASIBLE:
        upper = middle
    elif verdict == sf.Verdict.INFEASIBLE:
        lower = middle
    else:
        break
    ends.append((lower, upper))
print(f"proven upper bound of the joint spectral radius: {upper:.5f}")
print(f"no quadratic norm proves less than {lower:.5f}")

# %%
# Lower bounds from products of each length. Quadratic norms cannot close the gap between curve and line.

lengths = range(1, 11)
best = []
for n in lengths:
    radii = [
        np.max(np.abs(np.linalg.eigvals(np.linalg.multi_dot([*word, np.eye(2)]))))
        for word in product(matrices, repeat=n)
    ]
    best.append(max(radii) ** (1 / n))
print(f"lower bound from products (computed, not proved): {max(best):.5f}")

fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(lengths, best, "o-", label="best product of n factors")
ax.axhline(upper, color="tab:red", label="quadratic norm, proven")
ax.set_xlabel("number of factors n")
ax.set_ylabel("growth rate per factor")
ax.legend()
plt.show()
