"""Finding solvers, problems and families by name.

A name is looked up as: what ships with the library; then what is registered under an entry-point group; then
the card ``./solvers/NAME.toml`` or ``./problems/NAME.toml``. Code from a folder (``.py``) is run only when
its path is given, by the user or by a card that the user named by its path. So no file that happens to lie in
the current folder takes the place of what ships, and none is run for its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sdpfeas.errors import CardError, hint

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["PROBLEMS", "SOLVERS", "Finder", "is_path", "shipped_cards"]

#: Where the library is installed.
PACKAGE = Path(__file__).parent.parent


def is_path(spec: str | Path, endings: tuple[str, ...]) -> bool:
    """Whether something is asked for by its path rather than by its name.

    ``endings``: endings of files that it could be.
    """
    return isinstance(spec, Path) or spec.endswith(endings) or "/" in spec


def shipped_cards(folder: str) -> Path:
    """Folder with the cards that ship with the library (``solvers`` or ``problems``)."""
    installed = PACKAGE / "_cards" / folder
    # In a checkout the cards are edited at the root; only a wheel carries them inside the package.
    return installed if installed.is_dir() else PACKAGE.parent / folder


@dataclass(frozen=True)
class Finder:
    """Finds solvers, or problems and families, by name.

    ``folder``: the folder with cards and drop-in files: ``solvers`` or ``problems``. ``built_in``: targets,
    as entry points have them, of what ships inside the package; imported when asked for.
    """

    folder: str
    group: str
    built_in: Mapping[str, str]

    def registered(self) -> dict[str, EntryPoint]:
        """What can be loaded by name; nothing installed beside the library takes the place of what ships."""
        from importlib.metadata import entry_points

        ours = {name: self._entry(name) for name in self.built_in}
        return {point.name: point for point in entry_points(group=self.group)} | ours

    def _entry(self, name: str) -> EntryPoint:
        """The entry point of what ships."""
        from importlib.metadata import EntryPoint  # slow, and help and completion need none

        return EntryPoint(name, self.built_in[name], self.group)

    def find(self, name: str, card: Path | None = None, *, cards: bool = True) -> EntryPoint | Path | None:
        """What a name stands for: an entry point to load, the path of a card or of code, or None.

        ``card``: a card that was named by its path: code beside it is found, too. ``cards``: whether a card
        will do, or only code.
        """
        if name in self.built_in:  # without reading what else is installed, which takes a while
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
        """The path of the code that a card gives by its path, if the card may.

        ``by_path``: whether the user named the card by its path.

        Raises ``CardError``: if the card was found by its name.
        """
        if not by_path:
            raise CardError(f"{card}: {self.why_not(card)}")
        beside = card.parent / named
        return beside if beside.is_file() else Path(named)

    def why_not(self, card: Path) -> str:
        """Why code that a card names is not run, and what to do."""
        return f"code is run only for a card that is named by its path: say ./{card} if you trust it"

    def is_shipped(self, path: Path) -> bool:
        """Whether a file ships with the library."""
        return path.parent == shipped_cards(self.folder)

    def hint(self, name: str, *, cards: bool = True) -> str:
        """What to say when nothing is found."""
        code = Path(self.folder) / f"{name}.py"
        if code.is_file():
            return f"code is run only when its path is given: say ./{code} if you trust it"
        return hint(name, self.names(cards=cards))

    def names(self, *, cards: bool = True) -> list[str]:
        """Names that can be found from here."""
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
