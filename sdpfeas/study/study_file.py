"""Study files: everything that ``sdpfeas compare`` is told, in one TOML file.

.. code-block:: toml

    solvers = ["clarabel", "./mine.py"]      # names, cards, drop-in files, patterns
    problems = ["problems/*.toml"]
    time_limit = 10
    seeds = 3

    [[solver]]                               # a backend with options, and a sweep over options
    backend = "scs"
    sweep = { eps = [1e-4, 1e-6] }

    [[problem]]                              # a family with parameters, and a sweep over parameters
    family = "planted"
    sweep = { n = [10, 20, 40] }

Every flag of ``compare`` is a key, with dashes as underscores. Paths are relative to the folder of the file.
The entry point is :func:`read_study`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from sdpfeas.cards.finder import PROBLEMS, SOLVERS, is_path
from sdpfeas.cards.options import parse_options
from sdpfeas.cards.toml import InlineCard, locate_error, read_card
from sdpfeas.errors import CardError, OptionError, SdpfeasError, hint
from sdpfeas.files import parse_size
from sdpfeas.io import PROBLEM_FILES
from sdpfeas.study.cells import Settings
from sdpfeas.study.comparison import Comparison, Spec, make_plan
from sdpfeas.study.engines import DaskEngine, Engine, JoblibEngine, LocalEngine

__all__ = ["Study", "StudyOptions", "read_study"]


@dataclass(frozen=True)
class StudyOptions:
    """Keys of a study file with one value each; the flags of ``compare`` have the same names and defaults.

    ``out`` and ``report`` are the database and the HTML report; None leaves the report out. ``seeds`` is the
    number of seeds, counted from 0.
    """

    seeds: int = 1
    time_limit: float = 60.0
    memory_limit: str = "4G"
    threads: int = 1
    rigorous: bool = False
    tol: float = 1e-3
    jobs: int | None = None
    out: str = "study.db"
    retry: Literal["failed", "undecided", "all"] | None = None
    keep_evidence: bool = False
    engine: Literal["local", "dask", "joblib"] = "local"
    scheduler: str | None = None
    joblib_backend: str = "loky"
    report: str | None = None

    def __post_init__(self) -> None:
        """Validate what does not depend on a cell."""
        if self.jobs is not None and self.jobs < 1:
            raise OptionError(f"--jobs must be at least 1, got {self.jobs}", key="jobs")
        if (self.engine == "dask") != (self.scheduler is not None):
            raise OptionError("--engine dask and --scheduler ADDRESS go together", key="engine")
        _ = self.settings

    @property
    def settings(self) -> Settings:
        """The limits of every cell."""
        memory = parse_size(self.memory_limit, "--memory-limit")
        return Settings(self.time_limit, memory, self.threads, self.rigorous, self.tol)


#: Keys of a study file with a list of values.
LISTS = ("solvers", "problems", "solver", "problem")


@dataclass(frozen=True)
class Study:
    """A study to run: solvers, problems and options."""

    solvers: tuple[Spec, ...]
    problems: tuple[Spec, ...]
    options: StudyOptions

    def overridden(self, solvers: list[str] | None, problems: list[str] | None, **given: Any) -> Study:
        """Return the study with the flags of a command line in place of its own; None keeps a value."""
        options = {name: value for name, value in given.items() if value is not None}
        return Study(
            tuple(solvers) if solvers else self.solvers,
            tuple(problems) if problems else self.problems,
            replace(self.options, **options),
        )

    def plan(self) -> Comparison:
        """List the cells. Raises CardError with all errors found."""
        return make_plan(self.solvers, self.problems, self.options.seeds, self.options.settings)

    def open_engine(self) -> Engine:
        """Open the engine that runs the cells."""
        options = self.options
        if options.scheduler is not None:
            return DaskEngine(options.scheduler, options.jobs)
        if options.engine == "joblib":
            return JoblibEngine(options.joblib_backend, options.jobs)
        return LocalEngine(options.jobs or 1)


def read_study(path: Path) -> Study:
    """Read a study file. Without ``out`` the database is next to it, with the same name and ``.db``.

    Raises CardError, with file, line and the nearest known name, if the file is malformed.
    """
    try:
        table, text = read_card(path)
        return _parse(path, table, text.splitlines())
    except SdpfeasError as error:
        raise CardError(locate_error(error, str(path))) from None


def _parse(path: Path, table: Mapping[str, Any], lines: list[str]) -> Study:
    known = [*(item.name for item in fields(StudyOptions)), *LISTS]
    for key in table:
        if key not in known:
            raise CardError(f"unknown key {key!r}; {hint(key, known, 'a study file has')}", key=key)
    given = {key: value for key, value in table.items() if key not in LISTS}
    given.setdefault("out", path.with_suffix(".db").name)
    for key in ("out", "report"):
        if isinstance(given.get(key), str):
            given[key] = str(path.parent / given[key])
    solvers = [_place(path, item, SOLVERS.folder) for item in _strings(table, "solvers")]
    problems = [_place(path, item, PROBLEMS.folder) for item in _strings(table, "problems")]
    return Study(
        (*solvers, *(card for each in _tables(path, table, "solver", lines) for card in _solver_cards(each))),
        (*problems, *map(_named_problem, _tables(path, table, "problem", lines))),
        parse_options(StudyOptions, given, "a study file"),
    )


def _strings(table: Mapping[str, Any], key: str) -> list[str]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise CardError(f"{key} must be a list of strings, got {found!r}", key=key)
    return found


def _place(path: Path, spec: str, folder: str) -> str:
    """Make the path of a card, a file or a pattern relative to the current folder; names are kept."""
    endings = (".toml", ".py", *(PROBLEM_FILES if folder == PROBLEMS.folder else ()))
    return str(path.parent / spec) if is_path(spec, endings) else spec


def _tables(path: Path, table: Mapping[str, Any], key: str, lines: list[str]) -> list[InlineCard]:
    """Return the tables ``[[key]]`` of a study file, each with the lines it was read from."""
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise CardError(f"{key} must be a list of tables, each below a line [[{key}]]", key=key)
    headers = [k for k, line in enumerate(lines) if re.match(rf"\s*\[\[\s*{key}\s*\]\]", line)]
    if len(headers) != len(found):  # written in one line, as solver = [{...}]
        return [InlineCard(path, item, f"{key} = {item!r}\n") for item in found]
    others = [k for k, line in enumerate(lines) if line.lstrip().startswith("[[")]
    ends = [min((k for k in others if k > begin), default=len(lines)) for begin in headers]
    texts = ["\n".join(lines[begin:end]).rstrip() + "\n" for begin, end in zip(headers, ends, strict=True)]
    return [InlineCard(path, *each) for each in zip(found, texts, (k + 1 for k in headers), strict=True)]


def _solver_cards(card: InlineCard) -> Iterator[InlineCard]:
    """Yield one solver per combination of values in the sweep; each is named after them."""
    own = dict(card.table)
    sweep, options = own.pop("sweep", {}), own.get("options", {})
    for key, values in _checked_sweep(card, sweep, options):
        if not isinstance(values, list) or not values:
            wrong = CardError(f"sweep.{key} must be a list of values, got {values!r}", key=key)
            raise CardError(locate_error(wrong, card))
    backend = str(own.get("backend", ""))
    name = str(own.get("name", Path(backend).stem if is_path(backend, (".toml", ".py")) else backend))
    for values in product(*sweep.values()):
        chosen = dict(zip(sweep, values, strict=True))
        label = ", ".join(f"{key}={value}" for key, value in chosen.items())
        table = {**own, "name": f"{name}[{label}]" if label else name, "options": {**options, **chosen}}
        yield replace(card, table=table)


def _checked_sweep(card: InlineCard, sweep: Any, options: Any) -> list[tuple[str, Any]]:
    if not isinstance(sweep, dict) or not isinstance(options, dict):
        raise CardError(f"{card}: options and sweep must be tables")
    twice = sorted(set(sweep) & set(options))
    if twice:
        wrong = CardError(f"{twice[0]!r} is given in options and in sweep", key=twice[0])
        raise CardError(locate_error(wrong, card))
    return list(sweep.items())


def _named_problem(card: InlineCard) -> InlineCard:
    """Name a problem after its family or file, unless it has a name."""
    source = str(card.table.get("family", card.table.get("file", "")))
    return replace(card, table={"name": Path(source).name.partition(".")[0], **card.table})
