"""Checks and results: verified verdicts, with their evidence and an explanation in words.

A :class:`Check` is what the verifier returns, a :class:`Result` what :func:`sdpfeas.solve` returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from sdpfeas.certifier.certify import Evidence, certify
from sdpfeas.claims import Chain, Claim, Stop, Verdict
from sdpfeas.errors import ClaimError, TruthError, hint
from sdpfeas.escaping import visible
from sdpfeas.notebook import Card, bars, spectrum
from sdpfeas.numerics.exact_arithmetic import Reading
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.validation import counted
from sdpfeas.verifier.conflicts import Conflict, Relaxation
from sdpfeas.verifier.facial_reduction import describe_chain
from sdpfeas.verifier.outcome import Proof

if TYPE_CHECKING:
    from collections.abc import Mapping


#: Excluded radius from which the reason of an undecided check names it; small ones interest nobody.
NOTED_RADIUS = 1e3


class Answer:
    """What a :class:`Check` and a :class:`Result` both offer: which constraints contradict each other."""

    @property
    def _analysis(self) -> Any:
        """Conflicts and relaxations of the problem, computed when they are first needed."""
        raise NotImplementedError

    def conflict(
        self, *, prune: bool = False, sets: bool = False, time_limit: float | None = None
    ) -> list[Conflict]:
        """Constraints that contradict each other, largest weight first; empty unless infeasible.

        Constraints of negligible weight are left out if the rest is still proved infeasible.

        Parameters
        ----------
        prune : bool
            Search for a minimal conflict: one that is not proved infeasible without any of its constraints.
            Parts of the problem are solved again, those of the heaviest constraints first.
        sets : bool
            Also list the sets that take part.
        time_limit : float, optional
            Seconds for ``prune``; then the smallest conflict found is returned.
        """
        return list(self._analysis.conflict(prune=prune, sets=sets, time_limit=time_limit))

    def conflicts(self, limit: int = 5, *, time_limit: float | None = None) -> list[list[Conflict]]:
        """Several minimal conflicts; if fewer than ``limit`` are returned in time, these are all.

        Parameters
        ----------
        limit : int
            Most conflicts to search for.
        time_limit : float, optional
            Seconds for everything.
        """
        return list(self._analysis.conflicts(limit, time_limit))

    def relax(
        self,
        weights: Mapping[Any, float] | None = None,
        only: Iterable[Any] | None = None,
        *,
        tol: float = 1e-6,
        time_limit: float | None = None,
    ) -> Relaxation:
        """Bracket the least weighted sum of loosenings that makes the problem feasible, with proofs.

        A row may be violated by an amount at each bound, an LMI (or a semidefinite constraint of a model) by
        a multiple of the identity, a second-order one by a longer bound. Every entry of a vector has an
        amount of its own.

        Parameters
        ----------
        weights : mapping, optional
            Weights of the amounts by constraint; one for all others.
        only : iterable, optional
            The constraints to loosen; by default all rows and LMIs, of a cvxpy model all constraints but no
            attributes of variables. Constraints are given by name, by number (LMIs after the rows), as an
            entry of a conflict, or as objects of a model.
        tol : float
            Relative width of the bracket.
        time_limit : float, optional
            Seconds for everything.

        Returns
        -------
        Relaxation
            The bracket, the loosenings that attain its upper end, and the relaxed problem.
        """
        found: Relaxation = self._analysis.relax(weights, only, tol, time_limit)
        return found

    def loosen(
        self, *, limit: int = 5, tol: float = 1e-3, time_limit: float | None = None
    ) -> list[Relaxation]:
        """Bracket the least loosening of each constraint of the conflict alone, all others unchanged.

        Often none of them helps alone; :meth:`relax` loosens several together.

        Parameters
        ----------
        limit : int
            Most constraints to try, heaviest first.
        tol : float
            Relative width of the brackets.
        time_limit : float, optional
            Seconds for everything.
        """
        return list(self._analysis.loosen(limit, tol, time_limit))

    def __bool__(self) -> bool:
        """Raise TruthError: neither a check nor a result is true or false."""
        name = "result" if isinstance(self, Result) else "check"
        raise TruthError(
            f"a {name} is not true or false: compare {name}.verdict, as in verdict == 'feasible'"
        )


@dataclass(frozen=True)
class Check(Answer):
    """The outcome of verifying a claim.

    Attributes
    ----------
    problem : FeasibilityProblem
        The problem that the claim is about.
    verdict : Verdict
        What is proved.
    proof : Proof or None
        The kind of proof; None if undecided.
    margin : float or None
        Margin relative to the size of the data: for a point the least slack of an inequality row (1 if there
        is none), for a certificate the difference of its two sides.
    reason : str
        What was proved, or why nothing was.
    repairs : tuple of str
        Changes that the verifier made to the claim before it held.
    point, certificate : optional
        The evidence that was verified, repairs included.
    rational : optional
        The evidence as fractions (object arrays) after an exact proof; ``point`` or ``certificate`` is then
        the nearest in floating point.
    chain : Chain, optional
        The facial reduction certificate, if the verdict rests on one.
    reading : Reading
        Which numbers the verdict is about; see ``docs/verdicts.md``.
    malformed : str
        What is wrong with the shape of the claim, if it could not be verified for that reason; else empty.
    excluded_radius : float
        If undecided: no feasible point has a norm up to this, by a rigorous proof; 0.0 if nothing is proved.
        The norm is the largest Frobenius norm of a block in an unbounded set.
    radius : float or None
        If feasible: a proven bound of the Frobenius distance from ``point`` to an exact solution; 0.0 if the
        point is one. None without such a bound: for a numeric verdict, or a rigorous proof on a face.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> builder = sf.ProblemBuilder()
    >>> builder.block("X", sf.PSD(2))
    >>> builder.row("trace", {"X": np.eye(2)}, equal=1)
    >>> check = sf.verify(builder.build(), sf.Claim(point=(np.eye(2) / 2,)), rigorous=True)
    >>> print(check.verdict, check.proof)
    feasible rigorous
    """

    problem: FeasibilityProblem
    verdict: Verdict
    proof: Proof | None
    margin: float | None
    reason: str
    repairs: tuple[str, ...] = ()
    point: Point | None = None
    certificate: FloatArray | None = None
    rational: Any = None
    chain: Chain | None = None
    reading: Reading = Reading.STORED
    malformed: str = ""
    excluded_radius: float = 0.0
    radius: float | None = None

    @property
    def bound(self) -> Any:
        """The bound of the variables that the problem states, as the user gave it; else None."""
        return None if self.problem.bound is None else self.problem.bound.value

    @cached_property
    def _analysis(self) -> Any:
        # It solves parts of the problem. The drivers are above this package, so they are imported by name.
        return import_module("sdpfeas.drivers.infeasibility").ProblemAnalysis(self)

    def explain(self, *, prune: bool = False, limit: int = 10, time_limit: float | None = None) -> str:
        """Explain the verdict in words: what was proved and by what margin.

        Parameters
        ----------
        prune : bool
            For an infeasible problem, first search for a minimal conflict.
        limit : int
            Largest number of conflicting constraints to list.
        time_limit : float, optional
            Seconds for ``prune``.
        """
        lines = [labelled(self), self.reason]
        if self.margin is not None:
            lines.append(f"margin: {self.margin:.3g}, relative to the size of the data")
        if self.radius:
            lines.append(f"distance from the point to it: at most {two_digits(self.radius, ROUND_CEILING)}")
        if self.repairs:
            lines.append("repaired before it held: " + "; ".join(self.repairs))
        if self.verdict == Verdict.FEASIBLE and self.point is not None:
            lines += [lmi_depth(self.problem, j, self.point) for j in range(len(self.problem.lmis))[:limit]]
        if self.chain is not None:
            lines += describe_chain(self.problem, self.chain)
        found = self.conflict(prune=prune, sets=True, time_limit=time_limit)
        return "\n".join(lines + describe_conflict(self.problem, found, limit))

    def __repr__(self) -> str:
        """Verdict, proof and margin in one line."""
        return f"Check: {headline(self)}"

    def _repr_html_(self) -> str:
        """Show the verdict as a card in a notebook."""
        return verdict_card(self).html()


@dataclass(frozen=True)
class Result(Answer):
    """The answer to a problem: a verdict with its evidence, and how the backend found it.

    Attributes
    ----------
    check : Check
        The outcome of the verification.
    claim : Claim
        The claim of the backend.
    backend, version : str
        Which backend ran.
    options : mapping
        Its options, defaults included.
    wall_time : float
        Seconds, verification included.
    solve_time : float
        Seconds spent in the backend, including proofs of the candidates that it offered.
    overshoot : float
        Seconds beyond the time limit.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> builder = sf.ProblemBuilder()
    >>> builder.block("X", sf.PSD(2))
    >>> builder.row("trace", {"X": np.eye(2)}, equal=1)
    >>> result = sf.solve(builder.build())
    >>> print(result.verdict, round(float(np.trace(result["X"])), 6))
    feasible 1.0
    """

    check: Check
    claim: Claim
    backend: str
    version: str
    options: Mapping[str, Any]
    wall_time: float
    solve_time: float
    overshoot: float = 0.0

    @property
    def _analysis(self) -> Any:
        return self.check._analysis

    def certify(self) -> Evidence:
        """Return exact evidence for the verdict, which ``sdpcheck.py`` checks alone; see :func:`certify`."""
        return certify(self.check)

    @property
    def verdict(self) -> Verdict:
        """What is proved."""
        return self.check.verdict

    @property
    def proof(self) -> Proof | None:
        """The kind of proof; None if undecided."""
        return self.check.proof

    @property
    def reading(self) -> Reading:
        """Which numbers the verdict is about."""
        return self.check.reading

    @property
    def margin(self) -> float | None:
        """The margin of the verdict; see :class:`Check`."""
        return self.check.margin

    @property
    def excluded_radius(self) -> float:
        """If undecided, the norm up to which no feasible point exists, rigorously; see :class:`Check`."""
        return self.check.excluded_radius

    @property
    def bound(self) -> Any:
        """The bound of the variables that the verdict is about; None if it holds without one."""
        return self.check.bound

    @property
    def radius(self) -> float | None:
        """If feasible, a proven bound of the distance from the point to an exact solution; see
        :class:`Check`.
        """
        return self.check.radius

    @property
    def problem(self) -> FeasibilityProblem:
        """The problem; with a ``bound`` that the verdict needs, the one with the rows that state it."""
        return self.check.problem

    @property
    def point(self) -> Point | None:
        """The verified point if feasible, else the last one of the backend."""
        return self.claim.point if self.check.point is None else self.check.point

    @property
    def certificate(self) -> FloatArray | None:
        """The verified certificate if infeasible, else the last multipliers of the backend."""
        return self.claim.certificate if self.check.certificate is None else self.check.certificate

    @property
    def chain(self) -> Chain | None:
        """The verified facial reduction certificate if the verdict rests on one, else that of the backend."""
        return self.claim.chain if self.check.chain is None else self.check.chain

    @property
    def reason(self) -> str:
        """What was proved; or why nothing was, and why the backend stopped."""
        if self.verdict is not Verdict.UNDECIDED:
            return self.check.reason
        if self.claim.stop is Stop.FINISHED:
            return self.check.reason
        silent = self.claim.point is None and self.claim.certificate is None
        if silent and self.raw_status and not self.excluded_radius:
            return f"{self.claim.stop}: {self.raw_status}"
        return f"{self.claim.stop}; {self.check.reason}"

    @property
    def stop(self) -> Stop:
        """Why the backend stopped."""
        return self.claim.stop

    @property
    def raw_status(self) -> str:
        """The solver's own status."""
        return self.claim.raw_status

    @property
    def iterations(self) -> int | None:
        """Iterations, as the backend counts them."""
        return self.claim.iterations

    def explain(self, *, prune: bool = False, limit: int = 10, time_limit: float | None = None) -> str:
        """Explain the verdict in words, and how the backend stopped; see :meth:`Check.explain`."""
        status = f"; its own status: {visible(self.raw_status)}" if self.raw_status else ""
        steps = "" if self.iterations is None else f", {self.iterations} iterations"
        tail = f"{self.backend}: {self.stop}{steps}, {self.wall_time:.3g} s{status}"
        return self.check.explain(prune=prune, limit=limit, time_limit=time_limit) + "\n" + tail

    def __getitem__(self, block: str | int) -> FloatArray:
        """The part of the point in one block, by the block's name or its index."""
        if self.point is None:
            raise ClaimError(f"there is no point to take {block!r} from: the verdict is {self.verdict}")
        return self.point[find_block(self.problem, block)]

    def multiplier(self, row: str | int) -> float | FloatArray:
        """The multiplier of one row or LMI, by its name or its index; that of an LMI is a matrix.

        LMIs are numbered after the rows.

        Raises
        ------
        ClaimError
            If there are no multipliers, or no such row or LMI.
        """
        if self.certificate is None:
            raise ClaimError(f"there are no multipliers to take {row!r} from: the verdict is {self.verdict}")
        rows, own = self.problem.split(self.certificate)
        place = find_row(self.problem, row)
        return float(rows[place]) if place < rows.size else own[place - rows.size]

    def __repr__(self) -> str:
        """Verdict, proof, margin, backend and time in one line."""
        return f"Result: {headline(self.check)}, {self.backend} in {self.wall_time:.3g} s"

    def _repr_html_(self) -> str:
        """Show the verdict as a card in a notebook."""
        facts = [("backend", f"{self.backend}: {self.stop}"), ("time", f"{self.wall_time:.3g} s")]
        return verdict_card(self.check, self.reason, facts).html()


def describe_conflict(problem: FeasibilityProblem, found: list[Conflict], limit: int) -> list[str]:
    """Return the lines that list a conflict: rows and LMIs, then sets."""
    lines = []
    rows = [entry for entry in found if entry.block is None]
    if rows:
        whole = sum(entry.weight for entry in rows)
        what = "rows and LMIs" if problem.lmis else "rows"
        lines.append(f"conflicting {what} ({len(rows)}), heaviest first:")
        for entry in rows[:limit]:
            asks = entry.described(problem)
            kind = "row" if entry.lmi is None else "LMI"
            lines.append(f"  {entry.weight / whole:7.2%}  {kind} {entry.name}: {asks}")
        if len(rows) > limit:
            lines.append(f"  … and {len(rows) - limit} more")
        blocks = [entry for entry in found if entry.block is not None]
        named = [f"{entry.name} {entry.described(problem)}" for entry in blocks[:limit]]
        if named:
            lines.append("and with " + ", ".join(named) + (", …" if len(blocks) > limit else ""))
    return lines


def two_digits(number: float, rounding: str) -> str:
    """Format a proven bound, rounded in the direction that keeps it true."""
    return f"{float(Context(prec=2, rounding=rounding).create_decimal_from_float(number)):.2g}"


def with_excluded_radius(check: Check, radius: float) -> Check:
    """Add an excluded radius to an undecided check, and to its reason if it is large."""
    if radius < NOTED_RADIUS:
        return replace(check, excluded_radius=radius)
    excluded = f"no feasible point with norm up to {two_digits(radius, ROUND_FLOOR)} exists (rigorous)"
    reason = f"{check.reason}; {excluded}; beyond that nothing is proved"
    return replace(check, excluded_radius=radius, reason=reason)


#: Largest numbers of conflicts, blocks and matrix rows in a chart of a notebook card.
SHOWN_CONFLICTS = 8
SHOWN_BLOCKS = 6
SHOWN_SIDE = 300


def headline(check: Check) -> str:
    """Verdict, proof and margin; the reason if nothing is proved."""
    if check.proof is None:
        return f"{labelled(check)}: {check.reason}"
    return labelled(check, margin="" if check.margin is None else f", margin {check.margin:.3g}")


def stated(check: Check) -> str:
    """Verdict, and the bound of the variables if the problem states one."""
    return check.verdict.upper() + ("" if check.problem.bound is None else f" within {check.problem.bound}")


def labelled(check: Check, margin: str = "") -> str:
    """Verdict with its proof, and the reading if it is not that of the binary64 data."""
    parts = [f"{check.proof} proof{margin}"] if check.proof else []
    parts += [] if check.reading == "stored" else [f"numbers as {check.reading}"]
    return stated(check) + (f" ({', '.join(parts)})" if parts else "")


def lmi_depth(problem: FeasibilityProblem, j: int, point: Point) -> str:
    """Describe the smallest eigenvalue of an LMI at a point."""
    lmi = problem.lmis[j]
    depth = lmi.set.depth(lmi.value(point))
    return f"  LMI {problem.lmi_name(j)}: least eigenvalue {depth:.3g} inside {lmi.set.described()}"


def verdict_card(check: Check, reason: str = "", facts: Sequence[tuple[str, str]] = ()) -> Card:
    """Return a verdict with its proof and margin as a notebook card, with a chart of the point or of the
    conflict.
    """
    every = [("proof", str(check.proof or "none"))]
    if check.reading != "stored":
        every.append(("numbers", f"as {check.reading}"))
    if check.margin is not None:
        every.append(("margin", f"{check.margin:.3g}, relative to the size of the data"))
    if check.repairs:
        every.append(("repaired", "; ".join(check.repairs)))
    title = f"{counted(len(check.problem.sets), 'block')}, {counted(check.problem.m, 'row')}"
    note = reason or check.reason
    return Card(
        stated(check), str(check.verdict), title, [*every, *facts], picture=_picture(check), note=note
    )


def _picture(check: Check) -> str:
    found = check.conflict(sets=True)
    if found:
        return bars([(each.name, each.weight) for each in found[:SHOWN_CONFLICTS]])
    if check.point is None:
        return ""
    shown: list[tuple[str, list[float]]] = []
    problem = check.problem
    for b, (block, part) in enumerate(zip(problem.sets, check.point, strict=True)):
        if len(shown) < SHOWN_BLOCKS and block.n <= SHOWN_SIDE and not block.free and np.isfinite(part).all():
            with suppress(np.linalg.LinAlgError):
                shown.append((problem.block_name(b), [float(v) for v in block.spectrum(part)]))
    return spectrum(shown)


#: Names that a hint compares and lists.
HINTED = 30


def find_block(problem: FeasibilityProblem, which: str | int) -> int:
    """Return the index of a block, given by its name or its index."""
    return _place(which, problem.block_names, len(problem.sets), "block")


def find_row(problem: FeasibilityProblem, which: str | int) -> int:
    """Return the index of a row or LMI, given by name or index; LMIs are numbered after the rows."""
    if not problem.lmis:
        return _place(which, problem.row_names, problem.m, "row")
    rows = problem.row_names or [""] * problem.m
    names = [*rows, *(lmi.name or "" for lmi in problem.lmis)]
    return _place(which, names, len(names), "row or LMI")


def _place(which: str | int, names: Sequence[str] | None, count: int, what: str) -> int:
    if isinstance(which, str):
        if names is None:
            raise ClaimError(f"{what}s of this problem have no names; use an index below {count}")
        if which not in names:
            near = visible(hint(which, names[:HINTED]))
            raise ClaimError(f"no {what} is called {visible(which)!r}; {near}")
        return names.index(which)
    if isinstance(which, bool) or not hasattr(which, "__index__"):
        raise ClaimError(f"a {what} is given by its name or its index, not by {type(which).__name__}")
    place = which.__index__()
    if not -count <= place < count:
        raise ClaimError(f"there is no {what} {place}: the problem has {count}")
    return place % count
