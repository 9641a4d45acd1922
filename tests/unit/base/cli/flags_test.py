"""Command lines and directories as users write them."""

import pathlib

import pytest
from absl import flags
from absl.testing import flagsaver

from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.errors import InputError

NAMES = flags.DEFINE_list("names_of_parsing_test", [], "A,B,…: names.")
TITLE = flags.DEFINE_string("title_of_parsing_test", None, "TEXT: a title.")
COMMAND = Command(name="some", description="", flags={"Flags": (NAMES, TITLE)}, arguments="[NAME …]")
FLAG = f"--{NAMES.name}"


@pytest.mark.parametrize("given", [[f"{FLAG}=a", f"{FLAG}=b"], [FLAG, "a", f"-{NAMES.name}=b"]])
def test_a_list_that_is_given_twice_is_refused(given: list[str]):
    with pytest.raises(InputError, match=f"{FLAG}: received it twice; expected all values in one"):
        flags_lib.parse(COMMAND, ["some", *given])


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
