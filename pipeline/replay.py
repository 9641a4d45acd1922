r"""Rebuilds the batch of any step of a training run, and lists the loss of each of its examples.

  python -m pipeline.replay --workdir=runs/adult --step=1200
  python -m pipeline.replay --workdir=runs/adult --spikes --html=spikes.html

No log of the data is needed: the run's seed determines which record stands where. So the run may have been
killed and resumed, on any number of hosts, and may still be going on. Step N is the batch that follows N
steps, so the first is step 0. Its examples are listed by their loss under the nearest checkpoint, the worst
first, each with its file, its record there, and its features. --html shows images as stored, and as
augmented.

--spikes looks for steps whose loss jumped: first it looks for log points far above those before them; then it
computes losses again with one checkpoint, and finds the batches that stand out.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

from collections.abc import Sequence

from absl import flags

from pipeline.base import files
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import InputError
from pipeline.training.state.workdir import existing

_WORKDIR = flags.DEFINE_string("workdir", None, "DIRECTORY: the run, as pipeline.train wrote it.")
_STEP = flags.DEFINE_integer("step", None, "STEP: the step to replay; 0 is the first.", lower_bound=0)
_SPIKES = flags.DEFINE_bool("spikes", False, "Look for steps whose loss jumped, in place of one --step.")
_DATASET = flags.DEFINE_multi_string(
    "dataset",
    [],
    "DIRECTORY: the new place of a dataset of the run, if it was moved. Repeat it for each moved dataset, "
    "or give a glob in quotes. A dataset is recognised by its digest.",
)
_CHECKPOINT = flags.DEFINE_integer(
    "checkpoint",
    None,
    "STEP: evaluates the examples with the checkpoint of this step; 0 takes the initial weights. By default "
    "the newest checkpoint before the replayed step, else the oldest after it.",
    lower_bound=0,
)
_EXAMPLES = flags.DEFINE_integer(
    "examples", 10, "How many examples of a step are listed: those with the largest losses.", lower_bound=1
)
_HTML = flags.DEFINE_string("html", None, "FILE: also write a page, with pictures of images.")
_JSON = flags.DEFINE_string("json", None, "FILE: also write the output to it, as JSON.")

COMMAND = Command(
    name="pipeline.replay",
    description=__doc__,
    required=(_WORKDIR,),
    flags={
        "What is replayed": (_WORKDIR, _STEP, _SPIKES, _DATASET),
        "How it is evaluated and shown": (_CHECKPOINT, _EXAMPLES, _HTML, _JSON),
    },
)


def main(argv: Sequence[str]) -> None:
    del argv
    _check_flags()
    workdir = flags_lib.local_directory("workdir", _WORKDIR.value)
    existing(workdir)
    # Imported here: TensorFlow takes seconds, and --help or a wrong flag should not.
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow

    # isort: split
    from pipeline.report import html, terminal
    from pipeline.training.replay import render
    from pipeline.training.replay.replay import Replay

    replay = Replay(workdir, moved_to=_DATASET.value, checkpoint=_CHECKPOINT.value)
    schema = replay.stream.schema
    if _SPIKES.value:
        found = replay.spikes(examples=_EXAMPLES.value)
        sections = render.spikes_sections(found, schema, run=_WORKDIR.value)
    else:
        found = replay.step(_STEP.value, examples=_EXAMPLES.value)
        sections = render.step_sections(found, schema, run=_WORKDIR.value, total_steps=replay.steps)
    if _HTML.value:
        files.write_bytes(_HTML.value, html.page(sections[0], sections[1:]).encode())
    if _JSON.value:
        to_json = render.spikes_json if _SPIKES.value else render.step_json
        files.write_json(_JSON.value, to_json(found, schema))
    print(terminal.render(sections))


def _check_flags() -> None:
    if (_STEP.value is None) != _SPIKES.value:
        raise InputError(
            "--step",
            received="--spikes too" if _SPIKES.value else "nothing",
            expected="either --step=STEP or --spikes",
            action="--step replays one step; --spikes looks for those whose loss jumped.",
        )
    flags_lib.check_local_files({"html": _HTML.value, "json": _JSON.value})


if __name__ == "__main__":
    run_command(main, COMMAND)
