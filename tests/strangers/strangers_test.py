"""Eight of the strangers, as far as they come without training; `make strangers` takes all the whole way."""

import json
import subprocess
import sys

import pytest

from tests.strangers.walk import is_one_answer

# How far each comes, how it ends there, and a part of the line that says so.
EXPECTED = {
    "names_with_spaces": ("verify", "works", ""),
    "names_of_keywords": ("verify", "works", ""),
    "utf8_bom": ("verify", "works", ""),
    "jsonl_uneven": ("verify", "works", ""),
    "ragged_row": ("convert", "ends", "5 cells in place of 4"),
    "label_misspelt": ("infer_schema", "ends", "Did you mean 'bought'?"),
    "label_constant": ("infer_schema", "ends", "another column than"),
    "rows_none": ("infer_schema", "ends", "data.csv"),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    """What became of each; one process for all, because importing Beam takes longer than any command."""
    root = tmp_path_factory.mktemp("strangers")
    command = [sys.executable, "-m", "tests.strangers", "--without_training", "--jobs=1", f"--folder={root}"]
    done = subprocess.run([*command, f"--only={','.join(EXPECTED)}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return {name: json.loads((root / name / "result.json").read_text()) for name in EXPECTED}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_a_stranger_works_or_is_told_why(name: str, results: dict[str, dict]):
    stage, outcome, line = EXPECTED[name]
    assert (results[name]["stage"], results[name]["outcome"]) == (stage, outcome), results[name]["line"]
    assert line in results[name]["line"]


@pytest.mark.parametrize(
    ("lines", "is_answer"),
    [
        (["error: --label: received x; expected a column. Correct it."], True),
        (["error: --label: received x; expected a column"], False),
        (["Traceback (most recent call last):", "error: a: received b; expected c. Do d."], False),
        ([], False),
    ],
)
def test_one_line_with_a_way_out(lines: list[str], is_answer: bool):
    assert is_one_answer(lines) is is_answer
