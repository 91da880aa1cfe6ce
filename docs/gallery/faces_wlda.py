"""
Worst-case LDA of faces
=======================

The Yale faces have fifteen people with eleven images each, 32 × 32 pixels. They are not part of this package.
If the folder ``SDPFEAS_DATA`` contains ``wlda/Yale_32x32.mat``, this example uses them; otherwise it
generates fifteen smooth patterns with eleven illuminations each. The output says which.
"""

import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import PCA

from sdpfeas.datasets import load_dataset
from sdpfeas.estimators import WorstCaseLDA


def generated(people=15, pictures=11, side=32):
    """Generate smooth patterns with random illumination and noise."""
    rng = np.random.default_rng(0)
    ramp = np.linspace(-1, 1, side)
    X, y = [], []
    for person in range(people):
        pattern = gaussian_filter(rng.normal(size=(side, side)), 4)
        pattern /= np.abs(pattern).max()
        for _ in range(pictures):
            light = rng.normal(size=2)
            shade = light[0] * ramp[:, None] + light[1] * ramp
            X.append((pattern + 0.4 * shade + 0.1 * rng.normal(size=(side, side))).ravel())
            y.append(person)
    return np.array(X), np.array(y)


folder = os.environ.get("SDPFEAS_DATA")
if folder and (Path(folder) / "wlda" / "Yale_32x32.mat").exists():
    faces = load_dataset("yale")
    X, y = faces.X, faces.y
    print("images: Yale faces")
else:
    X, y = generated()
    print("images: generated, since SDPFEAS_DATA contains no Yale faces")

# %%
# Project to nine dimensions such that the two most similar people are separated as well as possible.

Z = PCA(40, svd_solver="full").fit_transform(X)
worst = WorstCaseLDA(n_components=9, tol=1e-4).fit(Z, y)
print("proven bounds of the optimal ratio:", worst.delta_bounds_)
print("closest pair:", *worst.worst_pair_)

# %%
# Mean images of some people, the closest pair first, and the distances of all means in the projection.

labels = list(dict.fromkeys([*worst.worst_pair_, *np.unique(y)]))[:6]
fig = plt.figure(figsize=(9, 4.2), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=(1.1, 1))
for ax, label in zip(left.subplots(2, 3).flat, labels, strict=True):
    ax.imshow(X[y == label].mean(axis=0).reshape(32, 32).T, cmap="gray")
    ax.set_title(f"{label}", fontsize="small")
    ax.set_axis_off()
means = np.array([worst.transform(Z[y == label]).mean(axis=0) for label in np.unique(y)])
ax = right.subplots()
shown = ax.imshow(np.linalg.norm(means[:, None] - means, axis=2))
ax.set_title("distances of class means", fontsize="small")
ax.set_xlabel("person")
ax.set_ylabel("person")
fig.colorbar(shown, ax=ax, shrink=0.8)
plt.show()
