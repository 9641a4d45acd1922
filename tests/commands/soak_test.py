"""Slices of the programs of tests/soak, in forks; other engines, where `make engines` has installed them."""

import pathlib
import re
import subprocess
from collections.abc import Callable

import pytest

from tests.shared.engines import LOOPBACK_ENGINES, Engine
from tests.shared.fixtures.raw_data import Ended, people_csv
from tests.shared.published import differences

# Slices of the programs of tests/soak: some kills and some damages, in forks.


def soak(python: pathlib.Path, folder: pathlib.Path, module: str, *flags: str) -> str:
    command = [python, "-m", f"tests.soak.{module}", *flags, f"--folder={folder}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "kills"), [("train_table_one_device", 4), ("publish", 6), ("infer_schema", 4)]
)
def test_what_is_killed_again_and_again_ends_as_undisturbed(tmp_path, warm_python, case: str, kills: int):
    printed = soak(warm_python, tmp_path, "kill", f"--cases={case}", f"--kills={kills}")
    assert len(re.findall(r": ok$", printed, re.M)) == kills
    assert "1 cases, 0 faults" in printed


@pytest.mark.slow
def test_what_is_damaged_is_named_or_has_no_effect(tmp_path, warm_python):
    cases = ("raw_data.csv", "hostile/datasets/manifest_shard_outside", "mutation/mapped", "poisoned")
    printed = soak(warm_python, tmp_path, "damage", f"--cases={','.join(cases)}", "--count=1")
    assert "4 cases, 0 faults" in printed


@pytest.mark.slow
def test_external_data_ends_with_one_line(tmp_path, warm_python):
    names = ("ragged_row", "label_misspelt", "label_constant", "rows_none")
    printed = soak(
        warm_python, tmp_path, "damage", "--cases=" + ",".join(f"external/{name}" for name in names)
    )
    assert "5 cells in place of 4" in printed
    assert "Did you mean 'bought'?" in printed


@pytest.mark.slow
def test_two_workers_skip_a_step_and_agree(tmp_path, warm_python):
    assert "2 cases, 0 faults" in soak(warm_python, tmp_path, "workers", "--cases=skip,agree")


def test_an_unknown_case_is_named(tmp_path, warm_python):
    command = [warm_python, "-m", "tests.soak.acceptance", "--cases=mnits"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert "mnits" in done.stderr


# Other engines than the embedded one, where `make engines` has installed them: same bytes, same refusals.

Convert = Callable[..., Ended]


def installed(engine: Engine) -> pytest.param:
    skip = pytest.mark.skipif(bool(engine.missing), reason=engine.missing)
    return pytest.param(engine, id=engine.name, marks=skip)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [installed(engine) for engine in LOOPBACK_ENGINES])
def test_same_bytes_on_every_engine(convert_people: Convert, people: pathlib.Path, engine: Engine):
    assert convert_people().code == 0
    (people / "out").rename(people / "embedded")
    ended = convert_people(*engine.flags)
    assert (ended.code, ended.err) == (0, "")
    assert differences(people / "embedded", people / "out") == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", [installed(LOOPBACK_ENGINES[0])])
def test_bad_input_on_a_worker_ends_in_the_same_line(
    convert_people: Convert, people: pathlib.Path, engine: Engine
):
    (people / "people.csv").write_bytes(people_csv().replace(b"city", b"town"))
    embedded, ended = convert_people(), convert_people(*engine.flags)
    assert (embedded.code, ended.code) == (2, 2)
    assert ended.err.endswith(f"\n{embedded.err}")  # after what the engine itself has to say
    assert not (people / "out").exists()
