"""What no test runs: each such block has its reason, there are few of them, and what they name exists."""

import re
import shlex

import pytest

from tests.docs import documents, known_flags
from tests.docs.documents import Block

MOST = {"deploy/": 8, "docs/engines.md": 4, "docs/measurements.md": 12, "README.md": 3, "CONTRIBUTING.md": 6}
MOST_ELSEWHERE = 1
_FLAG = re.compile(r"--([a-z]\w*)")
_COMMAND = re.compile(r"\bpython -m ((?:beam_jobs|pipeline|benchmarks|tests)[\w.]*)")
_TARGET = re.compile(r"\bmake ((?:[a-z]+-?)+)\b")


def not_run() -> list[Block]:
    every = (block for name in documents.names() for block in documents.blocks(name))
    return [block for block in every if block.language in documents.RUN and block.reason]


def commands_of(block: Block) -> list[str]:
    """The commands of a shell block, a line each."""
    return block.text.replace("\\\n", " ").splitlines()


def unknown_flags(line: str) -> list[str]:
    """Flags in a command line that its command does not have; [] for commands of others."""
    if not (command := _COMMAND.search(line)):
        return []
    words = shlex.split(line[command.end() :], comments=True)
    given = [found[1] for word in words if (found := _FLAG.match(word))]
    return [flag for flag in given if flag not in known_flags.of_command(command[1])]


@pytest.mark.parametrize("name", documents.names())
def test_few_commands_are_not_run(name):
    found = [block for block in not_run() if block.document == name]
    most = next((most for prefix, most in MOST.items() if name.startswith(prefix)), MOST_ELSEWHERE)
    listed = "\n".join(f"  {block.where}: {block.reason}" for block in found)
    assert len(found) <= most, f"{name}: {len(found)} blocks are not run, {most} may be; run some:\n{listed}"


@pytest.mark.parametrize("name", documents.names())
def test_a_block_has_a_language_that_says_what_is_done_with_it(name):
    for block in documents.blocks(name):
        known = ", ".join(documents.LANGUAGES)
        assert block.language in documents.LANGUAGES, f"{block.where}: '{block.language}' is none of {known}"
        if block.language not in documents.RUN:
            hidden = re.search(r"^(python |make )", block.text, re.MULTILINE)
            assert not hidden, f"{block.where}: a command in a block that no test runs; make it ```sh"


@pytest.mark.parametrize("block", not_run(), ids=lambda block: block.where)
def test_a_command_that_is_not_run_has_flags_that_exist(block):
    for line in commands_of(block):
        assert not (unknown := unknown_flags(line)), f"{block.where}: no such flag in {line}: {unknown}"


@pytest.mark.parametrize("name", documents.names())
def test_targets_of_make_exist(name):
    targets = re.findall(r"^([a-z-]+):", documents.read("Makefile"), re.MULTILINE)
    code = "\n".join(block.text for block in documents.blocks(name) if block.language in documents.SHELL)
    inline = "\n".join(re.findall(r"`([^`\n]+)`", documents.prose(name)))
    for target in _TARGET.findall(f"{code}\n{inline}"):
        assert target in targets, f"{name}: `make {target}` is no target of the Makefile"


def test_a_planted_flag_is_found():
    line = "python -m beam_jobs.verify DIR --agianst=OTHER --json=FILE"
    assert unknown_flags(line) == ["agianst"]
    assert unknown_flags("python -m beam_jobs.convert --parallelism=4 --no_such") == ["no_such"]


@pytest.mark.parametrize("info", ["sh not run", "sh skip: why", "sh not-run:"])
def test_a_fence_without_a_reason_is_refused(info):
    with pytest.raises(ValueError, match="expected 'not-run: REASON'"):
        documents.blocks("made-up.md", f"```{info}\nfalse\n```")


@pytest.mark.parametrize("name", documents.names())
def test_commands_stand_in_fences_only(name):
    indented = re.findall(r"^ {4,}(?:python|make|pip) .*", documents.prose(name), re.MULTILINE)
    assert not indented, f"{name}: put these into a ```sh block, so that a test sees them: {indented}"
