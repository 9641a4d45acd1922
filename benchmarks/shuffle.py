r"""How well each way of reading shuffles, on a million small records.

  python -m benchmarks.shuffle --scratch=build/benchmark/small [--picture=FILE.png]

Two epochs are read in each way, and what `tf.data` usually does. Prints, of batches of 1,024 and the order in
which the rows are stored (1 is as by chance, the larger the worse; `shuffle_quality.py` has the formulas):

  spread    how unevenly a batch draws from 64 equal parts of the stored data
  again     how often two rows of a batch meet in a batch of the next epoch

The converter stores rows in the order of a hash, so that what a batch lacks here is not a class or a day, but
a part of the data that is itself random. --picture shows, of each way, where in the stored data (upwards) the
row at each position of the epoch (rightwards) comes from.

Hardware: any. Duration: a minute, and two for the data.
"""

import functools
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import PIL.Image
import PIL.ImageDraw
from absl import app, flags

from benchmarks.reading import small_records
from benchmarks.reading.shuffle_quality import again, spread
from pipeline.base.errors import answers_bad_input

_SCRATCH = flags.DEFINE_string("scratch", None, "Directory for the data.", required=True)
_ROWS = flags.DEFINE_integer("rows", 1 << 20, "Records.", 1 << 14)
_PICTURE = flags.DEFINE_string("picture", None, "PNG file to draw the orders in.")

BATCH = 1024
BUFFER = 10_000  # rows
SIDE, MARGIN = 256, 24  # pixels, of a panel of the picture

Orders = tuple[
    np.ndarray, np.ndarray
]  # of two epochs, int64 [rows]: where in the stored data a row comes from


def picture(ways: Mapping[str, Orders]) -> PIL.Image.Image:
    """The first epoch of each way, as a density: evenly grey is well mixed."""
    image = PIL.Image.new("L", (len(ways) * (SIDE + MARGIN) + MARGIN, SIDE + 2 * MARGIN), 255)
    pen = PIL.ImageDraw.Draw(image)
    for number, (name, (order, _)) in enumerate(ways.items()):
        x = np.arange(len(order)) * SIDE // len(order)
        counts = np.bincount((order * SIDE // len(order)) * SIDE + x, minlength=SIDE * SIDE)
        shades = 255 * np.exp(-counts / (4 * counts.mean()))
        left = MARGIN + number * (SIDE + MARGIN)
        panel = shades.reshape(SIDE, SIDE)[::-1].astype(np.uint8)  # upwards
        image.paste(PIL.Image.fromarray(panel), (left, MARGIN))
        pen.rectangle((left - 1, MARGIN - 1, left + SIDE, MARGIN + SIDE), outline=0)
        pen.text((left, MARGIN // 4), name, fill=0)
    return image


def _ways(scratch: pathlib.Path, rows: int) -> Mapping[str, Callable[[], Orders]]:
    import tensorflow as tf

    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
    from pipeline.data.dataset import manifest
    from pipeline.data.dataset.selection import Selection, select
    from pipeline.data.reading import parsing, stream, windows
    from pipeline.data.reading.plan import plan_reading
    from pipeline.data.reading.sharding import Share

    schema = small_records.schema(rows)

    @functools.cache
    def selection(layout: str) -> Selection:
        return select(manifest.open_dataset(small_records.written(scratch, rows, layout=layout)), "train")

    def ids(dataset: tf.data.Dataset) -> np.ndarray:
        parsed = dataset.map(lambda _, some: parsing.parse_rows(some, schema)[0]["id"])
        return np.concatenate(list(parsed.as_numpy_iterator())).ravel()

    @functools.cache
    def stored_at(layout: str) -> np.ndarray:
        """Returns the place at which each id is stored."""
        stored = np.empty(rows, np.int64)
        stored[ids(windows.stored_rows(selection(layout)))] = np.arange(rows)
        return stored

    def ours(layout: str, shuffle: str) -> Orders:
        plan = plan_reading(selection(layout), share=Share(global_batch=BATCH), seed=1, shuffle=shuffle)
        streamed = ids(stream.read(plan).rebatch(rows).take(2))
        return tuple(stored_at(layout)[streamed].reshape(2, rows))

    def usual() -> Orders:
        files = tf.data.Dataset.list_files(selection("rows").shards.paths)
        records = files.interleave(tf.data.TFRecordDataset, cycle_length=16).shuffle(BUFFER)
        epochs = records.map(lambda record: (0, record)).batch(BATCH).repeat(2)
        return tuple(stored_at("rows")[ids(epochs)].reshape(2, rows))

    return {
        "stored order": lambda: (np.arange(rows), np.arange(rows)),
        f"tf.data, buffer of {BUFFER:,}": usual,
        "windows of records": lambda: ours("rows", "windows"),
        "windows of blocks": lambda: ours("blocks", "windows"),
        "global": lambda: ours("blocks", "global"),
    }


@answers_bad_input
def main(argv: Sequence[str]) -> None:
    del argv
    found = {name: read() for name, read in _ways(pathlib.Path(_SCRATCH.value), _ROWS.value).items()}
    print(f"{'':24}{'spread':>8}{'again':>8}")
    for name, (first, second) in found.items():
        print(f"{name:24}{spread(first, batch=BATCH):8.2f}{again(first, second, batch=BATCH):8.2f}")
    if _PICTURE.value:
        picture(found).save(_PICTURE.value)


if __name__ == "__main__":
    app.run(main)
