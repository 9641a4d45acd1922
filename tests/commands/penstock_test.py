"""`penstock` starts every command, and completes what is typed behind it."""

import pathlib
import shlex
import shutil
import subprocess
import sys

import pytest

from penstock import cli, completion
from pipeline.base.errors import EXIT_BAD_INPUT
from tests.house.imports import ROOT

PENSTOCK = (sys.executable, "-m", "penstock")


def run(*command: str, **how: object) -> subprocess.CompletedProcess:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **how)


def test_help_lists_every_command_and_needs_no_library():
    page = run(sys.executable, "-S", "-m", "penstock", "--help").stdout  # -S: nothing that is installed
    for name, module in cli.commands().items():
        assert f"\n  {name} " in page
        assert (ROOT / f"{module.replace('.', '/')}.py").exists()
    assert "  train         Trains a model on a dataset, evaluates it, and writes a report.\n" in page


def test_an_unknown_command_is_named_with_the_nearest(capsys):
    assert cli.main(["trian"]) == EXIT_BAD_INPUT
    assert capsys.readouterr().err.endswith("Did you mean penstock train?\n")
    assert cli.main(["completion", "fish"]) == EXIT_BAD_INPUT
    assert "received 'fish'; expected bash or zsh" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["index", "pipeline.index"])
def test_a_command_answers_as_by_itself(name: str):
    ours, by_itself = (
        run(*start, "nowhere.tfrecord")
        for start in ((*PENSTOCK, name), (sys.executable, "-m", "pipeline.index"))
    )
    assert (ours.returncode, ours.stderr) == (by_itself.returncode, by_itself.stderr)
    assert (ours.returncode, "nowhere.tfrecord" in ours.stderr) == (EXIT_BAD_INPUT, True)


def completed(line: str, *, first: str = "") -> list[str]:
    """What bash offers at the end of the line, in a shell that ran `first`."""
    program = f"""
      {first}
      penstock() {{ {sys.executable} -m penstock "$@"; }}
      {completion.script("bash", cli.commands())}
      COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
      COMP_WORDS=({line}) COMP_CWORD={len(line.split(" ")) - 1}
      _penstock; (( ${{#COMPREPLY[@]}} )) && printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return run("bash", "-c", program).stdout.splitlines()


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_commands_flags_and_paths():
    assert completed("penstock e") == ["evaluate", "export"]
    assert completed("penstock index --ch") == ["--check"]
    assert completed("penstock index pyproj") == ["pyproject.toml"]


@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_paths_with_blanks_and_right_behind_a_flag(tmp_path: pathlib.Path):
    (tmp_path / "my data").mkdir()
    (tmp_path / "other").mkdir()
    words = "_penstock_words[index]=$'--check\\n--schema='"  # as `penstock index` says them
    in_folder = f"cd {tmp_path}; declare -gA _penstock_words; {words}"
    assert sorted(completed("penstock index --schema=", first=in_folder)) == ["my data", "other"]
    assert completed("penstock index my", first=in_folder) == ["my data"]
    assert completed(r"penstock index my\ d", first=in_folder) == ["my data"]
    assert completed("penstock index --schema=none", first=in_folder) == []


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("bash"), reason="needs bash")
def test_bash_completes_values_and_keys_of_a_config():
    assert completed("penstock train --strategy=mi") == ["mirrored"]  # bash replaces what is behind the `=`
    assert completed("penstock train --config=pipeline/configs/ta") == [
        "pipeline/configs/tabular.py",
        "pipeline/configs/taxi_wide_deep.py",
    ]
    assert completed("penstock train --config.optimizer.l") == ["--config.optimizer.learning_rate="]
    assert completed("penstock train --dataset=pipeline/config") == ["pipeline/configs"]


@pytest.mark.skipif(not shutil.which("zsh"), reason="needs zsh")
def test_zsh_takes_the_script():
    program = (
        f"autoload -U compinit && compinit -u -D\n{completion.script('zsh', cli.commands())}\nwhich _penstock"
    )
    assert "_penstock () {" in run("zsh", "-f", "-c", program).stdout


def test_scripts_hold_every_command():
    for shell in ("bash", "zsh"):
        assert " ".join(cli.commands()) in completion.script(shell, cli.commands())


def test_modules_of_the_folder_are_found_behind_ours(tmp_path: pathlib.Path, monkeypatch, capsys):
    (tmp_path / "pipeline.py").write_text("raise AssertionError('not ours')")
    monkeypatch.chdir(tmp_path)
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from penstock.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-P", "-c", program, "index"], capture_output=True, text=True, check=False
    )
    assert "not ours" not in ended.stderr
    assert ended.returncode == EXIT_BAD_INPUT
