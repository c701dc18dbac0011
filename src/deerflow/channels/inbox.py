"""Updates of chat apps: messages become runs, commands are carried out, pressed buttons decide and stop."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from deerflow.channels import queries as rows
from deerflow.channels.adapter import ChannelAdapter, ChannelError, ChatAddress, InboundUpdate
from deerflow.channels.commands import MODEL, ChatCommands, CommandCall
from deerflow.channels.delivery import ChatDelivery
from deerflow.channels.people import ChannelPeople
from deerflow.channels.presses import ButtonPresses
from deerflow.channels.queries import AlreadyReceived, ChatThread, OutgoingMessage, ReceivedUpdate
from deerflow.channels.texts import choose_language, translate
from deerflow.domain.errors import DeerFlowError, NotFound, StorageUnavailable
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.runs import AgentSpec, DisconnectMode, MultitaskStrategy, RunRecord, RunRequest
from deerflow.harness import Harness

logger = logging.getLogger(__name__)

CONNECT = ("/connect", "/start")
INSTRUCTION_INTERVAL_S = 3600.0
"""Time after which an unknown person gets the instructions again."""
MAX_INSTRUCTED = 10_000


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
        if self._commands.has(name):
            other, mark = partial(self._other_thread, address, who, chat), self.adapter.command_mark
            call = CommandCall(who, language, argument.strip(), chat, other, mark)
            reply = await self._commands.run(name, call)
            return await self._reply(update, received, who, reply.text, reply.chat)
        return await self._start(update, received, who, chat, language)

    @staticmethod
    def _other_thread(address: ChatAddress, who: Principal, chat: ChatThread | None, thread_id: str) -> ChatThread:
        return ChatThread(address, who.user_id, thread_id, {} if chat is None else chat.settings)

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
    ) -> None:
        """Start a run for a message."""
        if not update.text and not update.attachments:
            return await self._reply(update, received, who, translate(language, "nothing_to_read"))
        try:
            run = await self._admit(update, received, who, chat, language)
        except (AlreadyReceived, StorageUnavailable):
            raise
        except NotFound:  # the thread was deleted: the chat begins a new one
            fresh = None if chat is None else replace(chat, thread_id=new_id())
            run = await self._admit(update, received, who, fresh, language, is_new=True)
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
        is_new: bool = False,
    ) -> RunRecord:
        """Record message, run and the answer to be sent in one transaction."""
        is_new = is_new or chat is None
        chat = chat or ChatThread(update.address, who.user_id, new_id())
        if update.attachments and is_new:
            await self.harness.threads.create(who, chat.thread_id, {}, may_exist=True)
            is_new = False
        files = await self._receive_files(update, who, chat.thread_id)
        message: dict[str, object] = {"type": "human", "content": update.text}
        if files:
            message["additional_kwargs"] = {"files": files}
        request = RunRequest(
            chat.thread_id,
            [message],
            AgentSpec(model_name=chat.settings.get(MODEL)),
            on_disconnect=DisconnectMode.CONTINUE,
            multitask_strategy=self.strategy(),
            create_thread=is_new,
            metadata={"channel": update.address.channel},
            idempotency_key=f"{received.channel}:{received.account}:{received.update_id}",
        )
        record = partial(rows.record_message, received=received, chat=chat, language=language)
        return await self.harness.runs.create_or_reject(request, who, also=record)

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
