"""A dataset of each span, converted once; what came of it stands in a receipt beside it."""

import dataclasses
import datetime
import glob
import hashlib
import json
import pathlib
from collections.abc import Sequence

from pipeline.data.dataset.manifest import FILE_NAME as MANIFEST
from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.errors import InputError, TryAgainError
from pipeline.release.cycles import children
from pipeline.release.cycles.records import receipts
from pipeline.release.cycles.records.root import Root
from pipeline.release.cycles.spans.content import Digests
from pipeline.release.cycles.spans.raw import RawSpan, find

_FORMAT = "penstock.span/1"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """How spans become datasets: by beam_jobs.convert, whose name is `module`, with more `flags` of it."""

    module: str
    schema: pathlib.Path
    flags: tuple[str, ...]

    def fingerprint(self, span: RawSpan) -> str:
        """Of all that makes the dataset what it is: the raw files, the schema and the flags."""
        schema = hashlib.sha256(self.schema.read_bytes()).hexdigest()
        text = json.dumps([_FORMAT, span.digest, schema, self.flags])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def dataset_of(root: Root, name: str, fingerprint: str) -> pathlib.Path:
    """The directory of a span's dataset, relative names as the receipts have them."""
    return root.spans / name / fingerprint


def receipt_of(root: Root, name: str, fingerprint: str) -> pathlib.Path:
    return root.spans / name / f"{fingerprint}.json"


def convert(root: Root, span: RawSpan, conversion: Conversion, *, at: datetime.datetime) -> dict:
    """The receipt of the span, converted now unless it was; see `_receipt`.

    Raises:
      TryAgainError: the conversion was killed, the disk is full, or the span changed meanwhile.
      InputError: the conversion failed for no fault of the span.
    """
    fingerprint = conversion.fingerprint(span)
    path = receipt_of(root, span.name, fingerprint)
    if (there := receipts.read(path)) is not None:
        return there
    directory = dataset_of(root, span.name, fingerprint)
    try:
        if not (directory / MANIFEST).exists():
            children.run(_command(span, conversion, directory), path.with_suffix(".log"))
    except children.RefusedError as error:
        _check_unchanged(span)
        return receipts.write(path, _receipt(span, fingerprint, at=at, refused=error.received))
    _check_unchanged(span)
    return receipts.write(path, _receipt(span, fingerprint, at=at, dataset=directory))


def _command(span: RawSpan, conversion: Conversion, directory: pathlib.Path) -> Sequence[str]:
    return (
        conversion.module,
        f"--input={span.path}",
        f"--schema={conversion.schema}",
        f"--output={directory}",
        "--allow_empty",
        *conversion.flags,
    )


def _check_unchanged(span: RawSpan) -> None:
    """Raises TryAgainError where the files are others than those that the fingerprint is of."""
    again = find(glob.escape(str(span.path)), Digests(pathlib.Path("/dev/null")))
    if [each.digest for each in again] != [span.digest]:
        raise TryAgainError(
            f"span '{span.name}'",
            received=f"{span.path}, which changed while it was converted",
            expected="files that stay as they are",
            action="Write a span elsewhere and rename it into its place; the same command looks again.",
        )


def _receipt(
    span: RawSpan,
    fingerprint: str,
    *,
    at: datetime.datetime,
    dataset: pathlib.Path | None = None,
    refused: str = "",
) -> dict:
    """What became of a span.

    `unusable` says why it cannot be used, empty where it can; `rows` are those of each split.
    """
    opened = open_dataset(dataset) if dataset else None
    rows = {split: opened.rows(split) for split in opened.manifest.splits} if opened else {}
    empty = "" if any(rows.values()) else "it has no rows"
    return {
        "span": span.name,
        "fingerprint": fingerprint,
        "converted": at.isoformat(),
        "raw": {
            "path": str(span.path),
            "files": span.files,
            "bytes": span.size,
            "digest": span.digest,
            "content": span.content,
        },
        "dataset_digest": opened.manifest.digest if opened else "",
        "rows": rows,
        "unusable": refused or empty,
    }


def schema_of(path: pathlib.Path) -> pathlib.Path:
    """The schema's file; raises InputError where there is none."""
    if not path.is_file():
        raise InputError(
            f"config.spans.schema={path}",
            received="no such file",
            expected="the schema of all spans, as beam_jobs.infer_schema proposes one",
            action="Propose one of the first span, read it, and put it there.",
        )
    return path
