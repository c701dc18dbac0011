"""Updates of chat apps: messages become runs, commands are carried out, pressed buttons decide and stop."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from deerflow.channels import queries as rows
from deerflow.channels.adapter import ChannelAdapter, ChannelError, ChatAddress, InboundUpdate
from deerflow.channels.commands import ChatCommands, CommandCall
from deerflow.channels.delivery import ChatDelivery
from deerflow.channels.people import ChannelPeople
from deerflow.channels.presses import ButtonPresses
from deerflow.channels.queries import AlreadyReceived, ChatThread, OutgoingMessage, ReceivedUpdate
from deerflow.channels.settings import BOOTSTRAP, AnswerSettings, choose_answer
from deerflow.channels.texts import choose_language, translate
from deerflow.config.sections.channels import ChatAppConfig
from deerflow.domain.errors import DeerFlowError, InvalidRequest, NotFound, StorageUnavailable
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.runs import DisconnectMode, MultitaskStrategy, RunRecord, RunRequest
from deerflow.domain.usage import LEAD_AGENT
from deerflow.harness import Harness

logger = logging.getLogger(__name__)

CONNECT = ("/connect", "/start")
INSTRUCTION_INTERVAL_S = 3600.0
"""Time after which an unknown person gets the instructions again."""
MAX_INSTRUCTED = 10_000
BOOTSTRAP_MARK = "deerflow_bootstrap"
"""Metadata of runs that create an agent: the page shows their thread as such."""


@dataclass(slots=True)
class ChatInbox:
    """Receives the updates of one account. When `receive` returns, all of them are recorded."""

    harness: Harness
    adapter: ChannelAdapter
    people: ChannelPeople
    delivery: ChatDelivery
    allowed: Callable[[], Collection[str | int]]
    """Returns the people who are the local user, on servers without accounts."""
    strategy: Callable[[], MultitaskStrategy]
    """Returns what happens to a message while another is being answered."""
    app: Callable[[], ChatAppConfig | None] = lambda: None
    """Returns the settings of the chat app."""
    clock: Callable[[], float] = time.monotonic
    _instructed: dict[str, float] = field(default_factory=dict)
    _commands: ChatCommands = field(init=False)
    _presses: ButtonPresses = field(init=False)

    def __post_init__(self) -> None:
        self._commands = ChatCommands(self.harness)
        self._presses = ButtonPresses(self.harness, self.adapter, self.delivery, self._commands.stop)

    async def receive(self, updates: Sequence[InboundUpdate]) -> None:
        """Record updates and begin what they ask for: those of a chat in their order, chats at the same time.

        Raises:
            StorageUnavailable: Some are not recorded. They have to be received again.
        """
        chats: dict[ChatAddress, list[InboundUpdate]] = {}
        for update in updates:
            chats.setdefault(update.address, []).append(update)
        await asyncio.gather(*(self._receive_chat(each) for each in chats.values()))

    async def _receive_chat(self, updates: Sequence[InboundUpdate]) -> None:
        for update in updates:
            received = ReceivedUpdate(update.address.channel, update.address.account, update.update_id)
            if not update.is_addressed or await self._is_received(received):
                continue
            try:
                await self._dispatch(update, received)
            except AlreadyReceived:
                continue
            except StorageUnavailable:
                raise
            except Exception:  # one update must not keep all others from being received
                logger.exception("update %s of %s could not be handled", update.update_id, update.address.channel)
                await self._report_failure(update, received)

    async def _report_failure(self, update: InboundUpdate, received: ReceivedUpdate) -> None:
        """Tell a person that what they sent could not be handled."""
        address, language = update.address, choose_language(update.sender.language)
        with suppress(AlreadyReceived):
            who = await self.people.find(address.channel, address.account, update.sender, self.allowed())
            if who is not None:
                await self._reply(update, received, who, translate(language, "unexpected"))

    async def _is_received(self, received: ReceivedUpdate) -> bool:
        return await self.harness.core.database.look_up(partial(rows.is_received, received=received))

    async def _dispatch(self, update: InboundUpdate, received: ReceivedUpdate) -> None:
        address, language = update.address, choose_language(update.sender.language)
        who = await self.people.find(address.channel, address.account, update.sender, self.allowed())
        name, _, argument = update.text.partition(" ")
        if update.kind == "message" and name in CONNECT and argument.strip():
            return await self._connect(update, received, argument)
        if who is None:
            return await self._instruct(update, language)
        chat = await self.harness.core.database.look_up(partial(rows.find_chat, address=address, owner=who.user_id))
        if update.follows and chat is None:
            return None
        if update.kind != "message":
            return await self._presses.handle(update, received, who, chat, language)
        if name == "/goal" and argument.strip():
            goal = replace(update, text=translate(language, "goal", text=argument.strip()))
            return await self._start(goal, received, who, chat, language, is_pinned=True)
        if name == "/bootstrap":
            new = self._other_thread(address, who, chat, new_id())
            creating = replace(new, settings={**new.settings, BOOTSTRAP: True})
            first = replace(update, text=argument.strip() or translate(language, "bootstrap"))
            return await self._start(first, received, who, creating, language, is_new=True)
        if self._commands.has(name):
            other, mark = partial(self._other_thread, address, who, chat), self.adapter.command_mark
            answer = choose_answer(chat.settings if chat else {}, self.app(), update.sender.external_id)
            call = CommandCall(who, language, argument.strip(), chat, other, mark, answer)
            reply = await self._commands.run(name, call)
            return await self._reply(update, received, who, reply.text, reply.chat)
        return await self._start(update, received, who, chat, language)

    @staticmethod
    def _other_thread(address: ChatAddress, who: Principal, chat: ChatThread | None, thread_id: str) -> ChatThread:
        kept = {} if chat is None else {key: value for key, value in chat.settings.items() if key != BOOTSTRAP}
        return ChatThread(address, who.user_id, thread_id, kept)

    async def _reply(
        self, update: InboundUpdate, received: ReceivedUpdate, who: Principal, text: str, chat: ChatThread | None = None
    ) -> None:
        """Record an update that starts no run with its reply, and send the reply."""
        details = {"language": choose_language(update.sender.language)}
        reply = OutgoingMessage(update.address, who.user_id, "text", body=text, details=details)
        change = partial(rows.record_command, owner=who.user_id, received=received, reply=reply, chat=chat)
        for message in await self.harness.core.database.write(change):
            self.delivery.begin(message)

    async def _start(
        self,
        update: InboundUpdate,
        received: ReceivedUpdate,
        who: Principal,
        chat: ChatThread | None,
        language: str,
        *,
        is_new: bool = False,
        is_pinned: bool = False,
    ) -> None:
        """Start a run for a message. One that is pinned stays in the context when the thread is summarized."""
        if not update.text and not update.attachments:
            return await self._reply(update, received, who, translate(language, "nothing_to_read"))
        try:
            run = await self._admit(update, received, who, chat, language, is_new=is_new, is_pinned=is_pinned)
        except (AlreadyReceived, StorageUnavailable):
            raise
        except NotFound:  # the thread was deleted: the chat begins a new one
            fresh = None if chat is None else replace(chat, thread_id=new_id())
            run = await self._admit(update, received, who, fresh, language, is_new=True, is_pinned=is_pinned)
        except ChannelError as problem:
            name = ", ".join(each.name for each in update.attachments)
            text = translate(language, "file_failed", name=name, reason=problem)
            return await self._reply(update, received, who, text)
        except DeerFlowError as problem:  # a quota, an upload that is too large
            return await self._reply(update, received, who, translate(language, "failed", reason=problem))
        await self.delivery.begin_of_run(run)
        return None

    async def _admit(
        self,
        update: InboundUpdate,
        received: ReceivedUpdate,
        who: Principal,
        chat: ChatThread | None,
        language: str,
        *,
        is_new: bool,
        is_pinned: bool,
    ) -> RunRecord:
        """Record message, run and the answer to be sent in one transaction."""
        is_new = is_new or chat is None
        chat = chat or ChatThread(update.address, who.user_id, new_id())
        answer = choose_answer(chat.settings, self.app(), update.sender.external_id)
        await self._check_agent(who, answer)
        if update.attachments and is_new:
            await self.harness.threads.create(who, chat.thread_id, {}, may_exist=True)
            is_new = False
        files = await self._receive_files(update, who, chat.thread_id)
        message: dict[str, object] = {"type": "human", "content": update.text}
        if files or is_pinned:
            message["additional_kwargs"] = {
                **({"files": files} if files else {}),
                **({"pinned": True} if is_pinned else {}),
            }
        spec = answer.to_spec(who)
        request = RunRequest(
            chat.thread_id,
            [message],
            spec,
            spec.agent_name or LEAD_AGENT,
            on_disconnect=DisconnectMode.CONTINUE,
            multitask_strategy=self.strategy(),
            create_thread=is_new,
            metadata={"channel": update.address.channel, **({BOOTSTRAP_MARK: True} if spec.is_bootstrap else {})},
            idempotency_key=f"{received.channel}:{received.account}:{received.update_id}",
        )
        record = partial(rows.record_message, received=received, chat=chat, language=language)
        return await self.harness.runs.create_or_reject(request, who, also=record)

    async def _check_agent(self, who: Principal, answer: AnswerSettings) -> None:
        """Raise `InvalidRequest` if the agent that is to answer does not exist."""
        if answer.agent and not answer.is_bootstrap:
            try:
                await self.harness.load_agent(who.user_id, answer.agent)
            except NotFound as missing:  # not of the thread, which would begin a new one
                raise InvalidRequest(str(missing)) from None

    async def _receive_files(
        self, update: InboundUpdate, who: Principal, thread_id: str
    ) -> Sequence[Mapping[str, object]]:
        """Store the files of a message in the uploads folder of its thread."""
        if not update.attachments:
            return ()
        thread, limit = await self.harness.threads.get(thread_id, who), self.adapter.limits.max_download_bytes
        uploads = self.harness.core.uploads
        async with uploads.receive(thread) as receiver:
            for attachment in update.attachments:
                if (attachment.size or 0) > limit:
                    raise ChannelError(f"it has more than {limit // 2**20} MB")
                await receiver.begin(attachment.name)
                async for chunk in self.adapter.download(attachment):
                    await receiver.write(chunk)
                await receiver.end()
            result = await uploads.complete(thread, receiver)
        return [{"filename": file.filename, "size": file.size, "path": file.path} for file in result.files]

    async def _connect(self, update: InboundUpdate, received: ReceivedUpdate, code: str) -> None:
        """Connect the sender of a code to its user."""
        language = choose_language(update.sender.language)
        if not update.address.is_private:
            return await self._say(update.address, translate(language, "connect_in_private", self.adapter.command_mark))
        try:
            await self.people.connect(received, update.sender, code)
        except NotFound:
            return await self._say(update.address, translate(language, "bad_code"))
        return await self._say(update.address, translate(language, "connected", self.adapter.command_mark))

    async def _instruct(self, update: InboundUpdate, language: str) -> None:
        """Send an unknown person instructions: in a private chat, once an hour. No data of theirs is stored."""
        if update.kind == "press":
            return await self._presses.refuse(update, language)
        now = self.clock()
        last = self._instructed.get(update.sender.external_id, float("-inf"))
        if not update.address.is_private or update.kind != "message" or now - last < INSTRUCTION_INTERVAL_S:
            return None
        if len(self._instructed) >= MAX_INSTRUCTED:
            self._instructed.clear()
        self._instructed[update.sender.external_id] = now
        return await self._say(update.address, translate(language, "first_connect", self.adapter.command_mark))

    async def _say(self, address: ChatAddress, text: str) -> None:
        """Send a text to an unknown person, once."""
        self.delivery.say(address, text)
