"""Chat apps and webhooks: /channels and /hooks."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic.types import JsonValue

from deerflow.channels.hooks import HookReceiver, HookService, HookSettings, HookThread
from deerflow.channels.hooks import NewHook as MadeHook
from deerflow.channels.management import ChannelManager
from deerflow.channels.management import ChannelSource as Source
from deerflow.gateway.dependencies import CurrentAdmin, CurrentUser, HarnessDep
from deerflow.gateway.errors import declared_errors
from deerflow.gateway.examples import with_examples
from deerflow.gateway.routers.model_connections import FromDomain
from deerflow.harness import Harness
from deerflow.persistence.queries.audit import AuditEvent
from deerflow.services.audit import audited

SETTINGS_EXAMPLE: dict[str, JsonValue] = {"settings": {"bot_token": "123456:example", "base_url": "http://127.0.0.1:9"}}
HOOK_EXAMPLE: dict[str, JsonValue] = {
    "name": "Build failed",
    "settings": {"prompt": "Find out why {{job}} has failed:\n\n{{log}}"},
}
router = APIRouter(tags=["channels"], responses=declared_errors((403, 404, 409, 422)))


class ChatAppFieldInfo(FromDomain):
    """Setting that is entered to connect a chat app. It is never returned."""

    name: str
    description: str
    is_required: bool


class ChatAppInfo(FromDomain):
    """Chat app that can be connected."""

    name: str
    title: str
    fields: list[ChatAppFieldInfo]
    is_configured: bool
    """`config.yaml` has it, which then wins."""


class ChannelStatus(FromDomain):
    """Chat app that is connected, and the state of its connection."""

    name: str
    title: str
    source: Source
    """`config`: from config.yaml; `page`: connected on the page."""
    is_overridden: bool
    """`config.yaml` has the same chat app, which is used instead."""
    is_readable: bool
    """False: the saved settings cannot be decrypted, and must be entered again."""
    is_running: bool
    """A server holds the channel."""
    bot: str
    connected_since: datetime | None
    last_error: str | None
    last_error_at: datetime | None
    received: int
    sent: int


class ChatAccount(FromDomain):
    """Chat account that is connected to the current user."""

    channel: str
    external_id: str
    name: str
    created_at: datetime


class Channels(BaseModel):
    """Connected chat apps, those that can be connected, and the chat accounts of the current user."""

    channels: list[ChannelStatus]
    apps: list[ChatAppInfo]
    accounts: list[ChatAccount]
    can_change: bool
    """The current user is an administrator."""


class ChatAppSettings(BaseModel):
    """Settings of a chat app."""

    model_config = ConfigDict(json_schema_extra=with_examples(SETTINGS_EXAMPLE))

    settings: Annotated[
        dict[Annotated[str, Field(max_length=64)], Annotated[SecretStr, Field(max_length=4096)]],
        Field(max_length=20, description="Settings by name; they are stored encrypted and never returned."),
    ]

    def reveal(self) -> dict[str, str]:
        """Return the texts that were entered; empty ones are left out."""
        texts = {name: value.get_secret_value().strip() for name, value in self.settings.items()}
        return {name: text for name, text in texts.items() if text}


class ChatBot(BaseModel):
    """Bot to which settings belong."""

    bot: str


class ConnectCodeInfo(BaseModel):
    """Code that connects one chat account; it is shown once."""

    code: str
    command: str
    """Message to be sent to the bot."""
    expires_at: datetime


def get_manager(harness: Harness) -> ChannelManager:
    """Return the management of chat apps."""
    return ChannelManager(harness.core.database, harness.core.source, harness.core.saved_models.cipher)


class HookFields(FromDomain):
    """Settings of a webhook."""

    prompt: Annotated[str, Field(max_length=20_000, description="Message; `{{a.b}}` is a value of the payload.")]
    agent: Annotated[str | None, Field(max_length=64)] = None
    thread: HookThread = "each"
    """One thread for each delivery, one for all, or one for each value of `key`."""
    key: Annotated[str, Field(max_length=200, description="Path in the payload, such as `issue.number`.")] = ""


class CreateHook(BaseModel):
    """Webhook to be made."""

    model_config = ConfigDict(json_schema_extra=with_examples(HOOK_EXAMPLE))

    name: Annotated[str, Field(min_length=1, max_length=100)]
    settings: HookFields


class ChangeHook(BaseModel):
    """Change of a webhook."""

    model_config = ConfigDict(json_schema_extra=with_examples({"is_enabled": True}))

    is_enabled: bool


class HookInfo(FromDomain):
    """Webhook. Its secret is shown only when it is made."""

    hook_id: str
    name: str
    settings: HookFields
    is_enabled: bool
    created_at: datetime


class NewHookInfo(BaseModel):
    """Webhook with its secret, which is shown once."""

    hook: HookInfo
    secret: str

    @classmethod
    def from_domain(cls, made: MadeHook) -> "NewHookInfo":
        return cls(hook=HookInfo.model_validate(made.hook), secret=made.secret)


class StartedRunInfo(FromDomain):
    """Run that a delivery has started."""

    thread_id: str
    run_id: str


@router.get("/channels", summary="List chat apps")
async def list_channels(harness: HarnessDep, user: CurrentUser) -> Channels:
    """List the connected chat apps with their state, those that can be connected, and one's own chat accounts."""
    manager = get_manager(harness)
    found, accounts = await manager.list(), await manager.list_accounts(user)
    return Channels(
        channels=[ChannelStatus.model_validate(each) for each in found],
        apps=[ChatAppInfo.model_validate(each) for each in manager.list_apps()],
        accounts=[ChatAccount.model_validate(each) for each in accounts],
        can_change=user.is_admin,
    )


@router.post("/channels/{name}/check", summary="Check the settings of a chat app")
async def check_channel(name: str, body: ChatAppSettings, harness: HarnessDep, _: CurrentAdmin) -> ChatBot:
    """Log in with settings and return the name of the bot. Nothing is saved."""
    return ChatBot(bot=(await get_manager(harness).check(name, body.reveal())).name)


@router.put("/channels/{name}", summary="Connect a chat app")
async def save_channel(
    name: str, body: ChatAppSettings, harness: HarnessDep, user: CurrentAdmin, request: Request
) -> ChatBot:
    """Save settings that work, and connect; the server need not be restarted."""
    manager = audited(get_manager(harness), describe_change(user, "save", name))
    bot = await manager.save(name, body.reveal())
    request.app.state.channels_changed.set()
    return ChatBot(bot=bot.name)


@router.delete("/channels/{name}", status_code=204, summary="Disconnect a chat app")
async def remove_channel(name: str, harness: HarnessDep, user: CurrentAdmin, request: Request) -> None:
    """Disconnect a chat app that was connected on the page, and delete its settings."""
    await audited(get_manager(harness), describe_change(user, "remove", name)).remove(name)
    request.app.state.channels_changed.set()


@router.post("/channels/{name}/restart", status_code=202, summary="Connect a chat app again")
async def restart_channel(name: str, harness: HarnessDep, user: CurrentAdmin, request: Request) -> None:
    """Let the server that holds the channel disconnect and connect again."""
    await audited(get_manager(harness), describe_change(user, "restart", name)).restart(name)
    request.app.state.channels_changed.set()


@router.post("/channels/{name}/test", status_code=202, summary="Send a test message")
async def send_test_message(name: str, harness: HarnessDep, user: CurrentUser, request: Request) -> None:
    """Send a test message to the chat in which the current user has written to the bot."""
    await get_manager(harness).send_test(user, name)
    request.app.state.channels_changed.set()


@router.post("/channels/{name}/code", status_code=201, summary="Create a code for a chat account")
async def create_connect_code(name: str, harness: HarnessDep, user: CurrentUser) -> ConnectCodeInfo:
    """Create a code that connects one chat account to the current user: once, within ten minutes."""
    created = await get_manager(harness).create_code(user, name)
    return ConnectCodeInfo(code=created.code, command=f"/connect {created.code}", expires_at=created.expires_at)


@router.delete("/channels/{name}/accounts/{external_id:path}", status_code=204, summary="Disconnect a chat account")
async def disconnect_account(name: str, external_id: str, harness: HarnessDep, user: CurrentUser) -> None:
    """Disconnect a chat account of the current user."""
    await get_manager(harness).disconnect(user, name, external_id)


def describe_change(user: CurrentUser, action: str, name: str) -> AuditEvent:
    """Return the event of a change of chat apps."""
    return AuditEvent("configuration.channel", user.user_id, user.user_id, details={"action": action, "name": name})


def get_hooks(harness: Harness) -> HookService:
    """Return the webhooks of people."""
    return HookService(harness.core.database, harness.core.saved_models.cipher)


@router.get("/hooks", summary="List webhooks")
async def list_hooks(harness: HarnessDep, user: CurrentUser) -> list[HookInfo]:
    """List the webhooks of the current user."""
    return [HookInfo.model_validate(each) for each in await get_hooks(harness).list(user)]


@router.post("/hooks", status_code=201, summary="Make a webhook")
async def create_hook(body: CreateHook, harness: HarnessDep, user: CurrentUser) -> NewHookInfo:
    """Make a webhook. The secret with which requests are signed is in this answer only."""
    settings = HookSettings(**body.settings.model_dump())
    service = audited(get_hooks(harness), describe_hook(user, "create", body.name))
    return NewHookInfo.from_domain(await service.create(user, body.name, settings))


@router.patch("/hooks/{hook_id}", summary="Switch a webhook on or off")
async def change_hook(hook_id: str, body: ChangeHook, harness: HarnessDep, user: CurrentUser) -> HookInfo:
    """Switch a webhook on or off."""
    service = audited(get_hooks(harness), describe_hook(user, "enable" if body.is_enabled else "disable", hook_id))
    return HookInfo.model_validate(await service.change(user, hook_id, is_enabled=body.is_enabled))


@router.post("/hooks/{hook_id}/secret", status_code=201, summary="Replace the secret of a webhook")
async def replace_hook_secret(hook_id: str, harness: HarnessDep, user: CurrentUser) -> NewHookInfo:
    """Replace the secret of a webhook; requests that are signed with the old one are refused."""
    service = audited(get_hooks(harness), describe_hook(user, "replace_secret", hook_id))
    return NewHookInfo.from_domain(await service.replace_secret(user, hook_id))


@router.delete("/hooks/{hook_id}", status_code=204, summary="Delete a webhook")
async def remove_hook(hook_id: str, harness: HarnessDep, user: CurrentUser) -> None:
    """Delete a webhook with its secret."""
    await audited(get_hooks(harness), describe_hook(user, "remove", hook_id)).remove(user, hook_id)


@router.post("/hooks/{hook_id}", status_code=202, summary="Start a run by a webhook")
async def receive_delivery(hook_id: str, request: Request, harness: HarnessDep) -> StartedRunInfo:
    """Start a run of the owner of a webhook. The same delivery id returns the same run.

    The header `X-DeerFlow-Signature` is `sha256=` and the HMAC-SHA256, in hexadecimal, of the headers
    `X-DeerFlow-Timestamp` (seconds, at most five minutes old) and `X-DeerFlow-Delivery`, and the body, joined by dots.
    """
    started = await HookReceiver(harness).receive(hook_id, request.headers, await request.body())
    return StartedRunInfo.model_validate(started)


def describe_hook(user: CurrentUser, action: str, name: str) -> AuditEvent:
    """Return the event of a change of webhooks."""
    return AuditEvent("configuration.hook", user.user_id, user.user_id, details={"action": action, "name": name})
