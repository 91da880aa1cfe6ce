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
from sdpfeas.certifier.numbers import floats, fractions, kernel, text, texts
from sdpfeas.certifier.standard_form import StandardForm, Vector, apply, functional, positive_part
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
    if verdict not in ("feasible", "infeasible"):
        raise NotProved("the answer is neither feasible nor infeasible")
    case = Case(problem, reading)
    reason = NotProved("there is no evidence in the answer")
    chain, stored = answer.chain, answer.point if verdict == "feasible" else answer.certificate
    steps = chain.steps if chain is not None and chain.reading == reading else None
    if steps is not None:
        try:
            return case.by_faces(verdict, steps, answer.point if answer.rational is None else answer.rational)
        except NotProved as missing:
            reason = missing
    for given in (answer.rational, stored):
        if given is not None:
            try:
                return case.prove(verdict, given)
            except NotProved as missing:
                reason = missing
    raise reason


class Case:
    """A problem as document and in the standard form; its methods return evidence or raise NotProved."""

    def __init__(
        self, problem: FeasibilityProblem, reading: str = "stored", objective: Objective | None = None
    ) -> None:
        self.problem, self.document = problem, problem_document(problem, reading, objective)
        self.checked = sdpcheck.Problem(self.document)
        self.form = StandardForm.of(self.checked)

    def prove(self, verdict: str, given: Any) -> Evidence:
        """Prove a verdict by a point or multipliers."""
        if verdict == "feasible":
            return self.evidence(
                "feasible", primal=self.primal(*self.form.feasible(self.lifted_point(given)))
            )
        y, proofs, _ = self.form.infeasible(self.lifted_multipliers(given))
        return self.evidence("infeasible", dual=self.dual(y, proofs))

    def by_faces(self, verdict: str, given: Sequence[Any], point: Any) -> Evidence:
        """Prove a verdict by facial reduction, then a point."""
        multipliers = [self.lifted_multipliers(step) for step in given]
        proofs, contradiction, faces, bounds = replay(self.form, multipliers)
        if contradiction is not (verdict == "infeasible"):
            raise NotProved("facial reduction comes to a contradiction, or to none, against the verdict")
        if contradiction:
            *steps, last = map(self.dual, multipliers, proofs)
            return self.evidence("infeasible", steps=steps, dual=last)
        x = on_face(self.form, faces, bounds, self.lifted_point(point))
        return self.evidence("feasible", primal=self.primal(x, self.form.prove_point(x)))

    def primal(self, x: Vector, proofs: Sequence[Any]) -> dict[str, Any]:
        """Write a point with the proofs of its blocks."""
        count = len(self.checked.sets)
        points = [texts(self.form.part(x, b)) for b in range(count)]
        return {"point": points, "sets": proofs[:count], "lmis": proofs[count:]}

    def dual(self, y: Vector, proofs: Sequence[Any]) -> dict[str, Any]:
        """Write multipliers with the proofs of all blocks."""
        count = len(self.checked.sets)
        return {
            "rows": texts(y[: len(self.checked.rows)]),
            "multipliers": [texts(y[i] for i in self.form.slack_rows(b)) for b in self.form.slacks],
            "sets": proofs[:count],
            "lmis": proofs[count:],
        }

    def evidence(self, kind: str, ends: dict[str, Any] | None = None, **parts: Any) -> Evidence:
        """Make evidence of its parts; raises NotProved if the checker refuses it."""
        head = {"format": "sdpfeas evidence 1", "problem": sdpcheck.digest(self.document), "kind": kind}
        document = head | (ends or {}) | {name: part for name, part in parts.items() if part}
        try:
            return Evidence(self.document, document, sdpcheck.check(self.document, document))
        except sdpcheck.Refused as reason:
            raise NotProved(f"the checker refuses the evidence: {reason}") from None

    def lifted_point(self, point: Any) -> Vector:
        """Return a point in the standard form."""
        problem, form = self.problem, self.form
        if point is None or len(point) != len(problem.sets):
            raise NotProved("there is no point with one array per set")
        x = [v for block, part in zip(problem.sets, point, strict=True) for v in lift(block, part)]
        row = problem.m
        for lmi in problem.lmis:
            if lmi.set.kind in VECTOR_CONES:
                own, count = range(row, row + lmi.set.entries), len(x)
                values = [{k: v for k, v in form.rows[i].items() if k < count} for i in own]
                x += lift(
                    lmi.set,
                    [apply(f, x) - (form.bounds[i][0] or 0) for i, f in zip(own, values, strict=True)],
                )
                row += lmi.set.entries
        return form.completed(x)

    def lifted_multipliers(self, given: Any) -> Vector:
        """Return multipliers of all rows of the standard form; those of boxes are zero, to be completed."""
        try:
            flat = fractions(given)
        except (TypeError, ValueError, OverflowError):
            raise NotProved("the multipliers are not finite numbers") from None
        lmis = self.problem.lmis
        if len(flat) != self.problem.m + sum(lmi.set.entries for lmi in lmis):
            raise NotProved("there is not one multiplier per row and entry of an LMI")
        y, own, place = flat[: self.problem.m], list[Fraction](), self.problem.m
        for lmi in lmis:
            part, place = flat[place : place + lmi.set.entries], place + lmi.set.entries
            if lmi.set.kind in VECTOR_CONES:
                y += part
            elif lmi.set.bounded:  # F - lower I and upper I - F: the positive and the negative part
                own += _split(lift(lmi.set, part), lmi.set.n)
            else:
                own += lift(lmi.set, part)
        y += [Fraction(0)] * (len(self.checked.rows) - len(y)) + own
        return y + [Fraction(0)] * (len(self.form.rows) - len(y))


def certify_optimum(problem: FeasibilityProblem, objective: Objective, found: Any) -> Evidence:
    """Return exact evidence for a bracket of an optimal value; its ends may be wider by rounding."""
    if found.infeasible is not None:
        return certify(found.infeasible)
    case = Case(problem, str(found.reading), objective)
    sign = 1 if objective.sense == "min" else -1
    goal = {k: sign * v for k, v in functional(case.checked.objective).items()}
    constant = sign * case.checked.constant
    ends: list[Any] = [None, None]  # of the dual and of the primal problem
    parts: dict[str, Any] = {}
    if found.point is not None:
        with suppress(NotProved):
            x, proofs = case.form.feasible(case.lifted_point(found.point))
            parts["primal"] = case.primal(x, proofs)
            ends[1] = text(sign * _rounded(apply(goal, x) + constant, 1))
    if found.multipliers is not None:
        # Solvers differ in the sign of dual multipliers: take the better bound.
        duals = list[tuple[Fraction, Vector, list[Any]]]()
        for turn in (1, -1):
            with suppress(NotProved):
                near = case.lifted_multipliers([turn * v for v in fractions(found.multipliers)])
                y, proofs, bound = case.form.infeasible(near, goal)
                duals.append((bound, y, proofs))
        if duals:
            bound, y, proofs = max(duals, key=lambda each: each[0])
            parts["dual"] = case.dual(y, proofs)
            ends[0] = text(sign * _rounded(bound + constant, -1))
    if not parts:
        raise NotProved("no end of the bracket is proved")
    return case.evidence("bracket", ends=dict(zip(("lower", "upper"), ends[::sign], strict=True)), **parts)


def _rounded(value: Fraction, direction: int) -> Fraction:
    """Round to a double, upwards or downwards."""
    near = float(floats([value])[0])
    if not math.isfinite(near):
        raise NotProved("the end of a bracket is outside the range of doubles")
    if (Fraction(near) - value) * direction < 0:
        near = math.nextafter(near, direction * math.inf)
    return Fraction(near)


def _split(listed: Vector, n: int) -> Vector:
    """Return semidefinite ``N`` and ``P`` with ``N - P`` as listed, one after the other."""
    block = sdpcheck.Block({"kind": "PSD", "n": n})
    above = positive_part(block, listed, 2.0**-46)
    return above + [p - v for v, p in zip(listed, above, strict=True)]


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


def contradiction(case: Case) -> Evidence:
    """Return evidence that the equality rows alone have no solution, by elimination; raises NotProved."""
    form = case.form
    equal = [i for i, (low, high) in enumerate(form.bounds) if low is not None and low == high]
    equal = [i for i in equal if i < len(case.checked.rows)]
    if not equal or case.problem.lmis or len(equal) * form.size > MOST_ELIMINATED:
        raise NotProved("there are no equality rows, or too many to be eliminated")
    table = [[form.rows[i].get(k, Fraction(0)) for i in equal] for k in range(form.size)]
    for weights in kernel(table, len(equal))[0]:
        bound = sum((v * (form.bounds[i][0] or 0) for i, v in zip(equal, weights, strict=True)), Fraction(0))
        if bound:
            y = [Fraction(0)] * len(form.rows)
            for i, v in zip(equal, weights, strict=True):
                y[i] = v / bound
            y, proofs, _ = form.infeasible(y)
            return case.evidence("infeasible", dual=case.dual(y, proofs))
    raise NotProved("the equality rows do not contradict each other")
