"""Sections for chat apps."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from deerflow.config.sections.base import Section, make_error

ChatMode = Literal["flash", "thinking", "pro", "ultra"]
FEISHU_ADDRESSES: Mapping[str, str] = MappingProxyType(
    {"feishu": "https://open.feishu.cn", "lark": "https://open.larksuite.com"}
)


class ChatAnswerConfig(Section):
    """Who answers in chats; what is chosen in a chat comes first."""

    agent: str | None = Field(default=None, description="Custom agent of each person; default: the lead agent.")
    model: str | None = Field(default=None, description="Model; default: the first one.")
    mode: ChatMode | None = Field(
        default=None,
        description="`flash`: without thinking; `thinking`; `pro`: with a plan; `ultra`: with a plan and subagents.",
    )


class ChatAppConfig(ChatAnswerConfig):
    """Settings that every chat app has."""

    needs_restart: ClassVar[bool] = True

    enabled: bool = Field(default=True, description="Connect to the chat app.")
    allowed_users: tuple[int | str, ...] = Field(
        default=(),
        strict=False,
        description="Ids of people in the chat app who use the agent as the local user, on a server without accounts; "
        "default: none. Others connect with a code.",
    )
    users: Mapping[str, ChatAnswerConfig] = Field(
        default={}, description="Who answers which people, by their ids in the chat app: agent, model and mode."
    )


class TelegramConfig(ChatAppConfig):
    """Telegram, with a bot of @BotFather."""

    bot_token: str = Field(min_length=1, description="Token of the bot, as $TELEGRAM_BOT_TOKEN.")
    base_url: str = Field(
        default="https://api.telegram.org", description="Address of the Bot API; for a Bot API server of your own."
    )

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, url: str) -> str:
        return check_address(url, "https://api.telegram.org")


class SlackConfig(ChatAppConfig):
    """Slack, with an app of your workspace in Socket Mode. Needs the extra `slack`."""

    bot_token: str = Field(min_length=1, description="Token of the bot (xoxb-…), as $SLACK_BOT_TOKEN.")
    app_token: str = Field(
        min_length=1, description="Token of the app with the scope connections:write (xapp-…), as $SLACK_APP_TOKEN."
    )
    base_url: str = Field(default="https://slack.com/api/", description="Address of the Web API.")

    @field_validator("base_url")
    @classmethod
    def _check_base_url(cls, url: str) -> str:
        return check_address(url, "https://slack.com/api/")


class FeishuConfig(ChatAppConfig):
    """Feishu or Lark, with an app of its developer console."""

    app_id: str = Field(min_length=1, description="Id of the app, as $FEISHU_APP_ID.")
    app_secret: str = Field(min_length=1, description="Secret of the app, as $FEISHU_APP_SECRET.")
    domain: str = Field(
        default="feishu",
        description="`feishu`, `lark`, or the address of an open platform, e.g. https://open.feishu.cn.",
    )

    @field_validator("domain")
    @classmethod
    def _check_domain(cls, domain: str) -> str:
        return domain if domain in FEISHU_ADDRESSES else check_address(domain, FEISHU_ADDRESSES["feishu"])

    @property
    def address(self) -> str:
        """Address of the open platform."""
        return FEISHU_ADDRESSES.get(self.domain, self.domain)

    @property
    def language(self) -> str:
        """Language of replies to commands."""
        return "en" if "lark" in self.domain else "zh"


def check_address(url: str, example: str) -> str:
    """Return the address of a server, or raise the error that shows an example of one."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise make_error(f"must be an address such as {example}", f", not {url!r}")
    return url


class ChannelsConfig(Section):
    """Chat apps in which people use the agent."""

    needs_restart: ClassVar[bool] = True

    multitask_strategy: Literal["enqueue", "steer"] = Field(
        default="enqueue",
        description="While a message is being answered, `enqueue` lets others wait, and `steer` adds them to it.",
    )
    telegram: TelegramConfig | None = Field(default=None, description="Telegram.")
    slack: SlackConfig | None = Field(default=None, description="Slack.")
    feishu: FeishuConfig | None = Field(default=None, description="Feishu or Lark.")

    @property
    def is_used(self) -> bool:
        """True if a chat app is configured."""
        return bool(self.find_enabled())

    def find_enabled(self) -> Mapping[str, ChatAppConfig]:
        """Return the settings of the chat apps to connect to, by name."""
        apps = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: app for name, app in apps.items() if isinstance(app, ChatAppConfig) and app.enabled}
