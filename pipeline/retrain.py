r"""Retrains on a schedule: looks at the data, does what is due, evaluates the result and publishes it.

  python -m pipeline.retrain reconcile --config=taxi.py --root=/data/taxi

Any scheduler may call this as often as it likes: a second call does nothing, and after a kill the next call
goes on. The folder --root holds the raw data, in dated spans; the schema; and all that this command makes of
them.

  reconcile   does what is due, once
  plan        says what reconcile would do and why, and changes nothing
  status      what is served, and how every cycle ended
  promote     publishes a cycle that the gate did not promote (--reason)
  rollback    serves an earlier version again, under a higher number (--to, --reason)
  hold        stops everything, until release (--reason)
  release     ends a hold, and accepts the data it was for (--reason)
  clock       confirms that the clock is right, though the log is ahead of it (--reason)
  backfill    cycles of the past (--from, --to); nothing is published without --publish
  gc          removes what config.keep does not keep

A config begins with get_config() of pipeline/configs/retraining/base.py, which explains every setting.

Exit code 0: all is as it should be, also where nothing was due, where a model was rejected, or on hold. 10
with --fail_on_reject: the model was not promoted. 75: another process is working, or an obstacle may be gone
later; call again. 2: a person must correct something.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import datetime
import pathlib
from collections.abc import Callable, Sequence

from absl import flags, logging

from pipeline.base import files
from pipeline.base.cli import config
from pipeline.base.cli import flags as flags_lib
from pipeline.base.cli.command import Command
from pipeline.base.cli.run import run_command
from pipeline.base.errors import InputError, unknown_name
from pipeline.configs.retraining import base
from pipeline.report import terminal
from pipeline.retraining import datasets, left_out, operations, reconcile, records, settings
from pipeline.retraining import plan as plan_lib
from pipeline.retraining import status as status_lib
from pipeline.retraining.reconcile import Outcome
from pipeline.retraining.records import PROMOTE
from pipeline.retraining.settings import Commands, Settings

_CONFIG = config.define_config(
    "FILE: what is retrained, when, and what a model must show.", groups=settings.GROUPS
)
_ROOT = flags.DEFINE_string(
    "root", None, "DIRECTORY: the raw data, the schema, and all that is made of them."
)
_REASON = flags.DEFINE_string("reason", "", "TEXT: the reason, for the audit log.")
_VERSION = flags.DEFINE_string("to", "", "VERSION that rollback serves again, or the last SPAN of backfill.")
_FROM = flags.DEFINE_string("from", "", "SPAN: where backfill begins. By default at the first one.")
_CYCLE = flags.DEFINE_string(
    "cycle",
    "",
    "ID: the cycle that promote publishes, or the beginning of its id. By default the newest one.",
)
_PUBLISH = flags.DEFINE_boolean("publish", False, "Whether backfill publishes what the gate promotes.")
_RETRY = flags.DEFINE_boolean("retry", False, "Whether reconcile tries a failed cycle again.")
_FAIL_ON_REJECT = flags.DEFINE_boolean(
    "fail_on_reject", False, "Whether reconcile ends with exit code 10 if it decided not to promote."
)
_NOW = flags.DEFINE_string(
    "now", "", "TIME: stands for the present time, to try a schedule. ISO 8601, in UTC."
)
_HTML = flags.DEFINE_string("html", None, "FILE: status also writes a page to it.")
_JSON = flags.DEFINE_string(
    "json", None, "FILE: plan and status also write all that they know to it, as JSON."
)

COMMAND = Command(
    name="pipeline.retrain",
    description=__doc__,
    required=(_CONFIG, _ROOT),
    arguments="SUBCOMMAND",
    flags={
        "What is retrained": (_CONFIG, _ROOT),
        "What a person decides": (_REASON, _VERSION, _FROM, _CYCLE, _PUBLISH, _RETRY),
        "Exit codes, time and results": (_FAIL_ON_REJECT, _NOW, _HTML, _JSON),
    },
    config_keys=lambda: config.keys_of(base),
    is_repeated=True,
)
_YEARS = range(1971, 2999)  # years of --now: schedules look some years back and ahead
_LOOKS = ("plan", "status")  # they record nothing, so --now may be any time
# The most that --now may lie ahead where it is recorded: nothing would run until a recorded time has come.
_MOST_AHEAD = datetime.timedelta(days=1)
_COMMANDS = Commands(convert="beam_jobs.convert", train="pipeline.train", export="pipeline.export")


def main(argv: Sequence[str]) -> int:
    operation = _subcommand(argv)
    flags_lib.check_local_files({"json": _JSON.value, "html": _HTML.value})
    logging.set_verbosity(logging.WARNING)  # otherwise TensorFlow logs each checkpoint's sharding
    if operation not in _LOOKS:
        _check_not_ahead(_clock()(), datetime.datetime.now(datetime.UTC))
    parsed = settings.parse(_CONFIG.value.to_dict(), _COMMANDS, like=base.get_config().to_dict())
    path = flags_lib.absolute(_ROOT.value)
    return _OPERATIONS[operation](parsed, path) or 0


def _reconcile(parsed: Settings, path: pathlib.Path) -> int:
    outcome = reconcile.reconcile(path, parsed, clock=_clock(), retry=_RETRY.value)
    _print_outcome(outcome)
    decided = outcome.did == "cycle" and outcome.decision != PROMOTE
    return reconcile.EXIT_REJECTED if decided and _FAIL_ON_REJECT.value else 0


def _print_outcome(outcome: Outcome) -> None:
    head = {
        "nothing": "nothing is due",
        "held": "held: nothing is done",
        "cycle": f"cycle {outcome.cycle}: {outcome.decision}"
        + (f", version {outcome.version} is served" if outcome.version else ""),
    }[outcome.did]
    print("\n".join([head, *(f"  {reason}" for reason in outcome.why), *left_out.lines(outcome.left_out)]))


def _plan(parsed: Settings, path: pathlib.Path) -> None:
    opened = records.existing_root(path, name=parsed.name)
    spans = datasets.survey_spans(opened, parsed.sources(opened))
    plan = plan_lib.make(opened, parsed, spans, now=_clock()())
    if _JSON.value:
        files.write_json(_JSON.value, status_lib.plan_as_json(plan))
    print(terminal.render(status_lib.plan(plan)))


def _status(parsed: Settings, path: pathlib.Path) -> None:
    now = _clock()()
    known = status_lib.survey(records.existing_root(path, name=parsed.name), parsed, now=now)
    if _JSON.value:
        files.write_json(_JSON.value, status_lib.as_json(known))
    if _HTML.value:
        from pipeline.retraining import page

        files.write_bytes(_HTML.value, page.status_page(known).encode(errors="backslashreplace"))
    print(terminal.render(status_lib.status(known, now=now)))


def _promote(parsed: Settings, path: pathlib.Path) -> None:
    version = operations.promote(path, parsed, cycle=_CYCLE.value, reason=_reason(), clock=_clock())
    print(f"version {version} is served")


def _rollback(parsed: Settings, path: pathlib.Path) -> None:
    if not _VERSION.value.isdecimal():
        raise InputError(
            "--to",
            received=_VERSION.value or "nothing",
            expected="the number of a version",
            action="`pipeline.retrain status` lists them.",
        )
    version = operations.rollback(path, parsed, to=int(_VERSION.value), reason=_reason(), clock=_clock())
    again = f"version {version} is served: the bytes of version {_VERSION.value}"
    print(again if version else "no version is served; the next cycle makes the first model")


def _hold(parsed: Settings, path: pathlib.Path) -> None:
    operations.put_on_hold(path, parsed, reason=_reason(), at=_clock()())
    print("held: nothing is trained or published until release")


def _release(parsed: Settings, path: pathlib.Path) -> None:
    held = operations.release(path, parsed, reason=_reason(), clock=_clock())
    print(f"released; it was held because: {held['reason']}")


def _accept_clock(parsed: Settings, path: pathlib.Path) -> None:
    ahead = operations.accept_clock(path, parsed, reason=_reason(), clock=_clock())
    print(f"what was recorded up to {ahead.last[:19]} counts as done now")


def _backfill(parsed: Settings, path: pathlib.Path) -> None:
    for outcome in reconcile.backfill(
        path, parsed, start=_FROM.value, end=_VERSION.value, publishes=_PUBLISH.value, clock=_clock()
    ):
        _print_outcome(outcome)


def _gc(parsed: Settings, path: pathlib.Path) -> None:
    print(status_lib.stage_line("gc", operations.gc(path, parsed, clock=_clock())))


_OPERATIONS: dict[str, Callable[[Settings, pathlib.Path], int | None]] = {
    "reconcile": _reconcile,
    "plan": _plan,
    "status": _status,
    "promote": _promote,
    "rollback": _rollback,
    "hold": _hold,
    "release": _release,
    "clock": _accept_clock,
    "backfill": _backfill,
    "gc": _gc,
}


def _subcommand(argv: Sequence[str]) -> str:
    given = argv[1:]
    if len(given) != 1 or given[0] not in _OPERATIONS:
        first, received = "".join(given[:1]), " ".join(given) or "no subcommand"
        raise unknown_name("pipeline.retrain", first, _OPERATIONS, received=received, otherwise="See --help.")
    return given[0]


def _reason() -> str:
    if not _REASON.value.strip():
        raise InputError(
            "--reason",
            received="nothing",
            expected="why, in a few words, for the audit log",
            action='Give it, such as --reason="labels of 2026-11-09 were checked".',
        )
    return _REASON.value.strip()


def _clock() -> reconcile.Clock:
    """A clock in UTC; with --now it stands still."""
    if not _NOW.value:
        return lambda: datetime.datetime.now(datetime.UTC)
    try:
        now = datetime.datetime.fromisoformat(_NOW.value)
        now = now.astimezone(datetime.UTC) if now.tzinfo else now.replace(tzinfo=datetime.UTC)
        if now.year not in _YEARS:
            raise ValueError
    except (ValueError, OverflowError):
        raise InputError(
            f"--now={_NOW.value}",
            received=f"no time between {_YEARS[0]} and {_YEARS[-1]}",
            expected="one as ISO 8601 has it, such as 2026-11-01T03:00",
            action="Correct it.",
        ) from None
    return lambda: now


def _check_not_ahead(now: datetime.datetime, clock: datetime.datetime) -> None:
    """Raises InputError for a --now far ahead of the clock: records with that time would stop the root."""
    if now > clock + _MOST_AHEAD:
        raise InputError(
            f"--now={_NOW.value}",
            received=f"a time that is {(now - clock).days:,} days ahead of this machine's clock",
            expected="the present or the past: nothing could be recorded before that time afterwards",
            action="Leave --now out; `plan` and `status` change nothing and take any time.",
        )


if __name__ == "__main__":
    run_command(main, COMMAND)
