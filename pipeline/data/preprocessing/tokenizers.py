"""Tokenizers: text → token ids and back. Workers of convert import this file, so it has no TensorFlow."""

import dataclasses
import functools
import hashlib
import importlib
import json
import pathlib
import types
import unicodedata
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from pipeline.base import files
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Tokens

BYTES = "bytes"
PADDING = 0  # the token and the segment where a row is padded
_FLAG = "--tokenizer"
_SHOWN = 5  # characters
# How the usual tokenizers spell the end of a document.
_ENDS = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "[SEP]")

Read = Callable[[str], bytes]  # a path → the content of its file


class Tokenizer(Protocol):
    """Instances are pickled to the workers.

    `name` and `digest` (SHA-256; empty for bytes) are what a schema remembers. `end` closes each document;
    None: there is no such token. `unknown` stands for text that no other token is for; where there is none, a
    tokenizer may drop that text. `remarks` say which settings of the tokenizer's file are not followed.
    """

    @property
    def name(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def end(self) -> int | None: ...
    @property
    def unknown(self) -> int | None: ...
    @property
    def remarks(self) -> Sequence[str]: ...

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns int32 [tokens] for each text, without `end`."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of the tokens; what is no text in them becomes U+FFFD."""


@dataclasses.dataclass(frozen=True)
class ByteTokenizer:
    """UTF-8 bytes, numbered as ByT5 does: 0 padding, 1 end, 2 unknown (never used), then byte + 3.

    ByT5: https://arxiv.org/abs/2105.13626
    """

    name: str = BYTES
    digest: str = ""
    size: int = 259
    end: int = 1
    unknown: int | None = None  # it is never used
    remarks: tuple[str, ...] = ()

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.frombuffer(text.encode(), np.uint8).astype(np.int32) + 3 for text in texts]

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(token - 3 for token in tokens if token >= 3).decode(errors="replace")


@dataclasses.dataclass(frozen=True)
class _FileTokenizer:
    """A tokenizer of a file. `read` stays with the path: each worker reads the file itself."""

    path: str
    read: Read
    remarks = ()

    @property
    def name(self) -> str:
        return pathlib.PurePath(self.path).name

    @functools.cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.read(self.path)).hexdigest()

    def __getstate__(self) -> dict:
        return {"path": self.path, "read": self.read}


@dataclasses.dataclass(frozen=True)
class _SentencePieceTokenizer(_FileTokenizer):
    """A `.model` file of SentencePiece."""

    @functools.cached_property
    def _processor(self) -> object:
        library = _imported("sentencepiece", self.path)
        return library.SentencePieceProcessor(model_proto=self.read(self.path))

    @property
    def size(self) -> int:
        return self._processor.get_piece_size()

    @property
    def end(self) -> int | None:
        end = self._processor.eos_id()
        return None if end < 0 else end

    @property
    def unknown(self) -> int | None:
        return self._processor.unk_id()

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array(ids, np.int32) for ids in self._processor.encode(list(texts))]

    def decode(self, tokens: Sequence[int]) -> str:
        return self._processor.decode(list(map(int, tokens)))


@dataclasses.dataclass(frozen=True)
class _HuggingFaceTokenizer(_FileTokenizer):
    """A `tokenizer.json` of Hugging Face's tokenizers. What its post-processor would add is left out, and so
    are truncation and padding, which would lose text and add tokens that nobody wrote.
    """

    @functools.cached_property
    def _tokenizer(self) -> object:
        tokenizer = self._as_saved()
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer

    def _as_saved(self) -> object:
        library = _imported("tokenizers", self.path)
        return library.Tokenizer.from_str(self.read(self.path).decode())

    @property
    def remarks(self) -> Sequence[str]:
        saved = self._as_saved()
        cut = saved.truncation
        off = [f"truncation to {cut['max_length']:,} tokens"] if cut else []
        off += ["padding"] if saved.padding else []
        asked = " and ".join(off)
        return [f"{self.name} asks for {asked}: switched off, so that texts stay whole."] if off else ()

    @property
    def size(self) -> int:
        return self._tokenizer.get_vocab_size()

    @functools.cached_property
    def end(self) -> int | None:
        ids = map(self._tokenizer.token_to_id, _ENDS)
        return next((end for end in ids if end is not None), None)

    @functools.cached_property
    def unknown(self) -> int | None:
        model = json.loads(self.read(self.path))["model"]
        token = model.get("unk_token")
        return model.get("unk_id") if token is None else self._tokenizer.token_to_id(token)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        try:
            encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        except Exception as error:  # the library raises bare exceptions
            raise InputError(
                f"{_FLAG}={self.path}",
                received=f"text that it cannot encode ({' '.join(str(error).split())[:200]})",
                expected="a tokenizer that has tokens for any text",
                action=f"Give it a token for unknown text, or write {_FLAG}={BYTES}.",
            ) from None
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def decode(self, tokens: Sequence[int]) -> str:
        return self._tokenizer.decode(list(map(int, tokens)))


_KINDS = {".json": _HuggingFaceTokenizer, ".model": _SentencePieceTokenizer}


def open_tokenizer(name: str, *, read: Read = files.read_bytes) -> Tokenizer:
    """Opens `bytes`, or a file: `.json` of Hugging Face, `.model` of SentencePiece; raises InputError."""
    if name == BYTES:
        return ByteTokenizer()
    kind = next((kind for suffix, kind in _KINDS.items() if name.endswith(suffix)), None)
    if kind is None or not _is_there(name, read):
        raise InputError(
            f"{_FLAG}={name}",
            received="no such file" if kind else "neither of the known kinds",
            expected=f"'{BYTES}', a tokenizer.json of Hugging Face or a .model of SentencePiece",
            action=f"Correct the path. Or write {_FLAG}={BYTES}, which needs no file.",
        )
    tokenizer = kind(name, read)
    try:
        _ = tokenizer.size
    except InputError:
        raise
    except Exception as error:  # both libraries raise bare exceptions
        raise InputError(
            f"{_FLAG}={name}",
            received=f"a file that does not load ({' '.join(str(error).split())[:200]})",
            expected="a tokenizer.json of Hugging Face or a .model of SentencePiece",
            action="Check the file.",
        ) from None
    return tokenizer


def unknown_in(tokenizer: Tokenizer, texts: Sequence[str]) -> str:
    """Says what of some texts a tokenizer has no token for; empty where it has one for all."""
    if tokenizer.unknown is not None:
        ids = np.concatenate([np.zeros(0, np.int32), *tokenizer.encode(texts)])
        share = np.mean(ids == tokenizer.unknown) if len(ids) else 0.0
        return f"{share:.2%} of the tokens stand for what it does not know" if share else ""
    characters = sorted({character for text in texts for character in text if character.isprintable()})
    characters = [each for each in characters if not each.isspace() and not unicodedata.combining(each)]
    written = map(tokenizer.decode, (ids.tolist() for ids in tokenizer.encode(characters)))
    dropped = [each for each, text in zip(characters, written, strict=True) if not text.strip()]
    shown = ", ".join(map(repr, dropped[:_SHOWN]))
    return f"it drops {len(dropped):,} of {len(characters):,} characters, such as {shown}" if dropped else ""


def require_same(tokenizer: Tokenizer, tokens: Tokens) -> None:
    """Raises InputError where another tokenizer made the tokens, as far as their schema says."""
    made_by, given = (tokens.tokenizer, tokens.tokenizer_digest), (tokenizer.name, tokenizer.digest)
    is_same = made_by[1] == given[1] if made_by[1] else made_by == given
    if tokens.tokenizer and not is_same:
        raise InputError(
            f"{_FLAG}={tokenizer.name}",
            received=_described(*given),
            expected=f"what the schema's '{tokens.name}' are made with: {_described(*made_by)}",
            action="Give that one, or propose a schema for this one with infer_schema.",
        )


def _described(name: str, digest: str) -> str:
    return f"{name} with SHA-256 {digest[:12]}…" if digest else name


def _is_there(name: str, read: Read) -> bool:
    try:
        read(name)
    except Exception:  # each file system has errors of its own
        return False
    return True


def _imported(library: str, path: str) -> types.ModuleType:
    try:
        return importlib.import_module(library)
    except ImportError:
        raise InputError(
            f"{_FLAG}={path}",
            received=f"no library '{library}' to read it with",
            expected=f"'{library}', which is not installed by default",
            action=f"Run `pip install {library}`, here and where the workers run.",
        ) from None
