"""The interface of a set, and the formulas shared by sets of eigenvalues.

A set is described by the *spectrum* of its members: the eigenvalues of a matrix, the entries of a vector.
Members are all arrays with eigenvalues between two bounds and, if prescribed, a given trace. An array is ``X
= sum_k lam_k F_k`` with an orthonormal *frame* ``F_k``, so norms and inner products are those of the spectra.
Hence, with Π the projection of the spectrum:

* projection: ``P(X) = sum_k Π(lam)_k F_k``;
* support function: ``max <G, X>`` over members is that of the spectra, ``sigma(lam(G))``.

A new set defines its spectrum, its bounds and its proofs. ``tests/problem/test_set_contract.py`` lists what
is missing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.exact_arithmetic import semidefinite_exact
from sdpfeas.numerics.linalg import (
    FloatArray,
    eigh,
    eigvalsh,
    random_orthogonal,
    smallest,
    spectral_matrix,
    symmetrize,
)
from sdpfeas.numerics.rounding import UNIT, definite, norm_upper, product_up, sum_up

#: Frame of a spectral decomposition: eigenvectors (complex for Hermitian matrices), a direction, or None.
Frame = Any


@dataclass(frozen=True)
class Maximiser:
    """A maximiser ``sum_k weights_k F_k`` of ``<G, X>`` over a bounded set.

    ``lam`` holds the eigenvalues of G that belong to non-zero weights (or all), in the order of ``weights``
    and ``frame``; ``size`` estimates the spectral norm of G.
    """

    lam: FloatArray
    weights: FloatArray
    frame: Frame
    size: float


#: Largest accepted n, the largest int32.
LARGEST_SIDE = 2**31 - 1


@dataclass(frozen=True)
class BlockSet(ABC):
    """The base class of all sets; a set constrains one block of the variable.

    Every set is either *bounded*, a proper *cone*, or *free* (the whole space).

    Parameters
    ----------
    n : int
        Side of the matrix, or length of the vector.
    """

    n: int
    #: Whether members are symmetric n×n matrices (else vectors of length n).
    matrix: ClassVar[bool]
    #: Whether the entries of a member are its eigenvalues.
    entrywise: ClassVar[bool]
    #: Name used in files and hashes.
    kind: ClassVar[str]

    def __post_init__(self) -> None:
        object.__setattr__(self, "n", self.checked_size(self.n, "n", LARGEST_SIDE))

    @classmethod
    def checked_size(cls, size: Any, what: str, most: int) -> int:
        """Return a parameter that must be an integer from 1 to ``most``; ``what`` names it in the error."""
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise ProblemError(f"{cls.kind}: {what} must be an integer, got {size!r}")
        if size < 1:
            raise ProblemError(f"{cls.kind}: {what} must be at least 1, got {size}")
        if size > most:
            raise ProblemError(f"{cls.kind}: {what} must be at most {most}")
        return int(size)

    def spec(self) -> dict[str, Any]:
        """Return the parameters as plain data, for files and hashes."""
        return {"kind": self.kind, "n": self.n}

    def described(self) -> str:
        """Format the set with its parameters, as in ``SpectralBox(3, 0, 1)``."""
        values = [v for k, v in self.spec().items() if k != "kind" and v is not None]
        return f"{self.kind}({', '.join(str(v) if isinstance(v, int) else f'{v:g}' for v in values)})"

    # ------------------------------------------------------------ properties

    @property
    def lower(self) -> float:
        """Lower bound of the eigenvalues."""
        return -math.inf

    @property
    def upper(self) -> float:
        """Upper bound of the eigenvalues."""
        return math.inf

    @property
    def trace(self) -> float | None:
        """Prescribed sum of the eigenvalues; None if it is not prescribed."""
        return None

    @property
    def bounded(self) -> bool:
        """Whether the set is compact."""
        return self.upper < math.inf

    @property
    def cone(self) -> bool:
        """Whether the set is a proper cone."""
        return self.lower == 0.0 and self.upper == math.inf

    @property
    def free(self) -> bool:
        """Whether every array is a member."""
        return self.lower == -math.inf

    @property
    def polyhedral(self) -> bool:
        """Whether finitely many linear inequalities describe the set."""
        return self.entrywise or self.n == 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of a member's array."""
        return (self.n, self.n) if self.matrix else (self.n,)

    @property
    def entries(self) -> int:
        """Number of entries of a member's array."""
        return math.prod(self.shape)

    @property
    def dimension(self) -> int:
        """Dimension of the space of symmetric matrices, Hermitian matrices or vectors."""
        return self.n * (self.n + 1) // 2 if self.matrix else self.n

    @property
    def degree(self) -> int:
        """Number of eigenvalues."""
        return self.n

    @property
    def side(self) -> int:
        """Side of the real symmetric matrix that is factorised to decide membership; zero for vector sets."""
        return self.n if self.matrix else 0

    @property
    def slacks(self) -> tuple[tuple[float, float], ...]:
        """Pairs (sign, shift); members satisfy all ``sign·X + shift·I >= 0`` and the prescribed trace."""
        sides = ((1.0, 0.0 - self.lower), (-1.0, self.upper))
        return tuple((sign, shift) for sign, shift in sides if shift < math.inf)

    @property
    def middle(self) -> float:
        """The factor t for which ``t·I`` is the centre of the set; 1 for a cone."""
        return 1.0 if self.cone else 0.0

    @property
    def spectral_radius(self) -> float:
        """Largest magnitude of an eigenvalue of a member."""
        return max(abs(self.lower), abs(self.upper))

    @property
    def nuclear_radius(self) -> float:
        """Upper bound of the nuclear norm over the set."""
        return self.degree * self.spectral_radius

    @property
    def single(self) -> bool:
        """Whether the set is a single point, up to a relative tolerance of 1e-12."""
        depth = min(self.middle - self.lower, self.upper - self.middle)
        return self.bounded and depth <= 1e-12 * self.spectral_radius

    @property
    def radius(self) -> float:
        """Largest Frobenius distance of a member from ``middle·I``."""
        return math.inf

    # ------------------------------------------------------------ arrays and spectra

    @abstractmethod
    def identity(self) -> FloatArray:
        """Return the array with all eigenvalues equal to one."""

    @abstractmethod
    def symmetrize(self, x: FloatArray) -> FloatArray:
        """Project orthogonally onto the space of symmetric matrices (the identity map for vectors)."""

    @abstractmethod
    def decompose(self, x: FloatArray) -> tuple[FloatArray, Frame]:
        """Return the eigenvalues and the frame of the spectral decomposition ``x = sum_k lam_k F_k``."""

    @abstractmethod
    def compose(self, frame: Frame, lam: FloatArray) -> FloatArray:
        """Return ``sum_k lam_k F_k``; the inverse of :meth:`decompose`."""

    @abstractmethod
    def coefficients(self, frame: Frame, x: FloatArray) -> FloatArray:
        """Return the inner products ``<F_k, x>`` with the elements of a frame."""

    @abstractmethod
    def random_frame(self, rng: np.random.Generator) -> Frame:
        """Draw a random frame."""

    def spectrum(self, x: FloatArray) -> FloatArray:
        """Return the eigenvalues of an array."""
        return self.decompose(self.symmetrize(x))[0]

    def trace_of(self, x: FloatArray) -> float:
        """Return the sum of the eigenvalues."""
        return float(np.vdot(self.identity(), x))

    # ------------------------------------------------------------ geometry, on spectra

    def project_spectrum(self, lam: FloatArray) -> FloatArray:
        """Project onto the spectra of members: ``clip(lam, lower, upper)`` if no trace is prescribed."""
        return np.asarray(np.minimum(np.maximum(lam, self.lower), self.upper))

    def support_spectrum(self, lam: FloatArray) -> float:
        """Return the support function of the spectrum; for a cone, zero if ``lam <= 0`` and else infinity."""
        return math.inf if np.any(self.project_spectrum(lam)) else 0.0

    def maximiser_spectrum(self, lam: FloatArray) -> FloatArray:
        """Return the eigenvalues of a member that attains a finite support; ``lam`` is ascending."""
        return np.zeros_like(lam)

    def threshold(self, lam: FloatArray) -> float:
        """Return the dual multiplier of the trace constraint at a maximiser; zero without a trace."""
        return 0.0

    def depth_spectrum(self, lam: FloatArray) -> float:
        """Return the least distance of an eigenvalue from the bounds; negative outside the set."""
        return float(min(np.min(lam) - self.lower, self.upper - np.max(lam)))

    # ------------------------------------------------------------ geometry

    def project(self, x: FloatArray) -> FloatArray:
        """Project onto the set in the Frobenius norm.

        Parameters
        ----------
        x : ndarray
            Point of the set's shape; a matrix is symmetrised first.

        Returns
        -------
        ndarray
            The projection, exactly symmetric.
        """
        lam, frame = self.decompose(self.symmetrize(x))
        return self.compose(frame, self.project_spectrum(lam))

    def maximiser(self, g: FloatArray) -> Maximiser:
        """Maximise ``<g, X>`` over a bounded set."""
        lam, frame = self.decompose(g)
        return Maximiser(lam, self.maximiser_spectrum(lam), frame, float(np.max(np.abs(lam), initial=0.0)))

    def support(self, g: FloatArray) -> float:
        """Return the support function ``max <g, X>`` over the set; it may be infinite."""
        return self.support_spectrum(self.spectrum(g))

    def distance(self, x: FloatArray) -> float:
        """Return the Frobenius distance of ``x`` from the set."""
        lam = self.spectrum(x)
        apart = lam - self.project_spectrum(lam)
        return float(math.hypot(np.linalg.norm(apart), np.linalg.norm(x - self.symmetrize(x))))

    def depth(self, x: FloatArray) -> float:
        """Return the least distance of an eigenvalue of ``x`` from the bounds; negative outside the set.

        The trace of ``x`` is not checked: for a set with a prescribed trace this is the depth in the relative
        interior.
        """
        return self.depth_spectrum(self.spectrum(x))

    def contains_interior(self, x: FloatArray, *, tolerance: float = 1e-12) -> bool:
        """Whether ``x`` lies in the (relative) interior.

        Parameters
        ----------
        x : ndarray
            Point of the set's shape.
        tolerance : float
            Allowed error of the trace, relative to its size.
        """
        if self.trace is not None:
            scale = max(abs(self.trace), self.degree * self.spectral_radius)
            if abs(self.trace_of(x) - self.trace) > tolerance * scale:
                return False
        return self.depth(x) > 0.0

    def interior_point(self) -> FloatArray:
        """Return a member in the (relative) interior, or the only member."""
        return self.middle * self.identity()

    # ------------------------------------------------------------ proofs

    @abstractmethod
    def distance_upper(self, x: FloatArray) -> float:
        """Return a proven upper bound of the distance of ``x`` from the set; infinity if the proof fails."""

    @abstractmethod
    def interior_radius(self, x: FloatArray, share: float) -> float | FloatArray | None:
        """Return a proven radius of a neighbourhood of ``x`` inside the set; None if the proof fails.

        A number r stands for the Frobenius ball ``||d|| <= r``. A vector r (one number per entry) stands for
        the ellipsoid of all ``d = r * u`` with ``||u|| < 1``. A radius that is derived from a
        computed depth is ``share`` times that depth.
        """

    @abstractmethod
    def support_upper(
        self, g: FloatArray, error: FloatArray, slip: float, moves: np.ndarray | None
    ) -> tuple[float, float]:
        """Return a proven bound of the support function near ``g``, and the magnitude of its terms.

        The bound holds for all arrays ``g + e + d`` with ``|e| <= error`` entry by entry, ``||d|| <= slip``
        in the Frobenius norm, and ``d`` zero outside ``moves``.

        Parameters
        ----------
        g, error : ndarray
            Centre and entrywise radius of the arrays.
        slip : float
            Frobenius radius of the further perturbation ``d``.
        moves : ndarray of bool, optional
            Entries that ``d`` may change; None if ``d`` is zero.
        """

    def proves_near(self, x: FloatArray, error: FloatArray, slip: float) -> bool:
        """Prove that all arrays near ``x`` are members; ``error`` and ``slip`` as in :meth:`support_upper`.

        All cones here are self-dual: x is a member if and only if the support function at ``-x`` is zero.
        """
        moves = np.ones(self.shape, dtype=bool) if slip > 0.0 else None
        return self.support_upper(-x, error, slip, moves)[0] == 0.0

    @abstractmethod
    def nonnegative_exact(self, x: np.ndarray) -> bool:
        """Decide whether no eigenvalue of an array of rationals is negative."""

    def contains_exact(self, x: np.ndarray, read: Callable[[float], Any]) -> bool:
        """Decide whether an array of rationals is a member.

        Parameters
        ----------
        x : ndarray
            Rationals of python-flint (``fmpq``).
        read : callable
            Maps the bounds and the trace to such rationals.
        """
        eye = np.vectorize(read, otypes=[object])(self.identity())
        slacks = ((x if sign > 0.0 else -x) + read(shift) * eye for sign, shift in self.slacks)
        return all(self.nonnegative_exact(slack) for slack in slacks) and (
            self.trace is None or bool(np.sum(eye * x) == read(self.trace))
        )

    def polar_exact(self, g: np.ndarray) -> bool:
        """Decide whether the support function of an unbounded set is zero at an array of rationals."""
        return self.nonnegative_exact(-g) and (self.cone or self.nonnegative_exact(g))

    def snapped_distance(self, x: FloatArray, snap: float) -> float:
        """Return ``distance_upper(x)`` if it is at most ``snap`` times the size of x, else infinity."""
        eta, size = self.distance_upper(x), norm_upper(x)
        if self.bounded:
            size = max(size, math.sqrt(self.degree) * self.spectral_radius)
        return eta if eta == 0.0 or eta <= snap * size else math.inf

    def trace_missed(self, x: FloatArray) -> float:
        """Return a proven upper bound of ``|tr x - trace|``."""
        return 0.0

    def coordinates(self, values: Any, *, exact: bool = True) -> Any:
        """Convert user input to the stored array; ``exact=False`` permits rounding."""
        return values

    # ------------------------------------------------------------ reformulation and scaling

    @property
    def psd_side(self) -> int | None:
        """Side of the PSD cone of which the set is a linear image under ``psd_map``; None for other sets."""
        return None

    def psd_map(self) -> Any:
        """Return the sparse matrix T; the set is ``{T' vec(X) : X in PSD(psd_side)}``."""
        raise NotImplementedError(self.kind)

    def psd_preimage(self, x: FloatArray) -> FloatArray:
        """Return a matrix in ``PSD(psd_side)`` that ``psd_map`` maps to the member ``x``."""
        raise NotImplementedError(self.kind)

    def scaled(self, factor: float) -> BlockSet:
        """Return the set of all ``factor·X``; a cone is its own multiple."""
        return self

    def shrunk(self, margin: float) -> BlockSet:
        """Return ``(1 - margin)·set + margin·middle·I`` for a bounded set, and any other set unchanged."""
        return self


class VectorSet(BlockSet):
    """Base class of sets of vectors: the eigenvalues are the entries, the frame is the standard basis."""

    matrix = False
    entrywise = True

    def identity(self) -> FloatArray:
        """Return the vector of ones."""
        return np.ones(self.n)

    def symmetrize(self, x: FloatArray) -> FloatArray:
        """Return the vector itself."""
        return x

    def decompose(self, x: FloatArray) -> tuple[FloatArray, Frame]:
        """Return the vector itself."""
        return x, None

    def compose(self, frame: Frame, lam: FloatArray) -> FloatArray:
        """Return the vector itself."""
        return lam

    def coefficients(self, frame: Frame, x: FloatArray) -> FloatArray:
        """Return the vector itself."""
        return x

    def trace_of(self, x: FloatArray) -> float:
        """Return the sum of the entries."""
        return float(np.sum(x))

    def nonnegative_exact(self, x: np.ndarray) -> bool:
        """Decide whether all entries are non-negative."""
        return all(v >= 0 for v in x)

    def random_frame(self, rng: np.random.Generator) -> Frame:
        """Return None: the frame is the standard basis."""
        return None


class MatrixSet(BlockSet):
    """Base class of sets of symmetric matrices; a frame is an orthogonal matrix of eigenvectors."""

    matrix = True
    entrywise = False

    def identity(self) -> FloatArray:
        """Return the identity matrix."""
        return np.eye(self.n)

    def symmetrize(self, x: FloatArray) -> FloatArray:
        """Return ``(x + x') / 2``."""
        return symmetrize(x)

    def decompose(self, x: FloatArray) -> tuple[FloatArray, Frame]:
        """Return the ascending eigenvalues and the eigenvectors of a symmetric matrix."""
        return eigh(x)

    def compose(self, frame: Frame, lam: FloatArray) -> FloatArray:
        """Return the exactly symmetric matrix with the given eigenvalues and eigenvectors."""
        assert frame is not None
        return spectral_matrix(frame, lam)

    def coefficients(self, frame: Frame, x: FloatArray) -> FloatArray:
        """Return ``v' x v`` for every eigenvector v."""
        assert frame is not None
        return np.asarray(np.einsum("ij,ij->j", frame, x @ frame))

    def random_frame(self, rng: np.random.Generator) -> Frame:
        """Draw a random orthogonal matrix."""
        return random_orthogonal(rng, self.n)

    def spectrum(self, x: FloatArray) -> FloatArray:
        """Return the eigenvalues without computing eigenvectors."""
        return eigvalsh(symmetrize(x))

    def trace_of(self, x: FloatArray) -> float:
        """Return the sum of the diagonal."""
        return float(np.trace(x))

    def nonnegative_exact(self, x: np.ndarray) -> bool:
        """Decide semidefiniteness from the signs of the characteristic polynomial."""
        return semidefinite_exact(x)

    def interior_radius(self, x: FloatArray, share: float) -> float | None:
        """Prove ``share`` times the least distance of an eigenvalue from the bounds."""
        alone = self.cone and len(self.slacks) == 1
        depth = share * (smallest(symmetrize(x)) if alone else self.depth(x))
        return depth if depth > 0.0 and self.proves_inside(x, depth) else None

    def proves_inside(self, x: FloatArray, margin: float = 0.0, *, graded: bool = True) -> bool:
        """Prove that all eigenvalues of ``x`` are further than ``margin`` from the bounds.

        Parameters
        ----------
        x : ndarray
            Exactly symmetric matrix.
        margin : float
            Non-negative distance.
        graded : bool
            Whether to scale the matrix row by row, as in :func:`~sdpfeas.numerics.rounding.definite`.
        """
        size = float(np.max(np.abs(np.diagonal(x)))) + sum(abs(shift) for _, shift in self.slacks)
        # 16 units of roundoff cover the rounding of the shifted diagonal.
        slip = float(sum_up(product_up(16.0 * UNIT, size), margin))
        return all(
            definite(_slack(x, sign, shift), shift=slip if shift else margin, graded=graded)
            for sign, shift in self.slacks
        )


def _slack(x: FloatArray, sign: float, shift: float) -> FloatArray:
    """Return ``sign·x + shift·I``."""
    if sign == 1.0 and shift == 0.0:
        return x
    out = sign * x
    out[np.diag_indices(x.shape[0])] += shift
    return out
