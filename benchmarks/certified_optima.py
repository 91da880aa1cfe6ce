"""Bracket the optimal value of every SDPLIB, Kocvara and DIMACS file, and write docs/sdplib.md.

``python benchmarks/certified_optima.py -o docs/sdplib.md`` takes every file in the folders ``sdplib``,
``kocvara`` and ``dimacs`` of SDPFEAS_DATA. Each file is a cell: ``sf.optimum`` in a worker process with
limits of time and memory, exact evidence for its bracket (``certify``, which ends with the independent
checker), and CSDP on the same file. A cell that fails is a line that says so. Cells are stored as they are
measured; the next run takes them over, unless ``--fresh`` is given.

Values are those of the file as SDPLIB prints them: the maximum of the primal side. VSDP states a minimum, so
for SDPA files its bracket is negated.
"""

from __future__ import annotations

import argparse
import csv
import datetime as dt
import json
import math
import os
import pickle
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import numpy as np
from csdp_timing import require_fast_blas, run_csdp
from rich.progress import track

import sdpfeas as sf
from sdpfeas.certifier.certify import certify_optimum
from sdpfeas.errors import NotProved
from sdpfeas.io.tables import markdown_table
from sdpfeas.sdpcheck import number
from sdpfeas.study.runner import describe_environment
from sdpfeas.trials.trial import End, Limits, Trial
from sdpfeas.trials.worker_main import peak_memory
from sdpfeas.trials.workers import run_once

#: Folders of SDPFEAS_DATA, the extensions of their files, and the sign of VSDP's values.
FOLDERS = {"sdplib": (".dat-s", -1), "kocvara": (".dat-s", -1), "dimacs": (".mat.gz", 1)}

#: Tolerance of the brackets.
TOLERANCE = 1e-6

#: Seconds below which a time counts as this in ratios, and below which a cell is measured three times.
LEAST_SECONDS, SHORT_SECONDS = 0.05, 1.0

#: Optimal values printed with the collections, for files that no table of SDPFEAS_DATA lists.
PRINTED = {
    "kocvara": {
        "trto1": "1104.5",
        "vibra1": "40.81901",
        "buck1": "146.4192",
        "shmup1": "188.4148",
        "mater-1": "-143.4654",
    },
    "dimacs": {
        "truss5": "132.6357",
        "toruspm3-8-50": "-527.8087",
        "hamming_7_5_6": "-42.66667",
        "minphase": "5.98",
    },
}


@dataclass(frozen=True)
class Cell:
    """One file: the bracket, what it took, whether its evidence was checked, and what CSDP took."""

    folder: str
    file: str
    side: str
    rows: int = 0
    size: int = 0
    lower: float = -math.inf
    upper: float = math.inf
    converged: bool = False
    statement: str = ""
    seconds: float | None = None
    peak_memory: int = 0
    evidence: str = ""
    csdp_seconds: float | None = None
    csdp_memory: int = 0
    csdp_code: int | None = None
    failure: str = ""

    @property
    def ratio(self) -> float | None:
        """Times as long as CSDP."""
        if self.seconds is None or self.csdp_seconds is None:
            return None
        return max(self.seconds, LEAST_SECONDS) / max(self.csdp_seconds, LEAST_SECONDS)


# --- Measuring


def bracket(question: dict[str, Any], start: Callable[..., None]) -> dict[str, Any]:
    """Bracket one optimal value, then look for evidence: the target of a trial."""
    rehearsal = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    sf.optimum(rehearsal, sf.Objective((np.eye(2),), "max"))  # imports are not what is measured
    runs = list[float]()
    while not runs or (len(runs) < 3 and runs[0] < SHORT_SECONDS):
        # A fresh one: what a problem remembers of itself is part of the work.
        problem, objective = sf.read_problem(question["path"], question["side"])
        assert objective is not None
        start(2.0 * question["limit"])
        begin = time.process_time()
        found = sf.optimum(problem, objective, TOLERANCE, time_limit=question["limit"])
        runs.append(time.process_time() - begin)
    facts = {
        "rows": problem.m or sum(block.n for block in problem.sets),
        "size": sum(block.n for block in problem.sets if block.cone and not block.free)
        + sum(lmi.set.n for lmi in problem.lmis),
        "lower": found.lower,
        "upper": found.upper,
        "converged": found.converged,
        "statement": "infeasible" if found.infeasible is not None else "unbounded" if found.unbounded else "",
        "failure": "" if found.converged else found.reason,
        "seconds": min(runs),
        "peak_memory": peak_memory(),
    }
    start(question["audit_limit"], **facts)
    return {"evidence": _audited(problem, objective, found)}


def _audited(problem: sf.FeasibilityProblem, objective: sf.Objective, found: sf.Optimum) -> str:
    """Return which ends exact evidence proves to the tolerance, and the checker accepts."""
    if found.unbounded:
        return "no evidence format"
    try:
        document = certify_optimum(problem, objective, found).document
    except (NotProved, sf.SdpfeasError) as error:
        return f"no: {error}"
    if found.infeasible is not None:
        return "both ends"
    slack = TOLERANCE * max(abs(found.lower), abs(found.upper)) + 1e-9
    ends = document.get("lower"), document.get("upper")
    low, high = (None if end is None else float(number(end)) for end in ends)
    kept = []
    if low is not None and low >= found.lower - slack:
        kept.append("lower end")
    if high is not None and high <= found.upper + slack:
        kept.append("upper end")
    return "both ends" if len(kept) == 2 else kept[0] if kept else "no: wider than the tolerance"


def measure(path: Path, folder: str, side: str, limit: float, audit_limit: float, memory: float) -> Cell:
    """Measure one cell."""
    name = path.name.removesuffix(FOLDERS[folder][0])
    cell = Cell(folder, name, side)
    if path.suffix == ".dat-s":
        theirs = [run_csdp(path, 4.0 * limit)]
        while theirs[0].seconds < SHORT_SECONDS and len(theirs) < 3:
            theirs.append(run_csdp(path, 4.0 * limit))
        best = min(theirs, key=lambda run: run.seconds)
        cell = replace(cell, csdp_seconds=best.seconds, csdp_memory=best.peak_memory, csdp_code=best.code)
    question = {"path": str(path), "side": side, "limit": limit, "audit_limit": audit_limit}
    trial = Trial("certified_optima:bracket", pickle.dumps(question), Limits(memory=int(memory * 1e9)))
    run = run_once(trial)
    facts = run.facts or {}
    if "seconds" not in facts:
        return replace(cell, failure=f"{run.end}: {run.detail}")
    evidence = run.value["evidence"] if run.end is End.DONE else f"no: {run.end}"
    return replace(cell, **facts, evidence=evidence)


# --- Comparing


@dataclass(frozen=True)
class Interval:
    """A published value or bracket, with the slack of its printed digits."""

    lower: float
    upper: float

    def meets(self, lower: float, upper: float) -> bool:
        """Whether the intervals have a point in common."""
        return self.lower <= upper and lower <= self.upper


def vsdp_brackets(data: Path) -> dict[tuple[str, str], Interval]:
    """Return the intersection of the brackets that VSDP publishes for a file, in our sign."""
    tables = {"sdplib": "SDPLIB", "kocvara": "SPARSE_SDP", "dimacs": "DIMACS"}
    found: dict[tuple[str, str], Interval] = {}
    for folder, stem in tables.items():
        sign = FOLDERS[folder][1]
        for path in sorted((data / "vsdp").glob(f"{stem}_*.csv")):
            with path.open(encoding="utf-8", newline="") as file:
                for line in csv.DictReader(file):
                    ends = [_end(line["fL"], -1), _end(line["fU"], 1)]
                    low, high = ends if sign > 0 else (-ends[1], -ends[0])
                    own = found.get((folder, line["name"]), Interval(-math.inf, math.inf))
                    # All of them are proved, so all hold at once.
                    found[folder, line["name"]] = Interval(max(low, own.lower), min(high, own.upper))
    return found


def _end(text: str, direction: int) -> float:
    """Return a printed end of VSDP, moved outwards by the slack of its five digits."""
    if not text or text in ("Inf", "-Inf", "NaN"):
        return direction * math.inf
    value = float(text)
    # Five significant digits, or four decimals; zeros at the end are left out.
    slack = 0.5 * 10.0 ** (math.floor(math.log10(abs(value))) - 4) if value else 0.0
    return value + direction * (slack if abs(value) < 1.0 else 5e-5)


def published_values(data: Path) -> dict[tuple[str, str], dict[str, str]]:
    """Return the printed values of every file, by source."""
    found: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    table = data / "sdplib" / "published.csv"
    if table.exists():
        with table.open(encoding="utf-8", newline="") as file:
            for line in csv.DictReader(file):
                found["sdplib", line["name"]] = {
                    "SDPLIB": line["printed_in_sdplib"],
                    "SDPA-GMP": line["sdpa_gmp_200_bits"],
                }
    for folder, values in PRINTED.items():
        for name, value in values.items():
            found[folder, name] = {"the collection": value}
    return found


def printed_interval(text: str) -> Interval | None:
    """Return what a printed value stands for, one unit of its last digit; None if it is no number."""
    try:
        exponent = Decimal(text).as_tuple().exponent
    except InvalidOperation:
        return None
    if not isinstance(exponent, int):
        return None
    value, slack = float(text), 10.0**exponent  # some were truncated
    return Interval(value - slack, value + slack)


# --- The page


def page(cells: list[Cell], data: Path, environment: dict[str, str], command: str) -> str:
    """Return the page as Markdown."""
    vsdp, printed = vsdp_brackets(data), published_values(data)
    lines = [HEAD.format(command=command), *_summary(cells, vsdp), ""]
    titles = {"sdplib": "SDPLIB", "kocvara": "Kočvara's structural optimisation", "dimacs": "DIMACS"}
    for folder, title in titles.items():
        own = [cell for cell in cells if cell.folder == folder]
        if own:
            lines += [f"## {title}", "", *_table(own, vsdp), ""]
    lines += ["## Printed optima that are proved wrong", "", *_errata(cells, printed), ""]
    open_cells = [cell for cell in cells if not cell.converged]
    if open_cells:
        lines += ["## Not closed", ""]
        lines += [f"- `{cell.file}` ({cell.side}): {cell.failure}" for cell in open_cells] + [""]
    lines += ["## Machine", "", *(f"- {name}: {value}" for name, value in environment.items())]
    return "\n".join(lines) + "\n"


HEAD = """# Certified optimal values of public collections

Brackets of optimal values, both ends proved by `sf.optimum` with a relative tolerance of 1e-6, next to what
VSDP publishes and what the collections print. Made by

```
{command}
```

- **lower, upper**: the bracket of the value of the file, that is the maximum of the primal side of an SDPA
  file and the minimum of a SeDuMi file. It is about the doubles nearest to the decimals in the file.
- **s, MB**: processor seconds and peak resident memory of `optimum` (one thread, without reading the file;
  the fastest of three runs below a second); **CSDP**: processor seconds of CSDP's solve of the same file,
  reading included, on an optimised BLAS with one thread; **ratio**: the first over the second, times below
  0.05 s counted as 0.05 s.
- **evidence**: the ends for which `certify` wrote exact evidence that `sdpcheck` accepts, within the
  tolerance of the bracket; *time*: not within the seconds allowed for it.
- **VSDP**: the intersection of the brackets that VSDP publishes with five solvers (December 2018), printed to
  five digits; a slack of half a unit of the last digit is added. Both are proved, so they must intersect.
"""


def _summary(cells: list[Cell], vsdp: dict[tuple[str, str], Interval]) -> list[str]:
    ratios = [cell.ratio for cell in cells if cell.ratio is not None and cell.seconds is not None]
    closed = sum(cell.converged for cell in cells)
    lines = [f"{closed} of {len(cells)} brackets are closed."]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        easy = [cell.ratio for cell in cells if cell.ratio and not cell.file.startswith("hinf")]
        rest = math.exp(sum(map(math.log, easy)) / len(easy)) if easy else math.nan
        lines[0] += (
            f" Processor time: {mean:.2f} times CSDP's in the geometric mean of {len(ratios)} files"
            f" ({rest:.2f} without the hinf files, which need multiprecision arithmetic), at most"
            f" {max(ratios):.1f} times; without them at most {max(easy, default=math.nan):.1f} times."
        )
    both = [cell for cell in cells if (cell.folder, cell.file) in vsdp]
    apart = [cell.file for cell in both if not vsdp[cell.folder, cell.file].meets(cell.lower, cell.upper)]
    finite = [cell for cell in both if _is_finite(vsdp[cell.folder, cell.file])]
    lines[0] += (
        f" VSDP publishes two proved ends for {len(finite)} of these files, and one or two for {len(both)};"
        + (f" **disjoint: {', '.join(apart)}**." if apart else " all brackets intersect ours.")
    )
    return lines


def _is_finite(interval: Interval) -> bool:
    return math.isfinite(interval.lower) and math.isfinite(interval.upper)


def _table(cells: list[Cell], vsdp: dict[tuple[str, str], Interval]) -> list[str]:
    head = ["file", "rows", "size", "lower", "upper", "s", "CSDP", "ratio", "MB", "evidence", "VSDP"]
    rows = []
    for cell in cells:
        theirs = vsdp.get((cell.folder, cell.file))
        low, high = _digits(cell)
        rows.append(
            [
                cell.file + ("" if cell.converged else " †"),
                f"{cell.rows:,}",
                f"{cell.size:,}",
                cell.statement or low,
                "" if cell.statement else high,
                _seconds(cell.seconds),
                _seconds(cell.csdp_seconds) + (f" ({cell.csdp_code})" if cell.csdp_code else ""),
                "–" if cell.ratio is None else f"{cell.ratio:.2f}",
                f"{cell.peak_memory / 1e6:.0f}" if cell.peak_memory else "–",
                _short(cell.evidence),
                "–" if theirs is None or cell.statement else _shown(theirs),
            ]
        )
    codes = any(cell.csdp_code for cell in cells)
    after = ["†: not closed. In brackets: an exit code of CSDP other than 0 (3: reduced accuracy)."]
    marked = codes or any(not cell.converged for cell in cells)
    return [*markdown_table(head, rows), *(["", *after] if marked else [])]


def _short(evidence: str) -> str:
    if evidence == f"no: {End.TIMEOUT}":
        return "time"
    return evidence.partition(":")[0] or "–"


def _digits(cell: Cell) -> tuple[str, str]:
    """Return the ends with two digits more than they have in common, rounded outwards."""
    width = cell.upper - cell.lower
    if not 0.0 < width < math.inf:
        return f"{cell.lower:.10g}", f"{cell.upper:.10g}"
    if max(abs(cell.lower), abs(cell.upper)) <= 10.0 * width:
        return f"{cell.lower:.2g}", f"{cell.upper:.2g}"
    unit = 1 - math.floor(math.log10(width))
    scale = 10.0**unit
    shown = math.floor(cell.lower * scale) / scale, math.ceil(cell.upper * scale) / scale
    return f"{shown[0]:.{max(unit, 0)}f}", f"{shown[1]:.{max(unit, 0)}f}"


def _shown(interval: Interval) -> str:
    return f"[{interval.lower:.7g}, {interval.upper:.7g}]"


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}" if value < 1.0 else f"{value:.3g}"


def _errata(cells: Iterable[Cell], printed: dict[tuple[str, str], dict[str, str]]) -> list[str]:
    """Return a table of the printed values that lie outside the proved brackets."""
    rows = []
    for cell in cells:
        for source, text in printed.get((cell.folder, cell.file), {}).items():
            value = printed_interval(text)
            if value is None or value.meets(cell.lower, cell.upper):
                continue
            nearest = cell.lower if value.upper < cell.lower else cell.upper
            off = abs(float(text) - nearest)
            proved = cell.statement or " to ".join(_digits(cell))
            rows.append([cell.file, source, text, proved, "–" if math.isinf(off) else f"{off:.1e}"])
    if not rows:
        return ["None among these files."]
    head = ["file", "printed by", "printed value", "proved", "distance"]
    return [
        "A printed value stands for all numbers within one unit of its last digit.",
        "",
        *markdown_table(head, rows, numbers=False),
    ]


# --- The command


def main() -> None:
    """Measure what is missing, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="files to measure, such as theta1; all if none is given")
    parser.add_argument("-o", "--output", type=Path, help="page to write; printed if left out")
    parser.add_argument(
        "--json",
        type=Path,
        default=Path(__file__).parent / "results" / "certified_optima.json",
        help="where cells are stored",
    )
    parser.add_argument("--data", type=Path, default=os.environ.get("SDPFEAS_DATA"), help="SDPFEAS_DATA")
    parser.add_argument("--side", choices=["primal", "lmi"], default="primal")
    parser.add_argument("--fresh", action="store_true", help="measure everything again")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, metavar="S", help="seconds per bracket (120)")
    parser.add_argument(
        "--audit-limit", type=float, default=6.0, metavar="S", help="seconds for evidence (6)"
    )
    parser.add_argument("--memory", type=float, default=4.0, metavar="GB", help="resident memory (4)")
    options = parser.parse_args()
    if options.data is None:
        parser.error("set SDPFEAS_DATA, or give --data")
    require_fast_blas()
    cells: dict[str, Cell] = {}
    if options.json.exists() and not options.fresh:
        stored = json.loads(options.json.read_text(encoding="utf-8"))
        cells = {key: Cell(**cell) for key, cell in stored.items()}
    jobs, order = [], []
    for folder, (extension, _) in FOLDERS.items():
        for path in sorted((Path(options.data) / folder).glob(f"*{extension}")):
            name = path.name.removesuffix(extension)
            key = f"{folder}/{name}/{options.side}"
            order.append(key)
            if key not in cells and (not options.names or name in options.names):
                jobs.append((key, path, folder))

    def run(job: tuple[str, Path, str]) -> tuple[str, Cell]:
        key, path, folder = job
        limits = options.limit, options.audit_limit, options.memory
        return key, measure(path, folder, options.side, *limits)

    options.json.parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        for key, cell in track(pool.map(run, jobs), "files", len(jobs)):
            cells[key] = cell
            held = {name: asdict(each) for name, each in cells.items()}
            options.json.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")
    shown = [cells[key] for key in order if key in cells]
    machine = describe_environment()
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    environment = {
        "processor": f"{machine['cpu']}, {machine['cores']} cores, one thread used",
        "versions": f"{versions}; BLAS of NumPy: {machine['blas']}",
        "revision": str(machine["revision"]),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
    }
    command = "make sdplib ARGS=--fresh"
    text = page(shown, Path(options.data), environment, command)
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
