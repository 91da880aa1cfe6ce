"""Conflicts: which rows, LMIs and sets of an infeasible problem contradict each other.

The weights come from the Farkas certificate. :func:`deletion_filter` drops constraints as long as the
remaining ones are proved infeasible, which approximates an irreducible infeasible subsystem (IIS).
:func:`prune_certificate` applies it to the rows of a problem, and the cvxpy models to their constraints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.numerics.threads import few_threads
from sdpfeas.problem.problem import FeasibilityProblem
from sdpfeas.verifier.outcome import Proof, Tolerances
from sdpfeas.verifier.proof_attempts import CertificateAttempt, proof_modes

#: A set takes no part in a contradiction if ``A*y`` cancels on it to this share of its terms.
CANCELLED_SHARE = 1e-9


@dataclass(frozen=True)
class Conflict:
    """One row, LMI or set of an infeasible problem, with its weight in the contradiction.

    Attributes
    ----------
    row : int or None
        Index of the row; None for an LMI or a set.
    name : str
        Its name.
    multiplier : float or ndarray
        Its entry of the certificate; a matrix for an LMI. For a set, ``-(A*y)_b``, which lies in the dual
        cone.
    weight : float
        Share of the certificate: multiplier times norm of the row; all shares add up to one.
    side : str
        ``"lower"`` or ``"upper"``: the bound that takes part; ``"lmi"`` for an LMI, ``"set"`` for a set.
    block, lmi : int or None
        Index of the block for a set, of the LMI for an LMI.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> builder = sf.ProblemBuilder()
    >>> builder.block("X", sf.PSD(2))
    >>> builder.row("trace", {"X": np.eye(2)}, upper=1)
    >>> builder.row("corner", {"X": [[1, 0], [0, 0]]}, lower=2)
    >>> print(sorted(entry.name for entry in sf.solve(builder.build()).conflict()))
    ['corner', 'trace']
    """

    row: int | None
    name: str
    multiplier: float | FloatArray
    weight: float
    side: str
    block: int | None = None
    lmi: int | None = None

    def described(self, problem: FeasibilityProblem) -> str:
        """Describe the constraint: bound, set or LMI."""
        if self.lmi is not None:
            target = problem.lmis[self.lmi].set
            lam = target.spectrum(np.asarray(self.multiplier))
            ends = f"{float(np.min(lam)):.3g} to {float(np.max(lam)):.3g}"
            return f"in {target.described()}, multiplier with eigenvalues {ends}"
        if self.block is not None:
            return f"in {problem.sets[self.block].described()}"
        assert self.row is not None
        if problem.equality[self.row]:
            return f"= {problem.lower[self.row]:g}"
        if self.side == "lower":
            return f">= {problem.lower[self.row]:g}"
        return f"<= {problem.upper[self.row]:g}"


def conflicts(problem: FeasibilityProblem, y: FloatArray, *, sets: bool = False) -> list[Conflict]:
    """Return the rows and LMIs with a nonzero multiplier, and with ``sets`` the sets, largest weight first.

    Sets take part if the rows alone do not contradict each other: ``tr X <= -1`` and ``X in PSD(3)``.
    """
    weights = shares(problem, y)
    rows, own = problem.split(y)
    found = [
        Conflict(
            row=int(i),
            name=problem.row_name(int(i)),
            multiplier=float(y[i]),
            weight=float(weights[i]),
            side="lower" if y[i] > 0 else "upper",
        )
        for i in np.flatnonzero(rows)
    ]
    for j, part in enumerate(own):
        if part.any():
            weight = float(weights[problem.m + j])
            found.append(Conflict(None, problem.lmi_name(j), part, weight, "lmi", lmi=j))
    if sets:
        found += _sets(problem, y)
    total = max(sum(each.weight for each in found), np.finfo(float).tiny)
    found = [replace(each, weight=each.weight / total) for each in found]
    return sorted(found, key=lambda each: -each.weight)


def shares(problem: FeasibilityProblem, y: FloatArray) -> FloatArray:
    """Weights of the rows, then of the LMIs: multiplier times norm, relative to the largest of each.

    A weight is zero only if the multiplier is.
    """
    rows, own = problem.split(y)
    sizes = np.append(np.abs(rows), [float(np.max(np.abs(part))) for part in own])
    # Relative to the largest, to avoid overflow.
    weights = sizes / _largest(y) * (_norms(problem) / _largest(_norms(problem)))
    return np.where(sizes > 0.0, np.maximum(weights, np.finfo(float).tiny), 0.0)


def _largest(numbers: FloatArray) -> float:
    return float(np.max(np.abs(numbers), initial=0.0)) or 1.0


def _norms(problem: FeasibilityProblem) -> FloatArray:
    return np.maximum(np.append(problem.norms, [lmi.norm for lmi in problem.lmis]), np.finfo(float).tiny)


def _sets(problem: FeasibilityProblem, y: FloatArray) -> list[Conflict]:
    """Return the sets on which ``A*y`` does not vanish; on a Free block it always does."""
    top, scale = _largest(_norms(problem)), _largest(y)
    unit = y / scale
    rows, own = problem.split(unit)
    with np.errstate(all="ignore"):
        combined = problem.adjoint(unit)
        found = []
        for b, (block, part) in enumerate(zip(problem.sets, combined, strict=True)):
            size = float(np.linalg.norm(part / top))
            terms = float(np.abs(rows) @ (problem.block_norms[b] / top))
            for lmi, multiplier in zip(problem.lmis, own, strict=True):
                if not lmi.coefficients[b].empty:
                    terms += float(np.linalg.norm(multiplier)) * (lmi.norm / top)
            if not block.free and size > CANCELLED_SHARE * terms:
                found.append(Conflict(None, problem.block_name(b), -scale * part, size, "set", b))
    return found


#: Largest number of smaller conflicts that are attempted; each costs a proof.
MAX_DELETIONS = 500

Evidence = TypeVar("Evidence")


def deletion_filter(
    evidence: Evidence,
    members: Callable[[Evidence], list[int]],
    without: Callable[[Evidence, list[int]], Evidence | None],
    chunk: int = 1,
    *,
    repeat: bool = False,
) -> Evidence:
    """Return the evidence of a conflict with fewer members (deletion filter, Chinneck 2008).

    ``members`` lists the constraints of a conflict, lightest first. ``without`` returns evidence of a
    conflict that lacks some of them, or None without a proof. Members are deleted ``chunk`` at a time, then
    in chunks of half the size, finally one by one, with at most ``MAX_DELETIONS`` proofs. With ``repeat``
    they are deleted one by one until no deletion succeeds: needed if a proof depends on the evidence, not
    only on the constraints that are left.
    """
    proofs = 0
    while True:
        left, deleted = members(evidence), False
        while left and proofs < MAX_DELETIONS:
            tried, left = left[:chunk], left[chunk:]
            proofs += 1
            smaller = without(evidence, tried)
            if smaller is not None:
                evidence, deleted = smaller, True
                # Constraints outside the new evidence are deleted too.
                present = set(members(evidence))
                left = [member for member in left if member in present]
        if proofs >= MAX_DELETIONS or (chunk == 1 and not (repeat and deleted)):
            return evidence
        chunk = max(chunk // 2, 1)


def prune_certificate(problem: FeasibilityProblem, y: FloatArray, proof: Proof | None) -> FloatArray:
    """Return a certificate with fewer rows and LMIs, by deleting those of smallest weight.

    What remains is proved again each time, with the same kind of proof.
    """
    modes: list[Proof] = proof_modes(problem) if proof is Proof.RIGOROUS else [proof or Proof.NUMERIC]

    def members(y: FloatArray) -> list[int]:
        weights = shares(problem, y)
        return [int(i) for i in np.argsort(weights, kind="stable") if weights[i] != 0.0]

    def without(y: FloatArray, dropped: list[int]) -> FloatArray | None:
        return _without(problem, y, dropped, modes)

    with np.errstate(all="ignore"), few_threads(problem.sides, problem.m):
        return deletion_filter(y, members, without, max(len(members(y)) // 2, 1), repeat=True)


def _without(
    problem: FeasibilityProblem, y: FloatArray, dropped: list[int], modes: list[Proof]
) -> FloatArray | None:
    """Return a proved certificate with fewer rows and LMIs than ``y``, after dropping some; None if the proof
    fails.
    """
    trial = np.array(y)
    rows, own = problem.split(trial)
    for i in dropped:
        if i < problem.m:
            rows[i] = 0.0
        else:
            own[i - problem.m][...] = 0.0
    attempt = CertificateAttempt(problem, trial, True, Tolerances())
    kept = next((found.evidence for mode in modes if (found := attempt.check(mode)).proven), None)
    # Repairs may reintroduce rows; only a proof with fewer rows is progress.
    fewer = kept is not None and np.count_nonzero(shares(problem, kept)) < np.count_nonzero(
        shares(problem, y)
    )
    return kept if fewer else None
