"""Read and write ``.npz`` files with a JSON header and numeric arrays, without pickle.

All files of the library have this format; :class:`Format` describes one kind. The uncompressed size of an
archive is compared with the read limit (:mod:`sdpfeas.files`) before anything is decompressed. An array
whose header announces more data than are stored is refused.
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

#: Exceptions that reading a damaged file, or a file that is no archive, may raise.
UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    MemoryError,
    OverflowError,
    RuntimeError,  # encrypted archives, unknown compression, deeply nested headers
    TypeError,
    AttributeError,
    SyntaxError,
    UserWarning,  # this and the three above: malformed headers of NumPy
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)

#: Compressions that NumPy writes. Others cannot be decompressed in bounded memory.
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

#: Upper bound for the length of NumPy's header of an array.
HEADER_BYTES = 2**14

#: Upper bound for the bytes of memory per byte of JSON.
JSON_MEMORY_FACTOR = 32


@dataclass(frozen=True)
class Format:
    """A kind of file: what it holds, the version that is written, and older versions that are read."""

    noun: str
    version: int
    version_key: str = "format_version"
    compressed: bool = True
    also: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name of the format in the header."""
        return f"sdpfeas-{self.noun}"

    def pack(
        self,
        header: Mapping[str, Any],
        arrays: Mapping[str, np.ndarray],
        default: Callable[[Any], Any] | None = None,
    ) -> bytes:
        """Serialise a header and named arrays; ``default`` converts other values as in :func:`json.dumps`."""
        full = {"format": self.name, self.version_key: self.version, **header}
        text = np.frombuffer(json.dumps(full, default=default).encode(), dtype=np.uint8)
        buffer = io.BytesIO()
        write = np.savez_compressed if self.compressed else np.savez
        # numpy's stubs do not know that keyword names are free here.
        write(buffer, header=text, **arrays)  # type: ignore[arg-type]
        return buffer.getvalue()

    @contextmanager
    def unpack(self, data: bytes) -> Iterator[tuple[dict[str, Any], dict[str, np.ndarray]]]:
        """Parse the bytes of a file into header and arrays.

        Exceptions in the block, such as a missing key, are reported as damage. Raises FileFormatError if the
        bytes are not of this format, of another version, or damaged.
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
    """Read the arrays of an ``.npz`` archive by name, or only those in ``wanted``.

    Raises one of `UNREADABLE` if the archive is damaged, FileFormatError above the read limit.
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
        raise ValueError(f"{member.filename} uses a compression that NumPy does not write")
    with archive.open(member) as stream:
        # Without a size everything would be decompressed, whatever the directory announces. A bytearray makes
        # the arrays writable.
        content = bytearray(stream.read(member.file_size))
    if len(content) != member.file_size:
        raise EOFError(f"{member.filename} is cut short")
    head = io.BytesIO(content[:HEADER_BYTES])
    version = np.lib.format.read_magic(head)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # headers of Python 2, which this library never wrote
        if version == (1, 0):
            shape, by_columns, kind = np.lib.format.read_array_header_1_0(head)
        elif version == (2, 0):
            shape, by_columns, kind = np.lib.format.read_array_header_2_0(head)
        else:
            raise ValueError(f"{member.filename} is in version {version} of NumPy's format")
    if kind.hasobject or kind.itemsize == 0:
        raise ValueError(f"{member.filename} holds {kind}, not numbers")
    if min(shape, default=0) < 0 or math.prod(shape) * kind.itemsize != len(content) - head.tell():
        raise ValueError(f"{member.filename} does not match its shape {shape}")
    flat = np.frombuffer(content, dtype=kind, offset=head.tell())
    return flat.reshape(shape, order="F" if by_columns else "C")


def load(path: str | PathLike[str], unpack: Callable[[bytes], Content]) -> Content:
    """Read a file and parse its bytes with ``unpack``; errors are FileFormatErrors that name the file."""
    try:
        return unpack(read_file(path))
    except OSError as error:
        raise FileFormatError(f"{path}: {error.strerror or error}") from None
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
