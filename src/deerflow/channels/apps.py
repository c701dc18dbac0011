"""The chat apps there are. Those that are not configured are not imported."""

from collections.abc import Iterator

from deerflow.channels.adapter import ChannelAdapter
from deerflow.config.sections.channels import ChannelsConfig, TelegramConfig


def create_adapters(config: ChannelsConfig) -> Iterator[ChannelAdapter]:
    """Yield the adapters of the configured chat apps."""
    for app in config.find_enabled().values():
        match app:
            case TelegramConfig():
                yield create_telegram(app)


def create_telegram(config: TelegramConfig) -> ChannelAdapter:
    """Return the adapter of Telegram."""
    from deerflow.channels.telegram.adapter import TelegramAdapter
    from deerflow.channels.telegram.api import TelegramApi

    return TelegramAdapter(TelegramApi(config.bot_token, config.base_url))
