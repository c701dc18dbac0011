"""Makes pages readable; a program of its own, run as `python -I reader_child.py LIMITS`, because nobody trusts pages.

Standard input is a line of JSON, the order, and then the page as it came. Standard output is the result, as JSON.
Before it looks at the page it gives up what it does not need: memory, time, files, processes, and root.
"""

import codecs
import json
import re
import sys
from collections.abc import Iterator, Mapping, Set
from typing import Any

from html_to_markdown import ConversionOptions, convert
from lxml import etree, html  # type: ignore[import-untyped]

from deerflow.sandbox.relinquishing import give_up

MAIN = "//main | //article | //*[@role='main']"
PARAGRAPHS = "//p | //pre | //blockquote | //td | //li | //dd"
MOST = 0.5
"""What has this part of a page's text is its content; tables and code in it are kept, whatever they look like."""
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
    """Carry out one order."""
    limits = json.loads(sys.argv[1])
    sys.setrecursionlimit(limits["recursion"])
    known = {codecs.lookup(name).name for name in ENCODINGS}  # whoever we are soon may be unable to read their code
    give_up(limits["cpu_s"], limits["memory_bytes"], limits["uid"])
    order = json.loads(sys.stdin.buffer.readline())
    text = decoded(sys.stdin.buffer.read(), order["charset"], known)
    work = {"text": as_text, "page": as_page, "rows": as_rows}
    json.dump(work[order["task"]](text, order), sys.stdout)


def decoded(body: bytes, charset: str | None, known: Set[str]) -> str:
    """The text, in the first encoding that was named for it and fits; else in one that fits anything."""
    for name in encodings(body, charset):
        try:
            if codecs.lookup(name).name in known:
                return body.decode(name)
        except (LookupError, ValueError):
            continue
    return body.decode("utf-8" if mostly_utf8(body) else "windows-1252", errors="replace")


def encodings(body: bytes, charset: str | None) -> Iterator[str]:
    """What may be meant, the surest first."""
    yield from (name for mark, name in MARKS if body.startswith(mark))
    if charset:
        yield charset
    if found := DECLARED.search(body[:HEAD_BYTES]):
        yield found[1].decode("ascii")
    yield "utf-8"


def mostly_utf8(body: bytes) -> bool:
    """Whether only little of it is no UTF-8, as where a page was cut or one letter is damaged."""
    return body.decode("utf-8", errors="replace").count("\ufffd") * 1000 < len(body)


def as_text(text: str, order: Mapping[str, Any]) -> object:
    """The text as it is, but for zeros: not every database takes them."""
    return {"title": "", "text": text.replace("\0", "\ufffd")}


def as_page(text: str, order: Mapping[str, Any]) -> object:
    """The title of a page, and what it says, as Markdown."""
    whole = parsed(text)
    if whole is None:
        return {"title": "", "text": ""}
    title = " ".join((whole.findtext(".//title") or "").split())
    etree.strip_elements(whole, *NOISE, etree.Comment, with_tail=False)
    return {"title": title, "text": as_markdown(content(whole), order["url"])}


def parsed(text: str) -> Any:
    """The tree of a page, None if there is nothing in it."""
    try:
        return html.document_fromstring(text.encode("utf-8", "replace"), parser=html.HTMLParser(encoding="utf-8"))
    except etree.ParserError:
        return None


def content(whole: Any) -> Any:
    """The part of a page that has most of its text, else all of it."""
    body = whole.find("body")
    everything = whole if body is None else body
    enough = text_length(everything) * MOST
    named = max(whole.xpath(MAIN), key=text_length, default=None)
    if named is not None and text_length(named) >= enough:
        return named
    likely = densest(whole)
    return likely if likely is not None and text_length(likely) >= enough else everything


def densest(whole: Any) -> Any:
    """The element with most text in paragraphs right in it, or one level below."""
    scores: dict[Any, float] = {}
    for paragraph in whole.xpath(PARAGRAPHS):
        chars = text_length(paragraph) - sum(map(text_length, paragraph.iter("a")))
        parent = paragraph.getparent()
        for share, element in ((1.0, parent), (0.5, parent.getparent() if parent is not None else None)):
            if element is not None:
                scores[element] = scores.get(element, 0.0) + chars * share
    return max(scores, key=lambda element: scores[element], default=None)


def text_length(element: Any) -> int:
    """How much there is to read in it."""
    return len(" ".join(element.text_content().split()))


def as_markdown(tree: Any, url: str) -> str:
    """A part of a page as Markdown, its links complete."""
    tree.make_links_absolute(url, handle_failures="discard")
    for image in list(tree.iter("img")):
        if not (image.get("src") or "").startswith(("http://", "https://")):
            image.drop_tree()
    source = etree.tostring(tree, encoding="unicode", method="html", with_tail=False)
    text = convert(source, ConversionOptions(bullets="-", extract_metadata=False)).content or ""
    return BLANK_LINES.sub("\n\n", "\n".join(line.rstrip() for line in text.splitlines())).strip()


def as_rows(text: str, order: Mapping[str, Any]) -> object:
    """What the paths in the order lead to, a row for each element that `row` leads to."""
    whole = parsed(text)
    if whole is None:
        return {"rows": []}
    fields = {name: etree.XPath(f"string({path})") for name, path in order["fields"].items()}
    rows = whole.xpath(order["row"])
    return {"rows": [{name: str(path(row)) for name, path in fields.items()} for row in rows]}


if __name__ == "__main__":
    main()
