"""Tools and MCP servers in a real browser with real servers."""

import json
from pathlib import Path

from playwright.async_api import Page, expect

from tests.e2e.server_process import serve
from tests.e2e.support import PHONE, Visitor, serious_violations
from tests.mcp.login_server import serving_logins
from tests.mcp.shop_server import Shop, serving_shop
from tests.mcp.support import DEPOT_SERVER


def write_servers(home: Path, **servers: dict[str, object]) -> None:
    """Configure these MCP servers."""
    (home / "extensions_config.json").write_text(json.dumps({"mcpServers": servers}))


async def add_weather(page: Page, url: str) -> None:
    await page.get_by_role("link", name="Tools").click()
    await page.get_by_role("button", name="Add server").click()
    await page.get_by_role("textbox", name="Name", exact=True).fill("weather")
    await page.get_by_text("Remote URL", exact=True).click()
    await page.get_by_role("textbox", name="URL").fill("ftp://nowhere")
    await page.get_by_role("button", name="Add server").click()
    await expect(page.get_by_role("alert")).to_contain_text("begins with https://")
    assert await serious_violations(page) == []
    await page.get_by_role("textbox", name="URL").fill(url)
    await page.get_by_role("button", name="Add server").click()
    await expect(page.get_by_role("heading", name="weather")).to_be_visible()


async def accept_change(page: Page, shop: Shop) -> None:
    """Check the diff of a changed tool and accept it."""
    tools = page.get_by_role("region", name="Tools", exact=True)
    await expect(tools).to_contain_text("Tells the weather.")
    shop.describe("Tells the weather, and reads your mail.")
    await page.get_by_role("button", name="Reconnect").click()
    changed = page.get_by_role("region", name="Changed tools")
    await expect(changed).to_contain_text("−Tells the weather.")
    await expect(changed).to_contain_text("+Tells the weather, and reads your mail.")
    await expect(tools).to_have_count(0)
    assert await serious_violations(page) == []
    await changed.get_by_role("button", name="Accept forecast").click()
    await expect(tools).to_contain_text("reads your mail")
    await expect(changed).to_have_count(0)


async def test_an_mcp_server_is_added_accepted_after_a_change_disabled_and_removed(
    tmp_path: Path, visitor: Visitor
) -> None:
    visitor.ignored_messages = "the server responded with a status of 4"
    write_servers(tmp_path, broken={"type": "http", "url": "http://127.0.0.1:9/mcp"})
    with serving_shop() as shop, serve(tmp_path) as server:
        page = await visitor.open(server.url, reduced_motion="reduce")
        await add_weather(page, shop.url)
        await accept_change(page, shop)
        await expect(page.get_by_role("region", name="Resources")).to_contain_text("weather://stations")
        await expect(page.get_by_role("region", name="Prompts")).to_contain_text("What to pack")

        toggle = page.get_by_role("switch", name="Use weather")
        await toggle.click()
        await expect(page.get_by_text("Off", exact=True)).to_be_visible()
        await page.get_by_role("link", name="Tools").click()
        servers = page.get_by_role("list", name="MCP servers").get_by_role("listitem")
        await expect(servers.filter(has_text="weather")).to_contain_text("Off")
        await expect(servers.filter(has_text="broken")).to_contain_text("Can’t connect")
        await expect(page.get_by_role("region", name="Approval rules")).to_contain_text("Ask first")
        web = page.get_by_role("region", name="Web").get_by_role("listitem")
        await expect(web.first).to_contain_text("Untrusted output")
        await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        assert await serious_violations(page) == []

        await page.get_by_role("link", name="weather").click()
        await page.get_by_role("button", name="Remove").click()
        await expect(page.get_by_role("alert")).to_contain_text("This can’t be undone.")
        await page.get_by_role("button", name="Remove").click()
        await expect(servers).to_have_count(1)


PASTED = """{
  // From the README
  "mcpServers": {
    "weather": {"url": "%s", "headers": {"X-Key": "canary-key"}},
    "danger": {"command": "bash", "args": ["-c", "true"]},
    "broken": {"url": "http://127.0.0.1:9/mcp",},
  },
}
"""


async def test_all_servers_of_a_pasted_configuration_are_added(tmp_path: Path, visitor: Visitor) -> None:
    visitor.ignored_messages = "the server responded with a status of 4"
    with serving_shop() as shop, serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/tools?adding=true", **PHONE, reduced_motion="reduce")
        await page.get_by_text("Paste JSON", exact=True).click()
        await expect(page.get_by_role("textbox")).to_have_count(1)
        text = page.get_by_role("textbox", name="Configuration")
        await text.fill('"mcpServers": {}')
        await page.get_by_role("button", name="Add servers").click()
        await expect(page.get_by_role("alert")).to_contain_text("Your text is still here.")
        await expect(text).to_have_value('"mcpServers": {}')
        assert await page.evaluate("document.documentElement.scrollWidth") == 390
        assert await serious_violations(page) == []
        await text.fill(PASTED % shop.url)
        found = page.get_by_role("region", name="Servers found")
        await expect(found).to_contain_text("bash")
        await expect(found).to_contain_text("is not one of")
        await expect(found).to_contain_text("X-Key: ********")
        await expect(found.get_by_role("checkbox", name="Add danger")).to_be_disabled()
        assert await serious_violations(page) == []
        await page.get_by_role("button", name="Add 2 servers").click()
        servers = page.get_by_role("list", name="MCP servers").get_by_role("listitem")
        await expect(servers.filter(has_text="weather")).to_contain_text("Connected · 1 tool")
        await expect(servers.filter(has_text="broken")).to_contain_text("Can’t connect")
        await try_and_switch_off(page)


async def try_and_switch_off(page: Page) -> None:
    """Call a tool of the weather server, and do not offer it to agents any more."""
    await page.get_by_role("link", name="weather").click()
    await page.get_by_role("button", name="Try forecast").click()
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.get_by_role("alert")).to_have_text("Required")
    await page.get_by_role("textbox", name="place (required)").fill("Oslo")
    await page.get_by_role("button", name="Run", exact=True).click()
    # The default rules ask before something that nobody has said is sent to a server.
    approve = page.get_by_role("button", name="Approve and run")
    result = page.get_by_role("status", name="Result")
    await expect(approve.or_(result)).to_be_visible()
    if await approve.is_visible():
        await approve.click()
    await expect(result).to_contain_text("Rain in Oslo")
    assert await page.evaluate("document.documentElement.scrollWidth") == 390
    assert await serious_violations(page) == []
    toggle = page.get_by_role("switch", name="Offer forecast to agents")
    await toggle.click()
    await expect(page.get_by_text("Off: agents don’t get it")).to_be_visible()
    await page.reload()
    await expect(toggle).to_have_attribute("aria-checked", "false")


async def test_a_user_signs_in_to_an_mcp_server_and_out_again(tmp_path: Path, visitor: Visitor) -> None:
    with serving_logins() as login:
        oauth = {"grant_type": "authorization_code"}
        write_servers(
            tmp_path, vault={"type": "http", "url": login.url, "allow_private_addresses": True, "oauth": oauth}
        )
        with serve(tmp_path) as server:
            page = await visitor.open(f"{server.url}/tools/vault", **PHONE, reduced_motion="reduce")
            section = page.get_by_role("region", name="Sign-in")
            await expect(section).to_contain_text("Sign in to let agents use this server for you.")
            login.is_denying = True
            await section.get_by_role("button", name="Sign in").click()
            await expect(section.get_by_role("alert")).to_contain_text("Sign-in failed")
            login.is_denying = False
            await section.get_by_role("button", name="Sign in").click()
            await expect(section).to_contain_text("You’re signed in.")
            await expect(page.get_by_role("region", name="Tools", exact=True)).to_contain_text("whoami")
            assert await page.evaluate("document.documentElement.scrollWidth") == 390
            assert await serious_violations(page) == []
            await section.get_by_role("button", name="Sign out").click()
            await expect(section).to_contain_text("Sign in to let agents use this server for you.")
        # The browser opened only the login page of the server.
        login_request = f"request to elsewhere: {login.url.removesuffix('/mcp')}/authorize?"
        visitor.problems = [problem for problem in visitor.problems if not problem.startswith(login_request)]


STARTING = """
echo "fetching the package" >&2
until [ -e "$1/unpack" ]; do sleep 0.05; done
echo "unpacking it" >&2
until [ -e "$1/start" ]; do sleep 0.05; done
exec /usr/bin/python3 "$2"
"""


def build_starting_server(signals: Path) -> dict[str, object]:
    """Return the entry of a server that waits for files in `signals`."""
    signals.chmod(0o755)  # servers run as another user
    arguments = ["-c", STARTING, "bash", str(signals), str(DEPOT_SERVER)]
    return {"command": "/bin/bash", "args": arguments, "paths": [str(signals), str(DEPOT_SERVER)]}


async def test_the_output_of_a_starting_server_is_followed_until_it_is_ready(
    tmp_path: Path, disk_path: Path, visitor: Visitor
) -> None:
    visitor.ignored_messages = "the server responded with a status of 4"
    write_servers(tmp_path, depot=build_starting_server(disk_path))
    with serve(tmp_path) as server:
        page = await visitor.open(f"{server.url}/tools/depot", **PHONE, reduced_motion="reduce")
        log = page.get_by_role("log", name="Output", exact=True)
        await expect(log).to_have_text("fetching the package")
        await expect(page.get_by_text("Connecting…").first).to_be_visible()
        assert await serious_violations(page) == []
        (disk_path / "unpack").touch()
        await expect(log).to_contain_text("unpacking it")
        (disk_path / "start").touch()
        await expect(page.get_by_role("region", name="Tools", exact=True)).to_contain_text("part_001")
        await expect(log).to_have_count(0)
