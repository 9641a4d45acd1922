"""The DAG, read without Airflow: its command is the real one's, and its exit code the code's."""

import ast

import pytest

from tests.commands.deploy import recipes


@pytest.fixture
def root(tmp_path):
    recipes.on_hold(tmp_path / "taxi")
    return tmp_path / "taxi"


def constants(root) -> dict[str, object]:
    """What its module-level names stand for."""
    tree = ast.parse(recipes.filled("airflow/penstock_retrain.py", recipes.settings(root)))
    found: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            code = compile(ast.Expression(node.value), "penstock_retrain.py", "eval")
            found[node.targets[0].id] = eval(code, {}, found)
    return found


def test_its_command_is_answered(root):
    command = constants(root)["COMMAND"]
    assert command[0] == f"{recipes.CHECKOUT}/.venv/bin/python"
    assert recipes.answers(list(command)).returncode == 0
    with recipes.busy(root):
        assert recipes.answers(list(command)).returncode == recipes.AGAIN


def test_it_calls_again_after_one_exit_code(root):
    assert constants(root)["CALL_AGAIN"] == recipes.AGAIN
