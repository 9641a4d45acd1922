"""Nested rows, folders of images, and places of files, as other systems and people's disks have them."""

import datetime
import decimal
import json
import pathlib
import types
from collections.abc import Callable, Mapping

import fastavro
import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet

from tests.shared.pictures import noise
from tests.soak.external_tables import External, Write, csv_file, csv_text, plain, visits

_IMAGES = ("--config.model.widths=4,8", "--config.model.blocks_per_stage=1", "--config.image_size=16,16")
_CLASSES = ("cat", "dog")


def _nested(number: int, row: dict[str, str]) -> dict:
    return {
        "user": {"age": int(row["age"]), "home": {"city": row["city"]}},
        "visits": int(row["visits"]),
        "scores": [number % 5 + 0.5, 1.0, 2.0],
        "bought": row["bought"] == "yes",
    }


def _uneven(number: int, row: dict[str, str]) -> dict:
    found = _nested(number, row)
    found["scores"] = found["scores"][: number % 4]
    found["visits"] = [found["visits"], str(found["visits"]), None][number % 3]
    if number % 5 == 0:
        del found["user"]["home"]
    return found


def _jsonl(make: Callable[[int, dict], dict]) -> Write:
    rows = lambda: [make(number, row) for number, row in enumerate(visits())]  # noqa: E731 - one line
    return plain("data.jsonl", lambda: "".join(json.dumps(row) + "\n" for row in rows()))


def _parquet(folder: pathlib.Path) -> None:
    rows = [
        {
            "age": int(row["age"]),
            "city": row["city"],
            "since": datetime.date(2020, 1, 1) + datetime.timedelta(days=number),
            "at": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(minutes=number),
            "price": decimal.Decimal(number * 25) / 100,
            "bought": row["bought"] == "yes",
            "__index_level_0__": number,
        }
        for number, row in enumerate(visits())
    ]
    table = pa.Table.from_pylist(rows)
    city = table.column("city").dictionary_encode()
    pa.parquet.write_table(table.set_column(1, "city", city), folder / "data.parquet")


def _avro(folder: pathlib.Path) -> None:
    home = {"type": "record", "name": "home", "fields": [{"name": "city", "type": ["null", "string"]}]}
    fields = [
        {"name": "age", "type": ["null", "int"]},
        {"name": "home", "type": home},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "bought", "type": {"type": "enum", "name": "answer", "symbols": ["no", "yes"]}},
    ]
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    rows = [
        {
            "age": None if number % 7 == 0 else int(row["age"]),
            "home": {"city": row["city"]},
            "at": start + datetime.timedelta(minutes=number),
            "bought": row["bought"],
        }
        for number, row in enumerate(visits())
    ]
    with (folder / "data.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows)


def _picture(number: int, *, mode: str = "RGB", size: tuple[int, int] = (20, 24)) -> PIL.Image.Image:
    pixels = noise(*size, 3, seed=number) // 2 + np.uint8(100 * (number % 2))
    return PIL.Image.fromarray(pixels).convert(mode)


def _images(
    *,
    count: int = 60,
    place: str = "{class_}/{number:03}.png",
    modes: tuple[str, ...] = ("RGB",),
    size: Callable[[int], tuple[int, int]] = lambda number: (20, 24),
    more: Mapping[str, bytes | None] = types.MappingProxyType({}),
    **options: object,
) -> Write:
    """Images below data/; `more` are other files, or folders where there is no content."""

    def write(folder: pathlib.Path) -> None:
        for number in range(count):
            path = folder / "data" / place.format(class_=_CLASSES[number % 2], number=number)
            path.parent.mkdir(parents=True, exist_ok=True)
            mode = modes[number // 2 % len(modes)]
            _picture(number, mode=mode, size=size(number)).save(path, **options)
        for name, data in more.items():
            (folder / "data" / name).mkdir() if data is None else (folder / "data" / name).write_bytes(data)

    return write


def _turned() -> PIL.Image.Exif:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # orientation: turn by 90 degrees
    return exif


_STRAYS = {
    "bird": None,
    "cat/Thumbs.db": b"\xd0\xcf\x11\xe0 no image",
    "dog/.DS_Store": b"\x00\x00\x00\x01Bud1",
}
_JPEG = "{class_}/{number:03}.jpg"
_PICTURES: dict[str, tuple[str, Write, bool]] = {
    "images": ("PNG of one size", _images(), False),
    "images_strays": ("an empty class folder, Thumbs.db, .DS_Store", _images(more=_STRAYS), False),
    "images_notes": ("readme.txt beside the classes", _images(more={"readme.txt": b"taken in 2019\n"}), True),
    "images_flat": ("no class folders", _images(count=40, place="IMG {number}.png"), True),
    "images_too_deep": (
        "train/cat/2019/1.png",
        _images(count=40, place="train/{class_}/2019/{number}.png"),
        True,
    ),
    "images_sizes": (
        "1 to 60 pixels, names of umlauts, # and blanks",
        _images(place="{class_} & co/größe #{number} (1).PNG", size=lambda n: (1 + n, 1 + n * 3 % 50)),
        False,
    ),
    "images_grey": ("grey JPEG", _images(place=_JPEG, modes=("L",)), False),
    "images_cmyk": ("CMYK JPEG, as printers send", _images(place=_JPEG, modes=("CMYK",)), True),
    "images_exif": ("JPEG turned by EXIF", _images(place=_JPEG, exif=_turned()), False),
    "images_modes": (
        "RGB, grey, palette and RGBA together",
        _images(count=64, modes=("RGB", "L", "P", "RGBA")),
        False,
    ),
}


def _parts(folder: pathlib.Path) -> None:
    (folder / "data").mkdir()
    for number in range(4):
        (folder / "data" / f"part-{number}.csv").write_text(csv_text(visits(100, seed=number)))
    (folder / "data" / "_SUCCESS").touch()


def _parts_of_other_columns(folder: pathlib.Path) -> None:
    (folder / "data").mkdir()
    turned = [dict(reversed(row.items())) for row in visits(100, seed=1)]
    (folder / "data" / "part-0.csv").write_text(csv_text(visits(100)))
    (folder / "data" / "part-1.csv").write_text(csv_text(turned))


def _pinned(folder: pathlib.Path) -> None:
    (folder / "my train.csv").write_text(csv_text(visits(300)))
    (folder / "my test.csv").write_text(csv_text(visits(80, seed=1)))


_GLOB, _FOLDER = ("data/*.csv",), ("data",)
_ODD, _DIGITS = "Копия (1) [final] 100%.csv", "my data/2024-01-31.data.v2.csv"
FILES = (
    External(name="jsonl_nested", ugly="objects and lists", write=_jsonl(_nested), inputs=("data.jsonl",)),
    External(
        name="jsonl_uneven",
        ugly="lists of any length, keys that come and go, 3 beside '3'",
        write=_jsonl(_uneven),
        inputs=("data.jsonl",),
    ),
    External(
        name="json_array",
        ugly="one JSON array, indented",
        write=plain("data.json", lambda: json.dumps(visits(), indent=1)),
        inputs=("data.json",),
        source=("--format=jsonl",),
        ends=True,
    ),
    External(name="parquet", ugly="dates, decimals, pandas' index", write=_parquet, inputs=("data.parquet",)),
    External(name="avro", ugly="unions, records, enums, logical types", write=_avro, inputs=("data.avro",)),
    External(name="parts", ugly="four files, beside _SUCCESS", write=_parts, inputs=_GLOB),
    External(
        name="parts_folder", ugly="the same folder", write=_parts, inputs=_FOLDER, source=("--format=csv",)
    ),
    External(
        name="parts_order", ugly="columns in another order", write=_parts_of_other_columns, inputs=_GLOB
    ),
    External(
        name="pinned_splits",
        ugly="train and test given apart, names with blanks",
        write=_pinned,
        inputs=("train=my train.csv", "test=my test.csv"),
    ),
    External(name="file_name", ugly=f"'{_ODD}'", write=csv_file(visits, path=_ODD), inputs=(_ODD,)),
    External(
        name="file_digits", ugly=f"'{_DIGITS}'", write=csv_file(visits, path=_DIGITS), inputs=(_DIGITS,)
    ),
    *(
        External(
            name=name,
            ugly=ugly,
            write=write,
            inputs=_FOLDER,
            source=("--format=images",),
            infer=(),
            config="image_classification",
            train=_IMAGES,
            ends=ends,
        )
        for name, (ugly, write, ends) in _PICTURES.items()
    ),
)
