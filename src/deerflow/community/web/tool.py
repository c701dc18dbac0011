"""Web tools: what the model sees is the same for all providers; settings come from the entry in config.yaml."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self, TypeVar

import httpx
from langchain_core.tools import StructuredTool
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, SecretStr, field_validator

from deerflow.community.web.api import MAX_API_BYTES
from deerflow.community.web.egress_transport import EgressTransport
from deerflow.community.web.http import Http, Trust, host_of
from deerflow.community.web.keeping import InRun, keep_failed, keep_read, read_before
from deerflow.community.web.paging import RecentPages, shown
from deerflow.community.web.problems import NotAllowed, WebProblem, explain
from deerflow.community.web.results import Hit, Page, Picture, as_json
from deerflow.domain.ledger import READ_ONLY
from deerflow.domain.tool_marks import UNTRUSTED
from deerflow.sandbox.egress import AllowedHosts, Egress, EgressRefused, canonical_host, is_public

MAX_QUERY_CHARS = 1_000
MAX_URL_CHARS = 4_000
# Less than what is put into a file: see `tool_output`.
PAGE_CHARS = 10_000


class WebSettings(BaseModel):
    """Settings of every web tool."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    timeout: float = Field(default=20.0, gt=0, le=300, description="After so many seconds the tool gives up.")
    _hosts: AllowedHosts | None = PrivateAttr(default=None)

    @property
    def hosts(self) -> AllowedHosts | None:
        """The only hosts whose pages may be read; None: any. Set for one use, by whoever is held to it."""
        return self._hosts

    def bound_to(self, hosts: AllowedHosts) -> Self:
        """The same settings, for fewer hosts."""
        bound = self.model_copy()
        bound._hosts = hosts
        return bound


class ApiSettings(WebSettings):
    """Settings of every tool that asks a provider."""

    proxy: str | None = Field(default=None, description="How the provider is reached, for instance $HTTPS_PROXY.")

    @field_validator("proxy")
    @classmethod
    def _is_proxy(cls, proxy: str | None) -> str | None:
        if proxy is not None and not proxy.startswith("http://"):
            raise ValueError("a proxy is written like http://proxy.example.org:3128")
        return proxy


class SearchSettings(ApiSettings):
    """Settings of every search."""

    max_results: int = Field(default=5, ge=1, le=20, description="So many results are shown.")


class PageSettings(WebSettings):
    """Settings of every tool that fetches pages."""

    max_chars: int = Field(default=PAGE_CHARS, ge=500, le=200_000, description="So much of a page is shown at once.")


class KeyedSettings(ApiSettings):
    """Settings of a provider that knows its users by a key."""

    api_key: SecretStr | None = Field(default=None, description="For instance $TAVILY_API_KEY.")


class SearchArguments(BaseModel):
    """What the model says to a search."""

    query: str = Field(
        min_length=1, max_length=MAX_QUERY_CHARS, description="What to look for, as for a search engine."
    )


class PageArguments(BaseModel):
    """What the model says to fetch a page."""

    url: str = Field(
        min_length=1, max_length=MAX_URL_CHARS, description="Exact address, from the user or a search result."
    )
    offset: int = Field(default=0, ge=0, description="Where to go on in a long page, as the piece before says.")


Settings = TypeVar("Settings", bound=WebSettings)
SearchingSettings = TypeVar("SearchingSettings", bound=SearchSettings)
ReadingSettings = TypeVar("ReadingSettings", bound=PageSettings)
Search = Callable[[str, SearchingSettings, Http], Awaitable[Sequence[Hit]]]
SearchImages = Callable[[str, SearchingSettings, Http], Awaitable[Sequence[Picture]]]
Fetch = Callable[[str, ReadingSettings, Http], Awaitable[Page]]
Act = Callable[..., Awaitable[str]]


class WebTool(StructuredTool):
    """A tool that holds nothing; one with settings of its own is made by `configured`."""

    settings_type: type[WebSettings]
    settings: WebSettings
    make: Callable[[Any], Act]

    @property
    def setting_names(self) -> Sequence[str]:
        """What may be set in the tool's entry."""
        return list(self.settings_type.model_fields)

    def configured(self, settings: Mapping[str, object]) -> Self:
        """The same tool with settings."""
        chosen = self.settings_type.model_validate(settings)
        return self.model_copy(update={"coroutine": self.make(chosen), "settings": chosen})

    def bound_to(self, hosts: Iterable[str]) -> Self:
        """The same tool, for pages of fewer hosts, wherever they redirect to."""
        bound = self.settings.bound_to(AllowedHosts.of(hosts))
        return self.model_copy(update={"coroutine": self.make(bound)})


def search_tool(provider: str, settings: type[SearchingSettings], search: Search[SearchingSettings]) -> WebTool:
    """`web_search` by a provider."""

    def make(chosen: SearchingSettings) -> Act:
        http = api_http(chosen)

        async def web_search(query: str) -> str:
            return as_json(query, provider, (await search(query, chosen, http))[: chosen.max_results])

        return web_search

    description = (
        "Search the web. Returns JSON with title, url and snippet of each result; a snippet is no source, so open "
        "what you rely on with web_fetch."
    )
    return web_tool("web_search", description, SearchArguments, settings, make)


def image_tool(provider: str, settings: type[SearchingSettings], search: SearchImages[SearchingSettings]) -> WebTool:
    """`image_search` by a provider."""

    def make(chosen: SearchingSettings) -> Act:
        http = api_http(chosen)

        async def image_search(query: str) -> str:
            return as_json(query, provider, (await search(query, chosen, http))[: chosen.max_results])

        return image_search

    description = "Search the web for images. Returns JSON with title, url of the page, and image_url of each."
    return web_tool("image_search", description, SearchArguments, settings, make)


def page_tool(settings: type[ReadingSettings], fetch: Fetch[ReadingSettings]) -> WebTool:
    """`web_fetch` by a provider."""
    return fetching_tool(settings, lambda chosen: _with_http(chosen, fetch))


def fetching_tool(
    settings: type[ReadingSettings], make_fetch: Callable[[ReadingSettings], Callable[[str], Awaitable[Page]]]
) -> WebTool:
    """`web_fetch` by whatever `make_fetch` makes."""

    def make(chosen: ReadingSettings) -> Act:
        fetch, recent = make_fetch(chosen), RecentPages()

        async def page_at(url: str, offset: int, runtime: InRun) -> Page:
            check_host(host_of(url), chosen.hosts)
            page = (recent.find(url) or await read_before(runtime, url)) if offset else None
            if page is None:
                page = await fetch(url)
                if len(page.text) > chosen.max_chars:
                    recent.keep(url, page)
            return page

        async def web_fetch(url: str, offset: int = 0, runtime: InRun = None) -> str:
            try:
                page = await page_at(url, offset, runtime)
            except WebProblem as problem:
                await keep_failed(runtime, url, problem)
                raise
            # Also a piece of one that somebody else has begun: in this thread it may be new.
            note = await keep_read(runtime, url, page)
            return shown(replace(page, note=" ".join(filter(None, (page.note, note)))), offset, chosen.max_chars)

        return web_fetch

    async def unconfigured(runtime: InRun = None, **said: Any) -> str:
        return await make(settings())(**said, runtime=runtime)

    description = (
        "Open a web page or a PDF and read it as Markdown. Long ones come in pieces; go on with offset. What was read "
        "is kept, so that citations of it can be verified."
    )
    return web_tool("web_fetch", description, PageArguments, settings, make, unconfigured)


def check_host(host: str, hosts: AllowedHosts | None) -> None:
    """Refuse a page that may not be read here; for a page that somebody else fetches, this is all that can be done."""
    if hosts is not None and not hosts.allow(canonical_host(host)):
        raise NotAllowed(f"{host} is none of the hosts that may be reached here: {hosts}")


def _with_http(chosen: ReadingSettings, fetch: Fetch[ReadingSettings]) -> Callable[[str], Awaitable[Page]]:
    http = api_http(chosen)
    return lambda url: fetch(url, chosen, http)


def api_http(settings: WebSettings) -> Http:
    """How the program of a provider is reached: at its host and no other, which is at a private address only if
    whoever wrote the entry says where it is.
    """
    proxy = settings.proxy if isinstance(settings, ApiSettings) else None
    where = proxy or getattr(settings, "base_url", None)
    is_own = proxy is not None or "base_url" in settings.model_fields_set
    hosts = AllowedHosts.of([host_in(where)] if where else [])
    egress = Egress(is_allowed=(lambda _: True) if is_own else is_public, hosts=hosts)
    trust = Trust()
    transport = EgressTransport(egress, trust, httpx.URL(proxy) if proxy else None)
    return Http(settings.timeout, MAX_API_BYTES, transport, trust)


def host_in(url: str) -> str:
    """The host of an address in an entry; raises `ValueError`, which whoever reads the configuration explains."""
    try:
        return canonical_host(httpx.URL(url).host)
    except (httpx.InvalidURL, EgressRefused) as problem:
        raise ValueError(f"{url!r} is no address: {problem}") from problem


def web_tool(
    name: str,
    description: str,
    arguments: type[BaseModel],
    settings: type[Settings],
    make: Callable[[Settings], Act],
    unconfigured: Act | None = None,
) -> WebTool:
    """A tool that is read-only, gives words of strangers, and tells of problems in words of ours."""

    async def with_defaults(**said: Any) -> str:
        return await make(settings())(**said)

    return WebTool(
        name=name,
        description=description,
        args_schema=arguments,
        coroutine=unconfigured or with_defaults,
        metadata={READ_ONLY: True, UNTRUSTED: True},
        handle_tool_error=explain,
        settings_type=settings,
        settings=settings(),
        make=make,
    )
