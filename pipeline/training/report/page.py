"""Writes the report of a training run: one HTML page that needs nothing but itself."""

import os
import pathlib

from pipeline.data import atomic_files
from pipeline.training.report.drawing.markup import Markup, tag
from pipeline.training.report.sections.dataset import dataset_section
from pipeline.training.report.sections.findings import findings_section
from pipeline.training.report.sections.inputs import ReportInputs, read_inputs
from pipeline.training.report.sections.provenance import origin, provenance_section, title
from pipeline.training.report.sections.results import headline, results_section
from pipeline.training.report.sections.time_account import time_account_section
from pipeline.training.report.sections.training import training_section

FILE_NAME = "report.html"
STYLE = pathlib.Path(__file__).parent / "drawing" / "style.css"
_ENCODING_AND_WIDTH = Markup(
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">'
)
# Whatever a value of the data holds, the page loads and runs nothing.
_NOTHING_FROM_OUTSIDE = Markup(
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
)


def write_report(workdir: str | os.PathLike) -> pathlib.Path:
    """Writes `workdir/report.html` from what `workdir` and its dataset hold now; returns its path.

    It may be called while training runs: what is not there yet is left out, and a reader never sees half a
    page.
    """
    workdir = pathlib.Path(workdir)
    page = render(read_inputs(workdir))
    path = workdir / FILE_NAME
    atomic_files.write_bytes(path, page.encode())
    return path


def render(inputs: ReportInputs) -> Markup:
    """The whole page."""
    name = title(inputs)
    head = tag(
        "head",
        _ENCODING_AND_WIDTH,
        _NOTHING_FROM_OUTSIDE,
        tag("title", name),
        tag("style", Markup(STYLE.read_text())),
    )
    body = tag(
        "body",
        tag("header", tag("h1", name), headline(inputs), origin(inputs)),
        tag(
            "main",
            findings_section(inputs),
            results_section(inputs),
            training_section(inputs),
            time_account_section(inputs),
            dataset_section(inputs),
            provenance_section(inputs),
        ),
    )
    return Markup(f"<!doctype html>\n{tag('html', head, body, lang='en')}\n")
