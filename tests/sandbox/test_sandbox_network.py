"""Network of a thread: nothing is left open if it is cancelled or closed while it opens."""

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from deerflow.sandbox.local.launcher import network
from deerflow.sandbox.local.launcher.network import PUBLIC_INTERNET, ThreadNetwork
from deerflow.sandbox.proxy import serve_proxy


class OneNamespace:
    """Launcher that gives one listener away."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.closed: list[int] = []

    async def open_namespace(self, *, listen: bool) -> tuple[int, socket.socket]:
        return 1, self.listener

    def has_namespace(self, namespace: int) -> bool:
        return namespace not in self.closed

    def close_namespace(self, namespace: int) -> None:
        self.closed.append(namespace)


@pytest.fixture
def opening(monkeypatch: pytest.MonkeyPatch) -> tuple[OneNamespace, ThreadNetwork, threading.Event, Callable[[], None]]:
    """Return a network whose proxy is loaded as soon as the last item is called, and an event when that is awaited."""
    launcher, begun, goes_on = OneNamespace(), threading.Event(), threading.Event()

    def load() -> object:
        begun.set()
        assert goes_on.wait(30)
        return serve_proxy

    monkeypatch.setattr(network, "load_proxy", load)
    anything: Any = None
    launching: Any = launcher
    return launcher, ThreadNetwork(PUBLIC_INTERNET, launching, anything), begun, goes_on.set


async def test_one_that_is_cancelled_while_it_opens_leaves_no_listener(
    opening: tuple[OneNamespace, ThreadNetwork, threading.Event, Callable[[], None]],
) -> None:
    launcher, thread_network, begun, go_on = opening
    task = asyncio.create_task(thread_network.open())
    assert await asyncio.to_thread(begun.wait, 30)
    task.cancel()
    go_on()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert launcher.listener.fileno() == -1 and launcher.closed == [1]


async def test_one_that_is_closed_while_it_opens_leaves_no_listener(
    opening: tuple[OneNamespace, ThreadNetwork, threading.Event, Callable[[], None]],
) -> None:
    launcher, thread_network, begun, go_on = opening
    task = asyncio.create_task(thread_network.open())
    assert await asyncio.to_thread(begun.wait, 30)
    closing = asyncio.create_task(thread_network.aclose())
    go_on()
    assert await task == 1
    await closing
    assert launcher.listener.fileno() == -1 and launcher.closed == [1]
