"""Compare solver statuses with proven verdicts on problems without strictly feasible point.

The table is in docs/facial-reduction.md. Run as ``python benchmarks/faces.py FOLDER [SOLVER ...] [--every K]
[--limit SECONDS]`` with a folder of Liu and Pataki's SeDuMi files. Every file (or every K-th of a class) is
solved, and two feasible counterparts of each weakly infeasible one, whose bounds come from an integer or a
floating-point matrix on the smallest face. Solvers that are not installed are skipped. All solvers run on a
problem one after the other; times are processor times.
"""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import sdpfeas as sf
from sdpfeas.backends.registry import find_solver
from sdpfeas.claims import claimed_verdict
from sdpfeas.families.problem_cards import find_problem

HERE = Path(__file__).resolve().parents[1] / "solvers"
SOLVERS = ("auto", "clarabel", "scs", *(str(HERE / f"{name}.py") for name in ("csdp", "sdpa", "cvxopt")))


def twins(problem: sf.FeasibilityProblem, seed: int) -> Iterator[tuple[str, sf.FeasibilityProblem]]:
    """The same rows, with bounds that a matrix on the smallest face meets."""
    rng = np.random.default_rng(seed)
    faces = sf.reduce(problem).faces
    roots = {
        "integer": [rng.integers(-3, 4, (size, size + 1)).astype(np.float64) for size in faces.sizes],
        "float": [rng.normal(size=(size, size)) for size in faces.sizes],
    }
    for numbers, parts in roots.items():
        bounds = problem.apply(faces.point(tuple(root @ root.T for root in parts)))
        yield numbers, sf.FeasibilityProblem(problem.sets, problem.rows, bounds, bounds)


def collect(folder: Path, every: int) -> dict[str, list[sf.FeasibilityProblem]]:
    """Read the problems, by kind; those of 10 and of 20 rows together."""
    files: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.glob("*.mat")):
        files[path.stem.rsplit("_", 1)[0]].append(path)
    asked: dict[str, list[sf.FeasibilityProblem]] = defaultdict(list)
    for name, paths in files.items():
        truth, shape = name.split("_")[:2]
        for seed, path in enumerate(paths[::every]):
            # As on the board: right-hand sides are thirds by construction, but some files hold them rounded.
            problem = replace(find_problem(path), side="primal", bounds_denominator=3).make()
            assert isinstance(problem, sf.FeasibilityProblem)
            asked[f"{'weakly' if truth == 'weak' else 'strongly'} infeasible, {shape}"].append(problem)
            if truth == "weak":
                for numbers, twin in twins(problem, seed):
                    asked[f"feasible twins, {numbers}, {shape}"].append(twin)
    return asked


def processor_time() -> float:
    """Seconds of this process and of those it started and waited for: CSDP is one."""
    return sum(os.times()[:4])


class Score:
    """Counts of one solver on one kind of problems."""

    def __init__(self) -> None:
        self.said: dict[str, int] = defaultdict(int)
        self.granted: dict[str, int] = defaultdict(int)
        self.times: list[float] = []

    def ask(self, problem: sf.FeasibilityProblem, solver: str, limit: float) -> None:
        """Ask, and take the time."""
        begin = processor_time()
        result = sf.solve(problem, solver, time_limit=limit)
        self.times.append(processor_time() - begin)
        claim = claimed_verdict(result.claim)
        self.said["nothing" if claim is None else claim.value] += 1
        self.granted[result.verdict.value] += 1

    def line(self, right: str) -> str:
        """Cells of the table."""
        (other,) = {"feasible", "infeasible"} - {right}
        proved = f"{self.granted[right]} of {len(self.times)}"
        cells = [self.said["feasible"], self.said["infeasible"], proved, self.granted[other]]
        times = f"{np.median(self.times):.2f} | {max(self.times):.2f}"
        return " | ".join([*map(str, cells), times])


def main() -> None:
    """Print one line per solver and kind of problems: statuses, proofs and times."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("solvers", nargs="*", default=SOLVERS)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--limit", type=float, default=20.0)
    given = parser.parse_args()
    solvers = [name for name in given.solvers if find_solver(name).make().available()[0]]
    print("| problems | solver | says feasible | says infeasible | proved | wrong | median s | longest s |")
    print("|---|---|---|---|---|---|---|---|")
    for kind, problems in collect(given.folder, given.every).items():
        scores = {solver: Score() for solver in solvers}
        for problem in problems:
            for solver, score in scores.items():
                score.ask(problem, solver, given.limit)
        right = "feasible" if kind.startswith("feasible") else "infeasible"
        for solver, score in scores.items():
            print(f"| {kind} | {Path(solver).stem} | {score.line(right)} |", flush=True)


if __name__ == "__main__":
    main()
