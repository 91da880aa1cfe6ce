"""Whose rows are these? The constraints as the user wrote them, in the rows of the canonical form.

cvxpy numbers constraints and says for each of its steps which number became which. Rows of auxiliary
variables (of ``norm(x) <= 1``, say) belong to whatever they are tied to by those variables, and what is left
over states attributes of variables, such as ``nonneg=True``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdpfeas.harmless import visible
from sdpfeas.io.cvxpy.canonical import CanonicalForm
from sdpfeas.io.cvxpy.words import spoken

__all__ = ["Part", "successors", "tied", "traced"]

#: Attributes in words; what is not here is named as it was given.
_SAID = {
    "nonneg": "{} >= 0",
    "nonpos": "{} <= 0",
    "PSD": "{} >> 0",
    "NSD": "{} << 0",
    "bounds": "bounds of {}",
}


@dataclass(frozen=True)
class Part:
    """A constraint of the user, or the attributes of a variable, with its rows of the canonical form.

    Attributes
    ----------
    name : str
        Its label, or the expression as written.
    constraint, variable : optional
        Which it is.
    main, extra : ndarray
        The rows of the constraint itself, and those that define functions in it.
    """

    name: str
    constraint: Any
    variable: Any
    main: np.ndarray
    extra: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """All its rows."""
        return np.concatenate([self.main, self.extra])


def traced(
    form: CanonicalForm,
    posed: Sequence[tuple[Any, Any]],
    variables: Sequence[Any],
    own: dict[Any, np.ndarray],
) -> list[Part]:
    """The parts of a canonical form, constraints in their order, then attributes.

    Parameters
    ----------
    form : CanonicalForm
        The form.
    posed : sequence of (constraint, constraint)
        Constraints as cvxpy compiled them, each with the one of the user it stands for.
    variables : sequence of cvxpy.Variable
        The user's variables.
    own : dict
        For every variable its columns.
    """
    owner: dict[int, int] = {}  # of a piece, by its number: the index of a constraint of the user
    users: dict[int, int] = {}
    constraints: list[Any] = []
    for made, original in posed:
        index = users.setdefault(id(original), len(users))
        if index == len(constraints):
            constraints.append(original)
        for number in successors(made.id, form):
            owner[number] = index
    groups = tied(form, np.concatenate([np.zeros(0, dtype=int), *own.values()]))
    main: list[list[np.ndarray]] = [[] for _ in constraints]
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
        elif shared.get(groups[k]):
            for index in shared[groups[k]]:  # a function that several constraints share is compiled once
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
        Part(spoken(c), c, None, _joined(own_rows), _joined(others))
        for c, own_rows, others in zip(constraints, main, extra, strict=True)
    ]
    for (v, said), pieces in attributes.items():
        variable = None if v < 0 else variables[v]
        parts.append(Part(said, None, variable, _joined(pieces), _joined([])))
    return parts


def _joined(pieces: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype=int), *pieces])


def _attribute(variable: Any, semidefinite: bool) -> str:
    """What an attribute says, as a constraint would be written."""
    given = [name for name in _SAID if _given(variable, name)]
    fitting = [name for name in given if (name in ("PSD", "NSD")) == semidefinite] or given
    name = visible(variable.name())
    if not fitting:
        return f"attributes of {name}"
    return f"{_SAID[fitting[0]].format(name)} ({fitting[0]} of the variable)"


def _given(variable: Any, name: str) -> bool:
    value = variable.attributes.get(name)
    return value is not None and value is not False


def successors(number: int, form: CanonicalForm) -> set[int]:
    """The numbers of the constraints that one became, step by step."""
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
    """A number for every piece, the same for pieces that auxiliary columns tie together."""
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
