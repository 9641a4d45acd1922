"""Which spans there are now, and what is known of each."""

import dataclasses
import datetime
from collections.abc import Collection, Iterator, Mapping, Sequence

from pipeline.data.errors import InputError
from pipeline.release.cycles.records import receipts
from pipeline.release.cycles.records.root import Root
from pipeline.release.cycles.spans import datasets, raw
from pipeline.release.cycles.spans.content import Digests
from pipeline.release.cycles.spans.datasets import Conversion
from pipeline.release.cycles.spans.raw import RawSpan


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


def look(root: Root, sources: Sources) -> list[Span]:
    """The spans in the order of their names. Nothing is converted, only digests are computed.

    Raises:
      InputError: the spans cannot be told apart or read, or config.spans.exclude names one that is not there.
    """
    digests = Digests(root.digests)
    found = raw.find(sources.pattern, digests, marker=sources.marker)
    digests.save()
    _check_excluded(sources, found)
    return list(_known(root, sources, found))


def _known(root: Root, sources: Sources, found: Sequence[RawSpan]) -> Iterator[Span]:
    first_with: dict[str, str] = {}
    for span in found:
        fingerprint = sources.conversion.fingerprint(span)
        receipt = receipts.read(datasets.receipt_of(root, span.name, fingerprint))
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


def converted(root: Root, sources: Sources, spans: Sequence[Span], *, at: datetime.datetime) -> list[Span]:
    """The same spans; those that nobody has tried are converted now.

    Raises:
      InputError: a span cannot be used, and config.spans.unusable is "stop"; or see `datasets.convert`.
    """
    done = [
        span
        if span.unusable or span.receipt
        else _with(span, datasets.convert(root, span.raw, sources.conversion, at=at))
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
