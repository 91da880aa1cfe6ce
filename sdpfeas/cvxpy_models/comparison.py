"""Compare a cvxpy model with its canonical form at random points, and with the point of a FEASIBLE verdict.

The canonical form of a constraint has auxiliary columns ``u``, such as epigraph variables of norms. With the
user's variables fixed at a point ``x``, the smallest slacks ``s`` for which ``h - G u + s >= 0`` and the rows
of ``u`` hold are left-hand side minus right-hand side of the constraint at ``x``. A constraint without
auxiliary columns is affine and compared entry by entry; any other takes one small conic program (Clarabel)
per point. Constraints of the same structure are compared once per process.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpfeas.backends.clarabel import set_up
from sdpfeas.cvxpy_models.accepted_atoms import atoms, is_even_power
from sdpfeas.cvxpy_models.canonical_form import CanonicalForm, triangle_side
from sdpfeas.cvxpy_models.constraints import ConstraintRows, describe_constraint
from sdpfeas.errors import ProblemError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.conic_form import Cones, ConicForm

if TYPE_CHECKING:
    from sdpfeas.cvxpy_models.conversion import CvxpyForm

#: Differences above these, relative to the numbers involved, are refused. Affine rows differ by rounding;
#: Clarabel solves to 1e-8, and the epigraph of a square root or a product of roots loses half of the digits.
MAX_AFFINE_DIFFERENCE, MAX_SOLVED_DIFFERENCE = 1e-9, 1e-4

#: A point that violates a constraint by more than this, relative to the numbers in it, is not FEASIBLE.
MAX_VIOLATION = 1e-4

#: Largest conic program solved for a comparison: rows, and side of a semidefinite block. Larger ones rely on
#: the list of accepted functions and on the check of the point found. Chosen by judgement, not measured.
MAX_PROGRAM_ROWS, MAX_PROGRAM_SIDE = 400, 12

#: Points drawn, and how many of them inside the domain of a constraint are compared.
RANDOM_POINTS, COMPARED_POINTS = 6, 2

#: Conic programs for constraints that differ in the signs of their coefficients only, per model.
MAX_PROGRAMS_PER_STRUCTURE = 4

#: Least distance from the boundary of the domain of a constraint at which values are compared.
DOMAIN_MARGIN = 1e-3

#: Structures of constraints that were compared in this process; cleared when there are too many.
_same: set[tuple[Any, ...]] = set()
MAX_CACHED_STRUCTURES = 10_000


def require_equivalent(form: CvxpyForm) -> None:
    """Raise an error if the canonical form differs from the constraints of a model at random points."""
    found: dict[tuple[Any, ...], _Compared] = {}
    free = list[np.ndarray]()
    for part in form.parts:
        if part.constraint is None:
            tied = form.auxiliary[form.canonical.matrix[part.main].indices].any()
            free += [] if tied else [part.main]
        elif part.rows.size or part.constraint.size:
            item = _Compared(part, form)
            alike = sum(key[0] == item.key[0] for key in found) if item.open.size else 0
            if item.key not in _same and alike < MAX_PROGRAMS_PER_STRUCTURE:
                found.setdefault(item.key, item)
    todo = list(found.values())
    if not todo:
        return
    rng = np.random.default_rng(0)
    with _values_kept(form.original.variables()):
        for k in range(RANDOM_POINTS):
            x = _set_random(form, rng, k)
            equations, signs = _misses(form.canonical, np.concatenate([np.zeros(0, dtype=int), *free]), x)
            if signs:
                continue  # the values violate attributes, which atoms rely on
            if equations and all(_domain_gap(c) < 0.0 for c in form.original.constraints):
                raise ProblemError("cvxpy adds equations that follow from no function and no variable")
            todo = [item for item in todo if not item.compare(x, rng, not equations)]
            if not todo:
                break


def describe_violation(form: CvxpyForm, point: Any) -> str:
    """Describe a constraint that a point of the problem violates by more than rounding; empty without one."""
    values = form.values(point)
    size = 1.0 + max((float(np.max(np.abs(_dense(v)), initial=0.0)) for v in values.values()), default=0.0)
    with _values_kept(form.original.variables()):
        for variable in form.original.variables():
            if variable in values:
                variable.save_value(values[variable])
        for constraint in form.original.constraints:
            tolerance = MAX_VIOLATION * max(size, _size(constraint))
            gaps = _gaps(constraint)
            if gaps is None or not np.all(np.isfinite(gaps)):
                # Rounding may lead just outside of the domain, where there is no value.
                domain = _domain_gap(constraint)
                worst = domain if math.isfinite(domain) else math.inf
            else:
                worst = float(np.max(gaps, initial=0.0))
            if not worst <= tolerance:
                return (
                    f"cvxpy's canonical form is not equivalent to the model: it has a feasible point that "
                    f"violates `{describe_constraint(constraint)}` by {worst:.3g}"
                )
    return ""


def require_satisfied(form: CvxpyForm, point: Any) -> None:
    """Raise an error if a constraint is violated at a point of the problem by more than rounding."""
    wrong = describe_violation(form, point)
    if wrong:
        raise ProblemError(wrong)


def _misses(form: CanonicalForm, rows: np.ndarray, x: FloatArray) -> tuple[bool, bool]:
    """Whether rows of no constraint are violated: equations (domains), others (attributes)."""
    equal, rest = np.isin(rows, form.zero), form.b - form.matrix @ x
    tolerance = 1e-6 * (1.0 + float(np.max(np.abs(x), initial=0.0)))
    missed = [bool(np.any(_row_gaps(form, part, rest) > tolerance)) for part in (rows[equal], rows[~equal])]
    return missed[0], missed[1]


class _Compared:
    """A constraint and its rows of the canonical form: ``main``, and ``extra`` that define ``u``."""

    def __init__(self, part: ConstraintRows, form: CvxpyForm) -> None:
        self.constraint, self.main = part.constraint, part.stated
        self.extra = np.concatenate([np.setdiff1d(part.main, part.stated), part.extra])
        self._canonical, self._auxiliary = form.canonical, form.auxiliary
        self._seen = 0
        matrix = self._canonical.matrix[self._rows]
        columns, places = np.unique(matrix.indices, return_inverse=True)
        self.open = columns[self._auxiliary[columns]]
        self.key = (
            _structure(self.constraint),
            self.main.size,
            hash((matrix.indptr.tobytes(), places.tobytes(), np.sign(matrix.data).tobytes())),
        )

    @property
    def _rows(self) -> np.ndarray:
        return np.concatenate([self.main, self.extra])

    def compare(self, x: FloatArray, rng: np.random.Generator, allowed: bool) -> bool:
        """Compare at a point; True if no other point is needed. ``allowed``: no other row is violated."""
        affine = not self.open.size and not self.extra.size
        inside = True
        if not affine:
            if self._too_large():
                return True
            domain = _domain_gap(self.constraint)
            if not math.isfinite(domain) or abs(domain) < DOMAIN_MARGIN:
                return False
            inside = domain < 0.0
        gaps = self._converted(x, rng, affine)
        if gaps is None:
            return False
        if not inside:
            if allowed and np.all(np.isfinite(gaps)):
                self._refuse("holds where the constraint has no value")
            return False
        given = _gaps(self.constraint)
        if given is None or not np.all(np.isfinite(given)):
            return False
        self._require_equal(given, gaps, x, MAX_AFFINE_DIFFERENCE if affine else MAX_SOLVED_DIFFERENCE)
        self._seen += 1
        if affine or self._seen == COMPARED_POINTS:
            if len(_same) > MAX_CACHED_STRUCTURES:
                _same.clear()
            _same.add(self.key)
            return True
        return False

    def _require_equal(self, given: FloatArray, found: FloatArray, x: FloatArray, relative: float) -> None:
        canonical, rows = self._canonical, self._rows
        sizes = abs(canonical.matrix[rows]) @ np.abs(x) + np.abs(canonical.b[rows])
        size = max(1.0, float(np.max(sizes, initial=0.0)), _size(self.constraint))
        if given.size != found.size:
            # A complex equation is two, its real and its imaginary part.
            given, found = np.array([np.linalg.norm(given)]), np.array([np.linalg.norm(found)])
        apart = np.inf if given.size != found.size else np.abs(given - found)
        if not np.all(apart <= relative * size):
            self._refuse(f"differs from it by {np.max(apart):.3g} at a random point")

    def _refuse(self, reason: str) -> None:
        raise ProblemError(
            f"`{describe_constraint(self.constraint)}`: its canonical form {reason}; "
            "state it with other functions"
        )

    def _too_large(self) -> bool:
        longest = MAX_PROGRAM_SIDE * (MAX_PROGRAM_SIDE + 1) // 2
        matrices = _cones(self._canonical, self._rows).semidefinite
        return self._rows.size > MAX_PROGRAM_ROWS or any(cone.size > longest for cone in matrices)

    def _converted(self, x: FloatArray, rng: np.random.Generator, affine: bool) -> FloatArray | None:
        """Return the smallest slacks of the main rows; infinite if infeasible, None if unknown."""
        canonical = self._canonical
        given = np.where(self._auxiliary, 0.0, x)
        rest = canonical.b - canonical.matrix @ given
        if affine:
            return _row_gaps(canonical, self.main, rest)
        if np.any(~np.isin(self.main, canonical.nonneg)):
            return None  # cones and equations take affine expressions only
        return _least_slacks(canonical, self.main, self.extra, self.open, rest, rng)


class _Cones(NamedTuple):
    """Rows of a canonical form, by cone."""

    zero: np.ndarray
    nonneg: np.ndarray
    second_order: list[np.ndarray]
    semidefinite: list[np.ndarray]


def _cones(form: CanonicalForm, rows: np.ndarray) -> _Cones:
    """Return the cones of some rows."""
    inside = np.zeros(form.b.size, dtype=bool)
    inside[rows] = True
    second, semidefinite = (
        [cone for cone in cones if inside[cone[0]]] for cones in (form.second_order, form.semidefinite)
    )
    return _Cones(form.zero[inside[form.zero]], form.nonneg[inside[form.nonneg]], second, semidefinite)


def _row_gaps(form: CanonicalForm, rows: np.ndarray, rest: FloatArray) -> FloatArray:
    """Return the violation of the cones of some rows with values ``rest``, one number per cone."""
    cones = _cones(form, rows)
    lengths = np.array([np.linalg.norm(rest[cone[1:]]) - rest[cone[0]] for cone in cones.second_order])
    parts = [np.abs(rest[cones.zero]), -rest[cones.nonneg], lengths]
    for cone in cones.semidefinite:
        n = triangle_side(cone.size)
        matrix = np.zeros((n, n))
        j, i = np.triu_indices(n)
        matrix[i, j] = rest[cone]
        parts.append(-np.linalg.eigvalsh(matrix)[:1])
    return np.concatenate(parts)


def _least_slacks(
    form: CanonicalForm,
    main: np.ndarray,
    extra: np.ndarray,
    columns: np.ndarray,
    rest: FloatArray,
    rng: np.random.Generator,
) -> FloatArray | None:
    """Minimise a weighted sum of the slacks of inequalities over auxiliary columns."""
    cones = _cones(form, extra)
    order = [cones.zero, main, cones.nonneg, *cones.second_order]
    scale = [np.ones(sum(part.size for part in order))]
    for cone in cones.semidefinite:
        j, i = np.triu_indices(triangle_side(cone.size))
        upper = np.lexsort((j, i))  # Clarabel stacks the columns of the upper triangle
        order.append(cone[upper])
        scale.append(np.where(i == j, 1.0, math.sqrt(2.0))[upper])
    rows, factors = np.concatenate(order), np.concatenate(scale)
    slack = -sp.eye_array(rows.size, main.size, k=-cones.zero.size)
    matrix = sp.hstack([sp.diags_array(factors) @ form.matrix[rows][:, columns], slack], format="csc")
    cost = np.concatenate([np.zeros(columns.size), rng.uniform(0.5, 1.5, main.size)])
    sizes = Cones(
        free=cones.zero.size,
        nonneg=main.size + cones.nonneg.size,
        second_order=tuple(cone.size for cone in cones.second_order),
        semidefinite=tuple(triangle_side(cone.size) for cone in cones.semidefinite),
    )
    program = ConicForm.free_variables(cost, matrix, factors * rest[rows], sizes)
    found = set_up(program, max_threads=1).solve()
    status = str(found.status)
    if status == "PrimalInfeasible":
        return np.full(main.size, np.inf)
    if status == "DualInfeasible":
        return np.full(main.size, -1e300)  # without bound below
    return np.array(found.x)[columns.size :] if status == "Solved" else None


def _set_random(form: CvxpyForm, rng: np.random.Generator, k: int) -> FloatArray:
    """Draw values of the variables within their attributes, assign them, and return the columns of the form.

    Values are normal at every third point; otherwise positive, and square matrices definite, as domains ask.
    """
    drawn = form.canonical.invert(rng.normal(size=form.canonical.matrix.shape[1]))
    values = {}
    for variable in form.original.variables():
        value = _dense(drawn.get(variable.id, rng.normal(size=variable.shape)))
        value = np.array(np.broadcast_to(value, variable.shape))
        if k % 3:
            value = value if np.iscomplexobj(value) else np.abs(value) + 0.1
            if value.ndim == 2 and value.shape[0] == value.shape[1]:
                value = value @ value.conj().T + np.eye(len(value))
            value = 2.0 ** (k - 2) * value
        values[variable] = _bounded(variable, _dense(variable.project(value)))
        variable.save_value(values[variable])
    x, _ = form.value_map.forth({variable.id: value for variable, value in values.items()})
    return x


def _bounded(variable: Any, value: np.ndarray) -> np.ndarray:
    """Clip a value to the bounds of a variable, which may be parameters."""
    bounds = variable.attributes.get("bounds")
    if bounds is None or np.iscomplexobj(value):
        return value
    low, high = (_dense(getattr(bound, "value", bound)) if bound is not None else None for bound in bounds)
    return value if low is None and high is None else np.clip(value, low, high)


@contextmanager
def _values_kept(variables: list[Any]) -> Iterator[None]:
    """Restore the values of variables at the end."""
    values = [(variable, variable._value) for variable in variables]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        for variable, value in values:
            variable._value = value


def _dense(value: Any) -> np.ndarray:
    return np.asarray(value.toarray() if sp.issparse(value) else value)


def _numbers(expression: Any) -> np.ndarray | None:
    """Return the value of an expression; None if cvxpy cannot compute it."""
    try:
        value = expression.value
    except (ValueError, ArithmeticError, np.linalg.LinAlgError):
        return None
    return None if value is None else _dense(value)


def _size(constraint: Any) -> float:
    """Return the largest absolute value of the arguments of a constraint."""
    values = [_numbers(argument) for argument in constraint.args]
    sizes = [float(np.max(np.abs(value), initial=0.0)) for value in values if value is not None]
    return max((size for size in sizes if math.isfinite(size)), default=0.0)


def _gaps(constraint: Any) -> FloatArray | None:
    """Return the violation of a constraint, one number per cone; negative in the interior."""
    values: list[Any] = [_numbers(argument) for argument in constraint.args]
    if any(value is None for value in values):
        return None
    kind = type(constraint).__name__
    if kind in ("Equality", "Zero"):
        return np.abs(np.ravel(values[0] - values[1] if kind == "Equality" else values[0], order="F"))
    if kind in ("Inequality", "NonPos"):
        return np.ravel(np.real(values[0] - values[1] if kind == "Inequality" else values[0]), order="F")
    if kind == "NonNeg":
        return -np.ravel(np.real(values[0]), order="F")
    if kind == "SOC":
        bound, vectors = np.ravel(np.real(values[0]), order="F"), values[1]
        lengths = np.linalg.norm(vectors, axis=constraint.axis if vectors.ndim > 1 else 0)
        return np.ravel(lengths, order="F") - bound
    matrix = values[0].reshape(1, 1) if values[0].ndim < 2 else values[0]
    if not np.all(np.isfinite(matrix)):
        return None
    least = np.linalg.eigvalsh((matrix + np.swapaxes(matrix, -1, -2).conj()) / 2)[..., 0]
    return -np.ravel(least)


def _domain_gap(constraint: Any) -> float:
    """Return the distance of the values from the domain of the atoms, negative inside; NaN if unknown."""
    worst = -math.inf
    for atom in atoms([constraint]):
        # cvxpy requires x >= 0 for x**2.0 but not for x**2; both are defined everywhere.
        for condition in () if is_even_power(atom) else atom._domain():
            gaps = _gaps(condition)
            if gaps is None or not np.all(np.isfinite(gaps)):
                return math.nan
            gap = float(np.max(gaps, initial=-math.inf))
            if type(condition).__name__ in ("Equality", "Zero"):
                gap = -math.inf if gap <= 1e-9 * (1.0 + _size(condition)) else gap
            worst = max(worst, gap)
    return worst if worst > -math.inf else -1.0


def _structure(node: Any) -> Any:
    """Return the expression tree of a constraint: atoms, shapes and parameters, without constants."""
    data = getattr(node, "get_data", lambda: None)()
    said = () if not node.args else tuple(map(str, data or ())) if not hasattr(node, "dual_variables") else ()
    signs = (node.is_nonneg(), node.is_nonpos()) if hasattr(node, "is_nonneg") else ()
    return (
        type(node).__name__,
        node.shape,
        said,
        signs,
        tuple(_structure(argument) for argument in node.args),
    )
