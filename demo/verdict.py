"""Says how the demo went, and fails where it went worse than it should."""

import json
import pathlib
import sys
from collections.abc import Mapping, Sequence

from absl import app, flags

_METRICS = flags.DEFINE_string("metrics", None, "What pipeline.evaluate wrote.", required=True)
_MODEL = flags.DEFINE_string("model", None, "Exported model.", required=True)
_REPORT = flags.DEFINE_string("report", None, "Report of the training run.", required=True)
_SECONDS = flags.DEFINE_float("seconds", None, "How long the demo took.", required=True)

REQUIRED_ACCURACY = 0.97


def verdict(metrics: Mapping, *, model: str, report: str, seconds: float) -> str:
    return (
        f"test accuracy  {metrics['accuracy']:.4f} of {metrics['examples']:,} digits "
        f"(required: {REQUIRED_ACCURACY})\n"
        f"SavedModel     {model}\n"
        f"report         {report}\n"
        f"time           {seconds:.0f} s"
    )


def main(argv: Sequence[str]) -> int:
    del argv
    metrics = json.loads(pathlib.Path(_METRICS.value).read_text())
    print("\n" + verdict(metrics, model=_MODEL.value, report=_REPORT.value, seconds=_SECONDS.value))
    if metrics["accuracy"] >= REQUIRED_ACCURACY:
        return 0
    print(f"error: the accuracy is below {REQUIRED_ACCURACY}; the report shows where", file=sys.stderr)
    return 1


if __name__ == "__main__":
    app.run(main)
