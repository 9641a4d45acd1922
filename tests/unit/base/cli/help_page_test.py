"""--help shows every flag of a command and no other, and answers without TensorFlow."""

import pathlib
import re
import subprocess

import pytest
from absl import flags

from pipeline.base.cli import config, run
from pipeline.base.cli.command import Command
from pipeline.base.errors import InputError
from pipeline.configs import base
from tests.commands.command_lines_test import COMMANDS, answer
from tests.house.imports import ROOT

OF_SOURCES = {
    *("format", "column_names", "delimiter", "quote", "escape", "encoding", "header"),
    *("path_root", "text_unit", "tokenizer", "text_column"),
}
SHOWN_FLAG = re.compile(r"^  --(?:\[no\])?([a-z_]+)\S*\n      ", re.MULTILINE)


@pytest.fixture(scope="module")
def pages(
    python_without_tensorflow: pathlib.Path, without_tensorflow: dict[str, str]
) -> dict[str, subprocess.CompletedProcess]:
    """What each command answers to --help where TensorFlow cannot be imported."""
    return {
        module: answer(python_without_tensorflow, module, "--help", env=without_tensorflow)
        for module in COMMANDS
    }


def defined_in(module: str) -> set[str]:
    """Names of the flags that the file of the command defines."""
    source = (ROOT / f"{module.replace('.', '/')}.py").read_text()
    shared = {"config"} if "config.define_config(" in source else set()
    return shared.union(re.findall(r"DEFINE_\w+\(\s*\"(\w+)\"", source))


@pytest.mark.parametrize("module", COMMANDS)
def test_every_flag_is_shown_once_and_no_other(module: str, pages: dict[str, subprocess.CompletedProcess]):
    page = pages[module]
    assert (page.returncode, page.stderr) == (0, "")
    expected = defined_in(module)
    if module in ("beam_jobs.convert", "beam_jobs.infer_schema", "beam_jobs.predict"):
        expected |= OF_SOURCES | {"sequence_length", "packing"}
    assert sorted(SHOWN_FLAG.findall(page.stdout)) == sorted(expected)


@pytest.mark.parametrize("module", COMMANDS)
def test_there_is_an_example(module: str, pages: dict[str, subprocess.CompletedProcess]):
    assert f"\n  python -m {module} " in pages[module].stdout


@pytest.mark.parametrize("module", ["pipeline.train", "pipeline.feed_rate"])
def test_every_key_of_the_config_is_shown(module: str, pages: dict[str, subprocess.CompletedProcess]):
    for key in config.keys_of(base):
        assert f"\n  {key.name}=" in pages[module].stdout


def test_a_config_file_beside_help_shows_its_own_values():
    command = Command(name="c", description="d", flags={}, config_keys=lambda: config.keys_of(base))
    page = run.help_page(command, config_file="pipeline/configs/language_model.py")
    assert "Values of pipeline/configs/language_model.py:" in page
    assert "  train.epochs=1.5 " in page
    assert "\n  model.width=96\n" in f"{page}\n"
    with pytest.raises(InputError, match="received no such file"):
        run.help_page(command, config_file="nowhere.py")


def test_what_a_flag_takes_is_shown():
    values = flags.FlagValues()
    holder = flags.DEFINE_integer("most", 5, "COUNT: how many at most.", lower_bound=1, flag_values=values)
    assert run.described(values[holder.name], required=False) == (
        "  --most=COUNT\n      How many at most. A whole number, at least 1. (default: 5)"
    )
    chosen = flags.DEFINE_enum("kind", None, ["one", "two"], "Which kind.", flag_values=values)
    assert run.described(values[chosen.name], required=True) == (
        "  --kind=one|two\n      Which kind. Required."
    )
