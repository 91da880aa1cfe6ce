"""What a backend handed in, before anyone checked it: read as plain data, and what its own words claim.

Studies count how often such claims are wrong, and the search as published moves on them.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from sdpfeas.errors import ClaimError, in_words
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.validation import float_array, listed
from sdpfeas.verifier.facial_reduction import Chain
from sdpfeas.verifier.results import Claim
from sdpfeas.verifier.verdicts import Stop, Verdict

__all__ = ["claimed_verdict", "pack_claim", "plain_info", "read_claim", "unpack_claim"]

#: Reasons to stop that come without an answer.
NO_CLAIM = (Stop.ERROR, Stop.UNSUPPORTED, Stop.TIME_LIMIT, Stop.ITERATION_LIMIT)

#: Words that say nothing either way, whatever else stands beside them.
NO_ANSWER = re.compile(
    r"limit|max[_ ]?iter|max_?time|unknown|undecided|error|stall|no further progress|numerical|insufficient|"
    r"infeasible[_ ]or[_ ]unbounded|killed|failed|interrupt",
    re.IGNORECASE,
)
NEGATIVE = re.compile(r"infeasib|unbounded|certificate found", re.IGNORECASE)
#: Words that need no margin beside them; the last margin may well be that of another point.
FOUND = re.compile(r"point found", re.IGNORECASE)
POSITIVE = re.compile(r"optimal|solved|feasible|success|converge", re.IGNORECASE)


def claimed_verdict(claim: Claim) -> Verdict | None:
    """Read the verdict a backend claims; None where it claims none.

    A backend may say it outright in ``info["claimed"]``. Otherwise its status word is read. One that
    maximises a margin is "solved" either way: there the sign of ``info["margin"]`` is the claim.
    """
    said = claim.info.get("claimed")
    if isinstance(said, str) and said in set(Verdict):
        return None if said == Verdict.UNDECIDED else Verdict(said)
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


def read_claim(returned: Any) -> Claim:
    """Read what a backend returned; one that is malformed is a claim without evidence that says so.

    The claim read is made of plain arrays, words and numbers, whatever the backend made it of. Shapes are
    for the verifier to judge, and ``info`` stays as it is.
    """
    try:
        if not isinstance(returned, Claim):
            text = f"solve returned {type(returned).__name__}, not a Claim"
            return Claim(stop=Stop.ERROR, raw_status=text)
        point, certificate = returned.point, returned.certificate
        if point is not None:
            point = tuple(
                _array(part, f"block {b} of the point")
                for b, part in enumerate(
                    listed(point, "a point is a tuple with one array per set", ClaimError)
                )
            )
        return Claim(
            point=point,
            certificate=None if certificate is None else _array(certificate, "the certificate"),
            raw_status=in_words(returned.raw_status),
            stop=Stop(returned.stop),
            iterations=_count(returned.iterations),
            info={in_words(key): value for key, value in dict(returned.info).items()},
            chain=_chain(returned.chain),
        )
    except Exception as error:  # noqa: BLE001 - anything may be wrong with a stranger's claim
        return Claim(stop=Stop.ERROR, raw_status=f"malformed claim: {in_words(error)}")


def pack_claim(claim: Claim) -> dict[str, Any]:
    """A claim as numbers, words, containers and arrays, which any process can read without running code."""
    chain = claim.chain
    steps = chain and [[(int(v.numerator), int(v.denominator)) for v in step] for step in chain.steps]
    return {
        "point": None if claim.point is None else list(claim.point),
        "certificate": claim.certificate,
        "raw_status": claim.raw_status,
        "stop": claim.stop.value,
        "iterations": claim.iterations,
        "info": plain_info(claim.info),
        "chain": chain and (steps, chain.reading),
    }


def unpack_claim(data: Any) -> Claim:
    """The claim that :func:`pack_claim` packed; one that is malformed says so, and holds no evidence."""
    try:
        given: Any = data["chain"]
        if given is not None:
            given = Chain(
                tuple(np.array([Fraction(*v) for v in step], object) for step in given[0]), given[1]
            )
        return read_claim(Claim(**{**data, "chain": given}))
    except Exception as error:  # noqa: BLE001 - anything may be wrong with a stranger's claim
        return Claim(stop=Stop.ERROR, raw_status=f"malformed claim: {in_words(error)}")


def plain_info(info: Mapping[str, Any]) -> dict[str, Any]:
    """What a backend said beside its claim, made of data that any process can load."""
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
            return {in_words(key): _plain(item, depth - 1) for key, item in value.items()}
        if depth and isinstance(value, (list, tuple)):
            return [_plain(item, depth - 1) for item in value]
    except Exception:  # noqa: BLE001 - a stranger's value may raise anything
        return f"<{type(value).__name__}>"
    return in_words(value)


def _chain(given: Any) -> Chain | None:
    return None if given is None else Chain(given.steps, given.reading)


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
        raise ClaimError("iterations are no count")
    return count
