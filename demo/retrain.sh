#!/usr/bin/env bash
# Five nights of retraining: a day of taxi trips arrives, a scheduler calls reconcile. One day is bad, and a person
# decides. Everything is written below build/demo-retrain/, anew each time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/.venv/bin:$PATH"
root=build/demo-retrain
rm -rf "$root" && mkdir -p "$root"

night() { printf '\n\n%s\n' "── $1 ──"; }
run() {
  printf '\n$ %s\n' "$*"
  "$@"
}
arrives() { run python -m demo.spans --day="$1" --output="$root/raw"; }
# The night after a day; without --now a scheduler's calls take the present.
retrain() {
  run python -m pipeline.retrain "$1" --config=demo/retraining.py --root="$root" --now="2026-11-0$((day + 1))T03:00" "${@:2}"
}

day=1
night "The first day: a schema is proposed; there is nothing to evaluate a model on yet"
arrives $day
run python -m beam_jobs.infer_schema --input="$root/raw" --label=big_tip --name=trips --output="$root/schema.json"
retrain reconcile

day=2
night "The second day: the first model, evaluated on a day that it has not seen; a second call does nothing"
arrives $day
retrain reconcile
retrain reconcile

day=3
night "The third day: another model has to show that it is no worse than the one that is served"
arrives $day
retrain plan
retrain reconcile

day=4
night "The fourth day is bad: miles are metres. Nothing is trained until a person has looked"
arrives $day
retrain reconcile

day=5
night "The fifth day: the person leaves the fourth out, and releases the hold"
arrives $day
retrain reconcile
leave_out="--config.spans.exclude=('2026-11-04',)"
retrain release "$leave_out" --reason="the meter tells metres on 2026-11-04: left out"
retrain reconcile "$leave_out"

night "What is served now, and how it came about"
retrain status --html="$root/status.html"
python demo/history.py --root="$root" --seconds="$SECONDS"
