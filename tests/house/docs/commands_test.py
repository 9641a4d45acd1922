"""Every command and every snippet of the documents runs as it is written, in a copy of the tree."""

import pathlib

import pytest

from tests.house.docs import commands, documents

WITH_COMMANDS = [name for name in documents.names() if any(block.is_run for block in documents.blocks(name))]


FRESH = "README.md"  # whose commands start as users start them: TensorFlow takes half of the time
WARM = [name for name in WITH_COMMANDS if name != FRESH]


@pytest.mark.slow
def test_the_commands_of_the_readme_run(tmp_path: pathlib.Path):
    commands.copy_tree(tmp_path)
    assert not (wrong := commands.failure(documents.blocks(FRESH), tmp_path)), wrong


@pytest.mark.slow
@pytest.mark.parametrize("name", WARM)
def test_the_commands_of_a_document_run(name: str, tmp_path: pathlib.Path, warm_python: pathlib.Path):
    commands.copy_tree(tmp_path)
    assert not (wrong := commands.failure(documents.blocks(name), tmp_path, python=warm_python)), wrong


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("```sh\ntrue\n```", ""),
        ("```sh\nfalse | true\n```", "made-up.md:1: exit code 1"),
        ("# Title\n\n```sh\npython -m beam_jobs.no_such_command\n```", "made-up.md:3: exit code 1"),
        ("```python\nraise SystemExit(3)\n```", "made-up.md:1: exit code 3"),
        ("```sh not-run: this would fail\nfalse\n```", ""),
        ("```sh\necho 7 rows read\n```\n```output\n… rows …\n```", ""),
        ("```sh\necho 7 rows\n```\n```output\n8 rows\n```", "made-up.md:4: the block before does not print"),
        ("```sh\necho > made; cat made\n```\n```python\nopen('made')\n```", ""),
    ],
)
def test_a_broken_command_is_named(text, wrong, tmp_path):
    found = commands.failure(documents.blocks("made-up.md", text), tmp_path)
    assert found.startswith(wrong)
    assert bool(found) == bool(wrong)
