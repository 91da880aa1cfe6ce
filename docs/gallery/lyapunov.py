"""
A common Lyapunov function of a switched system
===============================================

A system that switches arbitrarily between ``x' = A_1 x`` and ``x' = A_2 x`` is stable if one quadratic
function decreases along both: ``P`` positive definite, ``A_i'P + PA_i`` negative definite. Each is an LMI.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpfeas as sf


def systems(swirl):
    """Return two stable spirals with different axes."""
    first = np.array([[-0.3, 1.0], [-swirl, -0.3]])
    return first, np.array([[-0.3, swirl], [-1.0, -0.3]])


def problem(swirl):
    """Return the problem of a common Lyapunov function."""
    builder = sf.ProblemBuilder()
    builder.block("P", sf.PSD(2))
    builder.row("size", {"P": np.eye(2)}, equal=1.0)
    for k, A in enumerate(systems(swirl)):
        builder.lmi(f"decay {k}", np.zeros((2, 2)), {"P": lambda P, A=A: -(A.T @ P + P @ A)})
    return builder.build()


# %%
# More eccentric spirals have no common quadratic Lyapunov function.

swirls = np.linspace(1.0, 2.5, 13)
results = [sf.solve(problem(float(s))) for s in swirls]
for s, result in zip(swirls, results, strict=True):
    print(f"{s:5.3f}  {result.verdict} ({result.proof})")

# %%
# Level sets of the last Lyapunov function found, and the two flows.

swirl, good = [(s, r) for s, r in zip(swirls, results, strict=True) if r.verdict == sf.Verdict.FEASIBLE][-1]
grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 21)] * 2))
fig, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for k, (ax, A) in enumerate(zip(axes, systems(swirl), strict=True), 1):
    ax.streamplot(*grid, *np.einsum("ij,jkl->ikl", A, grid), density=0.7, linewidth=0.7)
    ax.contour(*grid, np.einsum("ikl,ij,jkl->kl", grid, good["P"], grid), levels=6, colors="tab:red")
    ax.set_aspect("equal")
    ax.set_title(f"system {k}: flow (blue), level sets (red)", fontsize="medium")
    ax.set_xlabel("first state")
axes[0].set_ylabel("second state")
plt.show()
