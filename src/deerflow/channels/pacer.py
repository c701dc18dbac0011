"""Pace of writes: one pacer per chat, and the preview of an answer that is being written."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from deerflow.channels.adapter import (
    ChannelAdapter,
    ChannelError,
    ChannelFlooded,
    ChannelOutcomeUnknown,
    ChannelRefused,
    ChannelStreamEnded,
    ChatButton,
    join_status,
)
from deerflow.channels.queries import OutgoingMessage, cut_shown, keep_shown
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
    """Shows the newest text of an answer: as a draft where there are drafts, else as a message that grows.

    If the platform ends the message, the answer goes on in a new one, at the first character that was not shown.
    """

    def __init__(
        self,
        adapter: ChannelAdapter,
        pacer: ChatPacer,
        message: OutgoingMessage,
        stop_label: str,
        on_change: Callable[[OutgoingMessage], Awaitable[None]],
    ) -> None:
        """`on_change` records what is known of the message: before it is sent, and afterwards."""
        self._adapter = adapter
        self._pacer = pacer
        self._message = message
        self._stop = ChatButton(stop_label, f"stop:{message.number}")
        self._on_change = on_change
        self._can_repeat = adapter.limits.idempotent_s > 0
        self._uses_draft = adapter.has_drafts and message.address.is_private and message.message_id is None
        self._changed = asyncio.Event()
        self._text, self._status = "", ""
        self._shown: tuple[str, str] | None = None
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def show(self, text: str, status: str) -> None:
        """Set the text to be shown next, and what is being done; what was not shown yet is left out."""
        if self._task is not None and (text, status) == (self._text, self._status):
            return
        self._text, self._status = text, status
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
            if not self._uses_draft and (self._text, self._status) == self._shown:
                continue
            try:
                await self._pacer.write(self._finish_write)
            except ChannelStreamEnded:
                await self._change(keep_shown(self._message.details, self._shown[0] if self._shown else ""))
                self._changed.set()
            except ChannelRefused as refused:
                if not self._uses_draft:
                    logger.info("an answer is shown only when it is complete: %s", refused)
                    return
                self._uses_draft = False
                self._changed.set()
            except ChannelError as problem:
                logger.info("a preview was not shown: %s", problem)
                if self._message.state == "sending" and self._message.message_id is None and not self._can_repeat:
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
        text, status, address = self._text, self._status, self._message.address
        rest = cut_shown(self._message.details, text)
        if self._uses_draft:
            await self._adapter.show_draft(address, str(self._message.number), join_status(text, status))
        elif self._message.message_id is None:
            await self._begin(rest, status)
        else:
            await self._adapter.show_stream(address, self._message.message_id, rest, status, self._stop)
        self._shown = text, status

    async def _begin(self, text: str, status: str) -> None:
        """Send the first text. If its outcome is unknown, the message stays `sending`."""
        was_sent = self._message.state == "sending"  # maybe: the platform knows its key
        if not was_sent:
            await self._record(replace(self._message, state="sending"))
        message = self._message
        try:
            sent = await self._adapter.begin_stream(message.address, text, status, self._stop, message.key)
        except ChannelOutcomeUnknown:
            raise
        except ChannelError:
            if not was_sent:
                await self._record(replace(message, state="pending"))
            raise
        await self._record(replace(message, message_id=sent))

    async def _change(self, details: Mapping[str, Any]) -> None:
        """Go on in a new message."""
        await self._record(replace(self._message, details=details, message_id=None, state="pending"))

    async def _record(self, message: OutgoingMessage) -> None:
        await self._on_change(message)
        self._message = message
