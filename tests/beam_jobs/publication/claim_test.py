"""What marks the files of a killed run as ours is the last of them to be removed."""

from beam_jobs.publication import claim


def test_the_mark_outlives_what_it_marks():
    found = [claim.MARK, "_tmp/1/progress", "rejected", "_tmp", "Answer.labels.txt", "schema.json"]
    *before, last = claim.leftovers_in_order(found)
    assert last == claim.MARK
    assert [name.startswith("_tmp") for name in before] == [False, False, False, True, True]
