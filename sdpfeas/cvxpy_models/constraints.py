"""Trace the rows of a canonical form to the constraints of the user: :func:`trace_constraints`.

cvxpy's reductions map the ids of constraints. Rows of auxiliary variables (as in ``norm(x) <= 1``) belong to
the constraints that share these variables; the remaining rows are attributes of variables, such as
``nonneg=True``. :func:`describe_constraint` names a constraint by its label, or in the notation of the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from sdpfeas.cvxpy_models.canonical_form import CanonicalForm
from sdpfeas.escaping import visible

#: Longest name of a constraint without a label.
MAX_NAME_LENGTH = 90

#: Characters of a constant in brackets: numbers, ellipses and nested brackets.
_NUMBERS = r"(?:[-+0-9.ej\[\]…]|\s(?![-+]\s))"

#: Shortest constant in brackets that is abbreviated.
MAX_CONSTANT_LENGTH = 24

#: Text with balanced parentheses, and a term: such a text without a sum outside of parentheses.
_CLOSED = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
_TERM = rf"(?:[^()+]|\({_CLOSED}\))*"

#: Wrappers that cvxpy puts around an expression with known attributes.
_WRAPS = ("hermitian_wrap", "psd_wrap", "symmetric_wrap")

#: cvxpy's internal names, and the notation of the user.
_USER_NOTATION: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(rf"^Promote\(-?0\.0, \([^)]*\)\) \+ -({_TERM}) >> 0$"), r"\1 << 0"),
    (re.compile(r" \+ Promote\(-?0\.0, \([^)]*\)\)"), ""),
    (re.compile(r"Promote\(([^(),]+), \([^)]*\)\)"), r"\1"),
    (re.compile(r"PnormApprox\(([^()]*), 2\)"), r"norm(\1)"),
    (re.compile(r"(\w)Approx\("), r"\1("),
    (re.compile(r"np\.\w+\(([^()]*)\)"), r"\1"),
    (re.compile(rf"\[{_NUMBERS}{{{MAX_CONSTANT_LENGTH},}}\]"), "[…]"),
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


def describe_constraint(constraint: Any) -> str:
    """Return the label of a constraint, or the constraint as the user wrote it, in one line."""
    if constraint.label is not None:
        return visible(str(constraint.label))
    constraint = _with_partial_calls(constraint)
    if type(constraint).__name__ == "Inequality" and constraint.args[0].is_constant():
        low, high = constraint.args  # cvxpy stores "x >= 1" as "1 <= x"
        written = f"{high.name()} >= {low.name()}"
    elif hasattr(constraint, "name"):
        written = constraint.name()
    else:
        written = f"{type(constraint).__name__}({', '.join(each.name() for each in constraint.args)})"
    text = visible(" ".join(written.split()))
    for internal, notation in _USER_NOTATION:
        text = internal.sub(notation, text)
    return text if len(text) <= MAX_NAME_LENGTH else text[: MAX_NAME_LENGTH - 1] + "…"


def _with_partial_calls(node: Any) -> Any:
    """Replace expanded ``partial_trace`` and ``partial_transpose`` by variables named like the calls."""
    total = node.args[0] if type(node).__name__ in _WRAPS else node
    call = _partial(total) if type(total).__name__ == "AddExpression" else None
    if call is not None:
        from cvxpy import Variable

        return Variable(node.shape, name=call, complex=node.is_complex())
    given = getattr(node, "args", ())
    arguments = [_with_partial_calls(argument) for argument in given]
    if all(new is old for new, old in zip(arguments, given, strict=True)):
        return node
    try:
        return node.copy(arguments)
    except (TypeError, ValueError):  # it needs attributes that the variable lacks
        return node


def _partial(total: Any) -> str | None:
    """Return the ``partial_trace`` or ``partial_transpose`` that a sum expands; neighbours are joined."""
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
    trace_constraints = kept < size
    d = len(lefts) if trace_constraints else round(len(lefts) ** 0.5)
    units = [(0, k) for k in range(d)] if trace_constraints else [(i, j) for i in range(d) for j in range(d)]
    if size % d or len(units) != len(lefts):
        return None
    for after in range(1, size // d + 1):
        before = size // d // after
        if before * d * after != size:
            continue
        shape = (1 if trace_constraints else d, d)
        made = (_unit(before, at, shape, after) for at in units)
        if all(
            _same(left, unit) and _same(right, unit.T if trace_constraints else unit)
            for left, right, unit in zip(lefts, rights, made, strict=True)
        ):
            dims = [n for n, shown in ((before, before > 1), (d, True), (after, after > 1)) if shown]
            name = "partial_trace" if trace_constraints else "partial_transpose"
            return f"{name}({_with_partial_calls(inner).name()}, {tuple(dims)}, axis={int(before > 1)})"
    return None


def _unit(before: int, at: tuple[int, int], shape: tuple[int, int], after: int) -> Any:
    """Return a matrix with a single one, acting on the second of three systems."""
    single = sp.coo_array(([1.0], ([at[0]], [at[1]])), shape=shape)
    return sp.kron(sp.kron(sp.eye_array(before), single), sp.eye_array(after)).tocsr()


def _same(one: Any, other: Any) -> bool:
    return one.shape == other.shape and (one != other.tocsr()).nnz == 0


#: Attributes in the notation of constraints.
_ATTRIBUTE_TEXTS = {
    "nonneg": "{} >= 0",
    "nonpos": "{} <= 0",
    "PSD": "{} >> 0",
    "NSD": "{} << 0",
    "bounds": "bounds of {}",
}


@dataclass(frozen=True)
class ConstraintRows:
    """A constraint of the user, or the attributes of a variable, with its rows of the canonical form.

    ``main`` are the rows of the constraint itself, ``extra`` those that define atoms in it. ``stated`` are
    those of ``main`` that the user wrote; the others are implied by the domain of an atom. ``attribute``
    describes attributes.
    """

    constraint: Any
    variable: Any
    main: np.ndarray
    extra: np.ndarray
    stated: np.ndarray
    attribute: str = ""

    @cached_property
    def name(self) -> str:
        """The constraint by its label or as it is written, or the attribute."""
        return self.attribute if self.constraint is None else describe_constraint(self.constraint)

    @property
    def rows(self) -> np.ndarray:
        """All rows."""
        return np.concatenate([self.main, self.extra])


def trace_constraints(
    form: CanonicalForm,
    compiled: Sequence[tuple[Any, Any]],
    variables: Sequence[Any],
    own: dict[Any, np.ndarray],
    given: int,
) -> list[ConstraintRows]:
    """Return the rows of every constraint in order, then of attributes.

    ``compiled`` has the constraints as cvxpy compiled them, each with the user's constraint: the ``given``
    constraints, then those they imply.
    """
    owner: dict[int, int] = {}  # id of a compiled constraint -> index of the user's
    implied: set[int] = set()
    users: dict[int, int] = {}
    constraints: list[Any] = []
    for place, (made, original) in enumerate(compiled):
        index = users.setdefault(id(original), len(users))
        numbers = successors(made.id, form)
        if index == len(constraints):
            constraints.append(original)
        if place >= given:
            implied |= numbers - set(owner)
        owner.update(dict.fromkeys(numbers, index))
    groups = tied(form, np.concatenate([np.zeros(0, dtype=int), *own.values()]))
    main: list[list[np.ndarray]] = [[] for _ in constraints]
    stated: list[list[np.ndarray]] = [[] for _ in constraints]
    extra: list[list[np.ndarray]] = [[] for _ in constraints]
    attributes: dict[tuple[int, str], list[np.ndarray]] = {}
    shared: dict[int, list[int]] = {}
    for k, (number, _) in enumerate(form.pieces):
        if number in owner and owner[number] not in shared.setdefault(groups[k], []):
            shared[groups[k]].append(owner[number])
    cones = {int(rows[0]) for rows in form.semidefinite}
    for k, (number, rows) in enumerate(form.pieces):
        if rows.size == 0:
            continue
        if number in owner:
            main[owner[number]].append(rows)
            if number not in implied:
                stated[owner[number]].append(rows)
        elif shared.get(groups[k]):
            for index in shared[groups[k]]:  # an atom that several constraints share is compiled once
                extra[index].append(rows)
        else:
            touched = form.matrix[rows].indices
            for v, variable in enumerate(variables):
                if touched.size and np.isin(touched[0], own[variable]):
                    said = _attribute(variable, int(rows[0]) in cones)
                    attributes.setdefault((v, said), []).append(rows)
                    break
            else:
                attributes.setdefault((-1, "a constraint cvxpy added"), []).append(rows)
    parts = [
        ConstraintRows(c, None, _joined(rows[0]), _joined(rows[1]), _joined(rows[2]))
        for c, *rows in zip(constraints, main, extra, stated, strict=True)
    ]
    for (v, said), pieces in attributes.items():
        variable = None if v < 0 else variables[v]
        rows = _joined(pieces)
        parts.append(ConstraintRows(None, variable, rows, _joined([]), rows, said))
    return parts


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype=int), *pieces])


def _attribute(variable: Any, semidefinite: bool) -> str:
    """Return an attribute in the notation of a constraint."""
    given = [name for name in _ATTRIBUTE_TEXTS if _given(variable, name)]
    fitting = [name for name in given if (name in ("PSD", "NSD")) == semidefinite] or given
    name = visible(variable.name())
    if not fitting:
        return f"attributes of {name}"
    return f"{_ATTRIBUTE_TEXTS[fitting[0]].format(name)} ({fitting[0]} of the variable)"


def _given(variable: Any, name: str) -> bool:
    value = variable.attributes.get(name)
    return value is not None and value is not False


def successors(number: int, form: CanonicalForm) -> set[int]:
    """Return the ids of the constraints that one became after all reductions."""
    numbers = {number}
    for _, inverse in form.steps():
        imaginary = getattr(inverse, "real2imag", None)
        if imaginary is not None:
            numbers |= {imaginary[n] for n in numbers if n in imaginary}
            continue
        if isinstance(inverse, tuple):
            became = inverse[2] if inverse else {}
        elif isinstance(inverse, dict):
            became = inverse.get("cons_id_map", {})
        else:
            became = getattr(inverse, "cons_id_map", {})
        numbers = {became.get(n, n) for n in numbers}
    return numbers


def tied(form: CanonicalForm, own: np.ndarray) -> list[int]:
    """Return a group number for every piece, equal for pieces that share auxiliary columns (union-find)."""
    auxiliary = np.ones(form.matrix.shape[1], dtype=bool)
    auxiliary[own] = False
    leader = list(range(len(form.pieces)))

    def find(k: int) -> int:
        while leader[k] != k:
            leader[k] = leader[leader[k]]
            k = leader[k]
        return k

    seen: dict[int, int] = {}
    for k, (_, rows) in enumerate(form.pieces):
        if rows.size:
            columns = form.matrix.indices[form.matrix.indptr[rows[0]] : form.matrix.indptr[rows[-1] + 1]]
            for column in np.unique(columns[auxiliary[columns]]).tolist():
                leader[find(seen.setdefault(column, k))] = find(k)
    return [find(k) for k in range(len(leader))]
