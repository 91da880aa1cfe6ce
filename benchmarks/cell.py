"""Measure one cell of the contests, for sizes that take an hour.

``python benchmarks/cell.py synthetic-10-10000 ours-1e-3 --results FOLDER`` keeps it in the folder's file with
all others, where tables and plots find it.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path


def main() -> None:
    """Measure what the command line asks for, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", help="its name, for instance synthetic-10-5000")
    parser.add_argument("contestant", help="its name, for instance ours-1e-3")
    parser.add_argument("--results", type=Path, required=True, metavar="DIR", help="where cells are kept")
    parser.add_argument("--cap", type=float, default=7200.0, metavar="S", help="seconds (7200)")
    parser.add_argument("--memory", type=float, default=12.0, metavar="GB", help="resident memory (12)")
    asked = parser.parse_args()
    # Before anything imports NumPy, which reads these once.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    from laboratory import Caps, Laboratory

    caps = Caps(asked.cap, asked.cap, int(asked.memory * 1e9))
    cell = Laboratory(asked.results, caps, resume=True).measure(asked.problem, asked.contestant)
    for name, value in asdict(cell).items():
        print(f"{name}: {value}")
    print(f"eigendecompositions: {cell.eigh_equivalents}")


if __name__ == "__main__":
    main()
