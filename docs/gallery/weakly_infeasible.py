"""
A weakly infeasible problem
===========================

A weakly infeasible problem has no feasible point and no Farkas certificate: there are matrices with
arbitrarily small residuals and growing norm, and solvers report them as solutions. A facial reduction
certificate proves infeasibility: multipliers that restrict the feasible set to smaller and smaller faces.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpfeas as sf

builder = sf.ProblemBuilder()
builder.block("X", sf.PSD(3))
builder.row("last variance", {"X": np.diag([0.0, 0.0, 1.0])}, equal=0.0)
middle = np.diag([0.0, 1.0, 0.0])
middle[0, 2] = middle[2, 0] = 0.5
builder.row("middle and corner", {"X": middle}, equal=0.0)
side = np.zeros((3, 3))
side[0, 1] = side[1, 0] = 0.5
builder.row("side", {"X": side}, equal=1.0)
problem = builder.build()

# %%
# Positive semidefinite matrices whose residuals decrease as their norm grows:

sizes = 10.0 ** np.arange(0, 5)
missed = []
for size in sizes:
    u = np.array([size, 1.0, -1.0 / size])
    missed.append(np.max(np.abs(problem.apply((np.outer(u, u) / size,)) - problem.lower)))
fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
ax.loglog(sizes, missed, "o-")
ax.set_xlabel("largest entry of X")
ax.set_ylabel("largest residual")
plt.show()

# %%
# Small residuals prove nothing. The facial reduction certificate does: a zero on the diagonal of a positive
# semidefinite matrix implies zeros in its row and column.

result = sf.solve(problem, time_limit=20)
print(result.explain())
