"""Write a tiny GGUF of the llama architecture whose next token depends on the current one alone.

Nothing is learnt: the embedding is one-hot, the one block adds nothing, and the output matrix maps each token to its
successor. llama.cpp runs it as it runs any model, at any temperature, and what it says is known beforehand.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final

from msgspec import Struct

THINK: Final = "<think>"
END_THINK: Final = "</think>"
END_TURN: Final = "<|im_end|>"

_HEAD_WIDTH: Final = 32
_ALIGNMENT: Final = 32


class Script(Struct, frozen=True):
    """What follows the marker `<|NAME|>` in a prompt: these tokens, again and again if it `loops`, then `then`.

    A word that no token stands for becomes one; `bytes:` before it makes it one token per byte of UTF-8.
    """

    words: Sequence[str]
    loops: bool = False
    then: str = END_THINK


LOOP: Final = Script([f" thought{n}" for n in range(16)], loops=True)
"""Thinks for ever, in 16 words."""
SHORT: Final = Script([f" short{n}" for n in range(8)])
"""Thinks 8 tokens."""
ANSWER: Final = ("The", " answer", " is", " 42", ".")


class _Kind(IntEnum):
    """Token types of `tokenizer.ggml.token_type`."""

    UNKNOWN = 2
    CONTROL = 3
    USER = 4
    BYTE = 6


class _Type(IntEnum):
    """Value types of GGUF."""

    U32 = 4
    I32 = 5
    F32 = 6
    BOOL = 7
    TEXT = 8
    ARRAY = 9


class _Vocabulary:
    """Tokens in the order of their ids, and which follows which."""

    def __init__(self) -> None:
        self.tokens: list[tuple[str, _Kind]] = [
            ("<unk>", _Kind.UNKNOWN),
            ("<s>", _Kind.CONTROL),
            ("</s>", _Kind.CONTROL),
        ]
        self._first_byte = len(self.tokens)
        self.tokens += [(f"<0x{byte:02X}>", _Kind.BYTE) for byte in range(256)]
        self.ids: dict[str, int] = {}
        self.after: dict[int, int] = {}
        for text, kind in (("<|im_start|>", _Kind.CONTROL), (END_TURN, _Kind.CONTROL), (THINK, _Kind.USER)):
            self.add(text, kind)
        self.add(END_THINK)

    def add(self, text: str, kind: _Kind = _Kind.USER) -> int:
        """The id of a token, new or known."""
        if text not in self.ids:
            self.ids[text] = len(self.tokens)
            self.tokens.append((text, kind))
        return self.ids[text]

    def spell(self, word: str) -> list[int]:
        """The tokens of one word of a script."""
        if word.startswith("bytes:"):
            return [self._first_byte + byte for byte in word.removeprefix("bytes:").encode()]
        return [self.add(word)]

    def chain(self, start: int, words: Iterable[str], end: int | None) -> None:
        """Let the words follow `start`, one after the other, and `end` the last one (None: the first word again)."""
        ids = [token for word in words for token in self.spell(word)]
        for token, successor in zip([start, *ids], [*ids, ids[0] if end is None else end], strict=True):
            self.after[token] = successor


def write_model(path: Path, scripts: Mapping[str, Script], answer: Sequence[str], *, width: int = 0) -> Path:
    """Write a model to `path` that thinks by its scripts and says `answer` when thinking ends.

    An answer that ends in `<think>` opens the thinking of the first script again. `width` makes the embedding wider and
    the model slower: 1024 more gives some 500 tokens a second on one core, 2048 some 200, 3072 some 90.
    """
    words = _Vocabulary()
    for name, script in scripts.items():
        marker = words.add(f"<|{name}|>", _Kind.CONTROL)
        words.chain(marker, script.words, None if script.loops else words.add(script.then))
    words.chain(words.ids[END_THINK], answer, words.ids[END_TURN])
    words.after[words.ids[THINK]] = words.after[words.ids[f"<|{next(iter(scripts))}|>"]]
    dimension = -(-(len(words.tokens) + width) // _HEAD_WIDTH) * _HEAD_WIDTH
    pairs = [*_architecture(dimension, len(words.tokens)), *_tokenizer(words)]
    tensors = _tensors(words, dimension)
    head, offset = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs)) + b"".join(pairs)), 0
    for name, shape, data in tensors:
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, offset)
        offset += len(_padded(data))
    path.write_bytes(_padded(bytes(head)) + b"".join(_padded(data) for _, _, data in tensors))
    return path


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _pair(key: str, kind: _Type, value: bytes) -> bytes:
    return _text(key) + struct.pack("<I", kind) + value


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNMENT)


def _floats(values: Sequence[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def _architecture(dimension: int, tokens: int) -> list[bytes]:
    heads = dimension // _HEAD_WIDTH
    numbers = {
        "context_length": 16384,
        "embedding_length": dimension,
        "block_count": 1,
        "feed_forward_length": _HEAD_WIDTH,
        "attention.head_count": heads,
        "attention.head_count_kv": heads,
        "rope.dimension_count": _HEAD_WIDTH,
        "vocab_size": tokens,
    }
    return [
        _pair("general.architecture", _Type.TEXT, _text("llama")),
        _pair("general.file_type", _Type.U32, struct.pack("<I", 0)),
        *(_pair(f"llama.{key}", _Type.U32, struct.pack("<I", value)) for key, value in numbers.items()),
        _pair("llama.attention.layer_norm_rms_epsilon", _Type.F32, _floats([1e-5])),
    ]


def _tokenizer(words: _Vocabulary) -> list[bytes]:
    count = len(words.tokens)
    texts = b"".join(_text(text) for text, _ in words.tokens)
    kinds = struct.pack(f"<{count}i", *(kind for _, kind in words.tokens))
    special = {"bos_token_id": 1, "eos_token_id": words.ids[END_TURN], "unknown_token_id": 0}
    switches = ("add_bos_token", "add_eos_token", "add_space_prefix")

    def key(name: str) -> str:
        return f"tokenizer.ggml.{name}"

    return [
        _pair(key("model"), _Type.TEXT, _text("llama")),
        _pair(key("tokens"), _Type.ARRAY, struct.pack("<IQ", _Type.TEXT, count) + texts),
        _pair(key("scores"), _Type.ARRAY, struct.pack("<IQ", _Type.F32, count) + _floats([0.0] * count)),
        _pair(key("token_type"), _Type.ARRAY, struct.pack("<IQ", _Type.I32, count) + kinds),
        *(_pair(key(name), _Type.U32, struct.pack("<I", value)) for name, value in special.items()),
        *(_pair(key(name), _Type.BOOL, b"\0") for name in switches),
    ]


def _tensors(words: _Vocabulary, dimension: int) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Name, shape (columns first) and data of each tensor. All zeros in the block: it hands on what it gets."""
    rows, square, inner = len(words.tokens), (dimension, dimension), (dimension, _HEAD_WIDTH)
    ones = _floats([1.0] * dimension)
    shapes = {f"attn_{name}": square for name in ("q", "k", "v", "output")}
    shapes |= {"ffn_gate": inner, "ffn_up": inner, "ffn_down": inner[::-1]}
    return [
        ("token_embd.weight", (dimension, rows), _sparse(rows, dimension, {(n, n): 1.0 for n in range(rows)})),
        ("output.weight", (dimension, rows), _sparse(rows, dimension, {(b, a): 10.0 for a, b in words.after.items()})),
        ("output_norm.weight", (dimension,), ones),
        ("blk.0.attn_norm.weight", (dimension,), ones),
        ("blk.0.ffn_norm.weight", (dimension,), ones),
        *((f"blk.0.{name}.weight", shape, bytes(4 * shape[0] * shape[1])) for name, shape in shapes.items()),
    ]


def _sparse(rows: int, columns: int, cells: Mapping[tuple[int, int], float]) -> bytes:
    matrix = bytearray(4 * rows * columns)
    for (row, column), value in cells.items():
        struct.pack_into("<f", matrix, 4 * (row * columns + column), value)
    return bytes(matrix)
