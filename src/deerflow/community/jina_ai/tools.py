"""`web_fetch` with the Jina Reader."""

from pydantic import BaseModel

from deerflow.community.web.http import HttpClient, OptionalText, WebRequest, call_api
from deerflow.community.web.results import PageContent
from deerflow.community.web.tool import KeyedSettings, PageSettings, make_page_tool

NAME = "jina"


class JinaSettings(KeyedSettings, PageSettings):
    """Settings of the reader."""

    base_url: str = "https://r.jina.ai"


class JinaPage(BaseModel):
    """A page."""

    title: OptionalText = ""
    url: OptionalText = ""
    content: OptionalText = ""


class JinaResponse(BaseModel):
    """Response of the reader."""

    data: JinaPage


async def fetch(url: str, settings: JinaSettings, http: HttpClient) -> PageContent:
    """Return a page by its URL."""
    headers = {"Accept": "application/json"}
    if settings.api_key:
        headers["Authorization"] = f"Bearer {settings.api_key.get_secret_value()}"
    # In the body: a URL in the path would have to be quoted, and not every server unquotes it.
    request = WebRequest(f"{settings.base_url.rstrip('/')}/", "POST", headers, json={"url": url})
    page = (await call_api(http, NAME, request, JinaResponse)).data
    return PageContent(page.url or url, page.title, page.content)


web_fetch_tool = make_page_tool(JinaSettings, fetch)
