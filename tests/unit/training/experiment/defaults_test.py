"""Defaults by rules: what the rows decide, and what a user's value leaves to decide."""

import dataclasses
import json
import pathlib

import pytest

from pipeline.base.errors import InputError
from pipeline.base.values import value_at
from pipeline.configs import (
    adult_wide_deep,
    base,
    digits_resnet,
    image_classification,
    mnist_resnet,
    tabular,
    taxi_wide_deep,
)
from pipeline.data.dataset.manifest import Dataset, Manifest, Shard
from pipeline.data.schema.feature_types import Image, Label
from pipeline.data.schema.schema import Schema, SplitBy
from pipeline.training.experiment import config as config_lib
from pipeline.training.experiment import defaults
from pipeline.training.experiment.defaults import resolve

SCHEMA = Schema(name="any", features=(Label(name="y", classes=("no", "yes")),))
KEYS = ("global_batch", "train.epochs", "train.steps", "evaluation.every_epochs", "train.keep_best")
PATIENCE = {"train.patience"}


def of_sizes(**splits: int) -> Dataset:
    """A dataset as far as its manifest goes, which is all that the rules read."""
    shards = {
        name: (Shard(path=name, bytes=0, sha256="", records=rows, rows=rows),)
        for name, rows in splits.items()
    }
    manifest = Manifest(
        name="any",
        version="1.0.0",
        layout="rows",
        schema_fingerprint="",
        plan_fingerprint="",
        files=(),
        rows_read=sum(splits.values()),
        rows_rejected=0,
        splits=shards,
    )
    return Dataset(directory=pathlib.Path("any"), manifest=manifest, schema=SCHEMA)


def chosen(rows: int, *, is_validated: bool = True, **given: object) -> dict[str, object]:
    config = base.by_rules()
    config.update_from_flattened_dict({key.replace("__", "."): value for key, value in given.items()})
    return defaults.by_rows(config.to_dict(), rows=rows, is_validated=is_validated)


@pytest.mark.parametrize(
    ("rows", "batch", "length", "every"),
    [
        (1, 16, (10.0, 1_000), 800),
        (93, 16, (10.0, 1_000), 8),  # 172 epochs
        (365, 16, (10.0, 1_000), 2),
        (576, 32, (10.0, 1_000), 2),
        (1_600, 64, (10.0, 1_000), 2),
        (4_095, 128, (10.0, 1_000), 1),
        (4_096, 256, (10.0, 1_000), 3),
        (25_599, 256, (10.0, 1_000), 1),
        (25_600, 256, (10.0, None), 1),  # 1,000 steps as well
        (10_000_000, 256, (10.0, None), 1),
    ],
)
def test_the_rows_decide(rows, batch, length, every):
    epochs, steps = length
    decided = chosen(rows)
    assert decided == {
        "global_batch": batch,
        "train.epochs": epochs,
        **({"train.steps": steps} if steps else {}),
        "evaluation.every_epochs": every,
        "train.keep_best": "val_loss",
        "train.patience": 10,
    }


@pytest.mark.parametrize(
    ("rows", "epochs", "steps"),
    [
        (1_999, 10, 1_000),
        (2_000, 10, 2_000),
        (4_999, 10, 2_000),
        (5_000, 30, 2_000),
        (31_000, 30, None),
        (100_000, 30, None),
        (100_001, 10, None),
    ],
)
def test_the_network_for_tables_sees_many_rows_more_often(rows, epochs, steps):
    values = {**base.by_rules().to_dict(), "model": {"name": "tabular", "members": 0}}
    decided = defaults.by_rows(values, rows=rows, is_validated=True)
    assert (decided["train.epochs"], decided.get("train.steps")) == (epochs, steps)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"global_batch": 50}, {"train.epochs", "train.steps", "evaluation.every_epochs", "train.keep_best"}),
        ({"train__epochs": 40.0}, {"global_batch", "evaluation.every_epochs", "train.keep_best"}),
        ({"train__steps": 300}, {"global_batch", "evaluation.every_epochs", "train.keep_best"}),
        ({"evaluation__every_epochs": 3}, {*KEYS} - {"evaluation.every_epochs"}),
        ({"train__keep_best": "val_auc"}, {*KEYS} - {"train.keep_best"}),
        ({"train__keep_best": ""}, {*KEYS} - {"train.keep_best"}),
    ],
)
def test_what_a_user_says_stays(given, left):
    assert set(chosen(365, **given)) - PATIENCE == left


@pytest.mark.parametrize(
    ("given", "patience"),
    [
        ({}, 10),
        ({"train__keep_best": "val_auc"}, 0),  # a validation of one class has no such number
        ({"train__keep_best": ""}, 0),
        ({"train__steps": 20, "evaluation__every_epochs": 2}, 0),  # is never validated
        ({"callbacks": ({"class_name": "EarlyStopping", "config": {"patience": 3}},)}, 0),
        ({"callbacks": ({"class_name": "CSVLogger", "config": {"filename": "{workdir}/a.csv"}},)}, 10),
    ],
)
def test_a_run_stops_early_where_the_rules_choose_the_best_step(given, patience):
    assert chosen(365, **given)["train.patience"] == patience


def test_a_patience_of_the_user_stays():
    assert "train.patience" not in chosen(365, train__patience=3)
    assert "train.patience" not in chosen(365, train__patience=0)


def test_a_batch_and_a_length_of_the_user_are_reckoned_with():
    assert chosen(1_000, global_batch=100, train__steps=600)["evaluation.every_epochs"] == 3  # of 60
    assert chosen(1_000, global_batch=20)["train.steps"] == 1_000
    assert "train.steps" not in chosen(1_000, global_batch=10)  # 10 epochs are 1,000 steps


def test_no_best_one_is_kept_where_nothing_is_validated():
    assert chosen(365, is_validated=False)["train.keep_best"] == ""
    assert chosen(365, train__steps=20, evaluation__every_epochs=2)["train.keep_best"] == ""


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_length_that_is_none_is_left_to_the_parser(value):
    assert "train.epochs" not in chosen(365, train__epochs=value)


@pytest.mark.parametrize("module", [adult_wide_deep, digits_resnet, mnist_resnet, taxi_wide_deep])
def test_a_config_with_numbers_of_its_own_stays_as_it_is(module):
    values = module.get_config().to_dict()
    resolved = resolve(values, of_sizes(train=300, test=50))
    assert (resolved.values, resolved.lines) == (values, ())


def test_what_is_resolved_is_what_a_run_records():
    dataset = of_sizes(train=365, validation=40, test=50)
    resolved = resolve(tabular.get_config().to_dict(), dataset)
    parsed = config_lib.parse(resolved.values)
    assert (parsed.data.global_batch, parsed.train.steps, parsed.train.keep_best) == (16, 1_000, "val_loss")
    again = resolve(json.loads(json.dumps(parsed.given)), dataset)
    assert (again.values["train"], again.lines) == (parsed.given["train"], ())
    assert resolved.lines == (
        "defaults   batch 16, 1,000 steps, evaluation every 2 epochs, 16 members, the best val_loss "
        "kept, an end after 10 evaluations without a better one: 365 rows",
    )


@pytest.mark.parametrize(
    ("left", "few", "many"),
    [
        ({"name": "wide_deep", "frequencies": -1}, {"frequencies": 0}, {"frequencies": 8}),
        ({"name": "tabular", "members": 0}, {"members": 16}, {"members": 4}),
        ({"name": "mine:net", "members": 0}, {}, {}),
    ],
)
def test_the_rows_decide_the_options_of_a_model(left, few, many):
    values = base.by_rules().to_dict()
    for rows, options in ((4_999, few), (5_000, many)):
        decided = defaults.by_rows(values | {"model": left}, rows=rows, is_validated=True)
        found = {key: value for key, value in decided.items() if key.startswith("model.")}
        assert found == {f"model.{name}": value for name, value in options.items()}
    named = dict.fromkeys(left, 3) | {"name": left["name"]}
    decided = defaults.by_rows(values | {"model": named}, rows=9, is_validated=True)
    assert not [key for key in decided if key.startswith("model.")]


def pictures(height: int, width: int) -> Dataset:
    dataset, image = of_sizes(train=2_000, validation=50), Image(name="image", height=height, width=width)
    schema = dataclasses.replace(SCHEMA, features=(image, *SCHEMA.features))
    return dataclasses.replace(dataset, schema=schema)


@pytest.mark.parametrize(
    ("height", "width", "widths", "blocks", "stem"),
    [
        (8, 8, (32, 64), 1, 1),
        (15, 400, (32, 64), 1, 1),
        (16, 16, (32, 64, 128), 1, 2),
        (63, 64, (32, 64, 128), 1, 2),
        (64, 64, (32, 64, 128, 256), 2, 2),
        (480, 96, (32, 64, 128, 256), 2, 4),
        (0, 0, (32, 64, 128, 256), 2, 4),  # of sizes that vary: refused later, where none is given
    ],
)
def test_the_images_decide_the_network(height, width, widths, blocks, stem):
    resolved = resolve(image_classification.get_config().to_dict(), pictures(height, width))
    model = resolved.values["model"]
    assert (model["widths"], model["blocks_per_stage"], model["stem_stride"]) == (widths, blocks, stem)
    channels = ", ".join(map(str, widths))
    assert f"stages of {channels} channels, blocks in each: {blocks}, stem stride {stem}" in resolved.lines[0]
    again = resolve(json.loads(json.dumps(resolved.values)), pictures(height, width))
    assert again.lines == ()


def test_the_size_that_images_are_resized_to_counts():
    values = image_classification.get_config().to_dict()
    resolved = resolve({**values, "image_size": (20, 24)}, pictures(480, 640))
    assert resolved.values["model"]["widths"] == (32, 64, 128)


def test_what_a_user_says_of_the_network_stays():
    values = image_classification.get_config().to_dict()
    model = {**values["model"], "widths": (4, 8), "stem_stride": 1}
    resolved = resolve({**values, "model": model}, pictures(28, 28)).values["model"]
    assert (resolved["widths"], resolved["blocks_per_stage"], resolved["stem_stride"]) == ((4, 8), 1, 1)
    other = resolve({**values, "model": {"name": "resnet18"}}, pictures(28, 28))
    assert other.values["model"] == {"name": "resnet18"}


def test_a_run_that_begins_with_another_has_its_network():
    first = resolve(image_classification.get_config().to_dict(), pictures(28, 28)).values
    larger = resolve(image_classification.get_config().to_dict(), pictures(64, 64), begins_with=first).values
    assert larger["model"] == first["model"]


def test_a_window_that_grows_goes_on_with_the_shapes_of_its_champion():
    small, large = of_sizes(train=400, validation=40), of_sizes(train=40_000, validation=40)
    champion = resolve(tabular.get_config().to_dict(), small).values
    challenger = resolve(tabular.get_config().to_dict(), large, begins_with=champion).values
    assert (champion["global_batch"], challenger["global_batch"]) == (16, 256)
    assert champion["model"] == challenger["model"]
    assert resolve(tabular.get_config().to_dict(), large).values["model"]["members"] == 4


def test_a_batch_that_the_file_leaves_is_that_of_the_rows_that_are_trained_on():
    values, dataset = tabular.get_config().to_dict(), of_sizes(train=8_000, validation=50)
    values["train"]["split"] = "train[:10%]"
    made = resolve(values, dataset).values["global_batch"]
    assert defaults.batch_of_rows(values, dataset, batch=0) == made == 32  # so the rate is not scaled
    assert defaults.batch_of_rows(values | {"global_batch": 64}, dataset, batch=0) == 32
    assert defaults.batch_of_rows(values, dataset, batch=100) == 100


# Validation is made where a dataset has none.


def test_a_tenth_of_train_is_the_validation_where_there_is_none():
    resolved = resolve(base.by_rules().to_dict(), of_sizes(train=400, test=50))
    assert value_at(resolved.values, "evaluation.split") == "train[90%:]"
    assert value_at(resolved.values, "train.split") == "train[:90%]"
    assert resolved.lines[0] == (
        "validation train[90%:], as the dataset has no such split; trained on train[:90%]"
    )
    assert resolved.lines[1].endswith("an end after 10 evaluations without a better one: 360 rows")


@pytest.mark.parametrize(
    ("sizes", "given"),
    [
        ({"train": 99}, {}),
        ({"train": 400, "validation": 20}, {}),
        ({"train": 400}, {"evaluation.split": ""}),
        ({"train": 400}, {"evaluation.split": "validation"}),
        ({"train": 400}, {"train.split": "train[:50%]"}),
    ],
)
def test_no_row_is_held_out_of_what_the_user_trains_on(sizes, given):
    config = base.by_rules()
    config.update_from_flattened_dict(given)
    resolved = resolve(config.to_dict(), of_sizes(**sizes))
    assert value_at(resolved.values, "train.split") == given.get("train.split", "train")
    assert value_at(resolved.values, "evaluation.split") == given.get("evaluation.split", "validation")
    is_validated = "validation" in sizes
    assert value_at(resolved.values, "train.keep_best") == ("val_loss" if is_validated else "")


def test_rows_that_the_schema_splits_together_are_not_torn_apart():
    dataset = of_sizes(train=400, test=50)
    schema = dataclasses.replace(SCHEMA, split_by=SplitBy(columns=("patient",)))
    resolved = resolve(base.by_rules().to_dict(), dataclasses.replace(dataset, schema=schema))
    assert value_at(resolved.values, "train.split") == "train"
    assert value_at(resolved.values, "evaluation.split") == "validation"
    assert value_at(resolved.values, "train.keep_best") == ""


def test_wrong_keys_and_splits_are_named():
    dataset = of_sizes(train=400)
    values = base.by_rules().to_dict()
    with pytest.raises(InputError, match=r"--config.train: received nothing"):
        resolve({key: each for key, each in values.items() if key != "train"}, dataset)
    with pytest.raises(InputError, match=r"split 'trian'"):
        resolve({**values, "train": {**values["train"], "split": "trian"}}, dataset)


@pytest.mark.parametrize(("length", "batch"), [(1, 256), (30, 256), (100, 128), (1_251, 8), (100_000, 8)])
def test_a_batch_of_groups_is_bounded_by_their_rows(length: int, batch: int):
    values = base.by_rules().to_dict() | {"model": {"name": "tabular", "members": 0}}
    chosen = defaults.by_rows(
        values, rows=6_000, is_validated=True, rows_of_each=length / 2, length=length, best="val_ndcg_at_10"
    )
    assert chosen["global_batch"] == batch
    assert chosen["train.keep_best"] == "val_ndcg_at_10"
    assert chosen["model.members"] == (16 if length == 1 else 4), "members follow from the rows of all groups"
