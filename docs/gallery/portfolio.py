"""
Why a portfolio is infeasible
=============================

Five constraints: invest the budget, earn 6 %, risk at most 9 %, at most half in shares and start-ups, at
least 5 % cash. A solver reports *infeasible*. Which constraints contradict each other, and by how much must
they be relaxed?
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


def constraints(target):
    """Return the constraints for a target return."""
    return [
        (cp.sum(weights) == 1).set_label("budget"),
        (earns @ weights >= target).set_label("return"),
        (cp.norm(factor.T @ weights) <= 0.09).set_label("risk"),
        (weights[3] + weights[4] <= 0.5).set_label("shares"),
        (weights[0] >= 0.05).set_label("cash"),
    ]


result = sf.solve(cp.Problem(cp.Minimize(0), constraints(0.06)))
print(result.explain(prune=True))

# %%
# Three of the five constraints contradict each other. The smallest relaxation of each of them:

for advice in result.loosen():
    print(advice)

# %%
# The largest possible return; the bracket is proved at both ends.

target = cp.Parameter(name="target")
bracket = sf.bisect(cp.Problem(cp.Minimize(0), constraints(target)), target, tol=1e-5)
print(bracket)

# %%
# The portfolio with the largest return, and the weights of the constraints in the certificate at 6 %.

best = sf.solve(cp.Problem(cp.Minimize(0), constraints(bracket.lower)))
conflict = result.conflict()
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3), layout="constrained")
left.barh(names, weights.value)
left.set_xlabel(f"weights; return {earns @ weights.value:.2%}")
right.barh([str(each.name) for each in conflict], [each.weight for each in conflict], color="tab:red")
right.set_xlabel("weight in the certificate at 6 %")
plt.show()
