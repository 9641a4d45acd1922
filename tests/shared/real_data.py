"""The real data sets that whole commands are checked on: where each lies, and what it must come to."""

import dataclasses
import pathlib

from tests.shared import archives

ADULT_COLUMNS = (
    "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,"
    "capital_gain,capital_loss,hours_per_week,native_country,income"
)
TWO_REPLICAS = ("--strategy=mirrored", "--logical_devices=2", "--precision=mixed_bfloat16")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    config: str
    label: str
    source: tuple[str, ...]  # flags that infer_schema and convert share
    infer: tuple[str, ...] = ()
    convert: tuple[str, ...] = ()
    train: tuple[str, ...] = ()
    metric: str
    required: float
    rows: int


def cases(data: pathlib.Path, mnist: pathlib.Path) -> tuple[Case, ...]:
    adult, taxi = data / "adult", data / "chicago_taxi"
    return (
        Case(
            name="mnist",
            config="mnist_resnet",
            label="label",
            source=("--format=images", f"--input=train={mnist}/train", f"--input=test={mnist}/test"),
            train=TWO_REPLICAS,
            metric="accuracy",
            required=0.99,
            rows=70_000,
        ),
        Case(
            name="adult",
            config="adult_wide_deep",
            label="income",
            source=(
                "--format=csv",
                f"--column_names={ADULT_COLUMNS}",
                f"--input={adult}/adult-train.csv",
                f"--input=test={adult}/adult-test.csv",
            ),
            infer=("--label=income",),
            convert=("--splits=train=0.9,validation=0.1",),
            metric="auc",
            required=0.91,
            rows=48_842,
        ),
        Case(
            name="taxi",
            config="taxi_wide_deep",
            label="big_tipper",
            source=("--format=csv", f"--input={taxi}/data_big_tipper.csv"),
            infer=("--label=big_tipper", "--ignore=tips"),
            metric="auc",
            required=0.94,
            rows=15_002,
        ),
    )


def unpack_mnist(data: pathlib.Path, output: pathlib.Path) -> pathlib.Path:
    folder = output / "mnist_png"
    archives.unpack(data / "mnist_png" / "mnist_png.tar.gz", folder)
    return folder
