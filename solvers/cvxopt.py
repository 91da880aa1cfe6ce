"""CVXOPT's cone solver as a backend in one file, for the form ``A x + s = b``, ``s`` in a product of cones.

No warm start, no callback. CVXOPT returns rays for infeasible problems, which are Farkas certificates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas import Claim, FeasibilityBackend, FeasibilityProblem, Inquiry, Stop
from sdpfeas.dropin import ALL_SETS, Count, Share, require_resources

#: Iterations that a solve takes, for the guess of its time.
USUAL_ITERATIONS = 20


@dataclass(frozen=True)
class CvxoptOptions:
    """Options of the backend.

    Attributes
    ----------
    tolerance : float
        Accuracy asked of CVXOPT.
    max_iterations : int
        Its iterations.
    """

    tolerance: Share = 1e-9
    max_iterations: Count = 100


class Cvxopt(FeasibilityBackend):
    """CVXOPT's primal-dual interior-point method for cone programs."""

    name = "cvxopt"
    sets = ALL_SETS
    lmis = True
    presolves = True
    requires = ("cvxopt",)
    distribution = "cvxopt"
    Options = CvxoptOptions

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        import cvxopt

        # The normal equations are stored densely: refuse problems that do not fit before the conversion.
        unknowns = float(sum(block.dimension for block in problem.sets))
        require_resources("CVXOPT", products=USUAL_ITERATIONS * unknowns**3 / 3.0, memory=16.0 * unknowns**2)
        form = problem.to_conic()
        m, n = form.matrix.shape
        # Every iteration scales all columns, forms their Gram matrix, and factorises it.
        whole_rows = form.nonneg + sum(form.second_order) + sum(side * side for side in form.semidefinite)
        scaled = 2.0 * n * sum(side**3 for side in form.semidefinite)
        step = scaled + n * n * whole_rows / 2.0 + n**3 / 3.0
        memory = 16.0 * (n * n + whole_rows * n + m * n)
        require_resources("CVXOPT", products=USUAL_ITERATIONS * step, memory=memory)
        # CVXOPT takes full matrices in column-major order, not triangles.
        whole = form.whole(form.rows)[form.zero :, form.zero :]
        matrix, rhs = form.matrix[form.zero :], form.rhs[form.zero :]
        # CVXOPT fails on linearly dependent equations: keep a basis of their span.
        equations, right, back = _independent(form.matrix[: form.zero].toarray(), form.rhs[: form.zero])
        options = {"show_progress": False, "maxiters": self.options.max_iterations}
        options |= dict.fromkeys(("abstol", "reltol", "feastol"), self.options.tolerance)
        try:
            found: Any = cvxopt.solvers.conelp(
                cvxopt.matrix(0.0, (n, 1)),
                _sparse(cvxopt, whole @ matrix),
                cvxopt.matrix(np.asarray(whole @ rhs)),
                {"l": form.nonneg, "q": list(form.second_order), "s": list(form.semidefinite)},
                cvxopt.matrix(equations),
                cvxopt.matrix(right),
                options=options,
            )
        except (ValueError, ArithmeticError) as error:
            return Claim(stop=Stop.NUMERICAL, raw_status=f"{type(error).__name__}: {error}")
        status, stop = found["status"], Stop.FINISHED if found["status"] != "unknown" else Stop.STALLED
        point = y = None
        if found["x"] is not None:
            point = form.point(np.ravel(found["x"]))
        if found["z"] is not None and status != "optimal":
            z = np.concatenate(
                [back @ np.ravel(found["y"]), whole.T @ _symmetric(form, np.ravel(found["z"]))]
            )
            y = form.multipliers(z)
        return Claim(point, y, status, stop, found["iterations"])


def _independent(matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A basis of the equations, and the map back for their multipliers."""
    if not matrix.size:
        return np.zeros((0, matrix.shape[1])), np.zeros(0), np.zeros((matrix.shape[0], 0))
    left, values, _ = np.linalg.svd(matrix, full_matrices=False)
    kept = left[:, values > 1e-12 * max(values[0], 1e-300)]
    return kept.T @ matrix, kept.T @ right, kept


def _symmetric(form: Any, z: np.ndarray) -> np.ndarray:
    """Full matrices from lower triangles: CVXOPT leaves the upper triangles undefined."""
    out, start = np.array(z), form.nonneg + sum(form.second_order)
    for side in form.semidefinite:
        block = out[start : start + side * side].reshape(side, side, order="F")
        block = np.tril(block) + np.tril(block, -1).T
        out[start : start + side * side] = np.ravel(block)
        start += side * side
    return out


def _sparse(cvxopt: Any, matrix: Any) -> Any:
    coo = sp.coo_array(matrix)
    return cvxopt.spmatrix(coo.data, coo.row.astype(int), coo.col.astype(int), coo.shape)
