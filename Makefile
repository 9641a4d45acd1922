# Everything a person does in this checkout. `make` alone lists the commands.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

REQUIREMENTS := requirements.txt requirements-dev.txt
OPTIONAL_REQUIREMENTS := requirements-gcp.txt benchmarks/requirements-peers.txt
BUILDIFIER := npx --yes @bazel/buildifier@8.2.1
UV := uv==0.13.9
# Worker processes of the tests.
JOBS ?= 2
# Conversions that `make soak` kills.
KILLS ?= 50

is_3_11 = $(shell $(1) -c 'import sys; print(sys.version_info[:2] == (3, 11))' 2>/dev/null)
PYTHON ?= $(firstword $(foreach candidate,python3.11 python3 python,$(if $(filter True,$(call is_3_11,$(candidate))),$(candidate))))

.PHONY: help
help:  ## List these commands.
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 22

.PHONY: install
install: .venv/.installed  ## Install the pinned, hashed requirements into .venv.

# The stamp is the last thing written: an install that was cut short starts over.
.venv/.installed: $(REQUIREMENTS)
	@[[ -n "$(PYTHON)" ]] || { echo "error: found no Python 3.11 among python3.11, python3, python." \
	  "Install it, or name it: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "Installing TensorFlow, Beam and what they need into .venv; this takes minutes."
	@rm -rf .venv && $(PYTHON) -m venv .venv
	@start=$$SECONDS; \
	.venv/bin/pip install --quiet --disable-pip-version-check --require-hashes $(REQUIREMENTS:%=-r %); \
	.venv/bin/pip check --disable-pip-version-check; \
	echo "Installed in $$((SECONDS - start)) s; .venv takes $$(du -sh .venv | cut -f1)."
	@touch $@

.PHONY: demo
demo: install  ## Handwritten digits end to end: PNG files to an evaluated SavedModel and a report.
	@demo/run.sh

.PHONY: test
test: install  ## Check the style and run every test. PENSTOCK_DATA=DIR adds those on real data.
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/python -m pytest -n $(JOBS)

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
	.venv/bin/python -m tests.build_file

.PHONY: acceptance
acceptance: install  ## MNIST, Adult and Chicago taxi end to end, from PENSTOCK_DATA.
	.venv/bin/python -m tests.acceptance --data="$${PENSTOCK_DATA:?names the folder of the real data}"

BEAM := $(shell sed -n 's/^apache-beam==//p' requirements.in)
ENGINES := $(addprefix build/engines/,prism boot flink/job-server.jar spark/job-server.jar worker/.installed)

# Those that cannot be installed (no Go, no Java, no network) are left out, and the table says so.
.PHONY: engines
engines: install  ## The same bytes on Prism, Flink, Spark and a staged Dataflow job; installs them. PENSTOCK_DATA
	-@$(MAKE) --keep-going --no-print-directory $(ENGINES)
	.venv/bin/python -m tests.same_bytes --data="$${PENSTOCK_DATA:?names the folder of the real data}"

build/engines/prism:
	GOBIN=$(abspath $(@D)) go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$(BEAM)

# What Beam's own container starts a worker with.
build/engines/boot:
	GOBIN=$(abspath $(@D)) go install github.com/apache/beam/sdks/v2/python/container@v$(BEAM)
	mv $(@D)/container $@

build/engines/%/job-server.jar: deploy/job_server.sh deploy/%/pom.xml
	$< $*

build/engines/worker/.installed: requirements-gcp.txt
	rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

.PHONY: feed-check
feed-check: install  ## Does the feed certificate find what makes a pipeline slow? Slows 15 of them, two minutes.
	.venv/bin/python -m tests.feed_slowdowns

.PHONY: soak
soak: install  ## Kill conversions at 50 random moments; every re-run must give the same bytes.
	.venv/bin/python -m tests.beam_jobs.soak --kills=$(KILLS)

BENCHMARK_DATA ?= build/benchmark

.PHONY: benchmark-input
benchmark-input: install peers  ## The input pipeline beside its peers, as benchmarks/RESULTS.md: an hour, and 12 GB.
	.venv/bin/python -m benchmarks.input --data=$(BENCHMARK_DATA)/input --results=benchmarks/RESULTS.md \
	  --json=$(BENCHMARK_DATA)/input.json

.PHONY: peers
peers: build/peers/.installed  ## Install what `make benchmark-input` compares with into build/peers: 6 GB.

build/peers/.installed: benchmarks/requirements-peers.txt
	rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

# What is pinned stays unless requirements*.in rule it out; `make lock UPGRADE=--upgrade` takes the newest.
.PHONY: lock
lock: build/uv/bin/uv  ## Pin and hash requirements*.in.
	@for name in $(REQUIREMENTS:.txt=) $(OPTIONAL_REQUIREMENTS:.txt=); do echo "$$name.in -> $$name.txt"; \
	$< pip compile --quiet $$name.in --output-file $$name.txt --python-version 3.11 \
	  --python-platform x86_64-manylinux_2_28 --generate-hashes --no-header $(UPGRADE); done

build/uv/bin/uv:
	@$(PYTHON) -m venv build/uv && build/uv/bin/pip install --quiet --disable-pip-version-check $(UV)

.PHONY: clean
clean:  ## Remove what the commands above made: .venv, build/ and caches.
	rm -rf .venv build .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
