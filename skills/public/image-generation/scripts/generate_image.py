"""Makes or edits pictures with a provider that speaks the OpenAI images API."""

import argparse
import base64
import binascii
import io
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import httpx
from PIL import Image, UnidentifiedImageError

KEY, BASE, MODEL = "IMAGE_API_KEY", "IMAGE_API_BASE_URL", "IMAGE_MODEL"
DEFAULT_BASE, DEFAULT_MODEL = "https://api.openai.com/v1", "gpt-image-1"
KINDS = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
LARGEST = 64 * 1024 * 1024
BUSY = {408, 409, 429, 500, 502, 503, 504}


def main() -> None:
    """Read the command line, ask the provider, write the pictures."""
    arguments = command_line().parse_args()
    if arguments.out.suffix.lower() not in KINDS:
        fail(
            f"pictures are written as {', '.join(KINDS)}, not as {arguments.out.suffix or 'a file without an ending'!r}"
        )
    prompt = arguments.prompt or read_text(arguments.prompt_file)
    base = os.environ.get(BASE, "").rstrip("/") or DEFAULT_BASE
    request = {"model": arguments.model or os.environ.get(MODEL) or DEFAULT_MODEL, "prompt": prompt, "n": arguments.n}
    for name in ("size", "quality", "background", "response_format"):
        if value := getattr(arguments, name):
            request[name] = value
    if arguments.dry_run:
        print(
            json.dumps({"url": endpoint(base, arguments.reference), "request": request}, indent=2, ensure_ascii=False)
        )
        return
    key = os.environ.get(KEY, "")
    if not key:
        fail(
            f"there is no key: {KEY} is not set, so nothing was sent. Whoever runs the server sets {KEY} (for another "
            f"provider also {BASE} and {MODEL}) under sandbox.environment and lets sandbox.network reach the provider"
        )
    check_base(base)
    pictures = ask(base, key, request, arguments)
    written = [
        save(picture, numbered(arguments.out, number, len(pictures))) for number, picture in enumerate(pictures, 1)
    ]
    print(json.dumps({"model": request["model"], "prompt": prompt, "pictures": written}, indent=2, ensure_ascii=False))


def command_line() -> argparse.ArgumentParser:
    """What may be asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    words = parser.add_mutually_exclusive_group(required=True)
    words.add_argument("--prompt", help="what the picture shows")
    words.add_argument("--prompt-file", type=Path, help="the same, from a file")
    parser.add_argument("--out", type=Path, required=True, help="the picture: .png, .jpg or .webp")
    parser.add_argument("--size", help="for instance 1024x1024, 1536x1024, 1024x1536; what the model offers")
    parser.add_argument("--quality", help="for instance low, medium, high")
    parser.add_argument("--background", choices=["transparent", "opaque", "auto"])
    parser.add_argument("--n", type=int, default=1, choices=range(1, 11), metavar="1-10", help="how many")
    parser.add_argument("--model", help=f"instead of {MODEL}")
    parser.add_argument(
        "--reference", type=Path, action="append", default=[], help="a picture to edit or follow; repeatable"
    )
    parser.add_argument("--response-format", choices=["b64_json", "url"], help="only for providers that ask for it")
    parser.add_argument("--timeout", type=float, default=180, help="seconds to wait for one answer")
    parser.add_argument("--retries", type=int, default=2, help="so often again when the provider is busy")
    parser.add_argument("--dry-run", action="store_true", help="show the request and send nothing")
    return parser


def ask(base: str, key: str, request: dict[str, Any], arguments: argparse.Namespace) -> list[bytes]:
    """The pictures a provider makes."""
    with httpx.Client(timeout=arguments.timeout, headers={"Authorization": f"Bearer {key}"}) as client:
        files = [("image[]", (path.name, opened(path), "image/png")) for path in arguments.reference]
        for attempt in range(arguments.retries + 1):
            try:
                url = endpoint(base, arguments.reference)
                sent = (
                    {"data": {name: str(value) for name, value in request.items()}, "files": files}
                    if files
                    else {"json": request}
                )
                response = client.post(url, **sent)
            except httpx.TimeoutException:
                fail(f"the provider did not answer within {arguments.timeout:g} s; nothing was written")
            except httpx.HTTPError as problem:
                fail(f"{urlsplit(base).hostname} cannot be reached ({problem}); does sandbox.network allow it?")
            if response.status_code not in BUSY or attempt == arguments.retries:
                break
            time.sleep(pause(response, attempt))
        if response.status_code != 200:
            fail(refusal(response, key))
        return [content(item, client) for item in items_of(response)]


def items_of(response: httpx.Response) -> list[dict[str, Any]]:
    """What an answer lists."""
    try:
        items = response.json()["data"]
    except (ValueError, KeyError, TypeError):
        items = None
    if isinstance(items, list) and items:
        return items
    return fail("the provider answered without pictures; is the base URL right, and does it speak the images API?")


def content(item: dict[str, Any], client: httpx.Client) -> bytes:
    """The bytes of one picture, sent along or to be fetched."""
    if item.get("b64_json"):
        try:
            return base64.b64decode(item["b64_json"], validate=True)
        except (binascii.Error, ValueError):
            fail("the provider sent a picture that is not Base64")
    address = str(item.get("url") or "")
    if not address.startswith("https://") and urlsplit(address).hostname not in {"127.0.0.1", "localhost"}:
        fail("the provider named no address a picture can be fetched from")
    try:
        # Without the key: the picture may lie with somebody else.
        response = httpx.get(address, timeout=client.timeout, follow_redirects=True)
        response.raise_for_status()
    except httpx.HTTPError as problem:
        host = urlsplit(address).hostname
        fail(f"the picture was made but cannot be fetched from {host} ({problem}); try --response-format b64_json")
    return response.content


def save(data: bytes, target: Path) -> dict[str, Any]:
    """Write a picture of the kind its name says, if it is one."""
    if len(data) > LARGEST:
        fail("the provider sent more than 64 MB; nothing was written")
    try:
        with Image.open(io.BytesIO(data)) as picture:
            picture.load()
            wide, high = picture.size
            kind = KINDS[target.suffix.lower()]
            target.parent.mkdir(parents=True, exist_ok=True)
            if picture.format == kind:
                target.write_bytes(data)
            else:
                (picture.convert("RGB") if kind == "JPEG" else picture).save(target, kind)
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as problem:
        fail(f"the provider sent something that is no picture: {problem}")
    return {"file": str(target), "width": wide, "height": high}


def refusal(response: httpx.Response, key: str) -> str:
    """Why a provider refuses, in a sentence, without the key."""
    try:
        said = response.json().get("error")
        said = said.get("message") if isinstance(said, dict) else said
    except (ValueError, AttributeError):
        said = response.text[:200]
    reason = " ".join(str(said or "no reason given").split()).replace(key, "***")[:400]
    meaning = {
        401: f"the provider refuses the key in {KEY}",
        403: "the provider forbids it",
        404: "the provider knows no such model or path",
        429: "the provider says it is too much at once, or the account has no credit",
    }
    return f"{meaning.get(response.status_code, f'the provider answered {response.status_code}')}: {reason}"


def endpoint(base: str, references: list[Path]) -> str:
    """Where to ask."""
    return f"{base}/images/{'edits' if references else 'generations'}"


def check_base(base: str) -> None:
    """Refuse to send a key in clear text over a network."""
    parts = urlsplit(base)
    if parts.scheme != "https" and parts.hostname not in {"127.0.0.1", "localhost"}:
        fail(f"{BASE} must begin with https://, for the key would be readable on the way")


def opened(path: Path) -> bytes:
    """A picture to send along, as PNG."""
    try:
        with Image.open(path) as picture:
            buffer = io.BytesIO()
            picture.save(buffer, "PNG")
    except (OSError, UnidentifiedImageError):
        fail(f"{path} is no picture that can be read")
    return buffer.getvalue()


def read_text(path: Path) -> str:
    """A prompt from a file."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        fail(f"there is no readable text in {str(path)!r}")
    return text or fail(f"{path.name} is empty")


def pause(response: httpx.Response, attempt: int) -> float:
    """How long to wait: as long as the provider says, within reason."""
    said = response.headers.get("retry-after", "")
    return min(float(said), 60.0) if said.replace(".", "", 1).isdigit() else 2.0 * 2**attempt


def numbered(target: Path, number: int, count: int) -> Path:
    """A name for each of several pictures."""
    return target if count == 1 else target.with_stem(f"{target.stem}-{number}")


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
