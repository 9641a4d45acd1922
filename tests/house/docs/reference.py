"""Writes the pages that follow from the code: commands, config keys, the API, and all error messages.

python -m tests.house.docs.reference           # writes them
python -m tests.house.docs.reference --check   # names those that are stale; then the exit code is 1
"""

import importlib
import itertools
import re
import sys
import textwrap
from collections.abc import Iterator

from absl import flags

from pipeline.base.cli import command as command_lib
from pipeline.base.cli import config as config_lib
from pipeline.base.cli.command import Command
from tests.house.docs import api, markdown, messages
from tests.house.docs.api import Shown
from tests.house.docs.documents import ROOT
from tests.house.docs.messages import Message
from tests.house.imports import HOUSE, module_of

WRITE = "python -m tests.house.docs.reference"
MARK = f"<!-- From here on written by `{WRITE}`. -->"
_WRITTEN = f"<!-- Written by `{WRITE}`. -->"


def pages() -> dict[str, str]:
    """Each page by its path."""
    return {
        "docs/reference/commands.md": _text(commands_page()),
        "docs/reference/config.md": _text(config_page()),
        "docs/reference/api.md": _text(api_page()),
        TROUBLESHOOTING: _by_hand() + _text(messages_page(messages.messages())),
    }


def _text(lines: Iterator[str]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def stale() -> list[str]:
    return [
        name
        for name, text in pages().items()
        if not (ROOT / name).exists() or (ROOT / name).read_text() != text
    ]


# --- Commands: their descriptions and flags, as absl has them.


_WHY = "not-run: an example of --help"


def commands() -> list[str]:
    """Every command: the files of the two rooms that guard `__main__`."""
    files = [path for path in HOUSE.product if re.fullmatch(r"(beam_jobs|pipeline)/\w+\.py", path)]
    return sorted(module_of(path) for path in files if HOUSE.is_command(path))


_ABOUT_COMMANDS = """\
Every command takes `--help`, which prints what stands here, and `--flagfile=FILE`, a file with a flag on
each line. Bad input ends it with exit code 2 and one line: [troubleshooting](../troubleshooting.md) has
them all. Exit code 75 means that the same command may succeed later, 130 that Ctrl-C stopped it.
`penstock COMMAND` is the same as `python -m ROOM.COMMAND`."""


def commands_page() -> Iterator[str]:
    yield from ("# Commands", "", _WRITTEN, "")
    yield from (_ABOUT_COMMANDS, "")
    shared: dict[str, flags.Flag] = {}
    sections = {name: "\n".join(_command(name, shared)) for name in commands()}
    yield from (f"- [{name}](#{name.replace('.', '')})" for name in sections)
    yield ""
    yield from sections.values()


def _command(name: str, shared: dict[str, flags.Flag]) -> Iterator[str]:
    """The section of a command. Its flags are forgotten then: another command has flags of the same names.

    Args:
      shared: flags that several commands have from one module, which is imported once; those of this command
        are added.
    """
    before = set(flags.FLAGS)
    command = importlib.import_module(name).COMMAND
    added = {flag: flags.FLAGS[flag] for flag in set(flags.FLAGS) - before}
    shared |= {
        flag: value for flag, value in added.items() if _module_of(flag) not in (name, config_lib.__name__)
    }
    yield from (f"## {name}", "", *_description(command.description), "")
    for heading, holders in command.flags.items():
        rows = [_flag((shared | added)[holder.name], command) for holder in holders]
        yield from (f"**{heading}**", "", *markdown.table(("flag", "default", "meaning"), rows), "")
    if command.config_keys:
        yield from ("`--config.KEY=VALUE` sets a key of the config: [all keys](config.md).", "")
    flags.FLAGS.remove_flag_values(added)


def _module_of(flag: str) -> str:
    return flags.FLAGS.find_module_defining_flag(flag)


def _description(text: str) -> Iterator[str]:
    """A module's docstring as Markdown: what it indents becomes a block, of commands or of text."""
    for kind, parts in itertools.groupby(re.split(r"\n{2,}", text.strip()), _kind):
        together = "\n\n".join(parts)
        yield f"```{kind}\n{textwrap.dedent(together)}\n```" if kind else markdown.escaped(together)
        yield ""


def _kind(part: str) -> str:
    """The info string of a part of a docstring; empty for prose."""
    if not part.startswith("  "):
        return ""
    return f"sh {_WHY}" if re.search(r"^  python -m ", part, re.MULTILINE) else "text"


def _flag(flag: flags.Flag, command: Command) -> tuple[str, str, str]:
    placeholder, meaning = command_lib.placeholder_and_help(flag)
    choices = placeholder.split("|")
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}={choices[0]}"
    expected = command_lib.expected_value(flag)
    notes = [meaning]
    if "number" in expected:
        notes.append(f"{expected[0].upper()}{expected[1:]}.")
    if isinstance(flag, flags.MultiFlag):
        notes.append("Repeats.")
    # A | between choices would end the cell of the table.
    names = ", ".join(map(markdown.code, (name, *choices[1:])))
    return names, _default(flag, command), markdown.escaped(" ".join(notes))


def _default(flag: flags.Flag, command: Command) -> str:
    if flag.name in {holder.name for holder in command.required}:
        return "required"
    if flag.default in (None, "", []):
        return ""
    return markdown.code(str(flag.default).lower() if flag.boolean else str(flag.default))


# --- Keys of the configs: the comments in their files.


_CONFIGS = {
    "Training": (
        "pipeline.configs.base",
        """\
`python -m pipeline.train --config=FILE --config.KEY=VALUE`, and each command that takes the config of a
run. A config file begins with `get_config()` of [base.py](../../pipeline/configs/base.py) and sets what
differs; the defaults here are those of base.py. [Training](../training.md) says what the keys do
together.""",
    ),
    "Retraining": (
        "pipeline.configs.retraining.base",
        """\
`python -m pipeline.retrain … --config=FILE`. A config file begins with `get_config()` of
[retraining/base.py](../../pipeline/configs/retraining/base.py); [retraining](../retraining.md) says how
a cycle goes.""",
    ),
}


# Keys of retraining whose own keys are the fields of a dataclass.
_RULES = {
    "gate": ("pipeline/gate/rules.py", "GateRules"),
    "parity": ("pipeline/retraining/parity_result.py", "ParityLimits"),
    "infra": ("pipeline/serving/result.py", "Limits"),
}


def config_page() -> Iterator[str]:
    yield from ("# Config keys", "", _WRITTEN, "")
    yield from (
        "A value must have the type of its default. An unknown key is refused, with the nearest one.",
        "",
    )
    for heading, (module, text) in _CONFIGS.items():
        yield from (f"## {heading}", "", text, "")
        rows = [
            (markdown.code(key.name), key.type, _value(key.default), markdown.escaped(key.meaning))
            for key in config_lib.keys_of(importlib.import_module(module))
        ]
        yield from (*markdown.table(("key", "type", "default", "meaning"), rows), "")
    for key, (path, name) in _RULES.items():
        yield from (f"### Keys of config.{key}", "", *api.fields(path, name))


def _value(default: object) -> str:
    return "" if default in ("", (), None) else markdown.code(str(default))


# --- The API.


def _of(path: str, *names: str, **called: str) -> Shown:
    """Names of a file; `called` has those that are called otherwise outside."""
    return Shown(path=path, names={**dict.fromkeys(names, ""), **called})


_TASKS = "pipeline/training/tasks"
_API = {
    "Datasets": (
        "`import penstock` gives four names. [Reading](../reading.md) shows their use.",
        (
            _of(
                "penstock/dataset.py",
                open_dataset="penstock.open",
                index="penstock.index",
                Dataset="penstock.Dataset",
                Split="penstock.Split",
            ),
            _of("pipeline/data/reading/source.py", "RowSource", "BatchSource"),
        ),
    ),
    "Errors": (
        "Bad input raises an `InputError`, here and in code of your own: then a command ends with one line.",
        (_of("pipeline/base/errors.py", "InputError", "TryAgainError"),),
    ),
    "Models": (
        """\
A model of your own is a function that returns a `keras.Model`; its arguments are named like fields of
`ModelInputs`, or are options: [a model by its name](../training.md#a-model-by-its-name). The options of
the models that come along are keys of `config.model`.""",
        (
            _of("pipeline/data/preprocessing/preprocess.py", "ModelInputs"),
            _of("models/tabular.py", "tabular"),
            _of("models/dcn.py", "dcn"),
            _of("models/wide_deep.py", "wide_deep"),
            _of("models/resnet.py", "resnet", "resnet18", "resnet50"),
            _of("models/vit.py", "vit"),
            _of("models/bag_of_ngrams.py", "bag_of_ngrams"),
            _of("models/transformer.py", "transformer"),
            _of("models/two_tower.py", "two_tower"),
            _of("models/sequence_recommender.py", "sequence_recommender"),
        ),
    ),
    "Tasks": (
        "A task turns logits into losses, predictions and metrics: "
        "[how to add a task](../../CONTRIBUTING.md#how-to-add-a-task).",
        (
            _of(f"{_TASKS}/task.py", "Task", "Accumulator", "Metric"),
            _of("pipeline/data/schema/feature_types.py", "LabelTask"),
        ),
    ),
    "Observers": (
        "A service of your own follows a run as a class in `config.observers`. Callbacks are those of Keras.",
        (_of("pipeline/training/observers/observer.py", "Observer", "Place"),),
    ),
    "Sources": (
        "A source reads one raw format: [how to add a source](../../CONTRIBUTING.md#how-to-add-a-source).",
        (
            _of("beam_jobs/sources/source.py", "Source", "Input", "InputSplit", "RawRows", "Rejection"),
            _of("beam_jobs/sources/formats.py", "Format", "Option"),
            _of(
                "beam_jobs/sources/files.py",
                "list_files", "one_split_a_file", "open_seekable", "open_stream", "read_bytes",
                "check_not_empty",
            ),
            _of("beam_jobs/sources/lines.py", "input_splits", "read", "NumberedLines", "check_length"),
            _of("beam_jobs/sources/columns.py", "raw_rows", "NumberedRow", "without_structs", "column_names"),
        ),
    ),
    "Feature types": (
        "What a feature is: [how to add a feature type](../../CONTRIBUTING.md#how-to-add-a-feature-type).",
        (
            _of("pipeline/data/schema/feature.py", "Feature", "Clean"),
            _of(
                "pipeline/data/schema/feature_types.py",
                "Numeric", "Categorical", "Categories", "Datetime", "Image", "Text", "Tokens", "Tensor",
                "Label", "FeatureTypeTable",
            ),
        ),
    ),
    "Ways of reading": (
        "An order of rows: [how to add a way of reading](../../CONTRIBUTING.md#how-to-add-a-way-of-reading).",
        (
            _of("pipeline/data/reading/plan.py", "ReadPlan", "Mixture", "Part"),
            _of("pipeline/data/reading/stream.py", "Way"),
            _of("pipeline/data/reading/sharding.py", "Share"),
        ),
    ),
    "Commands": (
        "A command: [how to add a command](../../CONTRIBUTING.md#how-to-add-a-command).",
        (
            _of("pipeline/base/cli/command.py", "Command"),
            _of("pipeline/base/cli/run.py", "run_command"),
        ),
    ),
}  # fmt: skip


_ABOUT_API = """\
What a program imports, and what [CONTRIBUTING](../../CONTRIBUTING.md) tells people to extend. Shapes
stand in brackets: float32 [batch, classes]. The arguments that follow a `*` are given by name."""


def api_page() -> Iterator[str]:
    yield from ("# API", "", _WRITTEN, "")
    yield from (_ABOUT_API, "")
    yield from (f"- [{heading}](#{heading.lower().replace(' ', '-')})" for heading in _API)
    yield ""
    yield from api.page(_API)


# --- Troubleshooting: every message, below what is written by hand.


TROUBLESHOOTING = "docs/troubleshooting.md"
# The group of a message, by the first of these that its path begins with.
_ROOMS = {
    "beam_jobs/sources/": "Raw data",
    "beam_jobs/cells/": "Raw data",
    "beam_jobs/schema/": "Proposing a schema",
    "beam_jobs/infer_schema.py": "Proposing a schema",
    "beam_jobs/inference/": "Predicting",
    "beam_jobs/predict.py": "Predicting",
    "beam_jobs/": "Converting and verifying",
    "pipeline/data/schema/": "Schema files",
    "pipeline/data/preprocessing/": "From records to a model's inputs",
    "pipeline/data/images/": "From records to a model's inputs",
    "pipeline/data/": "Datasets and reading",
    "pipeline/index.py": "Datasets and reading",
    "penstock/dataset.py": "Datasets and reading",
    "pipeline/training/experiment/": "Config, model, loss and metrics",
    "models/": "Config, model, loss and metrics",
    "pipeline/training/launch/": "Sweeps and several workers",
    "pipeline/training/replay/": "Replay and parity",
    "pipeline/replay.py": "Replay and parity",
    "pipeline/parity.py": "Replay and parity",
    "pipeline/training/": "Training and its runs",
    "pipeline/train.py": "Training and its runs",
    "pipeline/exporting/": "Evaluating, exporting and generating",
    "pipeline/generation/": "Evaluating, exporting and generating",
    "pipeline/evaluate.py": "Evaluating, exporting and generating",
    "pipeline/export.py": "Evaluating, exporting and generating",
    "pipeline/generate.py": "Evaluating, exporting and generating",
    "pipeline/feed": "Feed rate and preflight",
    "pipeline/forecast/": "Feed rate and preflight",
    "pipeline/preflight.py": "Feed rate and preflight",
    "pipeline/gate/": "Comparing and retraining",
    "pipeline/publishing/": "Comparing and retraining",
    "pipeline/serving/": "Comparing and retraining",
    "pipeline/retrain": "Comparing and retraining",
    "pipeline/compare.py": "Comparing and retraining",
    "": "Any command",
}


def room_of(message: Message) -> str:
    return next(room for prefix, room in _ROOMS.items() if message.path.startswith(prefix))


def _by_hand() -> str:
    path = ROOT / TROUBLESHOOTING
    return path.read_text().partition(MARK)[0] if path.exists() else ""


_ABOUT_MESSAGES = f"""\
A command prints one as a line: `error: THING: received VALUE; expected WHAT. WAY OUT`. Search this page
for the words after `received`, without what is yours: names, numbers and paths stand here as
{messages.ANY}. Where several ways out stand here, the line prints the one that fits."""


def messages_page(found: tuple[Message, ...]) -> Iterator[str]:
    yield from (MARK, "", "## All messages", "")
    yield from (f"These are the errors that the code can raise. {_ABOUT_MESSAGES}", "")
    rooms = ["Any command", *dict.fromkeys(room for room in _ROOMS.values() if room != "Any command")]
    for room in rooms:
        group = sorted((each for each in found if room_of(each) == room), key=lambda each: each.words)
        yield from (f"### {room}", "")
        yield from markdown.table(("the line begins", "expected", "way out"), map(_message, group))
        yield ""


def _message(message: Message) -> tuple[str, str, str]:
    ways = " / ".join(markdown.escaped(each) for each in message.actions)
    return markdown.code(message.begins), markdown.escaped(message.expected), ways


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        found = stale()
        print("".join(f"{name} is stale: run `{WRITE}`\n" for name in found), end="")
        return bool(found)
    for name, text in pages().items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
