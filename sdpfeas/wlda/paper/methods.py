"""The rows of the tables: every method as one function from labelled samples to a projection."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning

from sdpfeas.errors import BackendError, OptionError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.search.bisection import bisect
from sdpfeas.wlda.competitors.lmnn import LMNN
from sdpfeas.wlda.competitors.olda import OrthogonalLDA
from sdpfeas.wlda.competitors.zhang_sdp import ZhangSDP
from sdpfeas.wlda.competitors.zhang_socp import ZhangSOCP
from sdpfeas.wlda.data import leading_axes
from sdpfeas.wlda.estimator import WorstCaseLDA
from sdpfeas.wlda.family.wlda import WLDA
from sdpfeas.wlda.paper.sdwlda import GRADIENT, ITERATIONS, PublishedLbfgs

__all__ = ["EPSILON", "METHODS", "TOLERANCE", "Fitted", "Method", "find_method"]

#: The paper's tolerance of the bisection, and the level of its infeasibility screen.
TOLERANCE, EPSILON = 1e-3, 1e-3


@dataclass(frozen=True)
class Fitted:
    """What a method found.

    Attributes
    ----------
    project : callable
        Maps samples to their new features.
    bracket : tuple of float, optional
        Bounds of ``delta*``, where the method gives any.
    proven : bool
        Whether they are proved.
    finished : bool
        Whether the method got as far as it wanted to.
    ratio : float, optional
        Worst-case ratio that the projection attains, where the method knows.
    remark : str
        What else it said.
    """

    project: Callable[[FloatArray], FloatArray]
    bracket: tuple[float, float] | None = None
    proven: bool = False
    finished: bool = True
    ratio: float | None = None
    remark: str = ""


@dataclass(frozen=True)
class Method:
    """A row.

    Attributes
    ----------
    name : str
        Its key.
    title : str
        What it is called in tables.
    fit : callable
        From samples, labels and the final dimension to what was found.
    settings : str
        In words, what could change its answers; part of the key of a cell.
    time_only : bool
        Whether it stands in the tables of times alone, measured on one split.
    """

    name: str
    title: str
    fit: Callable[[FloatArray, np.ndarray, int], Fitted]
    settings: str = ""
    time_only: bool = False


def find_method(name: str) -> Method:
    """The method of a name.

    Parameters
    ----------
    name : str
        One of :data:`METHODS`.

    Raises
    ------
    OptionError
        If there is none.
    """
    if name not in METHODS:
        raise OptionError(f"no method is called {name!r}; known: {', '.join(METHODS)}")
    return METHODS[name]


def _euclidean(_X: FloatArray, _y: np.ndarray, _r: int) -> Fitted:
    return Fitted(lambda samples: samples)


def _pca(X: FloatArray, _y: np.ndarray, r: int) -> Fitted:
    centre, axes = leading_axes(X, r)
    return Fitted(lambda samples: (samples - centre) @ axes)


def _lda(X: FloatArray, y: np.ndarray, r: int) -> Fitted:
    centred = X - X.mean(axis=0)
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    rank = int(np.sum(singular > 1e-10 * singular[0]))
    labels, counts = np.unique(y, return_counts=True)
    if len(X) - labels.size >= rank:
        return Fitted(LinearDiscriminantAnalysis(n_components=r).fit(X, y).transform)
    # scikit-learn would drop the null space of the within-class scatter, where the ratio that LDA maximises
    # is infinite. Measured against the total scatter the leading directions are the same, and finite.
    white = right[:rank].T / singular[:rank]
    means = np.array([centred[y == label].mean(axis=0) for label in labels]) * np.sqrt(counts)[:, None]
    W = white @ np.linalg.svd(means @ white, full_matrices=False)[2][:r].T
    return Fitted(lambda samples: samples @ W, remark="the within-class scatter is singular")


def _olda(X: FloatArray, y: np.ndarray, r: int) -> Fitted:
    return Fitted(OrthogonalLDA(n_components=r).fit(X, y).transform)


def _lmnn(X: FloatArray, y: np.ndarray, r: int) -> Fitted:
    return Fitted(LMNN(n_components=r, random_state=0).fit(X, y).transform)


def _zhang_sdp(X: FloatArray, y: np.ndarray, r: int) -> Fitted:
    found = ZhangSDP(n_components=r).fit(X, y)
    return Fitted(found.transform, ratio=found.ratio_, remark=f"delta = {found.delta_:.6g}")


def _zhang_socp(X: FloatArray, y: np.ndarray, r: int) -> Fitted:
    found = ZhangSOCP(n_components=r).fit(X, y)
    return Fitted(found.transform, ratio=found.ratio_)


def _worst_case(**options: Any) -> Callable[[FloatArray, np.ndarray, int], Fitted]:
    def fit(X: FloatArray, y: np.ndarray, r: int) -> Fitted:
        with warnings.catch_warnings():
            # Both are said in the answer.
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", UserWarning)
            found = WorstCaseLDA(n_components=r, tol=TOLERANCE, **options).fit(X, y)
        return Fitted(
            found.transform,
            found.delta_bounds_,
            proven=found.proven_,
            finished=found.converged_,
            ratio=found.ratio_,
            remark="; ".join([found.reason_, *found.notes_]),
        )

    return fit


def _published() -> Callable[[FloatArray, np.ndarray, int], Fitted]:
    """SD-WLDA; see :mod:`sdpfeas.wlda.paper.sdwlda` for what counts as converged."""
    options = {"form": "lifted", "epsilon": EPSILON, "ftol": 0.0, "gtol": GRADIENT}
    return _bisection(PublishedLbfgs, max_iterations=ITERATIONS, **options)


def _bisection(backend: Any, **options: Any) -> Callable[[FloatArray, np.ndarray, int], Fitted]:
    """The paper's Algorithm 1 on its own formulation: midpoints from zero on, and claims at their word."""

    def fit(X: FloatArray, y: np.ndarray, r: int) -> Fitted:
        family = WLDA.from_data(X, y, r, formulation="paper")
        found = bisect(family, backend, TOLERANCE, lower=0.0, mode="paper", options=options)
        if found.point is None:
            raise BackendError(f"no feasible point was found: {found.reason}")
        W = family.components(found.point)
        return Fitted(
            lambda samples: samples @ W,
            (found.lower, found.upper),
            proven=found.proven,
            finished=found.converged,
            ratio=family.ratio(found.point),
            remark=found.reason,
        )

    return fit


_PAPER = f"bisection on claims, tolerance {TOLERANCE:g}"

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("euclidean", "Euclidean", _euclidean),
        Method("pca", "PCA", _pca),
        Method("lda", "LDA", _lda, "total scatter where the within-class one is singular"),
        Method("lmnn", "LMNN", _lmnn),
        Method("olda", "OLDA", _olda),
        Method("zhang-sdp", "Zhang et al. (SDP)", _zhang_sdp),
        Method("zhang-socp", "Zhang et al. (SOCP)", _zhang_socp),
        Method(
            "sd-wlda",
            "SD-WLDA (paper form)",
            _published(),
            f"{_PAPER}; dual-lbfgs, lifted, epsilon {EPSILON:g}, converged: gradient 1e-6, restarts",
        ),
        Method("wlda", "WLDA (ours)", _worst_case(), f"tolerance {TOLERANCE:g}"),
        Method(
            "wlda-refined",
            "WLDA (ours), refined",
            _worst_case(refine=True),
            f"tolerance {TOLERANCE:g}; refine",
        ),
        Method(
            "wlda-shrunk",
            "WLDA (ours), shrinkage",
            _worst_case(shrinkage="auto"),
            f"tolerance {TOLERANCE:g}; shrinkage auto",
        ),
        Method(
            "primal-clarabel",
            "primal SDP (Clarabel)",
            _bisection("clarabel"),
            f"{_PAPER}; clarabel",
            time_only=True,
        ),
        Method("primal-scs", "primal SDP (SCS)", _bisection("scs"), f"{_PAPER}; scs", time_only=True),
    )
}
