"""What each block contributes to the Newton system.

Every block keeps its part of the iterate, inverts its own Hessian ``H``, and adds ``A H^-1 A*`` to the
Schur complement. A SpectralBox has two cones on one matrix; its Hessian ``P1 . P1 + P2 . P2`` is inverted
by one simultaneous diagonalisation instead of d(d+1)/2 extra rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from sdpfeas.backends.ipm.transformed_rows import transform_rows, weighted_gram
from sdpfeas.numerics.linalg import FloatArray, cholesky, eigh, outer_eigenvalues, spectral_matrix, symmetrize
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.rows.matrix_view import vector_columns
from sdpfeas.problem.sets import BlockSet

# ------------------------------------------------------------
# One semidefinite cone: a slack, its dual, and their Nesterov–Todd scaling.

#: From this size on step lengths come from Lanczos instead of all eigenvalues.
LANCZOS_SIZE = 150

#: Below it eigenvalues of scaled directions, which are of the order of one, are found to this error.
SCALED_ERROR = 1e-4

#: Lanczos steps at most, how often to look, and the relative error that is good enough for a step length.
LANCZOS_STEPS, LANCZOS_CHECK, LANCZOS_ERROR = 60, 10, 0.005


class NesterovToddCone:
    """The slack ``S = sign·X + offset·rho·I`` of a block X, and its dual U.

    ``rho`` is the size of the set: the homogenising variable, or a scale block. With the scaling ``R``,
    ``R^-1 S R^-T = R' U R = diag(lam)``. Directions of the block come in its own coordinates, of which
    ``basis`` makes those of this cone.

    Raises ``numpy.linalg.LinAlgError``: if slack or dual is not positive definite.
    """

    def __init__(self, n: int, sign: float, offset: float, slack: FloatArray, dual: FloatArray) -> None:
        lower = cholesky(slack)
        half = _triangular_product(lower, dual, transposed=True)
        squares, vec = eigh(_triangular_product(lower, half.T, transposed=True))
        if not squares[0] > 0.0:
            raise np.linalg.LinAlgError("the dual slack is not positive definite")
        lam = np.sqrt(squares)
        root = np.sqrt(lam)
        solved, _ = scipy.linalg.lapack.dtrtrs(lower, vec, lower=1, trans=1)
        scaling = _triangular_product(lower, vec) / root
        self._set(n, sign, offset, slack, dual, lam, scaling, root[:, None] * solved.T)

    @classmethod
    def diagonal(
        cls, vec: FloatArray, sign: float, offset: float, slack: FloatArray, dual: FloatArray
    ) -> NesterovToddCone:
        """Cone whose slack and dual have the same eigenvectors; their eigenvalues say all the rest."""
        if not (np.all(slack > 0.0) and np.all(dual > 0.0)):
            raise np.linalg.LinAlgError("slack or dual is not positive definite")
        root = (slack / dual) ** 0.25
        cone = cls.__new__(cls)
        full = spectral_matrix(vec, slack), spectral_matrix(vec, dual)
        cone._set(slack.size, sign, offset, *full, np.sqrt(slack * dual), vec * root, (vec / root).T)
        return cone

    def _set(
        self,
        n: int,
        sign: float,
        offset: float,
        slack: FloatArray,
        dual: FloatArray,
        lam: FloatArray,
        scaling: FloatArray,
        inverse: FloatArray,
    ) -> None:
        self.n, self.sign, self.offset = n, sign, offset
        self.slack, self.dual = slack, dual
        #: Scaled eigenvalues of both slacks.
        self.lam = lam
        #: The scaling R and its inverse.
        self.scaling, self.inverse = scaling, inverse
        #: ``R^-1 R^-T``, the identity in the coordinates of the cone.
        self.identity: FloatArray | None = inverse @ inverse.T if offset else None
        #: ``B`` with ``R^-1 X R^-T = B x B'`` for a matrix x in the coordinates of the block; None for I.
        self.basis: FloatArray | None = None
        self._target: FloatArray = np.zeros((n, n))
        self._scaled: tuple[FloatArray, FloatArray] = (self._target, self._target)
        #: Whether the direction is a predictor, which aims at zero.
        self._plain = False

    @property
    def complementarity(self) -> float:
        """Inner product of slack and dual."""
        return float(self.lam @ self.lam)

    def aim(self, centre: float, corrected: bool) -> None:
        """Set the right-hand side of the scaled complementarity equation ``ds + du = target``.

        ``centre``: value the products of the pair should move to. ``corrected``: whether to take the last
        direction into account (Mehrotra's corrector).
        """
        self._target = np.diag(centre / self.lam - self.lam)
        self._plain = centre == 0.0 and not corrected
        if corrected:
            # The last direction had ds + du = -diag(lam), so that -(ds du + du ds) / 2 is a square and more.
            ds = self._scaled[0]
            self._target += ds @ ds.T * (2.0 / (self.lam[:, None] + self.lam[None, :])) + ds

    def pulled(self, eta: float) -> FloatArray:
        """``B' (target + eta·diag(lam)) B``: the target beside a part of the present dual."""
        out = np.array(self._target)
        out[np.diag_indices(self.n)] += eta * self.lam
        return out if self.basis is None or not out.any() else self.basis.T @ out @ self.basis

    def set_direction(self, x: FloatArray, drho: float) -> None:
        """Compute the scaled directions of slack and dual from those of the block and of its size."""
        ds = self.sign * (x if self.basis is None else self.basis @ x @ self.basis.T)
        if self.identity is not None:
            ds = ds + (self.offset * drho) * self.identity
        ds = symmetrize(ds)
        self._scaled = (ds, self._target - ds)

    def size_gradient(self) -> FloatArray | None:
        """``sign·offset·P²``, with ``P = R^-T R^-1``, in the coordinates of the block."""
        if self.identity is None:
            return None
        root = self.inverse if self.basis is None else self.basis.T @ self.inverse
        return self.sign * self.offset * (root @ root.T)

    def size_curvature(self) -> float:
        """``offset² tr P²``."""
        return 0.0 if self.identity is None else self.offset**2 * float(np.sum(self.identity**2))

    def size_target(self) -> float:
        """``offset·tr(R^-T target R^-1)``."""
        return 0.0 if self.identity is None else self.offset * float(np.vdot(self.identity, self._target))

    def step_limit(self) -> float:
        """Longest step along the directions that stays in the cone (at least nearly)."""
        root = 1.0 / np.sqrt(self.lam)
        ds, du = (d * root[:, None] * root[None, :] for d in self._scaled)
        if self._plain:
            # ds + du = -I: what is high for one is low for the other.
            low, high = extremes(ds, both=True)
            lowest = min(low, -1.0 - high)
        else:
            lowest = min(extremes(ds, both=False)[0], extremes(du, both=False)[0])
        return np.inf if lowest >= 0.0 else -1.0 / lowest

    def moved(self, step: float, dx: FloatArray, drho: float) -> NesterovToddCone:
        """Return the cone after a step along the directions.

        ``dx, drho``: directions of the block, in the coordinates of the problem, and of its size.

        Raises ``numpy.linalg.LinAlgError``: if the step leaves the cone.
        """
        slack = self.slack + (step * self.sign) * dx
        slack[np.diag_indices(self.n)] += step * self.offset * drho
        dual = self.dual + step * symmetrize(self.inverse.T @ self._scaled[1] @ self.inverse)
        return NesterovToddCone(self.n, self.sign, self.offset, slack, dual)


def _triangular_product(lower: FloatArray, matrix: FloatArray, transposed: bool = False) -> FloatArray:
    """``L A``, or ``L' A``, at half the cost of a full product."""
    out: FloatArray = scipy.linalg.blas.dtrmm(1.0, lower, matrix, lower=1, trans_a=int(transposed))
    return out


def extremes(matrix: FloatArray, both: bool) -> tuple[float, float]:
    """Extreme eigenvalues of a symmetric matrix, or a little beyond them (as far as Lanczos can tell).

    Unless both are asked for the largest may be far off.
    """
    n = matrix.shape[0]
    if n < LANCZOS_SIZE:
        return outer_eigenvalues(matrix, SCALED_ERROR, both)
    basis = np.empty((LANCZOS_STEPS + 1, n))
    start = np.random.default_rng(0).standard_normal(n)
    basis[0] = start / np.linalg.norm(start)
    diagonal, off = np.empty(LANCZOS_STEPS), np.empty(LANCZOS_STEPS)
    low = high = 0.0
    for k in range(LANCZOS_STEPS):
        w = matrix @ basis[k]
        diagonal[k] = w @ basis[k]
        # Twice: after one pass rounding leaves enough of the old vectors to come back as ghosts.
        for _ in range(2):
            w -= basis[: k + 1].T @ (basis[: k + 1] @ w)
        off[k] = np.linalg.norm(w)
        finished = k == LANCZOS_STEPS - 1 or off[k] <= 1e-14 * abs(diagonal[k])
        if finished or k % LANCZOS_CHECK == LANCZOS_CHECK - 1:
            values, vectors = scipy.linalg.eigh_tridiagonal(diagonal[: k + 1], off[:k])
            errors = off[k] * np.abs(vectors[-1])
            low, high = float(values[0] - errors[0]), float(values[-1] + errors[-1])
            good = errors <= LANCZOS_ERROR * np.abs(values)
            enough = good[0] and good[-1] if both else good[0] or values[0] > errors[0]
            if finished or enough:
                break
        basis[k + 1] = w / off[k]
    return low, high


# ------------------------------------------------------------
# Points on the central path of one block, for a given dual matrix: where a warm start begins.


def centred_pair(g: FloatArray, mu: float) -> tuple[FloatArray, FloatArray]:
    """Positive ``x`` and ``u`` with ``x·u = mu`` and ``u`` close to ``-g`` where that is positive."""
    root = np.sqrt(g * g + 4.0 * mu)
    # Either sign in the form that does not cancel.
    u = np.where(g > 0.0, 2.0 * mu / (root + g), 0.5 * (root - g))
    return mu / u, u


def centred_spectrum(
    g: FloatArray, mu: float, width: float, total: float | None
) -> tuple[FloatArray, FloatArray, float]:
    """Solve ``g - theta + mu/z - mu/(width - z) = 0`` for ``0 < z < width``.

    ``g``: eigenvalues of the dual matrix, ascending. ``total``: what ``z`` has to sum up to; None: theta is
    zero.

    Returns: the eigenvalues, and ``width - z`` without cancellation.
    """

    def solved(theta: float) -> tuple[FloatArray, FloatArray]:
        a = (g - theta) * width
        root = np.hypot(a, 2.0 * mu)
        near = 2.0 * mu * width / (root + np.abs(a) + 2.0 * mu)
        far = width - near
        return np.where(a < 0.0, near, far), np.where(a < 0.0, far, near)

    theta = 0.0
    if total is not None:
        from scipy.optimize import brentq  # slow to import

        n = g.size
        low = float(g[0]) - 2.0 * n * mu / (n * width - total)
        high = float(g[-1]) + 2.0 * n * mu / total
        theta = float(
            brentq(lambda t: float(np.sum(solved(t)[0])) - total, low, high, xtol=1e-300, rtol=1e-14)
        )
    return *solved(theta), theta


#: From this share of non-zeros on the columns of a vector block are stored as an array.
FILLED = 0.25


class Block(ABC):
    """One block that is eliminated from the Newton system.

    Its Hessian ``H`` is diagonal in coordinates of its own, which change with every step: the image of a
    dual matrix g is ``T g T'``, that of a direction is x with ``X = T' x T``.

    ``rows``: the rows on the block; None if there are none. ``cost``: the block's part of the objective, to
    be minimised.
    """

    def __init__(self, rows: Rows | None, cost: FloatArray) -> None:
        self.rows, self.cost = rows, cost
        self.x: FloatArray
        #: How the size of the set enters stationarity, as an image; None if it does not.
        self.size_gradient: FloatArray | None = None

    @property
    @abstractmethod
    def degree(self) -> int:
        """How many complementary pairs the block has."""

    @property
    @abstractmethod
    def complementarity(self) -> float:
        """Inner product of its slacks and duals."""

    @property
    @abstractmethod
    def dual(self) -> FloatArray:
        """The block's part of the dual slack in the stationarity equation."""

    @abstractmethod
    def cost_image(self) -> FloatArray:
        """TransformedRows of the cost."""

    @abstractmethod
    def apply_image(self, x: FloatArray) -> FloatArray:
        """Row values of a direction given by its image."""

    @abstractmethod
    def adjoint_image(self, y: FloatArray) -> FloatArray:
        """TransformedRows of ``A*y``."""

    @abstractmethod
    def schur(self, q: Sequence[FloatArray], *, rough: bool = False) -> tuple[FloatArray, FloatArray]:
        """``A H^-1 A*``, in single precision if that will do, and one row ``A H^-1 q`` for every image q."""

    @abstractmethod
    def invert(self, g: FloatArray) -> FloatArray:
        """``H^-1 g``, image to image."""

    @abstractmethod
    def aim(self, centre: float, corrected: bool, eta: float) -> FloatArray:
        """Fix the complementarity targets; return their image plus ``eta`` times that of the dual."""

    @abstractmethod
    def set_direction(self, x: FloatArray, drho: float) -> None:
        """Take the image of the direction of the block and derive the directions of its slacks."""

    @abstractmethod
    def step_limit(self) -> float:
        """Longest step that stays inside."""

    @abstractmethod
    def propose(self, step: float, drho: float) -> None:
        """Prepare a step, the size of the set changing by ``step·drho``; nothing moves before :meth:`accept`.

        Raises ``numpy.linalg.LinAlgError``: if the step leaves the block.
        """

    @abstractmethod
    def accept(self) -> None:
        """Take the step that was proposed last."""

    @abstractmethod
    def ahead(self) -> FloatArray:
        """Where a whole step leads, inside or not."""

    @abstractmethod
    def place(self, primal: float, dual: float) -> None:
        """Go far inside: multiples of the identity of these sizes, the middle of a box."""

    @abstractmethod
    def start(self, g: FloatArray, mu: float, size: float, hint: FloatArray) -> float:
        """Go to the point of the central path that belongs to a dual matrix.

        ``g``: ``A*y - cost``, without the row of the trace. ``hint``: where the block may be; taken where
        ``g`` says little.

        Returns: the multiplier of the trace row; zero if there is none.
        """

    @abstractmethod
    def adopt(self, other: Any) -> None:
        """Take over where another block of the same set, with other rows, has come to."""

    def size_trace(self) -> float:
        """``sum_j offset_j tr U_j``: how the duals act on the size of the set."""
        return 0.0

    def adjoint(self, y: FloatArray) -> FloatArray:
        """``A*y``."""
        return np.zeros(self.x.shape) if self.rows is None else self.rows.adjoint(y)


class MatrixBlock(Block):
    """A PSD block (one cone) or a SpectralBox (two cones on one matrix)."""

    def __init__(self, block: BlockSet, rows: Rows | None, cost: FloatArray) -> None:
        super().__init__(rows, cost)
        self._set = block
        self._has_cost = bool(np.any(cost))

    def place(self, primal: float, dual: float) -> None:
        """Start from a multiple of the identity, or from the middle of the box."""
        block, n = self._set, self._set.n
        middle = block.middle if block.bounded else primal
        pairs = [(np.full(n, sign * middle + offset), np.full(n, dual)) for sign, offset in block.slacks]
        self._begin(np.eye(n), pairs, 1.0)

    def _begin(self, vec: FloatArray, pairs: list[tuple[FloatArray, FloatArray]], size: float) -> None:
        """Take eigenvectors of all slacks and duals, and their eigenvalues, cone by cone."""
        self.cones = [
            NesterovToddCone.diagonal(vec, *kind, slack, dual)
            for kind, (slack, dual) in zip(self._set.slacks, pairs, strict=True)
        ]
        sign, offset = self._set.slacks[0]
        self.x = sign * (self.cones[0].slack - offset * size * np.eye(vec.shape[0]))
        self._direction = np.zeros_like(self.x)
        self._proposed = self.x, self.cones
        self._align()

    @property
    def degree(self) -> int:
        """Sum of the sides of its cones."""
        return len(self._set.slacks) * self._set.n

    @property
    def complementarity(self) -> float:
        """Inner product of its slacks and duals."""
        return sum(cone.complementarity for cone in self.cones)

    @property
    def dual(self) -> FloatArray:
        """``sum_j sign_j U_j``."""
        return np.asarray(sum(cone.sign * cone.dual for cone in self.cones))

    def _align(self) -> None:
        """Find the coordinates in which the Hessian of all cones is diagonal."""
        first = self.cones[0]
        self._transform = first.scaling.T
        self._kernel: FloatArray | None = None
        if len(self.cones) == 2:
            second = self.cones[1]
            mixed = second.inverse @ first.scaling
            _, vec = eigh(mixed.T @ mixed)
            self._transform = vec.T @ self._transform
            first.basis, second.basis = vec, mixed @ vec
            ratio = np.einsum("ij,ij->j", second.basis, second.basis)
            self._kernel = 1.0 + ratio[:, None] * ratio[None, :]
        self._rows = None if self.rows is None else transform_rows(self.rows, self._transform)
        gradient = [g for g in (cone.size_gradient() for cone in self.cones) if g is not None]
        # -sum_j sign_j offset_j P_j²
        self.size_gradient = -np.asarray(sum(gradient)) if gradient else None

    def cost_image(self) -> FloatArray:
        """``T cost T'``."""
        return self._transform @ self.cost @ self._transform.T if self._has_cost else self.cost

    def apply_image(self, x: FloatArray) -> FloatArray:
        """Row values of a direction given by its image."""
        return np.zeros(0) if self._rows is None else self._rows.apply(x)

    def adjoint_image(self, y: FloatArray) -> FloatArray:
        """TransformedRows of ``A*y``."""
        return np.zeros(self.x.shape) if self._rows is None else self._rows.adjoint(y)

    def schur(self, q: Sequence[FloatArray], *, rough: bool = False) -> tuple[FloatArray, FloatArray]:
        """Sum up the scaled Gram matrix."""
        assert self._rows is not None
        return weighted_gram(self._rows, self._kernel, q, rough=rough)

    def invert(self, g: FloatArray) -> FloatArray:
        """Divide by the diagonal of H."""
        return g if self._kernel is None else g / self._kernel

    def aim(self, centre: float, corrected: bool, eta: float) -> FloatArray:
        """Fix the targets of all cones."""
        for cone in self.cones:
            cone.aim(centre, corrected)
        return np.asarray(sum(cone.sign * cone.pulled(eta) for cone in self.cones))

    def set_direction(self, x: FloatArray, drho: float) -> None:
        """Derive the scaled directions of all cones."""
        self._direction = x
        for cone in self.cones:
            cone.set_direction(x, drho)

    def step_limit(self) -> float:
        """Longest step that stays inside all cones."""
        return min(cone.step_limit() for cone in self.cones)

    def propose(self, step: float, drho: float) -> None:
        """Prepare a step of all cones."""
        dx = self._change()
        self._proposed = self.x + step * dx, [cone.moved(step, dx, drho) for cone in self.cones]

    def _change(self) -> FloatArray:
        """The direction in the coordinates of the problem."""
        return symmetrize(self._transform.T @ self._direction @ self._transform)

    def ahead(self) -> FloatArray:
        """Add the whole direction."""
        return self.x + self._change()

    def accept(self) -> None:
        """Take the step and find the coordinates that belong to it."""
        self.x, self.cones = self._proposed
        self._align()

    def adopt(self, other: MatrixBlock) -> None:
        """Take over slacks and duals."""
        self._proposed = other.x, other.cones
        self.accept()

    def start(self, g: FloatArray, mu: float, size: float, hint: FloatArray) -> float:
        """Diagonalise ``g``; the rest is a matter of single numbers."""
        lam, vec = eigh(g)
        block, n = self._set, g.shape[0]
        if not block.bounded:
            theta = 0.0
            self._begin(vec, [centred_pair(lam, mu)], size)
        else:
            shift, width = block.lower * size, (block.upper - block.lower) * size
            total = None if block.trace is None else block.trace * size - n * shift
            low, high, theta = centred_spectrum(lam, mu, width, total)
            self._begin(vec, [(low, mu / low), (high, mu / high)], size)
        return -theta

    def size_trace(self) -> float:
        """``sum_j offset_j tr U_j``."""
        return float(sum(cone.offset * np.trace(cone.dual) for cone in self.cones if cone.offset))

    def size_curvature(self) -> float:
        """``sum_j offset_j² tr P_j²``."""
        return sum(cone.size_curvature() for cone in self.cones)

    def size_target(self) -> float:
        """``sum_j offset_j tr(P_j d_j P_j)`` of the present targets."""
        return sum(cone.size_target() for cone in self.cones)


class NonnegBlock(Block):
    """A block of non-negative numbers."""

    def __init__(self, n: int, rows: Rows | None, cost: FloatArray) -> None:
        super().__init__(rows, cost)
        self.x, self.u = np.ones(n), np.ones(n)
        self.dx, self.du = np.zeros(n), np.zeros(n)
        self._target = np.zeros(n)
        self._proposed = self.x, self.u
        self._columns: Any = None if rows is None else _packed(vector_columns(rows))

    @property
    def degree(self) -> int:
        """Its length."""
        return self.x.size

    @property
    def complementarity(self) -> float:
        """Inner product of the numbers and their duals."""
        return float(self.x @ self.u)

    @property
    def dual(self) -> FloatArray:
        """The duals."""
        return self.u

    def place(self, primal: float, dual: float) -> None:
        """Start from equal numbers."""
        self.x, self.u = np.full(self.x.size, primal), np.full(self.x.size, dual)

    def adopt(self, other: NonnegBlock) -> None:
        """Take over numbers and duals."""
        self.x, self.u = other.x, other.u

    def start(self, g: FloatArray, mu: float, size: float, hint: FloatArray) -> float:
        """Stay at the hint where it is positive."""
        x, _ = centred_pair(g, mu)
        self.x = np.where(hint > 0.0, hint, x)
        self.u = mu / self.x
        return 0.0

    def cost_image(self) -> FloatArray:
        """Return the cost itself."""
        return self.cost

    def apply_image(self, x: FloatArray) -> FloatArray:
        """Row values."""
        return np.zeros(0) if self._columns is None else np.asarray(self._columns @ x)

    def adjoint_image(self, y: FloatArray) -> FloatArray:
        """``A*y`` itself."""
        return np.zeros(self.x.shape) if self._columns is None else np.asarray(self._columns.T @ y)

    def schur(self, q: Sequence[FloatArray], *, rough: bool = False) -> tuple[FloatArray, FloatArray]:
        """``A diag(x / u) A'``."""
        assert self.rows is not None
        mixed = np.array([self.apply_image(self.invert(part)) for part in q])
        if sp.issparse(self._columns):
            product = self._columns @ sp.diags_array(self.x / self.u) @ self._columns.T
            return product.toarray(), mixed
        return (self._columns * (self.x / self.u)) @ self._columns.T, mixed

    def invert(self, g: FloatArray) -> FloatArray:
        """Multiply by ``x / u``."""
        return g * self.x / self.u

    def aim(self, centre: float, corrected: bool, eta: float) -> FloatArray:
        """Fix the targets of all products."""
        self._target = centre - self.x * self.u
        if corrected:
            self._target = self._target - self.dx * self.du
        return self._target / self.x + eta * self.u

    def set_direction(self, x: FloatArray, drho: float) -> None:
        """Take the direction and derive that of the duals."""
        self.dx = x
        self.du = (self._target - self.u * x) / self.x

    def step_limit(self) -> float:
        """Longest step that stays positive."""
        return min(ratio_limit(self.x, self.dx), ratio_limit(self.u, self.du))

    def propose(self, step: float, drho: float) -> None:
        """Prepare a step."""
        self._proposed = self.x + step * self.dx, self.u + step * self.du

    def ahead(self) -> FloatArray:
        """Add the whole direction."""
        return self.x + self.dx

    def accept(self) -> None:
        """Take the step."""
        self.x, self.u = self._proposed


def _packed(columns: Any) -> Any:
    """Columns as an array where they are mostly filled; so is then the product of any two of them."""
    full = sp.issparse(columns) and columns.nnz > FILLED * columns.shape[0] * columns.shape[1]
    return columns.toarray() if full else columns


def ratio_limit(x: FloatArray, dx: FloatArray) -> float:
    """Longest step along ``dx`` that keeps ``x`` non-negative."""
    falling = dx < 0.0
    return float(np.min(-x[falling] / dx[falling], initial=np.inf))
