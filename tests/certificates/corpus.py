"""Valid evidence of every kind, and wrong evidence that every checker must refuse.

``python tests/certificates/corpus.py FOLDER`` writes both as JSON files, ``valid-*.json`` and
``wrong-*.json``, for checkers in other languages. The generator is deterministic.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sdpfeas as sf
from sdpfeas import sdpcheck
from sdpfeas.certifier.certify import Evidence, certify_optimum

Document = dict[str, Any]


def _solved(problem: sf.FeasibilityProblem, claim: sf.Claim) -> Document:
    check = sf.verify(problem, claim, exact=True)
    made = sf.certify(check)
    return made.document | {"problem": made.problem}


def _held(made: Evidence) -> Document:
    return made.document | {"problem": made.problem}


def valid() -> dict[str, Document]:
    """Return valid evidence of every kind, each with its problem."""
    eye, off = np.eye(2), np.array([[0.0, 0.5], [0.5, 0.0]])
    out: dict[str, Document] = {}
    trace = sf.FeasibilityProblem([sf.PSD(2)], [np.array([eye, off])], [1.0, 0.25], [1.0, np.inf])
    out["feasible-psd"] = _solved(trace, sf.Claim(point=(np.array([[0.5, 0.3], [0.3, 0.5]]),)))
    edge = sf.FeasibilityProblem([sf.PSD(2)], [np.array([eye, off])], [1.0, 0.5], [1.0, np.inf])
    out["feasible-singular"] = _solved(edge, sf.Claim(point=(np.full((2, 2), 0.5),)))
    apart = sf.FeasibilityProblem([sf.PSD(2)], [np.array([eye, off])], [1.0, 0.625], [1.0, np.inf])
    out["infeasible-psd"] = _solved(apart, sf.Claim(certificate=np.array([-1.0, 2.0])))
    linear = sf.FeasibilityProblem(
        [sf.Nonneg(2), sf.Free(1)],
        [np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[0.0], [1.0]])],
        [3.0, -1.0],
        [3.0, -1.0],
    )
    out["feasible-linear"] = _solved(linear, sf.Claim(point=(np.array([1.0, 2.0]), np.array([-2.0]))))
    signs = sf.FeasibilityProblem(
        [sf.Nonneg(2)], [np.array([[1.0, 2.0], [-1.0, -1.0]])], [-np.inf, -np.inf], [2.0, -3.0]
    )
    out["infeasible-linear"] = _solved(signs, sf.Claim(certificate=np.array([-1.0, -1.0])))
    interval = sf.LMI(sf.PSD(2), eye, [np.array([[[0.0, 1.0], [1.0, 0.0]]])])
    lmi = sf.FeasibilityProblem([sf.Free(1)], [np.array([[1.0]])], [0.5], [np.inf], lmis=[interval])
    out["feasible-lmi"] = _solved(lmi, sf.Claim(point=(np.array([0.75]),)))
    lmi = sf.FeasibilityProblem([sf.Free(1)], [np.array([[1.0]])], [1.5], [np.inf], lmis=[interval])
    out["infeasible-lmi"] = _solved(lmi, sf.Claim(certificate=np.array([2.0, 1.0, -1.0, -1.0, 1.0])))
    cone = sf.FeasibilityProblem([sf.SecondOrder(3)], [np.eye(3)], [5.0, 3.0, 4.0], [5.0, 3.0, 4.0])
    out["feasible-second-order"] = _solved(cone, sf.Claim(point=(np.array([5.0, 3.0, 4.0]),)))
    cone = sf.FeasibilityProblem([sf.SecondOrder(3)], [np.eye(3)], [4.0, 3.0, 4.0], [4.0, 3.0, 4.0])
    out["infeasible-second-order"] = _solved(cone, sf.Claim(certificate=np.array([-5.0, 3.0, 4.0])))
    complex_rows = np.array([np.eye(2), [[0.0, 1.0j], [-1.0j, 0.0]]])
    rows = sf.HermitianPSD(2).coordinates(complex_rows)
    hermitian = sf.FeasibilityProblem([sf.HermitianPSD(2)], [rows], [1.0, 0.5], [1.0, np.inf])
    x = sf.HermitianPSD(2).coordinates(np.array([[0.5, 0.25j], [-0.25j, 0.5]]))
    x = (
        x
        if float(np.vdot(rows[1], x)) >= 0.5
        else sf.HermitianPSD(2).coordinates(np.array([[0.5, -0.25j], [0.25j, 0.5]]))
    )
    out["feasible-hermitian"] = _solved(hermitian, sf.Claim(point=(x,)))
    hermitian = sf.FeasibilityProblem([sf.HermitianPSD(2)], [rows], [1.0, 1.5], [1.0, np.inf])
    out["infeasible-hermitian"] = _solved(hermitian, sf.Claim(certificate=np.array([-1.0, 1.0])))
    box = sf.SpectralBox(2, 0.0, 1.0, 1.0)
    low = sf.FeasibilityProblem([box], [np.diag([1.0, 0.0])[None]], [0.75], [np.inf])
    out["feasible-box"] = _solved(low, sf.Claim(point=(np.diag([0.8, 0.2]),)))
    high = sf.FeasibilityProblem([box], [np.diag([1.0, 0.0])[None]], [1.25], [np.inf])
    out["infeasible-box"] = _solved(high, sf.Claim(certificate=np.array([1.0])))
    pairs = sf.PairwiseDifference(np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]))
    terms = sf.FeasibilityProblem([sf.PSD(2)], [pairs], [1.0] * 3, [4.0] * 3)
    out["feasible-terms"] = _solved(terms, sf.Claim(point=(1.5 * eye,)))
    weak = sf.FeasibilityProblem(
        [sf.PSD(2)], [np.array([np.diag([0.0, 1.0]), 2 * off])], [0.0, 1.0], [0.0, 1.0]
    )
    out["infeasible-face"] = _solved(weak, sf.Claim(chain=sf.Chain([[-1, 0], [0, 1]])))
    value = sf.LMI(sf.PSD(2), np.array([[0.0, 1.0], [1.0, 0.0]]), [np.array([[[1.0, 0.0], [0.0, 0.0]]])])
    weak_lmi = sf.FeasibilityProblem([sf.Free(1)], [None], [], [], lmis=[value])
    out["infeasible-face-lmi"] = _solved(weak_lmi, sf.Claim(chain=sf.Chain([[0, 0, 0, 1], [0, -1, -1, 0]])))
    program = sf.FeasibilityProblem(
        [sf.PSD(2)], [np.array([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])])], [1.0, 1.0], [1.0, 1.0]
    )
    for sense in ("min", "max"):
        objective = sf.Objective((np.array([[0.0, 0.5], [0.5, 0.0]]),), sense, 1.0)  # type: ignore[arg-type]
        found = sf.optimum(program, objective)
        out[f"bracket-{sense}"] = _held(certify_optimum(program, objective, found))
    return out


# --- wrong evidence


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every number, list and object below a value."""
    yield path
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from _paths(child, (*path, key))


def _get(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _changed(document: Document, path: tuple[Any, ...], new: Any) -> Document:
    out = copy.deepcopy(document)
    _get(out, path[:-1])[path[-1]] = new
    return out


#: Values that are no numbers of the format.
MALFORMED: tuple[Any, ...] = (
    True, False, None, 0.5, "", " 1", "1 ", "+1", "01", "1.5", "1e3", "1/0", "1/-2", "-/2", "0x", "0x1p",
    "0x1.p0", "0x1p999999", "0X1P0", "1_0", "\u0661", "nan", "NaN", "inf", "Infinity", "-0x", "1/2/3",
    "0x1/0x0", [], {}, [1], "1\n",
)  # fmt: skip


def wrong() -> Iterator[tuple[str, Document]]:
    """Yield wrong evidence: what is wrong, and the document with its problem."""
    good = valid()
    simple = good["feasible-psd"]
    for k, bad in enumerate(MALFORMED):
        yield f"malformed-number-{k}", _changed(simple, ("primal", "point", 0, 0), bad)
        yield f"malformed-factor-{k}", _changed(simple, ("primal", "sets", 0, "factor", 0, 0), bad)
        if bad is not None:  # no bound
            yield f"malformed-bound-{k}", _changed(simple, ("problem", "rows", 0, "lower"), bad)
    for name, document in good.items():
        yield from _traps(name, document)
        yield from _numbers(name, document)


def _traps(name: str, document: Document) -> Iterator[tuple[str, Document]]:
    """Yield hand-made traps: another problem, kind or format, missing and additional parts."""
    yield f"{name}-other-problem", document | {"problem": "0" * 64}
    yield f"{name}-short-hash", document | {"problem": sdpcheck.digest(document["problem"])[:32]}
    yield f"{name}-format", document | {"format": "sdpfeas evidence 2"}
    yield f"{name}-problem-format", _changed(document, ("problem", "format"), "sdpfeas problem 2")
    yield f"{name}-unknown-key", document | {"trust": "me"}
    opposite = {"feasible": "infeasible", "infeasible": "feasible", "bracket": "feasible"}[document["kind"]]
    yield (
        f"{name}-other-kind",
        {k: v for k, v in document.items() if k not in ("lower", "upper")} | {"kind": opposite},
    )
    yield f"{name}-no-kind", {k: v for k, v in document.items() if k != "kind"}
    yield f"{name}-unknown-set", _changed(document, ("problem", "sets", 0, "kind"), "Cone")
    yield f"{name}-empty-set", _changed(document, ("problem", "sets", 0, "n"), 0)
    if document["problem"]["sets"][0]["kind"] == "PSD":
        yield f"{name}-larger-set", _changed(document, ("problem", "sets", 0, "n"), 7)
    for part in ("primal", "dual", "steps"):
        if part in document:
            yield f"{name}-no-{part}", {k: v for k, v in document.items() if k != part}
            for path in _paths(document[part]):
                here = _get(document[part], path)
                if (
                    isinstance(here, list)
                    and path
                    and path[-1] in ("point", "sets", "lmis", "rows", "multipliers")
                ):
                    yield (
                        f"{name}-longer-{part}-{'.'.join(map(str, path))}",
                        _changed(document, (part, *path), [*here, None]),
                    )
                    if here:
                        shorter = _changed(document, (part, *path), here[:-1])
                        yield f"{name}-shorter-{part}-{'.'.join(map(str, path))}", shorter
                if isinstance(here, dict) and "factor" in here and len(here["factor"]):
                    yield (
                        f"{name}-no-proof-{part}-{'.'.join(map(str, path))}",
                        _changed(document, (part, *path), None),
                    )
    if document["kind"] == "bracket":
        yield f"{name}-ends-exchanged", document | {"lower": document["upper"], "upper": document["lower"]}
        yield f"{name}-lower-too-good", document | {"lower": "3"}
        yield f"{name}-upper-too-good", document | {"upper": "-3"}
        yield f"{name}-no-end", document | {"lower": None}
        other = "min" if document["problem"]["objective"]["sense"] == "max" else "max"
        yield f"{name}-other-sense", _changed(document, ("problem", "objective", "sense"), other)
        no_objective = {k: v for k, v in document["problem"].items() if k != "objective"}
        yield f"{name}-no-objective", document | {"problem": no_objective}
    if "steps" in document:
        yield f"{name}-step-twice-removed", {k: v for k, v in document.items() if k != "steps"}
        turned = copy.deepcopy(document)
        for step in turned["steps"]:
            step["rows"] = [-v if isinstance(v, int) else f"-{v}" for v in step["rows"]]
            step["multipliers"] = [
                [-v if isinstance(v, int) else f"-{v}" for v in part] for part in step["multipliers"]
            ]
        yield f"{name}-step-turned", turned
        for k in range(len(document["steps"])):
            zero = copy.deepcopy(document)
            zero["steps"][k]["rows"] = [0] * len(zero["steps"][k]["rows"])
            zero["steps"][k]["multipliers"] = [[0] * len(part) for part in zero["steps"][k]["multipliers"]]
            yield f"{name}-step-{k}-exposes-nothing", zero
    rows = document["problem"]["rows"]
    for i, row in enumerate(rows):
        for b, part in enumerate(row["blocks"]):
            entries = part.get("entries", [])
            if (
                entries
                and len(entries[0]) == 3
                and document["problem"]["sets"][part["block"]]["kind"] == "PSD"
            ):
                above = [[0, 1, 1], *entries]
                yield (
                    f"{name}-above-diagonal-{i}-{b}",
                    _changed(document, ("problem", "rows", i, "blocks", b, "entries"), above),
                )
            if entries:
                twice = [*entries, entries[0]]
                yield (
                    f"{name}-entry-twice-{i}-{b}",
                    _changed(document, ("problem", "rows", i, "blocks", b, "entries"), twice),
                )


def _numbers(name: str, document: Document) -> Iterator[tuple[str, Document]]:
    """Yield mutants: one number of the evidence changed, those that are refused."""
    changes: dict[str, Callable[[Any], Any]] = {
        "negated": lambda v: sdpcheck.number(v) * -1,
        "larger": lambda v: sdpcheck.number(v) + 1000,
        "smaller": lambda v: sdpcheck.number(v) - 1000,
        "huge": lambda _: 10**60,
    }
    for part in ("primal", "dual", "steps"):
        for path in _paths(document.get(part, [])):
            here = _get(document[part], path) if path else None
            if path and type(here) in (int, str) and "free" not in path:
                for change, apply in changes.items():
                    value = apply(here)
                    if value == sdpcheck.number(here):
                        continue
                    mutant = _changed(document, (part, *path), str(value))
                    if not _still_right(mutant):
                        yield f"{name}-{change}-{part}-{'.'.join(map(str, path))}", mutant


def _still_right(document: Document) -> bool:
    """Whether the reference checker accepts a mutant: by chance a changed number may still be a proof.

    Such a mutant claims what is true, as the problem and the kind are unchanged.
    """
    try:
        sdpcheck.check(None, document)
    except ValueError:
        return False
    return True


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for title, content in [
        *((f"valid-{k}", v) for k, v in valid().items()),
        *((f"wrong-{k}", v) for k, v in wrong()),
    ]:
        (folder / f"{title}.json").write_text(json.dumps(content) + "\n", encoding="utf-8")
