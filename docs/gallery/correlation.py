"""
Completing a correlation matrix
===============================

Some correlations are known, others are not. Is there a correlation matrix with the known entries, and which
values can a missing entry take?
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpfeas as sf

measured = {(0, 1): 0.9, (1, 2): 0.8, (2, 3): 0.7}


def problem(missing):
    """Return the problem of a correlation matrix with the known entries and a value of a missing one."""
    builder = sf.ProblemBuilder()
    builder.block("C", sf.PSD(4))
    for i in range(4):
        unit = np.zeros((4, 4))
        unit[i, i] = 1.0
        builder.row(f"variance {i}", {"C": unit}, equal=1.0)
    for (i, j), value in {**measured, (0, 2): missing}.items():
        pair = np.zeros((4, 4))
        pair[i, j] = pair[j, i] = 0.5
        builder.row(f"correlation of {i} and {j}", {"C": pair}, equal=value)
    return builder.build()


# %%
# The known entries 0.9 and 0.8 restrict the entry (0, 2) to 0.72 ± 0.26.

values = np.linspace(0.3, 1.0, 29)
verdicts = [sf.solve(problem(float(v))).verdict for v in values]

fig, ax = plt.subplots(figsize=(6, 1.6), layout="constrained")
looks = {"feasible": ("tab:blue", "o"), "infeasible": ("tab:orange", "x"), "undecided": ("tab:gray", "_")}
for verdict, (color, marker) in looks.items():
    those = values[[v == verdict for v in verdicts]]
    if len(those):
        ax.scatter(those, np.zeros_like(those), c=color, marker=marker, label=verdict)
ax.set_yticks([])
ax.set_xlabel("correlation of 0 and 2")
fig.legend(loc="outside upper center", ncols=3, frameon=False)
plt.show()

# %%
# Which constraints contradict the value 0.3?

print(sf.solve(problem(0.3)).explain(prune=True))
