"""A result stands in one document: copies of it grow old at different times."""

import collections
import re
from collections.abc import Mapping

from tests.house.docs import documents

README_LINES = 150
LEAST_DIGITS = 3  # of fewer digits, two results may well be equal by chance
# Accuracy and AUC have four digits behind the point; the others a unit.
_FIGURE = re.compile(
    r"(?<![\w.,])(?:0\.\d{4}|\d[\d,.]*(?:×|\s?(?:µs|ms|MB/s|GB/s|examples/s|rows/s)|\s(?:s|min))(?![\w/]))"
)


def figures(text: str) -> set[str]:
    """Results in a text, without the spaces in them."""
    found = {re.sub(r"\s", "", figure) for figure in _FIGURE.findall(text)}
    return {figure for figure in found if sum(map(str.isdigit, figure)) >= LEAST_DIGITS}


def repeated(texts: Mapping[str, str]) -> list[str]:
    """Figures that stand in more than one of the documents, with their names."""
    where = collections.defaultdict(list)
    for name, text in texts.items():
        for figure in figures(text):
            where[figure].append(name)
    return [f"{figure}: {', '.join(names)}" for figure, names in sorted(where.items()) if len(names) > 1]


def test_no_figure_stands_in_two_documents():
    written = {name: documents.read(name) for name in documents.names()}
    for run in documents.GENERATED:  # two runs of one benchmark share its targets
        texts = written | {run: documents.read(run)}
        assert repeated(texts) == [], "Keep each in docs/measurements.md only, and link to it"


def test_a_planted_copy_is_found():
    texts = {
        "a.md": "accuracy 0.9870, 4.2× and 25.5 µs",
        "b.md": "0.9870; 25.5µs; 5.5×; 16 rows",
        "c.md": "5.5",
    }
    assert repeated(texts) == ["0.9870: a.md, b.md", "25.5µs: a.md, b.md"]


def test_the_readme_fits_on_few_screens():
    lines = len(documents.read("README.md").splitlines())
    assert lines <= README_LINES, f"README.md has {lines} lines; move what is not for everybody to docs/"
