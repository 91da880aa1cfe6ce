"""cvxpy models of known truth: what people ask, with the conflict in their words where there is one.

Every case is a function that returns constraints, the truth, and for an infeasible model the labels (or the
beginnings of what is written) that an irreducible conflict consists of; None where more than one is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cvxpy as cp
import numpy as np

Case = tuple[list[Any], bool, set[str] | None]
CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[..., Case], *arguments: Any, name: str = "") -> None:
    CASES[name or f"{make.__name__} {' '.join(map(str, arguments))}".strip()] = lambda: make(*arguments)


def named(**constraints: Any) -> list[Any]:
    """Constraints labelled by their keywords."""
    return [constraint.set_label(label) for label, constraint in constraints.items()]


# ------------------------------------------------------------ models that need debugging


def portfolio(target: float) -> Case:
    w = cp.Variable(4, nonneg=True, name="w")
    constraints = named(
        budget=cp.sum(w) == 1,
        target=np.array([0.02, 0.04, 0.05, 0.08]) @ w >= target,
        cap=w <= 0.5,
        turnover=cp.norm1(w - 0.25) <= 1.5,
    )
    return constraints, target <= 0.065, {"budget", "target", "cap", "w >= 0"}


def risk(most: float) -> Case:
    """Minimal variance 1/(1 + 1/4 + 1/9 + 1/16) at independent assets of variances 1, 4, 9, 16."""
    w = cp.Variable(4, name="w")
    constraints = named(
        budget=cp.sum(w) == 1, risk=cp.sum_squares(cp.multiply([1.0, 2.0, 3.0, 4.0], w)) <= most, long=w >= -1
    )
    return constraints, most > 144 / 205, {"budget", "risk"}


def flow(demand: float) -> Case:
    """Two paths from s to t; the cut {s->a, b->t} carries 3."""
    f = cp.Variable(5, name="f")  # s->a, s->b, a->b, a->t, b->t
    constraints = named(
        at_a=f[0] == f[2] + f[3],
        at_b=f[1] + f[2] == f[4],
        demand=f[0] + f[1] >= demand,
        forward=f >= 0,
        pipe_sa=f[0] <= 2,
        pipe_sb=f[1] <= 9,
        pipe_at=f[3] <= 9,
        pipe_bt=f[4] <= 1,
    )
    return constraints, demand <= 3, {"demand", "at_b", "forward", "pipe_sa", "pipe_bt"}


def idle_bounds(gap: float) -> Case:
    """One contradiction among forty constraints."""
    x = cp.Variable(20, name="x")
    constraints = [(x[i] >= -i).set_label(f"low {i}") for i in range(20)]
    constraints += [(x[i] <= i).set_label(f"high {i}") for i in range(20)]
    constraints += [(x[7] >= 7 + gap).set_label("typo")]
    return constraints, gap <= 0, {"high 7", "typo"}


def scaled(most: float) -> Case:
    x = cp.Variable(name="x")
    return named(need=1e6 * x >= 1, cap=x <= most), most >= 1e-6, {"need", "cap"}


def attribute(total: float) -> Case:
    x = cp.Variable(4, bounds=[0.0, 1.0], name="x")
    return named(total=cp.sum(x) == total), total <= 4, {"total", "bounds of x"}


def wrong_sign(least: float) -> Case:
    x = cp.Variable(nonpos=True, name="x")
    return named(least=x >= least), least <= 0, {"least", "x <= 0"}


def ball(total: float) -> Case:
    x = cp.Variable(9, name="x")
    return named(ball=cp.norm(x) <= 1, total=cp.sum(x) >= total), total < 3, {"ball", "total"}


def interval(least: float) -> Case:
    x = cp.Variable(name="x")
    return named(near=cp.abs(x) <= 1, least=x >= least), least <= 1, {"near", "least"}


def ordering(total: float) -> Case:
    x, y = cp.Variable(3, name="x"), cp.Variable(3, name="y")
    constraints = named(order=cp.max(x) <= cp.min(y), low=x >= 1, total=cp.sum(y) <= total)
    return constraints, total >= 3, {"order", "low", "total"}


def squares(least: float) -> Case:
    x = cp.Variable(3, name="x")
    return named(small=cp.sum_squares(x) <= 1, least=x[0] >= least), least < 1, {"small", "least"}


def fraction(least: float) -> Case:
    x, t = cp.Variable(2, name="x"), cp.Variable(name="t")
    constraints = named(over=cp.quad_over_lin(x, t) <= 1, cap=t <= 1, least=x[1] >= least)
    return constraints, least < 1, {"over", "cap", "least"}


def means(total: float) -> Case:
    x = cp.Variable(4, name="x")
    return named(mean=cp.geo_mean(x) >= 1, total=cp.sum(x) <= total), total > 4, {"mean", "total"}


def chebyshev(radius: float) -> Case:
    """The largest ball in the unit square has radius 1/2."""
    c, r = cp.Variable(2, name="c"), cp.Variable(name="r")
    constraints = named(inside_low=c - r >= 0, inside_high=c + r <= 1, large=r >= radius)
    return constraints, radius <= 0.5, {"inside_low", "inside_high", "large"}


def separable(shift: float) -> Case:
    """XOR cannot be separated; its corners moved apart can."""
    points = np.array([[0.0, 0.0], [1.0, 1.0], [1.0 + shift, 0.0], [shift, 1.0]])
    w, b = cp.Variable(2, name="w"), cp.Variable(name="b")
    signs = np.array([1.0, 1.0, -1.0, -1.0])
    constraints = [(signs[i] * (points[i] @ w + b) >= 1).set_label(f"point {i}") for i in range(4)]
    return constraints, shift > 1, {f"point {i}" for i in range(4)}


def robust(least: float) -> Case:
    """x_i + |x|/2 <= 1: both are largest where they are equal."""
    x = cp.Variable(2, name="x")
    constraints = named(
        first=x[0] + 0.5 * cp.norm(x) <= 1, second=x[1] + 0.5 * cp.norm(x) <= 1, least=cp.sum(x) >= least
    )
    most = 2 / (1 + 0.5 * np.sqrt(2))
    return constraints, least < most, {"first", "second", "least"}


def constant(value: float) -> Case:
    x = cp.Variable(name="x")
    return [(x >= 0).set_label("idle"), (cp.Constant(value) <= 0).set_label("typo")], value <= 0, {"typo"}


for arguments in (0.05, 0.07):
    case(portfolio, arguments)
for arguments in (0.71, 0.70):
    case(risk, arguments)
for arguments in (2.9, 3.1):
    case(flow, arguments)
for arguments in (-0.5, 0.5):
    case(idle_bounds, arguments)
for arguments in (2e-6, 1e-7):
    case(scaled, arguments)
for arguments in (3.5, 5.0):
    case(attribute, arguments)
for arguments in (-1.0, 1.0):
    case(wrong_sign, arguments)
for arguments in (2.99, 3.01):
    case(ball, arguments)
for arguments in (0.9, 1.1):
    case(interval, arguments)
for arguments in (3.1, 2.9):
    case(ordering, arguments)
for arguments in (0.99, 1.01):
    case(squares, arguments)
for arguments in (0.9, 1.2):
    case(fraction, arguments)
for arguments in (4.1, 3.9):
    case(means, arguments)
for arguments in (0.45, 0.55):
    case(chebyshev, arguments)
for arguments in (1.5, 0.0):
    case(separable, arguments)
for arguments in (1.1, 1.25):
    case(robust, arguments)
case(constant, 1.0)


# ------------------------------------------------------------ spectra, graphs, distances


def eigenvalues(trace: float) -> Case:
    X = cp.Variable((3, 3), symmetric=True, name="X")
    return named(top=cp.lambda_max(X) <= 1, trace=cp.trace(X) >= trace), trace < 3, {"top", "trace"}


def least_eigenvalue(trace: float) -> Case:
    X = cp.Variable((3, 3), symmetric=True, name="X")
    return named(bottom=cp.lambda_min(X) >= 1, trace=cp.trace(X) <= trace), trace > 3, {"bottom", "trace"}


def nuclear(entry: float) -> Case:
    X = cp.Variable((2, 3), name="X")
    return named(rank=cp.normNuc(X) <= 1, entry=X[0, 0] >= entry), entry < 1, {"rank", "entry"}


def singular(total: float) -> Case:
    X = cp.Variable((2, 2), name="X")
    return named(gain=cp.sigma_max(X) <= 1, total=cp.sum(X) >= total), total < 2, {"gain", "total"}


def correlation(last: float) -> Case:
    """Correlations 0.9 and 0.9 leave 0.62 at least for the third."""
    X = cp.Variable((3, 3), PSD=True, name="X")
    constraints = named(
        unit=cp.diag(X) == 1, first=X[0, 1] == 0.9, second=X[1, 2] == 0.9, last=X[0, 2] == last
    )
    return constraints, last > 0.62, {"unit", "first", "second", "last", "X >> 0"}


def sensors(far: float) -> Case:
    """Three sensors: distances 1, 1 and more than 2 violate the triangle inequality."""
    G = cp.Variable((3, 3), PSD=True, name="G")

    def apart(i: int, j: int) -> Any:
        return G[i, i] + G[j, j] - 2 * G[i, j]

    constraints = named(d01=apart(0, 1) == 1, d12=apart(1, 2) == 1, d02=apart(0, 2) == far**2)
    return constraints, far < 2, {"d01", "d12", "d02", "G >> 0"}


def theta(level: float) -> Case:
    """Lovász's theta of the pentagon is the square root of five."""
    X = cp.Variable((5, 5), PSD=True, name="X")
    edges = [X[i, (i + 1) % 5] == 0 for i in range(5)]
    constraints = named(trace=cp.trace(X) == 1, level=cp.sum(X) >= level)
    constraints += [edge.set_label(f"edge {i}") for i, edge in enumerate(edges)]
    conflict = {"trace", "level", "X >> 0", *(f"edge {i}" for i in range(5))}
    return constraints, level < np.sqrt(5), conflict


def max_cut(level: float) -> Case:
    """The relaxation of the pentagon's cut is 5 (1 + cos(pi/5))/2."""
    X = cp.Variable((5, 5), PSD=True, name="X")
    cut = sum((1 - X[i, (i + 1) % 5]) / 2 for i in range(5))
    constraints = named(unit=cp.diag(X) == 1, cut=cut >= level)
    return constraints, level < 2.5 * (1 + np.cos(np.pi / 5)), {"unit", "cut", "X >> 0"}


def squares_of_polynomials(offset: float) -> Case:
    """x^4 - 3 x^2 + offset is a sum of squares from 2.25 on."""
    Q = cp.Variable((3, 3), PSD=True, name="Q")
    constraints = named(
        c4=Q[2, 2] == 1,
        c3=2 * Q[1, 2] == 0,
        c2=2 * Q[0, 2] + Q[1, 1] == -3,
        c1=2 * Q[0, 1] == 0,
        c0=Q[0, 0] == offset,
    )
    return constraints, offset > 2.25, {"c4", "c2", "c0", "Q >> 0"}


def motzkin() -> Case:
    """Motzkin's polynomial is not a sum of squares."""
    exponents = [(0, 0), (1, 1), (2, 1), (1, 2)]
    target = {(4, 2): 1.0, (2, 4): 1.0, (2, 2): -3.0, (0, 0): 1.0}
    Q = cp.Variable((4, 4), PSD=True, name="Q")
    sums: dict[tuple[int, int], Any] = {}
    for i, a in enumerate(exponents):
        for j, b in enumerate(exponents):
            power = (a[0] + b[0], a[1] + b[1])
            sums[power] = sums.get(power, 0) + Q[i, j]
    constraints = [
        (value == target.get(power, 0.0)).set_label(f"x{power[0]}y{power[1]}")
        for power, value in sums.items()
    ]
    return constraints, False, {"x2y2", "Q >> 0"}


for arguments in (2.9, 3.1):
    case(eigenvalues, arguments)
for arguments in (3.1, 2.9):
    case(least_eigenvalue, arguments)
for arguments in (0.9, 1.5):
    case(nuclear, arguments)
for arguments in (1.9, 2.1):
    case(singular, arguments)
for arguments in (0.7, -0.9):
    case(correlation, arguments)
for arguments in (1.5, 3.0):
    case(sensors, arguments)
for arguments in (2.2, 2.25):
    case(theta, arguments)
for arguments in (4.5, 4.55):
    case(max_cut, arguments)
for arguments in (2.5, 2.0):
    case(squares_of_polynomials, arguments)
case(motzkin)


# ------------------------------------------------------------ control


def lyapunov(shift: float) -> Case:
    A = np.array([[0.0, 1.0], [-2.0, -3.0]]) + shift * np.eye(2)  # eigenvalues -1 and -2, shifted
    P = cp.Variable((2, 2), symmetric=True, name="P")
    return (
        named(positive=P >> np.eye(2), decay=A.T @ P + P @ A << -np.eye(2)),
        shift < 1,
        {"positive", "decay"},
    )


def stein(radius: float) -> Case:
    A = radius * np.array([[0.6, -0.8], [0.8, 0.6]])
    P = cp.Variable((2, 2), symmetric=True, name="P")
    return (
        named(positive=P >> np.eye(2), decay=A.T @ P @ A - P << -np.eye(2)),
        radius < 1,
        {"positive", "decay"},
    )


def common_lyapunov(ratio: float) -> Case:
    """Two stable systems that share a quadratic Lyapunov function up to the ratio 3 + sqrt(8)."""
    first = np.array([[-1.0, -1.0], [1.0, -1.0]])
    second = np.array([[-1.0, -ratio], [1.0 / ratio, -1.0]])
    P = cp.Variable((2, 2), symmetric=True, name="P")
    constraints = named(
        positive=P >> np.eye(2),
        first=first.T @ P + P @ first << -0.001 * np.eye(2),
        second=second.T @ P + P @ second << -0.001 * np.eye(2),
    )
    return constraints, ratio < 3 + np.sqrt(8), {"first", "second"}


def stabilise(controllable: bool) -> Case:
    A, B = np.diag([1.0, -1.0]), np.array([[1.0 if controllable else 0.0], [1.0]])
    Q, Y = cp.Variable((2, 2), symmetric=True, name="Q"), cp.Variable((1, 2), name="Y")
    closed = A @ Q + Q @ A.T + B @ Y + Y.T @ B.T
    return named(positive=Q >> np.eye(2), closed=closed << -np.eye(2)), controllable, {"positive", "closed"}


def bounded_real(gamma: float) -> Case:
    """1/(s + 1) has gain one."""
    P = cp.Variable((1, 1), symmetric=True, name="P")
    A, B, C = -np.ones((1, 1)), np.ones((1, 1)), np.ones((1, 1))
    lmi = cp.bmat([[A.T @ P + P @ A + C.T @ C, P @ B], [B.T @ P, -(gamma**2) * np.eye(1)]])
    return named(positive=P >> 0, gain=lmi << 0), gamma > 1, {"gain"}


for arguments in (0.5, 1.5):
    case(lyapunov, arguments)
for arguments in (0.9, 1.1):
    case(stein, arguments)
for arguments in (4.0, 7.0, 20.0):
    case(common_lyapunov, arguments)
for choice in (True, False):
    case(stabilise, choice)
for arguments in (1.1, 0.9):
    case(bounded_real, arguments)


# ------------------------------------------------------------ quantum


def werner(p: float) -> np.ndarray:
    singlet = np.array([0.0, 1.0, -1.0, 0.0]) / np.sqrt(2)
    return p * np.outer(singlet, singlet) + (1 - p) * np.eye(4) / 4


def ppt(p: float) -> Case:
    rho = cp.Variable((4, 4), hermitian=True, name="rho")
    constraints = named(state=rho == werner(p), ppt=cp.partial_transpose(rho, (2, 2), 1) >> 0)
    return constraints, p < 1 / 3, {"state", "ppt"}


def extension(copies: int, p: float) -> Case:
    """A Werner state of qubits has a symmetric extension to k copies up to p = (k + 2)/(3 k)."""
    dims = [2] * (copies + 1)
    size = 2 ** (copies + 1)
    sigma = cp.Variable((size, size), hermitian=True, name="sigma")
    reduced = sigma
    for k in range(copies, 1, -1):
        reduced = cp.partial_trace(reduced, dims[: k + 1], k)
    constraints = named(positive=sigma >> 0, state=reduced == werner(p))
    for k in range(1, copies):
        order = list(range(copies + 1))
        order[k], order[k + 1] = order[k + 1], order[k]
        swap = (
            np.eye(size)
            .reshape([2] * (2 * copies + 2))
            .transpose([*order, *range(copies + 1, 2 * copies + 2)])
            .reshape(size, size)
        )
        constraints += [(swap @ sigma @ swap.T == sigma).set_label(f"swap {k}")]
    conflict = {"positive", "state", *(f"swap {k}" for k in range(1, copies))}
    return constraints, p < (copies + 2) / (3 * copies), conflict


def chsh(level: float) -> Case:
    """The first level of the hierarchy already gives Tsirelson's bound."""
    M = cp.Variable((5, 5), PSD=True, name="M")
    value = M[1, 3] + M[1, 4] + M[2, 3] - M[2, 4]
    return (
        named(unit=cp.diag(M) == 1, chsh=value >= level),
        level < 2 * np.sqrt(2),
        {"unit", "chsh", "M >> 0"},
    )


def bloch(length: float) -> Case:
    """No qubit has <X> and <Z> beyond the unit circle."""
    rho = cp.Variable((2, 2), hermitian=True, name="rho")
    constraints = named(
        positive=rho >> 0,
        normal=cp.real(cp.trace(rho)) == 1,
        x=cp.real(rho[0, 1] + rho[1, 0]) == length,
        z=cp.real(rho[0, 0] - rho[1, 1]) == length,
    )
    return constraints, length < np.sqrt(0.5), {"positive", "normal", "x", "z"}


def discrimination(success: float) -> Case:
    """Helstrom: two pure states of overlap 0.6 are told apart with probability 0.9 at best."""
    first = np.array([1.0, 0.0])
    second = np.array([0.6, 0.8])
    M, N = (cp.Variable((2, 2), hermitian=True, name=name) for name in "MN")
    hit = 0.5 * cp.real(cp.trace(M @ np.outer(first, first)) + cp.trace(N @ np.outer(second, second)))
    constraints = named(first=M >> 0, second=N >> 0, complete=np.eye(2) == M + N, success=hit >= success)
    return constraints, success < 0.9, {"first", "second", "complete", "success"}


def product(entry: float) -> Case:
    """kron(I, X) inside a state: the trace of X is a half."""
    X = cp.Variable((2, 2), symmetric=True, name="X")
    rho = cp.kron(np.eye(2), X)
    return (
        named(positive=rho >> 0, normal=cp.trace(rho) == 1, entry=X[0, 0] >= entry),
        entry < 0.5,
        {"positive", "normal", "entry"},
    )


for arguments in (0.3, 0.4):
    case(ppt, arguments)
for number, arguments in ((2, 0.6), (2, 0.7), (3, 0.5), (3, 0.6)):
    case(extension, number, arguments)
for arguments in (2.8, 2.85):
    case(chsh, arguments)
for arguments in (0.7, 0.72):
    case(bloch, arguments)
for arguments in (0.88, 0.92):
    case(discrimination, arguments)
for arguments in (0.4, 0.6):
    case(product, arguments)


# ------------------------------------------------------------ planted at random


def planted(seed: int, feasible: bool) -> Case:
    """An LMI around a point, or one that a planted semidefinite multiplier contradicts."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(2, 6)), int(rng.integers(1, 5))
    mats = [m + m.T for m in rng.normal(size=(k, n, n))]
    root = rng.normal(size=(n, n))
    inner = root @ root.T + 0.1 * np.eye(n)
    x = cp.Variable(k, name="x")
    if feasible:
        at = rng.normal(size=k)
        constant = inner - sum(a * m for a, m in zip(at, mats, strict=True))
    else:
        mats = [m - np.sum(m * inner) / np.sum(inner * inner) * inner for m in mats]
        constant = -np.eye(n)
    lmi = constant + sum(x[i] * mats[i] for i in range(k))
    return [*named(lmi=lmi >> 0, idle=cp.norm(x) <= 1e3)], feasible, {"lmi"}


for seed in range(8):
    case(planted, seed, True)
    case(planted, seed, False)

# ------------------------------------------------------------ as users write them: atoms, attributes, quantum


def chosen_channel(success: float) -> Case:
    """A channel by its Choi matrix, and how well it keeps a bit."""
    J = cp.Variable((4, 4), hermitian=True, name="J")
    kept = cp.real(cp.trace(J @ np.diag([1.0, 0.0, 0.0, 1.0])))
    parts = named(J=J >> 0, channel=cp.partial_trace(J, (2, 2), 1) == np.eye(2), kept=kept >= success)
    return parts, success <= 2.0, {"J", "channel", "kept"}


def marginals(trace: float) -> Case:
    """A state with given parts has their trace."""
    rho = cp.Variable((4, 4), hermitian=True, name="rho")
    part = cp.partial_trace(rho, (2, 2), 0) == np.eye(2) / 2
    return [rho >> 0, *named(part=part, trace=cp.trace(rho) == trace)], trace == 1.0, {"part", "trace"}


def transposed(fidelity: float) -> Case:
    """A state whose partial transpose is positive is at most half of a Bell state."""
    rho = cp.Variable((4, 4), hermitian=True, name="rho")
    bell = np.array([1.0, 0.0, 0.0, 1.0]) / np.sqrt(2.0)
    overlap = cp.real(bell @ rho @ bell) >= fidelity
    ppt = cp.partial_transpose(rho, (2, 2), 1) >> 0
    parts = named(ppt=ppt, unit=cp.trace(rho) == 1, overlap=overlap)
    return [rho >> 0, *parts], fidelity <= 0.5, {"ppt", "unit", "overlap"}


def products(trace: float) -> Case:
    P = cp.Variable((2, 2), symmetric=True, name="P")
    parts = named(kron=cp.kron(np.eye(2), P) >> np.eye(4), trace=cp.trace(P) <= trace)
    return parts, trace >= 2.0, {"kron", "trace"}


def bounded_variable(total: float) -> Case:
    x = cp.Variable(2, bounds=[0, 1], name="x")
    return named(total=cp.sum(x) >= total), total <= 2.0, {"total", "bounds of x"}


def diagonal(trace: float) -> Case:
    D = cp.Variable((3, 3), diag=True, name="D")
    return named(D=D >> np.eye(3), trace=cp.trace(D) <= trace), trace >= 3.0, {"D", "trace"}


def variation(end: float) -> Case:
    x = cp.Variable(6, name="x")
    parts = named(tv=cp.tv(x) <= 1, first=x[0] == 0, last=x[5] == end)
    return parts, end <= 1.0, {"tv", "first", "last"}


def bent(trace: float) -> Case:
    """A quadratic form with a matrix to be chosen."""
    x, P = cp.Variable(2, name="x"), cp.Variable((2, 2), PSD=True, name="P")
    parts = named(form=cp.matrix_frac(x, P) <= 1, at=x == [0.9, 0.9], trace=cp.trace(P) <= trace)
    return parts, trace >= 1.62, {"form", "at", "trace"}


def without_interior(side: float) -> Case:
    """Weakly infeasible unless the side is zero: no certificate, a chain."""
    X = cp.Variable((2, 2), PSD=True, name="X")
    return named(corner=X[0, 0] <= 0, side=X[0, 1] >= side), side <= 0.0, {"corner", "side", "X >> 0"}


def unstable(pole: float) -> Case:
    A, P = np.array([[pole, 1.0], [0.0, -1.0]]), cp.Variable((2, 2), symmetric=True, name="P")
    return named(P=P >> np.eye(2), decay=A.T @ P + P @ A << 0), pole <= 0.0, {"P", "decay"}


for make, yes, no in (
    (chosen_channel, 1.9, 2.1),
    (marginals, 1.0, 1.5),
    (transposed, 0.49, 0.6),
    (products, 2.5, 1.5),
    (bounded_variable, 1.5, 2.5),
    (diagonal, 3.5, 2.5),
    (variation, 0.9, 1.5),
    (bent, 1.7, 1.0),
    (without_interior, 0.0, 1.0),
    (unstable, -0.1, 0.1),
):
    case(make, yes)
    case(make, no)


def every() -> Iterator[str]:
    yield from CASES
