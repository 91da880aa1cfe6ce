"""Common quadratic Lyapunov functions: decay rates of switched systems, and joint spectral radii.

In continuous time ``delta`` is a decay rate: find ``P`` with ``A_i'P + P A_i + 2 delta P`` negative
semidefinite for every i. Then all solutions of ``x' = A_i x``, with arbitrary switching between the i, decay
like ``exp(-delta t)``. In discrete time find ``P`` with ``P - delta A_i'P A_i`` positive semidefinite. Then
the joint spectral radius of the ``A_i`` is at most ``1 / sqrt(delta)``. A bound on the condition number of
``P`` makes the set compact.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.linalg

from sdpfeas import PSD, ProblemError, SpectralBox
from sdpfeas.dropin import ParametricFamily


@dataclass(frozen=True)
class LyapunovOptions:
    """Parameters: matrices, or the sizes of random ones, and the kind of system."""

    time: Literal["continuous", "discrete"] = "continuous"
    matrices: list | None = None  # type: ignore[type-arg]
    n: int = 4
    count: int = 2
    seed: int = 0
    condition: float = 1e4


class Lyapunov(ParametricFamily):
    """Common quadratic Lyapunov functions of switched linear systems, indexed by the decay rate.

    Parameters
    ----------
    matrices : array_like
        The systems, shape (count, n, n). Their products (discrete time) or sums (continuous time) are
        rounded, and bounds refer to the rounded rows.
    time : {"continuous", "discrete"}
        Meaning of ``delta``.
    condition : float
        Largest condition number of ``P``.
    """

    name = "lyapunov"
    Options = LyapunovOptions

    def __init__(self, matrices: Any, time: str = "continuous", condition: float = 1e4) -> None:
        a = np.array(matrices, dtype=np.float64)
        if a.ndim != 3 or a.shape[1] != a.shape[2] or not np.isfinite(a).all():
            raise ProblemError(f"matrices must be finite, of shape (count, n, n); got {a.shape}")
        self.matrices, self.time = a, time
        count, n, _ = a.shape
        self._entries = np.triu_indices(n)
        fixed, slope = zip(*(self._forms(x) for x in a), strict=True)
        # Q_i = (fixed - delta·slope)(P) is positive semidefinite: n(n+1)/2 equality constraints per system.
        size = self._entries[0].size
        rows: list[Any] = [np.concatenate(fixed)]
        for i in range(count):
            own = np.zeros((count * size, n, n))
            own[i * size : (i + 1) * size] = -self._units(n)
            rows.append(own)
        bracket = (0.0, np.inf) if time == "discrete" else (-np.inf, np.inf)
        super().__init__(
            [SpectralBox(n, lower=1.0 / condition, upper=1.0), *(PSD(n) for _ in a)],
            rows,
            [np.concatenate(slope), *(None for _ in a)],
            np.zeros(count * size),
            np.zeros(count * size),
            monotone="delta multiplies a positive semidefinite matrix that is subtracted",
            bracket=bracket,
            unit=float(max(np.linalg.norm(x, 2) for x in a)) if time == "continuous" else 1.0,
            block_names=["P", *(f"Q{i}" for i in range(count))],
        )

    @classmethod
    def build(cls, options: LyapunovOptions) -> "Lyapunov":
        """Take the matrices as given, or draw them."""
        if options.matrices is not None:
            return cls(options.matrices, options.time, options.condition)
        rng = np.random.default_rng(options.seed)
        a = rng.standard_normal((options.count, options.n, options.n)) / np.sqrt(options.n)
        if options.time == "continuous":
            a = a - 2.0 * np.eye(options.n)
        return cls(a, options.time, options.condition)

    @classmethod
    def seeded(cls, options: LyapunovOptions) -> bool:
        """Return whether the matrices are random."""
        return options.matrices is None

    def _units(self, n: int) -> np.ndarray:
        """Return symmetric matrices whose inner products are the entries of the upper triangle."""
        s, t = self._entries
        out = np.zeros((s.size, n, n))
        k = np.arange(s.size)
        out[k, s, t] += 0.5
        out[k, t, s] += 0.5
        return out

    def _forms(self, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the entries of both linear maps of P as rows."""
        units = self._units(a.shape[0])
        if self.time == "discrete":
            moved = a @ units @ a.T
            return units, (moved + np.swapaxes(moved, 1, 2)) / 2.0
        moved = a @ units
        return -(moved + np.swapaxes(moved, 1, 2)), 2.0 * units

    def _parts(self, p: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return both linear maps at a matrix P, one pair per system."""
        if self.time == "discrete":
            return [(p, a.T @ p @ a) for a in self.matrices]
        return [(-(a.T @ p + p @ a), 2.0 * p) for a in self.matrices]

    # A point is determined by P.

    def largest_delta(self, point: Any) -> float:
        """Return the smallest generalised eigenvalue over all systems."""
        p = point[0]
        if self.time == "discrete":
            radii = [scipy.linalg.eigvalsh(m, p)[-1] for _, m in self._parts(p)]
            return 1.0 / max(*radii, 1e-300)
        return float(min(scipy.linalg.eigvalsh(f, m)[0] for f, m in self._parts(p)))

    def point_at(self, point: Any, delta: float) -> Any:
        """Compute the slack matrices Q_i from P."""
        p = point[0]
        return p, *((q + q.T) / 2.0 for q in (f - delta * m for f, m in self._parts(p)))

    def initial_points(self) -> list[Any]:
        """Return the identity."""
        return [self.point_at((np.eye(self.matrices.shape[1]),), 0.0)]

    # Multipliers form one positive semidefinite matrix per system.

    def _matrices_of(self, y: np.ndarray) -> np.ndarray:
        s, t = self._entries
        table = y.reshape(len(self.matrices), s.size)
        out = np.zeros((len(table), *self.matrices.shape[1:]))
        out[:, s, t] = out[:, t, s] = np.where(s == t, table, 0.5 * table)
        return out

    def _multipliers_of(self, weights: np.ndarray) -> np.ndarray:
        s, t = self._entries
        return (np.where(s == t, 1.0, 2.0) * weights[:, s, t]).ravel()

    def normalise_multipliers(self, y: np.ndarray) -> np.ndarray:
        """Project the matrices of multipliers onto positive definite ones, clear of rounding."""
        lam, vec = np.linalg.eigh(self._matrices_of(y))
        lam = np.maximum(lam, 0.0) / max(float(np.max(np.abs(lam))), 1e-300) + 1e-12
        return self._multipliers_of((vec * lam[:, None, :]) @ np.swapaxes(vec, 1, 2))

    def initial_multipliers(self) -> list[np.ndarray]:
        """Return the rank-one multipliers of the slowest mode of each system."""
        out = []
        for i, a in enumerate(self.matrices):
            lam, vec = np.linalg.eig(a)
            slow = np.argmax(np.abs(lam) if self.time == "discrete" else lam.real)
            weights = np.zeros(self.matrices.shape)
            weights[i] = np.real(np.outer(vec[:, slow], vec[:, slow].conj()))
            out.append(self._multipliers_of(weights))
        return out
