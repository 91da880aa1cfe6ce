"""The rows of the tables: every method as a function from labelled samples to a projection.

``METHODS`` lists them. SD-WLDA, the method of the paper, is :class:`PublishedLbfgs` under a bisection that
trusts the backend's claims (Algorithm 1 of the paper); WLDA is our estimator, whose bracket of ``delta*`` is
proved.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning

import sdpfeas as sf
from benchmarks.paper.competitors import LMNN, OrthogonalLDA, ZhangSDP, ZhangSOCP
from sdpfeas.backends.dual.dual_lbfgs import DualLbfgs

# Internals: the L-BFGS-B backend, from which SD-WLDA is derived; and the PCA of the problem cards.
from sdpfeas.claims import claimed_verdict
from sdpfeas.datasets import leading_axes
from sdpfeas.estimators import WorstCaseLDA

__all__ = [
    "EPSILON",
    "METHODS",
    "TOLERANCE",
    "Fitted",
    "Method",
    "PublishedLbfgs",
    "find_method",
    "gradient_verdict",
]

#: The paper's relative tolerance of the bisection, and the level of its infeasibility test.
TOLERANCE, EPSILON = 1e-3, 1e-3


@dataclass(frozen=True)
class Fitted:
    """The result of a method.

    Attributes
    ----------
    project : callable
        Maps samples to their new features.
    bracket : tuple of float, optional
        Bounds of ``delta*``, if the method gives any.
    proven : bool
        Whether the bounds are proved.
    finished : bool
        Whether the method converged.
    ratio : float, optional
        Worst-case ratio of the projection, if the method computes it.
    remark : str
        Message of the method.
    """

    project: Callable[[np.ndarray], np.ndarray]
    bracket: tuple[float, float] | None = None
    proven: bool = False
    finished: bool = True
    ratio: float | None = None
    remark: str = ""


#: A method maps samples, labels and the final dimension to a result.
Fit = Callable[[np.ndarray, np.ndarray, int], Fitted]


@dataclass(frozen=True)
class Method:
    """A row of the tables.

    Attributes
    ----------
    name : str
        Key on the command line and in published.toml.
    title : str
        Name in tables.
    fit : callable
        Maps samples, labels and the final dimension to a result.
    settings : str
        Description of everything that can change the result; part of the key of a cell.
    time_only : bool
        Whether only times are shown, measured on one split.
    """

    name: str
    title: str
    fit: Fit
    settings: str = ""
    time_only: bool = False


def find_method(name: str) -> Method:
    """Look up a method by its key; raises OptionError if there is none."""
    if name not in METHODS:
        raise sf.OptionError(f"no method is called {name!r}; known: {', '.join(METHODS)}")
    return METHODS[name]


def _euclidean(_X: np.ndarray, _y: np.ndarray, _r: int) -> Fitted:
    return Fitted(lambda samples: samples)


def _pca(X: np.ndarray, _y: np.ndarray, r: int) -> Fitted:
    centre, axes = leading_axes(X, r)
    return Fitted(lambda samples: (samples - centre) @ axes)


def _lda(X: np.ndarray, y: np.ndarray, r: int) -> Fitted:
    centred = X - X.mean(axis=0)
    _, singular, right = np.linalg.svd(centred, full_matrices=False)
    rank = int(np.sum(singular > 1e-10 * singular[0]))
    labels, counts = np.unique(y, return_counts=True)
    if len(X) - labels.size >= rank:
        return Fitted(LinearDiscriminantAnalysis(n_components=r).fit(X, y).transform)
    # scikit-learn drops the null space of the within-class scatter, where the ratio that LDA maximises is
    # infinite. Relative to the total scatter the leading directions are the same and the ratio is finite.
    white = right[:rank].T / singular[:rank]
    means = np.array([centred[y == label].mean(axis=0) for label in labels]) * np.sqrt(counts)[:, None]
    W = white @ np.linalg.svd(means @ white, full_matrices=False)[2][:r].T
    return Fitted(lambda samples: samples @ W, remark="the within-class scatter is singular")


def _olda(X: np.ndarray, y: np.ndarray, r: int) -> Fitted:
    return Fitted(OrthogonalLDA(n_components=r).fit(X, y).transform)


def _lmnn(X: np.ndarray, y: np.ndarray, r: int) -> Fitted:
    return Fitted(LMNN(n_components=r, random_state=0).fit(X, y).transform)


def _zhang_sdp(X: np.ndarray, y: np.ndarray, r: int) -> Fitted:
    found = ZhangSDP(n_components=r).fit(X, y)
    return Fitted(found.transform, ratio=found.ratio_, remark=f"delta = {found.delta_:.6g}")


def _zhang_socp(X: np.ndarray, y: np.ndarray, r: int) -> Fitted:
    found = ZhangSOCP(n_components=r).fit(X, y)
    return Fitted(found.transform, ratio=found.ratio_)


def _worst_case(**options: Any) -> Fit:
    def fit(X: np.ndarray, y: np.ndarray, r: int) -> Fitted:
        with warnings.catch_warnings():
            # The result carries both messages.
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


def _bisection(backend: Any, **options: Any) -> Fit:
    """Algorithm 1 of the paper on its own formulation: bisection from zero, trusting the backend's claims."""

    def fit(X: np.ndarray, y: np.ndarray, r: int) -> Fitted:
        family = sf.families.WLDA.from_data(X, y, r, formulation="paper")
        found = sf.bisect(family, backend, TOLERANCE, lower=0.0, mode="paper", options=options)
        if found.point is None:
            raise sf.BackendError(f"no feasible point was found: {found.reason}")
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


# ---------------------------------------------------------------- SD-WLDA

#: Tolerance of the projected gradient, a tenth of L-BFGS-B's default: with the default two of 30 splits of
#: Sonar end 0.3 and 0.6 % too high.
GRADIENT = 1e-6

#: A dual that has not converged after this many iterations is taken for unbounded.
ITERATIONS = 5000

#: L-BFGS-B's message when the gradient is small; separators differ between versions of scipy.
SMALL_GRADIENT = re.compile(r"NORM.OF.PROJECTED.GRADIENT")

#: Stop reasons that mean that the dual did not converge.
DIVERGED = (sf.Stop.FINISHED, sf.Stop.STALLED, sf.Stop.ITERATION_LIMIT)


class PublishedLbfgs(DualLbfgs):
    """Algorithm 2 of the paper, with a stricter definition of "L-BFGS-B has converged".

    Algorithm 2 calls a problem feasible if L-BFGS-B converges on the lifted dual before the infeasibility
    test fires. L-BFGS-B has two stopping criteria. A small projected gradient means that the constraints hold
    at ``X(y)``, since the gradient is their residual. A small change of the dual function says nothing about
    the constraints, and it holds first: with both at their defaults, values of ``delta`` up to some per cent
    too high are called feasible. Here only the gradient counts, and a run that stalls is restarted from its
    last point. A dual that does not converge is taken for unbounded, the problem for infeasible.
    """

    name = "published-lbfgs"

    def solve(self, problem: sf.FeasibilityProblem, inquiry: sf.Inquiry) -> sf.Claim:
        """Solve, and claim the verdict that :func:`gradient_verdict` derives from the stop reason."""
        claim = super().solve(problem, inquiry)
        verdict = gradient_verdict(claim)
        claimed = sf.Verdict.UNDECIDED if verdict is None else verdict
        return replace(claim, info={**claim.info, "claimed": claimed.value})


def gradient_verdict(claim: sf.Claim) -> sf.Verdict | None:
    """The verdict that a run of the lifted dual amounts to; None if it was cut short."""
    if claimed_verdict(claim) is sf.Verdict.INFEASIBLE:
        return sf.Verdict.INFEASIBLE
    if claim.stop is sf.Stop.FINISHED and SMALL_GRADIENT.search(claim.raw_status):
        return sf.Verdict.FEASIBLE
    return sf.Verdict.INFEASIBLE if claim.stop in DIVERGED else None


# ---------------------------------------------------------------- all methods

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
            _bisection(
                PublishedLbfgs,
                form="lifted",
                epsilon=EPSILON,
                ftol=0.0,
                gtol=GRADIENT,
                max_iterations=ITERATIONS,
            ),
            f"{_PAPER}; dual-lbfgs, lifted, epsilon {EPSILON:g}, converged: gradient 1e-6, restarts",
        ),
        Method("wlda", "WLDA (ours)", _worst_case(refine=False), f"tolerance {TOLERANCE:g}"),
        Method(
            "wlda-refined",
            "WLDA (ours), refined",
            _worst_case(refine=True),
            f"tolerance {TOLERANCE:g}; refine",
        ),
        Method(
            "wlda-shrunk",
            "WLDA (ours), shrinkage",
            _worst_case(shrinkage="auto", refine=False),
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
