"""The chat apps there are. Those that are not configured are not imported."""

from collections.abc import Iterator

from deerflow.channels.adapter import ChannelAdapter
from deerflow.config.imports import require_extra
from deerflow.config.sections.channels import ChannelsConfig, SlackConfig, TelegramConfig


def create_adapters(config: ChannelsConfig) -> Iterator[ChannelAdapter]:
    """Yield the adapters of the configured chat apps."""
    for app in config.find_enabled().values():
        match app:
            case TelegramConfig():
                yield create_telegram(app)
            case SlackConfig():
                yield create_slack(app)


def create_telegram(config: TelegramConfig) -> ChannelAdapter:
    """Return the adapter of Telegram."""
    from deerflow.channels.telegram.adapter import TelegramAdapter
    from deerflow.channels.telegram.api import TelegramApi

    return TelegramAdapter(TelegramApi(config.bot_token, config.base_url))


def create_slack(config: SlackConfig) -> ChannelAdapter:
    """Return the adapter of Slack.

    Raises:
        ConfigError: The extra is not installed.
    """
    with require_extra("slack", "channels.slack"):
        from deerflow.channels.slack.adapter import SlackAdapter
        from deerflow.channels.slack.api import SlackApi

    return SlackAdapter(SlackApi(config.bot_token, config.app_token, config.base_url))
