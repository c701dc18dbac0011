"""Web tools: construction from provider functions, settings, and storage of the pages that were read.

Pages are stored with the thread, so that citations in a report can be verified.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Self, TypeVar

import httpx
from langchain.tools import ToolRuntime
from langchain_core.tools import InjectedToolArg, StructuredTool
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, field_validator

from deerflow.community.web.egress_transport import EgressTransport
from deerflow.community.web.http import (
    MAX_API_BYTES,
    HttpClient,
    NotAllowed,
    TlsTrust,
    WebProblem,
    format_error,
    parse_host,
)
from deerflow.community.web.results import ImageHit, PageContent, RecentPages, WebSearchHit, format_page, format_results
from deerflow.domain.context import RunContext, find_run_context
from deerflow.domain.tools import READ_ONLY, UNTRUSTED
from deerflow.domain.web_pages import FetchedPage
from deerflow.sandbox.egress import AllowedHosts, Egress, EgressRefused, canonical_host, is_public

OptionalRuntime = Annotated[ToolRuntime[RunContext] | None, InjectedToolArg()]
"""Run of the tool call, injected by the graph; None outside a run."""
NOT_SAVED = (
    "This page is not kept, for the thread holds as much of the web as it may: a citation of it cannot be verified. "
    "Begin a new thread to go on."
)


async def save_page(runtime: OptionalRuntime, asked_url: str, page: PageContent) -> str:
    """Store a page; return a note for the model if that failed."""
    return await _save(runtime, FetchedPage(asked_url, page.url, page.title, page.content_type, page.text))


async def save_failure(runtime: OptionalRuntime, asked_url: str, problem: WebProblem) -> None:
    """Store that a page could not be read, and why."""
    await _save(runtime, FetchedPage(asked_url, asked_url, problem=format_error(problem).removeprefix("Error: ")))


async def load_page(runtime: OptionalRuntime, url: str) -> PageContent | None:
    """Return the page as last read in this thread, if it is stored: continued reading needs the same text."""
    run = find_run_context(runtime.context) if runtime is not None else None
    if run is None or run.pages is None:
        return None
    known = [page for page in await run.pages.list() if page.asked_url == url and page.text_hash and page.is_kept]
    if not known:
        return None
    last = known[-1]
    text = (await run.pages.read_texts([last.text_hash or ""])).get(last.text_hash or "", "")
    return PageContent(last.url, last.title, text, last.content_type)


async def _save(runtime: OptionalRuntime, page: FetchedPage) -> str:
    run = find_run_context(runtime.context) if runtime is not None else None
    if run is None or run.pages is None:
        return ""
    snapshot = await run.pages.save(page)
    return "" if snapshot is not None and snapshot.is_kept else NOT_SAVED


MAX_QUERY_CHARS = 1_000
MAX_URL_CHARS = 4_000
# Below the size at which `tool_output` moves a result to a file.
PAGE_CHARS = 10_000


class WebSettings(BaseModel):
    """Settings of every web tool."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    timeout: float = Field(default=20.0, gt=0, le=300, description="Timeout in seconds.")
    _hosts: AllowedHosts | None = PrivateAttr(default=None)

    @property
    def hosts(self) -> AllowedHosts | None:
        """Hosts whose pages may be read; None for any. Set by `restrict_hosts` only."""
        return self._hosts

    def restrict_hosts(self, hosts: AllowedHosts) -> Self:
        """Return the settings restricted to some hosts."""
        restricted = self.model_copy()
        restricted._hosts = hosts
        return restricted


class ApiSettings(WebSettings):
    """Settings of tools that call a provider."""

    proxy: str | None = Field(default=None, description="HTTP proxy for the provider, for example $HTTPS_PROXY.")

    @field_validator("proxy")
    @classmethod
    def _is_proxy(cls, proxy: str | None) -> str | None:
        if proxy is not None and not proxy.startswith("http://"):
            raise ValueError("a proxy URL looks like http://proxy.example.org:3128")
        return proxy


class SearchSettings(ApiSettings):
    """Settings of search tools."""

    max_results: int = Field(default=5, ge=1, le=20, description="Maximum number of results.")


class PageSettings(WebSettings):
    """Settings of tools that fetch pages."""

    max_chars: int = Field(default=PAGE_CHARS, ge=500, le=200_000, description="Characters of a page per call.")


class KeyedSettings(ApiSettings):
    """Settings of providers with an API key."""

    api_key: SecretStr | None = Field(default=None, description="API key, for example $TAVILY_API_KEY.")


class SearchArguments(BaseModel):
    """Arguments of a search."""

    query: str = Field(
        min_length=1, max_length=MAX_QUERY_CHARS, description="What to look for, as for a search engine."
    )


class PageArguments(BaseModel):
    """Arguments of a page fetch."""

    url: str = Field(
        min_length=1, max_length=MAX_URL_CHARS, description="Exact address, from the user or a search result."
    )
    offset: int = Field(default=0, ge=0, description="Where to go on in a long page, as the piece before says.")


Settings = TypeVar("Settings", bound=WebSettings)
SearchingSettings = TypeVar("SearchingSettings", bound=SearchSettings)
ReadingSettings = TypeVar("ReadingSettings", bound=PageSettings)
Search = Callable[[str, SearchingSettings, HttpClient], Awaitable[Sequence[WebSearchHit]]]
SearchImages = Callable[[str, SearchingSettings, HttpClient], Awaitable[Sequence[ImageHit]]]
Fetch = Callable[[str, ReadingSettings, HttpClient], Awaitable[PageContent]]
ToolCoroutine = Callable[..., Awaitable[str]]


class WebTool(StructuredTool):
    """Stateless tool; `configured` returns one with its own settings."""

    settings_type: type[WebSettings]
    settings: WebSettings
    make: Callable[[Any], ToolCoroutine]

    @property
    def setting_names(self) -> Sequence[str]:
        """Names of the settings."""
        return list(self.settings_type.model_fields)

    def with_settings(self, settings: Mapping[str, object]) -> Self:
        """Return the tool with settings."""
        chosen = self.settings_type.model_validate(settings)
        return self.model_copy(update={"coroutine": self.make(chosen), "settings": chosen})

    def restrict_hosts(self, hosts: Iterable[str]) -> Self:
        """Return the tool restricted to pages of some hosts, redirects included."""
        restricted = self.settings.restrict_hosts(AllowedHosts.from_patterns(hosts))
        return self.model_copy(update={"coroutine": self.make(restricted)})


def make_search_tool(provider: str, settings: type[SearchingSettings], search: Search[SearchingSettings]) -> WebTool:
    """Return `web_search` for a provider."""

    def make(chosen: SearchingSettings) -> ToolCoroutine:
        http = make_api_client(chosen)

        async def web_search(query: str) -> str:
            return format_results(query, provider, (await search(query, chosen, http))[: chosen.max_results])

        return web_search

    description = (
        "Search the web. Returns JSON with title, url and snippet of each result; a snippet is no source, so open "
        "what you rely on with web_fetch."
    )
    return make_web_tool("web_search", description, SearchArguments, settings, make)


def make_image_tool(
    provider: str, settings: type[SearchingSettings], search: SearchImages[SearchingSettings]
) -> WebTool:
    """Return `image_search` for a provider."""

    def make(chosen: SearchingSettings) -> ToolCoroutine:
        http = make_api_client(chosen)

        async def image_search(query: str) -> str:
            return format_results(query, provider, (await search(query, chosen, http))[: chosen.max_results])

        return image_search

    description = "Search the web for images. Returns JSON with title, url of the page, and image_url of each."
    return make_web_tool("image_search", description, SearchArguments, settings, make)


def make_page_tool(settings: type[ReadingSettings], fetch: Fetch[ReadingSettings]) -> WebTool:
    """Return `web_fetch` for a provider."""
    return make_fetch_tool(settings, lambda chosen: _bind_client(chosen, fetch))


def make_fetch_tool(
    settings: type[ReadingSettings], make_fetch: Callable[[ReadingSettings], Callable[[str], Awaitable[PageContent]]]
) -> WebTool:
    """Return `web_fetch` with the function that `make_fetch` returns."""

    def make(chosen: ReadingSettings) -> ToolCoroutine:
        fetch, recent = make_fetch(chosen), RecentPages()

        async def find_page(url: str, offset: int, runtime: OptionalRuntime) -> PageContent:
            check_host(parse_host(url), chosen.hosts)
            page = (recent.find(url) or await load_page(runtime, url)) if offset else None
            if page is None:
                page = await fetch(url)
                if len(page.text) > chosen.max_chars:
                    recent.add(url, page)
            return page

        async def web_fetch(url: str, offset: int = 0, runtime: OptionalRuntime = None) -> str:
            try:
                page = await find_page(url, offset, runtime)
            except WebProblem as problem:
                await save_failure(runtime, url, problem)
                raise
            # Also for a chunk of a cached page: it may be new in this thread.
            note = await save_page(runtime, url, page)
            return format_page(replace(page, note=" ".join(filter(None, (page.note, note)))), offset, chosen.max_chars)

        return web_fetch

    async def unconfigured(runtime: OptionalRuntime = None, **arguments: Any) -> str:
        return await make(settings())(**arguments, runtime=runtime)

    description = (
        "Open a web page or a PDF and read it as Markdown. Long ones come in pieces; go on with offset. What was read "
        "is kept, so that citations of it can be verified."
    )
    return make_web_tool("web_fetch", description, PageArguments, settings, make, unconfigured)


def check_host(host: str, hosts: AllowedHosts | None) -> None:
    """Raise an error for a page that may not be read; for pages fetched by a provider this is the only check."""
    if hosts is not None and not hosts.allows(canonical_host(host)):
        raise NotAllowed(f"{host} is not an allowed host; allowed: {hosts}")


def _bind_client(chosen: ReadingSettings, fetch: Fetch[ReadingSettings]) -> Callable[[str], Awaitable[PageContent]]:
    http = make_api_client(chosen)
    return lambda url: fetch(url, chosen, http)


def make_api_client(settings: WebSettings) -> HttpClient:
    """Return a client for the host of a provider and no other. Private addresses are allowed only if the configuration
    names the host.
    """
    proxy = settings.proxy if isinstance(settings, ApiSettings) else None
    where = proxy or getattr(settings, "base_url", None)
    is_own = proxy is not None or "base_url" in settings.model_fields_set
    hosts = AllowedHosts.from_patterns([parse_config_host(where)] if where else [])
    egress = Egress(is_allowed=(lambda _: True) if is_own else is_public, hosts=hosts)
    trust = TlsTrust()
    transport = EgressTransport(egress, trust, httpx.URL(proxy) if proxy else None)
    return HttpClient(settings.timeout, MAX_API_BYTES, transport, trust)


def parse_config_host(url: str) -> str:
    """Return the host of a configured URL; raises `ValueError`, which the configuration loader explains."""
    try:
        return canonical_host(httpx.URL(url).host)
    except (httpx.InvalidURL, EgressRefused) as problem:
        raise ValueError(f"{url!r} is not a valid URL: {problem}") from problem


def make_web_tool(
    name: str,
    description: str,
    arguments: type[BaseModel],
    settings: type[Settings],
    make: Callable[[Settings], ToolCoroutine],
    unconfigured: ToolCoroutine | None = None,
) -> WebTool:
    """Return a read-only tool with untrusted output that reports errors in our own words."""

    async def with_defaults(**arguments: Any) -> str:
        return await make(settings())(**arguments)

    return WebTool(
        name=name,
        description=description,
        args_schema=arguments,
        coroutine=unconfigured or with_defaults,
        metadata={READ_ONLY: True, UNTRUSTED: True},
        handle_tool_error=format_error,
        settings_type=settings,
        settings=settings(),
        make=make,
    )
