"""Check and restore IEEE 754 arithmetic in a thread: subnormals, rounding to nearest, no contraction.

Every proof relies on it, and a shared library linked with ``-ffast-math`` sets flush-to-zero in the thread
that loads it; new threads inherit that. :func:`require_ieee` computes products and sums with known bits
whenever a problem is made or a proof begins, restores the default environment if they differ, and raises if
that does not help.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from contextlib import suppress
from typing import Any

import numpy as np

from sdpfeas.errors import FloatingPointStateError

CAUSE = "a library built with -ffast-math does that, or a call of fesetround"

#: Bits of ``a``, ``b``, ``c`` and ``a * b + c``, as integers: parsing decimals uses the tested arithmetic.
_CASES = {
    "subnormal results are set to zero": [
        (0x0010000000000000, 0x3FE0000000000000, 0, 0x0008000000000000),  # 2^-1022 / 2
        (0x8010000000000000, 0x3FE0000000000000, 1 << 63, 0x8008000000000000),
    ],
    "subnormal operands count as zero": [
        (1, 0x7E70000000000000, 0, 0x3B50000000000000),  # 2^-1074 * 2^1000
        (0x3FF0000000000000, 0, 1, 1),
    ],
    "results are not rounded to the nearest number": [
        (0x3FF0000000000000, 0x3FF0000000000000, 0x3C30000000000000, 0x3FF0000000000000),  # 1 + 2^-60
        (0x3FF0000000000000, 0x3FF0000000000000, 0xBC30000000000000, 0x3FF0000000000000),
        (0xBFF0000000000000, 0x3FF0000000000000, 0xBC30000000000000, 0xBFF0000000000000),
        (0x3FF0000000000000, 0x3FF0000000000000, 0x3CA0000000000000, 0x3FF0000000000000),  # a tie: 1 + 2^-53
        (0x3FF0000000000001, 0x3FF0000000000000, 0x3CA0000000000000, 0x3FF0000000000002),
    ],
    "products are not rounded before they are added": [
        (0x3FF0000000400000, 0x3FF0000000400000, 0xBFF0000000800000, 0),  # (1 + 2^-30)^2 - (1 + 2^-29)
    ],
}
_NAMES = [name for name, cases in _CASES.items() for _ in cases]
_A, _B, _C, _EXPECTED = (
    np.array(column, dtype=np.uint64).view(np.float64)
    for column in zip(*(case for cases in _CASES.values() for case in cases), strict=True)
)
_BYTES = _EXPECTED.tobytes()
_TRIPLES = list(zip(_A.tolist(), _B.tolist(), _C.tolist(), strict=True))
_PACK = struct.Struct(f"={len(_TRIPLES)}d").pack

#: Side of a matrix product that is large enough to be split between all BLAS threads.
_SIDE = 384


def require_ieee() -> None:
    """Restore IEEE 754 arithmetic in this thread if necessary, or raise FloatingPointStateError."""
    if wrong := not_ieee():
        raise FloatingPointStateError(wrong)


def not_ieee() -> str:
    """Restore IEEE 754 arithmetic in this thread if necessary; return what is wrong if that fails, else "".

    Takes a few microseconds.
    """
    if _is_ieee():
        return ""
    _restore()
    return "" if _is_ieee() else f"nothing can be proved in this thread: {_wrong()} ({CAUSE})"


def _is_ieee() -> bool:
    # NumPy and the Python interpreter may be compiled with different options: test both.
    return (_A * _B + _C).tobytes() == _BYTES == _PACK(*[a * b + c for a, b, c in _TRIPLES])


def _wrong() -> str:
    """Describe how the arithmetic of this thread violates IEEE 754."""
    arrays = (_A * _B + _C).view(np.uint64)
    floats = np.frombuffer(_PACK(*[a * b + c for a, b, c in _TRIPLES]), dtype=np.uint64)
    right = _EXPECTED.view(np.uint64)
    return "; ".join(dict.fromkeys(_NAMES[k] for k in np.nonzero((arrays != right) | (floats != right))[0]))


def _restore() -> None:
    """Set the default floating-point environment of C in this thread, if the C library supports it."""
    with suppress(OSError, AttributeError, ValueError):
        library: Any = ctypes.CDLL(None)
        # FE_DFL_ENV is the pointer -1 in glibc and musl, and a named object on macOS.
        default: Any = ctypes.c_void_p(-1)
        if sys.platform == "darwin":
            default = ctypes.byref(ctypes.c_char.in_dll(library, "_FE_DFL_ENV"))
        library.fesetenv(default)


def blas_is_ieee() -> bool:
    """Whether all BLAS threads, each with its own floating-point environment, follow IEEE 754.

    Takes milliseconds. A thread keeps the environment it was started with, so one check suffices.
    """
    # Row k of the left factor picks a case, and every column of the product shows its a * b + c.
    left, right = np.zeros((_SIDE, 2 * len(_A))), np.zeros((2 * len(_A), _SIDE))
    case = np.arange(_SIDE) % (len(_A) - 1)  # without the last case: fused multiply-add in BLAS is harmless
    left[np.arange(_SIDE), 2 * case] = _A[case]
    left[np.arange(_SIDE), 2 * case + 1] = _C[case]
    right[::2], right[1::2] = _B[:, None], 1.0
    return bool(np.all(left @ right == _EXPECTED[case, None]))
