"""Proposes the schema of an image folder from its folders' names and its files' headers."""

import collections
from collections.abc import Iterable, Sequence

import PIL.Image
from apache_beam.io.filesystems import FileSystems

from beam_jobs.propose import Proposal, in_natural_order, task_of
from beam_jobs.sources.images import IMAGE_COLUMN, LABEL_COLUMN
from beam_jobs.sources.source import Piece, Source
from pipeline.data.errors import InputError
from pipeline.data.features import Image, Label
from pipeline.data.schema import Schema

_GRAY_MODES = {"1", "L", "I", "I;16", "F"}
_ENCODINGS = {"PNG": "png", "JPEG": "jpeg", "MPO": "jpeg"}

Header = tuple[str, str, tuple[int, int]]  # format, mode, (width, height)


def propose_images(source: Source, pieces: Sequence[Piece], *, name: str, max_rows: int) -> Proposal:
    """Looks at up to `max_rows` file headers, evenly spread; raises InputError without two classes."""
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
    if len(classes) == 2:
        review.append(f"'{LABEL_COLUMN}': the positive class is {label.classes[1]!r}.")
    if len({size for _, _, size in seen}) > 1:
        review.append("Sizes differ (height and width 0): training needs --config.image_size or similar.")
    return Proposal(schema=Schema(name=name, features=(_image(seen), label)), review=tuple(review))


def _image(seen: collections.Counter[Header]) -> Image:
    sizes = {size for _, _, size in seen}
    width, height = next(iter(sizes)) if len(sizes) == 1 else (0, 0)
    encodings = {_ENCODINGS.get(kind, "any") for kind, _, _ in seen}
    return Image(
        name=IMAGE_COLUMN,
        height=height,
        width=width,
        channels=_channels({mode for _, mode, _ in seen}),
        encoding=next(iter(encodings)) if len(encodings) == 1 else "any",
        evidence={
            "looked_at": sum(seen.values()),
            "sizes": [f"{w}x{h}" for w, h in sorted(sizes)[:5]],
            "formats": _counted(kind for kind, _, _ in seen.elements()),
            "modes": _counted(mode for _, mode, _ in seen.elements()),
        },
    )


def _channels(modes: set[str]) -> int:
    if modes and modes <= _GRAY_MODES:
        return 1
    return 4 if modes == {"RGBA"} else 3


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(collections.Counter(values).items()))


def _header(path: str) -> Header | None:
    try:
        with FileSystems.open(path, compression_type="uncompressed") as file, PIL.Image.open(file) as image:
            return str(image.format), image.mode, image.size
    except Exception:  # whatever Pillow makes of a file that is no image
        return None
