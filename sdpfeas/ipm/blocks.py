"""What each block contributes to the Newton system.

Every block keeps its part of the iterate, inverts its own Hessian ``H``, and adds ``A H^-1 A*`` to the
Schur complement. A SpectralBox has two cones on one matrix; its Hessian ``P1 . P1 + P2 . P2`` is inverted
by one simultaneous diagonalisation instead of d(d+1)/2 extra rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.certificates.equality import vector_columns
from sdpfeas.ipm.cone import Cone
from sdpfeas.ipm.schur import scaled_gram
from sdpfeas.linalg import FloatArray, eigh, symmetrize
from sdpfeas.operators import Rows
from sdpfeas.sets import PSD, SpectralBox

__all__ = ["Block", "MatrixBlock", "NonnegBlock"]


class Block(ABC):
    """One block that is eliminated from the Newton system.

    Parameters
    ----------
    rows : Rows, optional
        The rows on the block; None if there are none.
    cost : ndarray
        The block's part of the objective, to be minimised.
    """

    def __init__(self, rows: Rows | None, cost: FloatArray) -> None:
        self.rows, self.cost = rows, cost
        self.x: FloatArray
        self.dx: FloatArray

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
    def refresh(self) -> None:
        """Recompute scalings after a step."""

    @abstractmethod
    def schur(self) -> FloatArray:
        """``A H^-1 A*``."""

    @abstractmethod
    def invert(self, g: FloatArray) -> FloatArray:
        """``H^-1 g``."""

    @abstractmethod
    def aim(self, centre: float, corrected: bool) -> FloatArray:
        """Fix the complementarity targets and return what they add to the right-hand side."""

    @abstractmethod
    def set_direction(self, dx: FloatArray, drho: float) -> None:
        """Take the direction of the block and derive those of its slacks."""

    @abstractmethod
    def step_limit(self) -> float:
        """Longest step that stays inside."""

    @abstractmethod
    def move(self, step: float) -> None:
        """Take a step."""

    def size_trace(self) -> float:
        """``sum_j offset_j tr U_j``: how the duals act on the size of the set."""
        return 0.0

    def size_trace_direction(self) -> float:
        """The same of the directions."""
        return 0.0

    def size_gradient(self) -> FloatArray | None:
        """How the size of the set enters the stationarity equation; None if it does not."""
        return None

    def apply(self, x: FloatArray, m: int) -> FloatArray:
        """Row values of ``x``."""
        return np.zeros(m) if self.rows is None else self.rows.apply(x)

    def adjoint(self, y: FloatArray) -> FloatArray:
        """``A*y``."""
        return np.zeros(self.x.shape) if self.rows is None else self.rows.adjoint(y)


class MatrixBlock(Block):
    """A PSD block (one cone) or a SpectralBox (two cones on one matrix)."""

    def __init__(
        self, block: PSD | SpectralBox, rows: Rows | None, cost: FloatArray, primal: float, dual: float
    ) -> None:
        super().__init__(rows, cost)
        n = block.n
        eye = np.eye(n)
        if isinstance(block, PSD):
            self.x = primal * eye
            self.cones = [Cone(n, 1.0, 0.0, np.array(self.x), dual * eye)]
        else:
            self.x = block.interior_point()
            low, high = self.x - block.lower * eye, block.upper * eye - self.x
            self.cones = [
                Cone(n, 1.0, -block.lower, low, dual * eye),
                Cone(n, -1.0, block.upper, high, dual * eye),
            ]
        self.dx = np.zeros_like(self.x)
        self._targets: list[FloatArray] = []
        self.refresh(first=True)

    @property
    def degree(self) -> int:
        """Sum of the sides of its cones."""
        return sum(cone.n for cone in self.cones)

    @property
    def complementarity(self) -> float:
        """Inner product of its slacks and duals."""
        return sum(cone.complementarity for cone in self.cones)

    @property
    def dual(self) -> FloatArray:
        """``sum_j sign_j U_j``."""
        return np.asarray(sum(cone.sign * cone.dual for cone in self.cones))

    def refresh(self, first: bool = False) -> None:
        """Recompute the scalings and the transform that diagonalises the Hessian."""
        if not first:
            for cone in self.cones:
                cone.rescale()
        self._transform = self.cones[0].scaling.T
        self._kernel: FloatArray | None = None
        if len(self.cones) == 2:
            mixed = self.cones[1].inverse @ self.cones[0].scaling
            ratio, vec = eigh(symmetrize(mixed.T @ mixed))
            ratio = np.maximum(ratio, 0.0)
            self._transform = vec.T @ self._transform
            self._kernel = 1.0 + ratio[:, None] * ratio[None, :]
        gradient = [c.sign * c.offset * c.inverse_square() for c in self.cones if c.offset != 0.0]
        self._gradient = -np.asarray(sum(gradient)) if gradient else None

    def schur(self) -> FloatArray:
        """``A H^-1 A*`` by the scaled Gram matrix."""
        assert self.rows is not None
        return scaled_gram(self.rows, self._transform, self._kernel)

    def invert(self, g: FloatArray) -> FloatArray:
        """``H^-1 g`` in the coordinates in which H is diagonal."""
        inner = self._transform @ g @ self._transform.T
        if self._kernel is not None:
            inner = inner / self._kernel
        return symmetrize(self._transform.T @ inner @ self._transform)

    def aim(self, centre: float, corrected: bool) -> FloatArray:
        """Fix the targets of both cones."""
        self._targets = [cone.target(centre, corrected) for cone in self.cones]
        pulled = (c.sign * c.pull(t) for c, t in zip(self.cones, self._targets, strict=True))
        return np.asarray(sum(pulled))

    def set_direction(self, dx: FloatArray, drho: float) -> None:
        """Take the direction of the matrix and derive those of its slacks."""
        self.dx = dx
        for cone, target in zip(self.cones, self._targets, strict=True):
            cone.set_direction(target, dx, drho)

    def step_limit(self) -> float:
        """Longest step that stays inside both cones."""
        return min(cone.step_limit() for cone in self.cones)

    def move(self, step: float) -> None:
        """Take a step."""
        self.x = self.x + step * self.dx
        for cone in self.cones:
            cone.move(step)

    def size_trace(self) -> float:
        """``sum_j offset_j tr U_j``."""
        return float(sum(cone.offset * np.trace(cone.dual) for cone in self.cones if cone.offset))

    def size_trace_direction(self) -> float:
        """The same of the directions."""
        return float(sum(cone.offset * np.trace(cone.ddual) for cone in self.cones if cone.offset))

    def size_gradient(self) -> FloatArray | None:
        """``-sum_j sign_j offset_j P_j²``."""
        return self._gradient

    def size_curvature(self) -> float:
        """``sum_j offset_j² tr P_j²``."""
        return float(
            sum(c.offset**2 * np.sum((c.inverse.T @ c.inverse) ** 2) for c in self.cones if c.offset)
        )

    def size_target(self) -> float:
        """``sum_j offset_j tr(P_j d_j P_j)`` of the present targets."""
        return float(
            sum(
                c.offset * np.trace(c.pull(t))
                for c, t in zip(self.cones, self._targets, strict=True)
                if c.offset
            )
        )


class NonnegBlock(Block):
    """A block of non-negative numbers."""

    def __init__(self, n: int, rows: Rows | None, cost: FloatArray, primal: float, dual: float) -> None:
        super().__init__(rows, cost)
        self.x, self.u = np.full(n, primal), np.full(n, dual)
        self.dx, self.du = np.zeros(n), np.zeros(n)
        self._target = np.zeros(n)
        self._columns: Any = None if rows is None else vector_columns(rows)

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

    def refresh(self) -> None:
        """Nothing is cached."""

    def schur(self) -> FloatArray:
        """``A diag(x / u) A'``."""
        product = self._columns @ sp.diags_array(self.x / self.u) @ self._columns.T
        return np.asarray(product.toarray() if hasattr(product, "toarray") else product)

    def invert(self, g: FloatArray) -> FloatArray:
        """Multiply by ``x / u``."""
        return g * self.x / self.u

    def aim(self, centre: float, corrected: bool) -> FloatArray:
        """Fix the targets of all products."""
        self._target = centre - self.x * self.u
        if corrected:
            self._target = self._target - self.dx * self.du
        return self._target / self.x

    def set_direction(self, dx: FloatArray, drho: float) -> None:
        """Take the direction and derive that of the duals."""
        self.dx = dx
        self.du = (self._target - self.u * dx) / self.x

    def step_limit(self) -> float:
        """Longest step that stays positive."""
        return min(ratio_limit(self.x, self.dx), ratio_limit(self.u, self.du))

    def move(self, step: float) -> None:
        """Take a step."""
        self.x = self.x + step * self.dx
        self.u = self.u + step * self.du


def ratio_limit(x: FloatArray, dx: FloatArray) -> float:
    """Longest step along ``dx`` that keeps ``x`` non-negative."""
    falling = dx < 0.0
    return float(np.min(-x[falling] / dx[falling], initial=np.inf))
