"""Program that embeds texts with a small BERT model, run as a child process.

It reads lines of JSON, a list of texts each, and answers with the vectors as lines of JSON. It needs nothing but NumPy
and the tokenizer. The process returns the memory of the model when its input ends.
"""

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

Matrix = NDArray[np.float32]

LAYERS, HEADS, WIDTH = 6, 12, 384
MAX_TOKENS = 256
"""Maximum tokens of a text, as the model was trained; the rest is cut off."""
EPSILON = 1e-12
NICENESS = 10


class SentenceEncoder:
    """The model all-MiniLM-L6-v2: BERT with mean pooling, vectors of length 1."""

    def __init__(self, folder: Path) -> None:
        self._weights = load_weights(folder / "model.safetensors")
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._layers = [self._join_layer(f"encoder.layer.{number}.") for number in range(LAYERS)]

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return a vector for each text; texts of the same number of tokens are computed together."""
        tokens = [each.ids for each in self._tokenizer.encode_batch(list(texts))]
        vectors = np.empty((len(texts), WIDTH), np.float32)
        for size in {len(each) for each in tokens}:
            places = [place for place, each in enumerate(tokens) if len(each) == size]
            vectors[places] = self._run(np.array([tokens[place] for place in places]))
        return vectors

    def _run(self, tokens: NDArray[np.int64]) -> Matrix:
        count, size = tokens.shape
        words, positions, kinds = (
            self._weights[f"embeddings.{name}_embeddings.weight"] for name in ("word", "position", "token_type")
        )
        hidden = (words[tokens] + positions[:size] + kinds[0]).reshape(count * size, WIDTH)
        hidden = self._normalize("embeddings.LayerNorm", hidden)
        for number, (weights, bias) in enumerate(self._layers):
            prefix = f"encoder.layer.{number}."
            heads = (hidden @ weights + bias).reshape(count, size, 3, HEADS, WIDTH // HEADS)
            mixed = attend(*heads.transpose(2, 0, 3, 1, 4)).transpose(0, 2, 1, 3).reshape(count * size, WIDTH)
            mixed = self._transform(f"{prefix}attention.output.dense", mixed)
            hidden = self._normalize(f"{prefix}attention.output.LayerNorm", hidden + mixed)
            wide = gelu(self._transform(f"{prefix}intermediate.dense", hidden))
            wide = self._transform(f"{prefix}output.dense", wide)
            hidden = self._normalize(f"{prefix}output.LayerNorm", hidden + wide)
        means: Matrix = hidden.reshape(count, size, WIDTH).mean(1)
        means /= np.maximum(np.linalg.norm(means, axis=-1, keepdims=True), EPSILON)
        return means

    def _transform(self, name: str, given: Matrix) -> Matrix:
        result: Matrix = given @ self._weights[f"{name}.weight"].T
        result += self._weights[f"{name}.bias"]
        return result

    def _normalize(self, name: str, given: Matrix) -> Matrix:
        centred: Matrix = given - given.mean(-1, keepdims=True)
        centred /= np.sqrt(np.square(centred).mean(-1, keepdims=True) + np.float32(EPSILON))
        centred *= self._weights[f"{name}.weight"]
        centred += self._weights[f"{name}.bias"]
        return centred

    def _join_layer(self, prefix: str) -> tuple[Matrix, Matrix]:
        """Return weights and bias of queries, keys and values in one matrix each."""
        names = [f"{prefix}attention.self.{name}" for name in ("query", "key", "value")]
        weights = np.concatenate([self._weights[f"{name}.weight"] for name in names])
        return weights.T, np.concatenate([self._weights[f"{name}.bias"] for name in names])


def attend(queries: Matrix, keys: Matrix, values: Matrix) -> Matrix:
    """Return the values mixed by attention."""
    scores: Matrix = queries @ keys.transpose(0, 1, 3, 2)
    scores *= np.float32(1 / math.sqrt(WIDTH / HEADS))
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    mixed: Matrix = scores @ values
    return mixed


def gelu(given: Matrix) -> Matrix:
    """Return the activation, approximated with a hyperbolic tangent: the vectors differ by less than 0.001."""
    curve = given * given
    curve *= np.float32(0.044715)
    curve += 1
    curve *= given
    curve *= np.float32(math.sqrt(2 / math.pi))
    np.tanh(curve, out=curve)
    curve += 1
    curve *= given
    curve *= np.float32(0.5)
    return curve


def load_weights(path: Path) -> Mapping[str, Matrix]:
    """Return the tensors of a safetensors file; their pages are read when they are used."""
    content = np.memmap(path, np.uint8, mode="r")
    size = int.from_bytes(content[:8].tobytes(), "little")
    header: dict[str, dict[str, Any]] = json.loads(content[8 : 8 + size].tobytes())
    weights = content[8 + size :]
    tensors = {name: entry for name, entry in header.items() if entry.get("dtype") == "F32"}
    return {
        name: weights[slice(*each["data_offsets"])].view("<f4").reshape(each["shape"]) for name, each in tensors.items()
    }


def main(folder: str) -> None:
    """Answer the lines of the input until it ends."""
    os.nice(NICENESS)
    encoder = SentenceEncoder(Path(folder))
    for line in sys.stdin:
        vectors = encoder.embed(json.loads(line)).tolist()
        sys.stdout.write(json.dumps(vectors, separators=(",", ":")) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
