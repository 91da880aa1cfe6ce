"""Command ``new``: write a template of a backend, a family or a study that works unchanged."""

from __future__ import annotations

import keyword
import re
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from sdpfeas.cli.console import out
from sdpfeas.errors import OptionError
from sdpfeas.escaping import escape_terminal
from sdpfeas.files import writing

TEMPLATES = Path(__file__).parent / "templates"

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name: lower-case letters, digits and dashes.")]
Folder = Annotated[
    Path | None, typer.Option("--folder", help="Folder to write to; default: ./solvers or ./problems.")
]


def new_backend(name: Name, folder: Folder = None) -> None:
    """Write a backend that passes check-backend and calls Clarabel; replace the call by your solver.

    Examples:
    sdpfeas new backend my-solver
    """
    path = _write("backend.py", name, folder or Path("solvers"))
    out().print(f"written to {escape_terminal(path)}; next: sdpfeas check-backend {escape_terminal(path)}")


def new_family(name: Name, folder: Folder = None) -> None:
    """Write a family of problems and a card; replace its problems by yours.

    Examples:
    sdpfeas new family my-problems
    """
    path = _write("family.py", name, folder or Path("problems"))
    card = _write("family.toml", name, path.parent)
    out().print(
        f"written to {escape_terminal(path)} and {escape_terminal(card)}; "
        f"next: sdpfeas solve {escape_terminal(card)}"
    )


def new_study(
    name: Name, folder: Annotated[Path, typer.Option("--folder", help="Folder to write to.")] = Path()
) -> None:
    """Write a study file with every key explained; replace its solvers and problems by yours.

    Examples:
    sdpfeas new study my-study
    """
    path = _write("study.toml", name, folder)
    out().print(f"written to {escape_terminal(path)}; next: sdpfeas compare {escape_terminal(path)}")


def fill_template(template: str, name: str) -> str:
    """The text of a template for a backend, a family, its card or a study of this name."""
    text = (TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
    kind = "".join(word.capitalize() for word in name.split("-"))
    return Template(text).substitute(name=name, kind=kind, module=name.replace("-", "_"))


def _write(template: str, name: str, folder: Path) -> Path:
    """Fill in a template and write it to a new file."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(name):
        raise OptionError(
            f"{name!r} is not a valid name: use lower-case letters, digits and dashes, as in my-solver"
        )
    stem = name if template == "study.toml" else name.replace("-", "_")
    path = (folder / stem).with_suffix(Path(template).suffix)
    if path.exists():
        raise OptionError(f"{path} exists already; choose another name")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fill_template(template, name), encoding="utf-8")
    return path
