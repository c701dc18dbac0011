from collections.abc import Callable, Collection
from pathlib import Path

from deerflow.config.extensions import McpServerConfig
from deerflow.config.source import open_source
from deerflow.domain.principal import LOCAL_USER
from deerflow.harness import open_harness
from deerflow.mcp.lazy_servers import LazyServers
from deerflow.mcp.offer import Offer
from deerflow.mcp.servers import McpServers

USER = LOCAL_USER.user_id


def never() -> Callable[[], McpServers]:
    raise AssertionError("there is no server")


async def test_without_a_server_nothing_is_loaded_and_what_earlier_ones_left_is_removed_once() -> None:
    kept: list[Collection[str]] = []

    async def keep_homes(seeds: Collection[str]) -> None:
        kept.append(seeds)

    servers = LazyServers(dict[str, McpServerConfig], never, keep_homes)
    await servers.open()
    await servers.settle(USER)
    await servers.settle(USER)
    await servers.forget_thread("t", USER)
    await servers.aclose()

    assert servers.offer(USER) == Offer()
    assert kept == [()]


async def test_a_server_that_is_added_later_is_asked_by_the_next_run(tmp_path: Path) -> None:
    async with open_harness(open_source(directory=tmp_path, environment={})) as harness:
        await harness.mcp.settle(USER)
        text = '{"mcpServers": {"gone": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}}'
        (tmp_path / "extensions_config.json").write_text(text)
        await harness.mcp.settle(USER, wait_s=30)

        (status,) = harness.resources.mcp_servers.catalog.statuses(USER)

    assert (status.name, status.state) == ("gone", "failed")
