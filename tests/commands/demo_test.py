"""The demo's scripts."""

import base64
import hashlib
import json
import pathlib
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from demo import serve, trips
from demo.retraining import get_config
from pipeline.configs.retraining import base
from pipeline.data.images.decoding import decode_images
from pipeline.retraining import settings
from tests.shared.pictures import decode, encode, noise

# The last lines of the demo of retraining: what was published and held, and whether that was expected.

ROOT = pathlib.Path(__file__).parents[2]
ENTRIES = (
    {"act": "started", "stage": "publish"},
    {"act": "published", "version": 1},
    {"act": "decided", "version": 1},
    {"act": "published", "version": 2},
    {"act": "held", "reason": "drift"},
    {"act": "released", "reason": "looked at"},
    {"act": "published", "version": 3},
)


def told(folder: pathlib.Path, entries: Sequence[dict]) -> subprocess.CompletedProcess:
    (folder / "audit.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    command = [sys.executable, "-m", "demo.history", f"--root={folder}", "--seconds=99"]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_the_expected_history_is_told(tmp_path):
    result = told(tmp_path, ENTRIES)
    assert (result.returncode, result.stderr) == (0, "")
    assert "published 1, published 2, held, released, published 3" in result.stdout


@pytest.mark.parametrize("left_out", [1, 4, 6])  # a version less, or a bad day that was not held
def test_another_history_fails(tmp_path, left_out: int):
    result = told(tmp_path, [entry for number, entry in enumerate(ENTRIES) if number != left_out])
    assert result.returncode == 1
    assert "error: the history is not the one expected" in result.stderr


# The demo's config of retraining is one, as far as its types, keys and files go.


def test_the_config_is_complete(monkeypatch):
    monkeypatch.chdir(pathlib.Path(__file__).parents[2])
    commands = settings.Commands(convert="", train="", export="")
    parsed = settings.parse(get_config().to_dict(), commands, like=base.get_config().to_dict())
    assert (parsed.gate.rule, parsed.gate.margin) == ("non_inferiority", 0.02)


# The demo's days of trips: the same each time, learnable, and one of them in other units.

COLUMN = {name: number for number, name in enumerate(trips.COLUMNS)}


def column(day: int, name: str) -> np.ndarray:
    return np.array([trip[COLUMN[name]] for trip in trips.trips(day)])


def inputs(day: int) -> np.ndarray:
    """What a plain model gets: pace, miles, the hour on its circle, and the payment."""
    hour = column(day, "hour") * np.pi / 12
    miles, payment = column(day, "miles"), column(day, "payment")
    paid = [payment == each for each in trips.PAYMENTS]
    return np.stack([column(day, "minutes") / miles, miles, np.cos(hour), np.sin(hour), *paid], axis=1)


def test_a_day_is_written_once_the_same_each_time_and_whole(tmp_path: pathlib.Path):
    first, again = (trips.write_day(tmp_path / name, 2) / "trips.csv" for name in ("a", "b"))
    assert first.parent.name == "date=2026-11-02"
    assert first.read_bytes() == again.read_bytes()
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["date=2026-11-02"]  # no draft is left
    first.write_text("kept")
    assert trips.write_day(tmp_path / "a", 2) == first.parent
    assert first.read_text() == "kept"


def test_days_are_different_ones_of_one_kind():
    texts = {hashlib.sha256(repr(trips.trips(day)).encode()).hexdigest() for day in range(1, 6)}
    assert len(texts) == 5
    for day in (1, 2, 3, 5):
        assert 3 < column(day, "miles").mean() < 6
        assert 0.4 < (column(day, "big_tip") == "yes").mean() < 0.6


def test_a_model_of_one_day_knows_much_of_another_and_not_all():
    model = LogisticRegression(max_iter=1000).fit(inputs(1), column(1, "big_tip"))
    auc = roc_auc_score(column(2, "big_tip"), model.predict_proba(inputs(2))[:, 1])
    assert 0.9 < auc < 0.99


def test_the_bad_day_is_as_the_others_but_for_its_units():
    good, bad = column(3, "miles"), column(trips.BAD_DAY, "miles")
    assert np.median(bad) / np.median(good) == pytest.approx(trips.METRES_IN_A_MILE, rel=0.1)
    assert 0.4 < (column(trips.BAD_DAY, "big_tip") == "yes").mean() < 0.6


# The demo's last lines, and that it fails where the model is worse than it should be.


@pytest.mark.parametrize(("accuracy", "exit_code"), [(0.99, 0), (0.97, 0), (0.9699, 1)])
def test_fails_below_the_required_accuracy(tmp_path, accuracy, exit_code):
    metrics = tmp_path / "test.json"
    metrics.write_text(json.dumps({"accuracy": accuracy, "examples": 385}))
    paths = (f"--metrics={metrics}", "--model=build/demo/model", "--report=report.html", "--seconds=79")
    result = subprocess.run([sys.executable, "-m", "demo.verdict", *paths], capture_output=True, text=True)
    assert result.returncode == exit_code
    assert f"test accuracy  {accuracy:.4f} of 385 digits" in result.stdout
    assert "SavedModel     build/demo/model" in result.stdout
    assert ("error: the accuracy is below 0.97" in result.stderr) == bool(exit_code)


# The demo's images hold scikit-learn's digits, value by value.


@pytest.mark.slow
def test_values_can_be_read_back_and_complete_files_are_kept(tmp_path: pathlib.Path):
    command = [sys.executable, str(ROOT / "demo" / "write_digits.py"), f"--output={tmp_path}"]
    subprocess.run(command, check=True)
    digits = load_digits()
    for number in (0, 100, 1796):
        path = tmp_path / str(digits.target[number]) / f"{number:04d}.png"
        values = np.round(np.asarray(PIL.Image.open(path)) / 255 * 16)
        np.testing.assert_array_equal(values, digits.images[number])
    written = path.stat().st_mtime_ns
    subprocess.run(command, check=True)
    assert path.stat().st_mtime_ns == written
    assert len(list(tmp_path.rglob("*.png"))) == 1797


# The small server: what TensorFlow Serving's REST API would answer.


class Products(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None], name="a"), tf.TensorSpec([None], tf.int64, name="b")])
    def __call__(self, a: tf.Tensor, b: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"product": a * tf.cast(b, tf.float32)}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = str(tmp_path_factory.mktemp("products"))
    module = Products()
    tf.saved_model.save(module, folder, {"raw": module.__call__})
    with serve.server(tf.saved_model.load(folder), port=0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://localhost:{server.server_port}{serve.PATH}"
        server.shutdown()
        thread.join()


def answered(address: str, request: object) -> tuple[int, dict]:
    try:
        with urllib.request.urlopen(address, json.dumps(request).encode()) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_server_answers_columns(address):
    request = {"signature_name": "raw", "inputs": {"a": [1.5, 2.0], "b": [2, -3]}}
    assert answered(address, request) == (200, {"outputs": [3.0, -6.0]})


def test_the_server_answers_rows(address):
    request = {"signature_name": "raw", "instances": [{"a": 1.5, "b": 2}, {"a": 2, "b": -3}]}
    assert answered(address, request) == (200, {"predictions": [3.0, -6.0]})


def test_a_missing_number_is_nan_as_tensorflow_serving_has_it(address):
    request = {"signature_name": "raw", "inputs": {"a": [float("nan"), 2.0], "b": [2, 2]}}
    status, answer = answered(address, request)
    assert (status, str(answer["outputs"])) == (200, "[nan, 4.0]")


class Texts(tf.Module):
    """Two outputs of two texts, of which one may be bytes."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string), tf.TensorSpec([None, 2], tf.string)])
    def __call__(self, name: tf.Tensor, files: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"upper": tf.strings.upper(name, "utf-8"), "lengths": tf.strings.length(files)}


def test_bytes_come_in_base64_and_several_outputs_are_named():
    texts = Texts()
    function = tf.function(lambda **given: texts(**given)).get_concrete_function(
        name=tf.TensorSpec([None], tf.string), files=tf.TensorSpec([None, 2], tf.string)
    )
    signatures = {"raw": function}
    bytes_ = {"b64": base64.b64encode(b"\xff\xd8\xff").decode()}
    row = {"name": "äb", "files": [bytes_, "a"]}
    reply = serve.predict(signatures, {"signature_name": "raw", "instances": [row, {**row, "name": ""}]})
    assert reply == {"predictions": [{"upper": "ÄB", "lengths": [3, 1]}, {"upper": "", "lengths": [3, 1]}]}
    with pytest.raises(ValueError, match=r"column 'name': received .*%%.*; expected bytes in Base64"):
        serve.predict(signatures, {"signature_name": "raw", "instances": [{**row, "name": {"b64": "%%"}}]})
    flat = {"signature_name": "raw", "inputs": {"name": ["a"], "files": ["a"]}}
    with pytest.raises(ValueError, match=r"column 'files': received a shape of \(1,\); expected \(rows, 2\)"):
        serve.predict(signatures, flat)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"signature_name": "raw", "inputs": {"a": [1.0]}}, "inputs: received ['a']; expected ['a', 'b']"),
        ({"signature_name": "raw"}, "inputs: received []; expected ['a', 'b']"),
        ({"inputs": {}}, "signature_name: received serving_default; expected one of raw"),
        ([1], "request: received a list; expected an object with signature_name and inputs"),
        (
            {"signature_name": "raw", "inputs": {"a": ["3"], "b": [1]}},
            "column 'a': received \"3\"; expected a number (float32), without quotes; a missing one is NaN",
        ),
        (
            {"signature_name": "raw", "inputs": {"a": [None], "b": [1]}},
            "column 'a': received null; expected a number (float32); a missing one is NaN, without quotes",
        ),
        (
            {"signature_name": "raw", "instances": [{"a": 1.0, "b": 2.5}]},
            "column 'b': received 2.5; expected a whole number (int64)",
        ),
        (
            {"signature_name": "raw", "instances": [{"a": 1.0, "b": 1}, {"a": 1.0}]},
            "row 2 of instances: received ['a']; expected ['a', 'b']",
        ),
        (
            {"signature_name": "raw", "instances": {"a": [1.0]}},
            'instances: received {"a": [1.0]}; expected a list of objects, one for each row',
        ),
        (
            {"signature_name": "raw", "inputs": {"a": [1.0, 2.0], "b": [3]}},
            "inputs: received {'a': 2, 'b': 1} rows; expected as many in each column",
        ),
        (
            {"signature_name": "raw", "inputs": {}, "instances": []},
            "request: received both inputs and instances; expected one of them",
        ),
    ],
)
def test_a_bad_request_is_answered_in_one_line_and_the_server_goes_on(address, request_, says):
    assert answered(address, request_) == (400, {"error": says})
    assert answered(address, {"signature_name": "raw", "inputs": {"a": [2.0], "b": [4]}})[0] == 200


def test_a_request_that_is_nested_too_deep_is_answered(address):
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(address, b"[" * 100_000)
    assert "recursion" in json.load(refused.value)["error"]


class Brightness(tf.Module):
    """Decodes a picture as the graph of an export does."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="picture")], autograph=False)
    def __call__(self, picture: tf.Tensor) -> dict[str, tf.Tensor]:
        pixels = decode_images(picture, (8, 8, 3), max_pixels=2_000)
        return {"brightness": tf.reduce_mean(tf.cast(pixels, tf.float32), axis=[1, 2, 3])}


@pytest.fixture(scope="module")
def pictured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[serve.Signatures]:
    folder, module = str(tmp_path_factory.mktemp("brightness")), Brightness()
    tf.saved_model.save(module, folder, {"raw": module.__call__})
    loaded = tf.saved_model.load(folder)  # the signatures end with it
    yield loaded.signatures


RGB = noise(30, 40, 3)
SOUND = encode(RGB, "JPEG")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (encode(RGB, "GIF"), "received data that begins with b'GIF8.*; expected a JPEG or PNG file"),
        (SOUND[: len(SOUND) // 2], "received a JPEG that is cut off or damaged; expected the whole file"),
        (SOUND[:30], "received a JPEG that is cut off or damaged; expected the whole file of a JPEG or PNG"),
        (encode(RGB, "PNG")[:300], "received a PNG that is cut off or damaged; expected the whole file"),
        (encode(noise(60, 40, 3), "PNG"), "received 60 x 40 pixels .*; expected 1 to 2,000 pixels in all"),
        (b"", "received data that begins with .*; expected a JPEG or PNG file"),
    ],
    ids=["gif", "half a jpeg", "head of a jpeg", "half a png", "many pixels", "nothing"],
)  # fmt: skip
def test_a_picture_that_is_refused_is_named_in_one_line(pictured, data: bytes, says: str):
    instances = [{"picture": {"b64": base64.b64encode(each).decode()}} for each in (SOUND, data, SOUND)]
    with pytest.raises(ValueError, match=rf"^row 2 of the request, image: {says}") as refused:
        serve.predict(pictured, {"signature_name": "raw", "instances": instances})
    assert "\n" not in str(refused.value)
    sound = serve.predict(pictured, {"signature_name": "raw", "instances": [instances[0]]})
    np.testing.assert_allclose(sound["predictions"], decode(SOUND, "RGB").mean(), atol=2)


def test_another_path_is_refused(address):
    status, answer = answered(address.replace("model:predict", "other:predict"), {})
    assert status == 404
    assert answer["error"].startswith("path: received POST /v1/models/other:predict; expected POST ")


def test_a_get_request_is_answered_with_the_state_or_with_what_to_ask(address):
    with urllib.request.urlopen(address.removesuffix(":predict")) as reply:
        (state,) = json.load(reply)["model_version_status"]
    assert (state["version"], state["state"]) == ("1", "AVAILABLE")
    for method, status in (("GET", 404), ("PUT", 501)):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(address, method=method))
        assert refused.value.code == status
        assert "expected POST /v1/models/model:predict for predictions" in json.load(refused.value)["error"]


@pytest.mark.parametrize(
    ("flag", "says"),
    [("--port=99999", "--port: received 99999"), ("--model={}/absent", "without saved_model.pb"),
     ("--model={}/damaged", "which does not load"), ("--model={}/other", "which does not load")],
)  # fmt: skip
def test_what_cannot_be_served_is_told_in_one_line(flag, says, tmp_path, monkeypatch, capsys):
    tf.saved_model.save(Products(), str(tmp_path / "whole"))
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged/saved_model.pb").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other/saved_model.pb").write_text("no protocol buffer")
    monkeypatch.setattr("sys.argv", ["serve.py", f"--model={tmp_path}/whole", flag.format(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        serve.main()
    assert ended.value.code == 2
    assert says in capsys.readouterr().err.splitlines()[-1]
