"""Turn proved answers into exact evidence: :func:`certify`, :func:`certify_optimum`.

Nothing here need be trusted: ``sdpcheck.check`` accepts the evidence before it is returned.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas import sdpcheck
from sdpfeas.certifier.documents import VECTOR_CONES, problem_document
from sdpfeas.certifier.faces import on_face, replay
from sdpfeas.certifier.numbers import echelon, floats, fractions, text
from sdpfeas.certifier.standard_form import StandardForm, Vector, full
from sdpfeas.errors import NotProved
from sdpfeas.files import writing
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.problem.sets import BlockSet

#: Most entries of equality rows that are eliminated in search of a contradiction.
MOST_ELIMINATED = 200_000


@dataclass(frozen=True)
class Evidence:
    """Exact evidence about a problem, accepted by ``sdpcheck``.

    Attributes
    ----------
    problem : dict
        The problem as a document of the certificate format.
    document : dict
        The evidence; it names the problem by its SHA-256.
    statement : str
        What it proves, in the words of the checker.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    >>> evidence = sf.certify(sf.solve(problem))
    >>> type(evidence).__name__, "feasible" in evidence.statement
    ('Evidence', True)
    """

    problem: dict[str, Any]
    document: dict[str, Any]
    statement: str

    def save(self, path: str | PathLike[str], problem_path: str | PathLike[str] | None = None) -> None:
        """Write the evidence as JSON, with the problem in it, or in a file of its own."""
        with writing(path):
            Path(path).write_text(self.text(problem_path is None), encoding="utf-8")
        if problem_path is not None:
            with writing(problem_path):
                Path(problem_path).write_text(_json(self.problem), encoding="utf-8")

    def text(self, with_problem: bool = True) -> str:
        """Return the evidence as JSON, with the problem in it or its SHA-256."""
        return _json(self.document | {"problem": self.problem} if with_problem else self.document)


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":")) + "\n"


def _evidence(
    problem: dict[str, Any], kind: str, ends: dict[str, Any] | None = None, **parts: Any
) -> Evidence:
    """Make evidence of its parts; raises NotProved if the checker refuses it."""
    head = {"format": "sdpfeas evidence 1", "problem": sdpcheck.digest(problem), "kind": kind}
    document = (
        head | (ends or {}) | {name: part for name, part in parts.items() if part is not None and part != []}
    )
    try:
        return Evidence(problem, document, sdpcheck.check(problem, document))
    except sdpcheck.Refused as reason:
        raise NotProved(f"the checker refuses the evidence: {reason}") from None


def certify(answer: Any, problem: FeasibilityProblem | None = None) -> Evidence:
    """Turn a verified answer into exact evidence that the checker ``sdpcheck.py`` accepts.

    Parameters
    ----------
    answer : Result, Check or SavedResult
        An answer with its evidence: a verdict that is FEASIBLE or INFEASIBLE.
    problem : FeasibilityProblem, optional
        The problem, for an answer that was read from a file.

    Returns
    -------
    Evidence
        The problem and the evidence as JSON documents; ``save`` writes them.

    Raises
    ------
    NotProved
        If no exact evidence is found.

    Examples
    --------
    >>> import numpy as np, sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    >>> sf.certify(sf.solve(problem)).document["kind"]
    'feasible'
    """
    answer = getattr(answer, "check", answer)
    problem = answer.problem if problem is None else stated_problem(problem, answer)
    made = _certify(problem, answer)
    if problem.bound is None:
        return made
    return replace(made, statement=f"{made.statement}; it asks for points within {problem.bound}")


def stated_problem(problem: FeasibilityProblem, answer: Any) -> FeasibilityProblem:
    """Return the problem that an answer is about: the given one, with the rows of the bound of the answer."""
    bound = getattr(answer, "bound", None)
    if bound is None:
        return problem
    known = answer.problem_hash if hasattr(answer, "problem_hash") else answer.problem.content_hash
    if problem.content_hash == known:
        return problem
    return problem.bounded(bound)


def _certify(problem: FeasibilityProblem, answer: Any) -> Evidence:
    verdict, reading = str(answer.verdict), str(answer.reading)
    reason = NotProved("there is no evidence in the answer")
    chain, rational = answer.chain, answer.rational
    if verdict not in ("feasible", "infeasible"):
        raise NotProved("the answer is neither feasible nor infeasible")
    if chain is not None and chain.reading == reading:
        document = problem_document(problem, reading)
        point = answer.point if rational is None else rational
        try:
            return _by_faces(problem, document, verdict, chain.steps, point)
        except NotProved as missing:
            reason = missing
    for given in (rational, answer.point if verdict == "feasible" else answer.certificate):
        if given is not None:
            try:
                return prove_with(problem, verdict, given, reading)
            except NotProved as missing:
                reason = missing
    raise reason


def prove_with(problem: FeasibilityProblem, verdict: str, given: Any, reading: str = "stored") -> Evidence:
    """Return evidence from a point or multipliers; raises NotProved."""
    document = problem_document(problem, reading)
    form = StandardForm(sdpcheck.Problem(document))
    if verdict == "feasible":
        found = form.feasible(lift_point(problem, form, given))
        return _evidence(document, "feasible", primal=form.primal(found))
    dual, _ = form.infeasible(*lift_multipliers(problem, form, given))
    return _evidence(document, "infeasible", dual=dual)


def _by_faces(
    problem: FeasibilityProblem, document: dict[str, Any], verdict: str, given: Sequence[Any], point: Any
) -> Evidence:
    form = StandardForm(sdpcheck.Problem(document))
    steps, last, faces = replay(form, [lift_multipliers(problem, form, step) for step in given])
    if verdict == "infeasible":
        if last is None:
            raise NotProved("the steps of facial reduction come to no contradiction")
        return _evidence(document, "infeasible", steps=steps, dual=last)
    if last is not None or point is None:
        raise NotProved("the steps of facial reduction contradict the verdict, or there is no point")
    found = on_face(form, faces, lift_point(problem, form, point))
    return _evidence(document, "feasible", primal=StandardForm(sdpcheck.Problem(document)).primal(found))


def certify_optimum(problem: FeasibilityProblem, objective: Objective, found: Any) -> Evidence:
    """Return exact evidence for a bracket of an optimal value; its ends may be wider by rounding."""
    if found.infeasible is not None:
        return certify(found.infeasible)
    document = problem_document(problem, str(found.reading), objective)
    form = StandardForm(sdpcheck.Problem(document))
    sign = 1 if objective.sense == "min" else -1
    inner: Any = None
    outer: Any = None
    parts: dict[str, Any] = {}
    if found.point is not None:
        with suppress(NotProved):
            x = form.feasible(lift_point(problem, form, found.point))
            parts["primal"] = form.primal(x)
            value = sum((v * x[k] for k, v in form.objective.items()), sign * form.problem.constant)
            inner = text(sign * _rounded(value, 1))
    if found.multipliers is not None:
        # Solvers differ in the sign of dual multipliers: take the better bound.
        bounds = list[tuple[Fraction, Any]]()
        for turn in (1, -1):
            with suppress(NotProved):
                y, own = lift_multipliers(problem, form, [turn * v for v in fractions(found.multipliers)])
                dual, bound = form.infeasible(y, own, objective=True)
                bounds.append((bound, dual))
        if bounds:
            bound, parts["dual"] = max(bounds, key=lambda pair: pair[0])
            outer = text(sign * _rounded(bound + sign * form.problem.constant, -1))
    if not parts:
        raise NotProved("no end of the bracket is proved")
    lower, upper = (outer, inner)[::sign]
    return _evidence(document, "bracket", ends={"lower": lower, "upper": upper}, **parts)


def _rounded(value: Fraction, direction: int) -> Fraction:
    """Round to a double, upwards or downwards."""
    near = float(value)
    if (Fraction(near) - value) * direction < 0:
        near = math.nextafter(near, direction * math.inf)
    return Fraction(near)


# --- answers in the standard form


def lift_point(problem: FeasibilityProblem, form: StandardForm, point: Any) -> Vector:
    """Return a point in the standard form, with the values of LMIs in vector cones as blocks."""
    if point is None or len(point) != len(problem.sets):
        raise NotProved("there is no point with one array per set")
    x = [v for block, part in zip(problem.sets, point, strict=True) for v in lift(block, part)]
    row = problem.m
    for lmi in problem.lmis:
        if lmi.set.kind in VECTOR_CONES:
            own = range(row, row + lmi.set.entries)
            sums = [sum((v * x[k] for k, v in form.rows[i].items() if k < len(x)), Fraction(0)) for i in own]
            x = x + lift(lmi.set, [s - (form.bounds[i][0] or 0) for s, i in zip(sums, own, strict=True)])
            row += lmi.set.entries
    return x


def lift_multipliers(
    problem: FeasibilityProblem, form: StandardForm, given: Any
) -> tuple[Vector, list[Vector]]:
    """Return multipliers of rows and LMIs in the standard form; those of boxes are zero, to be completed."""
    try:
        flat = fractions(given)
    except (TypeError, ValueError, OverflowError):
        raise NotProved("the multipliers are not finite numbers") from None
    sizes = [problem.m, *(lmi.set.entries for lmi in problem.lmis)]
    if len(flat) != sum(sizes):
        raise NotProved("there is not one multiplier per row and entry of an LMI")
    cuts = np.cumsum([0, *sizes]).tolist()
    own, y = list[Vector](), flat[: problem.m]
    for lmi, start, stop in zip(problem.lmis, cuts[1:], cuts[2:], strict=False):
        if lmi.set.kind in VECTOR_CONES:
            y = y + flat[start:stop]
            continue
        part = lift(lmi.set, flat[start:stop])
        if lmi.set.bounded:  # F - lower I and upper I - F: the positive and the negative part
            own += _split(part, lmi.set.n)
        else:
            own.append(part)
    own += [[Fraction(0)] * block.size for block, _, _ in form.lmis[len(own) :]]
    return y + [Fraction(0)] * (len(form.rows) - len(y)), own


def _split(listed: Vector, n: int) -> list[Vector]:
    """Return semidefinite ``N`` and ``P`` with ``N - P`` as listed."""
    lam, vec = np.linalg.eigh(full(sdpcheck.Block({"kind": "PSD", "n": n}), floats(listed)))
    minus = (vec * (np.maximum(-lam, 0.0) + 2.0**-46 * np.max(np.abs(lam)))) @ vec.T
    below = fractions(((minus + minus.T) / 2)[np.tril_indices(n)])
    return [[v + p for v, p in zip(listed, below, strict=True)], below]


def lift(block: BlockSet, given: Any) -> Vector:
    """Return a member of a set, or a multiplier, listed as in the standard form."""
    try:
        if np.shape(given) not in (block.shape, (block.entries,)):
            raise NotProved("the evidence does not have the shape of the problem")
        x = fractions(given)
    except (TypeError, ValueError, OverflowError):
        raise NotProved("the evidence is not made of finite numbers") from None
    n = block.n
    if block.matrix:
        return [(x[i * n + j] + x[j * n + i]) / 2 for i in range(n) for j in range(i + 1)]
    if block.kind == "SecondOrder":
        return _arrow_preimage(x)
    if block.kind == "HermitianPSD":
        n = block.degree
        real = [[(x[i * n + j] + x[j * n + i]) / 4 for j in range(n)] for i in range(n)]
        imag = [[(x[i * n + j] - x[j * n + i]) / 4 for j in range(n)] for i in range(n)]
        rows = real + [im + re for re, im in zip(real, imag, strict=True)]
        return [rows[i][j] for i in range(2 * n) for j in range(i + 1)]
    return x


def _arrow_preimage(x: Vector) -> Vector:
    """Return ``X`` with trace ``t`` and ``2 X_i0 = z_i``, semidefinite if ``t >= ||z||``."""
    t, z = x[0], x[1:]
    rest = t / 2 - sum((v * v for v in z), Fraction(0)) / (2 * t) if t > 0 else t / 2
    out = list[Fraction]()
    for i in range(len(x)):
        for j in range(i + 1):
            if j == 0:
                value = t / 2 if i == 0 else z[i - 1] / 2
            else:
                value = z[i - 1] * z[j - 1] / (2 * t) if t > 0 else Fraction(0)
            out.append(value + (rest / len(x) if i == j else 0))
    return out


def contradiction(problem: FeasibilityProblem, reading: str) -> Evidence:
    """Return evidence that the equality rows alone have no solution, by elimination; raises NotProved."""
    document = problem_document(problem, reading)
    form = StandardForm(sdpcheck.Problem(document))
    equal = [i for i, (low, high) in enumerate(form.bounds) if low is not None and low == high]
    if not equal or problem.lmis or len(equal) * form.size > MOST_ELIMINATED:
        raise NotProved("there are no equality rows, or too many to be eliminated")
    # A combination of rows that vanishes, from the form [A | b | I].
    width = form.size + 1 + len(equal)
    table = []
    for r, i in enumerate(equal):
        row = [form.rows[i].get(k, Fraction(0)) for k in range(form.size)]
        table.append(
            [*row, form.bounds[i][0] or Fraction(0), *(Fraction(int(r == s)) for s in range(len(equal)))]
        )
    for row, pivot in zip(*echelon(table, width), strict=True):
        if pivot == form.size:
            y = [Fraction(0)] * len(form.rows)
            for i, v in zip(equal, row[form.size + 1 :], strict=True):
                y[i] = v
            dual, _ = form.infeasible(y, [[Fraction(0)] * lmi[0].size for lmi in form.lmis])
            return _evidence(document, "infeasible", dual=dual)
    raise NotProved("the equality rows do not contradict each other")
