"""HTML and text conversion in a separate process, run as `python -I reader_child.py LIMITS`: pages are untrusted.

Standard input is one line of JSON, the task, followed by the page. Standard output is the result as JSON. Before
reading the page the process drops its privileges: memory, CPU time, files, processes, and root.
"""

import codecs
import json
import re
import sys
from collections.abc import Iterator, Mapping, Set
from typing import Any

from html_to_markdown import ConversionOptions, convert
from lxml import etree, html  # type: ignore[import-untyped]

from deerflow.sandbox.jobs import drop_privileges

MAIN = "//main | //article | //*[@role='main']"
PARAGRAPHS = "//p | //pre | //blockquote | //td | //li | //dd"
MOST = 0.5
"""Share of the page's text that makes an element the main content; everything in it is kept."""
NOISE = ("script", "style", "noscript", "template", "iframe", "svg", "nav", "footer", "form", "button", "select")
DECLARED = re.compile(
    rb"""<(?:meta[^>]{0,200}?charset\s*=|\?xml[^>]{0,100}?encoding\s*=)\s*["']?\s*([\w.:-]{1,40})""", re.I
)
HEAD_BYTES = 4096
ENCODINGS = (
    "utf-8", "utf-8-sig", "utf-16", "ascii", "latin-1", "iso8859-2", "iso8859-5", "iso8859-7", "iso8859-9",
    "iso8859-15", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "koi8-r", "koi8-u", "gbk",
    "gb18030", "gb2312", "big5", "euc_jp", "shift_jis", "iso2022_jp", "euc_kr", "cp949", "cp874",
)  # fmt: skip
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
BLANK_LINES = re.compile(r"\n{3,}")


def main() -> None:
    """Run one task."""
    limits = json.loads(sys.argv[1])
    sys.setrecursionlimit(limits["recursion"])
    known = {codecs.lookup(name).name for name in ENCODINGS}  # after dropping root, codecs may be unreadable
    drop_privileges(limits["cpu_s"], limits["memory_bytes"], limits["uid"])
    task = json.loads(sys.stdin.buffer.readline())
    text = decode_text(sys.stdin.buffer.read(), task["charset"], known)
    tasks = {"text": convert_text, "page": convert_page, "rows": extract_rows}
    json.dump(tasks[task["task"]](text, task), sys.stdout)


def decode_text(body: bytes, charset: str | None, known: Set[str]) -> str:
    """Decode the body with the first declared encoding that fits, else with one that fits anything."""
    for name in list_encodings(body, charset):
        try:
            if codecs.lookup(name).name in known:
                return body.decode(name)
        except (LookupError, ValueError):
            continue
    return body.decode("utf-8" if is_mostly_utf8(body) else "windows-1252", errors="replace")


def list_encodings(body: bytes, charset: str | None) -> Iterator[str]:
    """Yield the possible encodings, most reliable first."""
    yield from (name for mark, name in MARKS if body.startswith(mark))
    if charset:
        yield charset
    if found := DECLARED.search(body[:HEAD_BYTES]):
        yield found[1].decode("ascii")
    yield "utf-8"


def is_mostly_utf8(body: bytes) -> bool:
    """Return True if almost all of the body is UTF-8, for example of a cut page."""
    return body.decode("utf-8", errors="replace").count("\ufffd") * 1000 < len(body)


def convert_text(text: str, task: Mapping[str, Any]) -> object:
    """Return the text, with zero characters replaced: not every database accepts them."""
    return {"title": "", "text": text.replace("\0", "\ufffd")}


def convert_page(text: str, task: Mapping[str, Any]) -> object:
    """Return the title of a page and its content as Markdown."""
    whole = parse_html(text)
    if whole is None:
        return {"title": "", "text": ""}
    title = " ".join((whole.findtext(".//title") or "").split())
    etree.strip_elements(whole, *NOISE, etree.Comment, with_tail=False)
    return {"title": title, "text": to_markdown(find_content(whole), task["url"])}


def parse_html(text: str) -> Any:
    """Return the parsed page, or None if it is empty."""
    try:
        return html.document_fromstring(text.encode("utf-8", "replace"), parser=html.HTMLParser(encoding="utf-8"))
    except etree.ParserError:
        return None


def find_content(whole: Any) -> Any:
    """Return the element with most of the page's text, else the whole page."""
    body = whole.find("body")
    everything = whole if body is None else body
    enough = measure_text(everything) * MOST
    named = max(whole.xpath(MAIN), key=measure_text, default=None)
    if named is not None and measure_text(named) >= enough:
        return named
    likely = find_densest(whole)
    return likely if likely is not None and measure_text(likely) >= enough else everything


def find_densest(whole: Any) -> Any:
    """Return the element with most text in paragraphs, directly or one level below."""
    scores: dict[Any, float] = {}
    for paragraph in whole.xpath(PARAGRAPHS):
        chars = measure_text(paragraph) - sum(map(measure_text, paragraph.iter("a")))
        parent = paragraph.getparent()
        for share, element in ((1.0, parent), (0.5, parent.getparent() if parent is not None else None)):
            if element is not None:
                scores[element] = scores.get(element, 0.0) + chars * share
    return max(scores, key=lambda element: scores[element], default=None)


def measure_text(element: Any) -> int:
    """Return the length of the text in an element."""
    return len(" ".join(element.text_content().split()))


def to_markdown(tree: Any, url: str) -> str:
    """Return a part of a page as Markdown with absolute links."""
    tree.make_links_absolute(url, handle_failures="discard")
    for image in list(tree.iter("img")):
        if not (image.get("src") or "").startswith(("http://", "https://")):
            image.drop_tree()
    source = etree.tostring(tree, encoding="unicode", method="html", with_tail=False)
    text = convert(source, ConversionOptions(bullets="-", extract_metadata=False)).content or ""
    return BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip()


def extract_rows(text: str, task: Mapping[str, Any]) -> object:
    """Return a row of values for each element that the XPath `row` selects."""
    whole = parse_html(text)
    if whole is None:
        return {"rows": []}
    fields = {name: etree.XPath(f"string({path})") for name, path in task["fields"].items()}
    rows = whole.xpath(task["row"])
    return {"rows": [{name: str(path(row)) for name, path in fields.items()} for row in rows]}


if __name__ == "__main__":
    main()
