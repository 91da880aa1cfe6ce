"""
Worst-case LDA of digits
========================

Linear discriminant analysis separates classes on average, at the expense of pairs that are hard to separate.
Worst-case LDA maximises the distance of the closest two class means relative to the scatter of the widest
class.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from sdpfeas.estimators import WorstCaseLDA

X, y = load_digits(return_X_y=True)
keep = y < 5
X, y = PCA(20, svd_solver="full").fit_transform(X[keep]), y[keep]
worst = WorstCaseLDA(n_components=2, tol=1e-6).fit(X, y)
print("proven bounds of the optimal ratio:", worst.delta_bounds_)

# %%
# The same classes in both projections:

average = LinearDiscriminantAnalysis(n_components=2).fit(X, y)
fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, name, model in zip(axes, ("LDA", "worst-case LDA"), (average, worst), strict=True):
    Z = model.transform(X)
    for digit in np.unique(y):
        ax.scatter(*Z[y == digit].T, s=6, label=str(digit))
    ax.set_title(name)
    ax.set_xticks([])
    ax.set_yticks([])
axes[1].legend(loc="best", fontsize="small")
plt.show()
