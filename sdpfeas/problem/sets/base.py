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

#: What turns eigenvalues into an array: eigenvectors (complex ones, of Hermitian matrices), or nothing.
Frame = Any


@dataclass(frozen=True)
class Maximiser:
    """Where a linear function is largest on a bounded set.

    ``lam``: eigenvalues of the function, or those that count. ``weights``: eigenvalues of the member, in
    the same order. ``size``: about the largest magnitude of all eigenvalues of the function.
    """

    lam: FloatArray
    weights: FloatArray
    frame: Frame
    size: float


#: No array could hold a larger block.
LARGEST_SIDE = 2**31 - 1


@dataclass(frozen=True)
class BlockSet(ABC):
    """One block of the variable; the base class of every set.

    Every set is one of three: *bounded*, a proper *cone*, or *free*.

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
        if isinstance(self.n, bool) or not isinstance(self.n, (int, np.integer)):
            raise ProblemError(f"{self.kind}: n must be an integer, got {self.n!r}")
        if self.n < 1:
            raise ProblemError(f"{self.kind}: n must be at least 1, got {self.n}")
        if self.n > LARGEST_SIDE:
            raise ProblemError(f"{self.kind}: n must be at most {LARGEST_SIDE}")
        object.__setattr__(self, "n", int(self.n))

    def spec(self) -> dict[str, Any]:
        """Parameters as plain data, for files and hashes."""
        return {"kind": self.kind, "n": self.n}

    def described(self) -> str:
        """The set with its parameters, in a few characters."""
        values = [v for k, v in self.spec().items() if k != "kind" and v is not None]
        return f"{self.kind}({', '.join(str(v) if isinstance(v, int) else f'{v:g}' for v in values)})"

    # ------------------------------------------------------------ facts

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
        """Prescribed sum of the eigenvalues; None where there is none."""
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
        """Dimension of the space that members live in."""
        return self.n * (self.n + 1) // 2 if self.matrix else self.n

    @property
    def degree(self) -> int:
        """Number of eigenvalues."""
        return self.n

    @property
    def side(self) -> int:
        """Side of the real symmetric matrix whose eigenvalues decide; zero where no matrix is needed."""
        return self.n if self.matrix else 0

    @property
    def slacks(self) -> tuple[tuple[float, float], ...]:
        """Signs and shifts such that ``sign·X + shift·I >= 0`` for all of them, and the trace, say all."""
        sides = ((1.0, 0.0 - self.lower), (-1.0, self.upper))
        return tuple((sign, shift) for sign, shift in sides if shift < math.inf)

    @property
    def middle(self) -> float:
        """The multiple of the identity that is deepest inside; in a cone, the identity itself."""
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
        """Whether the set has a single member, or as good as one."""
        depth = min(self.middle - self.lower, self.upper - self.middle)
        return self.bounded and depth <= 1e-12 * self.spectral_radius

    @property
    def radius(self) -> float:
        """Frobenius radius: how far members are from the middle at most."""
        return math.inf

    # ------------------------------------------------------------ arrays and spectra

    @abstractmethod
    def identity(self) -> FloatArray:
        """Array whose eigenvalues are all one."""

    @abstractmethod
    def symmetrize(self, x: FloatArray) -> FloatArray:
        """Nearest array of the space that members live in."""

    @abstractmethod
    def decompose(self, x: FloatArray) -> tuple[FloatArray, Frame]:
        """Eigenvalues of an array, and the frame they belong to."""

    @abstractmethod
    def compose(self, frame: Frame, lam: FloatArray) -> FloatArray:
        """Array with given eigenvalues; inverse of :meth:`decompose`."""

    @abstractmethod
    def coefficients(self, frame: Frame, x: FloatArray) -> FloatArray:
        """Inner products of an array with the elements of a frame."""

    @abstractmethod
    def random_frame(self, rng: np.random.Generator) -> Frame:
        """Draw a frame."""

    def spectrum(self, x: FloatArray) -> FloatArray:
        """Eigenvalues of an array."""
        return self.decompose(self.symmetrize(x))[0]

    def trace_of(self, x: FloatArray) -> float:
        """Sum of the eigenvalues."""
        return float(np.vdot(self.identity(), x))

    # ------------------------------------------------------------ geometry, on spectra

    def project_spectrum(self, lam: FloatArray) -> FloatArray:
        """Nearest eigenvalues of a member."""
        return np.asarray(np.minimum(np.maximum(lam, self.lower), self.upper))

    def support_spectrum(self, lam: FloatArray) -> float:
        """Largest inner product with the eigenvalues of a member; without bounds it is zero or infinity."""
        return math.inf if np.any(self.project_spectrum(lam)) else 0.0

    def maximiser_spectrum(self, lam: FloatArray) -> FloatArray:
        """Eigenvalues of a member that attains a finite support; ``lam`` in ascending order."""
        return np.zeros_like(lam)

    def threshold(self, lam: FloatArray) -> float:
        """Multiplier of the trace at a maximiser: the eigenvalue where it runs out; zero without a trace."""
        return 0.0

    def depth_spectrum(self, lam: FloatArray) -> float:
        """Least distance of an eigenvalue from the bounds; negative outside."""
        return float(min(np.min(lam) - self.lower, self.upper - np.max(lam)))

    # ------------------------------------------------------------ geometry

    def project(self, x: FloatArray) -> FloatArray:
        """Nearest member in the Frobenius norm.

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
        """Where the inner product with ``g`` is largest; of a bounded set."""
        lam, frame = self.decompose(g)
        return Maximiser(lam, self.maximiser_spectrum(lam), frame, float(np.max(np.abs(lam), initial=0.0)))

    def support(self, g: FloatArray) -> float:
        """Largest inner product of ``g`` with a member; may be infinity."""
        return self.support_spectrum(self.spectrum(g))

    def distance(self, x: FloatArray) -> float:
        """Frobenius distance of ``x`` from the set."""
        lam = self.spectrum(x)
        apart = lam - self.project_spectrum(lam)
        return float(math.hypot(np.linalg.norm(apart), np.linalg.norm(x - self.symmetrize(x))))

    def depth(self, x: FloatArray) -> float:
        """Distance of ``x`` from the boundary in eigenvalue terms; negative outside.

        For a set with a trace this is the depth in the relative interior: the trace itself is not looked at.
        """
        return self.depth_spectrum(self.spectrum(x))

    def contains_interior(self, x: FloatArray, *, tolerance: float = 1e-12) -> bool:
        """Whether ``x`` lies in the (relative) interior.

        Parameters
        ----------
        x : ndarray
            Point of the set's shape.
        tolerance : float
            Rounding allowed in the trace, relative to its size.
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
        """Proven bound of the distance of ``x`` from an exact member; infinity if nothing is proved."""

    @abstractmethod
    def room(self, x: FloatArray, share: float) -> float | FloatArray | None:
        """How far from ``x`` one may go and is proved to stay inside; None if nothing is proved.

        Either one number, a Frobenius norm, or one an entry: then a step may take the share of each entry
        that a vector of norm below one has. Where a computed depth is proved, it is this share of it.
        """

    @abstractmethod
    def support_upper(
        self, g: FloatArray, error: FloatArray, slip: float, moves: np.ndarray | None
    ) -> tuple[float, float]:
        """Proven bound of the support function at all arrays near ``g``, and the size of the terms in it.

        Parameters
        ----------
        g, error : ndarray
            The middle of the arrays, and how far each entry may be off.
        slip : float
            How far they may be off beyond that, in the Frobenius norm, ...
        moves : ndarray of bool, optional
            ... on these entries; None if they are not.
        """

    def proves_near(self, x: FloatArray, error: FloatArray, slip: float) -> bool:
        """Prove that all arrays near ``x`` are members; ``error`` and ``slip`` as in :meth:`support_upper`.

        Every cone here is its own dual: its members are where the support at the negative is zero.
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
            Rationals of python-flint.
        read : callable
            Makes such rationals of the bounds and the trace.
        """
        eye = np.vectorize(read, otypes=[object])(self.identity())
        slacks = ((x if sign > 0.0 else -x) + read(shift) * eye for sign, shift in self.slacks)
        return all(self.nonnegative_exact(slack) for slack in slacks) and (
            self.trace is None or bool(np.sum(eye * x) == read(self.trace))
        )

    def polar_exact(self, g: np.ndarray) -> bool:
        """Decide whether the support of an unbounded set is zero at an array of rationals."""
        return self.nonnegative_exact(-g) and (self.cone or self.nonnegative_exact(g))

    def snapped_distance(self, x: FloatArray, snap: float) -> float:
        """Proven bound of the distance from an exact member; infinity above a share of the size."""
        eta, size = self.distance_upper(x), norm_upper(x)
        if self.bounded:
            size = max(size, math.sqrt(self.degree) * self.spectral_radius)
        return eta if eta == 0.0 or eta <= snap * size else math.inf

    def trace_missed(self, x: FloatArray) -> float:
        """Proven bound of how far the trace of ``x`` is from the one prescribed."""
        return 0.0

    def coordinates(self, values: Any, *, exact: bool = True) -> Any:
        """Array that is stored for what a user wrote; ``exact=False`` lets numbers be rounded."""
        return values

    # ------------------------------------------------------------ other sets

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
        """Return a bounded set pulled to its middle by a share of the way; others as they are."""
        return self


# --- sets of vectors, entry by entry


class VectorSet(BlockSet):
    """Vectors: the entries are the eigenvalues, and there is but one frame."""

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
        """Sum of the entries."""
        return float(np.sum(x))

    def nonnegative_exact(self, x: np.ndarray) -> bool:
        """Look at every entry."""
        return all(v >= 0 for v in x)

    def random_frame(self, rng: np.random.Generator) -> Frame:
        """Draw nothing."""
        return None


# --- sets of symmetric matrices, by their eigenvalues


class MatrixSet(BlockSet):
    """Symmetric matrices; a frame is an orthogonal matrix of eigenvectors."""

    matrix = True
    entrywise = False

    def identity(self) -> FloatArray:
        """Return the identity matrix."""
        return np.eye(self.n)

    def symmetrize(self, x: FloatArray) -> FloatArray:
        """Return ``(x + x') / 2``."""
        return symmetrize(x)

    def decompose(self, x: FloatArray) -> tuple[FloatArray, Frame]:
        """Eigenvalues, ascending, and eigenvectors of a symmetric matrix."""
        return eigh(x)

    def compose(self, frame: Frame, lam: FloatArray) -> FloatArray:
        """Matrix with given eigenvalues and eigenvectors, exactly symmetric."""
        assert frame is not None
        return spectral_matrix(frame, lam)

    def coefficients(self, frame: Frame, x: FloatArray) -> FloatArray:
        """``v' x v`` for every eigenvector v."""
        assert frame is not None
        return np.asarray(np.einsum("ij,ij->j", frame, x @ frame))

    def random_frame(self, rng: np.random.Generator) -> Frame:
        """Draw an orthogonal matrix."""
        return random_orthogonal(rng, self.n)

    def spectrum(self, x: FloatArray) -> FloatArray:
        """Eigenvalues, without eigenvectors."""
        return eigvalsh(symmetrize(x))

    def trace_of(self, x: FloatArray) -> float:
        """Sum of the diagonal."""
        return float(np.trace(x))

    def nonnegative_exact(self, x: np.ndarray) -> bool:
        """Decide by the signs of the characteristic polynomial."""
        return semidefinite_exact(x)

    def room(self, x: FloatArray, share: float) -> float | None:
        """Share of the least distance of an eigenvalue from the bounds."""
        alone = self.cone and len(self.slacks) == 1
        depth = share * (smallest(symmetrize(x)) if alone else self.depth(x))
        return depth if depth > 0.0 and self.proves_inside(x, depth) else None

    def proves_inside(self, x: FloatArray, room: float = 0.0, *, graded: bool = True) -> bool:
        """Prove that all eigenvalues of ``x`` are further than ``room`` from the bounds.

        Parameters
        ----------
        x : ndarray
            Exactly symmetric matrix.
        room : float
            Non-negative distance.
        graded : bool
            As for :func:`~sdpfeas.numerics.rounding.definite`.
        """
        size = float(np.max(np.abs(np.diagonal(x)))) + sum(abs(shift) for _, shift in self.slacks)
        # Rounding of the diagonal shift is covered by moving the bound inwards by a few units.
        slip = float(sum_up(product_up(16.0 * UNIT, size), room))
        return all(
            definite(_slack(x, sign, shift), shift=slip if shift else room, graded=graded)
            for sign, shift in self.slacks
        )


def _slack(x: FloatArray, sign: float, shift: float) -> FloatArray:
    """``sign·x + shift·I``."""
    if sign == 1.0 and shift == 0.0:
        return x
    out = sign * x
    out[np.diag_indices(x.shape[0])] += shift
    return out
