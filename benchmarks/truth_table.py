"""Truth table: run every backend on 500 planted problems with known answer.

``make truth`` writes docs/truth.md, with verified verdicts next to raw solver statuses. The problems cover
every kind of set and of row storage. Their relative margins are between 1e-3 and 0.3, so all are well-posed.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.progress import track

import sdpfeas as sf
from sdpfeas.claims import claimed_verdict
from sdpfeas.families import planted
from sdpfeas.io.tables import markdown_table

TIME_LIMIT = 20.0


def plant(k: int) -> planted.Planted:
    """Return the k-th problem of the table."""
    rng = np.random.default_rng([2015, k])
    mixes = planted.set_mixes(int(rng.integers(1, 4)))
    mix = sorted(mixes)[k % len(mixes)]
    make = planted.feasible if rng.random() < 0.5 else planted.infeasible
    storage, bounds = str(rng.choice(planted.MATRIX_STORAGE)), str(rng.choice(planted.BOUNDS))
    margin = float(10.0 ** rng.uniform(-3.0, -0.5))
    item = make(rng, mixes[mix], storage=storage, bounds=bounds, margin=margin)
    return replace(item, name=f"{k}: {mix}, {bounds}, {storage}, margin {margin:.1e}")


def answer(job: tuple[int, str]) -> tuple[str, str, str, float, str]:
    """Run one backend on one problem; compare verdict and raw status with the known answer."""
    k, name = job
    item = plant(k)
    result = sf.solve(item.problem, name, time_limit=TIME_LIMIT)
    claimed = claimed_verdict(result.claim)
    return name, _against(item, result.verdict), _against(item, claimed), result.wall_time, item.name


def _against(item: planted.Planted, verdict: sf.Verdict | None) -> str:
    if verdict is item.truth:
        return "right"
    return "wrong" if verdict is item.wrong_verdict else "undecided"


def table(rows: list[tuple[str, str, str, float, str]], count: int) -> str:
    """Return the page as Markdown, with one line per backend."""
    lines = [
        f"# Truth table: {count} planted problems with known answer",
        "",
        "Made by `make truth`. *Verified* is the verdict of `sdpfeas.solve`, *raw* the status of the solver",
        "in the same runs. A wrong verdict is a bug; a wrong raw status is not. `facial` is called directly",
        "here: it refuses rows in factored form and very large problems, or reaches its time limit.",
        "",
    ]
    head = ["backend", "verified right", "undecided", "wrong", "raw right", "raw undecided", "raw wrong"]
    body = []
    for name in sorted({row[0] for row in rows}):
        own = [row for row in rows if row[0] == name]
        verified, raw = Counter(row[1] for row in own), Counter(row[2] for row in own)
        cells = [verified[w] for w in ("right", "undecided", "wrong")]
        cells += [raw[w] for w in ("right", "undecided", "wrong")]
        middle = statistics.median(row[3] for row in own)
        body.append([f"`{name}`", *map(str, cells), f"{middle:.3f}"])
    lines += markdown_table([*head, "median s"], body)
    lines += ["", "## Undecided", ""]
    lines += [f"- `{row[0]}`: {row[4]}" for row in sorted(rows) if row[1] == "undecided"] or ["None."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--backends", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("docs/truth.md"))
    options = parser.parse_args()
    names = options.backends or [n for n, info in sf.backends().items() if info.available]
    jobs = [(k, name) for name in names for k in range(options.problems)]
    with ProcessPoolExecutor(options.jobs) as pool:
        answers = pool.map(answer, jobs, chunksize=4)
        rows = list(track(answers, "planted problems", len(jobs)))
    text = table(rows, options.problems)
    options.out.write_text(text, encoding="utf-8")
    print(text)
    if any(row[1] == "wrong" for row in rows):
        raise SystemExit("a wrong verdict: this must never happen")


if __name__ == "__main__":
    main()
