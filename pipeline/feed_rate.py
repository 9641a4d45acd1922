r"""Will this host feed the accelerator? Measures the input pipeline's stages, alone and together.

  python -m pipeline.feed_rate --config=pipeline/configs/tabular.py --dataset=data/adult/1.0.0 --step_ms=5

The time of a step is that of the accelerator at work, without its wait for input; a run's report names it.
Where it is not given, the shortest step that this host feeds is told. With --slice=v5e-16, or --slice=4x8 for
4 hosts of 8 replicas each, this host is measured in the part of one of that slice's hosts.

Exits with 1 where training would be starved.
"""

import pathlib
from collections.abc import Sequence

from absl import app, flags
from ml_collections import config_flags

from pipeline.data import manifest
from pipeline.data.errors import InputError, answers_bad_input
from pipeline.data.feed import slices
from pipeline.training.config_flag import parse_flags

_CONFIG = config_flags.DEFINE_config_file(
    "config", None, "Experiment, one of pipeline/configs or your own; --config.a.b=value overrides."
)
_DATASET = flags.DEFINE_string("dataset", None, "Directory written by beam_jobs.convert.", required=True)
_STEP_MS = flags.DEFINE_float("step_ms", None, "Milliseconds that the accelerator takes for a global batch.")
_SLICE = flags.DEFINE_string(
    "slice", "", "What trains: a TPU slice such as v5e-8, or HOSTSxREPLICAS; empty: one replica on this host."
)
_SECONDS = flags.DEFINE_float("seconds", 2.0, "How long to measure each stage.")
_JSON = flags.DEFINE_string("json", None, "Also write the certificate to this file.")
_CHART = flags.DEFINE_string("chart", None, "Also draw it to this file: .svg, or .html for a page.")

flags.mark_flag_as_required("config")

STARVED = 1
CHARTS = (".svg", ".html")


@answers_bad_input
def main(argv: Sequence[str]) -> int:
    del argv
    _check_flags()
    slice_ = slices.parse(_SLICE.value)
    dataset = manifest.open_dataset(_DATASET.value)
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline import quiet  # noqa: F401 - before TensorFlow
    from pipeline.data import whole_files
    from pipeline.data.feed import table
    from pipeline.training import feed
    from pipeline.training.report_page import feed_chart

    certificate, advice = feed.certify(
        _CONFIG.value,
        dataset,
        slice_=slice_,
        step_ms=_STEP_MS.value,
        seconds=_SECONDS.value,
    )
    print(table.render(certificate, advice))
    if _JSON.value:
        whole_files.write_json(_JSON.value, certificate.as_json() | {"advice": advice})
    if _CHART.value:
        draw = feed_chart.svg if _CHART.value.endswith(".svg") else feed_chart.page
        whole_files.write_bytes(_CHART.value, draw(certificate, advice).encode())
    return STARVED if certificate.is_fed is False else 0


def _check_flags() -> None:
    for name, value in (("--step_ms", _STEP_MS.value), ("--seconds", _SECONDS.value)):
        if value is not None and value <= 0:
            raise InputError(name, received=value, expected="a positive number", action="Correct the flag.")
    if _CHART.value and pathlib.Path(_CHART.value).suffix not in CHARTS:
        raise InputError(
            "--chart",
            received=_CHART.value,
            expected=f"a file name that ends in {' or '.join(CHARTS)}",
            action="Rename the file.",
        )


if __name__ == "__main__":
    app.run(main, flags_parser=parse_flags)
