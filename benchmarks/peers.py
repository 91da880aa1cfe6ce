"""The one-shot WLDA program as a user of cvxpy would write it, solved by Clarabel or SCS.

``max t`` subject to ``<S_ij, Z> >= t``, ``<S_k, Z> <= 1``, ``0 <= Z <= tau·I`` and ``tr Z = r·tau``. Rows are
stacked into two matrices, which is what cvxpy compiles fastest, and all of them are divided by one number so
that tau is near one, which is what the solvers like.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np

__all__ = ["CvxpyRun", "class_statistics", "one_shot_model", "run_cvxpy"]


@dataclass(frozen=True)
class CvxpyRun:
    """The result of a program.

    Attributes
    ----------
    value : float, optional
        The optimal value as the solver has it; None if it has none.
    status : str
        Its status word.
    build, compile, solve : float
        Seconds for the statistics and the model, for cvxpy's compile, and for the rest.
    """

    value: float | None
    status: str
    build: float
    compile: float
    solve: float


def class_statistics(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance (divided by the samples of the class) of every class.

    Parameters
    ----------
    X, y : ndarray
        Samples and labels.
    """
    groups = [X[y == label] for label in np.unique(y)]
    return (
        np.array([group.mean(axis=0) for group in groups]),
        np.array([np.cov(group, rowvar=False, bias=True) for group in groups]),
    )


def one_shot_model(means: np.ndarray, scatters: np.ndarray) -> Any:
    """The program as a ``cvxpy.Problem``; its optimal value is ``delta*`` for ``r = c - 1``.

    Parameters
    ----------
    means : ndarray
        Shape (classes, features).
    scatters : ndarray
        Shape (classes, features, features).
    """
    c, d = means.shape
    r = c - 1
    unit = r * float(np.mean(np.trace(scatters, axis1=1, axis2=2))) / d
    first, second = np.triu_indices(c, 1)
    apart = means[first] - means[second]
    between = (apart[:, :, None] * apart[:, None, :]).reshape(-1, d * d) / unit
    within = scatters.reshape(c, d * d) / unit
    Z, t, tau = cp.Variable((d, d), PSD=True), cp.Variable(), cp.Variable()
    z = cp.vec(Z, order="C")
    rows = [between @ z >= t, within @ z <= 1.0, tau * np.eye(d) - Z >> 0, cp.trace(Z) == r * tau]
    return cp.Problem(cp.Maximize(t), rows)


def run_cvxpy(X: np.ndarray, y: np.ndarray, solver: str, **options: Any) -> CvxpyRun:
    """Build the program and have it solved.

    Parameters
    ----------
    X, y : ndarray
        Samples and labels.
    solver : str
        cvxpy's name of the solver.
    **options
        Options of the solver.
    """
    begin = time.perf_counter()
    problem = one_shot_model(*class_statistics(X, y))
    built = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status says it
        problem.solve(solver=solver, **options)
    spent = time.perf_counter() - built
    value = None if problem.value is None or not np.isfinite(problem.value) else float(problem.value)
    compiled = float(problem.compilation_time)
    return CvxpyRun(value, str(problem.status), built - begin, compiled, spent - compiled)
