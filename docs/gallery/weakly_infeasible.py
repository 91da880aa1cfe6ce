"""
A weakly infeasible problem taken apart
=======================================

Some problems have no point, and no certificate of that either: there are matrices that miss the constraints
by as little as you like, ever larger ones. Solvers call them solved. What proves that there is none is a
*chain* of multipliers, each of which leaves a smaller face of the cone.
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
# Positive semidefinite matrices that miss the rows by less and less, the larger they get.

sizes = 10.0 ** np.arange(0, 5)
missed = []
for size in sizes:
    u = np.array([size, 1.0, -1.0 / size])
    missed.append(np.max(np.abs(problem.apply((np.outer(u, u) / size,)) - problem.lower)))
fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
ax.loglog(sizes, missed, "o-")
ax.set_xlabel("largest entry of X")
ax.set_ylabel("largest row missed by")
plt.show()

# %%
# So a residual proves nothing. The chain does: a zero on the diagonal empties its row and column.

result = sf.solve(problem, time_limit=20)
print(result.explain())
