"""Estimates of time and memory, and threads."""

import math
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from sdpfeas.deadline import Deadline
from sdpfeas.errors import LimitError, OutOfMemory, OutOfTime
from sdpfeas.numerics import limits
from sdpfeas.numerics import threads as module
from sdpfeas.numerics.limits import (
    EIGEN_FLOPS,
    available_memory,
    check_deadline,
    estimated_seconds,
    guard,
    limited,
    time_left,
)
from sdpfeas.numerics.linalg import eigh
from sdpfeas.numerics.threads import MULTITHREADED_SIDE, few_threads

# ---------------------------------------------------------------- time


def test_work_that_fits_is_let_through() -> None:
    guard("anything", 1e30)  # no limit
    check_deadline("anything")
    with limited(Deadline(None)):
        guard("anything", 1e30)
    with limited(Deadline(60.0)):
        guard("little", 1e3)
        guard("some", 1e9)
        check_deadline("anything")


def test_work_that_does_not_fit_is_refused_with_numbers() -> None:
    with (
        limited(Deadline(1.0)),
        pytest.raises(OutOfTime, match=r"before a miracle: about .* s needed, .* s left"),
    ):
        guard("a miracle", 1e15)


def test_when_the_time_is_up_nothing_is_begun() -> None:
    deadline = Deadline(1e-3)
    time.sleep(2e-3)
    with limited(deadline):
        with pytest.raises(OutOfTime, match="out of time before an eigendecomposition"):
            eigh(np.eye(2))
        with pytest.raises(OutOfTime, match="out of time before a step"):
            check_deadline("a step")
        assert time_left() == 0.0
    eigh(np.eye(2))
    assert time_left() == math.inf


def test_the_inner_limit_takes_the_place_of_the_outer_one() -> None:
    with limited(Deadline(1e-3)), limited(Deadline(60.0)):
        time.sleep(2e-3)
        check_deadline("a moment")
        with limited(None):
            check_deadline("a moment")


def test_limits_are_those_of_their_own_thread() -> None:
    started, seen = threading.Event(), []

    def other() -> None:
        started.wait(5.0)
        seen.append(time_left())

    with ThreadPoolExecutor(1) as pool, limited(Deadline(1.0)):
        future = pool.submit(other)
        started.set()
        future.result()
    assert seen == [math.inf]


def test_estimates_are_of_the_right_order() -> None:
    n = 300
    a = np.random.default_rng(0).normal(size=(n, n))
    a = a + a.T
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        eigh(a)
        taken.append(time.perf_counter() - begin)
    assert estimated_seconds(EIGEN_FLOPS * n**3) > 0.1 * min(taken)
    assert estimated_seconds(8e6) == pytest.approx(8.0 * estimated_seconds(1e6))


def test_nothing_is_measured_for_what_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_measured", [])
    monkeypatch.setattr(limits, "_measure", lambda: pytest.fail("measured"))
    with limited(Deadline(5.0)):
        eigh(np.eye(5))
        guard("little", 1e6)


# ---------------------------------------------------------------- memory


def test_memory_that_is_not_there_is_refused_even_without_a_limit() -> None:
    with pytest.raises(OutOfMemory, match=r"for the moon: about .* GiB needed, .* GiB left") as caught:
        guard("the moon", memory=1e17)
    assert isinstance(caught.value, LimitError)
    guard("a little", memory=1e6)


def test_available_memory_heeds_every_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0.0 < available_memory() < 1e15
    monkeypatch.setattr(limits, "_group_memory", lambda: 5.0)
    assert available_memory() == 5.0
    monkeypatch.setattr(limits, "_address_space", lambda: -3.0)
    assert available_memory() == 0.0


# ---------------------------------------------------------------- threads


def threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_small_matrices_get_one_thread_and_the_others_come_back() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with few_threads([10], 5):
            assert threads() == {1}
            with few_threads([20], 5):
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == before
        with pytest.raises(ValueError, match="on purpose"), few_threads([10], 5):
            raise ValueError("on purpose")
        assert threads() == before


def test_large_matrices_keep_all_threads() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        for sides, rows in (([MULTITHREADED_SIDE], 1), ([], 3 * MULTITHREADED_SIDE)):
            with few_threads(sides, rows):
                assert threads() == before
        with few_threads([10], 10**6):  # nobody forms a matrix of that side
            assert threads() == {1}


def test_threads_that_solve_side_by_side_do_not_undo_each_other() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = threads()
        inside, leave = threading.Event(), threading.Event()

        def other() -> None:
            with few_threads([10], 5):
                inside.set()
                leave.wait(5.0)

        with ThreadPoolExecutor(1) as pool:
            with few_threads([10], 5):
                future = pool.submit(other)
                assert inside.wait(5.0)
            leave.set()
            future.result()
        assert threads() == before


def test_libraries_that_come_later_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with few_threads([10], 5):
        pass
    looked = []
    whole = module.ThreadpoolController
    monkeypatch.setattr(module, "ThreadpoolController", lambda: looked.append(1) or whole())
    for count in (0, 1, 1):
        with few_threads([10], 5):
            pass
        assert len(looked) == count
        monkeypatch.setitem(sys.modules, "that_came_later", ModuleType("that_came_later"))
