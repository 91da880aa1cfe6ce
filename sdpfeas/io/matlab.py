"""Read and write MATLAB files (``.mat``, versions 5 to 7) from untrusted sources: :func:`read_matlab`.

Every size in a file is checked against the bytes that follow before memory is allocated, and decompressed
bytes count against the read limit (:mod:`sdpfeas.files`). Dense and sparse arrays of numbers, cells and
single structures are read; functions and objects are skipped.
"""

from __future__ import annotations

import io
import math
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import FileFormatError
from sdpfeas.files import CHUNK_BYTES, read_limit, require_within_limit
from sdpfeas.io.problem_files import BYTES_PER_BYTE, read_decompressed, write_compressed

__all__ = ["read_matlab", "write_matlab"]

#: Bytes of the header, of the text in it, and of a tag.
HEADER_BYTES, TEXT_BYTES, TAG_BYTES = 128, 116, 8

#: Bytes counted against the read limit per field of a structure or cell.
FIELD_BYTES = 2**10

#: Signature of HDF5, which MATLAB calls version 7.3.
HDF5 = b"\x89HDF\r\n\x1a\n"

#: Types of data elements: numbers by NumPy's name, and two that contain other elements.
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED = 14, 15

#: Classes of arrays.
CELL, STRUCT, CHAR, SPARSE, NUMERIC = 1, 2, 4, 5, range(6, 16)
KNOWN = (CELL, STRUCT, CHAR, SPARSE, *NUMERIC)

#: Most levels of nested cells and structures.
MAX_DEPTH = 4


class _Element(NamedTuple):
    """One data element: its type and its bytes."""

    kind: int
    data: memoryview


def read_matlab(path: str | PathLike[str], wanted: Collection[str] | None = None) -> dict[str, Any]:
    """Read the variables of a file: arrays, sparse arrays, mappings (structures), object arrays (cells).

    ``wanted`` names the variables to read; None reads all. gzip is recognised by the content. Raises
    ``FileFormatError`` for a malformed file, or one beyond the read limit.
    """
    content = read_decompressed(path)
    try:
        return dict(_variables(content, wanted))
    except (FileFormatError, ValueError, struct.error, zlib.error) as error:
        raise FileFormatError(f"{path}: {error}") from None


def write_matlab(path: str | PathLike[str], variables: Mapping[str, Any]) -> None:
    """Write arrays, sparse arrays or mappings of arrays; the same variables give the same file.

    The file is compressed by gzip if its name ends in ``.gz``.
    """
    from scipy.io import savemat

    stream = io.BytesIO()
    savemat(stream, dict(variables), do_compression=not str(path).endswith(".gz"), oned_as="column")
    content = stream.getvalue()
    # SciPy writes a time stamp into the text of the header.
    content = b"MATLAB 5.0 MAT-file, written by sdpfeas".ljust(TEXT_BYTES) + content[TEXT_BYTES:]
    write_compressed(path, content)


def _variables(content: bytes, wanted: Collection[str] | None) -> Iterator[tuple[str, Any]]:
    if HDF5 in content[:2048]:
        raise FileFormatError("a MATLAB file of version 7.3; save it with -v7")
    orders = {b"IM": "<", b"MI": ">"}
    if len(content) < HEADER_BYTES or content[HEADER_BYTES - 2 : HEADER_BYTES] not in orders:
        raise FileFormatError("not a MATLAB file of version 5 to 7")
    order = orders[content[HEADER_BYTES - 2 : HEADER_BYTES]]
    total = len(content)
    for element in _elements(memoryview(content)[HEADER_BYTES:], order, padded=False):
        if element.kind == COMPRESSED:
            unpacked = _decompress(element.data, total)
            total += len(unpacked)
            inside = next(_elements(memoryview(unpacked), order, padded=False), None)
        else:
            inside = element
        if inside is None or inside.kind != MATRIX:
            raise FileFormatError("damaged: a variable is missing where one should be")
        yield from _Array(inside.data, order).named(wanted)


def _elements(data: memoryview, order: str, *, padded: bool = True) -> Iterator[_Element]:
    """Yield the data elements in order."""
    place = 0
    while len(data) - place >= TAG_BYTES:
        kind, size = struct.unpack_from(f"{order}II", data, place)
        if kind >> 16:  # a small element: up to four bytes inside the tag
            kind, size, start, end = kind & 0xFFFF, kind >> 16, place + 4, place + TAG_BYTES
            if size > 4:
                raise FileFormatError("damaged: a small element that is not small")
        else:
            start = place + TAG_BYTES
            end = start + size + (-size % 8 if padded else 0)
        if start + size > len(data):
            raise FileFormatError("damaged: an element is longer than the file")
        yield _Element(kind, data[start : start + size])
        place = end


def _decompress(data: memoryview, taken: int) -> bytes:
    """Decompress zlib data; raise an error if it exceeds the limit together with ``taken`` bytes."""
    stream, parts, most = zlib.decompressobj(), [], read_limit() // BYTES_PER_BYTE
    rest: bytes | memoryview = data
    while rest and not stream.eof:
        part = stream.decompress(rest, min(CHUNK_BYTES, most + 1 - taken))
        parts.append(part)
        taken += len(part)
        require_within_limit(taken, "decompressed bytes, or more", each=BYTES_PER_BYTE)
        rest = stream.unconsumed_tail
    return b"".join(parts)


class _Array:
    """One array of a file; its values are parsed on demand.

    ``order`` is the byte order in the notation of :mod:`struct`, ``depth`` the number of enclosing cells and
    structures.
    """

    def __init__(self, data: memoryview, order: str, depth: int = 0) -> None:
        if depth > MAX_DEPTH:
            raise FileFormatError(f"cells and structures nested more than {MAX_DEPTH} deep")
        self.order, self.depth = order, depth
        self.parts = _elements(data, order)
        flags = self.numbers("i4", "u4")
        self.kind, self.complex = 0, False
        self.shape: tuple[int, ...]
        if not data:  # an empty array may be a tag and nothing else
            self.kind, self.shape, self.name = NUMERIC[0], (0, 0), ""
            return
        if flags.size != 2:
            raise FileFormatError("damaged: an array without flags")
        self.kind, self.complex = int(flags[0]) & 0xFF, bool(int(flags[0]) & 0x800)
        if self.kind not in KNOWN:
            self.shape, self.name = (0, 0), ""
            return
        self.shape = tuple(int(side) for side in self.numbers("i4", "u4"))
        if len(self.shape) < 2 or min(self.shape) < 0:
            raise FileFormatError("damaged: an array without a shape")
        self.name = self.text()

    def named(self, wanted: Collection[str] | None) -> Iterator[tuple[str, Any]]:
        """Yield name and value, if the array is wanted and of a known class."""
        if self.kind in KNOWN and (wanted is None or self.name in wanted):
            yield self.name, self.value()

    def element(self) -> _Element:
        """Return the next data element; an empty one at the end."""
        return next(self.parts, _Element(0, memoryview(b"")))

    def numbers(self, *kinds: str) -> np.ndarray:
        """Parse the numbers of the next data element, of one of these types if any are given."""
        element = self.element()
        kind = NUMBERS.get(element.kind)
        if not element.data:
            return np.zeros(0, dtype=kinds[0] if kinds else "f8")
        if kind is None or (kinds and kind not in kinds):
            raise FileFormatError("damaged: numbers of a wrong type")
        if len(element.data) % int(kind[1]):
            raise FileFormatError("damaged: half a number")
        found = np.frombuffer(element.data, dtype=self.order + kind)
        return found.astype(found.dtype.newbyteorder("="), copy=False)

    def text(self) -> str:
        """Parse the text of the next data element."""
        return bytes(self.element().data).rstrip(b"\0").decode("latin-1")

    def value(self) -> Any:
        """Parse the values of the array; None for functions and objects."""
        if self.kind not in KNOWN:
            return None
        parsers = {SPARSE: self.sparse, STRUCT: self.structure, CELL: self.cells, CHAR: self.text}
        if self.kind in parsers:
            return parsers[self.kind]()
        return self.filled(self.numbers()).reshape(self.shape, order="F")

    def filled(self, real: np.ndarray, size: int | None = None) -> np.ndarray:
        """Combine real and imaginary parts, and check their number."""
        imaginary = self.numbers() if self.complex else None
        size = math.prod(self.shape) if size is None else size
        if real.size < size or (imaginary is not None and imaginary.size < size):
            raise FileFormatError(f"damaged: an array of {size:,} numbers has only {real.size:,}")
        return real[:size] if imaginary is None else real[:size] + 1j * imaginary[:size]

    def sparse(self) -> sp.csc_array:
        """Parse a sparse array, and validate its indices."""
        if len(self.shape) != 2:
            raise FileFormatError("damaged: a sparse array has two dimensions")
        m, n = self.shape
        indices, starts = self.numbers("i4", "u4"), self.numbers("i4", "u4")
        count = int(starts[-1]) if starts.size == n + 1 else -1
        if (
            not 0 <= count <= indices.size
            or starts[0] != 0
            or np.any(starts[1:] < starts[:-1])
            or (count and not 0 <= int(indices[:count].min()) <= int(indices[:count].max()) < m)
        ):
            raise FileFormatError("damaged: the indices of a sparse array do not fit each other")
        values = self.filled(self.numbers(), count)
        return sp.csc_array((values, indices[:count].astype(np.int64), starts.astype(np.int64)), shape=(m, n))

    def structure(self) -> dict[str, Any]:
        """Parse the fields of a structure."""
        length = self.numbers("i4", "u4")
        names = bytes(self.element().data)
        if math.prod(self.shape) != 1 or length.size != 1 or not 0 < int(length[0]) <= 2**10:
            raise FileFormatError("a structure must be a single one")
        width = int(length[0])
        require_within_limit(len(names) // width, "fields", each=FIELD_BYTES)
        fields = [names[k : k + width].partition(b"\0")[0] for k in range(0, len(names), width)]
        return {name.decode("latin-1"): self.inner() for name in fields}

    def cells(self) -> np.ndarray:
        """Parse an array of arrays."""
        count = math.prod(self.shape)
        require_within_limit(count, "cells", each=FIELD_BYTES)
        out = np.empty(count, dtype=object)
        for k in range(count):
            out[k] = self.inner()
        return out.reshape(self.shape, order="F")

    def inner(self) -> Any:
        """Parse the next array inside this one."""
        element = self.element()
        if element.kind != MATRIX:
            raise FileFormatError("damaged: a cell or field without a value")
        return _Array(element.data, self.order, self.depth + 1).value()
