#!/usr/bin/env bash
# Handwritten digits, from PNG files to an evaluated SavedModel: the commands that a user's own data takes.
# Everything is written below build/demo/, anew each time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PWD/.venv/bin:$PATH"
demo=build/demo
rm -rf "$demo"

run() {
  printf '\n$ %s\n' "$*"
  "$@"
}

run python demo/write_digits.py --output="$demo/png"
run python -m beam_jobs.infer_schema --input="$demo/png" --format=images --name=digits \
  --output="$demo/schema.json"
run python -m beam_jobs.convert --input="$demo/png" --format=images --schema="$demo/schema.json" \
  --output="$demo/digits/1.0.0" --splits=train=0.7,validation=0.1,test=0.2
run python -m pipeline.train --config=pipeline/configs/digits_resnet.py --dataset="$demo/digits/1.0.0" \
  --workdir="$demo/run"
run python -m pipeline.export --workdir="$demo/run" --output="$demo/model"
run python -m pipeline.evaluate --model="$demo/model" --dataset="$demo/digits/1.0.0" --split=test \
  --json="$demo/test.json"
python demo/verdict.py --metrics="$demo/test.json" --model="$demo/model" --report="$demo/run/report.html" \
  --seconds="$SECONDS"
