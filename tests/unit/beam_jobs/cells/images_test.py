"""Whatever Pillow reads becomes an ordinary picture of the same pixels; paths stay in declared folders."""

import io
import os
import pathlib
import struct
import zlib

import numpy as np
import PIL.Image
import pyarrow as pa
import pytest
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from beam_jobs.cells import images, typed
from beam_jobs.cells.images import BadImageError, check_root, normalized, paths_outside, read_image
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Image
from tests.conformance.pictures import png_files, readers, subtypes
from tests.shared.pictures import decode, encode, noise

ANY = Image(name="image")
RGB, GREY_16 = noise(20, 30, 3), np.arange(600, dtype=np.uint16).reshape(20, 30) * 109
KEPT = ("jpeg L", "jpeg RGB", "jpeg 4", "jpeg in RGB", "jpeg with", "png rgb, 8 bits", "png grey, 8 bits")


def pixels(data: bytes) -> np.ndarray:
    """As they are stored: [height, width] or [height, width, channels]."""
    return np.asarray(PIL.Image.open(io.BytesIO(data)))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_picture_of_any_subtype_keeps_its_bytes_or_becomes_a_png_of_the_pixels_that_pillow_reads(channels):
    feature = Image(name="image", channels=channels)
    kept, others = [], 0
    for name, make in subtypes.subtypes().items():
        data = make(np.random.default_rng(0), 8, 12)
        try:
            stored = normalized(data, feature)
        except BadImageError:
            assert name == "bmp 32 bits, masks rgba, header of 40"  # nor does Pillow read it
            continue
        if stored is data:
            kept.append(name)
            assert name.startswith(("jpeg", "png"))
            continue
        others += 1
        expected = readers.by_pillow(data, channels=channels)
        np.testing.assert_array_equal(pixels(stored).reshape(expected.shape), expected, err_msg=name)
        assert stored[:8] == b"\x89PNG\r\n\x1a\n"
        assert normalized(stored, feature) is stored
    assert {start for start in KEPT if any(name.startswith(start) for name in kept)} == set(KEPT)
    assert others > 120


@pytest.mark.parametrize(
    "file_format",
    ["TIFF", "PPM", "TGA", "PCX", "JPEG2000", "AVIF", "SGI", "DDS", "QOI", "DIB", "GIF", "WEBP", "BMP"],
)
def test_a_picture_in_any_format_becomes_a_png(file_format: str):
    data = encode(RGB, file_format)
    stored = normalized(data, ANY)
    assert stored is not data
    np.testing.assert_array_equal(pixels(stored), decode(data))


@pytest.mark.parametrize("file_format", ["GIF", "WEBP", "PNG", "TIFF", "AVIF"])
def test_the_first_frame_of_several_is_stored(file_format: str):
    animated = encode(RGB, file_format, noise(20, 30, 3, seed=1))
    np.testing.assert_array_equal(pixels(normalized(animated, ANY)), decode(animated))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_a_turned_jpeg_keeps_its_bytes_and_another_picture_is_stored_upright(
    file_format: str, orientation: int
):
    options = {"lossless": True} if file_format == "WEBP" else {}
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    data = encode(RGB, file_format, exif=exif, **options)
    turned = RGB if orientation < 5 else RGB.transpose(1, 0, 2)
    turned = turned[:: -1 if orientation in (3, 4, 7, 8) else 1, :: -1 if orientation in (2, 3, 6, 7) else 1]
    height, width = turned.shape[:2]
    stored = normalized(data, Image(name="image", height=height, width=width))
    assert (stored is data) == (file_format == "JPEG" or (file_format == "PNG" and orientation == 1))
    if file_format != "JPEG":
        np.testing.assert_array_equal(pixels(stored), turned)


@pytest.mark.parametrize("orientation", [2, 6])
@pytest.mark.parametrize("spelling", ["in XMP", "broken directory"])
def test_a_jpeg_that_the_graph_would_turn_otherwise_becomes_an_upright_png(spelling: str, orientation: int):
    data = subtypes.subtypes()[f"jpeg, orientation {orientation}, {spelling}"](
        np.random.default_rng(0), 8, 12
    )
    stored = normalized(data, ANY)
    expected = readers.by_pillow(data, channels=3)
    if stored is data:
        np.testing.assert_array_equal(readers.decoder(8, 12, 3)["decoding"]([data])[0].shape, expected.shape)
    else:
        np.testing.assert_array_equal(pixels(stored), expected)
    assert (stored is data) == (spelling == "broken directory")


def tiff_of_12_bits(samples: np.ndarray) -> bytes:
    first, second = samples.reshape(-1, 2).T
    packed = np.stack([first >> 4, (first & 15) << 4 | second >> 8, second & 255], axis=1).astype(np.uint8)
    directory = ImageFileDirectory_v2()
    height, width = samples.shape
    for tag, value in {256: width, 257: height, 258: 12, 259: 1, 262: 1, 277: 1, 278: height}.items():
        directory[tag] = value
    directory[273], directory[279] = 0, packed.size  # counted from the directory's end
    return struct.pack("<2sHI", b"II", 42, 8) + directory.tobytes(8) + packed.tobytes()


SIXTEEN_BITS = {
    "png": encode(GREY_16, "PNG"),
    "tiff": encode(GREY_16, "TIFF"),
    "big-endian tiff": encode(GREY_16.astype(">u2"), "TIFF"),
    "pgm": b"P5 30 20 65535\n" + GREY_16.astype(">u2").tobytes(),
    "tiff of 12 bits": tiff_of_12_bits(GREY_16 >> 4),
}


@pytest.mark.parametrize("name", SIXTEEN_BITS)
def test_16_bits_are_scaled_and_not_clipped(name: str):
    stored = normalized(SIXTEEN_BITS[name], Image(name="image", channels=1))
    np.testing.assert_array_equal(pixels(stored), GREY_16 // 256)


@pytest.mark.parametrize(("colour", "samples"), [(png_files.RGB, 3), (png_files.RGBA, 4)])
def test_colour_of_16_bits_is_scaled_likewise(colour: int, samples: int):
    data = png_files.png(np.random.default_rng(3), 8, 12, colour=colour, depth=16)
    drawn = np.random.default_rng(3).integers(0, 1 << 16, (8, 12, samples))
    stored = normalized(data, Image(name="image", channels=samples))
    np.testing.assert_array_equal(pixels(stored), drawn // 256)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_measurements_have_no_known_range(dtype: type):
    with pytest.raises(BadImageError, match="not levels: save it with 8 or 16 bits"):
        normalized(encode(GREY_16.astype(dtype), "TIFF"), ANY)


def test_a_stored_picture_has_pixels_and_nothing_else():
    stream = io.BytesIO()
    palette = PIL.Image.fromarray(RGB).quantize(16)
    palette.save(stream, "GIF", transparency=0, comment=b"a note")
    stored = normalized(stream.getvalue(), ANY)
    assert stored == normalized(stream.getvalue(), ANY)
    at, names = 8, []
    while at < len(stored):
        names.append(stored[at + 4 : at + 8])
        at += 12 + int.from_bytes(stored[at : at + 4], "big")
    assert names == [b"IHDR", b"IDAT", b"IEND"]


def png_of_size(height: int, width: int) -> bytes:
    """A whole header, and no pixels."""
    header = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n\0\0\0\x0d" + header + struct.pack(">I", zlib.crc32(header)) + b"\0\0\0\0IDAT"


@pytest.mark.parametrize(
    ("data", "feature", "reason"),
    [
        (b"", ANY, "zero bytes"),
        (b"<html></html>", ANY, "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n", ANY, "not an image"),
        (encode(RGB, "GIF")[:-50], ANY, r"does not decode \(OSError\)"),
        (encode(RGB, "TIFF")[:-9], ANY, r"does not decode|not an image"),
        (encode(RGB, "JPEG")[:-2], ANY, "truncated: a JPEG without its end marker"),
        (encode(RGB, "PNG"), Image(name="image", encoding="jpeg"), "a PNG image in place of JPEG"),
        (encode(RGB, "JPEG"), Image(name="image", encoding="png"), "a JPEG image in place of PNG"),
        (encode(RGB, "TIFF"), Image(name="image", height=30, width=30), "30x20 pixels in place of 30x30"),
        (
            png_of_size(13_300, 13_300),
            Image(name="image", max_pixels=1_000_000),
            "13,300x13,300 pixels, more",
        ),
        (png_of_size(60_000, 60_000), ANY, "more than 178,956,970 pixels, which Pillow refuses"),
        (encode(RGB, "JPEG"), Image(name="image", max_pixels=599), "30x20 pixels, more than the 599"),
        (encode(RGB, "TIFF"), Image(name="image", max_pixels=599), "30x20 pixels, more than the 599"),
    ],
)
def test_what_cannot_be_stored_says_why(data: bytes, feature: Image, reason: str):
    with pytest.raises(BadImageError, match=f"^{reason}"):
        normalized(data, feature)


def test_the_limit_of_pixels_itself_is_allowed():
    for file_format in ("JPEG", "TIFF"):
        assert normalized(encode(RGB, file_format), Image(name="image", max_pixels=600))


def test_files_and_cells_are_normalised(tmp_path: pathlib.Path):
    tiff, jpeg = encode(RGB, "TIFF"), encode(RGB, "JPEG")
    (tmp_path / "1.tif").write_bytes(tiff)
    assert read_image(str(tmp_path / "1.tif"), ANY) == normalized(tiff, ANY)
    found = typed.parse(ANY, pa.array([jpeg, tiff, b"text", None]))
    assert found.values.field("data").to_pylist() == [jpeg, normalized(tiff, ANY), b"text", None]
    assert found.problems == {2: "not an image", 3: "missing"}


def test_a_pipe_is_not_read(tmp_path: pathlib.Path):
    os.mkfifo(tmp_path / "endless.png")
    with pytest.raises(BadImageError, match="not an ordinary file"):
        read_image(str(tmp_path / "endless.png"), ANY)


@pytest.fixture
def table(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a table's files, beside another that is secret."""
    for name in ("table/inside/1.png", "secret/key"):
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_bytes(b"")
    (tmp_path / "table" / "link").symlink_to(tmp_path / "secret" / "key")
    (tmp_path / "table" / "folder").symlink_to(tmp_path / "secret")
    (tmp_path / "table" / "inner").symlink_to("inside")
    return tmp_path / "table"


@pytest.mark.parametrize(
    "path", ["1.png", "inside/1.png", "inner/1.png", "inside/../inside/1.png", "nowhere"]
)
def test_what_lies_in_the_folder_is_inside(table: pathlib.Path, path: str):
    assert paths_outside([None, f"{table}/{path}"], [str(table)]) == []


@pytest.mark.parametrize(
    "path", ["../secret/key", "link", "folder/key", "inside/../../secret/key", "..", "a\0b"]
)
def test_what_leads_out_of_it_is_outside(table: pathlib.Path, path: str):
    assert paths_outside([f"{table}/inside/1.png", f"{table}/{path}"], [str(table)]) == [1]


def test_another_folder_has_to_be_declared(table: pathlib.Path):
    secret = str(table.parent / "secret")
    paths = [f"{secret}/key", "/etc/passwd", "gs://bucket/1.png", "gs://bucket2/1.png", "gs://bucket/../x"]
    assert paths_outside(paths, [str(table), secret, "gs://bucket"]) == [1, 3, 4]
    assert paths_outside(paths, [""]) == [0, 1, 2, 3, 4]


def test_a_root_that_is_not_there_is_refused(tmp_path: pathlib.Path):
    assert check_root(str(tmp_path)) == str(tmp_path)
    with pytest.raises(InputError, match=r"--path_root=.*no folder there"):
        check_root(str(tmp_path / "nowhere"))


def test_a_lack_of_memory_is_not_the_pictures_fault(monkeypatch):
    def too_large(*given, **more):
        raise MemoryError

    monkeypatch.setattr(images.PIL.Image, "open", too_large)
    with pytest.raises(BadImageError, match="asks for too much memory"):  # as a broken file may
        normalized(b"GIF89a", ANY)
    monkeypatch.setattr(images, "bytearray", too_large, raising=False)
    with pytest.raises(MemoryError):
        normalized(b"GIF89a", ANY)
