"""Command lines as users write them."""

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
