"""Size of the web page."""

import gzip
import re

from deerflow.gateway.app import STATIC

MAX_BYTES = 250 * 1024
HEAVY = ("katex", "mermaid")


def list_entry_scripts() -> list[str]:
    """Return the scripts of the document."""
    document = (STATIC / "index.html").read_text()
    return re.findall(r'(?:src|href)="/(assets/[^"]+\.js)"', document)


def test_the_entry_bundle_stays_small() -> None:
    files = list_entry_scripts()
    assert files
    assert sum(len(gzip.compress((STATIC / file).read_bytes())) for file in files) <= MAX_BYTES


def test_heavy_chunks_are_loaded_on_demand() -> None:
    entry = "".join((STATIC / file).read_text() for file in list_entry_scripts())
    chunks = [file.name for file in (STATIC / "assets").iterdir()]
    for part in HEAVY:
        own = [name for name in chunks if name.lower().startswith(part) and name.endswith(".js")]
        assert own and not any(f"/assets/{name}" in (STATIC / "index.html").read_text() for name in own)
    assert "katex-html" not in entry
