"""Find solvers, problems and families by name, and load their code.

A name is looked up among the built-in names, the files that ship with the library, the entry points of
installed packages, and the cards ``./solvers/NAME.toml`` or ``./problems/NAME.toml``, in this order. Code in
a folder (``.py``) runs only if the user gives its path, or the path of a card that names it. So a file in the
current folder neither shadows a name of the library nor runs because of its name.

:class:`Finder` resolves names, :func:`load_class` imports the class. Within :func:`own_code_only` it refuses
code outside this package, since processes that grant verdicts run no foreign code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from sdpfeas.errors import BackendError, CardError, hint

#: The folder of the package.
PACKAGE = Path(__file__).parent.parent


def is_path(spec: str | Path, endings: tuple[str, ...]) -> bool:
    """Whether ``spec`` is a path rather than a name; ``endings`` are the file extensions of paths."""
    return isinstance(spec, Path) or spec.endswith(endings) or "/" in spec


def shipped_cards(folder: str) -> Path:
    """Folder with the cards that ship with the library (``solvers`` or ``problems``)."""
    installed = PACKAGE / "_cards" / folder
    # In a checkout the cards are edited at the root; only a wheel carries them inside the package.
    return installed if installed.is_dir() else PACKAGE.parent / folder


@dataclass(frozen=True)
class Finder:
    """Finds solvers, or problems and families, by name.

    ``folder`` is the folder of cards and drop-in files, ``group`` the entry-point group of other packages,
    and ``built_in`` maps names to entry-point targets in this package.
    """

    folder: str
    group: str
    built_in: Mapping[str, str]

    def registered(self) -> dict[str, EntryPoint]:
        """Entry points by name; built-in names take precedence over installed packages."""
        from importlib.metadata import entry_points

        ours = {name: self._entry(name) for name in self.built_in}
        return {point.name: point for point in entry_points(group=self.group)} | ours

    def _entry(self, name: str) -> EntryPoint:
        """The entry point of a built-in name."""
        from importlib.metadata import EntryPoint  # slow to import, and not needed for help and completion

        return EntryPoint(name, self.built_in[name], self.group)

    def find(self, name: str, card: Path | None = None, *, cards: bool = True) -> EntryPoint | Path | None:
        """Resolve a name to an entry point, the path of a card or of code, or None.

        With ``card``, a card that the user gave by its path, code in its folder is found, too.
        ``cards=False`` leaves out cards.
        """
        if name in self.built_in:  # without the slow search for installed packages
            return self._entry(name)
        endings = (".toml", ".py") if cards else (".py",)
        places = [shipped_cards(self.folder) / (name + ending) for ending in endings]
        if (shipped := next((path for path in places if path.is_file()), None)) is not None:
            return shipped
        if (registered := self.registered().get(name)) is not None:
            return registered
        own = [] if card is None else [card.parent / f"{name}.py"]
        own += [Path(self.folder) / f"{name}.toml"] if cards else []
        return next((path for path in own if path.is_file()), None)

    def code(self, named: str, card: Path, *, by_path: bool) -> Path:
        """The path of the code that a card names; CardError unless the user gave the card by its path."""
        if not by_path:
            raise CardError(f"{card}: {self.why_not(card)}")
        beside = card.parent / named
        return beside if beside.is_file() else Path(named)

    def why_not(self, card: Path) -> str:
        """The message for a card that may not run code."""
        return f"code runs only for a card given by its path: use ./{card} if you trust it"

    def is_shipped(self, path: Path) -> bool:
        """Whether a file ships with the library."""
        return path.parent == shipped_cards(self.folder)

    def hint(self, name: str, *, cards: bool = True) -> str:
        """The message for an unknown name."""
        code = Path(self.folder) / f"{name}.py"
        if code.is_file():
            return f"code runs only if its path is given: use ./{code} if you trust it"
        return hint(name, self.names(cards=cards))

    def names(self, *, cards: bool = True) -> list[str]:
        """All names that can be found."""
        shipped = shipped_cards(self.folder)
        names = {*self.registered(), *(path.stem for path in shipped.glob("*.py"))}
        if cards:
            names |= {path.stem for place in (shipped, Path(self.folder)) for path in place.glob("*.toml")}
        return sorted(names)


#: Where solvers are looked up.
SOLVERS = Finder(
    "solvers",
    "sdpfeas.backends",
    {
        "admm": "sdpfeas.backends.admm:Admm",
        "auto": "sdpfeas.backends.auto:Auto",
        "clarabel": "sdpfeas.backends.clarabel:Clarabel",
        "cvxpy": "sdpfeas.backends.cvxpy:Cvxpy",
        "dual-lbfgs": "sdpfeas.backends.dual.dual_lbfgs:DualLbfgs",
        "facial": "sdpfeas.backends.facial.facial_backend:Facial",
        "multiprecision": "sdpfeas.backends.multiprecision.multiprecision_backend:Multiprecision",
        "scs": "sdpfeas.backends.scs:Scs",
        "spectral-ipm": "sdpfeas.backends.ipm.spectral_ipm:SpectralIpm",
    },
)

#: Where problems and families are looked up.
PROBLEMS = Finder(
    "problems",
    "sdpfeas.families",
    {
        "fair-pca": "sdpfeas.families.projection_problems:FairPcaProblems",
        "fantope-max-min": "sdpfeas.families.fantope:FantopeMaxMin",
        "max-cut": "sdpfeas.families.level_set:MaxCut",
        "max-min-distance": "sdpfeas.families.projection_problems:MaxMinDistanceProblems",
        "planted": "sdpfeas.families.planted:Planted",
        "planted-faces": "sdpfeas.families.planted:PlantedFaces",
        "theta": "sdpfeas.families.level_set:Theta",
        "wlda": "sdpfeas.families.wlda:WLDA",
    },
)


# --- loading

Base = TypeVar("Base")

#: Prefix of the module names of drop-in files.
PREFIX = "_sdpfeas_dropin_"


class ForeignCode(Exception):
    """Raised instead of importing code outside this package within :func:`own_code_only`."""


_OWN_CODE_ONLY: ContextVar[bool] = ContextVar("sdpfeas_own_code_only", default=False)


@contextmanager
def own_code_only() -> Iterator[None]:
    """Refuse to import drop-in files and entry points of other packages: raise ForeignCode."""
    token = _OWN_CODE_ONLY.set(True)
    try:
        yield
    finally:
        _OWN_CODE_ONLY.reset(token)


def _require_allowed(module: str) -> None:
    if _OWN_CODE_ONLY.get() and module.split(".", maxsplit=1)[0] != "sdpfeas":
        raise ForeignCode(module)


def load_class(
    found: Path | EntryPoint, base: type[Base], noun: str, error: type[BackendError | CardError]
) -> type[Base]:
    """Load the subclass of ``base`` that an entry point names, or the one that a drop-in file defines.

    ``noun`` and ``error`` are what messages call it and the exception that carries them.
    """
    if isinstance(found, Path):
        return _load_from_file(found, base, noun, error)
    _require_allowed(found.module)
    try:
        loaded = found.load()
    except Exception as problem:  # foreign code may raise anything
        raise error(f"{noun} {found.name!r} could not be loaded: {_brief(problem)}") from problem
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise error(f"{noun} {found.name!r} is not a {base.__name__} subclass")
    return loaded


def _load_from_file(
    path: Path, base: type[Base], noun: str, error: type[BackendError | CardError]
) -> type[Base]:
    if not path.is_file():
        raise error(f"{path}: no such file")
    module = load_module(path.resolve(), error)
    classes = [
        item
        for item in vars(module).values()
        if isinstance(item, type)
        and issubclass(item, base)
        and item.__module__ == module.__name__
        and not getattr(item, "__abstractmethods__", None)
    ]
    # Base classes without a name are ignored unless there are no others.
    classes = [kind for kind in classes if vars(kind).get("name")] or classes
    if len(classes) != 1:
        names = ", ".join(kind.__name__ for kind in classes) or "none"
        raise error(f"{path}: a drop-in file defines exactly one {noun} class with a name; found: {names}")
    name = getattr(classes[0], "name", None)
    if not (isinstance(name, str) and name):
        raise error(f"{path}: {noun} class {classes[0].__name__} has no name")
    return classes[0]


def load_module(path: Path, error: type[BackendError | CardError] = BackendError) -> ModuleType:
    """Import a Python file by its absolute path; a changed file is imported again."""
    _require_allowed(str(path))
    # The module name contains a hash of the file, so a changed file is a new module.
    digest = hashlib.sha256(str(path).encode() + path.read_bytes()).hexdigest()[:12]
    name = f"{PREFIX}{path.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise error(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as problem:  # foreign code may raise anything
        del sys.modules[name]
        raise error(f"{path}: could not be loaded: {_brief(problem)}") from problem
    return module


def dropin_file(kind: type) -> str | None:
    """The drop-in file that defines a class, or None if other processes can import its module by name."""
    if not kind.__module__.startswith(PREFIX):
        return None
    return getattr(sys.modules.get(kind.__module__), "__file__", None)


def _brief(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
