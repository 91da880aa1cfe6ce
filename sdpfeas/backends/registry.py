"""Find a solver by name, card or file.

A path names a solver card (``.toml``) or a drop-in backend (``.py``). A name is looked up in this order
(:mod:`sdpfeas.cards.finder`): solvers that ship with the library, the entry-point group
``sdpfeas.backends``, the card ``./solvers/NAME.toml``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from sdpfeas.backends.base import FeasibilityBackend
from sdpfeas.cards.finder import SOLVERS, is_path, load_class
from sdpfeas.cards.toml import InlineCard, read_card
from sdpfeas.errors import BackendError, CardError, OptionError, storable

__all__ = ["BackendInfo", "Solver", "backends", "describe", "find_solver"]


@dataclass(frozen=True)
class BackendInfo:
    """Availability and capabilities of a registered backend."""

    name: str
    available: bool
    reason: str
    sets: tuple[str, ...] = ()
    warm_starts: bool = False
    calls_back: bool = False
    version: str = ""
    summary: str = ""


@dataclass(frozen=True)
class Solver:
    """A backend with its settings.

    Attributes
    ----------
    name : str
        Name shown in tables.
    kind : type
        Backend class.
    options : mapping
        Options that differ from the defaults.
    source : str
        Entry-point name or file of the class; sufficient to load it in another process.
    text : str
        Text of the card, if the solver is defined by one.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> sf.find_solver("clarabel").make(tolerance=1e-9).name
    'clarabel'
    """

    name: str
    kind: type[FeasibilityBackend]
    options: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    text: str = ""

    def make(self, **options: Any) -> FeasibilityBackend:
        """Build the backend. ``options`` override those of the card."""
        return self.kind(**{**self.options, **options})


def backends() -> dict[str, BackendInfo]:
    """Return availability and capabilities of all registered backends, by name.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> sf.backends()["clarabel"].available
    True
    """
    out = {}
    for name, entry in sorted(SOLVERS.registered().items()):
        try:
            kind = _load(entry)
        except BackendError as error:
            out[name] = BackendInfo(name, False, str(error))
            continue
        out[name] = describe(kind)
    return out


def describe(kind: type[FeasibilityBackend]) -> BackendInfo:
    """Return availability and capabilities of a backend class."""
    fine, reason = kind.available()
    summary = (kind.__doc__ or "").strip().split("\n")[0]
    return BackendInfo(
        name=kind.name,
        available=fine,
        reason=reason,
        sets=tuple(sorted(s.kind for s in kind.sets)),
        warm_starts=kind.warm_starts,
        calls_back=kind.calls_back,
        version=kind.version() if fine else "",
        summary=summary,
    )


def find_solver(spec: str | Path | type[FeasibilityBackend] | Solver | InlineCard) -> Solver:
    """Find a solver by name, path or backend class.

    Parameters
    ----------
    spec : str, Path, type, Solver or InlineCard
        Name, path of a card or drop-in file, backend class, a solver (returned unchanged), or a table of a
        study file.

    Raises
    ------
    BackendError
        If no solver of that name exists, or it cannot be loaded.
    CardError
        If a card is malformed.

    Examples
    --------
    >>> import sdpfeas as sf
    >>> sf.find_solver("scs").kind.__name__
    'Scs'
    """
    if isinstance(spec, Solver):
        return spec
    if isinstance(spec, type) and issubclass(spec, FeasibilityBackend):
        return Solver(spec.name, spec, source=f"{spec.__module__}:{spec.__qualname__}")
    if isinstance(spec, InlineCard):
        return _from_table(spec.path, spec.table, spec.text, by_path=True, seen=())
    if not isinstance(spec, (str, Path)):
        raise BackendError(f"a solver is a name, a path or a backend class, got {type(spec).__name__}")
    if is_path(spec, (".toml", ".py")):
        return _from_path(Path(spec), by_path=True)
    return _from_name(str(spec))


def _from_name(name: str, card: Path | None = None, seen: tuple[Path, ...] = ()) -> Solver:
    """Look a name up; ``card`` is the card that refers to it, if any."""
    found = SOLVERS.find(name, card)
    if found is None:
        raise BackendError(f"no solver named {name!r}; {SOLVERS.hint(name)}")
    if isinstance(found, EntryPoint):
        return Solver(name, _load(found), source=name)
    return _from_path(found, by_path=SOLVERS.is_shipped(found), seen=seen)


def _from_path(path: Path, *, by_path: bool, seen: tuple[Path, ...] = ()) -> Solver:
    if not path.is_file():
        raise BackendError(f"{path}: no such file")
    if path in seen:
        raise CardError(f"{path}: the card refers to itself")
    if path.suffix == ".py":
        kind = _load(path)
        return Solver(kind.name, kind, source=str(path.resolve()))
    if path.suffix == ".toml":
        return _from_table(path, *read_card(path), by_path=by_path, seen=(*seen, path))
    raise BackendError(f"{path}: a solver is a .toml card or a .py file")


def _from_table(
    path: Path, card: Mapping[str, Any], text: str, *, by_path: bool, seen: tuple[Path, ...]
) -> Solver:
    """Make a solver of the content of a card; ``path`` is the file that holds it."""
    unknown = set(card) - {"backend", "options", "name", "description"}
    if unknown:
        key = sorted(unknown)[0]
        known = "a solver card has backend, options, name and description"
        raise CardError(f"{path}: unknown key {key!r}; {known}", key=key)
    if not isinstance(card.get("backend"), str):
        raise CardError(f'{path}: a solver card needs backend = "NAME"', key="backend")
    options = card.get("options", {})
    if not isinstance(options, dict):
        raise CardError(f"{path}: options must be a table", key="options")
    base = _backend_of(path, card["backend"], by_path, seen)
    try:
        base.make(**options)
    except OptionError as error:
        raise CardError(f"{path}: {error}", key=error.key) from None
    return Solver(str(card.get("name", storable(path.stem))), base.kind, options, base.source, text)


def _backend_of(path: Path, named: str, by_path: bool, seen: tuple[Path, ...]) -> Solver:
    if is_path(named, (".toml", ".py")):
        return _from_path(SOLVERS.code(named, path, by_path=by_path), by_path=True, seen=seen)
    try:
        return _from_name(named, path if by_path else None, seen)
    except BackendError as error:
        if not by_path and (path.parent / f"{named}.py").is_file():
            raise CardError(f"{path}: {SOLVERS.why_not(path)}", key="backend") from None
        raise BackendError(f"{path}: {error}", key="backend") from error


def _load(found: Path | EntryPoint) -> type[FeasibilityBackend]:
    return load_class(found, FeasibilityBackend, "backend", BackendError)  # type: ignore[type-abstract]
