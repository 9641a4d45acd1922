"""What is kept in `v1/` is read as it was when it was written; README.md says what to do otherwise."""

import contextlib
import json
import pathlib
import shutil
import subprocess
from collections.abc import Iterator

import numpy as np
import pytest

from pipeline.data.dataset.records import open_export
from tests.conformance.goldens import reading
from tests.conformance.goldens.kept_run import EXPORT, LONGER, STEPS, train_flags
from tests.shared import archives

GOLDENS = pathlib.Path(__file__).resolve().parent / "v1"
EXPECTED = json.loads((GOLDENS / "expected.json").read_text())
MOST_BYTES = 450_000
# Of a prediction, of 2 or so: another processor rounds differently, other weights are off by far more.
TOLERANCE = 5e-3


@contextlib.contextmanager
def still_read(golden: pathlib.Path) -> Iterator[None]:
    """Says what to do where files are no longer read as they were."""
    try:
        yield
    except Exception as error:
        pytest.fail(
            f"{golden}: what was written is no longer read as it was: {error}\n"
            "If that is wanted, raise the version number of the format, and replace these goldens: "
            "see tests/conformance/goldens/README.md."
        )


def run(python: pathlib.Path, module: str, *arguments: str) -> None:
    done = subprocess.run([python, "-m", module, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, f"{module} said: {done.stderr.strip().splitlines()[-1:]}"


def test_they_are_small():
    files = [path for path in GOLDENS.rglob("*") if path.is_file()]
    assert sum(path.lstat().st_size for path in files) <= MOST_BYTES


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_a_dataset_is_sound_and_holds_the_same_examples(layout, warm_python):
    with still_read(GOLDENS / layout):
        run(warm_python, "beam_jobs.verify", str(GOLDENS / layout))
        assert reading.examples(GOLDENS / layout) == EXPECTED["examples"][layout]


@pytest.mark.slow
def test_a_run_goes_on_from_its_checkpoint_in_the_same_order(tmp_path, warm_python):
    with still_read(GOLDENS / "run"):
        workdir = shutil.copytree(GOLDENS / "run", tmp_path / "run")
        run(warm_python, "pipeline.train", *train_flags(GOLDENS / "rows", workdir, steps=LONGER))
        ledger, losses = reading.history(workdir)
        assert len(ledger) == LONGER
        assert ledger == EXPECTED["ledger"]
        # Their roots: what is left of a label when the prediction is taken from it.
        np.testing.assert_allclose(np.sqrt(losses), np.sqrt(EXPECTED["losses"]), atol=TOLERANCE)
        before = (GOLDENS / "run" / "history.jsonl").read_text().splitlines()
        after = (workdir / "history.jsonl").read_text().splitlines()
        assert after[:STEPS] == before  # it did not start over


def test_an_export_serves_the_same_predictions(tmp_path):
    archives.unpack(GOLDENS / EXPORT, tmp_path)
    with still_read(GOLDENS / EXPORT):
        open_export(tmp_path)
        found, wanted = reading.predictions(tmp_path), EXPECTED["predictions"]
        assert found.keys() == wanted.keys()
        for signature, outputs in wanted.items():
            assert found[signature].keys() == outputs.keys()
            for name, values in outputs.items():
                np.testing.assert_allclose(found[signature][name], values, rtol=TOLERANCE, atol=TOLERANCE)


def test_a_golden_that_is_not_read_says_what_to_do(tmp_path):
    dataset = shutil.copytree(GOLDENS / "blocks", tmp_path / "blocks")
    manifest = dataset / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"penstock.manifest/', '"penstock.manifest/0'))
    says = pytest.raises(pytest.fail.Exception, match=r"(?s)no longer read as it was: .*raise the version")
    with says, still_read(dataset):
        reading.examples(dataset)
