"""The keys of a config are listed with the meaning that stands in the config's own file."""

import pathlib
import subprocess
import sys
import types

import pytest

from pipeline.base.cli import config
from pipeline.base.cli.config import Key
from pipeline.configs import base
from tests.house.imports import ROOT

SOURCE = """
from ml_collections import ConfigDict


def get_config():
    config = ConfigDict()
    config.rate = 0.5  # how fast
    # Of one kind,
    # or of another.
    config.kind = "one"
    config.part = ConfigDict()
    config.part.whole = True
    return config
"""


@pytest.fixture
def module(tmp_path, monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    (tmp_path / "small_config.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    return __import__("small_config")


def test_comments_behind_and_above_a_key_are_its_meaning(module: types.ModuleType):
    assert config.keys_of(module) == (
        Key(name="rate", default=0.5, meaning="how fast"),
        Key(name="kind", default="one", meaning="Of one kind, or of another."),
        Key(name="part.whole", default=True, meaning=""),
    )


def test_types_are_told_in_words(module: types.ModuleType):
    assert [key.type for key in config.keys_of(module)] == ["number", "text", "true or false"]


@pytest.mark.parametrize("key", config.keys_of(base), ids=lambda key: key.name)
def test_every_key_of_an_experiment_has_a_meaning(key: Key):
    assert key.meaning, f"config.{key.name} in pipeline/configs/base.py needs a comment: --help shows it"


def test_a_config_of_ours_is_found_from_any_folder_unless_the_user_has_one_of_its_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    name = "pipeline/configs/tabular.py"
    found = config.config_file(name)
    assert found == str(ROOT / name)
    assert config.config_file(f"{name}:fast") == f"{found}:fast"
    assert config.get_config(name).to_dict() == config.get_config(found).to_dict()
    for other in ("pipeline/configs/none.py", "pipeline/train.py", "tabular.py", ""):
        assert config.config_file(other) == other
    own = tmp_path / name
    own.parent.mkdir(parents=True)
    own.write_text("")
    assert config.config_file(name) == name


def test_a_wrong_key_is_named_where_the_file_gets_an_argument(tmp_path):
    typed = TYPED.replace("def get_config():", "def get_config(size):").replace(
        "    {}\n", "    assert size\n"
    )
    (tmp_path / "own.py").write_text(typed)
    assert config.get_config(f"{tmp_path}/own.py:small").rate == 0.5
    told = plan(tmp_path, "", "--config.infra.latency=5.0", file=typed, argument=":small")
    assert told.startswith("error: --config.infra.latency: received a key that the config does not have")


def test_a_config_imports_a_module_beside_it_from_any_folder(tmp_path):
    (tmp_path / "sizes_of_mine.py").write_text("RATE = 0.25\n")
    line = "    config.infra = {'calls': RATE}\n"
    own = f"from sizes_of_mine import RATE\n{TYPED}".replace("    {}\n", line)
    assert plan(tmp_path, "", file=own) == "{'calls': 0.25}"
    (tmp_path / "own.py").write_text(own)
    before = list(sys.path)
    assert config.get_config(f"{tmp_path}/own.py").infra.calls == 0.25
    assert sys.path == before


def test_arguments_of_named_code_come_from_the_command_line_and_go_with_another_name():
    whole = base.get_config()
    with whole.unlocked():
        whole.loss.delta, whole.optimizer.name, whole.optimizer.beta_1 = 2.0, "Adamax", 0.5
    same = config.swept(whole, {"loss.delta": "3", "loss.power": "1.5", "optimizer.rho": "some"})
    assert same.loss.to_dict() == {"name": "", "delta": 3.0, "power": 1.5}
    assert (same.optimizer.beta_1, same.optimizer.rho) == (0.5, "some")
    other = config.swept(whole, {"loss.name": "Huber", "optimizer.name": "Lion", "optimizer.momentum": "0.5"})
    assert other.loss.to_dict() == {"name": "Huber"}
    expected = {**base.get_config().optimizer.to_dict(), "name": "Lion", "momentum": 0.5}
    assert other.optimizer.to_dict() == expected


# Values of another type in a config file, and keys of groups: commands say which keys there are.


TYPED = """
from ml_collections import ConfigDict


def get_config():
    config = ConfigDict({"spans": {"convert": (), "raw": ""}, "infra": {}, "rate": 0.5})
    {}
    return config
"""


def plan(
    tmp_path: pathlib.Path, line: str, *arguments: str, file: str | None = None, argument: str = ""
) -> str:
    """The last line that a command with this config says, which has a group `infra` of two keys."""
    (tmp_path / "own.py").write_text(file or TYPED.replace("    {}\n", f"    {line}\n"))
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, f"--config={tmp_path}/own.py{argument}", *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    return (ended.stdout + ended.stderr).strip().splitlines()[-1].replace(f"{tmp_path}/", "")


COMMAND = """
import sys
from pipeline.base.cli import config, flags
from pipeline.base.cli.command import Command
from pipeline.base.errors import InputError
given = config.define_config("FILE: a config.", groups={"infra": ("calls", "median_ratio")})
try:
    flags.parse(Command(name="x", description="", required=(), flags={"Flags": (given,)}), sys.argv)
    print(given.value.infra.to_dict())
except InputError as error:
    print(f"error: {error}")
"""


@pytest.mark.parametrize(
    ("line", "arguments", "said"),
    [
        (
            'config.spans.convert = ("--x=0.1")',
            (),
            "error: --config=own.py, line 7, config.spans.convert: received '--x=0.1', a text; "
            "expected a tuple. With a comma it is one: config.spans.convert = ('--x=0.1',).",
        ),
        (
            "config.rate = 'fast'",
            (),
            "error: --config=own.py, line 7, config.rate: received 'fast', a text; "
            "expected a number. Correct it.",
        ),
        (
            "config.infra = 5",
            (),
            "error: --config=own.py, line 7, config.infra: received 5, a whole number; "
            "expected a group of keys. Set its keys one by one: config.infra.KEY = VALUE.",
        ),
        (
            "pass",
            ("--config.infra=5",),
            "error: --config.infra: received 5; expected its keys, one by one: calls, median_ratio. "
            "Write --config.infra.calls=VALUE.",
        ),
        (
            "pass",
            ("--config.infra.latency=5.0",),
            "error: --config.infra.latency: received a key that the config does not have; "
            "expected one of calls, median_ratio. Correct it.",
        ),
        *(
            (
                "config.optimzer.rate = 2.0",
                flags,
                "error: --config=own.py, line 7: received AttributeError: 'optimzer'; expected a file whose "
                "get_config() returns a config. Correct this line; `--help` lists the keys of the configs in "
                "pipeline/configs.",
            )
            for flags in ((), ("--config.infra.median_ratio=5.0",))
        ),
        *(
            (
                line,
                (),
                f"error: --config=own.py, line 7: received {said}; expected a file whose get_config() "
                "returns a config. Correct this line; `--help` lists the keys of the configs in "
                "pipeline/configs.",
            )
            for line, said in {
                "config.rate = rate": "NameError: name 'rate' is not defined",
                "config.rate = float('fast')": "ValueError: could not convert string to float: 'fast'",
                "config.rate = 1 / 0": "ZeroDivisionError: division by zero",
                "config.rate = 1 + 'a'": "TypeError: unsupported operand type(s) for +: 'int' and 'str'",
            }.items()
        ),
        *(
            (line, (), f"error: --config=own.py, line 7: received {said}; expected {expected}")
            for line, said, expected in (
                (
                    "raise SystemExit(0)",
                    "SystemExit: 0",
                    "a file whose get_config() returns a config. Correct this line; `--help` lists the keys "
                    "of the configs in pipeline/configs.",
                ),
                (
                    "import no_such_library",
                    "ModuleNotFoundError: No module named 'no_such_library'",
                    "a Python file with a function get_config(). Correct this line.",
                ),
                (
                    "config.rate = (1",
                    "SyntaxError: '(' was never closed",
                    "a Python file with a function get_config(). Correct this line.",
                ),
            )
        ),
        (
            "return 5",
            (),
            "error: --config=own.py: received 5 from get_config(); expected a ConfigDict. "
            "End get_config() with `return config`.",
        ),
        ("pass", ("--config.infra.median_ratio=5.0",), "{'median_ratio': 5.0}"),
    ],
)
def test_a_value_of_another_type_or_an_unknown_key_is_named(tmp_path, line, arguments, said):
    assert plan(tmp_path, line, *arguments) == said


def test_a_file_without_get_config_is_named(tmp_path):
    assert "error: --config=own.py: received a file without get_config(); expected" in plan(
        tmp_path, "", file="rate = 1"
    )
