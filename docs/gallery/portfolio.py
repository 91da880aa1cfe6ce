"""
A portfolio that cannot be, explained
=====================================

Four wishes, each of them modest: spend the budget, earn 6 %, risk no more than 9 %, and keep half out of
shares. A solver says *infeasible*, or nothing. Which wishes contradict each other, and what would it take?
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpfeas as sf

names = ["cash", "bonds", "property", "shares", "start-ups"]
earns = np.array([0.01, 0.025, 0.05, 0.07, 0.11])
deviation = np.array([0.001, 0.05, 0.12, 0.18, 0.35])
together = 0.3 + 0.7 * np.eye(5)
factor = np.linalg.cholesky(np.outer(deviation, deviation) * together)

weights = cp.Variable(5, nonneg=True, name="weights")


def wishes(target):
    """What the portfolio has to meet."""
    return [
        (cp.sum(weights) == 1).set_label("spend the budget"),
        (earns @ weights >= target).set_label("earn enough"),
        (cp.norm(factor.T @ weights) <= 0.09).set_label("risk little"),
        (weights[3] + weights[4] <= 0.5).set_label("half out of shares"),
        (weights[0] >= 0.05).set_label("keep some cash"),
    ]


result = sf.solve(cp.Problem(cp.Minimize(0), wishes(0.06)))
print(result.explain(prune=True))

# %%
# Two of the five are not to blame. The least that one of the others has to give:

for advice in result.loosen():
    print(advice)

# %%
# How much can be earned at all? The bracket is proved at both ends.

target = cp.Parameter(name="target")
bracket = sf.bisect(cp.Problem(cp.Minimize(0), wishes(target)), target, tol=1e-5)
print(bracket)

# %%
# The portfolio that earns the most, and how each wish weighs in the proof that 6 % is too much.

best = sf.solve(cp.Problem(cp.Minimize(0), wishes(bracket.lower)))
conflict = result.conflict()
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
left.barh(names, weights.value)
left.set_xlabel(f"weights; earns {earns @ weights.value:.2%}")
right.barh([str(each.name) for each in conflict], [each.weight for each in conflict], color="tab:red")
right.set_xlabel("share in the contradiction at 6 %")
plt.show()
