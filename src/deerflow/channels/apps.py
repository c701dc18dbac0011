"""The chat apps there are. Those that are not configured are not imported."""

from collections.abc import Iterator

from deerflow.channels.adapter import ChannelAdapter
from deerflow.config.imports import require_extra
from deerflow.config.sections.channels import ChannelsConfig, FeishuConfig, SlackConfig, TelegramConfig


def create_adapters(config: ChannelsConfig) -> Iterator[ChannelAdapter]:
    """Yield the adapters of the configured chat apps."""
    for app in config.find_enabled().values():
        match app:
            case TelegramConfig():
                yield create_telegram(app)
            case SlackConfig():
                yield create_slack(app)
            case FeishuConfig():
                yield create_feishu(app)


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


def create_feishu(config: FeishuConfig) -> ChannelAdapter:
    """Return the adapter of Feishu and Lark."""
    from deerflow.channels.feishu.adapter import FeishuAdapter
    from deerflow.channels.feishu.api import FeishuApi

    return FeishuAdapter(FeishuApi(config.app_id, config.app_secret, config.address), config.language)
