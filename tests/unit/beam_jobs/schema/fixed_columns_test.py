"""What is proposed for images by their headers, the conversion accepts."""

import io
import pathlib

import PIL.Image

from beam_jobs.cells.images import normalized
from beam_jobs.schema.proposal import propose_images
from beam_jobs.sources.images import ImageFolders
from beam_jobs.sources.source import Input
from tests.conformance.pictures.subtypes import exif


def test_a_turned_photo_has_the_size_that_it_is_seen_with(tmp_path: pathlib.Path):
    stream = io.BytesIO()
    PIL.Image.new("RGB", (6, 4)).save(stream, "JPEG", exif=b"Exif\0\0" + exif(6))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").write_bytes(stream.getvalue())
    source = ImageFolders()
    input_splits = source.input_splits([Input(location=str(tmp_path))])
    [image, _] = propose_images(source, input_splits, name="photos", max_rows=10).schema.features
    assert (image.height, image.width, image.evidence["sizes"]) == (6, 4, ["4x6"])
    assert normalized(stream.getvalue(), image) == stream.getvalue()  # whose size as seen is the schema's
