"""Chat apps that are configured, and those that are not."""

import subprocess
import sys

import pytest

APPS = {
    "telegram": '{"bot_token": "t"}',
    "feishu": '{"app_id": "a", "app_secret": "s"}',
}
PROGRAM = """
import sys
from deerflow.channels.apps import create_adapters
from deerflow.config.sections.channels import ChannelsConfig
adapters = list(create_adapters(ChannelsConfig.model_validate({settings})))
names = [name.split(".")[2] for name in sys.modules if name.startswith("deerflow.channels.") and name.count(".") > 2]
print([adapter.name for adapter in adapters], sorted(set(names)))
"""


@pytest.mark.parametrize("name", [*APPS, ""])
def test_only_the_chat_apps_that_are_configured_are_imported(name: str) -> None:
    settings = f'{{"{name}": {APPS[name]}}}' if name else "{}"
    command = [sys.executable, "-c", PROGRAM.format(settings=settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == (f"['{name}'] ['{name}']" if name else "[] []")
