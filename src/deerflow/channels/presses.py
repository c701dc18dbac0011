"""Pressed buttons: decisions about calls, answers to questions, and orders to stop. Only the owner may press."""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType

import orjson

from deerflow.channels import queries as rows
from deerflow.channels.adapter import ChannelAdapter, ChannelError, InboundUpdate
from deerflow.channels.delivery import ChatDelivery
from deerflow.channels.queries import ChatThread, OutgoingMessage, ReceivedUpdate
from deerflow.channels.texts import translate
from deerflow.domain.errors import Conflict, InvalidRequest, NotFound
from deerflow.domain.identity import Principal
from deerflow.domain.runs import DisconnectMode, Resume, RunRequest
from deerflow.harness import Harness

logger = logging.getLogger(__name__)

STOP = "stop"
RESULTS: Mapping[str, str] = MappingProxyType({"approve": "allowed", "reject": "rejected"})


@dataclass(frozen=True, slots=True)
class ButtonPresses:
    """Handles pressed buttons of one account."""

    harness: Harness
    adapter: ChannelAdapter
    delivery: ChatDelivery
    stop_runs: Callable[[Principal, str], Awaitable[int]]

    async def handle(
        self, update: InboundUpdate, received: ReceivedUpdate, who: Principal, chat: ChatThread | None, language: str
    ) -> None:
        """Do what a button says, once. Buttons of other people and invented ones do nothing."""
        data = f"{STOP}:{update.message_id}" if update.kind == STOP else update.text
        first, _, second = data.partition(":")
        try:
            if first == STOP:
                text = await self._stop(update, who, parse_number(second), language)
            else:
                text = await self._answer(update, received, who, (parse_number(first), parse_number(second)), language)
        except NotFound:
            text = translate(language, "not_yours")
        except (Conflict, InvalidRequest):
            text = translate(language, "already_answered")
        await self._show(update, text)

    async def refuse(self, update: InboundUpdate, language: str) -> None:
        """Answer a button that an unknown person has pressed."""
        await self._show(update, translate(language, "not_yours"))

    async def _show(self, update: InboundUpdate, text: str) -> None:
        if not update.press_id:
            return
        try:
            await self.adapter.answer_press(update.press_id, text)
        except ChannelError as problem:
            logger.info("a pressed button was not answered: %s", problem)

    async def _find(self, update: InboundUpdate, who: Principal, number: int) -> OutgoingMessage:
        """Return a message of the user in the chat in which the button was pressed, or raise `NotFound`."""
        query = partial(rows.find_outgoing, owner=who.user_id, number=number)
        message = await self.harness.core.database.read(query)
        if message.address != update.address:
            raise NotFound(f"no message {number} in this chat")
        return message

    async def _stop(self, update: InboundUpdate, who: Principal, number: int, language: str) -> str:
        message = await self._find(update, who, number)
        if message.thread_id is None or message.run_id is None:
            raise NotFound(f"message {number} is no answer")
        try:
            await self.harness.runs.cancel(message.thread_id, message.run_id, who)
        except Conflict:
            return translate(language, "not_stopped")
        return translate(language, "stopped")

    async def _answer(
        self,
        update: InboundUpdate,
        received: ReceivedUpdate,
        who: Principal,
        pressed: tuple[int, int],
        language: str,
    ) -> str:
        """Answer a question with one of its choices, unless it was answered anywhere else."""
        number, at = pressed
        question = await self._find(update, who, number)
        choices = question.details.get("choices") or ()
        if question.kind != "question" or not 0 <= at < len(choices) or question.thread_id is None:
            raise NotFound(f"message {number} has no choice {at}")
        if question.details.get("answered"):
            raise Conflict("the question was answered before")
        choice, label = choices[at], question.details["labels"][at]
        request = await self._build_request(question, who, choice, received)
        moment = datetime.now(UTC).strftime("%H:%M")
        key = RESULTS[choice] if question.details["asks"] == "approval" else "answered"
        note = translate(language, key, name=update.sender.name, time=moment, choice=label)
        chat = ChatThread(question.address, who.user_id, question.thread_id)
        found = await self.harness.core.database.look_up(
            partial(rows.find_chat, address=question.address, owner=who.user_id)
        )
        record = partial(
            rows.record_message,
            received=received,
            chat=found or chat,
            language=language,
            answered=(question, note),
        )
        run = await self.harness.runs.create_or_reject(request, who, also=record)
        await self.delivery.begin_of_run(run)
        # The id of the message may not be recorded yet: it can be pressed as soon as it is shown.
        self.delivery.replace_buttons(replace(question, message_id=update.message_id), note)
        return note

    async def _build_request(
        self, question: OutgoingMessage, who: Principal, choice: str, received: ReceivedUpdate
    ) -> RunRequest:
        """Return the request that answers a question, or raise `Conflict` if nothing waits for it any more."""
        thread_id = question.thread_id or ""
        runs = await self.harness.runs.list_by_thread(thread_id, who, limit=1)
        if not runs or runs[0].run_id != question.run_id:
            raise Conflict("the thread went on after the question")
        key = f"{received.channel}:{received.account}:{received.update_id}"
        request = RunRequest(thread_id, on_disconnect=DisconnectMode.CONTINUE, create_thread=False, idempotency_key=key)
        if question.details["asks"] == "answer":
            return replace(request, messages=[{"type": "human", "content": choice}])
        interrupts = question.details["interrupts"]
        waiting = orjson.loads((await self.harness.threads.state(thread_id, who)).interrupts)
        if {each["id"] for each in waiting} != set(interrupts):
            raise Conflict("the calls do not wait any more")
        answers = {name: {"decisions": [{"type": choice}] * count} for name, count in interrupts.items()}
        return replace(request, resume=Resume(answers))


def parse_number(text: str) -> int:
    """Return a number of a button, or raise `NotFound`: the data of a button is untrusted."""
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise NotFound(f"no message {text!r}")
    return int(text)
