"""A replay as one HTML page that needs nothing but itself: images as stored, and as the model got them."""

import base64
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from pipeline.base.errors import printable
from pipeline.data.images.pixels import RESCALING
from pipeline.data.origins.reader import RawRow
from pipeline.data.schema.feature_types import Image
from pipeline.data.schema.schema import Schema
from pipeline.report import formats
from pipeline.report.html import Markup, definitions, document, folded, join, tag
from pipeline.training.replay import format
from pipeline.training.replay.format import told
from pipeline.training.replay.step import Example, ReplayedStep, Spike, Spikes
from pipeline.training.replay.stream import RawFeatures

_MOST_OPEN = 24  # features of an example; the rest is folded away
_CHARACTERS = 300  # of a value
_OWN_STYLE = Markup(
    ".pictures{display:flex;flex-wrap:wrap;gap:16px;margin:8px 0}"
    ".pictures img{display:block;height:168px;max-width:100%;object-fit:contain;image-rendering:pixelated;"
    "background:var(--code);border-radius:6px}"
    ".pictures figcaption{margin:4px 0 0}"
    ".raw{overflow-wrap:anywhere;white-space:pre-wrap}dd{white-space:pre-wrap}"
)


def of_step(step: ReplayedStep, schema: Schema, *, run: str, total_steps: int) -> Markup:
    """The page of one step; `run` names the run."""
    title = f"Step {step.step:,} of {total_steps:,}"
    header = tag(
        "header",
        tag("h1", title),
        _tiles(step),
        tag("p", f"{run} · {format.place_of_step(step)}", class_="origin"),
        _judged(step),
    )
    return _page(title, header, *_examples(step, schema))


def of_spikes(spikes: Spikes, schema: Schema, *, run: str) -> Markup:
    """The page of the steps whose loss jumped."""
    header = tag("header", tag("h1", "Steps whose loss jumped"), tag("p", run, class_="origin"))
    found = [part for spike in spikes.found for part in _spike(spike, schema)]
    none = tag("section", tag("p", format.no_jump(spikes))) if not spikes.found else None
    more = tag("p", format.left_out(spikes), class_="note") if spikes.left_out else None
    return _page("Steps whose loss jumped", header, none, *found, more)


def _page(title: str, header: Markup, *sections: Markup | None) -> Markup:
    return document(title, header, *sections, style=_OWN_STYLE, with_pictures=True)


def _tiles(step: ReplayedStep) -> Markup:
    worst = step.examples[0].loss
    numbers = {"loss of the batch": step.loss, "largest of an example": worst}
    tiles = (
        tag("div", tag("strong", formats.number(value)), tag("span", name), class_="tile")
        for name, value in numbers.items()
    )
    return tag("div", *tiles, class_="tiles")


def _judged(step: ReplayedStep) -> Markup:
    damaged = (tag("p", f"Damaged: {each}", class_="note") for each in step.weights.damaged)
    weighted = format.weighted(step)
    return join(
        tag("p", f"Judged by {step.weights.seen_from(step.step)}.", class_="note"),
        *damaged,
        tag("p", f"{_sentence(weighted)}.", class_="note") if weighted else None,
    )


def _spike(spike: Spike, schema: Schema) -> Iterator[Markup]:
    yield tag(
        "section",
        tag("h2", f"Jump in {format.window(spike.window)}"),
        tag("p", _sentence(format.verdict(spike))),
    )
    for each in spike.steps:
        yield tag("section", tag("h2", _sentence(format.spiked_step(each))), _judged(each.replayed))
        yield from _examples(each.replayed, schema)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _examples(step: ReplayedStep, schema: Schema) -> Iterator[Markup]:
    for rank, example in enumerate(step.examples, 1):
        yield _example(rank, example, schema)


def _example(rank: int, example: Example, schema: Schema) -> Markup:
    said, record = told(example, schema), example.record
    heading = f"{rank}. Loss {formats.number(said.loss)}"
    facts = {
        f"label {schema.label.name}": _short(said.label),
        "predicted": _short(said.prediction),
        **({} if said.weight is None else {"weight": formats.number(said.weight)}),
        "record": join(said.place, tag("small", f"split {record.split} of {record.dataset}")),
        "mixed": _short(said.mixed) or None,
        "raw row": _raw_place(example.raw),
        "in the batch": f"example {example.index:,}, position {record.position:,}",
    }
    return tag(
        "section",
        tag("h2", heading),
        definitions(facts),
        _raw_text(example.raw),
        _pictures(example, schema),
        _features(said.features),
        class_="example-card",
    )


def _raw_place(raw: RawRow | None) -> Markup | None:
    return join(str(raw), tag("small", f"in {printable(raw.folder)}")) if raw else None


def _raw_text(raw: RawRow | None) -> Markup | None:
    """The row as it stands in its file, on a line of its own: it is long."""
    return tag("p", tag("code", _short(printable(raw.text))), class_="raw") if raw and raw.text else None


def _pictures(example: Example, schema: Schema) -> Markup | None:
    shown = {
        "as stored": stored_picture(example.features, schema),
        "mixed with": stored_picture(example.partner.features, schema) if example.partner else None,
        "as the model got it": augmented_picture(example),
    }
    figures = [
        tag("figure", tag("img", src=url, alt=name), tag("figcaption", tag("span", name)))
        for name, url in shown.items()
        if url
    ]
    return tag("div", *figures, class_="pictures") if figures else None


def _features(features: dict[str, str]) -> Markup | None:
    items = [(_short(name), _short(value)) for name, value in features.items()]
    rest = items[_MOST_OPEN:]
    return join(
        tag("h3", "Features, as stored") if items else None,
        definitions(dict(items[:_MOST_OPEN])),
        folded(f"{len(rest):,} more features", definitions(dict(rest))) if rest else None,
    )


def _short(text: str) -> str:
    return formats.shortened(text, _CHARACTERS)


# --- Images of an example as a page shows them: the file as it is stored, and the pixels that the model got.


_LARGEST_STORED = 2 << 20  # 2 MiB: a page of larger ones would take minutes to load
_MEDIA_TYPES = {b"\xff\xd8\xff": "jpeg", b"\x89PNG": "png", b"GIF8": "gif", b"RIFF": "webp", b"BM": "bmp"}


def stored_picture(features: RawFeatures, schema: Schema) -> str | None:
    """The file of an example's image as a data URL; None where there is none, or it is large."""
    images = schema.of_type(Image)
    data = bytes(features[images[0].name][()]) if images else b""
    kinds = [kind for start, kind in _MEDIA_TYPES.items() if data.startswith(start)]
    if not kinds or len(data) > _LARGEST_STORED:
        return None
    return _url(data, kinds[0])


def augmented_picture(example: Example) -> str | None:
    """The pixels that the model got, as the data URL of a PNG; None where it gets no image."""
    pixels = example.inputs.get("image")
    return None if pixels is None else _url(tf.io.encode_png(_as_bytes(pixels)).numpy(), "png")


def _as_bytes(pixels: np.ndarray) -> np.ndarray:
    """uint8 [height, width, channels] of what may have been scaled on the host."""
    if pixels.dtype == np.uint8:
        return pixels
    scale, offset = RESCALING
    return np.clip(np.round((pixels.astype(np.float32) - offset) / scale), 0, 255).astype(np.uint8)


def _url(data: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
