"""Delivery of messages to chats. Each is recorded before it is sent, and its outcome afterwards."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from deerflow.channels import queries as rows
from deerflow.channels.adapter import (
    ChannelAdapter,
    ChannelError,
    ChannelFlooded,
    ChannelOutcomeUnknown,
    ChannelRefused,
    ChatAddress,
    ChatButton,
)
from deerflow.channels.answers import AnswerView, FinalAnswer, conclude
from deerflow.channels.pacer import AnswerPreview, ChatPacer
from deerflow.channels.queries import OPEN, OutgoingMessage
from deerflow.channels.texts import translate
from deerflow.domain.errors import FileProblem, NotFound, StorageUnavailable
from deerflow.domain.identity import Principal
from deerflow.domain.runs import RunRecord
from deerflow.harness import Harness
from deerflow.runtime.background import BackgroundTasks, complete_before_cancel
from deerflow.sandbox.file_access import ReadableFile

logger = logging.getLogger(__name__)

FIRST_RETRY_S, MAX_RETRY_S = 1.0, 60.0
CHUNK = 256 * 1024
CLOSE_S = 5.0
"""Time for writes that have begun, when the server stops."""


class ChatDelivery:
    """Sends what is in the outbox of one account: answers of runs in their order, and replies at once."""

    def __init__(self, harness: Harness, adapter: ChannelAdapter, on_sent: Callable[[str | None], None]) -> None:
        """`on_sent` is called after each message, with the error if it failed."""
        self._harness = harness
        self._database = harness.core.database
        self._adapter = adapter
        self._on_sent = on_sent
        self._tasks = BackgroundTasks()
        self._pacers: dict[ChatAddress, ChatPacer] = {}
        self._turns: defaultdict[tuple[ChatAddress, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._begun: set[int] = set()
        self._is_closing = False

    def begin(self, message: OutgoingMessage) -> None:
        """Send a message in the background, unless that has begun; an answer when its run has ended."""
        if not self._is_closing and message.number not in self._begun:
            self._begun.add(message.number)
            self._tasks.begin(self._deliver(message), f"message {message.number}")

    async def begin_requested(self, account: str) -> None:
        """Send texts that other processes have put into the outbox."""
        query = partial(rows.list_open, channel=self._adapter.name, account=account, kind="text")
        for message in await self._database.look_up(query):
            if message.state == "pending":
                self.begin(message)

    async def begin_of_run(self, run: RunRecord) -> None:
        """Send the answer of a run in the background."""
        query = partial(rows.list_of_run, owner=run.owner, run_id=run.run_id)
        for message in (await self._database.read(query))[:1]:
            self.begin(message)

    def say(self, address: ChatAddress, text: str) -> None:
        """Send a text to an unknown person once, without a record."""
        self._tasks.begin(self._try(address, lambda: self._adapter.send(address, text)), "a reply to an unknown person")

    def replace_buttons(self, question: OutgoingMessage, note: str) -> None:
        """Show below a question how it was answered, in place of its buttons."""
        message_id = question.message_id
        if message_id is not None:
            text = self._adapter.split(f"{question.body or ''}\n\n{note}")[0]
            edit = partial(self._adapter.edit, question.address, message_id, text)
            self._tasks.begin(self._try(question.address, edit), "an answered question")

    async def _try(self, address: ChatAddress, call: Callable[[], Awaitable[object]]) -> None:
        try:
            await self.get_pacer(address).write(call)
        except ChannelError as problem:
            logger.info("a message was not sent: %s", problem)

    async def recover(self, account: str) -> None:
        """Continue with what another process has left."""
        found = await self._database.read(partial(rows.list_open, channel=self._adapter.name, account=account))
        begun: set[str] = set()
        for message in found:
            if message.run_id is None or message.run_id not in begun:
                self.begin(message)
            begun.add(message.run_id or "")

    def get_pacer(self, address: ChatAddress) -> ChatPacer:
        """Return the pacer of a chat; topics share it."""
        chat = replace(address, topic="")
        limits = self._adapter.limits
        if chat not in self._pacers:
            interval = limits.private_interval_s if address.is_private else limits.group_interval_s
            self._pacers[chat] = ChatPacer(interval)
        return self._pacers[chat]

    async def aclose(self) -> None:
        """Stop; writes that have begun are finished."""
        self._is_closing = True
        self._tasks.cancel()
        if self._tasks.tasks:
            await asyncio.wait(set(self._tasks.tasks), timeout=CLOSE_S)

    async def _deliver(self, message: OutgoingMessage) -> None:
        try:
            await self._deliver_until_sent(message)
        finally:
            self._begun.discard(message.number)

    async def _deliver_until_sent(self, message: OutgoingMessage) -> None:
        retry_s = FIRST_RETRY_S
        while True:
            try:
                if message.run_id is None:
                    await self._send(message, message.body or "")
                else:
                    async with self._turns[message.address, message.owner]:
                        await self._deliver_run(message, Principal(message.owner))
                return
            except NotFound:  # the thread was deleted
                await self._change(message, state="failed", body=None)
                return
            except StorageUnavailable as problem:
                logger.warning("message %d waits for the database: %s", message.number, problem)
                await asyncio.sleep(retry_s)
                retry_s = min(2 * retry_s, MAX_RETRY_S)

    async def _deliver_run(self, message: OutgoingMessage, who: Principal) -> None:
        message = await self._settle(message)
        run_id, thread_id = message.run_id or "", message.thread_id or ""
        run = await self._harness.runs.get(thread_id, run_id, who)
        language = message.details.get("language", "en")
        preview = AnswerPreview(
            self._adapter,
            self.get_pacer(message.address),
            message,
            translate(language, "stop"),
            self._record,
        )
        try:
            view = await self._follow(run, who, preview, shows=message.state in OPEN and message.part == 0)
        finally:
            await preview.aclose()
        run = await self._harness.runs.get(thread_id, run_id, who)
        if not run.status.is_final:
            return  # this process ends; the next one goes on
        answer = await conclude(self._harness, who, run, view, language)
        await self._send_answer(message, answer)

    async def _follow(self, run: RunRecord, who: Principal, preview: AnswerPreview, *, shows: bool) -> AnswerView:
        """Read the log of a run to its end, in whatever process it is executed."""
        view = AnswerView()
        while True:
            async with aclosing(self._harness.runs.listen(run, after=view.last_seq)) as groups:
                async for group in groups:
                    for event in group:
                        view.read(event)
                    if shows and view.has_begun:
                        preview.show(view.text, view.status)
            found = await self._harness.runs.get(run.thread_id, run.run_id, who)
            if found.status.is_final or self._is_closing:
                return view

    async def _send_answer(self, first: OutgoingMessage, answer: FinalAnswer) -> None:
        """Record all messages of an answer in one transaction, then send those that are open."""
        query = partial(rows.list_of_run, owner=first.owner, run_id=first.run_id or "")
        known = await self._database.read(query)
        latest = [each for each in known if each.part == 0][-1]
        texts = self._adapter.split(rows.cut_shown(latest.details, answer.text))
        if not any(each.part for each in known) and (planned := plan_messages(first, len(texts), answer)):
            await self._database.write(partial(rows.insert_outgoing, owner=first.owner, messages=planned))
            known = await self._database.read(query)
        for message in sorted(known, key=lambda each: each.part):
            if message.state not in OPEN:
                continue
            if message.kind == "answer":
                await self._send(message, texts[message.part] if message.part < len(texts) else "")
            else:
                await self._send(message, message.body or "")

    async def _send(self, message: OutgoingMessage, text: str) -> None:
        """Send a message until its outcome is known. One with an unknown outcome is repeated, and says so."""
        pacer, retry_s = self.get_pacer(message.address), FIRST_RETRY_S
        if not text and message.message_id is None and message.state != "sending":
            await self._change(message, state="sent")  # a steering message, which another run answers
            return None
        while True:
            message = await self._settle(message)
            if message.kind == "file" and message.message_id is not None:
                return await self._change(message, state="sent", body=None)
            try:
                sent = await pacer.write(partial(self._attempt, message, text or "✓"))
            except ChannelRefused as refused:
                if message.message_id is None:
                    return await self._fail(message, str(refused))
                details = {**message.details, rows.AGAIN: message.details.get(rows.AGAIN, 0) + 1}
                message = replace(message, message_id=None, state="pending", details=details)  # it was deleted
                await self._record(message)
                continue
            except ChannelOutcomeUnknown as problem:
                if message.state != "sending":
                    message = replace(message, state="sending", changed_at=datetime.now(UTC))
                self._on_sent(str(problem))
            except ChannelError as problem:
                self._on_sent(str(problem))
            else:
                await self._change(message, state="sent", body=kept_body(message, text), message_id=sent)
                self._on_sent(None)
                return None
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, MAX_RETRY_S)

    async def _settle(self, message: OutgoingMessage) -> OutgoingMessage:
        """Find out what has become of a message whose outcome is unknown; return it, or the one that repeats it."""
        if message.state != "sending" or message.message_id is not None or self._can_repeat(message):
            return message
        retry_s = FIRST_RETRY_S
        find = partial(self._adapter.find_sent, message.address, message.key)
        while True:
            try:
                found = await self.get_pacer(message.address).write(find)
            except ChannelRefused:
                repeat = partial(rows.repeat_outgoing, owner=message.owner, message=message)
                return await self._database.write(repeat)
            except ChannelError as problem:
                self._on_sent(str(problem))
            else:
                message = replace(message, message_id=found, state="sending" if found else "pending")
                await self._record(message)
                return message
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, MAX_RETRY_S)

    def _can_repeat(self, message: OutgoingMessage) -> bool:
        """Return whether the platform still knows the key of a message: it then shows it once, however often sent."""
        limit = timedelta(seconds=self._adapter.limits.idempotent_s)
        return message.changed_at is not None and datetime.now(UTC) - message.changed_at < limit

    async def _attempt(self, message: OutgoingMessage, text: str) -> str:
        return await complete_before_cancel(self._try_to_send(message, text))

    async def _try_to_send(self, message: OutgoingMessage, text: str) -> str:
        kept = kept_body(message, text)
        if message.repeats and message.kind != "file":
            text = f"{translate(message.details.get('language', 'en'), 'repeat')}\n\n{text}"
        if message.message_id is not None:
            await self._adapter.edit(message.address, message.message_id, text, build_buttons(message))
            return message.message_id
        was_sent = message.state == "sending"  # maybe: with the same key, so it is not there twice
        if not was_sent:
            await self._change(message, state="sending", message_id=None)
        try:
            sent = await self._write(message, text)
            if was_sent and message.kind != "file":  # it may be the preview
                await self._adapter.edit(message.address, sent, text, build_buttons(message))
        except ChannelOutcomeUnknown:
            raise
        except (ChannelFlooded, ChannelError):
            if not was_sent:
                await self._change(message, state="pending")
            raise
        await self._change(message, state="sent", body=kept, message_id=sent)
        return sent

    async def _write(self, message: OutgoingMessage, text: str) -> str:
        if message.kind == "file":
            return await self._send_file(message, text)
        part = self._adapter.split(text)[0]
        return await self._adapter.send(message.address, part, build_buttons(message), message.key)

    async def _send_file(self, message: OutgoingMessage, path: str) -> str:
        """Send a file of the thread; say so if it is too large or gone."""
        name = Path(path).name
        thread = await self._harness.threads.get(message.thread_id or "", Principal(message.owner))
        try:
            file = await self._harness.artifacts.open(thread.thread_id, Principal(message.owner), path)
        except FileProblem as problem:
            return await self._adapter.send(message.address, f"{name}: {problem}", key=message.key)
        try:
            if file.size > self._adapter.limits.max_upload_bytes:
                reason = translate(message.details.get("language", "en"), "file_too_large", name=name)
                return await self._adapter.send(message.address, reason)
            return await self._adapter.send_file(message.address, name, file.size, read_chunks(file), message.key)
        finally:
            await asyncio.to_thread(file.close)

    async def _fail(self, message: OutgoingMessage, reason: str) -> None:
        logger.warning("message %d of %s cannot be sent: %s", message.number, message.address.channel, reason)
        await self._change(message, state="failed", body=None)
        self._on_sent(reason)

    async def _record(self, message: OutgoingMessage) -> None:
        """Record state, id and details of a message."""
        details = {**message.details, "is_private": message.address.is_private}
        await self._change(message, state=message.state, message_id=message.message_id, details=details)

    async def _change(self, message: OutgoingMessage, **values: object) -> None:
        change = partial(rows.change_outgoing, owner=message.owner, number=message.number, values=values)
        await self._database.write(change)


def plan_messages(first: OutgoingMessage, texts: int, answer: FinalAnswer) -> Sequence[OutgoingMessage]:
    """Return the messages of an answer after the first: more text, files and a question."""
    empty = replace(first, message_id=None, state="pending", repeats=0, number=0)
    planned = [replace(empty, part=part) for part in range(1, texts)]
    count = max(texts, 1)
    files = [replace(empty, kind="file", part=count + at, body=path) for at, path in enumerate(answer.files)]
    if answer.question is None:
        return planned + files
    details = {**first.details, **answer.question.to_details()}
    question = replace(empty, kind="question", part=count + len(files), body=answer.question.text, details=details)
    return [*planned, *files, question]


def kept_body(message: OutgoingMessage, text: str) -> str | None:
    """Return what is kept of a text that was sent: questions, until they are answered."""
    return text if message.kind == "question" else None


def build_buttons(message: OutgoingMessage) -> Sequence[ChatButton]:
    """Return the buttons of a question."""
    if message.kind != "question":
        return ()
    return [ChatButton(label, f"{message.number}:{at}") for at, label in enumerate(message.details["labels"])]


async def read_chunks(file: ReadableFile) -> AsyncIterator[bytes]:
    """Yield the content of a file."""
    offset = 0
    while chunk := await asyncio.to_thread(file.read, offset, CHUNK):
        yield chunk
        offset += len(chunk)
