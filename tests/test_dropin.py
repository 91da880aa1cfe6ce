"""Drop-in files use public names only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import sdpfeas as sf
from sdpfeas import dropin
from sdpfeas.cli.new import fill_template

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = {"sdpfeas": sf, "sdpfeas.dropin": dropin}


def sources() -> Iterator[tuple[str, str]]:
    """Everything that shows authors what a drop-in file looks like, by name."""
    for path in sorted((*ROOT.glob("solvers/*.py"), *ROOT.glob("problems/*.py"))):
        yield f"{path.parent.name}/{path.name}", path.read_text(encoding="utf-8")
    for kind in ("backend", "family"):
        yield f"new {kind}", fill_template(f"{kind}.py", "mine")
    page = (ROOT / "docs/howto/backend.md").read_text(encoding="utf-8")
    yield "docs/howto/backend.md", "\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S))


SOURCES = dict(sources())


def imported(source: str) -> Iterator[tuple[str, str]]:
    """Modules of ours that are imported, each with the name taken from it."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "__name__") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)


def test_there_are_files_to_check() -> None:
    assert len(SOURCES) >= 11
    assert list(imported("import sdpfeas.problem")) == [("sdpfeas.problem", "__name__")]


@pytest.mark.parametrize("name", SOURCES)
def test_drop_ins_import_public_names_only(name: str) -> None:
    ours = [(module, what) for module, what in imported(SOURCES[name]) if module.split(".")[0] == "sdpfeas"]
    assert ours
    for module, what in ours:
        assert module in PUBLIC, f"{name} imports {module}"
        assert what == "__name__" or what in PUBLIC[module].__all__, f"{name} imports {module}.{what}"


def test_every_name_is_documented() -> None:
    page = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\.\. (?:auto\w+|py:data):: sdpfeas\.dropin\.(\w+)$", page, re.MULTILINE))
    assert listed == set(dropin.__all__)


def test_arrays_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(b"no archive")
    with pytest.raises(sf.FileFormatError, match=r"a\.npz: not an \.npz file"):
        dropin.read_arrays(tmp_path / "a.npz")
    with pytest.raises(sf.FileFormatError, match="No such file"):
        dropin.read_arrays(tmp_path / "b.npz")
