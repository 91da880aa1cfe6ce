"""The command line application: its commands, ``--version``, and errors as one line with an exit code."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated

import typer

from sdpfeas import __version__
from sdpfeas.cli import board, discover, new, releases, solve, studies, wlda
from sdpfeas.cli.console import err
from sdpfeas.errors import SdpfeasError
from sdpfeas.escaping import escape_terminal

EPILOG = """
Examples:

  sdpfeas backends

  sdpfeas solve problem.npz --solver clarabel --time-limit 10 -o answer.npz

  sdpfeas verify problem.npz answer.npz

  sdpfeas certify problem.npz answer.npz -o evidence.json

  sdpfeas check evidence.json

  sdpfeas compare --solvers 'solvers/*.toml' --problems 'problems/*.toml' --out study.db

  sdpfeas report study.db -o report.html

Exit codes: 0 success, 2 error; with --exit-code 10 feasible, 20 infeasible, 30 undecided.
"""

app = typer.Typer(
    name="sdpfeas",
    help="Semidefinite feasibility with answers you can check.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
new_files = typer.Typer(help="Write a template of a backend, a family or a study.", no_args_is_help=True)

#: The commands by name, in the order of the help.
COMMANDS: dict[str, Callable[..., None]] = {
    "backends": discover.list_backends,
    "problems": discover.list_problems,
    "families": discover.list_families,
    "show": discover.show,
    "check-backend": discover.check_backend,
    "solve": solve.solve,
    "verify": solve.verify,
    "audit": solve.audit,
    "certify": solve.certify,
    "check": solve.check,
    "compare": studies.compare,
    "judge": studies.judge,
    "report": studies.report,
    "scaling": studies.scaling,
    "diff": studies.diff,
    "merge": studies.merge,
    "export": studies.export,
    "releases": releases.releases,
    "wlda": wlda.wlda,
    "board": board.board,
    "data": board.data,
}
NEW = {"backend": new.new_backend, "family": new.new_family, "study": new.new_study}


def _add(group: typer.Typer, name: str, command: Callable[..., None]) -> None:
    """Add a command: its docstring is the help, reflowed, with one example per line at the end."""
    text, _, examples = inspect.cleandoc(command.__doc__ or "").partition("\n\nExamples:\n")
    paragraphs = [part.replace("\n", " ") for part in text.split("\n\n")]
    lines = ["\nExamples:", *(f"  {line}" for line in examples.splitlines())]
    group.command(name, help="\n\n".join(paragraphs), epilog="\n\n".join(lines) if examples else None)(
        command
    )


for _name, _command in COMMANDS.items():
    _add(app, _name, _command)
for _name, _command in NEW.items():
    _add(new_files, _name, _command)
app.add_typer(new_files, name="new")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sdpfeas {__version__}")
        raise typer.Exit


@app.callback()
def options(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Semidefinite feasibility with answers you can check."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line with the given arguments (default: those of the process) and exit."""
    _escape_unencodable()
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Accepted in any position, also as in "sdpfeas solve x -v".
    verbose = any(word in ("-v", "--verbose") for word in given)
    given = [word for word in given if word not in ("-v", "--verbose")]
    try:
        app(given, prog_name="sdpfeas")
    except BrokenPipeError:
        # The reader closed the pipe, as "| head" does. This is not an error.
        _drop_output()
        sys.exit(0)
    except (SdpfeasError, OSError, MemoryError) as error:
        if verbose:
            err().print_exception()
        if isinstance(error, OSError):
            _drop_output()
        _fail(_message(error), 2)
    except KeyboardInterrupt:
        _fail("interrupted", 130)
    except Exception as error:  # noqa: BLE001 - a bug; reported in one line too
        if verbose:
            err().print_exception()
        _fail(f"{type(error).__name__}: {error} (a bug in sdpfeas; -v shows the traceback)", 70)


def _escape_unencodable() -> None:
    """Write characters that the encoding of the terminal lacks as escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _drop_output() -> None:
    """Discard buffered output, which would raise again when the process exits."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"not enough memory {error}".strip()
    if isinstance(error, OSError) and error.strerror is not None:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error)


def _fail(message: str, code: int) -> None:
    err().print(f"[bold red]error:[/] {escape_terminal(message, lines=True)}")
    sys.exit(code)
