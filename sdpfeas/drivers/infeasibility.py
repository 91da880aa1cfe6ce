"""Explain infeasibility: minimal conflicts, and the least relaxation that makes a problem feasible.

:class:`InfeasibilityAnalysis` is the common part of problems (whose constraints are rows and LMIs) and cvxpy
models. :func:`minimal_conflict` finds an irreducible infeasible subsystem (IIS) by QuickXplain (Junker 2004),
led by the weights of certificates; :func:`minimal_conflicts` enumerates several with a hitting set tree
(Reiter 1987). :mod:`sdpfeas.drivers.relaxation` brackets the least relaxation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sdpfeas.claims import Claim, Verdict
from sdpfeas.deadline import Deadline
from sdpfeas.drivers.relaxation import LooseningSettings, is_loosenable, relax_problem
from sdpfeas.drivers.solve import solve
from sdpfeas.errors import ClaimError
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier import decide, verify
from sdpfeas.verifier.conflicts import Conflict, Relaxation, conflicts, shares
from sdpfeas.verifier.outcome import Proof
from sdpfeas.verifier.results import Check, find_row

#: Weights tried for each step of a facial reduction certificate relative to the next, when steps are added.
STEP_WEIGHTS = (1.0, 16.0, 256.0, 65536.0)

#: Constraints in the first subset that is tried, and the factor between the sizes of subsets.
FIRST_SUBSET, SUBSET_GROWTH = 2, 4

#: Shares of the heaviest constraint below which all others are dropped, if the rest is still proved.
LIGHT_SHARES = (1e-2, 1e-4, 1e-6)

#: Denominators of simple ratios of multipliers, tried for up to so many constraints.
RATIO_DENOMINATORS = (1.0, 3.0, 10.0)
MAX_SIMPLE = 8

#: Seconds for a part, and more for each of its constraints: most parts that are tried are feasible.
PART_SECONDS, CONSTRAINT_SECONDS = 1.0, 2e-3

#: Maps some constraints to multipliers that prove them infeasible; None without a proof.
Ask = Callable[[Sequence[int], Deadline], "FloatArray | None"]

#: Maps multipliers to the weight of every constraint, zero for those that take no part.
Weigh = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Part:
    """A problem with some of the constraints; maps multipliers of all constraints to it, and back."""

    problem: FeasibilityProblem
    restrict: Callable[[FloatArray], FloatArray]
    lift: Callable[[FloatArray], FloatArray]


def placed(values: FloatArray, mask: np.ndarray) -> FloatArray:
    """Return zeros with ``values`` at the places of a mask."""
    out = np.zeros(mask.size)
    out[mask] = values
    return out


class _TimeUp(Exception):
    """The time limit is reached."""


def members(weights: FloatArray) -> list[int]:
    """Return the constraints that take part, heaviest first."""
    order = np.argsort(-weights, kind="stable")
    return [int(k) for k in order if weights[k] > 0.0]


def minimal_conflict(y: FloatArray, ask: Ask, weigh: Weigh, deadline: Deadline) -> tuple[FloatArray, bool]:
    """Reduce multipliers that prove infeasibility to those of a minimal conflict.

    First the heaviest constraints alone are tried, in growing numbers: the first subset that is infeasible
    replaces the conflict. QuickXplain then halves what is left; it drops the lightest constraints first. The
    result is infeasible, and without any one of its constraints no proof was found. When the time is up, the
    smallest conflict so far is returned. The flag says whether the search ended.
    """
    best = y

    def infeasible(subset: Sequence[int]) -> bool:
        nonlocal best
        if deadline.expired:
            raise _TimeUp
        found = ask(subset, deadline)
        if found is not None and np.count_nonzero(weigh(found)) <= np.count_nonzero(weigh(best)):
            best = found
        return found is not None

    def shrink() -> bool:
        """Replace the conflict by one among its heaviest constraints, if there is one."""
        listed = members(weigh(best))
        size = FIRST_SUBSET
        while size <= len(listed) // 2:
            if infeasible(listed[:size]):
                return True
            size *= SUBSET_GROWTH
        return False

    def needed(kept: list[int], changed: bool, candidates: list[int]) -> list[int]:
        """Return the candidates that a minimal conflict needs besides the constraints ``kept``."""
        if changed and kept and infeasible(kept):
            return []
        if len(candidates) == 1:
            return candidates
        half = len(candidates) // 2
        heavy, light = candidates[:half], candidates[half:]
        from_light = needed(kept + heavy, True, light)
        return needed(kept + from_light, bool(from_light), heavy) + from_light

    try:
        while shrink():
            pass
        listed = members(weigh(best))
        minimal = needed([], False, listed) if len(listed) > 1 else listed
        if set(members(weigh(best))) != set(minimal):
            infeasible(minimal)
    except _TimeUp:
        return best, False
    return best, True


def minimal_conflicts(
    y: FloatArray, ask: Ask, weigh: Weigh, limit: int, deadline: Deadline
) -> list[FloatArray]:
    """Return multipliers of up to ``limit`` minimal conflicts.

    A node of the hitting set tree is a set of removed constraints; it is labelled by a conflict among the
    others, and has one child for each constraint of that conflict.
    """
    every, found = range(weigh(y).size), list[FloatArray]()
    queue, seen = deque([frozenset[int]()]), {frozenset[int]()}
    while queue and len(found) < limit and not deadline.expired:
        removed = queue.popleft()
        labels = (frozenset(members(weigh(z))) for z in found)
        label = next((each for each in labels if not each & removed), None)
        if label is None:
            start = ask([k for k in every if k not in removed], deadline) if removed else y
            if start is None:
                continue
            z, minimal = minimal_conflict(start, ask, weigh, deadline)
            if found and not minimal:
                break
            found.append(z)
            label = frozenset(members(weigh(z)))
        children = [child for k in sorted(label) if (child := removed | {k}) not in seen]
        queue.extend(children)
        seen.update(children)
    return found


def farkas_certificate(check: Check) -> FloatArray | None:
    """Return a Farkas certificate: the one of the check, or the steps of its chain added up and verified.

    A weakly infeasible problem has none. Every attempt costs a verification.
    """
    if check.certificate is not None or check.chain is None or check.verdict is not Verdict.INFEASIBLE:
        return check.certificate
    *before, last = (step.astype(float) for step in check.chain.steps)
    for weight in STEP_WEIGHTS if before else STEP_WEIGHTS[:1]:
        total = sum((step * weight ** (len(before) - k) for k, step in enumerate(before)), last)
        if decide(check.problem, Claim(certificate=total)).verdict is Verdict.INFEASIBLE:
            return np.asarray(total)
    return None


def infeasibility_multipliers(
    check: Check, whole: FloatArray | None, mapped: Callable[[FloatArray], FloatArray] = np.asarray
) -> FloatArray | None:
    """Return multipliers that prove infeasibility, as ``mapped`` maps them; None without such a proof.

    ``whole`` is the Farkas certificate (see :func:`farkas_certificate`). Without one, a facial reduction
    certificate of several steps remains: then the absolute multipliers of all steps, each scaled to a maximum
    of one, are added up. They identify the constraints that take part.
    """
    if check.verdict is not Verdict.INFEASIBLE:
        return None
    if whole is not None:
        return mapped(whole)
    steps = () if check.chain is None else check.chain.steps
    found = [np.abs(mapped(step.astype(float))) for step in steps]
    return np.sum([z / (float(np.max(z)) or 1.0) for z in found], axis=0) if found else None


class InfeasibilityAnalysis(ABC):
    """Conflicts and relaxations of a check, in terms of numbered constraints.

    ``Check.conflict``, ``conflicts``, ``relax`` and ``loosen`` are documented there.
    """

    def __init__(self, check: Check) -> None:
        self.check = check

    @abstractmethod
    def multipliers(self) -> FloatArray | None:
        """Return multipliers that prove infeasibility; None without such a proof."""

    @abstractmethod
    def weigh(self, y: FloatArray) -> FloatArray:
        """Return the weight of every constraint, zero for those that take no part."""

    @abstractmethod
    def part(self, subset: Sequence[int]) -> Part | None:
        """Return the problem with some of the constraints; None if it has neither rows nor LMIs."""

    @abstractmethod
    def listed(self, y: FloatArray, *, sets: bool) -> list[Conflict]:
        """Return the constraints that take part, heaviest first."""

    @abstractmethod
    def find(self, item: Any) -> int:
        """Return the number of a constraint given by name, or as an object."""

    @property
    @abstractmethod
    def loosenable(self) -> list[int]:
        """The constraints that are loosened unless others are named."""

    @abstractmethod
    def least_relaxation(self, weights: Mapping[int, float], settings: LooseningSettings) -> Relaxation:
        """Bracket the least weighted sum of loosenings of some constraints."""

    @property
    def _judged(self) -> dict[str, Any]:
        """Settings that ask for the kind of proof of the check."""
        return {"rigorous": self.check.proof is not Proof.NUMERIC, "reading": str(self.check.reading)}

    def ask(self, subset: Sequence[int], deadline: Deadline) -> FloatArray | None:
        """Return multipliers that prove some constraints infeasible; None without a proof."""
        part = self.part(subset)
        if part is None:
            return None
        found = self._with_simple_ratios(part, len(subset))
        if found is not None:
            return found
        limit = min(PART_SECONDS + CONSTRAINT_SECONDS * len(subset), max(deadline.left, 1e-3))
        check = solve(part.problem, time_limit=limit, **self._judged).check
        return infeasibility_multipliers(check, farkas_certificate(check), part.lift)

    def _with_simple_ratios(self, part: Part, count: int) -> FloatArray | None:
        """Return multipliers in simple ratios, as of two opposite rows, if they prove a part infeasible.

        On free variables they have to cancel exactly, which those of a solver rarely do for so few rows.
        """
        y = self.multipliers() if count <= MAX_SIMPLE and not part.problem.sides else None
        if y is None:
            return None
        y = part.restrict(y)
        for denominator in RATIO_DENOMINATORS:
            ratios = np.rint(denominator * y / (float(np.max(np.abs(y), initial=0.0)) or 1.0))
            claim, reading = Claim(certificate=ratios), str(self.check.reading)
            check = verify(part.problem, claim, exact=True, reading=reading, repair=False)
            if check.verdict is Verdict.INFEASIBLE:
                return part.lift(ratios)
        return None

    @cached_property
    def _heavy(self) -> FloatArray | None:
        """Multipliers without constraints of negligible weight, if the rest is proved infeasible."""
        y = self.multipliers()
        if y is None or self.check.certificate is None:
            return y
        weights = self.weigh(y)
        for share in LIGHT_SHARES:
            light = weights < share * np.max(weights, initial=0.0)
            part = self.part(np.flatnonzero(~light).tolist()) if np.any(weights[light]) else None
            if part is not None:
                check = decide(part.problem, Claim(certificate=part.restrict(y)), **self._judged)
                if check.verdict is Verdict.INFEASIBLE and check.certificate is not None:
                    return part.lift(check.certificate)
        return y

    def conflict(self, *, prune: bool, sets: bool, time_limit: float | None) -> list[Conflict]:
        """Return constraints that contradict each other; see :meth:`Check.conflict`."""
        y = self._heavy
        if y is None:
            return []
        if prune:
            y, _ = minimal_conflict(y, self.ask, self.weigh, Deadline(time_limit))
        return self.listed(y, sets=sets)

    def conflicts(self, limit: int, time_limit: float | None) -> list[list[Conflict]]:
        """Return several minimal conflicts; see :meth:`Check.conflicts`."""
        y, deadline = self._heavy, Deadline(time_limit)
        found = [] if y is None else minimal_conflicts(y, self.ask, self.weigh, limit, deadline)
        return [self.listed(z, sets=False) for z in found]

    def relax(
        self,
        weights: Mapping[Any, float] | None,
        only: Iterable[Any] | None,
        tol: float,
        time_limit: float | None,
    ) -> Relaxation:
        """Bracket the least relaxation; see :meth:`Check.relax`."""
        chosen = self.loosenable if only is None else sorted({self.find(item) for item in only})
        if not chosen:
            raise ClaimError("there is no constraint to loosen")
        given = {self.find(item): float(weight) for item, weight in (weights or {}).items()}
        wrong = next((weight for weight in given.values() if not 0.0 < weight < np.inf), None)
        if wrong is not None:
            raise ClaimError(f"the weight of a constraint must be positive and finite, got {wrong!r}")
        settings = LooseningSettings(tol, str(self.check.reading), Deadline(time_limit))
        return self.least_relaxation({k: given.get(k, 1.0) for k in chosen}, settings)

    def loosen(self, limit: int, tol: float, time_limit: float | None) -> list[Relaxation]:
        """Bracket the least relaxation of each constraint alone; see :meth:`Check.loosen`."""
        y, deadline, found = self._heavy, Deadline(time_limit), list[Relaxation]()
        heaviest = [] if y is None else members(self.weigh(y))[:limit]
        for k, constraint in enumerate(heaviest):
            if deadline.expired:
                break
            share = None if deadline.limit is None else deadline.left / (len(heaviest) - k)
            settings = LooseningSettings(tol, str(self.check.reading), deadline.within(share))
            found.append(self.least_relaxation({constraint: 1.0}, settings))
        return found


class ProblemAnalysis(InfeasibilityAnalysis):
    """The analysis of a problem: its constraints are the rows, then the LMIs."""

    def multipliers(self) -> FloatArray | None:
        """Return the certificate, or that of a chain."""
        return infeasibility_multipliers(self.check, self._whole)

    @cached_property
    def _whole(self) -> FloatArray | None:
        return farkas_certificate(self.check)

    def weigh(self, y: FloatArray) -> FloatArray:
        """Return multiplier times norm, for rows, then LMIs."""
        return shares(self.check.problem, y)

    def part(self, subset: Sequence[int]) -> Part | None:
        """Return the problem with some rows and LMIs."""
        problem = self.check.problem
        kept = np.zeros(problem.m + len(problem.lmis), dtype=bool)
        kept[list(subset)] = True
        rows, lmis = kept[: problem.m], kept[problem.m :]
        part = problem.select_rows(rows, [problem.lmis[j] for j in np.flatnonzero(lmis)])
        sizes = np.array([lmi.set.entries for lmi in problem.lmis], dtype=int)
        own = np.concatenate([rows, np.repeat(lmis, sizes)])
        return Part(part, lambda y: y[own], lambda y: placed(y, own))

    def listed(self, y: FloatArray, *, sets: bool) -> list[Conflict]:
        """Return rows and LMIs, and with ``sets`` the sets that take part."""
        found = conflicts(self.check.problem, y, sets=sets and self._whole is not None)
        # A weakly infeasible problem has no multipliers: each step of its chain has its own.
        return found if self._whole is not None else [replace(each, multiplier=np.nan) for each in found]

    def find(self, item: Any) -> int:
        """Return the number of a row or LMI, given by name, number, or as an entry of a conflict."""
        problem = self.check.problem
        if isinstance(item, Conflict):
            item = problem.m + item.lmi if item.lmi is not None else item.row
        return find_row(problem, item)

    @property
    def loosenable(self) -> list[int]:
        """All rows with a bound, and LMIs into cones."""
        problem = self.check.problem
        return [k for k in range(problem.m + len(problem.lmis)) if is_loosenable(problem, k)]

    def least_relaxation(self, weights: Mapping[int, float], settings: LooseningSettings) -> Relaxation:
        """Bracket the least relaxation of some rows and LMIs."""
        return relax_problem(self.check.problem, weights, settings)
