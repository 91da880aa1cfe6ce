"""The command line application: its commands, ``--version``, and errors as one line with an exit code."""

from __future__ import annotations

import inspect
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from sdpfeas import __version__
from sdpfeas.cli.board import register as add_board
from sdpfeas.cli.console import err
from sdpfeas.cli.discover import register as add_discover
from sdpfeas.cli.new import register as add_new
from sdpfeas.cli.releases import register as add_releases
from sdpfeas.cli.solve import register as add_answers
from sdpfeas.cli.studies import register as add_studies
from sdpfeas.cli.wlda import register as add_wlda
from sdpfeas.errors import SdpfeasError
from sdpfeas.escaping import escape_terminal

__all__ = ["app", "main"]

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
COMMANDS = (
    add_discover,
    add_answers,
    add_studies,
    add_releases,
    add_wlda,
    add_new,
    add_board,
)
for add in COMMANDS:
    add(app)


def _lay_out(group: typer.Typer) -> None:
    """Reflow help texts to the width of the terminal, with one line per example."""
    for command in group.registered_commands:
        text = inspect.cleandoc(command.help or getattr(command.callback, "__doc__", None) or "")
        command.help = "\n\n".join(part.replace("\n", " ") for part in text.split("\n\n"))
        said, found, examples = (command.epilog or "").partition("Examples: ")
        if found:
            lines = [said.rstrip(), "Examples:", *(f"  {line}" for line in examples.split(" · "))]
            command.epilog = "\n" + "\n\n".join(filter(None, lines))
    for inner in group.registered_groups:
        if inner.typer_instance is not None:
            _lay_out(inner.typer_instance)


_lay_out(app)


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
