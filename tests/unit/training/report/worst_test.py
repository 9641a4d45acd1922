"""The pictures with the largest losses: which they are, their thumbnails, and the page that shows them."""

import base64
import json

import numpy as np
import PIL.Image
import pytest
from sklearn.metrics import log_loss

from pipeline.configs import image_classification
from pipeline.data.dataset.manifest import Dataset
from pipeline.data.dataset.selection import select
from pipeline.data.schema.feature_types import Categorical, Image, Label
from pipeline.data.schema.schema import Schema
from pipeline.report import html
from pipeline.training.report import worst
from pipeline.training.run import run
from pipeline.training.run.request import Request
from tests.shared.parsed import parsed
from tests.shared.pictures import decode, encode, smooth
from tests.shared.tiny_dataset import write_dataset

CLASSES = ("box", "disc", "<ring>")
SCHEMA = Schema(
    name="pictures",
    features=(Image(name="image"), Label(name="kind", task="multiclass", classes=CLASSES)),
)


def rows(count: int, *, size: tuple[int, int] = (20, 30)) -> list[dict]:
    """Pictures, each of another brightness."""
    return [
        {"image": encode(np.full((*size, 3), 5 * number, np.uint8), "PNG"), "kind": number % 3}
        for number in range(count)
    ]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    splits = {"train": rows(40), "validation": rows(9), "test": rows(30)}
    return write_dataset(tmp_path_factory.mktemp("pictures") / "1.0.0", SCHEMA, splits)


def test_the_largest_losses_come_first(dataset):
    labels = np.arange(30) % 3
    predictions = np.random.default_rng(1).dirichlet(np.ones(3), 30)
    found = worst.worst_pictures(select(dataset, "test"), labels, predictions)
    losses = np.array([log_loss([y], [p], labels=range(3)) for y, p in zip(labels, predictions, strict=True)])
    order = np.argsort(-losses)[:12]
    np.testing.assert_allclose([each["loss"] for each in found], losses[order])
    assert [each["label"] for each in found] == [CLASSES[at % 3] for at in order]
    assert [each["predicted"] for each in found] == [CLASSES[predictions[at].argmax()] for at in order]
    brightness = [decode(base64.b64decode(each["png"])).mean() for each in found]
    assert brightness == [5 * at for at in order]  # each is the picture of its row
    assert (
        found[0]["source"] == f"pictures-test.tfrecord-{order[0] // 15:05d}-of-00002 record {order[0] % 15}"
    )


def test_thumbnails_keep_their_shape_and_are_small(tmp_path):
    large = [{"image": encode(smooth(300, 600), "JPEG"), "kind": 0} for _ in range(14)]
    final = select(write_dataset(tmp_path / "1.0.0", SCHEMA, {"test": large}), "test")
    found = worst.worst_pictures(final, np.zeros(14, int), np.full((14, 3), 1 / 3))
    assert len(found) == 12
    picture = decode(base64.b64decode(found[0]["png"]))
    expected = PIL.Image.fromarray(decode(large[0]["image"])).resize((96, 48), PIL.Image.Resampling.BOX)
    np.testing.assert_allclose(picture, np.asarray(expected), atol=6)
    assert len(html.page(worst.worst_section(found), [])) < 600_000


def test_only_a_model_of_pictures_that_tells_classes_has_them(dataset):
    final = select(dataset, "test")
    assert worst.is_for(SCHEMA, final)
    label = Label(name="kind", task="multiclass", classes=CLASSES)
    assert not worst.is_for(Schema(name="table", features=(Categorical(name="a"), label)), final)
    value = Label(name="size", task="regression")
    assert not worst.is_for(Schema(name="sizes", features=(Image(name="image"), value)), final)
    assert worst.worst_section([]) is None


@pytest.mark.slow
def test_the_report_of_a_run_shows_them(dataset, tmp_path):
    config = image_classification.get_config()
    config.model.widths, config.model.blocks_per_stage, config.train.steps = (4,), 1, 3
    config.image_size = (8, 8)
    request = Request(
        experiment=parsed(config, dataset),
        dataset=dataset,
        workdir=tmp_path,
        strategy="one_device",
        precision="float32",
    )
    metrics = run.train(request)
    found = json.loads((tmp_path / "worst.json").read_text())["pictures"]
    assert len(found) == 12
    assert found[0]["loss"] > metrics["loss"]
    page = (tmp_path / "report.html").read_text()
    assert page.count('<img src="data:image/png;base64,') == 12
    assert "&lt;ring&gt; → " in page
    assert "<ring>" not in page
