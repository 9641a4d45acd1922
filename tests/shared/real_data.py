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
    adult, taxi, penguins = data / "adult", data / "chicago_taxi", data / "penguins"
    return (
        Case(
            name="mnist",
            config="mnist_resnet",
            label="label",
            source=("--format=images", f"--input=train={mnist}/train", f"--input=test={mnist}/test"),
            train=TWO_REPLICAS,
            metric="accuracy",
            required=0.995,
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
            required=0.922,
            rows=48_842,
        ),
        Case(
            name="taxi",
            config="taxi_wide_deep",
            label="big_tipper",
            source=("--format=csv", f"--input={taxi}/data_big_tipper.csv"),
            infer=("--label=big_tipper", "--ignore=tips"),
            metric="auc",
            required=0.952,  # scikit-learn's gradient boosting reaches 0.9541 on the same rows
            rows=15_002,
        ),
        Case(
            name="penguins",
            config="tabular",
            label="species",
            source=("--format=csv", f"--input={penguins}/labelled_penguins_processed.csv"),
            infer=("--label=species",),
            convert=("--splits=train=0.6,validation=0.2,test=0.2",),
            train=(
                *("--config.global_batch=32", "--config.train.epochs=40"),
                *("--config.optimizer.learning_rate=3e-3", "--config.optimizer.warmup_steps=10"),
            ),
            metric="accuracy",
            required=0.97,
            rows=334,
        ),
    )


def unpack_mnist(data: pathlib.Path, output: pathlib.Path) -> pathlib.Path:
    folder = output / "mnist_png"
    archives.unpack(data / "mnist_png" / "mnist_png.tar.gz", folder)
    return folder
