"""States of the sandbox in a real browser, in both languages."""

import asyncio
import os
from pathlib import Path

from playwright.async_api import expect

from deerflow.config.sections.sandbox import ToolboxConfig
from deerflow.sandbox.local.toolbox import ToolboxBuilder
from deerflow.testing import ScriptedServer, calling
from tests.e2e.server_process import server_environment
from tests.e2e.support import Visitor, send_message, serious_violations, serve_model
from tests.sandbox.wheels import FindUv

NO_ENGINE = {"use": "deerflow.community.aio_sandbox:AioSandboxProvider", "engine_url": "tcp://127.0.0.1:9"}


async def test_commands_that_are_off_are_explained_in_both_languages(tmp_path: Path, visitor: Visitor) -> None:
    async with ScriptedServer([]) as model:
        with serve_model(tmp_path, model, sandbox=NO_ENGINE) as server:
            page = await visitor.open(server.url, reduced_motion="reduce")
            await expect(page.get_by_text("Neither Docker nor Podman was found.")).to_be_visible()
            page = await visitor.open(server.url, reduced_motion="reduce", locale="zh-CN")
            await expect(page.get_by_text("此服务器已关闭命令执行。 未找到 Docker 或 Podman。")).to_be_visible()
            await page.get_by_text("详情").click()
            await expect(page.get_by_text("neither Docker nor Podman was found")).to_be_visible()
            assert await serious_violations(page) == []
            await page.goto(f"{server.url}/settings")
            await expect(page.get_by_text("将 sandbox.engine_url 设为它的套接字")).to_be_visible()
            assert await serious_violations(page) == []


async def test_packages_that_are_being_installed_are_shown_and_python_waits(tmp_path: Path, visitor: Visitor) -> None:
    """Another server of this machine builds the toolbox, and is not done yet."""
    packages = ("not-to-be-installed",)
    program, begun = tmp_path / "uv", tmp_path / "begun"
    os.mkfifo(begun)
    program.write_text(
        'for target; do :; done\nmkdir -p "$target/lib/python3/site-packages/"{a,b,c}.dist-info\n'
        f"echo begun > {begun}\nsleep 1000\n"
    )
    cache = Path(server_environment(tmp_path)["XDG_CACHE_HOME"]) / "deerflow"
    builder = ToolboxBuilder(
        ToolboxConfig(packages=packages),
        cache,
        {"PATH": "/usr/bin:/bin"},
        find_uv=FindUv(["bash", str(program)]),
    )
    building = asyncio.create_task(builder.build())
    await asyncio.to_thread(begun.read_text)
    run = calling("bash", description="Count", command="python3 -c 'print(1 + 1)'")
    try:
        async with ScriptedServer([run, "Two."]) as model:
            with serve_model(tmp_path, model, sandbox={"toolbox": {"packages": list(packages)}}) as server:
                page = await visitor.open(server.url, reduced_motion="reduce")
                await expect(page.get_by_text("Installing Python packages")).to_contain_text("3 of ")
                assert await serious_violations(page) == []
                await send_message(page, "count")
                waiting = "[waiting: the Python packages of the sandbox are being installed]"
                await expect(page.get_by_text(waiting)).to_be_visible()
                await page.close()
                page = await visitor.open(server.url, reduced_motion="reduce", locale="zh-CN")
                await expect(page.get_by_text("正在安装用于图表、文档和数据的 Python 软件包：3 / ")).to_be_visible()
                await page.goto(f"{server.url}/settings")
                await expect(page.get_by_text("命令无法访问网络。")).to_be_visible()
                assert await serious_violations(page) == []
                await page.close()  # it asks the server again and again
    finally:
        building.cancel()
        await asyncio.wait({building})
