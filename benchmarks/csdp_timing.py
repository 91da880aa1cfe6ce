"""Run CSDP on SDPA files and measure it, with an optimised BLAS and one thread.

Debian's ``coinor-csdp`` comes with the reference BLAS, which makes it about three times slower (21 s instead
of 6.3 s on theta4 of SDPLIB), so :func:`require_fast_blas` refuses to measure that.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: Names of BLAS libraries that are faster than the reference BLAS, in paths of shared objects.
FAST_BLAS = re.compile(r"openblas|mkl|blis|atlas|armpl|nvpl|flexiblas", re.IGNORECASE)

ADVICE = "install one (Debian: apt install libopenblas0-pthread) and measure again"


class SlowBlasError(RuntimeError):
    """CSDP is missing, or linked to a BLAS that would make a comparison unfair."""


@dataclass(frozen=True)
class CsdpRun:
    """A run of CSDP: exit code (None if killed at the limit), processor seconds, peak memory in bytes."""

    code: int | None
    seconds: float
    peak_memory: int


def libraries_of(program: str) -> list[str]:
    """Return the resolved paths of the shared objects that a program loads."""
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return [str(Path(path).resolve()) for path in re.findall(r"=> (/\S+)", listing)]


def require_fast_blas() -> None:
    """Raise :class:`SlowBlasError` unless CSDP is here and uses an optimised BLAS."""
    program = shutil.which("csdp")
    if program is None:
        raise SlowBlasError(
            f"the program csdp is not on the PATH (Debian: apt install coinor-csdp); also {ADVICE}"
        )
    if not any(FAST_BLAS.search(path) for path in libraries_of(program)):
        raise SlowBlasError(f"{program} uses the reference BLAS, which makes it three times slower; {ADVICE}")


def run_csdp(file: Path, limit: float) -> CsdpRun:
    """Run CSDP on an SDPA file in a new process with one thread."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory(prefix="csdp-") as folder:
        # /dev/null as the solution: only the solve is measured.
        process = subprocess.Popen(
            ["csdp", str(file.resolve())],
            cwd=folder,
            env={**os.environ, **one},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        killed = threading.Event()

        def kill() -> None:
            killed.set()
            with suppress(ProcessLookupError):
                process.kill()

        timer = threading.Timer(limit, kill)
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = usage.ru_utime + usage.ru_stime
    return CsdpRun(None if killed.is_set() else process.returncode, seconds, usage.ru_maxrss * 1024)
