"""Names for authors of drop-in files: a backend or a family of problems in one Python file.

A drop-in file imports from :mod:`sdpfeas` and from this module only. :mod:`sdpfeas` has what everybody uses
(:class:`~sdpfeas.FeasibilityBackend`, :class:`~sdpfeas.Claim`, the sets, the errors); this module has what
only authors need. Both are public: a name disappears from them only with a note in the changelog.

For a backend:

- the sets it takes: `CONES`, `ALL_SETS`, and their base class `BlockSet`;
- `to_sdpa` for solvers of the SDPA or SeDuMi pair of programs (cone solvers use
  :meth:`sdpfeas.FeasibilityProblem.to_conic`), and `svec_map` between triangles and whole matrices;
- `trivial_claim`, `require_resources`, `silence_stdout` and `Deadline` for running one.

For a family: `Family` and `ParametricFamily`, `data_file` and `read_arrays` for its data.
"""

from __future__ import annotations

import ctypes
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.base import ALL_SETS, CONES
from sdpfeas.claims import Claim
from sdpfeas.deadline import Deadline
from sdpfeas.errors import CardError, FileFormatError, ProblemError
from sdpfeas.families import Family, ParametricFamily
from sdpfeas.npz import UNREADABLE, load, unpack_arrays
from sdpfeas.numerics.limits import EIGEN_FLOPS, WRITE_FLOPS, guard
from sdpfeas.numerics.linalg import FloatArray, svec_map
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.reductions.presolve import presolve
from sdpfeas.problem.reductions.sdpa_forms import (
    EqualityForm,
    LmiForm,
    SdpaData,
    equality_form,
    lmi_form,
    primal_data,
)
from sdpfeas.problem.sets import BlockSet

__all__ = [
    "ALL_SETS",
    "CONES",
    "BlockSet",
    "Deadline",
    "Family",
    "FloatArray",
    "ParametricFamily",
    "Point",
    "SdpaPair",
    "SdpaSide",
    "SdpaSolution",
    "SedumiData",
    "data_file",
    "is_lmi",
    "read_arrays",
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
        A problem without LMIs.

    Returns
    -------
    Claim or None
        A point if no row constrains anything, a Farkas certificate if a row without coefficients contradicts
        its bounds, and None for all other problems.

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
    answer = presolve(problem).answer
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


class SdpaSolution(NamedTuple):
    """A solver's answer to both programs of an SDPA pair.

    Attributes
    ----------
    y : ndarray
        One number per matrix ``F_1, ..., F_m``.
    X : sequence of ndarray
        One matrix, or one vector for a diagonal block, per block.

    Examples
    --------
    >>> import numpy as np
    >>> solution = SdpaSolution(y=np.zeros(1), X=[np.eye(2) / 2])
    >>> solution.y.size, len(solution.X)
    (1, 1)
    """

    y: FloatArray
    X: Sequence[FloatArray]


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
    [array([[1., 2.],
           [3., 4.]]), array([0.])]
    """

    A: sp.csr_array
    b: FloatArray
    c: FloatArray
    nonneg: int
    semidefinite: tuple[int, ...]
    _starts: np.ndarray
    _sizes: np.ndarray

    def blocks(self, x: FloatArray) -> list[FloatArray]:
        """Split ``x`` into the blocks of the SDPA pair, in their order there."""
        out = []
        for start, size in zip(self._starts.tolist(), self._sizes.tolist(), strict=True):
            part = x[start : start + (size * size if size > 0 else -size)]
            out.append(part.reshape(size, size) if size > 0 else part)
        return out


class SdpaPair(ABC):
    """A problem as one program of an SDPA pair; made by :func:`to_sdpa`.

    The pair is that of an SDPA file: block matrices ``X`` with ``<F_i, X> = c_i``, ``X`` positive
    semidefinite; and numbers ``y`` with ``sum_k y_k F_k - F_0`` positive semidefinite. The problem is one of
    the two, and a ray of the other is its Farkas certificate. All objectives are zero. Matrices ``F_k``
    without entries, which some solvers refuse, are left out.

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

    side: ClassVar[Literal["lmi", "equality"]]

    def __init__(self, data: SdpaData) -> None:
        self._count = data.c.size
        self._kept = np.unique(data.matrix[data.matrix > 0]) - 1
        numbers = np.zeros(self._count + 1, dtype=np.int64)
        numbers[self._kept + 1] = np.arange(1, self._kept.size + 1)
        self._data = replace(data, c=data.c[self._kept], matrix=numbers[data.matrix])

    @abstractmethod
    def point(self, solution: SdpaSolution) -> Point:
        """Return the point of the problem that a solution holds."""

    @abstractmethod
    def multipliers(self, solution: SdpaSolution) -> FloatArray:
        """Return the dual multipliers of the problem, which a Farkas certificate is made of."""

    def file(self, comment: str) -> bytes:
        """Return the content of an SDPA file (``.dat-s``)."""
        return self._data.text(comment)

    @property
    def sets(self) -> list[BlockSet]:
        """One PSD or, for a diagonal block, Nonneg set per block of ``X``."""
        return self._data.sets()

    @cached_property
    def sedumi(self) -> SedumiData:
        """The pair as SeDuMi has it."""
        data = self._data
        diagonal = data.sizes < 0
        length = np.where(diagonal, -data.sizes, data.sizes**2)
        order = np.argsort(~diagonal, kind="stable")
        starts = np.empty_like(length)
        starts[order] = np.concatenate([[0], np.cumsum(length[order])[:-1]])
        size = np.where(diagonal, 0, data.sizes)[data.block]
        place = starts[data.block] + data.row * size + np.where(diagonal[data.block], data.row, data.column)
        mirror = starts[data.block] + data.column * size + data.row
        off = ~diagonal[data.block] & (data.row != data.column)
        entries = np.concatenate([data.value, data.value[off]])
        where = np.concatenate([data.matrix, data.matrix[off]]), np.concatenate([place, mirror[off]])
        whole = sp.csr_array((entries, where), shape=(data.c.size + 1, int(length.sum())))
        costs = -whole[[0]].toarray()[0]
        sides = tuple(data.sizes[~diagonal].tolist())
        return SedumiData(whole[1:], data.c, costs, int(length[diagonal].sum()), sides, starts, data.sizes)

    def _with_empty_matrices(self, y: FloatArray) -> FloatArray:
        out = np.zeros(self._count)
        out[self._kept] = y
        return out


class _EqualitySide(SdpaPair):
    """``<F_i, X> = c_i``: the point is X, a certificate -y."""

    side = "equality"

    def __init__(self, form: EqualityForm) -> None:
        super().__init__(primal_data(form.problem))
        self._form = form

    def point(self, solution: SdpaSolution) -> Point:
        return self._form.point(tuple(solution.X))

    def multipliers(self, solution: SdpaSolution) -> FloatArray:
        return self._form.multipliers(self._with_empty_matrices(-solution.y))


class _LmiSide(SdpaPair):
    """``sum_k y_k F_k - F_0``: the point is y, a certificate X."""

    side = "lmi"

    def __init__(self, form: LmiForm) -> None:
        super().__init__(form.data)
        self._form = form

    def point(self, solution: SdpaSolution) -> Point:
        return self._form.point((self._with_empty_matrices(solution.y),))

    def multipliers(self, solution: SdpaSolution) -> FloatArray:
        return self._form.multipliers(np.concatenate([x.reshape(-1) for x in solution.X]))


def to_sdpa(problem: FeasibilityProblem, side: SdpaSide = "auto") -> SdpaPair:
    """Write a problem as one program of an SDPA pair.

    Parameters
    ----------
    problem : FeasibilityProblem
        Made of PSD, Nonneg and Free blocks (a backend whose ``sets`` are `CONES` gets no others).
    side : {"auto", "lmi", "equality"}
        Which program. A problem that is no linear matrix inequality (see :func:`is_lmi`) always becomes
        ``"equality"``: inequalities get slack variables, and Free blocks are split into two parts.

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
    ('equality', [PSD(n=2), Nonneg(n=2)])
    """
    form = None if side == "equality" else _lmi_form(problem)
    return _EqualitySide(equality_form(problem)) if form is None else _LmiSide(form)


def is_lmi(problem: FeasibilityProblem) -> bool:
    """Whether a problem is a linear matrix inequality, so that `to_sdpa` can make it the ``"lmi"`` side.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> is_lmi(sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0]))
    False
    """
    return _lmi_form(problem) is not None


def _lmi_form(problem: FeasibilityProblem) -> LmiForm | None:
    try:
        form = lmi_form(problem)
    except ProblemError:
        return None
    return form if form.data.matrix.any() else None


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
