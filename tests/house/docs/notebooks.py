"""The notebooks of docs/notebooks, run as a person runs them, in copies of the tree.

  python -m tests.house.docs.notebooks [first_steps.ipynb …]

stores what they print in the files; without names it runs all.
"""

import os
import pathlib
import sys
import tempfile

import nbformat
from nbclient import NotebookClient

from tests.house.docs import commands, documents

FOLDER = documents.ROOT / "docs/notebooks"
NAMES = tuple(sorted(path.name for path in FOLDER.glob("*.ipynb")))
_MOST_S = 600  # of one cell: what hangs ends


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(FOLDER / name, as_version=4)


def executed(name: str, directory: pathlib.Path) -> nbformat.NotebookNode:
    """The notebook after it ran in a copy of the tree, from its own folder there, as Jupyter starts it.

    Raises:
      nbclient.exceptions.CellExecutionError: a cell failed; the message has the cell and its traceback.
    """
    commands.copy_tree(directory)
    notebook, folder = read(name), directory / FOLDER.relative_to(documents.ROOT)
    resources = {"metadata": {"path": str(folder)}}
    environment = os.environ | {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    client = NotebookClient(notebook, timeout=_MOST_S, kernel_name="python3", resources=resources)
    return client.execute(env=environment)


def main(names: list[str]) -> None:
    for name in names or NAMES:
        with tempfile.TemporaryDirectory() as directory:
            notebook = executed(name, pathlib.Path(directory))
            _store(notebook, FOLDER / name, directory)


def _store(notebook: nbformat.NotebookNode, path: pathlib.Path, directory: str) -> None:
    """Writes it without what differs from run to run: times of cells, cuts of streams, where the copy lay."""
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = _joined(cell.outputs)
    path.write_text(nbformat.writes(notebook).replace(directory, "penstock") + "\n")


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """Neighbours of one stream as one: a program's output comes in pieces of any size."""
    joined: list[nbformat.NotebookNode] = []
    for output in outputs:
        if joined and output.get("name") and output.get("name") == joined[-1].get("name"):
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


if __name__ == "__main__":
    main(sys.argv[1:])
