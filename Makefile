# Everything a person does in this checkout. `make` alone lists the commands.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

REQUIREMENTS := requirements.txt requirements/dev.txt
OPTIONAL_REQUIREMENTS := requirements/gcp.txt requirements/tpu.txt requirements/peers.txt
BUILDIFIER := npx --yes @bazel/buildifier@8.2.1
UV := uv==0.13.9
# Worker processes of the tests.
JOBS ?= 2
# Conversions that `make soak` kills.
KILLS ?= 50

# Newest first. A Python counts if it runs: a shim of pyenv may stand on PATH and fail.
PYTHONS := $(shell sed -nE 's/.*"Programming Language :: Python :: (.+)".*/\1/p' pyproject.toml | sort -rV)
CANDIDATES := $(or $(PYTHON),$(PYTHONS:%=python%) python3 python)
version_of = $(shell $(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)
RUNNING = $(strip $(foreach python,$(CANDIDATES),$(addprefix $(python)=,$(call version_of,$(python)))))
NEWEST = $(firstword $(foreach version,$(PYTHONS),$(patsubst %=$(version),%,$(filter %=$(version),$(RUNNING)))))

define needs_python
[[ -n "$(NEWEST)" ]] || { echo "error: found no Python $(PYTHONS) among $(CANDIDATES)." \
  "Those that run: $(or $(RUNNING),none). Install one with its venv module," \
  "or name it: make PYTHON=/path/to/python$(firstword $(PYTHONS))" >&2; exit 2; }
endef

# .venv is made anew where its Python is gone, or is another than PYTHON= names.
FITTING := $(filter $(if $(PYTHON),$(call version_of,$(PYTHON)),$(PYTHONS)),$(call version_of,.venv/bin/python))

.PHONY: help
help:  ## List these commands.
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 26

.PHONY: install
install: .venv/.installed  ## Install the pinned, hashed requirements into .venv.

# The stamp is the last thing written: an install that was cut short starts over.
.venv/.installed: $(REQUIREMENTS) $(if $(FITTING),,FORCE)
	@$(needs_python)
	@echo "Installing TensorFlow, Beam and what they need for $(NEWEST) into .venv; this takes minutes."
	@rm -rf .venv && $(NEWEST) -m venv .venv
	@start=$$SECONDS; \
	.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes $(REQUIREMENTS:%=-r %); \
	.venv/bin/pip check --disable-pip-version-check; \
	echo "Installed in $$((SECONDS - start)) s; .venv takes $$(du -sh .venv | cut -f1)."
	@touch $@

.PHONY: FORCE

.PHONY: demo
demo: install  ## Handwritten digits end to end: PNG files to an evaluated SavedModel and a report.
	@demo/run.sh

.PHONY: demo-retrain
demo-retrain: install  ## Five days of taxi trips, one of them bad, through scheduled retraining; three minutes.
	@demo/retrain.sh

# A file's tests share datasets, models and traced functions, so they run in one worker.
PYTEST := .venv/bin/python -m pytest -n $(JOBS) --dist loadfile

.PHONY: test
test: install  ## Check the style and run the quick tests: ten minutes on two cores.
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	$(PYTEST) -m "not slow"

.PHONY: test-all
test-all: install  ## Check the style and run every test: 45 minutes on two cores. PENSTOCK_DATA=DIR adds those on real data.
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	$(PYTEST)

.PHONY: lint
lint: install  ## Check the style of Python and, where npx exists, of the Bazel files.
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	@if command -v npx >/dev/null; then echo '$(BUILDIFIER)'; $(BUILDIFIER) -lint=warn -mode=check BUILD MODULE.bazel; \
	else echo "npx not found: BUILD and MODULE.bazel were not checked"; fi

.PHONY: format
format: install  ## Format Python and rewrite BUILD from the imports.
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .
	.venv/bin/python -m tests.house.build_file

.PHONY: acceptance
acceptance: install  ## MNIST, Adult and Chicago taxi end to end, from PENSTOCK_DATA.
	.venv/bin/python -m tests.acceptance.run --data="$${PENSTOCK_DATA:?names the folder of the real data}"

BEAM := $(shell sed -n 's/^apache-beam==//p' requirements.in)
ENGINES := $(addprefix build/engines/,prism boot flink/job-server.jar spark/job-server.jar worker/.installed)

# Those that cannot be installed (no Go, no Java, no network) are left out, and the table says so.
.PHONY: engines
engines: install  ## The same bytes on Prism, Flink, Spark and a staged Dataflow job; installs them. PENSTOCK_DATA
	-@$(MAKE) --keep-going --no-print-directory $(ENGINES)
	.venv/bin/python -m tests.engines.same_bytes --data="$${PENSTOCK_DATA:?names the folder of the real data}"

build/engines/prism:
	GOBIN=$(abspath $(@D)) go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$(BEAM)

# What Beam's own container starts a worker with.
build/engines/boot:
	GOBIN=$(abspath $(@D)) go install github.com/apache/beam/sdks/v2/python/container@v$(BEAM)
	mv $(@D)/container $@

build/engines/%/job-server.jar: deploy/job_server.sh deploy/%/pom.xml
	$< $*

# Of the launcher's Python: what Beam pickles, no other version reads.
build/engines/worker/.installed: requirements/gcp.txt .venv/.installed
	rm -rf $(@D) && .venv/bin/python -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

COMMIT ?= HEAD

.PHONY: same-as
same-as: install  ## The same bytes, orders and losses as those of COMMIT? PENSTOCK_DATA; ten minutes.
	.venv/bin/python -m tests.same_as --commit=$(COMMIT) --data="$${PENSTOCK_DATA:?names the folder of the real data}"

.PHONY: same-python
same-python: install  ## The same bytes, orders and losses under OTHER=python3.11? PENSTOCK_DATA; ten minutes.
	rm -rf build/other && "$${OTHER:?names another supported Python}" -m venv build/other
	build/other/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	.venv/bin/python -m tests.same_as --commit=HEAD --python=build/other/bin/python \
	  --data="$${PENSTOCK_DATA:?names the folder of the real data}"

.PHONY: benchmark-against
benchmark-against: install  ## What reading and converting cost beside COMMIT, interleaved; half an hour.
	.venv/bin/python -m benchmarks.against --commit=$(COMMIT) --data=$(BENCHMARK_DATA)

.PHONY: feed-check
feed-check: install  ## Does the feed certificate find what makes a pipeline slow? Slows 15 of them, two minutes.
	.venv/bin/python -m tests.pipeline.data.feed.slowdowns

.PHONY: certificate-check
certificate-check: install  ## Certify eight pipelines on 1 core and measure them on 2, and the other way round; 80 minutes.
	.venv/bin/python -m tests.pipeline.data.feed.cores

.PHONY: odd-certificates
odd-certificates: install  ## The same of pipelines that scale badly: is what the certificate promises kept? Half an hour.
	.venv/bin/python -m tests.pipeline.data.feed.cores --odd --rounds=3

.PHONY: soak
soak: install  ## Kill conversions at 50 random moments; every re-run must give the same bytes.
	.venv/bin/python -m tests.beam_jobs.soak --kills=$(KILLS)

.PHONY: retraining-check
retraining-check: install  ## A month of retraining on bad days too, 220 `kill -9`, eight callers at once. PENSTOCK_DATA; two hours.
	.venv/bin/python -m tests.retraining --data="$${PENSTOCK_DATA:?names the folder of the real data}"

.PHONY: deploy-check
deploy-check: install  ## Recipes of deploy/ through the programs and libraries that read them; installs those. Ten minutes.
	.venv/bin/python -m tests.deploy

.PHONY: publishing-check
publishing-check: install  ## Publish under 200 `kill -9` and under readers: is a version ever half there? Two minutes.
	.venv/bin/python -m tests.publishing

# .venv's Python, with Google's libraries beside its own: requirements/gcp.txt fits requirements.txt.
.PHONY: store-check
store-check: build/engines/worker/.installed  ## Publish to a storage emulator under kills, pauses, rivals and a reader; a quarter of an hour.
	PYTHONPATH=$$(echo build/engines/worker/lib/python*/site-packages) .venv/bin/python -m pytest \
	  tests/pipeline/release/publish/remote tests/store
	PYTHONPATH=$$(echo build/engines/worker/lib/python*/site-packages) .venv/bin/python -m tests.store

.PHONY: ledger-check
ledger-check: install  ## Kill a run three times: does its ledger add up to the wall time within 1%? Four minutes.
	.venv/bin/python -m tests.pipeline.training.ledger_kills

# `kill -9` and SIGTERM that `make soak-training` sends to runs.
TRAINING_KILLS ?= 60
TRAINING_TERMS ?= 20

.PHONY: soak-training
soak-training: install  ## Kill training at random moments; weights must be those of an undisturbed run. PENSTOCK_DATA
	.venv/bin/python -m tests.soak --kills=$(TRAINING_KILLS) --terms=$(TRAINING_TERMS) \
	  --data="$${PENSTOCK_DATA:?names the folder of the real data}"

.PHONY: planted
planted: install  ## Put 14 faults that training once had back into a copy: two tests must fail of each. Five minutes.
	.venv/bin/python -m tests.planted

.PHONY: workers-check
workers-check: install  ## Do 2, 3 and 4 workers train as one, end together and follow each other? Ten minutes.
	.venv/bin/python -m tests.workers

.PHONY: replay-check
replay-check: install  ## Replay 500 random steps of killed, elastic and mixture runs, and find 30 poisoned rows. Eight minutes.
	.venv/bin/python -m tests.replay

.PHONY: strangers
strangers: install  ## Odd data sets from schema to prediction: each works, or ends early with one line.
	.venv/bin/python -m tests.strangers --jobs=$(JOBS)

.PHONY: fuzz
fuzz: install  ## Damaged and hostile files through the commands: one line each, 1 GB and 60 s at most.
	.venv/bin/python -m tests.fuzz --jobs=$(JOBS)

.PHONY: pictures
pictures: install  ## Pictures of every subtype, whole and damaged, beside Pillow: refused, or the same pixels.
	.venv/bin/python -m tests.pictures

.PHONY: large-check
large-check: install  ## A billion rows, 100,000 shards, photographs mixed: seconds and memory beside their bounds. 3 GB.
	.venv/bin/python -m tests.large --scratch=build/large

.PHONY: underfoot-check
underfoot-check: install  ## Change datasets under real runs, in 14 ways and under each way of reading: noticed, one line, goes on?
	.venv/bin/python -m tests.underfoot

.PHONY: slow-check
slow-check: install  ## Records a second where a read takes 10 ms and 1% of them fail, and their order. Needs cc; two minutes.
	.venv/bin/python -m tests.slow_storage --scratch=build/slow

.PHONY: augmentation-check
augmentation-check: install peers  ## Augmented images beside torchvision's and Pillow's: pixels to 1 level, draws by tests. A minute.
	.venv/bin/python -m tests.augmentation

# Signals of each kind at each moment that `make signals` sends to each command.
SIGNALS ?= 20

.PHONY: signals
signals: install  ## SIGINT, SIGTERM, SIGHUP to commands at random moments: one line, nothing left, same re-run; an hour.
	.venv/bin/python -m tests.signals --count=$(SIGNALS)

# Bits that `make flips` flips.
FLIPS ?= 600

.PHONY: flips
flips: install  ## Flip 600 bits of a dataset, a run and an export; each must be named, or be without effect.
	.venv/bin/python -m tests.flips --flips=$(FLIPS)

BENCHMARK_DATA ?= build/benchmark

.PHONY: benchmark-input
benchmark-input: install peers  ## The input pipeline beside its peers, as benchmarks/RESULTS.md: an hour, and 12 GB.
	.venv/bin/python -m benchmarks.input --data=$(BENCHMARK_DATA)/input --results=benchmarks/RESULTS.md \
	  --json=$(BENCHMARK_DATA)/input.json

.PHONY: benchmark-window
benchmark-window: install  ## What reading 30 spans as one costs beside one dataset of the same rows; five minutes.
	.venv/bin/python -m benchmarks.window --scratch=$(BENCHMARK_DATA)/window

.PHONY: benchmark-hosts
benchmark-hosts: install  ## What each of 64 hosts reads and pays for an example beside one host alone; seven minutes.
	.venv/bin/python -m benchmarks.hosts --scratch=$(BENCHMARK_DATA)/small

.PHONY: peers
peers: build/peers/.installed  ## Install what `make benchmark-input` and `benchmark-train` compare with into build/peers: 6 GB.

build/peers/.installed: requirements/peers.txt .venv/.installed
	rm -rf $(@D) && .venv/bin/python -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# What runs on a TPU VM, as far as it goes without one: there is no XLA for the CPU in tensorflow-tpu.
TPU_TESTS := $(addprefix tests/pipeline/,data/input data/reading data/preprocessing training/engine training/loop \
  training/experiment training/tasks training/run_test.py)

.PHONY: test-tpu
test-tpu: build/tpu/.installed  ## Tests of input, step and checkpoints with requirements/tpu.txt (tensorflow-tpu 2.20); needs no TPU.
	TPU_SKIP_MDS_QUERY=1 $(<D)/bin/python -m pytest -n $(JOBS) $(TPU_TESTS)

build/tpu/.installed: requirements/tpu.txt .venv/.installed
	rm -rf $(@D) && .venv/bin/python -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

.PHONY: benchmark-train
benchmark-train: install  ## What a step costs beside Keras's model.fit (and torch, after `make peers`), in CPU time; five minutes.
	.venv/bin/python -m benchmarks.train

.PHONY: benchmark-gate
benchmark-gate: install  ## Does the gate decide as often right as it says? 15,000 simulated holdouts; three minutes.
	.venv/bin/python -m benchmarks.gate

# What is pinned stays unless requirements*.in rule it out; `make lock UPGRADE=--upgrade` takes the newest.
.PHONY: lock
lock: build/uv/bin/uv  ## Pin and hash requirements*.in, for every supported Python at once.
	@for name in $(REQUIREMENTS:.txt=) $(OPTIONAL_REQUIREMENTS:.txt=); do echo "$$name.in -> $$name.txt"; \
	$< pip compile --quiet $$name.in --output-file $$name.txt --universal \
	  --python-version $(lastword $(PYTHONS)) --generate-hashes --no-header $(UPGRADE); done

build/uv/bin/uv:
	@$(needs_python)
	@$(NEWEST) -m venv build/uv && build/uv/bin/pip install --quiet --disable-pip-version-check $(UV)

.PHONY: clean
clean:  ## Remove what the commands above made: .venv, build/ and caches.
	rm -rf .venv build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
