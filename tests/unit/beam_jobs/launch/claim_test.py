"""What marks the files of a killed run as ours is the last of them to be removed."""

from beam_jobs.launch import claims


def test_the_mark_outlives_what_it_marks():
    found = [claims.CLAIM_MARK, "_tmp/1/progress", "rejected", "_tmp", "Answer.labels.txt", "schema.json"]
    *before, last = claims.leftovers_in_order(found)
    assert last == claims.CLAIM_MARK
    assert [name.startswith("_tmp") for name in before] == [False, False, False, True, True]
