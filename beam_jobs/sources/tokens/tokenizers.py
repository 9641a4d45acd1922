"""Text → token ids: bytes, or the tokenizer in a file that SentencePiece or Hugging Face wrote."""

import dataclasses
import functools
import importlib
import types
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from apache_beam.io.filesystems import FileSystems

from pipeline.data.errors import InputError

BYTES = "bytes"
PADDING = 0  # the token and the segment where a row is padded
# How the usual tokenizers spell the end of a document.
_ENDS = ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>", "[SEP]")


class Tokenizer(Protocol):
    """Instances are pickled to the workers. `end` closes each document; None: there is no such token."""

    @property
    def size(self) -> int: ...
    @property
    def end(self) -> int | None: ...

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """int32 [tokens] for each text, without `end`."""


@dataclasses.dataclass(frozen=True)
class ByteTokenizer:
    """UTF-8 bytes, numbered as ByT5 does: 0 padding, 1 end, 2 unknown (never used), then byte + 3.

    ByT5: https://arxiv.org/abs/2105.13626
    """

    size: int = 259
    end: int = 1

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.frombuffer(text.encode(), np.uint8).astype(np.int32) + 3 for text in texts]


@dataclasses.dataclass(frozen=True)
class _SentencePieceTokenizer:
    """A `.model` file of SentencePiece."""

    path: str

    @functools.cached_property
    def _processor(self) -> object:
        library = _imported("sentencepiece", self.path)
        return library.SentencePieceProcessor(model_proto=_read(self.path))

    @property
    def size(self) -> int:
        return self._processor.get_piece_size()

    @property
    def end(self) -> int | None:
        end = self._processor.eos_id()
        return None if end < 0 else end

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        return [np.array(ids, np.int32) for ids in self._processor.encode(list(texts))]

    def __getstate__(self) -> dict:
        return {"path": self.path}  # each worker reads the file


@dataclasses.dataclass(frozen=True)
class _HuggingFaceTokenizer:
    """A `tokenizer.json` of Hugging Face's tokenizers. What its post-processor would add is left out."""

    path: str

    @functools.cached_property
    def _tokenizer(self) -> object:
        library = _imported("tokenizers", self.path)
        return library.Tokenizer.from_str(_read(self.path).decode())

    @property
    def size(self) -> int:
        return self._tokenizer.get_vocab_size()

    @functools.cached_property
    def end(self) -> int | None:
        ids = map(self._tokenizer.token_to_id, _ENDS)
        return next((end for end in ids if end is not None), None)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [np.array(encoding.ids, np.int32) for encoding in encodings]

    def __getstate__(self) -> dict:
        return {"path": self.path}  # each worker reads the file


def open_tokenizer(name: str) -> Tokenizer:
    """`bytes`, or a file: `.json` of Hugging Face, `.model` of SentencePiece; raises InputError."""
    if name == BYTES:
        return ByteTokenizer()
    kinds = {".json": _HuggingFaceTokenizer, ".model": _SentencePieceTokenizer}
    kind = next((kind for suffix, kind in kinds.items() if name.endswith(suffix)), None)
    if kind is None or not FileSystems.exists(name):
        raise InputError(
            f"--tokenizer={name}",
            received="no such file" if kind else "neither of the known kinds",
            expected=f"'{BYTES}', a tokenizer.json of Hugging Face or a .model of SentencePiece",
            action="Correct the path.",
        )
    tokenizer = kind(name)
    try:
        _ = tokenizer.size
    except InputError:
        raise
    except Exception as error:  # both libraries raise bare exceptions
        raise InputError(
            f"--tokenizer={name}",
            received=f"a file that does not load ({' '.join(str(error).split())[:200]})",
            expected="a tokenizer.json of Hugging Face or a .model of SentencePiece",
            action="Check the file.",
        ) from None
    return tokenizer


def _imported(library: str, path: str) -> types.ModuleType:
    try:
        return importlib.import_module(library)
    except ImportError:
        raise InputError(
            f"--tokenizer={path}",
            received=f"no library '{library}' to read it with",
            expected=f"'{library}', which is not installed by default",
            action=f"Run `pip install {library}`, here and where the workers run.",
        ) from None


def _read(path: str) -> bytes:
    with FileSystems.open(path, compression_type="uncompressed") as file:
        return file.read()
