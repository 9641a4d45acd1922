"""Proposes the schema of sources whose columns are fixed: image folders and tokenised text."""

import collections
import dataclasses
import os
import pathlib
from collections.abc import Container, Iterable, Sequence

import PIL.Image
from apache_beam.io.filesystems import FileSystems

from beam_jobs.cells import jpeg_orientation
from beam_jobs.proposal.labels import in_natural_order, task_of
from beam_jobs.proposal.table import Proposal
from beam_jobs.sources.images import IMAGE_COLUMN, LABEL_COLUMN
from beam_jobs.sources.pieces.source import Piece, Source
from beam_jobs.sources.tokens.token_rows import SEGMENTS_COLUMN, TOKENS_COLUMN, TokenRows
from pipeline.data.errors import InputError
from pipeline.data.schema.kinds import Image, Label, Tokens
from pipeline.data.schema.schema import Schema

_GRAY_MODES = {"1", "L", "I", "I;16", "F"}
_ENCODINGS = {"PNG": "png", "JPEG": "jpeg", "MPO": "jpeg"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Header:
    """What an image file says of itself, in Pillow's words."""

    format: str
    mode: str
    size: tuple[int, int]  # width and height, the way up that it is meant to be seen


def propose_images(source: Source, pieces: Sequence[Piece], *, name: str, max_rows: int) -> Proposal:
    """From the names of the folders, and from up to `max_rows` file headers, evenly spread.

    Raises InputError if there are fewer than two classes.
    """
    rows = [row for piece in pieces for raw in source.read(piece) for row in raw.columns.to_pylist()]
    classes = collections.Counter(row[LABEL_COLUMN] for row in rows)
    if len(classes) < 2:
        raise InputError(
            f"image folder {pieces[0].input_root}",
            received=f"classes {', '.join(classes) or 'none'}",
            expected="at least two folders of images, <input>/<class>/<file>",
            action="Put the images of each class into a folder with its name.",
        )
    looked_at = rows[:: -(-len(rows) // max_rows)]
    headers = [_header(row[IMAGE_COLUMN]) for row in looked_at]
    seen = collections.Counter(header for header in headers if header)
    label = Label(
        name=LABEL_COLUMN,
        task=task_of(classes),
        classes=in_natural_order(classes),
        evidence={"images": len(rows), "images_by_class": dict(sorted(classes.items()))},
    )
    review = [f"{headers.count(None):,} files are no images and will be rejected."] if None in headers else []
    empty = _folders_without_images(pieces, classes)
    if empty:
        review.append(f"Folders without images are no classes: {', '.join(map(repr, empty))}.")
    if label.positive_class:
        review.append(
            f"'{LABEL_COLUMN}': the positive class is {label.positive_class!r}. If not, swap 'classes'."
        )
    if len({header.size for header in seen}) > 1:
        review.append(
            "Sizes differ (height and width 0): training needs a size, as --config.image_size=224,224."
        )
    return Proposal(
        schema=Schema(name=name, features=(_image(seen), label)),
        review=tuple(review),
        looked_at=f"The headers of {len(looked_at):,} of {len(rows):,} images were looked at.",
    )


def propose_tokens(source: TokenRows, *, name: str) -> Proposal:
    """From the tokenizer and the length of a row.

    Feature `tokens` holds the ids. Feature `segments` numbers the documents of a row 1, 2 …; 0 is padding.
    """
    features = (
        Tokens(name=TOKENS_COLUMN, length=source.length, vocabulary_size=source.tokenizer.size),
        Tokens(name=SEGMENTS_COLUMN, length=source.length, vocabulary_size=source.length + 1),
    )
    end = source.tokenizer.end
    closes = f"token {end} closes each document" if end is not None else "no token closes a document"
    return Proposal(
        schema=Schema(name=name, features=features),
        review=(f"'{TOKENS_COLUMN}': {source.tokenizer.size:,} token ids; {closes}.",),
    )


def _folders_without_images(pieces: Sequence[Piece], classes: Container[str]) -> list[str]:
    roots = {piece.input_root for piece in pieces if pathlib.Path(piece.input_root).is_dir()}
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
            "sizes": [f"{w}x{h}" for w, h in sorted(sizes)[:5]],
            "formats": _counted(header.format for header in seen.elements()),
            "modes": _counted(header.mode for header in seen.elements()),
        },
    )


def _channels(modes: set[str]) -> int:
    if modes and modes <= _GRAY_MODES:
        return 1
    return 4 if modes == {"RGBA"} else 3


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(collections.Counter(values).items()))


def _header(path: str) -> _Header | None:
    try:
        with FileSystems.open(path, compression_type="uncompressed") as file, PIL.Image.open(file) as image:
            size = jpeg_orientation.seen_size(image.size, jpeg_orientation.by_pillow(image))
            return _Header(format=str(image.format), mode=image.mode, size=size)
    except Exception:  # Pillow raises many kinds of error on a file that is no image
        return None
