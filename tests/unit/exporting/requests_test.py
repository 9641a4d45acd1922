"""Requests are stored as they were recorded, the same bytes each time, and damage is named."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from pipeline.base import documents
from pipeline.base.errors import InputError
from pipeline.exporting import requests as requests_lib
from pipeline.exporting.recording import record
from pipeline.exporting.signatures import signatures
from tests.shared.people import ROWS, SCHEMA
from tests.shared.tiny_dataset import serialize


@pytest.mark.slow
def test_every_size_of_batch_is_asked_through_both_signatures(requests):
    asked = [(call.signature, call.rows) for call in requests.calls]
    assert asked == [(name, rows) for rows in (0, 1, 7, 40) for name in ("serving_default", "raw")]
    assert [call.outputs["probabilities"].shape for call in requests.calls[::2]] == [
        (rows, 2) for rows in (0, 1, 7, 40)
    ]


def test_raw_columns_are_those_of_the_rows(requests):
    raw = requests.calls[-1].inputs
    np.testing.assert_array_equal(raw["age"], np.array([row["age"] for row in ROWS[60:]], np.float32))
    assert list(raw["work"]) == [row["work"].encode() for row in ROWS[60:]]
    assert any(math.isnan(age) for age in raw["age"])


def test_answers_are_those_of_the_graph(trained, requests):
    """Of a function that was traced apart from the one that recorded them."""
    serve = signatures(trained.model, trained.preprocess, SCHEMA)["serving_default"]
    examples = tf.constant([serialize(SCHEMA, row) for row in ROWS[60:]])
    expected = serve(examples)["probabilities"].numpy()
    assert requests.calls[-2].outputs["probabilities"].tobytes() == expected.tobytes()


def test_what_is_declared_follows_from_the_schema(requests):
    outputs = {"probabilities": ["float32", [None, 2]]}
    assert requests.declared == {
        "serving_default": {"inputs": {"examples": ["string", [None]]}, "outputs": outputs},
        "raw": {
            "inputs": {
                "age": ["float32", [None]],
                "work": ["string", [None]],
                "kind": ["string", [None]],
            },
            "outputs": outputs,
        },
    }


def test_saving_what_was_loaded_gives_the_same_bytes(exported, requests, tmp_path):
    requests_lib.save(requests, tmp_path)
    for name in ("requests.tfrecord", "requests.json"):
        assert (tmp_path / name).read_bytes() == (exported / name).read_bytes()


def test_few_examples_are_asked_with_once(trained):
    functions = signatures(trained.model, trained.preprocess, SCHEMA)
    examples = tf.constant([serialize(SCHEMA, row) for row in ROWS[:1]])
    found = record(functions, examples, schema=SCHEMA, model=trained.model)
    assert [call.rows for call in found.calls] == [0, 0, 1, 1]
    assert found.tolerance == 8 * 2.0**-8  # the model computes in bfloat16


def test_without_an_example_there_is_nothing_to_record(trained):
    with pytest.raises(InputError, match="received no examples; expected one or more"):
        record({}, tf.constant([], tf.string), schema=SCHEMA, model=trained.model)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("requests.tfrecord", b"", "has another SHA-256"),
        ("requests.tfrecord", None, "No such file"),
        ("requests.json", b"{", "Expecting property name"),
        ("requests.json", b"[]", "get"),
        ("requests.json", None, "No such file"),
    ],
)
def test_damage_is_named(name, content, told, requests, tmp_path):
    requests_lib.save(requests, tmp_path)
    (tmp_path / name).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=rf"recorded requests .*{told}.*Restore both from a copy"):
        requests_lib.load(tmp_path)


def test_an_unknown_format_is_named(requests, tmp_path):
    requests_lib.save(requests, tmp_path)
    document = json.loads((tmp_path / "requests.json").read_text())
    later = documents.with_digest({**document, "format": "penstock.requests/2"})
    (tmp_path / "requests.json").write_text(json.dumps(later))
    with pytest.raises(InputError, match=r"format 'penstock.requests/2' in place of 'penstock.requests/1'"):
        requests_lib.load(tmp_path)
