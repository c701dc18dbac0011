"""Chat apps that are not configured: nothing of them is imported."""

import subprocess
import sys

import pytest

from deerflow.channels.apps import create_adapters
from deerflow.config.sections.channels import ChannelsConfig
from deerflow.domain.errors import ConfigError

PROGRAM = """
import sys
from deerflow.channels import apps, service
from deerflow.config.sections.channels import ChannelsConfig
list(apps.create_adapters(ChannelsConfig.model_validate({})))
print([name for name in sys.modules if name.startswith({})])
"""
OF_SLACK = ("slack_sdk", "deerflow.channels.slack")
OF_FEISHU = "deerflow.channels.feishu"
TOKENS = {"bot_token": "t", "app_token": "t"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "unused"),
    [
        ({}, (*OF_SLACK, OF_FEISHU, "deerflow.channels.telegram")),
        ({"telegram": {"bot_token": "t"}}, (*OF_SLACK, OF_FEISHU)),
        ({"slack": {**TOKENS, "enabled": False}}, (*OF_SLACK, OF_FEISHU)),
        ({"feishu": {"app_id": "a", "app_secret": "s"}}, (*OF_SLACK, "deerflow.channels.telegram")),
    ],
)
def test_no_module_of_an_app_that_is_not_configured_is_imported(settings: dict[str, object], unused: object) -> None:
    program = PROGRAM.format(settings, unused)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_a_configured_app_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith(OF_SLACK)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "slack_sdk", None)
    with pytest.raises(ConfigError, match=r"deerflow\[slack\]"):
        list(create_adapters(ChannelsConfig.model_validate({"slack": TOKENS})))
