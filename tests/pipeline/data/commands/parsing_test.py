"""Command lines as users write them."""

import pytest
from absl import flags
from absl.testing import flagsaver

from pipeline.data.commands import parsing
from pipeline.data.commands.command import Command
from pipeline.data.errors import InputError

NAMES = flags.DEFINE_list("names_of_parsing_test", [], "A,B,…: names.")
COMMAND = Command(name="some", description="", flags={"Flags": (NAMES,)})
FLAG = f"--{NAMES.name}"


@pytest.mark.parametrize("given", [[f"{FLAG}=a", f"{FLAG}=b"], [FLAG, "a", f"-{NAMES.name}=b"]])
def test_a_list_that_is_given_twice_is_refused(given: list[str]):
    with pytest.raises(InputError, match=f"{FLAG}: received it twice; expected all values in one"):
        parsing.parse(COMMAND, ["some", *given])


@flagsaver.flagsaver
def test_a_name_with_a_comma_is_quoted():
    parsing.parse(COMMAND, ["some", f'{FLAG}=a,"b,c",d'])
    assert NAMES.value == ["a", "b,c", "d"]
