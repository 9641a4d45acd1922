"""Tokenizers, by the byte or of a file: text becomes tokens, and these become the text again."""

import dataclasses
import importlib.util
import json
import pathlib
import pickle
from collections.abc import Sequence

import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.data.preprocessing.tokenizers import ByteTokenizer, open_tokenizer, require_same, unknown_in
from pipeline.data.schema.feature_types import Tokens


def test_bytes_come_back_from_their_tokens():
    tokenizer = ByteTokenizer()
    [tokens] = tokenizer.encode(["Zürich\n"])
    assert tokens[:2].tolist() == [ord("Z") + 3, 0xC3 + 3]
    assert tokenizer.decode(tokens.tolist()) == "Zürich\n"


def test_half_a_character_and_special_tokens_have_no_text():
    assert ByteTokenizer().decode([0, ord("a") + 3, 0xC3 + 3, 1]) == "a\ufffd"


@dataclasses.dataclass(frozen=True)
class Letters:
    """A tokenizer of the letters a to c; of others it writes `unknown`, or drops them."""

    unknown: int | None = None

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        ids = (["abc".find(letter) for letter in text if letter != " "] for text in texts)
        return [np.array([self._id(at) for at in each if self._id(at) is not None], np.int32) for each in ids]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join("abc?"[token] for token in tokens)

    def _id(self, at: int) -> int | None:
        return at if at >= 0 else self.unknown


def test_text_that_a_tokenizer_does_not_know_is_told():
    texts = ["ab ba", "caf\u00e9 \u65e5"]
    assert unknown_in(Letters(), texts) == "it drops 3 of 6 characters, such as 'f', '\u00e9', '\u65e5'"
    assert unknown_in(Letters(unknown=3), texts) == "33.33% of the tokens stand for what it does not know"
    assert not unknown_in(Letters(), texts[:1]) and not unknown_in(Letters(unknown=3), texts[:1])
    assert not unknown_in(ByteTokenizer(), texts) and not unknown_in(ByteTokenizer(), [])


BY_BYTES = Tokens(name="tokens", length=8, vocabulary_size=259, tokenizer="bytes")


def test_another_tokenizer_than_the_schemas_is_refused():
    require_same(ByteTokenizer(), BY_BYTES)
    require_same(ByteTokenizer(), dataclasses.replace(BY_BYTES, tokenizer=""))  # of an old schema
    of_file = dataclasses.replace(BY_BYTES, tokenizer="words.json", tokenizer_digest="ab" * 32)
    with pytest.raises(InputError, match=r"received bytes; expected .*: words\.json with SHA-256 abab"):
        require_same(ByteTokenizer(), of_file)


# Tokenizers from files; their libraries are optional.
WORDS = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "Whitespace"},
    "model": {"type": "WordLevel", "vocab": {"<unk>": 0, "</s>": 1, "water": 2}, "unk_token": "<unk>"},
}


def test_the_tokenizer_of_hugging_face(tmp_path: pathlib.Path):
    pytest.importorskip("tokenizers", reason="the library 'tokenizers' is optional")
    (tmp_path / "tokenizer.json").write_text(json.dumps(WORDS))
    tokenizer = pickle.loads(pickle.dumps(open_tokenizer(str(tmp_path / "tokenizer.json"))))
    assert (tokenizer.size, tokenizer.end) == (3, 1)
    assert [ids.tolist() for ids in tokenizer.encode(["water wine"])] == [[2, 0]]
    assert (tokenizer.name, len(tokenizer.digest)) == ("tokenizer.json", 64)
    assert tokenizer.decode([2, 2]) == "water water"
    assert tokenizer.unknown == 0
    without = {**WORDS, "model": {"type": "WordLevel", "vocab": {"water": 0}, "unk_token": "<unk>"}}
    (tmp_path / "without.json").write_text(json.dumps(without))
    with pytest.raises(InputError, match="received text that it cannot encode"):
        open_tokenizer(str(tmp_path / "without.json")).encode(["wine"])


def test_what_a_file_says_of_truncation_and_padding_is_switched_off(tmp_path: pathlib.Path):
    pytest.importorskip("tokenizers", reason="the library 'tokenizers' is optional")
    cut = {"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0}
    padded = {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": None}
    padded |= {"pad_id": 0, "pad_type_id": 0, "pad_token": "<unk>"}
    (tmp_path / "t.json").write_text(json.dumps(WORDS | {"truncation": cut, "padding": padded}))
    tokenizer = pickle.loads(pickle.dumps(open_tokenizer(str(tmp_path / "t.json"))))
    assert [ids.tolist() for ids in tokenizer.encode(["water " * 4, "water"])] == [[2] * 4, [2]]
    told = "t.json asks for truncation to 2 tokens and padding: switched off, so that texts stay whole."
    assert tokenizer.remarks == [told]
    (tmp_path / "plain.json").write_text(json.dumps(WORDS))
    assert not open_tokenizer(str(tmp_path / "plain.json")).remarks


@pytest.mark.parametrize(("name", "library"), [("t.json", "tokenizers"), ("t.model", "sentencepiece")])
def test_without_its_library_a_tokenizer_says_what_to_install(
    tmp_path: pathlib.Path, name: str, library: str
):
    if importlib.util.find_spec(library):
        pytest.skip(f"'{library}' is installed")
    (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match=f"pip install {library}"):
        open_tokenizer(str(tmp_path / name))


@pytest.mark.parametrize("name", ["words.txt", "nowhere.json"])
def test_what_is_no_tokenizer_is_refused(name: str):
    with pytest.raises(InputError, match="'bytes', a tokenizer"):
        open_tokenizer(name)
