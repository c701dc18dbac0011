"""Threads for work that may never end."""

import threading
from concurrent.futures import Future, wait

import pytest

from deerflow.runtime.background import DaemonThreadPool

LIMIT_S = 10


def get(future: "Future[object]") -> object:
    return future.result(LIMIT_S)


def test_a_pool_returns_results_and_raises_errors() -> None:
    pool = DaemonThreadPool(2, "test")
    assert get(pool.submit(divmod, 7, 2)) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        get(pool.submit(divmod, 7, 0))
    assert get(pool.submit(lambda: threading.current_thread().daemon)) is True
    pool.shutdown()


def test_a_pool_has_no_more_threads_than_allowed_and_none_too_many() -> None:
    pool, barrier = DaemonThreadPool(3, "bounded"), threading.Barrier(3)
    names = [pool.submit(name_after, barrier) for _ in range(9)]
    assert len({get(name) for name in names}) == 3
    for _ in range(5):
        get(pool.submit(int))
    assert sum(thread.name.startswith("bounded-") for thread in threading.enumerate()) <= 3
    pool.shutdown()


def name_after(barrier: threading.Barrier) -> str:
    barrier.wait(LIMIT_S)
    return threading.current_thread().name


def test_calls_that_have_not_begun_are_cancelled_with_the_pool() -> None:
    pool, begun, release = DaemonThreadPool(1, "test"), threading.Event(), threading.Event()

    def block() -> bool:
        begun.set()
        return release.wait(LIMIT_S)

    blocked, waiting = pool.submit(block), pool.submit(int)
    assert begun.wait(LIMIT_S)
    pool.shutdown()
    assert waiting.cancelled() and not blocked.done()
    with pytest.raises(RuntimeError, match="closed"):
        pool.submit(int)
    release.set()
    assert get(blocked) is True


def test_a_cancelled_call_is_not_made() -> None:
    pool, release, made = DaemonThreadPool(1, "test"), threading.Event(), threading.Event()
    blocked, waiting = pool.submit(release.wait, LIMIT_S), pool.submit(made.set)
    assert waiting.cancel()
    release.set()
    wait([blocked, pool.submit(int)], LIMIT_S)
    assert not made.is_set()
    pool.shutdown()
