"""
Control in ten LMIs
===================

Ten classical questions about ``x' = Ax + Bu, y = Cx + Du`` as linear matrix inequalities, each with a value
that is known. Every bracket below is proved at both ends, and every verdict has a proof.

An infeasible LMI of control often has no *robust* certificate: the unstable system below has no Lyapunov
matrix, but huge matrices satisfy the inequalities up to rounding. ``bound=`` says which matrices interest.
INFEASIBLE within the bound 1e+06 means, rigorously, that no matrix with entries up to 1e6 is a solution.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import sdpfeas as sf


def lyapunov(systems, rate=0.0):
    """Return the model ``P >= I, A'P + PA + 2·rate·P <= 0`` for one or more systems."""
    n = len(systems[0])
    P = cp.Variable((n, n), symmetric=True, name="P")
    return cp.Problem(
        cp.Minimize(0), [P >> np.eye(n), *(A.T @ P + P @ A + 2 * rate * P << 0 for A in systems)]
    )


# %%
# 1. Stability
# ------------
#
# The poles of the first system are -1 and -2, those of the second are 1.19 and -1.69. Without the bound the
# second stays undecided, and the reason names the norm up to which there is no Lyapunov matrix.

stable, unstable = np.array([[0.0, 1.0], [-2.0, -3.0]]), np.array([[0.0, 1.0], [2.0, -0.5]])
for A in (stable, unstable):
    print(sf.solve(lyapunov([A]), bound=1e6))
print(f"excluded radius without a bound: {sf.solve(lyapunov([unstable])).excluded_radius:.1e}")

# %%
# 2. Decay rate
# -------------
#
# The largest ``alpha`` with ``A'P + PA + 2·alpha·P <= 0`` is minus the largest real part of a pole: 1.

alpha = cp.Parameter(name="alpha")
rate = sf.bisect(lyapunov([stable], alpha), alpha, tol=1e-4, bound=1e4)
print(rate)
assert rate.lower <= 1.0 <= rate.upper


# %%
# 3. H-infinity norm
# ------------------
#
# Bounded real lemma. The peak of ``1/(s² + 0.2s + 1)`` is ``1/(0.2·sqrt(1 - 0.01)) = 5.0252``; the program
# minimises its square.


def bounded_real(A, B, C):
    """Return the model whose optimal value is the square of the H-infinity norm of a system."""
    P, square = cp.Variable(A.shape, PSD=True, name="P"), cp.Variable((1, 1), name="square")
    gain = cp.bmat([[A.T @ P + P @ A + C.T @ C, P @ B], [B.T @ P, -square]])
    return cp.Problem(cp.Minimize(square[0, 0]), [(gain + gain.T) / 2 << 0])


B, C = np.array([[0.0], [1.0]]), np.array([[1.0, 0.0]])
norm = sf.optimum(bounded_real(np.array([[0.0, 1.0], [-1.0, -0.2]]), B, C))
print(f"{norm.lower**0.5:.6f} <= norm <= {norm.upper**0.5:.6f}")
assert norm.lower <= 1.0 / (0.04 * 0.99) <= norm.upper

# %%
# 4. State feedback
# -----------------
#
# With ``Q = P^-1`` and ``Y = KQ`` the gain ``K`` of a stabilising ``u = Kx`` is found by an LMI. The double
# integrator can be given any decay rate, here 1. The gain is that of the verified point.

double = np.array([[0.0, 1.0], [0.0, 0.0]])
Q, Y = cp.Variable((2, 2), symmetric=True, name="Q"), cp.Variable((1, 2), name="Y")
closed = double @ Q + B @ Y
design = sf.solve(cp.Problem(cp.Minimize(0), [Q >> np.eye(2), closed + closed.T + 2 * Q << 0]), bound=1e6)
K = design["Y"] @ np.linalg.inv(design["Q"])
print(design.verdict, "gain", K.round(3), "poles", np.linalg.eigvals(double + B @ K).round(3))
assert np.linalg.eigvals(double + B @ K).real.max() <= -1.0 + 1e-6

# %%
# 5. Discrete time
# ----------------
#
# ``A'PA <= r P`` is feasible from the square of the spectral radius on: here 0.8² = 0.64.

A, r = np.array([[0.5, 1.0], [0.0, 0.8]]), cp.Parameter(name="r")
P = cp.Variable((2, 2), symmetric=True, name="P")
contraction = sf.bisect(cp.Problem(cp.Minimize(0), [P >> np.eye(2), A.T @ P @ A << r * P]), r, bound=1e4)
print(contraction)
assert contraction.lower <= 0.64 <= contraction.upper


# %%
# 6. A common Lyapunov function
# -----------------------------
#
# Two spirals share a quadratic Lyapunov function if and only if neither ``A_1 A_2`` nor ``A_1 A_2^-1`` has a
# negative eigenvalue (Shorten and Narendra). The bracket of the eccentricity agrees with that.


def spirals(s):
    """Return two stable spirals with different axes, of eccentricity ``s``."""
    return [np.array([[-0.3, 1.0], [-s, -0.3]]), np.array([[-0.3, s], [-1.0, -0.3]])]


def share_one(s):
    """Return whether the spirals share a Lyapunov function, by the eigenvalues."""
    first, second = spirals(s)
    found = [np.linalg.eigvals(first @ other) for other in (second, np.linalg.inv(second))]
    return not any(np.any((abs(v.imag) < 1e-12) & (v.real < 0)) for v in found)


class Spirals(sf.families.MonotoneFamily):
    """The common Lyapunov inequalities, indexed by the eccentricity."""

    def at(self, delta):
        """Return the problem at one eccentricity."""
        return sf.from_cvxpy(lyapunov(spirals(delta)))


common = sf.bisect(Spirals(), lower=1.0, upper=3.0, bound=1e4)
print(common)
assert share_one(common.lower)
assert not share_one(common.upper)

# %%
# 7. S-procedure
# --------------
#
# The largest distance of a point of the ellipse ``x²/4 + y² <= 1`` from (1, 0) is 3. The S-lemma makes it the
# square root of an optimal value.

ellipse, centre = np.diag([0.25, 1.0]), np.array([[1.0], [0.0]])
weight, far = cp.Variable((1, 1), nonneg=True, name="weight"), cp.Variable((1, 1), name="far")
corner = far - weight - centre.T @ centre
cover = cp.bmat([[cp.kron(weight, ellipse) - np.eye(2), centre], [centre.T, corner]])
distance = sf.optimum(cp.Problem(cp.Minimize(far[0, 0]), [(cover + cover.T) / 2 >> 0]))
print(f"{distance.lower**0.5:.6f} <= distance <= {distance.upper**0.5:.6f}")
assert distance.lower <= 9.0 <= distance.upper

# %%
# 8. Passivity
# ------------
#
# Positive real lemma. The real part of ``1/(s² + s + 1)`` on the imaginary axis is at least -1/3, so a
# feedthrough of 1/3 makes it passive, and no smaller one does.

A = np.array([[0.0, 1.0], [-1.0, -1.0]])
P, D = cp.Variable((2, 2), PSD=True, name="P"), cp.Variable((1, 1), name="D")
supply = cp.bmat([[A.T @ P + P @ A, P @ B - C.T], [B.T @ P - C, -2 * D]])
feedthrough = sf.optimum(cp.Problem(cp.Minimize(D[0, 0]), [(supply + supply.T) / 2 << 0]))
print(f"{feedthrough.lower:.8f} <= feedthrough <= {feedthrough.upper:.8f}")
assert feedthrough.lower <= 1 / 3 <= feedthrough.upper

# %%
# 9. A generalised eigenvalue problem
# -----------------------------------
#
# The best diagonal scaling of ``M``: the least ``kappa`` with ``D <= M <= kappa·D`` is the least condition
# number, ``3 + 2·sqrt(2)``.

M, kappa = np.array([[2.0, 1.0], [1.0, 1.0]]), cp.Parameter(nonneg=True, name="kappa")
d = cp.Variable(2, name="d")
scaling = sf.bisect(cp.Problem(cp.Minimize(0), [cp.diag(d) << M, kappa * cp.diag(d) >> M]), kappa, lower=1.0)
print(scaling)
assert scaling.lower <= 3.0 + 2.0 * 2.0**0.5 <= scaling.upper

# %%
# 10. Polytopes
# -------------
#
# ``x'' + x' + (1 + d(t)) x = 0`` with ``|d(t)| <= k`` has a quadratic Lyapunov function up to
# ``k = sqrt(3)/2``, the inverse of the H-infinity norm of ``1/(s² + s + 1)``. The vertices decide.

k = cp.Parameter(name="k")
P = cp.Variable((2, 2), symmetric=True, name="P")
turn = np.array([[0.0, 0.0], [-1.0, 0.0]])
vertices = [A + k * turn, A - k * turn]
robust = sf.bisect(
    cp.Problem(cp.Minimize(0), [P >> np.eye(2), *(V.T @ P + P @ V << 0 for V in vertices)]), k, bound=1e4
)
print(robust)
assert robust.lower <= 0.75**0.5 <= robust.upper

# %%
# The last Lyapunov function found: its level sets, and the flow at both vertices.

found = P.value
grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 21)] * 2))
fig, axes = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
for ax, sign in zip(axes, (1.0, -1.0), strict=True):
    flow = A + sign * robust.lower * turn
    ax.streamplot(*grid, *np.einsum("ij,jkl->ikl", flow, grid), density=0.7, linewidth=0.7)
    ax.contour(*grid, np.einsum("ikl,ij,jkl->kl", grid, found, grid), levels=6, colors="tab:red")
    ax.set_aspect("equal")
    ax.set_title(f"d = {sign * robust.lower:.4f}", fontsize="medium")
plt.show()
