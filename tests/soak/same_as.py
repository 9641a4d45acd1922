r"""Does this tree compute what an earlier commit computed? Minutes, so no part of the tests.

  PENSTOCK_DATA=DIR make same-as COMMIT=6c438a1
  python -m tests.soak.same_as --commit=6c438a1 --data=DIR [--cases=digits,adult,order]
  python -m tests.soak.same_as --commit=HEAD --python=/path/to/venv/bin/python --data=DIR

Both trees convert digits, MNIST, Adult and Chicago taxi, whole, and train some steps on each; both read 1,400
examples one after the other in each way that there is. They run commands only, which both trees have. A table
compares the SHA-256 of every file, which example stood at which position, and the version numbers of order
and manifest. --python runs the commands of this tree with another interpreter: are the bytes the same?
"""

import concurrent.futures
import dataclasses
import functools
import hashlib
import json
import math
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from absl import flags

from benchmarks.checkout import ROOT, CommandError, Tree, checked_out
from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Label, Tensor
from pipeline.data.schema.schema import Schema
from pipeline.training.state import workdir
from tests.shared.real_data import Case, cases, unpack_mnist
from tests.shared.table import show
from tests.soak import harness
from tests.soak.harness import Row, Soak, needs_data

# Trained steps: past the end of an epoch, but for MNIST, whose epoch takes a minute.
STEPS = {"digits": 30, "mnist": 30, "adult": 130, "taxi": 60}
# The same numbers on every run, which bfloat16 and several replicas would give too, but slower.
EXACT = ("--strategy=one_device", "--precision=float32")

# Examples of about 4 KB: so few of them fill several shards, window parts and windows.
ORDER_EXAMPLES, ORDER_ZEROS = 1_200, 1_000
ORDER_POSITIONS = 1_400  # past the end of the epoch
ORDER_SCHEMA = Schema(
    name="order",
    features=(Tensor(name="zeros", dimensions=(ORDER_ZEROS,)), Label(name="number", task="regression")),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Order:
    """A way to read, by the flags that ask for it."""

    name: str
    layout: str
    flags: tuple[str, ...]


ORDERS = (
    Order(name="rows_global", layout="rows", flags=("--config.shuffle=global",)),
    Order(name="rows_windows", layout="rows", flags=("--config.shuffle=windows",)),
    Order(name="blocks_global", layout="blocks", flags=("--config.shuffle=global",)),
    Order(name="blocks_windows", layout="blocks", flags=("--config.shuffle=windows",)),
    Order(
        name="part",
        layout="rows",
        flags=("--config.shuffle=windows", "--config.train.split=train[10%:90%]+validation"),
    ),
    Order(
        name="mixture",
        layout="rows",
        flags=("--config.shuffle=global", "--config.mixture=(('order/rows/1.0.0', 'validation', 0.25),)"),
    ),
)


# By name of a JSON file, or of a file with a JSON document a line: the fields that differ by nature.
WITHOUT: Mapping[str, tuple[str, ...]] = {
    "conversion.json": ("command", "started", "seconds", "versions", "digest"),
    "run.json": ("command", "config_file", "dataset", "started", "seconds", "versions", "machine", "digest"),
    "history.jsonl": workdir.MEASURED,
    "session.json": ("window", "epoch"),  # of a checkpoint: they hold sums of time
}
# How paths begin, and why these files are not compared.
NOT_COMPARED: Mapping[str, str] = {
    "report.html": "shows times and paths",
    "ledger.jsonl": "holds times",
    "summaries/": "every event holds its time",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Compared:
    """One line of the table; a side is empty where it lacks the thing."""

    what: str
    before: str
    after: str

    @property
    def same(self) -> bool:
        return self.before == self.after


def compare(before: Mapping[str, str], after: Mapping[str, str]) -> list[Compared]:
    """A line for everything that either side has."""
    names = dict.fromkeys([*before, *after])
    return [Compared(what=name, before=before.get(name, ""), after=after.get(name, "")) for name in names]


def of_directory(directory: pathlib.Path, *, name: str) -> dict[str, str]:
    """Fingerprints of all files of a dataset or a run, but NOT_COMPARED, by what they are of."""
    found = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        relative = path.relative_to(directory)
        if not str(relative).startswith(tuple(NOT_COMPARED)):
            found |= {f"{name}/{relative}{part}": print_ for part, print_ in _of_file(path)}
    assert found, f"{directory}: no file to compare"
    return found


def versions(directory: pathlib.Path, *, name: str) -> dict[str, str]:
    """The version numbers of formats that a dataset or a run states."""
    stated = {"manifest.json": "format", "run.json": "order"}
    return {
        f"{name}/{file}: {field}": str(json.loads((directory / file).read_text())[field])
        for file, field in stated.items()
        if (directory / file).exists()
    }


def ledger(workdir: pathlib.Path) -> list[int]:
    """The number of the example at each position, of a run of order_config.py."""
    lines = (workdir / "history.jsonl").read_text().splitlines()
    assert lines, f"{workdir}: no position to compare"
    losses = [json.loads(line)["loss"] for line in lines]
    numbers = [math.isqrt(round(loss)) for loss in losses]
    assert [float(number**2) for number in numbers] == losses, f"{workdir}: a loss is no square"
    return numbers


def of_ledger(numbers: Sequence[int]) -> str:
    return hashlib.sha256(json.dumps(numbers).encode()).hexdigest()


def first_difference(before: Sequence[int], after: Sequence[int]) -> str:
    """Where two ledgers part, in words; empty where they do not."""
    if len(before) != len(after):
        return f"{len(before):,} positions before, {len(after):,} after"
    pairs = enumerate(zip(before, after, strict=True))
    return next(
        (f"position {i:,}: example {one} before, {other} after" for i, (one, other) in pairs if one != other),
        "",
    )


def _of_file(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Pairs of (what is added to the file's name, fingerprint)."""
    if path.name in WITHOUT:
        yield f" without {', '.join(WITHOUT[path.name])}", _sha256(_without(path).encode())
    elif path.parent.parent.name == "checkpoints" and path.name == "manifest.json":
        return  # names when it was saved, and digests of the other files
    else:
        yield "", _sha256(path.read_bytes())


def _without(path: pathlib.Path) -> str:
    """The JSON of the file, keys sorted, without the fields that differ by nature."""
    text = path.read_text()
    documents = map(json.loads, text.splitlines() if path.suffix == ".jsonl" else [text])
    left_out = WITHOUT[path.name]
    kept = [{key: value for key, value in one.items() if key not in left_out} for one in documents]
    return json.dumps(kept, sort_keys=True)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def case_of(name: str, data: pathlib.Path, folder: pathlib.Path) -> Case:
    """The case of this name; writes below `folder` what of it is not in `data` as files to convert."""
    if name == "digits":
        return _digits(folder)
    mnist = unpack_mnist(data, folder) if name == "mnist" else folder
    [found] = [case for case in cases(data, mnist) if case.name == name]
    return found


def _digits(folder: pathlib.Path) -> Case:
    pictures = folder / "digits"
    write = [sys.executable, str(ROOT / "demo" / "write_digits.py"), f"--output={pictures}"]
    subprocess.run(write, check=True, stdout=subprocess.DEVNULL)
    return Case(
        name="digits",
        config="digits_resnet",
        label="label",
        source=("--format=images", f"--input={pictures}"),
        convert=("--splits=train=0.7,validation=0.1,test=0.2",),
        metric="accuracy",
        required=0.97,
        rows=1_797,
    )


def write_order_data(folder: pathlib.Path) -> None:
    """Examples that differ in nothing but their number, and their schema."""
    zeros = pa.array(np.zeros(ORDER_EXAMPLES * ORDER_ZEROS, np.float32))
    table = pa.table(
        {
            "zeros": pa.FixedSizeListArray.from_arrays(zeros, ORDER_ZEROS),
            "number": np.arange(ORDER_EXAMPLES, dtype=np.float32),
        }
    )
    # Uncompressed: the number of shards follows from the bytes of the input.
    pa.parquet.write_table(table, folder / "order.parquet", use_dictionary=False, compression="none")
    schema_lib.save(ORDER_SCHEMA, folder / "order.json")


def convert(tree: Tree, case: Case, folder: pathlib.Path) -> pathlib.Path:
    """Proposes a schema and converts all rows by it; returns the dataset."""
    (folder / case.name).mkdir(parents=True)
    schema, output = f"--schema={case.name}/schema.json", f"{case.name}/1.0.0"
    infer = (*case.infer, f"--name={case.name}", f"--output={case.name}/schema.json")
    tree.run("beam_jobs.infer_schema", *case.source, *infer, directory=folder)
    tree.run(
        *("beam_jobs.convert", *case.source, *case.convert, schema, f"--output={output}"), directory=folder
    )
    return folder / output


def train(tree: Tree, case: Case, folder: pathlib.Path) -> pathlib.Path:
    """Trains on what `convert` has written, every step logged; returns the run."""
    workdir = f"{case.name}/run"
    tree.run(
        *("pipeline.train", f"--config={tree.root / 'pipeline' / 'configs' / case.config}.py"),
        *(f"--dataset={case.name}/1.0.0", f"--workdir={workdir}", *EXACT),
        *(f"--config.train.steps={STEPS[case.name]}", "--config.train.log_every_steps=1"),
        directory=folder,
    )
    return folder / workdir


def convert_order(tree: Tree, layout: str, folder: pathlib.Path) -> pathlib.Path:
    """Converts the data of `write_order_data`, which lies in ../raw; returns the dataset."""
    output = f"order/{layout}/1.0.0"
    tree.run(
        *("beam_jobs.convert", "--input=../raw/order.parquet", "--schema=../raw/order.json"),
        *(f"--output={output}", f"--layout={layout}", "--shard_mib=1", "--splits=train=0.9,validation=0.1"),
        directory=folder,
    )
    return folder / output


def train_order(tree: Tree, order: Order, folder: pathlib.Path) -> pathlib.Path:
    """Reads ORDER_POSITIONS examples, one after the other; returns the run."""
    workdir = f"order/runs/{order.name}"
    tree.run(
        *("pipeline.train", f"--config={ROOT / 'tests' / 'soak' / 'order_config.py'}"),
        *(f"--dataset=order/{order.layout}/1.0.0", f"--workdir={workdir}", *EXACT),
        *(f"--config.train.steps={ORDER_POSITIONS}", *order.flags),
        directory=folder,
    )
    return folder / workdir


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sides:
    """Both trees, and the folder in which each has one of its own."""

    before: Tree
    after: Tree
    output: pathlib.Path

    def both(self, make: Callable[[Tree, pathlib.Path], pathlib.Path]) -> list[pathlib.Path]:
        """Runs `make(tree, folder)` for both at once; returns what it wrote, [before, after]."""
        trees = (self.before, self.after)
        with concurrent.futures.ThreadPoolExecutor(len(trees)) as pool:
            return list(pool.map(lambda tree: make(tree, self.output / tree.name), trees))

    def directories(self, directories_of_both: Sequence[pathlib.Path]) -> list[Compared]:
        """A line for each version number and each file of a dataset or a run."""
        name = str(directories_of_both[1].relative_to(self.output / self.after.name))
        stated = (versions(directory, name=name) for directory in directories_of_both)
        files = (of_directory(directory, name=name) for directory in directories_of_both)
        return [*compare(*stated), *compare(*files)]


def compare_case(sides: Sides, case: Case) -> Iterator[Compared]:
    """The dataset and the run."""
    for make in (convert, train):
        yield from sides.directories(sides.both(lambda tree, folder, make=make: make(tree, case, folder)))


def compare_orders(sides: Sides) -> Iterator[Compared]:
    """The datasets of both layouts, and the order of each way to read them."""
    write_order_data(sides.output / "raw")
    for layout in ("rows", "blocks"):
        yield from sides.directories(
            sides.both(lambda tree, folder, layout=layout: convert_order(tree, layout, folder))
        )
    for order in ORDERS:
        runs = sides.both(lambda tree, folder, order=order: train_order(tree, order, folder))
        before, after = map(ledger, runs)
        examples = f"{len(before):,} positions, {len(set(before)):,} examples"
        yield Compared(
            what=f"order of {order.name}: {first_difference(before, after) or examples}",
            before=of_ledger(before),
            after=of_ledger(after),
        )


def faults(soak: Soak, *, name: str) -> Iterator[str]:
    """What differs; prints the table."""
    for folder in ("raw", "before", "after"):
        (soak.folder / folder).mkdir()
    with checked_out(flags.FLAGS.commit) as root:
        sides = Sides(
            before=Tree(name="before", root=root, python=pathlib.Path(sys.executable)),
            after=Tree(name="after", root=ROOT, python=pathlib.Path(flags.FLAGS.python).absolute()),
            output=soak.folder,
        )
        try:
            if name == "order":
                lines = [*compare_orders(sides)]
            else:
                lines = [*compare_case(sides, case_of(name, soak.data, soak.folder / "raw"))]
        except CommandError as error:
            yield str(error)
            return
    show(
        [
            {"what": line.what, "before": line.before[:20] or "-", "after": line.after[:20] or "-"}
            for line in lines
        ]
    )
    yield from (
        f"{line.what}: {line.before[:20] or '-'}, now {line.after[:20] or '-'}"
        for line in lines
        if not line.same
    )
    print(f"{name}: {sum(line.same for line in lines)} of {len(lines)} are the same", flush=True)


ROWS = tuple(
    Row(
        name=name,
        sentence="Compares the order of examples by each way to read."
        if name == "order"
        else f"Compares {name}.",
        faults=functools.partial(faults, name=name),
        lacks=(lambda soak: "") if name in ("order", "digits") else needs_data,
    )
    for name in (*STEPS, "order")
)


if __name__ == "__main__":
    flags.DEFINE_string("commit", "HEAD", "The commit to compare with.")
    flags.DEFINE_string("python", sys.executable, "Interpreter for this tree; the other one has ours.")
    left_out = "\n".join(f"{pattern}: {reason}" for pattern, reason in NOT_COMPARED.items())
    harness.run(lambda: ROWS, note=f"\nNot compared:\n{left_out}")
