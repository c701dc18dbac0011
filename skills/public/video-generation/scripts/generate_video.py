"""Makes a video with a provider that works on jobs: submit, wait, fetch. A job can be taken up again later."""

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urljoin, urlsplit

import httpx

KEY, BASE, MODEL, PROFILE = "VIDEO_API_KEY", "VIDEO_API_BASE_URL", "VIDEO_MODEL", "VIDEO_API_PROFILE"
DEFAULT_BASE, DEFAULT_MODEL = "https://api.openai.com/v1", "sora-2"
LARGEST = 1024 * 1024 * 1024
BUSY = {408, 409, 425, 429, 500, 502, 503, 504}
TRIES = 4


@dataclass(frozen=True)
class Profile:
    """How a provider words things; the defaults are those of the OpenAI videos API. Dots lead into objects."""

    create: str = "/videos"
    poll: str = "/videos/{id}"
    download: str = "/videos/{id}/content"
    id: str = "id"
    status: str = "status"
    progress: str = "progress"
    result: str = ""
    """Where the finished job names the address of the video; empty: it is fetched from `download`."""
    error: str = "error.message"
    done: tuple[str, ...] = ("completed", "succeeded", "success", "done", "finished")
    failed: tuple[str, ...] = ("failed", "error", "cancelled", "canceled", "expired", "rejected")
    auth: str = "Bearer {key}"
    prompt: str = "prompt"
    seconds: str = "seconds"
    size: str = "size"
    model: str = "model"


class Provider:
    """Talks to a provider with one key."""

    def __init__(self, base: str, key: str, profile: Profile, timeout: float) -> None:
        self.base, self.key, self.profile = base, key, profile
        self.client = httpx.Client(timeout=timeout)

    def submit(self, request: dict[str, Any]) -> str:
        """Start a job and give its id. It costs money, so it is never sent twice."""
        answer = self.call("POST", self.profile.create, json=request)
        job = dig(answer, self.profile.id)
        return str(job) if job else fail("the provider answered without a job; does VIDEO_API_PROFILE fit it?")

    def state(self, job: str) -> dict[str, Any]:
        """How a job is."""
        for attempt in range(TRIES):
            answer = self.call("GET", self.profile.poll.format(id=job), may_fail=attempt < TRIES - 1)
            if answer is not None:
                return answer
            time.sleep(2.0**attempt)
        return {}

    def fetch(self, job: str, state: dict[str, Any], target: Path) -> int:
        """Write the finished video; its size."""
        address = str(dig(state, self.profile.result) or "") if self.profile.result else ""
        own = self.base + self.profile.download.format(id=job)
        url = urljoin(own, address) if address else own
        # The key goes to the provider alone: a result may lie with somebody else.
        headers = self.headers() if urlsplit(url).netloc == urlsplit(self.base).netloc else {}
        part, size = target.with_name(target.name + ".part"), 0
        try:
            with (
                self.client.stream("GET", url, headers=headers, follow_redirects=True) as response,
                part.open("wb") as file,
            ):
                if response.status_code != 200:
                    response.read()
                    fail(
                        f"the video is made but cannot be fetched: {self.reason(response)}; try again with --job {job}"
                    )
                for chunk in response.iter_bytes():
                    size += len(chunk)
                    if size > LARGEST:
                        fail("the provider sent more than 1 GB")
                    file.write(chunk)
            if not is_video(part):
                fail("the provider sent something that is neither MP4 nor WebM")
            part.replace(target)
        except httpx.HTTPError as problem:
            fail(f"the video is made but cannot be fetched ({problem}); try again with --job {job}")
        finally:
            part.unlink(missing_ok=True)
        return size

    def call(self, method: str, path: str, may_fail: bool = False, **content: Any) -> Any:
        """What the provider answers; None when it is busy and that may be."""
        try:
            response = self.client.request(method, self.base + path, headers=self.headers(), **content)
        except httpx.HTTPError as problem:
            if may_fail:
                return None
            fail(f"{urlsplit(self.base).hostname} cannot be reached ({problem}); does sandbox.network allow it?")
        if response.status_code in BUSY and may_fail:
            return None
        if response.status_code not in {200, 201, 202}:
            fail(self.reason(response))
        try:
            return response.json()
        except ValueError:
            fail("the provider answered something that is no JSON; is the base URL right?")

    def headers(self) -> dict[str, str]:
        """How the key is shown."""
        return {"Authorization": self.profile.auth.format(key=self.key)}

    def reason(self, response: httpx.Response) -> str:
        """Why a provider refuses, in a sentence, without the key."""
        try:
            said = dig(response.json(), self.profile.error) or response.text
        except ValueError:
            said = response.text
        reason = " ".join(str(said).split()).replace(self.key, "***")[:300] or "no reason given"
        known = {401: f"the provider refuses the key in {KEY}", 404: "the provider knows no such job, model or path"}
        return f"{known.get(response.status_code, f'the provider answered {response.status_code}')}: {reason}"


def main() -> None:
    """Read the command line, start or take up a job, wait for it, fetch the video."""
    arguments = command_line().parse_args()
    if arguments.out.suffix.lower() not in {".mp4", ".webm"}:
        fail(f"videos are written as .mp4 or .webm, not as {arguments.out.suffix or 'a file without an ending'!r}")
    profile = read_profile(arguments.profile or os.environ.get(PROFILE, ""))
    base = os.environ.get(BASE, "").rstrip("/") or DEFAULT_BASE
    request = build_request(arguments, profile)
    if arguments.dry_run:
        print(json.dumps({"url": base + profile.create, "request": request}, indent=2, ensure_ascii=False))
        return
    provider = Provider(base, key_for(base), profile, arguments.timeout)
    note = arguments.out.with_name(arguments.out.name + ".job.json")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    job = arguments.job or provider.submit(request)
    # Written at once: a job that is paid for must not be lost with the command that started it.
    note.write_text(json.dumps({"job": job, "request": request, "base": base}, ensure_ascii=False), encoding="utf-8")
    if arguments.no_wait:
        print(json.dumps({"job": job, "status": "submitted", "take_up_with": f"--job {job}"}, indent=2))
        return
    state = waited(provider, job, arguments)
    size = provider.fetch(job, state, arguments.out)
    note.unlink(missing_ok=True)
    print(json.dumps({"job": job, "status": "done", "file": str(arguments.out), "bytes": size}, indent=2))


def command_line() -> argparse.ArgumentParser:
    """What may be asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", default="", help="what the video shows")
    parser.add_argument("--out", type=Path, required=True, help="the video: .mp4 or .webm")
    parser.add_argument("--seconds", help="how long, as the model offers")
    parser.add_argument("--size", help="for instance 1280x720 or 720x1280")
    parser.add_argument("--model", help=f"instead of {MODEL}")
    parser.add_argument("--extra", help="further keys of the request, as JSON")
    parser.add_argument("--profile", help=f"JSON file that says how the provider words things, instead of {PROFILE}")
    parser.add_argument("--job", help="take up a job that was started before")
    parser.add_argument("--no-wait", action="store_true", help="only start the job")
    parser.add_argument("--every", type=float, default=10, help="seconds between two looks")
    parser.add_argument(
        "--wait", type=float, default=540, help="give up waiting after so many seconds; the job goes on"
    )
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one answer")
    parser.add_argument("--dry-run", action="store_true", help="show the request and send nothing")
    return parser


def build_request(arguments: argparse.Namespace, profile: Profile) -> dict[str, Any]:
    """What is sent."""
    if not arguments.prompt and not arguments.job:
        fail("say with --prompt what the video shows")
    request = {
        profile.model: arguments.model or os.environ.get(MODEL) or DEFAULT_MODEL,
        profile.prompt: arguments.prompt,
    }
    for name in ("seconds", "size"):
        if value := getattr(arguments, name):
            request[getattr(profile, name)] = value
    if arguments.extra:
        try:
            more = json.loads(arguments.extra)
        except ValueError as problem:
            fail(f"--extra is no JSON: {problem}")
        if not isinstance(more, dict):
            fail("--extra must be a JSON object")
        request |= more
    return request


def key_for(base: str) -> str:
    """The key, if it may be sent there."""
    key = os.environ.get(KEY, "")
    if not key:
        fail(
            f"there is no key: {KEY} is not set, so nothing was sent. Whoever runs the server sets {KEY} (for another "
            f"provider also {BASE}, {MODEL} and {PROFILE}) under sandbox.environment and lets sandbox.network reach it"
        )
    parts = urlsplit(base)
    if parts.scheme != "https" and parts.hostname not in {"127.0.0.1", "localhost"}:
        fail(f"{BASE} must begin with https://, for the key would be readable on the way")
    return key


def waited(provider: Provider, job: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The state of a job when it is done."""
    profile, end, told = provider.profile, time.monotonic() + arguments.wait, ""
    while True:
        state = provider.state(job)
        status = str(dig(state, profile.status) or "").lower()
        if status in profile.done:
            return state
        if status in profile.failed:
            fail(f"the provider could not make the video: {dig(state, profile.error) or status}")
        if (news := f"{status} {dig(state, profile.progress) or ''}".strip()) != told:
            print(f"note: {news}", file=sys.stderr)
            told = news
        if time.monotonic() + arguments.every > end:
            still = f"the job is still {status or 'unknown'} after {arguments.wait:g} s"
            fail(f"{still}; it goes on, take it up later with --job {job}")
        time.sleep(arguments.every)


def read_profile(name: str) -> Profile:
    """How the provider words things."""
    if not name:
        return Profile()
    try:
        content = json.loads(Path(name).read_text(encoding="utf-8"))
        values = {key: tuple(value) if isinstance(value, list) else str(value) for key, value in content.items()}
        return Profile(**values)
    except (OSError, ValueError, AttributeError) as problem:
        fail(f"the profile {name!r} cannot be read: {problem}")
    except TypeError:
        fail(f"the profile {name!r} has a key that is not known; known are {', '.join(Profile.__dataclass_fields__)}")


def dig(content: Any, path: str) -> Any:
    """What lies at `a.b.0.c`, or None."""
    for step in path.split("."):
        if isinstance(content, dict):
            content = content.get(step)
        elif isinstance(content, list) and step.isdigit() and int(step) < len(content):
            content = content[int(step)]
        else:
            return None
    return content


def is_video(path: Path) -> bool:
    """Whether a file begins as MP4 or WebM does."""
    with path.open("rb") as file:
        start = file.read(12)
    return start[4:8] == b"ftyp" or start[:4] == b"\x1a\x45\xdf\xa3"


def fail(message: str) -> NoReturn:
    """End with one sentence for whoever called."""
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(1)


if __name__ == "__main__":
    main()
