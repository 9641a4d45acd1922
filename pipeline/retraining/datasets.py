"""A dataset of each span, converted once; what came of it stands in a receipt beside it."""

import dataclasses
import datetime
import glob
import hashlib
import json
import pathlib
from collections.abc import Collection, Iterator, Mapping, Sequence

from pipeline.base.errors import InputError, TryAgainError
from pipeline.data.dataset.manifest import FILE_NAME as MANIFEST
from pipeline.data.dataset.manifest import open_dataset
from pipeline.retraining import children, records, spans
from pipeline.retraining.records import Root
from pipeline.retraining.spans import Digests, RawSpan, find

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
    if (there := records.read_result(path)) is not None:
        return there
    directory = dataset_of(root, span.name, fingerprint)
    try:
        if not (directory / MANIFEST).exists():
            children.run(_command(span, conversion, directory), path.with_suffix(".log"))
    except children.RefusedError as error:
        _check_unchanged(span)
        return records.write_result(path, _receipt(span, fingerprint, at=at, refused=error.received))
    _check_unchanged(span)
    return records.write_result(path, _receipt(span, fingerprint, at=at, dataset=directory))


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


# --- Which spans there are now, and what is known of each.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """A span of raw data, and its dataset if it has one.

    Attributes:
      fingerprint: of the raw files, the schema and the flags: of all that makes the dataset what it is.
      unusable: why it cannot be used; empty where it can, or where nobody has tried.
      receipt: of its conversion; None where it is not converted.
    """

    name: str
    fingerprint: str
    raw: RawSpan
    unusable: str
    receipt: Mapping[str, object] | None = dataclasses.field(compare=False)

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.fingerprint

    @property
    def rows(self) -> int | None:
        """Of all splits; None where it is not converted."""
        return sum(self.receipt["rows"].values()) if self.receipt else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """Where spans come from. `pattern` is an absolute glob, `exclude` names spans that are left out."""

    pattern: str
    conversion: Conversion
    exclude: Collection[str] = ()
    unusable: str = "skip"
    marker: str = ""


def survey_spans(root: Root, sources: Sources) -> list[Span]:
    """The spans in the order of their names. Nothing is converted, only digests are computed.

    Raises:
      InputError: the spans cannot be told apart or read, or config.spans.exclude names one that is not there.
    """
    digests = Digests(root.digests)
    found = spans.find(sources.pattern, digests, marker=sources.marker)
    digests.save()
    _check_excluded(sources, found)
    return list(_known(root, sources, found))


def _known(root: Root, sources: Sources, found: Sequence[RawSpan]) -> Iterator[Span]:
    first_with: dict[str, str] = {}
    for span in found:
        fingerprint = sources.conversion.fingerprint(span)
        receipt = records.read_result(receipt_of(root, span.name, fingerprint))
        twin = first_with.setdefault(span.content, span.name) if span.size else span.name
        why = (
            "config.spans.exclude names it"
            if span.name in sources.exclude
            else f"it repeats span {twin}, byte for byte"
            if twin != span.name
            else "it has no bytes"
            if not span.size
            else receipt["unusable"]
            if receipt
            else ""
        )
        yield Span(name=span.name, fingerprint=fingerprint, raw=span, unusable=why, receipt=receipt)


def converted_spans(
    root: Root, sources: Sources, spans: Sequence[Span], *, at: datetime.datetime
) -> list[Span]:
    """The same spans; those that nobody has tried are converted now.

    Raises:
      InputError: a span cannot be used, and config.spans.unusable is "stop"; or see `datasets.convert`.
    """
    done = [
        span
        if span.unusable or span.receipt
        else _with(span, convert(root, span.raw, sources.conversion, at=at))
        for span in spans
    ]
    wrong = [span for span in done if span.unusable and span.name not in sources.exclude]
    if wrong and sources.unusable == "stop":
        raise InputError(
            f"span '{wrong[0].name}'",
            received=wrong[0].unusable,
            expected="a span that can be used, since config.spans.unusable is 'stop'",
            action="Correct its files, name it in config.spans.exclude, or set config.spans.unusable='skip'.",
        )
    return done


def _with(span: Span, receipt: Mapping[str, object]) -> Span:
    return dataclasses.replace(span, receipt=receipt, unusable=receipt["unusable"])


def _check_excluded(sources: Sources, found: Sequence[RawSpan]) -> None:
    if missing := sorted({*sources.exclude} - {span.name for span in found}):
        raise InputError(
            "config.spans.exclude",
            received=f"'{missing[0]}'",
            expected=f"the name of a span, such as '{found[0].name}'"
            if found
            else "nothing: there is no span",
            action=f"Correct it. Spans are what {sources.pattern} matches.",
        )
