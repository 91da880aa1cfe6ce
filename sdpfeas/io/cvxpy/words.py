"""Constraints in the user's words: their labels, or the expressions as written.

cvxpy names expressions by what it made of them. Its inner names are turned back into those of its functions,
and the sums of products that ``partial_trace`` and ``partial_transpose`` are expanded to into calls of these.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import scipy.sparse as sp

from sdpfeas.harmless import visible

__all__ = ["spoken"]

#: Longest name of a constraint that has no label.
LONGEST = 90

#: A constant in brackets: numbers, dots where some are left out, and more of the same inside.
_NUMBERS = r"(?:[-+0-9.ej\[\]…]|\s(?![-+]\s))"

#: Longest constant in brackets that is written out.
LONGEST_CONSTANT = 24

#: What closes every bracket it opens, and a term: such a text without a sum outside of brackets.
_CLOSED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
_TERM = rf"(?:[^()+]|\({_CLOSED}\))*"

#: Marks that cvxpy puts round an expression of which it knows more.
_WRAPS = ("hermitian_wrap", "psd_wrap", "symmetric_wrap")

#: cvxpy's inner names, and what the user wrote instead.
_WRITTEN: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(rf"^Promote\(-?0\.0, \([^)]*\)\) \+ -({_TERM}) >> 0$"), r"\1 << 0"),
    (re.compile(r" \+ Promote\(-?0\.0, \([^)]*\)\)"), ""),
    (re.compile(r"Promote\(([^(),]+), \([^)]*\)\)"), r"\1"),
    (re.compile(r"PnormApprox\(([^()]*), 2\)"), r"norm(\1)"),
    (re.compile(r"(\w)Approx\("), r"\1("),
    (re.compile(r"np\.\w+\(([^()]*)\)"), r"\1"),
    (re.compile(rf"\[{_NUMBERS}{{{LONGEST_CONSTANT},}}\]"), "[…]"),
    (re.compile(rf"\b(?:{'|'.join(_WRAPS)})\("), "("),
    (re.compile(r", None, False\)"), ")"),
    (re.compile(r", (\d+), False\)"), r", axis=\1)"),
    (re.compile(r"\bdiag_mat\(([^()]*), 0\)"), r"diag(\1)"),
    (re.compile(r"\bQuadForm\("), "quad_form("),
    (re.compile(r"\bMatrixFrac\("), "matrix_frac("),
    (re.compile(r"\bGeoMean\(([^()]*), \([^()]*\)\)"), r"geo_mean(\1)"),
    (re.compile(r"\bPnorm\("), "pnorm("),
    (re.compile(r"\bPower\(([^()]*), 0\.5\)"), r"sqrt(\1)"),
    (re.compile(r"\bPower\("), "power("),
    (re.compile(r"\b(Sum|Trace|Hstack|Vstack)\("), lambda m: f"{m[1].lower()}("),
    (re.compile(r"\bsum\((\[[^()]*\]) \* (\w+)\.T\)"), r"trace(\1 @ \2)"),
    (re.compile(rf"^(\[[^\]]*\]) \+ -\(({_CLOSED})\) >> 0$"), r"\2 << \1"),
    (re.compile(rf"^(\[[^\]]*\]) \+ -({_TERM}) >> 0$"), r"\2 << \1"),
    (re.compile(r"^(.*) \+ -(\[[^\]]*\]) >> 0$"), r"\1 >> \2"),
    (re.compile(r" \+ -"), " - "),
]


def spoken(constraint: Any) -> str:
    """The label of a constraint, or the constraint as written, in one line."""
    if constraint.label is not None:
        return visible(str(constraint.label))
    constraint = _with_calls(constraint)
    if type(constraint).__name__ == "Inequality" and constraint.args[0].is_constant():
        low, high = constraint.args  # cvxpy turns "x >= 1" round
        written = f"{high.name()} >= {low.name()}"
    elif hasattr(constraint, "name"):
        written = constraint.name()
    else:
        written = f"{type(constraint).__name__}({', '.join(each.name() for each in constraint.args)})"
    text = visible(" ".join(written.split()))
    for inner, meant in _WRITTEN:
        text = inner.sub(meant, text)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _with_calls(node: Any) -> Any:
    """A constraint or an expression with variables, called like the calls, for sums that cvxpy expanded."""
    total = node.args[0] if type(node).__name__ in _WRAPS else node
    call = _partial(total) if type(total).__name__ == "AddExpression" else None
    if call is not None:
        from cvxpy import Variable

        return Variable(node.shape, name=call, complex=node.is_complex())
    given = getattr(node, "args", ())
    arguments = [_with_calls(argument) for argument in given]
    if all(new is old for new, old in zip(arguments, given, strict=True)):
        return node
    try:
        return node.copy(arguments)
    except (TypeError, ValueError):  # it asks for more than a variable promises
        return node


def _partial(total: Any) -> str | None:
    """The ``partial_trace`` or ``partial_transpose`` a sum stands for, with neighbouring systems as one."""
    lefts, rights, inner = [], [], None
    for term in total.args:
        if type(term).__name__ != "MulExpression" or type(term.args[0]).__name__ != "MulExpression":
            return None
        (left, middle), right = term.args[0].args, term.args[1]
        if (inner is not None and middle is not inner) or not (left.is_constant() and right.is_constant()):
            return None
        inner = middle
        lefts.append(sp.csr_array(left.value))
        rights.append(sp.csr_array(right.value))
    if inner is None or len(lefts) < 2:
        return None
    size, kept = inner.shape[0], lefts[0].shape[0]
    traced = kept < size
    d = len(lefts) if traced else round(len(lefts) ** 0.5)
    units = [(0, k) for k in range(d)] if traced else [(i, j) for i in range(d) for j in range(d)]
    if size % d or len(units) != len(lefts):
        return None
    for after in range(1, size // d + 1):
        before = size // d // after
        if before * d * after != size:
            continue
        shape = (1 if traced else d, d)
        made = (_unit(before, at, shape, after) for at in units)
        if all(
            _same(left, unit) and _same(right, unit.T if traced else unit)
            for left, right, unit in zip(lefts, rights, made, strict=True)
        ):
            dims = [n for n, shown in ((before, before > 1), (d, True), (after, after > 1)) if shown]
            name = "partial_trace" if traced else "partial_transpose"
            return f"{name}({_with_calls(inner).name()}, {tuple(dims)}, axis={int(before > 1)})"
    return None


def _unit(before: int, at: tuple[int, int], shape: tuple[int, int], after: int) -> Any:
    """A matrix with a single one, as it acts on one of three systems."""
    single = sp.coo_array(([1.0], ([at[0]], [at[1]])), shape=shape)
    return sp.kron(sp.kron(sp.eye_array(before), single), sp.eye_array(after)).tocsr()


def _same(one: Any, other: Any) -> bool:
    return one.shape == other.shape and (one != other.tocsr()).nnz == 0
