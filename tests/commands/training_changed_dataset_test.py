"""A dataset that changes under a run ends it at the next log point, before anything is saved."""

import pytest

from pipeline.base.errors import InputError
from pipeline.data.integrity.changes import Watched
from pipeline.training.run import run
from pipeline.training.run.request import Request
from pipeline.training.state import checkpoints
from tests.shared.parsed import parsed
from tests.shared.small_run import small_config, write_small_dataset

SLOW = pytest.mark.slow
SHARD = "tiny-train.tfrecord-00001-of-00002"


@pytest.mark.parametrize(
    ("layout", "shuffle"),
    [
        ("rows", "global"),
        *(pytest.param(*each, marks=SLOW) for each in (("rows", "windows"), ("blocks", "global"))),
    ],
)
def test_another_shard_of_the_same_size_ends_the_run_before_a_checkpoint(
    tmp_path, monkeypatch: pytest.MonkeyPatch, layout: str, shuffle: str
):
    dataset, checks = write_small_dataset(tmp_path / "tiny", layout=layout), []
    shard = dataset.directory / SHARD

    class Changing(Watched):
        """Somebody replaces the shard after the log point and save of step 6, and the log point of 10."""

        def check(self) -> None:
            checks.append(None)
            if len(checks) == 4:
                shard.with_name("other").write_bytes(shard.read_bytes()[::-1])
                shard.with_name("other").replace(shard)
            super().check()

    monkeypatch.setattr(run, "Watched", Changing)
    config = small_config()
    config.shuffle = shuffle
    request = Request(
        experiment=parsed(config),
        dataset=dataset,
        workdir=tmp_path / "run",
        strategy="one_device",
        precision="float32",
    )
    with pytest.raises(InputError, match=rf"dataset file \S+/{SHARD}: .*never changes after publication"):
        run.train(request)
    saved = checkpoints.newest_first(tmp_path / "run" / "checkpoints")
    assert [entry.step for entry in saved] == [6]
