"""Writes the report of a training run: one HTML page that needs nothing but itself."""

import os
import pathlib

from pipeline.base import files
from pipeline.report import html
from pipeline.report.html import Markup
from pipeline.report.section import Cell, Section
from pipeline.training.report.data import dataset_section
from pipeline.training.report.findings import findings_section
from pipeline.training.report.inputs import ReportInputs, read_inputs
from pipeline.training.report.provenance import origin, provenance_section, title
from pipeline.training.report.results import headline, results_section
from pipeline.training.report.run import time_section, training_section

FILE_NAME = "report.html"


def write_report(workdir: str | os.PathLike) -> pathlib.Path:
    """Writes `workdir/report.html` from what `workdir` and its dataset hold now; returns its path.

    It may be called while training runs: what is not there yet is left out, and a reader never sees half a
    page.
    """
    path = pathlib.Path(workdir) / FILE_NAME
    files.write_bytes(path, render(read_inputs(path.parent)).encode())
    return path


def render(inputs: ReportInputs) -> Markup:
    """The whole page."""
    head = Section(title=title(inputs), parts=[headline(inputs), Cell(text=origin(inputs), style="origin")])
    sections = [
        findings_section(inputs),
        results_section(inputs),
        training_section(inputs),
        time_section(inputs),
        dataset_section(inputs),
        provenance_section(inputs),
    ]
    return html.page(head, sections)
