"""A recipe is filled whole or not at all; deploy/settings.env explains every placeholder, and no other."""

import subprocess
import sys

import pytest

from deploy import recipe as recipe_lib
from pipeline.base.errors import InputError
from tests.commands.deploy import recipes

RECIPES = [
    path
    for path in sorted((recipes.CHECKOUT / "deploy").glob("*/*"))
    if path.is_file()
    and path.suffix not in (".md", ".pyc")
    and recipe_lib.PLACEHOLDER.search(path.read_text())
]


def test_every_placeholder_is_explained_and_every_explained_setting_is_used():
    explained = {name for name, _ in map(_key_and_value, _settings())}
    used = {name for path in RECIPES for name in recipe_lib.PLACEHOLDER.findall(path.read_text())}
    assert used == explained


def test_the_file_to_copy_has_no_values():
    assert {value for _, value in map(_key_and_value, _settings())} == {""}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.name)
def test_a_recipe_is_refused_until_each_of_its_settings_has_a_value(path, tmp_path):
    recipe = path.read_text()
    values = recipes.settings(tmp_path)
    assert not recipe_lib.PLACEHOLDER.search(recipe_lib.filled(recipe, values, settings="mine.env"))
    for name in set(recipe_lib.PLACEHOLDER.findall(recipe)):
        with pytest.raises(InputError, match=rf"mine\.env: received no value of {name};"):
            recipe_lib.filled(recipe, values | {name: ""}, settings="mine.env")


def test_settings_that_no_recipe_knows_are_refused():
    with pytest.raises(InputError, match="Did you mean 'ROOT'"):
        recipe_lib.parse("ROOTS=/data", name="mine.env")


@pytest.mark.parametrize("value", ["/a b", "a%b", "$HOME", "'a'", 'a"', "a;b", "`a`", "a\\b", "é"])
def test_a_value_that_would_need_quotes_is_refused(value):
    with pytest.raises(InputError, match=r"mine\.env, ROOT: received"):
        recipe_lib.parse(f"ROOT={value}", name="mine.env")


def test_the_command(tmp_path):
    mine = tmp_path / "mine.env"
    mine.write_text("# of the taxi\nROOT=/data/taxi\nUSER=taxi\n")
    recipe = tmp_path / "recipe"
    recipe.write_text("@USER@ retrains in @ROOT@, tells who@example.org\n")
    assert _fill(mine, recipe).stdout == "taxi retrains in /data/taxi, tells who@example.org\n"
    recipe.write_text("@ROOT@ @CONFIG@ @CHECKOUT@")
    refused = _fill(mine, recipe)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "received no value of CHECKOUT, CONFIG" in refused.stderr


def _fill(settings, recipe) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deploy.fill", f"--settings={settings}", recipe]
    return subprocess.run(command, cwd=recipes.CHECKOUT, capture_output=True, text=True, check=False)


def _settings() -> list[str]:
    lines = recipe_lib.EXPLAINED.read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _key_and_value(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    return key, value
