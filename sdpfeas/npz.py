"""One ``.npz`` file with a JSON header and plain arrays, never pickle: what all our own files are.

What an archive unpacks to is added up from its directory, and held against the reading limit
(:mod:`sdpfeas.files`), before anything is unpacked; no array may claim to be larger than what is stored.
"""

from __future__ import annotations

import io
import json
import math
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeVar

import numpy as np

from sdpfeas.errors import FileFormatError, OptionError, SdpfeasError
from sdpfeas.files import read_file, require_within_limit

__all__ = ["UNREADABLE", "Format", "load", "unpack_arrays"]

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
    SyntaxError,
    UserWarning,  # these four from NumPy's own headers
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)

#: What NumPy writes. The others of the zip format cannot be unpacked a bit at a time.
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

#: Bytes at the beginning of an array among which NumPy's own header ends.
HEAD = 2**14

#: Bytes in memory for one byte of JSON, at the most.
JSON_MEMORY_FACTOR = 32


@dataclass(frozen=True)
class Format:
    """One kind of file.

    ``noun``: what it holds, in one word. ``version``: the version that is written, and read.
    """

    noun: str
    version: int
    version_key: str = "format_version"
    compressed: bool = True
    also: tuple[int, ...] = ()

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

        ``arrays``: the arrays by name, none of them ``header``. ``default``: makes of what JSON cannot hold
        something that it can; as in :func:`json.dumps`.
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

        Raises ``FileFormatError``: if the bytes are not such a file, of another version, or damaged.
        """
        content = self._open(data)
        try:
            yield content
        except (FileFormatError, OptionError):
            raise
        except UNREADABLE as error:
            raise FileFormatError(f"damaged {self.noun} file: {error}") from None

    def _open(self, data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        wrong = f"not a {self.noun} file"
        try:
            arrays = unpack_arrays(data)
            text = arrays.pop("header").tobytes()
            require_within_limit(len(text), "bytes of header", each=JSON_MEMORY_FACTOR)
            header = json.loads(text.decode())
            name, version = header.get("format"), header.get(self.version_key)
        except SdpfeasError:
            raise
        except UNREADABLE as error:
            raise FileFormatError(f"{wrong}: {error}") from None
        if name != self.name:
            raise FileFormatError(f"{wrong}: format is {name!r}")
        if version not in (self.version, *self.also):
            raise FileFormatError(
                f"written in version {version} of the format, this library reads "
                f"version {self.version}; update sdpfeas"
            )
        return header, arrays


def unpack_arrays(data: bytes, wanted: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """The arrays of an ``.npz`` archive by name; raises one of ``UNREADABLE`` if it is none, or damaged.

    ``wanted``: names of the arrays to read; all of them if not given.

    Raises ``FileFormatError``: if the arrays are too large.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {
            name: member
            for member in archive.infolist()
            if (name := member.filename.removesuffix(".npy")) in (wanted or (name,))
        }
        require_within_limit(sum(member.file_size for member in members.values()), "bytes of arrays")
        return {name: _unpack_array(archive, member) for name, member in members.items()}


def _unpack_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    if member.compress_type not in COMPRESSIONS:
        raise ValueError(f"{member.filename} is compressed in a way that NumPy does not write")
    with archive.open(member) as stream:
        # Without a number all there is would be unpacked, whatever the directory says. Arrays of bytes could
        # not be written to.
        content = bytearray(stream.read(member.file_size))
    if len(content) != member.file_size:
        raise EOFError(f"{member.filename} is cut short")
    head = io.BytesIO(content[:HEAD])
    version = np.lib.format.read_magic(head)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # headers as Python 2 wrote them: none of ours was
        if version == (1, 0):
            shape, by_columns, kind = np.lib.format.read_array_header_1_0(head)
        elif version == (2, 0):
            shape, by_columns, kind = np.lib.format.read_array_header_2_0(head)
        else:
            raise ValueError(f"{member.filename} is in version {version} of NumPy's format")
    if kind.hasobject or kind.itemsize == 0:
        raise ValueError(f"{member.filename} holds {kind}, not numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(content) - head.tell():
        raise ValueError(f"{member.filename} does not hold as much as its shape {shape} says")
    flat = np.frombuffer(content, dtype=kind, offset=head.tell())
    return flat.reshape(shape, order="F" if by_columns else "C")


def load(path: str | PathLike[str], unpack: Callable[[bytes], Content]) -> Content:
    """Read a file, and let every complaint name it.

    ``unpack``: makes of its bytes what is asked for.

    Raises ``FileFormatError``: if the file cannot be read, or is refused by ``unpack``.
    """
    try:
        return unpack(read_file(path))
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror or error}") from None
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
