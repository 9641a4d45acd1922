"""What the gate refuses to judge: one line each, with the row that is wrong."""

import numpy as np
import pytest

from pipeline.base.errors import InputError
from pipeline.data.schema.feature_types import LABEL_TASKS
from pipeline.gate.metrics import METRICS
from pipeline.gate.scores import Scored

GOOD = {
    "task": "binary",
    "labels": np.array([0, 1, 1]),
    "predictions": {"challenger": np.array([0.2, 0.7, 1])},
}
VALUES = {"task": "regression", "labels": np.arange(3.0), "predictions": {"challenger": np.ones(3)}}
MANY = {"task": "multiclass", "labels": np.arange(3), "predictions": {"challenger": np.eye(3)}}

SETS = {
    "task": "multilabel",
    "labels": np.array([[0, 1], [1, 1], [0, 0]]),
    "predictions": {"challenger": np.full((3, 2), 0.7)},
}
TARGETS = {**SETS, "task": "multitarget", "labels": np.arange(6.0).reshape(3, 2)}

ITEMS = {
    "task": "retrieval",
    "labels": np.array([4, 0, 2]),
    "predictions": {"challenger": np.array([[-0.2, 0, 0], [-3, 2, 1], [-9, 4, 0]])},
    "class_names": list("abcde"),
}
GROUPS = {
    "task": "ranking",
    "labels": np.array([[0, 2], [1, -1], [0, 0]]),
    "predictions": {"challenger": np.arange(6.0).reshape(3, 2)},
}
TOKENS = {
    "task": "next_token",
    "labels": np.array([[-1, 2], [-1, 0], [-1, -1]]),
    "predictions": {"challenger": np.full((3, 2, 2), -0.5)},
}


def test_every_task_can_be_judged():
    assert set(METRICS) == set(LABEL_TASKS)


@pytest.mark.parametrize("good", [GOOD, VALUES, MANY, SETS, TARGETS, ITEMS, GROUPS, TOKENS])
def test_good_input_is_taken(good):
    weights, clusters = np.array([0, 1, 2.5]), np.array(["u1", "u2", "u1"])
    assert (
        Scored(**good, weights=weights, clusters=clusters, slices={"city": np.array(["", "a", "ü"])}).rows
        == 3
    )


@pytest.mark.parametrize(
    ("good", "changed", "message"),
    [
        (GOOD, {"task": "rating"}, "task that the gate gets: received 'rating'; expected one of binary, "),
        (GOOD, {"labels": np.array([])}, r"labels .* received shape \[0\]; expected one number for each"),
        (GOOD, {"labels": np.array([[0, 1, 1]])}, r"labels .* received shape \[1, 3\]"),
        (GOOD, {"labels": np.array([0, 2, 1])}, r"received 2 in row 1 \(1 such rows\); expected class"),
        (GOOD, {"labels": np.array([0, 0.5, 1])}, "in row 1"),
        (GOOD, {"labels": np.array(["no", "yes", "no"])}, "an array of numbers"),
        (GOOD, {"predictions": {}}, "received none; expected challenger, and champion and anchor"),
        (GOOD, {"predictions": {"champion": np.ones(3)}}, "received champion; expected challenger"),
        (GOOD, {"predictions": {**GOOD["predictions"], "best": np.ones(3)}}, "received challenger, best"),
        (GOOD, {"predictions": {"challenger": np.ones(2)}}, r"received shape \[2\]; expected 3 rows"),
        (GOOD, {"predictions": {"challenger": np.array([0.2, np.nan, 1])}}, r"received nan in row 1"),
        (GOOD, {"predictions": {"challenger": np.array([0.2, 1.2, -1])}}, r"row 1 \(2 such rows\); .* to 1"),
        (GOOD, {"predictions": {"challenger": np.ones((3, 2))}}, r"\[1, 1\] in row 0 .* add up to 1"),
        (GOOD, {"predictions": {"challenger": np.ones((3, 3)) / 3}}, r"received shape \[3, 3\]; .* \[n, 2\]"),
        (MANY, {"predictions": {"challenger": np.ones(3)}}, r"received shape \[3\]; expected probabilities"),
        (MANY, {"predictions": {"challenger": np.eye(3), "anchor": np.eye(3)[:, :2]}}, r"anchor .*\[n, 3\]"),
        (MANY, {"labels": np.array([0, 1, 3])}, "class indices from 0 to 2"),
        (VALUES, {"labels": np.array([0, np.inf, 1])}, "inf.* in row 1 .*finite"),
        (VALUES, {"labels": np.array([0, 1e300, 1])}, r"1e\+300.* in row 1 .*finite float32"),
        (VALUES, {"predictions": {"challenger": np.ones((3, 2))}}, "one value for each example"),
        (SETS, {"labels": np.array([0, 1, 1])}, r"received shape \[3\]; expected several answers"),
        (SETS, {"labels": np.array([[0, 1], [2, 0], [1, 1]])}, "in row 1 .* 0 or 1 of each class"),
        (SETS, {"predictions": {"challenger": np.ones((3, 3))}}, r"numbers of shape \[n, 2\]"),
        (SETS, {"predictions": {"challenger": np.full((3, 2), 1.2)}}, "probabilities from 0 to 1"),
        (SETS, {"prior": 0.5}, r"prior .*received shape \[\]; expected 2 numbers"),
        (TARGETS, {"labels": np.array([[0, 1], [np.nan, 0], [1, 1]])}, "in row 1 .*finite float32"),
        (ITEMS, {"labels": np.array([4, 5, 0])}, "received 5 in row 1 .* class indices from 0 to 4"),
        (ITEMS, {"predictions": {"challenger": np.ones((3, 5))}}, r"numbers of shape \[n, 3\]"),
        (ITEMS, {"predictions": {"challenger": np.ones((3, 3))}}, "log-probabilities of 0 or less"),
        (ITEMS, {"predictions": {"challenger": np.full((3, 3), -0.5)}}, "whole numbers of items from 0 on"),
        (ITEMS, {"prior": np.array([0.5, 0.5])}, "prior .* expected 5 rates"),
        (GROUPS, {"labels": np.array([0, 1, 2])}, "labels .* several answers for each example"),
        (GROUPS, {"labels": np.array([[0, 0.5]] * 3)}, "a relevance, as whole numbers"),
        (GROUPS, {"predictions": {"challenger": np.ones((3, 3))}}, r"numbers of shape \[n, 2\]"),
        (GROUPS, {"predictions": {"challenger": np.full((3, 2), np.nan)}}, "finite float32"),
        (TOKENS, {"labels": np.full((3, 2), -1)}, "labels .* numbers below 0 only; expected a token from 0"),
        (TOKENS, {"predictions": {"challenger": np.ones((3, 2))}}, r"of shape \[n, 2, 2\]"),
        (TOKENS, {"predictions": {"challenger": np.ones((3, 2, 2))}}, r"\[1, 1, 1, 1\] in row 0 "),
        (GOOD, {"weights": np.ones(2)}, r"weights .* received shape \[2\]"),
        (GOOD, {"weights": np.array([1, -1, 1])}, "weights .* in row 1 .* numbers from 0 on"),
        (GOOD, {"weights": np.array([1, np.nan, 1])}, "weights .* in row 1"),
        (GOOD, {"weights": np.zeros(3)}, "received 0 for all examples; expected one above 0"),
        (GOOD, {"clusters": np.arange(4)}, "clusters .* expected 3 rows"),
        (GOOD, {"clusters": np.array(["a", 1, None], object)}, "clusters .* cannot be sorted"),
        (GOOD, {"clusters": np.array([1, np.nan, 2])}, "clusters .* in row 1"),
        (GOOD, {"slices": {"city": np.array(["a"])}}, "slices of 'city' .* expected 3 rows"),
        (GOOD, {"slices": {"city": np.array([1, 2, 3])}}, "slices of 'city' .* expected text"),
        (GOOD, {"slices": {"city": np.array(["a", b"b", "c"], object)}}, "received b'b' in row 1"),
        (GOOD, {"prior": 1.5}, "prior .* received 1.5; expected rates from 0 to 1"),
        (GOOD, {"prior": np.array([0.2, 0.3, 0.5])}, "prior .* expected 2 rates"),
        (MANY, {"prior": 0.5}, "prior .* expected 3 rates"),
        (MANY, {"prior": np.array([0.5, 0.5, 0.5])}, "add up to 1"),
        (VALUES, {"prior": float("nan")}, "prior .* nan"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused(good, changed, message):
    with pytest.raises(InputError, match=message):
        Scored(**{**good, **changed})
