"""What is proposed for a label, by example; and which columns could be one."""

from collections import Counter

import pyarrow as pa
import pytest

from beam_jobs.cells import typed
from beam_jobs.schema.features import propose_history
from beam_jobs.schema.labels import candidates, label_remarks, propose_label, propose_labels
from beam_jobs.schema.profiles import ColumnProfile
from pipeline.base.errors import InputError
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.feature_types import Label
from tests.unit.beam_jobs.schema.profiles import profile


def rings(distinct: int) -> ColumnProfile:
    """Whole numbers from 1, as in the abalone data, each five times."""
    return ColumnProfile(name="rings", counts={str(number + 1): 5 for number in range(distinct)})


def test_labels():
    assert propose_label(profile("yes", "no")) == Label(name="c", classes=("no", "yes"))
    assert propose_label(profile("Ja", "Nein")) == Label(name="c", classes=("Nein", "Ja"))
    assert propose_label(profile("ja", "nie")) == Label(name="c", classes=("ja", "nie"))
    assert propose_label(profile(10, 9, 2)) == Label(name="c", task="multiclass", classes=("2", "9", "10"))
    assert propose_label(profile("1.5", "2.5", "3.5")) == Label(name="c", task="regression")


@pytest.mark.parametrize(("distinct", "task"), [(2, "binary"), (20, "multiclass"), (28, "regression")])
def test_many_ordered_whole_numbers_are_a_regression(distinct: int, task: str):
    assert propose_label(rings(distinct)).task == task


@pytest.mark.parametrize(
    ("task", "distinct", "proposed"),
    [
        ("classification", 28, "multiclass"),
        ("classification", 2, "binary"),
        ("multiclass", 1500, "multiclass"),
        ("regression", 2, "regression"),
    ],
)
def test_the_task_may_be_given(task: str, distinct: int, proposed: str):
    label = propose_label(rings(distinct), task=task)
    assert (label.task, len(label.classes)) == (proposed, 0 if proposed == "regression" else distinct)


def test_items_keep_their_names():
    shop = ColumnProfile(name="item", counts={"b, c": 5, "A1": 3, "a1": 2, "x.": 1, "x": 4, "": 7})
    label = propose_label(shop, task="retrieval")
    assert (label.task, label.classes) == ("retrieval", ("A1", "a1", "b, c", "x", "x."))
    assert (label.clean.aliases, label.clean.strip) == ({}, Clean().strip)


def test_one_item_is_nothing_to_choose_from():
    with pytest.raises(
        InputError, match=r"--label=c: received one value, 'a', .* expected the names of two items"
    ):
        propose_label(profile("a", "a"), task="retrieval")


def test_lists_of_items_have_the_items_as_vocabulary():
    lists = ColumnProfile(
        name="last",
        counts={},
        lengths=Counter({2: 9}),
        items="text",
        item_counts={"b": 9, "a": 9, "z": 1},
    )
    found = propose_history(lists, ("b", "a"))
    assert (found.vocabulary, found.length, found.missing) == (("b", "a"), 2, "reject")
    assert propose_history(lists, ("z",)) is None
    assert propose_history(profile("a", "b"), ("a", "b")) is None


@pytest.mark.parametrize(
    ("values", "numbers", "told"),
    [
        (
            ("0.0", "1.0", "1.0", "2.0"),
            [0, 1, 1, 2],
            "up to 2; r counts 2^r - 1. 1 of 4",
        ),  # as pandas writes it
        (("0", "1.0", "3"), [0, 1, 3], "up to 3; r counts 2^r - 1. 1 of 3"),
        (("true", "false", "false"), [1, 0, 0], "up to 1; r counts 2^r - 1. 2 of 3"),
        (("Yes", "no", "NO"), [1, 0, 0], "up to 1; r counts 2^r - 1. 2 of 3"),
    ],
)
def test_spellings_of_a_relevance_are_read_as_they_were_proposed(values, numbers, told):
    column = profile(*values, name="rel")
    label = propose_label(column, task="ranking")
    read = typed.parse(label, pa.array(values))
    assert (read.values.to_pylist(), read.problems) == (numbers, {})
    assert any(told in remark for remark in label_remarks(column, label))


def test_what_is_no_relevance_is_refused_with_a_way_out():
    with pytest.raises(
        InputError, match=r"'good', 'bad', .*; expected whole .* Write how relevant a row is as 0, 1"
    ):
        propose_label(profile("good", "bad", "fair"), task="ranking")
    with pytest.raises(InputError, match="or --missing=rel=-1, if that means that nobody knows"):
        propose_label(profile("0", "1", "-1", name="rel"), task="ranking")


def test_a_list_without_a_name_adds_no_class():
    lists = ColumnProfile(
        name="tags", counts={}, lengths=Counter({2: 9}), items="text", item_counts={"b": 5, "a": 3, "": 1}
    )
    assert propose_label(lists, task="multilabel").classes == ("a", "b")


def test_a_label_whose_every_class_has_one_row_is_refused():
    names = profile(*(f"n{at}" for at in range(200)), name="name")
    with pytest.raises(
        InputError, match="--label=name: received 200 classes of one row each, such as n0; expected classes"
    ):
        propose_label(names)
    assert propose_label(profile(*range(0, 600, 40))).task == "regression"  # of numbers, that is usual


def test_classes_of_one_row_are_told():
    column = profile(*5 * ["a"], *5 * ["b"], "c", name="y")
    (remark,) = label_remarks(column, propose_label(column))
    assert remark == "'y': 1 of 3 classes has one row, such as 'c': a model cannot be evaluated on them."


def test_text_that_looks_like_lists_of_classes_is_told():
    column = profile("red", "green", "blue", "red;green", "blue; red", name="tags")
    [remark, *_] = label_remarks(column, propose_label(column))
    assert remark.endswith("To predict any number of classes a row (multilabel): '--list_delimiter=tags=;'.")
    apart = profile(*2 * ["low, or so", "mid, or so", "high, I think"], name="level")
    assert not list(label_remarks(apart, propose_label(apart)))


def test_labels_of_which_one_is_no_number_are_refused():
    words = profile("a", "b", "c", name="kind")
    with pytest.raises(
        InputError, match="--label=c,kind: received 'kind', which is 3 different words; expected"
    ):
        propose_labels([profile(0.5, 1.5, 2.5), words])


def test_few_numbers_far_from_the_others_are_told():
    usual = {f"{number / 10}": 1 for number in range(296)}
    column = ColumnProfile(
        name="price", counts=usual | {"1e+06": 1, "1967000.0": 2, "-2e+06": 1}
    )  # 4 of 300 rows
    [far, _] = label_remarks(column, propose_label(column))
    assert far.startswith("'price': 4 of 300 rows, such as 1e+06, hold 100.0% of the squared distances from")
    assert "the median, 14.8: a squared error sees little else" in far
    many = ColumnProfile(name="price", counts=usual | {"1967000.0": 12})  # what a model can learn of
    assert len([*label_remarks(many, propose_label(many))]) == 1
    skewed = ColumnProfile(name="price", counts={f"{1.05**number:.9g}": 1 for number in range(200)})
    assert len([*label_remarks(skewed, propose_label(skewed))]) == 1


def test_a_target_of_nearly_one_number_is_told():
    column = ColumnProfile(name="flag", counts={"1.0": 59, "1.001": 1})
    [remark] = label_remarks(column, propose_label(column, task="regression"))
    assert remark.startswith("'flag': 59 of 60 rows have 1.0: there is little to predict")


def test_how_to_change_the_task_is_said():
    assert not list(label_remarks(rings(28), propose_label(rings(28)), is_alone=False))
    [regression] = label_remarks(rings(28), propose_label(rings(28)))
    assert regression.startswith("'rings': 28 different numbers, 1 … 28, are predicted as a number.")
    assert "--task=classification" in regression
    [classes] = label_remarks(rings(7), propose_label(rings(7)))
    assert "--task=regression" in classes


def test_a_dot_that_only_some_labels_end_in_is_stripped():
    label = propose_label(profile("<=50K", ">50K", "<=50K.", ">50K."))
    assert label.classes == ("<=50K", ">50K")
    assert "." in label.clean.strip


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (
            ("a", "a"),
            None,
            "received one value, 'a', in all 2 rows that have any; expected two names or more",
        ),
        (
            [f"w{number}" for number in range(1001)],
            None,
            "1,001 different values in 1,001 rows; expected numbers, or 2 to",
        ),
        (("a", "b"), "regression", "--task=regression: received 2 different values such as 'a', 'b'"),
        ((), "regression", "--task=regression: received no value in any of 0 rows; expected numbers"),
        ((), None, "received no value in any of 0 rows; expected two names"),
        (
            (1, 2, 3),
            "binary",
            "received 3 different values in 3 rows; expected two names, the positive class second",
        ),
    ],
)
def test_a_label_that_does_not_suit_the_task_is_refused(values, task, message: str):
    with pytest.raises(InputError, match=message):
        propose_label(profile(*values), task=task)


def test_lists_are_told_from_columns_of_one_value():
    lists = ColumnProfile(name="tags", counts={}, lengths={1: 5, 3: 4})
    with pytest.raises(
        InputError, match=r"--label=tags: received lists of up to 3 values, 0 of them different; expected"
    ):
        propose_label(lists)
    with pytest.raises(InputError, match=r"--task=regression: received lists of up to 3 values; expected"):
        propose_label(lists, task="regression")


def test_without_a_label_the_columns_that_could_be_one_are_listed():
    sentence = profile("this is one", "this is another", "and so is this", name="review")
    bought = ColumnProfile(name="bought", counts={"yes": 6, "no": 4})
    target = ColumnProfile(name="target", counts={"a": 3, "b": 3, "c": 4})
    price = ColumnProfile(name="price", counts={str(number / 2): 1 for number in range(10)})
    assert candidates([sentence, price, bought, target]) == (
        "There is no label, so a model has nothing to predict. Candidates: 'target' (3 classes: a, b, c); "
        "'bought' (2 classes: no, yes); 'price' (regression). Run again with --label=COLUMN."
    )


def test_classes_that_pandas_wrote_as_floats_in_some_files_are_the_same():
    label = propose_label(profile("0", "1", "0.0", "1.0"))
    assert (label.task, label.classes, label.clean.aliases) == (
        "binary",
        ("0", "1"),
        {"0.0": "0", "1.0": "1"},
    )


def test_words_among_the_numbers_of_a_label_make_no_classes():
    prices = profile(*(f"{number}.5" for number in range(30)), "sold", "??", "sold")
    with pytest.raises(InputError, match=r"received 30 numbers, and '\?\?', 'sold' \(3 rows\)") as raised:
        propose_label(prices)
    for way in ("'--missing=c=??' --missing=c=sold", "--numeric=c", "--task=classification"):
        assert way in str(raised.value)
    assert propose_label(prices, task="classification").task == "multiclass"
