"""Build an e-mail newsletter: HTML with tables and inline styles, a plain-text twin, and a message to try it with."""

import argparse
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import SMTP
from html import escape
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width
from urllib.parse import urlsplit

NEEDED = ("title", "subject", "preheader", "date", "language", "lead", "sender", "address", "unsubscribe")
COLOUR = re.compile(r"#[0-9a-fA-F]{6}")
INLINE = re.compile(r"\[([^\]]+)\]\(([^()\s]+)\)|\*\*([^*]+)\*\*|\*([^*]+)\*")
VAGUE = re.compile(r"^(click here|here|read more|more|link|this|hier|mehr)$", re.IGNORECASE)
PLACEHOLDER = re.compile(r"lorem ipsum|\bTODO\b|\bTBD\b|<[A-Z][a-z]+ [^<>]*>|\{\{.*?\}\}", re.IGNORECASE)
SUBJECT_CHARS = 60
PREHEADER_CHARS = (30, 110)
CLIPPED_BYTES = 100_000
PARAGRAPH_WORDS = 80
FONT = "font-family:Helvetica,Arial,sans-serif"
INK, SOFT, PAPER = "#1c1c1e", "#5f6368", "#f4f4f2"


LEAVE = {
    "en": "Unsubscribe", "de": "Abmelden", "fr": "Se désabonner", "es": "Darse de baja", "it": "Annulla iscrizione",
    "pt": "Cancelar inscrição", "zh": "退订", "ja": "配信停止", "ko": "수신 거부",
}  # fmt: skip


class Unusable(Exception):
    """An issue that cannot be read."""


def main() -> int:
    """Build one issue."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("issue", type=Path, help="the issue in JSON, after templates/issue.json")
    parser.add_argument("--html", type=Path, required=True, help="the HTML file to write")
    parser.add_argument("--text", type=Path, required=True, help="the plain-text file to write")
    parser.add_argument("--eml", type=Path, help="also a message that mail programs open")
    options = parser.parse_args()
    try:
        issue = load(options.issue)
        if problems := list(examine(issue)):
            for problem in problems:
                print(f"PROBLEM {problem}")
            print(f"Nothing was built: {len(problems)} problems")
            return 1
        page, text = as_html(issue), as_text(issue)
        options.html.write_text(page, encoding="utf-8")
        options.text.write_text(text, encoding="utf-8")
        if options.eml:
            options.eml.write_bytes(as_message(issue, page, text))
    except (Unusable, OSError) as problem:
        print(f"Error: {problem}", file=sys.stderr)
        return 2
    warnings = list(doubts(issue, page))
    for warning in warnings:
        print(f"warning {warning}")
    built = f"{options.html.name} ({len(page.encode()):,} bytes) and {options.text.name}"
    print(f"Built {built}: {len(set(links_of(issue)))} links, {len(warnings)} warnings")
    return 0


def load(path: Path) -> dict[str, Any]:
    """The issue of a file."""
    try:
        issue = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as problem:
        raise Unusable(f"{path} cannot be read: {problem}") from None
    except json.JSONDecodeError as problem:
        raise Unusable(f"{path} is not JSON: {problem}") from None
    if not isinstance(issue, dict):
        raise Unusable(f"{path} must hold one JSON object")
    return issue


def articles(issue: dict[str, Any]) -> list[dict[str, Any]]:
    """The lead and the items."""
    return [issue["lead"], *(issue.get("items") or [])]


def examine(issue: dict[str, Any]) -> Iterator[str]:
    """What must be put right before anything is built."""
    wrong = [name for name in NEEDED if name != "lead" and not is_text(issue.get(name))]
    if wrong or not isinstance(issue.get("lead"), dict) or not isinstance(issue.get("items") or [], list):
        yield f"[missing] the issue lacks {', '.join(wrong) or 'a lead, or its items are no list'}"
        return
    if not COLOUR.fullmatch(str(issue.get("accent", "#0b57d0"))):
        yield f"[colour] `accent` is {issue['accent']!r}; write it as #0b6e4f"
    broken = [*broken_articles(issue)]
    if issue.get("call") and not is_link(issue["call"], "words", "url"):
        broken.append("[missing] `call` needs `words` and `url`")
    yield from broken
    if broken:
        return
    for article in articles(issue):
        if article.get("image") and not is_text(article["image"].get("alt")):
            yield f"[no-alt] the image of {article['heading']!r} has no `alt`: many readers see only that"
    for url in links_of(issue):
        if urlsplit(url).scheme not in ("https", "http", "mailto"):
            yield f"[link] {url!r} is no address one can follow from an e-mail"
    if found := PLACEHOLDER.search(json.dumps(issue, ensure_ascii=False)):
        yield f"[placeholder] {found[0]!r} is still in the issue"


def broken_articles(issue: dict[str, Any]) -> Iterator[str]:
    """What articles lack."""
    for number, article in enumerate(articles(issue)):
        name = "the lead" if number == 0 else f"item {number}"
        if not is_link(article, "heading", "text"):
            yield f"[missing] {name} needs `heading` and `text`"
            continue
        if article.get("image") and not is_link(article["image"], "src", "src"):
            yield f"[missing] the image of {name} needs `src` and `alt`"
        if article.get("link") and not is_link(article["link"], "words", "url"):
            yield f"[missing] the link of {name} needs `words` and `url`"


def is_text(value: object) -> bool:
    """Whether something is said."""
    return isinstance(value, str) and bool(value.strip())


def is_link(value: Any, first: str, second: str) -> bool:
    """Whether both texts are there."""
    return isinstance(value, dict) and is_text(value.get(first)) and is_text(value.get(second))


def links_of(issue: dict[str, Any]) -> Iterator[str]:
    """All addresses of an issue."""
    yield issue["unsubscribe"]
    if issue.get("call"):
        yield issue["call"]["url"]
    for article in articles(issue):
        if article.get("link"):
            yield article["link"]["url"]
        if article.get("image"):
            yield article["image"]["src"]
        yield from (match[2] for match in INLINE.finditer(article["text"]) if match[2])


def doubts(issue: dict[str, Any], page: str) -> Iterator[str]:
    """What somebody should look at again."""
    if width(issue["subject"]) > SUBJECT_CHARS:
        yield f"[subject] {width(issue['subject'])} characters wide; phones show about {SUBJECT_CHARS}"
    if issue["subject"].isupper() or issue["subject"].count("!") > 1:
        yield "[subject] it shouts"
    least, most = PREHEADER_CHARS
    if not least <= width(issue["preheader"]) <= most:
        yield f"[preheader] {width(issue['preheader'])} characters wide; {least} to {most} fill the preview"
    if issue["preheader"].casefold().startswith(issue["subject"].casefold()):
        yield "[preheader] it repeats the subject"
    yield from doubts_in_articles(issue)
    if len(page.encode()) > CLIPPED_BYTES:
        yield f"[size] {len(page.encode()):,} bytes; some mail programs cut after {CLIPPED_BYTES:,}"
    plain = [url for url in links_of(issue) if url.startswith("http://")]
    if plain:
        yield f"[http] {plain[0]} is not encrypted"


def width(text: str) -> int:
    """How much room a text takes: a Chinese character takes that of two letters."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def doubts_in_articles(issue: dict[str, Any]) -> Iterator[str]:
    """Words of links that say nothing, and paragraphs nobody reads."""
    for article in articles(issue):
        words = [article["link"]["words"]] if article.get("link") else []
        for text in [*words, *(match[1] for match in INLINE.finditer(article["text"]) if match[1])]:
            if VAGUE.match(text.strip()):
                yield f"[link-words] {text!r} does not say where it leads"
        for paragraph in article["text"].split("\n\n"):
            if len(paragraph.split()) > PARAGRAPH_WORDS:
                yield f"[long-paragraph] {paragraph[:40]!r}… has {len(paragraph.split())} words"


def as_html(issue: dict[str, Any]) -> str:
    """The HTML: one table 600 wide, all styles inline, readable without images."""
    accent = issue.get("accent", "#0b57d0")
    kicker = " · ".join(filter(None, [issue.get("number"), issue["date"]]))
    rows = [
        row(
            f'<h1 style="margin:0;{FONT};font-size:22px;line-height:28px;color:{accent}">{escape(issue["title"])}</h1>'
            f'<p style="margin:4px 0 0;{FONT};font-size:13px;line-height:18px;color:{SOFT}">{escape(kicker)}</p>',
            "28px 32px 8px",
        )
    ]
    rows += [row(article_html(article, accent, number == 0)) for number, article in enumerate(articles(issue))]
    if issue.get("call"):
        rows.append(row(button(issue["call"], accent), "8px 32px 24px"))
    rows.append(row(footer(issue), f"20px 32px 28px;border-top:1px solid {PAPER}"))
    hidden = "display:none;font-size:1px;line-height:1px;max-height:0;max-width:0;opacity:0;overflow:hidden"
    return (
        f'<!DOCTYPE html>\n<html lang="{escape(issue["language"])}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="supported-color-schemes" content="light dark">\n'
        f"<title>{escape(issue['subject'])}</title>\n</head>\n"
        f'<body style="margin:0;padding:0;background-color:{PAPER}">\n'
        f'<div style="{hidden}">{escape(issue["preheader"])}</div>\n'
        f'<table role="presentation" width="100%" cellpadding="0" cellspacing="0" border="0" '
        f'style="background-color:{PAPER}"><tr><td align="center" style="padding:24px 8px">\n'
        '<table role="presentation" width="600" cellpadding="0" cellspacing="0" border="0" '
        'style="width:100%;max-width:600px;background-color:#ffffff;border-radius:6px">\n'
        + "\n".join(rows)
        + "\n</table>\n</td></tr></table>\n</body>\n</html>\n"
    )


def row(content: str, padding: str = "16px 32px") -> str:
    """A row of the table."""
    return f'<tr><td style="padding:{padding}">{content}</td></tr>'


def article_html(article: dict[str, Any], accent: str, is_lead: bool) -> str:
    """One article."""
    size = "24px;line-height:30px" if is_lead else "18px;line-height:24px"
    parts = [f'<h2 style="margin:0 0 8px;{FONT};font-size:{size};color:{INK}">{escape(article["heading"])}</h2>']
    if image := article.get("image"):
        style = f"display:block;width:100%;max-width:536px;height:auto;border:0;margin:0 0 12px;{FONT};font-size:14px"
        known = f'src="{escape(image["src"])}" alt="{escape(image["alt"])}"'
        parts.append(f'<img {known} width="536" style="{style}">')
    for paragraph in article["text"].split("\n\n"):
        style = f"margin:0 0 12px;{FONT};font-size:16px;line-height:24px;color:{INK}"
        parts.append(f'<p style="{style}">{inline_html(paragraph, accent)}</p>')
    if link := article.get("link"):
        style = f"margin:0;{FONT};font-size:16px;line-height:24px"
        parts.append(f'<p style="{style}">{anchor(link["words"], link["url"], accent)}</p>')
    return "".join(parts)


def inline_html(text: str, accent: str) -> str:
    """Bold, italic and links of a paragraph; everything else is text."""
    done, at = [], 0
    for match in INLINE.finditer(text):
        done.append(escape(text[at : match.start()]))
        words, url, bold, italic = match.groups()
        if url:
            done.append(anchor(words, url, accent))
        else:
            done.append(f"<strong>{escape(bold)}</strong>" if bold else f"<em>{escape(italic)}</em>")
        at = match.end()
    return "".join([*done, escape(text[at:])]).replace("\n", "<br>")


def anchor(words: str, url: str, accent: str) -> str:
    """A link."""
    return f'<a href="{escape(url)}" style="color:{accent};text-decoration:underline">{escape(words)}</a>'


def button(call: dict[str, str], accent: str) -> str:
    """The call to action, as a table cell that every mail program paints."""
    letters = f"{FONT};font-size:16px;font-weight:bold;color:#ffffff;text-decoration:none"
    style = f"display:inline-block;padding:12px 22px;{letters}"
    return (
        '<table role="presentation" cellpadding="0" cellspacing="0" border="0"><tr>'
        f'<td style="background-color:{accent};border-radius:4px">'
        f'<a href="{escape(call["url"])}" style="{style}">{escape(call["words"])}</a></td></tr></table>'
    )


def footer(issue: dict[str, Any]) -> str:
    """Who sends it, and how to make it stop."""
    style = f"margin:0;{FONT};font-size:12px;line-height:18px;color:{SOFT}"
    leave = anchor(leave_words(issue), issue["unsubscribe"], SOFT)
    return f'<p style="{style}">{escape(issue["sender"])} · {escape(issue["address"])}<br>{leave}</p>'


def leave_words(issue: dict[str, Any]) -> str:
    """How the link is called by which a reader leaves."""
    return LEAVE.get(issue["language"][:2].lower(), LEAVE["en"])


def as_text(issue: dict[str, Any]) -> str:
    """The plain-text twin: the same words, addresses written out."""
    kicker = " · ".join(filter(None, [issue.get("number"), issue["date"]]))
    lines = [issue["title"], kicker, "=" * max(len(issue["title"]), len(kicker)), ""]
    for article in articles(issue):
        lines += [article["heading"], "-" * min(len(article["heading"]), 72), ""]
        for paragraph in article["text"].split("\n\n"):
            lines += [textwrap.fill(inline_text(paragraph), 72, break_long_words=False, break_on_hyphens=False), ""]
        if link := article.get("link"):
            lines += [f"{link['words']}:", link["url"], ""]
    if call := issue.get("call"):
        lines += [f"{call['words'].upper()}:", call["url"], ""]
    return "\n".join(
        [*lines, "-- ", f"{issue['sender']}, {issue['address']}", f"{leave_words(issue)}: {issue['unsubscribe']}", ""]
    )


def inline_text(text: str) -> str:
    """A paragraph without marks; links as `words (address)`."""
    return INLINE.sub(lambda m: f"{m[1]} ({m[2]})" if m[2] else m[3] or m[4], text)


def as_message(issue: dict[str, Any], page: str, text: str) -> bytes:
    """Both in one message, without a recipient."""
    message = EmailMessage(policy=SMTP)
    message["Subject"] = " ".join(issue["subject"].split())
    message["X-Unsent"] = "1"  # mail programs then open it as a draft
    message.set_content(text)
    message.add_alternative(page, subtype="html")
    return message.as_bytes()


if __name__ == "__main__":
    sys.exit(main())
