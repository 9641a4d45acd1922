"""What every retraining can set, with defaults. A file of your own begins with get_config() of this one.

Paths are relative to --root, where they are not absolute.
"""

from ml_collections import ConfigDict

Config = ConfigDict  # what get_config() of a config file returns


def get_config() -> Config:
    config = Config()

    config.name = "model"  # versions are published to ROOT/serving/NAME/1, 2, …
    # Also publish to a place such as "gs://bucket/models/taxi", under the same numbers.
    config.publish_to = ""

    config.spans = {}
    config.spans.raw = "raw/date=*"  # a glob: each file or folder it matches is a span, in the order of names
    config.spans.schema = "schema.json"  # the schema with which all spans are converted
    config.spans.convert = ()  # more flags of beam_jobs.convert, such as ("--layout=blocks",)
    config.spans.exclude = ()  # names of spans that are left out, such as ("2026-11-09",)
    config.spans.marker = ""  # a file, such as "_SUCCESS"; a folder without it is not yet a span
    # A span that cannot be converted, or repeats another: skip leaves it out, stop ends the command.
    config.spans.unusable = "skip"

    config.window = {}  # which spans are trained on
    config.window.last = 0  # how many spans before the holdout are trained on; 0: all
    config.window.start = ""  # the name of the first span; empty: the oldest
    config.window.end = ""  # the name of the last span, holdout included
    config.window.least = 1  # the least number of spans to train on

    config.holdout = {}  # what models are evaluated on
    # later: the spans after the window; split: the test split of the window itself.
    config.holdout.kind = "later"
    config.holdout.last = 1  # number of spans, where kind is later
    config.holdout.weighted_by = ""  # a numeric feature that weighs rows, if it weighed them in training
    # Fraction of its rows that may equal training rows, in addition to what repeats by nature.
    config.holdout.most_seen = 0.01

    config.train = {}
    config.train.config = "pipeline/configs/tabular.py"  # from the folder where the command starts
    config.train.flags = ()  # more flags of pipeline.train, such as ("--config.train.epochs=3",)
    # scratch; or champion: a run begins with the champion's weights and preprocessing (warm start).
    config.train.start = "scratch"

    config.export = {}
    config.export.formats = ()  # more formats of a version: ("litert", "onnx"), see pipeline.export --format

    config.triggers = {}  # any of them makes a cycle due
    config.triggers.new_spans = 1  # number of spans that no finished cycle has used; 0: never
    config.triggers.cron = ""  # a schedule such as "0 3 * * *", in UTC
    config.triggers.age_days = 0.0  # age of the served model in days; 0: age makes nothing due
    # Distance of a new span from the champion's training statistics; 0: drift makes nothing due.
    config.triggers.drift = 0.0

    config.drift = {}
    config.drift.hold = 0.3  # a new span this far away holds retraining until a person has looked; 0: never
    config.drift.ignore = ()  # features that always move, such as ("trip_start_timestamp",)

    # How models are compared: pipeline/gate/rules.py. An empty or absent key has the default of that file.
    config.gate = {}
    config.gate_anchor = 0  # the version that no model may fall behind; 0: the first published one
    config.parity = {}  # its limits: pipeline/retraining/parity_result.py
    config.infra = {}  # its limits: pipeline/serving/result.py
    config.serving_url = ""  # a TensorFlow Serving that is checked too: http://… or grpc://…

    config.keep = {}
    config.keep.versions = 5  # published versions, besides the anchor
    config.keep.cycles = 5  # cycles whose run and export are kept; stage results and reports always are

    config.attempts = 10  # how often a stage may be killed without progress; then the cycle has failed

    # Who is told of decisions, holds, failures and spans left out; if this fails, nothing else fails.
    config.notify = {}
    # A program and its arguments, run without a shell, or "sh -c '…'"; it gets JSON on stdin.
    config.notify.command = ""
    config.notify.webhook = ""  # a URL that gets the same JSON as a POST
    return config
