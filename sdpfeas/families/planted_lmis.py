"""Problems with LMIs whose truth is known because it was planted, with evidence for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from sdpfeas.families.planting import (
    Generator,
    Planted,
    interior,
    polar_member,
    random_rows,
    row_kinds,
    storage_for,
)
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.lmi import LMI, mirrored
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.rows import Combined, Dense, Rows, Stacked
from sdpfeas.problem.sets import BlockSet

__all__ = ["feasible_lmis", "infeasible_lmis"]


def _coefficients(rng: Generator, block: BlockSet, target: BlockSet, storage: str) -> Rows:
    """Random coefficients for a block, those of mirrored entries the same."""
    if not block.matrix:
        return random_rows(rng, target, block.n, storage_for(target, storage))
    above = np.triu_indices(block.n)
    half = random_rows(rng, target, above[0].size, storage_for(target, storage))
    place = np.zeros(block.shape, dtype=np.int64)
    place[above] = place[above[::-1]] = np.arange(above[0].size)
    return half.select(place.reshape(-1))


def _rows(
    rng: Generator, sets: Sequence[BlockSet], m: int, bounds: str, storage: str
) -> tuple[list[Rows | None], np.ndarray]:
    if m == 0:
        return [None] * len(sets), np.zeros(0, dtype="<U2")
    return [random_rows(rng, b, m, storage_for(b, storage)) for b in sets], row_kinds(rng, bounds, m, m)


def feasible_lmis(
    rng: Generator,
    sets: Sequence[BlockSet],
    targets: Sequence[BlockSet],
    *,
    storage: str = "dense",
    bounds: str = "mixed",
    rows: int = 0,
    margin: float = 0.1,
) -> Planted:
    """Plant a point inside every set whose LMIs have values inside theirs; rows are slack, or equations."""
    point = tuple(interior(rng, block) for block in sets)
    parts, kind = _rows(rng, sets, rows, bounds, storage)
    value = np.zeros(rows)
    for part, x in zip(parts, point, strict=True):
        value += 0.0 if part is None else part.stable_apply(x)
    slack = np.where(kind == "=", 0.0, margin * rng.uniform(1.0, 3.0, rows) * (1.0 + np.abs(value)))
    lower = np.where(kind == "<", -np.inf, value - slack)
    upper = np.where(kind == ">", np.inf, value + slack)
    lmis = []
    for j, target in enumerate(targets):
        coefficients = [_coefficients(rng, block, target, storage) for block in sets]
        away = sum(
            (own.adjoint(x.reshape(-1)) for own, x in zip(coefficients, point, strict=True)),
            np.zeros(target.shape),
        )
        constant = target.symmetrize(interior(rng, target) - away)
        lmis.append(LMI(target, constant, coefficients, f"lmi {j}"))
    problem = FeasibilityProblem(sets, parts, lower, upper, lmis=lmis)
    return Planted(problem, True, point=point, name="lmis")


def infeasible_lmis(
    rng: Generator,
    sets: Sequence[BlockSet],
    targets: Sequence[BlockSet],
    *,
    storage: str = "dense",
    bounds: str = "mixed",
    rows: int = 0,
    margin: float = 0.1,
) -> Planted:
    """Plant multipliers inside their cones; the last LMI completes them to a certificate."""
    parts, kind = _rows(rng, sets, rows, bounds, storage)
    y = rng.uniform(0.5, 2.0, rows) * np.where(np.isin(kind, ["=", "<>"]), rng.choice([-1.0, 1.0], rows), 1.0)
    y = np.where(kind == "<", -y, y)
    level, width = rng.normal(size=rows), rng.uniform(0.5, 1.5, rows)
    lower = np.where(kind == "<", -np.inf, np.where((kind == "=") | (y > 0), level, level - width))
    upper = np.where(kind == ">", np.inf, np.where((kind == "=") | (y < 0), level, level + width))
    own = [-polar_member(rng, target) for target in targets]
    goals = [polar_member(rng, block) for block in sets]
    table = [[_coefficients(rng, block, target, storage) for block in sets] for target in targets]
    for b, (block, part) in enumerate(zip(sets, parts, strict=True)):
        missing = goals[b] - (0.0 if part is None else part.adjoint(y))
        missing = missing - sum(c[b].apply(w).reshape(block.shape) for c, w in zip(table, own, strict=True))
        table[-1][b] = _shifted(table[-1][b], own[-1], mirrored(missing, block).reshape(-1))
    constants = [target.symmetrize(rng.normal(size=target.shape)) for target in targets]
    certificate = np.concatenate([y, *(part.reshape(-1) for part in own)])

    def problem() -> FeasibilityProblem:
        lmis = [
            LMI(t, f, c, f"lmi {j}")
            for j, (t, f, c) in enumerate(zip(targets, constants, table, strict=True))
        ]
        return FeasibilityProblem(sets, parts, lower, upper, lmis=lmis)

    draft = problem()
    terms = draft.beta_terms(certificate)
    supports = [
        block.support(g) for block, g in zip(sets, draft.adjoint(certificate), strict=True) if block.bounded
    ]
    supports += [t.support(-w) for t, w in zip(targets, own, strict=True) if t.bounded]
    size = float(np.sum(np.abs(terms))) + float(np.sum(np.abs(supports)))
    lacking = float(np.sum(supports)) - float(np.sum(terms)) + margin * size
    constants[-1] = constants[-1] - (lacking / float(np.vdot(own[-1], own[-1]))) * own[-1]
    return Planted(problem(), False, certificate=certificate, name="lmis")


def _shifted(rows: Rows, along: FloatArray, by: FloatArray) -> Rows:
    """Rows whose inner products with an array are larger by so much; mirrored ones stay the same."""
    share = by / float(np.vdot(along, along))
    if isinstance(rows, Dense):
        return Dense(rows.array + np.multiply.outer(share, along))
    weights = sp.hstack([sp.eye_array(rows.m), sp.csr_array(share[:, None])], format="csr")
    return Combined(weights, Stacked([rows, Dense(along[None])]))
