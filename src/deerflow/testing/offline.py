"""Web tools without network access, so that tests do not depend on live pages."""

OFFLINE = "there is no network in a test; give the agent what it needs as files"


async def web_search(query: str) -> str:
    """Search the web.

    Args:
        query: What to look for.
    """
    raise ConnectionError(OFFLINE)


async def web_fetch(url: str, offset: int = 0) -> str:
    """Open a web page.

    Args:
        url: Its address.
        offset: Where to go on.
    """
    raise ConnectionError(OFFLINE)


async def image_search(query: str) -> str:
    """Search the web for images.

    Args:
        query: What to look for.
    """
    raise ConnectionError(OFFLINE)
