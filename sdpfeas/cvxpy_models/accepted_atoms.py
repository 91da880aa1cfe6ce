"""Accept cvxpy problems with an exactly equivalent canonical form: :func:`require_accepted`.

cvxpy approximates some atoms, loses attributes of some variables, and supports cones beyond semidefinite
programming. Only atoms, constraints and attributes on the lists below, which are known to be exact, are
accepted: a proof about an approximation proves nothing about the problem.
"""

from __future__ import annotations

import numbers
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.cvxpy_models.constraints import describe_constraint
from sdpfeas.errors import ProblemError, RoundingWarning
from sdpfeas.escaping import visible
from sdpfeas.numerics.linalg import FloatArray

#: Most constraints named in an error.
MAX_NAMED_CONSTRAINTS = 3

#: Atoms, not affine, with an exact linear, second-order or semidefinite form.
_EXACT_ATOMS = (
    {"abs", "cummax", "dotsort", "huber", "max", "maximum", "min", "minimum", "sum_largest"}
    | {"norm1", "norm_inf", "quad_over_lin"}
    | {"MatrixFrac", "lambda_max", "lambda_sum_largest", "normNuc", "sigma_max", "tr_inv"}
)
#: Atoms with an exact form for some exponents, weights or matrices.
_CONDITIONAL_ATOMS = {"GeoMeanApprox", "PnormApprox", "PowerApprox", "QuadForm"}
_CONSTRAINTS = {"Equality", "Inequality", "NonNeg", "NonPos", "PSD", "SOC", "Zero"}
#: Atoms and constraints that need exponential or power cones.
_OTHER_CONES = {
    "ExpCone",
    "entr",
    "exp",
    "kl_div",
    "log",
    "log1p",
    "log_det",
    "log_sum_exp",
    "logistic",
    "rel_entr",
    "xexp",
} | {"PowCone3D", "PowConeND", "GeoMean", "Pnorm", "Power"}
#: Attributes that survive the split of a complex variable into real and imaginary part.
_COMPLEX_ATTRIBUTES = {"complex", "hermitian", "imag"}
#: Error for norms along an axis of an array of more than two dimensions.
_MANY_AXES_MESSAGE = (
    "cvxpy mixes up the entries of arrays of more than two dimensions along an axis; take slices, or reshape "
    "to a matrix"
)
#: Most products that are multiplied out exactly.
MAX_EXACT_PRODUCTS = 100_000


def require_accepted(problem: Any) -> None:
    """Raise an error unless the canonical form of a problem is known to be equivalent."""
    if problem.is_mixed_integer():
        whole = [v.name() for v in problem.variables() if v.attributes["boolean"] or v.attributes["integer"]]
        raise ProblemError(f"integer and boolean variables are not supported: {visible(', '.join(whole))}")
    unset = [p.name() for p in problem.parameters() if p.value is None]
    if unset:
        raise ProblemError(f"unspecified parameters: {', '.join(unset)} (set their values first)")
    _require_known(problem)
    if not problem.is_dcp():
        wrong = [
            f"`{describe_constraint(constraint)}`"
            for constraint in problem.constraints
            if not constraint.is_dcp()
        ]
        raise ProblemError(
            "the constraints are not convex by cvxpy's rules (problem.is_dcp() is False): "
            f"{', '.join(wrong[:MAX_NAMED_CONSTRAINTS])}{' …' if len(wrong) > MAX_NAMED_CONSTRAINTS else ''}"
            f"{_other_rules(problem)}"
        )
    for variable in problem.variables():
        _require_attributes(variable)
    for constraint in problem.constraints:
        if type(constraint).__name__ == "SOC" and len(constraint.args[1].shape) > 2:
            raise ProblemError(f"`{describe_constraint(constraint)}`: {_MANY_AXES_MESSAGE}")
    for atom in atoms(problem.constraints):
        _require_exact(atom)


def implied_constraints(constraint: Any) -> list[Any]:
    """Return constraints that the atoms of a constraint imply, and that its canonical form may lack.

    ``x**p`` with ``p > 1`` is infinite for negative ``x`` unless ``p`` is a power of two; the canonical form
    of ``x**(4/3)`` is that of ``abs(x)**(4/3)``.
    """
    return [atom.args[0] >= 0 for atom in atoms([constraint]) if _needs_sign(atom)]


def atoms(constraints: Iterable[Any]) -> Iterator[Any]:
    """Yield the atoms of constraints that depend on variables, each once."""
    from cvxpy.expressions.expression import Expression
    from cvxpy.expressions.leaf import Leaf

    stack = [argument for constraint in constraints for argument in constraint.args]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        # Some atoms, none of them accepted, have constraints and problems as arguments.
        if id(node) in seen or not isinstance(node, Expression) or isinstance(node, Leaf):
            continue
        seen.add(id(node))
        if node.is_constant():
            _require_data(node)
            continue
        stack.extend(node.args)
        yield node


def _require_data(node: Any) -> None:
    """Raise an error for a constant atom of variables, such as ``power(x, 0)``: cvxpy loses its shape."""
    if 0 in node.shape or not node.variables():
        return
    if not all(argument.is_constant() for argument in node.args):
        raise ProblemError(
            f"`{visible(node.name())}` does not depend on its variables; write the constant instead"
        )
    for argument in node.args:
        _require_data(argument)


def _require_known(problem: Any) -> None:
    """Raise an error for atoms and constraints without a form that is known to be exact."""
    from cvxpy.atoms.affine.affine_atom import AffAtom

    kinds = {type(atom) for atom in atoms(problem.constraints)}
    names = {k.__name__ for k in kinds if not issubclass(k, AffAtom)} - _EXACT_ATOMS - _CONDITIONAL_ATOMS
    names |= {type(constraint).__name__ for constraint in problem.constraints} - _CONSTRAINTS
    beyond = sorted(names & _OTHER_CONES)
    if beyond:
        raise ProblemError(
            f"{', '.join(beyond)} needs an exponential or power cone; only linear, second-order and "
            "semidefinite cones are supported"
        )
    if names and problem.is_dcp():
        raise ProblemError(
            f"{', '.join(sorted(names))}: not among the functions and constraints with a canonical form "
            "that is known to be exact"
        )
    data = {atom.__name__ for atom in problem.atoms()} & _OTHER_CONES
    if data:
        raise ProblemError(f"{', '.join(sorted(data))} of constants: pass the value instead")


def _other_rules(problem: Any) -> str:
    if all(constraint.is_dgp() for constraint in problem.constraints):
        return "; they form a geometric program, which needs the exponential cone"
    if all(constraint.is_dqcp() for constraint in problem.constraints):
        return "; they are quasiconvex: make the level a cp.Parameter t and use sf.bisect(problem, t)"
    return ""


def _require_attributes(variable: Any) -> None:
    """Raise an error for attributes of variables that the canonical form loses."""
    given = {name for name, value in variable.attributes.items() if value is not False and value is not None}
    strict = given & {"pos", "neg"}
    if strict:
        raise ProblemError(
            f"variable {variable.name()}: {strict.pop()}=True is a strict inequality, which no closed "
            "set represents; use nonneg or nonpos, or a bound"
        )
    if variable.is_complex() and given - _COMPLEX_ATTRIBUTES:
        raise ProblemError(
            f"variable {variable.name()}: cvxpy may lose {', '.join(sorted(given - _COMPLEX_ATTRIBUTES))} "
            "of a complex variable; state it as a constraint"
        )


def _require_exact(atom: Any) -> None:
    """Raise an error for an atom that cvxpy would approximate or replace."""
    kind = type(atom).__name__
    if kind == "PowerApprox":
        exponent = atom.p.value if isinstance(atom.get_data()[0], type(atom.p)) else atom.get_data()[0]
        _require_exponents(atom, (exponent,), (atom.p_used,))
        argument = atom.args[0]
        if _needs_sign(atom) and not argument.is_affine():
            raise ProblemError(
                f"Power({argument.name()}, {atom.p_used}) is infinite for negative arguments, which "
                "is not a convex constraint here; use cp.pos of the argument if that is intended"
            )
    elif kind == "PnormApprox":
        if atom.axis is not None and len(atom.args[0].shape) > 2:
            raise ProblemError(f"norm: {_MANY_AXES_MESSAGE}")
        _require_exponents(atom, (atom.original_p,), (atom.p,))
    elif kind in ("sum_largest", "lambda_sum_largest"):
        terms = atom.args[0].size if kind == "sum_largest" else atom.args[0].shape[0]
        if atom.k > terms:
            raise ProblemError(
                f"{kind}: {atom.k} of {terms} numbers; cvxpy uses another function if k exceeds the "
                "number of entries"
            )
    elif kind == "GeoMeanApprox":
        weights = [_simplest_fraction(p) for p in atom.p]
        _require_exponents(atom, [w / sum(weights) for w in weights], atom.w)
    elif kind == "QuadForm":
        _require_factored(atom)
    elif kind == "tr_inv" and not (atom.args[0].is_symmetric() and atom.args[0].is_real()):
        raise ProblemError(
            "tr_inv: cvxpy uses the symmetric part of a matrix that is not known to be symmetric"
        )
    elif kind == "DivExpression" and atom.args[1].is_complex():
        raise ProblemError(
            "division by a complex number: cvxpy divides real and imaginary part; multiply by the inverse"
        )
    elif kind == "DivExpression" and not np.all(_dense(atom.args[1].value)):
        raise ProblemError("division by zero: cvxpy would use zero for the quotient")


def _dense(value: Any) -> np.ndarray:
    return np.asarray(value.toarray() if sp.issparse(value) else value)


def _needs_sign(atom: Any) -> bool:
    """Whether an atom is a power that is infinite for negative arguments, with one that may be negative."""
    if type(atom).__name__ != "PowerApprox" or atom.p_used <= 1:
        return False
    return not is_even_power(atom) and not atom.args[0].is_nonneg()


def is_even_power(atom: Any) -> bool:
    """Whether an atom is ``x**p`` with ``p`` a power of two, other than 1."""
    if type(atom).__name__ != "PowerApprox":
        return False
    exponent = Fraction(atom.p_used)
    return exponent.denominator == 1 and exponent > 1 and exponent.numerator & (exponent.numerator - 1) == 0


def _simplest_fraction(number: Any) -> Fraction:
    """Return the simplest fraction that rounds to a number, such as 1/3 or 0.1; without one, the number."""
    exact = Fraction(number) if isinstance(number, numbers.Rational) else Fraction(float(number))
    simple = exact.limit_denominator(1_000_000)
    return simple if float(simple) == float(exact) and not isinstance(number, Fraction) else exact


def _require_exponents(atom: Any, given: Iterable[Any], used: Iterable[Any]) -> None:
    """Raise an error if cvxpy replaces exponents by others."""
    for number, fraction in zip(given, used, strict=True):
        if _simplest_fraction(number) != Fraction(fraction):
            raise ProblemError(
                f"{type(atom).__name__.removesuffix('Approx')}: cvxpy would use the exponent {fraction} "
                f"instead of {number}, which is another function; use a fraction with a small denominator"
            )


def _require_factored(atom: Any) -> None:
    """Raise an error unless cvxpy's factors multiply to the matrix; warn if they do up to rounding."""
    from cvxpy.atoms.quad_form import decomp_quad

    vector, form = atom.args
    matrix = form.value
    if np.iscomplexobj(matrix):
        real, imaginary = np.real(matrix), np.imag(matrix)
        split = vector.is_complex() and not vector.is_imag()
        matrix = np.block([[real, -imaginary], [imaginary, real]]) if split else real
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an indefinite matrix raises an error below
        scale, plus, minus = decomp_quad(matrix)
    root = sp.csc_array(plus if plus.size else minus).toarray()
    signed = float(scale) if plus.size else -float(scale)
    dense = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix, dtype=float)
    if not dense.any() or _is_product(dense, signed, root):
        return
    change = float(np.max(np.abs(dense - signed * (root @ root.T))))
    largest, rounding = float(np.max(np.abs(dense))), dense.shape[0] * np.finfo(float).eps
    if not change <= 16 * rounding * largest:
        raise ProblemError(
            "quad_form: the factors that cvxpy computes multiply to a matrix that differs from the given by "
            f"{change:.3g} (largest entry {largest:.3g}); is it semidefinite? Use sum_squares(F @ x) if you "
            "know factors"
        )
    warnings.warn(
        "quad_form: cvxpy factors the matrix in floating point; what is proved is about a matrix that "
        f"differs by up to {change + rounding * largest:.1e} (largest entry {largest:.3g}). Use "
        "sum_squares(F @ x) if you know factors",
        RoundingWarning,
        stacklevel=_users_level(),
    )


#: Packages whose lines a warning does not point at.
_LIBRARIES = ("sdpfeas", "cvxpy")


def _users_level() -> int:
    """Return the stack level, as a caller counts it for a warning, of the first line outside of libraries."""
    frame: Any = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES:
        frame, level = frame.f_back, level + 1
    return level


def _is_product(matrix: FloatArray, scale: float, root: FloatArray) -> bool:
    """Whether a matrix is exactly ``scale · root · root'``; False beyond ``MAX_EXACT_PRODUCTS``."""
    if np.sum(np.count_nonzero(root, axis=0) ** 2) > MAX_EXACT_PRODUCTS:
        return False
    product: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for column in root.T:
        entries = [(int(i), Fraction(float(column[i]))) for i in np.flatnonzero(column)]
        for i, v in entries:
            for j, w in entries:
                product[i, j] += Fraction(scale) * v * w
    filled = {(int(i), int(j)) for i, j in np.argwhere(matrix)} | set(product)
    return all(product[i, j] == Fraction(float(matrix[i, j])) for i, j in filled)
