"""The programs of tests/soak fit today's code, and find what they look for."""

import ast
import json
import pathlib
import shutil

import pytest
from tensorflow.core.example import example_pb2

from pipeline.data.dataset import tfrecord
from tests.shared import forked
from tests.shared.small_run import write_small_dataset
from tests.soak import (
    damaged,
    fault_injection,
    hooks,
    kill_publishing,
    kill_retraining,
    kill_training,
    preflight_models,
    processes,
    same_as,
    ugly,
)
from tests.soak.external_data import is_one_answer
from tests.soak.fault_injection import FAULTS, Fault


@pytest.mark.parametrize("place", [*kill_training.PLACES, *kill_publishing.REQUESTS, *kill_retraining.PLACES])
def test_there_is_such_a_place_to_die(place: str):
    assert callable(hooks.found(place.partition(" ")[2])[2])


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_code_can_be_made_faulty_and_two_tests_are_there(fault: Fault):
    text = fault_injection.file_of(fault).read_text()
    faulty = text
    for sound, changed in zip(fault.sound, fault.faulty, strict=True):
        faulty = faulty.replace(sound, changed)
    assert ast.dump(ast.parse(faulty)) != ast.dump(ast.parse(text))
    assert len(set(fault_injection.tests_of(fault))) >= 2


def test_steps_are_read_together_and_one_that_is_applied_twice_is_told(tmp_path: pathlib.Path):
    for number, text in enumerate(("0 0 a\n1 0 c\n2 0 e\n", "0 1 b\n1 1 d\n2 1 ")):  # killed as it wrote
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "steps").write_text(text)
    assert kill_training.read_steps(tmp_path) == {0: ("a", "b"), 1: ("c", "d")}
    (tmp_path / "0" / "steps").write_text("0 0 a\n0 0 a\n")
    with pytest.raises(ValueError, match="step 0 was applied twice"):
        kill_training.read_steps(tmp_path)


def test_half_a_version_is_found(tmp_path: pathlib.Path):
    (tmp_path / "3").mkdir()
    assert [fault[:14] for fault in kill_publishing.wrong(tmp_path, {})] == ["half published"]
    shutil.rmtree(tmp_path / "3")
    assert [*kill_publishing.wrong(tmp_path, {"1": "d"})] == ["nothing is served any more"]


def test_advice_is_followed_as_a_shell_would():
    said = "If so: '--missing=c=(blank)' --not_missing=y=NA. It needs --max_rejected_fraction=0.05. --label"
    expected = ["--missing=c=(blank)", "--not_missing=y=NA", "--max_rejected_fraction=0.05"]
    assert ugly.advised(said) == expected


def test_a_row_that_is_lost_and_a_cell_that_changed_are_found(tmp_path: pathlib.Path):
    example = example_pb2.Example()
    for name, number in (("weight", 0.25), ("size", 5.0)):
        example.features.feature[name].float_list.value.append(number)
    (tmp_path / "data-train.tfrecord-0").write_bytes(tfrecord.frame([example.SerializeToString()]))
    (tmp_path / "manifest.json").write_text('{"rows_rejected": 0, "splits": {"train": [{"rows": 1}]}}')
    (tmp_path / "conversion.json").write_text('{"shown_twice": {}}')
    schema = {"features": [{"kind": "numeric", "name": name} for name in ("weight", "size")]}

    def faults(*sizes: float) -> list[str]:
        stored = {0.25 + row: {"weight": 0.25 + row, "size": size} for row, size in enumerate(sizes)}
        case = ugly.Ugly(location=tmp_path, stored=stored, rows=len(sizes))
        return [*ugly.wrong(case, tmp_path, schema)]

    assert faults(5.0) == []
    assert faults(6.0) == ["1 cells changed, such as ['size: 6.0 as [5.0]']"]
    assert faults(5.0, 7.0) == [
        "1 rows written and 0 rejected, of 2",
        "1 good rows are not stored ([1.25]), 0 bad ones are",
    ]


def ended(*, code: int = 0, stderr: str = "", stdout: str = "") -> forked.Ended:
    return forked.Ended(
        code=code, stdout=stdout, stderr=stderr, seconds=1, cpu_seconds=1, peak_mib=1, timed_out=False
    )


@pytest.mark.parametrize(
    ("how", "gives_way", "problem"),
    [
        (ended(code=2, stderr="error: a.json: received b; expected c."), False, ""),
        (ended(code=2, stderr="error: b.json: received b; expected c."), False, "a.json is not named"),
        (ended(code=2, stderr="error: a.json\nand more"), False, "2 lines"),
        (ended(code=1, stderr="Traceback (most recent call last):"), False, "exit code 1"),
        (ended(), False, "another result"),
        (ended(stdout="warning    a.json is damaged"), False, "another result"),
        (ended(stdout="warning    a.json is damaged"), True, ""),
    ],
)
def test_a_damage_is_named_or_another_result_is_told(tmp_path, how, gives_way: bool, problem: str):
    reader = damaged.Reader(name="r", arguments=(), same=lambda out: {"sum": "2"}, gives_way=gives_way)
    found = damaged.wrong_strictly(how, reader, tmp_path, file="a.json", whole={"sum": "1"})
    assert found.startswith(problem)
    assert bool(found) == bool(problem)


def test_a_file_that_differs_is_named_and_times_do_not_count(tmp_path: pathlib.Path):
    before = write_small_dataset(tmp_path / "before").directory
    (before / "conversion.json").write_text(json.dumps({"rows": 1, "seconds": 2.0}))
    after = shutil.copytree(before, tmp_path / "after")
    (after / "conversion.json").write_text(json.dumps({"rows": 1, "seconds": 3.0}))

    def unlike() -> list[str]:
        prints = (same_as.of_directory(each, name="d") for each in (before, after))
        return [line.what for line in same_as.compare(*prints) if not line.same]

    assert not unlike()
    (after / "more.json").write_text("{}")
    (after / "statistics.pb").unlink()
    assert unlike() == ["d/statistics.pb", "d/more.json"]


def test_the_first_position_at_which_two_orders_part():
    assert same_as.first_difference([3, 1, 2], [3, 1, 2]) == ""
    assert same_as.first_difference([3, 1, 2], [3, 2, 1]) == "position 1: example 1 before, 2 after"
    assert same_as.first_difference([3], [3, 1]) == "1 positions before, 2 after"


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


@pytest.mark.parametrize("limits", [(0.1, 1e3), (1e3, 1e-6)], ids=["time", "memory"])
def test_a_preflight_at_its_limit_ends_with_all_its_processes(tmp_path: pathlib.Path, limits):
    leader = tmp_path / "leader"
    command = ["sh", "-c", f"echo $$ > {leader}; (sleep 60) & sleep 60"]
    seconds, gigabytes = limits
    ended = preflight_models._ended(
        command,
        tmp_path,
        tmp_path / "report.json",
        preflight_models.Limits(seconds=seconds, gigabytes=gigabytes),
    )
    assert ended.fault.startswith("killed: ")
    assert processes.alive_after_a_second(int(leader.read_text())) == []


def test_a_preflight_that_says_nothing_is_a_fault(tmp_path: pathlib.Path):
    command, limits = (
        ["sh", "-c", "echo no such model >&2; exit 2"],
        preflight_models.Limits(seconds=60, gigabytes=8),
    )
    ended = preflight_models._ended(command, tmp_path, tmp_path / "report.json", limits)
    assert ended.fault == "exit code 2: no such model"
