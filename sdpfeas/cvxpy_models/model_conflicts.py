"""Conflicts and relaxations of cvxpy models, in terms of constraints and attributes of variables.

:class:`ModelAnalysis` numbers the user's constraints, then attributes. A relaxation loosens the rows of the
canonical form that the user stated, and :func:`relaxed_model` loosens the constraints themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpfeas.cvxpy_models.blocks import Blocks
from sdpfeas.cvxpy_models.constraints import describe_constraint
from sdpfeas.drivers.infeasibility import InfeasibilityAnalysis, Part, infeasibility_multipliers, placed
from sdpfeas.drivers.relaxation import LooseningSettings, as_relaxation, least_loosenings
from sdpfeas.errors import ClaimError, ProblemError, hint
from sdpfeas.extras import cvxpy
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.conflicts import WIDENING, Conflict, Loosening, Relaxation

if TYPE_CHECKING:
    from sdpfeas.cvxpy_models.models import ModelCheck

#: Constraints with a smaller share of a certificate are rounding errors, and are not listed.
MIN_WEIGHT = 1e-9


@dataclass(frozen=True)
class ConstraintConflict(Conflict):
    """A constraint of a model, or an attribute of a variable, with its share of a Farkas certificate.

    Attributes
    ----------
    constraint, variable : optional
        The constraint, or the variable with the attribute. ``multiplier`` is the dual value.
    """

    constraint: Any = None
    variable: Any = None

    def described(self, problem: FeasibilityProblem) -> str:
        """Return nothing: the name is enough."""
        return ""


class ModelAnalysis(InfeasibilityAnalysis):
    """The analysis of a cvxpy model; its constraints are ``form.parts``, multipliers those of all rows."""

    check: ModelCheck

    def __init__(self, check: ModelCheck) -> None:
        super().__init__(check)
        assert check.form is not None
        self.form = check.form
        matrix, b = self.form.canonical.matrix, self.form.canonical.b
        norms = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
        owners = np.zeros(b.size)
        for part in self.form.parts:
            owners[part.rows] += 1.0
        self._sizes = np.where(norms > 0.0, norms, np.abs(b)) / np.maximum(owners, 1.0)

    def multipliers(self) -> FloatArray | None:
        """Return the certificate, or that of a chain, on the rows of the canonical form."""
        check = self.check
        return infeasibility_multipliers(check, check.farkas_certificate, self.form.blocks.row_multipliers)

    def weigh(self, y: FloatArray) -> FloatArray:
        """Return the shares of the constraints; rows of an atom alone do not make its constraint a part."""
        sizes = np.abs(y) / (float(np.max(np.abs(y), initial=0.0)) or 1.0) * self._sizes
        used = y != 0.0
        weights = np.array(
            [sizes[part.rows].sum() if used[part.main].any() else 0.0 for part in self.form.parts]
        )
        total = float(weights.sum()) or 1.0
        return np.where(weights > MIN_WEIGHT * total, weights / total, 0.0)

    def part(self, subset: Sequence[int]) -> Part | None:
        """Return the problem with some constraints and attributes."""
        keep = np.zeros(self.form.canonical.b.size, dtype=bool)
        for k in subset:
            keep[self.form.parts[k].rows] = True
        if not keep.any():
            return None
        blocks = Blocks(self.form.canonical.selected(keep))
        return Part(
            blocks.problem(),
            lambda z: blocks.multipliers(z[keep]),
            lambda y: placed(blocks.row_multipliers(y), keep),
        )

    def listed(self, y: FloatArray, *, sets: bool) -> list[Conflict]:
        """Return the constraints and attributes that take part."""
        # A weakly infeasible model has no dual values: each step of its chain has multipliers of its own.
        whole = self.check.farkas_certificate is not None
        duals = self.form.canonical.invert_duals(y) if whole else {}
        weights, parts = self.weigh(y), self.form.parts
        found = list[Conflict]()
        for k in np.argsort(-weights, kind="stable")[: np.count_nonzero(weights)]:
            part = parts[k]
            number = self.form.number(part.constraint)
            found.append(
                ConstraintConflict(
                    row=None,
                    name=part.name,
                    multiplier=duals.get(-1 if number is None else number, np.nan),
                    weight=float(weights[k]),
                    side="constraint",
                    constraint=part.constraint,
                    variable=part.variable,
                )
            )
        return found

    def find(self, item: Any) -> int:
        """Return the number of a constraint or attribute: an object, a label, or as it is written."""
        if isinstance(item, ConstraintConflict):
            item = item.name if item.constraint is None else item.constraint
        for k, part in enumerate(self.form.parts):
            if item is part.constraint or (item is part.variable and item is not None):
                return k
            if isinstance(item, str) and item == part.name:
                return k
        names = [part.name for part in self.form.parts]
        raise ClaimError(f"no constraint of the model is {str(item)!r}; {hint(str(item), names)}")

    @property
    def loosenable(self) -> list[int]:
        """All constraints, but no attributes of variables."""
        return [k for k, part in enumerate(self.form.parts) if part.constraint is not None and part.main.size]

    def least_relaxation(self, weights: Mapping[int, float], settings: LooseningSettings) -> Relaxation:
        """Bracket the least relaxation of some constraints and attributes."""
        parts = {k: self.form.parts[k] for k in weights}
        stated = np.concatenate([part.stated for part in parts.values()])
        blocks = Blocks(self.form.canonical, stated=stated)
        places = {k: list(dict.fromkeys(blocks.places()[part.stated])) for k, part in parts.items()}
        found, amounts = least_loosenings(
            blocks.problem(), {place: weights[k] for k in parts for place in places[k]}, settings
        )
        none = np.zeros(1)
        loosenings = dict[int, Loosening]()
        for k, part in parts.items():
            own = np.array([amounts.get(place, none).sum() for place in places[k]])
            if own.any():
                loosenings[k] = Loosening(part.name, float(own.sum()), own, part.constraint, part.variable)
        names = [part.name for part in parts.values()]
        chosen = list(loosenings.values())
        return as_relaxation(
            found, chosen, names, settings, lambda: relaxed_model(self.form.original, chosen)
        )


def relaxed_model(model: Any, loosenings: Sequence[Loosening]) -> Any:
    """Return a cvxpy model with constraints loosened by a little more than these amounts."""
    cp = cvxpy()
    amounts = {id(each.constraint): (1.0 + WIDENING) * each.amounts for each in loosenings}
    attribute = next((each.name for each in loosenings if each.constraint is None), None)
    if attribute is not None:
        raise ProblemError(f"{attribute}: state the attribute as a constraint for a relaxed model")
    constraints = []
    for constraint in model.constraints:
        amount = amounts.get(id(constraint))
        loosened = [constraint] if amount is None else _loosened(constraint, amount)
        if amount is not None:
            loosened = [each.set_label(describe_constraint(constraint)) for each in loosened]
        constraints += loosened
    return cp.Problem(model.objective, constraints)


def _loosened(constraint: Any, amounts: FloatArray) -> list[Any]:
    """Return a constraint that holds if the given one is violated by up to ``amounts``, as one or two."""
    cp = cvxpy()
    kind, given = type(constraint).__name__, constraint.args
    largest = float(np.max(amounts))
    if kind == "SOC":
        bound, vectors = given
        fits = amounts.size == bound.size
        more = np.reshape(amounts, bound.shape, order="F") if fits else largest
        return [cp.SOC(bound + more, vectors, constraint.axis)]
    if kind in ("Inequality", "Equality"):
        left, right = given
    elif kind in ("NonNeg", "PSD"):
        left, right = np.zeros(constraint.shape), given[0]
    else:
        left, right = given[0], np.zeros(constraint.shape)
    if kind == "PSD":
        return [right + largest * np.eye(right.shape[0]) >> 0 if right.shape else right + largest >= 0]
    fits = amounts.size == constraint.size
    more = np.reshape(amounts, constraint.shape, order="F") if fits else largest
    if kind not in ("Equality", "Zero"):
        return [left <= right + more]
    if (left - right).is_complex():  # real and imaginary part have an amount each
        return [cp.abs(left - right) <= 2.0 * largest]
    return [left <= right + more, left >= right - more]
