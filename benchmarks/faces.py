"""What solvers say about problems without interior, beside what is proved: the table of docs/faces.md.

Run as ``python benchmarks/faces.py FOLDER [SOLVER ...]`` with a folder of Liu and Pataki's SeDuMi files.
Every file is asked, and the feasible twin of a weak one: the bounds shifted to a point on its smallest face.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np

import sdpfeas as sf
from sdpfeas.backends.claimed import claimed_verdict

SOLVERS = ("clarabel", "scs", "solvers/csdp.py", "auto")
LIMIT = 20.0


def twin(problem: sf.FeasibilityProblem) -> sf.FeasibilityProblem:
    """The same rows, with bounds that a matrix of integers on the smallest face meets."""
    faces = sf.reduce(problem).faces
    point = faces.point(tuple(np.eye(size) for size in faces.sizes))
    bounds = problem.apply(point)
    return sf.FeasibilityProblem(problem.sets, problem.rows, bounds, bounds)


def main(folder: Path, solvers: tuple[str, ...]) -> None:
    """Print a line for every solver and kind of file: what was claimed, what is proved, how long it took."""
    asked: dict[str, list[sf.FeasibilityProblem]] = defaultdict(list)
    for path in sorted(folder.glob("*.mat")):
        kind = path.stem.rsplit("_", 3)[0].replace("_", ", ")
        problem = sf.read_sedumi(path, side="primal")
        asked[kind].append(problem)
        if kind.startswith("weak"):
            asked[kind.replace("weak", "feasible twin")].append(twin(problem))
    print("| problems | solver | says feasible | says infeasible | proved | wrong | seconds |")
    print("|---|---|---|---|---|---|---|")
    for kind, problems in asked.items():
        right = "feasible" if kind.startswith("feasible") else "infeasible"
        for solver in solvers:
            said, proved, wrong, times = defaultdict(int), 0, 0, []
            for problem in problems:
                begin = time.process_time()
                result = sf.solve(problem, solver, time_limit=LIMIT)
                times.append(time.process_time() - begin)
                claim = claimed_verdict(result.claim)
                said["nothing" if claim is None else claim.value] += 1
                proved += result.verdict == right
                wrong += result.verdict not in (right, "undecided")
            counts = f"{said['feasible']} | {said['infeasible']} | {proved} of {len(problems)} | {wrong}"
            print(f"| {kind} | {solver} | {counts} | {np.median(times):.2f} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(sys.argv[2:]) or SOLVERS)
