"""Which texts are taken as numbers written for people, and the clean-up that is declared for them."""

import dataclasses

import pyarrow as pa
import pytest

from beam_jobs.cells.typed import parse
from beam_jobs.schema.features import propose_feature, why_useless
from beam_jobs.schema.labels import propose_label
from beam_jobs.schema.remarks import feature_remarks, missing_remarks
from pipeline.data.schema.feature_types import Numeric
from tests.unit.beam_jobs.schema.profiles import profile


@pytest.mark.parametrize(
    ("values", "remove", "decimal", "numbers"),
    [
        (("$1,234.50", "$7", "-$0.5"), ("$", ","), ".", [1234.5, 7.0, -0.5]),
        (("12%", "7.5 %"), ("%", " "), ".", [12.0, 7.5]),
        (("1,234", "999", "1,234,567"), (",",), ".", [1234.0, 999.0, 1234567.0]),
        (("1.234,50 €", "7,5 €"), ("€", ".", " "), ",", [1234.5, 7.5]),
        (("CHF 1'200.50", "EUR 3"), ("CHF", "EUR", "'", " "), ".", [1200.5, 3.0]),
        (("1,5", "22,75"), (), ",", [1.5, 22.75]),
        (("0,500", "1,250"), (), ",", [0.5, 1.25]),
        (("3", "-12", "1,5"), (), ",", [3.0, -12.0, 1.5]),  # the only one with decimals
        (("3", "12", "1,500"), (",",), ".", [3.0, 12.0, 1500.0]),
        (("3", "12", "1,234,567.5"), (",",), ".", [3.0, 12.0, 1234567.5]),
        (("3", "12", "1.234,5"), (".",), ",", [3.0, 12.0, 1234.5]),
        (("12.5", "12,5", "-7.25", "1,234"), (), ",", [12.5, 12.5, -7.25, 1.234]),  # files of two countries
        (("3.25", "-12", "1,5"), (), ",", [3.25, -12.0, 1.5]),
        (("3.25", "-12", "1,500"), (",",), ".", [3.25, -12.0, 1500.0]),
        (("1 310,40", "513,82"), (" ",), ",", [1310.4, 513.82]),
        (("1 310 400", "7"), (" ",), ",", [1310400.0, 7.0]),
    ],
)
def test_numbers_for_people_are_numbers_with_a_clean_up(values, remove, decimal, numbers):
    feature = propose_feature(profile(*values))
    assert (type(feature), feature.clean.remove, feature.clean.decimal) == (Numeric, remove, decimal)
    assert parse(feature, pa.array(values)).values.to_pylist() == numbers


@pytest.mark.parametrize(
    "values",
    [
        *(("12.5", "12,5", "1.234,5"), ("12.5", "1,5", "007")),
        *(("1,23,4", "5"), ("A12", "B7"), ("10 km", "3 km"), ("1.2.3", "1.2.4"), ("$", "%")),
        *(("SKU007", "SKU012"), ("INV10024", "INV10025")),
    ],
)
def test_other_texts_are_none(values):
    assert propose_feature(profile(*values)).kind == "categorical"


def test_words_beside_them_are_missing():
    feature = propose_feature(profile("$5", "unknown", "", "$7"))
    assert (feature.missing, feature.clean.null_markers) == ("mark", ("", "unknown"))


def test_the_only_word_among_numbers_with_a_point_is_missing():
    feature = propose_feature(profile("3.25", "-12", "n.a."))
    assert (feature.kind, feature.clean.null_markers) == ("numeric", ("", "n.a."))


def test_the_only_word_among_numbers_for_people_is_missing():
    feature = propose_feature(profile("12,5", "3,75", "ERR#"))
    assert (feature.kind, feature.clean.decimal, feature.clean.null_markers) == ("numeric", ",", ("", "ERR#"))
    assert propose_feature(profile("12,5", "3,75", "ERR#", "bad")).kind == "categorical"


def test_decimals_after_a_comma_and_after_a_point_are_said():
    column = profile("12.5", "13,75", name="price")
    assert list(feature_remarks(column, propose_feature(column))) == [
        "'price': 2 values are numbers when nothing is removed and ',' begins the decimals: '13,75' is "
        "13.75. If not, change 'clean'.",
        "'price': 1 values have a point before the decimals, others a comma: '12.5' is 12.5. If it parts "
        "thousands, write all numbers alike.",
    ]


def test_how_they_are_read_is_said():
    column = profile("$1,234.50", "$7", name="price")
    assert list(feature_remarks(column, propose_feature(column))) == [
        "'price': 2 values are numbers when '$' ',' is removed and '.' begins the decimals: "
        "'$1,234.50' is 1234.5. If not, change 'clean'."
    ]


def test_a_point_that_may_part_thousands_is_said():
    thousands = profile(*(f"{number}.{number + 100}" for number in range(1, 40)), "999", name="price")
    assert list(feature_remarks(thousands, propose_feature(thousands))) == [
        "'price': '9.109' is read as 9.109, and all others have three decimals, too. If the point parts "
        'thousands, write "clean": {"remove": ["."]}.'
    ]
    for decimal in ("0.125", "1.5", "1000.125"):
        other = profile(*thousands.counts, decimal, name="price")
        assert not list(feature_remarks(other, propose_feature(other)))


def test_a_label_of_money_is_a_regression():
    label = propose_label(profile("$1,234.50", "$7", "$8"))
    assert (label.task, label.clean.remove) == ("regression", ("$", ","))


def test_typed_numbers_are_left_as_they_are():
    feature = propose_feature(profile("1.234,50 €", "7,5 €", ""))
    assert parse(feature, pa.array([1234.5, 7.5])).values.to_pylist() == [1234.5, 7.5]


@pytest.mark.parametrize(
    ("unit", "remove"), [(" m²", ("m²", " ")), ("km/h", ("km/h",)), (" m2", ("m2", " "))]
)
def test_many_numbers_with_one_unit_are_numbers(unit: str, remove: tuple[str, ...]):
    values = [f"{number},{number % 10}{unit}" for number in range(21)]
    feature = propose_feature(profile(*values))
    assert (feature.kind, feature.clean.remove, feature.clean.decimal) == ("numeric", remove, ",")
    assert parse(feature, pa.array(values)).values.to_pylist() == [
        pytest.approx(number + number % 10 / 10) for number in range(21)
    ]


@pytest.mark.parametrize(
    "values",
    [
        [f"{number} km" for number in range(20)],  # few
        [*(f"{number} km" for number in range(21)), "3 mi"],  # two units
        [f"0{number}A" for number in range(21)],  # codes
        [f"{number}{'ABC'[number % 3]}" for number in range(40)],  # seats
    ],
)
def test_other_texts_that_begin_with_numbers_are_none(values: list[str]):
    assert propose_feature(profile(*values, values[0])).kind == "categorical"


def test_digits_that_convert_does_not_read_are_words():
    column = profile("٤٥", "٣٨", "٤٥", name="age")
    feature = propose_feature(column)
    assert (feature.kind, parse(feature, pa.array(["٤٥"])).problems) == ("categorical", {})
    assert list(feature_remarks(column, feature)) == [
        "'age': numbers in other digits than 0 to 9 are taken as words. Write them with 0 to 9."
    ]


def remarks(*values: object) -> str:
    column = profile(*values)
    feature = propose_feature(column)
    return " ".join([*missing_remarks(column, feature), *feature_remarks(column, feature)])


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        (
            ["k.A.", "k.A.", "unbekannt"],
            "30 of 33 values are numbers, but not 'k.A.' (2), 'unbekannt' (1); so all",
        ),
        (
            [f"({n})" for n in range(5)],
            "30 of 35 values are numbers, but not '(0)' (1), '(1)' (1), '(2)' (1) and 2",
        ),
        (
            ["\N{MINUS SIGN}5", "42M"],
            "30 of 32 values are numbers, but not '42M' (1), '\N{MINUS SIGN}5' (1); so",
        ),
    ],
)
def test_what_keeps_a_column_from_numbers_is_named(odd, told):
    assert told in remarks(*(n + 0.5 for n in range(30)), *odd)


@pytest.mark.parametrize("negative", ["({})", "{}-", "\N{MINUS SIGN}{}"])
def test_negatives_as_people_write_them_are_told_however_many(negative: str):
    told = remarks(*(n + 0.5 for n in range(3)), *(negative.format(n + 0.5) for n in range(9)))
    assert "3 of 12 values are numbers, but not" in told and "Write them as numbers" in told


def test_postcodes_are_not_told_to_be_numbers():
    assert "are numbers" not in remarks(*range(10_100, 10_160), "01067", "01069")


def test_dates_that_are_no_dates_are_named_where_they_are_too_many_to_reject():
    days = [f"2024-01-{day:02}" for day in range(1, 31)]
    told = "30 of 32 values are dates as %Y-%m-%d, but not '2024-02-30' (2); so all are categories"
    assert told in remarks(*days, "2024-02-30", "2024-02-30")


def test_a_word_in_a_third_of_the_rows_is_told_with_its_count_and_the_flag_that_keeps_it():
    told = "(10 of 30 rows) is taken as missing. If it is a value of its own: --not_missing=c="
    assert f"'studio' {told}studio." in remarks(*10 * ["studio"], *10 * [1], *10 * [2])
    assert f"'NA' {told}NA." in remarks(*10 * ["NA"], *10 * ["SA"], *10 * ["EU"])
    column = dataclasses.replace(profile(*10 * ["studio"], *10 * [1], *10 * [2]), kept=("studio",))
    assert propose_feature(column).vocabulary == ("1", "2", "studio")


def test_codes_with_an_e_are_no_powers_of_ten():
    assert propose_feature(profile("3e4", "30e3", "1E5", "3e4")).kind == "categorical"
    told = "'c': '12e4' is read as 120000. If these are codes, set 'kind' to 'categorical' in the schema."
    assert told in remarks(*range(100, 200, 7), *range(300, 900, 61), "12e4", "12e4")
    assert propose_feature(profile("3e+04", "1e-05", "2.5e3")).kind == "numeric"
    assert "is read as" not in remarks("3e+04", "1e-05", "2.5e3")


@pytest.mark.parametrize("word", ["Infinity", "-nan", "1.#QNAN", "#DIV/0!"])
def test_results_that_are_no_numbers_are_missing_among_numbers(word: str):
    feature = propose_feature(profile(*(n + 0.5 for n in range(30)), word, "-inf"))
    assert (feature.kind, feature.missing) == ("numeric", "mark")
    assert parse(feature, pa.array([word, "-inf", "0.5"])).values.to_pylist() == [None, None, 0.5]


def test_whole_numbers_behind_the_digits_of_float64_are_hashed_with_all_digits():
    ids = [str(10**18 + 3 * at) for at in range(60)]  # neighbours: float64 knows multiples of 128 alone
    column = profile(*ids, *ids, "", name="ref")
    feature = propose_feature(column)
    assert (feature.encoding, feature.missing) == ("hashed", "mark")
    assert parse(feature, pa.array(ids)).values.to_pylist() == ids
    (remark,) = feature_remarks(column, feature)
    assert remark.startswith("'ref': 60 numbers differ only behind the 16 digits that float64 keeps")
    for wide in (profile(*range(0, 10**18, 10**16), ""), profile(*(10**9 + at for at in range(60)), "")):
        assert propose_feature(wide).kind == "numeric"


@pytest.mark.parametrize("kind", [pa.uint64(), pa.decimal128(38)])
def test_so_are_typed_ones_beyond_int64(kind: pa.DataType):
    ids = [2**63 + 5 * at for at in range(60)]
    feature = propose_feature(profile(*ids, *ids))
    assert parse(feature, pa.array(ids, kind)).values.to_pylist() == [*map(str, ids)]


def test_fractions_behind_the_digits_of_float64_are_left_out_with_the_reason():
    column = profile(*(f"{10**16}.{at:03}" for at in range(60)), "", name="x")
    assert why_useless(column) == "numbers that differ only behind the 16 digits that float64 keeps"


def test_telephone_numbers_are_no_amounts():
    assert propose_feature(profile("440 123 456", "440 123 457")).kind != "numeric"


def test_units_that_differ_are_told():
    column = profile("5%", "0.05", "7%")
    [_, told] = feature_remarks(column, propose_feature(column))
    assert told == (
        "'c': units differ and are left out: 2 with '%' ('5%' is 5), 1 without ('0.05' is 0.05). If they "
        "matter, write all in one."
    )


@pytest.mark.parametrize(
    "text", ["1,{},234", "({}.5)", "{}_000", "{}.5K", "{} kg", "7.{}±0.1", "{}/7", '="{}"']
)
def test_amounts_that_are_words_are_told(text: str):
    column = profile(*(text.format(number) for number in range(10, 40)), "7 g")
    told = "".join(feature_remarks(column, propose_feature(column)))
    assert "are taken as words. If they are amounts, write them with digits" in told
    codes = profile(*(f"{number}123A" for number in range(10, 40)), "10123B")
    assert not list(feature_remarks(codes, propose_feature(codes)))


def test_the_only_amount_of_its_kind_is_not_missing():
    column = profile(*range(30), "(61)")
    assert not column.markers
    assert "but not '(61)' (1)" in "".join(feature_remarks(column, propose_feature(column)))


def test_words_among_numbers_that_all_differ_make_no_id():
    column = profile(*(f"{number}.5" for number in range(30)), "n.m.", "err")
    assert not why_useless(column)
    assert "30 of 32 values are numbers" in "".join(feature_remarks(column, propose_feature(column)))


def test_ids_that_a_program_has_rewritten_are_told():
    for cells, told in (
        (("1001", "1002.0", "1003.0"), "some end in a fraction of zero (1002.0)"),
        (("1.23457E+15", "1.23458E+15"), "a spreadsheet has cut off digits of ids (1.23457E+15)"),
    ):
        column = profile(*cells, name="order_id")
        assert told in "".join(feature_remarks(column, propose_feature(column)))
