"""Claims: the untrusted answers of backends.

A backend returns a :class:`Claim`: a point, dual multipliers (a Farkas certificate) or a facial reduction
certificate, and its own status. A claim is evidence, never a verdict: :func:`sdpfeas.verify` checks it
against the original data. :func:`read_claim` validates a claim of a foreign backend, :func:`pack_claim`
serialises one for another process, and :func:`claimed_verdict` maps solver status words to the verdict they
assert, so that studies can count how often a status is wrong.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.errors import ClaimError, TruthError, safe_text
from sdpfeas.numerics.exact_arithmetic import Reading
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import Point
from sdpfeas.problem.reductions.base import Reduction
from sdpfeas.problem.validation import float_array, listed

__all__ = [
    "Chain",
    "Claim",
    "Stop",
    "Verdict",
    "claimed_verdict",
    "malformed_claim",
    "pack_claim",
    "plain_info",
    "read_claim",
    "unpack_claim",
]


class Verdict(StrEnum):
    """What is known about a problem; only the verifier grants FEASIBLE and INFEASIBLE.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> sf.Verdict.FEASIBLE == "feasible"
    True
    """

    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNDECIDED = "undecided"

    def __bool__(self) -> bool:
        """Raise TruthError: there are three verdicts, so none of them is true or false."""
        raise TruthError(
            "a verdict is one of three, not true or false: compare it, as in verdict == 'feasible'"
        )


class Stop(StrEnum):
    """Why a backend stopped.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> sf.Claim(stop=sf.Stop.TIME_LIMIT).stop.value
    'time limit'
    """

    FINISHED = "finished"
    TIME_LIMIT = "time limit"
    ITERATION_LIMIT = "iteration limit"
    CALLBACK = "stopped by the callback"
    STALLED = "no further progress"
    NUMERICAL = "numerical trouble"
    UNSUPPORTED = "problem not supported"
    ERROR = "error"


@dataclass(frozen=True, eq=False)
class Chain:
    """Facial reduction certificate: exposing vectors for a chain of faces, in exact arithmetic.

    Let ``beta(y)`` be the sum of ``y_i * lower_i`` over positive and ``y_i * upper_i`` over negative
    multipliers. If ``y`` uses finite bounds only, ``beta(y) = 0``, and ``-A*y`` is in the dual cone of the
    current face, then ``<-A*y, X> = 0`` at every feasible ``X``: the exposing vector ``-A*y`` cuts out a
    smaller face that contains all feasible points, and rows with a nonzero multiplier hold with equality
    (Borwein and Wolkowicz 1981). If ``beta(y) > 0`` there is no feasible point. A certificate of
    infeasibility ends with such a step. With one step it is a Farkas certificate; weakly infeasible problems
    need more.

    Parameters
    ----------
    steps : sequence
        One vector per step, with one multiplier per row, then one per entry of every LMI: fractions,
        integers or floats, used exactly as given.
    reading : {"stored", "written"}
        Which numbers it is about: the binary64 data of the problem, or the decimals and fractions that they
        were rounded from.

    Raises
    ------
    ClaimError
        If a step is not a vector of finite numbers.

    Examples
    --------
    A positive semidefinite matrix with a zero on its diagonal has zeros beside it. The first step exposes the
    face ``X[1, 1] = 0``, on which the second row reads ``0 = 1``.

    >>> import sdpfeas as sf
    >>> builder = sf.ProblemBuilder()
    >>> builder.block("X", sf.PSD(2))
    >>> builder.row("corner", {"X": [[0, 0], [0, 1]]}, equal=0)
    >>> builder.row("beside", {"X": [[0, 1], [1, 0]]}, equal=1)
    >>> check = sf.verify(builder.build(), sf.Claim(chain=sf.Chain([[-1, 0], [0, 1]])))
    >>> print(check.verdict, check.proof)
    infeasible exact
    """

    steps: tuple[np.ndarray, ...]
    reading: Reading = Reading.STORED

    def __post_init__(self) -> None:
        if self.reading not in tuple(Reading):
            known = ", ".join(Reading)
            raise ClaimError(f"the reading of a chain must be one of {known}; got {self.reading!r}")
        object.__setattr__(self, "reading", Reading(self.reading))
        given = listed(self.steps, "a chain is a list of steps, each with one multiplier per row", ClaimError)
        steps = tuple(_fractions(step, k) for k, step in enumerate(given))
        object.__setattr__(self, "steps", steps)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.steps)

    def then(self, *steps: np.ndarray) -> Chain:
        """Return the chain with more steps at its end."""
        return Chain((*self.steps, *steps), self.reading)


def _fractions(step: Any, k: int) -> np.ndarray:
    if isinstance(step, np.ndarray) and step.ndim != 1:
        raise ClaimError(f"step {k} of a chain has shape {step.shape}: one multiplier per row is needed")
    if isinstance(step, (str, bytes)) or not isinstance(step, Iterable):
        raise ClaimError(f"step {k} of a chain is no vector")
    values = list(step)
    out = np.empty(len(values), dtype=object)
    try:
        out[:] = [Fraction(v.item() if isinstance(v, np.generic) else v) for v in values]
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        raise ClaimError(f"step {k} of a chain holds an entry that is not a finite number") from None
    out.setflags(write=False)
    return out


@dataclass(frozen=True)
class Claim:
    """The answer of a backend, before verification.

    Attributes
    ----------
    point : tuple of ndarray, optional
        One array per set.
    certificate : ndarray, optional
        Dual multipliers: one per row, then the entries of the multiplier of every LMI.
    raw_status : str
        The solver's own status, unchanged.
    stop : Stop
        Why the backend stopped.
    iterations : int, optional
        Iterations, as the backend counts them.
    info : mapping
        Anything else. The verdict that the backend asserts may be given as ``info["claimed"]``.
    chain : Chain, optional
        A facial reduction certificate. Its last step proves infeasibility, or ``point`` lies on the last
        face.
    rational : tuple of ndarray or ndarray, optional
        ``point`` (a tuple) or ``certificate`` (an array) before it was rounded to doubles: object arrays of
        fractions, verified exactly as given.

    Examples
    --------
    >>> import numpy as np
    >>> import sdpfeas as sf
    >>> builder = sf.ProblemBuilder()
    >>> builder.block("X", sf.PSD(2))
    >>> builder.row("trace", {"X": np.eye(2)}, equal=1)
    >>> print(sf.verify(builder.build(), sf.Claim(point=(np.eye(2) / 2,)), rigorous=True).verdict)
    feasible
    """

    point: Point | None = None
    certificate: FloatArray | None = None
    raw_status: str = ""
    stop: Stop = Stop.FINISHED
    iterations: int | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    chain: Chain | None = None
    rational: Any = None

    def back(self, reduction: Reduction) -> Claim:
        """Map a claim about a reduced problem to one about the original problem."""
        point, y = self.point, self.certificate
        return replace(
            self,
            point=None if point is None else reduction.point(point),
            certificate=None if y is None else reduction.multipliers(y),
            # These must be exact, and reductions map evidence in floating-point arithmetic.
            chain=None,
            rational=None,
        )


#: Stop reasons without an answer.
NO_CLAIM = (Stop.ERROR, Stop.UNSUPPORTED, Stop.TIME_LIMIT, Stop.ITERATION_LIMIT)

#: Status words without an answer, whatever else the status contains.
NO_ANSWER = re.compile(
    r"limit|max[_ ]?iter|max_?time|unknown|undecided|error|stall|no further progress|numerical|insufficient|"
    r"infeasible[_ ]or[_ ]unbounded|killed|failed|interrupt",
    re.IGNORECASE,
)
NEGATIVE = re.compile(r"infeasib|unbounded|certificate found", re.IGNORECASE)
#: Status words that override ``info["margin"]``, which may belong to another iterate.
FOUND = re.compile(r"point found", re.IGNORECASE)
POSITIVE = re.compile(r"optimal|solved|feasible|success|converge", re.IGNORECASE)


def claimed_verdict(claim: Claim) -> Verdict | None:
    """Return the verdict that a backend asserts; None if it asserts none.

    ``info["claimed"]`` states it explicitly. Otherwise the status is matched against known words. A backend
    that maximises a margin reports "solved" in both cases; then the sign of ``info["margin"]`` decides.
    """
    stated = claim.info.get("claimed")
    if isinstance(stated, str) and stated in set(Verdict):
        return None if stated == Verdict.UNDECIDED else Verdict(stated)
    status = claim.raw_status
    if claim.stop in NO_CLAIM or NO_ANSWER.search(status):
        return None
    if NEGATIVE.search(status):
        return Verdict.INFEASIBLE
    if FOUND.search(status):
        return Verdict.FEASIBLE
    margin = claim.info.get("margin")
    if isinstance(margin, (int, float)) and math.isfinite(margin) and margin != 0.0:
        return Verdict.FEASIBLE if margin > 0.0 else Verdict.INFEASIBLE
    if POSITIVE.search(status):
        return Verdict.FEASIBLE
    if claim.stop is Stop.FINISHED and (claim.point is None) != (claim.certificate is None):
        return Verdict.INFEASIBLE if claim.point is None else Verdict.FEASIBLE
    return None


def malformed_claim(detail: str) -> Claim:
    """Return the claim that stands for one that could not be read; ``info["malformed"]`` is the detail."""
    return Claim(stop=Stop.ERROR, raw_status=f"malformed claim: {detail}", info={"malformed": detail})


def read_claim(returned: Any) -> Claim:
    """Validate the return value of a backend and copy it to plain arrays, strings and numbers.

    Returns :func:`malformed_claim` for one that cannot be read. Shapes are left to the verifier, and the
    values of ``info`` are kept.
    """
    try:
        if not isinstance(returned, Claim):
            text = f"solve returned {type(returned).__name__}, not a Claim"
            return Claim(stop=Stop.ERROR, raw_status=text)
        point, certificate, chain = returned.point, returned.certificate, returned.chain
        if point is not None:
            parts = listed(point, "a point is a tuple with one array per set", ClaimError)
            point = tuple(_array(part, f"block {b} of the point") for b, part in enumerate(parts))
        return Claim(
            point=point,
            certificate=None if certificate is None else _array(certificate, "the certificate"),
            raw_status=safe_text(returned.raw_status),
            stop=Stop(returned.stop),
            iterations=_count(returned.iterations),
            info={safe_text(key): value for key, value in dict(returned.info).items()},
            chain=None if chain is None else Chain(chain.steps, chain.reading),
            rational=_rational(returned.rational),
        )
    except Exception as error:  # noqa: BLE001 - foreign objects may raise anything
        return malformed_claim(safe_text(error))


def pack_claim(claim: Claim) -> dict[str, Any]:
    """Serialise a claim to numbers, strings, containers and arrays, which load without running code."""
    chain = claim.chain
    steps = chain and [[(int(v.numerator), int(v.denominator)) for v in step] for step in chain.steps]
    return {
        "point": None if claim.point is None else list(claim.point),
        "certificate": claim.certificate,
        "raw_status": claim.raw_status,
        "stop": claim.stop.value,
        "iterations": claim.iterations,
        "info": plain_info(claim.info),
        "chain": chain and (steps, chain.reading.value),
        "rational": _map_rational(claim.rational, _pack_fractions),
    }


def unpack_claim(data: Any) -> Claim:
    """Read the output of :func:`pack_claim`; returns :func:`malformed_claim` if that fails."""
    try:
        given: Any = data["chain"]
        if given is not None:
            given = Chain(
                tuple(np.array([Fraction(*v) for v in step], object) for step in given[0]), given[1]
            )
        rational = _map_rational(data["rational"], _unpack_fractions)
        return read_claim(Claim(**{**data, "chain": given, "rational": rational}))
    except Exception as error:  # noqa: BLE001 - foreign objects may raise anything
        return malformed_claim(safe_text(error))


def _map_rational(rational: Any, convert: Callable[[Any], Any]) -> Any:
    """Convert every array of rational evidence; None stays None."""
    if isinstance(rational, (tuple, list)):
        return tuple(convert(part) for part in rational)
    return None if rational is None else convert(rational)


def _pack_fractions(array: np.ndarray) -> dict[str, Any]:
    pairs = [(int(v.numerator), int(v.denominator)) for v in array.reshape(-1)]
    return {"shape": list(array.shape), "fractions": pairs}


def _unpack_fractions(data: Any) -> np.ndarray:
    flat = np.empty(len(data["fractions"]), dtype=object)
    flat[:] = [Fraction(*pair) for pair in data["fractions"]]
    return flat.reshape(data["shape"])


def _rational(given: Any) -> Any:
    """Validate rational evidence: object arrays of fractions."""

    def read(part: Any) -> np.ndarray:
        array = np.asarray(part)
        if array.dtype != object or not all(isinstance(v, Fraction) for v in array.reshape(-1)):
            raise ClaimError("rational evidence must be object arrays of fractions")
        return array

    return _map_rational(given, read)


def plain_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values of ``Claim.info`` to data that any process can load."""
    return {key: _plain(value) for key, value in info.items()}


def _plain(value: Any, depth: int = 4) -> Any:
    try:
        if value is None or isinstance(value, (bool, np.bool_)):
            return None if value is None else bool(value)
        if isinstance(value, (int, np.integer)):
            # Python refuses to print very long integers.
            return int(value) if abs(int(value)) < 2**63 else f"{int(value):.6e}"
        if isinstance(value, (float, np.floating)):
            return float(value)
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return np.array(value)
        if depth and isinstance(value, Mapping):
            return {safe_text(key): _plain(item, depth - 1) for key, item in value.items()}
        if depth and isinstance(value, (list, tuple)):
            return [_plain(item, depth - 1) for item in value]
    except Exception:  # noqa: BLE001 - foreign objects may raise anything
        return f"<{type(value).__name__}>"
    return safe_text(value)


def _array(values: Any, what: str) -> FloatArray:
    if type(values) is np.ndarray and values.dtype == np.float64:
        return values
    return float_array(values, what, ClaimError)


def _count(value: Any) -> int | None:
    if value is None:
        return None
    whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
    count = int(value) if whole else operator.index(value)
    if not 0 <= count < 2**63:
        raise ClaimError("iterations must be a count")
    return count
