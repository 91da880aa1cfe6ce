"""Files as bad luck and bad will leave them: bytes flipped, cut, repeated; values swapped for odd ones."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

#: Numbers and words that readers stumble over.
ODD_VALUES: list[Any] = [
    *(0, -1, 1, 2, 3, 255, 2**31 - 1, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0, 1e308, -1e308, 5e-324),
    *(float("nan"), float("inf"), float("-inf"), True, False, None),
    *("", "x", "header", "\x00", "\x1b[31m", "é", "dense", "combined", "lower"),
    *([], {}, [[]], [None], {"": None}, ["a", "a"], {"kind": "PSD", "n": 2}),
]

ODD_TOKENS = [
    *(b"0", b"-1", b"1e400", b"nan", b"inf", b"1e-400", b"99999999999999999999", b"2147483648", b"0x10"),
    *(
        b"",
        b"*",
        b'"',
        b"{",
        b"}",
        b"[[",
        b"=",
        b"\xff\xfe",
        b"\x00",
        b"'''",
        b"#",
        b"\n",
        b"\r",
        b",",
        b".5",
    ),
    *(b"1d3", b"--"),
]

ODD_DTYPES = (
    *("<f8", ">f8", "<f4", "<f2", "<f16", "<i8", "|i1", "|u1", "|b1", "<c16"),
    *("|S3", "<U2", "<M8[s]", "V4"),
)


def in_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Flip, cut, insert or repeat bytes."""
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 5))):
        place, length = int(rng.integers(len(out) + 1)), int(rng.integers(1, 9))
        match int(rng.integers(6)):
            case 0:
                if place < len(out):
                    out[place] ^= 1 << int(rng.integers(8))
            case 1:
                out[place : place + length] = rng.bytes(length)
            case 2:
                del out[place : place + length]
            case 3:
                out[place:place] = rng.bytes(length)
            case 4:
                out[place:place] = out[max(place - 40, 0) : place]
            case _:
                if rng.random() < 0.3:
                    del out[place:]
    return bytes(out)


def in_tokens(data: bytes, rng: np.random.Generator) -> bytes:
    """Swap, drop or repeat words and numbers of a text."""
    parts = re.split(rb"([A-Za-z0-9_.+-]+|\s+)", data)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(parts)))
        match int(rng.integers(4)):
            case 0:
                parts[place] = ODD_TOKENS[int(rng.integers(len(ODD_TOKENS)))]
            case 1:
                parts[place] = b""
            case 2:
                parts[place] = parts[int(rng.integers(len(parts)))]
            case _:
                parts[place] *= int(rng.integers(2, 5))
    return b"".join(parts)


def in_archive(data: bytes, rng: np.random.Generator) -> bytes:
    """Change the header or an array of one of our files, and pack it again as if nothing were wrong."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for name in map(str, rng.permutation(sorted(members))[: rng.integers(1, 4)]):
        if name == "header.npy":
            header = json.loads(np.load(io.BytesIO(members[name])).tobytes())
            _swap(header, rng)
            members[name] = _packed(np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
        elif rng.random() < 0.2:
            members[name] = in_bytes(members[name], rng)
        elif rng.random() < 0.1:
            del members[name]
        else:
            members[name] = _packed(_odd_array(np.load(io.BytesIO(members[name])), rng))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


def _packed(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def _swap(value: Any, rng: np.random.Generator) -> None:
    """Put something odd somewhere into a header, in place."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = keys[int(rng.integers(len(keys)))]
        if isinstance(value[key], (dict, list)) and value[key] and rng.random() < 0.7:
            value = value[key]
            continue
        if isinstance(value, dict) and rng.random() < 0.15:
            del value[key]
        else:
            value[key] = ODD_VALUES[int(rng.integers(len(ODD_VALUES)))]
        return


def _odd_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    array = np.array(array)
    with np.errstate(all="ignore"):
        match int(rng.integers(5)):
            case 0 if array.size and array.dtype.kind in "if":
                odd = [v for v in ODD_VALUES if isinstance(v, (int, float)) and abs(v) < 2**62]
                value = odd[int(rng.integers(len(odd)))]
                array.flat[int(rng.integers(array.size))] = value if array.dtype.kind == "f" else int(value)
            case 1:
                array = array.reshape(-1)
            case 2:
                array = array[: max(len(array) - 1, 0)] if array.ndim else array
            case 3:
                array = np.concatenate([array, array]) if array.ndim else array[None]
            case _:
                kind = np.dtype(str(rng.choice(ODD_DTYPES)))
                size = array.nbytes // kind.itemsize
                array = np.frombuffer(array.tobytes()[: size * kind.itemsize], dtype=kind)
    return array


MUTATIONS: dict[str, list[Callable[[bytes, np.random.Generator], bytes]]] = {
    "archive": [in_bytes, in_archive, in_archive],
    "text": [in_bytes, in_tokens, in_tokens],
    "bytes": [in_bytes],
}
