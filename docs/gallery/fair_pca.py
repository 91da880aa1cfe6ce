"""
Fair PCA
========

Principal components keep the variance of the majority. A small group that varies in other directions loses
most of its variance. Fair PCA maximises the smallest variance that any group keeps.
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

fair = FairPCA(n_components=2, refine=True).fit(X, groups=group)
print("smallest variance that any group keeps:", fair.value_)
print("proven upper bound for any two-dimensional projection:", fair.delta_bounds_[1])

# %%
# The variance that each group keeps:

plain = PCA(2, svd_solver="full").fit(X)
kept = [np.var(plain.transform(X[group == g]), axis=0).sum() for g in range(3)]
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
places = np.arange(3)
ax.bar(places - 0.2, kept, 0.4, label="PCA")
ax.bar(places + 0.2, fair.variances_, 0.4, label="fair PCA")
ax.set_xticks(places, [f"group of {n}" for n in sizes])
ax.set_ylabel("variance kept")
ax.legend()
plt.show()
