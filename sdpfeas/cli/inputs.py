"""Find the problems and solvers that are named on the command line.

The library is imported through :mod:`sdpfeas.cli.library`, so importing this module is cheap.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sdpfeas.cards.toml import locate_error
from sdpfeas.cli import library as lib
from sdpfeas.errors import BackendError, CardError, OptionError, ProblemError


def is_problem_file(spec: str) -> bool:
    """Whether ``spec`` names a file that holds a problem, rather than a card."""
    return spec.endswith(lib.PROBLEM_FILES)


def load_member(
    spec: str,
    *,
    side: str = "primal",
    seed: int = 0,
    delta: float | None = None,
    member: dict[str, Any] | None = None,
) -> tuple[Any, str]:
    """Build the problem or family that a file or card describes; return it with its label.

    ``side`` selects the primal or the LMI side of an SDPA or SeDuMi file, ``seed`` the random numbers,
    ``delta`` the problem of a family, and ``member`` one problem of a card with a sweep, by parameter values.
    """
    wanted = member or {}
    card = named_problem(spec)
    if is_problem_file(spec):
        if side not in ("primal", "lmi"):
            raise OptionError(f"--side must be primal or lmi, got {side!r}")
        card = replace(card, side=side)  # type: ignore[arg-type]
    sources = [
        source
        for source in card.members()
        if all(str(source.parameters.get(key)) == str(value) for key, value in wanted.items())
    ]
    if not sources:
        raise ProblemError(f"{spec} has no member with {wanted}")
    if len(sources) > 1:
        labels = ", ".join(source.label for source in sources[:6])
        more = " …" if len(sources) > 6 else ""
        raise ProblemError(f"{spec} has {len(sources)} problems: {labels}{more}; select one with --member")
    built: Any = sources[0].build(seed)
    if delta is not None and not isinstance(built, lib.FeasibilityProblem):
        built = built.at(delta)
    return built, sources[0].label


def named_problem(spec: str) -> lib.ProblemCard:
    """Find a problem card; errors in a card are reported with file and line."""
    try:
        return lib.find_problem(spec)
    except CardError as error:
        raise CardError(locate_error(error, spec)) from None


def named_solver(spec: str) -> lib.Solver:
    """Find a solver; errors in a card are reported with file and line."""
    try:
        return lib.find_solver(spec)
    except (BackendError, CardError) as error:
        raise CardError(locate_error(error, spec)) from None
