"""Save and load results with their evidence (``.npz``): :func:`save_result`, :func:`load_result`."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.claims import Chain, Claim, Stop, Verdict
from sdpfeas.errors import ClaimError
from sdpfeas.extras import installed_version
from sdpfeas.files import writing
from sdpfeas.npz import Format, load
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.verifier.results import Result

FORMAT = Format("result", 1)

#: Fields of the header besides the evidence, with their types.
FIELDS: dict[str, tuple[type, ...]] = {
    "verdict": (str,),
    "proof": (str, type(None)),
    "backend": (str,),
    "version": (str,),
    "options": (dict,),
    "raw_status": (str,),
    "stop": (str,),
    "iterations": (int, type(None)),
    "wall_time": (float, int),
    "solve_time": (float, int),
    "versions": (dict,),
    "reading": (str,),
    "bound": (float, int, dict, type(None)),
    "radius": (float, int, type(None)),
}

#: Fields that older files lack; they are None.
OPTIONAL = ("bound", "radius")

#: Packages with versions in the file, to explain differences when an old result is checked again.
PACKAGES = ("sdpfeas", "numpy", "scipy", "cvxpy", "clarabel", "scs")


@dataclass(frozen=True)
class SavedResult:
    """A result read from a file; it proves nothing until it is verified again.

    ``problem_hash`` is the content hash of the problem. ``verdict`` and ``proof`` are those of the time of
    writing. ``rational`` is the evidence of an exact proof in fractions, as object arrays of the same shapes.
    ``chain`` is the facial reduction certificate of the verdict, or of the backend. ``bound`` is the bound of
    the variables if the problem is one with rows that state it, and ``radius`` as in :class:`Check`.
    """

    problem_hash: str
    verdict: str
    proof: str | None
    point: Point | None
    certificate: FloatArray | None
    backend: str = ""
    version: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    raw_status: str = ""
    stop: str = Stop.FINISHED.value
    iterations: int | None = None
    wall_time: float = 0.0
    solve_time: float = 0.0
    versions: Mapping[str, str] = field(default_factory=dict)
    rational: Any = None
    reading: str = "stored"
    chain: Chain | None = None
    bound: Any = None
    radius: float | None = None

    def about(self, problem: FeasibilityProblem) -> FeasibilityProblem:
        """Return the problem that the result is about: the given one, with the rows of the stored bound.

        Raises ``ClaimError`` if it is about another problem.
        """
        if problem.content_hash == self.problem_hash:
            return problem
        stated = problem if self.bound is None else problem.bounded(self.bound)
        if stated.content_hash != self.problem_hash:
            raise ClaimError("the answer is about another problem: the content hash differs")
        return stated

    @property
    def claim(self) -> Claim:
        """The evidence as a claim, to verify it again."""
        stop = Stop(self.stop) if self.stop in set(Stop) else Stop.FINISHED
        return Claim(
            point=self.point,
            certificate=self.certificate,
            raw_status=self.raw_status,
            stop=stop,
            iterations=self.iterations,
            chain=self.chain,
            rational=self.rational,
        )

    @classmethod
    def of(cls, result: Result) -> SavedResult:
        """Extract what is saved of a result: the verified evidence, or without one the backend's."""
        held = {each.name: getattr(result, each.name) for each in fields(cls) if hasattr(result, each.name)}
        plain = {name: v.value if isinstance(v, Enum) else v for name, v in held.items()}
        own = {"rational": result.check.rational, "versions": package_versions()}
        return cls(problem_hash=result.problem.content_hash, **plain | own)


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that take part in a result."""
    found = {name: installed_version(name) for name in PACKAGES}
    return {"python": platform.python_version()} | {name: v for name, v in found.items() if v is not None}


def save_result(result: Result | SavedResult, path: str | PathLike[str]) -> None:
    """Write a result with its evidence; no extension is added to ``path``."""
    with writing(path):
        Path(path).write_bytes(pack_result(result))


def load_result(path: str | PathLike[str]) -> SavedResult:
    """Read a file of :func:`save_result`; raise ``FileFormatError`` if it is malformed or missing."""
    return load(path, unpack_result)


def pack_result(result: Result | SavedResult) -> bytes:
    """Serialise a result."""
    saved = SavedResult.of(result) if isinstance(result, Result) else result
    arrays: dict[str, np.ndarray] = {}
    if saved.point is not None:
        arrays.update({f"point{b}": np.asarray(x) for b, x in enumerate(saved.point)})
    if saved.certificate is not None:
        arrays["certificate"] = np.asarray(saved.certificate)
    if saved.rational is not None:
        parts = saved.rational if isinstance(saved.rational, tuple) else (saved.rational,)
        arrays.update({f"rational{b}": _fractions_to_text(x) for b, x in enumerate(parts)})
    steps = () if saved.chain is None else saved.chain.steps
    arrays.update({f"chain{k}": _fractions_to_text(y) for k, y in enumerate(steps)})
    header = {
        "problem": saved.problem_hash,
        "blocks": None if saved.point is None else len(saved.point),
        **{name: getattr(saved, name) for name in FIELDS},
        "options": dict(saved.options),
        "versions": dict(saved.versions),
    }
    if saved.chain is not None:
        header["chain"] = {"steps": len(steps), "rows": _rows(saved.chain), "reading": saved.chain.reading}
    return FORMAT.pack(header, arrays, default=_plain)


def _rows(chain: Chain) -> int:
    return chain.steps[0].size if chain.steps else 0


def _chain(header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Chain | None:
    """Parse the facial reduction certificate, if there is one."""
    held = header.get("chain")
    if held is None:
        return None
    count, rows = held["steps"], held["rows"]
    if not all(isinstance(v, int) and v >= 0 for v in (count, rows)):
        raise ValueError("a facial reduction certificate of invalid size")
    steps = tuple(_fractions_from_text(arrays[f"chain{k}"], (rows,)) for k in range(count))
    try:
        return Chain(steps, held["reading"])
    except ClaimError as error:
        raise ValueError(str(error)) from None


def _fractions_to_text(array: np.ndarray) -> np.ndarray:
    """Format fractions as ASCII text, in hexadecimal: Python limits the length of decimal numbers only."""
    words = (f"{v.numerator:x}/{v.denominator:x}" for v in array.reshape(-1))
    return np.frombuffer(" ".join(words).encode(), dtype=np.uint8)


def _fractions_from_text(text: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    out = np.empty(math.prod(shape), dtype=object)
    words = [word.split("/") for word in text.tobytes().decode("ascii").split()]
    pairs = [(int(top, 16), int(bottom, 16)) for top, bottom in words]
    if any(bottom == 0 for _, bottom in pairs):
        raise ValueError("a fraction with denominator zero")
    out[:] = [Fraction(*pair) for pair in pairs]
    return out.reshape(shape)


def _rational(arrays: Mapping[str, np.ndarray], saved: SavedResult) -> Any:
    """Parse the evidence in fractions, if there is any."""
    if "rational0" not in arrays:
        return None
    if saved.verdict == Verdict.FEASIBLE:
        return tuple(
            _fractions_from_text(arrays[f"rational{b}"], x.shape) for b, x in enumerate(saved.point or ())
        )
    if saved.certificate is None:
        raise ValueError("fractions of a certificate without the certificate")
    return _fractions_from_text(arrays["rational0"], saved.certificate.shape)


def _plain(value: Any) -> Any:
    """Convert a NumPy number, or any other option value, for JSON."""
    return value.item() if isinstance(value, np.generic) else str(value)


def unpack_result(data: bytes) -> SavedResult:
    """Parse the bytes of a result file; raise ``FileFormatError`` if they are malformed."""
    with FORMAT.unpack(data) as (header, arrays):
        values: dict[str, Any] = dict.fromkeys(OPTIONAL)
        values |= {name: header[name] for name in FIELDS if name in header or name not in OPTIONAL}
        for name, kinds in FIELDS.items():
            value = values[name]
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise ValueError(f"{name} is {value!r:.80}")
        blocks = header["blocks"]
        saved = SavedResult(
            problem_hash=str(header["problem"]),
            point=None if blocks is None else tuple(arrays[f"point{b}"] for b in range(blocks)),
            certificate=arrays.get("certificate"),
            **values,
        )
        return replace(saved, rational=_rational(arrays, saved), chain=_chain(header, arrays))
