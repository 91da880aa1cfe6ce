"""Variables in MATLAB files (``.mat``, versions 5 to 7), read without believing what they say of themselves.

Every size a file names is held against the bytes that are there before memory is taken for it, and what
unpacks is counted against the reading limit (:mod:`sdpfeas.files`). Arrays of numbers, sparse ones too, cells
and single structures are read; the rest (functions, objects) is left out.
"""

from __future__ import annotations

import gzip
import io
import math
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from sdpfeas.errors import FileFormatError
from sdpfeas.files import CHUNK, read_limit, read_within, require_within_limit, writing

__all__ = ["read_matlab", "write_matlab"]

#: Bytes that count for one byte of a file: one may stand for a number.
ROOM = 8

#: Bytes before the variables, those of them that are text, and those of a tag.
HEAD, TEXT, TAG = 128, 116, 8

#: Bytes that count for a field of a structure or a cell.
FIELD_ROOM = 2**10

#: What HDF5 files, which MATLAB calls version 7.3, begin with somewhere.
HDF5 = b"\x89HDF\r\n\x1a\n"

#: Types of data elements: numbers by NumPy's name, and two that hold others.
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX, COMPRESSED = 14, 15

#: Classes of arrays.
CELL, STRUCT, CHAR, SPARSE, NUMERIC = 1, 2, 4, 5, range(6, 16)

#: Cells and structures may hold others so many levels deep.
DEEPEST = 4


class _Element(NamedTuple):
    """One data element: its type and its bytes."""

    kind: int
    data: memoryview


def read_matlab(path: str | PathLike[str], wanted: Collection[str] | None = None) -> dict[str, Any]:
    """Variables of a file by name: arrays, sparse arrays, mappings (structures), object arrays (cells).

    ``path``: the file; it may be compressed by gzip, whatever its name. ``wanted``: variables to read; all
    of them if None.

    Raises ``FileFormatError``: if it is no such file, is damaged, or counts for more than the reading
    limit.
    """
    try:
        return dict(_variables(_content(path), wanted))
    except (FileFormatError, ValueError, struct.error, zlib.error, EOFError, gzip.BadGzipFile) as error:
        raise FileFormatError(f"{path}: {error}") from None


def write_matlab(path: str | PathLike[str], variables: Mapping[str, Any]) -> None:
    """Write variables to a file; the same ones give the same file.

    ``path``: the file; compressed by gzip if it ends in ``.gz``. ``variables``: arrays, sparse arrays, or
    mappings of arrays.
    """
    from scipy.io import savemat

    stream = io.BytesIO()
    savemat(stream, dict(variables), do_compression=not str(path).endswith(".gz"), oned_as="column")
    content = stream.getvalue()
    # No time stamp: SciPy puts one into the text at the beginning.
    content = b"MATLAB 5.0 MAT-file, written by sdpfeas".ljust(TEXT) + content[TEXT:]
    if str(path).endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    with writing(path):
        Path(path).write_bytes(content)


def _content(path: str | PathLike[str]) -> bytes:
    """The bytes of a file, unpacked if gzip packed them."""
    with Path(path).open("rb") as file:
        packed = file.peek(2)[:2] == b"\x1f\x8b"
        with gzip.open(file) if packed else file as stream:
            return read_within(stream, ROOM)


def _variables(content: bytes, wanted: Collection[str] | None) -> Iterator[tuple[str, Any]]:
    if HDF5 in content[:2048]:
        raise FileFormatError("a MATLAB file of version 7.3; save it with -v7")
    orders = {b"IM": "<", b"MI": ">"}
    if len(content) < HEAD or content[HEAD - 2 : HEAD] not in orders:
        raise FileFormatError("not a MATLAB file of version 5 to 7")
    order = orders[content[HEAD - 2 : HEAD]]
    total = len(content)
    for element in _elements(memoryview(content)[HEAD:], order, padded=False):
        if element.kind == COMPRESSED:
            unpacked = _unpack(element.data, total)
            total += len(unpacked)
            inside = next(_elements(memoryview(unpacked), order, padded=False), None)
        else:
            inside = element
        if inside is None or inside.kind != MATRIX:
            raise FileFormatError("damaged: a variable is missing where one should be")
        yield from _Array(inside.data, order).named(wanted)


def _elements(data: memoryview, order: str, *, padded: bool = True) -> Iterator[_Element]:
    """The data elements one after the other."""
    place = 0
    while len(data) - place >= TAG:
        kind, size = struct.unpack_from(f"{order}II", data, place)
        if kind >> 16:  # up to four bytes stand in the tag itself
            kind, size, start, end = kind & 0xFFFF, kind >> 16, place + 4, place + TAG
            if size > 4:
                raise FileFormatError("damaged: a small element that is not small")
        else:
            start = place + TAG
            end = start + size + (-size % 8 if padded else 0)
        if start + size > len(data):
            raise FileFormatError("damaged: an element is longer than the file")
        yield _Element(kind, data[start : start + size])
        place = end


def _unpack(data: memoryview, taken: int) -> bytes:
    """Unpack what zlib packed, if that is within the limit together with what is taken already."""
    stream, parts, most = zlib.decompressobj(), [], read_limit() // ROOM
    rest: bytes | memoryview = data
    while rest and not stream.eof:
        part = stream.decompress(rest, min(CHUNK, most + 1 - taken))
        parts.append(part)
        taken += len(part)
        require_within_limit(taken, "bytes unpacked, or more", each=ROOM)
        rest = stream.unconsumed_tail
    return b"".join(parts)


class _Array:
    """One array of a file, read when it is asked for.

    ``order``: the order of bytes, as :mod:`struct` spells it. ``depth``: how many cells and structures it
    is in.
    """

    def __init__(self, data: memoryview, order: str, depth: int = 0) -> None:
        if depth > DEEPEST:
            raise FileFormatError(f"cells and structures nested more than {DEEPEST} deep")
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
        if self.kind not in (CELL, STRUCT, CHAR, SPARSE, *NUMERIC):
            self.shape, self.name = (0, 0), ""
            return
        self.shape = tuple(int(side) for side in self.numbers("i4", "u4"))
        if len(self.shape) < 2 or min(self.shape) < 0:
            raise FileFormatError("damaged: an array without a shape")
        self.name = self.text()

    def named(self, wanted: Collection[str] | None) -> Iterator[tuple[str, Any]]:
        """Name and value, if it is wanted and of a kind that is read."""
        known = self.kind in (CELL, STRUCT, CHAR, SPARSE, *NUMERIC)
        if known and (wanted is None or self.name in wanted):
            yield self.name, self.value()

    def element(self) -> _Element:
        """The next data element; an empty one at the end."""
        return next(self.parts, _Element(0, memoryview(b"")))

    def numbers(self, *kinds: str) -> np.ndarray:
        """The numbers of the next data element; of these types only, if there are any."""
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
        """The text of the next data element."""
        return bytes(self.element().data).rstrip(b"\0").decode("latin-1")

    def value(self) -> Any:
        """The array itself."""
        if self.kind == SPARSE:
            return self.sparse()
        if self.kind == STRUCT:
            return self.structure()
        if self.kind == CELL:
            return self.cells()
        if self.kind == CHAR:
            return self.text()
        return self.filled(self.numbers()).reshape(self.shape, order="F")

    def filled(self, real: np.ndarray, size: int | None = None) -> np.ndarray:
        """Real parts, and imaginary parts if there are any, as many as there should be."""
        imaginary = self.numbers() if self.complex else None
        size = math.prod(self.shape) if size is None else size
        if real.size < size or (imaginary is not None and imaginary.size < size):
            raise FileFormatError(f"damaged: an array of {size:,} numbers has only {real.size:,}")
        return real[:size] if imaginary is None else real[:size] + 1j * imaginary[:size]

    def sparse(self) -> sp.csc_array:
        """A sparse array whose indices are sound."""
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
        """The fields of a structure."""
        length = self.numbers("i4", "u4")
        names = bytes(self.element().data)
        if math.prod(self.shape) != 1 or length.size != 1 or not 0 < int(length[0]) <= 2**10:
            raise FileFormatError("a structure must be a single one")
        width = int(length[0])
        require_within_limit(len(names) // width, "fields", each=FIELD_ROOM)
        fields = [names[k : k + width].partition(b"\0")[0] for k in range(0, len(names), width)]
        return {name.decode("latin-1"): self.inner() for name in fields}

    def cells(self) -> np.ndarray:
        """An array of arrays."""
        count = math.prod(self.shape)
        require_within_limit(count, "cells", each=FIELD_ROOM)
        content = list(islice(self.parts, count))
        if len(content) != count or any(element.kind != MATRIX for element in content):
            raise FileFormatError("damaged: cells are missing")
        out = np.empty(len(content), dtype=object)
        for k, element in enumerate(content):
            out[k] = _Array(element.data, self.order, self.depth + 1).value()
        return out.reshape(self.shape, order="F")

    def inner(self) -> Any:
        """The next array inside this one."""
        element = self.element()
        if element.kind != MATRIX:
            raise FileFormatError("damaged: a field without a value")
        inner = _Array(element.data, self.order, self.depth + 1)
        return inner.value() if inner.kind in (CELL, STRUCT, CHAR, SPARSE, *NUMERIC) else None
