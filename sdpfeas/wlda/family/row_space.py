"""The row space of a stack of vectors, and the sizes of its columns, without copies of what may be large."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from sdpfeas.numerics.linalg import FloatArray

__all__ = ["RANK_TOLERANCE", "column_sizes", "row_space"]

#: Singular values below this, relative to the largest and with every feature scaled to size one, count as
#: zero. Far above rounding, far below anything measured.
RANK_TOLERANCE = 1e-10

#: A Cholesky factor tells at once that all singular values are above this share of the largest possible one;
#: the square root of rounding is what it can tell.
PLAINLY_FULL = 1e-5

#: Samples that are scaled at a time.
STRIP = 1024


def row_space(stack: FloatArray, size: FloatArray) -> tuple[FloatArray, int]:
    """Orthonormal basis of the row space of a stack of vectors, judged with coordinates scaled by ``size``.

    Parameters
    ----------
    stack : ndarray
        Vectors, one a row.
    size : ndarray
        Positive size of every coordinate.

    Returns
    -------
    basis : ndarray
        Shape (coordinates, rank).
    rank : int
        Its number of columns.
    """
    if _plainly_full(stack, size):
        return np.eye(stack.shape[1]), stack.shape[1]
    scaled = stack / size
    _, singular, right = scipy.linalg.svd(scaled, full_matrices=False, lapack_driver="gesdd")
    # Scaled like this a stack whose every entry is rounding must not pass for data.
    rank = int(np.sum(singular > RANK_TOLERANCE * max(float(singular[0]), 1.0))) if singular.size else 0
    if rank == 0:
        return np.zeros((stack.shape[1], 0)), 0
    # The row space of (stack / size)·diag(size) is spanned by the scaled right vectors.
    q, _ = scipy.linalg.qr(size[:, None] * right[:rank].T, mode="economic")
    return np.asarray(q), rank


def _plainly_full(stack: FloatArray, size: FloatArray) -> bool:
    """Whether columns, scaled to norm one at most, are so far from dependent that no rank is in doubt."""
    if stack.shape[0] < stack.shape[1]:
        return False
    gram = np.zeros((stack.shape[1], stack.shape[1]))
    for start in range(0, stack.shape[0], STRIP):
        part = stack[start : start + STRIP] / size
        gram += part.T @ part
    gram[np.diag_indices_from(gram)] -= PLAINLY_FULL**2 * stack.shape[1]
    return bool(scipy.linalg.lapack.dpotrf(gram.T, lower=1, overwrite_a=1)[1] == 0)


def column_sizes(*stacks: FloatArray) -> FloatArray:
    """Norms of the columns of stacks of vectors, one below the other; one where a norm is zero."""
    width = stacks[0].shape[1]
    ends = [
        part
        for stack in stacks
        for part in (np.max(stack, axis=0, initial=0.0), -np.min(stack, axis=0, initial=0.0))
    ]
    largest = np.max(ends, axis=0)
    largest = np.where(largest > 0.0, largest, 1.0)
    squares = np.zeros(width)  # of what was scaled, so that they neither under- nor overflow
    for stack in stacks:
        for start in range(0, stack.shape[0], STRIP):
            squares += np.sum((stack[start : start + STRIP] / largest) ** 2, axis=0)
    size = largest * np.sqrt(squares)
    return np.where(size > 0.0, size, 1.0)
