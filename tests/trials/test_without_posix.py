"""The library in one process, where the modules of POSIX systems are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys

# Other packages find out where they run when they are imported.
import multiprocessing, subprocess, sysconfig
import jinja2, numpy, psutil, scipy.linalg, scipy.optimize, scipy.sparse.linalg, scipy.stats, threadpoolctl
sysconfig.get_config_vars()

HIDDEN = ("resource", "fcntl", "pwd", "grp", "termios")

class Hiding:
    def find_spec(self, name, path=None, target=None):
        if name in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hiding())
for name in HIDDEN:
    sys.modules.pop(name, None)
sys.platform = "win32"

import numpy as np
import sdpfeas as sf

problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
result = sf.solve(problem, "spectral-ipm", time_limit=30)
print(result.verdict, sf.verify(problem, result, rigorous=True).verdict)
found = sf.optimum(problem, sf.Objective((np.diag([1.0, 2.0]),), "min"), time_limit=30)
print(found.lower <= 1.0 <= found.upper)
family = sf.families.FantopeMaxMin.make(n=4, groups=3, r=1)
print(sf.bisect(family, time_limit=30).proven)
from sdpfeas.study.report import render_html, render_markdown
from sdpfeas.study.store import Store, write_table
from pathlib import Path
with Store(sys.argv[1], readonly=True) as store:
    print(len(render_html(store)) > 1000, write_table(store, Path(sys.argv[2])))
"""


def test_solve_verify_optimum_bisect_report_and_export_need_no_posix_module(tmp_path: Path) -> None:
    study = tmp_path / "s.db"
    asked = ["compare", "--solvers", "clarabel", "--problems", "planted", "--out", str(study)]
    command = [sys.executable, "-m", "sdpfeas.cli", *asked]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    words = [sys.executable, "-c", SCRIPT, str(study), str(tmp_path / "t.csv")]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["feasible", "feasible", "True", "True", "True", "1"]
