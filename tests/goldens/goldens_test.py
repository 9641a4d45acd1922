"""What earlier versions have written is still read as they read it; README.md says what to do otherwise."""

import contextlib
import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest

from pipeline.data.dataset.records import open_export
from pipeline.data.reading import order
from pipeline.training.engine import step
from pipeline.training.state import run_record
from tests.goldens import reading
from tests.goldens.kept_run import EXPORT, LONGER, STEPS, train_flags
from tests.shared import archives

HERE = pathlib.Path(__file__).resolve().parent
VERSIONS = sorted(path for path in HERE.glob("v*") if path.is_dir())
RUNS = [path for path in VERSIONS if (path / "run").is_dir()]  # a run of v1 had other inputs: it cannot go on


def is_continued(version: pathlib.Path) -> bool:
    record = run_record.read(version / "run" / "run.json")
    return (record.order, record.update) == (order.VERSION, step.VERSION)


CONTINUED = [path for path in RUNS if is_continued(path)]
EXPORTS = [path for path in VERSIONS if (path / EXPORT).is_file()]  # the weights of v1's were not finite
MOST_BYTES = 350_000  # of the goldens of a version
# Of a prediction, of 2 or so: another processor rounds differently, other weights are off by far more.
TOLERANCE = 5e-3


@contextlib.contextmanager
def still_read(golden: pathlib.Path) -> Iterator[None]:
    """Says what to do where an earlier version's files are no longer read as they were."""
    try:
        yield
    except Exception as error:
        pytest.fail(
            f"{golden}: what an earlier version wrote is no longer read as it was: {error}\n"
            "Keep a reader for it. Where that is not wanted, raise the version number of the format, say in "
            "CHANGELOG.md what users must do, and replace these goldens: see tests/goldens/README.md."
        )


def run(python: pathlib.Path, module: str, *arguments: str) -> None:
    done = subprocess.run([python, "-m", module, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"{module} said: {done.stderr.strip().splitlines()[-1:]}"


def same_predictions(export: pathlib.Path, wanted: dict) -> None:
    found = reading.predictions(export)
    assert found.keys() == wanted.keys()
    for signature, outputs in wanted.items():
        assert found[signature].keys() == outputs.keys()
        for name, values in outputs.items():
            np.testing.assert_allclose(found[signature][name], values, rtol=TOLERANCE, atol=TOLERANCE)


def expected(version: pathlib.Path) -> dict:
    return json.loads((version / "expected.json").read_text())


def test_there_are_goldens_and_they_are_small():
    assert VERSIONS
    for version in VERSIONS:
        files = [path for path in version.rglob("*") if path.is_file()]
        assert sum(path.lstat().st_size for path in files) <= MOST_BYTES


@pytest.mark.parametrize("layout", ["rows", "blocks"])
@pytest.mark.parametrize("version", VERSIONS, ids=lambda path: path.name)
def test_a_dataset_is_sound_and_holds_the_same_examples(version, layout, warm_python):
    with still_read(version / layout):
        run(warm_python, "beam_jobs.verify", str(version / layout))
        assert reading.examples(version / layout) == expected(version)["examples"][layout]


@pytest.mark.parametrize("version", CONTINUED, ids=lambda path: path.name)
def test_a_run_goes_on_from_its_checkpoint_in_the_same_order(version, tmp_path, warm_python):
    with still_read(version / "run"):
        workdir = shutil.copytree(version / "run", tmp_path / "run")
        run(warm_python, "pipeline.train", *train_flags(version / "rows", workdir, steps=LONGER))
        ledger, losses = reading.history(workdir)
        assert len(ledger) == LONGER
        assert ledger == expected(version)["ledger"]
        # Their roots: what is left of a label when the prediction is taken from it.
        np.testing.assert_allclose(np.sqrt(losses), np.sqrt(expected(version)["losses"]), atol=TOLERANCE)
        before = (version / "run" / "history.jsonl").read_text().splitlines()
        after = (workdir / "history.jsonl").read_text().splitlines()
        assert after[:STEPS] == before  # it did not start over


@pytest.mark.parametrize("version", sorted(set(RUNS) - set(CONTINUED)), ids=lambda path: path.name)
def test_a_run_of_another_order_or_update_is_not_continued_but_exported(version, tmp_path, warm_python):
    workdir = shutil.copytree(version / "run", tmp_path / "run")
    longer = train_flags(version / "rows", workdir, steps=LONGER)
    refused = subprocess.run([warm_python, "-m", "pipeline.train", *longer], capture_output=True, text=True)
    assert refused.returncode == 2
    assert len(refused.stderr.splitlines()) == 1
    assert "order of rows" in refused.stderr or "update of weights" in refused.stderr
    with still_read(version / "run"):
        run(warm_python, "pipeline.export", f"--workdir={workdir}", f"--output={tmp_path / 'export'}")
        same_predictions(tmp_path / "export", expected(version)["predictions"])


@pytest.mark.parametrize("version", EXPORTS, ids=lambda path: path.name)
def test_an_export_serves_the_same_predictions(version, tmp_path):
    archives.unpack(version / EXPORT, tmp_path)
    with still_read(version / EXPORT):
        open_export(tmp_path)
        same_predictions(tmp_path, expected(version)["predictions"])


def test_a_golden_that_is_not_read_says_what_to_do(tmp_path):
    dataset = shutil.copytree(VERSIONS[0] / "blocks", tmp_path / "blocks")
    manifest = dataset / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"penstock.manifest/', '"penstock.manifest/0'))
    says = pytest.raises(pytest.fail.Exception, match=r"(?s)no longer read as it was: .*Keep a reader")
    with says, still_read(dataset):
        reading.examples(dataset)
