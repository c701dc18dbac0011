"""`web_fetch` by ourselves."""

from collections.abc import Awaitable, Callable

from pydantic import Field

from deerflow.community.web.egress_transport import EgressTransport
from deerflow.community.web.http import Http, Trust
from deerflow.community.web.results import Page
from deerflow.community.web.tool import PageSettings, fetching_tool
from deerflow.community.web_fetch.fetcher import PDF, PageFetcher
from deerflow.sandbox.egress import Egress


class WebFetchSettings(PageSettings):
    """How pages are fetched."""

    max_bytes: int = Field(default=5_000_000, ge=10_000, le=50_000_000, description="So much of a page is read.")
    max_pdf_bytes: int = Field(default=20_000_000, ge=10_000, le=100_000_000, description="So large may a PDF be.")
    respect_robots: bool = Field(default=True, description="Whether pages are left alone if their robots.txt asks so.")
    allow_private_addresses: bool = Field(
        default=False, description="Whether pages of this machine and of private networks may be read."
    )
    user_agent: str = Field(
        default="Mozilla/5.0 (compatible; DeerFlow)", min_length=1, description="Who we say we are."
    )


def fetch_with(settings: WebFetchSettings) -> Callable[[str], Awaitable[Page]]:
    """What fetches pages as the settings say."""
    hosts = settings.hosts
    egress = Egress(is_allowed=lambda _: True, hosts=hosts) if settings.allow_private_addresses else Egress(hosts=hosts)
    trust = Trust()
    larger = {PDF: settings.max_pdf_bytes}
    http = Http(settings.timeout, settings.max_bytes, EgressTransport(egress, trust), trust, larger)
    return PageFetcher(http, settings.timeout, settings.respect_robots, settings.user_agent).fetch


web_fetch_tool = fetching_tool(WebFetchSettings, fetch_with)
