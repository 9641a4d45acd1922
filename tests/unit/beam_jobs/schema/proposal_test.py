"""What is proposed for raw data as a whole: its name, its images, and what is said of them."""

import io
import pathlib
import re

import PIL.Image
import pyarrow as pa
import pytest

from beam_jobs.cells import typed
from beam_jobs.cells.images import normalized
from beam_jobs.schema import proposal
from beam_jobs.schema.profiles import read_profiles
from beam_jobs.schema.proposal import propose_from, propose_images
from beam_jobs.sources.csv import CsvFiles
from beam_jobs.sources.files import WithPartitions
from beam_jobs.sources.images import ImageFolders
from beam_jobs.sources.source import Input
from beam_jobs.sources.text import TextFiles
from beam_jobs.sources.tokens import TokenRows
from pipeline.base.errors import InputError
from pipeline.data.preprocessing.tokenizers import ByteTokenizer
from pipeline.data.schema.feature_types import Tokens
from pipeline.data.schema.schema import Schema
from tests.conformance.pictures.subtypes import exif


def test_folders_without_a_single_image_are_refused(tmp_path: pathlib.Path):
    for name in ("cat/1.wav", "dog/2.wav"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"RIFF1234WAVEfmt ")
    with pytest.raises(InputError, match=r"2 files that are no images, such as .*cat/1\.wav"):
        propose_from(ImageFolders(), [Input(location=str(tmp_path))], max_rows=10)


def test_pictures_at_another_depth_are_told(tmp_path: pathlib.Path):
    for name in ("cat/1.png", "dog/2.png", "dog/deep/3.png", "4.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.new("L", (2, 2)).save(tmp_path / name)
    review = propose_from(ImageFolders(), [Input(location=str(tmp_path))], max_rows=10).review
    assert review[0] == (
        "2 files elsewhere, such as 4.png, are not at <input>/<class>/<file> and will be rejected: convert "
        "needs --max_rejected_fraction=0.5 for them."
    )
    with pytest.raises(InputError, match=r"classes none, and 1 files elsewhere, such as 3\.png"):
        propose_from(ImageFolders(), [Input(location=str(tmp_path / "dog/deep"))], max_rows=10)


def test_folders_with_blanks_at_their_ends_are_classes_as_they_are(tmp_path: pathlib.Path):
    for name in (" dog", "dog", "cat "):
        (tmp_path / name).mkdir()
        PIL.Image.new("L", (2, 2)).save(tmp_path / name / "1.png")
    label = propose_from(ImageFolders(), [Input(location=str(tmp_path))], max_rows=10).schema.label
    read = typed.parse(label, pa.array([" dog", "cat ", "dog"]))
    assert [label.classes[at] for at in read.values.to_pylist()] == [" dog", "cat ", "dog"]


def test_a_cell_that_swallowed_rows_is_told_with_its_line(tmp_path: pathlib.Path):
    (tmp_path / "a.csv").write_text('text,count,rich\na,1,no\n"b is,2,no\nc by",3,yes\n' + "d,4,no\n" * 50)
    proposal = propose_from(CsvFiles(), [Input(location=str(tmp_path / "a.csv"))], label="rich", max_rows=99)
    assert proposal.review[0].startswith("a.csv line 3: a quoted cell holds line ends, and")
    assert "give --quote=none" in proposal.review[0]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("census.csv", "census"),
        ("Census 2020.csv", "census"),
        ("Umsätze 2024.csv", "umsatze"),
        ("census/train.csv", "census"),
        ("census/test-00.csv", "census"),
        ("census-train.csv.gz", "census"),
        ("train_delays.csv", "train_delays"),
        ("train/train.csv", "dataset"),
    ],
)
def test_a_dataset_is_called_after_its_file_and_not_after_a_split(tmp_path: pathlib.Path, file, name):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x\n1\n2\n")
    source = CsvFiles()
    if path.suffix == ".gz":
        path = path.rename(path.with_suffix(""))
    proposal = propose_from(source, [Input(location=str(path))], max_rows=10)
    assert proposal.schema.name == name


def test_a_date_in_the_names_of_folders_is_told(tmp_path: pathlib.Path):
    for day in (1, 2):
        path = tmp_path / f"date=2026-11-0{day}" / "trips.csv"
        path.parent.mkdir()
        path.write_text("miles,booked\n" + "".join(f"{n},2026-10-{n}\n" for n in range(10, 20)))
    proposal = propose_from(WithPartitions(source=CsvFiles()), [Input(location=str(tmp_path))], max_rows=100)
    (told,) = [remark for remark in proposal.review if "names of folders" in remark]
    assert told.startswith("'date' is a date in the names of folders.")
    assert told.endswith("To leave it out: --ignore=date.")


def test_whether_all_rows_were_looked_at_is_said(tmp_path: pathlib.Path):
    for name, rows in (("a", 2), ("b", 30)):
        (tmp_path / f"{name}.csv").write_bytes(b"x\n" + b"1.5\n2.5\n" * (rows // 2))
    inputs = [Input(location=str(tmp_path))]
    seen = {n: propose_from(CsvFiles(), inputs, max_rows=n).looked_at for n in (20, 60)}
    assert seen == {
        20: "Only 12 rows were looked at (--max_rows=20): others may hold other values.",
        60: "All 32 rows were looked at.",
    }


def test_texts_that_are_not_utf_8_are_counted_and_the_first_is_named(tmp_path: pathlib.Path):
    (tmp_path / "a.txt").write_bytes(b"one\n" * 9 + b"Gr\xfc\xdfe\n" + b"two\n" * 9)
    text = TextFiles(split_bytes=20)
    source = TokenRows(source=text, tokenizer=ByteTokenizer(), column="text", length=8)
    proposed = propose_from(source, [Input(location=str(tmp_path / "a.txt"))], max_rows=100)
    assert proposed.looked_at == "All 19 texts were looked at."
    assert proposed.review[0].startswith(
        "1 of 19 texts cannot be read, and convert rejects them (1 × not UTF-8). "
        r"The first is a.txt row 10: 'Gr\xfc\xdfe'. Likely the file has another encoding"
    )
    assert "iconv -f latin1" in proposed.review[0]
    few = propose_from(source, [Input(location=str(tmp_path / "a.txt"))], max_rows=5)
    assert few.looked_at == "Only the first 5 texts were looked at."


def test_the_digest_of_a_tokenizer_is_shown_by_its_start():
    tokens = Tokens(
        name="tokens", length=8, vocabulary_size=9, tokenizer="t.json", tokenizer_digest="ab" * 32
    )
    shown = proposal.format_summary(Schema(name="s", features=(tokens,)))
    assert "tokenizer_digest=abababababab…" in shown


def test_rows_that_were_written_twice_are_told_where_a_column_tells_rows_apart(tmp_path: pathlib.Path):
    rows = [f"order {n},{n % 7}.5" for n in range(100)]
    for name, lines in (("a", rows), ("b", rows[5:8]), ("c", ["order 9,", "order 9,8.5"])):
        (tmp_path / f"{name}.csv").write_text("order,price\n" + "\n".join(lines) + "\n")
    review = propose_from(CsvFiles(), [Input(location=str(tmp_path))], max_rows=1000).review
    told = [remark for remark in review if "equal to an earlier row" in remark]
    assert told == [
        "3 of 105 rows are equal to an earlier row in every column, 'order' too. All rows of "
        f"{tmp_path / 'b.csv'} are in earlier files. convert keeps them. If they were written by "
        "mistake, remove them."
    ]
    for name in ("d", "e"):
        (tmp_path / f"{name}.csv").write_text("order,price\n" + "\n".join(rows) + "\n")
    review = propose_from(CsvFiles(), [Input(location=str(tmp_path))], max_rows=1000).review
    [copied] = [remark for remark in review if remark.startswith("Copies of other files")]
    assert "byte for byte: d.csv (of a.csv), e.csv (of a.csv)." in copied
    assert [remark for remark in review if remark.startswith("203 of 305 rows are equal to an earlier row")]
    for path in tmp_path.iterdir():  # the price alone: equal rows are no wonder
        path.write_text(re.sub("(?m)^.*,", "", path.read_text()))
    review = propose_from(CsvFiles(), [Input(location=str(tmp_path))], max_rows=1000).review
    assert not [remark for remark in review if "equal to an earlier row" in remark]


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path: pathlib.Path, monkeypatch):
    path = tmp_path / "x.csv"
    path.write_bytes(b"x\n1\n2\n")

    def changing(*given: object, **settings: object) -> object:
        found = read_profiles(*given, **settings)
        path.write_bytes(b"x\n1\n2\n3\n")
        return found

    monkeypatch.setattr(proposal, "read_profiles", changing)
    with pytest.raises(InputError, match=r"x\.csv: received another size or time of change"):
        propose_from(CsvFiles(), [Input(location=str(path))], max_rows=10)


def test_a_turned_photo_has_the_size_that_it_is_seen_with(tmp_path: pathlib.Path):
    stream = io.BytesIO()
    PIL.Image.new("RGB", (6, 4)).save(stream, "JPEG", exif=b"Exif\0\0" + exif(6))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").write_bytes(stream.getvalue())
    source = ImageFolders()
    input_splits = source.input_splits([Input(location=str(tmp_path))])
    [image, _] = propose_images(source, input_splits, name="photos", max_rows=10).schema.features
    assert (image.height, image.width, image.evidence["sizes"]) == (6, 4, ["6 high × 4 wide"])
    assert normalized(stream.getvalue(), image) == stream.getvalue()  # whose size as seen is the schema's


def test_a_size_like_most_images_is_proposed_and_a_huge_one_is_named(tmp_path: pathlib.Path):
    for number, (name, size) in enumerate(
        {"a": (30, 20), "b": (33, 21), "c": (34, 21), "huge": (900, 500)}.items()
    ):
        folder = tmp_path / ("x", "y")[number % 2]
        folder.mkdir(exist_ok=True)
        PIL.Image.new("RGB", size).save(folder / f"{name}.png")
    (tmp_path / "x" / "no.png").write_bytes(b"no image")
    source = ImageFolders()
    input_splits = source.input_splits([Input(location=str(tmp_path))])
    review = propose_images(source, input_splits, name="shapes", max_rows=10).review
    assert any(told.startswith("1 files are no images") and told.endswith("x/no.png.") for told in review)
    assert any(
        "21 high × 34 wide is in the middle" in told and "--config.image_size=24,40 (height, width)" in told
        for told in review
    )
    assert any("huge.png is 500 high × 900 wide" in told for told in review)


def test_columns_that_some_files_lack_are_told(tmp_path: pathlib.Path):
    (tmp_path / "a.csv").write_text("n,size\n1,2\n")
    (tmp_path / "b.csv").write_text("n\n3\n")
    review = propose_from(CsvFiles(), [Input(location=str(tmp_path))], max_rows=10).review
    assert any("1 of 2 files lack the column 'size', such as" in each and "b.csv" in each for each in review)


def test_words_of_another_alphabet_in_latin_1_are_told(tmp_path: pathlib.Path):
    for words, is_told in (("да\nнет\nнет\n", True), ("Zürich\nGenève\nGenève\n", False)):
        (tmp_path / "a.csv").write_bytes(f"w\n{words}".encode("cp1251" if is_told else "latin-1"))
        source = CsvFiles(encoding="latin-1")
        review = propose_from(source, [Input(location=str(tmp_path))], max_rows=10).review
        assert any("LATIN-1 is not the file's encoding" in each for each in review) == is_told
