"""The notebooks run as they are, what they assert holds, and what is stored of them is small."""

import pathlib

import pytest

_WHY = "notebooks run where requirements/notebooks.txt is installed"
pytest.importorskip("nbclient", reason=_WHY)
pytest.importorskip("ipykernel", reason=_WHY)

from tests.house.docs import notebooks  # noqa: E402 - it imports nbclient

MOST_BYTES = 400_000  # of all, with their pictures
NEEDED = {"jax_and_torch.ipynb": ("torch", "grain")}  # no requirements: requirements/peers.txt has them


@pytest.mark.slow
@pytest.mark.parametrize("name", notebooks.NAMES)
def test_no_cell_fails(name: str, tmp_path: pathlib.Path):
    for module in NEEDED.get(name, ()):
        pytest.importorskip(module, reason=f"{module} is no requirement: requirements/peers.txt has it")
    cells = notebooks.executed(name, tmp_path).cells
    assert any("assert " in cell.source for cell in cells), "nothing is held"


@pytest.mark.parametrize("name", notebooks.NAMES)
def test_what_was_printed_is_stored(name: str):
    cells = notebooks.read(name).cells
    kinds = {kind for cell in cells for output in cell.get("outputs", ()) for kind in output.get("data", ())}
    assert "image/png" in kinds
    assert all(cell.execution_count for cell in cells if cell.cell_type == "code")
    assert not any(output.output_type == "error" for cell in cells for output in cell.get("outputs", ()))


def test_the_notebooks_are_small_and_say_where_they_run():
    assert sum((notebooks.FOLDER / name).stat().st_size for name in notebooks.NAMES) < MOST_BYTES
    headers = {
        notebooks.read(name).cells[1].source.partition("This notebook")[0].strip() for name in notebooks.NAMES
    }
    [header] = headers
    assert "never tried there" in header
