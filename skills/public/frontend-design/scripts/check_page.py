"""Checks a web page that is meant to stand alone: no requests, readable, usable by keyboard and on a phone."""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import NoReturn

from bs4 import BeautifulSoup, NavigableString, Tag
from styles import contrast, looks, read_sheet

LOADS = {
    "img": "src", "script": "src", "link": "href", "iframe": "src", "source": "src", "video": "src", "audio": "src",
    "embed": "src", "object": "data", "use": "href", "image": "href", "track": "src",
}  # fmt: skip
OWN = ("data:", "#", "blob:", "about:")
NAVIGATION = {"canonical", "alternate", "author", "license", "next", "prev", "me"}
REMOTE = re.compile(r"^(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
URL = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", re.IGNORECASE)
CALLS = re.compile(r"\b(fetch|XMLHttpRequest|WebSocket|EventSource|sendBeacon|importScripts)\s*\(")
IMPORT = re.compile(r"""(?:import|from)\s*\(?\s*['"]((?:https?:)?//[^'"]+)""")
FIXED = re.compile(r"(?<![-\w])(?:min-)?width\s*:\s*(\d{3,5})px")
NO_OUTLINE = re.compile(r"outline\s*:\s*(none|0)\b")
LARGE, LARGE_BOLD = 24.0, 18.66
MAX_BYTES = 3_000_000


def main() -> None:
    """Check a page; exit 3 when something must be repaired."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    arguments = parser.parse_args()
    if not arguments.page.is_file():
        fail(f"there is no file {str(arguments.page)!r}")
    try:
        text = arguments.page.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        fail(f"{arguments.page.name} is not UTF-8 text")
    if "<" not in text:
        fail(f"{arguments.page.name} holds no HTML")
    errors, warnings = check(text)
    if arguments.json:
        print(json.dumps({"errors": errors, "warnings": warnings}, indent=2, ensure_ascii=False))
    else:
        print(
            "\n".join([*(f"error: {item}" for item in errors), *(f"warning: {item}" for item in warnings)])
            or "no problems"
        )
    sys.exit(3 if errors else 0)


def check(text: str) -> tuple[list[str], list[str]]:
    """What must be repaired, and what should be looked at."""
    soup = BeautifulSoup(text, "lxml")
    css = "\n".join(style.get_text() for style in soup.find_all("style"))
    scripts = "\n".join(script.get_text() for script in soup.find_all("script"))
    errors = [*requests(soup, css, scripts), *head(soup, text), *names(soup), *contrasts(soup, css)]
    warnings = [*structure(soup), *habits(css, text)]
    return list(dict.fromkeys(errors)), list(dict.fromkeys(warnings))


def requests(soup: BeautifulSoup, css: str, scripts: str) -> list[str]:
    """Everything the page would load from elsewhere."""
    found = []
    for name, attribute in LOADS.items():
        for element in soup.find_all(name):
            target = str(element.get(attribute) or element.get("xlink:href") or "").strip()
            relations = {str(word).lower() for word in element.get("rel") or []}
            if target and not target.startswith(OWN) and not (name == "link" and relations & NAVIGATION):
                found.append(f"<{name}> loads {target[:80]!r}; put it inside the page")
    for element in soup.find_all(srcset=True):
        if not str(element["srcset"]).strip().startswith("data:"):
            found.append(f"<{element.name}> loads from srcset; put it inside the page")
    for match in URL.finditer(css + " ".join(str(element["style"]) for element in soup.find_all(style=True))):
        target = match[1] or match[2]
        if not target.startswith(OWN):
            found.append(f"the style loads {target[:80]!r}; put it inside the page")
    found += [f"a script calls {match[1]}, which needs a network" for match in CALLS.finditer(scripts)]
    found += [f"a script imports {match[1][:80]!r}" for match in IMPORT.finditer(scripts)]
    found += [
        "a form is sent to another place"
        for form in soup.find_all("form")
        if REMOTE.match(str(form.get("action") or ""))
    ]
    return found


def head(soup: BeautifulSoup, text: str) -> list[str]:
    """What belongs into every head."""
    found = []
    if not text.lstrip().lower().startswith("<!doctype html"):
        found.append("the page does not begin with <!doctype html>")
    root = soup.find("html")
    if not isinstance(root, Tag) or not root.get("lang"):
        found.append("<html> has no lang")
    if soup.title is None or not soup.title.get_text(strip=True):
        found.append("there is no <title>")
    view = soup.find("meta", attrs={"name": "viewport"})
    content = str(view.get("content") or "") if isinstance(view, Tag) else ""
    if "width=device-width" not in content:
        found.append('<meta name="viewport" content="width=device-width, initial-scale=1"> is missing')
    if "user-scalable=no" in content.replace(" ", "") or "maximum-scale=1" in content.replace(" ", ""):
        found.append("the viewport forbids zooming")
    if not soup.find("meta", charset=True):
        found.append('<meta charset="utf-8"> is missing')
    return found


def names(soup: BeautifulSoup) -> list[str]:
    """Things without a name for those who do not see them."""
    found = []
    for image in soup.find_all("img"):
        if image.get("alt") is None:
            found.append(f'<img src={str(image.get("src") or "")[:40]!r}> has no alt (alt="" if it is decoration)')
    for drawing in soup.find_all("svg"):
        hidden = drawing.get("aria-hidden") == "true" or any(p.get("aria-hidden") == "true" for p in drawing.parents)
        if (
            not hidden
            and not drawing.find("title")
            and not drawing.get("aria-label")
            and not drawing.get("aria-labelledby")
        ):
            found.append("an <svg> has neither <title>, aria-label nor aria-hidden")
    for control in soup.find_all(["button", "a"]):
        pictures = [image for image in control.find_all("img") if image.get("alt")]
        titles = control.find_all("title")
        named = control.get_text(strip=True) or control.get("aria-label") or pictures or titles
        if not named and (control.name == "button" or control.get("href")):
            found.append(f"a <{control.name}> has no name")
    for control in soup.find_all(["input", "select", "textarea"]):
        if control.get("type") in {"hidden", "submit", "button", "reset", "image"}:
            continue
        label = soup.find("label", attrs={"for": control.get("id")}) if control.get("id") else None
        if not (label or control.find_parent("label") or control.get("aria-label") or control.get("aria-labelledby")):
            found.append(f"<{control.name} name={str(control.get('name') or '')!r}> has no label")
    return found


def contrasts(soup: BeautifulSoup, css: str) -> list[str]:
    """Text that is too close to its ground; where a picture lies behind, nothing can be said."""
    found = []
    made = looks(soup, read_sheet(css))
    for element in soup.find_all(True):
        words = [str(part).strip() for part in element.children if isinstance(part, NavigableString)]
        text = " ".join(word for word in words if word)
        look = made.get(id(element))
        if not text or look is None or look.ground is None or element.name in {"script", "style", "title", "option"}:
            continue
        large = look.points >= LARGE or (look.bold and look.points >= LARGE_BOLD)
        needed = 3.0 if large else 4.5
        ratio = contrast(look.ink, look.ground)
        if ratio < needed:
            ink, ground = ("#" + bytes(colour).hex() for colour in (look.ink, look.ground))
            found.append(f"contrast {ratio:.1f} of {ink} on {ground}, {needed} needed: <{element.name}> {text[:40]!r}")
    return found


def structure(soup: BeautifulSoup) -> list[str]:
    """Headings and regions."""
    found, before = [], 0
    levels = [int(heading.name[1]) for heading in soup.find_all(re.compile("^h[1-6]$"))]
    if levels.count(1) != 1:
        found.append(f"there are {levels.count(1)} <h1>; one says what the page is")
    for level in levels:
        if level > before + 1 and before:
            found.append(f"a <h{level}> follows a <h{before}>; a level is skipped")
        before = level
    if not soup.find("main"):
        found.append("there is no <main>")
    ids = [str(element["id"]) for element in soup.find_all(id=True)]
    found += [f"the id {name!r} occurs twice" for name in dict.fromkeys(ids) if ids.count(name) > 1]
    for link in soup.find_all("a", href=re.compile("^#.")):
        if str(link["href"])[1:] not in ids:
            found.append(f"the link {link['href']} leads nowhere")
    clickable = [element for element in soup.find_all(["div", "span"], onclick=True) if not element.get("role")]
    if clickable:
        found.append(f"{len(clickable)} <div> or <span> react to clicks; use <button>")
    return found


def habits(css: str, text: str) -> list[str]:
    """What usually goes wrong in styles."""
    found = []
    for match in FIXED.finditer(css):
        if int(match[1]) > 420:
            found.append(f"{match[0]!r} is wider than a phone; use max-width")
    if "@media" not in css and not re.search(r"minmax\(|clamp\(|flex-wrap|min\(", css):
        found.append("nothing adapts to the width: no media query, clamp, minmax or flex-wrap")
    if NO_OUTLINE.search(css) and ":focus-visible" not in css:
        found.append("outlines are removed and no :focus-visible style replaces them")
    if re.search(r"\banimation(-name)?\s*:|\btransition\s*:", css) and "prefers-reduced-motion" not in css:
        found.append("things move, and prefers-reduced-motion is not respected")
    if len(text.encode()) > MAX_BYTES:
        found.append(f"the page has {len(text.encode()) / 1e6:.1f} MB; shrink its pictures")
    if re.search(r"lorem ipsum|\bTODO\b|your (?:company|text) here", text, re.IGNORECASE):
        found.append("there is placeholder text")
    return found


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
