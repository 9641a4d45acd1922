"""Tokenizers from files; their libraries are optional."""

import importlib.util
import json
import pathlib
import pickle

import pytest

from beam_jobs.sources.tokens import open_tokenizer
from pipeline.base.errors import InputError

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
