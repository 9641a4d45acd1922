"""What is proposed for a column, by example."""

import csv
import dataclasses
import itertools
import re
import shlex

import pytest

from beam_jobs.schema.features import leaving_out, propose_feature, why_useless
from beam_jobs.schema.profiles import ColumnProfile
from beam_jobs.schema.remarks import feature_remarks
from beam_jobs.schema.table import propose
from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import Categorical, Numeric, Text
from pipeline.data.schema.schema import Group
from tests.unit.beam_jobs.schema.profiles import profile


def many(distinct: int, text: str = "{}") -> ColumnProfile:
    """`distinct` different values, each twice."""
    return ColumnProfile(name="c", counts={text.format(number): 2 for number in range(distinct)})


def test_floats_are_numeric():
    assert propose_feature(profile("0.5", "-1e3", "7")) == Numeric(name="c")


@pytest.mark.parametrize("name", ["shop_type", "regionCode", "Class", "user_id"])
def test_few_small_integers_are_categories_where_the_name_says_codes(name: str):
    expected = Categorical(name=name, encoding="integer", size=13)
    assert propose_feature(profile(1, 12, 5, name=name)) == expected
    assert propose_feature(profile(1, 12, 5, name=f"{name}s per day")).kind == "numeric"


def test_two_whole_numbers_are_categories():
    assert propose_feature(profile(0, 1)) == Categorical(name="c", encoding="integer", size=2)


def test_where_integers_are_missing_the_next_one_stands_for_them():
    feature = propose_feature(profile(1, 12, "", 5, name="type"))
    assert (feature.missing, feature.default, feature.size) == ("default", 13, 14)


@pytest.mark.parametrize("values", [(4, 6, 8), range(60), [-1, 2, 3], [5, 1000], range(150, 200)])
def test_other_integers_are_numbers(values: list[int]):
    assert propose_feature(profile(*values)) == Numeric(name="c", number="int64")
    assert propose_feature(profile(*values, "")) == Numeric(name="c", missing="mark")


@pytest.mark.parametrize("columns", [[], [ColumnProfile(name="a", counts={})]])
def test_data_without_rows_are_named_as_such(columns: list[ColumnProfile]):
    with pytest.raises(InputError, match="--input: received 0 rows"):
        propose(columns, name="t", label="a")


def test_words_among_numbers_may_be_missing_or_have_their_rows_rejected():
    fee = ColumnProfile(name="fee", counts={f"{n}.5": 3 for n in range(30)} | {"free": 7, "n.n.": 2})
    columns = [fee, profile("yes", "no", "no", name="left")]
    found = propose(columns, name="t", label="left")
    assert found.schema["fee"].kind == "categorical"
    [remark] = [each for each in found.review if "'fee'" in each]
    assert "but not 'free' (7), 'n.n.' (2)" in remark and remark.endswith("rejected: --numeric=fee.")
    found = propose(columns, name="t", label="left", numeric=["fee"])
    feature = found.schema["fee"]
    assert (feature.kind, feature.missing, feature.clean.null_markers) == ("numeric", "reject", ("",))
    [remark] = [each for each in found.review if "'fee'" in each]
    assert "9 of 99 rows will be rejected: convert needs --max_rejected_fraction=0.091" in remark
    both = propose(columns, name="t", label="left", numeric=["fee"], missing=["fee=free"]).schema["fee"]
    assert (both.missing, both.clean.null_markers) == ("mark", ("", "free"))


def test_the_user_says_that_a_column_is_numbers_whatever_its_name_and_spelling():
    shop = profile(*range(1, 80), name="shop_id")
    price = ColumnProfile(name="price", counts={f"1.{n},50": 2 for n in range(100, 130)} | {"gratis": 1})
    columns = [shop, price, profile("yes", "no", "no", name="left")]
    schema = propose(columns, name="t", label="left", numeric=["shop_id", "price"]).schema
    assert [schema[name].kind for name in ("shop_id", "price")] == ["numeric", "numeric"]
    assert (schema["price"].clean.decimal, schema["price"].clean.remove) == (",", (".",))
    with pytest.raises(InputError, match=r"--numeric=left: received no number; expected numbers"):
        propose([shop, profile("yes", "no", "no", name="left")], name="t", label=None, numeric=["left"])


def test_labels_of_several_columns_are_numbers_or_classes_of_one_row():
    columns = [profile("1.5", "2.5", "3.5", name=name) for name in ("x", "a", "b")]
    columns += [profile(0, 1, 1, name=name) for name in ("c", "d")]
    found = propose(columns, name="t", label="a, b", ignore=["c", "d"])
    label = found.schema.label
    assert (label.task, label.parts, label.shape) == ("multitarget", ("a", "b"), (2,))
    assert (
        "one model predicts these 2 numbers (multitarget). A row that lacks one is rejected"
        in found.review[0]
    )
    label = propose(columns, name="t", label="c,d", ignore=["a", "b"]).schema.label
    assert (label.task, label.classes, label.shape) == ("multilabel", ("c", "d"), (2,))
    assert propose(columns, name="t", label="a,c", ignore=["b"]).schema.label.task == "multitarget"
    assert propose(columns, name="t", label="a", ignore=["b"]).schema.label.name == "a"


@pytest.mark.parametrize(
    ("label", "task", "message"),
    [
        (
            "a,w",
            None,
            r"--label=a,w: received 'w', which is 3 different words; expected .* all numbers",
        ),
        ("a,b", "multiclass", r"--label=a,b: received --task=multiclass; .*all numbers .*--label=a\.$"),
        ("a,b", "multilabel", r"--label=a: received 3 different values in 3 rows; expected two names"),
        ("a,nothing", None, r"received 'nothing'; expected columns of the data"),
    ],
)
def test_labels_of_several_columns_that_are_of_several_kinds_are_refused(label, task, message):
    columns = [profile("1.5", "2.5", "3.5", name=name) for name in ("a", "b")] + [profile(*"uvw", name="w")]
    with pytest.raises(InputError, match=message):
        propose(columns, name="t", label=label, task=task)


WORDS = ("war|crime", "war", "", "crime|drama|war|drama", "NA", "Drama")


def test_text_between_delimiters_is_a_list_as_a_feature_and_as_a_label():
    columns = [
        profile(*WORDS, name="genres"),
        profile(*WORDS, name="tags"),
        profile("u", "v", "a|b", "u", name="x"),
    ]
    found = propose(columns, name="t", label="tags", list_delimiter=["genres=|", "tags=|"])
    genres, tags, x = found.schema.features
    assert (genres.kind, genres.vocabulary, genres.length) == ("categories", ("crime", "drama", "war"), 4)
    assert (genres.missing, genres.delimiter, genres.clean.aliases) == ("mark", "|", {"Drama": "drama"})
    assert (tags.task, tags.classes, tags.delimiter) == ("multilabel", ("crime", "drama", "war"), "|")
    assert x.kind == "categorical"
    assert any("'tags': 1 of 6 rows have no class, which is an answer" in each for each in found.review)
    assert any("'tags': 1 row has no label and will be left out" in each for each in found.review)
    everywhere = propose(columns, name="t", label="tags", list_delimiter=["|"]).schema
    assert [feature.kind for feature in everywhere.features] == ["categories", "label", "categories"]
    with pytest.raises(InputError, match=r"text with '\|' between .*Add '--list_delimiter=tags=\|'"):
        many_lists = profile(*("|".join(w) for w in itertools.permutations("abcde", 2)), name="tags")
        propose([many_lists, columns[2]], name="t", label="tags", task="multilabel")


def test_lists_of_zeros_and_ones_are_no_names():
    hot = ColumnProfile(name="y", counts={}, lengths={3: 9}, item_counts={"0": 20, "1": 7})
    with pytest.raises(InputError, match=r"lists of 3 numbers that are 0 or 1; .*--label=A,B"):
        propose([hot, profile("1.5", "2.5", name="x")], name="t", label="y")


def test_long_lists_and_many_words_are_told():
    words = {f"w{number}": 2 for number in range(3000)}
    lists = ColumnProfile(name="c", counts={}, lengths={2: 900, 200: 7}, items="text", item_counts=words)
    feature = propose_feature(lists)
    assert (feature.encoding, feature.buckets, feature.length) == ("hashed", 4096, 64)
    [remark] = feature_remarks(lists, feature)
    assert "7 of 907 rows have lists of more than 64 values, up to 200: the first 64 are kept" in remark
    numbers = ColumnProfile(name="c", counts={}, lengths={2: 9, 3: 7}, items="numbers")
    assert why_useless(numbers) == "lists of 2 to 3 values, where a tensor is numbers of one size"


def test_integers_that_may_be_missing_become_floats_that_can_be_marked():
    feature = propose_feature(profile(5, 1000, "?"))
    assert (feature.number, feature.missing, feature.clean.null_markers) == ("float32", "mark", ("", "?"))


def test_one_odd_word_among_numbers_means_missing():
    feature = propose_feature(profile("1.5", "n.v.", "2.5"))
    assert (feature.kind, feature.clean.null_markers) == ("numeric", ("", "n.v."))


def test_codes_with_leading_zeros_are_no_numbers():
    assert propose_feature(profile("007", "042")).vocabulary == ("007", "042")


def test_sentences_are_text_of_words_and_pairs():
    sentences = [f"{number} and its {number * number} words, all of them" for number in range(30)]
    expected = Text(name="c", words="lower_case", pairs=True, length=32, buckets=1 << 16)
    assert propose_feature(profile(*sentences)) == expected
    assert propose_feature(profile(*(" ".join([each] * 6) for each in sentences))).length == 128


def test_runs_of_characters_are_proposed_where_all_inputs_are_texts():
    sentences = [f"{number} and its {number * number} words, all of them" for number in range(30)]
    text, label = profile(*sentences, name="c"), profile(*["a", "b"] * 15, name="y")
    number = profile(*(f"{each / 7:.3f}" for each in range(30)), name="n")
    alone = propose([text, label], name="t", label="y").schema["c"]
    assert (alone.gap, alone.characters, alone.buckets) == (2, (3, 6), 1 << 16)
    beside = propose([text, number, label], name="t", label="y").schema["c"]
    assert (beside.gap, beside.characters, beside.buckets) == (0, (), 1 << 16)


def test_words_are_a_vocabulary_and_very_many_are_hashed():
    assert propose_feature(profile("b", "a", "a")).vocabulary == ("a", "b")
    assert propose_feature(many(1000, "v{}")).encoding == "vocabulary"
    assert propose_feature(many(1500, "v{}")) == Categorical(name="c", encoding="hashed", buckets=2048)


def test_values_that_are_not_all_counted_are_no_vocabulary_and_no_classes():
    column = ColumnProfile(name="c", counts={"a": 5, "b": 5}, others=90)
    assert propose_feature(column).encoding == "hashed"
    with pytest.raises(InputError, match="2 different values"):
        propose([column], name="t", label="c")


@pytest.mark.parametrize(
    ("name", "is_id"),
    [
        *((name, True) for name in ("id", "user_id", "userId", "CustomerID", "ZIPCode", "userid")),
        *((name, False) for name in ("paid", "bid", "grid", "Humid", "monkey")),
    ],
)
def test_the_name_says_whether_whole_numbers_are_ids(name: str, is_id: bool):
    repeating = ColumnProfile(name=name, counts={str(number): 2 for number in range(1000, 1300, 3)})
    assert (propose_feature(repeating).kind == "categorical") == is_id
    different = ColumnProfile(name=name, counts={str(number): 1 for number in range(1000, 1300, 3)})
    assert bool(why_useless(different)) == is_id


def test_a_label_that_is_ignored_is_refused():
    with pytest.raises(InputError, match="--ignore=d: received the column of --label"):
        propose([profile(1, 2, 1), profile("a", "b", name="d")], name="t", label="d", ignore=["d"])


def test_of_a_long_value_the_start_is_shown():
    column = ColumnProfile(name="c", counts={"x" * 10_000: 5})
    seen = propose([column, profile("a", "b", "a", name="d")], name="t", label=None)
    assert seen.schema.ignore["c"] == f"always '{'x' * 40}…'"
    assert max(map(len, seen.review)) < 300


def test_many_different_sentences_are_text():
    assert isinstance(propose_feature(many(1500, "this is sentence {}")), Text)


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (profile(*[""] * 999, 1), "empty in 999 of 1,000 rows"),
        (profile("x", "x"), "always 'x'"),
        (profile("a1", "b2", "c3"), "every value differs, as in an id"),
        (profile(11, 22, 33, name="user_id"), "every value differs, as in an id"),
        (
            profile(*(f"ord-{n}" for n in range(40)), "ord-7", name="order_id"),
            "40 different values in 41 rows, as in an id where some rows repeat",
        ),
        (profile(*range(100, 130)), "each whole number from 100 to 129 once, as in row numbers"),
    ],
)
def test_columns_that_say_nothing_are_ignored_with_the_reason(column: ColumnProfile, reason: str):
    proposal = propose([column, profile("1.5", "2.5", name="x")], name="s", label=None)
    assert proposal.schema.ignore == {column.name: reason}
    assert f"'{column.name}' is ignored: {reason}." in proposal.review


def test_a_label_without_an_input_is_told_of():
    proposal = propose([profile("x", "x", "x"), profile("a", "b", "a", name="d")], name="t", label="d")
    assert proposal.review[-1] == "No column is left that 'd' could be predicted from: a model needs one."


def test_a_label_that_is_no_column_is_refused():
    with pytest.raises(InputError, match="columns of the data: c"):
        propose([profile("a", "b")], name="s", label="d")


def test_evidence_says_what_was_seen():
    seen = propose_feature(profile("1.5", "", "2.5", "1.5")).evidence
    assert seen == {
        "rows": 4,
        "missing_fraction": 0.25,
        "distinct": 2,
        "examples": ["1.5", "2.5"],
        "minimum": 1.5,
        "maximum": 2.5,
    }


def test_features_get_identifiers_and_keep_their_column():
    proposed = propose(
        [profile(0.5, 1.5, name="plan type"), profile("no", "yes", name="class")], name="t", label="class"
    )
    assert [(f.name, f.column) for f in proposed.schema.features] == [
        ("plan_type", "plan type"),
        ("class_", "class"),
    ]


def test_ids_that_repeat_are_hashed_not_numbers():
    column = ColumnProfile(name="user_id", counts={str(number): 2 for number in range(0, 30000, 100)})
    proposal = propose([column], name="s", label=None)
    assert proposal.schema.features == (Categorical(name="user_id", encoding="hashed", buckets=512),)
    assert any("300 different whole numbers are hashed as ids" in remark for remark in proposal.review)


def test_numbers_that_all_differ_may_be_an_id():
    column = profile(*range(0, 30000, 100), name="population")
    proposal = propose([column], name="s", label=None)
    assert proposal.schema.features == (Numeric(name="population", number="int64"),)
    assert any("If it is an id, leave it out: --ignore=population." in remark for remark in proposal.review)


def test_rows_without_a_list_are_counted_and_told():
    column = ColumnProfile(name="v", counts={"": 30}, lengths={3: 270, 0: 30})
    feature = propose_feature(column)
    assert feature.evidence == {"rows": 300, "missing_fraction": 0.1, "lengths": {"0": 30, "3": 270}}
    assert list(feature_remarks(column, feature)) == [
        "'v': 30 rows have no list and will be rejected. To keep them, leave the column out: --ignore=v."
    ]


def test_lists_and_rare_words_among_categories_are_told():
    lists = profile(*("|".join(words) for words in itertools.permutations("abcde", 2)), name="genres")
    [remark] = feature_remarks(lists, propose_feature(lists))
    assert remark.startswith(
        "'genres': the cells are lists between '|', and each different list is a category."
    )
    rare = many(200, "v{}")
    assert list(feature_remarks(rare, propose_feature(rare))) == [
        "'c': 200 different words in 400 rows are categories too rare to learn much from. "
        "To leave it out: --ignore=c."
    ]
    usual = ColumnProfile(name="c", counts={f"v{number}": 5 for number in range(200)})
    assert not list(feature_remarks(usual, propose_feature(usual)))


@pytest.mark.parametrize("name", ["plain", "two words", 'a, b "c"', "it's"])
def test_the_flag_that_leaves_a_column_out_names_it_in_a_shell(name: str):
    [argument] = shlex.split(leaving_out(name))
    assert list(csv.reader([argument.removeprefix("--ignore=")])) == [[name]]


def test_a_name_that_was_taken_apart_at_its_comma_is_told():
    with pytest.raises(
        InputError, match=re.escape("""Quote a name that holds a comma: '--ignore="a, b"'.""")
    ):
        propose([profile("x", "y", name="a, b")], name="s", label=None, ignore=["a", "b"])


def test_bytes_that_are_no_text_are_left_out():
    column = ColumnProfile(name="c", counts={"a": 10}, undecodable=90)
    assert why_useless(column) == "bytes that are no text in 90 of 100 rows"


def test_a_header_that_stands_again_among_the_rows_is_told():
    columns = [profile("1.5", "2.5", "a", "a", name="a"), profile("x", "y", "b", "b", name="b")]
    told = "The names of the columns stand again in 2 rows, as where files were joined"
    assert propose(columns, name="t", label=None).review[0].startswith(told)
    assert not any(told[:20] in each for each in propose(columns[:1], name="t", label=None).review)


QUERIES = [
    ColumnProfile(name="query", counts={"q1": 3, "q2": 7, "q3": 1, "": 2}),
    ColumnProfile(name="clicks", counts={"0": 6, "1": 4, "4": 3}),
    ColumnProfile(name="price", counts={str(number / 8): 1 for number in range(13)}),
]


def test_rows_that_are_ranked_together_are_a_group_as_long_as_the_longest():
    proposal = propose(QUERIES, name="s", label="clicks", group="query")
    assert proposal.schema.group == Group(column="query", length=7)
    assert [feature.name for feature in proposal.schema.features] == ["clicks", "price"]
    assert proposal.schema.label.task == "ranking"
    review = " ".join(proposal.review)
    assert "3 groups, of 3 rows in the middle and up to 7" in review
    told = "'query': 2 rows have no group and will be rejected: convert needs --max_rejected_fraction=0.154"
    assert told in review
    assert "'clicks': relevance up to 4; r counts 2^r - 1. 6 of 13 rows are not relevant." in review


def queries(counts: dict[str, int]) -> list[ColumnProfile]:
    """A table whose groups have so many rows."""
    rows = sum(counts.values())
    return [
        ColumnProfile(name="query", counts=counts),
        ColumnProfile(name="clicks", counts={"0": rows // 2, "1": rows - rows // 2}),
        ColumnProfile(name="price", counts={str(number / 8): 1 for number in range(rows)}),
    ]


def test_a_key_that_may_mean_that_there_is_none_is_told_and_its_flag_works():
    table = queries({"q1": 3, "q2": 3, "NA": 4})
    review = " ".join(propose(table, name="s", label="clicks", group="query").review)
    assert (
        "'query': 'NA' (4 of 10 rows) is a group like any other. If it means that there is none: " in review
    )
    assert "--missing=query=NA" in review
    proposal = propose(table, name="s", label="clicks", group="query", missing=["query=NA"])
    assert proposal.schema.group == Group(column="query", length=3, missing=("NA",))
    assert "'query': 4 rows have no group" in " ".join(proposal.review)


def test_lists_are_no_keys():
    lists = ColumnProfile(name="seen", counts={}, lengths={2: 13}, items="text", item_counts={"a": 26})
    with pytest.raises(InputError, match="--group=seen: received lists"):
        propose([*QUERIES, lists], name="s", label="clicks", group="seen")


def test_lists_of_other_values_than_items_are_told():
    lists = ColumnProfile(
        name="last", counts={}, lengths={1: 4, 2: 9}, items="text", item_counts={"5": 12, "7": 10}
    )
    table = [ColumnProfile(name="item", counts={"5.0": 6, "7.0": 7}), lists]
    review = " ".join(propose(table, name="s", label="item", task="retrieval").review)
    assert (
        "'last': 100.0% of its values, such as '5', are none of the items of 'item', such as '5.0'." in review
    )
    some = [
        ColumnProfile(name="item", counts={"7": 6, "8": 7}),
        dataclasses.replace(lists, item_counts={"5": 3, "7": 9}),
    ]
    review = " ".join(propose(some, name="s", label="item", task="retrieval").review)
    assert "'last': 25.0% of its values, such as '5', are none of the items of 'item'" in review
    assert "let its 'vocabulary' be the 'classes' of 'item'" in review
    alike = [ColumnProfile(name="item", counts={"5": 6, "7": 7}), lists]
    assert "are none of" not in " ".join(propose(alike, name="s", label="item", task="retrieval").review)


def test_what_one_long_group_costs_is_told():
    table = queries({f"q{number}": 2 for number in range(200)} | {"(all)": 1000})
    review = " ".join(propose(table, name="s", label="clicks", group="query").review)
    assert "room for 201,000 rows, 144 times as many as there are, because of few long groups" in review
    assert "'(all)' has 1,000 rows" in review
    assert "set 'length' to 2, which 200 of 201 groups fit into" in review
    assert "--max_rejected_fraction=0.713 for the 998 rows beyond" in review
    usual = queries({f"q{number}": 1 + number % 7 for number in range(200)})
    assert "room for" not in " ".join(propose(usual, name="s", label="clicks", group="query").review)


def test_keys_that_a_person_takes_for_one_are_told():
    table = queries({"caf\u00e9": 3, "cafe\u0301": 2, "1042": 2, "1042.0": 2, "a b": 2, "b": 1})
    review = " ".join(propose(table, name="s", label="clicks", group="query").review)
    told = "'query': 2 names differ from another one only in case, blanks, the coding of accents or a '.0'"
    assert told in review
    assert "'cafe\\u0301' and 'caf\u00e9', '1042.0' and '1042': these are different groups" in review


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"label": "clicks", "task": "ranking"}, "--task=ranking: received no --group"),
        (
            {"label": "clicks", "task": "regression", "group": "query"},
            "--task=regression: received --group=query",
        ),
        ({"label": "clicks", "group": "clicks"}, "--group=clicks: received --label=clicks"),
        ({"label": None, "group": "query"}, "--group=query: received --label=none"),
        ({"label": "clicks", "group": "query", "ignore": ["query"]}, "--ignore=query; expected one label"),
        ({"label": "clicks", "group": "user"}, "user"),
        ({"label": "price", "group": "query"}, "--label=price: received numbers from 0 to 1.5"),
    ],
)
def test_a_group_that_cannot_be_ranked_is_refused(given: dict, message: str):
    with pytest.raises(InputError, match=re.escape(message)):
        propose(QUERIES, name="s", **given)


def test_a_line_of_sums_is_told():
    column = profile(*["Bern"] * 30, "Chur", "Total")
    assert "'c': 'Total' (1 of 32 rows) may be a line of sums. Remove such lines." in feature_remarks(
        column, propose_feature(column)
    )
    product = profile("Total", "Basic", "Total")  # a word like others
    assert not list(feature_remarks(product, propose_feature(product)))


def test_two_answers_in_several_spellings_are_told():
    column = profile("yes", "no", "1", "0")
    assert "'c': '0', 'no' and '1', 'yes' look like two answers in several spellings. Write each in one." in [
        *feature_remarks(column, propose_feature(column))
    ]


def test_lists_as_python_prints_them_are_told():
    lists = profile(*(f"['a', 'b{number}']" for number in range(5)), "[]", "[]")
    assert "If they are lists, write the rows as JSON Lines" in "".join(
        feature_remarks(lists, propose_feature(lists))
    )
    assert why_useless(profile("[0.1 0.2]", "[0.3 0.4]")).startswith("lists that are written as text")


def test_a_header_behind_a_byte_order_mark_is_told_too():
    columns = [profile("a", "\ufeffid", name="id"), profile("1", "n", name="n")]
    assert propose(columns, name="t", label=None).review[0].startswith("The names of the columns stand again")
