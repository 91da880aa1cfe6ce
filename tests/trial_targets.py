"""What the tests of trials run in workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any


def echo(payload: Any, start: Any) -> Any:
    start(unit=0.5)
    return payload


def whoami(_: Any, start: Any) -> int:
    start()
    return os.getpid()


def threads(_: Any, start: Any) -> str:
    start()
    return os.environ["OPENBLAS_NUM_THREADS"] + os.environ["RAYON_NUM_THREADS"]


def sleep(seconds: float, start: Any) -> None:
    start(unit=0.5)
    time.sleep(seconds)


def sleep_first(seconds: float, _: Any) -> None:
    time.sleep(seconds)


def hoard(size: int, start: Any) -> None:
    start()
    hoard = bytearray(size)
    time.sleep(60)
    del hoard


def let_work(loops: int, start: Any) -> None:
    start()
    subprocess.run([sys.executable, "-S", "-c", f"for _ in range({loops}): pass"], check=True)


def die(how: int, start: Any) -> None:
    start()
    if how < 0:
        os.kill(os.getpid(), -how)
    os._exit(how)


def refuse(size: int, start: Any) -> None:
    start()
    print(f"memory allocation of {size} bytes failed", flush=True)
    os.abort()


def fail(words: str, start: Any) -> None:
    start()
    raise ValueError(words)


def odd(_: Any, start: Any) -> Any:
    start()
    return lambda: 0


def talk(words: list[str], start: Any) -> None:
    for word in words:
        print(word)
        start()
    print("the end")


def modules(names: list[str], start: Any) -> list[str]:
    start()
    return [str(__import__(name).__file__) for name in names]


#: A program that leaves its session and its parent behind, holds some memory, and says who it is.
ORPHAN = """
import os, sys, time
os.setsid()
if os.fork():
    os._exit(0)
held = bytearray(int(sys.argv[2]))
with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")
time.sleep(120)
"""


def orphans(payload: tuple[str, int, int, str], start: Any) -> None:
    """Start children that do all they can to escape; then sleep, or die, or be done."""
    path, count, size, then = payload
    start()
    for _ in range(count):
        subprocess.run([sys.executable, "-I", "-S", "-c", ORPHAN, path, str(size)], check=True)
    while not Path(path).exists() or len(Path(path).read_text().split()) < count:
        time.sleep(0.01)
    if then == "die":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif then == "sleep":
        time.sleep(60)
