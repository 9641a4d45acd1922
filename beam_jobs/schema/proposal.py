"""A schema for whatever is to be read: a table, folders of images, or rows of tokens."""

import collections
import dataclasses
import math
import os
import pathlib
import re
import statistics
import warnings
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence

import PIL.Image
from apache_beam.io.filesystems import FileSystems

from beam_jobs.cells import image_formats
from beam_jobs.schema.features import leaving_out
from beam_jobs.schema.labels import in_natural_order, task_of
from beam_jobs.schema.leaks import leak_remarks
from beam_jobs.schema.profiles import ColumnProfile, most_rows, read_profiles
from beam_jobs.schema.table import Proposal, propose
from beam_jobs.sources import files
from beam_jobs.sources.byte_streams import lines_in_files
from beam_jobs.sources.files import COMPRESSION
from beam_jobs.sources.images import IMAGE_COLUMN, LABEL_COLUMN, ImageFolders
from beam_jobs.sources.source import (
    Input,
    InputSplit,
    RawRows,
    Rejected,
    Rejection,
    Source,
    likely_cause,
    read_split,
    share_needed,
    takes_encoding,
)
from beam_jobs.sources.tokens import SEGMENTS_COLUMN, TOKENS_COLUMN, TokenRows
from pipeline.base.errors import InputError, printable, shortage
from pipeline.data.preprocessing.tokenizers import unknown_in
from pipeline.data.schema import schema as schema_lib
from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.feature_types import Datetime, Image, Label, Tokens
from pipeline.data.schema.schema import Schema, ascii_words
from pipeline.report import terminal

_WORD = 3  # signs of a word that tells an alphabet, at least
_SPLIT_AT_END = re.compile(r"(^|_)(train|training|validation|valid|val|dev|test|testing|eval)$")


def propose_from(
    source: Source,
    inputs: Sequence[Input],
    *,
    name: str | None = None,
    label: str | None = None,
    task: str | None = None,
    group: str | None = None,
    ignore: Sequence[str] = (),
    missing: Sequence[str] = (),
    not_missing: Sequence[str] = (),
    date_format: Sequence[str] = (),
    first_year: Sequence[str] = (),
    list_delimiter: Sequence[str] = (),
    numeric: Sequence[str] = (),
    max_rows: int,
) -> Proposal:
    """Reads up to `max_rows` rows or image headers. `name` is by default the name of the first input."""
    if name:
        schema_lib.check_name(
            name, thing="--name", action=f"Write --name={_identifier(name) or 'dataset'}, or leave it out."
        )
    name = name or _name_from(inputs[0].location)
    if group and isinstance(source, TokenRows | ImageFolders):
        raise InputError(
            f"--group={group}",
            received="images or text, which have no such column",
            expected="a table",
            action="Leave it out.",
        )
    if isinstance(source, TokenRows):
        return propose_tokens(source, source.input_splits(inputs), name=name, max_rows=max_rows)
    input_splits = source.input_splits(inputs)
    if isinstance(source, ImageFolders):
        return propose_images(source, input_splits, name=name, max_rows=max_rows)
    profiles, remarks, are_of_all_rows = read_profiles(source, input_splits, max_rows=max_rows)
    proposal = propose(
        profiles,
        name=name,
        label=label,
        task=task,
        group=group,
        ignore=ignore,
        missing=missing,
        not_missing=not_missing,
        date_format=date_format,
        first_year=first_year,
        list_delimiter=list_delimiter,
        numeric=numeric,
    )
    about_label, others = proposal.review[: proposal.about_label], proposal.review[proposal.about_label :]
    leaks = leak_remarks(source, input_splits, proposal.schema) if label else []
    files.check_unchanged(input_splits)
    return dataclasses.replace(
        proposal,
        review=(
            *about_label,
            *remarks,
            *_misread(source, profiles),
            *leaks,
            *others,
            *_dated_folders(input_splits, proposal.schema),
        ),
        looked_at=_looked_at(profiles, max_rows, are_of_all_rows),
    )


def _misread(source: Source, profiles: Sequence[ColumnProfile]) -> Iterator[str]:
    """Yields a remark where a word in Latin-1 has no letter from a to z: other alphabets look so."""
    while hasattr(source, "source"):
        source = source.source
    encoding = getattr(source, "encoding", "")
    if encoding in ("latin-1", "cp1252"):
        words = (word for each in profiles for value in each.values for word in value.split())
        odd = next((word for word in words if len(word) >= _WORD and not re.search("[ -~]", word)), None)
        if odd:
            yield (
                f"Words such as {odd!r} have no letter from a to z. If that is misread, {encoding.upper()} "
                "is not the file's encoding: give it, such as --encoding=cp1251 or --encoding=gbk."
            )


def _dated_folders(input_splits: Sequence[InputSplit], schema: Schema) -> Iterator[str]:
    """Says what dates in folder names mean for a model that is trained again whenever a folder is added."""
    in_names = {
        column
        for input_split in input_splits
        for path in input_split.paths
        for column in files.partition_values(path)
    }
    for feature in schema.of_type(Datetime):
        if feature.source_column in in_names:
            yield (
                f"'{feature.source_column}' is a date in the names of folders. If a model is retrained as "
                f"folders arrive, it has never seen the date of the next folder. To leave it out: "
                f"{leaving_out(feature.source_column)}."
            )


def _looked_at(profiles: Sequence[ColumnProfile], max_rows: int, are_all: bool) -> str:
    rows = max((profile.rows for profile in profiles), default=0)
    if are_all:
        return f"All {rows:,} rows were looked at."
    is_wide = most_rows(len(profiles), max_rows) < max_rows
    why = f"the table has {len(profiles):,} columns" if is_wide else f"--max_rows={max_rows}"
    return f"Only {rows:,} rows were looked at ({why}): others may hold other values."


def _name_from(location: str) -> str:
    """Names the dataset after the file or folder, or its parent folder, without the name of a split."""
    path = pathlib.PurePath(location)
    stem = path.with_suffix("").stem if path.suffix in COMPRESSION else path.stem
    return _identifier(stem) or _identifier(path.parent.name) or "dataset"


def _identifier(name: str) -> str:
    """Returns `name` in lower case, without the split at its end; empty if nothing is left."""
    words = ascii_words(name).lower().strip("_0123456789")
    return _SPLIT_AT_END.sub("", words).strip("_0123456789")


# --- A proposed schema as a table to read in a terminal.


_LINE = 160  # characters of a feature that are shown


def format_summary(schema: Schema) -> str:
    """A line for each feature: how it is proposed, and what was seen in its values."""
    rows = [("feature", "proposed", "missing", "distinct", "examples")]
    for feature in schema.features:
        seen = feature.evidence
        missing = _percent(seen["missing_fraction"]) if "missing_fraction" in seen else ""
        examples = ", ".join(map(str, seen.get("examples", seen.get("sizes", ()))))
        rows.append((feature.name, _description(feature), missing, seen.get("distinct", ""), examples))
    return "\n".join(line[: terminal.width() or _LINE] for line in terminal.aligned(rows))


def _percent(fraction: float) -> str:
    return "<0.1%" if 0 < fraction < 0.001 else f"{fraction:.1%}"


def _description(feature: Feature) -> str:
    """Formats the fields that differ from the defaults: `categorical, vocabulary of 8`."""
    document = schema_lib.to_json(Schema(name="one", features=(feature,)), comments=False)["features"][0]
    shown = {
        "vocabulary": len,
        "classes": lambda names: ", ".join(names[:4]) + (" …" if names[4:] else ""),
        "tokenizer_digest": lambda digest: f"{digest[:12]}…",
    }
    parts = [
        f"{key}={shown.get(key, str)(value)}"
        for key, value in document.items()
        if key not in ("kind", "name", "clean")
    ]
    return " ".join([feature.kind, *parts])


# --- Sources whose columns are fixed: image folders and tokenised text.


_GRAY_MODES = {"1", "L", "I", "I;16", "I;16B", "F"}
_ENCODINGS = {"PNG": "png", "JPEG": "jpeg", "MPO": "jpeg"}


_LARGEST_PROPOSED = 224  # pixels of a side, as most networks for photographs take
_HUGE = 100  # times the pixels of the image in the middle


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Header:
    """The header of an image file as Pillow reads it."""

    format: str
    mode: str
    size: tuple[int, int]  # width and height, the way up that it is meant to be seen


def propose_images(
    source: Source, input_splits: Sequence[InputSplit], *, name: str, max_rows: int
) -> Proposal:
    """Proposes a schema from names of folders, and from up to `max_rows` file headers, evenly spread.

    Raises InputError if there are fewer than two classes.
    """
    read = [raw for input_split in input_splits for raw in source.read(input_split)]
    rows = [row for raw in read for row in raw.columns.to_pylist()]
    misplaced = [rejection for raw in read for rejection in raw.rejected]
    elsewhere = f"{len(misplaced):,} files elsewhere, such as {misplaced[0].source}" if misplaced else ""
    classes = collections.Counter(row[LABEL_COLUMN] for row in rows)
    if len(classes) < 2:
        found = (f"classes {', '.join(classes) or 'none'}", elsewhere)
        raise InputError(
            f"image folder {input_splits[0].input_root}",
            received=", and ".join(filter(None, found)),
            expected="at least two folders of images, <input>/<class>/<file>",
            action="Put the images of each class into a folder with its name; --input is the one around it.",
        )
    looked_at = rows[:: -(-len(rows) // max_rows)]
    headers = [_header(row[IMAGE_COLUMN]) for row in looked_at]
    seen = collections.Counter(header for header in headers if header)
    if not seen:
        raise InputError(
            f"image folder {input_splits[0].input_root}",
            received=f"{len(headers):,} files that are no images, such as {looked_at[0][IMAGE_COLUMN]}",
            expected="images: PNG, JPEG, WebP, …",
            action="Correct --input. Sound and video are not read: store pictures or columns of numbers.",
        )
    # Names with blanks at their ends are classes as they are.
    are_stripped = all(name == name.strip(Clean.strip) for name in classes)
    label = Label(
        name=LABEL_COLUMN,
        task=task_of(classes),
        classes=in_natural_order(classes),
        clean=Clean() if are_stripped else Clean(strip=""),
        evidence={"images": len(rows), "images_by_class": dict(sorted(classes.items()))},
    )
    names = [row[IMAGE_COLUMN] for row in looked_at]
    review = (
        [
            f"{headers.count(None):,} files are no images and will be rejected, the first is "
            f"{names[headers.index(None)]}."
        ]
        if None in headers
        else []
    )
    if elsewhere:
        share = share_needed(len(misplaced), len(rows) + len(misplaced))
        review.append(
            f"{elsewhere}, are not at <input>/<class>/<file> and will be rejected: convert needs "
            f"--max_rejected_fraction={share:g} for them."
        )
    empty = _folders_without_images(input_splits, classes)
    if empty:
        review.append(f"Folders without images are no classes: {', '.join(map(repr, empty))}.")
    if label.positive_class:
        review.append(
            f"'{LABEL_COLUMN}': the positive class is {label.positive_class!r}. If not, swap 'classes'."
        )
    sizes = {name: header.size for name, header in zip(names, headers, strict=True) if header}
    review += _size_remarks(sizes)
    return Proposal(
        schema=Schema(name=name, features=(_image(seen), label)),
        review=tuple(review),
        looked_at=f"The headers of {len(looked_at):,} of {len(rows):,} images were looked at.",
    )


def _size_remarks(sizes: Mapping[str, tuple[int, int]]) -> Iterator[str]:
    """Yields what to do about different sizes, (width, height) by file."""
    if len({*sizes.values()}) == 1:
        return
    width, height = (statistics.median_high(sides) for sides in zip(*sizes.values(), strict=True))
    proposed = ",".join(str(min(_LARGEST_PROPOSED, -(-side // 8) * 8)) for side in (height, width))
    yield (
        f"Sizes differ (height and width 0), {_sides(width, height)} is in the middle: training needs one "
        f"size, as --config.image_size={proposed} (height, width). Other shapes are squeezed to it."
    )
    largest = max(sizes, key=lambda name: math.prod(sizes[name]))
    if math.prod(sizes[largest]) > _HUGE * width * height:
        yield (
            f"{largest} is {_sides(*sizes[largest])}: to decode it takes as long as a "
            "hundred others, and a step waits for it. Make it smaller, or leave it out."
        )


def _sides(width: int, height: int) -> str:
    """Pixels in the order of the schema and of `image_size`, which is not that of most programs."""
    return f"{height} high × {width} wide"


_TEXT_BYTES = 64 << 20  # 64 MiB of texts that are looked at
_SOME_BYTES = 1 << 20  # 1 MiB of them that are tokenised


def propose_tokens(
    source: TokenRows, input_splits: Sequence[InputSplit], *, name: str, max_rows: int
) -> Proposal:
    """Proposes a schema from the tokenizer and the length of a row; looks for texts that will be rejected.

    Feature `tokens` holds the ids. Feature `segments` numbers the documents of a row 1, 2 …; 0 is padding.
    """
    features = (
        Tokens(
            name=TOKENS_COLUMN,
            length=source.length,
            vocabulary_size=source.tokenizer.size,
            tokenizer=source.tokenizer.name,
            tokenizer_digest=source.tokenizer.digest,
        ),
        Tokens(name=SEGMENTS_COLUMN, length=source.length, vocabulary_size=source.length + 1),
    )
    end = source.tokenizer.end
    closes = f"token {end} closes each document" if end is not None else "no token closes a document"
    wrong, looked_at, some = _unreadable_texts(source, input_splits, max_rows=max_rows)
    unknown = unknown_in(source.tokenizer, some)
    return Proposal(
        schema=Schema(name=name, features=features),
        looked_at=looked_at,
        review=(
            *wrong,
            f"'{TOKENS_COLUMN}': {source.tokenizer.size:,} token ids; {closes}.",
            *(
                [
                    f"{source.tokenizer.name}: {unknown}. A model never learns that text: take a tokenizer "
                    "of this corpus, or --tokenizer=bytes."
                ]
                if unknown
                else []
            ),
            *source.tokenizer.remarks,
            f"There is no label: a model predicts the next of '{TOKENS_COLUMN}' (task next_token).",
        ),
    )


def _unreadable_texts(
    source: TokenRows, input_splits: Sequence[InputSplit], *, max_rows: int
) -> tuple[list[str], str, list[str]]:
    """Returns a remark on the texts that convert will reject, how much was looked at, and some texts."""
    some: list[str] = []
    rejected: list[Rejection] = []
    lines: dict[str, int] = {}
    rows = size = 0
    for input_split, raw in _raw_of(source.source, input_splits):
        texts, wrong = source.texts(raw, input_split)
        rejected += [*raw.rejected, *wrong]
        rows, size = rows + raw.rows_read, size + texts.nbytes
        if size <= _SOME_BYTES or not some:
            some += [text[:_SOME_BYTES] for text in texts.drop_null().to_pylist()]
        lines[input_split.name] = max(lines.get(input_split.name, 0), raw.lines)
        if rows >= max_rows or size >= _TEXT_BYTES:
            looked_at = f"Only the first {rows:,} texts were looked at."
            break
    else:
        looked_at = f"All {rows:,} texts were looked at."
    if not rejected:
        return [], looked_at, some
    found = Rejected(
        reasons=dict(collections.Counter(each.reason for each in rejected)), listed=tuple(rejected)
    )
    [first, *_] = lines_in_files(found, input_splits, lines).listed
    where = first.source if first.row is None else f"{first.source} row {first.row:,}"
    reasons = ", ".join(f"{count:,} × {reason}" for reason, count in found.reasons.items())
    told = f"{len(rejected):,} of {rows:,} texts cannot be read, and convert rejects them ({reasons}). "
    told += f"The first is {where}: '{printable(first.raw[:60])}'. "
    told += likely_cause(found.reasons, rows=0, has_encoding=takes_encoding(source))
    return [told.strip()], looked_at, some


def _raw_of(source: Source, input_splits: Iterable[InputSplit]) -> Iterator[tuple[InputSplit, RawRows]]:
    for input_split in input_splits:
        yield from ((input_split, raw) for raw in read_split(source, input_split))


def _folders_without_images(input_splits: Sequence[InputSplit], classes: Container[str]) -> list[str]:
    roots = {
        input_split.input_root
        for input_split in input_splits
        if pathlib.Path(input_split.input_root).is_dir()
    }
    entries = [entry for root in roots for entry in os.scandir(root)]
    folders = {entry.name for entry in entries if entry.is_dir() and not entry.name.startswith((".", "_"))}
    return sorted(name for name in folders if name not in classes)


def _image(seen: collections.Counter[_Header]) -> Image:
    sizes = {header.size for header in seen}
    width, height = next(iter(sizes)) if len(sizes) == 1 else (0, 0)
    encodings = {_ENCODINGS.get(header.format, "any") for header in seen}
    return Image(
        name=IMAGE_COLUMN,
        height=height,
        width=width,
        channels=_channels({header.mode for header in seen}),
        encoding=next(iter(encodings)) if len(encodings) == 1 else "any",
        evidence={
            "looked_at": sum(seen.values()),
            "sizes": [_sides(*size) for size in _range_of(sizes)],
            "formats": _counted(header.format for header in seen.elements()),
            "modes": _counted(header.mode for header in seen.elements()),
        },
    )


def _range_of(sizes: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """Up to five sizes, from the smallest to the largest."""
    ordered = sorted(sizes, key=lambda size: (math.prod(size), size))
    places = {round(part * (len(ordered) - 1) / 4) for part in range(5)} if ordered else set()
    return [ordered[place] for place in sorted(places)]


def _channels(modes: set[str]) -> int:
    if modes and modes <= _GRAY_MODES:
        return 1
    return 4 if modes == {"RGBA"} else 3


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(collections.Counter(values).items()))


def _header(path: str) -> _Header | None:
    try:
        with (
            warnings.catch_warnings(action="ignore", category=PIL.Image.DecompressionBombWarning),
            FileSystems.open(path, compression_type="uncompressed") as file,
            PIL.Image.open(file) as image,
        ):
            size = image_formats.seen_size(image)
            return _Header(format=str(image.format), mode=image.mode, size=size)
    except Exception as error:  # Pillow raises many kinds of error on a file that is not an image
        if shortage(error):
            raise
        return None
