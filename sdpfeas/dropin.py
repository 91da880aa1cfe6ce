"""Names for authors of drop-in files: a backend or a family of problems in one Python file.

A drop-in file imports from :mod:`sdpfeas` and from this module only. :mod:`sdpfeas` has what everybody uses
(:class:`~sdpfeas.FeasibilityBackend`, :class:`~sdpfeas.Claim`, the sets, the errors); this module has what
only authors need. Both are public: a name disappears from them only with a note in the changelog.

For a backend:

- the sets it takes: `CONES`, `ALL_SETS`, and their base class `BlockSet`;
- `to_sdpa` for solvers of the SDPA or SeDuMi pair of programs (cone solvers use
  :meth:`sdpfeas.FeasibilityProblem.to_conic`), `read_csdp_solution` for their solution files, and `svec_map`
  between triangles and whole matrices;
- `trivial_claim`, `require_resources`, `silence_stdout` and `Deadline` for running one;
- `Count`, `Share`, `Positive`, `NonNegative` and `Range` for the ranges of its options.

For a family: `Family` and `ParametricFamily`, `data_file` and `read_arrays` for its data.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.base import ALL_SETS, CONES
from sdpfeas.cards.options import Count, NonNegative, Positive, Range, Share
from sdpfeas.claims import Claim
from sdpfeas.deadline import Deadline
from sdpfeas.errors import CardError, FileFormatError
from sdpfeas.families import Family, ParametricFamily
from sdpfeas.io.problem_files import ConicPair
from sdpfeas.io.sdpa import sdpa_text
from sdpfeas.io.solution_files import SdpaSolution, read_csdp_solution
from sdpfeas.npz import UNREADABLE, load, unpack_arrays
from sdpfeas.numerics.limits import EIGEN_FLOPS, WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray, svec_map
from sdpfeas.problem.conic_form import ENTRIES, ConicForm, conic_form
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.presolve import presolve
from sdpfeas.problem.sets import PSD, BlockSet, Nonneg

__all__ = [
    "ALL_SETS",
    "CONES",
    "BlockSet",
    "Count",
    "Deadline",
    "Family",
    "FloatArray",
    "NonNegative",
    "ParametricFamily",
    "Point",
    "Positive",
    "Range",
    "SdpaPair",
    "SdpaSide",
    "SdpaSolution",
    "SedumiData",
    "Share",
    "data_file",
    "is_lmi",
    "read_arrays",
    "read_csdp_solution",
    "require_resources",
    "silence_stdout",
    "svec_map",
    "to_sdpa",
    "trivial_claim",
]

# ---------------------------------------------------------------- running a solver


def trivial_claim(problem: FeasibilityProblem) -> Claim | None:
    """Answer a problem that needs no solver; many solvers fail on those.

    Parameters
    ----------
    problem : FeasibilityProblem
        Any problem.

    Returns
    -------
    Claim or None
        A point if no row constrains anything, a Farkas certificate if a row without coefficients contradicts
        its bounds, and None for all other problems and for those with LMIs.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> empty_row = sf.FeasibilityProblem([sf.PSD(2)], [np.zeros((1, 2, 2))], [1.0], [2.0])
    >>> trivial_claim(empty_row).certificate
    array([1.])
    >>> trivial_claim(sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [2.0])) is None
    True
    """
    answer = None if problem.lmis else presolve(problem).answer
    return None if answer is None else Claim(*answer, raw_status="presolved")


def require_resources(
    what: str, products: float = 0.0, cubes: float = 0.0, numbers: float = 0.0, *, memory: float = 0.0
) -> None:
    """Refuse work that does not fit into the time or the memory left.

    Native code cannot be interrupted, so estimate its cost and call this before it starts. The error may be
    left alone: it makes the answer undecided, and says what was refused.

    Parameters
    ----------
    what : str
        What the work is for, as in "out of time before ...".
    products : float
        Multiply-adds in matrix products and factorisations.
    cubes : float
        Sum of ``n**3`` over the eigendecompositions of n×n matrices.
    numbers : float
        Numbers written into new memory by simple loops.
    memory : float
        Bytes.

    Raises
    ------
    sdpfeas.SdpfeasError
        If the estimated time is more than the time limit of the solve leaves, or the memory more than is
        free.

    Examples
    --------
    >>> require_resources("a small factorisation", products=100.0**3, memory=8.0 * 100**2)
    >>> require_resources("a petabyte", memory=2.0**50)
    Traceback (most recent call last):
    ...
    sdpfeas.errors.OutOfMemory: not enough memory for a petabyte: about 1e+06 GiB needed, ...
    """
    guard(what, products + EIGEN_FLOPS * cubes + WRITE_FLOPS * numbers, memory=memory)


@contextmanager
def silence_stdout() -> Iterator[None]:
    """Discard what native code prints to the standard output, which may be a pipe that a program reads.

    Examples
    --------
    >>> import os
    >>> with silence_stdout():
    ...     _ = os.system("echo this is not shown")
    """
    sys.stdout.flush()
    native = ctypes.CDLL(None)
    native.fflush(None)
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        yield
    finally:
        native.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


# ---------------------------------------------------------------- the SDPA and SeDuMi pair of programs

#: Which side of the SDPA pair a problem becomes; ``"auto"`` is ``"lmi"`` where that is possible.
SdpaSide = Literal["auto", "lmi", "equality"]


@dataclass(frozen=True)
class SedumiData:
    """An SDPA pair as SeDuMi has it: ``A x = b``, ``x`` in K; and ``c - A'y`` in K.

    ``K`` has nonnegative numbers first, then positive semidefinite matrices, each stored whole. ``x`` holds
    the blocks of ``X``, and ``y`` has the opposite sign of that of SDPA.

    Attributes
    ----------
    A : sparse array
        One row per matrix ``F_1, ..., F_m``.
    b, c : ndarray
        Right-hand side and costs.
    nonneg : int
        How many nonnegative numbers there are.
    semidefinite : tuple of int
        Sides of the matrices.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2), sf.Nonneg(1)], [np.eye(2)[None], [[1.0]]], [1.0], [1.0])
    >>> given = to_sdpa(problem, "equality").sedumi
    >>> given.A.toarray(), given.b, given.nonneg, given.semidefinite
    (array([[1., 1., 0., 0., 1.]]), array([1.]), 1, (2,))
    >>> given.blocks(np.arange(5.0))
    [array([0.]), array([[1., 2.],
           [3., 4.]])]
    """

    A: sp.csr_array
    b: FloatArray
    c: FloatArray
    nonneg: int
    semidefinite: tuple[int, ...]

    def blocks(self, x: FloatArray) -> list[FloatArray]:
        """Split ``x`` into the blocks of the SDPA pair."""
        out, start = [x[: self.nonneg]] if self.nonneg else [], self.nonneg
        for side in self.semidefinite:
            out.append(x[start : start + side * side].reshape(side, side))
            start += side * side
        return out


class SdpaPair:
    """A problem as one program of an SDPA pair; made by :func:`to_sdpa`.

    The pair is that of an SDPA file: block matrices ``X`` with ``<F_i, X> = c_i``, ``X`` positive
    semidefinite; and numbers ``y`` with ``sum_k y_k F_k - F_0`` positive semidefinite. The problem is one of
    the two, and a ray of the other is its Farkas certificate. All objectives are zero. Matrices ``F_k``
    without entries, which some solvers refuse, are left out. The diagonal block, if any, is the first.

    Attributes
    ----------
    side : {"lmi", "equality"}
        Which program the problem is: the one in ``y``, or the one in ``X``.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    >>> pair = to_sdpa(problem, "equality")
    >>> print(pair.file("trace one").decode())
    "trace one"
    1
    1
    2
    1.0
    1 1 1 1 1.0
    1 1 2 2 1.0
    <BLANKLINE>
    >>> pair.point(SdpaSolution(np.zeros(1), [np.eye(2) / 2]))
    (array([[0.5, 0. ],
           [0. , 0.5]]),)
    """

    def __init__(self, side: Literal["lmi", "equality"], form: ConicForm) -> None:
        self.side = side
        self._form = form
        self._kept = np.flatnonzero(np.diff(form.matrix.indptr))
        self._packing = form.packing(form.columns)

    def point(self, solution: SdpaSolution) -> Point:
        """Return the point of the problem that a solution holds."""
        point = self._evidence(solution)[0]
        assert point is not None
        return point

    def multipliers(self, solution: SdpaSolution) -> FloatArray:
        """Return the dual multipliers of the problem, which a Farkas certificate is made of."""
        multipliers = self._evidence(solution)[1]
        assert multipliers is not None
        return multipliers

    def _evidence(self, solution: SdpaSolution) -> tuple[Point | None, FloatArray | None]:
        y = np.zeros(self._form.rhs.size)
        y[self._kept] = solution.y
        return self._form.evidence(self._packing @ np.concatenate([np.ravel(x) for x in solution.X]), y)

    @property
    def sets(self) -> list[BlockSet]:
        """One PSD or, for a diagonal block, Nonneg set per block of ``X``."""
        cones = self._form.columns
        diagonal: list[BlockSet] = [Nonneg(cones.nonneg)] if cones.nonneg else []
        return diagonal + [PSD(side) for side in cones.semidefinite]

    @cached_property
    def sedumi(self) -> SedumiData:
        """The pair as SeDuMi has it."""
        form, cones = self._form, self._form.columns
        rows = sp.csr_array(form.matrix[self._kept] @ self._packing)
        cost = np.asarray(self._packing.T @ form.cost)
        return SedumiData(rows, form.rhs[self._kept], cost, cones.nonneg, cones.semidefinite)

    def file(self, comment: str) -> bytes:
        """Return the content of an SDPA file (``.dat-s``)."""
        given = self.sedumi
        return sdpa_text(ConicPair(sp.csc_array(given.A), given.b, -given.c, self.sets, [], -1), comment)


def to_sdpa(problem: FeasibilityProblem, side: SdpaSide = "auto") -> SdpaPair:
    """Write a problem as one program of an SDPA pair.

    Parameters
    ----------
    problem : FeasibilityProblem
        Made of PSD, Nonneg and Free blocks (a backend whose ``sets`` are `CONES` gets no others), with any
        LMIs into PSD and Nonneg sets.
    side : {"auto", "lmi", "equality"}
        Which program. A problem that is no linear matrix inequality (see :func:`is_lmi`) always becomes
        ``"equality"``: inequalities and LMIs get slack variables, and Free blocks are split into two parts.

    Returns
    -------
    SdpaPair
        The pair, with the maps back for points and certificates.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [2.0])
    >>> pair = to_sdpa(problem)
    >>> pair.side, pair.sets
    ('equality', [Nonneg(n=2), PSD(n=2)])
    """
    form = conic_form(problem, scaled=False, weights=ENTRIES)
    if side != "equality" and is_lmi(problem):
        return SdpaPair("lmi", form.cones_on_rows().dual().without_free_columns())
    return SdpaPair("equality", form.cones_on_columns().without_free_columns())


def is_lmi(problem: FeasibilityProblem) -> bool:
    """Whether a problem has Free blocks, LMIs and inequalities only, so that it can be the ``"lmi"`` side.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> is_lmi(sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0]))
    False
    """
    parts = [*problem.rows, *(rows for lmi in problem.lmis for rows in lmi.coefficients)]
    plain = all(block.free for block in problem.sets) and not problem.equality.any()
    return plain and any(not rows.empty for rows in parts)


# ---------------------------------------------------------------- data of families


def data_file(name: str) -> Path:
    """Find a file in the folder that the environment variable ``SDPFEAS_DATA`` names.

    Parameters
    ----------
    name : str
        Its path below that folder.

    Raises
    ------
    sdpfeas.CardError
        If it is not there.

    Examples
    --------
    >>> data_file("nowhere/to-be.found")
    Traceback (most recent call last):
    ...
    sdpfeas.errors.CardError: there is no ...nowhere/to-be.found; set SDPFEAS_DATA to the folder with the data
    """
    path = Path(os.environ.get("SDPFEAS_DATA", "")) / name
    if not path.is_file():
        raise CardError(f"there is no {path}; set SDPFEAS_DATA to the folder with the data")
    return path


def read_arrays(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read the arrays of an ``.npz`` file; no object is unpickled, and the size of a file is limited.

    Parameters
    ----------
    path : str or PathLike
        The file.

    Raises
    ------
    sdpfeas.FileFormatError
        If it cannot be read, is damaged, or is too large.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/data.npz", X=np.eye(2))
    ...     read_arrays(f"{folder}/data.npz")
    {'X': array([[1., 0.],
           [0., 1.]])}
    """
    return load(path, _unpacked)


def _unpacked(data: bytes) -> dict[str, np.ndarray]:
    try:
        return unpack_arrays(data)
    except FileFormatError:
        raise
    except UNREADABLE as error:
        raise FileFormatError(f"not an .npz file: {error}") from None
