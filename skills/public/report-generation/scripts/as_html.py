"""A report as one HTML file that needs nothing else: pictures inside, contents beside, ready to print."""

import base64
import mimetypes
from html import escape
from pathlib import Path

from document import Block, Report, Span, slug

STYLE = Path(__file__).parent.parent / "templates" / "report.css"
TAGS = {"strong": "strong", "em": "em", "strike": "s"}


def as_html(report: Report) -> str:
    """The whole page."""
    facts = report.facts
    title = escape(str(facts.get("title") or "Report"))
    lines = [
        f'<p class="line">{escape(str(facts[key]))}</p>' for key in ("subtitle", "author", "date") if facts.get(key)
    ]
    abstract = (
        f'<section class="abstract"><p>{escape(str(facts["abstract"]))}</p></section>' if facts.get("abstract") else ""
    )
    body = "\n".join(block_html(block, report) for block in report.blocks)
    return (
        f'<!doctype html>\n<html lang="{escape(str(facts.get("lang") or "en"))}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style>\n</head>\n<body>\n"
        f'<header><h1>{title}</h1>\n{"".join(lines)}{abstract}</header>\n<div class="page">\n{contents(report)}'
        f"<main>\n{body}\n{references(report)}</main>\n</div>\n</body>\n</html>\n"
    )


def contents(report: Report) -> str:
    """The contents, down to the third level."""
    shown = [block for block in report.headings if 1 < block.level <= 3]
    if len(shown) < 2:
        return ""
    links = []
    for block in shown:
        name = escape(f"{block.number} {block.text}".strip())
        links.append(f'<li class="l{block.level}"><a href="#{block.anchor}">{name}</a></li>')
    return f'<nav aria-label="Contents"><h2>Contents</h2><ol>{"".join(links)}</ol></nav>\n'


def references(report: Report) -> str:
    """The cited sources."""
    items = []
    for key, text, link in report.sources.listed():
        url = f' <a href="{escape(link)}">{escape(link)}</a>' if link.startswith("http") else ""
        items.append(f'<li id="ref-{slug(key)}">{escape(text)}{url}</li>')
    return f'<section class="references"><h2>References</h2><ol>{"".join(items)}</ol></section>\n' if items else ""


def block_html(block: Block, report: Report) -> str:
    """One block."""
    match block.kind:
        case "heading":
            number = f'<span class="number">{block.number}</span> ' if block.number else ""
            level = max(block.level, 2)
            return f'<h{level} id="{block.anchor}">{number}{inline_html(block.spans, report)}</h{level}>'
        case "list":
            tag = "ol" if block.ordered else "ul"
            return f"<{tag}>{''.join(f'<li>{item_html(item, report)}</li>' for item in block.items)}</{tag}>"
        case "quote":
            return f"<blockquote>{''.join(block_html(part, report) for part in block.items[0])}</blockquote>"
        case "code":
            return f'<pre tabindex="0"><code>{escape(block.text)}</code></pre>'
        case "table":
            return table_html(block, report)
        case "figure":
            return figure_html(block, report)
        case "rule":
            return "<hr>"
    return f"<p>{inline_html(block.spans, report)}</p>"


def item_html(item: list[Block], report: Report) -> str:
    """An entry of a list; a single paragraph needs no tag of its own."""
    if item and item[0].kind == "paragraph":
        return inline_html(item[0].spans, report) + "".join(block_html(part, report) for part in item[1:])
    return "".join(block_html(part, report) for part in item)


def table_html(block: Block, report: Report) -> str:
    """A table with its caption above it."""
    caption = f"<caption><b>{block.number}.</b> {inline_html(block.spans, report)}</caption>" if block.spans else ""
    parts = []
    for number, row in enumerate(block.rows):
        tag = 'th scope="col"' if number == 0 else "td"
        cells = [
            f'<{tag} class="{align}">{inline_html(cell, report)}</{tag[:2]}>'
            for cell, align in zip(row, block.align, strict=False)
        ]
        parts.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<div class="table" id="{block.anchor}" tabindex="0"><table>{caption}<thead>{parts[0]}</thead>'
        f"<tbody>{''.join(parts[1:])}</tbody></table></div>"
    )


def figure_html(block: Block, report: Report) -> str:
    """A picture inside the page, its number and caption below."""
    if block.path is None:
        return ""
    kind = mimetypes.guess_type(block.path.name)[0] or "image/png"
    data = base64.b64encode(block.path.read_bytes()).decode()
    picture = f'<img src="data:{kind};base64,{data}" alt="{escape(block.text)}">'
    caption = f"<b>{block.number}.</b> {inline_html(block.spans, report)}"
    return f'<figure id="{block.anchor}">{picture}<figcaption>{caption}</figcaption></figure>'


def inline_html(spans: list[Span], report: Report) -> str:
    """Runs of text."""
    made = []
    for span in spans:
        inside = inline_html(span.inside, report)
        match span.kind:
            case "strong" | "em" | "strike":
                made.append(f"<{TAGS[span.kind]}>{inside}</{TAGS[span.kind]}>")
            case "code":
                made.append(f"<code>{escape(span.text)}</code>")
            case "link":
                made.append(f'<a href="{escape(span.target)}">{inside}</a>')
            case "cite":
                made.append(f'<a class="cite" href="#{span.target}">[{escape(span.text)}]</a>')
            case "ref":
                name = escape(report.labels.get(span.target, "?"))
                made.append(f'<a href="#{span.target.replace(":", "-")}">{name}</a>')
            case "break":
                made.append("<br>")
            case _:
                made.append(escape(span.text))
    return "".join(made)
