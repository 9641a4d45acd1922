"""What is shown of a step: ugly names and values stay text, pictures are the pixels, JSON is JSON."""

import base64
import dataclasses
import io
import json
import math
import re

import numpy as np
import PIL.Image
import pytest

from pipeline.data.origins.files import Origin
from pipeline.data.origins.reader import RawRow
from pipeline.data.schema import times
from pipeline.data.schema.feature_types import (
    Categorical,
    Datetime,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from pipeline.data.schema.schema import Schema
from pipeline.report import html, terminal
from pipeline.training.replay import render
from pipeline.training.replay.evaluator import Weights
from pipeline.training.replay.format import format_value
from pipeline.training.replay.step import Example, Partner, ReplayedStep
from pipeline.training.replay.stream import Record
from tests.shared import pictures

HOSTILE = "<script>alert('x')</script>"
SCHEMA = Schema(
    name="ugly",
    features=(
        Categorical(name=f"größe & {HOSTILE}", encoding="hashed", buckets=8),
        Text(name="free text"),
        Image(name="image", height=5, width=4, channels=1),
        Tensor(name="long list", dimensions=(600,)),
        Label(name="is it?", classes=("no", HOSTILE)),
    ),
)
PIXELS = pictures.noise(5, 4)
OTHER = {"is it?": np.asarray(0), "image": np.asarray(pictures.encode(255 - PIXELS, "PNG"))}  # of a partner


@pytest.fixture(scope="module")
def step() -> ReplayedStep:
    values = {
        f"größe & {HOSTILE}": HOSTILE.encode(),
        "free text": b"line\nbreak \x1b[2J\xff\xfe" + b"long " * 500,
        "image": pictures.encode(PIXELS, "PNG"),
        "long list": np.arange(600, dtype=np.float32),
        "is it?": np.int64(1),
    }
    record = Record(
        position=17,
        epoch=1,
        dataset="/data/ugly",
        split="train",
        file="ugly-train.tfrecord-00000-of-00001",
        ordinal=3,
        row=None,
        part=0,
        number=3,
    )
    example = Example(
        index=1,
        record=record,
        loss=math.inf,
        prediction=np.array([0.75, 0.25], np.float32),
        features={name: np.asarray(value) for name, value in values.items()},
        inputs={"image": PIXELS[..., None] // 2},
        raw=RawRow(
            origin=Origin(f"a\n{HOSTILE}.csv", 1234),
            folder="/raw/",
            is_line=True,
            text=f"{HOSTILE},\n\x1b[2J,1",
        ),
    )
    return ReplayedStep(
        step=4,
        epoch=1,
        first_position=16,
        weights=Weights(step=3),
        losses=np.array([0.5, math.inf, math.nan, 1.5], np.float32),
        examples=(example,),
    )


def lines(step: ReplayedStep) -> list[str]:
    return terminal.render(render.step_sections(step, SCHEMA, run="run", total_steps=9)).splitlines()


def page(step: ReplayedStep, run: str = "run") -> str:
    head, *sections = render.step_sections(step, SCHEMA, run=run, total_steps=9)
    return html.page(head, sections)


def test_the_weight_of_what_an_example_is_mixed_with_is_told(step):
    (example,) = step.examples
    partner = Partner(index=0, record=example.record, features=OTHER, share=0.25, weight=4.5)
    mixed = dataclasses.replace(step, examples=(dataclasses.replace(example, partner=partner),))
    assert "75.0% no of weight 4.5 (ugly-train" in page(mixed)
    assert render.step_json(mixed, SCHEMA)["examples"][0]["mixed_with"]["weight"] == 4.5


def test_what_an_example_is_mixed_with_is_told_everywhere(step):
    (example,) = step.examples
    other = dataclasses.replace(example.record, position=16, ordinal=88)
    partner = Partner(index=0, record=other, features=OTHER, share=0.625)
    mixed = dataclasses.replace(step, examples=(dataclasses.replace(example, partner=partner),))
    text = "62.5% itself, 37.5% no (ugly-train.tfrecord-00000-of-00001, record 88)"
    assert ["mixed", text] in [line.split(maxsplit=1) for line in lines(mixed)]
    assert text in page(mixed)
    assert render.step_json(mixed, SCHEMA)["examples"][0]["mixed_with"] == {
        "index": 0,
        "share_of_example": 0.625,
        "label": "no",
        "position": 16,
        "dataset": other.dataset,
        "split": "train",
        "file": other.file,
        "record": 88,
        "row": None,
    }
    assert "mixed" not in str(render.step_json(step, SCHEMA))


def test_the_picture_that_is_mixed_in_is_shown_as_stored_too(step):
    (example,) = step.examples
    partner = Partner(index=0, record=example.record, features=OTHER, share=0.625)
    mixed = dataclasses.replace(step, examples=(dataclasses.replace(example, partner=partner),))
    html = page(mixed)
    assert re.findall(r'alt="([^"]+)"', html) == ["as stored", "mixed with", "as the model got it"]
    shown = re.findall(r"data:image/png;base64,([^\"']+)", html)
    read = [np.asarray(PIL.Image.open(io.BytesIO(base64.b64decode(each)))) for each in shown]
    np.testing.assert_array_equal(read, [PIXELS, 255 - PIXELS, PIXELS // 2])


def test_the_prediction_of_both_labels_is_told_where_neither_is_the_likeliest(step):
    schema = Schema(name="three", features=(Label(name="y", classes=("a", "b", "c"), task="multiclass"),))
    plain = dataclasses.replace(
        step.examples[0], features={"y": np.asarray(1)}, prediction=np.array([0.5, 0.375, 0.125], np.float32)
    )
    partner = Partner(index=0, record=plain.record, features={"y": np.asarray(2)}, share=0.625)
    mixed = dataclasses.replace(plain, partner=partner)
    assert render.prediction(plain, schema.label) == "a 0.5000, b 0.3750"
    assert render.prediction(mixed, schema.label) == "a 0.5000, b 0.3750, c 0.1250"


def test_the_terminal_has_short_lines_and_all_that_matters(step):
    shown = lines(step)
    assert max(map(len, shown)) < 350
    text = "\n".join(shown)
    assert "Step 4 of 9" in text
    assert "epoch 1, positions 16 to 19" in text
    assert "2 not finite, mean 1, median 1, largest 1.5" in text
    assert "ugly-train.tfrecord-00000-of-00001, record 3" in text
    assert "no 0.7500" in text
    assert rf"raw row       a\n{HOSTILE}.csv line 1,234" in text
    assert rf"  {HOSTILE},\n" in text
    assert r"line\nbreak \x1b[2J\xff\xfelong" in text
    assert "(600 numbers)" in text


def test_the_page_runs_nothing_of_the_data(step):
    html = page(step, run=HOSTILE)
    assert "<script" not in html
    assert html.count("&lt;script&gt;") >= 6  # name, value, label, run, raw file, raw text


def test_the_page_has_the_raw_row_in_full(step):
    html = page(step)
    assert "line 1,234<small>in /raw/</small>" in html
    assert re.search(r"<pre>.*script&gt;,", html)
    unknown = dataclasses.replace(step, examples=(dataclasses.replace(step.examples[0], raw=None),))
    assert "raw row" not in page(unknown)


def test_the_page_shows_the_stored_image_and_the_augmented_pixels(step):
    html = page(step)
    stored, augmented = (base64.b64decode(each) for each in re.findall(r"base64,([^\"]+)", html))
    np.testing.assert_array_equal(pictures.decode(stored, "L"), PIXELS)
    np.testing.assert_array_equal(np.asarray(PIL.Image.open(io.BytesIO(augmented))), PIXELS // 2)


def test_json_is_json_whatever_a_loss_or_a_text_is(step):
    text = json.dumps(render.step_json(step, SCHEMA), allow_nan=False)
    read = json.loads(text)
    assert read["losses"] == [0.5, "inf", "nan", 1.5]
    (example,) = read["examples"]
    assert example["raw"] == {
        "folder": "/raw/",
        "file": f"a\n{HOSTILE}.csv",
        "row": 1234,
        "text": f"{HOSTILE},\n\x1b[2J,1",
    }
    assert (example["file"], example["record"], example["row"]) == (
        "ugly-train.tfrecord-00000-of-00001",
        3,
        None,
    )
    assert example["features"]["free text"].startswith("line\nbreak \x1b[2J\\xff\\xfe")


@pytest.mark.parametrize(
    ("feature", "value", "text"),
    [
        (Numeric(name="a"), np.float32(0.1), "0.1"),
        (Numeric(name="a"), np.float32(1e30), "1e+30"),
        (Numeric(name="a", missing="mark"), np.float32("nan"), "(missing)"),
        (Numeric(name="a", offset=-73.9), np.float32(-0.08713), "-73.98713"),
        (Numeric(name="a", number="int64"), np.int64(1 << 60), "1152921504606846976"),
        (Categorical(name="a", vocabulary=("x",)), np.asarray(b""), "(empty)"),
        (Categorical(name="a", vocabulary=("x",), missing="mark"), np.asarray(b""), "(missing)"),
        (Categorical(name="a", encoding="integer", size=3), np.int64(2), "2"),
        (Text(name="a"), np.asarray("größe".encode()), "größe"),
        (Label(name="a", classes=("no", "yes")), np.int64(1), "yes"),
        (Label(name="a", task="regression"), np.float32(2.5), "2.5"),
        (Tokens(name="a", length=3, vocabulary_size=9), np.array([1, 2, 3]), "1 2 3"),
        (Datetime(name="a", zone="Europe/Zurich"), np.int64(0), "1970-01-01 01:00:00+01:00"),
        (Datetime(name="a", missing="mark"), np.int64(times.NOT_A_TIME), "(missing)"),
        (Image(name="a"), np.asarray(b"\x89PNG1234"), "PNG, 8 bytes"),
    ],
)
def test_values_are_written_as_the_raw_data_had_them(feature, value, text: str):
    assert format_value(feature, np.asarray(value)) == text
