"""Command lines and directories as users write them."""

import os
import pathlib

import pytest
from absl import flags
from absl.testing import flagsaver

from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.errors import InputError

NAMES = flags.DEFINE_list("names_of_parsing_test", [], "A,B,…: names.")
TITLE = flags.DEFINE_string("title_of_parsing_test", None, "TEXT: a title.")
LOUD = flags.DEFINE_bool("loud_of_parsing_test", False, "Loud.")
EACH = flags.DEFINE_multi_string("each_of_parsing_test", [], "TEXT: repeats.")
COMMAND = Command(
    name="some", description="", flags={"Flags": (NAMES, TITLE, LOUD, EACH)}, arguments="[NAME …]"
)
FLAG = f"--{NAMES.name}"


@pytest.mark.parametrize("given", [[f"{FLAG}=a", f"{FLAG}=b"], [FLAG, "a", f"-{NAMES.name}=b"]])
def test_a_list_that_is_given_twice_is_refused(given: list[str]):
    with pytest.raises(InputError, match=f"{FLAG}: received it twice, as .*; expected all values in"):
        flags_lib.parse(COMMAND, ["some", *given])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([f"--{TITLE.name}=a", f"--{TITLE.name}=b"], f"--{TITLE.name}=a and --{TITLE.name}=b"),
        ([f"-{TITLE.name}", "a", f"--{TITLE.name}=a"], f"--{TITLE.name}=a and --{TITLE.name}=a"),
        ([f"--{LOUD.name}", f"--no{LOUD.name}"], f"--{LOUD.name} and --no{LOUD.name}"),
        (["--v=1", "--verbosity=2"], "--verbosity=1 and --verbosity=2"),
    ],
)
def test_a_flag_of_one_value_that_is_given_twice_is_refused(given: list[str], told: str):
    with pytest.raises(InputError, match=f"received it twice, as {told}; expected one value"):
        flags_lib.parse(COMMAND, ["some", *given])


def test_a_flag_is_refused_beside_the_same_one_in_a_flagfile(tmp_path: pathlib.Path):
    (tmp_path / "flags").write_text(f"--{TITLE.name}=a\n")
    with pytest.raises(InputError, match="Leave out one of the two, here or in a --flagfile"):
        flags_lib.parse(COMMAND, ["some", f"--flagfile={tmp_path / 'flags'}", f"--{TITLE.name}=b"])


@flagsaver.flagsaver
def test_a_flag_that_repeats_keeps_all_values():
    flags_lib.parse(COMMAND, ["some", f"--{EACH.name}=a", f"--{EACH.name}=a"])
    assert EACH.value == ["a", "a"]


@flagsaver.flagsaver
def test_what_only_looks_like_the_flag_is_no_second_one():
    behind = flags_lib.parse(COMMAND, ["some", FLAG, "a", f"--{TITLE.name}", FLAG, "--", f"{FLAG}=b"])
    assert (NAMES.value, TITLE.value, behind) == (["a"], FLAG, ["some", f"{FLAG}=b"])


@flagsaver.flagsaver
def test_a_name_with_a_comma_is_quoted():
    flags_lib.parse(COMMAND, ["some", f'{FLAG}=a,"b,c",d'])
    assert NAMES.value == ["a", "b,c", "d"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("new", "here/new"),
        ("./new/", "here/new"),
        ("../new", "new"),
        ("..", "."),
        ("link/new", "here/link/new"),
        ("link/../new", "elsewhere/new"),  # as the system goes: through the link first
    ],
)
def test_a_directory_is_absolute(tmp_path: pathlib.Path, monkeypatch, value: str, expected: str):
    here, linked = tmp_path / "here", tmp_path / "elsewhere" / "linked"
    here.mkdir()
    linked.mkdir(parents=True)
    (here / "link").symlink_to(linked)
    monkeypatch.chdir(here)
    assert flags_lib.directory(value) == str(tmp_path / expected)
    assert flags_lib.local_directory("workdir", value) == tmp_path / expected


def test_a_url_stays():
    assert flags_lib.directory("gs://bucket/some/") == "gs://bucket/some"


@pytest.mark.parametrize("name", ["/dev/full", "/dev/stdout", "pipe"])
def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path: pathlib.Path, name: str):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="received a device or a pipe; expected the name of an ordinary"):
        flags_lib.check_local_files({"json": str(tmp_path / name)})
