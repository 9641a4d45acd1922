"""The ledger of the soak finds what is lost, repeated or trained on at another step."""

import pytest

from tests.soak import lineage
from tests.soak.lineage import Difference

WHOLE = {0: ("a", "b"), 1: ("c", "d"), 2: ("e", "f")}


def told(*generations: lineage.Steps) -> Difference:
    return lineage.difference(lineage.of_weights(generations), WHOLE)


@pytest.mark.parametrize(
    ("generations", "expected"),
    [
        ([WHOLE], Difference(lost=0, repeated=0, elsewhere=0)),
        # Killed after step 2, continued from 1: what it did of 1 and 2 is not in the weights.
        ([WHOLE, {1: ("c", "d"), 2: ("e", "f")}], Difference(lost=0, repeated=0, elsewhere=0)),
        ([{0: ("a", "b")}, {}, {2: ("e", "f")}], Difference(lost=2, repeated=0, elsewhere=0)),
        ([{0: ("a", "b")}, {1: ("a", "b"), 2: ("e", "f")}], Difference(lost=2, repeated=2, elsewhere=0)),
        ([{0: ("c", "d"), 1: ("a", "b"), 2: ("e", "f")}], Difference(lost=0, repeated=0, elsewhere=4)),
    ],
)
def test_examples_are_counted(generations, expected):
    assert told(*generations) == expected


def test_processes_that_train_together_are_read_together(tmp_path):
    (tmp_path / "0").write_text("0 0 a\n1 0 c\n2 0 e\n")
    (tmp_path / "1").write_text("0 1 b\n1 1 d\n2 1 ")  # killed as it wrote
    assert lineage.read([tmp_path / "0", tmp_path / "1"]) == {0: ("a", "b"), 1: ("c", "d")}


def test_a_step_that_one_process_applies_twice_is_told(tmp_path):
    (tmp_path / "0").write_text("0 0 a\n0 0 a\n")
    with pytest.raises(ValueError, match="step 0 was applied twice"):
        lineage.read([tmp_path / "0"])
