"""`web_fetch` by the Jina Reader."""

from pydantic import BaseModel

from deerflow.community.web.api import Text, ask_api
from deerflow.community.web.http import Ask, Http
from deerflow.community.web.results import Page
from deerflow.community.web.tool import KeyedSettings, PageSettings, page_tool

NAME = "jina"


class JinaSettings(KeyedSettings, PageSettings):
    """Where the reader is."""

    base_url: str = "https://r.jina.ai"


class Content(BaseModel):
    """A page."""

    title: Text = ""
    url: Text = ""
    content: Text = ""


class Read(BaseModel):
    """What the reader answers."""

    data: Content


async def fetch(url: str, settings: JinaSettings, http: Http) -> Page:
    """A page by its address."""
    headers = {"Accept": "application/json"}
    if settings.api_key:
        headers["Authorization"] = f"Bearer {settings.api_key.get_secret_value()}"
    # In the body, for an address in the path would have to be quoted, and not everybody unquotes it.
    ask = Ask(f"{settings.base_url.rstrip('/')}/", "POST", headers, json={"url": url})
    page = (await ask_api(http, NAME, ask, Read)).data
    return Page(page.url or url, page.title, page.content)


web_fetch_tool = page_tool(JinaSettings, fetch)
