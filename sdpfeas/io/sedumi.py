"""Read and write SeDuMi files (``.mat``, ``.mat.gz``): :func:`read_sedumi`, :func:`write_sedumi`.

The variables ``A`` (or ``At``), ``b``, ``c`` and ``K`` state two problems that are dual to each other, the
two *sides* of the file:

``side="primal"``
    Minimise ``c'x`` over ``A x = b``, ``x`` in the cone ``K``. ``x`` is cut into blocks in SeDuMi's order:
    ``K.f`` free numbers, ``K.l`` non-negative ones, second-order cones ``t >= ||z||`` of each length in
    ``K.q``, rotated ones ``2 u v >= ||z||²`` in ``K.r``, and one positive semidefinite matrix of each side in
    ``K.s``, its columns one after the other. One equality row per entry of ``b``. Rotated cones are
    read as second-order ones, with ``u = t + w`` and ``v = (t - w) / 2`` for the first two entries t and w.
``side="lmi"``
    Maximise ``b'y`` over ``c - A'y`` in the dual cone: one Free block, an LMI per cone, and equality
    rows ``A_f'y = c_f`` for the free numbers.

``A`` may be transposed (decided by its shape, and by its name if it is square), dense or sparse, and of
integers. Matrices need not be symmetric; their symmetric parts count. Numbers that would be rounded by that
are refused: verdicts are about the numbers in the file.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import FileFormatError, ProblemError
from sdpfeas.files import require_within_limit
from sdpfeas.io.matlab import read_matlab, write_matlab
from sdpfeas.io.problem_files import (
    BLOCK_BYTES,
    ENTRY_BYTES,
    ROW_BYTES,
    ConicPair,
    Side,
    require_equalities,
    require_side,
    unrotate,
)
from sdpfeas.numerics.exact_arithmetic import mean_of
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows.base import canonical_csr
from sdpfeas.problem.sets import PSD, BlockSet, Free, Nonneg, SecondOrder

__all__ = ["read_sedumi", "read_sedumi_program", "write_sedumi"]

#: Fields of ``K`` with the sizes of cones, in the order of their columns, and their sets; and the fields that
#: mark complex numbers.
CONES: dict[str, type[BlockSet]] = {"f": Free, "l": Nonneg, "q": SecondOrder, "r": SecondOrder, "s": PSD}
COMPLEX = ("scomplex", "xcomplex", "ycomplex")


def read_sedumi(path: str | PathLike[str], side: Side = "primal") -> FeasibilityProblem:
    """Read one side of a SeDuMi file as a feasibility problem, without its objective.

    Parameters
    ----------
    path : path
        A ``.mat`` file of version 5 to 7; gzip is recognised by the content.
    side : {"primal", "lmi"}
        ``"primal"``: find ``x`` in ``K`` with ``A x = b``. ``"lmi"``: find ``y`` with ``c - A'y`` in the dual
        cone. See :mod:`sdpfeas.io.sedumi` for blocks and rows.

    Raises
    ------
    FileFormatError
        If the file is malformed, has unknown cones, or is larger than the read limit; that is checked
        before memory is allocated (see :mod:`sdpfeas.files`).
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile, numpy as np, sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.Free(1), sf.PSD(2)], [[[1.0]], np.eye(2)[None]], [1.0], [1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sf.write_sedumi(problem, f"{folder}/p.mat")
    ...     dual = sf.read_sedumi(f"{folder}/p.mat", "lmi")
    >>> dual.sets, len(dual.lmis)
    ((Free(n=1),), 1)
    """
    return read_sedumi_program(path, side)[0]


def read_sedumi_program(
    path: str | PathLike[str], side: Side = "primal"
) -> tuple[FeasibilityProblem, Objective]:
    """Read one side of a SeDuMi file with its objective."""
    require_side(side)
    content = read_matlab(path, ("A", "At", "b", "c", "K"))
    try:
        return _pair(content).program(side)
    except (ProblemError, FileFormatError) as error:
        raise FileFormatError(f"{path}: {error}") from None


def write_sedumi(
    problem: FeasibilityProblem, path: str | PathLike[str], objective: Objective | None = None
) -> None:
    """Write a problem as the primal side of a SeDuMi file.

    Parameters
    ----------
    problem : FeasibilityProblem
        Free, Nonneg, SecondOrder and PSD blocks and equality rows only (:func:`sdpfeas.dropin.to_sdpa` adds
        slack variables to others, and returns SeDuMi's arrays). Blocks are written in
        SeDuMi's order, Free and Nonneg ones joined into one each. Names are not kept. Rows stored as products
        are multiplied out, in floating point.
    path : path
        Compressed by gzip if it ends in ``.gz``, else by MATLAB's own compression.
    objective : Objective, optional
        The objective; a maximum is written as the minimum of its negative. The offset is not kept.

    Raises
    ------
    ProblemError
        If the problem does not have that form; the message names the block or row.

    Examples
    --------
    >>> import tempfile, numpy as np, sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sf.write_sedumi(problem, f"{folder}/p.mat.gz")
    ...     print(sf.solve(sf.read_sedumi(f"{folder}/p.mat.gz")).verdict)
    feasible
    """
    names: dict[type[BlockSet], str] = {Free: "f", Nonneg: "l", SecondOrder: "q", PSD: "s"}
    for b, block in enumerate(problem.sets):
        if type(block) not in names:
            raise ProblemError(
                f"block {problem.block_name(b)} is a {block.kind}; a SeDuMi file takes Free, Nonneg, "
                "SecondOrder and PSD blocks (lift() and cones_to_psd replace others)"
            )
    require_equalities(problem, "a SeDuMi file")
    lengths: dict[str, list[int]] = {name: [] for name in CONES}
    order = sorted(range(len(problem.sets)), key=lambda b: list(CONES).index(names[type(problem.sets[b])]))
    for b in order:
        lengths[names[type(problem.sets[b])]].append(problem.sets[b].n)
    parts = [problem.rows[b].explicit() for b in order]
    terms = problem.point([np.zeros(block.shape) for block in problem.sets])
    if objective is not None:
        terms = tuple(-part for part in objective.to_maximise(problem))
    c = np.concatenate([terms[b].reshape(-1) for b in order]) + 0.0
    cones = {name: np.array([sum(n)] if name in "fl" else n, dtype=float) for name, n in lengths.items()}
    matrix = sp.csc_array(sp.hstack(parts, format="csc"))
    write_matlab(path, {"A": matrix, "b": problem.lower, "c": sp.csc_array(c[:, None]), "K": cones})


def _pair(content: dict[str, Any]) -> ConicPair:
    """Validate the variables of a file and return its two problems."""
    for name in ("b", "K"):
        if name not in content:
            raise FileFormatError(f"a SeDuMi file has a variable {name}, this one has none")
    if ("A" in content) == ("At" in content):
        raise FileFormatError("a SeDuMi file has a variable A or At, and not both")
    if not isinstance(content["K"], dict):
        raise FileFormatError("K must be a structure")
    sets, names = _cones(content["K"])
    total = sum(block.entries for block in sets)
    require_within_limit(total, "numbers in a point", each=8)
    b = _vector(content["b"], "b")
    require_within_limit(b.size, "rows", each=ROW_BYTES)
    c = _vector(content["c"], "c") if "c" in content else np.zeros(0)
    if c.size not in (0, total):
        raise FileFormatError(f"c has {c.size:,} entries, the cones in K {total:,}")
    given = ConicPair(_matrix(content, b.size, total), b, c if c.size else np.zeros(total), sets, names)
    parts = [_in_set(name, *part) for name, part in zip(names, given.parts(), strict=True)]
    columns = sp.hstack([part for part, _ in parts], format="csc")
    return replace(given, A=columns, c=np.concatenate([cost.reshape(-1) for _, cost in parts]))


def _in_set(name: str, block: BlockSet, columns: Any, c: FloatArray) -> tuple[Any, FloatArray]:
    """Return the columns of a block and its part of ``c`` in the coordinates of its set."""
    if block.matrix:
        return _symmetric(columns, c, block.n)
    if name.startswith("r"):
        return unrotate(columns), unrotate(sp.csr_array(c[None, :])).toarray()[0]
    return columns, c


def _cones(cones: dict[str, Any]) -> tuple[list[BlockSet], list[str]]:
    """Return the sets of ``x`` and their names, from ``K``."""
    sets: list[BlockSet] = []
    names: list[str] = []
    for name, value in cones.items():
        if name in CONES:
            continue
        if name in COMPLEX and np.size(value):
            raise FileFormatError(f"K.{name}: complex numbers are not read")
        if np.size(value) and np.any(_vector(value, f"K.{name}")):
            raise FileFormatError(
                f"K.{name} is not known here; known are {', '.join(f'K.{n}' for n in CONES)}"
            )
    for name, kind in CONES.items():
        lengths = _vector(cones.get(name, np.zeros(0)), f"K.{name}")
        if np.any((lengths < 0) | (lengths != np.floor(lengths)) | (lengths >= 2**31)):
            raise FileFormatError(f"K.{name} must hold numbers of entries")
        require_within_limit(lengths.size, "blocks", each=BLOCK_BYTES)
        found = [int(n) for n in lengths if n]
        if name in "fl":
            found = [sum(found)] if found else []
        sets += [kind(n) for n in found]
        names += [name] if name in "fl" and found else [f"{name}{k + 1}" for k in range(len(found))]
    if not sets:
        raise FileFormatError("K has no cones")
    return sets, names


def _vector(values: Any, what: str) -> FloatArray:
    """Convert a dense or sparse vector to finite doubles."""
    if sp.issparse(values):
        if 1 not in values.shape and 0 not in values.shape:
            raise FileFormatError(f"{what} must be a vector, got shape {values.shape}")
        require_within_limit(max(values.shape), f"entries of {what}", each=8)
        values = values.toarray()
    if not isinstance(values, np.ndarray) or max(values.shape, default=0) != values.size:
        raise FileFormatError(f"{what} must be a vector of numbers")
    return np.asarray(canonical_csr(values.reshape(1, -1), what).toarray()[0])


def _matrix(content: dict[str, Any], m: int, total: int) -> Any:
    """Return ``A`` with one row per equation, as a sparse array of doubles."""
    name = "A" if "A" in content else "At"
    array = content[name]
    if not (sp.issparse(array) or isinstance(array, np.ndarray)) or array.ndim != 2:
        raise FileFormatError(f"{name} must be a matrix")
    count = array.nnz if sp.issparse(array) else int(np.count_nonzero(array))
    require_within_limit(count, "entries", each=ENTRY_BYTES)
    shapes = [(m, total), (total, m)]
    if array.shape not in shapes:
        raise FileFormatError(
            f"{name} has shape {array.shape}; b has {m:,} entries and the cones in K have {total:,}"
        )
    turned = array.shape != (m, total) or (m == total and name == "At")
    return canonical_csr(sp.coo_array(array.T if turned else array), name).tocsc()


def _symmetric(columns: Any, c: FloatArray, n: int) -> tuple[Any, FloatArray]:
    """Return the symmetric parts of rows and of an objective; raise an error if they would be rounded."""
    coo = columns.tocoo()
    i, j = np.divmod(coo.col.astype(np.int64), n)
    mirror = sp.csr_array((coo.data, (coo.row, j * n + i)), shape=columns.shape)
    mean, off = mean_of(columns, mirror)
    both, lost = mean_of(c, c.T)
    if np.any(off.data) or np.any(lost):
        raise FileFormatError(
            "a matrix is not symmetric, and the mean of two mirrored entries would be rounded"
        )
    return mean, both
