"""Where a study ran: machine, versions, numerical libraries, revision."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from sdpfeas.io.result_files import package_versions

__all__ = ["describe_environment"]


def describe_environment() -> dict[str, Any]:
    """Machine, processor, versions, BLAS and git revision, as plain data."""
    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory": psutil.virtual_memory().total,
        "versions": package_versions(),
        "blas": _blas(),
        "revision": _revision(),
    }


def _cpu() -> str:
    with suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return platform.processor() or platform.machine()


def _blas() -> str:
    with suppress(Exception):
        found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{found['name']} {found['version']}"
    return "unknown"


def _revision() -> str:
    """Revision of the checkout the library runs from; empty for an installed one."""
    root = Path(__file__).parent.parent.parent
    if not (root / ".git").exists():
        return ""
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    return ""
