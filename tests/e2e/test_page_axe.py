"""Accessibility of every page: axe finds nothing in the light and in the dark theme."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from deerflow.testing import ScriptedServer, ServerRequest, calling
from tests.e2e.support import PHONE, Visitor, check_both_themes, serious_violations, serve_model
from tests.mcp.shop_server import serving_shop

OUTPUTS = "/mnt/user-data/outputs"
TABLE = "name,amount\nApples,12\nPears,7\n"
SKILL = "---\nname: greeter\ndescription: Greets.\n---\n# Greeter\n\nSay hello.\n"
ANSWER = (
    "# Fruit\n\nThere are **19** pieces, see `fruit.csv`.\n\n| name | amount |\n|---|---|\n| Apples | 12 |\n\n"
    "```python\nprint(12 + 7)\n```\n\n> Counted twice.\n\n1. Apples\n2. Pears\n\n$$a^2 + b^2$$\n"
)
STEPS = [
    calling("write_file", description="Write the table", path=f"{OUTPUTS}/fruit.csv", content=TABLE),
    calling("bash", description="Count the pieces", command=f"wc -l {OUTPUTS}/fruit.csv"),
    calling("read_file", description="Look for pears", path=f"{OUTPUTS}/missing.csv"),
    calling("present_files", filepaths=[f"{OUTPUTS}/fruit.csv"]),
    ANSWER,
]
PAGES = {
    "start": "/",
    "thread": "/threads/fruit",
    "artifacts": "/threads/fruit?panel=artifacts",
    "artifact": f"/threads/fruit?panel=artifacts&file={OUTPUTS}/fruit.csv",
    "files": "/threads/fruit?panel=files",
    "run": "/threads/fruit?panel=run",
    "empty panel": "/threads/empty?panel=artifacts",
    "agents": "/agents",
    "agent": "/agents/ada",
    "new agent": "/agents/_new",
    "agent start page": "/agents/ada",
    "skills": "/skills",
    "skill": "/skills/greeter",
    "built-in skill": "/skills/chart-visualization",
    "new skill": "/skills/_new",
    "memory": "/memory",
    "memory history": "/memory?view=history",
    "tools": "/tools",
    "new server": "/tools?adding=true",
    "server": "/tools/weather",
    "broken server": "/tools/broken",
    "project": "/projects/{project}",
    "project file": "/projects/{project}/files/{file}",
    "empty project": "/projects/{empty}",
    "usage": "/usage",
    "settings": "/settings",
    "chat apps": "/channels",
    "account without login": "/account",
    "users without login": "/users",
    "teams without login": "/teams",
    "audit log without login": "/audit",
    "shared thread": "{shared}",
    "no such page": "/nowhere",
    "no such thread": "/threads/nowhere",
    "no such project": "/projects/nowhere",
}

LOGIN_PAGES = {
    "login": "/login",
    "set-up": "/setup#{invitation}",  # the form, whether or not the link is valid
    "invitation": "/invitation#{invitation}",
    "new password": "/reset-password#{reset}",
    "used link": "/invitation#used",
    "account": "/account",
    "users": "/users",
    "teams": "/teams",
    "audit log": "/audit",
}
ROUTES = Path(__file__).parents[2] / "web/src/app/routes.tsx"
ENTRY = Path(__file__).parents[2] / "web/src/main.tsx"
EMAIL, PASSWORD = "ann@example.com", "correct horse battery"


@dataclass(frozen=True)
class Site:
    """A server with something to see on every page."""

    url: str
    ids: dict[str, str]

    def address(self, page: str) -> str:
        return self.url + (PAGES | LOGIN_PAGES)[page].format(**self.ids)


def answer(request: ServerRequest) -> object:
    """Take the steps of the conversation one after the other."""
    return STEPS[sum(message["role"] == "tool" for message in request.messages)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    home = tmp_path_factory.mktemp("home")
    skill = home / "users/local/skills/custom/greeter/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL)
    with serving_shop() as shop:
        servers = {
            "weather": {"type": "http", "url": shop.url},
            "broken": {"type": "http", "url": "http://127.0.0.1:9/mcp"},
        }
        (home / "extensions_config.json").write_text(json.dumps({"mcpServers": servers}))
        async with ScriptedServer([answer], endless=True) as model:
            with serve_model(home, model, sharing={"enabled": True}) as server:
                async with httpx.AsyncClient(base_url=f"{server.url}/api", timeout=60) as http:
                    yield Site(server.url, await fill(http))


async def fill(http: httpx.AsyncClient) -> dict[str, str]:
    """Make a thread, an agent, a memory and projects; return the ids that addresses need."""

    async def post(path: str, body: object) -> dict[str, str]:
        response = await http.post(path, json=body)
        assert response.is_success, response.text
        found: dict[str, str] = response.json()
        return found

    await post("/threads/fruit/runs/wait", {"input": {"messages": [{"type": "human", "content": "Count my fruit"}]}})
    await post("/threads", {"thread_id": "empty"})
    shared = await post("/threads/fruit/shares", {"expires_in_days": 7})
    await post("/agents", {"name": "ada", "description": "Counts things", "soul": "Count.", "starters": ["Count"]})
    await post("/memory/facts", {"content": "Likes pears", "category": "preference", "confidence": 0.9})
    project = await post("/projects", {"name": "Orchard", "instructions": "Be brief."})
    empty = await post("/projects", {"name": "Empty"})
    parts = [("files", ("plan.md", b"# Plan\n\nPlant pears.\n")), ("files", ("photo.bin", b"\0\1\2"))]
    added = await http.post(f"/projects/{project['project_id']}/files", files=parts)
    assert added.is_success, added.text
    return {
        "project": project["project_id"],
        "empty": empty["project_id"],
        "file": added.json()["files"][0]["file_id"],
        "shared": shared["path"],
    }


@dataclass(frozen=True)
class LoginSite(Site):
    """A server with login, and the cookies of an administrator."""

    cookies: dict[str, str]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def login_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LoginSite]:
    async with ScriptedServer([]) as model:
        with serve_model(tmp_path_factory.mktemp("home"), model) as server:
            headers = {"X-CSRF-Protection": "1", "Origin": server.url}
            async with httpx.AsyncClient(base_url=f"{server.url}/api/v1", timeout=60, headers=headers) as http:
                yield LoginSite(server.url, await make_accounts(http), dict(http.cookies))


async def make_accounts(http: httpx.AsyncClient) -> dict[str, str]:
    """Create the first account and log in; return the tokens of an invitation and of a link for a new password."""

    async def post(path: str, **body: object) -> dict[str, str]:
        response = await http.post(path, json=body)
        assert response.is_success, response.text
        found: dict[str, str] = response.json()
        return found

    link = await post("/auth/setup-link")
    await post("/auth/initialize", token=link["path"].partition("#")[2], email=EMAIL, password=PASSWORD)
    invitation = await post("/auth/invitations", email="bob@example.com", role="user")
    (account,) = (await http.get("/auth/users")).json()
    reset = await post(f"/auth/users/{account['user_id']}/reset-link")
    await post("/auth/tokens", name="laptop")
    return {"invitation": invitation["path"].partition("#")[2], "reset": reset["path"].partition("#")[2]}


def test_every_route_of_the_page_is_checked() -> None:
    routes = set(re.findall(r'path: "([^"]+)"', ROUTES.read_text()))
    (listed,) = re.findall(r"LOGIN_PATHS.*?new Set\(\[(.*?)\]\)", ENTRY.read_text())
    routes |= set(re.findall(r'"([^"]+)"', listed))
    addresses = [re.split(r"[?#]", address)[0] for address in (PAGES | LOGIN_PAGES).values()]
    patterns = {route: re.compile(re.sub(r"\$\w+", "[^/]+", route)) for route in routes}
    assert [route for route, pattern in patterns.items() if not any(map(pattern.fullmatch, addresses))] == []


@pytest.mark.parametrize("name", LOGIN_PAGES)
async def test_axe_finds_nothing_on_pages_of_accounts(name: str, login_site: LoginSite, visitor: Visitor) -> None:
    visitor.ignored_messages = "Failed to load resource"
    page = await visitor.open(f"{login_site.url}/icon.svg", reduced_motion="reduce")
    if name in ("account", "users", "audit log"):
        cookies = [{"name": key, "value": value, "url": login_site.url} for key, value in login_site.cookies.items()]
        await page.context.add_cookies(cookies)  # type: ignore[arg-type]
    await page.goto(login_site.address(name))
    await settle(page, name)
    for width in (1280, PHONE["viewport"]["width"]):  # type: ignore[index]
        await page.set_viewport_size({"width": width, "height": 800})
        await check_both_themes(page)
        assert await page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("name", PAGES)
async def test_axe_finds_nothing(name: str, site: Site, visitor: Visitor) -> None:
    visitor.ignored_messages = "Failed to load resource"
    page = await visitor.open(site.address(name), reduced_motion="reduce")
    await settle(page, name)
    await check_both_themes(page)


@pytest.mark.parametrize("name", ["start", "thread", "artifact", "skills", "memory", "tools", "project", "settings"])
async def test_axe_finds_nothing_on_a_phone(name: str, site: Site, visitor: Visitor) -> None:
    page = await visitor.open(site.address(name), reduced_motion="reduce", **PHONE)
    await settle(page, name)
    assert await serious_violations(page) == []
    assert await page.evaluate("document.documentElement.scrollWidth") == PHONE["viewport"]["width"]


async def settle(page: Page, name: str) -> None:
    """Wait until the page shows its content; open what only a click opens."""
    if name == "agent start page":
        await page.get_by_role("button", name="Chat").click()
        await expect(page.get_by_role("list", name="Examples of this agent")).to_be_visible()
    if name in ("empty panel", "no such thread"):  # its heading is for screen readers only
        await expect(page.get_by_role("heading", level=1, name="Untitled thread")).to_be_attached()
    else:
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
    if name in ("thread", "shared thread"):
        await expect(page.get_by_text("Counted twice.")).to_be_visible()
        for step in await page.locator("[data-steps] button[aria-expanded=false]").all():
            await step.click()
    await page.wait_for_load_state("networkidle")
    await expect(page.get_by_role("status", name="Loading")).to_have_count(0)
