"""What both trees make, by commands that both have: datasets of real data, short runs on them, orders."""

import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from benchmarks.checkout import ROOT, Tree
from pipeline.base.errors import InputError
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Label, Tensor
from pipeline.data.schema.schema import Schema
from tests.shared.real_data import Case, cases, unpack_mnist

# Trained steps: past the end of an epoch, but for MNIST, whose epoch takes a minute.
STEPS = {"digits": 30, "mnist": 30, "adult": 130, "taxi": 60}
NAMES = (*STEPS, "order")  # of what can be compared
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


def require_known(names: Sequence[str]) -> None:
    """Raises InputError where `names` is empty, or holds one that nothing can be compared by."""
    unknown = [name for name in names if name not in NAMES]
    if unknown or not names:
        raise InputError(
            "--only",
            received=", ".join(unknown) or "nothing",
            expected=f"some of {', '.join(NAMES)}",
            action="Correct the names, or leave the flag away.",
        )


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
        *("pipeline.train", f"--config={ROOT / 'tests' / 'two_trees' / 'order_config.py'}"),
        *(f"--dataset=order/{order.layout}/1.0.0", f"--workdir={workdir}", *EXACT),
        *(f"--config.train.steps={ORDER_POSITIONS}", *order.flags),
        directory=folder,
    )
    return folder / workdir
