"""Every kind of feature, declared in its several ways, with cells that conform and cells that do not."""

import dataclasses
import datetime
import math
from typing import Literal

from pipeline.data.schema.feature import Clean, Feature
from pipeline.data.schema.feature_types import (
    Categorical,
    Categories,
    Datetime,
    Image,
    Label,
    Numeric,
    Tensor,
    Text,
    Tokens,
)
from tests.shared.fixtures.raw_data import encoded, fruit_pixels
from tests.shared.moments import microseconds

BEYOND = "a whole number beyond int64"

Cell = str | bytes
APPLE, PEAR = (encoded(fruit_pixels(seed)) for seed in range(2))


def moment(*parts: int) -> int:
    """A date and time in UTC as records hold it."""
    return microseconds(datetime.datetime(*parts, tzinfo=datetime.UTC))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Example:
    """One feature, and what every room is expected to make of it."""

    feature: Feature
    good: tuple[tuple[Cell, object], ...]  # cells and their typed values; None: missing
    bad: tuple[tuple[Cell, str], ...]  # cells and what is said of them
    wrong: object  # a value of the right wire type that no record may hold; None: there is none
    proto: str  # the whole domain in tensorflow-metadata's schema; empty: nothing but type and shape
    tfds: str  # TFDS's class
    counts: Literal["numbers", "values", "lengths"]  # what statistics gather
    in_blocks: bool = True

    @property
    def name(self) -> str:
        return self.feature.name

    def stored(self) -> list:
        """What records hold of the good cells."""
        fill = (
            [self.feature.fill] * math.prod(self.feature.shape) if self.feature.shape else self.feature.fill
        )
        return [fill if value is None else value for _, value in self.good]


FILLED = ("", "", "")

EXAMPLES = (
    Example(
        feature=Categories(
            name="genres",
            length=3,
            delimiter="|",
            vocabulary=("crime", "drama", "war"),
            missing="mark",
            clean=Clean(null_markers=("", "NA"), aliases={"Drama": "drama"}),
        ),
        good=(
            ("Drama| war", ["drama", "war", ""]),
            ("NA", None),
            ("", [*FILLED]),
            ("|crime||NA|crime|", ["crime", "crime", ""]),
            ("war|war|drama|crime", ["war", "war", "drama"]),
        ),
        bad=((b"Z\xfcrich|war", "not UTF-8"),),
        wrong=["war", b"\xff", ""],
        proto='string_domain { value: "crime" value: "drama" value: "war" }',
        tfds="Tensor",
        counts="values",
    ),
    Example(
        feature=Categories(name="codes", length=2, delimiter=", ", vocabulary=("7", "07"), unknown="reject"),
        good=(("7, 07", ["7", "07"]), ("7", ["7", ""]), ("", ["", ""])),
        bad=(("7, 8", "not in the vocabulary"), ("7,07", "not in the vocabulary")),
        wrong=["7", "8"],
        proto='string_domain { value: "7" value: "07" }',
        tfds="Tensor",
        counts="values",
    ),
    Example(
        feature=Categories(name="words", length=2, delimiter=";", encoding="hashed", buckets=8),
        good=(("a;b", ["a", "b"]), (" ☃ ;a;c", ["☃", "a"]), (";", ["", ""])),
        bad=((b"\xff", "not UTF-8"),),
        wrong=[b"\xff", ""],
        proto="",
        tfds="Tensor",
        counts="values",
        in_blocks=False,
    ),
    Example(
        feature=Numeric(name="real", missing="mark", minimum=-5, maximum=1e6),
        good=((" 1.5 ", 1.5), ("", None), ("-2e0", -2.0), ("1e6", 1e6), ("-0.0", -0.0)),
        bad=(("ten", "not a number"), ("nan", "not a finite number"), ("-6", "below the minimum of -5")),
        wrong=-6.0,
        proto="float_domain { min: -5 max: 1e+06 }",
        tfds="Scalar",
        counts="numbers",
    ),
    Example(
        feature=Numeric(name="whole", number="int64", missing="default", default=-1),
        good=(("7", 7), ("", None), ("-9223372036854775808", -(1 << 63)), ("3", 3)),
        bad=(
            *((cell, "not a whole number") for cell in ("1.5", "+3", "0x3")),
            ("9223372036854775808", BEYOND),
        ),
        wrong=None,
        proto="",
        tfds="Scalar",
        counts="numbers",
    ),
    Example(
        feature=Numeric(name="shifted", missing="mark", minimum=-80, maximum=-70, offset=-73.9),
        good=(("-73.9", 0.0), ("", None), (" -73.5 ", -73.5 + 73.9), ("-80", -80 + 73.9)),
        bad=(("-80.1", "below the minimum of -80"), ("0", "above the maximum of -70")),
        wrong=4.0,
        proto="float_domain { min: -6.1 max: 3.9 }",
        tfds="Scalar",
        counts="numbers",
    ),
    Example(
        feature=Numeric(
            name="price",
            missing="default",
            default=10,
            offset=1000,
            clean=Clean(null_markers=("", "free", "-999"), remove=("$", ".", " "), decimal=","),
        ),
        good=(("$ 1.234,5", 234.5), ("free", None), ("-999,0", None), ("-$7", -1007.0), ("2e3", 1000.0)),
        bad=(("1,2,3", "not a number"), ("nan", "not a finite number"), ("$", "not a number")),
        wrong=math.inf,
        proto="",
        tfds="Scalar",
        counts="numbers",
    ),
    Example(
        feature=Numeric(
            name="percent", number="int64", missing="default", default=0, clean=Clean(remove=("%",))
        ),
        good=(
            ("9223372036854775807%", (1 << 63) - 1),
            ("", None),
            (" -3% ", -3),
            ("-8000000000000000000%", -8 * 10**18),
        ),
        bad=(
            *((cell, "not a whole number") for cell in ("1.5%", "-3 %")),
            ("9223372036854775808%", BEYOND),
        ),
        wrong=None,
        proto="",
        tfds="Scalar",
        counts="numbers",
    ),
    Example(
        feature=Categorical(
            name="listed",
            vocabulary=("Bern", "Zürich"),
            unknown="reject",
            missing="mark",
            clean=Clean(null_markers=("", "?"), aliases={"ZH": "Zürich"}),
        ),
        good=((" Bern", "Bern"), ("ZH", "Zürich"), ("?", None), ("Zürich", "Zürich")),
        bad=(("Rom", "not in the vocabulary"), (b"Z\xfcrich", "not UTF-8")),
        wrong="Rom",
        proto='string_domain { value: "Bern" value: "Zürich" }',
        tfds="Text",
        counts="values",
    ),
    Example(
        feature=Categorical(name="learned"),
        good=(("a", "a"), (" ☃ ", "☃"), ("a", "a"), ("1e400", "1e400")),
        bad=(("", "missing"), (b"\xff", "not UTF-8")),
        wrong=b"\xff",
        proto="",
        tfds="Text",
        counts="values",
        in_blocks=False,
    ),
    Example(
        feature=Categorical(name="hashed", encoding="hashed", buckets=8, missing="default", default="none"),
        good=(("a", "a"), ("", None), ("b", "b")),
        bad=((b"\xff", "not UTF-8"),),
        wrong=b"\xff",
        proto="",
        tfds="Text",
        counts="values",
        in_blocks=False,
    ),
    Example(
        feature=Categorical(name="integer", encoding="integer", size=3, unknown="reject"),
        good=(("0", 0), (" 2", 2), ("2", 2)),
        bad=(("3", "not in 0 … 2"), ("", "missing"), ("x", "not a whole number")),
        wrong=3,
        proto="int_domain { min: 0 max: 2 is_categorical: true }",
        tfds="Scalar",
        counts="values",
    ),
    Example(
        feature=Label(name="class", task="multiclass", classes=("no", "yes", "perhaps")),
        good=(("yes", 1), (" no ", 0), ("yes", 1), ("perhaps", 2)),
        bad=(("never", "not one of the classes"), ("", "missing")),
        wrong=3,
        proto="int_domain { min: 0 max: 2 is_categorical: true }",
        tfds="ClassLabel",
        counts="values",
    ),
    Example(
        feature=Label(
            name="tags",
            task="multilabel",
            classes=("1", "2", "ten"),
            delimiter="|",
            clean=Clean(null_markers=("", "?"), aliases={"Ten": "ten"}),
        ),
        good=(("2|1", [1, 1, 0]), (" |Ten| ten|", [0, 0, 1]), ("", [0, 0, 0]), ("1", [1, 0, 0])),
        bad=(
            ("1|3", "not one of the classes"),
            ("?", "missing"),
            ("1|?", "a name in its list is missing"),
            (b"1|\xff", "not UTF-8"),
        ),
        wrong=[0, 2, 1],
        proto="int_domain { min: 0 max: 1 }",
        tfds="Tensor",
        counts="values",
    ),
    Example(
        feature=Label(name="amount", task="regression"),
        good=(("1.5", 1.5), ("0", 0.0), ("-3e38", -3e38)),
        bad=(("1e39", "too large for float32"), ("", "missing"), ("inf", "not a finite number")),
        wrong=float("nan"),
        proto="",
        tfds="Scalar",
        counts="numbers",
    ),
    Example(
        feature=Image(name="image", height=4, width=6, encoding="png"),
        good=((APPLE, APPLE), (PEAR, PEAR)),
        bad=(
            (b"no image", "not an image"),
            (b"", "zero bytes"),
            (APPLE[:60], "a PNG with a damaged part, or none that ends it: save it again"),
        ),
        wrong=b"no image",
        proto="image_domain { }",
        tfds="Image",
        counts="lengths",
        in_blocks=False,
    ),
    Example(
        feature=Text(name="text", length=3, buckets=16, missing="mark"),
        good=(("été ☃", "été ☃"), ("", None), (" one two three four ", "one two three four")),
        bad=((b"caf\xe9", "not UTF-8"),),
        wrong=b"\xe9",
        proto="natural_language_domain { }",
        tfds="Text",
        counts="lengths",
        in_blocks=False,
    ),
    Example(
        feature=Text(name="runs", length=3, buckets=16, words="lower_case", pairs=True, characters=(2, 3)),
        good=(("été ☃", "été ☃"), (" one two three four ", "one two three four")),
        bad=((b"caf\xe9", "not UTF-8"), ("", "missing")),
        wrong=b"\xe9",
        proto="natural_language_domain { }",
        tfds="Text",
        counts="lengths",
        in_blocks=False,
    ),
    Example(
        feature=Tokens(name="tokens", length=2, vocabulary_size=9),
        good=(("1 8", [1, 8]), (" 0,0", [0, 0])),
        bad=(("1 9", "not in 0 … 8"), ("1", "not 2 numbers"), ("", "missing"), ("1 x", "not a whole number")),
        wrong=[0, 9],
        proto="int_domain { min: 0 max: 8 }",
        tfds="Tensor",
        counts="numbers",
    ),
    Example(
        feature=Tokens(name="many_tokens", length=2, vocabulary_size=1 << 20),
        good=(("1 1048575", [1, (1 << 20) - 1]),),
        bad=(("1 1048576", "not in 0 … 1048575"),),
        wrong=[-1, 0],
        proto="int_domain { min: 0 max: 1048575 }",
        tfds="Tensor",
        counts="numbers",
    ),
    Example(
        feature=Tensor(name="matrix", dimensions=(2, 2)),
        good=(("1 2;3,4", [1.0, 2.0, 3.0, 4.0]), ("0 0 0 -1e30", [0.0, 0.0, 0.0, -1e30])),
        bad=(("1 2 3", "not 4 numbers"), ("1 2 3 inf", "not a finite number"), ("", "missing")),
        wrong=[1.0, 2.0, 3.0, float("inf")],
        proto="",
        tfds="Tensor",
        counts="numbers",
    ),
    Example(
        feature=Tensor(name="counts", dimensions=(2,), number="int64"),
        good=(("1 -2", [1, -2]), ("4611686018427387904 0", [1 << 62, 0])),
        bad=(("1 1.5", "not a whole number"),),
        wrong=None,
        proto="",
        tfds="Tensor",
        counts="numbers",
    ),
    Example(
        feature=Datetime(name="moment", missing="mark", zone="Europe/Zurich"),
        good=(
            (" 2024-02-29 12:00 ", moment(2024, 2, 29, 11)),
            ("", None),
            ("1969-12-31T23:59:59.5Z", moment(1969, 12, 31, 23, 59, 59, 500_000)),
            ("9999-12-31", moment(9999, 12, 30, 23)),
        ),
        bad=(
            ("yesterday", "not a date as %Y-%m-%d"),
            ("2023-02-29", "no such date or time"),
            ("2024-01-01 24:00", "no such date or time"),
        ),
        wrong=1 << 62,
        proto="time_domain { integer_format: UNIX_MICROSECONDS }",
        tfds="Scalar",
        counts="numbers",
    ),
    Example(
        feature=Datetime(name="day", format="%d/%m/%Y", missing="default", default=0),
        good=(("31/12/1969", -86_400_000_000), ("", None), ("1/3/2000 1:05 PM", moment(2000, 3, 1, 13, 5))),
        bad=(("12/31/1969", "no such date or time"), ("1969-12-31", "not a date as %d/%m/%Y")),
        wrong=-(1 << 62),
        proto="time_domain { integer_format: UNIX_MICROSECONDS }",
        tfds="Scalar",
        counts="numbers",
    ),
)
