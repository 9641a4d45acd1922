"""The dataset as a library feeds Keras on JAX: how fed the chip is, its MFU, and what one host core delivers.

  python -m benchmarks.accelerator.datasets build/metal/data    # where Beam is installed; copy the folder
  python -m benchmarks.peers.keras_on_jax --data=build/metal/data [--json=FILE]

It needs jax, keras, numpy and google-crc32c; Pillow for pictures; no TensorFlow. With Grain installed, each
feed is measured through Grain as well. A chip is fed if steps on the own input, which threads make while the
chip computes, take no longer than steps on batches that are kept on it. Operations are XLA's count of the
step.

Hardware: a GPU or TPU, or a CPU as a rehearsal; of several devices one computes.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"

import collections
import concurrent.futures
import dataclasses
import importlib.util
import io
import itertools
import json
import pathlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import jax
import keras
import numpy as np
from absl import app, flags, logging

import penstock
from models.resnet import resnet
from models.transformer import transformer
from models.wide_deep import wide_deep
from pipeline.base import accelerators
from pipeline.base.errors import answers_bad_input
from pipeline.data.reading.source import BatchSource, Rows

_DATA = flags.DEFINE_string("data", None, "Folder of the datasets.", required=True)
_STEPS = flags.DEFINE_integer("steps", 100, "Steps of a measurement.", lower_bound=1)
_FEEDS = flags.DEFINE_multi_enum(
    "feed", None, ["table_rows", "table_blocks", "tokens", "pictures"], "Only this; as often as needed."
)
_JSON = flags.DEFINE_string("json", None, "File to write the figures to.")

_KEPT = 4  # batches that stay on the device
_AHEAD = 4  # batches that threads make ahead of the device
_IDS = 101  # of a category of benchmarks/accelerator/datasets.py, and one for what is missing
_EPOCHS = 100_000  # more than are read
Batch = tuple[dict[str, np.ndarray], np.ndarray]  # inputs, labels


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feed:
    """Examples of a batch; what makes inputs of its rows; the model, made for the rows of a first batch."""

    size: int
    model: Callable[[Rows], keras.Model]
    inputs: Callable[[Rows], Batch]


def _table(rows: Rows) -> Batch:
    numbers, categories = (np.stack([rows[name] for name in names], 1) for names in _columns(rows))
    return {"numeric": numbers, "categories": categories.astype(np.int32)}, rows["label"].astype(np.int32)


def _of_table(rows: Rows) -> keras.Model:
    numbers, categories = _columns(rows)
    return wide_deep(numeric=len(numbers), cardinalities=[_IDS] * len(categories), sequences={}, outputs=2)


def _columns(rows: Rows) -> tuple[list[str], list[str]]:
    """The names of numbers and of categories."""
    numbers, categories = (
        [name for name in rows if name.startswith(kind)] for kind in ("number", "category")
    )
    return numbers, categories


def _tokens(rows: Rows) -> Batch:
    """Ids plus 1, as `train.batches` has them, and the id of the token that follows."""
    tokens, segments = rows["tokens"].astype(np.int32) + 1, rows["segments"].astype(np.int32)
    return {"tokens": tokens[:, :-1], "segments": segments[:, :-1]}, tokens[:, 1:] - 1


def _of_tokens(rows: Rows) -> keras.Model:
    length = rows["tokens"].shape[1] - 1
    sizes = {"tokens": (length, 260), "segments": (length, length + 2)}
    return transformer(sequences=sizes, outputs=259, width=128, depth=2)


def _pictures(rows: Rows) -> Batch:
    from PIL import Image  # the other feeds do without

    pixels = np.stack([np.asarray(Image.open(io.BytesIO(each))) for each in rows["image"]])
    return {"image": pixels}, np.asarray(rows["label"]).astype(np.int32)


def _of_pictures(rows: Rows) -> keras.Model:
    inputs, _ = _pictures(rows)
    return resnet(image_shape=inputs["image"].shape[1:], outputs=3, image_rescaling=(1 / 255, 0.0))


FEEDS: Mapping[str, Feed] = {  # by the names of their datasets
    "table_rows": Feed(size=1024, model=_of_table, inputs=_table),
    "table_blocks": Feed(size=1024, model=_of_table, inputs=_table),
    "tokens": Feed(size=32, model=_of_tokens, inputs=_tokens),
    "pictures": Feed(size=64, model=_of_pictures, inputs=_pictures),
}


class Trainer:
    """A model's step, compiled, with the state that it changes."""

    def __init__(self, model: keras.Model, batch: Batch) -> None:
        optimizer, loss_of = (
            keras.optimizers.Adam(),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        optimizer.build(model.trainable_variables)
        groups = model.trainable_variables, model.non_trainable_variables, optimizer.variables
        self._state = jax.tree.map(lambda each: each.value, groups)

        def loss(weights: list, others: list, batch: Batch) -> tuple:
            inputs, labels = batch
            logits, others = model.stateless_call(weights, others, inputs, training=True)
            return loss_of(labels, logits), others

        def step(state: tuple, batch: Batch) -> tuple:
            weights, others, slots = state
            (_, others), gradients = jax.value_and_grad(loss, has_aux=True)(weights, others, batch)
            weights, slots = optimizer.stateless_apply(slots, gradients, weights)
            return weights, others, slots

        lowered = jax.jit(step, donate_argnums=0).lower(self._state, batch)
        self.flops = float(lowered.cost_analysis()["flops"])
        self._step = lowered.compile()

    def seconds(self, batches: Iterator[Batch], steps: int) -> float:
        """Wall seconds of a step, from its batches on this host to the end of the last step."""
        begun = time.perf_counter()
        for batch in itertools.islice(batches, steps):
            self._state = self._step(self._state, batch)
        jax.block_until_ready(self._state)
        return (time.perf_counter() - begun) / steps


def threaded(make: Callable[[int], Batch], threads: int) -> Iterator[Batch]:
    """Batches on the device, in order; threads make the next ones meanwhile."""
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        waiting = collections.deque(pool.submit(make, number) for number in range(_AHEAD + threads))
        try:
            for number in itertools.count(len(waiting)):
                yield jax.device_put(waiting.popleft().result())
                waiting.append(pool.submit(make, number))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def through_grain(source: BatchSource, inputs: Callable[[Rows], Batch]) -> Iterator[Batch]:
    import grain

    return map(jax.device_put, iter(grain.MapDataset.source(source).map(inputs).to_iter_dataset()))


def measured(feed: Feed, dataset: pathlib.Path, *, steps: int) -> dict:
    """The figures of a feed: the time of a step on kept batches and on its own input, and what they mean."""
    rows = penstock.open(dataset).train.source(feed.size, seed=0, epochs=_EPOCHS)
    source, cores = rows.batched(feed.size), len(os.sched_getaffinity(0))

    def make(number: int) -> Batch:
        return feed.inputs(source[number])

    batch = make(0)
    trainer = Trainer(feed.model(source[0]), batch)
    kept = [jax.device_put(make(number)) for number in range(_KEPT)]
    ways = {"kept": itertools.cycle(kept), "own": threaded(make, cores)}
    if importlib.util.find_spec("grain"):
        ways["grain"] = through_grain(source, feed.inputs)
    found = {}
    for name, batches in ways.items():
        trainer.seconds(batches, 2 + _AHEAD)  # what was made ready while the step was compiled
        found[name] = trainer.seconds(batches, steps)
    return {
        "step_ms": {name: 1e3 * seconds for name, seconds in found.items()},
        "fed": {name: min(1.0, found["kept"] / seconds) for name, seconds in found.items()},
        "examples_per_s": feed.size / found["own"],
        "examples_per_core_s": feed.size / core_seconds(make, steps=max(2, steps // 10)),
        "mfu": utilisation(trainer.flops, found["own"], jax.devices()[0].device_kind),
        "flops": trainer.flops,
    }


def core_seconds(make: Callable[[int], Batch], *, steps: int) -> float:
    """CPU seconds of a batch, made in one thread."""
    begun = time.thread_time()
    for number in range(_KEPT, _KEPT + steps):
        make(number)
    return (time.thread_time() - begun) / steps


def utilisation(flops: float, seconds: float, device: str) -> float | None:
    """The share of the peak of one device; None where the peak is not known."""
    known = accelerators.of_device(device)
    return known.utilisation(flops / seconds) if known else None


def _line(name: str, found: Mapping) -> str:
    fed = ", ".join(f"{way} {share:.0%}" for way, share in found["fed"].items() if way != "kept")
    mfu = "unknown: no peak" if found["mfu"] is None else f"{found['mfu']:.1%}"
    return (
        f"{name:<14} fed: {fed}; a step {found['step_ms']['own']:.3g} ms, on kept batches "
        f"{found['step_ms']['kept']:.3g} ms; {found['examples_per_s']:,.0f} examples/s; MFU {mfu}; "
        f"a host core delivers {found['examples_per_core_s']:,.0f} examples/s"
    )


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    logging.set_verbosity(logging.WARNING)  # JAX tells of each kind of device that it does not find
    device = jax.devices()[0]
    is_rehearsal = device.platform == "cpu"
    print(f"{device.device_kind}, jax {jax.__version__}, keras {keras.__version__}", end="")
    print(": a rehearsal, no figure says anything about a GPU or TPU" if is_rehearsal else "")
    if not is_rehearsal:
        keras.config.set_dtype_policy("mixed_bfloat16")
    figures = {}
    for name, feed in FEEDS.items():
        if _FEEDS.value and name not in _FEEDS.value:
            continue
        if feed.inputs is _pictures and not importlib.util.find_spec("PIL"):
            print(f"{name:<14} left out: Pillow is not installed")
            continue
        figures[name] = measured(feed, pathlib.Path(_DATA.value) / name, steps=_STEPS.value)
        print(_line(name, figures[name]), flush=True)
    if _JSON.value:
        document = {"device": device.device_kind, "rehearsal": is_rehearsal, "feeds": figures}
        pathlib.Path(_JSON.value).write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    app.run(main)
