"""Webhooks: signed requests of other programs that start runs of the person to whom the hook belongs."""

import asyncio
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from typing import Any, Literal

import orjson

from deerflow.channels import queries as rows
from deerflow.channels.adapter import ChatAddress
from deerflow.channels.people import ChannelPeople
from deerflow.channels.queries import ChatThread, ReceivedUpdate, StartedRun
from deerflow.domain.errors import Conflict, DeerFlowError, InvalidRequest, NotFound
from deerflow.domain.identity import Principal, new_id
from deerflow.domain.runs import AgentSpec, DisconnectMode, MultitaskStrategy, RunRequest
from deerflow.domain.taint import WEBHOOK
from deerflow.harness import Harness
from deerflow.persistence.encryption import DecryptionError, TokenCipher
from deerflow.persistence.engine.database import Database
from deerflow.persistence.queries import channels as hook_rows
from deerflow.persistence.queries.channels import HookRow

MAX_BODY_BYTES = 256 * 1024
WINDOW_S = 300.0
"""Maximum difference between the time of a request and that of the server."""
MAX_HOOKS = 50
MAX_PROMPT_CHARS = 20_000
MAX_VALUE_CHARS = 20_000
SIGNATURE, TIMESTAMP, DELIVERY = "x-deerflow-signature", "x-deerflow-timestamp", "x-deerflow-delivery"
DELIVERY_ID = re.compile(r"[\w.:-]{1,100}", re.ASCII)
PLACEHOLDER = re.compile(r"\{\{\s*([\w.-]{1,200})\s*\}\}", re.ASCII)
BODY = "body"
"""Placeholder for the whole payload."""
HookThread = Literal["each", "one", "key"]


class HookRefused(DeerFlowError):
    """The request is not signed with the secret of the hook, or is too old."""


class HookBodyTooLarge(DeerFlowError):
    """The body of the request is too large."""


@dataclass(frozen=True, slots=True)
class HookSettings:
    """Settings of a hook that are no secrets."""

    prompt: str
    """Text of the message; `{{a.b}}` stands for a value of the payload, `{{body}}` for all of it."""
    agent: str | None = None
    thread: HookThread = "each"
    """One thread for each delivery, one for all, or one for each value of `key`."""
    key: str = ""
    """Path of the value in the payload, such as `issue.number`."""

    def check(self) -> None:
        """Raise `InvalidRequest` if the settings contradict each other."""
        if not self.prompt.strip() or len(self.prompt) > MAX_PROMPT_CHARS:
            raise InvalidRequest(f"the prompt needs 1 to {MAX_PROMPT_CHARS} characters")
        if (self.thread == "key") != bool(self.key):
            raise InvalidRequest("`key` is needed if there is a thread for each key, and not otherwise")


@dataclass(frozen=True, slots=True)
class Hook:
    """Hook as its owner sees it. The secret is shown when it is made."""

    hook_id: str
    name: str
    settings: HookSettings
    is_enabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class NewHook:
    """Hook with its secret, which is shown once."""

    hook: Hook
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class HookService:
    """Hooks of people. Every method is restricted to those of `who`."""

    database: Database
    cipher: TokenCipher

    async def list(self, who: Principal) -> list[Hook]:
        """Return the hooks of a user, oldest first."""
        return [read_hook(row) for row in await self.database.look_up(partial(hook_rows.list_hooks, owner=who.user_id))]

    async def create(self, who: Principal, name: str, settings: HookSettings) -> NewHook:
        """Make a hook and its secret.

        Raises:
            InvalidRequest: The settings are not valid, or there are too many hooks.
        """
        settings.check()
        if len(await self.list(who)) >= MAX_HOOKS:
            raise InvalidRequest(f"at most {MAX_HOOKS} hooks; remove some first")
        hook = Hook(new_id(), name, settings, True, datetime.now(UTC))
        secret = make_secret()
        row = await self._to_row(who.user_id, hook, secret)
        await self.database.write(partial(hook_rows.insert_hook, owner=who.user_id, hook=row))
        return NewHook(hook, secret)

    async def change(self, who: Principal, hook_id: str, *, is_enabled: bool) -> Hook:
        """Switch a hook on or off, or raise `NotFound`."""
        change = partial(hook_rows.change_hook, owner=who.user_id, hook_id=hook_id, values={"is_enabled": is_enabled})
        return read_hook(await self.database.write(change))

    async def replace_secret(self, who: Principal, hook_id: str) -> NewHook:
        """Give a hook another secret, or raise `NotFound`. The old one is not valid any more."""
        secret = make_secret()
        sealed = await asyncio.to_thread(self.cipher.encrypt, secret.encode(), associated_data(who.user_id, hook_id))
        change = partial(hook_rows.change_hook, owner=who.user_id, hook_id=hook_id, values={"sealed": sealed})
        return NewHook(read_hook(await self.database.write(change)), secret)

    async def remove(self, who: Principal, hook_id: str) -> None:
        """Delete a hook, or raise `NotFound`."""
        await self.database.write(partial(hook_rows.delete_hook, owner=who.user_id, hook_id=hook_id))

    async def _to_row(self, owner: str, hook: Hook, secret: str) -> HookRow:
        data = associated_data(owner, hook.hook_id)
        sealed = await asyncio.to_thread(self.cipher.encrypt, secret.encode(), data)
        kept = asdict(hook.settings)
        return HookRow(hook.hook_id, owner, hook.name, "signed", kept, sealed, hook.is_enabled, hook.created_at)


@dataclass(frozen=True, slots=True)
class HookReceiver:
    """Receives the requests of other programs. Nothing of them is trusted before the signature is checked."""

    harness: Harness
    clock: Callable[[], float] = time.time

    async def receive(self, hook_id: str, headers: Mapping[str, str], body: bytes) -> StartedRun:
        """Start a run for a delivery, or return the run that was started for it before.

        Raises:
            HookBodyTooLarge: The body is too large.
            HookRefused: The hook does not exist, is switched off, or has not signed the request, or it is too old.
            InvalidRequest: The delivery has no valid id, or the payload is no JSON object.
        """
        if len(body) > MAX_BODY_BYTES:
            raise HookBodyTooLarge(f"the body has more than {MAX_BODY_BYTES // 1024} kB")
        row = await self.harness.core.database.look_up(partial(hook_rows.find_hook, hook_id=hook_id))
        who = await self._check(row, headers, body)
        delivery = headers.get(DELIVERY, "")
        received = ReceivedUpdate(WEBHOOK, hook_id, delivery)
        find = partial(rows.find_started, received=received)
        if (started := await self.harness.core.database.look_up(find)) is not None:
            return started
        payload = parse_payload(body)
        settings = read_settings(row)
        try:
            return await self._start(who, received, settings, payload)
        except Conflict:  # with the same delivery, which was received at the same time
            found = await self.harness.core.database.read(find)
            if found is None:
                raise
            return found

    async def _check(self, row: HookRow | None, headers: Mapping[str, str], body: bytes) -> Principal:
        """Return the owner of a hook if the request is signed with its secret.

        The answer is the same in all cases, so that it does not tell which hooks exist.
        """
        refused = HookRefused("no such hook, or the signature is wrong or too old")
        secret = await self._reveal(row) if row is not None else make_secret()
        timestamp, delivery = headers.get(TIMESTAMP, ""), headers.get(DELIVERY, "")
        expected = sign(secret, timestamp, delivery, body)
        if not hmac.compare_digest(expected.encode(), headers.get(SIGNATURE, "").encode()):
            raise refused
        is_current = timestamp.isascii() and timestamp.isdecimal() and len(timestamp) < 15
        if not is_current or abs(self.clock() - int(timestamp)) > WINDOW_S:
            raise refused
        core = self.harness.core
        people = ChannelPeople(core.database, self.harness.resources.authenticator)
        who = await people.find_user(row.owner) if row is not None and row.is_enabled else None
        if who is None:
            raise refused
        if not DELIVERY_ID.fullmatch(delivery):
            raise InvalidRequest(f"the header {DELIVERY} needs 1 to 100 letters, digits or any of . _ : -")
        return who

    async def _reveal(self, row: HookRow) -> str:
        data = associated_data(row.owner, row.hook_id)
        try:
            return (await asyncio.to_thread(self.harness.core.saved_models.cipher.decrypt, row.sealed, data)).decode()
        except DecryptionError:
            return make_secret()  # with which nothing is signed

    async def _start(
        self, who: Principal, received: ReceivedUpdate, settings: HookSettings, payload: Mapping[str, Any]
    ) -> StartedRun:
        key = find_thread_key(settings, payload)
        if key is None:
            return await self._admit(who, received, settings, payload, new_id())
        address = ChatAddress(WEBHOOK, received.account, key)
        find = partial(rows.find_chat, address=address, owner=who.user_id)
        known = await self.harness.core.database.look_up(find)
        if known is not None:
            with suppress(NotFound):  # the thread was deleted
                return await self._admit(who, received, settings, payload, known.thread_id, known)
        fresh = ChatThread(address, who.user_id, new_id())
        return await self._admit(who, received, settings, payload, fresh.thread_id, fresh, is_new=True)

    async def _admit(
        self,
        who: Principal,
        received: ReceivedUpdate,
        settings: HookSettings,
        payload: Mapping[str, Any],
        thread_id: str,
        chat: ChatThread | None = None,
        *,
        is_new: bool = False,
    ) -> StartedRun:
        """Record the delivery with its run in one transaction."""
        agent = settings.agent
        request = RunRequest(
            thread_id,
            [{"type": "human", "content": render_prompt(settings.prompt, payload)}],
            AgentSpec(agent_name=agent, owner=None if agent is None else who.user_id),
            on_disconnect=DisconnectMode.CONTINUE,
            multitask_strategy=MultitaskStrategy.ENQUEUE,
            create_thread=is_new or chat is None,
            metadata={"channel": WEBHOOK, "hook": received.account},
            idempotency_key=f"{WEBHOOK}:{received.account}:{received.update_id}",
        )
        record = partial(rows.record_delivery, received=received, chat=chat)
        run = await self.harness.runs.create_or_reject(request, who, also=record)
        return StartedRun(run.thread_id, run.run_id)


def sign(secret: str, timestamp: str, delivery: str, body: bytes) -> str:
    """Return the signature of a request: over its time, its id and its body."""
    signed = f"{timestamp}.{delivery}.".encode() + body
    return f"sha256={hmac.new(secret.encode(), signed, sha256).hexdigest()}"


def make_secret() -> str:
    """Return a random secret."""
    return f"whsec_{secrets.token_urlsafe(32)}"


def parse_payload(body: bytes) -> Mapping[str, Any]:
    """Return the payload of a request, or raise `InvalidRequest`."""
    try:
        payload = orjson.loads(body)
    except orjson.JSONDecodeError:
        payload = None
    if not isinstance(payload, dict):
        raise InvalidRequest("the body is no JSON object")
    return payload


def find_value(payload: Mapping[str, Any], path: str) -> object:
    """Return a value of a payload by its path, None if there is none."""
    value: object = payload
    for name in path.split("."):
        if isinstance(value, list) and name.isdecimal() and len(name) < 6 and int(name) < len(value):
            value = value[int(name)]
        else:
            value = value.get(name) if isinstance(value, dict) else None
    return value


def find_thread_key(settings: HookSettings, payload: Mapping[str, Any]) -> str | None:
    """Return what deliveries of the same thread have in common; None if each has a thread of its own."""
    if settings.thread != "key":
        return "one" if settings.thread == "one" else None
    value = find_value(payload, settings.key)
    if not isinstance(value, str | int) or not str(value).strip():
        raise InvalidRequest(f"the payload has no text or number at {settings.key!r}")
    return f"key:{sha256(str(value).encode()).hexdigest()}"


def render_prompt(prompt: str, payload: Mapping[str, Any]) -> str:
    """Return a prompt with the values of a payload. Values are not searched for placeholders."""
    return PLACEHOLDER.sub(lambda found: describe_value(payload, found[1]), prompt)


def describe_value(payload: Mapping[str, Any], path: str) -> str:
    """Return a value of a payload as text."""
    value = payload if path == BODY else find_value(payload, path)
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}…"


def read_hook(row: HookRow) -> Hook:
    """Return a hook from its row."""
    return Hook(row.hook_id, row.name, read_settings(row), row.is_enabled, row.created_at)


def read_settings(row: HookRow | None) -> HookSettings:
    """Return the settings of a hook."""
    kept = {} if row is None else row.settings
    return HookSettings(**{"prompt": "", **{key: kept[key] for key in HookSettings.__slots__ if key in kept}})


def associated_data(owner: str, hook_id: str) -> str:
    """Return the associated data of an encrypted secret: it is useless for another person or hook."""
    return f"hook\0{owner}\0{hook_id}"
