"""The order in which splits are listed."""

from pipeline.data.dataset.manifest import in_order


def test_the_usual_splits_come_first_then_the_others_by_name():
    assert in_order(["b", "test", "a", "train"]) == ["train", "test", "a", "b"]
