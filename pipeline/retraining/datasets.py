"""Converts each span to a dataset, once; the result is in a file beside the dataset."""

import dataclasses
import datetime
import glob
import hashlib
import json
import pathlib
from collections.abc import Collection, Mapping, Sequence

from pipeline.base.errors import InputError, TryAgainError
from pipeline.data.dataset.manifest import FILE_NAME as MANIFEST
from pipeline.data.dataset.manifest import open_dataset
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature_types import Tokens
from pipeline.data.schema.schema import Schema
from pipeline.retraining import children, records, spans
from pipeline.retraining.records import Root
from pipeline.retraining.spans import Digests, RawSpan, find

_FORMAT = "penstock.span/1"
# The reason why a span cannot be converted: its rows. No other reason is recorded, because a record would
# stay for ever.
_FAULT, _ROWS = "fault", "rows"
# Flags in errors about the rows; errors that name any other flag are about the config.
_FLAGS_OF_ROWS = "--input"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Conversion:
    """The conversion of spans: `module` is the name of beam_jobs.convert, and `flags` are its flags."""

    module: str
    schema: pathlib.Path
    flags: tuple[str, ...]

    def fingerprint(self, span: RawSpan) -> str:
        """Digests all inputs of the dataset: the raw files, the schema and the flags."""
        schema = hashlib.sha256(self.schema.read_bytes()).hexdigest()
        text = json.dumps([_FORMAT, span.digest, schema, self.flags])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def dataset_of(root: Root, name: str, fingerprint: str) -> pathlib.Path:
    return root.spans / name / fingerprint


def result_path(root: Root, name: str, fingerprint: str) -> pathlib.Path:
    return root.spans / name / f"{fingerprint}.json"


def convert(root: Root, span: RawSpan, conversion: Conversion, *, at: datetime.datetime) -> dict:
    """Converts the span, unless it was converted before; returns the result, see `_result`.

    Raises:
      TryAgainError: the conversion was killed, memory or a disk ran out, a file could not be read, or the
        span changed in the meantime.
      InputError: the conversion failed for no fault of the rows, such as for a wrong flag.
    """
    fingerprint = conversion.fingerprint(span)
    path = result_path(root, span.name, fingerprint)
    if (there := known_result(root, span.name, fingerprint)) is not None:
        return there
    path.unlink(missing_ok=True)  # a result that does not hold any more: see known_result
    # Without this check, every span would be refused for a wrong schema.
    check_splits(schema_lib.load(conversion.schema))
    directory = dataset_of(root, span.name, fingerprint)
    try:
        if not (directory / MANIFEST).exists():
            children.run(_command(span, conversion, directory), path.with_suffix(".log"))
    except children.RefusedError as error:
        _check_unchanged(span)
        if error.received.startswith("--") and not error.received.startswith(_FLAGS_OF_ROWS):
            raise
        _check_makes_tokens(conversion, refused=error.received)
        return records.write_result(path, _result(span, fingerprint, at=at, refused=error.received))
    _check_unchanged(span)
    return records.write_result(path, _result(span, fingerprint, at=at, dataset=directory))


def _check_makes_tokens(conversion: Conversion, *, refused: str) -> None:
    """Raises InputError where a span is refused because the config lacks the flags that make tokens of text:
    every span would be.
    """
    tokens = [each for each in schema_lib.load(conversion.schema).of_type(Tokens) if each.tokenizer]
    is_given = any(flag.startswith("--tokenizer") for flag in conversion.flags)
    if tokens and not is_given and "--tokenizer=" in refused:
        flags = (f"--tokenizer={tokens[0].tokenizer}", f"--sequence_length={tokens[0].length}")
        raise InputError(
            f"config.spans.convert={conversion.flags}",
            received=f"no --tokenizer; {refused.partition('. ')[0]}",
            expected="the flags that made the schema's tokens",
            action=f"Set config.spans.convert = {(*conversion.flags, *flags)}.",
        )


def known_result(root: Root, name: str, fingerprint: str) -> dict | None:
    """Reads the result of a conversion; None if there is none, or it is no longer valid.

    A refusal is valid only if it says that the rows are at fault: earlier versions also recorded shortages.
    """
    result = records.read_result(result_path(root, name, fingerprint))
    is_refusal = result is not None and result["unusable"] and not result["dataset_digest"]
    return None if is_refusal and result.get(_FAULT) != _ROWS else result


def _command(span: RawSpan, conversion: Conversion, directory: pathlib.Path) -> Sequence[str]:
    return (
        conversion.module,
        f"--input={span.path}",
        f"--schema={conversion.schema}",
        f"--output={directory}",
        *(() if any("allow_empty" in flag for flag in conversion.flags) else ("--allow_empty",)),
        *conversion.flags,
    )


def _check_unchanged(span: RawSpan) -> None:
    """Raises TryAgainError where the files changed after the fingerprint was taken."""
    again = find(glob.escape(str(span.path)), Digests(pathlib.Path("/dev/null")))
    if [each.digest for each in again] != [span.digest]:
        raise TryAgainError(
            f"span '{span.name}'",
            received=f"{span.path}, which changed while it was converted",
            expected="files that stay as they are",
            action="Write a span elsewhere and rename it into its place; the same command looks again.",
        )


def _result(
    span: RawSpan,
    fingerprint: str,
    *,
    at: datetime.datetime,
    dataset: pathlib.Path | None = None,
    refused: str = "",
) -> dict:
    """Describes what became of a span.

    `unusable` says why it cannot be used, and is empty if it can; `rows` is the number of rows of each split.
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
        **({_FAULT: _ROWS} if refused else {}),
    }


def schema_of(path: pathlib.Path) -> pathlib.Path:
    """Returns the path of the schema; raises InputError where there is no such file."""
    if not path.is_file():
        raise InputError(
            f"config.spans.schema={path}",
            received="no such file",
            expected="the schema of all spans, as beam_jobs.infer_schema proposes one",
            action="Propose one of the first span, read it, and put it there.",
        )
    return path


def check_splits(schema: Schema) -> None:
    """Raises InputError for a schema that cuts rows into splits by their date."""
    if schema.split_by and schema.split_by.is_time:
        column = schema.split_by.columns[0]
        starts = ", ".join(f"{split} from {start} on" for split, start in schema.split_by.starts.items())
        raise InputError(
            f"split_by in schema '{schema.name}'",
            received=f"dates of column '{column}': {starts}",
            expected="no dates in retraining: each new span would lie behind the last one, and no row of it "
            "would be trained on",
            action="Remove split_by: models are compared on spans that are later than those that they are "
            'trained on. Or name columns whose rows belong together, such as ["customer"].',
        )


# --- The survey: which spans exist, and what is known about each.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Span:
    """A span of raw data, and its dataset if it has one.

    Attributes:
      fingerprint: the digest of the raw files, the schema and the flags.
      unusable: the reason why it cannot be used; empty if it can, or if nobody has tried.
      result: the result of its conversion; None where it is not converted.
    """

    name: str
    fingerprint: str
    raw: RawSpan
    unusable: str
    result: Mapping[str, object] | None = dataclasses.field(compare=False)

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.fingerprint

    @property
    def rows(self) -> int | None:
        """The number of rows of all splits; None where it is not converted."""
        return sum(self.result["rows"].values()) if self.result else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sources:
    """The sources of spans. `pattern` is an absolute glob; `exclude` names the spans to leave out."""

    pattern: str
    conversion: Conversion
    exclude: Collection[str] = ()
    unusable: str = "skip"
    marker: str = ""


def survey_spans(root: Root, sources: Sources) -> list[Span]:
    """Returns the spans in the order of their names. It computes digests, and converts nothing.

    Raises:
      InputError: two spans have one name, one cannot be read, or config.spans.exclude names a missing one.
    """
    digests = Digests(root.digests)
    found = spans.find(sources.pattern, digests, marker=sources.marker)
    digests.save()
    _check_excluded(sources, found)
    return known_spans(root, sources, found)


def known_spans(root: Root, sources: Sources, found: Sequence[RawSpan]) -> list[Span]:
    """Returns the spans with what is known about each now; only one of several equal spans can be used.

    It is the one that was converted first, else the first by name. A span that cannot be used anyway does not
    count: a day that was delivered under a wrong name, and is excluded, does not hide the right one.
    """
    alone = [_known(root, sources, span) for span in found]
    usable = [span for span in alone if not span.unusable]
    first: dict[str, str] = {}
    for span in sorted(usable, key=lambda each: each.result is None):
        first.setdefault(span.raw.content, span.name)
    return [
        dataclasses.replace(span, unusable=f"it repeats span {first[span.raw.content]}, byte for byte")
        if not span.unusable and first[span.raw.content] != span.name
        else span
        for span in alone
    ]


def _known(root: Root, sources: Sources, span: RawSpan) -> Span:
    """Returns the span with what is known about it, without regard to other spans."""
    fingerprint = sources.conversion.fingerprint(span)
    result = known_result(root, span.name, fingerprint)
    why = (
        "config.spans.exclude names it"
        if span.name in sources.exclude
        else "it has no bytes"
        if not span.size
        else result["unusable"]
        if result
        else ""
    )
    return Span(name=span.name, fingerprint=fingerprint, raw=span, unusable=why, result=result)


def converted_span(root: Root, sources: Sources, span: Span, *, at: datetime.datetime) -> Span:
    """Converts a span that nobody has tried, and returns it with the result; raises as `convert` does."""
    result = convert(root, span.raw, sources.conversion, at=at)
    return dataclasses.replace(span, result=result, unusable=result["unusable"])


def check_usable(sources: Sources, spans: Sequence[Span]) -> None:
    """Raises InputError for a span that cannot be used, where config.spans.unusable is "stop"."""
    wrong = [span for span in spans if span.unusable and span.name not in sources.exclude]
    if wrong and sources.unusable == "stop":
        raise InputError(
            f"span '{wrong[0].name}'",
            received=wrong[0].unusable,
            expected="a span that can be used, since config.spans.unusable is 'stop'",
            action="Correct its files, name it in config.spans.exclude, or set config.spans.unusable='skip'.",
        )


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
