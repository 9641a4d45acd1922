"""Every subtype of picture that is tried: a name, and how a random one of some size is made."""

import functools
import io
import itertools
import struct
from collections.abc import Callable, Iterator

import numpy as np
import PIL.Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2

from tests.conformance.pictures import bmp_files, png_files
from tests.shared.pictures import encode

Make = Callable[[np.random.Generator, int, int], bytes]  # of a height and a width

_ORIENTATION = 0x0112
_ADOBE_TRANSFORM = b"Adobe\0\x64"  # less its flags and the byte itself
_JFIF_BYTES = 18
_EXIF = b"Exif\0\0"


def subtypes() -> dict[str, Make]:
    """All of them, by name."""
    return {**dict(_bmps()), **dict(_pngs()), **dict(_jpegs()), **dict(_gifs()), **dict(_webps())}


def exif(orientation: int, *, big_endian: bool = False) -> bytes:
    """A TIFF directory that says the orientation, among other things."""
    directory = ImageFileDirectory_v2(prefix=b"MM" if big_endian else b"II")
    directory[0x010F] = "Maker of cameras"
    directory[_ORIENTATION] = orientation
    directory[0x0131] = "1.0"
    header = struct.pack(f"{'>' if big_endian else '<'}2sHI", b"MM" if big_endian else b"II", 42, 8)
    return header + directory.tobytes(8)


def _bmps() -> Iterator[tuple[str, Make]]:
    made = functools.partial(functools.partial, bmp_files.bmp)
    for depth, header in itertools.product((1, 4, 8, 16, 24, 32), bmp_files.HEADERS):
        if header > 12 or depth <= 24:
            yield f"bmp {depth} bits, header of {header}", made(depth=depth, header=header)
    for depth in (1, 4, 8):
        yield f"bmp {depth} bits, grey ramp", made(depth=depth, grey=True)
        yield f"bmp {depth} bits, grey ramp, top down", made(depth=depth, grey=True, top_down=True)
    for depth in (24, 32):
        yield f"bmp {depth} bits, top down", made(depth=depth, top_down=True)
        yield f"bmp {depth} bits, a gap before the pixels", made(depth=depth, gap=8)
    for depth, trailing in itertools.product((8, 24, 32), (1, 2, 7)):
        yield f"bmp {depth} bits, {trailing} bytes too many", made(depth=depth, trailing=trailing, grey=True)
    yield "bmp RLE8", made(depth=8, compression=bmp_files.RLE8)
    yield "bmp RLE4", made(depth=4, compression=bmp_files.RLE4)
    for depth, masks in bmp_files.MASKS_OF.items():
        for (name, values), header in itertools.product(masks.items(), (40, 56, 124)):
            options = {"depth": depth, "masks": values, "header": header, "compression": bmp_files.MASKS}
            yield f"bmp {depth} bits, masks {name}, header of {header}", made(**options)


def _pngs() -> Iterator[tuple[str, Make]]:
    made = functools.partial(functools.partial, png_files.png)
    names = {0: "grey", 2: "rgb", 3: "palette", 4: "grey and alpha", 6: "rgba"}
    for colour, depths in png_files.DEPTHS.items():
        for depth, interlaced in itertools.product(depths, (False, True)):
            name = f"png {names[colour]}, {depth} bits{', interlaced' * interlaced}"
            yield name, made(colour=colour, depth=depth, interlaced=interlaced)
            if colour in (0, 2, 3):
                options = {"colour": colour, "depth": depth, "interlaced": interlaced}
                yield f"{name}, transparent", made(**options, transparent=True)
    for orientation in (1, 3, 6):
        options = {"colour": png_files.RGB, "depth": 8, "exif": exif(orientation)}
        yield f"png rgb, orientation {orientation}", made(**options)


def _jpegs() -> Iterator[tuple[str, Make]]:
    made = functools.partial(functools.partial, _jpeg)
    for mode, quality, progressive in itertools.product(("L", "RGB"), (30, 95), (False, True)):
        yield (
            f"jpeg {mode}, quality {quality}{', progressive' * progressive}",
            made(mode=mode, quality=quality, progressive=progressive),
        )
    for subsampling, progressive in itertools.product(("4:4:4", "4:2:2", "4:2:0"), (False, True)):
        yield (
            f"jpeg {subsampling}{', progressive' * progressive}",
            made(subsampling=subsampling, progressive=progressive),
        )
    yield "jpeg 4:4:0", lambda *of: _with_sampling(_jpeg(*of, subsampling="4:2:2"), 0x12)
    yield "jpeg in RGB", made(keep_rgb=True)
    yield "jpeg in CMYK", made(mode="CMYK")
    yield "jpeg in CMYK, progressive", made(mode="CMYK", progressive=True)
    yield "jpeg in YCCK", lambda *of: _with_transform(_jpeg(*of, mode="CMYK"), 2)
    yield "jpeg with restarts", made(restart_marker_blocks=1)
    yield "jpeg without JFIF", lambda *of: _without_jfif(_jpeg(*of))
    yield "jpeg with bytes behind its end", lambda *of: _jpeg(*of) + b"\0" * 100
    yield "jpeg with a comment and a profile", made(comment=b"Exif\0\0", icc_profile=b"\xff\xe1" * 4000)
    yield "jpeg with a preview (MPO)", _mpo
    for orientation, big_endian in itertools.product(range(10), (False, True)):
        name = f"jpeg, orientation {orientation}{', big-endian' * big_endian}"
        yield name, made(exif=_EXIF + exif(orientation, big_endian=big_endian))
    for orientation in (2, 6):
        name = f"orientation {orientation}"
        data = _EXIF + exif(orientation)
        yield f"jpeg, {name}, grey", made(mode="L", exif=data)
        yield f"jpeg, {name}, progressive", made(progressive=True, exif=data)
        yield f"jpeg, {name}, no JFIF", lambda *of, data=data: _without_jfif(_jpeg(*of, exif=data))
        yield f"jpeg, {name}, broken directory", made(exif=data[:36])
        yield f"jpeg, {name}, in XMP", made(xmp=_xmp(orientation))


def _gifs() -> Iterator[tuple[str, Make]]:
    for name, options in {
        "gif": {},
        "gif of 4 colours": {"colours": 4},
        "gif, interlaced": {"interlace": 1},
        "gif, not interlaced": {"interlace": 0},
        "gif with a transparent colour": {"transparency": 3},
        "gif, animated": {"frames": 3},
        "gif, animated, transparent": {"frames": 3, "transparency": 0},
        "gif with a comment": {"comment": b"Exif\0\0 " * 60},
    }.items():
        yield name, functools.partial(_gif, **options)
    yield "gif, frame smaller than its screen", lambda *of: _with_screen(_gif(*of), 3)
    yield "gif, frame larger than its screen", lambda *of: _with_screen(_gif(*of), -1)


def _webps() -> Iterator[tuple[str, Make]]:
    made = functools.partial(functools.partial, _webp)
    for channels in (3, 4):
        alpha = " with alpha" * (channels == 4)
        yield f"webp, lossy{alpha}", made(channels=channels, quality=70)
        yield f"webp, lossless{alpha}", made(channels=channels, lossless=True)
        yield f"webp, lossless, exact{alpha}", made(channels=channels, lossless=True, exact=True)
    yield "webp with a profile", made(icc_profile=b"1234" * 32)
    yield (
        "webp, animated",
        lambda rng, height, width: encode(
            _noise(rng, height, width, 3), "WEBP", _noise(rng, height, width, 3)
        ),
    )
    for orientation in (1, 3, 8):
        yield f"webp, orientation {orientation}", made(exif=_EXIF + exif(orientation))


def _noise(rng: np.random.Generator, height: int, width: int, channels: int) -> np.ndarray:
    """Half of the pictures are noise, the others a coarse pattern: uint8 [height, width, channels]."""
    grain = int(rng.choice([1, 4]))
    small = rng.integers(0, 256, (-(-height // grain), -(-width // grain), channels), np.uint8)
    return small.repeat(grain, 0).repeat(grain, 1)[:height, :width]


def _jpeg(
    rng: np.random.Generator, height: int, width: int, *, mode: str = "RGB", **options: object
) -> bytes:
    stream = io.BytesIO()
    channels = {"L": 3, "RGB": 3, "CMYK": 4}[mode]
    image = PIL.Image.fromarray(_noise(rng, height, width, channels), "CMYK" if channels == 4 else "RGB")
    (image if channels == 4 else image.convert(mode)).save(stream, "JPEG", **options)
    return stream.getvalue()


def _mpo(rng: np.random.Generator, height: int, width: int) -> bytes:
    return encode(_noise(rng, height, width, 3), "MPO", _noise(rng, height, width, 3))


def _with_sampling(data: bytes, sampling: int) -> bytes:
    """The luminance's sampling factors changed: 2 x 1 becomes 1 x 2, which has as many blocks."""
    at = data.index(b"\xff\xc0") + 11
    return data[:at] + bytes([sampling]) + data[at + 1 :]


def _with_transform(data: bytes, transform: int) -> bytes:
    at = data.index(_ADOBE_TRANSFORM) + len(_ADOBE_TRANSFORM) + 4
    return data[:at] + bytes([transform]) + data[at + 1 :]


def _without_jfif(data: bytes) -> bytes:
    return data[:2] + data[2 + _JFIF_BYTES :] if data[3] == 0xE0 else data


def _xmp(orientation: int) -> bytes:
    return (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF><rdf:Description '
        f'tiff:Orientation="{orientation}"/></rdf:RDF></x:xmpmeta>'
    ).encode()


def _gif(
    rng: np.random.Generator,
    height: int,
    width: int,
    *,
    frames: int = 1,
    colours: int = 200,
    **options: object,
) -> bytes:
    indices = rng.integers(0, colours, (frames, height, width), np.uint8)
    images = [PIL.Image.fromarray(frame, "P") for frame in indices]
    for image in images:
        image.putpalette(rng.integers(0, 256, 3 * colours, np.uint8).tobytes())
    if frames > 1:
        options |= {"save_all": True, "append_images": images[1:]}
    stream = io.BytesIO()
    images[0].save(stream, "GIF", **options)
    return stream.getvalue()


def _with_screen(data: bytes, more: int) -> bytes:
    width, height = struct.unpack_from("<HH", data, 6)
    return data[:6] + struct.pack("<HH", max(1, width + more), max(1, height + more)) + data[10:]


def _webp(
    rng: np.random.Generator, height: int, width: int, *, channels: int = 3, **options: object
) -> bytes:
    return encode(_noise(rng, height, width, channels), "WEBP", **options)
