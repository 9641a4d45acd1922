"""What is small to send and large to read: bombs, endless lines, huge cells, wide tables, huge images."""

import gzip
import io
import pathlib
import struct
import zlib
from collections.abc import Callable, Iterable

import fastavro

from tests.shared.avro import avro_header, zigzag
from tests.soak import samples
from tests.soak.damaged import PICTURES, Hostile, raw_commands
from tests.soak.samples import write_pictures

_MIB = 1 << 20


def _case(name: str, path: str, write: Callable[[pathlib.Path], object]) -> Hostile:
    return Hostile(
        name=f"sizes/{name}", write=lambda folder, sound: write(folder), commands=raw_commands(path)
    )


def _chunks(path: str, chunks: Callable[[], Iterable[bytes]]) -> Callable[[pathlib.Path], None]:
    def write(folder: pathlib.Path) -> None:
        with (folder / path).open("wb") as file:
            file.writelines(chunks())

    return write


def _bomb(path: str, head: bytes, chunk: bytes, mib: int) -> Callable[[pathlib.Path], None]:
    def write(folder: pathlib.Path) -> None:
        with gzip.open(folder / path, "wb", compresslevel=1) as file:
            file.write(head)
            for _ in range(mib):
                file.write(chunk * (_MIB // len(chunk)))

    return write


def _wide(folder: pathlib.Path) -> None:
    names = ",".join(f"c{i}" for i in range(100_000))
    cells = ",".join("1" for _ in range(100_000))
    (folder / "data.csv").write_text(f"{names}\n{cells}\n{cells}\n")


def _many_keys(folder: pathlib.Path) -> None:
    rows = ("{" + ",".join(f'"k{n}_{i}": 1' for i in range(2_000)) + "}\n" for n in range(20))
    (folder / "data.jsonl").write_text("".join(rows))


def _avro_cells(folder: pathlib.Path) -> None:
    fields = [{"name": name, "type": "string"} for name in ("city", "bought")]
    rows = ({"city": "x" * (50 * _MIB), "bought": "yn"[n % 2]} for n in range(4))
    with (folder / "data.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows, codec="deflate")


def _avro_bomb(folder: pathlib.Path) -> None:
    schema = '{"type": "record", "name": "r", "fields": [{"name": "age", "type": "string"}]}'
    block = zlib.compress(zigzag(300 * _MIB) + bytes(300 * _MIB), wbits=-15)
    head = avro_header(schema, b"deflate") + zigzag(1) + zigzag(len(block))
    (folder / "data.avro").write_bytes(head + block + b"S" * 16)


def _json_cells() -> Iterable[bytes]:
    for n in range(4):
        yield (
            b'{"age": 30, "city": "'
            + b"x" * (50 * _MIB)
            + b'", "bought": "'
            + b"yn"[n % 2 : n % 2 + 1]
            + b'"}\n'
        )


def _png(width: int, height: int) -> bytes:
    """A PNG of black pixels that says this size: a thousand times smaller than its pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    packer = zlib.compressobj(9)
    row = bytes(1 + (width + 7) // 8)
    pixels = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def _huge_header(ending: str) -> bytes:
    """A small picture whose header says 60,000 x 60,000."""
    data = bytearray(samples.picture(0, ending))
    at, layout = {"gif": (6, "<HH"), "bmp": (18, "<ii"), "png": (16, ">II")}[ending]
    struct.pack_into(layout, data, at, 60_000, 60_000)
    if ending == "png":
        struct.pack_into(">I", data, 29, zlib.crc32(bytes(data[12:29])))
    return bytes(data)


def _picture(name: str, file: str, data: Callable[[], bytes]) -> Hostile:
    def write(folder: pathlib.Path) -> None:
        write_pictures(folder)
        (folder / PICTURES / "cat" / file).write_bytes(data())

    return _case(name, PICTURES, write)


def _text_chunk() -> bytes:
    """A PNG with a compressed comment of 200 MB."""
    file = io.BytesIO(samples.picture(0, "png"))
    data = file.getvalue()
    body = b"zTXt" + b"note\0\0" + zlib.compress(bytes(200 * _MIB), 9)
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    return data[:33] + chunk + data[33:]


def _quoted() -> Iterable[bytes]:
    return (_HEADER, b'1,"', *[b"x\n" * _MIB] * 100)


_HEADER = b"age,city,bought\n"
CASES = (
    _case("bomb.csv.gz", "data.csv.gz", _bomb("data.csv.gz", _HEADER, b"\0", 2_000)),
    _case("bomb_of_rows.csv.gz", "data.csv.gz", _bomb("data.csv.gz", _HEADER, b"30,Bern,y\n", 60)),
    _case("bomb.jsonl.gz", "data.jsonl.gz", _bomb("data.jsonl.gz", b'{"age": "', b"x", 2_000)),
    _case("bomb.txt.gz", "data.txt.gz", _bomb("data.txt.gz", b"", b"x", 2_000)),
    _case("bomb.tfrecord.gz", "data.tfrecord.gz", _bomb("data.tfrecord.gz", b"", b"\0", 2_000)),
    _case("line_of_200_mb.csv", "data.csv", _chunks("data.csv", lambda: (_HEADER, *[b"x" * _MIB] * 200))),
    _case("quoted_200_mb.csv", "data.csv", _chunks("data.csv", _quoted)),
    _case("line_of_200_mb.jsonl", "data.jsonl", _chunks("data.jsonl", lambda: [b"x" * _MIB] * 200)),
    _case("line_of_200_mb.txt", "data.txt", _chunks("data.txt", lambda: [b"x" * _MIB] * 200)),
    _case("columns_100000.csv", "data.csv", _wide),
    _case("keys_40000.jsonl", "data.jsonl", _many_keys),
    _case("cells_of_50_mb.avro", "data.avro", _avro_cells),
    _case("bomb.avro", "data.avro", _avro_bomb),
    _case("cells_of_50_mb.jsonl", "data.jsonl", _chunks("data.jsonl", _json_cells)),
    _picture("picture_13300", "huge.png", lambda: _png(13_300, 13_300)),
    _picture("picture_wide", "wide.png", lambda: _png(1_000_000, 1)),
    _picture("picture_header_huge.png", "huge.png", lambda: _huge_header("png")),
    _picture("picture_header_huge.gif", "huge.gif", lambda: _huge_header("gif")),
    _picture("picture_header_huge.bmp", "huge.bmp", lambda: _huge_header("bmp")),
    _picture("picture_comment_bomb", "note.png", _text_chunk),
)  # fmt: skip
