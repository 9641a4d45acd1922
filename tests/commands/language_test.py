"""A language model, from raw text through training and its export to text of its own."""

import json
import math
import pathlib
import subprocess
from collections.abc import Callable

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.data.preprocessing.tokenizers import ByteTokenizer
from pipeline.exporting import keras_file
from pipeline.exporting.runtimes import KERAS_FILE

ROOT = pathlib.Path(__file__).parents[2]
LINE = "round and round it goes"
TOKENS = ("--tokenizer=bytes", "--sequence_length=16")
SMALL = (
    *("--config.model.width=16", "--config.model.heads=2", "--config.model.depth=1", "--config.seed=3"),
    *("--config.train.steps=150", "--config.global_batch=16", "--config.train.epochs=9"),
    "--precision=float32",  # so that a row by itself has the log-probabilities that it has among others
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def command(warm_python: pathlib.Path) -> Callable[..., str]:
    def run(module: str, *arguments: object, code: int = 0) -> str:
        given = [warm_python, "-m", module, *map(str, arguments)]
        ended = subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=False)
        assert ended.returncode == code, (module, ended.stdout[-2000:], ended.stderr[-2000:])
        return ended.stdout if not code else ended.stderr

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, command: Callable[..., str]) -> pathlib.Path:
    """A dataset, a run of it, and its export."""
    here = tmp_path_factory.mktemp("language")
    (here / "train.txt").write_text(f"{LINE}\n" * 120)
    (here / "test.txt").write_text(f"{LINE}\n" * 9)
    inputs = (f"--input=train={here / 'train.txt'}", f"--input=test={here / 'test.txt'}", *TOKENS)
    command("beam_jobs.infer_schema", *inputs, "--name=rounds", f"--output={here / 'schema.json'}")
    data = (f"--schema={here / 'schema.json'}", "--layout=blocks", f"--output={here / 'data'}")
    command("beam_jobs.convert", *inputs, *data)
    config = "--config=pipeline/configs/language_model.py"
    run = f"--workdir={here / 'run'}"
    command("pipeline.train", config, f"--dataset={here / 'data'}", run, *SMALL)
    command("pipeline.export", run, f"--output={here / 'export'}")
    return here


def test_the_export_has_the_metrics_of_the_run(folder, command):
    command(
        "pipeline.evaluate",
        *(f"--model={folder / 'export'}", f"--dataset={folder / 'data'}", f"--json={folder / 'test.json'}"),
    )
    found = json.loads((folder / "test.json").read_text())
    run = json.loads((folder / "run" / "evaluation.json").read_text())
    for name in ("loss", "perplexity", "bits_per_byte", "accuracy", "tokens"):
        assert found[name] == pytest.approx(run[name], rel=1e-5)
    assert found["bits_per_byte"] == pytest.approx(found["loss"] / math.log(2))
    assert found["loss"] < 1.0  # even odds over the letters that occur: 2.5


def test_predictions_of_new_text_are_the_log_probabilities_of_its_tokens(folder, command):
    (folder / "new.txt").write_text("round and round\n")
    given = (f"--model={folder / 'export'}", f"--input={folder / 'new.txt'}", *TOKENS)
    command("beam_jobs.predict", *given, f"--output={folder / 'predicted'}")
    [row] = pq.read_table(next((folder / "predicted").glob("*.parquet")))["log_probabilities"].to_pylist()
    tokens = [*ByteTokenizer().encode(["round and round"])[0].tolist(), 1]
    model = keras_file.load(folder / "export" / KERAS_FILE)
    ids = {"tokens": np.array([tokens], "int32") + 1, "segments": np.full((1, 16), 2, "int32")}
    logits = np.asarray(model(ids), np.float64)[0]
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    own = [logs[at - 1, tokens[at]] for at in range(1, 16)]
    np.testing.assert_allclose([each[0] for each in row], [0.0, *own], atol=1e-4)
    np.testing.assert_allclose([each[1] for each in row], [0.0, *logs[:-1].max(axis=1)], atol=1e-4)
    other = command(
        "beam_jobs.predict", *given[:2], "--tokenizer=README.md", f"--output={folder / 'other'}", code=2
    )
    assert "neither of the known kinds" in other


def test_a_run_and_its_export_write_the_same_text(folder, command):
    asked = ("--prompt=round a", "--prompt=it", "--tokens=60", "--temperature=0", "--stop=\n")
    texts = {
        name: command("pipeline.generate", f"--model={folder / name}", *asked, f"--json={folder / name}.json")
        for name in ("run", "export")
    }
    assert texts["run"] == texts["export"]
    told = json.loads((folder / "run.json").read_text())["texts"]
    assert (told[0]["prompt"], told[0]["ended"]) == ("round a", "end")
    assert f"{told[0]['prompt']}{told[0]['text']}" == LINE
    lines = ["round", "a\x0cb\u2028c", "  "]  # a form feed and U+2028 end no line
    (folder / "prompts.txt").write_bytes("\ufeff{}\r\n{}\n\n{}".format(*lines).encode())
    written = (f"--prompts={folder / 'prompts.txt'}", "--tokens=1", f"--json={folder / 'lines.json'}")
    command("pipeline.generate", f"--model={folder / 'run'}", *written)
    assert [each["prompt"] for each in json.loads((folder / "lines.json").read_text())["texts"]] == lines
    refused = command("pipeline.generate", f"--model={folder / 'run'}", "--prompt=", code=2)
    assert "--prompt: received an empty one" in refused
    no_text = command("pipeline.generate", f"--model={folder / 'run'}", "--prompt=\udcff", code=2)
    assert "--prompt: received" in no_text and "expected UTF-8" in no_text


def test_a_step_is_replayed_and_agrees_with_a_plain_loop(folder, command):
    assert "label tokens" in command("pipeline.replay", f"--workdir={folder / 'run'}", "--step=3")
    found = command("pipeline.parity", f"--workdir={folder / 'run'}")
    assert "verdict: all agree" in found
