"""Which cvxpy problems are taken: those whose canonical form says exactly what they say.

cvxpy approximates some functions, loses attributes of some variables and knows cones that no semidefinite
problem holds. All of that is refused here, in words, by a list of what is known to be exact: what is not on
it may be new, and a proof about a changed problem proves nothing about this one.
"""

from __future__ import annotations

import numbers
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.cvxpy_models.constraints import spoken
from sdpfeas.errors import ProblemError, RoundingWarning
from sdpfeas.escaping import visible
from sdpfeas.numerics.linalg import FloatArray

#: Constraints that a refusal names, at most.
MOST_NAMED = 3

#: Functions, not affine, that cvxpy brings into linear, second-order and semidefinite form exactly.
_EXACT = (
    {"abs", "cummax", "dotsort", "huber", "max", "maximum", "min", "minimum", "sum_largest"}
    | {"norm1", "norm_inf", "quad_over_lin"}
    | {"MatrixFrac", "lambda_max", "lambda_sum_largest", "normNuc", "sigma_max", "tr_inv"}
)
#: Functions that it brings there exactly for some exponents, weights or matrices.
_CHECKED = {"GeoMeanApprox", "PnormApprox", "PowerApprox", "QuadForm"}
_CONSTRAINTS = {"Equality", "Inequality", "NonNeg", "NonPos", "PSD", "SOC", "Zero"}
#: Functions and constraints that need exponential or power cones.
_BEYOND = {
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
#: Attributes that cvxpy keeps when it splits a complex variable into real and imaginary part.
_SPLIT = {"complex", "hermitian", "imag"}
#: What is wrong with lengths along an axis of an array with more than two.
_MANY_AXES = (
    "cvxpy mixes up the entries of arrays of more than two dimensions along an axis; take slices, or reshape "
    "to a matrix"
)
#: Products of factors that are multiplied out exactly, at most.
_EXACT_PRODUCTS = 100_000


def require_accepted(problem: Any) -> None:
    """Refuse a problem unless its canonical form can be trusted to say the same."""
    if problem.is_mixed_integer():
        whole = [v.name() for v in problem.variables() if v.attributes["boolean"] or v.attributes["integer"]]
        raise ProblemError(
            f"integer and boolean variables make no semidefinite problem: {visible(', '.join(whole))}"
        )
    unset = [p.name() for p in problem.parameters() if p.value is None]
    if unset:
        raise ProblemError(f"unspecified parameters: {', '.join(unset)} (set their values first)")
    _require_known(problem)
    if not problem.is_dcp():
        wrong = [f"`{spoken(constraint)}`" for constraint in problem.constraints if not constraint.is_dcp()]
        raise ProblemError(
            "the constraints are not convex by cvxpy's rules (problem.is_dcp() is False): "
            f"{', '.join(wrong[:MOST_NAMED])}{' …' if len(wrong) > MOST_NAMED else ''}{_other_rules(problem)}"
        )
    if not problem.variables():
        raise ProblemError("the problem has no variables")
    for variable in problem.variables():
        _require_kept(variable)
    for constraint in problem.constraints:
        if type(constraint).__name__ == "SOC" and len(constraint.args[1].shape) > 2:
            raise ProblemError(f"`{spoken(constraint)}`: {_MANY_AXES}")
    for atom in atoms(problem.constraints):
        _require_exact(atom)


def left_out(constraint: Any) -> list[Any]:
    """Constraints that the functions in an accepted one imply and its canonical form may not hold.

    ``x**p`` with ``p > 1`` is infinite for negative ``x`` unless ``p`` is a power of two; the canonical form
    of ``x**(4/3)`` is that of ``abs(x)**(4/3)``.
    """
    return [atom.args[0] >= 0 for atom in atoms([constraint]) if _asks_for_sign(atom)]


def atoms(constraints: Iterable[Any]) -> Iterator[Any]:
    """The functions of variables in some constraints, each once; what is constant is only data."""
    from cvxpy.expressions.expression import Expression
    from cvxpy.expressions.leaf import Leaf

    stack = [argument for constraint in constraints for argument in constraint.args]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        # Some functions, all of them refused, have constraints and problems for arguments.
        if id(node) in seen or not isinstance(node, Expression) or isinstance(node, Leaf):
            continue
        seen.add(id(node))
        if node.is_constant():
            _require_data(node)
            continue
        stack.extend(node.args)
        yield node


def _require_data(node: Any) -> None:
    """Refuse a constant function of variables, such as ``power(x, 0)``: cvxpy loses its shape or value."""
    if 0 in node.shape or not node.variables():
        return
    if not all(argument.is_constant() for argument in node.args):
        raise ProblemError(
            f"`{visible(node.name())}` is constant, whatever its variables are; write the constant instead"
        )
    for argument in node.args:
        _require_data(argument)


def _require_known(problem: Any) -> None:
    """Refuse functions and constraints whose translation is not known to be exact."""
    from cvxpy.atoms.affine.affine_atom import AffAtom

    kinds = {type(atom) for atom in atoms(problem.constraints)}
    names = {k.__name__ for k in kinds if not issubclass(k, AffAtom)} - _EXACT - _CHECKED
    names |= {type(constraint).__name__ for constraint in problem.constraints} - _CONSTRAINTS
    beyond = sorted(names & _BEYOND)
    if beyond:
        raise ProblemError(
            f"{', '.join(beyond)} needs another cone (exponential or power) than the linear, second-order "
            "and semidefinite ones"
        )
    if names and problem.is_dcp():
        raise ProblemError(
            f"{', '.join(sorted(names))}: not among the functions and constraints that cvxpy is known to "
            "bring into semidefinite form without changing them"
        )
    data = {atom.__name__ for atom in problem.atoms()} & _BEYOND
    if data:
        raise ProblemError(f"{', '.join(sorted(data))} of constants: pass the value instead")


def _other_rules(problem: Any) -> str:
    if all(constraint.is_dgp() for constraint in problem.constraints):
        return "; they are those of a geometric program, which needs the exponential cone"
    if all(constraint.is_dqcp() for constraint in problem.constraints):
        return "; they are quasiconvex: fix the level and ask for each"
    return ""


def _require_kept(variable: Any) -> None:
    """Refuse variables with attributes that the canonical form does not hold."""
    given = {name for name, value in variable.attributes.items() if value is not False and value is not None}
    strict = given & {"pos", "neg"}
    if strict:
        raise ProblemError(
            f"variable {variable.name()}: {strict.pop()}=True asks for a strict sign, and no closed set "
            "holds that; use nonneg or nonpos, or a bound"
        )
    if variable.is_complex() and given - _SPLIT:
        raise ProblemError(
            f"variable {variable.name()}: cvxpy may lose {', '.join(sorted(given - _SPLIT))} of a complex "
            "variable; state it as a constraint"
        )


def _require_exact(atom: Any) -> None:
    """Refuse a function if cvxpy would put another in its place."""
    kind = type(atom).__name__
    if kind == "PowerApprox":
        exponent = atom.p.value if isinstance(atom.get_data()[0], type(atom.p)) else atom.get_data()[0]
        _require_meant(atom, (exponent,), (atom.p_used,))
        argument = atom.args[0]
        if _asks_for_sign(atom) and not argument.is_affine():
            raise ProblemError(
                f"Power({argument.name()}, {atom.p_used}) is infinite where its argument is negative, which "
                "is no convex constraint here; take cp.pos of the argument if that is meant"
            )
    elif kind == "PnormApprox":
        if atom.axis is not None and len(atom.args[0].shape) > 2:
            raise ProblemError(f"norm: {_MANY_AXES}")
        _require_meant(atom, (atom.original_p,), (atom.p,))
    elif kind in ("sum_largest", "lambda_sum_largest"):
        terms = atom.args[0].size if kind == "sum_largest" else atom.args[0].shape[0]
        if atom.k > terms:
            raise ProblemError(
                f"{kind}: {atom.k} of {terms} numbers; cvxpy takes another function where there are fewer "
                "numbers than asked for"
            )
    elif kind == "GeoMeanApprox":
        weights = [_meant(p) for p in atom.p]
        _require_meant(atom, [w / sum(weights) for w in weights], atom.w)
    elif kind == "QuadForm":
        _require_factored(atom)
    elif kind == "tr_inv" and not (atom.args[0].is_symmetric() and atom.args[0].is_real()):
        raise ProblemError("tr_inv: cvxpy takes the symmetric part of a matrix it cannot tell is symmetric")
    elif kind == "DivExpression" and atom.args[1].is_complex():
        raise ProblemError(
            "division by a complex number: cvxpy divides part by part; multiply by the inverse"
        )
    elif kind == "DivExpression" and not np.all(_dense(atom.args[1].value)):
        raise ProblemError("division by zero: cvxpy would take zero for the quotient")


def _dense(value: Any) -> np.ndarray:
    return np.asarray(value.toarray() if sp.issparse(value) else value)


def _asks_for_sign(atom: Any) -> bool:
    """Whether a function is a power that is infinite for negative numbers, of what may be negative."""
    if type(atom).__name__ != "PowerApprox" or atom.p_used <= 1:
        return False
    return not is_even_power(atom) and not atom.args[0].is_nonneg()


def is_even_power(atom: Any) -> bool:
    """Whether a function is ``x**p`` with ``p`` a power of two, other than 1."""
    if type(atom).__name__ != "PowerApprox":
        return False
    exponent = Fraction(atom.p_used)
    return exponent.denominator == 1 and exponent > 1 and exponent.numerator & (exponent.numerator - 1) == 0


def _meant(number: Any) -> Fraction:
    """The simplest fraction that rounds to a number, as in 1/3 or 0.1; the number itself if there is none."""
    exact = Fraction(number) if isinstance(number, numbers.Rational) else Fraction(float(number))
    simple = exact.limit_denominator(1_000_000)
    return simple if float(simple) == float(exact) and not isinstance(number, Fraction) else exact


def _require_meant(atom: Any, given: Iterable[Any], used: Iterable[Any]) -> None:
    """Refuse exponents that cvxpy replaces by others."""
    for number, fraction in zip(given, used, strict=True):
        if _meant(number) != Fraction(fraction):
            raise ProblemError(
                f"{type(atom).__name__.removesuffix('Approx')}: cvxpy would take the exponent {fraction} for "
                f"{number}, another function; give a fraction with a small denominator"
            )


def _require_factored(atom: Any) -> None:
    """Refuse a quadratic form unless cvxpy's factors make up its matrix; warn if they do up to rounding."""
    from cvxpy.atoms.quad_form import decomp_quad

    vector, form = atom.args
    matrix = form.value
    if np.iscomplexobj(matrix):
        real, imaginary = np.real(matrix), np.imag(matrix)
        split = vector.is_complex() and not vector.is_imag()
        matrix = np.block([[real, -imaginary], [imaginary, real]]) if split else real
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is indefinite is refused below
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
            "quad_form: the factors cvxpy finds make up a matrix that differs from the given one by "
            f"{change:.3g} (largest entry {largest:.3g}); is it semidefinite? Say sum_squares(F @ x) if you "
            "know factors"
        )
    warnings.warn(
        "quad_form: cvxpy factors the matrix in floating point; what is proved is about a matrix that "
        f"differs by up to {change + rounding * largest:.1e} (largest entry {largest:.3g}). Say "
        "sum_squares(F @ x) if you know factors",
        RoundingWarning,
        stacklevel=6,
    )


def _is_product(matrix: FloatArray, scale: float, root: FloatArray) -> bool:
    """Whether a matrix is exactly ``scale · root · root'``; no if that would take long to say."""
    if np.sum(np.count_nonzero(root, axis=0) ** 2) > _EXACT_PRODUCTS:
        return False
    product: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for column in root.T:
        entries = [(int(i), Fraction(float(column[i]))) for i in np.flatnonzero(column)]
        for i, v in entries:
            for j, w in entries:
                product[i, j] += Fraction(scale) * v * w
    filled = {(int(i), int(j)) for i, j in np.argwhere(matrix)} | set(product)
    return all(product[i, j] == Fraction(float(matrix[i, j])) for i, j in filled)
