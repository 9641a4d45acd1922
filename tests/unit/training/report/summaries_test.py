"""What TensorBoard reads of a run."""

import math

import pytest
import tensorflow as tf

from pipeline.base.errors import InputError
from pipeline.training.report.reporter import Summaries


@pytest.mark.parametrize(
    ("value", "written"), [(0.25, 0.25), (1e60, math.inf), (-3.5e38, -math.inf), (math.nan, math.nan)]
)
def test_a_number_of_any_size_is_written(tmp_path, value, written):
    summaries = Summaries(tmp_path)
    summaries.write({"step": 7, "loss": value, "epoch": 1, "validation": {"split": "test", "loss": value}})
    summaries.close()
    for run in ("train", "evaluation"):
        (file,) = (tmp_path / run).iterdir()
        (event,) = [each for each in tf.compat.v1.train.summary_iterator(str(file)) if each.summary.value]
        (found,) = event.summary.value
        assert (event.step, found.tag) == (7, "loss")
        assert float(tf.make_ndarray(found.tensor)) == pytest.approx(written, nan_ok=True)


def test_what_stands_in_the_place_of_their_directory_is_told(tmp_path):
    (tmp_path / "summaries").write_text("")
    with pytest.raises(InputError, match=r"^summaries \S+/summaries: received "):
        Summaries(tmp_path / "summaries")
