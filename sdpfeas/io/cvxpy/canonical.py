"""The canonical form of a cvxpy problem, ``b - A x`` in cones, every row and column accounted for."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray

__all__ = ["CanonicalForm", "canonical_form"]

#: Steps on the way to the canonical form that keep what a problem says.
_STEPS = {
    "EvalParams",
    "Complex2Real",
    "Dcp2Cone",
    "CvxAttr2Constr",
    "ExactCone2Cone",
    "EliminateZeroSized",
} | {"ConeMatrixStuffing", "Reader"}
#: Coefficients are scaled by powers of two; above this none is rounded by it.
_SMALLEST = 2.0**-1000
#: Cones that become blocks and rows.
_CONES = ("Zero", "NonNeg", "SOC", "SvecPSD")


@dataclass(frozen=True)
class CanonicalForm:
    """``b - matrix @ x`` in a product of cones, ``x`` free.

    Attributes
    ----------
    matrix, b
        The data; ``matrix`` holds every entry once, in order, and no zeros.
    zero, nonneg : ndarray
        The rows that are zero, and those that are not negative.
    second_order, semidefinite : list of ndarray
        For every cone its rows: the bound first, then what it bounds the length of; the lower triangle column
        by column.
    """

    matrix: Any
    b: FloatArray
    zero: np.ndarray
    nonneg: np.ndarray
    second_order: list[np.ndarray]
    semidefinite: list[np.ndarray]
    _chain: Any
    _inverse: Any

    def invert(self, x: FloatArray) -> dict[int, Any]:
        """The values of cvxpy's variables, by their number, where the variables of the form are ``x``."""
        from cvxpy.reductions.solution import Solution

        stuffed = self._inverse[-1][self._chain.solver.VAR_ID]
        found = Solution("optimal", 0.0, {stuffed: x}, {}, {})
        steps = list(zip(self._chain.reductions, self._inverse, strict=True))
        for reduction, inverse in reversed(steps[:-1]):
            found.primal_vars = _Found(found.primal_vars)
            found = reduction.invert(found, inverse)
        return dict(found.primal_vars)


class _Found(dict[int, Any]):
    """Values of variables. The real or the imaginary part of one may be in no row: it is zero."""

    def __missing__(self, variable: int) -> float:
        return 0.0


def canonical_form(problem: Any) -> CanonicalForm:
    """Compile a problem.

    Parameters
    ----------
    problem : cvxpy.Problem
        A problem that is accepted.
    """
    from cvxpy.error import DCPError, DPPError, ParameterError, SolverError

    try:
        with warnings.catch_warnings(), _without_values(problem.variables()):
            warnings.simplefilter("ignore")  # about how fast cvxpy compiles
            data, chain, inverse = problem.get_problem_data(_reader(), ignore_dpp=True)
    except SolverError:
        raise ProblemError("cvxpy finds no linear, second-order and semidefinite form of this") from None
    # What cvxpy does not know of complex numbers runs into its assertions.
    except (DCPError, DPPError, ParameterError, ValueError, AssertionError, NotImplementedError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ProblemError(f"cvxpy cannot bring this into semidefinite form: {reason}") from None
    unknown = sorted({type(step).__name__ for step in chain.reductions} - _STEPS)
    if unknown:
        raise ProblemError(
            f"this version of cvxpy takes steps that are not known to be exact: {', '.join(unknown)}"
        )
    return _counted(data, chain, inverse)


@contextmanager
def _without_values(variables: list[Any]) -> Iterator[None]:
    """Take values away for a while: cvxpy computes with them as it compiles, and may fail."""
    values = [(variable, variable._value) for variable in variables]
    try:
        for variable in variables:
            variable._value = None
        yield
    finally:
        for variable, value in values:
            variable._value = value


def _counted(data: Any, chain: Any, inverse: Any) -> CanonicalForm:
    """The form, with the cone of every row; refused if a row or a column is left over."""
    if any(data.get(bound) is not None for bound in ("lower_bounds", "upper_bounds")):
        raise ProblemError("this version of cvxpy keeps the bounds of variables apart; state them as rows")
    program = data["param_prob"]
    matrix = sp.csr_array(data["A"])
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    rows: dict[str, list[np.ndarray]] = {kind: [] for kind in _CONES}
    start = 0
    for constraint in program.constraints:
        kind = type(constraint).__name__
        if kind not in rows:
            raise ProblemError(f"cvxpy's canonical form holds a cone that no problem of ours does: {kind}")
        sizes = [constraint.size] if kind in ("Zero", "NonNeg") else constraint.cone_sizes()
        for size in sizes:
            length = size * (size + 1) // 2 if kind == "SvecPSD" else size
            rows[kind].append(np.arange(start, start + length))
            start += length
    columns = sum(variable.size for variable in program.variables)
    if matrix.shape != (start, columns) or np.shape(data["b"]) != (start,) or program.x.size != columns:
        raise ProblemError(
            f"cvxpy's canonical form has shape {matrix.shape}, but its cones and variables account for "
            f"{(start, columns)}; please report this"
        )
    if matrix.nnz and np.min(np.abs(matrix.data)) < _SMALLEST:
        raise ProblemError(f"a coefficient is below {_SMALLEST:.0e}: halves of it may be rounded")
    if program.is_mixed_integer():
        raise ProblemError("integer and boolean variables make no semidefinite problem")
    none = [np.zeros(0, dtype=int)]
    return CanonicalForm(
        matrix,
        np.asarray(data["b"], dtype=float),
        np.concatenate(rows["Zero"] or none),
        np.concatenate(rows["NonNeg"] or none),
        rows["SOC"],
        rows["SvecPSD"],
        chain,
        inverse,
    )


def _reader() -> Any:
    """A "solver" for cvxpy to compile for: it takes what a problem of ours can hold, and solves nothing."""
    from cvxpy.constraints import SOC, NonNeg, SvecPSD, Zero
    from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver
    from cvxpy.utilities.psd_utils import TriangleKind

    class Reader(ConicSolver):  # type: ignore[misc]
        """Nothing but what it takes."""

        SUPPORTED_CONSTRAINTS = (Zero, NonNeg, SOC, SvecPSD)
        PSD_TRIANGLE_KIND = TriangleKind.LOWER
        # Scaled by sqrt(2), entries off the diagonal would be rounded.
        PSD_SQRT2_SCALING = False

        def name(self) -> str:
            return "SDPFEAS"

        def import_solver(self) -> None:
            pass

        def cite(self, data: Any) -> str:
            return ""

        def solve_via_data(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

        def invert(self, solution: Any, inverse_data: Any) -> Any:
            raise NotImplementedError

    return Reader()
