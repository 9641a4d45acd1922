"""What no test runs: each such block has its reason, there are few of them, and what they name exists."""

import re
import shlex

import pytest

from tests.house.docs import documents, known_flags
from tests.house.docs.documents import Block

MOST = {
    "deploy/": 8,
    "docs/engines.md": 4,
    "docs/measurements.md": 12,
    "docs/reference/commands.md": 20,  # the examples of all pages of --help
    "docs/training.md": 2,
    "README.md": 3,
    "CONTRIBUTING.md": 6,
}
MOST_ELSEWHERE = 1
_FLAG = re.compile(r"--([a-z]\w*)")
_COMMAND = re.compile(r"\bpython -m ((?:beam_jobs|pipeline|benchmarks|tests)[\w.]*)")
_TARGET = re.compile(r"\bmake ((?:[a-z]+-?)+)\b")


def every_block() -> list[Block]:
    return [block for name in documents.names() for block in documents.blocks(name)]


def not_run() -> list[Block]:
    return [block for block in every_block() if block.language in documents.RUN and block.reason]


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


def test_few_commands_are_not_run():
    wrong = []
    for name in documents.names():
        found = [f"  {block.where}: {block.reason}" for block in not_run() if block.document == name]
        most = next((most for prefix, most in MOST.items() if name.startswith(prefix)), MOST_ELSEWHERE)
        if len(found) > most:
            wrong += [f"{name}: {len(found)} blocks are not run, {most} may be; run some:", *found]
    assert not wrong, "\n".join(wrong)


def test_a_block_has_a_language_that_says_what_is_done_with_it():
    unknown = [block.where for block in every_block() if block.language not in documents.LANGUAGES]
    assert not unknown, f"{unknown}: the language is none of {', '.join(documents.LANGUAGES)}"
    shown = [block for block in every_block() if block.language not in documents.RUN]
    hidden = [block.where for block in shown if re.search(r"^(python |make )", block.text, re.MULTILINE)]
    assert not hidden, f"{hidden}: a command in a block that no test runs; make it ```sh"


def test_a_command_that_is_not_run_has_flags_that_exist():
    lines = [(block.where, line) for block in not_run() for line in commands_of(block)]
    wrong = [
        f"{where}: no such flag in {line}: {bad}" for where, line in lines if (bad := unknown_flags(line))
    ]
    assert not wrong, "\n".join(wrong)


def test_targets_of_make_exist():
    targets = re.findall(r"^([a-z-]+):", documents.read("Makefile"), re.MULTILINE)
    wrong = []
    for name in documents.names():
        code = [block.text for block in documents.blocks(name) if block.language in documents.SHELL]
        inline = re.findall(r"`([^`\n]+)`", documents.prose(name))
        named = _TARGET.findall("\n".join(code + inline))
        wrong += [f"{name}: `make {target}` is no target of the Makefile" for target in {*named} - {*targets}]
    assert not wrong, "\n".join(wrong)


def test_a_planted_flag_is_found():
    line = "python -m beam_jobs.verify DIR --agianst=OTHER --json=FILE"
    assert unknown_flags(line) == ["agianst"]
    assert unknown_flags("python -m beam_jobs.convert --parallelism=4 --no_such") == ["no_such"]


@pytest.mark.parametrize("info", ["sh not run", "sh skip: why", "sh not-run:"])
def test_a_fence_without_a_reason_is_refused(info):
    with pytest.raises(ValueError, match="expected 'not-run: REASON'"):
        documents.blocks("made-up.md", f"```{info}\nfalse\n```")


def test_commands_stand_in_fences_only():
    prose = {name: documents.prose(name) for name in documents.names()}
    command = re.compile(r"^ {4,}(?:python|make|pip) .*", re.MULTILINE)
    indented = {name: found for name, text in prose.items() if (found := command.findall(text))}
    assert not indented, f"put these into a ```sh block, so that a test sees them: {indented}"
