"""Repairs of multipliers: small changes that may turn them into a certificate, to be checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, lsmr

from sdpfeas.numerics.effort import need
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, sign_violation
from sdpfeas.problem.rows import Rows
from sdpfeas.problem.rows.columns import vector_columns
from sdpfeas.problem.sets import BlockSet
from sdpfeas.verifier.free_columns import FreeColumns
from sdpfeas.verifier.tolerances import Tolerances

__all__ = ["repaired_certificates"]


def repaired_certificates(
    problem: FeasibilityProblem, y: FloatArray, tolerances: Tolerances
) -> Iterator[tuple[FloatArray, tuple[str, ...]]]:
    """Certificates near the given one that are more likely to hold, with what was done.

    Parameters
    ----------
    problem : FeasibilityProblem
        The problem.
    y : ndarray
        Multipliers that could not be proved as they are.
    tolerances : Tolerances
        Only ``sign`` is used.
    """
    if not np.isfinite(y).all() or not y.any():
        return
    done: tuple[str, ...] = ()
    y = y / float(np.max(np.abs(y)))
    wrong = sign_violation(problem, y)
    if wrong.any():
        weights = np.abs(y) * problem.norms
        share = wrong * problem.norms > tolerances.sign * np.max(weights)
        if np.any(share):
            return
        y = np.where(wrong > 0.0, 0.0, y)
        done += ("set multipliers of the wrong sign to zero",)
    free = FreeColumns(problem, y)
    if not free.exact:
        y = free.correct()
        if not np.isfinite(y).all() or sign_violation(problem, y).any():
            return
        done += ("made A*y vanish on the free blocks",)
    trimmed = _trim_nonneg(problem, y)
    if trimmed is not None:
        y = trimmed
        done += ("reduced multipliers that make A*y positive on a non-negative block",)
    if not float(np.sum(problem.beta_terms(y))) > _box_supports(problem, y):
        return  # no small change can make up for that
    if done:
        yield y, done
    direction = _definite_direction(problem)
    if direction is None:
        return
    for push in (1.0, 1e2, 1e4):
        shifted = _shift(problem, y, direction, push)
        if shifted is not None:
            yield shifted, (*done, "shifted the multipliers along a definite combination of rows")


def _box_supports(problem: FeasibilityProblem, y: FloatArray) -> float:
    return sum(
        block.support(rows.adjoint(y))
        for block, rows in zip(problem.sets, problem.rows, strict=True)
        if block.bounded and rows is not None
    )


def _trim_nonneg(problem: FeasibilityProblem, y: FloatArray) -> FloatArray | None:
    """Shrink the multipliers behind positive entries of ``A*y`` on Nonneg blocks until these vanish."""
    changed = False
    for block, rows in zip(problem.sets, problem.rows, strict=True):
        if not (block.entrywise and block.cone) or rows is None:
            continue
        near = np.flatnonzero(rows.adjoint(y) > -1e-13 * (np.abs(y) @ np.asarray(rows.norms())))
        if near.size == 0:
            continue
        columns = sp.csc_array(vector_columns(rows))
        for j in near:
            start, stop = columns.indptr[j], columns.indptr[j + 1]
            index = columns.indices[start:stop]
            terms = columns.data[start:stop] * y[index]
            pushing = terms > 0.0
            positive, negative = float(terms[pushing].sum()), -float(terms[~pushing].sum())
            if not positive > 0.0:
                continue
            # A few units of rounding below balance, so that the proof has room.
            target = negative * (1.0 - 1e-13 * (index.size + 4))
            if target < positive:
                y = np.array(y)
                y[index[pushing]] *= target / positive
                changed = True
    return y if changed else None


def _definite_direction(problem: FeasibilityProblem) -> FloatArray | None:
    """Return ``w`` with ``A*w`` definite on PSD blocks, positive on Nonneg, zero on Free; or None.

    ``y - s·w`` may be formed for any ``s > 0``: where a row has no lower bound w is not negative, where it
    has no upper bound not positive. Such a w is a bound on the trace that the rows imply.
    """
    parts = [
        (block, rows)
        for block, rows in zip(problem.sets, problem.rows, strict=True)
        if rows is not None and not block.bounded
    ]
    if all(block.entrywise for block, _ in parts):
        return None
    below, above = np.isfinite(problem.lower), np.isfinite(problem.upper)
    usable = (below | above) & (problem.norms > 0.0) & np.isfinite(problem.norms)
    target = np.concatenate([block.interior_point().ravel() for block, _ in parts])
    splits = np.cumsum([block.entries for block, _ in parts])[:-1]
    for _ in range(4):
        if not usable.any():
            return None
        scale = np.where(usable, 1.0 / np.where(usable, problem.norms, 1.0), 0.0)

        def adjoint(w: FloatArray, scale: FloatArray = scale) -> FloatArray:
            need("a definite combination of the rows", *problem.work)
            return np.concatenate([rows.adjoint(scale * w.ravel()).ravel() for _, rows in parts])

        def apply(x: FloatArray, scale: FloatArray = scale) -> FloatArray:
            pieces = np.split(np.asarray(x).ravel(), splits)
            total = sum(
                rows.apply(p.reshape(block.shape)) for (block, rows), p in zip(parts, pieces, strict=True)
            )
            return scale * np.asarray(total)

        operator = LinearOperator((target.size, problem.m), matvec=adjoint, rmatvec=apply, dtype=np.float64)
        w = scale * lsmr(operator, target, atol=1e-13, btol=1e-13, maxiter=200)[0]
        if not np.isfinite(w).all():
            return None
        wrong = (~below & (w < 0.0)) | (~above & (w > 0.0))
        if not wrong.any():
            return w if _is_definite(parts, w) else None
        # Leave out the rows whose sign does not fit and try again without them.
        usable &= ~wrong
    return None


def _is_definite(parts: list[tuple[BlockSet, Rows]], w: FloatArray) -> bool:
    for block, rows in parts:
        g = rows.adjoint(w)
        least = 0.0 if block.entrywise else 1e-8 * np.max(np.abs(g))
        if block.cone and not block.depth(g) > least:
            return False
        if block.free and np.any(np.abs(g) > 1e-10 * (np.abs(w) @ rows.norms())):
            return False
    return True


def _shift(problem: FeasibilityProblem, y: FloatArray, w: FloatArray, push: float) -> FloatArray | None:
    """Return ``y - s·w`` with the least ``s`` that makes ``A*y`` negative by more than rounding."""
    step = 0.0
    for b, (block, rows) in enumerate(zip(problem.sets, problem.rows, strict=True)):
        if rows is None or not block.cone:
            continue
        top = float(np.max(block.spectrum(rows.adjoint(y))))
        bottom = float(np.min(block.spectrum(rows.adjoint(w))))
        rounding = 1e-13 * block.n * float(np.abs(y) @ problem.block_norms[b])
        if top > -rounding:
            step = max(step, (top + push * rounding) / bottom)
    shifted = y - step * w
    if sign_violation(problem, shifted).any():
        return None
    return shifted if float(np.sum(problem.beta_terms(shifted))) > _box_supports(problem, shifted) else None
