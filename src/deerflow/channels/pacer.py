"""Pace of writes: one pacer per chat, and the preview of an answer that is being written."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from deerflow.channels.adapter import ChannelAdapter, ChannelError, ChannelFlooded, ChannelRefused, ChatButton
from deerflow.channels.queries import OutgoingMessage
from deerflow.runtime.background import complete_before_cancel, wait_for_event

logger = logging.getLogger(__name__)

T = TypeVar("T")


class ChatPacer:
    """Lets one write at a time through to a chat, at intervals, and none while the platform wants none."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._lock = asyncio.Lock()
        self._next_at = float("-inf")

    async def write(self, call: Callable[[], Awaitable[T]]) -> T:
        """Call `call` when the chat is due, again after each flood, and return its result."""
        while True:
            async with self._lock:
                await self._wait()
                try:
                    return await call()
                except ChannelFlooded as flood:
                    self._postpone(flood.retry_after_s)
                finally:
                    self._postpone(self._interval_s)

    async def _wait(self) -> None:
        """Wait until the chat is due. The caller holds the lock."""
        await asyncio.sleep(max(0.0, self._next_at - asyncio.get_running_loop().time()))

    def _postpone(self, seconds: float) -> None:
        self._next_at = max(self._next_at, asyncio.get_running_loop().time() + seconds)


class AnswerPreview:
    """Shows the newest text of an answer: as a draft where there are drafts, else as a message that is edited."""

    def __init__(
        self,
        adapter: ChannelAdapter,
        pacer: ChatPacer,
        message: OutgoingMessage,
        stop_label: str,
        on_begin: Callable[[], Awaitable[None]],
        on_message: Callable[[str], Awaitable[None]],
    ) -> None:
        """`on_begin` records that a message is sent, where that can be repeated; `on_message` records its id."""
        self.message_id = message.message_id
        self._adapter = adapter
        self._pacer = pacer
        self._message = message
        self._stop = ChatButton(stop_label, f"stop:{message.number}")
        self._on_begin = on_begin
        self._on_message = on_message
        self._can_repeat = adapter.limits.idempotent_s > 0
        self._uses_draft = adapter.has_drafts and message.address.is_private and message.message_id is None
        self._changed = asyncio.Event()
        self._text = self._shown = ""
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def show(self, text: str) -> None:
        """Set the text to be shown next; one that was not shown yet is left out."""
        if text == self._text:
            return
        self._text = text
        self._changed.set()
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="preview of an answer")

    async def aclose(self) -> None:
        """Show nothing more. A write that has begun is finished."""
        self._is_over = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            await wait_for_event(self._changed, self._adapter.limits.draft_life_s / 2)
            self._changed.clear()
            if not self._uses_draft and self._text == self._shown:
                continue
            try:
                await self._pacer.write(self._finish_write)
            except ChannelRefused as refused:
                if not self._uses_draft:
                    logger.info("an answer is shown only when it is complete: %s", refused)
                    return
                self._uses_draft = False
                self._changed.set()
            except ChannelError as problem:
                logger.info("a preview was not shown: %s", problem)
                if not self._uses_draft and self.message_id is None and not self._can_repeat:
                    return  # a message may be there, but cannot be edited

    async def _finish_write(self) -> None:
        try:
            await complete_before_cancel(self._write())
        except ChannelError:
            if self._is_over:  # the order to end arrived meanwhile
                raise asyncio.CancelledError from None
            raise

    async def _write(self) -> None:
        """Show the newest text."""
        text, address = self._text, self._message.address
        if self._uses_draft:
            await self._adapter.show_draft(address, str(self._message.number), text)
        elif self.message_id is None:
            if self._can_repeat:
                await self._on_begin()
            self.message_id = await self._adapter.begin_stream(address, text, self._stop, self._message.key)
            await self._on_message(self.message_id)
        else:
            await self._adapter.show_stream(address, self.message_id, text, self._stop)
        self._shown = text
