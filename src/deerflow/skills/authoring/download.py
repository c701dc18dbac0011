"""Download of skills: from Git repositories, at depth 1 and without running anything in them, and from archives.

All connections go through `Egress`, those of Git through a proxy that reaches only the host of the repository.
"""

import asyncio
import hashlib
import os
import re
import shutil
import signal
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, urljoin, urlsplit

from deerflow.community.web.egress_transport import EgressTransport
from deerflow.community.web.http import HttpClient, TlsTrust, WebProblem, WebRequest, WebResponse
from deerflow.domain.errors import InvalidRequest, NotFound, SkillUnavailable
from deerflow.sandbox.egress import AllowedHosts, Egress, EgressFailed, EgressRefused, canonical_host
from deerflow.sandbox.jobs import read_bounded
from deerflow.sandbox.proxy import ProxyLimits, serve_proxy
from deerflow.skills.authoring.lock import SkillSource
from deerflow.skills.format import SKILL_FILE

EXTENSIONS = (".skill", ".zip")
REF = re.compile(r"(?!.*(\.\.|//|@\{|\.lock$|/$))[A-Za-z0-9_][A-Za-z0-9_./@+-]{0,199}")
FOLDER = re.compile(r"(?!.*(^|/)\.{1,2}(/|$))[^\x00-\x1f:*?\\/][^\x00-\x1f:*?\\]{0,299}")
WEB_PATH = re.compile(r"(?P<repository>/[^/]+/.+?)(?:/-)?/tree/(?P<ref>[^/]+)(?:/(?P<folder>.+?))?/?")
"""Path of a folder in the web view of GitHub, GitLab and Gitea."""
MAX_URL_CHARS = 1000
MAX_REDIRECTS = 5
MAX_SHOWN_SKILLS = 20
MAX_ERROR_CHARS = 300
SAFE_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "credential.helper=",
    "fetch.unpackLimit=1",
    "fetch.fsckObjects=true",
    "gc.auto=0",
    "http.followRedirects=initial",
    "maintenance.auto=false",
    "pack.threads=1",
    "protocol.allow=never",
    "submodule.recurse=false",
)
"""Settings of every Git command, which reads no configuration file."""
LIMITED = 'ulimit -f "$1" && ulimit -v "$2" && shift 2 && exec "$@"'
"""Shell program that limits the size of files and of memory, and then becomes the command."""


@dataclass(frozen=True, slots=True)
class SkillAddress:
    """Address of a skill on the web, and what of it is wanted."""

    url: str
    ref: str | None = None
    """Branch, tag or commit of a Git repository; None for its default branch."""
    folder: str | None = None
    """Folder in a Git repository; None if it contains one skill."""

    @classmethod
    def of(cls, source: SkillSource) -> Self:
        """Return the address of a source."""
        return cls(source.url, source.ref, source.folder)


@dataclass(frozen=True, slots=True)
class DownloadedSkill:
    """Zip file with a skill, which is untrusted, and its source."""

    archive: bytes
    source: SkillSource


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """Limits of one download."""

    seconds: float = 120.0
    bytes: int = 100 * 1024**2
    memory_bytes: int = 4 * 1024**3


@dataclass(frozen=True, slots=True)
class SkillDownloader:
    """Downloads skills. Only tests use other addresses and schemes."""

    egress: Egress = field(default_factory=Egress)
    limits: DownloadLimits = DownloadLimits()
    schemes: frozenset[str] = frozenset({"https"})
    trust: TlsTrust = field(default_factory=TlsTrust)
    certificates: str | None = None
    """File with the certificates that Git trusts; None for those of the system."""

    async def download(self, address: SkillAddress) -> DownloadedSkill:
        """Download the skill at an address.

        Raises:
            InvalidRequest: The address is malformed, or it has several skills.
            NotFound: There is no skill at the address.
            SkillUnavailable: The download failed, or exceeded a limit.
        """
        address = parse_address(address, self.schemes)
        try:
            async with asyncio.timeout(self.limits.seconds):
                if is_archive(address.url):
                    return await self._download_archive(address)
                return await self._download_repository(address)
        except TimeoutError:
            raise SkillUnavailable(f"{address.url} took longer than {self.limits.seconds:g} s") from None

    async def _download_archive(self, address: SkillAddress) -> DownloadedSkill:
        if address.ref or address.folder:
            raise InvalidRequest("a ref or a folder can be given for a Git repository only, not for an archive")
        transport = EgressTransport(self.egress, self.trust)
        http = HttpClient(self.limits.seconds, self.limits.bytes, transport, self.trust)
        reply = await self._follow(http, address.url)
        if reply.status != 200:
            raise SkillUnavailable(f"{address.url} answered with status {reply.status}")
        if reply.is_truncated:
            raise SkillUnavailable(f"{address.url} has more than {self.limits.bytes // 1024**2} MB")
        revision = f"sha256:{hashlib.sha256(reply.body).hexdigest()}"
        return DownloadedSkill(reply.body, SkillSource(address.url, revision))

    async def _follow(self, http: HttpClient, url: str) -> WebResponse:
        """Return the response after redirects, each of which is checked like the first URL."""
        for _ in range(MAX_REDIRECTS + 1):
            try:
                reply = await http.send(WebRequest(url))
            except WebProblem as problem:
                raise SkillUnavailable(str(problem)) from problem
            if reply.status not in (301, 302, 303, 307, 308):
                return reply
            url = urljoin(url, reply.headers.get("location", ""))
            # Hosts of files redirect to signed URLs, which are used once and not stored.
            check_url(urlsplit(url), self.schemes)
        raise SkillUnavailable(f"{urlsplit(url).hostname} redirects too often")

    async def _download_repository(self, address: SkillAddress) -> DownloadedSkill:
        git = shutil.which("git")
        if git is None:
            raise SkillUnavailable("git is not installed on this server; install it, or use a .skill archive")
        directory = await asyncio.to_thread(tempfile.mkdtemp, prefix="deerflow-skill-")
        try:
            async with self._open_proxy(urlsplit(address.url)) as proxy:
                repository = GitRepository(git, Path(directory), address.url, proxy, self.limits, self.certificates)
                commit = await repository.fetch(address.ref or "HEAD")
            folder = address.folder or await repository.find_skill(commit)
            archive = await repository.archive(commit, folder)
        finally:
            await asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True)
        return DownloadedSkill(archive, SkillSource(address.url, commit, address.ref, address.folder))

    @asynccontextmanager
    async def _open_proxy(self, url: SplitResult) -> AsyncIterator[str]:
        """Provide the URL of a proxy that reaches the host of `url` and nothing else."""
        host = canonical_host(url.hostname or "")
        try:  # Git shows no reason if the proxy refuses
            _, writer = await self.egress.connect(host, 443 if url.scheme == "https" else 80)
            writer.transport.abort()
        except (EgressRefused, EgressFailed) as problem:
            raise SkillUnavailable(str(problem)) from problem
        listener = socket.create_server(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        limits = ProxyLimits(connection_bytes=self.limits.bytes, total_s=self.limits.seconds)
        proxy = await serve_proxy(listener, AllowedHosts(frozenset({host}), frozenset()), self.egress, limits)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            await proxy.aclose()


@dataclass(frozen=True, slots=True)
class GitRepository:
    """Bare copy of a remote repository. It has no working tree: files are only read as an archive."""

    git: str
    directory: Path
    url: str
    proxy: str
    limits: DownloadLimits
    certificates: str | None = None

    async def fetch(self, ref: str) -> str:
        """Fetch one revision without its history and return its commit."""
        scheme = urlsplit(self.url).scheme
        await self._run("init", "--quiet", "--bare", "--template=", ".")
        options = ("--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules", "--no-write-commit-graph")
        settings = (f"protocol.{scheme}.allow=always", f"http.proxy={self.proxy}")
        await self._run("fetch", *options, self.url, ref, settings=settings)
        return (await self._run("rev-parse", "--verify", "FETCH_HEAD^{commit}")).decode().strip()

    async def find_skill(self, commit: str) -> str:
        """Return the folder of the only skill of a commit; empty for the top level.

        Raises:
            NotFound: It has no skill.
            InvalidRequest: It has several.
        """
        listed = (await self._run("ls-tree", "-r", "-z", "--name-only", commit)).decode(errors="replace")
        names = [name for name in listed.split("\0") if name == SKILL_FILE or name.endswith(f"/{SKILL_FILE}")]
        folders = sorted(name.removesuffix(SKILL_FILE).rstrip("/") for name in names)
        if "" in folders:
            return ""
        if not folders:
            raise NotFound(f"{self.url} has no {SKILL_FILE}")
        if len(folders) > 1:
            shown = ", ".join(folders[:MAX_SHOWN_SKILLS]) + (" …" if len(folders) > MAX_SHOWN_SKILLS else "")
            raise InvalidRequest(f"{self.url} has {len(folders)} skills; choose a folder: {shown}")
        return folders[0]

    async def archive(self, commit: str, folder: str) -> bytes:
        """Return a folder of a commit as a zip file."""
        tree = f"{commit}:{folder}" if folder else commit
        try:
            await self._run("cat-file", "-e", f"{tree}/{SKILL_FILE}" if folder else f"{tree}:{SKILL_FILE}")
        except SkillUnavailable:
            raise NotFound(f"{self.url} has no {SKILL_FILE} in {folder!r} at {commit[:12]}") from None
        return await self._run("archive", "--format=zip", tree)

    async def _run(self, *arguments: str, settings: Sequence[str] = ()) -> bytes:
        """Run a Git command and return its output.

        Raises:
            SkillUnavailable: It failed, or its output is too long.
        """
        options = [part for setting in (*SAFE_SETTINGS, *settings) for part in ("-c", setting)]
        limits = (str(self.limits.bytes // 512), str(self.limits.memory_bytes // 1024))
        process = await asyncio.create_subprocess_exec(
            *("/bin/sh", "-c", LIMITED, "sh", *limits, self.git, *options, *arguments),
            cwd=self.directory,
            env=self._environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None and process.stderr is not None
        messages = asyncio.ensure_future(read_bounded(process.stderr, self.limits.bytes))
        try:
            output = await read_bounded(process.stdout, self.limits.bytes)
            if not process.stdout.at_eof():  # the command waits for a reader, and would not end
                raise SkillUnavailable(f"{self.url} has more than {self.limits.bytes // 1024**2} MB")
            errors, status = await messages, await process.wait()
        finally:
            messages.cancel()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if status != 0:
            raise SkillUnavailable(f"{self.url}: {explain_failure(errors, status)}")
        return output

    def _environment(self) -> dict[str, str]:
        """Return the environment of Git: no configuration, no credentials, no questions."""
        return {
            "PATH": os.defpath,
            "HOME": str(self.directory),
            "LANG": "C.UTF-8",
            "GIT_DIR": str(self.directory),
            "GIT_ASKPASS": "/bin/false",
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "NO_PROXY": "",
            **({"GIT_SSL_CAINFO": self.certificates} if self.certificates else {}),
        }


def parse_address(address: SkillAddress, schemes: frozenset[str] = frozenset({"https"})) -> SkillAddress:
    """Return an address in its canonical form: a folder in a web view becomes repository, ref and folder.

    Raises:
        InvalidRequest: The address is malformed, or not allowed.
    """
    url = check_url(split_url(address.url), schemes)
    if url.query or url.fragment:
        raise InvalidRequest("the URL of a skill has no query and no fragment, which may contain credentials")
    path, ref, folder = url.path, address.ref, address.folder
    if not is_archive(path) and (view := WEB_PATH.fullmatch(path)):
        path, ref, folder = view["repository"], ref or view["ref"], folder or view["folder"]
    if ref is not None and not REF.fullmatch(ref):
        raise InvalidRequest(f"{ref[:200]!r} is not the name of a branch, a tag or a commit")
    folder = folder.strip("/") if folder else None
    if folder and not FOLDER.fullmatch(folder):
        raise InvalidRequest(f"{folder[:200]!r} is not a folder of a repository")
    return SkillAddress(url._replace(path=path.rstrip("/")).geturl(), ref, folder or None)


def split_url(url: str) -> SplitResult:
    """Return the parts of a URL."""
    try:
        parts = urlsplit(url.strip())
        parts.port  # noqa: B018 - raises for a port that is not a number
    except ValueError as problem:
        raise InvalidRequest(f"{url[:200]!r} is not a URL: {problem}") from None
    if len(url) > MAX_URL_CHARS or not url.isprintable() or any(each.isspace() for each in url.strip()):
        raise InvalidRequest(f"{url[:200]!r} is not a URL")
    return parts


def check_url(url: SplitResult, schemes: frozenset[str]) -> SplitResult:
    """Return a URL if skills may be downloaded from it.

    Raises:
        InvalidRequest: It has another scheme or port, credentials, or no host.
    """
    if url.username is not None or url.password is not None:
        raise InvalidRequest("the URL contains credentials; download the skill yourself and install the archive")
    if url.scheme not in schemes or not url.hostname:
        allowed = " or ".join(f"{scheme}://" for scheme in sorted(schemes))
        raise InvalidRequest(f"the URL of a skill starts with {allowed}, not with {url.scheme[:20] or 'a path'!r}")
    if url.port not in (None, 443 if url.scheme == "https" else 80):
        raise InvalidRequest(f"the URL of a skill has the usual port of {url.scheme}, not {url.port}")
    try:
        canonical_host(url.hostname)
    except EgressRefused as problem:
        raise InvalidRequest(str(problem)) from None
    return url


def is_archive(url: str) -> bool:
    """Return True if a URL names an archive, and not a Git repository."""
    return urlsplit(url).path.lower().endswith(EXTENSIONS)


def explain_failure(errors: bytes, status: int) -> str:
    """Return the last error of Git as one line."""
    lines = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "remote:"))]
    text = " ".join((fatal or lines or [f"git ended with status {status}"])[-1].split())
    return "".join(each for each in text if each.isprintable())[:MAX_ERROR_CHARS]
