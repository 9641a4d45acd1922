"""What a conversion prints when it is done."""

from beam_jobs.conversion import summary


def test_a_split_without_rows_is_warned_of():
    def part(rows: int) -> dict[str, int]:
        return {"rows": rows, "records": rows, "shards": 1, "bytes": 10 * rows}

    told = summary.text(
        {
            "splits": {"train": part(3), "test": part(0)},
            "rows_read": 3,
            "rows_written": 3,
            "rows_rejected": 0,
            "rejected_reasons": {},
            "anomalies": [],
            "seconds": 1.0,
            "digest": "d",
            "directory": "data/1.0.0",
        }
    )
    assert "warning: split 'test' has no rows." in told
    assert "--input=test=PATH" in told
    assert "split 'train' has no rows" not in told
