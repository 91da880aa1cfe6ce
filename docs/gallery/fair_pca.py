"""
Principal components that are fair to every group
=================================================

Ordinary principal components keep the variance of the crowd. A small group that varies in other directions
pays for it. Fair principal components keep as much as they can of the variance of the group that keeps
least.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from sdpfeas.estimators import FairPCA

rng = np.random.default_rng(0)
spread = np.array(
    [[3.0, 1.0, 1.0, 0.3, 0.3, 0.3], [0.3, 0.3, 1.0, 2.0, 1.0, 0.3], [0.3, 1.0, 0.3, 0.3, 0.3, 2.0]]
)
sizes = (600, 150, 50)
X = np.vstack([rng.normal(size=(n, 6)) * s for n, s in zip(sizes, spread, strict=True)])
group = np.repeat(np.arange(3), sizes)

fair = FairPCA(n_components=2, refine=True).fit(X, group)
print("least variance that any group keeps:", fair.value_)
print("no projection on two axes can do better than", fair.delta_bounds_[1])

# %%
# What each group keeps, by ordinary and by fair components.

plain = PCA(2, svd_solver="full").fit(X)
kept = [np.var(plain.transform(X[group == g]), axis=0).sum() for g in range(3)]
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
places = np.arange(3)
ax.bar(places - 0.2, kept, 0.4, label="principal components")
ax.bar(places + 0.2, fair.variances_, 0.4, label="fair components")
ax.set_xticks(places, [f"group of {n}" for n in sizes])
ax.set_ylabel("variance kept")
ax.legend()
plt.show()
