"""One ``.npz`` file with a JSON header and plain arrays, never pickle: what all our own files are."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from sdpfeas.errors import FileFormatError

__all__ = ["UNREADABLE", "Format", "load"]

Content = TypeVar("Content")

#: What reading a file that is damaged, or no archive at all, may raise.
UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    MemoryError,
    OverflowError,
    RuntimeError,  # an encrypted archive, a compression unknown here, a header nested too deeply
    TypeError,
    AttributeError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True)
class Format:
    """One kind of file.

    Attributes
    ----------
    noun : str
        What it holds, in one word.
    version : int
        The only version that is written and read.
    version_key : str
        Where the header says so.
    compressed : bool
        Whether arrays are compressed.
    """

    noun: str
    version: int
    version_key: str = "format_version"
    compressed: bool = True

    @property
    def name(self) -> str:
        """What the header calls it."""
        return f"sdpfeas-{self.noun}"

    def pack(
        self,
        header: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        default: Callable[[Any], Any] | None = None,
    ) -> bytes:
        """The bytes of a file.

        Parameters
        ----------
        header : mapping
            Everything but the arrays.
        arrays : mapping
            The arrays by name, none of them ``header``.
        default : callable, optional
            Makes of what JSON cannot hold something that it can; as in :func:`json.dumps`.
        """
        full = {"format": self.name, self.version_key: self.version, **header}
        text = np.frombuffer(json.dumps(full, default=default).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        write = np.savez_compressed if self.compressed else np.savez
        # numpy's stubs do not know that keyword names are free here.
        write(buffer, header=text, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @contextmanager
    def unpack(self, data: bytes) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        """Header and arrays of a file; whatever is found missing or wrong while they are used is damage.

        Raises
        ------
        FileFormatError
            If the bytes are not such a file, of another version, or damaged.
        """
        content = self._open(data)
        try:
            yield content
        except FileFormatError:
            raise
        except UNREADABLE as error:
            raise FileFormatError(f"damaged {self.noun} file: {error}") from None

    def _open(self, data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        wrong = f"not a {self.noun} file"
        try:
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                if not isinstance(archive, np.lib.npyio.NpzFile):
                    raise FileFormatError(f"{wrong}: not an .npz archive")
                arrays = {name: archive[name] for name in archive.files}
            header = json.loads(bytes(arrays.pop("header")).decode())
            name, version = header.get("format"), header.get(self.version_key)
        except FileFormatError:
            raise
        except UNREADABLE as error:
            raise FileFormatError(f"{wrong}: {error}") from None
        if name != self.name:
            raise FileFormatError(f"{wrong}: format is {name!r}")
        if version != self.version:
            raise FileFormatError(
                f"written in version {version} of the format, this library reads "
                f"version {self.version}; update sdpfeas"
            )
        return header, arrays


def load(path: str | PathLike[str], unpack: Callable[[bytes], Content]) -> Content:
    """Read a file, and let every complaint name it.

    Parameters
    ----------
    path : str or PathLike
        The file.
    unpack : callable
        Makes of its bytes what is asked for.

    Raises
    ------
    FileFormatError
        If the file cannot be read, or is refused by ``unpack``.
    """
    try:
        return unpack(Path(path).read_bytes())
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror or error}") from None
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
