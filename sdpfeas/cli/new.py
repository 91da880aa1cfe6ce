"""Command ``new``: write a template of a backend, a family or a study that works unchanged."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from typing import Annotated

import typer

from sdpfeas.cli.console import out
from sdpfeas.errors import OptionError
from sdpfeas.escaping import escape_terminal
from sdpfeas.files import writing

__all__ = ["register"]

BACKEND = '''"""{title}: a backend in one file. It calls Clarabel; replace the call by your own solver."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from sdpfeas import Claim, FeasibilityBackend, FeasibilityProblem, Inquiry, Stop
from sdpfeas.dropin import ALL_SETS


@dataclass(frozen=True)
class {kind}Options:
    """Options of the backend. Names and types are checked before a backend is made."""

    tolerance: float = 1e-8


class {kind}(FeasibilityBackend):
    """One sentence about the backend, shown in lists."""

    name = "{name}"
    sets = ALL_SETS
    lmis = True
    requires = ("clarabel",)
    Options = {kind}Options

    def solve(self, problem: FeasibilityProblem, inquiry: Inquiry) -> Claim:
        """Find a point or a Farkas certificate. The verifier checks the claim."""
        import clarabel

        # A x + s = b; s is zero, non-negative, in second-order and in semidefinite cones, in this order.
        form = problem.to_conic(triangle="upper")
        cones = [clarabel.ZeroConeT(form.zero), clarabel.NonnegativeConeT(form.nonneg)]
        cones += [clarabel.SecondOrderConeT(length) for length in form.second_order]
        cones += [clarabel.PSDTriangleConeT(side) for side in form.semidefinite]
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_feas = self.options.tolerance
        settings.time_limit = inquiry.deadline.left
        columns = form.matrix.shape[1]
        nothing = sp.csc_array((columns, columns)), np.zeros(columns)
        found = clarabel.DefaultSolver(*nothing, form.matrix, form.rhs, cones, settings).solve()

        status = str(found.status)
        stop = Stop.TIME_LIMIT if status == "MaxTime" else Stop.FINISHED
        point = form.point(np.array(found.x)) if "Infeasible" not in status else None
        certificate = form.multipliers(np.array(found.z)) if status != "Solved" else None
        return Claim(point, certificate, status, stop, found.iterations)
'''

FAMILY = '''"""{title}: a family of problems in one file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdpfeas import PSD, FeasibilityProblem
from sdpfeas.dropin import Family


@dataclass(frozen=True)
class {kind}Options:
    """Parameters of the family: a card sets them under [options], and sweeps over them under [sweep]."""

    n: int = 4
    seed: int = 0


class {kind}(Family):
    """Correlation matrices with one random entry; replace them by your own problems."""

    name = "{name}"
    Options = {kind}Options

    @classmethod
    def build(cls, options: Any) -> FeasibilityProblem:
        """Build the problem with the given parameters."""
        rng = np.random.default_rng(options.seed)
        n = options.n
        rows = np.zeros((n + 1, n, n))
        rows[np.arange(n), np.arange(n), np.arange(n)] = 1.0
        rows[n, 0, 1] = rows[n, 1, 0] = 0.5
        entry = rng.uniform(-0.9, 0.9)
        bounds = np.concatenate([np.ones(n), [entry]])
        names = [*(f"unit {{i}}" for i in range(n)), "drawn"]
        return FeasibilityProblem([PSD(n)], [rows], bounds, bounds, row_names=names)
'''

STUDY = """# A study: solvers x problems x seeds. Run it with: sdpfeas compare {name}.toml
# Names, cards, drop-in files, problem files and patterns; paths are relative to this file.
solvers = ["auto", "clarabel"]
problems = ["theta-cycle"]

seeds = 2                 # number of seeds, from 0
time_limit = 10           # seconds per cell
memory_limit = "4G"       # resident memory per cell
jobs = 1                  # cells that run at the same time
threads = 1               # threads of the numerical libraries per cell
rigorous = false          # true: accept no numeric verdict
tol = 1e-3                # relative width of the bracket of a family
keep_evidence = false     # true: store points and certificates
out = "{name}.db"         # the database
report = "{name}.html"    # written when all cells are done
# engine = "dask"         # or "joblib", with joblib_backend = "loky"
# scheduler = "tcp://scheduler:8786"

[[solver]]                # a backend with options, and one solver per value of a sweep
name = "scs"
backend = "scs"
options = {{ objective = "none" }}
sweep = {{ eps = [1e-4, 1e-6] }}

[[problem]]               # a family with parameters, and one problem per value of a sweep
name = "planted"
family = "planted"
options = {{ rows = 10 }}
sweep = {{ n = [10, 20, 40] }}
"""

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name: lower-case letters, digits and dashes.")]
Folder = Annotated[
    Path | None, typer.Option("--folder", help="Folder to write to; default: ./solvers or ./problems.")
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help="Write a template of a backend, a family or a study.", no_args_is_help=True)
    group.command("backend", epilog="Example: sdpfeas new backend my-solver")(new_backend)
    group.command("family", epilog="Example: sdpfeas new family my-problems")(new_family)
    group.command("study", epilog="Example: sdpfeas new study my-study")(new_study)
    app.add_typer(group, name="new")


def new_backend(name: Name, folder: Folder = None) -> None:
    """Write a backend that passes check-backend and calls Clarabel; replace the call by your solver."""
    path = _write(BACKEND, name, folder or Path("solvers"))
    out().print(f"written to {escape_terminal(path)}; next: sdpfeas check-backend {escape_terminal(path)}")


def new_family(name: Name, folder: Folder = None) -> None:
    """Write a family of problems and a card; replace its problems by yours."""
    path = _write(FAMILY, name, folder or Path("problems"))
    card = path.with_suffix(".toml")
    if card.exists():
        raise OptionError(f"{card} exists already; choose another name")
    with writing(card):
        card.write_text(f'family = "{path.name}"\n[options]\nn = 4\n', encoding="utf-8")
    out().print(
        f"written to {escape_terminal(path)} and {escape_terminal(card)}; "
        f"next: sdpfeas solve {escape_terminal(card)}"
    )


def new_study(
    name: Name, folder: Annotated[Path, typer.Option("--folder", help="Folder to write to.")] = Path()
) -> None:
    """Write a study file with every key explained; replace its solvers and problems by yours."""
    path = _write(STUDY, name, folder, f"{name}.toml")
    out().print(f"written to {escape_terminal(path)}; next: sdpfeas compare {escape_terminal(path)}")


def _write(template: str, name: str, folder: Path, file: str = "") -> Path:
    """Fill in a template and write it to a new file."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise OptionError(
            f"{name!r} is not a valid name: use lower-case letters, digits and dashes, as in my-solver"
        )
    path = folder / (file or f"{name.replace('-', '_')}.py")
    if path.exists():
        raise OptionError(f"{path} exists already; choose another name")
    kind = "".join(word.capitalize() for word in name.split("-"))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(template.format(name=name, kind=kind, title=kind), encoding="utf-8")
    return path
